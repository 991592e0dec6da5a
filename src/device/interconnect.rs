//! What joins devices and hosts: `predictors/interconnects.toml`.

use std::path::Path;
use std::sync::OnceLock;

use serde::Serialize;

use super::form::{self, DeviceError, Figure, Section, Wrong};
use super::{Source, Sources};
use crate::diagnostics::selector::nearest;

const TEXT: &str = include_str!("../../predictors/interconnects.toml");
const PATH: &str = "predictors/interconnects.toml";

const RATE: Figure = Figure { key: "gb_s", least: 0.05, most: 5000.0, unit: "GB/s" };
const LATENCY: Figure = Figure { key: "latency_us", least: 0.05, most: 10_000.0, unit: "µs" };
const ALL_REDUCE: Figure = Figure { key: "all_reduce_gb_s", least: 0.05, most: 10_000.0, unit: "GB/s" };
const THROUGH_HOST: Figure = Figure { key: "through_host_gb_s", least: 0.05, most: 10_000.0, unit: "GB/s" };

/// How an interconnect joins what it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// All devices of a host share a host bridge.
    Bus,
    /// A pair of devices.
    Bridge,
    /// Links from device to device, split among its peers.
    Mesh,
    /// Every device reaches every other one at its full rate.
    Switch,
    /// Hosts.
    Network,
    /// No other device: memory that is shared with the CPU.
    Memory,
}

impl Kind {
    const ALL: [(&'static str, Self); 6] = [
        ("bus", Self::Bus),
        ("bridge", Self::Bridge),
        ("mesh", Self::Mesh),
        ("switch", Self::Switch),
        ("network", Self::Network),
        ("memory", Self::Memory),
    ];

    /// `mesh`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// An interconnect.
#[derive(Clone, Debug, Serialize)]
pub struct Interconnect {
    /// Its id: `nvlink3`.
    pub id: String,
    /// Its name in full.
    pub name: String,
    /// How it joins.
    pub kind: Kind,
    /// One direction of one link (PCIe: of all its lanes), in 10⁹ bytes a second.
    pub gb_s: f64,
    /// What a step of a ring adds, in microseconds.
    pub latency_us: f64,
    /// Bus bandwidth of an all-reduce that was seen, in 10⁹ bytes a second, all links of a device together.
    pub all_reduce_gb_s: Option<f64>,
    /// The same where traffic goes through the memory of the host.
    pub through_host_gb_s: Option<f64>,
    /// Where its figures are from.
    pub sources: Sources,
}

/// All that are built in, in the order of the file.
pub fn interconnects() -> &'static [Interconnect] {
    static ALL: OnceLock<Vec<Interconnect>> = OnceLock::new();
    // A test reads the file that is built in, so nothing is ever left out here.
    ALL.get_or_init(|| parse().unwrap_or_default())
}

/// The interconnect of this id.
///
/// # Errors
/// There is none; the text names what comes nearest.
pub fn find_interconnect(id: &str) -> Result<&'static Interconnect, String> {
    let all = interconnects();
    all.iter().find(|known| known.id.eq_ignore_ascii_case(id.trim())).ok_or_else(|| {
        let near = nearest(id, all.iter().map(|known| known.id.as_str()));
        let list = if near.is_empty() { all.iter().map(|known| known.id.as_str()).collect() } else { near };
        format!("no interconnect is called '{id}'; nearest: {}", list.join(", "))
    })
}

/// Reads the file that is built in.
pub(super) fn parse() -> Result<Vec<Interconnect>, DeviceError> {
    form::parse(Path::new(PATH), TEXT, |document| {
        document.only(&["interconnect"])?;
        let entries =
            document.section("interconnect", "interconnect")?.ok_or_else(|| document.lacks("interconnect"))?;
        entries.sections("interconnect")?.into_iter().map(|(id, entry)| read(id, &entry)).collect()
    })
}

fn read(id: &str, entry: &Section<'_, '_>) -> Result<Interconnect, Wrong> {
    entry.only(&["name", "line", "reached", "measured"])?;
    let line = entry.section("line", "line")?.ok_or_else(|| entry.lacks("line"))?;
    line.only(&["kind", RATE.key, LATENCY.key])?;
    let word = line.text("kind")?.ok_or_else(|| line.lacks("kind"))?;
    let kind = Kind::ALL.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
    let reached = entry.section("reached", "reached")?;
    if let Some(reached) = &reached {
        reached.only(&[ALL_REDUCE.key, THROUGH_HOST.key])?;
    }
    let seen = |figure| reached.as_ref().map_or(Ok(None), |reached| reached.number(figure));
    let measured = entry.text("measured")?.unwrap_or_default();
    Ok(Interconnect {
        id: id.to_owned(),
        name: entry.text("name")?.ok_or_else(|| entry.lacks("name"))?.to_owned(),
        kind: kind.ok_or_else(|| Wrong::at(line.span_of("kind"), format!("unknown kind '{word}'")))?,
        gb_s: line.number(&RATE)?.ok_or_else(|| line.lacks(RATE.key))?,
        latency_us: line.number(&LATENCY)?.ok_or_else(|| line.lacks(LATENCY.key))?,
        all_reduce_gb_s: seen(&ALL_REDUCE)?,
        through_host_gb_s: seen(&THROUGH_HOST)?,
        sources: Sources {
            quoted: Vec::new(),
            measured: measured.split_whitespace().map(str::to_owned).collect(),
            others: Source::Recalled,
        },
    })
}

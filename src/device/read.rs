//! Devices from TOML: names and bounds of all figures. A bound is wide enough for any card, and too narrow for a figure
//! in the wrong unit, which is off by a thousand.

use super::form::{Figure, Section, Wrong};
use super::{Board, Device, Links, Memory, Precision, Rates, Reached, Source, Sources, find_interconnect};

const fn figure(key: &'static str, least: f64, most: f64, unit: &'static str) -> Figure {
    Figure { key, least, most, unit }
}

const SMS: Figure = figure("sms", 1.0, 2048.0, "");
const YEAR: Figure = figure("year", 1999.0, 2100.0, "");
const BOOST: Figure = figure("boost_mhz", 100.0, 6000.0, "MHz");
const SUSTAINED: Figure = figure("sustained_mhz", 100.0, 6000.0, "MHz");
const POWER: Figure = figure("power_w", 1.0, 5000.0, "W");
const SIZE: Figure = figure("gib", 0.5, 2048.0, "GiB");
const VISIBLE: Figure = figure("visible_gib", 0.5, 2048.0, "GiB");
const BANDWIDTH: Figure = figure("gb_s", 10.0, 50_000.0, "GB/s");
const L2: Figure = figure("l2_mib", 0.01, 4096.0, "MiB");
const COUNT: Figure = figure("count", 1.0, 64.0, "links");
const BRIDGE_COUNT: Figure = figure("bridge_count", 1.0, 64.0, "links");
const COPY: Figure = figure("copy_gb_s", 1.0, 50_000.0, "GB/s");

/// Lanes for fused multiply-adds of one multiprocessor: 64 to 192 so far.
const LANES: std::ops::RangeInclusive<f64> = 16.0..=1024.0;

/// Fields of a device.
const FIELDS: &[&str] = &["name", "board", "memory", "links", "plain", "tensor", "reached", "quoted", "measured"];

/// Reads one device. What may be left out is assumed, and its name kept.
pub(super) fn device(id: &str, entry: &Section<'_, '_>, others: Source) -> Result<Device, Wrong> {
    entry.only(FIELDS)?;
    check_id(id, entry)?;
    let mut assumed = Vec::new();
    let memory = memory(entry, &mut assumed)?;
    let plain_section = entry.section("plain", "plain")?.ok_or_else(|| entry.lacks("plain"))?;
    let plain = rates(&plain_section, &bounds_of_plain)?;
    let fp32 = plain.fp32.ok_or_else(|| plain_section.lacks("fp32"))?;
    let board = board(entry, fp32, &mut assumed)?;
    let lanes = fp32 * 1e6 / (2.0 * board.boost_mhz * f64::from(board.sms));
    if !LANES.contains(&lanes) {
        let message = format!(
            "plain.fp32 = {fp32} TFLOPS cannot be with {} SMs at {} MHz: that is {lanes:.1} fused multiply-adds a clock on each",
            board.sms, board.boost_mhz
        );
        return Err(Wrong::at(plain_section.span_of("fp32"), message));
    }
    let tensor = tensor(entry, &plain)?;
    let sources = Sources { quoted: names(entry, "quoted")?, measured: names(entry, "measured")?, others };
    Ok(Device {
        id: id.to_owned(),
        name: entry.text("name")?.unwrap_or(id).to_owned(),
        links: links(entry, &mut assumed)?,
        reached: reached(entry)?,
        board,
        memory,
        plain,
        tensor,
        sources,
        assumed,
    })
}

/// An id is what a command line and a table can hold.
fn check_id(id: &str, entry: &Section<'_, '_>) -> Result<(), Wrong> {
    let sound = !id.is_empty() && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c));
    if sound && !id.ends_with(".toml") {
        return Ok(());
    }
    Err(Wrong::at(entry.span.clone(), format!("'{id}' is no id: small letters, digits, '-', '_' and '.' make one")))
}

fn board(entry: &Section<'_, '_>, fp32: f64, assumed: &mut Vec<&'static str>) -> Result<Board, Wrong> {
    let section = entry.section("board", "board")?;
    let section = section.as_ref();
    if let Some(section) = section {
        section.only(&["chip", "architecture", "year", "sms", "boost_mhz", "sustained_mhz", "power_w"])?;
    }
    let mut or = |name: &'static str, value: Option<f64>, default: f64| {
        value.unwrap_or_else(|| {
            assumed.push(name);
            default
        })
    };
    let number = |figure| section.map_or(Ok(None), |section| section.number(figure));
    let whole = |figure| section.map_or(Ok(None), |section: &Section<'_, '_>| section.whole(figure));
    let text = |key| section.map_or(Ok(None), |section| section.text(key));
    // A card of the middle of today's range.
    let boost_mhz = or("board.boost_mhz", number(&BOOST)?, 1700.0);
    let sustained_mhz = or("board.sustained_mhz", number(&SUSTAINED)?, 0.9 * boost_mhz);
    if let (Some(section), false) = (section, (0.3..=1.5).contains(&(sustained_mhz / boost_mhz))) {
        let message = format!("board.sustained_mhz = {sustained_mhz} cannot be with a boost clock of {boost_mhz} MHz");
        return Err(Wrong::at(section.span_of("sustained_mhz"), message));
    }
    // 128 lanes, as most chips since 2014 have them.
    let by_rate = (fp32 * 1e6 / (2.0 * 128.0 * boost_mhz)).round().clamp(SMS.least, SMS.most);
    let sms = or("board.sms", whole(&SMS)?.map(f64::from), by_rate);
    let power_w = or("board.power_w", number(&POWER)?, 250.0);
    let year = whole(&YEAR)?.unwrap_or_else(|| {
        assumed.push("board.year");
        2024
    });
    let mut word = |name, value: Option<&str>| {
        value.map_or_else(
            || {
                assumed.push(name);
                "unknown".to_owned()
            },
            str::to_owned,
        )
    };
    Ok(Board {
        chip: word("board.chip", text("chip")?),
        architecture: word("board.architecture", text("architecture")?),
        year,
        // Whole and within the bounds of SMs.
        sms: sms as u32,
        boost_mhz,
        sustained_mhz,
        power_w,
    })
}

fn memory(entry: &Section<'_, '_>, assumed: &mut Vec<&'static str>) -> Result<Memory, Wrong> {
    let section = entry.section("memory", "memory")?.ok_or_else(|| entry.lacks("memory"))?;
    section.only(&["gib", "visible_gib", "gb_s", "l2_mib"])?;
    let gib = section.number(&SIZE)?.ok_or_else(|| section.lacks("gib"))?;
    let visible_gib = section.number(&VISIBLE)?.unwrap_or(gib);
    if !(0.5..=1.1).contains(&(visible_gib / gib)) {
        let message = format!("memory.visible_gib = {visible_gib} cannot be with {gib} GiB in all");
        return Err(Wrong::at(section.span_of("visible_gib"), message));
    }
    let gb_s = section.number(&BANDWIDTH)?.ok_or_else(|| section.lacks("gb_s"))?;
    let l2_mib = section.number(&L2)?.unwrap_or_else(|| {
        assumed.push("memory.l2_mib");
        4.0
    });
    Ok(Memory { gib, visible_gib, gb_s, l2_mib })
}

fn links(entry: &Section<'_, '_>, assumed: &mut Vec<&'static str>) -> Result<Links, Wrong> {
    let Some(section) = entry.section("links", "links")? else {
        assumed.push("links.interconnect");
        return Ok(Links { interconnect: "pcie4".to_owned(), count: 1, bridge: None, bridge_count: 0 });
    };
    section.only(&["interconnect", "count", "bridge", "bridge_count"])?;
    let known = |key: &str, text: &str| match find_interconnect(text) {
        Ok(interconnect) => Ok(interconnect.id.clone()),
        Err(message) => Err(Wrong::at(section.span_of(key), message)),
    };
    let interconnect = section.text("interconnect")?.ok_or_else(|| section.lacks("interconnect"))?;
    let bridge = section.text("bridge")?.map(|text| known("bridge", text)).transpose()?;
    let bridge_count = section.whole(&BRIDGE_COUNT)?;
    Ok(Links {
        interconnect: known("interconnect", interconnect)?,
        count: section.whole(&COUNT)?.unwrap_or(1),
        bridge_count: if bridge.is_some() { bridge_count.unwrap_or(1) } else { 0 },
        bridge,
    })
}

fn tensor(entry: &Section<'_, '_>, plain: &Rates) -> Result<Rates, Wrong> {
    let Some(section) = entry.section("tensor", "tensor")? else { return Ok(Rates::default()) };
    let tensor = rates(&section, &|precision| figure(precision.name(), 0.5, 50_000.0, "TFLOPS"))?;
    for precision in Precision::ALL {
        if let (Some(tensor), Some(plain)) = (tensor.of(precision), plain.of(precision))
            && tensor < plain
        {
            let name = precision.name();
            let message = format!("tensor.{name} = {tensor} cannot be: it is below plain.{name} = {plain}");
            return Err(Wrong::at(section.span_of(name), message));
        }
    }
    Ok(tensor)
}

fn reached(entry: &Section<'_, '_>) -> Result<Reached, Wrong> {
    let Some(section) = entry.section("reached", "reached")? else { return Ok(Reached::default()) };
    let mut known: Vec<&str> = Precision::ALL.iter().map(|precision| precision.name()).collect();
    known.push(COPY.key);
    section.only(&known)?;
    let products = rates_of(&section, &|precision| figure(precision.name(), 0.001, 50_000.0, "TFLOPS"))?;
    Ok(Reached { copy_gb_s: section.number(&COPY)?, products })
}

fn bounds_of_plain(precision: Precision) -> Figure {
    match precision {
        Precision::Fp32 => figure("fp32", 0.05, 1000.0, "TFLOPS"),
        // fp64 of small cards and fp16 of Pascal are a small part of fp32.
        _ => figure(precision.name(), 0.0005, 4000.0, "TFLOPS"),
    }
}

fn rates(section: &Section<'_, '_>, bounds: &dyn Fn(Precision) -> Figure) -> Result<Rates, Wrong> {
    let known: Vec<&str> = Precision::ALL.iter().map(|precision| precision.name()).collect();
    section.only(&known)?;
    rates_of(section, bounds)
}

fn rates_of(section: &Section<'_, '_>, bounds: &dyn Fn(Precision) -> Figure) -> Result<Rates, Wrong> {
    let mut rates = Rates::default();
    for precision in Precision::ALL {
        *rates.slot(precision) = section.number(&bounds(precision))?;
    }
    Ok(rates)
}

/// Names of figures, separated by spaces.
fn names(entry: &Section<'_, '_>, key: &str) -> Result<Vec<String>, Wrong> {
    let Some(text) = entry.text(key)? else { return Ok(Vec::new()) };
    let names: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    for name in &names {
        let there = name.split_once('.').map(|(table, figure)| {
            Ok::<_, Wrong>(entry.section(table, table)?.is_some_and(|section| section.span_of(figure) != section.span))
        });
        if !there.transpose()?.unwrap_or_default() {
            return Err(Wrong::at(
                entry.span_of(key),
                format!("{key} names '{name}', which is no figure of this entry"),
            ));
        }
    }
    Ok(names)
}

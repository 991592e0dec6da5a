//! Rows of tables as what trees are grown on: features, physical times and measured ones.

use std::collections::{BTreeMap, HashMap};

use dlcost::device::Device;
use dlcost::predict::learned::rates::{Anchors, Rates};
use dlcost::predict::learned::row::Row;
use dlcost::predict::learned::section::{Knowledge, Model, Section};
use dlcost::predict::learned::setting::Stack;
use dlcost::predict::learned::{Described, describe, section_name};

use super::anchor::Devices;
use super::boost::{Data, Instances};
use super::measure::{Measurement, Protocol, measure};
use super::row::LayerRow;
use crate::eval::metrics::Pair;

/// A row that can be learned from or scored.
#[derive(Clone, Debug)]
pub(crate) struct Example {
    /// Its place in the table of all rows.
    pub(crate) row: usize,
    /// What was measured.
    pub(crate) measurement: Measurement,
    /// On which device.
    pub(crate) device: &'static Device,
    /// Milliseconds.
    pub(crate) time_ms: f64,
    /// How much it counts.
    pub(crate) weight: f64,
    /// Whether it belongs to the development test set.
    pub(crate) dev: bool,
    /// Whether intervals are calibrated on it.
    pub(crate) calibrates: bool,
    /// Whether the device had too little memory for workspaces: it says nothing of others.
    pub(crate) cramped: bool,
}

/// Examples by section: `product/serving`.
pub(crate) type Sections = BTreeMap<String, Vec<Example>>;

/// Sorts rows into sections; what cannot be used is counted by its reason.
pub(crate) fn examples(rows: &[LayerRow], devices: &mut Devices, refused: &mut HashMap<String, usize>) -> Sections {
    let mut sections = Sections::new();
    for (index, row) in rows.iter().enumerate() {
        match example(index, row, devices.find(&row.device)) {
            Ok((section, example)) => sections.entry(section).or_default().push(example),
            Err(reason) => *refused.entry(reason).or_default() += 1,
        }
    }
    sections
}

fn example(index: usize, row: &LayerRow, device: Option<&'static Device>) -> Result<(String, Example), String> {
    let device = device.ok_or_else(|| format!("device not in the catalogue: {}", row.device))?;
    let measurement = measure(row)?;
    doubtful(row, &measurement)?;
    let kernel = measurement.kernels.first().ok_or("no kernel")?;
    let section = section_name(kernel, measurement.setting.stack).ok_or("family not learned")?;
    let group = row.row_group.as_bytes();
    let share = |salt: &[u8]| {
        let digest = md5::compute([salt, group].concat());
        let hex = format!("{digest:x}");
        u32::from_str_radix(hex.get(..8).unwrap_or("0"), 16).unwrap_or_default() % 100
    };
    let example = Example {
        row: index,
        measurement,
        device,
        time_ms: row.time_ms,
        weight: 1.0,
        dev: share(b"dev-") < 10,
        calibrates: share(b"calibration-") < 10,
        cramped: is_cramped(row),
    };
    Ok((section, example))
}

/// Rules of cleaning: rows that measure something else than what they say.
fn doubtful(row: &LayerRow, measurement: &Measurement) -> Result<(), String> {
    if row.replicas() > 1 && measurement.setting.stack != Stack::Nccl {
        return Err("several replicas: no time of a layer".to_owned());
    }
    if is_cramped(row) && &*row.pass == "train_step" {
        return Err("too little memory for workspaces: training 2.3 times too long".to_owned());
    }
    if row.time_std_ms.is_some_and(|deviation| deviation > row.time_ms) && measurement.setting.stack != Stack::Nccl {
        return Err("repeats scatter by more than their median".to_owned());
    }
    if measurement.kernels.iter().any(|kernel| !kernel.flops.is_finite() || kernel.bytes() <= 0.0) {
        return Err("sizes are missing".to_owned());
    }
    Ok(())
}

/// A board of 5 GB: cuDNN found no room there for workspaces of its faster algorithms.
fn is_cramped(row: &LayerRow) -> bool {
    &*row.source == "tf1-quadro-p2000"
}

impl LayerRow {
    fn replicas(&self) -> u64 {
        self.sizes.replicas.max(1)
    }
}

/// Features of examples, as one model of a section sees them.
#[derive(Debug)]
pub(crate) struct Prepared {
    weights: Vec<f64>,
    pub(crate) names: Vec<&'static str>,
    width: usize,
    kernels: Vec<f32>,
    kernel_of: Vec<u32>,
    kernel_base: Vec<f64>,
    protocols: Vec<f32>,
    protocol_of: Vec<u32>,
    protocol_base: Vec<f64>,
    times: Vec<f64>,
}

/// Features of what a protocol adds.
pub(crate) const PROTOCOL_WIDTH: usize = 14;

/// Describes a kernel of an example as a model of a section sees it.
pub(crate) fn described(
    example: &Example,
    device: &Device,
    kernel: usize,
    knowledge: Knowledge,
    boards: &[String],
    row: Row,
) -> Option<Described> {
    let anchors = if knowledge == Knowledge::Anchored { Anchors::Use } else { Anchors::Ignore };
    let kernel = example.measurement.kernels.get(kernel)?;
    let mut described = describe(kernel, device, example.measurement.setting, anchors, row)?;
    if knowledge == Knowledge::Seen {
        described.row.add("board", board(device, boards));
    }
    Some(described)
}

fn board(device: &Device, boards: &[String]) -> f64 {
    boards.iter().position(|board| *board == device.id).map_or(-1.0, |at| at as f64)
}

/// Physical time of a protocol, ms, and its features.
pub(crate) fn protocol_row(
    example: &Example,
    device: &Device,
    protocol: &Protocol,
    knowledge: Knowledge,
    boards: &[String],
    kernels_ms: f64,
) -> (f64, [f32; PROTOCOL_WIDTH]) {
    let anchors = if knowledge == Knowledge::Anchored { Anchors::Use } else { Anchors::Ignore };
    let rates = Rates::of(device, dlcost::device::Precision::Fp32, anchors);
    let tensorflow = matches!(example.measurement.setting.stack, Stack::Tensorflow1 | Stack::Tensorflow2);
    let rates = if tensorflow { rates.of_convolutions() } else { rates };
    let moved = protocol.bytes / rates.memory;
    let waited = libm::hypot(protocol.hidden_ms, kernels_ms) - kernels_ms;
    let base = protocol.floor_ms + waited + moved;
    let log = |value: f64| libm::log2(value.max(1e-9)) as f32;
    let flag = |truth: bool| f32::from(u8::from(truth));
    let board = if knowledge == Knowledge::Seen { board(device, boards) } else { -1.0 };
    let family = example.measurement.kernels.first().map_or(0, |kernel| kernel.pass as u8);
    let row = [
        // The device comes first.
        board as f32,
        flag(protocol.step),
        f32::from(protocol.run),
        f32::from(protocol.optimizer),
        f32::from(protocol.activation),
        flag(protocol.bias),
        log(moved / base),
        log(protocol.inputs),
        log(protocol.outputs),
        log(protocol.update_bytes / protocol.bytes.max(1.0)),
        log(kernels_ms / base),
        f32::from(example.measurement.setting.stack as u8),
        f32::from(family),
        log(protocol.bytes / rates.cache_bytes),
    ];
    (base, row)
}

/// Prepares examples for one model.
pub(crate) fn prepare(examples: &[&Example], knowledge: Knowledge, boards: &[String]) -> Prepared {
    let mut prepared = Prepared {
        names: Vec::new(),
        width: 0,
        kernels: Vec::new(),
        kernel_of: Vec::new(),
        kernel_base: Vec::new(),
        protocols: Vec::new(),
        protocol_of: Vec::new(),
        protocol_base: Vec::new(),
        times: Vec::new(),
        weights: Vec::new(),
    };
    for (at, example) in examples.iter().enumerate() {
        let mut together = 0.0;
        for kernel in 0..example.measurement.kernels.len() {
            let row = if prepared.names.is_empty() { Row::with_names() } else { Row::new() };
            let Some(described) = described(example, example.device, kernel, knowledge, boards, row) else { continue };
            if prepared.names.is_empty() {
                prepared.names = described.row.names().to_vec();
                prepared.width = prepared.names.len();
            }
            together += described.base_ms;
            prepared.kernels.extend(&described.row.values);
            prepared.kernel_of.push(at as u32);
            prepared.kernel_base.push(described.base_ms);
        }
        if let Some(protocol) = &example.measurement.protocol {
            let (base, row) = protocol_row(example, example.device, protocol, knowledge, boards, together);
            prepared.protocols.extend(row);
            prepared.protocol_of.push(at as u32);
            prepared.protocol_base.push(base);
        }
        prepared.times.push(example.time_ms);
        prepared.weights.push(example.weight);
    }
    prepared
}

impl Prepared {
    /// Whether any example has a protocol.
    pub(crate) fn has_protocol(&self) -> bool {
        !self.protocol_of.is_empty()
    }

    /// Lowest and highest value of each feature but the board's.
    pub(crate) fn domain(&self, features: usize) -> Vec<(f32, f32)> {
        let mut ends = vec![(f32::INFINITY, f32::NEG_INFINITY); features];
        for row in self.kernels.chunks_exact(self.width.max(1)) {
            for ((low, high), value) in ends.iter_mut().zip(row) {
                *low = low.min(*value);
                *high = high.max(*value);
            }
        }
        ends
    }

    /// What trees are grown on.
    pub(crate) fn data(self, bins: usize) -> Data {
        let mut parts = vec![Instances::new(&self.kernels, self.width, self.kernel_of, self.kernel_base, bins)];
        if !self.protocol_of.is_empty() {
            parts.push(Instances::new(&self.protocols, PROTOCOL_WIDTH, self.protocol_of, self.protocol_base, bins));
        }
        Data { times: self.times, weights: self.weights, parts }
    }
}

/// What physics says of an example on a device that is known in a way, ms.
pub(crate) fn base_ms(example: &Example, device: &Device, knowledge: Knowledge) -> f64 {
    let kernels = (0..example.measurement.kernels.len())
        .filter_map(|kernel| described(example, device, kernel, knowledge, &[], Row::new()));
    let kernels: f64 = kernels.map(|described| described.base_ms).sum();
    let protocol = example.measurement.protocol.as_ref();
    kernels + protocol.map_or(0.0, |protocol| protocol_row(example, device, protocol, knowledge, &[], kernels).0)
}

/// What a section predicts for an example, ms.
pub(crate) fn predicted(section: &Section, example: &Example, anchors: Anchors) -> Option<f64> {
    let (device, knowledge) = (example.device, section.knowledge(example.device, anchors));
    let tuned = section.tuned(device).filter(|_| knowledge == Knowledge::Tuned);
    let parts = parts(section, example, knowledge, tuned.is_some())?;
    let value = |part: &Part| match tuned {
        Some(tuned) => {
            let own = if part.is_protocol { f64::from(tuned.protocol) } else { 0.0 };
            own + tuned.value(part.value, |board| part.as_boards.get(board).copied().unwrap_or(part.value))
        }
        None => part.value,
    };
    let sum: f64 = parts.iter().map(|part| part.base_ms * libm::exp(value(part))).sum();
    let together: f64 = parts.iter().map(|part| part.base_ms).sum();
    Some(sum * section.offset(device, knowledge).factor(together))
}

/// The prediction beside what was measured, and whether that lies in the section's interval.
pub(crate) fn judged(section: &Section, example: &Example, anchors: Anchors) -> Option<Pair> {
    let (predicted, measured) = (predicted(section, example, anchors)?, example.time_ms);
    let kernel = example.measurement.kernels.first()?;
    let ends = section.interval_on(example.device, section.knowledge(example.device, anchors), kernel);
    let inside = (f64::from(ends.low)..=f64::from(ends.high)).contains(&(measured / predicted));
    Some(Pair { predicted, measured, inside: Some(inside) })
}

/// A kernel of an example, or what measuring added, as trees see it.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) is_protocol: bool,
    /// Physical time, ms.
    pub(crate) base_ms: f64,
    /// Logarithm of its time over that.
    pub(crate) value: f64,
    /// The same as if it ran on each device that was measured.
    pub(crate) as_boards: Vec<f64>,
}

/// The parts of an example on a device that is known in a way; `as_boards` asks the trees that know devices, too.
pub(crate) fn parts(section: &Section, example: &Example, knowledge: Knowledge, as_boards: bool) -> Option<Vec<Part>> {
    let (model, _) = section.model(knowledge);
    let boards = if as_boards { 0..section.boards.len() } else { 0..0 };
    let mut parts = Vec::with_capacity(example.measurement.kernels.len() + 1);
    for kernel in 0..example.measurement.kernels.len() {
        let described = described(example, example.device, kernel, knowledge, &section.boards, Row::new())?;
        let value = model.kernels.value(&described.row.values);
        let as_board = |board| section.seen.kernels.value(&described.as_board(board));
        let as_boards = boards.clone().map(as_board).collect();
        parts.push(Part { is_protocol: false, base_ms: described.base_ms, value, as_boards });
    }
    if let Some(protocol) = &example.measurement.protocol {
        let together = parts.iter().map(|part| part.base_ms).sum();
        let (base_ms, row) = protocol_row(example, example.device, protocol, knowledge, &section.boards, together);
        let value = |model: &Model, row: &[f32]| model.protocol.as_ref().map_or(0.0, |forest| forest.value(row));
        let as_board = |board: usize| {
            let mut row = row;
            row[0] = board as f32;
            value(&section.seen, &row)
        };
        let as_boards = boards.map(as_board).collect();
        parts.push(Part { is_protocol: true, base_ms, value: value(model, &row), as_boards });
    }
    Some(parts)
}

//! Recurrent layers, alone and over cells.

use super::super::builder::{Attributes, flag, int, ints, text};
use super::super::call::Call;
use super::super::json::Json;
use super::super::layer::{Layer, Outputs, Refusal};
use super::super::topology::{join, read_entry};
use super::Cx;
use super::convolution::axes_of;
use crate::frontend::onnx::model::Name;

fn none() -> Name {
    "".into()
}

/// What a cell is to its layer.
struct Cell {
    op: &'static str,
    units: i64,
    reset_after: bool,
    bias: bool,
    states: usize,
    /// Twice the bias, as cuDNN keeps it.
    double_bias: bool,
}

fn cell(class: &str, layer: &Layer<'_, '_, '_, '_>) -> Result<Option<Cell>, Refusal> {
    let (op, states) = match class.trim_end_matches("Cell") {
        "LSTM" | "CuDNNLSTM" => ("LSTM", 2),
        "GRU" | "CuDNNGRU" => ("GRU", 1),
        "SimpleRNN" => ("RNN", 1),
        _ => return Ok(None),
    };
    let cuda = class.starts_with("CuDNN");
    // Keras 2.1 to 2.4 leave it out, where it is off.
    let reset_after = op == "GRU" && (cuda || layer.flag("reset_after", false));
    Ok(Some(Cell {
        op,
        units: layer.positive("units")?,
        reset_after,
        bias: cuda || layer.flag("use_bias", true),
        states,
        double_bias: cuda && op == "LSTM",
    }))
}

/// Runs a cell over the steps of a tensor.
fn run(
    layer: Cx<'_, '_, '_, '_, '_>,
    part: &str,
    cell: &Cell,
    inputs: Vec<Name>,
    states: &[Name],
    [sequences, gives_states]: [bool; 2],
) -> Vec<Name> {
    let mut all = inputs;
    all.extend([layer.weight("kernel"), layer.weight("recurrent_kernel")]);
    all.push(if cell.bias { layer.weight("bias") } else { none() });
    all.extend(states.iter().cloned());
    if cell.double_bias {
        let further = layer.weight_of("recurrent_bias", true, Some(vec![4 * cell.units]));
        while all.len() < 9 {
            all.push(none());
        }
        all.push(further);
    }
    let attributes: Attributes = vec![
        ("units", int(cell.units)),
        ("reset_after", flag(cell.reset_after)),
        ("return_sequences", flag(sequences)),
        ("time_major", flag(layer.flag("time_major", false))),
    ];
    let outputs = if gives_states { cell.states + 1 } else { 1 };
    layer.keras_many(part, cell.op, all, outputs, attributes)
}

/// Sequence and initial states of a call: Keras 2 puts them into one list.
fn operands<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Result<(Name, Vec<Name>), Refusal> {
    let mut tensors = call.tensors().into_iter();
    let input = tensors.next().ok_or_else(|| Refusal::new("the layer is called without a tensor"))?;
    let mut states: Vec<Name> = tensors.collect();
    states.extend(call.tensors_of("initial_state"));
    if layer.class != "RNN" {
        states.truncate(2);
    }
    Ok((input, states))
}

/// `LSTM`, `GRU`, `SimpleRNN`.
pub(super) fn layer<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let (input, states) = operands(layer, call)?;
    let class = layer.class;
    let Some(cell) = cell(class, layer)? else { return super::unknown(layer, call) };
    let options = [layer.flag("return_sequences", false), layer.flag("return_state", false)];
    Ok(run(layer, "", &cell, vec![input], &states, options))
}

/// A serialised cell.
fn cell_of<'j>(json: &'j Json<'j>) -> Option<(&'j str, &'j Json<'j>)> {
    Some((json.get("class_name")?.text()?, json.given("config")?))
}

/// `RNN`: one cell, or several on top of each other.
pub(super) fn over_cell<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let Some(json) = layer.value("cell") else { return Err(Refusal::new("cell is missing")) };
    let single = [json];
    let listed: Vec<&Json<'j>> = match cell_of(json) {
        Some(("StackedRNNCells", config)) => {
            config.get("cells").and_then(Json::list).unwrap_or_default().iter().collect()
        }
        None => json.list().unwrap_or_default().iter().collect(),
        _ => single.to_vec(),
    };
    if listed.is_empty() {
        return Err(Refusal::new("cell is no layer").at(json.span));
    }
    let (input, states) = operands(layer, call)?;
    let (sequences, gives_states) = (layer.flag("return_sequences", false), layer.flag("return_state", false));
    let (mut tensor, mut given) = (input, states.into_iter());
    let mut results = Vec::new();
    let count = listed.len();
    for (index, json) in listed.into_iter().enumerate() {
        let Some(entry) = read_entry(json, index) else { return Err(Refusal::new("cell has no config").at(json.span)) };
        let last = index + 1 == count;
        let mut inner = Layer {
            reader: &mut *layer.reader,
            class: entry.class,
            module: "",
            custom: false,
            config: entry.config,
            build: None,
            path: join(&layer.path, &entry.name),
            owner: layer.owner.clone(),
            frozen: layer.frozen || !layer.config.given("trainable").and_then(Json::truth).unwrap_or(true),
            wanted: 1,
            depth: layer.depth,
            extra: Vec::new(),
        };
        let Some(cell) = cell(entry.class, &inner)? else { return super::unknown(layer, call) };
        let states: Vec<Name> = given.by_ref().take(cell.states).collect();
        let part = if last { String::new() } else { entry.name.clone() };
        let made = run(&mut inner, &part, &cell, vec![tensor], &states, [sequences || !last, gives_states]);
        let mut made = made.into_iter();
        tensor = made.next().unwrap_or_else(none);
        results.extend(made);
    }
    Ok(std::iter::once(tensor).chain(results).collect())
}

/// A cell that is called by itself: one step. Inputs: x and states; outputs: the result and new states.
pub(super) fn lone_cell<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let mut tensors = call.tensors().into_iter();
    let Some(input) = tensors.next() else { return Err(Refusal::new("the cell is called without a tensor")) };
    let class = layer.class;
    let Some(cell) = cell(class, layer)? else { return super::unknown(layer, call) };
    let mut states: Vec<Name> = tensors.collect();
    states.extend(call.tensors_of("states"));
    // One step of a sequence: all of the first axis, a new one, the rest.
    let picks = vec![1, i64::MIN, i64::MIN, 1, 2, 0, 0, 1, 3, 0, 0, 1];
    let step = layer.keras("step", "Item", vec![input], vec![("picks", ints(picks)), ("view", flag(true))]);
    Ok(run(layer, "", &cell, vec![step], &states, [false, true]))
}

/// `ConvLSTM1D`, `ConvLSTM2D`, `ConvLSTM3D`.
pub(super) fn conv_lstm<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let (input, states) = operands(layer, call)?;
    let axes = axes_of(layer.class);
    let filters = layer.positive("filters")?;
    if layer.value("kernel_size").is_none() {
        return Err(Refusal::new("kernel_size is missing"));
    }
    let padding = match layer.text("padding") {
        Some("same") => "SAME_UPPER",
        _ => "VALID",
    };
    let attributes: Attributes = vec![
        ("filters", int(filters)),
        ("kernel_shape", ints(layer.spatial("kernel_size", axes, 1, 1)?)),
        ("strides", ints(layer.spatial("strides", axes, 1, 1)?)),
        ("dilations", ints(layer.spatial("dilation_rate", axes, 1, 1)?)),
        ("auto_pad", text(padding)),
        ("channels_last", flag(layer.channels_last())),
        ("return_sequences", flag(layer.flag("return_sequences", false))),
    ];
    let mut inputs = vec![input, layer.weight("kernel"), layer.weight("recurrent_kernel")];
    inputs.push(if layer.flag("use_bias", true) { layer.weight("bias") } else { none() });
    inputs.extend(states);
    let outputs = if layer.flag("return_state", false) { 3 } else { 1 };
    Ok(layer.keras_many("", "ConvLSTM", inputs, outputs, attributes))
}

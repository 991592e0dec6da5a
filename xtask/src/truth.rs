//! `cargo xtask truth`: holds the analyser against the truth tables of `../shared`: parameters, MACs and output shapes
//! of real networks, the shape of every tensor of real runs, and the verdicts of the case files.

mod keras;
mod saved;

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlcost::diagnostics::Level;
use dlcost::engine::{CheckOptions, Input, Mode, check};
use dlcost::ir::dim::{Dim, Symbol, SymbolKind};
use dlcost::report::{Extent, Graph, Layer, Model};
use serde_json::Value;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Difference of MACs that passes.
const TOLERANCE: f64 = 0.005;

/// Compares figures and shapes with the truth tables, real runs and cases of `../shared`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only the parts whose name contains this text.
    only: Option<String>,
    /// List every miss and every note.
    #[arg(long, short)]
    verbose: bool,
}

/// Runs all comparisons; whether none missed.
pub(crate) fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let shared = crate::shared();
    if !shared.join("models").is_dir() {
        println!("no ../shared/models here: nothing to compare with");
        return Ok(true);
    }
    let misses = compare(&shared, arguments.only.as_deref(), arguments.verbose).map_err(|error| error.to_string())?;
    println!("{misses} misses");
    Ok(misses == 0)
}

fn compare(shared: &Path, only: Option<&str>, verbose: bool) -> Outcome<usize> {
    let known = known_differences()?;
    let mut misses = 0;
    let mut part = |name: &str, run: &dyn Fn() -> Outcome<Table>| -> Outcome<()> {
        if only.is_some_and(|only| !name.contains(only)) {
            return Ok(());
        }
        let mut table = run()?;
        table.explain(&known);
        println!("{name}");
        for (label, hits, total) in &table.rows {
            println!("  {label:<58} {hits:>7} of {total:>7}");
        }
        if let Some(summary) = &table.summary {
            println!("  {summary}");
        }
        for line in table.misses.iter().take(if verbose { usize::MAX } else { 20 }) {
            println!("    miss: {line}");
        }
        if !verbose && table.misses.len() > 20 {
            println!("    ... {} more", table.misses.len() - 20);
        }
        for (line, reason) in &table.known {
            println!("    known: {line}\n           {reason}");
        }
        for line in if verbose { &table.notes[..] } else { &[] } {
            println!("    note: {line}");
        }
        misses += table.misses.len();
        Ok(())
    };
    let models = shared.join("models");
    for name in ["vision", "lang"] {
        part(&format!("truth-{name}"), &|| truth_table(&models, name))?;
    }
    for name in ["vision", "lang"] {
        part(&format!("saved-{name}"), &|| saved::saved_bytes(&models, name))?;
    }
    if models.join("keras").is_dir() {
        part("keras", &|| keras::keras_table(&models))?;
        part("keras generations", &|| keras::generations(&models))?;
        part("keras practicum", &|| keras::practicum(&models))?;
        part("keras hostile", &|| keras::hostile(&models))?;
    }
    part("files without options", &|| plain_files(&models))?;
    part("real values", &|| real_values(&models))?;
    part("cases", &|| cases(&shared.join("cases")))?;
    Ok(misses)
}

#[derive(Default)]
struct Table {
    rows: Vec<(String, usize, usize)>,
    misses: Vec<String>,
    notes: Vec<String>,
    /// Misses with a reason that `docs/counting.md` gives.
    known: Vec<(String, String)>,
    /// Relative differences by file, where a part has bounds on them.
    values: Vec<(String, f64)>,
    /// What is said of them.
    summary: Option<String>,
}

/// Differences that have a reason: file and figure with the reason.
type Known = HashMap<(String, String), String>;

fn known_differences() -> Outcome<Known> {
    let mut reader = csv::Reader::from_reader(include_str!("../known_differences.csv").as_bytes());
    let rows: Vec<(String, String, String)> = reader.deserialize().collect::<Result<_, _>>()?;
    Ok(rows.into_iter().map(|(file, figure, reason)| ((file, figure), reason)).collect())
}

impl Table {
    fn count(&mut self, label: &str, hit: bool) {
        self.add(label, usize::from(hit), 1);
    }

    fn add(&mut self, label: &str, hits: usize, total: usize) {
        match self.rows.iter_mut().find(|(name, ..)| name == label) {
            Some(row) => {
                row.1 += hits;
                row.2 += total;
            }
            None => self.rows.push((label.to_owned(), hits, total)),
        }
    }

    /// Sets the misses apart that have a reason.
    fn explain(&mut self, known: &Known) {
        let misses = std::mem::take(&mut self.misses);
        for miss in misses {
            let reason = known.iter().find(|((file, figure), _)| {
                miss.strip_prefix(file.as_str())
                    .and_then(|rest| rest.strip_prefix(": "))
                    .is_some_and(|rest| rest.starts_with(figure.as_str()))
            });
            match reason {
                Some((_, reason)) => self.known.push((miss, reason.clone())),
                None => self.misses.push(miss),
            }
        }
    }

    fn merge(&mut self, other: Self) {
        for (label, hits, total) in other.rows {
            self.add(&label, hits, total);
        }
        self.misses.extend(other.misses);
        self.notes.extend(other.notes);
        self.values.extend(other.values);
    }
}

/// Runs a job for each item on all cores; results in the order of the items.
fn on_all_cores<T: Sync>(items: &[T], job: &(dyn Fn(&T) -> Outcome<Table> + Sync)) -> Outcome<Table> {
    let next = AtomicUsize::new(0);
    let results: Mutex<BTreeMap<usize, Outcome<Table>>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((index, item)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|index| Some((index, items.get(index)?)))
                {
                    let result = job(item);
                    if let Ok(mut results) = results.lock() {
                        results.insert(index, result);
                    }
                }
            });
        }
    });
    let mut table = Table::default();
    for result in results.into_inner().unwrap_or_default().into_values() {
        table.merge(result?);
    }
    Ok(table)
}

fn analyse(path: &Path, options: &CheckOptions) -> Outcome<Model> {
    let shown = path.display().to_string();
    // One device, one entry.
    check(&Input::Path(path.to_path_buf()), &shown, options)?.pop().ok_or_else(|| "no entry".into())
}

fn options(shapes: &[(String, Vec<String>)]) -> CheckOptions {
    CheckOptions { mode: Mode::Infer, input_shapes: shapes.to_vec(), ..CheckOptions::default() }
}

type Row = HashMap<String, String>;

fn read_csv(path: &Path) -> Outcome<Vec<Row>> {
    let mut reader = csv::Reader::from_path(path)?;
    Ok(reader.deserialize().collect::<Result<_, _>>()?)
}

fn number(row: &Row, key: &str) -> Option<i128> {
    row.get(key)?.parse().ok()
}

/// Shapes of inputs as a table writes them; `batch` is replaced by a number.
fn shapes(text: &str, batch: Option<i128>) -> Outcome<Vec<(String, Vec<String>)>> {
    let Value::Object(inputs) = serde_json::from_str(text)? else { return Err("input shapes are no object".into()) };
    let dim = |dim: &Value| match (dim, batch) {
        (Value::String(_), Some(batch)) => batch.to_string(),
        (Value::String(name), None) => name.clone(),
        (other, _) => other.to_string(),
    };
    Ok(inputs
        .into_iter()
        .map(|(name, dims)| (name, dims.as_array().map(|dims| dims.iter().map(dim).collect()).unwrap_or_default()))
        .collect())
}

fn truth_table(models: &Path, name: &str) -> Outcome<Table> {
    let rows = read_csv(&models.join(format!("truth-{name}.csv")))?;
    on_all_cores(&rows, &|row| truth_row(models, row))
}

fn truth_row(models: &Path, row: &Row) -> Outcome<Table> {
    let mut table = Table::default();
    let file = row.get("file").cloned().unwrap_or_default();
    let path = models.join(&file);
    let vision = row.contains_key("input_shape");
    let text = row.get("input_shape").or_else(|| row.get("input_shapes")).cloned().unwrap_or_default();
    let outputs = row.get("output_shapes_b2").or_else(|| row.get("output_shapes")).cloned().unwrap_or_default();
    let at = shapes(&text, Some(1))?;
    let model = analyse(&path, &options(&at))?;
    let Some(graph) = &model.graph else {
        table.misses.push(format!("{file}: no graph: {:?}", model.diagnostics.first().map(|finding| &finding.message)));
        return Ok(table);
    };
    parameters(&mut table, &file, row, &model);
    if let Some(macs) = number(row, "macs") {
        let ours = graph.macs.unwrap_or(-1);
        #[allow(clippy::cast_precision_loss, reason = "a ratio")]
        let close = (ours - macs).unsigned_abs() as f64 <= TOLERANCE * macs as f64;
        table.count("MACs within 0.5 %", close);
        table.count("MACs equal", ours == macs);
        if !close {
            table.misses.push(format!("{file}: MACs {ours}, truth {macs}, difference {}", ours - macs));
        }
        formula(&mut table, &file, &path, &text, graph)?;
    }
    let bound = if vision { analyse(&path, &options(&shapes(&text, Some(2))?))? } else { model };
    if let Ok(Value::Object(expected)) = serde_json::from_str::<Value>(&outputs) {
        for (name, dims) in expected {
            let ours = bound.outputs.iter().find(|port| port.name == name).and_then(|port| port.shape.clone());
            if ours.as_ref().is_some_and(|ours| is_data_dependent(ours, &dims)) {
                table.count("output shapes that depend on data, within bounds", true);
                continue;
            }
            let no_tensor = ours.is_none() && dims.get(0).is_some_and(Value::is_string);
            let same = no_tensor || ours.as_ref().is_some_and(|ours| same_shape(ours, &dims));
            table.count("output shapes equal", same);
            if !same {
                table.misses.push(format!("{file}: output {name} is {ours:?}, truth {dims}"));
            }
        }
    }
    Ok(table)
}

fn parameters(table: &mut Table, file: &str, row: &Row, model: &Model) {
    let (Some(params), Some(graph)) = (number(row, "params"), &model.graph) else { return };
    let ours = &graph.parameters;
    let held = number(row, "onnx_float_init_elems").unwrap_or(-1);
    let exact = ours.trainable == params;
    let sum = ours.total + ours.constants;
    table.count("trainable parameters equal", exact);
    let passes = exact || ours.total == held || sum == held;
    table.count("parameters equal, or all that the file holds", passes);
    let text = format!(
        "{file}: trainable {}, not trainable {}, constants {}; truth {params} + {} buffers, file holds {held}",
        ours.trainable,
        ours.non_trainable,
        ours.constants,
        row.get("buffers").map_or("?", String::as_str)
    );
    if !passes {
        table.misses.push(text);
    } else if !exact {
        table.notes.push(text);
    }
}

/// The formula with every dim free, at the sizes of the table, gives the same MACs; and so do all totals when the dims
/// are bound by name rather than by the shapes of inputs.
fn formula(table: &mut Table, file: &str, path: &Path, shapes_text: &str, bound: &Graph) -> Outcome<()> {
    let expected = bound.macs;
    let free = analyse(path, &CheckOptions { mode: Mode::Infer, ..CheckOptions::default() })?;
    let Some(graph) = &free.graph else { return Ok(()) };
    let label = "MACs formula in free dims gives the same";
    let Some(text) = &graph.macs_formula else {
        table.count(label, false);
        table.misses.push(format!("{file}: formula is missing"));
        return Ok(());
    };
    let values = free_values(&free, shapes_text)?;
    let symbol = |name: &str| Some(Dim::from(&Symbol::new(name, SymbolKind::Free, 0, None)));
    let value = Dim::parse(text, &symbol)?.eval(&|symbol| values.get(symbol.name()).copied());
    let same = value.is_some() && value == expected;
    table.count(label, same);
    if !same {
        let short: String = text.chars().take(120).collect();
        table.misses.push(format!("{file}: formula {short} gives {value:?}, bound {expected:?}"));
    }
    Ok(())
}

/// Values that the shapes of a table give the free dims of a file.
fn free_values(model: &Model, shapes_text: &str) -> Outcome<HashMap<String, i128>> {
    let mut values = HashMap::new();
    for (name, dims) in shapes(shapes_text, Some(1))? {
        let Some(port) = model.inputs.iter().find(|port| port.name == name) else { continue };
        for (extent, dim) in port.shape.iter().flatten().zip(&dims) {
            if let (Extent::Symbolic(symbol), Ok(value)) = (extent, dim.parse()) {
                values.insert(symbol.clone(), value);
            }
        }
    }
    Ok(values)
}

fn same_shape(ours: &[Extent], truth: &Value) -> bool {
    let Some(truth) = truth.as_array() else { return false };
    ours.len() == truth.len()
        && ours.iter().zip(truth).all(
            |(ours, truth)| matches!(ours, Extent::Number(number) if Some(*number) == truth.as_i64().map(i128::from)),
        )
}

/// Same rank and numbers, with a symbol where only a run knows.
fn is_data_dependent(ours: &[Extent], truth: &Value) -> bool {
    let Some(truth) = truth.as_array() else { return false };
    let fits = |(ours, truth): (&Extent, &Value)| match ours {
        Extent::Number(number) => Some(*number) == truth.as_i64().map(i128::from),
        Extent::Symbolic(_) => true,
    };
    ours.len() == truth.len()
        && ours.iter().any(|ours| matches!(ours, Extent::Symbolic(_)))
        && ours.iter().zip(truth).all(fits)
}

fn model_files(models: &Path) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in ["torchvision", "timm", "transformers", "others", "tools"] {
        for entry in std::fs::read_dir(models.join(folder))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "onnx") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Diagnostics that may stand for a node without shape or cost.
const REASONS: &[&str] = &["data-dependent-shape", "unbound-dim", "cost-at-bound"];

/// A diagnostic that says how much the first ones leave out.
const FOLLOWS: &str = "not-counted";

/// Operators that give sequences and maps.
const WITHOUT_SHAPE: &[&str] = &[
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceMap",
    "SplitToSequence",
    "ai.onnx.ml.ZipMap",
];

fn plain_files(models: &Path) -> Outcome<Table> {
    on_all_cores(&model_files(models)?, &|path| {
        let mut table = Table::default();
        let model = analyse(path, &CheckOptions { tensors: true, ..CheckOptions::default() })?;
        let name = path.strip_prefix(models).unwrap_or(path).display().to_string();
        let reason = model.diagnostics.iter().any(|finding| REASONS.contains(&finding.name.as_str()));
        let numbers = model
            .graph
            .as_ref()
            .is_some_and(|graph| graph.macs.is_some() && graph.flops.forward.is_some() && graph.bytes.is_some());
        table.count("a report with numbers", numbers);
        if !numbers {
            let text = format!("{name}: numbers are missing");
            if reason { table.notes.push(text) } else { table.misses.push(text) }
        }
        table.count("a report with numbers, or the dim named that has none", numbers || reason);
        let shaped = |layer: &Layer| layer.output_shape.is_some() || WITHOUT_SHAPE.contains(&layer.op.as_str());
        let counted = model.layers.iter().filter(|layer| layer.macs.is_some() && shaped(layer)).count();
        table.add("layers shaped and counted", counted, model.layers.len());
        if counted < model.layers.len() && !reason {
            table.misses.push(format!(
                "{name}: {} of {} layers without shape or cost and no reason",
                model.layers.len() - counted,
                model.layers.len()
            ));
        } else if counted < model.layers.len() {
            table.notes.push(format!(
                "{name}: {} of {} layers without shape or cost",
                model.layers.len() - counted,
                model.layers.len()
            ));
        }
        // What is said of a device is advice, and right or wrong elsewhere.
        let of_device = |code: &str| ["DL05", "DL06", "DL07"].iter().any(|group| code.starts_with(group));
        let found = model.diagnostics.iter().filter(|finding| finding.level > Level::Note);
        for finding in found.filter(|finding| !of_device(&finding.code)) {
            let text = format!("{name}: diagnostics: {} {}", finding.code, finding.message);
            if REASONS.contains(&finding.name.as_str()) || (finding.name == FOLLOWS && reason) {
                table.notes.push(text)
            } else {
                table.misses.push(text)
            }
        }
        Ok(table)
    })
}

fn real_values(models: &Path) -> Outcome<Table> {
    let mut files: Vec<_> = std::fs::read_dir(models.join("real_values"))?
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    on_all_cores(&files, &|path| real_file(models, path))
}

fn real_file(models: &Path, path: &Path) -> Outcome<Table> {
    let mut table = Table::default();
    let truth: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let name = truth.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
    let file = models.join(format!("{name}.onnx"));
    if !file.exists() {
        return Ok(table);
    }
    let mut bound = Vec::new();
    for (input, value) in truth.get("inputs").and_then(Value::as_object).into_iter().flatten() {
        let dims = value
            .get(1)
            .and_then(Value::as_array)
            .map(|dims| dims.iter().map(Value::to_string).collect())
            .unwrap_or_default();
        bound.push((input.clone(), dims));
    }
    let model = analyse(&file, &CheckOptions { tensors: true, ..options(&bound) })?;
    let ours = model.tensors.unwrap_or_default();
    let (mut exact, mut symbolic, mut total, mut wrong) = (0, 0, 0, 0);
    let mut loose = Vec::new();
    for (tensor, value) in truth.get("tensors").and_then(Value::as_object).into_iter().flatten() {
        total += 1;
        let dtype = value.get(0).and_then(Value::as_str).unwrap_or_default();
        let dims: Vec<i128> = value
            .get(1)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_i64)
            .map(i128::from)
            .collect();
        let Some(found) = ours.get(tensor) else {
            wrong += 1;
            table.misses.push(format!("{name}: tensor {tensor:?} is missing"));
            continue;
        };
        let type_fits = found.dtype.as_deref().is_none_or(|found| found == dtype);
        match (&found.shape, type_fits) {
            (Some(shape), true) if shape.len() == dims.len() => {
                let mut fits = true;
                let mut known = true;
                for (axis, (extent, dim)) in shape.iter().zip(&dims).enumerate() {
                    match extent {
                        Extent::Number(number) => fits &= number == dim,
                        Extent::Symbolic(_) => {
                            known = false;
                            let bound =
                                found.upper_bound.as_ref().and_then(|bounds| bounds.get(axis)).and_then(Option::as_ref);
                            fits &= !matches!(bound, Some(Extent::Number(bound)) if bound < dim);
                        }
                    }
                }
                if !fits {
                    wrong += 1;
                    table.misses.push(format!(
                        "{name}: tensor {tensor:?} is {dims:?}, we say {shape:?} (bounds {:?})",
                        found.upper_bound
                    ));
                } else if known && found.dtype.is_some() {
                    exact += 1;
                } else {
                    symbolic += 1;
                    loose.push(tensor.clone());
                }
            }
            (None, true) => {
                symbolic += 1;
                loose.push(tensor.clone());
            }
            _ => {
                wrong += 1;
                table.misses.push(format!("{name}: tensor {tensor:?} is {dtype}{dims:?}, we say {found:?}"));
            }
        }
    }
    table.add("tensors exact", exact, total);
    table.add("tensors symbolic", symbolic, total);
    table.add("tensors wrong", wrong, total);
    table.count("files with every tensor exact", exact == total);
    if let Some(first) = loose.first() {
        table.notes.push(format!("{name}: {} of {total} symbolic, first {first:?}", loose.len()));
    }
    Ok(table)
}

fn cases(folder: &Path) -> Outcome<Table> {
    let index: Value = serde_json::from_slice(&std::fs::read(folder.join("index.json"))?)?;
    let cases = index.as_array().cloned().unwrap_or_default();
    on_all_cores(&cases, &|case| one_case(folder, case))
}

fn one_case(folder: &Path, case: &Value) -> Outcome<Table> {
    let mut table = Table::default();
    let text = |key: &str| case.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let file = text("file");
    if !file.ends_with(".onnx") {
        return Ok(table);
    }
    let dims = case
        .get("dims")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), value.to_string()))
        .collect();
    let model = analyse(&folder.join(&file), &CheckOptions { mode: Mode::Infer, dims, ..CheckOptions::default() })?;
    let worst = model.diagnostics.iter().map(|finding| finding.level).max().unwrap_or(Level::Note);
    let verdict = match worst {
        Level::Note => "ok",
        Level::Warning => "warning",
        Level::Error => "error",
    };
    let says: Vec<_> = model
        .diagnostics
        .iter()
        .filter(|finding| finding.level > Level::Note)
        .map(|finding| format!("{} {}", finding.code, finding.message))
        .collect();
    let expected = text("verdict");
    table.count("verdict", verdict == expected);
    if verdict != expected {
        table.misses.push(format!("{file}: verdict {verdict}, should be {expected}: {says:?}"));
    }
    let graph = model.graph.as_ref();
    let ours = |key: &str| match key {
        "parameters" => graph.map(|graph| graph.parameters.total),
        _ => graph.and_then(|graph| graph.macs),
    };
    for key in ["parameters", "macs"] {
        let Some(expected) = case.get(key).and_then(Value::as_i64).map(i128::from) else { continue };
        table.count(key, ours(key) == Some(expected));
        if ours(key) != Some(expected) {
            table.misses.push(format!("{file}: {key} {:?}, should be {expected}", ours(key)));
        }
    }
    runtime_shapes(&mut table, &file, case, &model);
    Ok(table)
}

/// Where a runtime ran the file, its output shapes are right.
fn runtime_shapes(table: &mut Table, file: &str, case: &Value, model: &Model) {
    for (name, truth) in case.get("onnxruntime").and_then(Value::as_object).into_iter().flatten() {
        let Some(port) = model.outputs.iter().find(|port| port.name == *name) else { continue };
        let Some(shape) = &port.shape else { continue };
        let dims: Vec<i128> =
            truth.as_array().into_iter().flatten().filter_map(Value::as_i64).map(i128::from).collect();
        let wrong = shape.len() != dims.len()
            || shape.iter().zip(&dims).any(|(ours, truth)| matches!(ours, Extent::Number(number) if number != truth));
        table.count("output shapes as the runtime gives", !wrong);
        if wrong {
            table.misses.push(format!("{file}: output {name} {shape:?}, runtime {dims:?}"));
        }
    }
}

//! Bytes that automatic differentiation keeps, against those that PyTorch kept: `saved_activation_bytes` of the truth
//! tables, over the rows whose file still holds what training needs.

use std::path::Path;

use dlcost::engine::{CheckOptions, Mode};
use dlcost::runtime::{Attention, Runtime};
use dlcost::target::{Compute, Request};

use super::{Outcome, Row, Table, analyse, number, on_all_cores, read_csv, shapes};

/// Mean of the relative differences that passes.
const MEAN: f64 = 0.05;

/// Difference of one file that passes.
const WORST: f64 = 0.15;

/// Compares all comparable rows of a table.
pub(super) fn saved_bytes(models: &Path, name: &str) -> Outcome<Table> {
    let mut rows = read_csv(&models.join(format!("truth-{name}.csv")))?;
    rows.retain(|row| row.get("comparable").is_some_and(|comparable| comparable == "yes"));
    let mut table = on_all_cores(&rows, &|row| saved_row(models, row))?;
    let differences: Vec<f64> = table.values.iter().map(|(_, difference)| difference.abs()).collect();
    let mean = differences.iter().sum::<f64>() / differences.len().max(1) as f64;
    table.misses = table
        .values
        .iter()
        .filter(|(_, difference)| difference.abs() > WORST)
        .map(|(file, difference)| format!("{file}: saved bytes {:+.1} %", 100.0 * difference))
        .collect();
    if mean > MEAN {
        table.misses.push(format!("mean difference {:.2} %", 100.0 * mean));
    }
    table.summary = Some(format!("mean difference {:.2} % of {} files", 100.0 * mean, differences.len()));
    table.values.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    table.notes = table.values.iter().map(|(file, value)| format!("{:+7.2} % {file}", 100.0 * value)).collect();
    Ok(table)
}

fn saved_row(models: &Path, row: &Row) -> Outcome<Table> {
    let mut table = Table::default();
    let file = row.get("file").cloned().unwrap_or_default();
    let text = row.get("input_shape").or_else(|| row.get("input_shapes")).cloned().unwrap_or_default();
    let Some(truth) = number(row, "saved_activation_bytes").filter(|truth| *truth > 0) else { return Ok(table) };
    let attention = row.get("attention").map(String::as_str);
    let request = Request {
        runtime: Runtime::find("pytorch").map(|runtime| (runtime, None)),
        attention: Some(if attention == Some("eager") { Attention::Eager } else { Attention::Fused }),
        precision: Some(Compute::Fp32),
        ..Request::default()
    };
    let options = CheckOptions {
        mode: Mode::Train,
        input_shapes: shapes(&text, number(row, "saved_batch"))?,
        request,
        ..CheckOptions::default()
    };
    let model = analyse(&models.join(&file), &options)?;
    let ours: i128 = model.layers.iter().filter_map(|layer| layer.saved_bytes).sum();
    #[allow(clippy::cast_precision_loss, reason = "a ratio")]
    let difference = (ours - truth) as f64 / truth as f64;
    table.count("saved bytes within 1 %", difference.abs() <= 0.01);
    table.count("saved bytes within 5 %", difference.abs() <= 0.05);
    table.count("saved bytes within 15 %", difference.abs() <= WORST);
    table.values.push((file, difference));
    Ok(table)
}

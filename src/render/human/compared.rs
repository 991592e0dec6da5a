//! A measured profile beside the prediction: sums, the lines that lie furthest apart, and what has no counterpart.

use crate::render::Style;
use crate::render::table::{Column, lines};
use crate::render::text::{fill, list, printable};
use crate::render::units::{UNKNOWN, duration_unit, number, plural};
use crate::report::Model;
use crate::report::comparison::{Comparison, Measured, Predicted, Row};
use crate::runtime::Runtime;

use super::head;

/// The comparison with at most `top` rows in each table.
pub(super) fn text(comparison: &Comparison, model: &Model, top: usize, style: Style) -> String {
    let (Some(graph), Some(measured)) = (&model.graph, &comparison.measured) else { return String::new() };
    let mut text = head::model_line(model, graph, style) + &head::target_lines(model, style);
    text.push_str(&list("  measured: ", &source(comparison, measured)));
    if measured.clock == "host" {
        let note = "  times of the host, which launches kernels without waiting for them; a build of the runtime with \
                    kernel times has those of the device";
        text.push_str(&format!("{}\n", fill(note, 0, 2).join("\n  ")));
    }
    text.push('\n');
    text.push_str(&sums(comparison, measured, style));
    text.push('\n');
    text.push_str(&rows(&comparison.rows, top, style));
    text.push_str(&apart(comparison, top, style));
    text.push_str(&without_line(comparison, top, style));
    text
}

fn source(comparison: &Comparison, measured: &Measured) -> Vec<String> {
    let title = Runtime::find(&measured.runtime).map_or(measured.runtime.as_str(), |runtime| runtime.title);
    let runs = usize::try_from(measured.runs).unwrap_or(usize::MAX);
    vec![
        printable(&comparison.profile).into_owned(),
        title.to_owned(),
        format!("averages of {}", plural(runs, "run")),
        plural(measured.lines, "line"),
    ]
}

/// Times of a table in one unit, so that its rows can be compared.
struct Scale {
    factor: f64,
    unit: &'static str,
}

impl Scale {
    fn of(times: impl Iterator<Item = f64>, style: Style) -> Self {
        let (factor, unit) = duration_unit(times.fold(0.0, f64::max), style);
        Self { factor, unit }
    }

    fn text(&self, ms: f64) -> String {
        format!("{} {}", number(ms * self.factor), self.unit)
    }

    fn or_unknown(&self, ms: Option<f64>) -> String {
        ms.map_or_else(|| UNKNOWN.to_owned(), |ms| self.text(ms))
    }
}

fn column(title: &str, right: bool) -> Column<'_> {
    Column { title, right, most: if right { 12 } else { usize::MAX } }
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, number)
}

/// What the parts come to. The end-to-end times and the sums are not made to agree.
fn sums(comparison: &Comparison, measured: &Measured, style: Style) -> String {
    let predicted = comparison.predicted;
    let scale = Scale::of(
        [measured.sum_ms, measured.end_to_end_ms.unwrap_or_default()]
            .into_iter()
            .chain(predicted.map(|predicted| predicted.end_to_end_ms.p50)),
        style,
    );
    let of = |part: fn(Predicted) -> f64| predicted.map(part);
    let row = |name: &str, predicted: Option<f64>, measured: Option<f64>| {
        let by = predicted.zip(measured).filter(|(_, measured)| *measured > 0.0);
        let by = by.map(|(predicted, measured)| predicted / measured);
        vec![name.to_owned(), scale.or_unknown(predicted), scale.or_unknown(measured), ratio(by)]
    };
    let one_sided = |name: &str, cells: [String; 2]| {
        let [predicted, measured] = cells;
        vec![name.to_owned(), predicted, measured, String::new()]
    };
    let mut rows = vec![
        row("end to end", of(|predicted| predicted.end_to_end_ms.p50), measured.end_to_end_ms),
        row("sum of layers, lines", of(|predicted| predicted.sum_ms), Some(measured.sum_ms)),
        row("  of one another", of(|predicted| predicted.matched_ms), Some(measured.matched_ms)),
    ];
    if measured.apart_ms > 0.0 {
        rows.push(one_sided("  lines apart", [String::new(), scale.text(measured.apart_ms)]));
    }
    if let Some(alone) =
        of(|predicted| predicted.sum_ms - predicted.matched_ms).filter(|_| has_layers_alone(comparison))
    {
        rows.push(one_sided("  layers without a line", [scale.text(alone), String::new()]));
    }
    let columns = [column("", false), column("predicted", true), column("measured", true), column("ratio", true)];
    let mut text = lines(&columns, &rows, style);
    if measured.end_to_end_ms.is_none() {
        text.push_str("  (the profile does not say what a whole run takes; --end-to-end-ms does)\n");
    }
    text
}

fn has_layers_alone(comparison: &Comparison) -> bool {
    !comparison.layers_without_line.is_empty()
}

fn rows(rows: &[Row], top: usize, style: Style) -> String {
    if top == 0 || rows.is_empty() {
        return String::new();
    }
    let shown = rows.get(..top).unwrap_or(rows);
    let times = shown.iter().flat_map(|row| [row.measured_ms, row.predicted_ms.unwrap_or_default()]);
    let scale = Scale::of(times, style);
    let cells = |row: &Row| {
        let name = row.lines.iter().map(|line| printable(line)).collect::<Vec<_>>().join("; ");
        let nodes = row.nodes.len().to_string();
        vec![name, nodes, scale.or_unknown(row.predicted_ms), scale.text(row.measured_ms), ratio(row.ratio)]
    };
    let columns = [
        column("furthest apart", false),
        column("nodes", true),
        column("predicted", true),
        column("measured", true),
        column("ratio", true),
    ];
    let mut text = lines(&columns, &shown.iter().map(cells).collect::<Vec<_>>(), style);
    if shown.len() < rows.len() {
        text.push_str(&format!("  ({} of {}; --top N shows more, --format json all)\n", shown.len(), rows.len()));
    }
    if shown.iter().any(|row| row.predicted_ms == Some(0.0)) {
        text.push_str("  (0 predicted: these run inside the kernel of another layer, or are views)\n");
    }
    text
}

/// Lines of no node, the longest first.
fn apart(comparison: &Comparison, top: usize, style: Style) -> String {
    let mut apart: Vec<_> = comparison.apart.iter().collect();
    apart.sort_by(|a, b| b.measured_ms.total_cmp(&a.measured_ms));
    let rows = apart.iter().map(|apart| (&*apart.line, apart.kind.replace('_', " "), apart.measured_ms)).collect();
    one_sided(["lines apart", "kind", "measured"], rows, top, style)
}

/// Layers of no line, the longest first.
fn without_line(comparison: &Comparison, top: usize, style: Style) -> String {
    let mut layers: Vec<_> = comparison.layers_without_line.iter().collect();
    layers.sort_by(|a, b| b.predicted_ms.total_cmp(&a.predicted_ms));
    let rows = layers.iter().map(|layer| (&*layer.key, layer.op.clone(), layer.predicted_ms)).collect();
    one_sided(["layers without a line", "op", "predicted"], rows, top, style)
}

fn one_sided(titles: [&str; 3], rows: Vec<(&str, String, f64)>, top: usize, style: Style) -> String {
    if top == 0 || rows.is_empty() {
        return String::new();
    }
    let shown = rows.get(..top).unwrap_or(&rows);
    let scale = Scale::of(shown.iter().map(|(_, _, ms)| *ms), style);
    let cells = |(name, kind, ms): &(&str, String, f64)| {
        vec![printable(name).into_owned(), printable(kind).into_owned(), scale.text(*ms)]
    };
    let [name, kind, time] = titles;
    let columns = [column(name, false), Column { title: kind, right: false, most: 20 }, column(time, true)];
    let mut text = format!("\n{}", lines(&columns, &shown.iter().map(cells).collect::<Vec<_>>(), style));
    if shown.len() < rows.len() {
        text.push_str(&format!("  ({} of {})\n", shown.len(), rows.len()));
    }
    text
}

//! The table of layers: the hottest first, or those with the most MACs where no times are known.

use std::cmp::Ordering;

use crate::render::table::{self, Column};
use crate::render::text::printable;
use crate::render::units::{UNKNOWN, bytes_or_unknown, count, count_or_unknown, duration_unit, number, share};
use crate::render::{Ink, Style};
use crate::report::{Extent, Layer, Model};

/// The text of a column for a layer.
type Cell = fn(&Layer, Look) -> String;

/// How cells look: all times of a table are in one unit, so that rows can be compared.
#[derive(Clone, Copy)]
struct Look {
    style: Style,
    factor: f64,
    unit: &'static str,
}

impl Look {
    fn of(hottest: Option<&&Layer>, style: Style) -> Self {
        let longest = hottest.and_then(|layer| layer.time_ms).map_or(0.0, |time| time.p50);
        let (factor, unit) = duration_unit(longest, style);
        Self { style, factor, unit }
    }

    fn duration(self, ms: Option<f64>) -> String {
        ms.map_or_else(unknown, |ms| format!("{} {}", number(ms * self.factor), self.unit))
    }
}

/// The table with at most `top` rows, and how to see the others.
pub(super) fn block(model: &Model, top: usize, style: Style) -> String {
    let layers = &model.layers;
    if top == 0 || layers.is_empty() {
        return String::new();
    }
    let timed = layers.iter().any(|layer| layer.time_ms.is_some());
    let order = hottest(model, top);
    let columns = if timed { timed_columns(model.target.mode != "infer") } else { counted_columns() };
    let (columns, cells): (Vec<Column<'_>>, Vec<Cell>) = columns.into_iter().unzip();
    let look = Look::of(order.first(), style);
    let row = |layer: &&Layer| cells.iter().map(|cell| cell(layer, look)).collect();
    let rows: Vec<Vec<String>> = order.iter().map(row).collect();
    let mut text = table::lines(&columns, &rows, style);
    if order.len() < layers.len() {
        let more = format!("  ({} of {}; --top N shows more, --format json all)", order.len(), layers.len());
        text.push_str(&style.paint(Ink::Faint, &more));
        text.push('\n');
    }
    text
}

/// The layers of the table.
pub(super) fn hottest(model: &Model, top: usize) -> Vec<&Layer> {
    let mut order: Vec<&Layer> = model.layers.iter().collect();
    // The sort is stable, so that equal layers stay in the order of the graph.
    order.sort_by(|a, b| hotter(a, b));
    order.truncate(top);
    order
}

/// Most time first, then most MACs, then most bytes; what is not known comes last.
fn hotter(a: &Layer, b: &Layer) -> Ordering {
    let ms = |layer: &Layer| layer.time_ms.map_or(-1.0, |time| time.p50);
    ms(b).total_cmp(&ms(a)).then_with(|| (b.macs, b.bytes).cmp(&(a.macs, a.bytes)))
}

fn column(title: &'static str, right: bool, most: usize) -> Column<'static> {
    Column { title, right, most }
}

fn timed_columns(training: bool) -> Vec<(Column<'static>, Cell)> {
    let mut columns: Vec<(Column<'static>, Cell)> = vec![
        (column("hottest layers", false, usize::MAX), key),
        (column("op", false, 14), op),
        (column("output", false, 20), output),
        (column("MACs", true, 10), macs),
    ];
    columns.push((column("forward", true, 10), |layer, look| look.duration(layer.time_ms.map(|time| time.forward))));
    if training {
        let backward: Cell = |layer, look| look.duration(layer.time_ms.map(|time| time.backward));
        columns.push((column("backward", true, 10), backward));
    }
    columns.push((column("share", true, 11), |layer, _| layer.share.map_or_else(unknown, share)));
    columns.push((column("bound", false, 7), |layer, _| layer.bound.unwrap_or_default().to_owned()));
    columns
}

fn counted_columns() -> Vec<(Column<'static>, Cell)> {
    vec![
        (column("most MACs", false, usize::MAX), key),
        (column("op", false, 20), op),
        (column("output", false, 24), output),
        (column("params", true, 9), params),
        (column("MACs", true, 11), macs),
        (column("FLOPs", true, 11), |layer, look| bound(layer, count_or_unknown(layer.flops.forward), look)),
        (column("bytes", true, 11), |layer, look| bound(layer, bytes_or_unknown(layer.bytes), look)),
    ]
}

fn key(layer: &Layer, _: Look) -> String {
    printable(&layer.key).into_owned()
}

fn op(layer: &Layer, _: Look) -> String {
    printable(&layer.op).into_owned()
}

fn output(layer: &Layer, look: Look) -> String {
    shape(layer.output_shape.as_deref(), look.style)
}

fn params(layer: &Layer, _: Look) -> String {
    if layer.parameters == 0 { String::new() } else { count(layer.parameters) }
}

fn macs(layer: &Layer, look: Look) -> String {
    bound(layer, count_or_unknown(layer.macs), look)
}

fn unknown() -> String {
    UNKNOWN.to_owned()
}

/// A figure with the sign that says that it is the most it can be.
fn bound(layer: &Layer, text: String, look: Look) -> String {
    if layer.at_bound && text != UNKNOWN { format!("{} {text}", look.style.at_most()) } else { text }
}

/// `32×64×56×56`.
pub(in crate::render) fn shape(dims: Option<&[Extent]>, style: Style) -> String {
    match dims {
        None => unknown(),
        Some([]) => "scalar".to_owned(),
        Some(dims) => {
            let dims: Vec<String> = dims
                .iter()
                .map(|dim| match dim {
                    Extent::Number(number) => number.to_string(),
                    Extent::Symbolic(text) => printable(text).into_owned(),
                })
                .collect();
            dims.join(style.times())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;
    use crate::report::LayerTime;

    fn order(layers: Vec<Layer>) -> Vec<String> {
        let text = block(&Model { layers, ..Model::default() }, 10, Style::PLAIN);
        text.lines().skip(1).filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
    }

    #[test]
    fn layers_without_a_figure_come_last_and_ties_keep_the_order() {
        let layers = vec![
            sample::layer("unknown", None, Some(9)),
            sample::layer("small", Some(0), Some(1)),
            sample::layer("first", Some(5), Some(1)),
            sample::layer("second", Some(5), Some(1)),
        ];
        assert_eq!(order(layers), ["first", "second", "small", "unknown"]);
    }

    #[test]
    fn time_counts_before_macs_and_a_layer_without_time_comes_last() {
        let timed = |key, p50, macs| Layer {
            time_ms: Some(LayerTime { p50, ..LayerTime::default() }),
            ..sample::layer(key, Some(macs), Some(1))
        };
        let layers = vec![
            sample::layer("unknown", Some(99), Some(9)),
            timed("fused", 0.0, 7),
            timed("short", 1.0, 9),
            timed("long", 2.0, 1),
        ];
        assert_eq!(order(layers), ["long", "short", "fused", "unknown"]);
    }
}

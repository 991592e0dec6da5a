//! What does not depend on a device: MACs, FLOPs, bytes, parameters, the formula, and how far they can be trusted.

use crate::render::Style;
use crate::render::text::{list, paragraph, printable};
use crate::render::units::{UNKNOWN, bytes, bytes_or_unknown, count, count_or_unknown, of_unit, plural};
use crate::report::{Coverage, Graph, Model, Passes};

use super::label;

/// The totals of a graph as words, with the mark that says how far they can be trusted.
pub(in crate::render) struct Counted<'m> {
    /// `ONNX opset 17`.
    pub(in crate::render) format: String,
    graph: &'m Graph,
    mark: &'static str,
    a_sample: Option<i128>,
}

impl<'m> Counted<'m> {
    pub(in crate::render) fn of(model: &Model, graph: &'m Graph, style: Style) -> Self {
        let format = match model.format.as_deref() {
            Some("onnx") => "ONNX",
            Some("onnx-text") => "ONNX text",
            Some("keras") => "Keras archive",
            Some("keras-h5") => "Keras HDF5",
            Some("keras-json") => "Keras JSON",
            Some(other) => other,
            None => "unknown format",
        };
        let version =
            Some(&*model.producer.version).filter(|version| format.starts_with("Keras") && !version.is_empty());
        let format = match model.producer.opsets.get("ai.onnx") {
            None if version.is_some() => format!("{format} {}", printable(version.unwrap_or_default())),
            Some(opset) => format!("{format} opset {opset}"),
            None => printable(format).into_owned(),
        };
        let a_sample = match (graph.macs, model.target.batch) {
            (Some(macs), Some(batch)) if batch > 1 && macs > 0 && macs % batch == 0 => Some(macs / batch),
            _ => None,
        };
        Self { format, graph, mark: mark(&graph.coverage, style), a_sample }
    }

    /// A total with its mark.
    fn marked(&self, text: String) -> String {
        if text.starts_with(UNKNOWN) { text } else { format!("{}{text}", self.mark) }
    }

    /// MACs of one sample where they say what all samples need, else of all.
    pub(in crate::render) fn macs_a_sample(&self) -> String {
        match self.a_sample {
            Some(macs) => format!("{} a sample", self.marked(of_unit(Some(macs), "MACs"))),
            None => self.marked(of_unit(self.graph.macs, "MACs")),
        }
    }

    /// Passes, parameters, formula and coverage.
    pub(super) fn lines(&self, model: &Model, style: Style) -> String {
        let graph = self.graph;
        let Passes { forward, backward } = graph.flops;
        let mut costs = vec![
            self.marked(of_unit(graph.macs, "MACs")),
            format!("{} forward", self.marked(of_unit(forward, "FLOPs"))),
        ];
        if model.target.mode != "infer" {
            costs.push(format!("{} backward", self.marked(of_unit(backward, "FLOPs"))));
        }
        costs.push(format!("{} read and written forward", self.marked(bytes_or_unknown(graph.bytes))));
        let mut text = list(&label("counted"), &costs);
        text.push_str(&list(&label("parameters"), &self.kinds()));
        if let Some(formula) = graph.macs_formula.as_deref().filter(|formula| !is_number(formula)) {
            text.push_str(&paragraph(&label("formula"), &format!("{} MACs", printable(formula)), 4, style));
        }
        if let Some(loss) = graph.loss.as_deref().filter(|_| model.target.mode != "infer") {
            text.push_str(&paragraph(
                &label("loss"),
                &format!("{}, as the file was compiled", printable(loss)),
                4,
                style,
            ));
        }
        text.push_str(&coverage_line(graph));
        text
    }

    /// Parameters by kind.
    fn kinds(&self) -> Vec<String> {
        let parameters = &self.graph.parameters;
        let mut kinds = vec![format!("{} trainable", count(parameters.trainable))];
        if parameters.non_trainable != 0 {
            kinds.push(format!("{} not trainable", count(parameters.non_trainable)));
        }
        if parameters.constants != 0 {
            kinds.push(format!("{} in constant tables", count(parameters.constants)));
        }
        kinds.push(format!("{} stored", bytes(parameters.bytes)));
        kinds
    }
}

/// The words before a total that is only a bound.
fn mark(coverage: &Coverage, style: Style) -> &'static str {
    match (coverage.layers_not_counted > 0, coverage.layers_at_bound > 0) {
        (false, false) => "",
        (true, false) => "at least ",
        (false, true) if style.unicode => "≤ ",
        (false, true) => "<= ",
        (true, true) => "about ",
    }
}

fn is_number(formula: &str) -> bool {
    formula.bytes().all(|byte| byte.is_ascii_digit())
}

/// What the totals leave out or only bound.
fn coverage_line(graph: &Graph) -> String {
    let coverage = &graph.coverage;
    let mut parts = Vec::new();
    if coverage.layers_not_counted > 0 {
        let layers = plural(graph.layers, "layer");
        let mut shares =
            format!("{} of the layers", percent(coverage.layers_not_counted as i128, graph.layers as i128));
        if let (Some(missing), Some(counted)) = (coverage.bytes_not_counted, graph.bytes)
            && missing > 0
        {
            shares.push_str(&format!(", {} of the bytes", percent(missing, counted.saturating_add(missing))));
        }
        parts.push(format!("{} of {layers} without a cost ({shares})", coverage.layers_not_counted));
    }
    if coverage.layers_at_bound > 0 {
        let rests = if graph.macs == Some(0) {
            format!("{} of {}", bytes_or_unknown(coverage.bytes_at_bound), bytes_or_unknown(graph.bytes))
        } else {
            format!("{} of {}", count_or_unknown(coverage.macs_at_bound), of_unit(graph.macs, "MACs"))
        };
        parts.push(format!("{} at an upper bound ({rests})", plural(coverage.layers_at_bound, "layer")));
    }
    match (coverage.layers_not_counted > 0, coverage.layers_at_bound > 0) {
        (true, false) => parts.push("so counts and times are too low".to_owned()),
        (true, true) => parts.push("so counts and times are no bounds in either direction".to_owned()),
        _ => {}
    }
    if parts.is_empty() { String::new() } else { list(&label("coverage"), &parts) }
}

/// A share in percent.
#[allow(clippy::cast_precision_loss, reason = "a share is shown with one decimal")]
fn percent(part: i128, whole: i128) -> String {
    if whole <= 0 {
        return "all".to_owned();
    }
    let percent = 100.0 * part as f64 / whole as f64;
    if percent < 0.05 { "under 0.1 %".to_owned() } else { format!("{percent:.1} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_marked() {
        let coverage = |layers_not_counted, layers_at_bound| Coverage {
            layers_not_counted,
            layers_at_bound,
            ..Coverage::default()
        };
        assert_eq!(mark(&coverage(0, 0), Style::PLAIN), "");
        assert_eq!(mark(&coverage(1, 0), Style::PLAIN), "at least ");
        assert_eq!(mark(&coverage(0, 1), Style::PLAIN), "≤ ");
        assert_eq!(mark(&coverage(1, 1), Style::PLAIN), "about ");
    }
}

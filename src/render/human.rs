//! The report for people: what was assumed, the numbers people decide by, the layers, then what is wrong.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use super::concise::inside;
use super::table::{self, Column};
use super::text::{COLUMNS, fill, hanging, list, paragraph, printable, shorten, width};
use super::units::{UNKNOWN, bytes, bytes_or_unknown, count, count_or_unknown, of_unit, plural};
use super::{Ink, Style, snippet};
use crate::diagnostics::Level;
use crate::report::{Coverage, Extent, Finding, Graph, Layer, Location, Model, Passes, Report, Summary};

/// Writes the report with at most `top` rows in each table of layers.
///
/// # Errors
/// Writing fails.
pub fn write(report: &Report, top: usize, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut explained = HashSet::new();
    for model in &report.models {
        out.write_all(model_text(model, top, style).as_bytes())?;
        writeln!(out)?;
        write_findings(model, &mut explained, style, out)?;
    }
    writeln!(out, "{}", summary_line(&report.summary, style))
}

/// Writes the diagnostics alone, as they stand beside the output of `--emit`.
///
/// # Errors
/// Writing fails.
pub fn write_diagnostics(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut explained = HashSet::new();
    report.models.iter().try_for_each(|model| write_findings(model, &mut explained, style, out))
}

/// Writes the diagnostics of one model.
///
/// # Errors
/// Writing fails.
pub fn write_findings_of(model: &Model, style: Style, out: &mut dyn Write) -> io::Result<()> {
    write_findings(model, &mut HashSet::new(), style, out)
}

/// Places of a finding that are listed behind the first.
const MORE_PLACES: usize = 3;

/// Findings of one code that are shown for one model; the others are counted.
const MOST_OF_A_CODE: usize = 5;

fn write_findings<'r>(
    model: &'r Model,
    explained: &mut HashSet<&'r str>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for finding in &model.diagnostics {
        *numbers.entry(&finding.code).or_default() += 1;
    }
    let mut shown: HashMap<&str, usize> = HashMap::new();
    for finding in &model.diagnostics {
        let shown = shown.entry(&finding.code).or_default();
        *shown += 1;
        let number = numbers.get(finding.code.as_str()).copied().unwrap_or_default();
        // One finding more takes less room than the line that counts it.
        if *shown <= MOST_OF_A_CODE || number == MOST_OF_A_CODE + 1 {
            let first = explained.insert(finding.code.as_str());
            out.write_all(finding_text(finding, &model.path, first, style).as_bytes())?;
            writeln!(out)?;
        } else if *shown == MOST_OF_A_CODE + 1 {
            let more = number - MOST_OF_A_CODE;
            writeln!(out, "{more} more of {} {}; --format concise lists them\n", finding.code, finding.name)?;
        }
    }
    Ok(())
}

/// Everything about a model but its diagnostics.
fn model_text(model: &Model, top: usize, style: Style) -> String {
    let path = printable(&model.path);
    let Some(graph) = &model.graph else {
        return format!("{}  no model that can be read\n", style.paint(Ink::Strong, &path));
    };
    let totals = Totals::of(model, graph, style);
    let mut head = vec![
        totals.format.clone(),
        plural(graph.nodes, "node"),
        format!("{} parameters", count(graph.parameters.total)),
    ];
    head.push(totals.macs());
    // Lines are filled without colour, which takes no columns.
    let head = hanging(&format!("{path}  "), 2, &head);
    let mut text =
        head.strip_prefix(&*path).map_or_else(|| head.clone(), |rest| style.paint(Ink::Strong, &path) + rest);
    text.push_str(&target_lines(model));
    text.push('\n');
    text.push_str(&totals_block(model, graph, &totals, style));
    text.push_str(&layers_block(&model.layers, top, style));
    text
}

/// The text of `train` and `infer`.
pub(super) fn mode_word(mode: &str) -> &str {
    match mode {
        "train" => "training",
        "infer" => "inference",
        other => other,
    }
}

/// The lines on what the figures hold for, and on what was assumed.
fn target_lines(model: &Model) -> String {
    const MOST_DIMS: usize = 12;
    let mut holds = vec![mode_word(&model.target.mode).to_owned()];
    if let Some(batch) = model.target.batch {
        holds.push(format!("batch {batch}"));
    }
    // A dim that is called batch has been said.
    let dims: Vec<_> =
        model.target.dims.iter().filter(|(name, value)| *name != "batch" || **value != model.target.batch).collect();
    for &(name, value) in dims.iter().take(MOST_DIMS) {
        let value = value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string());
        holds.push(format!("{} = {value}", printable(name)));
    }
    let more = dims.len().saturating_sub(MOST_DIMS);
    if more > 0 {
        holds.push(format!("{more} more dims"));
    }
    let mut text = list("  for ", &holds);
    let mut assumed: Vec<String> = model
        .assumptions
        .iter()
        .take(MOST_DIMS)
        .map(|assumption| {
            let name = assumption.key.strip_prefix("dim ").unwrap_or(&assumption.key);
            format!("{} {} (--{})", printable(name), printable(&assumption.value), printable(&assumption.key))
        })
        .collect();
    let more = model.assumptions.len().saturating_sub(MOST_DIMS);
    if more > 0 {
        assumed.push(format!("{more} more (--format json)"));
    }
    if !assumed.is_empty() {
        text.push_str(&list("  assumed: ", &assumed));
    }
    text
}

/// The totals as words, with the mark that says how far they can be trusted.
pub(super) struct Totals {
    /// `ONNX opset 17`.
    pub(super) format: String,
    mark: &'static str,
    macs: Option<i128>,
    batch: Option<i128>,
}

impl Totals {
    pub(super) fn of(model: &Model, graph: &Graph, style: Style) -> Self {
        let format = match model.format.as_deref() {
            Some("onnx") => "ONNX",
            Some("onnx-text") => "ONNX text",
            Some(other) => other,
            None => "unknown format",
        };
        let format = match model.producer.opsets.get("ai.onnx") {
            Some(opset) => format!("{format} opset {opset}"),
            None => printable(format).into_owned(),
        };
        Self { format, mark: mark(&graph.coverage, style), macs: graph.macs, batch: model.target.batch }
    }

    /// A total with its mark.
    fn marked(&self, text: String) -> String {
        if text.starts_with(UNKNOWN) { text } else { format!("{}{text}", self.mark) }
    }

    /// MACs a sample and in all; one figure where the two are the same.
    pub(super) fn macs(&self) -> String {
        let a_sample = match (self.macs, self.batch) {
            (Some(macs), Some(batch)) if batch > 1 && macs > 0 && macs % batch == 0 => Some(macs / batch),
            _ => None,
        };
        match a_sample {
            Some(macs) => {
                format!(
                    "{} a sample and {} in all",
                    self.marked(of_unit(Some(macs), "MACs")),
                    of_unit(self.macs, "MACs")
                )
            }
            None => self.marked(of_unit(self.macs, "MACs")),
        }
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

/// Passes, parameters, formula and coverage.
fn totals_block(model: &Model, graph: &Graph, totals: &Totals, style: Style) -> String {
    let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
    let Passes { forward, backward } = graph.flops;
    rows.push((
        "forward",
        vec![
            totals.marked(of_unit(graph.macs, "MACs")),
            totals.marked(of_unit(forward, "FLOPs")),
            format!("{} read and written", totals.marked(bytes_or_unknown(graph.bytes))),
        ],
    ));
    if model.target.mode != "infer" {
        rows.push(("backward", vec![totals.marked(of_unit(backward, "FLOPs"))]));
    }
    let parameters = &graph.parameters;
    let mut kinds = vec![format!("{} trainable", count(parameters.trainable))];
    if parameters.non_trainable != 0 {
        kinds.push(format!("{} not trainable", count(parameters.non_trainable)));
    }
    if parameters.constants != 0 {
        kinds.push(format!("{} in constant tables", count(parameters.constants)));
    }
    kinds.push(format!("{} stored", bytes(parameters.bytes)));
    rows.push(("parameters", kinds));
    let mut text = String::new();
    for (name, parts) in rows {
        text.push_str(&list(&head(name), &parts));
    }
    if let Some(formula) = graph.macs_formula.as_deref().filter(|formula| !is_number(formula)) {
        text.push_str(&paragraph(&head("formula"), &format!("{} MACs", printable(formula)), 4, style));
    }
    text.push_str(&coverage_line(graph));
    text
}

fn head(name: &str) -> String {
    format!("  {name:<12}")
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
        (true, false) => parts.push("so the totals are too low".to_owned()),
        (true, true) => parts.push("so the totals are no bounds in either direction".to_owned()),
        _ => {}
    }
    if parts.is_empty() { String::new() } else { list(&head("coverage"), &parts) }
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

/// The layers with the most MACs, then bytes.
fn layers_block(layers: &[Layer], top: usize, style: Style) -> String {
    if top == 0 || layers.is_empty() {
        return String::new();
    }
    let mut order: Vec<&Layer> = layers.iter().collect();
    // The sort is stable, so that equal layers stay in the order of the graph.
    order.sort_by_key(|layer| Reverse((layer.macs, layer.bytes)));
    order.truncate(top);
    let columns = [
        Column { title: "most MACs", right: false, most: usize::MAX },
        Column { title: "op", right: false, most: 20 },
        Column { title: "output", right: false, most: 24 },
        Column { title: "params", right: true, most: 9 },
        Column { title: "MACs", right: true, most: 11 },
        Column { title: "FLOPs", right: true, most: 11 },
        Column { title: "bytes", right: true, most: 11 },
    ];
    let rows: Vec<Vec<String>> = order.iter().map(|layer| row(layer, style)).collect();
    let mut text = format!("\n{}", table::lines(&columns, &rows, style));
    if order.len() < layers.len() {
        let more = format!("  ({} of {}; --top N shows more, --format json all)", order.len(), layers.len());
        text.push_str(&style.paint(Ink::Faint, &more));
        text.push('\n');
    }
    text
}

fn row(layer: &Layer, style: Style) -> Vec<String> {
    let bound = |text: String| {
        if layer.at_bound && text != UNKNOWN { format!("{} {text}", style.at_most()) } else { text }
    };
    vec![
        printable(&layer.key).into_owned(),
        printable(&layer.op).into_owned(),
        shape(layer.output_shape.as_deref(), style),
        if layer.parameters == 0 { String::new() } else { count(layer.parameters) },
        bound(count_or_unknown(layer.macs)),
        bound(count_or_unknown(layer.flops.forward)),
        bound(bytes_or_unknown(layer.bytes)),
    ]
}

/// `32×64×56×56`.
pub(super) fn shape(dims: Option<&[Extent]>, style: Style) -> String {
    match dims {
        None => UNKNOWN.to_owned(),
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

/// A diagnostic with its excerpt, help and notes.
fn finding_text(finding: &Finding, path: &str, explain: bool, style: Style) -> String {
    let ink = match finding.level {
        Level::Error => Ink::Error,
        Level::Warning => Ink::Warning,
        Level::Note => Ink::Note,
    };
    let kind = format!("{}[{} {}]:", finding.level, finding.code, finding.name);
    let message = fill(&printable(&finding.message), width(&kind) + 1, 2);
    let message: Vec<String> = message.iter().map(|line| style.paint(Ink::Strong, line)).collect();
    let mut text = format!("{} {}\n", style.paint(ink, &kind), message.join("\n  "));
    let first = finding.places.first();
    let title = first.map_or_else(|| printable(path).into_owned(), place_text);
    let drawing = finding.excerpt.as_ref().map_or_else(String::new, |excerpt| {
        // The path stands whole above, so the border may shorten it.
        snippet::draw(excerpt, &shorten(&title, COLUMNS - 12, style), style)
    });
    if drawing.is_empty() {
        text.push_str(&format!("  --> {title}\n"));
    } else {
        text.push_str(&drawing);
    }
    // A note counts them all.
    for place in finding.places.iter().skip(1).take(MORE_PLACES) {
        text.push_str(&format!("  also: {}\n", place_text(place)));
    }
    let mut line = |name: &str, content: &str| {
        let lines = fill(content, name.len() + 4, name.len() + 4);
        let lines = lines.join(&format!("\n{}", " ".repeat(name.len() + 4)));
        text.push_str(&format!("  {} {lines}\n", style.paint(Ink::Note, &format!("{name}:"))));
    };
    for note in &finding.notes {
        line("note", &printable(note));
    }
    if let Some(help) = &finding.help {
        line("help", &printable(help));
    }
    if explain {
        line("explain", &format!("dlcost explain {}", finding.code));
    }
    text
}

/// `model.onnx:7:3: graph main, node fc`.
fn place_text(place: &Location) -> String {
    let mut text = printable(&place.file).into_owned();
    for number in [place.line, place.line.and(place.column)].into_iter().flatten() {
        text.push_str(&format!(":{number}"));
    }
    let inside = inside(place);
    if !inside.is_empty() {
        text.push_str(": ");
        text.push_str(&inside);
    }
    text
}

/// `2 files, 1 error, 3 warnings`.
fn summary_line(summary: &Summary, style: Style) -> String {
    let mut parts = vec![plural(summary.files, "file")];
    for (number, noun, ink) in [
        (summary.errors, "error", Ink::Error),
        (summary.warnings, "warning", Ink::Warning),
        (summary.notes, "note", Ink::Note),
    ] {
        if number > 0 {
            parts.push(style.paint(ink, &plural(number, noun)));
        }
    }
    if parts.len() == 1 {
        parts.push("nothing found".to_owned());
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    fn rendered(report: &Report, style: Style) -> String {
        let mut out = Vec::new();
        write(report, 2, style, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_report_reads_from_assumptions_to_diagnostics() {
        insta::assert_snapshot!(rendered(&sample::report(), Style::PLAIN));
    }

    #[test]
    fn lines_fit_and_names_cannot_steer_the_terminal() {
        for unicode in [true, false] {
            let text = rendered(&sample::report(), Style { color: false, unicode });
            assert!(!text.contains('\u{1b}'));
            assert!(text.lines().all(|line| width(line) <= COLUMNS), "{text}");
            assert_eq!(text.contains('╭'), unicode);
        }
        assert!(rendered(&sample::report(), Style { color: true, unicode: true }).contains("\u{1b}[1;33mwarning["));
    }

    #[test]
    fn many_findings_of_one_code_are_counted() {
        let mut report = sample::report();
        let finding = report.models[1].diagnostics[0].clone();
        for (number, shown, counted) in [(6, 6, None), (9, 5, Some("4 more of DL0110 syntax-error"))] {
            report.models[1].diagnostics = vec![finding.clone(); number];
            let text = rendered(&report, Style::PLAIN);
            assert_eq!(text.matches("error[DL0110").count(), shown);
            assert!(counted.is_none_or(|line| text.contains(line)));
        }
    }

    #[test]
    fn long_lists_of_places_and_assumptions_end() {
        let mut report = sample::report();
        let model = &mut report.models[0];
        let finding = &mut model.diagnostics[0];
        finding.places = vec![finding.places[0].clone(); 9];
        let assumption = model.assumptions[0].clone();
        model.assumptions = vec![assumption; 30];
        let text = rendered(&report, Style::PLAIN);
        assert_eq!(text.matches("  also: ").count(), MORE_PLACES);
        assert!(text.contains("18 more (--format json)"), "{text}");
    }

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

    #[test]
    fn layers_without_a_figure_come_last_and_ties_keep_the_order() {
        let layers = [
            sample::layer("unknown", None, Some(9)),
            sample::layer("small", Some(0), Some(1)),
            sample::layer("first", Some(5), Some(1)),
            sample::layer("second", Some(5), Some(1)),
        ];
        let text = layers_block(&layers, 10, Style::PLAIN);
        let order: Vec<&str> = text.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(order, ["first", "second", "small", "unknown"]);
    }
}

//! A measured profile beside the prediction, as data: what `dlcost compare --format json` writes.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Assumption, Finding, Interval, Location, Model, Program, Target};
use crate::analysis::Analysis;
use crate::diagnostics::{Code, Level};
use crate::ir::hash::HashMap;
use crate::profile::layers::{Laid, lay};
use crate::profile::{Broken, Profile};

/// Name of this form of the report.
pub const SCHEMA: &str = "dlcost-compare/1";

/// A model's predicted layers beside those that a runtime measured.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Comparison {
    /// Always `dlcost-compare/1`.
    pub schema: String,
    /// The program that wrote it.
    pub dlcost: Program,
    /// Path of the model as it was given, or `-`.
    pub path: String,
    /// Path of the profile as it was given.
    pub profile: String,
    /// What the prediction holds for.
    pub target: Target,
    /// What was assumed because nothing said it.
    pub assumptions: Vec<Assumption>,
    /// What was measured; `null` where the profile cannot be read.
    pub measured: Option<Measured>,
    /// What is predicted; `null` where sizes that it depends on are not known.
    pub predicted: Option<Predicted>,
    /// Lines with their nodes, those that lie furthest apart first.
    pub rows: Vec<Row>,
    /// Lines that are of no node.
    pub apart: Vec<Apart>,
    /// Layers with a predicted time that no line is of.
    pub layers_without_line: Vec<LayerWithoutLine>,
    /// What hinders the comparison.
    pub diagnostics: Vec<Finding>,
}

/// What was measured. The sum of the lines and the time from end to end are two numbers: lines leave out gaps, and run
/// side by side.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Measured {
    /// The runtime that wrote the profile: `tensorrt` or `onnxruntime`.
    pub runtime: String,
    /// Runs that the times are averages over.
    pub runs: u64,
    /// `device`, or `host` where the host did not wait for the device.
    pub clock: String,
    /// Lines of the profile.
    pub lines: usize,
    /// Sum of all lines.
    pub sum_ms: f64,
    /// Sum of the lines with nodes.
    pub matched_ms: f64,
    /// Sum of the lines apart.
    pub apart_ms: f64,
    /// A run from end to end; `null` where nobody said it.
    pub end_to_end_ms: Option<f64>,
}

/// What is predicted.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Predicted {
    /// A run from end to end.
    pub end_to_end_ms: Interval,
    /// Sum of the layers.
    pub sum_ms: f64,
    /// Sum of the layers that a line is of.
    pub matched_ms: f64,
}

/// Lines and their nodes: one line for a node, one for several that are fused, or several that share a node.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Row {
    /// Names of the lines.
    pub lines: Vec<String>,
    /// Keys of the nodes, in running order.
    pub nodes: Vec<String>,
    /// Sum of the nodes' layers; `null` when it is not known. A layer that runs inside the kernel of another one has 0.
    pub predicted_ms: Option<f64>,
    /// Sum of the lines.
    pub measured_ms: f64,
    /// Predicted by measured; `null` where either is 0 or not known.
    pub ratio: Option<f64>,
}

/// A line that is of no node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Apart {
    /// Name of the line.
    pub line: String,
    /// `reformat`, `copy`, `opaque` (made by a compiler that keeps no names), `control_flow` (holds other lines), or
    /// `unmatched`.
    pub kind: String,
    /// Its time.
    pub measured_ms: f64,
}

/// A layer that no line is of.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LayerWithoutLine {
    /// As in `layers[]` of a report.
    pub key: String,
    /// Operator.
    pub op: String,
    /// Its predicted time.
    pub predicted_ms: f64,
}

/// Lays a profile beside the prediction of a model.
pub(crate) fn compare(
    analysis: Option<&Analysis>,
    model: &Model,
    profile: Result<&Profile, &Broken>,
    path: &str,
) -> Comparison {
    let mut comparison = Comparison {
        schema: SCHEMA.to_owned(),
        dlcost: Program::this(),
        path: model.path.clone(),
        profile: path.to_owned(),
        target: model.target.clone(),
        assumptions: model.assumptions.clone(),
        ..Comparison::default()
    };
    comparison.diagnostics = model.diagnostics.iter().filter(|found| found.level == Level::Error).cloned().collect();
    match (profile, analysis) {
        (Err(broken), _) => comparison.diagnostics.insert(0, finding(broken, path)),
        (Ok(profile), Some(analysis)) => fill(&mut comparison, analysis, model, profile),
        (Ok(_), None) => {}
    }
    comparison
}

fn fill(comparison: &mut Comparison, analysis: &Analysis, model: &Model, profile: &Profile) {
    let Laid { rows, apart } = lay(profile, &analysis.program);
    let layer_of: HashMap<_, _> =
        analysis.layers.iter().zip(&model.layers).map(|(at, layer)| ((at.graph, at.node), layer)).collect();
    // By position of the node.
    let nodes: Vec<_> = analysis.program.nodes().collect();
    let ms = |node: usize| {
        let (graph, index, _) = nodes.get(node)?;
        layer_of.get(&(*graph, *index)).map_or(Some(0.0), |layer| layer.time_ms.map(|time| time.p50))
    };
    let line = |number: usize| profile.lines.get(number);
    let mut has_line = vec![false; nodes.len()];
    for row in &rows {
        let measured_ms = row.lines.iter().filter_map(|&number| line(number)).fold(0.0, |sum, line| sum + line.ms);
        let predicted_ms = row.nodes.iter().try_fold(0.0, |sum, &node| Some(sum + ms(node)?));
        for &node in &row.nodes {
            if let Some(has) = has_line.get_mut(node) {
                *has = true;
            }
        }
        comparison.rows.push(Row {
            lines: row.lines.iter().filter_map(|&number| line(number)).map(|line| line.name.clone()).collect(),
            nodes: row
                .nodes
                .iter()
                .filter_map(|&node| nodes.get(node))
                .map(|(_, _, node)| node.key.to_string())
                .collect(),
            predicted_ms,
            measured_ms,
            ratio: predicted_ms.filter(|ms| *ms > 0.0 && measured_ms > 0.0).map(|ms| ms / measured_ms),
        });
    }
    let matched = |of: &dyn Fn(&Row) -> f64| comparison.rows.iter().fold(0.0, |sum, row| sum + of(row));
    let matched_ms = matched(&|row| row.measured_ms);
    let predicted_ms = matched(&|row| row.predicted_ms.unwrap_or_default());
    let distance = |row: &Row| (row.predicted_ms.unwrap_or_default() - row.measured_ms).abs();
    // The sort is stable, so that equal rows stay in the order of the profile.
    comparison.rows.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
    let kind = |(number, kind): &(usize, crate::profile::layers::Kind)| {
        let line = line(*number)?;
        Some(Apart { line: line.name.clone(), kind: kind.name().to_owned(), measured_ms: line.ms })
    };
    comparison.apart = apart.iter().filter_map(kind).collect();
    let alone = nodes.iter().zip(&has_line).filter(|(_, has)| !**has);
    let layers = alone.filter_map(|((graph, index, _), _)| layer_of.get(&(*graph, *index)));
    comparison.layers_without_line = layers
        .filter_map(|layer| {
            let predicted_ms = layer.time_ms?.p50;
            let (key, op) = (layer.key.clone(), layer.op.clone());
            (predicted_ms > 0.0).then_some(LayerWithoutLine { key: key.to_string(), op: op.to_string(), predicted_ms })
        })
        .collect();
    let sum = |times: &mut dyn Iterator<Item = f64>| times.fold(0.0, |sum, ms| sum + ms);
    comparison.measured = Some(Measured {
        runtime: profile.recorder.runtime().to_owned(),
        runs: profile.runs,
        clock: profile.clock.name().to_owned(),
        lines: profile.lines.len(),
        sum_ms: sum(&mut profile.lines.iter().map(|line| line.ms)),
        matched_ms,
        apart_ms: sum(&mut comparison.apart.iter().map(|apart| apart.measured_ms)),
        end_to_end_ms: profile.end_to_end_ms,
    });
    comparison.predicted = model.time_ms.map(|time| Predicted {
        end_to_end_ms: time.step,
        sum_ms: sum(&mut model.layers.iter().filter_map(|layer| layer.time_ms).map(|time| time.p50)),
        matched_ms: predicted_ms,
    });
}

/// A profile that cannot be read, as a finding.
fn finding(broken: &Broken, path: &str) -> Finding {
    let code = Code::BrokenProfile;
    Finding {
        code: code.number().to_owned(),
        name: code.name().to_owned(),
        level: code.default_level(),
        message: broken.message.clone(),
        places: vec![Location { file: path.into(), line: broken.line, column: broken.column, ..Location::default() }],
        help: Some("write it again with trtexec --exportProfile, or let the session end its profiling".to_owned()),
        notes: Vec::new(),
        unlisted: 0,
        excerpt: None,
    }
}

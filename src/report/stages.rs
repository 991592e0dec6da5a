//! Text of the stages that `--emit` prints.

mod kernels;
mod listing;
mod memory;

pub(crate) use kernels::kernels;
pub(crate) use memory::memory;

use std::fmt::Write;

use crate::analysis::Analysis;
use crate::engine::Mode;
use crate::ir::fact::Fact;
use crate::ir::graph::TensorId;
use crate::target::Target;

/// What the lines below hold for.
fn heading(target: &Target) -> String {
    let batch = target.batch.map_or_else(String::new, |batch| format!(", batch {batch}"));
    format!(
        "# {}, {}, {}{batch}, {}\n",
        target.device.id,
        target.runtime.text(target.version),
        if target.mode == Mode::Train { "training" } else { "inference" },
        target.precision.name()
    )
}

/// The resolved graph: a line for each node.
#[must_use]
pub fn graph(analysis: &Analysis) -> String {
    write_nodes(analysis, &|name, _| name.to_owned())
}

/// The graph with the type of every tensor.
#[must_use]
pub fn shapes(analysis: &Analysis) -> String {
    write_nodes(analysis, &|name, tensor| format!("{name}: {}", fact_text(analysis.inference.fact(tensor))))
}

fn write_nodes(analysis: &Analysis, shown: &dyn Fn(&str, TensorId) -> String) -> String {
    let mut text = String::new();
    let show = |tensor: &Option<TensorId>, text: &dyn Fn(&str, TensorId) -> String| {
        let found = tensor.and_then(|id| analysis.program.tensor(id).map(|tensor| (id, tensor.path())));
        found.map_or_else(|| "\"\"".to_owned(), |(id, name)| text(&name, id))
    };
    let list = |tensors: &[Option<TensorId>], with: &dyn Fn(&str, TensorId) -> String| {
        tensors.iter().map(|tensor| show(tensor, with)).collect::<Vec<_>>().join(", ")
    };
    let plain = |name: &str, _: TensorId| name.to_owned();
    for graph in &analysis.program.graphs {
        let inputs: Vec<_> = graph.inputs.iter().copied().map(Some).collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "graph {} ({}) => ({})", graph.path, list(&inputs, shown), list(&graph.outputs, shown));
        for (_, node) in graph.nodes() {
            let _ = writeln!(
                text,
                "  {} = {} ({}) => ({})",
                node.key,
                node.op,
                list(&node.inputs, &plain),
                list(&node.outputs, shown)
            );
        }
    }
    text
}

/// A fact in the words of ONNX text: `float[batch,3,224,224]`.
#[must_use]
pub fn fact_text(fact: &Fact) -> String {
    match fact {
        Fact::Unknown => "?".to_owned(),
        Fact::Tensor(tensor) => {
            let element = tensor.element.map_or("?", |element| element.name());
            match &tensor.shape {
                None => format!("{element}[?]"),
                Some(shape) if shape.rank() == 0 => element.to_owned(),
                Some(shape) => {
                    let dims: Vec<_> = shape.dims().iter().map(ToString::to_string).collect();
                    format!("{element}[{}]", dims.join(","))
                }
            }
        }
        Fact::Sequence(sequence) => {
            let mut elements: Vec<_> = sequence.facts().iter().map(fact_text).collect();
            elements.dedup();
            format!("seq({})", elements.join(" | "))
        }
        Fact::Optional(inner) => format!("optional({})", fact_text(inner)),
        Fact::Map => "map".to_owned(),
    }
}

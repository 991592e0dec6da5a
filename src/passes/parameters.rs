//! What each stored tensor is: a trained weight, a running statistic, a table that is neither, or a setting.

use petgraph::stable_graph::NodeIndex;

use super::ties;
use crate::frontend::onnx::model::Payload;
use crate::ir::element_type::ElementType;
use crate::ir::graph::{GraphId, Holder, Node, Origin, Program, Stored, StoredId, TensorId};
use crate::ir::hash::HashSet;
use crate::ops::Role;

/// What a stored tensor is to training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A weight that training changes.
    Trainable,
    /// Running statistics.
    Statistic,
    /// A table of floats that is neither.
    Constant,
    /// Integers that feed shapes and indices, text, and tensors that nothing reads.
    Other,
}

/// A stored tensor as the graph uses it.
#[derive(Clone, Debug)]
pub struct Usage {
    /// What it is.
    pub kind: Kind,
    /// Parameters that it holds (packed ones unpacked).
    pub elements: i128,
    /// Bytes that it takes in the file or beside it; 0 where another tensor has the same ones.
    pub bytes: i128,
    /// Nodes that read it, in running order.
    pub readers: Vec<(GraphId, NodeIndex)>,
    /// Its elements count under another name.
    pub repeats: bool,
}

/// Classifies every stored tensor, by [`StoredId`].
#[must_use]
pub fn classify(program: &Program) -> Vec<Usage> {
    let mut uses: Vec<Vec<Use<'_>>> = vec![Vec::new(); program.stored.len()];
    for (graph, index, node) in program.nodes() {
        for (input, tensor) in node.inputs.iter().enumerate() {
            let Some(StoredId(stored)) = tensor.and_then(|tensor| stored_of(program, tensor)) else { continue };
            let role = node.operator.as_ref().map_or(Role::Data, |operator| operator.role(input));
            if let Some(uses) = uses.get_mut(stored as usize) {
                uses.push((graph, index, role, node, input));
            }
        }
    }
    let mut seen = HashSet::default();
    let matrices: Vec<_> =
        uses.iter().map(|uses| uses.iter().find_map(|(_, _, _, node, _)| ties::use_of(node))).collect();
    let tied: HashSet<usize> = ties::repeated(&program.stored, &matrices).into_iter().collect();
    let names = Names(
        program.stored.iter().filter_map(|stored| program.tensor(stored.tensor)).map(|tensor| &*tensor.name).collect(),
    );
    let keeps_initializers = keeps_weights_in_initializers(program, &uses);
    program
        .stored
        .iter()
        .enumerate()
        .zip(uses)
        .map(|((index, stored), uses)| {
            let kind = kind_of(program, stored, &uses, keeps_initializers, &names);
            let packed = uses.iter().find_map(|(_, _, _, node, input)| {
                node.operator.as_ref().and_then(|operator| operator.stored_elements(*input))
            });
            let count = i128::try_from(stored.def.element_count().unwrap_or(0)).unwrap_or(i128::MAX);
            let elements = packed.and_then(|dim| dim.as_const()).unwrap_or(count);
            let shares_bytes = external_range(stored).is_some_and(|range| !seen.insert(range));
            let bytes = if shares_bytes { 0 } else { stored.def.stored_bytes().unwrap_or(0) };
            let bytes = i128::try_from(bytes).unwrap_or(i128::MAX);
            let repeats = shares_bytes || tied.contains(&index) || is_said_to_repeat(program, stored);
            Usage {
                kind,
                elements,
                bytes,
                readers: uses.iter().map(|(graph, index, ..)| (*graph, *index)).collect(),
                repeats,
            }
        })
        .collect()
}

/// Whether a tensor without values repeats another one by the word of the file.
fn is_said_to_repeat(program: &Program, stored: &Stored) -> bool {
    matches!(stored.def.data, Payload::Missing)
        && !program.tied.is_empty()
        && program.tensor(stored.tensor).is_some_and(|tensor| program.tied.contains(&*tensor.path()))
}

/// Paths of the tensors whose values repeat another's, for a text that leaves the values out.
pub fn repeated_values<'a>(program: &'a Program, usages: &'a [Usage]) -> impl Iterator<Item = String> + 'a {
    let repeated =
        |(stored, usage): &(&Stored, &Usage)| usage.repeats && !matches!(stored.def.data, Payload::External(_));
    let paths = program.stored.iter().zip(usages).filter(repeated);
    paths.filter_map(|(stored, _)| program.tensor(stored.tensor).map(crate::ir::graph::Tensor::path))
}

fn stored_of(program: &Program, tensor: TensorId) -> Option<StoredId> {
    match program.tensor(tensor)?.origin {
        Origin::Stored(stored) => Some(stored),
        _ => None,
    }
}

/// Location, offset and size of external data: two names for one range are one weight.
fn external_range(stored: &Stored) -> Option<(String, String, Option<u128>)> {
    match &stored.def.data {
        Payload::External(data) => {
            let offset = data.get("offset").unwrap_or("0").to_owned();
            Some((data.get("location")?.to_owned(), offset, stored.def.stored_bytes()))
        }
        _ => None,
    }
}

type Use<'a> = (GraphId, NodeIndex, Role, &'a Node, usize);

/// Last parts of names that modules give to tables which are stored and never trained.
const BUFFERS: &[&str] = &[
    "inv_freq",
    "original_inv_freq",
    "cos_cached",
    "sin_cached",
    "relative_coords_table",
    "position_ids",
    "attn_mask",
    "masked_bias",
    "anchors",
];

/// Whether some float initializer is a weight. Then the file's `Constant` nodes hold numbers of the code that was
/// exported (filters of a blur, the ones and zeros of a normalisation without weights), else they hold the weights.
fn keeps_weights_in_initializers(program: &Program, uses: &[Vec<Use<'_>>]) -> bool {
    program.stored.iter().zip(uses).any(|(stored, uses)| {
        stored.holder != Holder::Constant
            && stored.element().is_some_and(ElementType::is_real)
            && uses.iter().any(|(_, _, role, ..)| *role == Role::Weight)
    })
}

fn kind_of(program: &Program, stored: &Stored, uses: &[Use<'_>], keeps_initializers: bool, names: &Names<'_>) -> Kind {
    let Some(element) = stored.element() else { return Kind::Other };
    if !program.not_trained.is_empty()
        && program.tensor(stored.tensor).is_some_and(|tensor| program.not_trained.contains(&tensor.name))
    {
        return Kind::Statistic;
    }
    let real = element.is_real() || element.is_complex();
    let quantised = element.is_integer() && element.bits() <= 8;
    let bias = element == ElementType::Int32;
    if !(real || quantised || bias) || uses.is_empty() {
        return Kind::Other;
    }
    let otherwise = if real { Kind::Constant } else { Kind::Other };
    let name = program.tensor(stored.tensor).map_or("", |tensor| &tensor.name);
    if BUFFERS.contains(&name.rsplit(['.', '/']).next().unwrap_or(name)) {
        return otherwise;
    }
    if stored.holder == Holder::Constant && keeps_initializers {
        return otherwise;
    }
    if uses.iter().any(|(_, _, role, ..)| *role == Role::Statistic) {
        return Kind::Statistic;
    }
    // A quantised scalar is a zero point.
    let several = stored.def.element_count() != Some(1);
    let is_weight = uses.iter().any(|(_, _, role, node, _)| match role {
        Role::Weight if real => true,
        // Tables of indices are looked up too; of integers only quantised weights are parameters.
        Role::Weight => several && (quantised || bias && dequantises(&node.op)),
        Role::Data if real => is_stored_weight(program, stored) && !names.is_scale_of_quantised(name),
        Role::Data => several && &*node.op == "DequantizeLinear",
        Role::Statistic | Role::Setting => false,
    });
    if is_weight { Kind::Trainable } else { otherwise }
}

/// Operators whose 32-bit integers are biases.
fn dequantises(op: &str) -> bool {
    ["DequantizeLinear", "QLinear", "QGemm", "ConvInteger", "MatMulInteger"].iter().any(|name| op.contains(name))
}

/// Names of all stored tensors.
struct Names<'a>(HashSet<&'a str>);

impl Names<'_> {
    /// A scale beside the zero point of the same quantised tensor.
    fn is_scale_of_quantised(&self, name: &str) -> bool {
        name.strip_suffix("_scale").is_some_and(|tensor| self.0.contains(format!("{tensor}_zero_point").as_str()))
    }
}

/// Whether a float tensor that takes part in arithmetic is a weight rather than a number of the code that was
/// exported: exporters write such numbers as `Constant` nodes, or as one-element initializers with a made-up name.
fn is_stored_weight(program: &Program, stored: &Stored) -> bool {
    if stored.holder == Holder::Constant {
        return false;
    }
    let single = stored.def.element_count() == Some(1);
    let name = program.tensor(stored.tensor).map_or("", |tensor| &tensor.name);
    !(single && is_made_up(name))
}

/// A name that an exporter made up: in a namespace of its own, or ending in a running number.
fn is_made_up(name: &str) -> bool {
    let tail = name.rsplit(['_', ':']).next().unwrap_or(name);
    let numbered = !tail.is_empty() && tail.bytes().all(|byte| byte.is_ascii_digit());
    let lower = name.to_lowercase();
    let generic = ["const", "scalar", "val_", "tensor"].iter().any(|word| lower.starts_with(word));
    name.contains("::") || numbered || generic
}

//! Operators of `com.microsoft` that serving engines put around the layers of a decoder: packed tables, n-gram hashes,
//! routers, residual streams, recurrences over packed tokens, and the states that a speculation leaves.

use super::operands::{count, element_attribute};
use super::softmax::SOFTMAX;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, product};

#[derive(Debug)]
enum Serving {
    /// `GatherPacked`: rows of a table in a packed format.
    Table { width: i64, element: Option<ElementType> },
    /// `NGramHashMapping`, `VarlenNGramHashMapping`: numbers of the n-grams that end at a token, for orders from two on.
    NGrams { history: i64, heads: i64, packed: bool, captured: i64 },
    /// `MoEGroupRouter`: scores of experts, of which few are kept.
    Router,
    /// `MoEPacked`: each token through the experts chosen for it, whose weights are packed.
    Experts { chosen: i64 },
    /// `HyperConnectionPreMix`, `HyperConnectionPostMix`: streams into one, and back.
    Streams { branches: i64, splits: bool },
    /// `HyperConnectionLowRankMix`: the same with gates through few columns.
    LowRank { branches: i64 },
    /// `RMSNormRotary`: a slice of each head, normalised and rotated.
    Rotated { width: i64, flat: bool, element: ElementType },
    /// `GatedDeltaNet`: a state for each head takes in one packed token after the other.
    Recurrence { delta: bool },
    /// `VarlenCausalConvWithState`: along packed tokens.
    Convolution { captured: i64 },
    /// `SpeculativePrefixCommit`: words of control.
    Commit,
    /// `PackedSparseAttentionIndexerMerge`: a union of lists.
    Merge { entries: i64 },
    /// `QuantizeBFP`: blocks that share an exponent, as bytes whose number only the library knows.
    ToBlocks,
    /// `DequantizeBFP`: the tensor again.
    FromBlocks { element: Option<ElementType> },
    /// `BifurcationDetector`: tokens up to where a speculation went wrong.
    Detector,
}

/// Words of control of a sample.
const CONTROL_WORDS: i128 = 16;

/// Every operator of this file.
pub(super) fn serving(node: &NodeView<'_>) -> Built {
    let required = |name: &str| count(name, node.int(name)?.ok_or_else(|| node.missing(name))?);
    let size = |name: &str| Ok::<_, Fault>(node.int_or(name, 0)?.max(0));
    let captured = size("state_update_capacity")?;
    Ok(Box::new(match node.op_type() {
        "GatherPacked" => Serving::Table {
            width: required("K")?,
            element: element_attribute("output_dtype", node.int_or("output_dtype", 16)?)?,
        },
        name @ ("NGramHashMapping" | "VarlenNGramHashMapping") => {
            let order = required("max_ngram_size")?;
            if order < 2 {
                return Err(Fault::attribute("attribute max_ngram_size is 1, at least 2 is allowed"));
            }
            let packed = name == "VarlenNGramHashMapping";
            Serving::NGrams { history: order - 1, heads: required("n_head_per_ngram")?, packed, captured }
        }
        "MoEGroupRouter" => Serving::Router,
        "MoEPacked" => Serving::Experts { chosen: count("k", node.int_or("k", 1)?)? },
        "HyperConnectionPreMix" => Serving::Streams { branches: size("num_branches")?, splits: false },
        "HyperConnectionPostMix" => Serving::Streams { branches: size("num_branches")?, splits: true },
        "HyperConnectionLowRankMix" => Serving::LowRank { branches: required("num_branches")? },
        "RMSNormRotary" => Serving::Rotated {
            width: size("input_width")?,
            flat: node.flag("flatten_batch", false)?,
            element: if node.flag("output_fp16", false)? { ElementType::Float16 } else { ElementType::Bfloat16 },
        },
        "GatedDeltaNet" => {
            Serving::Recurrence { delta: node.string("update_rule")?.unwrap_or("gated_delta").ends_with("delta") }
        }
        "VarlenCausalConvWithState" => Serving::Convolution { captured },
        "SpeculativePrefixCommit" => Serving::Commit,
        "PackedSparseAttentionIndexerMerge" => Serving::Merge { entries: required("max_output_entries")? },
        "QuantizeBFP" => Serving::ToBlocks,
        "DequantizeBFP" => Serving::FromBlocks { element: element_attribute("dtype", node.int_or("dtype", 1)?)? },
        _ => Serving::Detector,
    }))
}

/// Tokens, heads and sizes of a recurrence.
struct Recurrence {
    tokens: Vec<Dim>,
    heads: Dim,
    key: Dim,
    value: Dim,
}

/// Sizes of a recurrence: of query, key and value, or of all in one and a state.
fn recurrence<'a>(shape: impl Fn(usize) -> Option<&'a Shape>) -> Option<Recurrence> {
    let query = shape(0)?;
    match (shape(2), shape(6)) {
        (Some(value), _) => {
            let (size, rest) = value.dims().split_last()?;
            let (heads, tokens) = rest.split_last()?;
            let (key, others) = query.dims().split_last()?;
            let heads = heads.max(others.last()?);
            Some(Recurrence { tokens: tokens.to_vec(), heads, key: key.clone(), value: size.clone() })
        }
        (None, Some(state)) => match state.dims() {
            [_, heads, value, key] => {
                let (heads, key, value) = (heads.clone(), key.clone(), value.clone());
                Some(Recurrence { tokens: query.dims().split_last()?.1.to_vec(), heads, key, value })
            }
            _ => None,
        },
        (None, None) => None,
    }
}

/// Number of streams and elements of each.
fn streams(shape: &Shape, branches: i64) -> Option<(Vec<Dim>, Dim, Dim)> {
    let (last, rest) = shape.dims().split_last()?;
    if branches > 0 {
        let branches = Dim::from(branches);
        return Some((rest.to_vec(), branches.clone(), last.floor_div(&branches)));
    }
    let (branches, rest) = rest.split_last()?;
    Some((rest.to_vec(), branches.clone(), last.clone()))
}

/// Element type and dims of an output, as far as they are known.
type Typed = (Option<ElementType>, Option<Vec<Dim>>);

impl Serving {
    /// Types and dims of the outputs; `None` for one whose rank is not known.
    fn outputs(&self, cx: &mut InferCx<'_>) -> Option<Vec<Typed>> {
        let first = cx.shape(0).map(|shape| shape.dims().to_vec());
        let like =
            |cx: &InferCx<'_>, input: usize| (cx.element(input), cx.shape(input).map(|shape| shape.dims().to_vec()));
        let element = cx.element(0);
        let float = Some(ElementType::Float);
        // Starts of samples are one more than samples.
        let samples = |cx: &InferCx<'_>, input: usize| Some(cx.shape(input)?.dim(0)?.clone() - 1);
        Some(match self {
            Self::Table { width, element } => {
                let mut dims = cx.shape(1)?.dims().to_vec();
                dims.push(Dim::from(*width));
                vec![(*element, Some(dims))]
            }
            Self::NGrams { history, heads, packed, captured } => {
                let mut hashes = first?;
                let batch = if *packed { samples(cx, 3) } else { hashes.first().cloned() };
                hashes.push(Dim::from(history.saturating_mul(*heads)));
                let state = batch.as_ref().map(|batch| vec![batch.clone(), Dim::from(*history)]);
                let update = batch.map(|batch| vec![batch, Dim::from(*captured), Dim::from(*history)]);
                let segments = Some(ElementType::Int32);
                vec![(element, Some(hashes)), (element, state.clone()), (segments, state), (element, update)]
            }
            Self::Router => {
                let (last, rest) = first.as_ref()?.split_last()?;
                let experts = cx.shape(2).and_then(|weight| weight.dim(0)).unwrap_or(last);
                let scores = Some(vec![product(rest), experts.clone()]);
                vec![(element, scores.clone()), (float, scores.clone()), (float, scores)]
            }
            Self::Experts { .. } => vec![(element, first)],
            Self::Streams { splits: true, .. } => vec![(element, first)],
            Self::Streams { branches, splits: false } => {
                let (mut dims, _, width) = streams(cx.shape(0)?, *branches)?;
                dims.push(width);
                vec![(element, Some(dims))]
            }
            Self::LowRank { branches } => {
                let (rest, branches, width) = streams(cx.shape(0)?, *branches)?;
                let with = |last: Dim| Some(rest.iter().cloned().chain([last]).collect());
                vec![(element, with(width)), (element, with(branches)), (element, first)]
            }
            Self::Rotated { width, flat, element } => {
                let [batch, tokens, heads, stride] = first.as_deref()? else { return None };
                let width = if *width > 0 { Dim::from(*width) } else { stride.clone() };
                let row = heads * &width;
                let dims =
                    if *flat { vec![Dim::ONE, batch * tokens, row] } else { vec![batch.clone(), tokens.clone(), row] };
                let whole = vec![batch.clone(), tokens.clone(), heads.clone(), width];
                vec![(Some(*element), Some(dims)), (float, Some(whole))]
            }
            Self::Recurrence { .. } => {
                let sizes = recurrence(|input| cx.shape(input))?;
                let batch = match cx.shape(6).and_then(|state| state.dim(0)).cloned().or_else(|| samples(cx, 3)) {
                    Some(batch) => batch,
                    None => cx.fresh_dim(1, 0, 0, None),
                };
                let output = sizes.tokens.into_iter().chain([sizes.heads.clone(), sizes.value.clone()]).collect();
                let state = vec![batch, sizes.heads, sizes.value, sizes.key];
                vec![(element, Some(output)), (float, Some(state)), (float, None)]
            }
            Self::Convolution { captured } => {
                let channels = first.as_ref()?.last()?.clone();
                let update = samples(cx, 2).map(|batch| vec![batch, Dim::from(*captured), channels]);
                vec![(element, first), like(cx, 4), (element, update)]
            }
            Self::Commit => {
                let batch = cx.shape(3)?.elements().floor_div(&Dim::constant(CONTROL_WORDS));
                vec![(Some(ElementType::Int32), Some(vec![batch])), like(cx, 3), like(cx, 4)]
            }
            Self::Merge { entries } => {
                let rows = cx.shape(2)?.dim(0)?.clone();
                let counts = (element, Some(vec![rows.clone()]));
                vec![(element, Some(vec![rows, Dim::from(*entries)])), counts.clone(), counts]
            }
            Self::ToBlocks => {
                let rank = Dim::from(first?.len());
                let bytes = vec![cx.fresh_dim(0, 0, 0, None)];
                let list = (Some(ElementType::Int64), Some(vec![rank]));
                vec![(Some(ElementType::Uint8), Some(bytes)), list.clone(), list]
            }
            Self::FromBlocks { element } => {
                let dims = cx.integers(1).filter(|dims| dims.iter().all(|dim| dim.range().0.is_some_and(|lo| lo >= 0)));
                vec![(*element, dims)]
            }
            Self::Detector => {
                let given = |input: usize| cx.shape(input).map(Shape::elements);
                let most = given(1).map(|current| current + given(3).unwrap_or(Dim::ZERO));
                vec![(element, Some(vec![cx.fresh_dim(0, 0, 0, most)])), like(cx, 2)]
            }
        })
    }

    /// Rows, inner dim and columns of each matrix product.
    fn products<'a>(&self, shape: impl Fn(usize) -> Option<&'a Shape>) -> Option<Vec<[Dim; 3]>> {
        let rows = || Some(product(shape(0)?.dims().split_last()?.1));
        Some(match self {
            Self::Router => match shape(2).map(Shape::dims) {
                Some([experts, width]) => vec![[rows()?, width.clone(), experts.clone()]],
                _ => Vec::new(),
            },
            Self::Experts { chosen } => {
                let (width, inner) = (shape(0)?.dims().last()?.clone(), shape(2)?.dim(1)?.clone());
                let routed = rows()? * i128::from(*chosen);
                let up = [routed.clone(), width.clone(), inner.clone()];
                let twice = shape(3).map(|_| up.clone());
                [up].into_iter().chain(twice).chain([[routed, inner, width]]).collect()
            }
            Self::LowRank { .. } => {
                let of = |weight: usize| match shape(weight)?.dims() {
                    [inner, columns] => Some([rows()?, inner.clone(), columns.clone()]),
                    _ => None,
                };
                [of(2)?, of(3)?, of(4)?].into()
            }
            Self::Streams { branches, splits: true } if shape(3).is_some() => {
                let (tokens, branches, width) = streams(shape(0)?, *branches)?;
                vec![[product(&tokens) * width, branches.clone(), branches]]
            }
            Self::Recurrence { delta } => {
                let Recurrence { tokens, heads, key, value } = recurrence(shape)?;
                // The state is added to, read, and under a delta rule read once more.
                let times = 2 + i128::from(*delta);
                vec![[product(&tokens) * heads * times, key, value]]
            }
            Self::Convolution { .. } => {
                let kernel = shape(1)?.dims().last()?.clone();
                vec![[shape(0)?.elements(), kernel, Dim::ONE]]
            }
            _ => Vec::new(),
        })
    }

    /// Operations beside the products for each element of the first output, and whether any gradient passes.
    fn beside(&self, has: impl Fn(usize) -> bool) -> (i128, bool) {
        match self {
            Self::Table { .. } | Self::FromBlocks { .. } | Self::ToBlocks => (2, false),
            Self::NGrams { .. } => (3, false),
            Self::Router => (SOFTMAX, true),
            Self::Experts { chosen } => (2 * i128::from(*chosen), true),
            Self::Streams { .. } => (2, true),
            Self::LowRank { .. } => (12, true),
            Self::Rotated { .. } => (8, true),
            Self::Recurrence { delta } => (1 + 2 * i128::from(*delta), true),
            Self::Convolution { .. } => (i128::from(has(3)), true),
            Self::Commit | Self::Merge { .. } | Self::Detector => (0, false),
        }
    }
}

impl Operator for Serving {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let Some(outputs) = self.outputs(cx) else { return Ok(Vec::new()) };
        let facts = outputs.into_iter().take(cx.output_count());
        Ok(facts.map(|(element, dims)| Fact::tensor(element, dims.map(Shape::new))).collect())
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let products = self.products(|input| cx.shape_in(input))?;
        let macs: Dim = products.into_iter().map(|[m, k, n]| m * k * n).sum();
        let (operations, trains) = self.beside(|input| cx.has(input));
        if macs.as_const() == Some(0) && operations == 0 {
            return Cost::moved(cx);
        }
        let written = cx.shape_out(0).or_else(|| cx.shape_out(1)).map(Shape::elements)?;
        let other = written * operations;
        let gradients = if trains { i128::from(cx.gradient_count() > 0) } else { 0 };
        let backward = (&macs * 4 + &other) * gradients;
        Cost::composed(cx, macs, &other, backward)
    }

    fn role(&self, input: usize) -> Role {
        match (self, input) {
            (_, 0) => Role::Data,
            (Self::Table { .. }, _) | (Self::Recurrence { .. } | Self::Streams { .. }, 1 | 2) => Role::Data,
            (Self::Router, 1 | 2) | (Self::Experts { .. }, 2..=4) | (Self::LowRank { .. }, 1..=4) => Role::Weight,
            (Self::Rotated { .. }, 1) | (Self::Convolution { .. }, 1 | 3) => Role::Weight,
            (Self::LowRank { .. }, 5 | 6) | (Self::Recurrence { .. }, 4..=6) | (Self::Convolution { .. }, 4) => {
                Role::Data
            }
            _ => Role::Setting,
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let shape = |input: usize| -> Option<Shape> {
            Some(cx.input(input)?.dims.iter().map(|&dim| Dim::constant(i128::from(dim))).collect())
        };
        let shapes: Vec<Option<Shape>> = (0..cx.inputs.len()).map(shape).collect();
        let number = |dim: &Dim| dim.as_usize().map(|dim| dim as u64);
        let mut items: Vec<Work> = Vec::new();
        let products = self.products(|input| shapes.get(input)?.as_ref()).unwrap_or_default();
        for (place, sizes) in products.iter().enumerate() {
            let [Some(m), Some(k), Some(n)] = sizes.each_ref().map(number) else { return vec![cx.elementwise()] };
            let family = Family::Product { batch: 1, m, n, k };
            let left = cx.rest(&items, family);
            items.push(if place + 1 < products.len() {
                cx.part(family, (2.0 * m as f64 * n as f64 * k as f64).min(left.flops), 0.0)
            } else {
                left
            });
        }
        match self {
            _ if !items.is_empty() => items,
            Self::Table { .. } | Self::ToBlocks | Self::FromBlocks { .. } | Self::Commit => vec![cx.moved()],
            Self::Router | Self::Merge { .. } => {
                let cols = cx.output(0).and_then(|output| output.dim_from_end(0)).unwrap_or(1);
                let elements = cx.output(0).map_or(0, |output| output.elements());
                vec![cx.all(Family::Sort { rows: elements.checked_div(cols).unwrap_or_default(), cols })]
            }
            _ => vec![cx.elementwise()],
        }
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let (_, trains) = self.beside(|input| cx.input(input).is_some());
        Saved::inputs(0..3).when(trains && cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ops::testing::{TestNode, dims, float, ints, microsoft, typed};

    fn shapes(node: TestNode, inputs: &[Option<Fact>]) -> Vec<String> {
        node.run_optional(inputs).unwrap().0.iter().map(dims).collect()
    }

    fn some(facts: &[Fact]) -> Vec<Option<Fact>> {
        facts.iter().cloned().map(Some).collect()
    }

    #[test]
    fn a_recurrence_keeps_a_state_for_each_sample() {
        let node = || microsoft("GatedDeltaNet").outputs(2);
        let starts = typed(ElementType::Int32, &[4]);
        let split = some(&[float(&[10, 2, 16]), float(&[10, 2, 16]), float(&[10, 4, 32]), starts]);
        assert_eq!(shapes(node(), &split), ["10×4×32", "3×4×32×16"]);
        let state = Some(float(&[3, 4, 32, 16]));
        let packed = [Some(float(&[10, 2 * 2 * 16 + 4 * 32])), None, None, None, None, None, state];
        assert_eq!(shapes(node(), &packed), ["10×4×32", "3×4×32×16"]);
        assert_eq!(node().run_optional(&packed).unwrap().2.unwrap().macs, Dim::constant(10 * 4 * 3 * 16 * 32));
    }

    #[test]
    fn hashes_stand_in_a_last_dim() {
        let node =
            |name| microsoft(name).int("max_ngram_size", 3).int("n_head_per_ngram", 4).int("pad_id", 0).outputs(2);
        let ids = |dims: &[i128]| typed(ElementType::Int64, dims);
        let inputs = some(&[ids(&[2, 7]), ids(&[3]), ids(&[8])]);
        assert_eq!(shapes(node("NGramHashMapping"), &inputs), ["2×7×8", "2×2"]);
        let inputs = some(&[ids(&[7]), ids(&[3]), ids(&[8]), typed(ElementType::Int32, &[3])]);
        assert_eq!(shapes(node("VarlenNGramHashMapping"), &inputs), ["7×8", "2×2"]);
    }

    #[test]
    fn streams_are_mixed_into_one_and_back() {
        let node = |name| microsoft(name).int("num_branches", 4);
        let flat = float(&[2, 3, 64]);
        assert_eq!(shapes(node("HyperConnectionPreMix"), &some(&[flat.clone(), float(&[2, 3, 4])])), ["2×3×16"]);
        let back = some(&[flat.clone(), float(&[2, 3, 16]), float(&[2, 3, 4]), float(&[2, 3, 4, 4])]);
        assert_eq!(shapes(node("HyperConnectionPostMix"), &back), ["2×3×64"]);
        let weights = [float(&[64]), float(&[64, 8]), float(&[8, 64]), float(&[64, 4])];
        let mixed = some(&[&[flat][..], &weights].concat());
        assert_eq!(shapes(node("HyperConnectionLowRankMix").outputs(3), &mixed), ["2×3×16", "2×3×4", "2×3×64"]);
    }

    #[test]
    fn packed_experts_are_counted_for_the_chosen() {
        let bytes = |dims: &[i128]| typed(ElementType::Uint8, dims);
        let inputs =
            some(&[float(&[2, 3, 64]), float(&[6, 8]), bytes(&[8, 32, 18]), bytes(&[8, 32, 18]), bytes(&[8, 64, 9])]);
        let node = || microsoft("MoEPacked").int("k", 2).int("gate_type", 2).int("down_type", 2);
        assert_eq!(shapes(node(), &inputs), ["2×3×64"]);
        assert_eq!(node().run_optional(&inputs).unwrap().2.unwrap().macs, Dim::constant(6 * 2 * 3 * 64 * 32));
    }

    #[test]
    fn blocks_come_back_in_the_shape_that_was_kept() {
        let node = microsoft("QuantizeBFP").int("bfp_type", 1).outputs(3);
        assert_eq!(shapes(node, &some(&[float(&[2, 8])])), ["y0.0", "2", "2"]);
        let blob = typed(ElementType::Uint8, &[20]);
        let node = microsoft("DequantizeBFP").int("bfp_type", 1);
        assert_eq!(node.dims(&[blob, ints(&[2, 8]), ints(&[8, 1])]), "2×8");
    }

    #[test]
    fn a_slice_of_each_head_is_rotated() {
        let node = || microsoft("RMSNormRotary").int("rotary_embedding_dim", 16).int("input_width", 32);
        let inputs = some(&[typed(ElementType::Float16, &[2, 5, 4, 96]), float(&[32])]);
        assert_eq!(shapes(node(), &inputs), ["2×5×128"]);
        assert_eq!(shapes(node().int("flatten_batch", 1), &inputs), ["1×10×128"]);
    }
}

//! Attention of `com.microsoft` over a cache that is laid out in pages, or of which a part is read: `PagedAttention`,
//! `SparsePagedAttention`, `DynamicSparseAttention`, `SparseAttention`. Which entries are read depends on data; as many
//! are counted as inputs have room for.

use super::attention::{Scores, kept};
use super::microsoft_attention::{head_size_of, num_heads};
use super::operands::count;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, product};

/// What a query reads of the cache.
#[derive(Debug)]
enum Reads {
    /// All pages of its sequence: pages of the key cache, listed by a table.
    Pages,
    /// Entries that an input lists, and a window before it; the list stands at a place.
    Listed { list: usize, window: i64 },
    /// Blocks of a mask in compressed rows, of so many tokens.
    Blocks { size: i64 },
}

#[derive(Debug)]
struct CachedAttention {
    heads: i64,
    kv_heads: i64,
    /// Whether query and key are rotated by their positions first.
    rotary: bool,
    /// Elements of a value, where they differ from those of a key.
    value_size: Option<i64>,
    /// Whether key and value are one.
    latent: bool,
    reads: Reads,
}

/// Every operator of this file.
pub(super) fn cached_attention(node: &NodeView<'_>) -> Built {
    let heads = num_heads(node)?;
    let kv_heads = node.int("kv_num_heads")?.ok_or_else(|| node.missing("kv_num_heads"))?;
    let kv_heads = count("kv_num_heads", kv_heads)?;
    if heads % kv_heads != 0 {
        return Err(Fault::attribute(format!(
            "attribute num_heads is {heads}, no multiple of kv_num_heads {kv_heads}"
        )));
    }
    let window = match node.string("attention_mode")? {
        Some("local_plus_selected") => node.int_or("local_window_size", 0)?.max(0),
        _ => 0,
    };
    let reads = match node.op_type() {
        "PagedAttention" => Reads::Pages,
        "SparsePagedAttention" => Reads::Listed { list: 9, window },
        "DynamicSparseAttention" => Reads::Listed { list: 7, window },
        _ => {
            let size = node.int("sparse_block_size")?.ok_or_else(|| node.missing("sparse_block_size"))?;
            Reads::Blocks { size: count("sparse_block_size", size)? }
        }
    };
    Ok(Box::new(CachedAttention {
        heads,
        kv_heads,
        rotary: node.flag("do_rotary", false)?,
        value_size: node.int("v_head_size")?.filter(|&size| size > 0),
        latent: node.string("kv_cache_layout")? == Some("LATENT"),
        reads,
    }))
}

impl CachedAttention {
    /// Elements of a head of the query.
    fn head_size(&self, query: &Shape, packed: bool) -> Result<Dim, Fault> {
        let rank = if self.is_flat() { 2 } else { 3 };
        let Some(hidden) = query.dims().last().filter(|_| query.rank() == rank) else {
            return Err(Fault::shape(format!("query is {query}; {rank} dims are allowed")));
        };
        let (heads, kv_heads) = (i128::from(self.heads), i128::from(self.kv_heads));
        let all = if packed { heads.saturating_add(kv_heads.saturating_mul(2)) } else { heads };
        head_size_of(hidden, &Dim::constant(all))
    }

    /// Whether the tokens of all samples stand in one dim.
    fn is_flat(&self) -> bool {
        matches!(self.reads, Reads::Pages | Reads::Listed { list: 9, .. })
    }

    /// Entries that a query reads.
    fn keys<'a>(&self, shape: impl Fn(usize) -> Option<&'a Shape>) -> Option<Dim> {
        Some(match self.reads {
            Reads::Pages => shape(7)?.dim(1)? * shape(3)?.dim(1)?,
            Reads::Listed { list, window } => shape(list)?.dim(1)? + i128::from(window),
            Reads::Blocks { size } => {
                let rows = (shape(5)?.dim(1)? - 1).max(&Dim::ONE);
                shape(6)?.dim(1)?.ceil_div(&rows) * i128::from(size)
            }
        })
    }

    fn family(&self, cx: &WorkCx<'_>) -> Option<Family> {
        let query = cx.input(0)?;
        let [heads, kv_heads] = [self.heads, self.kv_heads].map(i64::unsigned_abs);
        let packed = cx.input(1).is_none() && !self.latent;
        let all = if packed { heads.saturating_add(kv_heads.saturating_mul(2)) } else { heads };
        let head_dim = query.dim_from_end(0)?.checked_div(all)?;
        let tokens = query.elements().checked_div(query.dim_from_end(0)?)?;
        let batch = if self.is_flat() { cx.input(5)?.dim(0)?.saturating_sub(1) } else { query.dim(0)? }.max(1);
        let shape = |input: usize| -> Option<Shape> {
            Some(cx.input(input)?.dims.iter().map(|&dim| Dim::constant(i128::from(dim))).collect())
        };
        let shapes: Vec<Option<Shape>> = (0..cx.inputs.len()).map(shape).collect();
        let keys = self.keys(|input| shapes.get(input)?.as_ref())?.as_usize()? as u64;
        let queries = tokens.div_ceil(batch);
        Some(Family::Attention { batch, heads, kv_heads, queries, keys, head_dim, causal: true })
    }
}

impl Operator for CachedAttention {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let output = match cx.shape(0) {
            None => None,
            Some(query) => {
                let head_size = self.head_size(query, !cx.has(1) && !self.latent)?;
                let mut output = query.clone();
                if let Some(last) = output.dims_mut().last_mut() {
                    *last = self.value_size.map_or(head_size, Dim::from) * i128::from(self.heads);
                }
                Some(output)
            }
        };
        let mut facts = vec![Fact::tensor(element, output)];
        for cache in [3, 4].into_iter().take(cx.output_count().saturating_sub(1)) {
            let total = cx.integers(10).and_then(|total| total.into_iter().next());
            let mut shape = cx.shape(cache).cloned();
            // A contiguous cache grows where it is no buffer of full length.
            if let (Reads::Listed { list: 7, .. }, Some(length), Some(queries)) =
                (&self.reads, shape.as_mut().and_then(|shape| shape.dims_mut().get_mut(2)), cx.shape(0))
            {
                let grown = queries.dim(1).map(|queries| &*length + queries);
                *length = total.map(|total| length.max(&total)).or(grown).unwrap_or_else(|| length.clone());
            }
            facts.push(Fact::tensor(cx.element(cache).or(element), shape));
        }
        facts.push(Fact::tensor(ElementType::Int32, None));
        facts.truncate(cx.output_count());
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let query = cx.shape_in(0)?;
        let head_size = self.head_size(query, !cx.has(1) && !self.latent).ok()?;
        let tokens = product(query.dims().split_last()?.1);
        let (heads, kv_heads) = (i128::from(self.heads), i128::from(self.kv_heads));
        let rotated = match self.rotary {
            true => &tokens * &head_size * heads.saturating_add(kv_heads) * 3,
            false => Dim::ZERO,
        };
        let scores = Scores {
            count: tokens * heads * self.keys(|input| cx.shape_in(input))?,
            value_size: self.value_size.map_or_else(|| head_size.clone(), Dim::from),
            head_size,
            per_score: Scores::per_score(true),
        };
        let any = cx.gradient_count() > 0;
        let backward = scores.backward([any; 3]) + &rotated * i128::from(any);
        Cost::composed(cx, scores.macs(), &(rotated + scores.other()), backward)
    }

    fn role(&self, input: usize) -> Role {
        if input < 5 { Role::Data } else { Role::Setting }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        cx.one(self.family(cx))
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        kept(cx, Saved::inputs(0..3), self.family(cx))
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ops::testing::{TestNode, dims, float, microsoft, typed};

    fn places(dims: &[i128]) -> Fact {
        typed(ElementType::Int32, dims)
    }

    fn node(name: &str) -> TestNode {
        microsoft(name).int("num_heads", 8).int("kv_num_heads", 2)
    }

    #[test]
    fn pages_of_a_sequence_are_all_read() {
        let cache = || float(&[40, 16, 2, 64]);
        let inputs = [
            float(&[7, 512]),
            float(&[7, 128]),
            float(&[7, 128]),
            cache(),
            cache(),
            places(&[4]),
            places(&[3]),
            places(&[3, 5]),
        ];
        let facts = node("PagedAttention").outputs(3).run(&inputs).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["7×512", "40×16×2×64", "40×16×2×64"]);
        assert_eq!(node("PagedAttention").cost(&inputs).macs, Dim::constant(7 * 8 * 80 * 128));
        let packed = float(&[7, 768]);
        let mut optional: Vec<Option<Fact>> = inputs.iter().cloned().map(Some).collect();
        optional.splice(0..3, [Some(packed), None, None]);
        assert_eq!(dims(&node("PagedAttention").run_optional(&optional).unwrap().0[0]), "7×512");
        assert!(node("PagedAttention").run(&[float(&[1, 7, 512])]).is_err());
    }

    #[test]
    fn listed_entries_and_a_window_are_read() {
        let past = || Some(float(&[2, 2, 100, 64]));
        let inputs = [
            Some(float(&[2, 3, 512])),
            Some(float(&[2, 3, 128])),
            Some(float(&[2, 3, 128])),
            past(),
            past(),
            None,
            None,
            Some(places(&[6, 32])),
            Some(places(&[6])),
            Some(places(&[2])),
            Some(places(&[])),
        ];
        let mode = || node("DynamicSparseAttention").string("attention_mode", "local_plus_selected");
        let local = || mode().int("local_window_size", 8).outputs(3);
        let (facts, ..) = local().run_optional(&inputs).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["2×3×512", "2×2×103×64", "2×2×103×64"]);
        assert_eq!(local().run_optional(&inputs).unwrap().2.unwrap().macs, Dim::constant(6 * 8 * 40 * 128));
    }

    #[test]
    fn rows_of_a_block_mask_are_read_on_average() {
        let past = || float(&[2, 2, 256, 64]);
        let inputs = [
            float(&[2, 1, 512]),
            float(&[2, 1, 128]),
            float(&[2, 1, 128]),
            past(),
            past(),
            places(&[1, 17]),
            places(&[1, 40]),
            places(&[]),
            places(&[2]),
        ];
        let block = || node("SparseAttention").int("sparse_block_size", 16);
        assert_eq!(block().outputs(3).run(&inputs).unwrap()[1], past());
        assert_eq!(block().cost(&inputs).macs, Dim::constant(2 * 8 * 48 * 128));
    }
}

//! `Transpose`, `DepthToSpace` and `SpaceToDepth`: elements in another order.

use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Work, WorkCx, axes, values};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

#[derive(Debug)]
struct Transpose {
    perm: Option<Vec<i64>>,
}

/// `Transpose`.
pub(super) fn transpose(node: &NodeView<'_>) -> Built {
    Ok(Box::new(Transpose { perm: node.ints("perm")? }))
}

impl Transpose {
    fn order(&self, rank: usize) -> Result<Vec<usize>, Fault> {
        let Some(perm) = &self.perm else { return Ok((0..rank).rev().collect()) };
        let order: Vec<usize> = perm.iter().filter_map(|&axis| usize::try_from(axis).ok()).collect();
        let complete = order.len() == rank && perm.len() == rank && axes::mask(&order, rank).iter().all(|&named| named);
        if !complete {
            let last = rank.saturating_sub(1);
            return Err(Fault::attribute(format!(
                "attribute perm is {perm:?}, allowed is each of 0 to {last} once for rank {rank}"
            )));
        }
        Ok(order)
    }
}

impl Operator for Transpose {
    fn permutation(&self, rank: usize) -> Option<Vec<usize>> {
        self.order(rank).ok()
    }

    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let data = cx.tensor(0).cloned().unwrap_or_default();
        let Some(input) = &data.shape else {
            let rank = self.perm.as_ref().map(Vec::len);
            let shape = rank.filter(|&rank| rank <= 64).map(|rank| cx.fresh_shape(0, rank));
            return Ok(vec![Fact::tensor(data.element, shape)]);
        };
        let order = self.order(input.rank())?;
        let shape: Shape = order.iter().filter_map(|&axis| input.dim(axis).cloned()).collect();
        let value = values::moved(&data, &shape, |index| {
            let mut source = vec![0; index.len()];
            for (&axis, &place) in order.iter().zip(index) {
                if let Some(slot) = source.get_mut(axis) {
                    *slot = place;
                }
            }
            source
        });
        Ok(vec![values::fact(data.element, Some(shape), value)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }

    fn shares_storage(&self, _cx: &WorkCx<'_>) -> bool {
        true
    }
}

/// Blocks of pixels become channels, or the other way round.
#[derive(Debug)]
struct Blocks {
    size: i64,
    to_space: bool,
}

/// `DepthToSpace`.
pub(super) fn depth_to_space(node: &NodeView<'_>) -> Built {
    if let Some(mode) = node.string("mode")?
        && !matches!(mode, "DCR" | "CRD")
    {
        return Err(Fault::attribute(format!("attribute mode is \"{mode}\", allowed are \"DCR\" and \"CRD\"")));
    }
    blocks(node, true)
}

/// `SpaceToDepth`.
pub(super) fn space_to_depth(node: &NodeView<'_>) -> Built {
    blocks(node, false)
}

fn blocks(node: &NodeView<'_>, to_space: bool) -> Built {
    let size = node.int("blocksize")?.ok_or_else(|| node.missing("blocksize"))?;
    if size < 1 {
        return Err(Fault::attribute(format!("attribute blocksize is {size}, allowed is 1 and more")));
    }
    Ok(Box::new(Blocks { size, to_space }))
}

impl Operator for Blocks {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(shape) = cx.shape(0) else {
            return Ok(vec![Fact::tensor(element, cx.fresh_shape(0, 4))]);
        };
        let [batch, channels, height, width] = shape.dims() else {
            return Err(Fault::shape(format!("the input must have rank 4, it has shape {shape}")));
        };
        let size = Dim::from(self.size);
        let area = &size * &size;
        let dims = if self.to_space {
            vec![batch.clone(), shared("channels", channels, &area)?, height * &size, width * &size]
        } else {
            vec![batch.clone(), channels * &area, shared("height", height, &size)?, shared("width", width, &size)?]
        };
        Ok(vec![Fact::tensor(element, Shape::new(dims))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }
}

fn shared(what: &str, dim: &Dim, parts: &Dim) -> Result<Dim, Fault> {
    match (dim.exact_div(parts), dim.as_const()) {
        (Some(part), _) => Ok(part),
        (None, Some(_)) => Err(Fault::shape(format!("{what} {dim} is not a multiple of {parts}"))),
        (None, None) => Ok(dim.floor_div(parts)),
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{float, ints, op};

    #[test]
    fn without_perm_the_axes_are_reversed() {
        assert_eq!(op("Transpose").dims(&[float(&[2, 3, 4])]), "4×3×2");
        assert_eq!(op("Transpose").ints("perm", &[1, 0, 2]).dims(&[float(&[2, 3, 4])]), "3×2×4");
    }

    #[test]
    fn a_perm_that_is_no_permutation_is_refused() {
        // Case 108.
        assert!(
            op("Transpose")
                .ints("perm", &[0, 0])
                .dims(&[float(&[2, 3])])
                .contains("perm is [0, 0], allowed is each of 0 to 1 once")
        );
        assert!(op("Transpose").ints("perm", &[0, 1, 2]).dims(&[float(&[2, 3])]).contains("for rank 2"));
        assert!(op("Transpose").ints("perm", &[-1, 0]).dims(&[float(&[2, 3])]).contains("perm is [-1, 0]"));
    }

    #[test]
    fn known_elements_are_reordered() {
        let matrix = op("Reshape").run(&[ints(&[1, 2, 3, 4, 5, 6]), ints(&[2, 3])]).unwrap();
        let facts = op("Transpose").run(&matrix).unwrap();
        assert_eq!(facts[0].as_tensor().unwrap().const_integers(), Some(vec![1, 4, 2, 5, 3, 6]));
    }

    #[test]
    fn movement_reads_and_writes_once() {
        let cost = op("Transpose").cost(&[float(&[2, 3])]);
        assert_eq!((cost.flops.as_const(), cost.backward_flops.as_const()), (Some(0), Some(0)));
        assert_eq!((cost.bytes_read.as_const(), cost.bytes_written.as_const()), (Some(24), Some(24)));
    }

    #[test]
    fn blocks_become_channels_and_back() {
        assert_eq!(op("SpaceToDepth").int("blocksize", 2).dims(&[float(&[1, 3, 6, 8])]), "1×12×3×4");
        assert_eq!(op("DepthToSpace").int("blocksize", 2).dims(&[float(&[1, 12, 3, 4])]), "1×3×6×8");
        assert!(
            op("DepthToSpace")
                .int("blocksize", 2)
                .dims(&[float(&[1, 10, 3, 4])])
                .contains("channels 10 is not a multiple of 4")
        );
        assert!(op("DepthToSpace").int("blocksize", 0).dims(&[float(&[1, 10, 3, 4])]).contains("blocksize is 0"));
    }
}

//! `GroupNorm` and `SkipGroupNorm` of `com.microsoft`: groups of channels, which may come last, with a residual before
//! and an activation after.

use super::normalization::{MEAN_VARIANCE, Normalized};
use super::operands::count;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::fact::Fact;

/// x, scale, shift, and for `SkipGroupNorm` residual and bias.
#[derive(Debug)]
struct GroupNorm {
    groups: i64,
    activation: bool,
}

/// `GroupNorm`, `SkipGroupNorm`.
pub(super) fn group_norm(node: &NodeView<'_>) -> Built {
    let groups = count("groups", node.int("groups")?.ok_or_else(|| node.missing("groups"))?)?;
    Ok(Box::new(GroupNorm { groups, activation: node.flag("activation", false)? }))
}

impl GroupNorm {
    fn rows(&self, cx: &WorkCx<'_>) -> [u64; 2] {
        let Some(input) = cx.input(0) else { return [0; 2] };
        let rows = input.dim(0).unwrap_or(1).saturating_mul(self.groups.unsigned_abs());
        [rows, input.elements().checked_div(rows).unwrap_or_default()]
    }
}

impl Operator for GroupNorm {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let fact = Fact::tensor(cx.element(0), cx.shape(0).cloned());
        Ok(vec![fact; cx.output_count().min(2)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let added = i128::from(cx.has(3)) + i128::from(cx.has(4));
        let forward = MEAN_VARIANCE + added + i128::from(self.activation);
        Normalized { forward, data: &[0, 3], scale: 1, biases: &[2, 4] }.cost(cx)
    }

    fn role(&self, input: usize) -> Role {
        if matches!(input, 1 | 2 | 4) { Role::Weight } else { Role::Data }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let [rows, cols] = self.rows(cx);
        vec![cx.all(Family::LayerNorm { rows, cols })]
    }

    /// What is normalised, the scale, and mean and inverse deviation of each group.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let [rows, _] = self.rows(cx);
        let normalised = match (cx.input(3), cx.output(1)) {
            (None, _) => Saved::input(0),
            (Some(_), Some(_)) => Saved::output(1),
            (Some(_), None) => Saved::extra(cx.output(0).map_or(0, |output| output.bytes())),
        };
        normalised.and(Saved::input(1)).and(Saved::extra(rows.saturating_mul(8))).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ops::Family;
    use crate::ops::testing::{dims, float, microsoft};

    #[test]
    fn channels_may_come_last() {
        let inputs = [float(&[2, 8, 8, 32]), float(&[32]), float(&[32])];
        let node = || microsoft("GroupNorm").int("groups", 4).int("activation", 1);
        assert_eq!(node().dims(&inputs), "2×8×8×32");
        assert_eq!(node().cost(&inputs).flops, Dim::constant(9 * 4096));
        assert_eq!(node().priced(&inputs, &[]).family(), Family::LayerNorm { rows: 8, cols: 512 });
        let skip = microsoft("SkipGroupNorm").int("groups", 4).outputs(2);
        let inputs = [inputs.to_vec(), vec![float(&[2, 32])]].concat();
        let facts = skip.run(&inputs).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["2×8×8×32", "2×8×8×32"]);
    }
}

//! Matrix products of `com.microsoft` that share an input, or whose weight is stored in blocks of a format of its own:
//! projections of query, key and value, gate and value of a feed-forward layer, a low-rank adapter. The plain packed
//! product is in `microsoft_matmul_nbits`.

use super::broadcast::unify;
use super::operands::count;
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// Rows of the first input times weights.
#[derive(Debug)]
enum Products {
    /// `MatMulBlockQuantizedFp4Weight`, `MatMulBlockQuantizedFp8Weight`: b is columns × rows, with so many elements in one
    /// that is stored, then scales; the bias stands at a place.
    Rows { packed: i128, bias: usize },
    /// `MatMulPacked`: a blob whose sizes are attributes.
    Blob { inner: Dim, columns: Dim, activation: bool },
    /// `MatMulNBitsQLoRA`: the packed product, and one through few columns beside it.
    Adapted { inner: Dim, columns: Dim },
    /// `MatMulNBitsMlp`: a gate and what passes it, of a row that may be normalised first.
    Gated { inner: Dim, columns: Dim },
    /// `MatMulNBitsQkv`: query, key and value of a row that is normalised first.
    Attended { inner: Dim, query: Dim, key: Dim },
    /// `RouterGateUpProj`: scores of a router, then a gate and what passes it, in one dense weight.
    Routed { scores: Dim },
}

/// Every operator of this file.
pub(super) fn products(node: &NodeView<'_>) -> Built {
    let size = |name: &str| Ok::<_, Fault>(Dim::from(count(name, node.int(name)?.ok_or_else(|| node.missing(name))?)?));
    Ok(Box::new(match node.op_type() {
        "MatMulBlockQuantizedFp4Weight" => Products::Rows { packed: 2, bias: 5 },
        "MatMulBlockQuantizedFp8Weight" => Products::Rows { packed: 1, bias: 4 },
        "MatMulPacked" => {
            let activation = node.string("activation_type")?.is_some_and(|name| name != "none");
            Products::Blob { inner: size("K")?, columns: size("N")?, activation }
        }
        "MatMulNBitsQLoRA" => Products::Adapted { inner: size("K")?, columns: size("N")? },
        "MatMulNBitsMlp" => Products::Gated { inner: size("K")?, columns: size("N")? },
        "MatMulNBitsQkv" => Products::Attended { inner: size("K")?, query: size("Nq")?, key: size("Nkv")? },
        _ => Products::Routed { scores: size("router_size")? },
    }))
}

/// One product: the input that is its weight, its rows and columns.
struct Product {
    weight: usize,
    inner: Dim,
    columns: Dim,
}

impl Products {
    /// The products, as far as attributes and shapes say them.
    fn all<'a>(&self, shape: impl Fn(usize) -> Option<&'a Shape>) -> Option<Vec<Product>> {
        let of = |weight: usize, inner: &Dim, columns: &Dim| Product {
            weight,
            inner: inner.clone(),
            columns: columns.clone(),
        };
        Some(match self {
            Self::Rows { packed, .. } => match shape(1)?.dims() {
                [columns, inner] => vec![of(1, &(inner * *packed), columns)],
                _ => return None,
            },
            Self::Blob { inner, columns, .. } => vec![of(1, inner, columns)],
            Self::Adapted { inner, columns } => {
                let rank = shape(3)?.dim(0)?;
                vec![of(1, inner, columns), of(3, inner, rank), of(5, rank, columns)]
            }
            Self::Gated { inner, columns } => vec![of(3, inner, columns), of(6, inner, columns)],
            Self::Attended { inner, query, key } => vec![of(3, inner, query), of(6, inner, key), of(9, inner, key)],
            Self::Routed { .. } => match shape(1)?.dims() {
                [inner, columns] => vec![of(1, inner, columns)],
                _ => return None,
            },
        })
    }

    /// Whether the row is normalised first, and whether something is added to it before.
    fn norm(&self, has: impl Fn(usize) -> bool) -> (bool, bool) {
        match self {
            Self::Gated { .. } | Self::Attended { .. } => (has(2), has(1)),
            _ => (false, false),
        }
    }

    /// Where the biases stand.
    fn biases(&self) -> &'static [usize] {
        match self {
            Self::Rows { bias: 4, .. } => &[4],
            Self::Rows { .. } => &[5],
            Self::Gated { .. } => &[5, 8],
            Self::Attended { .. } => &[5, 8, 11],
            Self::Blob { .. } | Self::Adapted { .. } | Self::Routed { .. } => &[],
        }
    }

    /// The last dim of each output; `None` for one that is like the input.
    fn outputs<'a>(&self, shape: impl Fn(usize) -> Option<&'a Shape>) -> Result<Vec<Option<Option<Dim>>>, Fault> {
        let some = |dim: &Dim| Some(Some(dim.clone()));
        Ok(match self {
            Self::Rows { .. } => {
                let columns = shape(1).and_then(|weight| weight.dim(0)).cloned();
                vec![Some(columns)]
            }
            Self::Blob { columns, .. } | Self::Adapted { columns, .. } => vec![some(columns)],
            Self::Gated { columns, .. } => vec![some(columns), None],
            Self::Attended { query, key, .. } => vec![some(query), some(key), some(key), None],
            Self::Routed { scores } => {
                let columns = shape(1).and_then(|weight| weight.dim(1));
                let passing = columns.map(|columns| (columns - scores).floor_div(&Dim::constant(2)));
                if passing.as_ref().and_then(|passing| passing.range().1).is_some_and(|hi| hi < 0) {
                    return Err(Fault::attribute(format!("attribute router_size is {scores}, beyond the weight")));
                }
                vec![some(scores), Some(passing)]
            }
        })
    }
}

impl Operator for Products {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let outputs = self.outputs(|input| cx.shape(input))?;
        let Some(rows) = cx.shape(0) else {
            return Ok(vec![Fact::tensor(element, None); outputs.len().min(cx.output_count())]);
        };
        let Some(last) = rows.dims().last() else {
            return Err(Fault::shape("input A is a scalar; its last dim must be that of the weight's rows"));
        };
        let products = self.all(|input| cx.shape(input));
        if let Some(first) = products.iter().flatten().next()
            && unify(last, &first.inner).is_none()
        {
            return Err(Fault::shape(format!("input A is {rows}, but the weight has {} rows", first.inner)));
        }
        let mut facts = Vec::new();
        for (output, columns) in outputs.into_iter().enumerate().take(cx.output_count()) {
            let mut shape = rows.clone();
            if let (Some(columns), Some(last)) = (columns, shape.dims_mut().last_mut()) {
                *last = columns.unwrap_or_else(|| cx.fresh_dim(output, rows.rank() - 1, 0, None));
            }
            facts.push(Fact::tensor(element, shape));
        }
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let products = self.all(|input| cx.shape_in(input))?;
        let rows = cx.shape_in(0)?;
        let tokens = crate::ir::shape::product(rows.dims().split_last()?.1);
        let weights: Dim = products.iter().map(|product| &product.inner * &product.columns).sum();
        let outputs = cx.elements_out(0)?;
        // Weights of a format of their own are unpacked: scale and offset.
        let mut other = if matches!(self, Self::Routed { .. }) { Dim::ZERO } else { &weights * 2 };
        let (normed, added) = self.norm(|input| cx.has(input));
        other += rows.elements() * (5 * i128::from(normed) + i128::from(added));
        for (product, bias) in products.iter().zip(self.biases()) {
            if cx.has(*bias) {
                other += &tokens * &product.columns;
            }
        }
        // A gate is a sigmoid and two products, an adapter a sum.
        other += match self {
            Self::Gated { .. } => &outputs * 6,
            Self::Routed { .. } => cx.elements_out(1)? * 6,
            Self::Adapted { .. } => outputs,
            Self::Blob { activation: true, .. } => outputs,
            _ => Dim::ZERO,
        };
        let macs = tokens * weights;
        let gradients = i128::from(cx.needs_gradient(0)) + i128::from(cx.needs_gradient(1) && products.len() == 1);
        let backward = &macs * (2 * gradients) + &other * i128::from(cx.needs_gradient(0));
        Cost::composed(cx, macs, &other, backward)
    }

    fn role(&self, input: usize) -> Role {
        let weights: &[usize] = match self {
            Self::Rows { .. } | Self::Blob { .. } | Self::Routed { .. } => &[1],
            Self::Adapted { .. } => &[1, 3, 5],
            Self::Gated { .. } => &[2, 3, 6],
            Self::Attended { .. } => &[2, 3, 6, 9],
        };
        let added = matches!(self, Self::Gated { .. } | Self::Attended { .. }) && input == 1;
        match input {
            0 => Role::Data,
            _ if weights.contains(&input) || self.biases().contains(&input) => Role::Weight,
            _ if added => Role::Data,
            _ => Role::Setting,
        }
    }

    fn stored_elements(&self, input: usize) -> Option<Dim> {
        let (inner, columns) = match self {
            Self::Blob { inner, columns, .. } | Self::Adapted { inner, columns } if input == 1 => (inner, columns),
            Self::Gated { inner, columns } if matches!(input, 3 | 6) => (inner, columns),
            Self::Attended { inner, query, .. } if input == 3 => (inner, query),
            Self::Attended { inner, key, .. } if matches!(input, 6 | 9) => (inner, key),
            _ => return None,
        };
        Some(inner * columns)
    }

    /// A product each; the last has what is done beside it.
    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let families = self.families(cx).unwrap_or_default();
        let mut items: Vec<Work> = Vec::new();
        for (place, (family, weight)) in families.iter().enumerate() {
            let item = match *family {
                Family::Product { m, n, k, .. } if place + 1 < families.len() => {
                    let flops = 2.0 * m as f64 * n as f64 * k as f64;
                    let left = cx.rest(&items, *family);
                    let weight = cx.input(*weight).map_or(0.0, |weight| weight.bytes() as f64);
                    cx.part(*family, flops.min(left.flops), weight.min(left.bytes_read))
                }
                _ => cx.rest(&items, *family),
            };
            items.push(item.of_operands(0, *weight));
        }
        if items.is_empty() { vec![cx.elementwise()] } else { items }
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let weights = (1..cx.inputs.len()).filter(|&input| self.role(input) == Role::Weight);
        let read = weights.map(Saved::input).fold(Saved::NOTHING, Saved::and).when(cx.needs(0));
        read.and(Saved::input(0)).when(cx.has_backward())
    }
}

impl Products {
    /// The products with numbers, and the input that each reads beside the rows.
    fn families(&self, cx: &WorkCx<'_>) -> Option<Vec<(Family, usize)>> {
        let shape = |input: usize| -> Option<Shape> {
            Some(cx.input(input)?.dims.iter().map(|&dim| Dim::constant(i128::from(dim))).collect())
        };
        let shapes: Vec<Option<Shape>> = (0..cx.inputs.len()).map(shape).collect();
        let rows = cx.input(0)?;
        let m = rows.elements().checked_div(rows.dim_from_end(0)?)?;
        let number = |dim: &Dim| dim.as_usize().map(|dim| dim as u64);
        let products = self.all(|input| shapes.get(input)?.as_ref())?;
        let family = |product: &Product| {
            let (k, n) = (number(&product.inner)?, number(&product.columns)?);
            Some((Family::Product { batch: 1, m, n, k }, product.weight))
        };
        products.iter().map(family).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ops::testing::{TestNode, dims, float, microsoft, typed};

    fn bytes(dims: &[i128]) -> Fact {
        typed(ElementType::Uint8, dims)
    }

    fn sized(name: &str) -> TestNode {
        microsoft(name).int("K", 64).int("N", 32).int("bits", 4).int("block_size", 32)
    }

    #[test]
    fn rows_of_small_floats_say_their_sizes() {
        let inputs = [float(&[2, 3, 64]), bytes(&[32, 32]), bytes(&[32, 4]), float(&[])];
        let node = || microsoft("MatMulBlockQuantizedFp4Weight");
        assert_eq!(node().dims(&inputs), "2×3×32");
        assert_eq!(node().cost(&inputs).macs, Dim::constant(6 * 64 * 32));
        let eight = [float(&[2, 64]), typed(ElementType::Float8e4m3fn, &[32, 64]), float(&[32, 1])];
        assert_eq!(microsoft("MatMulBlockQuantizedFp8Weight").dims(&eight), "2×32");
        let fault = node().run(&[float(&[2, 60]), inputs[1].clone()]).unwrap_err();
        assert_eq!(fault.message, "input A is 2×60, but the weight has 64 rows");
    }

    #[test]
    fn a_gate_and_what_passes_it_are_two_products() {
        let weight = || bytes(&[32, 2, 16]);
        let scales = || float(&[32, 2]);
        let inputs = [
            Some(float(&[2, 5, 64])),
            Some(float(&[2, 5, 64])),
            Some(float(&[64])),
            Some(weight()),
            Some(scales()),
            None,
            Some(weight()),
            Some(scales()),
        ];
        let (facts, ..) = sized("MatMulNBitsMlp").outputs(2).run_optional(&inputs).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["2×5×32", "2×5×64"]);
        let families = sized("MatMulNBitsMlp").outputs(2).priced_optional(&inputs, &[]).families();
        assert_eq!(families.iter().map(crate::ops::Family::name).collect::<Vec<_>>(), ["product", "product"]);
    }

    #[test]
    fn an_adapter_adds_a_product_through_its_rank() {
        let inputs = [
            float(&[4, 64]),
            bytes(&[32, 2, 16]),
            float(&[32, 2]),
            bytes(&[8, 2, 16]),
            float(&[8, 2]),
            bytes(&[32, 1, 16]),
            float(&[32, 1]),
        ];
        assert_eq!(sized("MatMulNBitsQLoRA").dims(&inputs), "4×32");
        let macs = 4 * (64 * 32 + 64 * 8 + 8 * 32);
        assert_eq!(sized("MatMulNBitsQLoRA").cost(&inputs).macs, Dim::constant(macs));
    }

    #[test]
    fn a_router_takes_the_first_columns() {
        let node = || microsoft("RouterGateUpProj").int("router_size", 8).outputs(2);
        let facts = node().run(&[float(&[3, 16]), float(&[16, 40])]).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["3×8", "3×16"]);
        assert!(node().run(&[float(&[3, 16]), float(&[16, 4])]).is_err());
    }
}

//! Matrix products with a stored kernel: `Dense` and `EinsumDense`.

use super::{Layer, Stores, list, positive, wanted};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;
use crate::ops::table::Built;
use crate::ops::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};

/// Every row of the input times one kernel. Inputs: x, kernel, bias, the two kernels of a low-rank update, and a tensor
/// whose last dim is the number of units.
#[derive(Clone, Debug)]
struct Dense {
    /// Units; `None` for those of the last input.
    units: Option<i64>,
    /// Axes of the kernel that the units are split into; empty for one.
    split: Vec<i64>,
    /// Whether the parts are axes of the output too.
    spread: bool,
    /// Whether the kernel is stored units first.
    transposed: bool,
    /// Rank of a low-rank update; 0 for none.
    rank: i64,
}

/// `Dense`.
pub(super) fn dense(node: &NodeView<'_>) -> Built {
    let units = if node.flag("like", false)? { None } else { Some(positive(node, "units")?) };
    let dense = Dense {
        units,
        split: list(node, "split")?,
        spread: node.flag("spread", false)?,
        transposed: node.flag("transposed", false)?,
        rank: node.int_or("lora_rank", 0)?,
    };
    let (stores, compute) = (Box::new(dense.clone()), super::compute(node)?);
    Ok(Box::new(Layer { stores, data: &[0, LIKE], compute, inner: Box::new(dense) }))
}

/// The input whose last dim is the number of units.
const LIKE: usize = 5;

impl Dense {
    fn units<'a>(&self, shape: impl FnOnce(usize) -> Option<&'a Shape>) -> Option<Dim> {
        match self.units {
            Some(units) => Some(Dim::from(units)),
            None => shape(LIKE)?.dims().last().cloned(),
        }
    }

    /// Dims of the output behind the rows.
    fn columns(&self, units: Dim) -> Vec<Dim> {
        if self.spread { self.split.iter().map(|&part| Dim::from(part)).collect() } else { vec![units] }
    }
}

impl Stores for Dense {
    fn shapes(&self, cx: &InferCx<'_>) -> Result<Vec<(usize, Shape)>, Fault> {
        let Some(shape) = cx.shape(0) else { return Ok(Vec::new()) };
        if shape.rank() < 2 {
            return Err(Fault::shape(format!("an input of rank 2 or more is needed, got {shape}")));
        }
        let units = self.units(|input| cx.shape(input));
        let Some(units) = wanted(units.as_ref(), || "the last dimension of the query".to_owned())? else {
            return Ok(Vec::new());
        };
        let parts: Vec<Dim> = match self.split.as_slice() {
            [] => vec![units.clone()],
            split => split.iter().map(|&part| Dim::from(part)).collect(),
        };
        let mut shapes = vec![(2, Shape::new(parts.clone()))];
        let last = shape.dims().last();
        let Some(inner) = wanted(last, || format!("the last dimension of the input {shape}"))? else {
            return Ok(shapes);
        };
        let kernel: Shape = if self.transposed {
            parts.into_iter().chain([inner.clone()]).collect()
        } else {
            std::iter::once(inner.clone()).chain(parts).collect()
        };
        shapes.push((1, kernel));
        if self.rank > 0 {
            shapes.push((3, Shape::new(vec![inner, Dim::from(self.rank)])));
            shapes.push((4, Shape::new(vec![Dim::from(self.rank), units])));
        }
        Ok(shapes)
    }
}

impl Operator for Dense {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(shape) = cx.shape(0) else { return Ok(vec![Fact::tensor(element, None)]) };
        let kept = shape.rank().saturating_sub(1);
        let units = self.units(|input| cx.shape(input)).unwrap_or_else(|| cx.fresh_dim(0, kept, 0, None));
        let dims = shape.dims().iter().take(kept).cloned().chain(self.columns(units));
        Ok(vec![Fact::tensor(element, dims.collect::<Shape>())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let outputs = cx.elements_out(0)?;
        let inner = cx.shape_in(0)?.dims().last()?;
        let bias = if cx.has(2) { outputs.clone() } else { Dim::ZERO };
        let mut macs = &outputs * inner;
        if self.rank > 0 {
            let units = self.units(|input| cx.shape_in(input))?;
            let rows = outputs.exact_div(&units)?;
            macs += rows * i128::from(self.rank) * (inner + &units);
        }
        let cost = Cost::product(cx, macs, &bias, [0, 1, 2])?;
        // The tensor that gives the number of units is not read.
        let like = cx.input(LIKE).and_then(crate::ops::cost::tensor_bytes).unwrap_or(Dim::ZERO);
        Some(Cost { bytes_read: cost.bytes_read - like, ..cost })
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 || input == LIKE { Role::Data } else { Role::Weight }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let (Some(input), Some(output)) = (cx.input(0), cx.output(0)) else { return vec![cx.elementwise()] };
        let k = input.dim_from_end(0).unwrap_or(1);
        let m = input.elements().checked_div(k).unwrap_or(0);
        let n = output.elements().checked_div(m).unwrap_or(0);
        vec![cx.all(Family::Product { batch: 1, m, n, k }).of_operands(0, 1)]
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        cx.other_operands(0, 1).when(cx.has_backward())
    }
}

/// A product by an equation. Inputs: x, kernel, bias.
#[derive(Clone, Debug)]
struct EinsumDense {
    equation: String,
    /// Dims of the output behind the batch, 0 for one that the input gives.
    output: Vec<i64>,
    /// Letters of the output that the bias has.
    bias: String,
}

/// `EinsumDense`.
pub(super) fn einsum_dense(node: &NodeView<'_>) -> Built {
    let equation = node.string("equation")?.ok_or_else(|| node.missing("equation"))?.to_owned();
    let inner = crate::ops::einsum::einsum(node)?;
    let bias = node.string("bias_axes")?.unwrap_or_default().to_owned();
    let stores = EinsumDense { equation, output: list(node, "output_shape")?, bias };
    Ok(Box::new(Layer {
        stores: Box::new(stores),
        data: &[0],
        compute: super::compute(node)?,
        inner: Box::new(Biased { product: inner }),
    }))
}

/// Letters of an equation with their extents, as far as known.
type Letters = Vec<(char, Option<Dim>)>;

impl EinsumDense {
    /// The extent of each letter of kernel and bias.
    fn letters(&self, cx: &InferCx<'_>) -> Result<Option<Letters>, Fault> {
        let Some(shape) = cx.shape(0) else { return Ok(None) };
        let text: String = self.equation.chars().filter(|letter| !letter.is_whitespace()).collect();
        let fault = || Fault::attribute(format!("equation {text:?} is not of the form ab,bc->ac"));
        let (operands, output) = text.split_once("->").ok_or_else(fault)?;
        let (input, _) = operands.split_once(',').ok_or_else(fault)?;
        let mut known: Letters = Vec::new();
        let (front, back) = input.split_once("...").unwrap_or((input, ""));
        let count = front.chars().count() + back.chars().count();
        let rest = !input.contains("...");
        if shape.rank() < count || (rest && shape.rank() != count) {
            return Err(Fault::shape(format!("equation {text:?} does not fit an input of rank {}", shape.rank())));
        }
        let dims = shape.dims();
        for (letter, dim) in front.chars().zip(dims) {
            known.push((letter, Some(dim.clone())));
        }
        for (letter, dim) in back.chars().rev().zip(dims.iter().rev()) {
            known.push((letter, Some(dim.clone())));
        }
        // The stated output leaves out the batch; a rest stands for what the input has there.
        let (before, behind) = output.split_once("...").unwrap_or((output, ""));
        let ellipsis = output.contains("...");
        let stated = |place: usize| self.output.get(place).filter(|&&dim| dim > 0).map(|&dim| Dim::from(dim));
        let mut add = |letter: char, dim: Option<Dim>| {
            if !known.iter().any(|(other, _)| *other == letter) {
                known.push((letter, dim));
            }
        };
        // Where a rest leads, the batch is part of it.
        let skip = usize::from(!(ellipsis && before.is_empty()));
        for (place, letter) in before.chars().enumerate().skip(skip.min(1)) {
            add(letter, stated(place - skip));
        }
        if let (true, Some(letter)) = (skip == 1, before.chars().next()) {
            add(letter, None);
        }
        for (place, letter) in behind.chars().rev().enumerate() {
            add(letter, self.output.len().checked_sub(place + 1).and_then(stated));
        }
        Ok(Some(known))
    }
}

impl Stores for EinsumDense {
    fn shapes(&self, cx: &InferCx<'_>) -> Result<Vec<(usize, Shape)>, Fault> {
        let Some(letters) = self.letters(cx)? else { return Ok(Vec::new()) };
        let text: String = self.equation.chars().filter(|letter| !letter.is_whitespace()).collect();
        let (operands, output) = text.split_once("->").unwrap_or_default();
        let (_, kernel) = operands.split_once(',').unwrap_or_default();
        let of = |letter: char| letters.iter().find(|(other, _)| *other == letter).and_then(|(_, dim)| dim.as_ref());
        let dims = |text: &str| -> Result<Option<Shape>, Fault> {
            let mut dims = Vec::new();
            for letter in text.chars() {
                match wanted(of(letter), || format!("dim {letter} of equation {text:?}"))? {
                    Some(dim) => dims.push(dim),
                    None => return Ok(None),
                }
            }
            Ok(Some(Shape::new(dims)))
        };
        let mut shapes: Vec<(usize, Shape)> = dims(kernel)?.map(|shape| (1, shape)).into_iter().collect();
        if !self.bias.is_empty() {
            let places: Vec<char> = output.replace("...", "").chars().collect();
            let first = places.iter().position(|letter| self.bias.contains(*letter)).unwrap_or_default();
            let mut bias = Vec::new();
            for &letter in places.get(first..).unwrap_or_default() {
                if !self.bias.contains(letter) {
                    bias.push(Dim::ONE);
                    continue;
                }
                match wanted(of(letter), || format!("dim {letter} of the bias"))? {
                    Some(dim) => bias.push(dim),
                    None => return Ok(shapes),
                }
            }
            shapes.push((2, Shape::new(bias)));
        }
        Ok(shapes)
    }
}

/// A product of the first two inputs, and a bias that is added.
#[derive(Debug)]
struct Biased {
    product: Box<dyn Operator>,
}

fn first_two<T>(items: &[T]) -> &[T] {
    items.get(..2).unwrap_or(items)
}

impl Operator for Biased {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let inputs = first_two(cx.inputs);
        self.product.infer(&mut InferCx::new(inputs, cx.outputs, cx.host))
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let product =
            self.product.cost(&CostCx::new(first_two(cx.inputs), cx.outputs, first_two(cx.needs_gradient)))?;
        if !cx.has(2) {
            return Some(product);
        }
        let outputs = cx.elements_out(0)?;
        let bytes = crate::ops::cost::tensor_bytes(cx.input(2)?)?;
        let backward = if cx.needs_gradient(2) { outputs.clone() } else { Dim::ZERO };
        Some(Cost {
            flops: product.flops + outputs,
            backward_flops: product.backward_flops + backward,
            bytes_read: product.bytes_read + bytes,
            ..product
        })
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 { Role::Data } else { Role::Weight }
    }

    /// The last product takes the bias in.
    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let (Some(bias), Some(output)) = (cx.input(2), cx.output(0)) else { return self.product.work(cx) };
        let inner = WorkCx {
            inputs: first_two(cx.inputs),
            needs_gradient: first_two(cx.needs_gradient),
            flops: cx.flops - output.elements() as f64,
            bytes_read: cx.bytes_read - bias.bytes() as f64,
            ..*cx
        };
        let mut works = self.product.work(&inner);
        if let Some(last) = works.last_mut() {
            last.flops += output.elements() as f64;
            last.bytes_read += bias.bytes() as f64;
        }
        works
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let inner = WorkCx { inputs: first_two(cx.inputs), needs_gradient: first_two(cx.needs_gradient), ..*cx };
        self.product.saved(&inner)
    }
}

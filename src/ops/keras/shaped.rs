//! Layers that are no more than a shape and a number of operations for each element: padding, cropping, upsampling, image
//! and feature preprocessing. The dims of the output are formulas in those of the inputs.

use super::compute;
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;
use crate::ops::table::Built;
use crate::ops::work::{Family, Function};
use crate::ops::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};

/// Dims by formula. `d1` is dim 1 of the first input, `l1` its last; `front2` all dims but the last two.
#[derive(Clone, Debug)]
struct Shaped {
    class: String,
    /// Formulas; none for the shape of the first input.
    dims: Option<Vec<String>>,
    /// Rank that the first input has; 0 for any.
    rank: usize,
    /// Operations for each element of the output; 0 where elements move only.
    operations: i64,
    /// Whether nothing happens at all in inference.
    free: bool,
    /// Bytes of noise for each element that the backward pass needs again, where noise is drawn; nothing happens in inference.
    noise: Option<u64>,
    element: Option<ElementType>,
    compute: Option<ElementType>,
    /// Whether the gradient needs the input.
    keeps_input: bool,
    /// Dims of stored inputs, from the second on.
    stored: Vec<Vec<i64>>,
}

/// See [`Shaped`].
pub(super) fn shaped(node: &NodeView<'_>) -> Built {
    let text = |bytes: &bytes::Bytes| String::from_utf8_lossy(bytes).into_owned();
    let element = match node.string("element")? {
        Some("int64") => Some(ElementType::Int64),
        Some("int32") => Some(ElementType::Int32),
        Some("bool") => Some(ElementType::Bool),
        Some("float32") => Some(ElementType::Float),
        Some("string") => Some(ElementType::String),
        Some("uint8") => Some(ElementType::Uint8),
        _ => None,
    };
    let stored = match node.strings("stored")? {
        Some(texts) => {
            texts.iter().map(|dims| text(dims).split(',').filter_map(|dim| dim.trim().parse().ok()).collect()).collect()
        }
        None => Vec::new(),
    };
    Ok(Box::new(Shaped {
        class: node.string("class")?.unwrap_or("the layer").to_owned(),
        dims: node.strings("dims")?.map(|dims| dims.iter().map(text).collect()),
        rank: usize::try_from(node.int_or("rank", 0)?).unwrap_or(0),
        operations: node.int_or("operations", 0)?,
        free: node.flag("free", false)?,
        noise: node.int("noise")?.and_then(|bytes| u64::try_from(bytes).ok()),
        element,
        compute: compute(node)?,
        keeps_input: node.flag("keeps_input", false)?,
        stored,
    }))
}

impl Shaped {
    /// Noise on so many elements, kept for the backward pass as far as that needs it.
    #[allow(clippy::cast_precision_loss, reason = "sizes of tensors")]
    fn draw(&self, elements: u64, bytes: u64) -> Work {
        let kept = elements.saturating_mul(self.noise.unwrap_or_default());
        Work {
            family: Family::Elementwise { elements, function: Function::Random },
            flops: elements as f64,
            bytes_read: bytes as f64,
            bytes_written: bytes.saturating_add(kept) as f64,
            operands: [None; 2],
        }
    }

    fn output(&self, cx: &mut InferCx<'_>) -> Result<Option<Shape>, Fault> {
        let Some(formulas) = &self.dims else { return Ok(cx.shape(0).cloned()) };
        let shape = cx.shape(0).cloned();
        let mut dims = Vec::new();
        for formula in formulas {
            if let Some(behind) = formula.strip_prefix("front").and_then(|behind| behind.parse::<usize>().ok()) {
                let Some(shape) = &shape else { return Ok(None) };
                let Some(front) = shape.rank().checked_sub(behind) else {
                    return Err(Fault::shape(format!(
                        "{} needs an input of rank {behind} or more, got {shape}",
                        self.class
                    )));
                };
                dims.extend(shape.dims().iter().take(front).cloned());
                continue;
            }
            if formula == "?" {
                let dim = cx.fresh_dim(0, dims.len(), 0, None);
                dims.push(dim);
                continue;
            }
            let known = |name: &str| -> Option<Dim> {
                let (shape, index) = match name.split_at_checked(1)? {
                    ("d", index) => (shape.as_ref()?, index),
                    ("l", index) => {
                        let shape = shape.as_ref()?;
                        return shape.dim(shape.rank().checked_sub(index.parse().ok()?)?).cloned();
                    }
                    ("e", index) => (cx.shape(1)?, index),
                    _ => return None,
                };
                shape.dim(index.parse().ok()?).cloned()
            };
            let dim = Dim::parse(formula, &known);
            match dim {
                Ok(dim) if dim.is_ge(&Dim::ONE) == Some(false) && dim != Dim::ZERO => {
                    let input = shape.map(|shape| shape.to_string()).unwrap_or_default();
                    return Err(Fault::shape(format!("{} leaves nothing of an input of {input}", self.class)));
                }
                Ok(dim) => dims.push(dim),
                Err(_) => {
                    let dim = cx.fresh_dim(0, dims.len(), 0, None);
                    dims.push(dim);
                }
            }
        }
        Ok(Some(Shape::new(dims)))
    }
}

impl Operator for Shaped {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        if self.rank > 0 {
            super::expect_rank(cx, 0, &self.class, self.rank)?;
        }
        for (index, dims) in self.stored.iter().enumerate() {
            let shape: Shape = dims.iter().map(|&dim| Dim::from(dim)).collect();
            if cx.has(index + 1) {
                cx.shape_stored(index + 1, &shape)?;
            }
        }
        let shape = self.output(cx)?;
        let element = self.element.or_else(|| {
            let found = cx.element(0);
            match self.compute {
                Some(compute) if found.is_none_or(ElementType::is_real) => Some(compute),
                _ => found,
            }
        });
        Ok(vec![Fact::tensor(element, shape)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        if self.free {
            return Some(Cost::FREE);
        }
        if self.noise.is_some() {
            let trained = cx.gradient_count() > 0;
            let backward_flops = if trained { cx.elements_out(0)? } else { Dim::ZERO };
            return Some(Cost { backward_flops, ..Cost::FREE });
        }
        if self.operations == 0 { Cost::moved(cx) } else { Cost::elementwise(cx, i128::from(self.operations)) }
    }

    fn role(&self, input: usize) -> Role {
        if input == 0 || self.stored.len() < input { Role::Data } else { Role::Weight }
    }

    fn is_view(&self) -> bool {
        self.free
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        if self.noise.is_some() {
            let draws = cx.output(0).filter(|_| cx.has_backward());
            return draws.map(|output| self.draw(output.elements(), output.bytes())).into_iter().collect();
        }
        if self.free || cx.is_free() {
            return Vec::new();
        }
        if self.operations == 0 { vec![cx.moved()] } else { vec![cx.elementwise()] }
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let elements = cx.output(0).map_or(0, |output| output.elements());
        let noise = Saved::extra(elements.saturating_mul(self.noise.unwrap_or_default()));
        Saved::input(0).when(self.keeps_input).and(noise).when(cx.has_backward())
    }

    fn shares_storage(&self, cx: &WorkCx<'_>) -> bool {
        self.noise.is_some() && !cx.has_backward()
    }
}

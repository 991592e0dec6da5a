//! Recurrent layers with the weights of Keras: kernels inputs × gates, one bias, or two where a `GRU` resets behind the
//! product. Inputs: x, kernel, recurrent kernel, bias, initial states. Outputs: sequence or last step, states.

use super::{Layer, Stores, compute, positive, wanted};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::{Shape, product};
use crate::ops::recurrent::{Cell, Steps};
use crate::ops::table::Built;
use crate::ops::window::Window;
use crate::ops::work::{Convolution, three};
use crate::ops::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};

/// Inputs that are data.
const DATA: &[usize] = &[0, 4, 5, 6, 7, 8];

/// `LSTM`, `GRU`, `SimpleRNN`, and `RNN` over one of their cells.
#[derive(Clone, Debug)]
struct Recurrent {
    cell: Cell,
    units: i64,
    reset_after: bool,
    sequences: bool,
    time_major: bool,
}

fn cell(node: &NodeView<'_>) -> Cell {
    match node.op_type() {
        "GRU" => Cell::Gru,
        "RNN" => Cell::Rnn,
        _ => Cell::Lstm,
    }
}

/// See [`Recurrent`].
pub(super) fn recurrent(node: &NodeView<'_>) -> Built {
    let layer = Recurrent {
        cell: cell(node),
        units: positive(node, "units")?,
        reset_after: node.flag("reset_after", false)?,
        sequences: node.flag("return_sequences", false)?,
        time_major: node.flag("time_major", false)?,
    };
    let stores = Box::new(layer.clone());
    Ok(Box::new(Layer { stores, data: DATA, compute: compute(node)?, inner: Box::new(layer) }))
}

impl Recurrent {
    /// Batch, steps, features.
    fn sizes<T: Clone>(&self, dims: &[T]) -> Option<[T; 3]> {
        match (dims, self.time_major) {
            ([batch, steps, features], false) | ([steps, batch, features], true) => {
                Some([batch.clone(), steps.clone(), features.clone()])
            }
            _ => None,
        }
    }

    fn gates(&self) -> i128 {
        self.cell.gates()
    }
}

impl Stores for Recurrent {
    fn shapes(&self, cx: &InferCx<'_>) -> Result<Vec<(usize, Shape)>, Fault> {
        super::expect_rank(cx, 0, "a recurrent layer", 3)?;
        let units = Dim::from(self.units);
        let wide = &units * self.gates();
        let bias = if self.reset_after { vec![Dim::constant(2), wide.clone()] } else { vec![wide.clone()] };
        let mut shapes = vec![(2, Shape::new(vec![units, wide.clone()])), (3, Shape::new(bias))];
        let Some([_, _, features]) = cx.shape(0).and_then(|shape| self.sizes(shape.dims())) else { return Ok(shapes) };
        if let Some(features) = wanted(Some(&features), || "the number of features of the input".to_owned())? {
            shapes.push((1, Shape::new(vec![features, wide])));
        }
        Ok(shapes)
    }
}

impl Operator for Recurrent {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some([batch, steps, _]) = cx.shape(0).and_then(|shape| self.sizes(shape.dims())) else {
            return Ok(vec![Fact::tensor(element, None); cx.output_count()]);
        };
        let units = Dim::from(self.units);
        let state = Shape::new(vec![batch.clone(), units.clone()]);
        let sequence = match (self.sequences, self.time_major) {
            (false, _) => state.clone(),
            (true, false) => Shape::new(vec![batch, steps, units]),
            (true, true) => Shape::new(vec![steps, batch, units]),
        };
        let states = (1..cx.output_count()).map(|_| Fact::tensor(element, state.clone()));
        Ok(std::iter::once(Fact::tensor(element, sequence)).chain(states).collect())
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let [batch, steps, features] = self.sizes(cx.shape_in(0)?.dims())?;
        let states = Dim::from(self.units);
        let cells = batch * steps * &states;
        let biases = if cx.has(3) { self.gates() * if self.reset_after { 2 } else { 1 } } else { 0 };
        Steps { cell: self.cell, cells, inputs: features, states, further: biases }.cost(cx)
    }

    fn role(&self, input: usize) -> Role {
        if DATA.contains(&input) { Role::Data } else { Role::Weight }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let Some([batch, steps, inputs]) = cx.input(0).and_then(|input| self.sizes(input.dims)) else {
            return vec![cx.elementwise()];
        };
        let (hidden, gates) = (self.units.unsigned_abs(), u64::try_from(self.gates()).unwrap_or(1));
        vec![cx.all(Family::Recurrent { batch, steps, inputs, hidden, gates, directions: 1 })]
    }

    /// Input, weights, and the gates and states of every step.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let Some([batch, steps, _]) = cx.input(0).and_then(|input| self.sizes(input.dims)) else {
            return Saved::NOTHING;
        };
        let numbers = u64::try_from(self.gates() + i128::from(self.cell == Cell::Lstm)).unwrap_or(1);
        let cells = crate::ops::work::product(&[batch, steps, self.units.unsigned_abs(), numbers]);
        let extra = (cells as f64 * cx.width()) as u64;
        Saved::inputs(0..3).and(Saved::output(0)).and(Saved::extra(extra)).when(cx.has_backward())
    }
}

/// `ConvLSTM1D`, `ConvLSTM2D`, `ConvLSTM3D`: an LSTM whose products are convolutions.
#[derive(Clone, Debug)]
struct ConvLstm {
    window: Window,
    filters: i64,
    channels_last: bool,
    sequences: bool,
}

/// See [`ConvLstm`].
pub(super) fn conv_lstm(node: &NodeView<'_>) -> Built {
    let layer = ConvLstm {
        window: Window::read(node)?,
        filters: positive(node, "filters")?,
        channels_last: node.flag("channels_last", true)?,
        sequences: node.flag("return_sequences", false)?,
    };
    let stores = Box::new(layer.clone());
    Ok(Box::new(Layer { stores, data: DATA, compute: compute(node)?, inner: Box::new(layer) }))
}

const GATES: i128 = 4;

impl ConvLstm {
    fn kernel(&self) -> &[i64] {
        self.window.kernel.as_deref().unwrap_or_default()
    }

    /// Batch, steps, channels, extents.
    fn sizes<T: Clone>(&self, dims: &[T]) -> Option<([T; 3], Vec<T>)> {
        if dims.len() != self.kernel().len().checked_add(3)? {
            return None;
        }
        let (batch, steps) = (dims.first()?.clone(), dims.get(1)?.clone());
        let (channels, extents) = if self.channels_last {
            (dims.last()?.clone(), dims.get(2..dims.len() - 1)?)
        } else {
            (dims.get(2)?.clone(), dims.get(3..)?)
        };
        Some(([batch, steps, channels], extents.to_vec()))
    }

    fn output(&self, extents: &[Dim]) -> Result<Vec<Dim>, Fault> {
        let extent =
            |(axis, (extent, kernel)): (usize, (&Dim, &i64))| self.window.extent(axis, extent, &Dim::from(*kernel));
        extents.iter().zip(self.kernel()).enumerate().map(extent).collect()
    }

    fn taps(&self) -> Dim {
        product(&self.kernel().iter().map(|&extent| Dim::from(extent)).collect::<Vec<_>>())
    }
}

impl Stores for ConvLstm {
    fn shapes(&self, cx: &InferCx<'_>) -> Result<Vec<(usize, Shape)>, Fault> {
        super::expect_rank(cx, 0, "a ConvLSTM layer", self.kernel().len().saturating_add(3))?;
        let filters = Dim::from(self.filters);
        let wide = &filters * GATES;
        let weight = |from: Dim| -> Shape {
            self.kernel().iter().map(|&extent| Dim::from(extent)).chain([from, wide.clone()]).collect()
        };
        let mut shapes = vec![(2, weight(filters)), (3, Shape::new(vec![wide.clone()]))];
        let Some(([_, _, channels], _)) = cx.shape(0).and_then(|shape| self.sizes(shape.dims())) else {
            return Ok(shapes);
        };
        if let Some(channels) = wanted(Some(&channels), || "the number of channels of the input".to_owned())? {
            shapes.push((1, weight(channels)));
        }
        Ok(shapes)
    }
}

impl Operator for ConvLstm {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0);
        let Some(([batch, steps, _], extents)) = cx.shape(0).and_then(|shape| self.sizes(shape.dims())) else {
            return Ok(vec![Fact::tensor(element, None); cx.output_count()]);
        };
        let extents = self.output(&extents)?;
        let filters = Dim::from(self.filters);
        let image = |front: Vec<Dim>| -> Shape {
            if self.channels_last {
                front.into_iter().chain(extents.iter().cloned()).chain([filters.clone()]).collect()
            } else {
                front.into_iter().chain([filters.clone()]).chain(extents.iter().cloned()).collect()
            }
        };
        let state = image(vec![batch.clone()]);
        let first = if self.sequences { image(vec![batch, steps]) } else { state.clone() };
        let states = (1..cx.output_count()).map(|_| Fact::tensor(element, state.clone()));
        Ok(std::iter::once(Fact::tensor(element, first)).chain(states).collect())
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let ([batch, steps, channels], extents) = self.sizes(cx.shape_in(0)?.dims())?;
        let states = Dim::from(self.filters);
        let cells = batch * steps * product(&self.output(&extents).ok()?) * &states;
        let biases = if cx.has(3) { GATES } else { 0 };
        let (inputs, states) = (channels * self.taps(), states * self.taps());
        Steps { cell: Cell::Lstm, cells, inputs, states, further: biases }.cost(cx)
    }

    fn role(&self, input: usize) -> Role {
        if DATA.contains(&input) { Role::Data } else { Role::Weight }
    }

    /// The convolutions of all steps together; the state joins the input.
    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let family = || {
            let ([batch, steps, channels], extents) = self.sizes(cx.input(0)?.dims)?;
            let kernel: Vec<u64> = self.kernel().iter().map(|extent| extent.unsigned_abs()).collect();
            let strides: Vec<u64> =
                (0..kernel.len()).map(|axis| u64::try_from(self.window.stride(axis)).unwrap_or(1)).collect();
            let filters = self.filters.unsigned_abs();
            let output: Vec<u64> =
                extents.iter().zip(&strides).map(|(extent, stride)| extent.div_ceil((*stride).max(1))).collect();
            Some(Family::Convolution(Convolution {
                batch: batch.saturating_mul(steps),
                in_channels: channels.saturating_add(filters),
                out_channels: filters.saturating_mul(4),
                input: three(&extents),
                output: three(&output),
                kernel: three(&kernel),
                stride: three(&strides),
                dilation: [1; 3],
                groups: 1,
                transposed: false,
                axes: u8::try_from(kernel.len()).unwrap_or(3),
            }))
        };
        match family() {
            Some(family) => vec![cx.all(family).of_operands(0, 1)],
            None => vec![cx.elementwise()],
        }
    }

    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let states = cx.output(0).map_or(0, |output| output.bytes()).saturating_mul(5);
        let steps = cx.input(0).and_then(|input| input.dim(1)).unwrap_or(1);
        let extra = if self.sequences { states } else { states.saturating_mul(steps) };
        Saved::inputs(0..3).and(Saved::output(0)).and(Saved::extra(extra)).when(cx.has_backward())
    }
}

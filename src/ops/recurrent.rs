//! Recurrent layers: `LSTM`, `GRU`, `RNN` and the LSTM with quantised weights. Counted once for each step, sample and
//! direction; weights are read once.

use super::broadcast::unify;
use super::operands::{common_element, count, expect_dim, expect_rank};
use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Saved, Work, WorkCx};
use crate::ir::dim::Dim;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// A recurrent layer.
#[derive(Clone, Debug)]
pub struct Recurrent {
    /// The cell.
    pub cell: Cell,
    /// In which order steps are taken.
    pub direction: Direction,
    /// Number of hidden units; `None` where the weights say it.
    pub hidden: Option<i64>,
    /// Whether the batch comes first instead of the steps.
    pub batch_first: bool,
    /// Whether the gate of a `GRU` is applied after the product with the hidden state.
    pub linear_before_reset: bool,
    /// Whether weights are stored inputs × gates, with scales and zero points behind (`DynamicQuantizeLSTM`).
    pub quantized: bool,
}

/// The cell of a recurrent layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Four gates and a cell state.
    Lstm,
    /// Three gates.
    Gru,
    /// One.
    Rnn,
}

/// In which order steps are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// First to last.
    Forward,
    /// Last to first.
    Reverse,
    /// Both, with weights of their own.
    Both,
}

impl Cell {
    pub(super) fn gates(self) -> i128 {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
            Self::Rnn => 1,
        }
    }

    /// Activations, products and sums for each hidden unit outside the matrix products. LSTM: five activations,
    /// `f * c + i * g`, `o * tanh(c)`. GRU: three activations, `r * h`, `(1 - z) * n + z * h`.
    fn pointwise(self) -> i128 {
        match self {
            Self::Lstm => 9,
            Self::Gru => 8,
            Self::Rnn => 1,
        }
    }
}

impl Direction {
    /// Number of directions.
    #[must_use]
    pub fn count(self) -> i128 {
        if self == Self::Both { 2 } else { 1 }
    }
}

/// Hidden units over all steps, samples and directions. Inputs 0 to 2 are x and the weights of x and of the state.
pub(super) struct Steps {
    pub(super) cell: Cell,
    /// How many there are.
    pub(super) cells: Dim,
    /// What each gate of a unit multiplies of the input.
    pub(super) inputs: Dim,
    /// What each gate of a unit multiplies of the state.
    pub(super) states: Dim,
    /// Biases and peepholes: further operations of a unit.
    pub(super) further: i128,
}

impl Steps {
    pub(super) fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let gates = self.cell.gates();
        let from_input = &self.cells * gates * &self.inputs;
        let from_hidden = &self.cells * gates * &self.states;
        let other = &self.cells * (self.cell.pointwise() + self.further);
        // The gradient runs back through every step as soon as anything needs one.
        let any = i128::from(cx.gradient_count() > 0);
        let needs = |input: usize| i128::from(cx.needs_gradient(input));
        let backward = &from_input * (2 * (needs(0) + needs(1))) + &from_hidden * (2 * (any + needs(2))) + &other * any;
        Cost::composed(cx, from_input + from_hidden, &other, backward)
    }
}

fn build(node: &NodeView<'_>, cell: Cell) -> Built {
    let direction = match node.string("direction")?.unwrap_or("forward") {
        // Version 1 of GRU has a misspelt default.
        "forward" | "foward" => Direction::Forward,
        "reverse" => Direction::Reverse,
        "bidirectional" => Direction::Both,
        other => {
            return Err(Fault::attribute(format!(
                "attribute direction is {other:?}; forward, reverse and bidirectional are allowed"
            )));
        }
    };
    let batch_first = match node.int_or("layout", 0)? {
        0 => false,
        1 => true,
        other => {
            return Err(Fault::attribute(format!("attribute layout is {other}; 0 and 1 are allowed")));
        }
    };
    Ok(Box::new(Recurrent {
        cell,
        direction,
        hidden: node.int("hidden_size")?.map(|hidden| count("hidden_size", hidden)).transpose()?,
        batch_first,
        linear_before_reset: node.flag("linear_before_reset", false)?,
        quantized: node.op_type() == "DynamicQuantizeLSTM",
    }))
}

/// `LSTM`, `DynamicQuantizeLSTM`.
pub(super) fn lstm(node: &NodeView<'_>) -> Built {
    build(node, Cell::Lstm)
}

/// `GRU`.
pub(super) fn gru(node: &NodeView<'_>) -> Built {
    build(node, Cell::Gru)
}

/// `RNN`.
pub(super) fn rnn(node: &NodeView<'_>) -> Built {
    build(node, Cell::Rnn)
}

/// Dims of a recurrent layer, as far as inputs say them.
struct Sizes {
    steps: Option<Dim>,
    batch: Option<Dim>,
    inputs: Option<Dim>,
    hidden: Option<Dim>,
}

impl Recurrent {
    /// Reads the dims off the shapes of x, w and r, and checks what is said twice.
    fn sizes(&self, x: Option<&Shape>, w: Option<&Shape>, r: Option<&Shape>) -> Result<Sizes, Fault> {
        let dim = |shape: Option<&Shape>, axis: usize| shape.and_then(|shape| shape.dim(axis)).cloned();
        let (steps, batch) = if self.batch_first { (dim(x, 1), dim(x, 0)) } else { (dim(x, 0), dim(x, 1)) };
        let gates = self.cell.gates();
        // Quantised weights are stored transposed.
        let (gates_axis, inputs_axis) = if self.quantized { (2, 1) } else { (1, 2) };
        let same = |what: &str, left: Option<Dim>, right: Option<Dim>| match (left, right) {
            (Some(left), Some(right)) => match unify(&left, &right) {
                Some(dim) => Ok(Some(dim)),
                None => Err(Fault::shape(format!("{what}: {left} and {right} differ"))),
            },
            (left, right) => Ok(left.or(right)),
        };
        let inputs = same("input size of X and W", dim(x, 2), dim(w, inputs_axis))?;
        let hidden = same("attribute hidden_size and R", self.hidden.map(Dim::from), dim(r, inputs_axis))?;
        let wide = hidden.as_ref().map(|hidden| hidden * gates);
        let rows = same(&format!("rows of W and {gates} x hidden size"), dim(w, gates_axis), wide)?;
        let rows = same("rows of W and R", rows, dim(r, gates_axis))?;
        let hidden = hidden.or_else(|| rows?.exact_div(&Dim::constant(gates)));
        for (shape, name) in [(w, "W"), (r, "R")] {
            if let Some(found) = dim(shape, 0).filter(|dim| dim.as_const().is_some_and(|n| n != self.direction.count()))
            {
                let wanted = self.direction.count();
                return Err(Fault::shape(format!("{name} is for {found} directions, the attribute says {wanted}")));
            }
        }
        Ok(Sizes { steps, batch, inputs, hidden })
    }

    /// The layer with its sizes as numbers.
    fn family(&self, cx: &WorkCx<'_>) -> Option<Family> {
        let [first, second, inputs] = *cx.input(0)?.dims else { return None };
        let (steps, batch) = if self.batch_first { (second, first) } else { (first, second) };
        // Quantised weights are stored transposed.
        let recurrent = || cx.input(2)?.dim(if self.quantized { 1 } else { 2 });
        let hidden = self.hidden.map(i64::unsigned_abs).or_else(recurrent)?;
        let gates = u64::try_from(self.cell.gates()).ok()?;
        let directions = u64::try_from(self.direction.count()).ok()?;
        Some(Family::Recurrent { batch, steps, inputs, hidden, gates, directions })
    }

    /// Checks bias and first states, which have directions, batch and hidden size of the layer.
    fn check_states(&self, cx: &InferCx<'_>, directions: &Dim, sizes: &Sizes) -> Result<(), Fault> {
        expect_dim(cx, 3, 0, "B", directions)?;
        for (input, name) in [(5, "initial_h"), (6, "initial_c")] {
            expect_rank(cx, input, name, 3)?;
            let (batch_axis, directions_axis) = if self.batch_first { (0, 1) } else { (1, 0) };
            expect_dim(cx, input, directions_axis, name, directions)?;
            for (axis, size) in [(batch_axis, &sizes.batch), (2, &sizes.hidden)] {
                if let Some(size) = size {
                    expect_dim(cx, input, axis, name, size)?;
                }
            }
        }
        Ok(())
    }

    fn first_setting(&self) -> usize {
        if self.quantized { 8 } else { usize::MAX }
    }
}

impl Operator for Recurrent {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = if self.quantized { cx.element(0) } else { common_element(cx, &[0, 1, 2, 3, 5])? };
        for (input, name) in [(0, "X"), (1, "W"), (2, "R")] {
            expect_rank(cx, input, name, 3)?;
        }
        let sizes = self.sizes(cx.shape(0), cx.shape(1), cx.shape(2))?;
        if let (Some(hidden), Some(bias)) = (&sizes.hidden, cx.shape(3)) {
            let wanted = hidden * (2 * self.cell.gates());
            if bias.dims().last().is_some_and(|found| found.is_eq(&wanted) == Some(false)) {
                return Err(Fault::shape(format!("B is {bias}, {wanted} numbers for each direction are needed")));
            }
        }
        let directions = Dim::constant(self.direction.count());
        self.check_states(cx, &directions, &sizes)?;
        let (steps_axis, batch_axis) = if self.batch_first { (1, 0) } else { (0, 2) };
        let steps = sizes.steps.unwrap_or_else(|| cx.fresh_dim(0, steps_axis, 0, None));
        let batch = sizes.batch.unwrap_or_else(|| cx.fresh_dim(0, batch_axis, 0, None));
        let hidden = sizes.hidden.unwrap_or_else(|| cx.fresh_dim(0, 3, 0, None));
        let (sequence, last) = if self.batch_first {
            (vec![batch.clone(), steps, directions.clone(), hidden.clone()], vec![batch, directions, hidden])
        } else {
            (vec![steps, directions.clone(), batch.clone(), hidden.clone()], vec![directions, batch, hidden])
        };
        let last = Fact::tensor(element, Shape::new(last));
        let mut facts = vec![Fact::tensor(element, Shape::new(sequence)), last.clone()];
        if self.cell == Cell::Lstm {
            facts.push(last);
        }
        facts.truncate(cx.output_count());
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let sizes = self.sizes(cx.shape_in(0), cx.shape_in(1), cx.shape_in(2)).ok()?;
        let (hidden, gates) = (sizes.hidden?, self.cell.gates());
        let cells = sizes.steps? * sizes.batch? * self.direction.count() * &hidden;
        // Two biases for each gate; peepholes are three products and sums.
        let biases = if cx.has(3) { 2 * gates } else { 0 };
        let peepholes = if self.cell == Cell::Lstm && cx.has(7) { 6 } else { 0 };
        let further = biases + peepholes;
        Steps { cell: self.cell, cells, inputs: sizes.inputs?, states: hidden, further }.cost(cx)
    }

    fn role(&self, input: usize) -> Role {
        match input {
            1 | 2 | 3 | 7 => Role::Weight,
            4 => Role::Setting,
            _ if input >= self.first_setting() => Role::Setting,
            _ => Role::Data,
        }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        cx.one(self.family(cx))
    }

    /// Input, weights, first states and output, and of each step the gates and (LSTM) the state of the cells: what cuDNN
    /// keeps as its reserve, by the arithmetic of the layer.
    fn saved(&self, cx: &WorkCx<'_>) -> Saved {
        let reserve = match self.family(cx) {
            Some(Family::Recurrent { batch, steps, hidden, gates, directions, .. }) => {
                let numbers = gates.saturating_add(u64::from(self.cell == Cell::Lstm));
                let width = cx.input(0).map_or(0, |input| u64::from(input.element.bits() / 8));
                super::work::product(&[batch, steps, hidden, directions, numbers, width])
            }
            _ => 0,
        };
        let inputs = Saved::inputs(0..4).and(Saved::inputs(5..7));
        inputs.and(Saved::output(0)).and(Saved::extra(reserve)).when(cx.has_backward())
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::dim::Dim;
    use crate::ir::element_type::ElementType;
    use crate::ir::fact::Fact;
    use crate::ir::shape::Shape;
    use crate::ops::testing::{dims, float, free, microsoft, op, typed};

    fn lstm_inputs(directions: i128) -> Vec<Fact> {
        vec![
            float(&[100, 1, 64]),
            float(&[directions, 256, 64]),
            float(&[directions, 256, 64]),
            float(&[directions, 512]),
        ]
    }

    #[test]
    fn a_recurrent_layer_runs_once_per_step() {
        let cost = op("LSTM").int("hidden_size", 64).cost(&lstm_inputs(1));
        assert_eq!(cost.macs, Dim::constant(3_276_800));
        assert_eq!(cost.flops, Dim::constant(2 * 3_276_800 + 6_400 * (9 + 8)));
        let cost = op("GRU").cost(&[float(&[100, 1, 64]), float(&[1, 192, 64]), float(&[1, 192, 64])]);
        assert_eq!(cost.macs, Dim::constant(2_457_600));
        let cost = op("RNN").cost(&[float(&[100, 1, 64]), float(&[1, 64, 64]), float(&[1, 64, 64])]);
        assert_eq!(cost.macs, Dim::constant(819_200));
    }

    #[test]
    fn both_directions_double_outputs_and_cost() {
        let node = || op("LSTM").outputs(3).string("direction", "bidirectional");
        let facts = node().run(&lstm_inputs(2)).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["100×2×1×64", "2×1×64", "2×1×64"]);
        assert_eq!(node().cost(&lstm_inputs(2)).macs, Dim::constant(6_553_600));
    }

    #[test]
    fn layout_1_puts_the_batch_first() {
        let inputs = [float(&[5, 100, 64]), float(&[1, 192, 64]), float(&[1, 192, 64])];
        let facts = op("GRU").outputs(2).int("layout", 1).run(&inputs).unwrap();
        assert_eq!(facts.iter().map(dims).collect::<Vec<_>>(), ["5×100×1×64", "5×1×64"]);
    }

    #[test]
    fn symbolic_steps_stay_symbolic() {
        let x = Fact::tensor(ElementType::Float, Shape::new(vec![free("T"), free("N"), Dim::constant(64)]));
        let inputs = [x, float(&[1, 256, 64]), float(&[1, 256, 64])];
        assert_eq!(op("LSTM").dims(&inputs), "T×1×N×64");
        let unknown = [Fact::Unknown, float(&[1, 256, 64]), Fact::Unknown];
        assert_eq!(op("LSTM").dims(&unknown), "y0.0×1×y0.2×64");
    }

    #[test]
    fn sizes_that_contradict_each_other_are_named() {
        let message = |node: crate::ops::testing::TestNode, inputs: &[Fact]| node.run(inputs).unwrap_err().message;
        let inputs = lstm_inputs(1);
        assert_eq!(
            message(op("LSTM").int("hidden_size", 32), &inputs),
            "attribute hidden_size and R: 32 and 64 differ"
        );
        assert_eq!(
            message(op("LSTM").string("direction", "bidirectional"), &inputs),
            "W is for 1 directions, the attribute says 2"
        );
        assert_eq!(message(op("GRU"), &inputs[..3]), "rows of W and 3 x hidden size: 256 and 192 differ");
        assert_eq!(
            message(op("LSTM").int("hidden_size", 0), &inputs),
            "attribute hidden_size is 0; at least 1 is allowed"
        );
        assert!(message(op("LSTM").string("direction", "up"), &inputs).contains("bidirectional"));
        let mut other = lstm_inputs(1);
        other[0] = float(&[100, 1, 32]);
        assert_eq!(message(op("LSTM"), &other), "input size of X and W: 32 and 64 differ");
        assert_eq!(message(op("LSTM"), &[float(&[1, 64]), inputs[1].clone(), inputs[2].clone()]), {
            "X has rank 2 (1×64), rank 3 is needed"
        });
    }

    #[test]
    fn bias_and_first_states_have_the_sizes_of_the_layer() {
        let with = |bias: &[i128], state: &[i128]| {
            let mut inputs: Vec<_> = lstm_inputs(1).into_iter().take(3).map(Some).collect();
            inputs.extend([Some(float(bias)), None, Some(float(state))]);
            op("LSTM").run_optional(&inputs).map(|_| ()).map_err(|fault| fault.message)
        };
        assert_eq!(with(&[1, 512], &[1, 1, 64]), Ok(()));
        assert_eq!(with(&[0, 512], &[1, 1, 64]), Err("B has 0 in dim 0, 1 is needed".to_owned()));
        assert_eq!(with(&[1, 512], &[2, 1, 64]), Err("initial_h has 2 in dim 0, 1 is needed".to_owned()));
        assert_eq!(with(&[1, 512], &[1, 1, 32]), Err("initial_h has 32 in dim 2, 64 is needed".to_owned()));
    }

    #[test]
    fn quantised_lstm_stores_its_weights_transposed() {
        let weight = || typed(ElementType::Int8, &[1, 32, 256]);
        let hidden = || typed(ElementType::Int8, &[1, 64, 256]);
        let node = || microsoft("DynamicQuantizeLSTM").int("hidden_size", 64);
        let inputs = [float(&[10, 2, 32]), weight(), hidden()];
        assert_eq!(node().dims(&inputs), "10×1×2×64");
        assert_eq!(node().cost(&inputs).macs, Dim::constant(10 * 2 * 4 * 64 * 96));
    }
}

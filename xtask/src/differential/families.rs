//! Calls of operators with random attributes, mostly right.

mod arithmetic;
mod layers;
mod movement;
mod shapes;
mod windows;

use dlcost::ir::element_type::ElementType;

use super::builder::Builder;
use super::case::Call;

type Family = fn(&mut Builder) -> Option<Call>;

/// Families and how often each is drawn.
const FAMILIES: &[(usize, Family)] = &[
    (8, windows::pool),
    (1, windows::global_pool),
    (5, windows::convolution),
    (2, windows::quantized_convolution),
    (6, windows::transposed_convolution),
    (1, windows::unpool),
    (8, windows::resize),
    (7, movement::slice),
    (6, movement::pad),
    (7, movement::reshape),
    (3, movement::gather),
    (3, movement::gather_elements),
    (4, movement::gather_nd),
    (3, movement::scatter),
    (3, movement::concat),
    (4, movement::split),
    (2, movement::tile),
    (3, movement::transpose),
    (4, movement::squeeze),
    (3, movement::unsqueeze),
    (1, movement::flatten),
    (2, movement::depth),
    (3, movement::top_k),
    (2, movement::sequence_order),
    (1, movement::crop),
    (6, arithmetic::einsum),
    (8, arithmetic::reduction),
    (2, arithmetic::arg),
    (8, arithmetic::binary),
    (2, arithmetic::variadic),
    (3, arithmetic::expand),
    (3, arithmetic::select),
    (3, arithmetic::matmul),
    (2, arithmetic::gemm),
    (3, arithmetic::unary),
    (2, arithmetic::cast),
    (1, arithmetic::running),
    (2, shapes::shape),
    (2, shapes::constant_of_shape),
    (2, shapes::range),
    (2, shapes::one_hot),
    (2, shapes::data_dependent),
    (5, shapes::arithmetic),
    (2, shapes::random),
    (3, layers::normalization),
    (2, layers::recurrent),
    (2, layers::softmax),
    (2, layers::quantization),
    (2, layers::sampling),
    (2, layers::signal),
    (2, layers::regions),
    (2, layers::attention),
];

const REAL: &[ElementType] = &[ElementType::Float];
const NUMBER: &[ElementType] = &[ElementType::Float, ElementType::Float, ElementType::Int64, ElementType::Int32];
const ANY: &[ElementType] = &[
    ElementType::Float,
    ElementType::Float,
    ElementType::Float,
    ElementType::Int64,
    ElementType::Int32,
    ElementType::Double,
    ElementType::Bool,
    ElementType::Uint8,
    ElementType::Float16,
];

/// A call of some family; what it needs in front is in the builder already. `None` where the operator set has none.
pub(super) fn call(b: &mut Builder) -> Option<Call> {
    let total = FAMILIES.iter().map(|(weight, _)| weight).sum();
    let mut place = b.below(total);
    for (weight, family) in FAMILIES {
        if place < *weight {
            let mut call = family(b)?;
            if call.outputs.is_empty() {
                call.outputs.push(b.output());
            }
            return Some(call);
        }
        place -= weight;
    }
    None
}

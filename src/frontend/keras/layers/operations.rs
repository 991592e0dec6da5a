//! Operations that stand in a graph like layers: `keras.ops` of Keras 3, `TFOpLambda` and `SlicingOpLambda` of Keras 2.

use super::super::builder::{Attributes, flag, int, ints, text};
use super::super::call::{Argument, Call};
use super::super::json::{Json, Value};
use super::super::layer::{Outputs, constant, items_of};
use super::super::topology::snake;
use super::{Cx, activation};
use crate::frontend::onnx::model::Name;

/// Whether what stands in the list of layers is an operation.
pub(super) fn is_operation(layer: Cx<'_, '_, '_, '_, '_>) -> bool {
    matches!(layer.class, "TFOpLambda" | "SlicingOpLambda" | "ClassMethod" | "InstanceMethod" | "InstanceProperty")
        || layer.module.split('.').any(|part| part == "ops")
}

/// The name of the operation: `reduce_mean`, `get_item`.
fn name_of(layer: Cx<'_, '_, '_, '_, '_>) -> String {
    match layer.text("function") {
        Some(function) => function.rsplit('.').next().unwrap_or(function).to_lowercase(),
        None => snake(layer.class),
    }
}

/// Functions of two tensors: the operator, and whether it compares.
fn binary(name: &str) -> Option<(&'static str, bool)> {
    Some(match name {
        "add" | "add_v2" | "__add__" | "__radd__" => ("Add", false),
        "subtract" | "sub" | "__sub__" | "__rsub__" => ("Sub", false),
        "multiply" | "mul" | "__mul__" | "__rmul__" => ("Mul", false),
        "divide" | "true_divide" | "truediv" | "realdiv" | "divide_no_nan" | "div" | "__truediv__" | "__rtruediv__"
        | "floor_divide" | "floor_div" | "floordiv" => ("Div", false),
        "maximum" => ("Max", false),
        "minimum" => ("Min", false),
        "power" | "pow" => ("Pow", false),
        "mod" | "floormod" | "remainder" => ("Mod", false),
        "squared_difference" | "arctan2" | "atan2" | "logaddexp" => ("Sub", false),
        "equal" | "not_equal" => ("Equal", true),
        "greater" => ("Greater", true),
        "greater_equal" => ("GreaterOrEqual", true),
        "less" => ("Less", true),
        "less_equal" => ("LessOrEqual", true),
        "logical_and" => ("And", true),
        "logical_or" => ("Or", true),
        "logical_xor" => ("Xor", true),
        _ => return None,
    })
}

/// Functions of one tensor that an operator of the standard is.
fn unary(name: &str) -> Option<&'static str> {
    Some(match name {
        "absolute" | "abs" => "Abs",
        "exp" => "Exp",
        "log" => "Log",
        "sqrt" => "Sqrt",
        "sin" => "Sin",
        "cos" => "Cos",
        "tan" => "Tan",
        "negative" | "neg" => "Neg",
        "sign" => "Sign",
        "floor" => "Floor",
        "ceil" => "Ceil",
        "round" | "rint" => "Round",
        "erf" => "Erf",
        "reciprocal" => "Reciprocal",
        "logical_not" => "Not",
        "is_nan" | "isnan" => "IsNaN",
        _ => return None,
    })
}

/// Functions of one tensor that need no more than a kernel for each element, with the type of the result.
fn elementwise(name: &str) -> Option<Option<&'static str>> {
    Some(match name {
        "square" | "rsqrt" | "log1p" | "expm1" | "log2" | "log10" | "sinh" | "cosh" | "arcsin" | "arccos"
        | "arctan" | "asin" | "acos" | "atan" | "clip" | "clip_by_value" | "nan_to_num" | "cumsum" | "cumprod"
        | "flip" | "reverse" | "roll" | "sort" | "normalize" | "l2_normalize" | "dropout" | "lgamma" | "digamma"
        | "erfinv" | "logit" => None,
        "isfinite" | "is_finite" | "isinf" | "is_inf" => Some("bool"),
        "argsort" => Some("int32"),
        _ => return None,
    })
}

fn reduction(name: &str) -> Option<&'static str> {
    Some(match name.strip_prefix("reduce_").unwrap_or(name) {
        "mean" => "mean",
        "sum" => "sum",
        "max" | "amax" => "max",
        "min" | "amin" => "min",
        "prod" => "prod",
        "any" | "all" | "var" | "std" | "variance" | "logsumexp" | "euclidean_norm" | "count_nonzero" | "norm"
        | "median" => "other",
        "argmax" | "argmin" | "arg_max" | "arg_min" => "index",
        _ => return None,
    })
}

struct Parameters<'c, 'j> {
    call: &'c Call<'j, Name>,
    config: &'j Json<'j>,
}

impl<'j> Parameters<'_, 'j> {
    /// A parameter by one of its names: among the arguments of the call, else in the configuration.
    fn value(&self, names: &[&str], index: usize) -> Option<&'j Json<'j>> {
        let named = names.iter().find_map(|name| constant(self.call.named(name)));
        let listed = names.iter().find_map(|name| self.config.get(name));
        named.or(listed).or_else(|| constant(self.call.positional.get(index))).filter(|json| !json.is_null())
    }

    fn integer(&self, names: &[&str], index: usize) -> Option<i64> {
        self.value(names, index).and_then(Json::integer)
    }

    fn list(&self, names: &[&str], index: usize) -> Option<Vec<i64>> {
        let value = items_of(self.value(names, index)?);
        match value.list() {
            Some(items) => items.iter().map(Json::integer).collect(),
            None => value.integer().map(|number| vec![number]),
        }
    }

    fn truth(&self, names: &[&str]) -> bool {
        self.value(names, usize::MAX).and_then(Json::truth).unwrap_or(false)
    }
}

/// Translates an operation.
pub(super) fn translate<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let name = name_of(layer);
    let parameters = Parameters { call, config: layer.config };
    let tensors: Vec<Name> = call.all().into_iter().filter(|name| !name.is_empty()).collect();
    let Some(first) = tensors.first().cloned() else { return super::unknown(layer, call) };
    if layer.class == "SlicingOpLambda" || matches!(&*name, "get_item" | "getitem" | "_slice_helper" | "strided_slice")
    {
        return Ok(vec![item(layer, call, first)]);
    }
    if let Some((op, compares)) = binary(&name) {
        return Ok(vec![two(layer, op, compares, &tensors)]);
    }
    if let Some(op) = unary(&name) {
        return Ok(vec![layer.onnx("", op, vec![first], Vec::new())]);
    }
    if let Some(kind) = reduction(&name) {
        return Ok(vec![reduce(layer, &parameters, kind, first)]);
    }
    if let Some(element) = elementwise(&name) {
        let mut attributes: Attributes = vec![("operations", int(1))];
        attributes.extend(element.map(|element| ("element", text(element))));
        return Ok(vec![layer.keras("", "Shaped", vec![first], attributes)]);
    }
    structural(layer, call, &parameters, &name, &tensors)
}

fn two(layer: Cx<'_, '_, '_, '_, '_>, op: &str, compares: bool, tensors: &[Name]) -> Name {
    match tensors {
        [left, right, ..] => layer.onnx("", op, vec![left.clone(), right.clone()], Vec::new()),
        _ => {
            // The other operand is a number of the file.
            let mut attributes: Attributes = vec![("operations", int(1))];
            if compares {
                attributes.push(("element", text("bool")));
            }
            layer.keras("", "Shaped", tensors.to_vec(), attributes)
        }
    }
}

fn reduce(layer: Cx<'_, '_, '_, '_, '_>, parameters: &Parameters<'_, '_>, kind: &str, input: Name) -> Name {
    let axes = parameters.list(&["axis", "axes", "reduction_indices"], 1);
    let keep = parameters.truth(&["keepdims", "keep_dims"]);
    let mut attributes: Attributes = vec![("kind", text(kind)), ("keepdims", flag(keep))];
    if let Some(axes) = axes {
        attributes.push(("axes", ints(axes)));
    }
    layer.keras("", "Reduce", vec![input], attributes)
}

fn structural<'j>(
    layer: Cx<'_, '_, '_, '_, 'j>,
    call: &Call<'j, Name>,
    parameters: &Parameters<'_, 'j>,
    name: &str,
    tensors: &[Name],
) -> Outputs {
    let Some(first) = tensors.first().cloned() else { return super::unknown(layer, call) };
    let axis = |default: i64| parameters.integer(&["axis", "concat_dim"], 1).unwrap_or(default);
    let one = |name: Name| Ok(vec![name]);
    match name {
        "concatenate" | "concat" => {
            let attributes = vec![("axis", int(axis(if name == "concat" { 0 } else { -1 })))];
            one(layer.onnx("", "Concat", tensors.to_vec(), attributes))
        }
        "matmul" | "mat_mul" | "batch_matmul" => match tensors {
            [left, right, ..] => {
                let turned = |key: &str| parameters.truth(&[key]);
                if turned("transpose_a") || turned("transpose_b") {
                    let attributes =
                        vec![("transA", flag(turned("transpose_a"))), ("transB", flag(turned("transpose_b")))];
                    let domain = ["com.microsoft", "FusedMatMul"];
                    let inputs = vec![left.clone(), right.clone()];
                    return Ok(layer.reader.builder.node(&layer.owner, "", domain, inputs, 1, attributes));
                }
                one(layer.onnx("", "MatMul", vec![left.clone(), right.clone()], Vec::new()))
            }
            _ => super::unknown(layer, call),
        },
        "einsum" => {
            let equation = parameters.value(&["subscripts", "equation"], 0).and_then(Json::text);
            match equation {
                Some(equation) => one(layer.onnx("", "Einsum", tensors.to_vec(), vec![("equation", text(equation))])),
                None => super::unknown(layer, call),
            }
        }
        "reshape" => reshape(layer, call, parameters, first),
        "transpose" => {
            let order = parameters.list(&["axes", "perm"], 1).unwrap_or_default();
            one(layer.keras("", "Permute", vec![first], vec![("dims", ints(order)), ("with_batch", flag(true))]))
        }
        "expand_dims" | "squeeze" => {
            let Some(axes) = parameters.list(&["axis", "axes"], 1) else { return super::unknown(layer, call) };
            let mut picks = Vec::new();
            let [axis] = axes.as_slice() else { return super::unknown(layer, call) };
            let pick = if name == "squeeze" { [0, 0, 0, 1] } else { [2, 0, 0, 1] };
            const ALL: [i64; 4] = [1, i64::MIN, i64::MIN, 1];
            if *axis >= 0 {
                (0..(*axis).min(32)).for_each(|_| picks.extend(ALL));
                picks.extend(pick);
                picks.extend([3, 0, 0, 1]);
            } else {
                picks.extend([3, 0, 0, 1]);
                picks.extend(pick);
                let behind = -1 - (*axis).max(-32);
                (0..behind).for_each(|_| picks.extend(ALL));
            }
            one(layer.keras("", "Item", vec![first], vec![("picks", ints(picks)), ("view", flag(true))]))
        }
        "softmax" | "log_softmax" => {
            let op = if name == "softmax" { "Softmax" } else { "LogSoftmax" };
            one(layer.onnx("", op, vec![first], vec![("axis", int(axis(-1)))]))
        }
        "cast" => {
            let element = parameters.value(&["dtype", "DstT"], 1).and_then(Json::text).unwrap_or("float32");
            let attributes = vec![("element", text(element)), ("operations", int(1))];
            one(layer.keras("", "Shaped", vec![first], attributes))
        }
        "identity" | "convert_to_tensor" | "stop_gradient" | "ensure_shape" => {
            one(layer.keras("", "Shaped", vec![first], vec![("free", flag(true))]))
        }
        "zeros_like" | "ones_like" | "full_like" => {
            let mut attributes: Attributes = vec![("operations", int(0))];
            if let Some(element) = parameters.value(&["dtype"], 1).and_then(Json::text) {
                attributes.push(("element", text(element)));
            }
            one(layer.keras("", "Shaped", vec![first], attributes))
        }
        "where" | "select" if tensors.len() == 3 => one(layer.onnx("", "Where", tensors.to_vec(), Vec::new())),
        "stack" => {
            let Some(axis) = parameters.integer(&["axis"], 1).or(Some(0)) else { return super::unknown(layer, call) };
            let mut lifted = Vec::new();
            for (index, tensor) in tensors.iter().enumerate() {
                let picks = if axis == -1 { vec![3, 0, 0, 1, 2, 0, 0, 1] } else { lifted_picks(axis) };
                let attributes = vec![("picks", ints(picks)), ("view", flag(true))];
                lifted.push(layer.keras(&index.to_string(), "Item", vec![tensor.clone()], attributes));
            }
            one(layer.onnx("", "Concat", lifted, vec![("axis", int(axis))]))
        }
        "shape" => one(layer.onnx("", "Shape", vec![first], Vec::new())),
        "one_hot" => {
            let Some(classes) = parameters.integer(&["num_classes", "depth"], 1) else {
                return super::unknown(layer, call);
            };
            let attributes = vec![("mode", text("append")), ("tokens", int(classes))];
            one(layer.keras("", "Encode", vec![first], attributes))
        }
        "relu" | "relu6" | "sigmoid" | "tanh" | "elu" | "selu" | "celu" | "softplus" | "softsign" | "silu"
        | "swish" | "gelu" | "leaky_relu" | "hard_sigmoid" | "hard_silu" | "hard_swish" | "mish" | "log_sigmoid"
        | "glu" | "hard_tanh" | "hard_shrink" | "soft_shrink" | "tanh_shrink" | "squareplus" | "sparsemax"
        | "sparse_plus" | "threshold" | "exponential" => one(activation::apply(layer, "", name, first)),
        _ => super::unknown(layer, call),
    }
}

fn lifted_picks(axis: i64) -> Vec<i64> {
    let mut picks = Vec::new();
    for _ in 0..axis.clamp(0, 32) {
        picks.extend([1, i64::MIN, i64::MIN, 1]);
    }
    picks.extend([2, 0, 0, 1, 3, 0, 0, 1]);
    picks
}

fn reshape<'j>(
    layer: Cx<'_, '_, '_, '_, 'j>,
    call: &Call<'j, Name>,
    parameters: &Parameters<'_, 'j>,
    first: Name,
) -> Outputs {
    let names = ["newshape", "new_shape", "shape"];
    let argument = names.iter().find_map(|name| call.named(name)).or_else(|| call.positional.get(1));
    let target: Option<Vec<i64>> = match argument {
        Some(Argument::List(items)) => items
            .iter()
            .map(|item| match item {
                Argument::Value(json) if json.is_null() => Some(-1),
                Argument::Value(json) => json.integer(),
                // What only a run knows: most often the batch.
                _ => Some(0),
            })
            .collect(),
        _ => {
            let value = parameters.value(&names, 1).map(items_of);
            value.and_then(Json::list).and_then(|items| {
                items.iter().map(|item| if item.is_null() { Some(-1) } else { item.integer() }).collect()
            })
        }
    };
    let Some(target) = target else { return super::unknown(layer, call) };
    let attributes = vec![("target_shape", ints(target)), ("with_batch", flag(true))];
    Ok(vec![layer.keras("", "Reshape", vec![first], attributes)])
}

/// Indexing: what is taken along each axis.
fn item<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>, first: Name) -> Name {
    let argument = call.named("slice_spec").or_else(|| call.named("key")).or_else(|| call.positional.get(1));
    let mut picks = Vec::new();
    match argument {
        Some(Argument::List(items)) => items.iter().for_each(|item| picks.extend(pick(item))),
        Some(Argument::Value(json)) => match items_of(json).list() {
            Some(items) => items.iter().for_each(|item| picks.extend(pick(&Argument::Value::<Name>(item)))),
            None => picks.extend(pick(&Argument::Value::<Name>(json))),
        },
        Some(other) => picks.extend(pick(other)),
        None => {}
    }
    layer.keras("", "Item", vec![first], vec![("picks", ints(picks))])
}

/// One index as four numbers: kind, start, stop, step.
fn pick(argument: &Argument<'_, Name>) -> [i64; 4] {
    const UNKNOWN: [i64; 4] = [4, 0, 0, 1];
    const REST: [i64; 4] = [3, 0, 0, 1];
    const NEW: [i64; 4] = [2, 0, 0, 1];
    let bound = |json: Option<&Json<'_>>| match json {
        None => Some(i64::MIN),
        Some(json) if json.is_null() => Some(i64::MIN),
        Some(json) => json.integer(),
    };
    let slice = |bounds: [Option<&Json<'_>>; 3]| {
        let step = match bound(bounds[2]) {
            Some(i64::MIN) => Some(1),
            step => step,
        };
        match (bound(bounds[0]), bound(bounds[1]), step) {
            (Some(start), Some(stop), Some(step)) => [1, start, stop, step],
            _ => UNKNOWN,
        }
    };
    match argument {
        // A tensor as an index takes one element where it is a number of the graph; its rank is not known here.
        Argument::Tensor(_) => UNKNOWN,
        Argument::Map(items) => {
            let part = |key: &str| items.iter().find(|(name, _)| name == key).map(|(_, item)| item);
            let parts = ["start", "stop", "step"].map(part);
            if parts.iter().flatten().any(|part| !matches!(part, Argument::Value(_))) {
                return UNKNOWN;
            }
            slice(parts.map(|part| part.and_then(|part| constant(Some(part)))))
        }
        Argument::List(_) => UNKNOWN,
        Argument::Value(json) => match &json.value {
            Value::Null => NEW,
            Value::Integer(_) | Value::Real(_) => json.integer().map_or(UNKNOWN, |index| [0, index, 0, 1]),
            Value::Text(text) if text.to_lowercase().contains("ellipsis") => REST,
            Value::Text(text) if text.to_lowercase().contains("newaxis") => NEW,
            Value::Object(_) => {
                let class = json.get("class_name").and_then(Json::text).unwrap_or_default();
                let config = if class.is_empty() { Some(*json) } else { json.get("config") };
                if class.to_lowercase().contains("ellipsis") {
                    return REST;
                }
                let part = |key: &str| config.and_then(|config| config.get(key));
                slice(["start", "stop", "step"].map(part))
            }
            _ => UNKNOWN,
        },
    }
}

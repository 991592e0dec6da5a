//! Attention layers: projections and what stands between them.

use super::super::builder::{Attributes, flag, int, ints};
use super::super::call::{Argument, Call};
use super::super::layer::{Outputs, Refusal, constant, items_of};
use super::Cx;
use crate::frontend::onnx::model::Name;

fn none() -> Name {
    "".into()
}

/// Query, value and key; without a key the value is it.
fn operands<'j>(call: &Call<'j, Name>) -> Result<[Name; 3], Refusal> {
    let one = |argument: Option<&Argument<'j, Name>>| {
        let mut found = None;
        if let Some(argument) = argument {
            argument.each(&mut |tensor| found = found.clone().or_else(|| Some(tensor.clone())));
        }
        found
    };
    let query = one(call.argument("query", 0));
    let value = one(call.argument("value", 1));
    let key = one(call.argument("key", 2));
    // Keras 2 may list all of them as one argument.
    let listed = call.tensors();
    let query = query.ok_or_else(|| Refusal::new("the layer is called without a query"))?;
    let value =
        value.or_else(|| listed.get(1).cloned()).ok_or_else(|| Refusal::new("the layer is called without a value"))?;
    let key = key.or_else(|| listed.get(2).cloned()).unwrap_or_else(|| value.clone());
    Ok([query, value, key])
}

fn wants_scores(call: &Call<'_, Name>) -> bool {
    constant(call.named("return_attention_scores")).and_then(|json| json.truth()).unwrap_or(false)
}

fn is_masked(call: &Call<'_, Name>) -> bool {
    ["attention_mask", "query_mask", "value_mask", "key_mask", "mask"]
        .iter()
        .any(|name| !call.tensors_of(name).is_empty())
        || is_causal(call)
}

fn is_causal(call: &Call<'_, Name>) -> bool {
    constant(call.named("use_causal_mask")).and_then(|json| json.truth()).unwrap_or(false)
}

/// Heads of query, and of key and value, with their sizes.
struct Heads {
    query: i64,
    others: i64,
    size: i64,
    value_size: i64,
}

fn projected<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>, heads: &Heads, axes: Vec<i64>) -> Outputs {
    let [query, value, key] = operands(call)?;
    let bias = layer.flag("use_bias", true);
    let project =
        |layer: Cx<'_, '_, '_, '_, 'j>, part: &str, input: Name, count: i64, size: i64| -> Result<Name, Refusal> {
            let units = count.checked_mul(size).filter(|units| *units > 0);
            let units = units.ok_or_else(|| Refusal::new("heads and sizes must be positive"))?;
            let mut inputs = vec![input, layer.weight(&format!("{part}/kernel"))];
            if bias {
                inputs.push(layer.weight(&format!("{part}/bias")));
            }
            Ok(layer.keras(part, "Dense", inputs, vec![("units", int(units)), ("split", ints(vec![count, size]))]))
        };
    let q = project(layer, "query", query.clone(), heads.query, heads.size)?;
    let k = project(layer, "key", key, heads.others, heads.size)?;
    let v = project(layer, "value", value, heads.others, heads.value_size)?;
    let scores = wants_scores(call);
    let attributes: Attributes = vec![
        ("heads", int(heads.query)),
        ("kv_heads", int(heads.others)),
        ("attention_axes", ints(axes)),
        ("causal", flag(is_causal(call))),
        ("masked", flag(is_masked(call))),
    ];
    let mut inputs = vec![q, k, v];
    inputs.extend([none(), none()]);
    inputs.extend(call.tensors_of("attention_mask"));
    let made = layer.keras_many("attention", "Attention", inputs, if scores { 2 } else { 1 }, attributes);
    let mut made = made.into_iter();
    let attended = made.next().unwrap_or_else(none);
    let mut inputs = vec![attended, layer.weight("attention_output/kernel")];
    inputs.push(if bias { layer.weight("attention_output/bias") } else { none() });
    let mut attributes: Attributes = Vec::new();
    match layer.value("output_shape").map(items_of) {
        Some(shape) => {
            let dims: Vec<i64> = match shape.list() {
                Some(dims) => dims.iter().filter_map(|dim| dim.integer()).collect(),
                None => shape.integer().into_iter().collect(),
            };
            let units =
                dims.iter().try_fold(1_i64, |product, dim| product.checked_mul(*dim)).filter(|units| *units > 0);
            let units = units.ok_or_else(|| Refusal::new("output_shape must be positive").at(shape.span))?;
            attributes.extend([("units", int(units)), ("split", ints(dims.clone()))]);
            if dims.len() > 1 {
                attributes.push(("spread", flag(true)));
            }
        }
        None => {
            inputs.extend([none(), none(), query]);
            attributes.push(("like", flag(true)));
        }
    }
    let output = layer.keras("", "Dense", inputs, attributes);
    let scores = made.next().map(|scores| layer.named("1", scores));
    Ok(std::iter::once(output).chain(scores).collect())
}

/// `MultiHeadAttention`.
pub(super) fn multi_head<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let size = layer.positive("key_dim")?;
    let count = layer.positive("num_heads")?;
    let value_size = layer.integer("value_dim")?.unwrap_or(size);
    let axes = layer.list("attention_axes")?.unwrap_or_default();
    projected(layer, call, &Heads { query: count, others: count, size, value_size }, axes)
}

/// `GroupedQueryAttention`.
pub(super) fn grouped_query<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let size = layer.positive("head_dim")?;
    let (query, others) = (layer.positive("num_query_heads")?, layer.positive("num_key_value_heads")?);
    projected(layer, call, &Heads { query, others, size, value_size: size }, Vec::new())
}

/// `Attention`, `AdditiveAttention`.
pub(super) fn dot_or_sum<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let listed = call.tensors();
    let [query, value] = match listed.get(..2) {
        Some([query, value]) => [query.clone(), value.clone()],
        _ => return Err(Refusal::new("the layer is called without query and value")),
    };
    let key = listed.get(2).cloned().unwrap_or_else(|| value.clone());
    let additive = layer.class == "AdditiveAttention";
    let concat = layer.text("score_mode") == Some("concat");
    let scaled = layer.flag("use_scale", additive);
    let mut inputs = vec![query, key, value];
    let scale = if scaled { layer.weight("scale") } else { none() };
    inputs.push(scale);
    inputs.push(if concat { layer.weight("concat_score_weight") } else { none() });
    inputs.extend(call.tensors_of("mask"));
    let scores = wants_scores(call) || layer.wanted > 1;
    let attributes: Attributes = vec![
        ("additive", flag(additive || concat)),
        ("wide_scale", flag(additive)),
        ("causal", flag(is_causal(call) || layer.flag("causal", false))),
        ("masked", flag(is_masked(call))),
    ];
    Ok(layer.keras_many("", "Attention", inputs, if scores { 2 } else { 1 }, attributes))
}

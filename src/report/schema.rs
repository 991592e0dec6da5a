//! The JSON Schema of the report, and what its keys mean. Both come from the doc comments of the structs.

use schemars::schema_for;
use serde_json::Value;

use super::Report;
use super::comparison::Comparison;

/// Longer texts for the keys that people ask about.
const MORE: &[(&str, &str)] = &[
    (
        "models.graph.macs",
        "A MAC is one multiply and one add. Counted are convolutions, matrix products, attention products and recurrent \
         cells, forward, with zero padding as if it were data; attention counts every pair of query and key, also those \
         that a causal mask hides. Bias adds and activations are FLOPs and never MACs. The \
         figure holds for all samples of the batch in target.batch and the dims in target.dims; macs_formula leaves them \
         open. With graph.coverage.layers_not_counted above 0 it is a lower bound.",
    ),
    (
        "models.graph.flops",
        "Two for each MAC and one for each element of bias adds, activations, comparisons and other elementwise work.",
    ),
    (
        "models.graph.parameters",
        "Stored float or quantised tensors that reach a layer as weights, shared ones once. Tables that only feed shapes \
         are no parameters; other float tables are counted as constants.",
    ),
    (
        "models.graph.bytes",
        "Every layer reads its inputs and weights and writes its outputs once. What a runtime fuses or keeps in caches is \
         not taken off, so this is traffic without fusion.",
    ),
    (
        "models.layers.key",
        "The name by which --frozen and budgets address a layer: the node's own name, else its operator with a number \
         within its graph and scope. It stays the same when unrelated parts of the model change.",
    ),
    (
        "models.assumptions",
        "Whatever no option, configuration or file said. The key is the option that changes it, without dashes: batch, \
         dim seq, mode.",
    ),
    (
        "models.target.batch",
        "The batch is a free dim of the inputs: one whose name holds 'batch', or is N or bs, else the one that leads most \
         inputs. --batch binds it; without, it is 32 in training and 1 in inference, or the number that the file has.",
    ),
    (
        "models.target.dims",
        "Free dims that were not bound with --dim get a guess for the figures where their name allows one (128 for \
         sequence-like names, 224 for the sides of an image); any other is null, and so are the figures that need it.",
    ),
    (
        "models.graph.coverage",
        "How far the totals can be trusted: layers without a cost make them lower bounds, layers at a bound enter with \
         the most that their shape or trip count allows.",
    ),
    (
        "models.target.accumulate",
        "With more than one, a step is so many forward and backward passes of target.batch samples, one exchange and one \
         update; all times, of layers too, are of the whole step.",
    ),
    (
        "models.target.zero",
        "What is sharded over n replicas takes an n-th of its memory on each; parameters of stage 3 are gathered layer by \
         layer, the largest of which is in memory_bytes.communication. docs/replicas.md has what is exchanged.",
    ),
    (
        "models.memory_bytes",
        "Memory of one device at the moment at which the step holds most. The parts are those of that moment and sum to \
         peak.p50. docs/memory.md has the formula and the source of each.",
    ),
    (
        "models.memory_bytes.peak",
        "parameters + gradients + optimizer + saved_activations + transient + communication + kv_cache + workspace + \
         framework: what nvidia-smi shows for the process. p10 and p90 are its ends for the lower and the upper end of the \
         workspace; everything else is counted, not estimated.",
    ),
    ("models.memory_bytes.peak_allocated", "The peak without workspace and framework: tensors alone."),
    (
        "models.memory_bytes.peak_reserved",
        "The peak without framework: tensors, scratch memory, and what the allocator holds in gaps and by rounding.",
    ),
    (
        "models.memory_bytes.parameters",
        "Elements of each stored tensor times the bytes of an element: weights 4 in fp32, tf32 and amp, 2 in fp16 and bf16, \
         1 in fp8 and int8, never more than in the file; statistics and tables as in the file. With --zero 3 weights are \
         divided by the replicas.",
    ),
    (
        "models.memory_bytes.gradients",
        "One for each trained weight: 4 bytes, or 2 where weights have 16 bits or fewer; 0 in inference. All are counted at \
         every moment, as for a loop that clears them right before the backward pass, or sums them up. With --zero 2 they \
         are divided by the replicas. A copy in fp32 beside 16-bit ones is not in.",
    ),
    (
        "models.memory_bytes.optimizer",
        "4 bytes for each trained weight and slot (momentum, rmsprop, adagrad, lion 1; adam, adamw, adadelta, lamb 2), and 4 \
         more for a master copy where weights have 16 bits or fewer. With --zero 1 they are divided by the replicas.",
    ),
    (
        "models.memory_bytes.saved_activations",
        "Tensors that the backward pass still has to read, each piece of memory once: views share one. Masks, statistics and \
         indices are included, parameters are not. It is what automatic differentiation of PyTorch keeps.",
    ),
    (
        "models.memory_bytes.transient",
        "Tensors that are alive at the peak and not kept for the backward pass: results that a later layer reads, gradients \
         of activations, 16-bit copies of weights under amp, the input of the step, what the loss keeps.",
    ),
    (
        "models.memory_bytes.workspace",
        "Scratch memory of libraries and what the allocator holds beyond tensors: 8,519,680 bytes for matrix products, 3.15 \
         times the input and output of the largest convolution of several taps in training (once in inference), 0.02 of \
         what is kept, 0.6 of the largest operation, rounding to blocks of 512 bytes and segments of 2 MiB. The ends of the \
         range are 0.4 and 1.7 times the estimated part.",
    ),
    (
        "models.memory_bytes.communication",
        "With replicas: buckets as large as all gradients for ddp, a pack of 32 MiB at most for mirrored, copies of the \
         gradients for the others, and 128 MiB for the rings of the collectives. With --zero buckets of 10^9 gradients at \
         most, and in stage 3 the largest layer gathered.",
    ),
    ("models.memory_bytes.kv_cache", "Inputs named past*, or outputs named present*, whichever take more."),
    (
        "models.memory_bytes.framework",
        "Context and code of libraries, by runtime and board: it is there before the first tensor.",
    ),
    (
        "models.memory_bytes.fits",
        "true where the peak fits with the upper end of the workspace, false where it does not with the lower end, null \
         where it depends on the workspace. Against capacity: what other programs hold is not known; a device file with a \
         smaller visible_gib says it.",
    ),
    (
        "models.memory_bytes.largest_batch",
        "The largest batch that fits with the upper end of the workspace, found by pricing batches around the line through \
         two of them. Memory is not proportional to the batch: parameters, state and framework do not grow with it.",
    ),
    (
        "models.replicas.devices",
        "With cards joined by plus in --gpu, where they are not equal. A step takes as long as the slowest of them and the \
         exchange; times and layers are its own, memory_bytes that of the card that is smallest for what it needs.",
    ),
    (
        "models.replicas.step_ms_exchanging_always",
        "With --accumulate K, K times the exchange instead of one. Wrappers do so unless the forward and backward passes of \
         all micro-batches but the last run under what PyTorch calls no_sync.",
    ),
    (
        "models.diagnostics",
        "Gravest first. A root cause is reported once; what only follows from it is not repeated. 'dlcost explain CODE' \
         has a page on each code.",
    ),
];

/// The JSON Schema (draft 2020-12) of [`Report`].
#[must_use]
pub fn of_report() -> Value {
    let mut schema = schema_for!(Report);
    schema.insert("$comment".to_owned(), COMMENT.into());
    schema.to_value()
}

/// The JSON Schema of [`Comparison`].
#[must_use]
pub fn of_comparison() -> Value {
    let mut schema = schema_for!(Comparison);
    schema.insert("$comment".to_owned(), COMMENT.into());
    schema.to_value()
}

const COMMENT: &str = "Integers are exact at any size and may pass 2^53 and 64 bits: read them with a reader that keeps \
    them. A number that is not known is null, what does not apply is 0; NaN and infinity never appear.";

/// What a key means: `graph.macs` of a model, or a path from the top such as `summary.errors`. List marks such as
/// `layers[].macs` may be written and change nothing; of a key that no other contains its last word is enough, also
/// without its unit, as in `memory` or `saved activations`.
#[must_use]
pub fn explain(subject: &str) -> Option<String> {
    let schema = of_report();
    let path = subject.replace("[]", "");
    let exact = [path.clone(), format!("models.{path}")].into_iter().find(|path| find(&schema, path).is_some());
    let same = if exact.is_some() { Vec::new() } else { called(&path) };
    let path = same.first().cloned().unwrap_or(path);
    let full =
        exact.into_iter().chain([path.clone(), format!("models.{path}")]).find(|path| find(&schema, path).is_some())?;
    let node = find(&schema, &full)?;
    let mut text = format!("# {}\n\n{}\n", path, description(&schema, node).unwrap_or_default().trim_end());
    if let Some((_, more)) = MORE.iter().find(|(key, _)| *key == full) {
        text.push_str(&format!("\n{more}\n"));
    }
    text.push_str(&format!("\nType: {}\n", type_of(&schema, node)));
    let keys: Vec<&str> = properties(&schema, node).map(|(name, _)| name).collect();
    if !keys.is_empty() {
        text.push_str(&format!("Keys: {}\n", keys.join(", ")));
    }
    if same.len() > 1 {
        text.push_str(&format!("Of the same name: {}\n", same.get(1..).unwrap_or_default().join(", ")));
    }
    Some(text)
}

/// Keys that are called so by their last word, those nearest to the top first.
fn called(word: &str) -> Vec<String> {
    const UNITS: [&str; 3] = ["_ms", "_bytes", "_per_s"];
    let word = word.to_lowercase().replace([' ', '-'], "_");
    let mut keys = keys();
    keys.retain(|key| {
        let last = key.rsplit('.').next().unwrap_or_default();
        last == word || UNITS.iter().any(|unit| last.strip_suffix(unit) == Some(&*word))
    });
    keys.sort_by_key(|key| key.matches('.').count());
    keys
}

/// Paths of all keys, those of a model without `models.`.
#[must_use]
pub fn keys() -> Vec<String> {
    let schema = of_report();
    let mut keys = Vec::new();
    collect(&schema, &schema, "", &mut keys);
    keys.into_iter().map(|key| key.strip_prefix("models.").map(str::to_owned).unwrap_or(key)).collect()
}

fn collect(schema: &Value, node: &Value, prefix: &str, keys: &mut Vec<String>) {
    for (name, child) in properties(schema, node) {
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        keys.push(path.clone());
        // The report nests few levels, and no struct holds itself.
        collect(schema, child, &path, keys);
    }
}

fn find<'s>(schema: &'s Value, path: &str) -> Option<&'s Value> {
    path.split('.')
        .try_fold(schema, |node, step| properties(schema, node).find(|(name, _)| *name == step).map(|(_, child)| child))
}

/// The keys of an object, or of the items of a list of objects.
fn properties<'s>(schema: &'s Value, node: &'s Value) -> impl Iterator<Item = (&'s str, &'s Value)> {
    let mut node = resolve(schema, node);
    if let Some(items) = node.get("items") {
        node = resolve(schema, items);
    }
    node.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, child)| (name.as_str(), child))
}

/// Follows references, also those that may be null.
fn resolve<'s>(schema: &'s Value, node: &'s Value) -> &'s Value {
    let reference = node.get("$ref").or_else(|| {
        node.get("anyOf").and_then(Value::as_array).into_iter().flatten().find_map(|option| option.get("$ref"))
    });
    reference
        .and_then(Value::as_str)
        .and_then(|reference| schema.pointer(reference.trim_start_matches('#')))
        .unwrap_or(node)
}

fn description<'s>(schema: &'s Value, node: &'s Value) -> Option<&'s str> {
    [node, resolve(schema, node)].into_iter().find_map(|node| node.get("description")?.as_str())
}

/// `integer or null`.
fn type_of(schema: &Value, node: &Value) -> String {
    let nullable = node
        .get("anyOf")
        .and_then(Value::as_array)
        .is_some_and(|options| options.iter().any(|option| option.get("type").and_then(Value::as_str) == Some("null")));
    let resolved = resolve(schema, node);
    let mut names: Vec<&str> = match resolved.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ if resolved.get("enum").is_some() || resolved.get("oneOf").is_some() => vec!["string"],
        _ => vec!["any"],
    };
    if nullable {
        names.push("null");
    }
    names.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_a_model_and_from_the_top() {
        for path in ["graph.macs", "models.graph.macs", "models[].graph.macs", "layers[].macs", "summary.errors"] {
            assert!(explain(path).is_some(), "{path}");
        }
        assert!(explain("graph.nothing").is_none());
        let text = explain("graph.macs").unwrap();
        assert!(text.contains("Type: integer or null") && text.contains("lower bound"), "{text}");
        assert!(explain("memory").unwrap().starts_with("# memory_bytes\n"));
        assert!(explain("saved activations").unwrap().starts_with("# memory_bytes.saved_activations\n"));
        assert!(explain("parameters").unwrap().contains("Of the same name: "));
        assert!(explain("graph").unwrap().contains("Keys: nodes, layers, parameters"));
    }

    #[test]
    fn every_longer_text_belongs_to_a_key() {
        let schema = of_report();
        for (key, _) in MORE {
            assert!(find(&schema, key).is_some(), "{key}");
        }
        assert!(keys().contains(&"layers.flops.forward".to_owned()));
    }

    #[test]
    fn every_key_has_a_description() {
        let schema = of_report();
        for key in keys() {
            let node = find(&schema, &key).or_else(|| find(&schema, &format!("models.{key}"))).unwrap();
            assert!(description(&schema, node).is_some_and(|text| !text.is_empty()), "{key}");
        }
    }

    #[test]
    fn a_report_follows_the_schema() {
        let validator = jsonschema::validator_for(&of_report()).unwrap();
        let report = serde_json::to_string(&crate::render::sample::report()).unwrap();
        let mut report: Value = serde_json::from_str(&report).unwrap();
        let errors: Vec<String> = validator.iter_errors(&report).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        report["models"][0]["graph"]["macs"] = "many".into();
        assert!(!validator.is_valid(&report));
    }
}

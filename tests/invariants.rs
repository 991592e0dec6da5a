//! What must hold of every report, whatever the model: see "Invariants" in ARCHITECTURE.md.

#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

#[allow(dead_code, reason = "benches use the rest")]
#[path = "../benches/synthetic/mod.rs"]
mod synthetic;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::process::Command;

use dlcost::analysis::Analysis;
use dlcost::engine::{CheckOptions, Input, Mode, check};
use dlcost::frontend::load;
use dlcost::frontend::onnx::model::{AttributeValue, GraphDef, Model, Name, NodeDef};
use dlcost::frontend::onnx_text::{PrintOptions, parse, print_model};
use dlcost::frontend::source::Source;
use dlcost::ir::dim::{Dim, Symbol, SymbolKind};
use dlcost::ir::place::Places;
use dlcost::passes::bind::Bindings;
use dlcost::report;
use dlcost::target::{Compute, Request};
use proptest::prelude::*;
use synthetic::{DecoderSizes, decoder, residual_chain};

fn testdata() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// Every model of `testdata` that can be read, and some made in code.
fn models() -> Vec<(String, Model)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(testdata()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "onnx"));
    paths.sort();
    let read = |path: PathBuf| {
        let source = Source::open(&path).unwrap();
        (path.file_name().unwrap().to_string_lossy().into_owned(), load(&source, &mut Places::default()).model.unwrap())
    };
    let mut models: Vec<_> = paths.into_iter().map(read).collect();
    let sizes = DecoderSizes { layers: 2, width: 64, heads: 4, vocabulary: 100, positions: 64 };
    for (name, text) in [("residual chain", residual_chain(40)), ("decoder", decoder(sizes))] {
        let (model, errors) = parse(&text);
        assert!(errors.is_empty(), "{name}: {errors:?}");
        models.push((name.to_owned(), model));
    }
    assert!(models.len() > 5);
    models
}

fn report_of(model: &Model, options: &CheckOptions) -> report::Model {
    let text = print_model(model, &PrintOptions::default());
    check(&Input::Stdin(text.into_bytes()), "model", options).unwrap().remove(0)
}

fn graph_of(model: &Model, options: &CheckOptions) -> report::Graph {
    report_of(model, options).graph.unwrap()
}

/// The totals that two reports are compared by.
fn totals(graph: &report::Graph) -> [Option<i128>; 9] {
    let parameters = &graph.parameters;
    [
        graph.macs,
        graph.flops.forward,
        graph.flops.backward,
        graph.bytes,
        Some(parameters.trainable),
        Some(parameters.non_trainable),
        Some(parameters.constants),
        Some(parameters.bytes),
        i128::try_from(graph.layers).ok(),
    ]
}

/// Applies a change to every name of a tensor in a graph and the graphs inside it.
fn rename_tensors(graph: &mut GraphDef, rename: &dyn Fn(&Name) -> Name) {
    for value in graph.inputs.iter_mut().chain(&mut graph.outputs).chain(&mut graph.value_info) {
        value.name = rename(&value.name);
    }
    for tensor in &mut graph.initializers {
        tensor.name = rename(&tensor.name);
    }
    for sparse in &mut graph.sparse_initializers {
        sparse.values.name = rename(&sparse.values.name);
    }
    for node in &mut graph.nodes {
        for name in node.inputs.iter_mut().chain(&mut node.outputs) {
            *name = rename(name);
        }
        for_each_child(node, &mut |child| rename_tensors(child, rename));
    }
}

fn stored_names(graph: &GraphDef) -> HashSet<Name> {
    let mut names: HashSet<Name> = graph.initializers.iter().map(|tensor| tensor.name.clone()).collect();
    names.extend(graph.sparse_initializers.iter().map(|sparse| sparse.values.name.clone()));
    let constants = graph.nodes.iter().filter(|node| &*node.op_type == "Constant");
    names.extend(constants.flat_map(|node| node.outputs.iter().cloned()));
    let children =
        graph.nodes.iter().flat_map(|node| &node.attributes).filter_map(|attribute| match &attribute.value {
            AttributeValue::Graph(graph) => Some(graph),
            _ => None,
        });
    names.extend(children.flat_map(|child| stored_names(child)));
    names
}

fn for_each_child(node: &mut NodeDef, act: &mut dyn FnMut(&mut GraphDef)) {
    for attribute in &mut node.attributes {
        match &mut attribute.value {
            AttributeValue::Graph(graph) => act(graph),
            AttributeValue::Graphs(graphs) => graphs.iter_mut().for_each(&mut *act),
            _ => {}
        }
    }
}

/// Two models side by side, whose names differ.
fn union(left: &Model, right: &Model) -> Model {
    let mut both = left.clone();
    let mut second = right.graph.clone();
    rename_tensors(&mut second, &|name| if name.is_empty() { name.clone() } else { format!("second.{name}").into() });
    let graph = &mut both.graph;
    graph.inputs.extend(second.inputs);
    graph.outputs.extend(second.outputs);
    graph.value_info.extend(second.value_info);
    graph.initializers.extend(second.initializers);
    graph.sparse_initializers.extend(second.sparse_initializers);
    graph.nodes.extend(second.nodes);
    both
}

fn shuffle<T>(items: &mut [T], mut seed: u64) {
    for end in (1..items.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(end, (seed >> 33) as usize % (end + 1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_nodes_and_stored_tensors_changes_no_figure(seed in any::<u64>()) {
        for (name, model) in models() {
            let expected = graph_of(&model, &CheckOptions::default());
            let mut shuffled = model.clone();
            shuffle(&mut shuffled.graph.nodes, seed);
            shuffle(&mut shuffled.graph.initializers, seed);
            let graph = graph_of(&shuffled, &CheckOptions::default());
            prop_assert_eq!(totals(&graph), totals(&expected), "{}", name);
            prop_assert_eq!(graph.macs_formula, expected.macs_formula, "{}", name);
        }
    }

    #[test]
    fn binding_the_batch_early_or_late_gives_equal_figures(batch in 1_u64..300) {
        for (name, model) in models() {
            let analysis = Analysis::new(&model, Places::default(), &Bindings::default(), &|_| false);
            let Some(symbol) = &analysis.bound.batch else { continue };
            let early = report_of(&model, &CheckOptions { batch: Some(batch), ..CheckOptions::default() });
            let mut values: BTreeMap<String, i128> =
                early.target.dims.iter().filter_map(|(name, value)| Some((name.clone(), (*value)?))).collect();
            values.insert(symbol.clone(), i128::from(batch));
            let late = analysis.at(&values);
            let early = early.graph.unwrap();
            prop_assert_eq!(late.total.macs, early.macs, "{}", &name);
            prop_assert_eq!(late.total.flops, early.flops.forward, "{}", &name);
            prop_assert_eq!(late.total.backward_flops, early.flops.backward, "{}", &name);
            prop_assert_eq!(late.total.bytes, early.bytes, "{}", &name);
        }
    }
}

#[test]
fn names_of_computed_tensors_and_of_nodes_change_no_figure() {
    for (name, model) in models() {
        let expected = graph_of(&model, &CheckOptions::default());
        // Names of inputs and outputs are the user's; those of stored tensors tell weights from running statistics and
        // from numbers that an exporter stored.
        let mut kept = stored_names(&model.graph);
        kept.extend(model.graph.inputs.iter().chain(&model.graph.outputs).map(|value| value.name.clone()));
        let mut renamed = model.clone();
        // Numbers in place of names: they follow no order that the names had.
        let numbers = std::cell::RefCell::new(HashMap::<Name, usize>::new());
        rename_tensors(&mut renamed.graph, &|name| {
            if name.is_empty() || kept.contains(name) {
                return name.clone();
            }
            let mut numbers = numbers.borrow_mut();
            let next = numbers.len();
            format!("t{}", (numbers.entry(name.clone()).or_insert(next).wrapping_mul(7919)) % 1_000_003).into()
        });
        for node in &mut renamed.graph.nodes {
            node.name = "".into();
        }
        let graph = graph_of(&renamed, &CheckOptions::default());
        assert_eq!(totals(&graph), totals(&expected), "{name}");
        assert_eq!(graph.macs_formula, expected.macs_formula, "{name}");
    }
}

/// A precision that does not depend on which layers a model has.
fn plain() -> Request {
    Request { precision: Some(Compute::Fp32), ..Request::default() }
}

/// Launches, and the times of kernels forward and backward.
fn kernels(report: &report::Model) -> Option<[f64; 3]> {
    let time = report.time_ms?;
    let launches: u32 = report.layers.iter().filter_map(|layer| layer.kernels).sum();
    Some([f64::from(launches), time.forward, time.backward])
}

#[test]
fn figures_of_models_side_by_side_add_up() {
    let models = models();
    let mut priced = 0;
    for (name, left) in &models {
        for (other, right) in &models {
            if left.opset_imports != right.opset_imports
                || (left.functions.len(), right.functions.len()) > (0, 0) && name != other
            {
                continue;
            }
            // Values of free dims are assumed from what stands beside them: both models get the same.
            let options = |model: &Model| {
                let target = report_of(model, &CheckOptions::default()).target;
                let dims = target.dims.into_iter().filter_map(|(name, value)| Some((name, value?.to_string())));
                CheckOptions { dims: dims.collect(), request: plain(), ..CheckOptions::default() }
            };
            let mut joined = options(left);
            for dim in options(right).dims {
                if !joined.dims.iter().any(|(name, _)| *name == dim.0) {
                    joined.dims.push(dim);
                }
            }
            let own = |model: &Model| {
                let names = options(model).dims;
                let dims = joined.dims.iter().filter(|dim| names.iter().any(|(name, _)| *name == dim.0)).cloned();
                report_of(model, &CheckOptions { dims: dims.collect(), request: plain(), ..CheckOptions::default() })
            };
            let (left_alone, right_alone) = (own(left), own(right));
            let both = report_of(&union(left, right), &joined);
            let figures = |report: &report::Model| totals(report.graph.as_ref().unwrap());
            let sum: Vec<Option<i128>> = figures(&left_alone)
                .iter()
                .zip(figures(&right_alone))
                .map(|(left, right)| Some((*left)? + right?))
                .collect();
            assert_eq!(figures(&both).to_vec(), sum, "{name} beside {other}");
            let (Some(one), Some(two), Some(all)) = (kernels(&left_alone), kernels(&right_alone), kernels(&both))
            else {
                continue;
            };
            for ((one, two), all) in one.into_iter().zip(two).zip(all) {
                assert!((one + two - all).abs() <= 1e-9 * all, "{name} beside {other}: {one} + {two} is not {all}");
                priced += 1;
            }
        }
    }
    assert!(priced > 30);
}

#[test]
fn inference_costs_no_more_than_training() {
    for (name, model) in models() {
        let of = |mode| graph_of(&model, &CheckOptions { mode, batch: Some(4), ..CheckOptions::default() });
        let (train, infer) = (of(Mode::Train), of(Mode::Infer));
        assert_eq!(infer.flops.backward, Some(0), "{name}");
        let sum = |graph: &report::Graph| Some(graph.flops.forward? + graph.flops.backward?);
        assert!(sum(&infer) <= sum(&train), "{name}: {:?} {:?}", infer.flops, train.flops);
        assert!(infer.macs == train.macs, "{name}");
    }
}

#[test]
fn the_formula_gives_the_macs_of_the_report() {
    let mut formulas = 0;
    for (name, model) in models() {
        let report = report_of(&model, &CheckOptions::default());
        let graph = report.graph.unwrap();
        let Some(formula) = graph.macs_formula.filter(|_| graph.coverage.layers_not_counted == 0) else { continue };
        let free = |name: &str| Some(Dim::from(Symbol::new(name, SymbolKind::Free, 0, None)));
        let formula = Dim::parse(&formula, &free).unwrap();
        let value = formula.eval(&|symbol| report.target.dims.get(symbol.name()).copied().flatten());
        assert_eq!(value, graph.macs, "{name}");
        formulas += 1;
    }
    assert!(formulas > 4);
}

#[test]
fn costs_are_never_negative() {
    for (name, model) in models() {
        let report = report_of(&model, &CheckOptions::default());
        for layer in &report.layers {
            for figure in [layer.macs, layer.flops.forward, layer.flops.backward, layer.bytes] {
                assert!(figure.is_none_or(|figure| figure >= 0), "{name}: {}", layer.key);
            }
        }
    }
}

#[test]
fn every_run_and_every_number_of_jobs_writes_the_same_bytes() {
    let run = |jobs: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlcost"));
        command.args(["check", "testdata", "--format", "json", "--tensors", "--no-config", "--jobs", jobs]);
        command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap().stdout
    };
    let once = run("1");
    assert!(once.len() > 1000);
    assert!(once == run("1"));
    assert!(once == run("2"));
}

fn memory_of(model: &Model, mode: Mode, batch: Option<u64>) -> Option<report::MemoryBytes> {
    report_of(model, &CheckOptions { mode, batch, ..CheckOptions::default() }).memory_bytes
}

#[test]
fn parts_of_memory_sum_to_the_peak() {
    let mut priced = 0;
    for (name, model) in models() {
        let both = [Mode::Infer, Mode::Train].map(|mode| memory_of(&model, mode, None));
        let [Some(inference), Some(training)] = both else { continue };
        for memory in [&inference, &training] {
            assert_eq!(memory.parts().iter().map(|(_, bytes)| bytes).sum::<u64>(), memory.peak.p50, "{name}");
            assert!(memory.peak.p10 <= memory.peak.p50 && memory.peak.p50 <= memory.peak.p90, "{name}");
            assert!(memory.peak.p50 >= memory.parameters, "{name}");
            assert!(memory.peak_allocated <= memory.peak_reserved, "{name}");
        }
        assert_eq!((inference.gradients, inference.optimizer, inference.saved_activations), (0, 0, 0), "{name}");
        assert!(inference.peak.p50 <= training.peak.p50 || inference.kv_cache > 0, "{name}");
        priced += 1;
    }
    assert!(priced > 5);
}

#[test]
fn a_larger_batch_never_needs_less_memory() {
    let mut grown = 0;
    for (name, model) in models() {
        for mode in [Mode::Infer, Mode::Train] {
            let at: Vec<_> = [1, 3, 64].map(|batch| memory_of(&model, mode, Some(batch))).into_iter().collect();
            for pair in at.windows(2) {
                let [Some(small), Some(large)] = pair else { continue };
                assert!(small.peak_allocated <= large.peak_allocated, "{name}");
                assert!(small.peak.p50 <= large.peak.p50, "{name}");
                grown += u32::from(small.peak.p50 < large.peak.p50);
            }
        }
    }
    assert!(grown > 10);
}

//! Whole-program answers to CASES.md, group 6: replicas. Unequal cards (92), accumulated steps (93) and sparse
//! gradients (94) have no option in this version: `docs/replicas.md` says by which formula they are worked out.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use dlcost::device::find_interconnect;
use dlcost::engine::Mode;
use dlcost::report::{Model, Replicas};
use dlcost::runtime::Runtime;
use dlcost::target::{Compute, Optimizer, Request, Strategy};
use support::{far_weight, gpu, opset, parameters, priced, step_ms};

/// `layers` products of `tokens` rows with square weights.
fn tower(layers: u64, tokens: u64, width: u64) -> String {
    let weights: Vec<_> = (0..layers).map(|i| far_weight("float", 4, &format!("W{i}"), &[width, width])).collect();
    let body: String = (0..layers).map(|i| format!("[l{i}] x{} = MatMul (x{i}, W{i})\n", i + 1)).collect();
    let text = format!("g (float[{tokens}, {width}] x0) => (x{layers}) <{}> {{ {body} }}", weights.join(", "));
    opset(18, &text)
}

fn training(text: &str, request: Request) -> Model {
    priced(text, Mode::Train, Request { optimizer: Some(Optimizer::Sgd), ..request })
}

fn replicas(model: &Model) -> &Replicas {
    model.replicas.as_ref().unwrap()
}

/// 142,066 parameters in 6 tensors.
fn mnist(batch: u64) -> String {
    opset(
        18,
        &format!(
            "g (float[{batch}, 1, 28, 28] x) => (y) <{}, {}, {}, {}, {}, {}> {{
                c = Conv <kernel_shape = [7, 7]> (x, W0, b0)
                r = Relu (c)
                p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
                f = Flatten (p)
                d = Gemm (f, W1, b1)
                a = Relu (d)
                y = Gemm (a, W2, b2)
            }}",
            far_weight("float", 4, "W0", &[48, 1, 7, 7]),
            far_weight("float", 4, "b0", &[48]),
            far_weight("float", 4, "W1", &[5808, 24]),
            far_weight("float", 4, "b1", &[24]),
            far_weight("float", 4, "W2", &[24, 10]),
            far_weight("float", 4, "b2", &[10]),
        ),
    )
}

/// Case 88: two cards are slower than one.
#[test]
fn a_small_network_does_not_gain_from_a_second_card() {
    let on = |replicas| {
        let runtime = Runtime::find("tensorflow").map(|runtime| (runtime, None));
        training(&mnist(64), Request { replicas: Some(replicas), runtime, ..gpu("gtx-1080-ti") })
    };
    let [one, two] = [on(1), on(2)];
    assert_eq!(parameters(&one), 142_066);
    assert!(step_ms(&two) > step_ms(&one));
    assert!(replicas(&two).efficiency < 0.8, "{:?}", replicas(&two));
    assert!(two.diagnostics.iter().any(|found| found.name == "replicas-do-not-pay"), "{:?}", two.diagnostics);
    assert!(one.replicas.is_none() && one.diagnostics.iter().all(|found| found.name != "replicas-do-not-pay"));
}

/// Case 89: both batches are in the report.
#[test]
fn the_batch_of_a_replica_and_of_all_are_both_given() {
    let model = training(&mnist(32), Request { replicas: Some(2), ..gpu("v100") });
    assert_eq!((model.target.batch, model.target.global_batch), (Some(32), Some(64)));
}

/// Case 90: 2 (n − 1) / n of the gradients pass each card, and none for one card.
#[test]
fn a_ring_sends_each_gradient_nearly_twice() {
    let time = |replicas| {
        let request = Request { replicas: Some(replicas), strategy: Some(Strategy::Mirrored), ..gpu("a100") };
        let model = training(&tower(40, 32, 8192), request);
        model.replicas.map_or(0.0, |replicas| replicas.all_reduce_ms)
    };
    let [one, two, four, eight] = [1, 2, 4, 8].map(time);
    assert!(one.abs() < f64::EPSILON);
    assert!((four / two - 1.5).abs() < 0.02, "{four} {two}");
    assert!((eight / two - 1.75).abs() < 0.02, "{eight} {two}");
}

/// Case 91: GPT-2 on two Titan RTX takes 1.30 times as long a step without the bridge, 0.99 times with it.
#[test]
fn pcie_instead_of_nvlink_costs_a_third_of_the_step() {
    let on = |count, interconnect: &str| {
        let interconnect = find_interconnect(interconnect).ok();
        training(&tower(30, 2048, 2048), Request { replicas: Some(count), interconnect, ..gpu("titan-rtx") })
    };
    let alone = step_ms(&on(1, "pcie3"));
    let [bridge, bus] = ["nvlink2", "pcie3"].map(|link| step_ms(&on(2, link)) / alone);
    assert!(bridge < 1.12, "{bridge}");
    assert!((1.1..1.8).contains(&bus) && bus > bridge + 0.1, "{bus}");
}

/// Case 95: efficiency on 8 cards of one host is above 0.8, on 16 of two hosts below 0.9.
#[test]
fn a_network_between_hosts_costs_more_than_nvlink_inside() {
    let on = |count, hosts| {
        let request = Request {
            replicas: Some(count),
            hosts: Some(hosts),
            precision: Some(Compute::Amp),
            runtime: Runtime::find("pytorch").map(|runtime| (runtime, None)),
            ..gpu("v100-sxm2-32gb")
        };
        let model = training(&tower(24, 32 * 128, 2140), request);
        model.replicas.map_or(1.0, |replicas| replicas.efficiency)
    };
    let [eight, sixteen] = [on(8, 1), on(16, 2)];
    assert!((on(1, 1) - 1.0).abs() < f64::EPSILON);
    assert!(eight > 0.8 && eight <= 1.0, "{eight}");
    assert!(sixteen < 0.9 && sixteen < eight, "{sixteen}");
}

/// Replicas cost nothing in inference, and more of them never make a step shorter.
#[test]
fn more_replicas_never_make_a_step_shorter() {
    for strategy in [Strategy::Mirrored, Strategy::Ddp, Strategy::CentralStorage, Strategy::ParameterServer] {
        let mut last = 0.0;
        for count in [1, 2, 4, 8, 16] {
            let request = Request { replicas: Some(count), strategy: Some(strategy), ..gpu("p100") };
            let step = step_ms(&training(&mnist(32), request));
            assert!(step >= last, "{strategy:?} {count}: {step} after {last}");
            last = step;
        }
    }
    let alone = step_ms(&priced(&mnist(8), Mode::Infer, gpu("p100")));
    let four = step_ms(&priced(&mnist(8), Mode::Infer, Request { replicas: Some(4), ..gpu("p100") }));
    assert!((alone - four).abs() < 1e-12);
}

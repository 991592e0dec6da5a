//! Whole-program answers to CASES.md, group 6: replicas. Sparse gradients (94) have no option in this version:
//! `docs/replicas.md` says by which formula they are worked out.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use dlcost::device::{Device, find, find_interconnect};
use dlcost::engine::Mode;
use dlcost::report::{Model, Replicas};
use dlcost::runtime::Runtime;
use dlcost::target::{Cards, ChosenGpu, Compute, Optimizer, Request, Strategy, Zero};
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

/// Frozen weights have no gradients, and are gathered all the same where parameters are sharded.
#[test]
fn frozen_weights_are_gathered() {
    let on = |zero, frozen: &[&str]| {
        let options = dlcost::engine::CheckOptions {
            frozen: frozen.iter().map(|&key| key.to_owned()).collect(),
            request: Request { replicas: Some(8), strategy: Some(Strategy::Ddp), zero: Some(zero), ..gpu("a100") },
            ..dlcost::engine::CheckOptions::default()
        };
        let model = support::text_with(&tower(8, 32, 8192), &options);
        (replicas(&model).all_reduce_ms, model.memory_bytes.unwrap().parameters)
    };
    let half = ["l0", "l1", "l2", "l3"];
    let [plain, frozen] = [&[][..], &half].map(|frozen| on(Zero::Optimizer, frozen).0);
    assert!((frozen / plain - 0.5).abs() < 0.1, "{frozen} {plain}");
    // Half of the gradients and all weights twice, of three parts.
    let [plain, frozen] = [&[][..], &half].map(|frozen| on(Zero::Parameters, frozen));
    assert!((frozen.0 / plain.0 - 2.5 / 3.0).abs() < 0.02, "{frozen:?} {plain:?}");
    assert_eq!(frozen.1, plain.1);
}

/// A request for cards of one run.
fn together(cards: &[Device]) -> Request {
    let cards: Vec<Arc<Device>> = cards.iter().cloned().map(Arc::new).collect();
    let chosen = ChosenGpu { cards: Cards::new(cards.clone()), ..ChosenGpu::of((*cards[0]).clone()) };
    Request { gpus: vec![chosen], ..Request::default() }
}

fn card(id: &str) -> Device {
    find(id).unwrap().device.clone()
}

/// Case 92: the slowest sets the pace and the smallest memory the batch, wherever it is named.
#[test]
fn unequal_cards_wait_for_the_slowest() {
    let net = tower(12, 8192, 2048);
    let alone = |id: &str| training(&net, Request { replicas: Some(2), ..gpu(id) });
    let [large, small] = ["rtx-3090", "rtx-3060-12gb"].map(alone);
    for pair in [["rtx-3090", "rtx-3060-12gb"], ["rtx-3060-12gb", "rtx-3090"]] {
        let model = training(&net, together(&pair.map(card)));
        assert_eq!((model.target.replicas, model.target.gpu.as_deref()), (Some(2), Some(&*pair.join("+"))));
        assert!((step_ms(&model) - step_ms(&small)).abs() < 1e-9 && step_ms(&small) > step_ms(&large));
        let [own, of_small] = [&model, &small].map(|model| model.memory_bytes.unwrap());
        assert_eq!((own.capacity, own.parts()), (of_small.capacity, of_small.parts()));
        let replicas = replicas(&model);
        assert_eq!(replicas.bound, "slowest");
        let [first, second] = replicas.devices.as_slice() else { panic!("{replicas:?}") };
        assert_eq!([&*first.gpu, &*second.gpu], pair);
        let (fast, slow) = if pair[0] == "rtx-3090" { (first, second) } else { (second, first) };
        assert!(slow.wait_ms.abs() < 1e-12 && (fast.wait_ms + fast.step_ms - slow.step_ms).abs() < 1e-9);
        // Nothing of the exchange is in it.
        let time = model.time_ms.unwrap();
        assert!((slow.step_ms + time.all_reduce_exposed - time.step.p50).abs() < 1e-9);
    }
}

/// Case 92: where one card is three times as fast, 64 samples are 48 and 16.
#[test]
fn samples_are_split_by_rates() {
    let mut fast = card("rtx-3090");
    let mut slow = fast.clone();
    slow.id = "slow".to_owned();
    // Three times the arithmetic and bandwidth, of layers so large that launches do not count.
    for rates in [&mut fast.plain, &mut fast.tensor] {
        for rate in [&mut rates.fp32, &mut rates.tf32, &mut rates.fp16] {
            *rate = rate.map(|rate| 3.0 * rate);
        }
    }
    fast.memory.gb_s *= 3.0;
    let weight = far_weight("float", 4, "W", &[8192, 8192]);
    let net = opset(18, &format!("g (float[N, 2048, 8192] x) => (y) <{weight}> {{ y = MatMul (x, W) }}"));
    let options = dlcost::engine::CheckOptions {
        batch: Some(32),
        request: Request { precision: Some(Compute::Fp32), ..together(&[fast, slow]) },
        ..dlcost::engine::CheckOptions::default()
    };
    let model = support::text_with(&net, &options);
    let shares: Vec<_> = replicas(&model).devices.iter().map(|device| device.share_of_batch.unwrap()).collect();
    assert_eq!((shares.as_slice(), model.target.global_batch), ([48, 16].as_slice(), Some(64)));
}

/// Equal cards that are named one by one are replicas like any others, and the largest batch is that of the smallest card.
#[test]
fn cards_named_together_are_replicas() {
    let net = mnist(64);
    let four = training(&net, together(&["v100", "v100", "v100", "v100"].map(card)));
    let plain = training(&net, Request { replicas: Some(4), ..gpu("v100") });
    assert!((step_ms(&four) - step_ms(&plain)).abs() < 1e-12 && replicas(&four).devices.is_empty());
    assert_eq!(four.target.gpu, plain.target.gpu);
    let weight = far_weight("float", 4, "W", &[1024, 1024]);
    let net = opset(18, &format!("g (float[N, 1024] x) => (y) <{weight}> {{ h = MatMul (x, W) y = MatMul (h, W) }}"));
    let largest = |request| training(&net, request).memory_bytes.unwrap().largest_batch.unwrap();
    let each = ["t4", "p100", "a100"].map(|id| largest(Request { replicas: Some(3), ..gpu(id) }));
    assert_eq!(largest(together(&["t4", "p100", "a100"].map(card))), *each.iter().min().unwrap());
}

/// Case 93: with K micro-batches one exchange a step, where wrappers that are not told so have K of them.
#[test]
fn accumulated_steps_exchange_once() {
    // Nothing hides with mirrored replicas of TensorFlow.
    let on = |strategy, accumulate: u32, runtime: &str| {
        let request = Request {
            replicas: Some(2),
            strategy: Some(strategy),
            accumulate: Some(accumulate),
            runtime: Runtime::find(runtime).map(|runtime| (runtime, None)),
            ..gpu("v100")
        };
        training(&tower(8, 4096, 2048), request)
    };
    for (strategy, runtime) in [(Strategy::Mirrored, "tensorflow"), (Strategy::Ddp, "pytorch")] {
        let [one, eight] = [1, 8].map(|count| on(strategy, count, runtime));
        let [plain, summed] = [&one, &eight].map(|model| model.time_ms.unwrap());
        let exchange = |time: dlcost::report::TimeMs| time.all_reduce_exposed + time.mirrored_loss;
        assert!((exchange(plain) - exchange(summed)).abs() < 1e-9, "{strategy:?}");
        assert!((summed.forward - 8.0 * plain.forward).abs() < 1e-9);
        assert!((summed.backward - 8.0 * plain.backward).abs() < 1e-9);
        // 8 · compute + exchange, but for the one update and the sums of gradients.
        let compute = plain.step.p50 - exchange(plain) - plain.optimizer;
        let once = 8.0 * compute + summed.optimizer + exchange(summed);
        assert!((summed.step.p50 / once - 1.0).abs() < 0.01, "{strategy:?}: {} and {once}", summed.step.p50);
        let always = replicas(&eight).step_ms_exchanging_always.unwrap();
        assert!((always - summed.step.p50 - 7.0 * exchange(plain)).abs() < 1e-9, "{strategy:?}: {always}");
        assert_eq!(replicas(&one).step_ms_exchanging_always, None);
    }
}

/// The batch is that of a micro-batch, and rates and waiting are of all samples of a step.
#[test]
fn accumulated_samples_count() {
    let on = |accumulate, input_samples_per_s| {
        let request = Request {
            replicas: Some(2),
            accumulate: Some(accumulate),
            input_samples_per_s,
            samples: Some(10_240),
            ..gpu("v100")
        };
        training(&mnist(32), request)
    };
    let model = on(8, None);
    assert_eq!(
        (model.target.batch, model.target.global_batch, model.target.accumulate),
        (Some(32), Some(512), Some(8))
    );
    let rate = model.throughput.unwrap().samples_per_s.unwrap();
    assert!((rate - 512e3 / step_ms(&model)).abs() < 1e-6);
    assert_eq!(model.totals.as_ref().unwrap().steps, 20);
    assert!((step_ms(&on(8, Some(1024.0))) - 500.0).abs() < 1e-9);
    // Activations are those of a micro-batch, and gradients there are none but those that were.
    let [one, eight] = [on(1, None), model].map(|model| model.memory_bytes.unwrap());
    assert_eq!(one.parts(), eight.parts());
}

/// Stages of ZeRO send what they say: as much as an all-reduce, and half as much again with sharded parameters.
#[test]
fn sharded_parameters_send_half_as_much_again() {
    let on = |zero, accumulate| {
        let request = Request {
            replicas: Some(8),
            strategy: Some(Strategy::Ddp),
            zero: Some(zero),
            accumulate: Some(accumulate),
            ..gpu("a100")
        };
        training(&tower(40, 32, 8192), request)
    };
    let sent = |zero, accumulate| replicas(&on(zero, accumulate)).all_reduce_ms;
    let plain = sent(Zero::None, 1);
    assert!((sent(Zero::Optimizer, 1) / plain - 1.0).abs() < 1e-6);
    assert!((sent(Zero::Gradients, 1) / plain - 1.0).abs() < 1e-6);
    assert!((sent(Zero::Parameters, 1) / plain - 1.5).abs() < 0.01);
    // With sharded gradients each micro-batch sends its own; nobody keeps them all.
    assert!((sent(Zero::Optimizer, 4) / plain - 1.0).abs() < 1e-6);
    assert!((sent(Zero::Gradients, 4) / plain - 2.5).abs() < 0.05);
    assert!((sent(Zero::Parameters, 4) / plain - 6.0).abs() < 0.05);
    assert_eq!(replicas(&on(Zero::Gradients, 4)).step_ms_exchanging_always, None);
    assert!(replicas(&on(Zero::Optimizer, 4)).step_ms_exchanging_always.is_some());
    // An eighth of the update, each.
    let update = |zero| on(zero, 1).time_ms.unwrap().optimizer;
    assert!((update(Zero::None) / update(Zero::Optimizer) - 8.0).abs() < 0.1);
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

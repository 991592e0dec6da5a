//! What must hold of every prediction, whatever the model, the device and the runtime: see "Invariants" in
//! ARCHITECTURE.md.

#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlcost::device::{Device, catalogue, find};
use dlcost::engine::{CheckOptions, Input, Mode, check};
use dlcost::report::Model;
use dlcost::runtime::{RUNTIMES, Runtime};
use dlcost::target::{Cards, ChosenGpu, Compute, Optimizer, Recompute, Request, Strategy, Zero};

fn models() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "onnx"));
    paths.sort();
    assert!(paths.len() > 3);
    paths
}

fn chosen(device: Device) -> ChosenGpu {
    ChosenGpu::of(device)
}

fn on(id: &str) -> Request {
    Request { gpus: vec![chosen(find(id).unwrap().device.clone())], ..Request::default() }
}

fn run(path: &Path, mode: Mode, batch: Option<u64>, request: Request) -> Vec<Model> {
    let options = CheckOptions { mode, batch, request, ..CheckOptions::default() };
    check(&Input::Path(path.to_owned()), "model", &options).unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-9)
}

/// Parts are not negative, sum to the whole, and intervals are in order.
fn assert_sound(model: &Model, what: &str) {
    let Some(time) = model.time_ms else { return };
    let parts = time.parts().map(|(_, ms)| ms);
    for part in parts {
        assert!(part.is_finite() && part >= 0.0, "{what}: {time:?}");
    }
    assert!(close(parts.iter().sum(), time.step.p50), "{what}: {time:?}");
    assert!(time.step.p10 <= time.step.p50 && time.step.p50 <= time.step.p90, "{what}: {time:?}");
    let memory = model.memory_bytes.unwrap();
    assert_eq!(memory.parts().iter().map(|(_, bytes)| bytes).sum::<u64>(), memory.peak.p50, "{what}: {memory:?}");
    assert!(memory.peak.p10 <= memory.peak.p50 && memory.peak.p50 <= memory.peak.p90, "{what}: {memory:?}");
    assert!(memory.peak_allocated <= memory.peak.p50 && memory.peak_reserved <= memory.peak.p50, "{what}");
    assert!(memory.peak.p50 >= memory.parameters, "{what}: {memory:?}");
    for layer in &model.layers {
        let time = layer.time_ms.unwrap();
        let numbers = [time.forward, time.backward, time.p10, time.p50, time.p90, layer.share.unwrap_or(0.0)];
        assert!(numbers.iter().all(|number| number.is_finite() && *number >= 0.0), "{what}: {layer:?}");
        assert!(time.p10 <= time.p50 && time.p50 <= time.p90, "{what}: {layer:?}");
    }
    if let Some(replicas) = &model.replicas {
        assert!(replicas.speedup > 0.0 && replicas.efficiency <= 1.0 + 1e-9, "{what}: {replicas:?}");
    }
}

#[test]
fn every_device_and_every_model_are_priced_soundly() {
    let gpus: Vec<_> = catalogue().devices().iter().cloned().map(chosen).collect();
    assert!(gpus.len() > 60);
    // Each device prices a few models, and each model a few devices: all pairs would take minutes.
    for (start, path) in models().into_iter().enumerate() {
        let gpus: Vec<_> = gpus.iter().skip(start % 9).step_by(9).cloned().collect();
        for mode in [Mode::Train, Mode::Infer] {
            let found = run(&path, mode, None, Request { gpus: gpus.clone(), ..Request::default() });
            assert_eq!(found.len(), gpus.len());
            for (model, gpu) in found.iter().zip(&gpus) {
                assert_sound(model, &format!("{} {mode:?} {}", path.display(), gpu.device.id));
            }
        }
    }
}

#[test]
fn every_runtime_precision_and_optimizer_prices_soundly() {
    for path in models() {
        for runtime in RUNTIMES {
            for (name, precision) in Compute::ALL {
                for (replicas, strategy) in [(1, Strategy::Ddp), (4, Strategy::Mirrored), (8, Strategy::CentralStorage)]
                {
                    let request = Request {
                        runtime: Some((runtime, None)),
                        precision: Some(precision),
                        optimizer: Some(Optimizer::Adam),
                        replicas: Some(replicas),
                        strategy: Some(strategy),
                        recompute: (replicas == 4).then_some(Recompute::Sqrt),
                        ..on("h100")
                    };
                    let mode = if runtime.trains { Mode::Train } else { Mode::Infer };
                    for model in run(&path, mode, Some(4), request) {
                        assert_sound(&model, &format!("{} {} {name} {replicas}", path.display(), runtime.name));
                    }
                }
            }
        }
    }
}

#[test]
fn inference_takes_no_more_than_training() {
    for path in models() {
        for id in ["t4", "v100", "h100", "mi250x"] {
            let of = |mode| run(&path, mode, Some(8), Request { optimizer: Some(Optimizer::Sgd), ..on(id) }).remove(0);
            let (train, infer) = (of(Mode::Train), of(Mode::Infer));
            let (Some(train_time), Some(infer_time)) = (train.time_ms, infer.time_ms) else { continue };
            assert!(infer_time.step.p50 <= train_time.step.p50, "{} {id}", path.display());
            let peaks = [infer, train].map(|model| model.memory_bytes.unwrap().peak.p50);
            assert!(peaks[0] <= peaks[1], "{} {id}: {peaks:?}", path.display());
        }
    }
}

#[test]
fn a_larger_batch_is_never_faster_and_never_smaller() {
    for path in models() {
        for mode in [Mode::Train, Mode::Infer] {
            for runtime in ["pytorch", "pytorch-compile", "tensorflow", "onnxruntime"] {
                let mut last = (0.0_f64, 0_u64);
                for batch in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
                    let runtime = Some((Runtime::find(runtime).unwrap(), None));
                    let request = Request { runtime, replicas: Some(4), ..on("v100") };
                    let model = run(&path, mode, Some(batch), request).remove(0);
                    let (Some(time), Some(memory)) = (model.time_ms, model.memory_bytes) else { break };
                    let now = (time.step.p50, memory.peak.p50);
                    assert!(now.0 >= last.0 * (1.0 - 1e-9), "{} at {batch}: {now:?} after {last:?}", path.display());
                    assert!(now.1 >= last.1, "{} at {batch}: {now:?} after {last:?}", path.display());
                    last = now;
                }
            }
        }
    }
}

/// Makes a device better in one way.
type Improve = fn(&mut Device);

#[test]
fn a_better_device_is_never_slower() {
    let base = find("v100").unwrap().device.clone();
    let improved: [(&str, Improve); 4] = [
        ("bandwidth", |device| device.memory.gb_s *= 1.7),
        ("cache", |device| device.memory.l2_mib *= 4.0),
        ("units", |device| {
            device.plain.fp32 = device.plain.fp32.map(|rate| rate * 1.5);
            device.tensor.fp16 = device.tensor.fp16.map(|rate| rate * 1.5);
        }),
        ("clock", |device| device.board.sustained_mhz *= 1.05),
    ];
    for path in models() {
        for precision in [Compute::Fp32, Compute::Amp] {
            let of = |device: Device| {
                let request = Request { gpus: vec![chosen(device)], precision: Some(precision), ..Request::default() };
                run(&path, Mode::Train, Some(16), request).remove(0).time_ms.map(|time| time.step.p50)
            };
            let Some(before) = of(base.clone()) else { continue };
            for (what, improve) in improved {
                let mut better = base.clone();
                improve(&mut better);
                let after = of(better).unwrap();
                assert!(after <= before * (1.0 + 1e-9), "{} {what}: {after} after {before}", path.display());
            }
        }
    }
}

/// No kernel is faster than its cheapest algorithm at the peak, nor than its bytes through the last-level cache.
#[test]
fn no_layer_beats_the_device() {
    for path in models() {
        for id in ["p100", "v100", "h100"] {
            let device = find(id).unwrap().device;
            let model =
                run(&path, Mode::Infer, Some(64), Request { precision: Some(Compute::Fp32), ..on(id) }).remove(0);
            for layer in &model.layers {
                let (Some(time), Some(macs)) = (layer.time_ms, layer.macs) else { continue };
                // Attention is priced where its last product stands.
                if layer.kernels == Some(0) || layer.repeats != Some(1) {
                    continue;
                }
                let peak = device.plain.fp32.unwrap() * 1e9;
                // FFT saves more than four times the products only for windows that no network has.
                let floor = 2.0 * macs as f64 / (4.0 * peak);
                assert!(time.p50 >= floor, "{} {}: {} under {floor}", path.display(), layer.key, time.p50);
            }
        }
    }
}

/// A request for replicas that share state.
fn sharded(zero: Zero, replicas: u32, accumulate: u32) -> Request {
    Request {
        replicas: Some(replicas),
        strategy: Some(Strategy::Ddp),
        optimizer: Some(Optimizer::Adam),
        zero: Some(zero),
        accumulate: Some(accumulate),
        ..on("v100")
    }
}

#[test]
fn sharding_more_never_takes_more_memory() {
    for path in models() {
        for precision in [Compute::Fp16, Compute::Amp] {
            for replicas in [2, 8] {
                let mut last = u64::MAX;
                for (stage, zero) in Zero::ALL {
                    let request = Request { precision: Some(precision), ..sharded(zero, replicas, 1) };
                    let model = run(&path, Mode::Train, Some(4), request).remove(0);
                    let what = format!("{} {precision:?} {replicas} stage {stage}", path.display());
                    assert_sound(&model, &what);
                    let Some(memory) = model.memory_bytes else { break };
                    assert!(memory.peak.p50 <= last, "{what}: {memory:?} after {last}");
                    last = memory.peak.p50;
                }
            }
        }
    }
}

#[test]
fn accumulating_never_makes_samples_slower_nor_steps_shorter() {
    for path in models() {
        for (stage, zero) in Zero::ALL {
            let mut last = (0.0, f64::INFINITY);
            for count in [1, 2, 16] {
                let model = run(&path, Mode::Train, Some(4), sharded(zero, 4, count)).remove(0);
                let what = format!("{} stage {stage} {count}", path.display());
                assert_sound(&model, &what);
                let Some(time) = model.time_ms else { break };
                assert!(time.step.p50 >= last.0, "{what}: {time:?} after {last:?}");
                let each = time.step.p50 / f64::from(count);
                assert!(each <= last.1 * (1.0 + 1e-9), "{what}: {time:?} after {last:?}");
                if let Some(always) = model.replicas.and_then(|replicas| replicas.step_ms_exchanging_always) {
                    assert!(always >= time.step.p50, "{what}: {always}");
                }
                last = (time.step.p50, each);
            }
        }
    }
}

#[test]
fn unequal_cards_are_priced_soundly_and_never_beat_their_fastest() {
    let kinds = ["p100", "t4", "rtx-3060-12gb", "a100"].map(|id| find(id).unwrap().device.clone());
    let cards = Cards::new(kinds.iter().cloned().map(Arc::new).collect());
    let all = ChosenGpu { cards, ..chosen(kinds[0].clone()) };
    for path in models() {
        for strategy in [Strategy::Ddp, Strategy::Mirrored] {
            let request = |gpu: &ChosenGpu| Request {
                gpus: vec![gpu.clone()],
                replicas: Some(4),
                strategy: Some(strategy),
                interconnect: dlcost::device::find_interconnect("pcie3").ok(),
                ..Request::default()
            };
            let model = run(&path, Mode::Train, Some(8), request(&all)).remove(0);
            let what = format!("{} {strategy:?}", path.display());
            assert_sound(&model, &what);
            let Some(time) = model.time_ms else { continue };
            let alone: Vec<Model> = kinds
                .iter()
                .map(|kind| run(&path, Mode::Train, Some(8), request(&chosen(kind.clone()))).remove(0))
                .collect();
            let fastest = alone.iter().map(|model| model.time_ms.unwrap().step.p50).fold(f64::INFINITY, f64::min);
            assert!(time.step.p50 >= fastest * (1.0 - 1e-9), "{what}: {time:?} under {fastest}");
            let devices = model.replicas.unwrap().devices;
            assert!(devices.iter().all(|device| device.wait_ms >= 0.0), "{what}: {devices:?}");
            let shares: u64 = devices.iter().filter_map(|device| device.share_of_batch).sum();
            assert!(model.target.global_batch.is_none_or(|batch| batch == i128::from(shares)), "{what}: {devices:?}");
        }
    }
}

#[test]
fn more_bytes_between_replicas_never_help() {
    for path in models() {
        for strategy in [Strategy::Ddp, Strategy::Mirrored, Strategy::CentralStorage, Strategy::ParameterServer] {
            let mut last = 0.0;
            for link in ["nvswitch3", "nvlink2", "pcie4", "pcie3", "pcie3-x8"] {
                let interconnect = dlcost::device::find_interconnect(link).ok();
                let request = Request { replicas: Some(8), strategy: Some(strategy), interconnect, ..on("v100") };
                let model = run(&path, Mode::Train, Some(8), request).remove(0);
                let Some(time) = model.time_ms else { break };
                assert!(time.step.p50 >= last - 0.05, "{} {strategy:?} {link}: {time:?} {last}", path.display());
                last = time.step.p50;
            }
        }
    }
}

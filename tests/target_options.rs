//! Options that say what a model runs on: what each does to the report, and what is refused.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use serde_json::Value;
use support::{Folder, opset, zeros};

/// A free batch, a convolution, a product.
fn net() -> String {
    let weights = format!("float[8, 3, 3, 3] w = {}, float[8, 10] v = {}", zeros(216), zeros(80));
    opset(
        17,
        &format!(
            "net (float[batch, 3, 64, 64] x) => (float[batch, 10] y) <{weights}> {{\n\
             [conv] c = Conv <pads = [1, 1, 1, 1]> (x, w)\n[relu] r = Relu (c)\n[pool] p = GlobalAveragePool (r)\n\
             [flat] f = Flatten (p)\n[fc] y = MatMul (f, v)\n}}\n"
        ),
    )
}

fn folder() -> Folder {
    Folder::with(&[("net.onnxtxt", net().as_bytes())])
}

/// Exit status and standard error of `dlcost check net.onnxtxt` with these arguments.
fn outcome(folder: &Folder, arguments: &str) -> (i32, String) {
    let arguments: Vec<&str> = ["check", "net.onnxtxt"].into_iter().chain(arguments.split_whitespace()).collect();
    let output = folder.run(&arguments);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Entries of the JSON report.
fn models(folder: &Folder, arguments: &str) -> Vec<Value> {
    let arguments: Vec<&str> =
        ["check", "--format", "json", "net.onnxtxt"].into_iter().chain(arguments.split_whitespace()).collect();
    let output = folder.run(&arguments);
    assert!(output.status.code() != Some(2), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["models"].as_array().unwrap().clone()
}

fn model(arguments: &str) -> Value {
    models(&folder(), arguments).remove(0)
}

fn refused(arguments: &str, because: &str) {
    let (status, error) = outcome(&folder(), arguments);
    assert_eq!(status, 2, "{arguments}: {error}");
    assert!(error.contains(because), "{arguments}: {error}");
}

/// Why something was assumed.
fn why(model: &Value, key: &str) -> Option<String> {
    let all = model["assumptions"].as_array().unwrap();
    all.iter().find(|entry| entry["key"] == key).map(|entry| entry["why"].as_str().unwrap().to_owned())
}

#[test]
fn every_option_of_the_target_stands_in_the_report() {
    let model = model(
        "--gpu v100-sxm2-16gb --global-batch 64 --precision amp --optimizer adam --runtime pytorch@1.13 --attention eager \
         --replicas 8 --hosts 2 --strategy ddp --zero 2 --accumulate 4 --interconnect pcie3 --recompute sqrt \
         --input-ms 1 --input-samples-per-s 1e5",
    );
    let target = &model["target"];
    assert_eq!(target["gpu"], "v100-sxm2-16gb");
    assert_eq!((&target["batch"], &target["global_batch"]), (&Value::from(2), &Value::from(64)));
    assert_eq!((&target["accumulate"], &target["zero"]), (&Value::from(4), &Value::from(2)));
    assert_eq!((&target["precision"], &target["optimizer"]), (&Value::from("amp"), &Value::from("adam")));
    assert_eq!(target["runtime"], "pytorch@1.13");
    assert_eq!((&target["replicas"], &target["hosts"]), (&Value::from(8), &Value::from(2)));
    assert_eq!(target["strategy"], "ddp");
    assert!(target["interconnect"].is_string());
    for key in ["gpu", "precision", "optimizer", "runtime", "strategy", "batch"] {
        assert_eq!(why(&model, key), None, "{key} was given");
    }
}

#[test]
fn what_is_not_given_is_assumed_and_said() {
    let model = model("");
    assert_eq!(model["target"]["gpu"], "a100-sxm4-40gb");
    for key in ["gpu", "precision", "optimizer", "runtime", "mode", "batch"] {
        assert!(why(&model, key).is_some(), "{key}");
    }
}

#[test]
fn each_device_makes_an_entry_in_the_order_of_the_command_line() {
    let ids = |arguments: &str| {
        let models = models(&folder(), arguments);
        models.iter().map(|model| model["target"]["gpu"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids("--gpu t4,v100"), ["t4", "v100-sxm2-16gb"]);
    assert_eq!(ids("--gpu l4 --gpu T4 --gpu l4"), ["l4", "t4"]);
}

#[test]
fn an_alias_is_shown_in_full_with_the_boards_it_could_mean() {
    let model = model("--gpu a100");
    assert_eq!(model["target"]["gpu"], "a100-sxm4-40gb");
    let note = why(&model, "gpu").unwrap();
    assert!(note.contains("a100-sxm4-80gb") && note.contains("a100-pcie-40gb"), "{note}");
    let alias = self::model("--gpu H100");
    assert_eq!(alias["target"]["gpu"], "h100-sxm5-80gb");
    assert!(why(&alias, "gpu").unwrap().contains("h100-pcie-80gb"));
}

#[test]
fn an_unknown_device_gets_the_three_nearest() {
    let (status, error) = outcome(&folder(), "--gpu rtx-4070-ti-supr");
    assert_eq!(status, 2);
    let nearest = error.trim_end().rsplit_once("nearest: ").unwrap().1;
    assert_eq!(nearest.split(", ").count(), 3, "{error}");
    assert!(nearest.contains("rtx-4070-ti-super"), "{error}");
    refused("--gpu nowhere.toml", "nowhere.toml");
    refused("--gpu=", "a device is missing");
}

#[test]
fn a_card_given_by_hand_has_a_wider_interval_and_says_so() {
    let folder = folder();
    let card = "[device.mine]\nmemory = { gib = 16, gb_s = 672 }\nplain = { fp32 = 44.1 }\n";
    folder.write("card.toml", card.as_bytes());
    let width = |model: &Value| {
        let step = &model["time_ms"]["step"];
        step["p90"].as_f64().unwrap() / step["p10"].as_f64().unwrap()
    };
    let models = models(&folder, "--gpu card.toml,rtx-4070-ti-super --batch 64");
    assert_eq!(models[0]["target"]["gpu"], "mine");
    assert!(why(&models[0], "gpu").unwrap().contains("assumed"), "{}", models[0]["assumptions"]);
    assert!(width(&models[0]) > width(&models[1]) * 1.2);
    folder.write("bad.toml", b"[device.mine]\nmemory = { gib = 16 }\nplain = { fp32 = 44.1 }\n");
    let (status, error) = outcome(&folder, "--gpu bad.toml");
    assert!(status == 2 && error.contains("bad.toml:2:") && error.contains("memory.gb_s"), "{error}");
}

#[test]
fn the_batch_is_given_per_replica_or_in_all_and_both_are_shown() {
    let both = |arguments: &str| {
        let model = model(arguments);
        (model["target"]["batch"].as_i64().unwrap(), model["target"]["global_batch"].as_i64().unwrap())
    };
    assert_eq!(both("--replicas 2 --batch 64"), (64, 128));
    assert_eq!(both("--replicas 2 --global-batch 64"), (32, 64));
    assert_eq!(both("--replicas 2 --global-batch 64 --batch 32"), (32, 64));
    assert_eq!(both("--global-batch 64"), (64, 64));
    refused("--replicas 2 --global-batch 64 --batch 64", "is 128 in all and not the global batch 64");
    refused("--replicas 8 --global-batch 65", "nearest: 64 or 72");
    refused("--replicas 8 --global-batch 3", "nearest: 8");
}

#[test]
fn replicas_in_inference_are_copies() {
    let alone = model("--mode infer --batch 8");
    let four = model("--mode infer --batch 8 --replicas 4");
    assert_eq!(alone["time_ms"]["step"]["p50"], four["time_ms"]["step"]["p50"]);
    let rate = |model: &Value| model["throughput"]["samples_per_s"].as_f64().unwrap();
    assert!((rate(&four) / rate(&alone) - 4.0).abs() < 1e-6);
    assert_eq!(four["time_ms"]["all_reduce_exposed"], 0.0);
}

#[test]
fn sharding_is_for_ddp_and_several_replicas() {
    refused("--zero 2", "there is one; give replicas");
    refused("--zero 2 --replicas 4 --strategy mirrored", "needs the strategy ddp, and it is mirrored");
    refused("--zero 2 --replicas 4 --runtime tensorflow", "needs the strategy ddp, and it is mirrored");
    refused("--zero 4 --replicas 4", "is not a stage of ZeRO");
    let model = model("--zero 3 --replicas 4 --optimizer adam");
    assert_eq!((&model["target"]["zero"], &model["target"]["strategy"]), (&Value::from(3), &Value::from("ddp")));
    assert_eq!(why(&model, "strategy").as_deref(), Some("the one that shards"));
}

#[test]
fn cards_of_one_run_are_joined_by_plus() {
    let folder = folder();
    folder.write("mine.toml", b"[device.mine]\nmemory = { gib = 6, gb_s = 200 }\nplain = { fp32 = 5 }\n");
    let two = b"[device.a]\nmemory = { gib = 6, gb_s = 200 }\nplain = { fp32 = 5 }\n\
                [device.b]\nmemory = { gib = 6, gb_s = 200 }\nplain = { fp32 = 5 }\n";
    folder.write("two.toml", two);
    let models = models(&folder, "--gpu 2*v100+mine.toml,t4 --batch 32 --samples 960 --price 1");
    let [run, alone] = models.as_slice() else { panic!("{models:?}") };
    assert_eq!((&run["target"]["gpu"], &alone["target"]["gpu"]), (&"2*v100-sxm2-16gb+mine".into(), &"t4".into()));
    assert_eq!((&run["target"]["replicas"], &run["target"]["global_batch"]), (&Value::from(3), &Value::from(96)));
    let devices = run["replicas"]["devices"].as_array().unwrap();
    let ids: Vec<&str> = devices.iter().map(|device| device["gpu"].as_str().unwrap()).collect();
    assert_eq!(ids, ["v100-sxm2-16gb", "v100-sxm2-16gb", "mine"]);
    let shares: u64 = devices.iter().map(|device| device["share_of_batch"].as_u64().unwrap()).sum();
    assert_eq!((shares, &run["totals"]["steps"]), (96, &Value::from(10)));
    assert!(run["memory_bytes"]["capacity"].as_u64().unwrap() <= 6 << 30);
    assert!(why(run, "interconnect").unwrap().contains("slowest"));
    assert_eq!(models_of_eight(&folder), 8);
    for (arguments, because) in [
        ("--gpu v100+t4 --replicas 3", "is 2 cards, one for each replica, and replicas is 3"),
        ("--gpu v100+t4 --mode infer", "in inference each works alone"),
        ("--gpu v100+t4,l4 --global-batch 64", "give the batch of a replica"),
        ("--gpu v100+t4 --global-batch 63", "nearest: 62 or 64"),
        ("--gpu v100+two.toml", "holds one device, not a, b"),
        ("--gpu v100+", "a device is missing"),
        ("--gpu v100+nothing", "no device is called 'nothing'"),
    ] {
        let (status, error) = outcome(&folder, arguments);
        assert!(status == 2 && error.contains(because), "{arguments}: {error}");
    }
    folder.write("dlcost.toml", b"[defaults]\ngpu = '2*mine.toml + t4'\n");
    assert_eq!(self::models(&folder, "")[0]["target"]["gpu"], "2*mine+t4");
}

/// Replicas of cards of one kind.
fn models_of_eight(folder: &Folder) -> u64 {
    let model = models(folder, "--gpu 8*v100").remove(0);
    assert_eq!(
        (&model["target"]["gpu"], &model["replicas"]["devices"]),
        (&"v100-sxm2-16gb".into(), &Value::Array(Vec::new()))
    );
    model["target"]["replicas"].as_u64().unwrap()
}

#[test]
fn listings_hold_each_kind_of_card() {
    let output = folder().run(&["check", "net.onnxtxt", "--emit", "memory", "--gpu", "2*v100+t4"]);
    let listing = String::from_utf8(output.stdout).unwrap();
    assert_eq!(listing.lines().filter(|line| line.starts_with("# ")).count(), 2, "{listing}");
    assert!(listing.contains("# v100-sxm2-16gb, ") && listing.contains("# t4, "), "{listing}");
}

#[test]
fn numbers_out_of_range_are_refused() {
    for arguments in [
        "--replicas 0",
        "--replicas -1",
        "--replicas 1.5",
        "--hosts 0",
        "--accumulate 0",
        "--gpu 0*t4+l4",
        "--samples 0",
        "--samples 10 --epochs 0",
        "--samples 10 --price -1",
        "--samples 10 --price nan",
        "--samples 10 --price inf",
        "--input-ms -2",
        "--input-ms nan",
        "--input-samples-per-s 0",
        "--input-samples-per-s -5",
        "--input-samples-per-s 1e999",
    ] {
        refused(arguments, "is not a number");
    }
    refused("--global-batch 0", "at least one sample");
    refused("--hosts 2", "2 hosts need at least as many replicas");
    refused("--replicas 8 --hosts 3", "cannot be spread evenly");
}

#[test]
fn unknown_words_get_the_nearest() {
    refused("--precision fp61", "did you mean 'fp16'?");
    refused("--optimizer adan", "did you mean 'adam'?");
    refused("--runtime pytorhc", "did you mean 'pytorch'?");
    refused("--runtime pytorch@new", "is not a version");
    refused("--attention fsued", "did you mean 'fused'?");
    refused("--strategy miror", "did you mean 'mirrored'?");
    refused("--interconnect nvlnk2", "nvlink2");
    refused("--recompute sqr", "did you mean 'sqrt'?");
}

#[test]
fn versions_of_runtimes_take_one_to_three_numbers() {
    let runtime = |text: &str| model(&format!("--runtime {text}"))["target"]["runtime"].as_str().unwrap().to_owned();
    assert_eq!(runtime("pytorch"), "pytorch");
    assert_eq!(runtime("pytorch@2"), "pytorch@2");
    assert_eq!(runtime("pytorch@1.13"), "pytorch@1.13");
    assert_eq!(runtime("tensorflow@2.5.1"), "tensorflow@2.5");
}

#[test]
fn what_only_serves_is_not_trained_with() {
    refused("--runtime tensorrt --mode train", "does not train");
    let model = model("--runtime tensorrt");
    assert_eq!(model["target"]["mode"], "infer");
    assert!(why(&model, "mode").unwrap().contains("does not train"));
}

#[test]
fn what_would_do_nothing_is_refused() {
    refused("--mode infer --optimizer adam", "nothing to update");
    refused("--mode infer --recompute sqrt", "the mode is infer");
    refused("--mode infer --accumulate 2", "the mode is infer");
    refused("--mode infer --replicas 2 --zero 1", "the mode is infer");
    refused("--price 3", "samples");
    refused("--epochs 3", "samples");
    assert_eq!(outcome(&folder(), "--mode infer --optimizer none --recompute none").0, 0);
    let folder = folder();
    folder.write(
        "dlcost.toml",
        b"[defaults]\noptimizer = 'adam'\nrecompute = 'sqrt'\n[[target]]\nmode = 'infer'\n[[target]]\nmode = 'train'\n",
    );
    let optimizers: Vec<Value> = models(&folder, "").iter().map(|model| model["target"]["optimizer"].clone()).collect();
    assert_eq!(optimizers, ["none", "adam"], "defaults hold for both modes");
}

#[test]
fn samples_and_epochs_come_to_steps_hours_and_money() {
    assert!(model("")["totals"].is_null());
    let model = model("--gpu v100 --batch 32 --replicas 2 --samples 1000 --epochs 3 --price 2");
    let totals = &model["totals"];
    // 64 samples a step: 16 steps an epoch, the last of them not full.
    assert_eq!(totals["steps"], 48);
    let number = |key: &str| totals[key].as_f64().unwrap();
    let hours = 48.0 * model["time_ms"]["step"]["p50"].as_f64().unwrap() / 3.6e6;
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs();
    assert!(close(number("hours"), hours));
    assert!(close(number("gpu_hours"), 2.0 * hours));
    assert!(close(number("usd"), 4.0 * hours));
    assert_eq!((number("usd_per_gpu_hour"), &totals["price_source"]), (2.0, &Value::from("given")));
    // A board takes at most its power.
    assert!(number("energy_kwh") > 0.0 && number("energy_kwh") <= 2.0 * hours * 0.3 * 1.000_001);
}

#[test]
fn a_price_is_given_or_listed_or_unknown() {
    let totals = |gpu: &str| model(&format!("--gpu {gpu} --samples 1000"))["totals"].clone();
    let listed = totals("v100");
    assert_eq!(listed["usd_per_gpu_hour"], 3.06);
    assert!(listed["price_source"].as_str().unwrap().contains("Amazon EC2 p3.2xlarge"));
    let unknown = totals("gtx-1080-ti");
    assert!(unknown["usd"].is_null() && unknown["usd_per_gpu_hour"].is_null() && unknown["price_source"].is_null());
    assert!(unknown["energy_kwh"].as_f64().unwrap() > 0.0);
}

#[test]
fn waiting_for_input_is_a_part_of_the_step() {
    let step = |model: &Value| model["time_ms"]["step"]["p50"].as_f64().unwrap();
    let slow = model("--batch 32 --input-ms 1000");
    assert!((step(&slow) - 1000.0).abs() < 1e-3 && slow["time_ms"]["input_wait"].as_f64().unwrap() > 0.0);
    let rate = model("--batch 32 --replicas 2 --input-samples-per-s 64");
    assert!((step(&rate) - 1000.0).abs() < 1e-3);
    let summed = model("--batch 32 --replicas 2 --accumulate 4 --input-samples-per-s 64");
    assert!((step(&summed) - 4000.0).abs() < 1e-3);
    assert_eq!(model("--batch 32 --input-ms 0")["time_ms"]["input_wait"], 0.0);
}

/// Sums of the column `ms` by pass: forward, backward, update.
fn sums(listing: &str) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for line in listing.lines().filter(|line| !line.starts_with('#') && !line.starts_with("layer ")) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells.len(), 12, "{line}");
        let part = match cells[1] {
            "forward" => 0,
            "update" => 2,
            _ => 1,
        };
        sums[part] += cells[10].parse::<f64>().unwrap();
        assert_eq!(cells[0] == "-", part == 2, "{line}");
    }
    sums
}

#[test]
fn listed_kernels_sum_to_the_parts_of_the_step() {
    let folder = folder();
    let arguments = "--gpu v100 --batch 64 --optimizer adam";
    let output = folder.run(&format!("check net.onnxtxt --emit kernels {arguments}").split(' ').collect::<Vec<_>>());
    let listing = String::from_utf8(output.stdout).unwrap();
    assert!(listing.starts_with("# v100-sxm2-16gb, pytorch, training, batch 64"), "{listing}");
    let time = &models(&folder, arguments)[0]["time_ms"];
    for (sum, part) in sums(&listing).into_iter().zip(["forward", "backward", "optimizer"]) {
        let reported = time[part].as_f64().unwrap();
        assert!(sum > 0.0 && (sum - reported).abs() <= 1e-4, "{part}: {sum} and {reported}\n{listing}");
    }
    let inference = folder.run(&["check", "net.onnxtxt", "--emit", "kernels", "--mode", "infer", "--gpu", "t4,l4"]);
    let listing = String::from_utf8(inference.stdout).unwrap();
    assert!(listing.contains("# t4, ") && listing.contains("# l4, "), "{listing}");
    assert!(!listing.contains("backward_"), "{listing}");
}

#[test]
fn listed_memory_sums_to_the_peak() {
    let folder = folder();
    let output = folder.run(&["check", "net.onnxtxt", "--emit", "memory", "--gpu", "v100", "--batch", "64"]);
    let listing = String::from_utf8(output.stdout).unwrap();
    let parts = listing.lines().skip(2).take_while(|line| !line.is_empty());
    let parts: Vec<(&str, u64)> = parts
        .map(|line| {
            let (name, bytes) = line.split_once(' ').unwrap();
            (name, bytes.trim().parse().unwrap())
        })
        .collect();
    let of = |name: &str| parts.iter().find(|(part, _)| *part == name).unwrap().1;
    let sum: u64 = parts.iter().filter(|(name, _)| !["peak", "capacity"].contains(name)).map(|(_, bytes)| bytes).sum();
    assert_eq!(sum, of("peak"));
    let memory = &models(&folder, "--gpu v100 --batch 64")[0]["memory_bytes"];
    assert_eq!(memory["peak"]["p50"], of("peak"));
    assert_eq!(memory["capacity"], of("capacity"));
}

#[test]
fn the_configuration_says_the_same_and_the_command_line_beats_it() {
    let folder = folder();
    folder.write("cards/mine.toml", b"[device.mine]\nmemory = { gib = 16, gb_s = 672 }\nplain = { fp32 = 44.1 }\n");
    folder.write(
        "dlcost.toml",
        b"[defaults]\ngpu = 'mine'\nreplicas = 4\nglobal-batch = 64\noptimizer = 'adam'\nprice = 1.5\n\
          [devices]\nfiles = ['cards/mine.toml']\n[[target]]\n[[target]]\ngpu = ['t4', 'cards/mine.toml']\nbatch = 8\n",
    );
    let shown = |arguments: &str| {
        let models = models(&folder, arguments);
        let of = |model: &Value| {
            let target = &model["target"];
            (
                model["target_index"].as_u64().unwrap(),
                target["gpu"].as_str().unwrap().to_owned(),
                target["global_batch"].as_u64().unwrap(),
                target["optimizer"].as_str().unwrap().to_owned(),
            )
        };
        models.iter().map(of).collect::<Vec<_>>()
    };
    let row = |index, gpu: &str, batch, optimizer: &str| (index, gpu.to_owned(), batch, optimizer.to_owned());
    assert_eq!(shown(""), [row(0, "mine", 64, "adam"), row(1, "t4", 32, "adam"), row(2, "mine", 32, "adam")]);
    assert_eq!(
        shown("--gpu l4,mine --batch 2 --optimizer sgd")[..2],
        [row(0, "l4", 8, "sgd"), row(1, "mine", 8, "sgd")]
    );
    folder.write("dlcost.toml", b"[defaults]\nruntime = 'tensorrt'\nmode = 'train'\n");
    let (status, error) = outcome(&folder, "");
    assert!(status == 2 && error.contains("dlcost.toml: runtime tensorrt does not train"), "{error}");
    assert_eq!(outcome(&folder, "--mode infer").0, 0);
    folder.write("dlcost.toml", b"[defaults]\ngpu = 'v1000'\n");
    assert!(outcome(&folder, "").1.contains("dlcost.toml:2:7: no device is called 'v1000'"));
}

#[test]
fn annotate_takes_the_same_options_but_those_of_which_no_note_tells() {
    let folder = folder();
    let status = |arguments: &str| {
        let arguments: Vec<&str> = ["annotate", "net.onnxtxt"].into_iter().chain(arguments.split(' ')).collect();
        folder.run(&arguments).status.code()
    };
    assert_eq!(status("--gpu t4 --precision fp16 --replicas 2"), Some(0));
    assert_eq!(status("--gpu t4,l4"), Some(2));
    assert_eq!(status("--samples 10"), Some(2));
    assert_eq!(status("--gpu t5"), Some(2));
}

#[test]
fn targets_that_share_an_analysis_are_reported_as_if_each_were_alone() {
    let folder = folder();
    let options = |gpu: &str, batch: &str| format!("gpu = '{gpu}'\nmode = 'train'\nbatch = {batch}\n");
    let targets = [("t4", "8"), ("l4", "8"), ("l4", "16")].map(|(gpu, batch)| options(gpu, batch));
    let alone: Vec<Value> = targets
        .iter()
        .map(|target| {
            folder.write("dlcost.toml", format!("[[target]]\n{target}").as_bytes());
            models(&folder, "").remove(0)
        })
        .collect();
    folder.write("dlcost.toml", targets.map(|target| format!("[[target]]\n{target}")).concat().as_bytes());
    let together = models(&folder, "");
    for (index, (mut alone, together)) in alone.into_iter().zip(together).enumerate() {
        alone["target_index"] = Value::from(index);
        assert_eq!(alone, together);
    }
}

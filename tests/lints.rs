//! Lints on targets: when they speak, at which level, and that their advice comes with numbers. That each is raised by
//! its example and not by its fix is in `diagnostic_pages`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use dlcost::diagnostics::Level;
use dlcost::engine::{CheckOptions, Mode};
use dlcost::report::{Finding, Model};
use dlcost::target::{Compute, Request, Strategy};
use support::{gpu, opset, priced, text_with};

/// A chain of products with ReLUs between them, `rows` × `sizes[0]` and so on.
fn chain(rows: &str, sizes: &[u64]) -> String {
    let mut weights = Vec::new();
    let mut nodes = String::new();
    let mut last = "x".to_owned();
    for (index, pair) in sizes.windows(2).enumerate() {
        weights.push(format!("float[{}, {}] w{index} = {{}}", pair[0], pair[1]));
        nodes += &format!("p{index} = MatMul ({last}, w{index})\ny{index} = Relu (p{index})\n");
        last = format!("y{index}");
    }
    let (first, end) = (sizes[0], sizes[sizes.len() - 1]);
    let weights = weights.join(", ");
    opset(17, &format!("g (float[{rows}, {first}] x) => (float[{rows}, {end}] {last}) <{weights}> {{ {nodes} }}"))
}

fn found<'m>(model: &'m Model, name: &str) -> Option<&'m Finding> {
    model.diagnostics.iter().find(|finding| finding.name == name)
}

#[track_caller]
fn one<'m>(model: &'m Model, name: &str) -> &'m Finding {
    found(model, name).unwrap_or_else(|| panic!("no {name}: {:#?}", model.diagnostics))
}

fn help(finding: &Finding) -> &str {
    finding.help.as_deref().unwrap_or_else(|| panic!("no help: {finding:#?}"))
}

fn in_precision(id: &str, precision: Compute) -> Request {
    Request { precision: Some(precision), ..gpu(id) }
}

fn replicated(id: &str, replicas: u32, strategy: Strategy) -> Request {
    Request { replicas: Some(replicas), strategy: Some(strategy), ..gpu(id) }
}

#[test]
fn launches_have_one_share_in_the_summary_and_in_the_lint() {
    let (wide, narrow) = (chain("512", &[2048; 12]), chain("1", &[64; 12]));
    let mut said = Vec::new();
    for text in [&wide, &narrow] {
        let model = priced(text, Mode::Infer, gpu("v100"));
        let bounds = model.bounds.unwrap();
        let share = format!("{:.0} %", 100.0 * bounds.launch);
        match found(&model, "launch-bound") {
            Some(lint) => assert!(bounds.launch > 0.5 && lint.message.starts_with(&share), "{share}: {lint:#?}"),
            None => assert!(bounds.launch <= 0.5, "{bounds:?}"),
        }
        said.push(found(&model, "launch-bound").is_some());
        assert!((bounds.compute + bounds.memory + bounds.launch - 1.0).abs() < 1e-9, "{bounds:?}");
    }
    assert_eq!(said, [false, true]);
}

#[test]
fn what_does_not_fit_is_an_error_on_a_card_that_was_asked_for() {
    let text = chain("batch", &[131_072, 131_072]);
    let asked = priced(&text, Mode::Train, gpu("a100-sxm4-40gb"));
    let error = one(&asked, "out-of-memory");
    assert_eq!(error.level, Level::Error);
    assert!(error.message.contains("are missing"), "{error:#?}");
    let assumed = priced(&text, Mode::Train, Request::default());
    assert_eq!(one(&assumed, "out-of-memory").level, Level::Warning);
}

#[test]
fn what_does_not_fit_says_what_would() {
    let text = chain("batch", &[1024, 65_536, 1024]);
    let options = CheckOptions { batch: Some(20_000), request: gpu("v100-sxm2-16gb"), ..CheckOptions::default() };
    let model = text_with(&text, &options);
    let error = one(&model, "out-of-memory");
    let largest = model.memory_bytes.unwrap().largest_batch.unwrap();
    assert!(help(error).contains(&format!("--batch {largest} fits")), "{error:#?}");
    assert!(help(error).contains("--precision amp needs"), "{error:#?}");
    assert!(help(error).contains("--gpu v100-sxm2-32gb has"), "{error:#?}");
}

#[test]
fn nothing_is_said_of_the_time_of_what_does_not_run() {
    let model = priced(&chain("batch", &[131_072, 131_072]), Mode::Train, gpu("t4"));
    let names: Vec<_> = model.diagnostics.iter().map(|finding| &*finding.name).collect();
    assert!(!names.iter().any(|name| matches!(*name, "optimizer-dominates" | "fp32-on-tensor-cores" | "small-batch")));
}

#[test]
fn a_batch_that_was_given_gets_the_advice_of_one_that_was_assumed() {
    let text = chain("batch", &[256, 256, 256, 256]);
    let assumed = priced(&text, Mode::Train, gpu("v100-sxm2-16gb"));
    let options = CheckOptions { batch: Some(32), request: gpu("v100-sxm2-16gb"), ..CheckOptions::default() };
    let given = text_with(&text, &options);
    let [assumed, given] = [&assumed, &given].map(|model| one(model, "launch-bound"));
    assert!(help(given).contains("from --batch "), "{given:#?}");
    assert_eq!(assumed.help, given.help);
    // Who chose the batch is told more loudly.
    assert_eq!((assumed.level, given.level), (Level::Note, Level::Warning));
}

/// Case 88.
#[test]
fn replicas_that_are_slower_together_are_told_so() {
    let text = chain("batch", &[784, 24, 10]);
    let model = priced(&text, Mode::Train, replicated("gtx-1080-ti", 2, Strategy::Mirrored));
    let finding = one(&model, "replicas-do-not-pay");
    assert!(finding.message.starts_with("do not replicate at this size"), "{finding:#?}");
    assert!(help(finding).contains("--replicas 1"), "{finding:#?}");
    let alone = priced(&text, Mode::Train, replicated("gtx-1080-ti", 1, Strategy::Mirrored));
    assert!(found(&alone, "replicas-do-not-pay").is_none() && found(&alone, "mirrored-loss-dominates").is_none());
}

#[test]
fn replicas_with_much_to_do_are_left_alone() {
    let model = priced(&chain("65536", &[4096, 4096]), Mode::Train, replicated("v100-sxm2-16gb", 4, Strategy::Ddp));
    assert!(found(&model, "replicas-do-not-pay").is_none(), "{:#?}", model.diagnostics);
}

#[test]
fn fp32_is_no_finding_where_there_are_no_tensor_cores() {
    let text = chain("4096", &[4096, 4096]);
    for id in ["gtx-1080-ti", "p100-sxm2-16gb"] {
        assert!(found(&priced(&text, Mode::Train, gpu(id)), "fp32-on-tensor-cores").is_none());
    }
    let volta = priced(&text, Mode::Train, in_precision("v100-sxm2-16gb", Compute::Fp32));
    let finding = one(&volta, "fp32-on-tensor-cores");
    assert!(help(finding).contains("--precision amp") && !help(finding).contains("tf32"), "{finding:#?}");
    let ampere = priced(&text, Mode::Train, in_precision("a100-sxm4-40gb", Compute::Fp32));
    assert!(help(one(&ampere, "fp32-on-tensor-cores")).contains("--precision tf32"));
}

#[test]
fn layers_that_do_not_fit_tensor_cores_are_one_finding() {
    let text = chain("8192", &[1001, 1003, 1005]);
    let model = priced(&text, Mode::Train, in_precision("v100-sxm2-16gb", Compute::Amp));
    let finding = one(&model, "misaligned-channels");
    assert_eq!(finding.places.len(), 2, "{finding:#?}");
    assert!(finding.message.contains("multiple of 8") && finding.message.contains("V100"), "{finding:#?}");
    assert!(help(finding).contains("1008"), "{finding:#?}");
    // The same in fp32, which uses no tensor cores there.
    let plain = priced(&text, Mode::Train, in_precision("v100-sxm2-16gb", Compute::Fp32));
    assert!(found(&plain, "misaligned-channels").is_none());
}

/// Case 79.
#[test]
fn half_precision_is_questioned_where_it_is_not_faster() {
    let text = chain("4096", &[4096, 4096]);
    let slow = |id: &str, precision| {
        found(&priced(&text, Mode::Train, in_precision(id, precision)), "slow-half-precision").is_some()
    };
    assert!(slow("gtx-1080-ti", Compute::Fp16) && slow("gtx-1080-ti", Compute::Amp));
    assert!(slow("t4", Compute::Bf16));
    assert!(
        !slow("t4", Compute::Fp16) && !slow("p100-sxm2-16gb", Compute::Fp16) && !slow("a100-pcie-40gb", Compute::Bf16)
    );
}

#[test]
fn convolutions_with_a_bias_of_their_own_are_not_folded() {
    let text = |weight: &str, bias: &str| {
        let layer = |index: u32, input: &str, output: &str| {
            format!("{output} = Conv <kernel_shape = [1, 1]> ({input}, f.{index}.{weight}, f.{index}.{bias})\n")
        };
        let stored =
            |index: u32| format!("float[4, 4, 1, 1] f.{index}.{weight} = {{}}, float[4] f.{index}.{bias} = {{}}");
        let body = layer(0, "x", "h") + &layer(2, "h", "y");
        let weights = [stored(0), stored(2)].join(", ");
        opset(17, &format!("g (float[N, 4, 8, 8] x) => (float[N, 4, 8, 8] y) <{weights}> {{ {body} }}"))
    };
    let folded =
        |mode, bias| found(&priced(&text("weight", bias), mode, Request::default()), "batch-norm-folded").is_some();
    assert!(folded(Mode::Train, "weight_bias"));
    assert!(!folded(Mode::Train, "bias"));
    assert!(!folded(Mode::Infer, "weight_bias"));
}

/// Case 94: a tied table has a dense gradient; one that is looked up only has rows for all replicas.
#[test]
fn sparse_gradients_are_no_advice_for_a_tied_table() {
    let text = |output: &str| {
        let nodes = format!("rows = Gather (table, tokens) y = MatMul (rows, {output})");
        let other = if output == "turned" { "turned = Transpose <perm = [1, 0]> (table)" } else { "" };
        let body = format!("{other} {nodes}");
        let weights = "float[32768, 512] table = {}, float[512, 8] w = {}";
        opset(17, &format!("g (int64[128, 112] tokens) => (y) <{weights}> {{ {body} }}"))
    };
    let request = || replicated("v100-sxm2-16gb", 2, Strategy::Ddp);
    let tied = priced(&text("turned"), Mode::Train, request());
    assert!(help(one(&tied, "embedding-dominates")).contains("stays dense"));
    let apart = priced(&text("w"), Mode::Train, request());
    // 2 × 14,336 rows of 512 in fp32, and an index for each.
    assert!(help(one(&apart, "embedding-dominates")).contains("hold 56.2 MiB a step instead of 64 MiB"));
}

#[test]
fn a_card_that_nobody_asked_for_is_not_judged() {
    let text = chain("batch", &[64, 64]);
    assert!(found(&priced(&text, Mode::Infer, gpu("a100-sxm4-40gb")), "launch-bound").is_some());
    assert!(found(&priced(&text, Mode::Infer, Request::default()), "launch-bound").is_none());
}

#[test]
fn eager_attention_is_told_what_one_kernel_takes() {
    let text = opset(
        17,
        "g (float[2, 8, 2048, 64] q, float[2, 8, 64, 2048] k, float[2, 8, 2048, 64] v) => (y)
         { s = MatMul (q, k) p = Softmax (s) y = MatMul (p, v) }",
    );
    let request = Request { attention: Some(dlcost::runtime::Attention::Eager), ..gpu("v100-sxm2-16gb") };
    let model = priced(&text, Mode::Infer, request);
    assert!(help(one(&model, "quadratic-attention")).contains("--attention fused is predicted to take"));
}

#[test]
fn a_precision_without_units_is_told_with_what_was_priced_instead() {
    let text = chain("256", &[1024, 1024]);
    let at = |id: &str, precision, mode| priced(&text, mode, Request { precision: Some(precision), ..gpu(id) });
    for (id, precision) in
        [("v100", Compute::Tf32), ("a100", Compute::Fp8), ("v100", Compute::Fp8), ("k80", Compute::Int8)]
    {
        let model = at(id, precision, Mode::Infer);
        let finding = one(&model, "precision-not-supported");
        assert_eq!(finding.level, Level::Warning);
        assert!(finding.message.contains("priced in fp32 at"), "{}", finding.message);
        assert!(help(finding).contains("--precision fp16 is predicted to take"), "{}", help(finding));
    }
    for (id, precision) in
        [("a100", Compute::Tf32), ("h100", Compute::Fp8), ("t4", Compute::Int8), ("v100", Compute::Fp16)]
    {
        assert!(found(&at(id, precision, Mode::Infer), "precision-not-supported").is_none(), "{id}");
    }
}

#[test]
fn nobody_trains_in_int8() {
    let text = chain("256", &[1024, 1024]);
    let int8 = |mode| priced(&text, mode, Request { precision: Some(Compute::Int8), ..gpu("t4") });
    let model = int8(Mode::Train);
    let finding = one(&model, "precision-not-supported");
    assert!(finding.message.starts_with("no framework trains in int8"), "{}", finding.message);
    assert!(help(finding).contains("--mode infer") && help(finding).contains("--precision amp"), "{}", help(finding));
    assert!(found(&int8(Mode::Infer), "precision-not-supported").is_none());
    // A quantised file says it whatever the device.
    let quantised = opset(
        18,
        "g (float[4, 64] x) => (y) <float s = {0.1}, int8 z = {0}, int8[64, 64] w = {}> {
            v = DequantizeLinear (w, s, z)
            y = MatMul (x, v)
        }",
    );
    let model = text_with(&quantised, &CheckOptions { mode: Mode::Train, ..CheckOptions::default() });
    let message = &one(&model, "precision-not-supported").message;
    assert!(message.starts_with("the file holds int8"), "{message}");
}

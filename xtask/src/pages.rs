//! Pages under `docs/` that are made from tables of the program.

use std::collections::HashMap;
use std::fmt::Write;

use dlcost::device::{Device, Precision, Rates, catalogue, interconnects};
use dlcost::diagnostics::Code;
use dlcost::ops::table::{ENTRIES, Entry, find};

use crate::operators::standard;
use crate::samples::{Example, example, samples};

const NOTE: &str = "<!-- Made by `cargo xtask tidy`; do not edit. -->";

/// Groups of codes: prefix of the number and what they are about.
const GROUPS: [(&str, &str); 10] = [
    ("DL00", "The program itself"),
    ("DL01", "Reading files"),
    ("DL02", "Graph and resolution"),
    ("DL03", "Shapes and types"),
    ("DL04", "Cost"),
    ("DL05", "Memory"),
    ("DL06", "Replicas"),
    ("DL07", "Device and precision"),
    ("DL08", "Budgets"),
    ("DL09", "Configuration"),
];

/// `docs/diagnostics.md`: every code with its level and what it says.
pub(crate) fn diagnostics() -> String {
    let mut page = format!(
        "{NOTE}\n\n# Diagnostics\n\nEach code keeps its meaning for good. `dlcost explain CODE` (or the name) says more: what it \
         means, why it matters, an\nexample and the fix. Levels can be changed with `--allow`, `--warn` and `--deny`, and under \
         `[levels]` in `dlcost.toml`;\n`DL03xx` names a whole group.\n"
    );
    for (prefix, about) in GROUPS {
        let codes: Vec<&Code> = Code::ALL.iter().filter(|code| code.number().starts_with(prefix)).collect();
        if codes.is_empty() {
            continue;
        }
        let _ = write!(page, "\n## {prefix}xx: {about}\n\n| code | name | level | says |\n|---|---|---|---|\n");
        for code in codes {
            let (number, name, level) = (code.number(), code.name(), code.default_level());
            let _ = writeln!(page, "| {number} | `{name}` | {level} | {} |", code.summary());
        }
    }
    page
}

/// `docs/operators.md`: every operator that has a rule, with what the rule says of one call.
pub(crate) fn operators() -> String {
    let bodies: Vec<_> = standard().filter(|known| find(known.domain, known.name).is_none()).collect();
    let mut page = format!(
        "{NOTE}\n\n# Operators\n\n{} operators have a rule for shapes, costs, work and gradients. Others of these domains are named by \
         DL0214, and their\noutputs are known only where the file declares them. Model-local functions need no rule: they are \
         inlined, and so are\n{}, whose definition the standard gives by other operators.\n\n\
         Each row shows what the rule says of one call, with the gradient of every real input wanted; how things are counted is\nin \
         `counting.md`.\n\n- versions: those of the domain's operator set in which the operator came or changed\n- call: inputs and \
         outputs with their types; letters are free dims\n- MACs, other, backward: multiply-accumulate pairs and other operations \
         forward, operations backward\n- kept: what the backward pass reads; \"out\" is the output, \"beside\" what is no tensor of \
         the graph\n- work: what libraries have a kernel for, forward / backward\n",
        ENTRIES.len(),
        bodies.iter().map(|known| format!("`{}`", known.name)).collect::<Vec<_>>().join(", "),
    );
    let versions: HashMap<_, _> = standard().map(|known| ((known.domain, known.name), known.versions)).collect();
    let samples = samples();
    let mut domains: Vec<&str> = ENTRIES.iter().map(|entry| entry.domain).collect();
    domains.dedup();
    for domain in domains {
        let title = if domain.is_empty() { "ai.onnx" } else { domain };
        let _ = write!(
            page,
            "\n## {title}\n\n| operator | versions | inputs | outputs | call | MACs | other | backward | kept | work \
             |\n|---|---|---|---|---|---|---|---|---|---|\n"
        );
        for entry in ENTRIES.iter().filter(|entry| entry.domain == domain) {
            let outputs = range(usize::from(entry.max_outputs > 0), entry.max_outputs);
            let inputs = range(entry.min_inputs, entry.max_inputs);
            let versions = versions.get(&(entry.domain, entry.name)).copied().unwrap_or("1");
            let Example { call, macs, other, backward_flops, kept, forward, backward } =
                example(entry, &samples).unwrap_or_default();
            let work = if backward.is_empty() { forward } else { format!("{forward} / {backward}") };
            let _ = writeln!(
                page,
                "| {} | {versions}{} | {inputs} | {outputs} | {call} | {macs} | {other} | {backward_flops} | {kept} | {work} |",
                entry.name,
                withdrawn(entry)
            );
        }
    }
    page
}

fn range(least: usize, most: usize) -> String {
    match most {
        usize::MAX => format!("{least} or more"),
        _ if least == most => least.to_string(),
        _ => format!("{least} to {most}"),
    }
}

fn withdrawn(entry: &Entry) -> String {
    if entry.withdrawn == i64::MAX { String::new() } else { format!(", withdrawn in {}", entry.withdrawn) }
}

/// `docs/devices.md`: the catalogue of devices and interconnects.
pub(crate) fn devices() -> String {
    let catalogue = catalogue();
    let mut page = format!(
        "{NOTE}\n\n# Devices\n\n{} devices and {} interconnects are built in. `dlcost devices ID ID` shows all figures of some of \
         them side by side; with\n`--format json` also where each is from. A file of the form of `predictors/devices.toml` describes \
         a card that is not here:\n\n```toml\n[device.my-card]\nmemory = {{ gib = 16, gb_s = 672 }}  # these are needed\nplain \
         = {{ fp32 = 44.1 }}            # TFLOPS at the boost clock\ntensor = {{ fp16 = 176 }}           # the rest is \
         optional\nboard = {{ sms = 66, boost_mhz = 2610 }}\n```\n\nPeaks are TFLOPS (int8: TOPS) at the boost clock, dense, with \
         fp32 accumulation; of two numbers the first is that of\nordinary units, the second that of tensor or matrix cores. What \
         was seen on a card stands apart and is not listed here.\nWhere fp16 has no number, halves are computed as fp32.\n",
        catalogue.devices().len(),
        interconnects().len()
    );
    let mut architectures: Vec<&str> = Vec::new();
    for device in catalogue.devices() {
        if !architectures.contains(&device.board.architecture.as_str()) {
            architectures.push(&device.board.architecture);
        }
    }
    for architecture in architectures {
        let _ = write!(
            page,
            "\n## {architecture}\n\n| id | name | chip | year | SMs | MHz | GiB | GB/s | W | fp32 | fp16 | bf16 | int8 | fp8 | links \
             |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
        );
        for device in catalogue.devices().iter().filter(|device| device.board.architecture == architecture) {
            let _ = writeln!(page, "{}", row_of(device));
        }
    }
    page.push_str("\n## Other names\n\n| name | device |\n|---|---|\n");
    for (name, id) in catalogue.aliases() {
        let _ = writeln!(page, "| `{name}` | `{id}` |");
    }
    page.push_str(
        "\n## Interconnects\n\nOne direction of one link (PCIe: of all lanes); a device has several.\n\n| id | name | kind | GB/s | \
         µs |\n|---|---|---|---|---|\n",
    );
    for known in interconnects() {
        let (kind, rate, latency) = (known.kind.name(), known.gb_s, known.latency_us);
        let _ = writeln!(page, "| `{}` | {} | {kind} | {rate} | {latency} |", known.id, known.name);
    }
    page
}

fn row_of(device: &Device) -> String {
    let (board, memory, links) = (&device.board, &device.memory, &device.links);
    let peaks: Vec<String> = [Precision::Fp32, Precision::Fp16, Precision::Bf16, Precision::Int8, Precision::Fp8]
        .into_iter()
        .map(|precision| peaks_of(&device.plain, &device.tensor, precision))
        .collect();
    let link = if links.count == 1 {
        links.interconnect.clone()
    } else {
        format!("{} × {}", links.count, links.interconnect)
    };
    format!(
        "| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} | {link} |",
        device.id,
        device.name,
        board.chip,
        board.year,
        board.sms,
        board.boost_mhz,
        memory.gib,
        memory.gb_s,
        board.power_w,
        peaks.join(" | ")
    )
}

fn peaks_of(plain: &Rates, tensor: &Rates, precision: Precision) -> String {
    match (plain.of(precision), tensor.of(precision)) {
        (None, None) => String::new(),
        (Some(rate), None) => rate.to_string(),
        (None, Some(rate)) => format!("- / {rate}"),
        (Some(plain), Some(tensor)) => format!("{plain} / {tensor}"),
    }
}

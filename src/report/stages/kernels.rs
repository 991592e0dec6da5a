//! `--emit kernels`: a line for each kernel of a step, as it is priced.

use std::fmt::Write;

use super::heading;
use super::listing::{columns, word};
use crate::analysis::Analysis;
use crate::ops::work::{Convolution, Family};
use crate::passes::lower::Schedule;
use crate::predict::pricer::Pricer;
use crate::runtime::{Kernel, Pass};
use crate::target::Target;

const TITLES: [&str; 12] =
    ["layer", "pass", "family", "sizes", "precision", "layout", "library", "runs", "flops", "bytes", "ms", "bound"];
const RIGHT: [bool; 12] = [false, false, false, false, false, false, false, true, true, true, true, false];

/// Kernels in running order: forward, backward from the last layer, the update at the end. FLOPs and bytes are of one
/// launch, milliseconds of all its runs.
pub(crate) fn kernels(analysis: &Analysis, schedule: &Schedule, target: &Target, pricer: &Pricer) -> String {
    let mut rows = Vec::new();
    let mut sums = [0.0; 3];
    let mut add = |layer: &str, kernel: &Kernel| {
        let price = pricer.price(kernel);
        let ms = price.time_ms.p50 * kernel.runs;
        let part = match kernel.pass {
            Pass::Forward => 0,
            Pass::Backward | Pass::BackwardData | Pass::BackwardWeight => 1,
            Pass::Update => 2,
        };
        if let Some(sum) = sums.get_mut(part) {
            *sum += ms;
        }
        rows.push(vec![
            layer.to_owned(),
            kernel.pass.name().to_owned(),
            kernel.family.name().to_owned(),
            sizes(&kernel.family),
            kernel.precision.name().to_owned(),
            kernel.layout.name().to_owned(),
            kernel.library.name().to_owned(),
            format!("{:.0}", kernel.runs),
            format!("{:.0}", kernel.flops),
            format!("{:.0}", kernel.bytes()),
            format!("{ms:.6}"),
            price.bound.name().to_owned(),
        ]);
    };
    let keys: Vec<String> = analysis
        .layers
        .iter()
        .map(|layer| analysis.node(layer).map_or_else(|| "?".to_owned(), |node| word(&node.key)))
        .collect();
    let key = |layer: usize| keys.get(layer).map_or("?", String::as_str);
    for launch in &schedule.launches {
        let forward = schedule.kernels(launch).iter().filter(|kernel| kernel.pass == Pass::Forward);
        forward.for_each(|kernel| add(key(launch.layer), kernel));
    }
    for launch in schedule.launches.iter().rev() {
        let backward = schedule.kernels(launch).iter().filter(|kernel| kernel.pass != Pass::Forward);
        backward.for_each(|kernel| add(key(launch.layer), kernel));
    }
    schedule.updates.iter().for_each(|kernel| add("-", kernel));

    let mut text = heading(target);
    text.push_str(&columns(&TITLES, &RIGHT, &rows));
    let [forward, backward, update] = sums;
    // Writing to a string does not fail.
    let _ = writeln!(text, "# forward {forward:.6} ms, backward {backward:.6} ms, optimizer {update:.6} ms");
    if schedule.unknown > 0 {
        let _ = writeln!(text, "# {} operations have no kernels here: their cost is not known", schedule.unknown);
    }
    text
}

/// The sizes that a family's time depends on, without spaces.
fn sizes(family: &Family) -> String {
    match *family {
        Family::Convolution(convolution) => convolution_sizes(&convolution),
        Family::Product { batch, m, n, k } => format!("batch={batch},m={m},n={n},k={k}"),
        Family::Attention { batch, heads, kv_heads, queries, keys, head_dim, causal } => {
            let causal = if causal { ",causal" } else { "" };
            format!("batch={batch},heads={heads},kv={kv_heads},queries={queries},keys={keys},dim={head_dim}{causal}")
        }
        Family::Recurrent { batch, steps, inputs, hidden, gates, directions } => {
            format!("batch={batch},steps={steps},in={inputs},hidden={hidden},gates={gates},directions={directions}")
        }
        Family::Elementwise { elements, .. } | Family::Copy { elements } => format!("elements={elements}"),
        Family::BatchNorm { rows, channels } => format!("rows={rows},channels={channels}"),
        Family::LayerNorm { rows, cols }
        | Family::Softmax { rows, cols }
        | Family::Reduce { rows, cols }
        | Family::Sort { rows, cols } => format!("rows={rows},cols={cols}"),
        Family::Pool { elements, window, average } => {
            format!("elements={elements},window={window},{}", if average { "average" } else { "max" })
        }
        Family::Embedding { rows, cols, table } => format!("rows={rows},cols={cols},table={table}"),
        Family::Collective { exchange, bytes, devices, hosts } => {
            format!("{exchange:?},bytes={bytes},devices={devices},hosts={hosts}")
        }
        Family::Update { elements, tensors } => format!("elements={elements},tensors={tensors}"),
    }
}

fn convolution_sizes(convolution: &Convolution) -> String {
    let Convolution {
        batch,
        in_channels,
        out_channels,
        input,
        output,
        kernel,
        stride,
        dilation,
        groups,
        transposed,
        axes: _,
    } = convolution;
    let mut text = format!(
        "batch={batch},in={in_channels}x{},out={out_channels}x{},kernel={}",
        extents(input),
        extents(output),
        extents(kernel)
    );
    for (name, values) in [("stride", stride), ("dilation", dilation)] {
        if *values != [1; 3] {
            let _ = write!(text, ",{name}={}", extents(values));
        }
    }
    if *groups > 1 {
        let _ = write!(text, ",groups={groups}");
    }
    if *transposed {
        text.push_str(",transposed");
    }
    text
}

/// `56x56`: depth only where there is one.
fn extents(&[depth, height, width]: &[u64; 3]) -> String {
    if depth == 1 { format!("{height}x{width}") } else { format!("{depth}x{height}x{width}") }
}

//! The numbers people decide by: time, throughput, memory, what limits them, replicas, totals. Each prediction has its
//! interval.

use crate::diagnostics::Level;
use crate::render::text::{list, printable};
use crate::render::units::{bytes, duration, duration_unit, number, share};
use crate::render::{Ink, Style};
use crate::report::{Bounds, Interval, MemoryBytes, Model, Replica, Replicas, Totals};

use super::label;

/// Columns of a value in front of what there is to say about it.
const VALUE: usize = 9;

/// Id of the predictor that has seen no measurements.
const ROOFLINE: &str = "roofline";

/// The block of the summary.
pub(super) fn lines(model: &Model, style: Style) -> String {
    let mut text = step_line(model, style);
    text.push_str(&basis_line(model));
    if let Some(bounds) = model.bounds {
        text.push_str(&bounds_line(bounds));
    }
    if let Some(memory) = &model.memory_bytes {
        text.push_str(&memory_line(memory, model, style));
    }
    if let Some(replicas) = &model.replicas {
        text.push_str(&replicas_line(replicas, model, style));
        text.push_str(&slowest_line(&replicas.devices, style));
    }
    if let Some(totals) = &model.totals {
        text.push_str(&totals_line(totals));
    }
    text
}

/// A row: its name, its value, and what there is to say about it.
fn row(name: &str, value: &str, pieces: &[String]) -> String {
    list(&format!("{}{value:<VALUE$}  ", label(name)), pieces)
}

/// What one run of the model is called: a step where it trains.
pub(in crate::render) fn run_word(model: &Model) -> &'static str {
    if model.target.mode == "infer" { "latency" } else { "step" }
}

fn step_line(model: &Model, style: Style) -> String {
    let Some(time) = &model.time_ms else {
        return list(&label(run_word(model)), &[unknown_because(model)]);
    };
    let value = duration(time.step.p50, style);
    let mut pieces = vec![format!("80 % {}", between(time.step, style))];
    pieces.extend(rates(model));
    let line = row(run_word(model), &value, &pieces);
    line.replacen(&value, &style.paint(Ink::Strong, &value), 1)
}

/// `between 107 and 133 ms`, in the unit of the middle.
pub(in crate::render) fn between(interval: Interval, style: Style) -> String {
    let (factor, unit) = duration_unit(interval.p50, style);
    format!("between {} and {} {unit}", number(interval.p10 * factor), number(interval.p90 * factor))
}

/// Samples and tokens a second.
pub(in crate::render) fn rates(model: &Model) -> Vec<String> {
    let Some(throughput) = model.throughput else { return Vec::new() };
    let rates = [(throughput.samples_per_s, "samples/s"), (throughput.tokens_per_s, "tokens/s")];
    let known = rates.into_iter().filter_map(|(rate, unit)| Some((rate.filter(|rate| rate.is_finite())?, unit)));
    known.map(|(rate, unit)| format!("{} {unit}", number(rate))).collect()
}

/// Why there is no time.
pub(in crate::render) fn unknown_because(model: &Model) -> String {
    const NAMED: usize = 3;
    let open = model.target.dims.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| printable(name));
    let open: Vec<_> = open.collect();
    let named = open.iter().take(NAMED).map(|name| name.to_string()).collect::<Vec<_>>().join(", ");
    match (open.as_slice(), open.len().saturating_sub(NAMED)) {
        ([], _) if model.diagnostics.iter().any(|finding| finding.level == Level::Error) => {
            "not known: the graph does not run, see the errors below".to_owned()
        }
        ([], _) => "not known: sizes that it depends on are not".to_owned(),
        ([name], _) => format!("not known: nothing says what {name} is (--dim {name}=N)"),
        (_, 0) => format!("not known: nothing says what {named} are (--dim NAME=N)"),
        (_, more) => format!("not known: nothing says what {named} and {more} more are (--dim NAME=N)"),
    }
}

/// What the times rest on.
fn basis_line(model: &Model) -> String {
    let priced = model.layers.iter().filter(|layer| layer.model.is_some() && layer.kernels != Some(0));
    let all = priced.clone().count();
    let by_roofline =
        priced.clone().filter(|layer| layer.model.as_ref().is_some_and(|model| model.as_str() == ROOFLINE)).count();
    let strange = priced.filter(|layer| layer.in_domain == Some(false)).count();
    let mut pieces = Vec::new();
    if by_roofline > 0 && by_roofline == all {
        pieces.push("roofline: physics only, no predictor has seen such work, so a wide interval".to_owned());
    } else if all > 0 {
        pieces.push(format!("learned from measured kernels for {} of {all} layers", all - by_roofline));
        if by_roofline > 0 {
            pieces.push(format!("roofline (physics only) for {by_roofline}"));
        }
    }
    if strange > 0 && strange < all {
        pieces.push(format!("{strange} outside of what was measured"));
    }
    if pieces.is_empty() { String::new() } else { list(&label("basis"), &pieces) }
}

/// Kinds of limits with their shares, the largest first.
pub(super) fn ranked(bounds: Bounds) -> Vec<(&'static str, f64)> {
    let mut shares = vec![("memory", bounds.memory), ("compute", bounds.compute), ("launch", bounds.launch)];
    shares.retain(|(_, share)| *share > 0.0);
    shares.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    shares
}

fn bounds_line(bounds: Bounds) -> String {
    let shares = ranked(bounds);
    let Some((first, others)) = shares.split_first() else { return String::new() };
    let mut pieces = vec![format!("{} of the step", share(first.1))];
    pieces.extend(others.iter().map(|(name, of)| format!("{name} {}", share(*of))));
    row("bound by", first.0, &pieces)
}

fn memory_line(memory: &MemoryBytes, model: &Model, style: Style) -> String {
    let value = bytes(i128::from(memory.peak.p50));
    let mut pieces = vec![format!("of {}", bytes(i128::from(memory.capacity))), verdict(memory)];
    let [low, high] = [memory.peak.p10, memory.peak.p90].map(|end| bytes(i128::from(end)));
    if low != high {
        pieces.push(format!("80 % between {low} and {high}"));
    }
    match memory.largest_batch {
        Some(0) => pieces.push("no batch fits".to_owned()),
        Some(batch) => {
            let each = if model.replicas.is_some() { " a replica" } else { "" };
            let how = if memory.fits == Some(true) { String::new() } else { format!(" (--batch {batch})") };
            pieces.push(format!("the largest batch that fits is {batch}{each}{how}"));
        }
        None => {}
    }
    if sharded(model) && matches!(model.target.precision.as_deref(), Some("fp16" | "bf16" | "fp8" | "int8")) {
        pieces.push("gradients in 16 bits, no copies in fp32".to_owned());
    }
    let ink = if memory.fits == Some(false) { Ink::Error } else { Ink::Strong };
    row("memory", &value, &pieces).replacen(&value, &style.paint(ink, &value), 1)
}

/// Whether it fits, as words.
pub(in crate::render) fn verdict(memory: &MemoryBytes) -> String {
    match memory.fits {
        Some(true) => "fits".to_owned(),
        Some(false) => {
            let short = i128::from(memory.peak.p50).saturating_sub(i128::from(memory.capacity));
            format!("does not fit: {} short", bytes(short.max(0)))
        }
        None => "may not fit: that depends on the workspace".to_owned(),
    }
}

fn replicas_line(replicas: &Replicas, model: &Model, style: Style) -> String {
    let mut name = format!("{} replicas", model.target.replicas.unwrap_or_default());
    if label(&name).len() > label("").len() {
        // The first lines have the number.
        name = "replicas".to_owned();
    }
    let value = format!("{} {}", number(replicas.speedup), style.times());
    let mut pieces = vec![format!("the throughput of one ({} each)", share(replicas.efficiency))];
    if replicas.all_reduce_ms > 0.0 {
        let all = duration(replicas.all_reduce_ms, style);
        let exposed = duration(model.time_ms.map_or(0.0, |time| time.all_reduce_exposed), style);
        let name = if sharded(model) { "exchange" } else { "all-reduce" };
        pieces.push(if exposed == all {
            format!("{name} {all}, nothing of it hidden")
        } else if exposed == duration(0.0, style) {
            format!("{name} {all}, hidden behind the backward pass")
        } else {
            format!("{name} {all}, of which {exposed} are not hidden")
        });
    }
    if let Some(always) = replicas.step_ms_exchanging_always {
        pieces
            .push(format!("a step would take {} with an exchange after every backward pass", duration(always, style)));
    }
    if replicas.mirrored_loss_ms > 0.0 {
        pieces.push(format!("the mirrored loss costs {}", duration(replicas.mirrored_loss_ms, style)));
    }
    match replicas.bound.as_str() {
        "" | "none" => {}
        "compute" => pieces.push("limited by the devices themselves".to_owned()),
        "slowest" => pieces.push("limited by the slowest card".to_owned()),
        "interconnect" | "host" => pieces.push(format!("limited by the {}", replicas.bound)),
        other => pieces.push(format!("limited by {}", printable(other))),
    }
    row(&name, &value, &pieces)
}

/// Whether a stage of ZeRO shards something.
fn sharded(model: &Model) -> bool {
    model.target.zero.is_some_and(|stage| stage > 0)
}

/// Cards whose shares are listed.
const SHARES: usize = 8;

/// The slowest of unequal cards, what the others wait for it, and what would even them out.
fn slowest_line(cards: &[Replica], style: Style) -> String {
    let Some(slowest) = cards.iter().max_by(|a, b| a.step_ms.total_cmp(&b.step_ms)) else { return String::new() };
    let mut pieces = vec![format!("{} for its part of a step", duration(slowest.step_ms, style))];
    let mut named = vec![slowest.gpu.as_str()];
    for card in cards {
        if !named.contains(&card.gpu.as_str()) {
            named.push(&card.gpu);
            pieces.push(format!("{} waits {}", printable(&card.gpu), duration(card.wait_ms, style)));
        }
    }
    let shares: Option<Vec<String>> = cards.iter().map(|card| Some(card.share_of_batch?.to_string())).collect();
    if let Some(shares) = shares.filter(|shares| shares.len() <= SHARES) {
        let split = shares.join(" + ");
        pieces.push(format!("{split} samples would even that out, with gradients weighted by samples"));
    }
    row("slowest", &printable(&slowest.gpu), &pieces)
}

/// `1 step`, `450 000 steps`.
fn of(number: String, noun: &str) -> String {
    let ending = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

fn totals_line(totals: &Totals) -> String {
    let mut pieces = vec![of(number(totals.steps as f64), "step"), of(number(totals.gpu_hours), "GPU hour")];
    if let Some(usd) = totals.usd {
        let rate = totals.usd_per_gpu_hour.map_or_else(String::new, |rate| format!(" at {} a GPU hour", number(rate)));
        let source = totals.price_source.as_deref().filter(|source| !source.is_empty());
        let source = source.map_or_else(String::new, |source| format!(" ({})", printable(source)));
        pieces.push(format!("about {} USD{rate}{source}", number(usd)));
    }
    if let Some(energy) = totals.energy_kwh {
        pieces.push(format!("about {} kWh (estimate)", number(energy)));
    }
    row("in all", &format!("{} h", number(totals.hours)), &pieces)
}

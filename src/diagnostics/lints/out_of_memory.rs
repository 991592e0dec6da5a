//! `out-of-memory`: the step needs more than the device has, or may need it.

use super::{LintCx, joined, on_device, say, step_ms, upper_end};
use crate::device::{Device, catalogue};
use crate::diagnostics::{Code, Diagnostic, Level};
use crate::predict::network::Estimate;
use crate::report::MemoryBytes;
use crate::target::{Compute, Recompute};

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    let memory = cx.report.memory_bytes.as_ref()?;
    if memory.capacity == 0 || memory.fits == Some(true) {
        return None;
    }
    let (name, largest) = largest_part(memory);
    let device = &cx.estimate.memory_device(cx.target).name;
    let (capacity, run) = (say::bytes(memory.capacity), cx.run());
    let most = format!("most of it is {name}, {}", say::bytes(largest));
    let diagnostic = if memory.fits == Some(false) {
        let short = say::bytes(memory.peak.p50.saturating_sub(memory.capacity));
        let needed = say::bytes(memory.peak.p50);
        let message = format!("a {run} needs {needed} and the {device} has {capacity}, so {short} are missing; {most}");
        Diagnostic::new(Code::OutOfMemory, message).note(
            "no setting of the allocator helps: live tensors alone, and what the libraries must have, are too many",
        )
    } else {
        let (low, high) = (say::bytes(memory.peak.p10), say::bytes(memory.peak.p90));
        let message = format!(
            "a {run} needs between {low} and {high} and the {device} has {capacity}: whether it fits depends on the \
             workspace that libraries take; {most}"
        );
        Diagnostic::new(Code::OutOfMemory, message).level(Level::Warning)
    };
    Some(diagnostic.maybe_help(help(cx, memory)))
}

/// The largest part at the peak, and its bytes.
fn largest_part(memory: &MemoryBytes) -> (&'static str, u64) {
    let parts = [
        ("what the framework holds", memory.framework),
        ("buffers of collectives", memory.communication),
        ("workspace", memory.workspace),
        ("tensors between layers", memory.transient),
        ("the cache of keys and values", memory.kv_cache),
        ("state of the optimizer", memory.optimizer),
        ("gradients", memory.gradients),
        ("parameters", memory.parameters),
        ("activations kept for the backward pass", memory.saved_activations),
    ];
    parts.into_iter().max_by_key(|(_, bytes)| *bytes).unwrap_or(("workspace", 0))
}

/// What makes it fit, cheapest change first.
fn help(cx: &LintCx<'_>, memory: &MemoryBytes) -> Option<String> {
    let batch = match (memory.largest_batch, cx.target.batch) {
        (Some(0), _) => Some("no batch fits, not even 1".to_owned()),
        (Some(largest), Some(batch)) if largest < batch => Some(format!("--batch {largest} fits")),
        _ => None,
    };
    let precision = half_precision(cx);
    let half = precision.and_then(|precision| Some((precision, cx.in_precision(precision)?)));
    let recompute = cx.trains() && cx.target.recompute == Recompute::None;
    let kept = recompute.then(|| cx.what_if(|target| target.recompute = Recompute::Sqrt)).flatten();
    let mut both = None;
    let fits = |estimate: &Estimate| cx.fits(estimate);
    let apart = half.as_ref().is_some_and(|(_, estimate)| fits(estimate)) || kept.as_ref().is_some_and(fits);
    if let (Some(precision), true, false) = (precision, recompute, apart) {
        both = cx
            .what_if(|target| {
                (target.precision, target.precision_is_given) = (precision, true);
                target.recompute = Recompute::Sqrt;
            })
            .filter(fits)
            .and_then(|estimate| changed(cx, &format!("--precision {} --recompute sqrt", precision.name()), &estimate));
    }
    joined([
        batch,
        half.and_then(|(precision, estimate)| changed(cx, &format!("--precision {}", precision.name()), &estimate)),
        kept.and_then(|estimate| changed(cx, "--recompute sqrt", &estimate)),
        both,
        larger_card(cx, memory),
    ])
}

/// The precision of half the width, where there is one.
fn half_precision(cx: &LintCx<'_>) -> Option<Compute> {
    let wide = matches!(cx.target.precision, Compute::Fp32 | Compute::Tf32);
    wide.then_some(if cx.trains() { Compute::Amp } else { Compute::Fp16 })
}

/// What an option changes, where it saves a twentieth at least.
fn changed(cx: &LintCx<'_>, option: &str, estimate: &Estimate) -> Option<String> {
    let (before, after) = (upper_end(cx.estimate), upper_end(estimate));
    if after as f64 > 0.95 * before as f64 {
        return None;
    }
    let needed = say::bytes(estimate.memory.peak());
    let verdict = if cx.fits(estimate) { "fits" } else { "is not enough" };
    let (step, now) = (step_ms(estimate), step_ms(cx.estimate));
    let time = if step > 1.02 * now {
        format!(", at {} a {} instead of {}", say::ms(step), cx.run(), say::ms(now))
    } else {
        String::new()
    };
    Some(format!("{option} needs {needed} and {verdict}{time}"))
}

/// The smallest card that is large enough: of the same chip, else of the same kind, else of the same maker.
fn larger_card(cx: &LintCx<'_>, memory: &MemoryBytes) -> Option<String> {
    let own = cx.estimate.memory_device(cx.target);
    let enough = |device: &&Device| device.memory.visible_bytes() >= memory.peak.p90 as f64;
    let same_chip = |device: &Device| device.board.chip == own.board.chip;
    let same_kind = |device: &Device| Kind::of(device) == Kind::of(own);
    // Boards of one line share the beginning of their ids.
    let alike = |device: &Device| own.id.bytes().zip(device.id.bytes()).take_while(|(own, other)| own == other).count();
    let rank = |device: &&Device| (same_chip(device), same_kind(device));
    let smaller = |left: &&Device, right: &&Device| {
        let size = left.memory.visible_gib.total_cmp(&right.memory.visible_gib);
        let order = rank(right).cmp(&rank(left)).then(size).then(alike(right).cmp(&alike(left)));
        order.then(right.memory.gb_s.total_cmp(&left.memory.gb_s))
    };
    let peers = catalogue().devices().iter().filter(|device| Kind::of(device).is_peer(Kind::of(own)));
    let Some(card) = peers.filter(enough).min_by(smaller) else {
        return Some("no single card of the catalogue has as much memory".to_owned());
    };
    let time = cx.what_if(|target| on_device(target, card)).map(|estimate| say::ms(step_ms(&estimate)));
    let time = time.map_or_else(String::new, |time| format!(", {time} a {}", cx.run()));
    // Cards that are named together are as many as the replicas.
    let count = if cx.target.cards.is_empty() { String::new() } else { format!("{}*", cx.target.replicas) };
    Some(format!("--gpu {count}{} has {}{time}", card.id, say::about_bytes(card.memory.visible_bytes())))
}

/// What a card is for, and whose it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Amd,
    Embedded,
    Games,
    Workstations,
    DataCenter,
}

impl Kind {
    fn of(device: &Device) -> Self {
        let architecture = |word: &&str| device.board.architecture.starts_with(*word);
        let named = |words: &[&str]| words.iter().any(|word| device.name.contains(word));
        if ["rdna", "cdna", "gcn"].iter().any(architecture) {
            Self::Amd
        } else if device.id.starts_with("jetson") {
            Self::Embedded
        } else if named(&["GeForce", "TITAN", "Titan"]) {
            Self::Games
        } else if named(&["Quadro", "RTX"]) {
            Self::Workstations
        } else {
            Self::DataCenter
        }
    }

    /// Whether a card of this kind can take the place of one of another.
    fn is_peer(self, other: Self) -> bool {
        self != Self::Embedded && (self == Self::Amd) == (other == Self::Amd)
    }
}

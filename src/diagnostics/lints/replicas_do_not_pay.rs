//! `replicas-do-not-pay`: several replicas do little more than one.

use super::{LintCx, joined, say};
use crate::device::{Kind, find_interconnect};
use crate::diagnostics::{Code, Diagnostic};
use crate::predict::network::Estimate;
use crate::target::Strategy;

/// Throughput over that of one replica below which there is no point.
const SPEEDUP: f64 = 1.1;

/// Share of all devices' work below which most of them wait.
const EFFICIENCY: f64 = 0.5;

/// Efficiency that is good enough for an advice.
const GOOD: f64 = 0.7;

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    let replicas = cx.report.replicas.as_ref()?;
    let count = cx.target.replicas;
    let none = replicas.speedup < SPEEDUP;
    if !cx.trains() || count < 2 || !replicas.speedup.is_finite() || !none && replicas.efficiency >= EFFICIENCY {
        return None;
    }
    let bound = match &*replicas.bound {
        "none" | "compute" => String::new(),
        "latency" => ", bound by what every exchange costs however small it is".to_owned(),
        "interconnect" => format!(", bound by {}", cx.target.interconnect.name),
        "slowest" => format!(", bound by the {}, which all others wait for", cx.device()),
        other => format!(", bound by the {other}"),
    };
    let advice = if none { "do not replicate at this size: " } else { "" };
    let message = format!(
        "{advice}{count} replicas do {} the work of one (efficiency {}){bound}",
        say::times(replicas.speedup),
        say::percent(replicas.efficiency)
    );
    let help = joined([larger_batch(cx), faster_link(cx), other_strategy(cx), fewer(cx), alone(cx)]);
    Some(Diagnostic::new(Code::ReplicasDoNotPay, message).maybe_help(help))
}

fn said(cx: &LintCx<'_>, option: &str, estimate: &Estimate) -> Option<String> {
    let new = estimate.speedup;
    let gain = new / cx.estimate.speedup;
    // Less loss is no advice.
    (gain >= 1.1 && new >= SPEEDUP)
        .then(|| format!("{option} is predicted to give {} the work of one", say::times(new)))
}

/// More work for each exchange: the batch at which it pays, or four times the batch.
fn larger_batch(cx: &LintCx<'_>) -> Option<String> {
    let (batch, replicas) = (cx.target.batch?, cx.target.replicas);
    let at = |factor: u64| {
        let larger = batch.checked_mul(factor)?;
        let estimate = cx.at_batch(larger)?;
        cx.fits(&estimate).then_some((larger, estimate))
    };
    let tried: Vec<_> = [4, 16].into_iter().map_while(at).collect();
    let pays = |(_, estimate): &&(u64, Estimate)| estimate.speedup / f64::from(replicas) >= GOOD;
    let (larger, estimate) = tried.iter().find(pays).or(tried.last())?;
    said(cx, &format!("--batch {larger}"), estimate)
}

/// The board's own link or bridge, where another one was named, or a faster network.
fn faster_link(cx: &LintCx<'_>) -> Option<String> {
    let (target, links) = (cx.target, &cx.target.device.links);
    let named = [Some(&links.interconnect), links.bridge.as_ref()].into_iter().flatten();
    let known = named.filter_map(|id| find_interconnect(id).ok());
    let faster = known
        .filter(|link| link.id != target.interconnect.id && link.kind != Kind::Bus)
        .max_by(|left, right| left.gb_s.total_cmp(&right.gb_s))?;
    let estimate = cx.what_if(|target| target.interconnect = faster)?;
    said(cx, &format!("--interconnect {}", faster.id), &estimate)
}

/// Buckets that go out during the backward pass.
fn other_strategy(cx: &LintCx<'_>) -> Option<String> {
    if cx.target.strategy == Strategy::Ddp {
        return None;
    }
    let estimate = cx.what_if(|target| target.strategy = Strategy::Ddp)?;
    said(cx, "--strategy ddp", &estimate)
}

/// The most replicas that are well used.
fn fewer(cx: &LintCx<'_>) -> Option<String> {
    if !cx.target.cards.is_empty() {
        return None;
    }
    let mut replicas = cx.target.replicas / 2;
    while replicas > 1 {
        let estimate = cx.what_if(|target| {
            target.replicas = replicas;
            target.hosts = target.hosts.min(replicas);
        })?;
        let speedup = estimate.speedup;
        if speedup / f64::from(replicas) >= GOOD {
            let efficiency = say::percent(speedup / f64::from(replicas));
            return Some(format!("--replicas {replicas} do {} the work of one ({efficiency})", say::times(speedup)));
        }
        replicas /= 2;
    }
    None
}

/// One device, where several are slower together.
fn alone(cx: &LintCx<'_>) -> Option<String> {
    let (batch, replicas) = (cx.target.batch?, cx.target.replicas);
    if !cx.target.cards.is_empty() {
        return None;
    }
    let estimate = cx.what_if(|target| (target.replicas, target.hosts) = (1, 1))?;
    let alone = cx.samples_per_s(&estimate, batch) / f64::from(replicas);
    let now = cx.samples_per_s(cx.estimate, batch);
    (alone >= now / SPEEDUP).then(|| {
        let (alone, now) = (say::number(alone), say::number(now));
        format!("--replicas 1 is predicted to do {alone} samples a second, all {replicas} together {now}")
    })
}

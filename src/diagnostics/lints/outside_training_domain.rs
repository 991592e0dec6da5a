//! `outside-training-domain`: much of the time is of kernels unlike those that the predictors learned from.

use std::collections::BTreeMap;

use super::{LintCx, kernels_ms, layer_ms, say, share};
use crate::diagnostics::{Code, Diagnostic};

/// Share of the kernels' time from which it is said.
const SHARE: f64 = 0.05;

/// Features that are named.
const NAMED: usize = 4;

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    let outside = || cx.layers().filter(|(_, layer)| layer.in_domain == Some(false));
    let ms: f64 = outside().map(|(_, layer)| layer_ms(layer)).sum();
    let of_time = share(ms, kernels_ms(cx.estimate));
    if of_time < SHARE {
        return None;
    }
    let priced = cx.layers().filter(|(_, layer)| layer.model.is_some()).count();
    let mut by_feature: BTreeMap<&str, usize> = BTreeMap::new();
    for name in outside().filter_map(|(_, layer)| layer.outside) {
        *by_feature.entry(name).or_default() += 1;
    }
    let mut features: Vec<_> = by_feature.into_iter().collect();
    // The sort is stable: equal counts stay in the order of their names.
    features.sort_by_key(|(_, layers)| std::cmp::Reverse(*layers));
    let named = features.iter().take(NAMED);
    let named: Vec<String> =
        named.map(|(name, layers)| format!("{name} ({})", say::counted(*layers as f64, "layer"))).collect();
    let message = format!(
        "{} of {}, {} of the time of kernels, are unlike what the predictors learned from",
        say::number(outside().count() as f64),
        say::counted(priced as f64, "layer"),
        say::percent(of_time),
    );
    let note = format!("features outside: {}", named.join(", "));
    let help = "physics prices them, or sets the more of their price the farther they are outside, and intervals are as \
                wide as that is rough; --features lists the features of kernels";
    Some(Diagnostic::new(Code::OutsideTrainingDomain, message).note(note).help(help))
}

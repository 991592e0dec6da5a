//! `docs/accuracy/baseline.md`: where predictions stand, by table.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;

use super::observe::{Kind, Observation, Observed};
use super::row::Row;
use super::sets::{By, Figures, Set, sets};

/// Where the page is, from the root of the repository.
pub(super) const PATH: &str = "docs/accuracy/baseline.md";

/// The tables of the page.
const TABLES: [&str; 5] = ["ryujaehun", "timm", "neusight_e2e", "vgg16_v100", "gpumemnet-faketensor"];

/// Geometric mean of predicted / measured times that a table must stay within.
const RATIO: (f64, f64) = (0.6, 1.5);

/// Least rank correlation.
const RANK: f64 = 0.9;

/// Largest median error of memory.
const MEMORY: f64 = 0.08;

/// Families with fewer rows say little.
const FAMILY_ROWS: usize = 8;

/// The page.
pub(super) fn text(rows: &[Row], observed: &Observed<'_>) -> Result<String, Box<dyn Error>> {
    if let Some(missing) = TABLES.iter().find(|table| !rows.iter().any(|row| row.table == **table)) {
        return Err(format!("the page needs the table {missing}").into());
    }
    let here = |row: &Row| TABLES.contains(&row.table.as_str());
    let observations: Vec<Observation<'_>> = observed.observations.iter().filter(|o| here(o.row)).cloned().collect();
    let mut text = String::from(HEAD);
    times(&mut text, rows, &observations);
    ranks(&mut text, &observations);
    memory(&mut text, &observations);
    families(&mut text, &observations);
    rows_apart(&mut text, rows, &Observed { observations, skipped: observed.skipped.clone() });
    Ok(text)
}

const HEAD: &str = "<!-- Made by `cargo xtask eval --models DIR --model-files DIR --write`; do not edit. -->\n\n\
    # Accuracy on whole networks\n\n\
    Predictions beside five tables of measured networks. Kernels are priced by the predictors that are built in, which \
    learned from measured layers and from none of these networks, and by the roofline where none has seen such work: \
    docs/time.md.\n\n\
    *Ratio* is the geometric mean of predicted / measured, *errors* are |predicted / measured - 1|, *in 80 %* is the share of \
    measured values between the 10 % and the 90 % bound. Where rows are known to be bad, figures without them stand in \
    brackets.\n";

fn times(text: &mut String, rows: &[Row], observations: &[Observation<'_>]) {
    let _ = write!(
        text,
        "\n## Time\n\nOne step on one device. Bar: ratio from {} to {}.\n\n\
         | table | rows with a time | judged | ratio | bar | mean error | median | 90 % | in 80 % |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        RATIO.0, RATIO.1
    );
    for set in of_kind(observations, Kind::ModelTime, &[By::Table]) {
        let name = value(&set, By::Table);
        let timed = rows.iter().filter(|row| row.table == name && row.time_ms.is_some() && row.replicas == 1).count();
        let met = |figures: &Figures| {
            figures.errors.is_some_and(|e| e.geometric_mean >= RATIO.0 && e.geometric_mean <= RATIO.1)
        };
        let _ = writeln!(
            text,
            "| {name} | {timed} | {} | {} | {} | {} | {} | {} | {} |",
            both(&set, |figures| Some(figures.n.to_string())),
            both(&set, |figures| Some(format!("{:.2}", figures.errors?.geometric_mean))),
            verdict(met(&set.all)),
            both(&set, |figures| Some(percent(figures.errors?.mape))),
            both(&set, |figures| Some(percent(figures.errors?.median_ape))),
            both(&set, |figures| Some(percent(figures.errors?.p90_ape))),
            both(&set, |figures| Some(percent(figures.errors?.coverage80?))),
        );
    }
}

fn ranks(text: &mut String, observations: &[Observation<'_>]) {
    let _ = write!(
        text,
        "\n## Order of networks\n\nSpearman's correlation of predicted and measured times over networks: one point for each \
         network, size and batch, versions and layouts averaged. *A sample* is the same of times divided by the batch: where a \
         table took for each network the largest batch that ran, all steps are about as long, and this is the order of the \
         networks. Bar: at least {RANK} for the one or the other.\n\n\
         | table | device | precision | pass | rows | points | a step | a sample | bar | ratio | median error |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for set in of_kind(observations, Kind::ModelTime, &[By::Table, By::Device, By::Precision, By::Pass]) {
        let both_orders = [set.all.rank_correlation, set.all.rank_correlation_per_sample];
        let best = both_orders.into_iter().flatten().reduce(f64::max);
        let columns = [
            both(&set, |figures| Some(figures.n.to_string())),
            set.all.configurations.to_string(),
            both(&set, |figures| Some(format!("{:.3}", figures.rank_correlation?))),
            both(&set, |figures| Some(format!("{:.3}", figures.rank_correlation_per_sample?))),
            best.map_or("-", |rank| verdict(rank >= RANK)).to_owned(),
            both(&set, |figures| Some(format!("{:.2}", figures.errors?.geometric_mean))),
            both(&set, |figures| Some(percent(figures.errors?.median_ape))),
        ];
        let values: Vec<&str> = set.by.iter().map(|(_, value)| value.as_str()).collect();
        let _ = writeln!(text, "| {} | {} |", values.join(" | "), columns.join(" | "));
    }
}

fn memory(text: &mut String, observations: &[Observation<'_>]) {
    let _ = write!(
        text,
        "\n## Memory\n\nPeak of the process, or of the allocator where a table gives that. Bar for gpumemnet-faketensor: median \
         error at most {}.\n\n\
         | table | pass | judged | ratio | mean error | median | 90 % | in 80 % | bar |\n|---|---|---|---|---|---|---|---|---|\n",
        percent(MEMORY)
    );
    for set in of_kind(observations, Kind::ModelMemory, &[By::Table, By::Pass]) {
        let name = value(&set, By::Table);
        let met = set.all.errors.map(|errors| verdict(errors.median_ape <= MEMORY));
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} |",
            value(&set, By::Pass),
            both(&set, |figures| Some(figures.n.to_string())),
            both(&set, |figures| Some(format!("{:.2}", figures.errors?.geometric_mean))),
            both(&set, |figures| Some(percent(figures.errors?.mape))),
            both(&set, |figures| Some(percent(figures.errors?.median_ape))),
            both(&set, |figures| Some(percent(figures.errors?.p90_ape))),
            both(&set, |figures| Some(percent(figures.errors?.coverage80?))),
            met.filter(|_| name == "gpumemnet-faketensor").unwrap_or("-"),
        );
    }
    text.push_str("\n| verdict on the card | judged | right | of those that did not fit |\n|---|---|---|---|\n");
    for set in of_kind(observations, Kind::Fits, &[By::Table, By::Device, By::Pass]) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            set.by.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", "),
            both(&set, |figures| Some(figures.n.to_string())),
            both(&set, |figures| Some(percent(figures.accuracy?))),
            both(&set, |figures| Some(percent(figures.found?))),
        );
    }
}

/// The families that are farthest off, of each table.
fn families(text: &mut String, observations: &[Observation<'_>]) {
    const SHOWN: usize = 12;
    let _ = write!(
        text,
        "\n## Families that are farthest off\n\nBy ratio, families with at least {FAMILY_ROWS} rows, {SHOWN} of each table and pass.\n\n\
         | table | kind | pass | family | rows | ratio | median error |\n|---|---|---|---|---|---|---|\n"
    );
    for kind in [Kind::ModelTime, Kind::ModelMemory] {
        let mut tables: BTreeMap<(String, String), Vec<(f64, Set)>> = BTreeMap::new();
        for set in of_kind(observations, kind, &[By::Table, By::Pass, By::Family]) {
            let Some(errors) = set.all.errors.filter(|errors| errors.n >= FAMILY_ROWS) else { continue };
            let key = (value(&set, By::Table).to_owned(), value(&set, By::Pass).to_owned());
            tables.entry(key).or_default().push((errors.geometric_mean.ln().abs(), set));
        }
        for ((table, pass), mut families) in tables {
            families.sort_by(|a, b| b.0.total_cmp(&a.0));
            for (_, set) in families.iter().take(SHOWN) {
                let _ = writeln!(
                    text,
                    "| {table} | {} | {pass} | {} | {} | {} | {} |",
                    if kind == Kind::ModelTime { "time" } else { "memory" },
                    value(set, By::Family),
                    both(set, |figures| Some(figures.n.to_string())),
                    both(set, |figures| Some(format!("{:.2}", figures.errors?.geometric_mean))),
                    both(set, |figures| Some(percent(figures.errors?.median_ape))),
                );
            }
        }
    }
}

fn rows_apart(text: &mut String, rows: &[Row], observed: &Observed<'_>) {
    text.push_str("\n## Rows that were not judged\n\n| table | rows | why |\n|---|---|---|\n");
    for table in TABLES {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for skipped in observed.skipped.iter().filter(|skipped| skipped.table == table) {
            *reasons.entry(&skipped.reason).or_default() += 1;
        }
        let all = rows.iter().filter(|row| row.table == table).count();
        for (reason, count) in reasons {
            let _ = writeln!(text, "| {table} | {count} of {all} | {reason} |");
        }
    }
    let refused = observed.refused();
    if !refused.is_empty() {
        text.push_str("\nFaster than the peak of their boards, so timed without waiting or of another network:\n\n");
        for row in refused {
            let _ = writeln!(text, "- {row}");
        }
    }
    text.push_str("\n## Known bad rows\n\n| rows | why |\n|---|---|\n");
    for (reason, count) in observed.doubted_by_reason() {
        let _ = writeln!(text, "| {count} | {reason} |");
    }
}

fn of_kind(observations: &[Observation<'_>], kind: Kind, by: &[By]) -> Vec<Set> {
    let chosen: Vec<Observation<'_>> = observations.iter().filter(|o| o.kind == kind).cloned().collect();
    sets(&chosen, by)
}

fn value(set: &Set, by: By) -> &str {
    set.by.iter().find(|(column, _)| *column == by).map_or("", |(_, value)| value)
}

/// A figure of all rows, and in brackets without the known bad ones.
fn both(set: &Set, figure: impl Fn(&Figures) -> Option<String>) -> String {
    let show = |figures: &Figures| figure(figures).unwrap_or_else(|| "-".to_owned());
    let all = show(&set.all);
    match set.undoubted.as_ref().map(show) {
        Some(undoubted) if undoubted != all => format!("{all} ({undoubted})"),
        _ => all,
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "not met" }
}

//! The card of a predictor file: what it was made of, how well it does, where it ends.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};

use dlcost::predict::learned::rates::Anchors;
use dlcost::predict::learned::section::{Interval, Section};

use super::prepare::{Example, judged};
use super::row::LayerRow;
use super::unseen::{LeftOut, Way};
use crate::eval::metrics::{Errors, Pair};

/// A section with how it came out.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) section: Section,
    pub(crate) scores: Scores,
    pub(crate) way: Way,
    pub(crate) chips: Vec<LeftOut>,
    pub(crate) examples: usize,
}

/// Errors on the development test set.
#[derive(Debug)]
pub(crate) struct Scores {
    all: Option<Errors>,
    /// By source, device and pass.
    by: BTreeMap<[String; 3], Errors>,
}

impl Scores {
    /// How a section predicts the examples that it did not learn from.
    pub(crate) fn of(section: &Section, examples: &[Example], rows: &[LayerRow], anchors: Anchors) -> Self {
        let mut by: BTreeMap<[String; 3], Vec<Pair>> = BTreeMap::new();
        for example in examples.iter().filter(|example| example.dev) {
            let Some(pair) = judged(section, example, anchors) else { continue };
            let Some(row) = rows.get(example.row) else { continue };
            by.entry([&row.source, &row.device, &row.pass].map(ToString::to_string)).or_default().push(pair);
        }
        let all: Vec<Pair> = by.values().flatten().cloned().collect();
        let by = by.into_iter().filter_map(|(key, pairs)| Some((key, Errors::of(&pairs)?))).collect();
        Self { all: Errors::of(&all), by }
    }
}

impl Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(errors) = &self.all else { return f.write_str("no rows to test on") };
        let [mean, median, p90, bias] =
            [errors.mape, errors.median_ape, errors.p90_ape, errors.bias].map(|share| share * 100.0);
        let inside = errors.coverage80.unwrap_or_default() * 100.0;
        let rows = errors.n;
        write!(
            f,
            "{rows} rows, mean {mean:.2} %, median {median:.2} %, p90 {p90:.1} %, bias {bias:+.1} %, {inside:.0} % inside"
        )
    }
}

/// What every card says of the method.
const METHOD: &str = "Physical time (the cheapest algorithm or tiling at the rates of the device) times the exponential of boosted trees \
    over dimensionless features. Rows that time several kernels, a loss or an update are sums of them: every part learns from \
    its share. Devices that were measured have a model that knows the device; others one without, by data sheet or by two \
    measured rates. As it came out best on chips that were left out, all or a part of what these trees say is believed, with \
    or without what boards like the device were off. p10 and p90 are split-conformal: for measured devices from a tenth of the \
    configurations that no tree saw, for others as wide as for 80 % of the chip that came out worst when each was left out in \
    turn.";

/// Writes the card of a family.
pub(crate) fn card(family: &str, made: &[Made], data: u64) -> String {
    let mut card = format!(
        "# {family}\n\nMade by `cargo xtask train`; data {data:016x}. Errors are absolute percentage errors on the development test \
         set, whose configurations no model saw; bias is the mean signed error, inside the share of times in p10 to \
         p90.\n\n{METHOD}\n"
    );
    for made in made {
        let _ = section(&mut card, made);
    }
    card
}

fn section(card: &mut String, made: &Made) -> fmt::Result {
    let Made { section, scores, way, chips, examples } = made;
    writeln!(
        card,
        "\n## {}\n\n{examples} rows, {} devices. Test set: {scores}.\n",
        section.name,
        section.boards.len()
    )?;
    writeln!(card, "| source | device | pass | rows | mean % | median % | p90 % | bias % | inside % |")?;
    writeln!(card, "|---|---|---|---:|---:|---:|---:|---:|---:|")?;
    for ([source, device, pass], errors) in &scores.by {
        let [mean, median, p90, bias] =
            [errors.mape, errors.median_ape, errors.p90_ape, errors.bias].map(|share| share * 100.0);
        let inside = errors.coverage80.unwrap_or_default() * 100.0;
        let rows = errors.n;
        writeln!(
            card,
            "| {source} | {device} | {pass} | {rows} | {mean:.1} | {median:.1} | {p90:.1} | {bias:+.1} | {inside:.0} |"
        )?;
    }
    let factors = |interval: Interval| format!("× {:.2} to × {:.2}", interval.low, interval.high);
    let (seen, unseen) = (factors(section.seen_interval), factors(section.unseen_interval));
    writeln!(card, "\nInterval around p50: {seen} on measured devices, {unseen} on others.")?;
    if !chips.is_empty() {
        writeln!(
            card,
            "\nOn chips that were not measured, {:.0} % of what trees say is believed{}. Inside is the share of times in the interval \
             that the other chips give.\n\n\
             | chip left out | rows | by data sheet: mean % | median % | p90 % | bias % | inside % | by two rates: mean % \
             | median % | p90 % | bias % |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            way.belief * 100.0,
            if way.offsets { ", with offsets of boards" } else { "" }
        )?;
        for LeftOut { chip, sheet, anchored, .. } in chips {
            let figures = |errors: &Errors| {
                let [mean, median, p90, bias] =
                    [errors.mape, errors.median_ape, errors.p90_ape, errors.bias].map(|share| share * 100.0);
                format!("{mean:.1} | {median:.1} | {p90:.1} | {bias:+.1}")
            };
            let inside = sheet.coverage80.map(|share| format!("{:.0}", share * 100.0)).unwrap_or_default();
            writeln!(card, "| {chip} | {} | {} | {inside} | {} |", sheet.n, figures(sheet), figures(anchored))?;
        }
    }
    weak(card, made)?;
    let ends = section.features.iter().zip(&section.domain);
    let ends: Vec<String> =
        ends.map(|(name, domain)| format!("{name} {:.3} to {:.3}", domain.low, domain.high)).collect();
    writeln!(card, "\nDomain: {}.", ends.join(", "))
}

/// Where it is weakest.
fn weak(card: &mut String, made: &Made) -> fmt::Result {
    let Some(all) = &made.scores.all else { return Ok(()) };
    let mut weak: Vec<String> = Vec::new();
    for ([source, device, pass], errors) in &made.scores.by {
        if errors.n >= 20 && errors.mape > 1.5 * all.mape {
            weak.push(format!("{device} {pass} ({source}) {:.0} %", errors.mape * 100.0));
        }
    }
    if made.examples < 3_000 {
        weak.push(format!("only {} rows: layers of few networks", made.examples));
    }
    if made.section.boards.len() == 1 {
        weak.push("one device: nothing is known of others".to_owned());
    }
    if weak.is_empty() { Ok(()) } else { writeln!(card, "\nWeak: {}.", weak.join("; ")) }
}

//! The tables of the contest, as Markdown between two marks of a page.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use super::{FEWEST, MOST_LEARNED, MOST_PREDICTED, Method, Score, crates};

const BEGIN: &str = "<!-- contest -->";
const END: &str = "<!-- /contest -->";

/// Differences up to these are noise: points of the mean error, on boards that were seen and on a chip that was not.
const NOISE: [f64; 2] = [0.2, 1.0];

/// How all methods did on a section, in their order.
pub(super) struct Line {
    pub(super) section: String,
    /// Rows that were learned from and that were predicted.
    pub(super) rows: [usize; 2],
    pub(super) seen: Vec<Score>,
    /// The chip that was left out.
    pub(super) unseen: Option<(String, Vec<Score>)>,
}

/// Writes the tables into a page, at their marks if it has them, else at its end.
pub(super) fn write(page: &Path, lines: &[Line], apart: &[String]) -> io::Result<()> {
    let old = match fs::read_to_string(page) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => "# Predictors\n".to_owned(),
        Err(error) => return Err(error),
    };
    if let Some(folder) = page.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(page, placed(&old, &tables(lines, apart)))
}

fn placed(page: &str, tables: &str) -> String {
    let block = format!("{BEGIN}\n{tables}{END}");
    match (page.split_once(BEGIN), page.split_once(END)) {
        (Some((before, _)), Some((_, after))) => format!("{before}{block}{after}"),
        _ => format!("{}\n\n{block}\n", page.trim_end()),
    }
}

fn tables(lines: &[Line], apart: &[String]) -> String {
    let mut text = String::new();
    let heads = Method::ALL.map(Method::head).join(" | ");
    let rule = "|---:".repeat(Method::ALL.len());
    let _ = writeln!(
        text,
        "Boards seen, other shapes. Rows learned from (at most {MOST_LEARNED}) and predicted (at most {MOST_PREDICTED}):\n\n\
         | section | rows | {heads} |\n|---|---{rule}|"
    );
    for line in lines {
        let [learned, predicted] = line.rows;
        let _ = writeln!(text, "| {} | {learned} + {predicted} | {} |", line.section, cells(&line.seen));
    }
    let _ = writeln!(
        text,
        "\nThe chip with the most rows left out, features from data sheets, no number of a board:\n\n\
         | section | chip | {heads} |\n|---|---{rule}|"
    );
    for line in lines {
        if let Some((chip, scores)) = &line.unseen {
            let _ = writeln!(text, "| {} | {chip} | {} |", line.section, cells(scores));
        }
    }
    text.push_str(&means(lines));
    text.push_str(&winners(lines));
    if !apart.is_empty() {
        let _ = writeln!(
            text,
            "\nNot in the contest, with fewer than {} rows of one kernel to learn from or {} to predict: {}.",
            FEWEST[0],
            FEWEST[1],
            apart.join(", ")
        );
    }
    text
}

fn cells(scores: &[Score]) -> String {
    let best = best(scores);
    let cell = |(at, score): (usize, &Score)| {
        let text = format!("{:.1} / {:.1}", 100.0 * score.mean, 100.0 * score.median);
        if Some(at) == best { format!("**{text}**") } else { text }
    };
    scores.iter().enumerate().map(cell).collect::<Vec<_>>().join(" | ")
}

fn best(scores: &[Score]) -> Option<usize> {
    let means = scores.iter().map(|score| score.mean).enumerate();
    means.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(at, _)| at)
}

/// Every method over all sections.
fn means(lines: &[Line]) -> String {
    let mut text =
        "\n| method | what it is | seen, mean of sections, % | unseen, % | fits together, s | a row, µs | size, \
                    KB |\n|---|---|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for (at, method) in Method::ALL.into_iter().enumerate() {
        let seen: Vec<&Score> = lines.iter().filter_map(|line| line.seen.get(at)).collect();
        let unseen: Vec<&Score> = lines.iter().filter_map(|line| line.unseen.as_ref()?.1.get(at)).collect();
        let mean = |scores: &[&Score], of: fn(&Score) -> f64| {
            scores.iter().map(|score| of(score)).sum::<f64>() / scores.len().max(1) as f64
        };
        let seconds: f64 = seen.iter().chain(&unseen).map(|score| score.seconds).sum();
        let bytes: Option<Vec<usize>> = seen.iter().map(|score| score.bytes).collect();
        let size = bytes.map_or("–".to_owned(), |all| {
            format!("{:.1}", all.iter().sum::<usize>() as f64 / 1e3 / all.len().max(1) as f64)
        });
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {:.1} | {seconds:.0} | {:.1} | {size} |",
            method.head(),
            method.what(),
            100.0 * mean(&seen, |score| score.mean),
            100.0 * mean(&unseen, |score| score.mean),
            mean(&seen, |score| score.micros),
        );
    }
    text
}

/// Where another method than the shipped one won by more than noise.
fn winners(lines: &[Line]) -> String {
    let seen = lines.iter().map(|line| (&*line.section, &*line.seen)).collect::<Vec<_>>();
    let unseen = lines.iter().filter_map(|line| Some((&*line.section, &*line.unseen.as_ref()?.1)));
    let rounds = [("on boards seen", NOISE[0], seen), ("on the chip left out", NOISE[1], unseen.collect())];
    let mut text = String::new();
    for (what, noise, sections) in rounds {
        let better: Vec<String> = sections.iter().filter_map(|(name, scores)| better(name, scores, noise)).collect();
        let list = if better.is_empty() { "none".to_owned() } else { better.join(", ") };
        let _ = writeln!(text, "\nOf {} sections, ahead of sums by more than noise {what}: {list}.", sections.len());
    }
    text
}

/// The winner of a section that is ahead by more than noise: so many points, and two standard errors of the difference
/// row by row.
fn better(section: &str, scores: &[Score], noise: f64) -> Option<String> {
    let (at, ours) = (best(scores)?, scores.last()?);
    let winner = scores.get(at)?;
    let count = ours.errors.len() as f64;
    let by = ours.mean - winner.mean;
    let squares = ours.errors.iter().zip(&winner.errors).map(|(ours, winner)| (ours - winner - by).powi(2));
    let deviation = (squares.sum::<f64>() / count / count).sqrt();
    let head = Method::ALL.get(at)?.head();
    (100.0 * by > noise && by > 2.0 * deviation).then(|| format!("{section} ({head}, {:.1} points)", 100.0 * by))
}

impl Method {
    fn head(self) -> &'static str {
        match self {
            Self::Physics => "physics",
            Self::Linear => "linear",
            Self::Forest => "forest",
            Self::Boosting => "boosting",
            Self::Perpetual => "perpetual",
            Self::Net => "net",
            Self::Sums => "sums",
        }
    }

    fn what(self) -> String {
        match self {
            Self::Physics => "physical time times one factor".to_owned(),
            Self::Linear => "linfa: least squares with a small square penalty; kinds have a column each".to_owned(),
            Self::Forest => {
                format!("smartcore: random forest, {} trees, a third of the features", crates::FOREST_TREES)
            }
            Self::Boosting => format!(
                "smartcore: boosting, {} trees of depth 6; it has exact cuts only, so a tree sees at most {} rows",
                crates::BOOSTING_ROUNDS,
                crates::BOOSTING_ROWS
            ),
            Self::Perpetual => format!("perpetual: boosting that stops by itself, budget {}", crates::BUDGET),
            Self::Net => "own: two hidden layers of 64, standardised and clipped inputs, Adam".to_owned(),
            Self::Sums => "own: boosting over sums, with the settings that ship".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(means: [f64; 7]) -> Vec<Score> {
        means.map(|mean| Score { mean, median: mean / 2.0, errors: vec![mean; 40], ..Score::default() }).to_vec()
    }

    #[test]
    fn tables_go_between_their_marks_and_the_rest_stays() {
        let page = "# A\n\n<!-- contest -->\nold\n<!-- /contest -->\n\nB\n";
        assert_eq!(placed(page, "new\n"), "# A\n\n<!-- contest -->\nnew\n<!-- /contest -->\n\nB\n");
        assert_eq!(placed("# A\n", "new\n"), "# A\n\n<!-- contest -->\nnew\n<!-- /contest -->\n");
    }

    #[test]
    fn the_winner_is_bold_and_one_ahead_by_more_than_noise_is_named() {
        let line = Line {
            section: "product/serving".to_owned(),
            rows: [300, 40],
            seen: scores([0.3, 0.2, 0.09, 0.08, 0.07, 0.045, 0.05]),
            unseen: Some(("GH100".to_owned(), scores([0.3, 0.2, 0.2, 0.2, 0.2, 0.115, 0.12]))),
        };
        let text = tables(&[line], &[]);
        assert!(text.contains("| 7.0 / 3.5 | **4.5 / 2.2** | 5.0 / 2.5 |\n"), "{text}");
        assert!(text.contains("noise on boards seen: product/serving (net, 0.5 points).\n"), "{text}");
        assert!(text.contains("noise on the chip left out: none.\n"), "{text}");
    }
}

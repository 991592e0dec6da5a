//! Many entries of one file side by side: what they share is said once, and what differs names each.

use crate::render::Style;
use crate::render::table::{Column, lines};
use crate::render::text::{list, printable};
use crate::render::units::{UNKNOWN, bytes, duration, duration_unit, number, share};
use crate::report::{Graph, Model};

use super::counted::Counted;
use super::head::{self, Piece};
use super::summary::{ranked, run_word};

/// The models as a table, with what holds for all of them before it.
pub(super) fn text(models: &[Model], first: &Model, graph: &Graph, style: Style) -> String {
    let mut text = head::model_line(first, graph, style);
    let mut pieces = vec![format!("{} entries", models.len())];
    pieces.extend(head::joined(&shared(models)));
    text.push_str(&list("  for ", &pieces));
    text.push_str(&head::assumed_lines(models));
    text.push('\n');
    text.push_str(&lines(&columns(first), &rows(models, style), style));
    let largest = models.iter().any(|model| model.memory_bytes.is_some_and(|memory| memory.largest_batch.is_some()));
    let in_parentheses = if largest { "in parentheses the largest batch that fits; " } else { "" };
    text.push_str(&format!("  {in_parentheses}--format json has everything of each entry\n\n"));
    text.push_str(&Counted::of(first, graph, style).lines(first, style));
    text
}

/// What names each of several entries of one file: the device and whatever else is not the same for all.
pub(super) fn names(models: &[Model]) -> Vec<String> {
    let shared = shared(models);
    let mut names: Vec<String> = Vec::new();
    for (index, model) in models.iter().enumerate() {
        let mut pieces: Vec<String> = model.target.gpu.iter().map(|id| printable(id).into_owned()).collect();
        // What joins the boards is theirs where nobody said anything else.
        let own_link = model.assumptions.iter().any(|assumption| assumption.key == "interconnect");
        let said = |piece: &Piece| shared.contains(piece) || own_link && piece.text.starts_with("over ");
        pieces.extend(head::pieces(&model.target).into_iter().filter(|piece| !said(piece)).map(|piece| piece.text));
        let name = pieces.join(", ");
        names.push(if name.is_empty() || names.contains(&name) { format!("{name} #{}", index + 1) } else { name });
    }
    names
}

/// Pieces of the setting that all have.
fn shared(models: &[Model]) -> Vec<Piece> {
    let mut settings = models.iter().map(|model| head::pieces(&model.target));
    let mut shared = settings.next().unwrap_or_default();
    for setting in settings {
        shared.retain(|piece| setting.contains(piece));
    }
    shared
}

/// Columns of the table; where totals were asked for, what they cost stands instead of what limits the layers.
fn columns(first: &Model) -> [Column<'static>; 7] {
    let column = |title, right, most| Column { title, right, most };
    [
        column("", false, usize::MAX),
        column(run_word(first), true, 9),
        column("80 % interval", true, 16),
        column("samples/s", true, 9),
        column("memory", true, 9),
        column("fits", false, 16),
        if first.totals.is_some() { column("USD in all", true, 14) } else { column("bound by", false, 14) },
    ]
}

fn rows(models: &[Model], style: Style) -> Vec<Vec<String>> {
    let unknown = || UNKNOWN.to_owned();
    let row = |(model, name): (&Model, String)| {
        let time = model.time_ms.as_ref();
        let interval = time.map_or_else(String::new, |time| {
            let (factor, _) = duration_unit(time.step.p50, style);
            format!("{} to {}", number(time.step.p10 * factor), number(time.step.p90 * factor))
        });
        let rate = model.throughput.and_then(|throughput| throughput.samples_per_s);
        let memory = model.memory_bytes.as_ref();
        let bound = model.bounds.and_then(|bounds| ranked(bounds).first().copied());
        vec![
            name,
            time.map_or_else(unknown, |time| duration(time.step.p50, style)),
            interval,
            rate.map_or_else(unknown, number),
            memory.map_or_else(unknown, |memory| bytes(i128::from(memory.peak.p50))),
            memory.map_or_else(unknown, |memory| {
                let fits = match memory.fits {
                    Some(true) => "yes",
                    Some(false) => "no",
                    None => "perhaps",
                };
                memory.largest_batch.map_or_else(|| fits.to_owned(), |batch| format!("{fits} ({batch})"))
            }),
            match &model.totals {
                Some(totals) => totals.usd.map_or_else(unknown, number),
                None => bound.map_or_else(String::new, |(name, of)| format!("{name} {}", share(of))),
            },
        ]
    };
    models.iter().zip(names(models)).map(row).collect()
}

//! Devices for people and programs: a list of all, and some side by side.

use serde::Serialize;

use super::Style;
use super::table::{Column, lines};
use super::text::{COLUMNS, list as list_of, printable, width};
use super::units::{UNKNOWN, bytes, of_unit};
use crate::device::{Device, Precision, list_price};

/// Name of the form of the JSON list.
pub const SCHEMA: &str = "dlcost-devices/1";

/// Columns of a name when devices stand side by side.
const LABEL: usize = 24;

/// What stands where a card has nothing of the kind.
const NONE: &str = "-";

/// Columns of a ratio with the gap before it.
const RATIO: usize = 8;

#[derive(Serialize)]
struct List<'d> {
    schema: &'static str,
    devices: &'d [&'d Device],
}

/// The devices with all their figures.
///
/// # Errors
/// As the writer.
pub fn json(devices: &[&Device], out: &mut dyn std::io::Write) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &List { schema: SCHEMA, devices })?;
    out.write_all(b"\n")
}

/// One line for each device.
#[must_use]
pub fn list(devices: &[&Device], style: Style) -> String {
    let column = |title, right, most| Column { title, right, most };
    let columns = [
        column("id", false, usize::MAX),
        column("name", false, 36),
        column("year", true, 4),
        column("GiB", true, 6),
        column("GB/s", true, 6),
        column("fp32", true, 6),
        column("fp16 tensor", true, 11),
    ];
    let number = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), three_digits);
    let row = |device: &&Device| {
        vec![
            printable(&device.id).into_owned(),
            printable(&device.name).into_owned(),
            device.board.year.to_string(),
            three_digits(device.memory.gib),
            three_digits(device.memory.gb_s),
            number(device.plain.fp32),
            number(device.tensor.fp16),
        ]
    };
    let legend = "TFLOPS at the boost clock; dlcost devices ID ID compares all figures";
    format!("{}\n  {legend}\n", lines(&columns, &devices.iter().map(row).collect::<Vec<_>>(), style))
}

/// Devices side by side, as many as fit into a line; the others follow below. Beside the figures of each stands their
/// ratio to those of the first one.
#[must_use]
pub fn comparison(devices: &[&Device], style: Style) -> String {
    let mut blocks = Vec::new();
    let mut rest = devices;
    let Some(first) = devices.first() else { return String::new() };
    while !rest.is_empty() {
        let mut room = COLUMNS.saturating_sub(LABEL + 2);
        let fitting = rest.iter().take_while(|device| {
            let wide = wanted(device) + 2 + if device.id == first.id { 0 } else { RATIO };
            let fits = wide <= room;
            room = room.saturating_sub(wide);
            fits
        });
        let (block, others) = rest.split_at(fitting.count().max(1));
        blocks.push(block_of(block, first, style));
        rest = others;
    }
    let mut text = blocks.join("\n");
    if devices.len() > 1 {
        text.push_str(&format!("\n  ratio: to {}\n", printable(&first.id)));
    }
    for device in devices.iter().filter(|device| !device.assumed.is_empty()) {
        // A guess never looks like a fact.
        text.push('\n');
        let pieces: Vec<String> = device.assumed.iter().map(|&name| name.to_owned()).collect();
        text.push_str(&list_of(&format!("  assumed of {}: ", printable(&device.id)), &pieces));
    }
    text
}

/// The widest cell of a device.
fn wanted(device: &Device) -> usize {
    rows(device)
        .iter()
        .map(|row| width(&row.cell))
        .max()
        .unwrap_or(0)
        .max(width(&printable(&device.id)))
        .min(COLUMNS - LABEL - RATIO - 4)
}

fn block_of(devices: &[&Device], first: &Device, style: Style) -> String {
    let reference = rows(first);
    let mut titles = vec![String::new()];
    let mut table: Vec<Vec<String>> = reference.iter().map(|row| vec![row.label.clone()]).collect();
    // What none of them has says nothing.
    let mut said = vec![false; table.len()];
    for device in devices {
        titles.push(printable(&device.id).into_owned());
        let is_first = device.id == first.id;
        if !is_first {
            titles.push("ratio".to_owned());
        }
        for (((line, said), row), to) in table.iter_mut().zip(&mut said).zip(rows(device)).zip(&reference) {
            *said |= row.cell != NONE;
            line.push(row.cell);
            if !is_first {
                line.push(ratio(row.value, to.value));
            }
        }
    }
    let columns: Vec<Column<'_>> = titles
        .iter()
        .enumerate()
        .map(|(index, title)| Column {
            title,
            right: index > 0,
            most: if index == 0 { LABEL } else { COLUMNS - LABEL - RATIO - 4 },
        })
        .collect();
    let table: Vec<Vec<String>> = table.into_iter().zip(said).filter(|(_, said)| *said).map(|(row, _)| row).collect();
    lines(&columns, &table, style)
}

fn ratio(value: Option<f64>, to: Option<f64>) -> String {
    match (value, to) {
        (Some(value), Some(to)) if to > 0.0 => format!("{} x", three_digits(value / to)),
        _ => String::new(),
    }
}

/// A figure of a device.
struct Row {
    label: String,
    cell: String,
    /// The figure as a number, where a ratio of two of them says something.
    value: Option<f64>,
}

/// All figures of a device, with their names.
fn rows(device: &Device) -> Vec<Row> {
    let Device { board, memory, links, reached, .. } = device;
    let mut rows = Vec::new();
    let mut push = |label: &str, cell: String, value: Option<f64>| {
        rows.push(Row { label: label.to_owned(), cell, value });
    };
    push("name", printable(&device.name).into_owned(), None);
    push("chip", printable(&format!("{}, {}", board.chip, board.architecture)).into_owned(), None);
    push("year", board.year.to_string(), None);
    push("SMs", board.sms.to_string(), Some(f64::from(board.sms)));
    let clocks = format!("{:.0}, {:.0} MHz", board.boost_mhz, board.sustained_mhz);
    push("boost, sustained clock", clocks, Some(board.boost_mhz));
    push("memory", gib(memory.gib), Some(memory.gib));
    push("memory the driver shows", gib(memory.visible_gib), Some(memory.visible_gib));
    push("bandwidth", bandwidth(memory.gb_s), Some(memory.gb_s));
    push("L2", bytes((memory.l2_mib * 1_048_576.0) as i128), Some(memory.l2_mib));
    for (kind, rates) in [("", &device.plain), (" tensor", &device.tensor), (" reached", &reached.products)] {
        for precision in Precision::ALL {
            let value = rates.of(precision);
            push(&format!("{}{kind}", precision.name()), rate(value, precision), value);
        }
    }
    push("copies reached", reached.copy_gb_s.map_or_else(|| NONE.to_owned(), bandwidth), reached.copy_gb_s);
    push("interconnect", link(&links.interconnect, links.count), None);
    let bridge = links.bridge.as_ref().map_or_else(|| NONE.to_owned(), |bridge| link(bridge, links.bridge_count));
    push("bridge", bridge, None);
    push("board power", format!("{:.0} W", board.power_w), Some(board.power_w));
    let price = list_price(&device.id).map(|price| price.usd_per_hour);
    push("list price", price.map_or_else(|| NONE.to_owned(), |usd| format!("{usd:.2} USD/h")), price);
    rows
}

/// A number with at most three significant digits before or behind its point.
fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn link(interconnect: &str, count: u32) -> String {
    if count == 1 { interconnect.to_owned() } else { format!("{count} x {interconnect}") }
}

fn gib(gib: f64) -> String {
    bytes((gib * 1_073_741_824.0) as i128)
}

fn bandwidth(gb_s: f64) -> String {
    of_unit(Some((gb_s * 1e9).round() as i128), "B/s")
}

fn rate(tflops: Option<f64>, precision: Precision) -> String {
    let unit = if precision == Precision::Int8 { "OPS" } else { "FLOPS" };
    match tflops {
        None => NONE.to_owned(),
        Some(tflops) if tflops.is_finite() => of_unit(Some((tflops * 1e12).round() as i128), unit),
        Some(_) => UNKNOWN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{catalogue, find};

    #[test]
    fn all_devices_fit_into_lines() {
        let all: Vec<&Device> = catalogue().devices().iter().collect();
        for text in [list(&all, Style::PLAIN), comparison(&all, Style::PLAIN)] {
            assert!(text.lines().all(|line| width(line) <= COLUMNS), "{text}");
        }
        let text = list(&all, Style::PLAIN);
        assert_eq!(text.lines().count(), all.len() + 3);
        assert!(all.iter().all(|device| text.contains(&device.id) && text.contains(&device.name)), "{text}");
    }

    #[test]
    fn cards_stand_side_by_side() {
        let cards: Vec<&Device> = ["gtx-1080-ti", "v100", "a100"].iter().map(|id| find(id).unwrap().device).collect();
        insta::assert_snapshot!(comparison(&cards, Style::PLAIN));
    }

    #[test]
    fn what_was_assumed_of_a_card_is_said() {
        let mut card = find("t4").unwrap().device.clone();
        card.assumed = vec!["board.sms", "memory.l2_mib"];
        let text = comparison(&[&card], Style::PLAIN);
        assert!(text.ends_with("\n  assumed of t4: board.sms, memory.l2_mib\n"), "{text}");
    }

    #[test]
    fn what_a_card_does_not_have_is_null_for_programs() {
        let mut text = Vec::new();
        json(&[find("k80").unwrap().device], &mut text).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(value["schema"], SCHEMA);
        assert!(value["devices"][0]["tensor"]["fp16"].is_null());
        assert_eq!(value["devices"][0]["memory"]["gb_s"], 240.0);
    }
}

//! Devices for people and programs: a list of all, and some side by side.

use serde::Serialize;

use super::Style;
use super::table::{Column, lines};
use super::text::{COLUMNS, list as list_of, printable, width};
use super::units::{UNKNOWN, bytes, of_unit};
use crate::device::{Device, Precision};

/// Name of the form of the JSON list.
pub const SCHEMA: &str = "dlcost-devices/1";

/// Columns of a name when devices stand side by side.
const LABEL: usize = 24;

/// What stands where a card has nothing of the kind.
const NONE: &str = "-";

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

/// Devices side by side, as many as fit into a line; the others follow below.
#[must_use]
pub fn comparison(devices: &[&Device], style: Style) -> String {
    let mut blocks = Vec::new();
    let mut rest = devices;
    while !rest.is_empty() {
        let mut room = COLUMNS.saturating_sub(LABEL + 2);
        let fitting = rest.iter().take_while(|device| {
            let wide = wanted(device) + 2;
            let fits = wide <= room;
            room = room.saturating_sub(wide);
            fits
        });
        let (block, others) = rest.split_at(fitting.count().max(1));
        blocks.push(block_of(block, style));
        rest = others;
    }
    let mut text = blocks.join("\n");
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
        .map(|(_, cell)| width(cell))
        .max()
        .unwrap_or(0)
        .max(width(&printable(&device.id)))
        .min(COLUMNS - LABEL - 4)
}

fn block_of(devices: &[&Device], style: Style) -> String {
    let ids: Vec<_> = devices.iter().map(|device| printable(&device.id)).collect();
    let mut columns = vec![Column { title: "", right: false, most: LABEL }];
    columns.extend(ids.iter().map(|id| Column { title: id, right: true, most: COLUMNS - LABEL - 4 }));
    let cells: Vec<_> = devices.iter().map(|device| rows(device)).collect();
    let labels = cells.first().map(|rows| rows.iter().map(|(label, _)| label.clone()).collect::<Vec<_>>());
    let row = |(index, label): (usize, String)| {
        let values = cells.iter().map(|rows| rows.get(index).map_or_else(String::new, |(_, cell)| cell.clone()));
        std::iter::once(label).chain(values).collect::<Vec<_>>()
    };
    let mut table: Vec<Vec<String>> = labels.unwrap_or_default().into_iter().enumerate().map(row).collect();
    // What none of them has says nothing.
    table.retain(|row| row.iter().skip(1).any(|cell| cell != NONE));
    lines(&columns, &table, style)
}

/// All figures of a device, with their names.
fn rows(device: &Device) -> Vec<(String, String)> {
    let Device { board, memory, links, reached, .. } = device;
    let mut rows = vec![
        ("name".to_owned(), printable(&device.name).into_owned()),
        ("chip".to_owned(), printable(&format!("{}, {}", board.chip, board.architecture)).into_owned()),
        ("year".to_owned(), board.year.to_string()),
        ("SMs".to_owned(), board.sms.to_string()),
        ("boost, sustained clock".to_owned(), format!("{:.0}, {:.0} MHz", board.boost_mhz, board.sustained_mhz)),
        ("memory".to_owned(), gib(memory.gib)),
        ("memory the driver shows".to_owned(), gib(memory.visible_gib)),
        ("bandwidth".to_owned(), bandwidth(memory.gb_s)),
        ("L2".to_owned(), bytes((memory.l2_mib * 1_048_576.0) as i128)),
    ];
    for (kind, rates) in [("", &device.plain), (" tensor", &device.tensor), (" reached", &reached.products)] {
        for precision in Precision::ALL {
            rows.push((format!("{}{kind}", precision.name()), rate(rates.of(precision), precision)));
        }
    }
    rows.push(("copies reached".to_owned(), reached.copy_gb_s.map_or_else(|| NONE.to_owned(), bandwidth)));
    rows.push(("interconnect".to_owned(), link(&links.interconnect, links.count)));
    let bridge = links.bridge.as_ref().map_or_else(|| NONE.to_owned(), |bridge| link(bridge, links.bridge_count));
    rows.push(("bridge".to_owned(), bridge));
    rows.push(("board power".to_owned(), format!("{:.0} W", board.power_w)));
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

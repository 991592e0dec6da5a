//! A table whose columns are aligned by the width of their text.

use super::text::{COLUMNS, shorten, width};
use super::{Ink, Style};

/// A column.
pub(super) struct Column<'a> {
    pub(super) title: &'a str,
    /// Numbers stand at the right.
    pub(super) right: bool,
    /// Columns that its text may take at most.
    pub(super) most: usize,
}

/// Lines of a table, indented by two. The first column takes what the others leave.
pub(super) fn lines(columns: &[Column<'_>], rows: &[Vec<String>], style: Style) -> String {
    const INDENT: usize = 2;
    const GAP: usize = 2;
    const LEAST: usize = 12;
    let mut widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| width(cell));
            cells.max().unwrap_or(0).min(column.most).max(width(column.title))
        })
        .collect();
    let others: usize = widths.iter().skip(1).map(|width| width + GAP).sum();
    if let Some(first) = widths.first_mut() {
        *first = (*first).min(COLUMNS.saturating_sub(others + INDENT).max(LEAST));
    }
    let titles: Vec<String> = columns.iter().map(|column| column.title.to_owned()).collect();
    let mut text = style.paint(Ink::Faint, &line(columns, &widths, &titles, style));
    text.push('\n');
    for row in rows {
        text.push_str(&line(columns, &widths, row, style));
        text.push('\n');
    }
    text
}

fn line(columns: &[Column<'_>], widths: &[usize], cells: &[String], style: Style) -> String {
    let mut text = String::from("  ");
    for (index, ((column, &wide), cell)) in columns.iter().zip(widths).zip(cells).enumerate() {
        if index > 0 {
            text.push_str("  ");
        }
        let cell = shorten(cell, wide, style);
        let padding = " ".repeat(wide.saturating_sub(width(&cell)));
        if column.right {
            text.push_str(&padding);
            text.push_str(&cell);
        } else {
            text.push_str(&cell);
            text.push_str(&padding);
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_and_long_names_keep_the_columns() {
        let columns =
            [Column { title: "layer", right: false, most: usize::MAX }, Column { title: "MACs", right: true, most: 9 }];
        let rows = [["層層/conv", "1 K"], ["a", "12.3 M"]].map(|row| row.map(str::to_owned).to_vec());
        let text = lines(&columns, &rows, Style::PLAIN);
        assert_eq!(text, "  layer        MACs\n  層層/conv     1 K\n  a          12.3 M\n");
        let rows = [vec!["x".repeat(300), "1".to_owned()]];
        assert!(lines(&columns, &rows, Style::PLAIN).lines().all(|line| width(line) <= COLUMNS));
    }
}

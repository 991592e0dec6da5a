//! Text in columns, for stages that are lists of figures.

/// Rows under their titles, columns two spaces apart: those of `right` end at one place, the others start at one.
pub(super) fn columns(titles: &[&str], right: &[bool], rows: &[Vec<String>]) -> String {
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let width = |text: &str| text.chars().count();
    let mut widths = vec![0_usize; titles.len()];
    for row in std::iter::once(&titles).chain(rows) {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(width(cell));
        }
    }
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(rows) {
        let mut line = String::new();
        for ((cell, &wide), &right) in row.iter().zip(&widths).zip(right) {
            let padding = " ".repeat(wide.saturating_sub(width(cell)));
            let (before, after) = if right { (padding.as_str(), "") } else { ("", padding.as_str()) };
            line.push_str(before);
            line.push_str(cell);
            line.push_str(after);
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A key as one word of a line: in quotes where it holds spaces, and without signs that steer a terminal.
pub(super) fn word(key: &str) -> String {
    let plain = !key.is_empty() && !key.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"');
    if plain { key.to_owned() } else { format!("{key:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_their_titles() {
        let rows = vec![vec!["a".to_owned(), "10".to_owned()], vec!["long".to_owned(), "5".to_owned()]];
        assert_eq!(columns(&["key", "n"], &[false, true], &rows), "key    n\na     10\nlong   5\n");
        assert_eq!(word("a b"), "\"a b\"");
        assert_eq!(word("/enc/Conv"), "/enc/Conv");
        assert_eq!(word(""), "\"\"");
        assert_eq!(word("a\u{1b}[2J"), "\"a\\u{1b}[2J\"");
    }
}

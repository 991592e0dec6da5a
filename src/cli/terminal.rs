//! What the output can show: colour only where it is welcome, signs beyond ASCII where the locale has them.

use std::env;
use std::io::IsTerminal;

use crate::options::ColorChoice;
use crate::render::Style;

/// The style of standard output.
pub(super) fn of_stdout(color: ColorChoice) -> Style {
    style(color, std::io::stdout().is_terminal())
}

/// The style of standard error.
pub(super) fn of_stderr(color: ColorChoice) -> Style {
    style(color, std::io::stderr().is_terminal())
}

/// The style of a file: whole signs, as no locale is known to whoever reads it.
pub(super) fn of_file(color: ColorChoice) -> Style {
    Style { color: color == ColorChoice::Always, unicode: true }
}

fn style(color: ColorChoice, terminal: bool) -> Style {
    let color = match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => terminal && welcome(text("NO_COLOR").as_deref(), text("TERM").as_deref()),
    };
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].map(text);
    Style { color, unicode: has_signs(locale) }
}

/// A variable; an empty one counts as unset.
fn text(name: &str) -> Option<String> {
    env::var_os(name).map(|value| value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}

fn welcome(no_color: Option<&str>, term: Option<&str>) -> bool {
    no_color.is_none() && term != Some("dumb")
}

/// Whether the first variable that is set, as in any C library, names UTF-8.
fn has_signs(locale: [Option<String>; 3]) -> bool {
    let locale = locale.into_iter().flatten().next().unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_welcome_unless_something_speaks_against_it() {
        assert!(welcome(None, Some("xterm")));
        assert!(welcome(None, None));
        assert!(!welcome(Some("1"), Some("xterm")));
        assert!(!welcome(None, Some("dumb")));
    }

    #[test]
    fn the_first_set_variable_tells_the_locale() {
        let locale = |values: [Option<&str>; 3]| has_signs(values.map(|value| value.map(str::to_owned)));
        assert!(locale([None, None, Some("de_DE.UTF-8")]));
        assert!(locale([None, Some("C.utf8"), Some("C")]));
        assert!(!locale([Some("C"), None, Some("de_DE.UTF-8")]));
        assert!(!locale([None, None, None]));
    }
}

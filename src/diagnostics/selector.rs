//! Selectors: what `--allow`, `--warn`, `--deny` and `[levels]` name. A selector is a code (`DL0302`), a name
//! (`declared-shape-wrong`), a group (`DL03xx`) or `warnings`, which means every diagnostic that is a warning by itself.

use super::{Code, Level};
use crate::engine::LevelRule;

/// The selector of every diagnostic that is a warning where nothing is configured.
pub const WARNINGS: &str = "warnings";

/// A selector in its one spelling: the number of a code, a group in the form `DL03xx`, or `warnings`.
///
/// # Errors
/// Nothing of this name exists; the error says so and names what comes nearest.
pub fn canonical(text: &str) -> Result<String, String> {
    if text.eq_ignore_ascii_case(WARNINGS) {
        return Ok(WARNINGS.to_owned());
    }
    if let Some(code) = Code::find(text) {
        return Ok(code.number().to_owned());
    }
    if let Some(group) = group(text) {
        return Ok(group);
    }
    Err(unknown(text))
}

/// Whether a canonical selector names a diagnostic of this code and own level.
#[must_use]
pub fn names(selector: &str, code: Code, own: Level) -> bool {
    if selector == WARNINGS {
        return own == Level::Warning;
    }
    match selector.strip_suffix("xx") {
        Some(prefix) => code.number().starts_with(prefix),
        None => selector == code.number() || selector == code.name(),
    }
}

/// The level of a diagnostic after all rules, of which the last that names it wins; `None` when it is allowed. `own`
/// is the level that it has without rules.
#[must_use]
pub fn level(rules: &[LevelRule], code: Code, own: Level) -> Option<Level> {
    rules.iter().rev().find(|rule| names(&rule.selector, code, own)).map_or(Some(own), |rule| rule.level)
}

/// How narrow a canonical selector is: rules of a table are unordered, so the narrower one wins there.
#[must_use]
pub fn narrowness(selector: &str) -> u8 {
    match selector {
        WARNINGS => 0,
        group if group.ends_with("xx") => 1,
        _ => 2,
    }
}

/// `DL03xx` of `dl03xx` or `DL03`, when a code starts so.
fn group(text: &str) -> Option<String> {
    let upper = text.to_ascii_uppercase();
    let prefix = upper.strip_suffix("XX").unwrap_or(&upper);
    let exists = prefix.len() == 4 && Code::ALL.iter().any(|code| code.number().starts_with(prefix));
    exists.then(|| format!("{prefix}xx"))
}

fn unknown(text: &str) -> String {
    let candidates = Code::ALL.iter().flat_map(|code| [code.number(), code.name()]).chain([WARNINGS]);
    let nearest = nearest(text, candidates);
    if nearest.is_empty() {
        format!(
            "no diagnostic is called '{text}'; give a code (DL0302), a name (shape-mismatch), a group (DL03xx) or 'warnings'"
        )
    } else {
        format!("no diagnostic is called '{text}'; nearest: {}", nearest.join(", "))
    }
}

/// The candidates that come nearest to a text, best first, at most three; none when all are far.
#[must_use]
pub fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = text.to_lowercase();
    let mut scored: Vec<(f64, &str)> = candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(score, _)| *score > 0.8)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_have_one_spelling() {
        assert_eq!(canonical("dl0301").as_deref(), Ok("DL0301"));
        assert_eq!(canonical("shape-mismatch").as_deref(), Ok("DL0301"));
        assert_eq!(canonical("DL03").as_deref(), Ok("DL03xx"));
        assert_eq!(canonical("dl03XX").as_deref(), Ok("DL03xx"));
        assert_eq!(canonical("warnings").as_deref(), Ok("warnings"));
        assert!(canonical("DL99xx").is_err());
        assert!(canonical("").is_err());
        assert!(canonical("größe").is_err());
    }

    #[test]
    fn an_unknown_selector_names_the_nearest() {
        let message = canonical("shape-missmatch").unwrap_err();
        assert!(message.contains("nearest: shape-mismatch"), "{message}");
    }

    #[test]
    fn the_last_rule_wins() {
        let rule = |selector: &str, level| LevelRule { selector: selector.to_owned(), level };
        let rules = [rule("warnings", Some(Level::Error)), rule("DL03xx", None), rule("DL0302", Some(Level::Note))];
        assert_eq!(level(&rules, Code::NotCounted, Level::Warning), Some(Level::Error));
        assert_eq!(level(&rules, Code::UnboundDim, Level::Warning), None);
        assert_eq!(level(&rules, Code::DeclaredShapeWrong, Level::Warning), Some(Level::Note));
        assert_eq!(level(&[], Code::ShapeMismatch, Level::Error), Some(Level::Error));
    }

    #[test]
    fn denying_warnings_leaves_notes_alone() {
        let rules = [LevelRule { selector: WARNINGS.to_owned(), level: Some(Level::Error) }];
        assert_eq!(level(&rules, Code::ZeroDim, Level::Note), Some(Level::Note));
    }
}

//! "Did you mean": the nearest of the names that exist.

/// A help text with the nearest candidate, if one is near enough to be a slip.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, candidates).map(|candidate| format!("did you mean {candidate:?}?"))
}

/// The nearest candidate within a third of the name's length (at least one, at most four edits; none for a single letter). Capitals count only
/// between candidates that are equally near.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 200;
    if name.len() > LONGEST {
        return None;
    }
    let length = name.chars().count();
    // One edit makes any letter of any other.
    let allowed = if length < 2 { 0 } else { (length / 3).clamp(1, 4) };
    let lower = name.to_lowercase();
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST && candidate.chars().count().abs_diff(length) <= allowed)
        .map(|candidate| (strsim::osa_distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|&(distance, _)| distance <= allowed)
        .min_by_key(|&(distance, candidate)| (distance, strsim::osa_distance(name, candidate)))
        .map(|(_, candidate)| candidate)
}

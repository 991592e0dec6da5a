//! What `trtexec --exportProfile` writes: a list of `{"count": N}` and a `{"name", "timeMs", "averageMs", "medianMs",
//! "percentage"}` for each layer of the engine.

use super::{Broken, Clock, Lines, Profile, Recorder, checked, for_each};

pub(super) fn read(bytes: &[u8]) -> Result<Profile, Broken> {
    let mut lines = Lines::default();
    let mut runs = None;
    for_each(bytes, &mut |entry| {
        let Some(name) = entry.name else {
            runs = runs.or(entry.count);
            return Ok(());
        };
        let average = entry.average_ms.or_else(|| Some(entry.time_ms? / runs.filter(|runs| *runs > 0.0)?));
        let ms = average.ok_or_else(|| format!("{name:?} has no averageMs, nor timeMs with a count"))?;
        let ms = checked(ms, &name)?;
        let index = lines.line(&name, None)?;
        lines.add(index, ms);
        Ok(())
    })?;
    Ok(Profile {
        recorder: Recorder::TensorRt,
        runs: runs.map_or(1, |runs| runs as u64),
        clock: Clock::Device,
        lines: lines.lines,
        end_to_end_ms: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_of_layers_are_read_and_equal_names_add_up() {
        let text = br#"[{"count": 4},
            {"name": "a + b", "timeMs": 8, "averageMs": 2.0, "medianMs": 1.9, "percentage": 80},
            {"name": "c", "timeMs": 2},
            {"name": "c", "timeMs": 2, "averageMs": 0.5}]"#;
        let profile = read(text).unwrap();
        assert_eq!((profile.runs, profile.end_to_end_ms), (4, None));
        let lines: Vec<_> = profile.lines.iter().map(|line| (line.name.as_str(), line.ms)).collect();
        assert_eq!(lines, [("a + b", 2.0), ("c", 1.0)]);
        assert!(read(br#"[{"name": "a", "timeMs": 8}]"#).unwrap_err().message.contains("count"));
    }
}

//! What a session of ONNX Runtime with `enable_profiling` writes: events of a trace. `Node` events are what the host spent
//! on a node, `Kernel` events, where the build has them, the kernels that the node before them launched on the device;
//! `model_run` is a run from end to end.

use super::{Broken, Clock, Entry, Lines, Profile, Recorder, checked, for_each};

const US_PER_MS: f64 = 1e3;

/// Events around a node in which it does nothing.
const FENCES: [&str; 2] = ["_fence_before", "_fence_after"];

pub(super) fn read(bytes: &[u8]) -> Result<Profile, Broken> {
    let runs = Runs::of(bytes)?;
    let (mut host, mut device) = (Lines::default(), Lines::default());
    // The line of the node that kernels behind it belong to, unless it is of a run that does not count.
    let mut launching = None;
    let (mut kernels, mut gpu) = (false, false);
    let mut events: Vec<u64> = Vec::new();
    for_each(bytes, &mut |entry| {
        match entry.cat.as_deref() {
            Some("Node") => {
                launching = None;
                let name = entry.name.as_deref().unwrap_or_default();
                if FENCES.iter().any(|fence| name.ends_with(fence)) || !runs.counts(&entry) {
                    return Ok(());
                }
                let name = name.strip_suffix("_kernel_time").unwrap_or(name);
                let us = checked(entry.dur.ok_or_else(|| format!("{name:?} has no dur"))?, name)?;
                let args = entry.args.unwrap_or_default();
                gpu |= args.provider.is_some_and(|provider| !provider.starts_with("CPU"));
                let line = host.line(name, args.op_name.as_deref())?;
                host.add(line, us / US_PER_MS);
                launching = Some(device.line(name, args.op_name.as_deref())?);
                events.resize(host.lines.len(), 0);
                if let Some(number) = events.get_mut(line) {
                    *number += 1;
                }
            }
            Some("Kernel") => {
                kernels = true;
                if let (Some(line), Some(us)) = (launching, entry.dur) {
                    device.add(line, checked(us, entry.name.as_deref().unwrap_or_default())? / US_PER_MS);
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    // Without events of whole runs, the node with the fewest events ran once in each.
    let number = runs.number.unwrap_or_else(|| events.iter().copied().min().unwrap_or(1)).max(1);
    let mut lines = if kernels { device.lines } else { host.lines };
    for line in &mut lines {
        line.ms /= number as f64;
    }
    // The host is the device where nothing runs on a GPU.
    let clock = if kernels || !gpu { Clock::Device } else { Clock::Host };
    Ok(Profile { recorder: Recorder::OnnxRuntime, runs: number, clock, lines, end_to_end_ms: runs.average_ms })
}

/// The runs that count: all but the first, which warms up, where there are more.
#[derive(Default)]
struct Runs {
    /// `None` where the profile has no events of whole runs.
    number: Option<u64>,
    average_ms: Option<f64>,
    /// Events before this time belong to the first run.
    from_us: Option<f64>,
}

impl Runs {
    fn of(bytes: &[u8]) -> Result<Self, Broken> {
        let mut number = 0_u64;
        let mut sum = 0.0;
        // Start and length.
        let mut first: Option<(f64, f64)> = None;
        for_each(bytes, &mut |entry| {
            if entry.cat.as_deref() == Some("Session") && entry.name.as_deref() == Some("model_run") {
                let us = checked(entry.dur.ok_or("\"model_run\" has no dur")?, "model_run")?;
                let start = entry.ts.unwrap_or_default();
                number += 1;
                sum += us;
                if first.is_none_or(|(earliest, _)| start < earliest) {
                    first = Some((start, us));
                }
            }
            Ok(())
        })?;
        Ok(match (number, first) {
            (0, _) | (_, None) => Self::default(),
            (1, _) => Self { number: Some(1), average_ms: Some(sum / US_PER_MS), from_us: None },
            (_, Some((start, length))) => Self {
                number: Some(number - 1),
                average_ms: Some((sum - length) / (number - 1) as f64 / US_PER_MS),
                from_us: Some(start + length),
            },
        })
    }

    fn counts(&self, event: &Entry) -> bool {
        self.from_us.is_none_or(|from| event.ts.is_none_or(|start| start >= from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(cat: &str, name: &str, ts: u32, dur: u32, args: &str) -> String {
        format!(r#"{{"cat":"{cat}","pid":1,"tid":2,"dur":{dur},"ts":{ts},"ph":"X","name":"{name}","args":{{{args}}}}}"#)
    }

    fn lines(profile: &Profile) -> Vec<(&str, f64)> {
        profile.lines.iter().map(|line| (line.name.as_str(), line.ms)).collect()
    }

    #[test]
    fn the_first_of_several_runs_does_not_count() {
        let conv = r#""op_name":"Conv","provider":"CPUExecutionProvider""#;
        let events = [
            event("Session", "model_loading_uri", 0, 90, ""),
            event("Node", "conv_fence_before", 100, 0, conv),
            event("Node", "conv_kernel_time", 100, 5000, conv),
            event("Session", "model_run", 95, 6000, ""),
            event("Node", "conv_kernel_time", 7000, 1000, conv),
            event("Session", "model_run", 6900, 2000, ""),
            event("Node", "conv_kernel_time", 9000, 3000, conv),
            event("Session", "model_run", 8950, 4000, ""),
        ];
        let profile = read(format!("[{}]", events.join(",\n")).as_bytes()).unwrap();
        assert_eq!(lines(&profile), [("conv", 2.0)]);
        assert_eq!((profile.runs, profile.end_to_end_ms, profile.clock), (2, Some(3.0), Clock::Device));
        assert_eq!(profile.lines[0].op.as_deref(), Some("Conv"));
    }

    #[test]
    fn kernels_of_the_device_count_instead_of_the_host_where_they_are_there() {
        let cuda = r#""op_name":"Conv","provider":"CUDAExecutionProvider""#;
        let host = [event("Node", "conv_kernel_time", 0, 20, cuda), event("Node", "relu_kernel_time", 30, 10, cuda)];
        let profile = read(format!("[{}]", host.join(",")).as_bytes()).unwrap();
        assert_eq!((lines(&profile), profile.clock), (vec![("conv", 0.02), ("relu", 0.01)], Clock::Host));
        let [conv, relu] = host;
        let kernels = [event("Kernel", "sm70_gemm", 5, 400, ""), event("Kernel", "splitK", 50, 100, "")];
        let profile = read(format!("[{conv},{},{relu}]", kernels.join(",")).as_bytes()).unwrap();
        assert_eq!((lines(&profile), profile.clock), (vec![("conv", 0.5), ("relu", 0.0)], Clock::Device));
        assert_eq!(profile.end_to_end_ms, None);
    }

    #[test]
    fn without_whole_runs_the_rarest_node_counts_them() {
        let node = |name: &str| event("Node", &format!("{name}_kernel_time"), 0, 1000, "");
        let text = format!("[{},{},{},{}]", node("a"), node("b"), node("a"), node("a"));
        let profile = read(text.as_bytes()).unwrap();
        assert_eq!((profile.runs, lines(&profile)), (1, vec![("a", 3.0), ("b", 1.0)]));
    }
}

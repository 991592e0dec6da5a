//! Progress on standard error: only on a terminal, and only when the work lasts.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that is done before this shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Progress {
    files: usize,
    since: Instant,
    /// Whether somebody would see it.
    wanted: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn new(files: usize, quiet: bool) -> Self {
        let wanted = !quiet && std::io::stderr().is_terminal();
        Self { files, since: Instant::now(), wanted, bar: None }
    }

    /// Shows how many files are done.
    pub(super) fn show(&mut self, done: usize) {
        if !self.wanted || self.since.elapsed() < PATIENCE {
            return;
        }
        let count = |number| u64::try_from(number).unwrap_or(u64::MAX);
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(count(self.files)), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:40} {pos} of {len} files, {elapsed}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_position(count(done));
        bar.tick();
    }

    /// Takes the bar away.
    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

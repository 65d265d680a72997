//! Progress of long work on standard error: a bar on a terminal, a plain line per step elsewhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// Work that may be over in a moment is silent for so long.
const PATIENCE: Duration = Duration::from_secs(1);

/// So many steps of something.
pub struct Progress {
    /// On a terminal.
    bar: Option<ProgressBar>,
    steps: u64,
    begun: u64,
    /// When it begins to be shown.
    silent_until: Option<Instant>,
}

impl Progress {
    /// `steps` things to do, each of `parts` parts.
    pub fn new(steps: usize, parts: usize) -> Progress {
        let (steps, parts) = (steps as u64, parts as u64);
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(steps * parts), ProgressDrawTarget::stderr());
            let template = ProgressStyle::with_template("[{bar:30}] {elapsed} {msg}");
            bar.with_style(template.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "))
        });
        Progress { bar, steps, begun: 0, silent_until: None }
    }
    /// `steps` things that mostly take no time: nothing is shown before some time has passed.
    pub fn patient(steps: usize) -> Progress {
        let mut progress = Progress::new(steps, 1);
        if let Some(bar) = &progress.bar {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        progress.silent_until = Some(Instant::now() + PATIENCE);
        progress
    }
    /// The next step begins.
    pub fn begin(&mut self, what: &str) {
        self.begun += 1;
        if let Some(until) = self.silent_until {
            if Instant::now() < until {
                return;
            }
            self.silent_until = None;
            if let Some(bar) = &self.bar {
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        }
        let text = format!("{what} ({} of {})", self.begun, self.steps);
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None => output::note(&text),
        }
    }
    /// So many parts are done, of all steps.
    pub fn reach(&self, parts: usize) {
        if let Some(bar) = &self.bar {
            bar.set_position(parts as u64);
        }
    }
    /// The step that has begun, of one part, is done.
    pub fn end(&self) {
        self.reach(self.begun as usize);
    }
    /// Says something meanwhile.
    pub fn pause<T>(&self, say: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

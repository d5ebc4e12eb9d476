//! Progress of a declared experiment.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fedbo_console::{self as console, BARS, Mode, SILENCE, TICK, style};
use fedbo_experiments::catalogue::Progress;
use indicatif::ProgressBar;

/// Progress of an experiment.
pub(crate) struct ExperimentDisplay {
    mode: Mode,
    state: Mutex<ExperimentState>,
}

#[derive(Default)]
struct ExperimentState {
    bar: Option<ProgressBar>,
    stage: String,
    n_jobs: usize,
    n_done: usize,
    last_line: Option<(usize, Instant)>,
}

impl ExperimentDisplay {
    pub(crate) fn new() -> Self {
        Self { mode: Mode::choose(), state: Mutex::default() }
    }

    /// Removes the bar from the screen.
    pub(crate) fn finish(&self) {
        if let Some(bar) = self.state().bar.take() {
            bar.finish_and_clear();
            BARS.remove(&bar);
        }
    }

    fn state(&self) -> MutexGuard<'_, ExperimentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for ExperimentDisplay {
    fn stage(&self, name: &str, n_jobs: usize) {
        self.finish();
        let mut state = self.state();
        *state = ExperimentState { stage: name.to_owned(), n_jobs, ..ExperimentState::default() };
        match self.mode {
            Mode::Nothing => {}
            Mode::Lines => console::note(&format!("{name}: {n_jobs} sessions")),
            Mode::Bars => {
                let bar = BARS.add(ProgressBar::new(n_jobs as u64));
                bar.set_style(style(
                    "{prefix} {bar:24} {pos}/{len} sessions  {elapsed}  eta {eta}  {wide_msg}",
                ));
                bar.set_prefix(name.to_owned());
                bar.enable_steady_tick(TICK);
                state.bar = Some(bar);
            }
        }
    }

    fn job_ended(&self, note: &str) {
        let mut state = self.state();
        state.n_done += 1;
        if let Some(bar) = &state.bar {
            bar.inc(1);
            bar.set_message(note.to_owned());
            return;
        }
        let share = state.n_done * 10 / state.n_jobs.max(1);
        let due =
            state.last_line.is_none_or(|(last, when)| share > last || when.elapsed() > SILENCE);
        if self.mode == Mode::Lines && due {
            state.last_line = Some((share, Instant::now()));
            console::note(&format!(
                "{}: {} of {} sessions",
                state.stage, state.n_done, state.n_jobs
            ));
        }
    }
}

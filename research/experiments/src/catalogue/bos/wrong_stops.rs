//! Counts of wrong stops, where a rule stops a trial that would have become the incumbent, and of
//! epochs saved.

use super::super::markdown::MarkdownTable;
use super::training_run::TrialTrace;

/// Counts of a rule's stops among a set of trials.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StopCount {
    /// Number of trials that could be stopped.
    pub(super) n_trials: usize,
    pub(super) n_stopped: usize,
    /// Number of stopped trials that would have become the incumbent.
    pub(super) n_wrong: usize,
    /// Number of epochs if all training runs were complete, and number of epochs actually trained.
    pub(super) n_epochs_whole: usize,
    pub(super) n_epochs_trained: usize,
}

impl StopCount {
    pub(super) fn add(&mut self, trial: &TrialTrace) {
        if trial.is_initial {
            return;
        }
        self.n_trials += 1;
        self.n_stopped += usize::from(trial.is_stopped);
        self.n_wrong += usize::from(trial.is_wrong_stop());
        self.n_epochs_whole += trial.values.len();
        self.n_epochs_trained += trial.n_trained;
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.n_trials += other.n_trials;
        self.n_stopped += other.n_stopped;
        self.n_wrong += other.n_wrong;
        self.n_epochs_whole += other.n_epochs_whole;
        self.n_epochs_trained += other.n_epochs_trained;
    }

    /// Returns the share of epochs that was saved compared with complete trials.
    pub(super) fn saved(self) -> f64 {
        1.0 - share(self.n_epochs_trained, self.n_epochs_whole).unwrap_or(1.0)
    }

    /// Returns, for example, `12 of 340: 3.5 % [2.0, 6.1]`: the share of wrong stops among all
    /// stops, with its 95 % interval.
    pub(super) fn wrong_share(self) -> String {
        let Some(wrong) = share(self.n_wrong, self.n_stopped) else {
            return "none stopped".to_owned();
        };
        let (low, high) = wilson(self.n_wrong, self.n_stopped);
        format!(
            "{} of {}: {:.1} % [{:.1}, {:.1}]",
            self.n_wrong,
            self.n_stopped,
            100.0 * wrong,
            100.0 * low,
            100.0 * high
        )
    }
}

/// Returns a table with one row per rule.
pub(super) fn table(title: &str, rows: &[(String, StopCount)]) -> String {
    let heads =
        ["trials", "epochs saved", "stopped that would have become the incumbent, 95 % interval"];
    let mut table = MarkdownTable::new(title, "rule", heads);
    for (name, count) in rows {
        let saved = format!("{:.0} %", 100.0 * count.saved());
        table.row(name, [count.n_trials.to_string(), saved, count.wrong_share()]);
    }
    table.into_text()
}

#[expect(clippy::cast_precision_loss, reason = "numbers of trials and epochs are far below 2^53")]
fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Returns the 95 % interval of a share by Wilson's score (Wilson 1927).
#[expect(clippy::cast_precision_loss, reason = "numbers of trials are far below 2^53")]
fn wilson(part: usize, whole: usize) -> (f64, f64) {
    const Z: f64 = 1.959_963_984_540_054;
    let n = whole as f64;
    let p = part as f64 / n;
    let centre = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(values: &[f64], n_trained: usize, incumbent: f64) -> TrialTrace {
        TrialTrace {
            number: 9,
            unit: vec![0.5],
            values: values.to_vec(),
            n_trained,
            is_initial: false,
            is_stopped: n_trained < values.len(),
            incumbent: Some(incumbent),
        }
    }

    #[test]
    fn wrong_stops_are_those_that_would_have_been_best() {
        let mut count = StopCount::default();
        count.add(&trial(&[0.1, 0.2, 0.9], 1, 0.5));
        count.add(&trial(&[0.1, 0.2, 0.3], 2, 0.5));
        count.add(&trial(&[0.1, 0.2, 0.9], 3, 0.5));
        let mut initial = trial(&[0.1, 0.2, 0.9], 3, 0.5);
        initial.is_initial = true;
        count.add(&initial);
        assert_eq!((count.n_trials, count.n_stopped, count.n_wrong), (3, 2, 1));
        assert!((count.saved() - 1.0 / 3.0).abs() < 1e-12);
        assert!(count.wrong_share().starts_with("1 of 2: 50.0 % ["));
    }

    /// Newcombe (1998), table I: 0.2553 to 0.3662 for 81 of 263, and 0 to 0.1611 for 0 of 20.
    #[test]
    fn intervals_are_wilsons() {
        let (low, high) = wilson(81, 263);
        assert!((low - 0.2553).abs() < 5e-5 && (high - 0.3662).abs() < 5e-5);
        let (low, high) = wilson(0, 20);
        assert!(low.abs() < 1e-12 && (high - 0.1611).abs() < 5e-5);
    }
}

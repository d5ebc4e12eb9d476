//! Warnings about trials with useless reports, each given once per run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use fedbo_space::Direction;
use fedbo_storage::{Report, Trial};
use fedbo_strategies::early_stopping::short;

use super::EarlyStoppingSpec;
use super::bo_bos::reports_first_epochs;
use crate::{Definition, Observer, Study, StudyError};

/// Example of a report, for messages.
const EXAMPLE: &str = "a report is a line {\"epoch\": 1, \"value\": 0.5} on standard output, printed at once after an epoch";

/// Number of trials after which values are no longer checked. Any penalties would have appeared by
/// then.
const N_LOOKED_AT: usize = 1000;

/// The warnings that a run has given so far.
#[derive(Default)]
pub(crate) struct RunWarnings {
    of_epochs: AtomicBool,
    of_order: AtomicBool,
    of_stop_by: AtomicBool,
    warn_no_report: AtomicBool,
    of_bounds: AtomicBool,
    of_gaps: AtomicBool,
    /// The objectives of the study's trials, each to be maximized, in completion order. Read when
    /// the first trial finishes.
    values: Mutex<Option<Vec<Vec<f64>>>>,
    of_penalties: AtomicBool,
}

/// Sets a flag. Returns true if it was not set before.
fn is_first(flag: &AtomicBool) -> bool {
    !flag.swap(true, Ordering::Relaxed)
}

impl RunWarnings {
    /// Warns if an objective of the newly finished trial, or of an earlier one, looks like a
    /// penalty for a crash.
    pub(crate) fn warn_penalties(
        &self,
        observer: &dyn Observer,
        study: &Study,
        trial: &Trial,
    ) -> Result<(), StudyError> {
        let objectives = study.definition().objectives_of(trial);
        if objectives.is_empty() || self.of_penalties.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        match values.as_mut() {
            Some(values) => values.push(objectives),
            None => {
                let trials = study.trials()?.into_iter();
                let told = trials.map(|trial| study.definition().objectives_of(&trial));
                *values = Some(told.filter(|objectives| !objectives.is_empty()).collect());
            }
        }
        let values = values.as_deref().unwrap_or_default();
        if values.len() > N_LOOKED_AT {
            return Ok(());
        }
        for (place, direction) in study.definition().directions().into_iter().enumerate() {
            let column = values.iter().filter_map(|each| each.get(place).copied());
            let column: Vec<f64> = column.filter(|value| !value.is_nan()).collect();
            let Some(penalty) = penalty_among(&column) else {
                continue;
            };
            if is_first(&self.of_penalties) {
                observer.warning(&format!(
                    "the value {} is so much worse than the others that it looks like a penalty for a crash: let such a trial fail instead \
                     (raise an exception, exit with an error or return NaN), and the study learns where trials fail without being misled \
                     (reported once per run)",
                    short(direction.to_maximize(penalty))
                ));
            }
        }
        Ok(())
    }

    /// Warns about a report with an invalid epoch.
    pub(super) fn of_epoch(&self, observer: &dyn Observer, why: &str) {
        left_out(&self.of_epochs, observer, why);
    }

    /// Warns about a report that follows the report of a later epoch.
    pub(super) fn of_order(&self, observer: &dyn Observer, why: &str) {
        left_out(&self.of_order, observer, why);
    }

    /// Warns about an unusable stop signal.
    pub(super) fn of_stop_by(&self, observer: &dyn Observer, why: &str) {
        if is_first(&self.of_stop_by) {
            observer.warning(&format!(
                "{why}; it is stopped by the line `stop` on its standard input instead (reported once per run)"
            ));
        }
    }

    /// Warns about a trial that ended without a stop and without a valid report. `resembling`
    /// describes the output that looks like a report.
    pub(super) fn warn_no_report(
        &self,
        observer: &dyn Observer,
        number: u64,
        spec: &EarlyStoppingSpec,
        resembling: Option<&str>,
    ) {
        if !is_first(&self.warn_no_report) {
            return;
        }
        let rule = spec.rule.name();
        let seen = resembling.map_or_else(String::new, |what| format!("; {what}"));
        observer.warning(&format!(
            "trial {number} has ended without a report, so rule {rule:?} could not stop it{seen}; {EXAMPLE} (reported once per run)"
        ));
    }

    /// Warns if the newest value of a trial in its first epochs is beyond the better bound of
    /// BO-BOS.
    pub(super) fn warn_value_beyond_bounds(
        &self,
        observer: &dyn Observer,
        number: u64,
        definition: &Definition,
        newest: Report,
    ) {
        let Some((bounds, first_epochs)) = bounds(definition) else {
            return;
        };
        let best = match definition.direction {
            Direction::Maximize => bounds[1],
            Direction::Minimize => bounds[0],
        };
        let is_better = definition.direction.is_better(newest.value, best);
        if newest.epoch <= first_epochs && is_better && is_first(&self.of_bounds) {
            observer.warning(&format!(
                "trial {number} has reported {} at epoch {}, better than bounds = {} allow: rule \"bo-bos\" never stops such a trial; \
                 give bounds in the unit of the values (reported once per run)",
                short(newest.value),
                newest.epoch,
                in_words(bounds)
            ));
        }
    }

    /// Warns if all reports of an ended trial are outside the bounds of BO-BOS.
    pub(super) fn warn_all_outside_bounds(
        &self,
        observer: &dyn Observer,
        number: u64,
        definition: &Definition,
        reports: &[Report],
    ) {
        let (Some((bounds, _)), Some(first)) = (bounds(definition), reports.first()) else {
            return;
        };
        let is_outside = |report: &Report| !(bounds[0]..=bounds[1]).contains(&report.value);
        if reports.iter().all(is_outside) && is_first(&self.of_bounds) {
            observer.warning(&format!(
                "all values of trial {number} are outside of bounds = {}, for instance {} at epoch {}: rule \"bo-bos\" cannot tell \
                 such values apart; give bounds in the unit of the values (reported once per run)",
                in_words(bounds),
                short(first.value),
                first.epoch
            ));
        }
    }

    /// Warns if BO-BOS can never stop a trial with this trial's reports up to the newest epoch.
    pub(super) fn of_gaps(
        &self,
        observer: &dyn Observer,
        number: u64,
        spec: Option<&EarlyStoppingSpec>,
        reports: &[Report],
    ) {
        let Some(settings) = spec.and_then(EarlyStoppingSpec::solved) else {
            return;
        };
        let first_epochs = settings.first_epochs();
        let last = reports.last().map_or(0, |last| last.epoch as usize);
        if last < first_epochs
            || reports_first_epochs(reports, first_epochs)
            || !is_first(&self.of_gaps)
        {
            return;
        }
        let within = |report: &&Report| report.epoch as usize <= first_epochs;
        let n_within = reports.iter().filter(within).count();
        observer.warning(&format!(
            "trial {number} has reported {n_within} of its first {first_epochs} epochs; rule \"bo-bos\" does not stop a trial that omits \
             one of them: report each epoch, count reports as epochs, or choose another rule"
        ));
    }
}

/// Returns the worst of the values, to be maximized, if it looks like a penalty for a crash.
///
/// The criterion is a jump in the sorted distances from the best value: one distance is more than
/// thirty times the previous one, and more than a hundred times the median distance of the first
/// ten values. The first ten values are spread over the space. Later values approach the best one,
/// so any other value would look far away in comparison.
fn penalty_among(values: &[f64]) -> Option<f64> {
    const N_SCATTERED: usize = 10;
    const JUMP: f64 = 30.0;
    const FAR: f64 = 100.0;
    let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let distances = |values: &[f64]| {
        let mut distances: Vec<f64> = values.iter().map(|value| 0.5 * best - 0.5 * value).collect();
        distances.sort_unstable_by(f64::total_cmp);
        distances
    };
    let scattered = distances(&values[..values.len().min(N_SCATTERED)]);
    let typical = *scattered.get(scattered.len().saturating_sub(1) / 2)?;
    let all = distances(values);
    let jumps = |pair: &[f64]| pair[1] > JUMP * pair[0] && pair[1] > FAR * typical;
    let is_one = typical > 0.0 && values.len() >= 4 && all.windows(2).any(jumps);
    is_one.then(|| values.iter().copied().fold(f64::INFINITY, f64::min))
}

fn left_out(flag: &AtomicBool, observer: &dyn Observer, why: &str) {
    if is_first(flag) {
        observer.warning(&format!(
            "{why}; such reports are ignored (reported once per run; it applies to further trials too)"
        ));
    }
}

/// Returns the bounds given to BO-BOS, low and high, and its number of first epochs.
fn bounds(definition: &Definition) -> Option<([f64; 2], u32)> {
    let options = definition.early_stopping.as_ref()?.solved()?.options;
    Some((options.bounds?.into(), options.first_epochs))
}

fn in_words([low, high]: [f64; 2]) -> String {
    format!("[{}, {}]", short(low), short(high))
}

//! The warnings that a run gives once, about trials that report in ways of no use.

use std::sync::atomic::{AtomicBool, Ordering};

use fedbo_space::Direction;
use fedbo_storage::Report;
use fedbo_strategies::early_stopping::short;

use super::EarlyStoppingSpec;
use super::bo_bos::reports_first_epochs;
use crate::{Definition, Observer};

/// An example of a report, for messages.
const EXAMPLE: &str = "a report is a line {\"epoch\": 1, \"value\": 0.5} on standard output, printed at once after an epoch";

/// The warnings that a run has given already.
#[derive(Default)]
pub(crate) struct RunWarnings {
    of_epochs: AtomicBool,
    of_order: AtomicBool,
    of_stop_by: AtomicBool,
    warn_no_report: AtomicBool,
    of_bounds: AtomicBool,
    of_gaps: AtomicBool,
}

/// Returns true at the first call for this flag, and sets it.
fn is_first(flag: &AtomicBool) -> bool {
    !flag.swap(true, Ordering::Relaxed)
}

impl RunWarnings {
    /// A report of an epoch that is none.
    pub(super) fn of_epoch(&self, observer: &dyn Observer, why: &str) {
        left_out(&self.of_epochs, observer, why);
    }

    /// A report that comes after that of a later epoch.
    pub(super) fn of_order(&self, observer: &dyn Observer, why: &str) {
        left_out(&self.of_order, observer, why);
    }

    /// A signal by which a trial cannot be stopped.
    pub(super) fn of_stop_by(&self, observer: &dyn Observer, why: &str) {
        if is_first(&self.of_stop_by) {
            observer.warning(&format!(
                "{why}; it is stopped by the line `stop` on its standard input instead (this is said once a run)"
            ));
        }
    }

    /// A trial has ended by itself and no report of it counts; `resembling` says what of its output looked like one.
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
            "trial {number} has ended without a report, so rule {rule:?} could not stop it{seen}; {EXAMPLE} (this is said once a run)"
        ));
    }

    /// Says of a trial that has just reported its newest value if it is better than the bounds of BO-BOS in its first epochs.
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
                 give bounds in the unit of the values (this is said once a run)",
                short(newest.value),
                newest.epoch,
                in_words(bounds)
            ));
        }
    }

    /// Says of a trial that has ended if all that it reported lies outside of the bounds of BO-BOS.
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
                 such values apart; give bounds in the unit of the values (this is said once a run)",
                in_words(bounds),
                short(first.value),
                first.epoch
            ));
        }
    }

    /// Says if BO-BOS can stop nobody who reports like this trial, which has just reported its newest epoch.
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
            "trial {number} has reported {n_within} of its first {first_epochs} epochs; rule \"bo-bos\" stops no trial that leaves out one of them: \
             report each, count reports as epochs, or choose another rule"
        ));
    }
}

fn left_out(flag: &AtomicBool, observer: &dyn Observer, why: &str) {
    if is_first(flag) {
        observer.warning(&format!(
            "{why}; such reports are left out (this is said once a run, and holds for further trials likewise)"
        ));
    }
}

/// The bounds that BO-BOS was given, low and high, and its first epochs.
fn bounds(definition: &Definition) -> Option<([f64; 2], u32)> {
    let options = definition.early_stopping.as_ref()?.solved()?.options;
    Some((options.bounds?.into(), options.first_epochs))
}

fn in_words([low, high]: [f64; 2]) -> String {
    format!("[{}, {}]", short(low), short(high))
}

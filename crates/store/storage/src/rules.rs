//! The rules for changing a trial, which all storages share.

use std::ops::ControlFlow;
use std::time::Duration;

use fedbo_space::Value;

use crate::storage::ATTEMPTS_MAX;
use crate::{
    AddOutcome, NewTrial, Report, Stop, StorageError, TellAuthority, Told, Trial, TrialLease,
    TrialState, Worker,
};

/// Returns the reason for refusing a new trial in a study of `n_trials` trials, or `None` if the
/// trial can be added. `twin` finds the first trial with the same encoding.
pub(crate) fn refusal<E: From<StorageError>>(
    new: &NewTrial,
    n_trials: u64,
    twin: impl FnOnce() -> Result<Option<u64>, E>,
) -> Result<Option<AddOutcome>, E> {
    check_finite(new)?;
    if new.number.is_some_and(|expected| expected != n_trials) {
        return Ok(Some(AddOutcome::Overtaken));
    }
    if new.limit.is_some_and(|limit| n_trials >= limit) {
        return Ok(Some(AddOutcome::Full));
    }
    if new.unique {
        return Ok(twin()?.map(|number| AddOutcome::Duplicate { number }));
    }
    Ok(None)
}

fn check_finite(new: &NewTrial) -> Result<(), StorageError> {
    for (name, value) in new.point.iter() {
        if matches!(value, Value::Float(value) if !value.is_finite()) {
            let what = format!("parameter {name:?} of a new trial");
            return Err(StorageError::NotFinite { what });
        }
    }
    Ok(())
}

/// Returns a trial that was completed elsewhere, in the state before its completion.
pub(crate) fn begin_told(
    (new, told): &(NewTrial, Told),
    number: u64,
    now_ms: i64,
) -> Result<Trial, StorageError> {
    check_finite(new)?;
    let trial = begin(new, number, now_ms);
    may_finish(&trial, TellAuthority::Hand, told, now_ms)?;
    Ok(trial)
}

/// Returns the last stop of a study as `Break` if it is later than the stops that a run knew when
/// it started. `last` looks up the stop. It is not called for runs that ignore stops.
pub(crate) fn check_stops<E>(
    known_stops: Option<u64>,
    last: impl FnOnce() -> Result<Option<Stop>, E>,
) -> Result<ControlFlow<Stop>, E> {
    let Some(known) = known_stops else {
        return Ok(ControlFlow::Continue(()));
    };
    Ok(match last()?.filter(|stop| stop.seq > known) {
        Some(stop) => ControlFlow::Break(stop),
        None => ControlFlow::Continue(()),
    })
}

/// Creates the stored form of a new trial. A proposal time that is not finite is stored as 0.
pub(crate) fn begin(new: &NewTrial, number: u64, now_ms: i64) -> Trial {
    let mut trial = Trial {
        number,
        point: new.point.clone(),
        source: new.source.clone(),
        state: TrialState::Waiting,
        attempts: 0,
        asked_at_ms: now_ms,
        started_at_ms: None,
        told_at_ms: None,
        told_seq: None,
        ask_seconds: Some(new.ask_seconds).filter(|seconds| seconds.is_finite()).unwrap_or(0.0),
        reports: Vec::new(),
    };
    if let Some((worker, lease)) = &new.holder {
        take(&mut trial, worker, *lease, now_ms);
    }
    trial
}

/// The decision about claiming a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The trial is held or has ended.
    Leave,
    /// The trial can be claimed.
    Take,
    /// The trial has reached the maximum number of attempts and must be marked as failed.
    GiveUp,
}

pub(crate) fn claim(trial: &Trial, now_ms: i64) -> Claim {
    let free = match &trial.state {
        TrialState::Waiting => true,
        TrialState::Running(holding) => is_free(holding, now_ms),
        TrialState::Told(_) => return Claim::Leave,
    };
    match free {
        false => Claim::Leave,
        true if trial.attempts >= ATTEMPTS_MAX => Claim::GiveUp,
        true => Claim::Take,
    }
}

/// Returns true if a lease has expired or its holder is gone.
fn is_free(holding: &TrialLease, now_ms: i64) -> bool {
    holding.until_ms.is_some_and(|until| until < now_ms) || holding.worker.is_gone()
}

/// Returns the outcome of a trial that has reached the maximum number of attempts.
pub(crate) fn abandoned() -> Told {
    Told::Failed {
        kind: "abandoned".to_owned(),
        message: format!(
            "its evaluation was begun {ATTEMPTS_MAX} times, and each time the process ended before it had a value"
        ),
    }
}

/// Checks that `teller` may end the trial. Returns `Ok(false)` if it has already ended with this
/// outcome.
pub(crate) fn may_finish(
    trial: &Trial,
    teller: TellAuthority<'_>,
    told: &Told,
    now_ms: i64,
) -> Result<bool, StorageError> {
    check_finite_outcome(trial.number, told)?;
    match &trial.state {
        TrialState::Told(before) if before.is_same(told) => return Ok(false),
        _ => may_change(trial, teller, now_ms)?,
    }
    check_stop(trial, told)?;
    Ok(true)
}

/// Replaces the outcome of a finished trial. Returns the outcome before, or `None` if nothing
/// changes.
pub(crate) fn correct(trial: &mut Trial, told: &Told) -> Result<Option<Told>, StorageError> {
    let number = trial.number;
    check_finite_outcome(number, told)?;
    let before = match &trial.state {
        TrialState::Told(before) if before.is_same(told) => return Ok(None),
        TrialState::Told(before) => before.clone(),
        open => return Err(StorageError::NotEnded { number, state: open.word() }),
    };
    check_stop(trial, told)?;
    trial.state = TrialState::Told(told.clone());
    Ok(Some(before))
}

fn check_finite_outcome(number: u64, told: &Told) -> Result<(), StorageError> {
    let numbers = match told {
        Told::Stopped { value, .. } => std::slice::from_ref(value),
        _ => told.numbers(),
    };
    // Of several numbers, some may be missing.
    let may_miss = numbers.len() > 1 && numbers.iter().any(|number| number.is_finite());
    let is_bad = |number: &f64| !(number.is_finite() || may_miss && number.is_nan());
    if let Some(place) = numbers.iter().position(is_bad) {
        let what = match place {
            0 => format!("the value of trial {number}"),
            _ => format!("number {} of trial {number}", place + 1),
        };
        return Err(StorageError::NotFinite { what });
    }
    Ok(())
}

/// Checks that a stop is at the last report.
fn check_stop(trial: &Trial, told: &Told) -> Result<(), StorageError> {
    match told {
        Told::Stopped { epoch, value, .. } if !is_last_report(trial, *epoch, *value) => {
            Err(StorageError::NotReported { number: trial.number, epoch: *epoch })
        }
        _ => Ok(()),
    }
}

fn is_last_report(trial: &Trial, epoch: u32, value: f64) -> bool {
    trial
        .last_report()
        .is_some_and(|last| (last.epoch, last.value.to_bits()) == (epoch, value.to_bits()))
}

/// Checks that `teller` may add a report to the trial. Returns `Ok(false)` if the same report
/// already exists. `trial` need not contain reports before the new report's epoch.
///
/// Only the holder of a trial may report. A person may report only for a trial that was requested
/// manually.
pub(crate) fn may_report(
    trial: &Trial,
    teller: TellAuthority<'_>,
    report: Report,
) -> Result<bool, StorageError> {
    let number = trial.number;
    if !report.value.is_finite() {
        let what = format!("the value of trial {number} at epoch {}", report.epoch);
        return Err(StorageError::NotFinite { what });
    }
    if report.epoch == 0 {
        return Err(StorageError::EpochZero { number });
    }
    let not_held = |holder: String| Err(StorageError::NotHeld { number, holder });
    match (&trial.state, teller) {
        (TrialState::Told(told), _) => {
            let told = told.to_string();
            return Err(StorageError::ToldOtherwise { number, told });
        }
        (TrialState::Waiting, _) => {
            return not_held("nobody: it is waiting to be asked for".to_owned());
        }
        (TrialState::Running(holding), TellAuthority::Worker(id)) if holding.worker.id == id => {}
        (TrialState::Running(holding), TellAuthority::Hand) if holding.worker.process.is_none() => {
        }
        (TrialState::Running(holding), _) => return not_held(in_words(holding)),
    }
    let Some(last) = trial.last_report() else {
        return Ok(true);
    };
    if report.epoch > last.epoch {
        return Ok(true);
    }
    let same_epoch = trial.reports.iter().find(|each| each.epoch == report.epoch);
    match same_epoch {
        Some(before) if before.value.to_bits() == report.value.to_bits() => Ok(false),
        before => Err(StorageError::ReportOrder {
            number,
            report,
            before: before.copied().unwrap_or(last),
        }),
    }
}

/// Describes the holder of a trial for messages.
fn in_words(holding: &TrialLease) -> String {
    match &holding.worker.process {
        Some(process) => format!("process {}, which is evaluating it", process.pid),
        None if holding.until_ms.is_some() => "another worker with a lease".to_owned(),
        None => "a user: it was asked for manually".to_owned(),
    }
}

/// Checks that `teller` may end or release the trial.
///
/// A person may do so if the trial is waiting, its lease has expired, or its holder is gone. A
/// person may also do so for a trial without a lease, unless the holding process is known to be
/// alive. Such trials are held by a person, or by a process whose state is unknown, for example
/// because it is on another machine.
pub(crate) fn may_change(
    trial: &Trial,
    teller: TellAuthority<'_>,
    now_ms: i64,
) -> Result<(), StorageError> {
    let number = trial.number;
    let not_held = |holder: String| Err(StorageError::NotHeld { number, holder });
    match (&trial.state, teller) {
        (TrialState::Told(told), _) => {
            Err(StorageError::ToldOtherwise { number, told: told.to_string() })
        }
        (TrialState::Waiting, TellAuthority::Hand) => Ok(()),
        (TrialState::Waiting, TellAuthority::Worker(_)) => {
            not_held("nobody: it was released".to_owned())
        }
        (TrialState::Running(holding), TellAuthority::Worker(id)) if holding.worker.id == id => {
            Ok(())
        }
        (TrialState::Running(holding), TellAuthority::Hand)
            if is_free(holding, now_ms)
                || (holding.until_ms.is_none() && !holding.worker.is_alive()) =>
        {
            Ok(())
        }
        (TrialState::Running(holding), _) => not_held(in_words(holding)),
    }
}

/// Assigns the trial to `worker` for a new attempt, which has no reports yet.
pub(crate) fn take(trial: &mut Trial, worker: &Worker, lease: Option<Duration>, now_ms: i64) {
    trial.state = TrialState::Running(TrialLease {
        worker: worker.clone(),
        until_ms: lease.map(|lease| lease_end(now_ms, lease)),
    });
    trial.attempts = trial.attempts.saturating_add(1);
    trial.started_at_ms = Some(now_ms);
    trial.reports.clear();
}

/// Marks the trial as finished, at position `seq`.
pub(crate) fn end(trial: &mut Trial, told: Told, seq: u64, now_ms: i64) {
    trial.state = TrialState::Told(told);
    trial.told_at_ms = Some(now_ms);
    trial.told_seq = Some(seq);
}

/// Returns the trial to the waiting state, and discards its last attempt.
pub(crate) fn release(trial: &mut Trial) {
    if let TrialState::Running(_) = trial.state {
        trial.state = TrialState::Waiting;
        trial.attempts = trial.attempts.saturating_sub(1);
        trial.started_at_ms = None;
        trial.reports.clear();
    }
}

/// Extends the lease of a trial that `worker` holds. Returns true if the lease changed. A lease is
/// never shortened.
pub(crate) fn renew(trial: &mut Trial, worker: &str, lease: Duration, now_ms: i64) -> bool {
    let TrialState::Running(holding) = &mut trial.state else {
        return false;
    };
    match &mut holding.until_ms {
        Some(until) if holding.worker.id == worker && *until < lease_end(now_ms, lease) => {
            *until = lease_end(now_ms, lease);
            true
        }
        _ => false,
    }
}

/// Returns the end of a lease that starts now.
fn lease_end(now_ms: i64, lease: Duration) -> i64 {
    now_ms.saturating_add(i64::try_from(lease.as_millis()).unwrap_or(i64::MAX))
}

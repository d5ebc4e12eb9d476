//! Trials in the memory of this process, which are lost when the process ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::rules::{self, Claim};
use crate::trial::reports_from;
use crate::{
    AddOutcome, Correction, LastCorrection, NewTrial, Report, ReportOutcome, Snapshot, Stop,
    Storage, StorageError, StudyKey, StudyRecord, TellAuthority, TellOutcome, Told, Trial, Worker,
};

/// Trials in memory.
#[derive(Default)]
pub struct MemoryStorage {
    studies: Mutex<Vec<Study>>,
}

struct Study {
    record: StudyRecord,
    trials: Vec<Trial>,
    /// Numbers of the waiting and running trials.
    open: BTreeSet<u64>,
    /// Numbers of the finished trials, in the order of telling.
    told: Vec<u64>,
    /// The trials with each encoding, in order.
    encodings: HashMap<Vec<u8>, Vec<u64>>,
    stops: Vec<Stop>,
    corrections: Vec<Correction>,
}

impl fmt::Debug for MemoryStorage {
    /// Prints only the name, to keep observations out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory:")
    }
}

impl MemoryStorage {
    /// Creates an empty storage.
    pub fn new() -> Self {
        Self::default()
    }

    fn studies(&self) -> MutexGuard<'_, Vec<Study>> {
        // A poisoned lock is safe to use, because no change below can panic partway.
        self.studies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(
        &self,
        key: StudyKey,
        act: impl FnOnce(&mut Study) -> Result<R, StorageError>,
    ) -> Result<R, StorageError> {
        let mut studies = self.studies();
        let study = studies
            .iter_mut()
            .find(|study| study.record.key == key)
            .ok_or(StorageError::NoStudy { key })?;
        act(study)
    }
}

impl Study {
    fn trial(&mut self, number: u64) -> Result<&mut Trial, StorageError> {
        let n_trials = self.trials.len() as u64;
        usize::try_from(number)
            .ok()
            .and_then(|index| self.trials.get_mut(index))
            .ok_or(StorageError::NoTrial { number, n_trials })
    }

    /// Copies the trials with these numbers, in this order. For trials in `from_epochs`, copies
    /// only the reports from that epoch on.
    fn copies<'a>(
        &self,
        numbers: impl Iterator<Item = &'a u64>,
        from_epochs: &BTreeMap<u64, u32>,
    ) -> Vec<Trial> {
        let copy = |number: &u64| {
            let trial = self.trials.get(usize::try_from(*number).ok()?)?;
            let from = from_epochs.get(number).copied().unwrap_or(0);
            Some(Trial {
                reports: reports_from(&trial.reports, from).to_vec(),
                point: trial.point.clone(),
                source: trial.source.clone(),
                state: trial.state.clone(),
                ..*trial
            })
        };
        numbers.filter_map(copy).collect()
    }

    /// Returns the first trial with this encoding that is not discarded.
    fn twin(&self, encoding: &[u8]) -> Option<u64> {
        let discarded = |number: u64| {
            let trial = usize::try_from(number).ok().and_then(|index| self.trials.get(index));
            trial.is_some_and(Trial::is_discarded)
        };
        self.encodings.get(encoding)?.iter().copied().find(|number| !discarded(*number))
    }

    fn check_stops(&self, known_stops: Option<u64>) -> Result<ControlFlow<Stop>, StorageError> {
        rules::check_stops(known_stops, || Ok(self.stops.last().cloned()))
    }

    /// Inserts a trial and returns its number.
    fn begin(&mut self, trial: Trial, new: &NewTrial) -> u64 {
        let number = trial.number;
        self.trials.push(trial);
        self.open.insert(number);
        self.encodings.entry(new.encoding.clone()).or_default().push(number);
        number
    }

    fn end(&mut self, number: u64, told: Told, now_ms: i64) -> Result<u64, StorageError> {
        let seq = self.told.len() as u64 + 1;
        rules::end(self.trial(number)?, told, seq, now_ms);
        self.told.push(number);
        self.open.remove(&number);
        Ok(seq)
    }
}

impl Storage for MemoryStorage {
    fn create(&self, name: &str, definition: &str) -> Result<StudyRecord, StorageError> {
        let mut studies = self.studies();
        if let Some(study) = studies.iter().find(|study| study.record.name == name) {
            return Ok(study.record.clone());
        }
        let record = StudyRecord {
            key: StudyKey(i64::try_from(studies.len()).unwrap_or(i64::MAX)),
            name: name.to_owned(),
            definition: definition.to_owned(),
        };
        studies.push(Study {
            record: record.clone(),
            trials: Vec::new(),
            open: BTreeSet::new(),
            told: Vec::new(),
            encodings: HashMap::new(),
            stops: Vec::new(),
            corrections: Vec::new(),
        });
        Ok(record)
    }

    fn studies(&self) -> Result<Vec<StudyRecord>, StorageError> {
        let studies = self.studies();
        Ok(studies.iter().map(|study| study.record.clone()).collect())
    }

    fn trials(&self, study: StudyKey) -> Result<Vec<Trial>, StorageError> {
        self.with(study, |study| Ok(study.trials.clone()))
    }

    fn snapshot_from(
        &self,
        study: StudyKey,
        after: u64,
        from_epochs: &BTreeMap<u64, u32>,
    ) -> Result<Snapshot, StorageError> {
        self.with(study, |study| {
            let after = usize::try_from(after).unwrap_or(usize::MAX);
            Ok(Snapshot {
                told: study.copies(study.told.iter().skip(after), &BTreeMap::new()),
                open: study.copies(study.open.iter(), from_epochs),
                n_trials: study.trials.len() as u64,
                last_correction: study.corrections.last().map(|last| LastCorrection {
                    seq: last.seq,
                    number: last.number,
                    at_ms: last.at_ms,
                }),
            })
        })
    }

    fn add_unless_stopped(
        &self,
        study: StudyKey,
        new: &NewTrial,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, AddOutcome>, StorageError> {
        self.with(study, |study| {
            if let ControlFlow::Break(stop) = study.check_stops(known_stops)? {
                return Ok(ControlFlow::Break(stop));
            }
            let number = study.trials.len() as u64;
            let twin = || Ok::<_, StorageError>(study.twin(&new.encoding));
            if let Some(refusal) = rules::refusal(new, number, twin)? {
                return Ok(ControlFlow::Continue(refusal));
            }
            let trial = rules::begin(new, number, now_ms());
            study.begin(trial.clone(), new);
            Ok(ControlFlow::Continue(AddOutcome::Trial(trial)))
        })
    }

    fn add_told(&self, study: StudyKey, trials: &[(NewTrial, Told)]) -> Result<(), StorageError> {
        self.with(study, |study| {
            let (before, now_ms) = (study.trials.len() as u64, now_ms());
            let begun = (before..).zip(trials);
            let begun = begun.map(|(number, new)| rules::begin_told(new, number, now_ms));
            let begun: Vec<Trial> = begun.collect::<Result<_, _>>()?;
            for (trial, (new, told)) in begun.into_iter().zip(trials) {
                let number = study.begin(trial, new);
                study.end(number, told.clone(), now_ms)?;
            }
            Ok(())
        })
    }

    fn claim_unless_stopped(
        &self,
        study: StudyKey,
        worker: &Worker,
        lease: Option<Duration>,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, Option<Trial>>, StorageError> {
        self.with(study, |study| {
            if let ControlFlow::Break(stop) = study.check_stops(known_stops)? {
                return Ok(ControlFlow::Break(stop));
            }
            let now_ms = now_ms();
            let mut next = 0;
            while let Some(&number) = study.open.range(next..).next() {
                let trial = study.trial(number)?;
                match rules::claim(trial, now_ms) {
                    Claim::Leave => {}
                    Claim::Take => {
                        rules::take(trial, worker, lease, now_ms);
                        return Ok(ControlFlow::Continue(Some(trial.clone())));
                    }
                    Claim::GiveUp => {
                        study.end(number, rules::abandoned(), now_ms)?;
                    }
                }
                next = number + 1;
            }
            Ok(ControlFlow::Continue(None))
        })
    }

    fn renew(&self, study: StudyKey, worker: &str, lease: Duration) -> Result<(), StorageError> {
        self.with(study, |study| {
            let now_ms = now_ms();
            let open: Vec<u64> = study.open.iter().copied().collect();
            for number in open {
                rules::renew(study.trial(number)?, worker, lease, now_ms);
            }
            Ok(())
        })
    }

    fn report(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        report: Report,
    ) -> Result<ReportOutcome, StorageError> {
        self.with(study, |study| {
            let trial = study.trial(number)?;
            if !rules::may_report(trial, teller, report)? {
                return Ok(ReportOutcome::Already);
            }
            trial.reports.push(report);
            Ok(ReportOutcome::New)
        })
    }

    fn finish(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        told: &Told,
    ) -> Result<TellOutcome, StorageError> {
        self.with(study, |study| {
            let now_ms = now_ms();
            if !rules::may_finish(study.trial(number)?, teller, told, now_ms)? {
                return Ok(TellOutcome::Already);
            }
            let seq = study.end(number, told.clone(), now_ms)?;
            Ok(TellOutcome::New { seq })
        })
    }

    fn correct(&self, study: StudyKey, number: u64, told: &Told) -> Result<bool, StorageError> {
        self.with(study, |study| {
            let Some(before) = rules::correct(study.trial(number)?, told)? else {
                return Ok(false);
            };
            let seq = study.corrections.len() as u64 + 1;
            study.corrections.push(Correction { seq, number, at_ms: now_ms(), before });
            Ok(true)
        })
    }

    fn corrections(&self, study: StudyKey) -> Result<Vec<Correction>, StorageError> {
        self.with(study, |study| Ok(study.corrections.clone()))
    }

    fn release_trial(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
    ) -> Result<(), StorageError> {
        self.with(study, |study| {
            let trial = study.trial(number)?;
            rules::may_change(trial, teller, now_ms())?;
            rules::release(trial);
            Ok(())
        })
    }

    fn stop(&self, study: StudyKey, by: &str) -> Result<Stop, StorageError> {
        self.with(study, |study| {
            let seq = study.stops.len() as u64 + 1;
            let stop = Stop { seq, at_ms: now_ms(), by: by.to_owned() };
            study.stops.push(stop.clone());
            Ok(stop)
        })
    }

    fn last_stop(&self, study: StudyKey) -> Result<Option<Stop>, StorageError> {
        self.with(study, |study| Ok(study.stops.last().cloned()))
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

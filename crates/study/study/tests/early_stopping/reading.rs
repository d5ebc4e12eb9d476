//! The reading of reports: each once, whoever stored it, and none of an attempt that is over.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fedbo_objective::Signal;
use fedbo_storage::{
    AddOutcome, MemoryStorage, NewTrial, Report, ReportOutcome, Snapshot, Stop, Storage,
    StorageError, StudyKey, StudyRecord, TellAuthority, TellOutcome, Told, Trial, Worker,
};
use fedbo_strategies::early_stopping::Verdict;
use fedbo_study::{Definition, EarlyStoppingSpec, Study};

use crate::fixtures::definition;

/// Counts the reports of snapshots.
#[derive(Debug, Default)]
struct Counting {
    storage: MemoryStorage,
    n_read: AtomicUsize,
}

impl Storage for Counting {
    fn create(&self, name: &str, definition: &str) -> Result<StudyRecord, StorageError> {
        self.storage.create(name, definition)
    }

    fn studies(&self) -> Result<Vec<StudyRecord>, StorageError> {
        self.storage.studies()
    }

    fn trials(&self, study: StudyKey) -> Result<Vec<Trial>, StorageError> {
        self.storage.trials(study)
    }

    fn snapshot_from(
        &self,
        study: StudyKey,
        after: u64,
        from_epochs: &BTreeMap<u64, u32>,
    ) -> Result<Snapshot, StorageError> {
        let snapshot = self.storage.snapshot_from(study, after, from_epochs)?;
        let trials = snapshot.told.iter().chain(&snapshot.open);
        let n_read = trials.map(|trial| trial.reports.len()).sum();
        self.n_read.fetch_add(n_read, Ordering::Relaxed);
        Ok(snapshot)
    }

    fn add_unless_stopped(
        &self,
        study: StudyKey,
        trial: &NewTrial,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, AddOutcome>, StorageError> {
        self.storage.add_unless_stopped(study, trial, known_stops)
    }

    fn add_told(&self, study: StudyKey, trials: &[(NewTrial, Told)]) -> Result<(), StorageError> {
        self.storage.add_told(study, trials)
    }

    fn claim_unless_stopped(
        &self,
        study: StudyKey,
        worker: &Worker,
        lease: Option<Duration>,
        known_stops: Option<u64>,
    ) -> Result<ControlFlow<Stop, Option<Trial>>, StorageError> {
        self.storage.claim_unless_stopped(study, worker, lease, known_stops)
    }

    fn renew(&self, study: StudyKey, worker: &str, lease: Duration) -> Result<(), StorageError> {
        self.storage.renew(study, worker, lease)
    }

    fn report(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        report: Report,
    ) -> Result<ReportOutcome, StorageError> {
        self.storage.report(study, number, teller, report)
    }

    fn finish(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
        told: &Told,
    ) -> Result<TellOutcome, StorageError> {
        self.storage.finish(study, number, teller, told)
    }

    fn release_trial(
        &self,
        study: StudyKey,
        number: u64,
        teller: TellAuthority<'_>,
    ) -> Result<(), StorageError> {
        self.storage.release_trial(study, number, teller)
    }

    fn stop(&self, study: StudyKey, by: &str) -> Result<Stop, StorageError> {
        self.storage.stop(study, by)
    }

    fn last_stop(&self, study: StudyKey) -> Result<Option<Stop>, StorageError> {
        self.storage.last_stop(study)
    }
}

/// A trial by hand and one that a run trains, of 1,000 reports each: an earlier report is not read for each later one.
#[test]
fn a_report_does_not_read_all_earlier_ones() {
    let n_epochs = 1000;
    let definition =
        Definition { early_stopping: Some(EarlyStoppingSpec::median(n_epochs)), ..definition() };
    for by_hand in [true, false] {
        let storage = Arc::new(Counting::default());
        let study = Study::open(storage.clone(), &definition).unwrap();
        if by_hand {
            let number = study.ask().unwrap().number;
            for epoch in 1..=n_epochs {
                let verdict = study.report(number, epoch, 0.5).unwrap();
                assert_eq!(verdict, Verdict::Continue);
            }
            study.tell(number, 0.5).unwrap();
        } else {
            let train = |trial: &fedbo_study::RunningTrial<'_>| {
                for epoch in 1..=n_epochs {
                    assert_eq!(trial.report(epoch, 0.5), Signal::Continue);
                }
                Ok(0.5)
            };
            study.optimize_training(1, train).unwrap();
        }
        assert_eq!(study.trials().unwrap()[0].reports.len(), 1000);
        let n_read = storage.n_read.load(Ordering::Relaxed);
        // The new one and the last that was seen at each look, not 500,000.
        assert!((1000..=4000).contains(&n_read), "{n_read}");
    }
}

/// Two programs report by turns of one trial; then it is begun again, with other values at the same epochs.
#[test]
fn reports_of_others_count_and_those_of_an_earlier_attempt_do_not() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let [one, two] = [(); 2].map(|()| Study::open(storage.clone(), &definition()).unwrap());
    for _ in 0..3 {
        let number = one.ask().unwrap().number;
        for epoch in 1..=10 {
            one.report(number, epoch, 0.5).unwrap();
        }
        one.tell(number, 0.5).unwrap();
    }
    let number = one.ask().unwrap().number;
    // The best so far, which keeps the trial going, is known to the other program alone when it is stored.
    assert_eq!(one.report(number, 1, 0.1).unwrap(), Verdict::Continue);
    assert_eq!(two.report(number, 2, 0.9).unwrap(), Verdict::Continue);
    assert_eq!(one.report(number, 3, 0.1).unwrap(), Verdict::Continue);
    assert_eq!(two.report(number, 4, 0.1).unwrap(), Verdict::Continue);
    assert_eq!(one.report(number, 5, 0.1).unwrap(), Verdict::Continue);

    // Begun again, also to the same last value at the same epoch: 0.9 is gone.
    for values in [vec![0.1, 0.1], vec![0.2, 0.1, 0.1, 0.1, 0.1]] {
        let other = Study::open(storage.clone(), &definition()).unwrap();
        other.release_trial(number).unwrap();
        std::thread::sleep(Duration::from_millis(3));
        assert_eq!(other.ask().unwrap().number, number);
        let key = storage.studies().unwrap()[0].key;
        for (epoch, &value) in (1..).zip(&values) {
            let report = Report { epoch, value };
            storage.report(key, number, TellAuthority::Hand, report).unwrap();
        }
    }
    let verdict = one.report(number, 6, 0.1).unwrap();
    let Verdict::Stop { because } = verdict else {
        panic!("its best is 0.2, below 0.5");
    };
    assert!(because.starts_with("best value 0.2 worse than 0.5"), "{because}");
    let told = one.trials().unwrap().swap_remove(usize::try_from(number).unwrap());
    assert_eq!(told.reports.len(), 6);
}

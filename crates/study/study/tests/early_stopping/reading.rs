//! Tests that each report is read only once, from any process, and that reports of an earlier
//! attempt are ignored.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fedbo_objective::Signal;
use fedbo_storage::{MemoryStorage, Report, Snapshot, Storage, StorageError, TellAuthority};
use fedbo_strategies::early_stopping::Verdict;
use fedbo_study::{Definition, EarlyStoppingSpec, Study};
use fedbo_testkit::{Forward, Forwarded};

use crate::early_stopping::fixtures::definition;

/// Counts the reports in snapshots.
#[derive(Debug, Default)]
struct Counting {
    storage: Arc<MemoryStorage>,
    n_read: AtomicUsize,
}

impl Forward for Counting {
    fn storage(&self) -> Result<Arc<dyn Storage>, StorageError> {
        Ok(self.storage.clone())
    }

    fn was_read(&self, snapshot: &Snapshot) {
        let trials = snapshot.told.iter().chain(&snapshot.open);
        let n_read = trials.map(|trial| trial.reports.len()).sum();
        self.n_read.fetch_add(n_read, Ordering::Relaxed);
    }
}

/// Covers a manually leased trial and a trial trained by a run, with 1,000 reports each. A new
/// report does not cause all earlier reports to be read.
#[test]
fn a_report_does_not_read_all_earlier_ones() {
    let n_epochs = 1000;
    let definition =
        Definition { early_stopping: Some(EarlyStoppingSpec::median(n_epochs)), ..definition() };
    for by_hand in [true, false] {
        let storage = Arc::new(Forwarded(Counting::default()));
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
        let n_read = storage.0.n_read.load(Ordering::Relaxed);
        // Each update reads the new report and the last report seen before, instead of 500,000
        // reports in total.
        assert!((1000..=4000).contains(&n_read), "{n_read}");
    }
}

/// Two programs take turns to report on one trial. The trial is then restarted, with different
/// values at the same epochs.
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
    // The best value so far keeps the trial running. The other program only sees it once it is
    // stored.
    assert_eq!(one.report(number, 1, 0.1).unwrap(), Verdict::Continue);
    assert_eq!(two.report(number, 2, 0.9).unwrap(), Verdict::Continue);
    assert_eq!(one.report(number, 3, 0.1).unwrap(), Verdict::Continue);
    assert_eq!(two.report(number, 4, 0.1).unwrap(), Verdict::Continue);
    assert_eq!(one.report(number, 5, 0.1).unwrap(), Verdict::Continue);

    // The trial is restarted, once with the same last value at the same epoch: 0.9 no longer
    // counts.
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

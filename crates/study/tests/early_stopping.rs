//! Trials that report as they train: stopped by a rule, gone on with after an interruption, and what of their reports counts.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests: a failure is the test's"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fedbo_algorithms::early_stopping::Verdict;
use fedbo_objective::{Monitor, Objective, Outcome, Signal, Trained, TrialId};
use fedbo_space::{ParameterSpec, Point};
use fedbo_storage::{
    MemoryStorage, Report, Storage, StorageError, Teller, Told, Trial, TrialState, Worker,
};
use fedbo_study::{
    Asked, Definition, EarlyStoppingError, EarlyStoppingSpec, Observer, RunOptions, RunReport,
    Silent, StoppingRuleSpec, StrategySpec, Study, StudyError,
};

const N_EPOCHS: u32 = 10;

fn spec() -> EarlyStoppingSpec {
    let rule = StoppingRuleSpec::Median {
        warmup_epochs: 2,
        trials_min: 3,
    };
    EarlyStoppingSpec::new(rule, N_EPOCHS)
}

fn definition() -> Definition {
    Definition::new("training")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .strategy(StrategySpec::Sobol {})
        .early_stopping(spec())
}

/// The value after an epoch: it rises towards x.
fn curve(x: f64, epoch: u32) -> f64 {
    x * (1.0 - 0.5_f64.powi(i32::try_from(epoch).unwrap()))
}

/// Reports each epoch, with `at` in between, and ends when it is stopped.
struct Network<F>(F);

impl<F: Fn(&Point, TrialId, &dyn Monitor, u32) + Send + Sync> Objective for Network<F> {
    fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
        panic!("a study with a rule trains");
    }

    fn train(&self, point: &Point, trial: TrialId, monitor: &dyn Monitor) -> Trained {
        let x = point.number("x");
        for epoch in 1..=N_EPOCHS {
            (self.0)(point, trial, monitor, epoch);
            if monitor.report(epoch, curve(x, epoch)).stops() {
                return Trained::Stopped;
            }
        }
        Trained::Ended(Outcome::Value(curve(x, N_EPOCHS)))
    }
}

#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl Observer for Warnings {
    fn warning(&self, message: &str) {
        self.0.lock().unwrap().push(message.to_owned());
    }
}

fn run(
    study: &Study,
    objective: &dyn Objective,
    observer: &dyn Observer,
    n_trials: u64,
) -> RunReport {
    let options = RunOptions::sequential(n_trials);
    let stop = AtomicBool::new(false);
    study.run(objective, &options, observer, &stop).unwrap()
}

/// All trials, without what depends on clocks and on how often they were begun.
fn course(study: &Study) -> Vec<Trial> {
    let without = |trial| Trial {
        attempts: 1,
        asked_at_ms: 0,
        started_at_ms: None,
        told_at_ms: None,
        ask_seconds: 0.0,
        ..trial
    };
    study.trials().unwrap().into_iter().map(without).collect()
}

/// The rule of the paper, written down again: at epoch s > 2, if the best so far is below the median of the averages of the
/// complete trials, of which there are three at least.
fn expected_stop(x: f64, complete: &[f64]) -> Option<u32> {
    let average = |x: f64, s: u32| (1..=s).map(|e| curve(x, e)).sum::<f64>() / f64::from(s);
    (3..N_EPOCHS).find(|&epoch| {
        let mut averages: Vec<f64> = complete.iter().map(|x| average(*x, epoch)).collect();
        averages.sort_by(f64::total_cmp);
        let n = averages.len();
        n >= 3 && {
            let median = (averages[(n - 1) / 2] + averages[n / 2]) / 2.0;
            curve(x, epoch) < median
        }
    })
}

#[test]
fn a_closure_is_stopped_where_the_rule_says_and_nowhere_else() {
    for minimizes in [false, true] {
        let sign = if minimizes { -1.0 } else { 1.0 };
        let definition = if minimizes {
            definition().minimize()
        } else {
            definition()
        };
        let study = Study::in_memory(&definition).unwrap();
        let n_after_stop = Mutex::new(0);
        let report = study
            .optimize_training(40, |trial| {
                let x = trial.point().number("x");
                let mut is_stopped = false;
                for epoch in 1..=N_EPOCHS {
                    let signal = trial.report(epoch, sign * curve(x, epoch));
                    if is_stopped {
                        assert!(signal.stops(), "the answer stays the same");
                        *n_after_stop.lock().unwrap() += 1;
                    }
                    is_stopped |= signal.stops();
                }
                Ok(sign * curve(x, N_EPOCHS))
            })
            .unwrap();
        let mut complete = Vec::new();
        let mut n_stopped = 0;
        for trial in study.trials().unwrap() {
            let x = trial.point.number("x");
            let stop = expected_stop(x, &complete);
            let last = stop.unwrap_or(N_EPOCHS);
            assert_eq!(trial.reports.len(), last as usize, "trial {}", trial.number);
            let value = sign * curve(x, last);
            match (stop, trial.told().unwrap()) {
                (
                    Some(stop),
                    Told::Stopped {
                        epoch, value: told, ..
                    },
                ) => {
                    assert_eq!((*epoch, told.to_bits()), (stop, value.to_bits()));
                    assert_eq!(trial.value(), None);
                    n_stopped += 1;
                }
                (None, Told::Value(told)) => {
                    assert_eq!(told.to_bits(), value.to_bits());
                    complete.push(x);
                }
                (expected, told) => panic!("trial {}: {expected:?}, {told}", trial.number),
            }
        }
        assert!(n_stopped > 5 && complete.len() > 5, "{n_stopped}");
        assert_eq!((report.n_told, report.n_stopped), (40, n_stopped));
        assert!(*n_after_stop.lock().unwrap() > 0);
        assert!(study.best().unwrap().unwrap().value().is_some());
    }
}

/// Whatever is told of the best trial, it is none that was stopped, also if its last value is above all others.
#[test]
fn a_stopped_trial_is_never_the_best() {
    let study = Study::in_memory(&definition()).unwrap();
    for values in [[1.0; 10], [1.0; 10], [1.0; 10]] {
        let number = study.ask().unwrap().number;
        for (epoch, value) in (1..).zip(values) {
            assert_eq!(
                study.report(number, epoch, value).unwrap(),
                Verdict::Continue
            );
        }
        study.tell(number, -5.0).unwrap();
    }
    let number = study.ask().unwrap().number;
    for epoch in [1, 2] {
        assert_eq!(study.report(number, epoch, 0.5).unwrap(), Verdict::Continue);
    }
    let Verdict::Stop { because } = study.report(number, 3, 0.5).unwrap() else {
        panic!("its 0.5 is below the others' 1");
    };
    assert!(because.contains("median"), "{because}");
    assert_eq!(study.best().unwrap().unwrap().value(), Some(-5.0));
    // It is told at once, and stays so.
    assert!(study.open_trials().unwrap().is_empty());
    let again = study.report(number, 3, 0.5).unwrap();
    assert_eq!(
        again,
        Verdict::Stop {
            because: because.clone()
        }
    );
    assert_eq!(
        study.report(number, 4, 9.0).unwrap(),
        again,
        "further reports are of no account"
    );
    assert!(matches!(
        study.tell(number, 0.5),
        Err(StudyError::Storage(StorageError::ToldOtherwise { .. }))
    ));
    let trial = study.trials().unwrap().pop().unwrap();
    assert_eq!(trial.reports.len(), 3);
    assert_eq!(
        trial.told(),
        Some(&Told::Stopped {
            epoch: 3,
            value: 0.5,
            because
        })
    );
}

/// After the last epoch there is nothing left to save, however bad the trial.
#[test]
fn a_complete_training_is_not_stopped() {
    let study = Study::in_memory(&definition()).unwrap();
    for _ in 0..3 {
        let number = study.ask().unwrap().number;
        study.report(number, N_EPOCHS, 1.0).unwrap();
        study.tell(number, 1.0).unwrap();
    }
    let number = study.ask().unwrap().number;
    assert_eq!(
        study.report(number, N_EPOCHS, 0.0).unwrap(),
        Verdict::Continue
    );
    study.tell(number, 0.0).unwrap();
}

/// Rungs between two reports are looked at too: a trial that reports every fourth epoch does not slip by.
#[test]
fn a_rule_is_asked_at_every_epoch_also_without_a_report() {
    let rule = StoppingRuleSpec::Asha {
        reduction: 2,
        first_rung: 3,
    };
    let definition = Definition {
        early_stopping: Some(EarlyStoppingSpec::new(rule, 20)),
        ..definition()
    };
    let study = Study::in_memory(&definition).unwrap();
    let first = study.ask().unwrap().number;
    assert_eq!(study.report(first, 4, 1.0).unwrap(), Verdict::Continue);
    let second = study.ask().unwrap().number;
    let verdict = study.report(second, 4, 0.5).unwrap();
    assert!(
        matches!(&verdict, Verdict::Stop { because } if because.contains("epoch 3")),
        "{verdict:?}"
    );
    let stopped = &study.trials().unwrap()[1];
    assert!(
        matches!(stopped.told(), Some(Told::Stopped { epoch: 4, .. })),
        "at its last report"
    );
}

#[test]
fn a_report_that_is_no_number_is_a_failure() {
    for (value, word) in [(f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
        let study = Study::in_memory(&definition()).unwrap();
        let report = study
            .optimize_training(2, |trial| {
                assert_eq!(trial.report(1, 0.5), Signal::Continue);
                match trial.number() {
                    0 => assert_eq!(trial.report(2, value), Signal::Stop),
                    _ => assert_eq!(trial.report(2, 0.5), Signal::Continue),
                }
                Ok(0.5)
            })
            .unwrap();
        assert_eq!((report.n_failed, report.n_stopped), (1, 0));
        let trials = study.trials().unwrap();
        let Some(Told::Failed { kind, message }) = trials[0].told() else {
            panic!("{:?}", trials[0].state);
        };
        assert_eq!(kind, "not-finite");
        let expected =
            format!("the objective reported {word} at epoch 2, which is not a finite number");
        assert_eq!(*message, expected);
        assert_eq!(trials[1].value(), Some(0.5));
    }
}

#[test]
fn what_cannot_be_used_of_reports_is_left_out_and_said_once() {
    let study = Study::in_memory(&definition()).unwrap();
    let warnings = Warnings::default();
    let network = Network(
        |point: &Point, trial: TrialId, monitor: &dyn Monitor, epoch| {
            let say = |epoch, value| assert_eq!(monitor.report(epoch, value), Signal::Continue);
            match (trial.trial, epoch) {
                // Again and again, out of order, no epochs at all, and past the end.
                (0, 4) => {
                    say(3, curve(point.number("x"), 3));
                    say(2, 0.25);
                    say(2, 0.5);
                }
                (1, 4) => {
                    say(N_EPOCHS + 1, 0.5);
                    say(u32::MAX, 0.5);
                    say(0, 0.5);
                }
                (2, 2) => {
                    monitor.unusable("it has reported epoch -1, expected a whole number from 1")
                }
                _ => {}
            }
        },
    );
    let report = run(&study, &network, &warnings, 3);
    assert_eq!((report.n_told, report.n_failed), (3, 0));
    for trial in study.trials().unwrap() {
        let x = trial.point.number("x");
        let expected = (1..=N_EPOCHS).map(|epoch| Report {
            epoch,
            value: curve(x, epoch),
        });
        assert_eq!(
            trial.reports,
            expected.collect::<Vec<_>>(),
            "trial {}",
            trial.number
        );
    }
    let warnings = warnings.0.into_inner().unwrap();
    let left_out = "such reports are left out (this is said once a trial)";
    assert_eq!(warnings.len(), 3, "{warnings:#?}");
    assert!(
        warnings.iter().all(|warning| warning.ends_with(left_out)),
        "{warnings:#?}"
    );
    assert!(
        warnings[0].starts_with("trial 0 has reported 0.25 at epoch 2 after "),
        "{warnings:#?}"
    );
    assert!(
        warnings[1]
            .starts_with("trial 1 has reported epoch 11, expected a whole number from 1 to 10"),
        "{warnings:#?}"
    );
    assert!(
        warnings[2].starts_with("trial 2: it has reported epoch -1"),
        "{warnings:#?}"
    );
}

/// A study that is dropped in the middle of any trial and opened again goes on as one that never was.
#[test]
fn an_interrupted_study_judges_as_an_uninterrupted_one() {
    let network = Network(|_: &Point, _: TrialId, _: &dyn Monitor, _| {});
    let whole = Study::in_memory(&definition()).unwrap();
    run(&whole, &network, &Silent, 24);
    let stopped = course(&whole);
    assert!(
        stopped
            .iter()
            .filter(|each| matches!(each.told(), Some(Told::Stopped { .. })))
            .count()
            > 3
    );

    let storage = Arc::new(MemoryStorage::new());
    for n_trials in 1..=24 {
        // Somebody begins the trial, reports some epochs, and is gone.
        let study = Study::open(storage.clone(), &definition()).unwrap();
        let worker = Worker::of_this_process();
        let lease = Some(Duration::from_millis(1));
        let asked = study.ask_as(&worker, lease, Some(n_trials)).unwrap();
        let Asked::Trial(trial) = asked else {
            panic!("there is one to begin");
        };
        let teller = Teller::Worker(&worker.id);
        for epoch in 1..=2 {
            let value = curve(trial.point.number("x"), epoch);
            let verdict = study.report_as(teller, trial.number, epoch, value).unwrap();
            assert_eq!(verdict, Verdict::Continue);
        }
        drop(study);
        std::thread::sleep(Duration::from_millis(5));
        let study = Study::open(storage.clone(), &definition()).unwrap();
        run(&study, &network, &Silent, n_trials);
    }
    let study = Study::open(storage, &definition()).unwrap();
    assert_eq!(course(&study), stopped);
}

/// A run that is interrupted gives its trial back: its reports go, and the next run trains it from the beginning.
#[test]
fn an_interrupted_trial_begins_anew() {
    let study = Study::in_memory(&definition()).unwrap();
    let stop = AtomicBool::new(false);
    struct Interrupted<'a>(&'a AtomicBool);
    impl Objective for Interrupted<'_> {
        fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
            Outcome::Interrupted
        }
        fn train(&self, _: &Point, _: TrialId, monitor: &dyn Monitor) -> Trained {
            assert_eq!(monitor.report(1, 0.5), Signal::Continue);
            assert_eq!(monitor.report(2, 0.5), Signal::Continue);
            self.0.store(true, Ordering::Relaxed);
            Trained::Ended(Outcome::Interrupted)
        }
    }
    let options = RunOptions::sequential(3);
    study
        .run(&Interrupted(&stop), &options, &Silent, &stop)
        .unwrap();
    let waiting = study.open_trials().unwrap();
    assert_eq!((waiting.len(), waiting[0].reports.len()), (1, 0));
    let network = Network(|_: &Point, _: TrialId, _: &dyn Monitor, _| {});
    run(&study, &network, &Silent, 3);
    assert_eq!(study.trials().unwrap()[0].reports[0].epoch, 1);
}

#[test]
fn several_workers_stop_trials_side_by_side() {
    let study = Study::in_memory(&definition()).unwrap();
    let network = Network(|_: &Point, _: TrialId, _: &dyn Monitor, _| {
        std::thread::sleep(Duration::from_micros(300));
    });
    let options = RunOptions {
        jobs: 3,
        ..RunOptions::sequential(40)
    };
    let stop = AtomicBool::new(false);
    let report = study.run(&network, &options, &Silent, &stop).unwrap();
    assert_eq!((report.n_told, report.n_failed, report.n_open), (40, 0, 0));
    let trials = study.trials().unwrap();
    let n_stopped = trials
        .iter()
        .filter(|t| matches!(t.told(), Some(Told::Stopped { .. })))
        .count();
    assert_eq!(report.n_stopped, n_stopped);
    assert!(n_stopped > 3, "{n_stopped}");
    // Whoever was stopped was worse than the median of all that are complete now, or of those then: never the best.
    let best = study.best().unwrap().unwrap();
    let x = |trial: &Trial| trial.point.number("x");
    assert!(trials.iter().all(|trial| x(trial) <= x(&best)));
    for trial in &trials {
        let epochs: Vec<u32> = trial.reports.iter().map(|report| report.epoch).collect();
        let expected: Vec<u32> = (1..=u32::try_from(epochs.len()).unwrap()).collect();
        assert_eq!(epochs, expected, "nobody else's reports");
    }
}

/// A worker that was taken for gone hears that its trial is another's: it is told to stop, and its reports are not used.
#[test]
fn a_trial_that_was_taken_away_is_left_to_who_takes_it() {
    let storage = Arc::new(MemoryStorage::new());
    let study = Study::open(storage.clone(), &definition()).unwrap();
    let key = storage.studies().unwrap()[0].key;
    let warnings = Warnings::default();
    let is_first = AtomicBool::new(true);
    let network = Network(|_: &Point, trial: TrialId, _: &dyn Monitor, epoch| {
        if (trial.trial, epoch) == (0, 3) && is_first.swap(false, Ordering::Relaxed) {
            let trial = study.trials().unwrap().swap_remove(0);
            assert_eq!(trial.reports.len(), 2);
            let TrialState::Running(holding) = trial.state else {
                panic!("it runs");
            };
            let teller = Teller::Worker(&holding.worker.id);
            storage.give_back(key, 0, teller).unwrap();
        }
    });
    let report = run(&study, &network, &warnings, 2);
    assert_eq!((report.n_told, report.n_open), (2, 0));
    let warnings = warnings.0.into_inner().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("what trial 0 reports is not used: trial 0 is held by nobody"),
        "{warnings:?}"
    );
    let first = study.trials().unwrap().swap_remove(0);
    assert_eq!(first.reports.len(), N_EPOCHS as usize, "trained anew");
}

#[test]
fn reports_need_a_rule_and_epochs_of_it() {
    let without = Definition {
        early_stopping: None,
        ..definition()
    };
    let study = Study::in_memory(&without).unwrap();
    let number = study.ask().unwrap().number;
    assert!(matches!(
        study.report(number, 1, 0.5),
        Err(StudyError::EarlyStopping(EarlyStoppingError::NoRule { .. }))
    ));
    study.tell(number, 0.5).unwrap();
    // A closure that reports runs in such a study too, to its end.
    study
        .optimize_training(3, |trial| {
            assert_eq!(trial.report(1, f64::NAN), Signal::Continue);
            Ok(0.0)
        })
        .unwrap();
    assert_eq!(study.trials().unwrap()[2].reports, []);

    let study = Study::in_memory(&definition()).unwrap();
    let number = study.ask().unwrap().number;
    for epoch in [0, N_EPOCHS + 1] {
        assert!(matches!(
            study.report(number, epoch, 0.5),
            Err(StudyError::EarlyStopping(EarlyStoppingError::Epoch { .. }))
        ));
    }
    assert!(matches!(
        study.report(number, 1, f64::NAN),
        Err(StudyError::NotFinite { .. })
    ));
    study.report(number, 2, 0.5).unwrap();
    let error = study.report(number, 1, 0.25).unwrap_err().to_string();
    assert_eq!(
        error,
        "trial 0 has reported 0.25 at epoch 1 after 0.5 at epoch 2; epochs must ascend"
    );
}

#[test]
fn a_definition_says_what_does_not_go_together() {
    let check = |definition: Definition| Study::in_memory(&definition).unwrap_err().to_string();
    let log_ei = Definition {
        strategy: StrategySpec::LogEi {},
        ..definition()
    };
    assert!(check(log_ei).contains("strategy \"log-ei\" does not go with [early_stopping]"));
    let fresh = Definition::new("a").parameter("x", ParameterSpec::float(0.0, 1.0));
    assert_eq!(
        fresh.early_stopping(spec()).strategy,
        StrategySpec::gp_ucb()
    );
    assert_eq!(
        definition().strategy,
        StrategySpec::Sobol {},
        "what was chosen stays"
    );

    // A changed key is named.
    let storage = Arc::new(MemoryStorage::new());
    Study::open(storage.clone(), &definition()).unwrap();
    let differs = |changed: EarlyStoppingSpec| {
        let definition = Definition {
            early_stopping: Some(changed),
            ..definition()
        };
        let error = Study::open(storage.clone(), &definition).unwrap_err();
        let StudyError::Differs { key, .. } = error else {
            panic!("{error}");
        };
        key
    };
    assert_eq!(
        differs(EarlyStoppingSpec {
            epochs: 11,
            ..spec()
        }),
        "[early_stopping] epochs"
    );
    assert_eq!(
        differs(EarlyStoppingSpec::asha(N_EPOCHS)),
        "[early_stopping] rule"
    );
    let rule = StoppingRuleSpec::Median {
        warmup_epochs: 2,
        trials_min: 4,
    };
    assert_eq!(
        differs(EarlyStoppingSpec::new(rule, N_EPOCHS)),
        "[early_stopping] trials_min"
    );
    let none = Definition {
        early_stopping: None,
        ..definition()
    };
    assert!(
        Study::open(storage, &none)
            .unwrap_err()
            .to_string()
            .contains("[early_stopping] rule = \"median\"")
    );
}

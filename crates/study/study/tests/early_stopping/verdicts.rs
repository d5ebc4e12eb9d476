//! Tests of verdicts on trials: each verdict follows the rule and uses only measured values.

use std::sync::Mutex;

use fedbo_storage::{StorageError, Told};
use fedbo_strategies::early_stopping::{AshaOptions, MedianOptions, Verdict};
use fedbo_study::{Definition, EarlyStoppingSpec, StoppingRuleSpec, Study, StudyError};

use crate::early_stopping::fixtures::{N_EPOCHS, curve, definition};

/// Reference implementation of the paper's rule: stop at epoch s > 2 if the best value so far is
/// below the median of the complete trials' averages. At least three complete trials are required.
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
        let definition = if minimizes { definition().minimize() } else { definition() };
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
                (Some(stop), Told::Stopped { epoch, value: told, .. }) => {
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

/// The last value of the stopped trial is above all others.
#[test]
fn a_stopped_trial_is_never_the_best() {
    let study = Study::in_memory(&definition()).unwrap();
    for values in [[1.0; 10], [1.0; 10], [1.0; 10]] {
        let number = study.ask().unwrap().number;
        for (epoch, value) in (1..).zip(values) {
            assert_eq!(study.report(number, epoch, value).unwrap(), Verdict::Continue);
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
    assert_eq!(
        because,
        "best value 0.5 worse than 1, the median of the averages of 3 trials up to epoch 3"
    );
    assert_eq!(study.best().unwrap().unwrap().value(), Some(-5.0));
    // The stop is stored immediately and does not change.
    assert!(study.open_trials().unwrap().is_empty());
    let again = study.report(number, 3, 0.5).unwrap();
    assert_eq!(again, Verdict::Stop { because: because.clone() });
    assert_eq!(study.report(number, 4, 9.0).unwrap(), again, "further reports are of no account");
    assert!(matches!(
        study.tell(number, 0.5),
        Err(StudyError::Storage(StorageError::ToldOtherwise { .. }))
    ));
    let trial = study.trials().unwrap().pop().unwrap();
    assert_eq!(trial.reports.len(), 3);
    assert_eq!(trial.told(), Some(&Told::Stopped { epoch: 3, value: 0.5, because }));
}

/// After the last epoch, stopping saves nothing, however bad the trial is.
#[test]
fn a_complete_training_is_not_stopped() {
    let study = Study::in_memory(&definition()).unwrap();
    for _ in 0..3 {
        let number = study.ask().unwrap().number;
        study.report(number, N_EPOCHS, 1.0).unwrap();
        study.tell(number, 1.0).unwrap();
    }
    let number = study.ask().unwrap().number;
    assert_eq!(study.report(number, N_EPOCHS, 0.0).unwrap(), Verdict::Continue);
    study.tell(number, 0.0).unwrap();
}

/// Asks for a trial and reports its values after the given epochs until it is stopped.
fn reported(study: &Study, epochs: &[(u32, f64)]) -> (u64, Verdict<String>) {
    let number = study.ask().unwrap().number;
    let mut verdict = Verdict::Continue;
    for &(epoch, value) in epochs {
        verdict = study.report(number, epoch, value).unwrap();
        if verdict.stops() {
            break;
        }
    }
    (number, verdict)
}

/// A rung between two reports is not missed. The trial is compared at its first report after the
/// rung, by its value there and the other trials' values at that epoch.
#[test]
fn a_rung_without_a_report_is_looked_at_at_the_next_one() {
    let rule = StoppingRuleSpec::Asha(AshaOptions { reduction: 2, first_rung: 3 });
    let definition =
        Definition { early_stopping: Some(EarlyStoppingSpec::new(rule, 20)), ..definition() };
    let study = Study::in_memory(&definition).unwrap();
    assert_eq!(reported(&study, &[(4, 1.0)]).1, Verdict::Continue);
    let (number, verdict) = reported(&study, &[(4, 0.5)]);
    assert!(
        matches!(&verdict, Verdict::Stop { because } if because.contains("epoch 4")),
        "{verdict:?}"
    );
    let stopped = &study.trials().unwrap()[usize::try_from(number).unwrap()];
    assert!(matches!(stopped.told(), Some(Told::Stopped { epoch: 4, .. })));
    // At epoch 3, the line from 1 to 4 is below the first trial. At epoch 4, where it was measured,
    // the trial is the best.
    let (number, verdict) = reported(&study, &[(1, -9.0), (4, 1.5)]);
    assert_eq!(verdict, Verdict::Continue);
    // The rung has passed. The next one is at epoch 6.
    assert_eq!(study.report(number, 5, -9.0).unwrap(), Verdict::Continue);
    assert!(study.report(number, 7, -9.0).unwrap() == Verdict::Continue, "nobody else came to 7");
}

/// No trial is stopped because of a value that was not measured. With a report at every fifth
/// epoch, only the newest report counts.
#[test]
fn a_trial_that_is_far_better_at_its_newest_report_goes_on() {
    let rule = StoppingRuleSpec::Median(MedianOptions { warmup_epochs: 2, trials_min: 3 });
    let definition =
        Definition { early_stopping: Some(EarlyStoppingSpec::new(rule, 20)), ..definition() };
    let study = Study::in_memory(&definition).unwrap();
    for _ in 0..3 {
        let (number, _) = reported(&study, &[(5, 0.5), (10, 0.5), (15, 0.5), (20, 0.5)]);
        study.tell(number, 0.5).unwrap();
    }
    // On the line from 1 to 6, the value would be below the median 0.5 up to epoch 5.
    let (_, verdict) = reported(&study, &[(1, 0.0), (6, 0.9)]);
    assert_eq!(verdict, Verdict::Continue);
    let (_, verdict) = reported(&study, &[(1, 0.0), (6, 0.4)]);
    assert!(verdict.stops(), "worse than the median where it was measured");
}

/// A trial with thousands of reports gets the same verdicts as if each report had been evaluated
/// individually.
#[test]
fn a_trial_of_many_reports_is_judged_like_any_other() {
    let n_epochs = 2000;
    let definition =
        Definition { early_stopping: Some(EarlyStoppingSpec::median(n_epochs)), ..definition() };
    let study = Study::in_memory(&definition).unwrap();
    let report = study
        .optimize_training(6, |trial| {
            // The others end at 1. The last one drops at epoch 1200.
            let number = trial.number();
            let value = |epoch| match number {
                0..5 => f64::from(epoch) / f64::from(n_epochs),
                _ => 0.3,
            };
            for epoch in 1..=n_epochs {
                if trial.report(epoch, value(epoch)).stops() {
                    break;
                }
            }
            Ok(1.0)
        })
        .unwrap();
    assert_eq!(report.n_stopped, 1);
    let last = study.trials().unwrap().pop().unwrap();
    // The other trials' averages up to epoch s are (s + 1)/4000, which exceeds 0.3 from epoch 1200
    // on.
    assert!(matches!(last.told(), Some(Told::Stopped { epoch: 1200, .. })), "{:?}", last.state);
    assert_eq!(last.reports.len(), 1200);
}

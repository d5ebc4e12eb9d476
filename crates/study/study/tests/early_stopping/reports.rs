//! Tests that only valid reports count, and that the others cause warnings.

use fedbo_objective::{
    Failure, Monitor, Objective, Outcome, Signal, TrainingEnd, TrialId, Unusable,
};
use fedbo_space::Point;
use fedbo_storage::{Report, Told, Trial};
use fedbo_study::{Definition, EarlyStoppingError, NullObserver, Study, StudyError};

use crate::early_stopping::fixtures::{N_EPOCHS, Network, Warnings, curve, definition, run};

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
    let network = Network(|point: &Point, trial: TrialId, monitor: &dyn Monitor, epoch| {
        let say = |epoch, value| assert_eq!(monitor.report(epoch, value), Signal::Continue);
        match (trial.trial, epoch) {
            // Repeated, out of order, with invalid epochs, and beyond the end.
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
                monitor.unusable(
                    Unusable::Epoch,
                    "it reported epoch -1, expected a whole number from 1",
                );
                monitor.unusable(Unusable::StopBy, "it asked to be stopped by 10");
            }
            _ => {}
        }
    });
    let report = run(&study, &network, &warnings, 3);
    assert_eq!((report.n_told, report.n_failed), (3, 0));
    for trial in study.trials().unwrap() {
        let x = trial.point.number("x");
        let expected = (1..=N_EPOCHS).map(|epoch| Report { epoch, value: curve(x, epoch) });
        assert_eq!(trial.reports, expected.collect::<Vec<_>>(), "trial {}", trial.number);
    }
    let warnings = warnings.0.into_inner().unwrap();
    let left_out =
        "such reports are ignored (reported once per run; it applies to further trials too)";
    assert_eq!(warnings.len(), 3, "{warnings:#?}");
    assert!(warnings[..2].iter().all(|warning| warning.ends_with(left_out)), "{warnings:#?}");
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
        warnings[2]
            .starts_with("trial 2: it asked to be stopped by 10; it is stopped by the line `stop`"),
        "{warnings:#?}"
    );
}

/// A script that reports nothing useful and ends with the given outcome.
struct SilentScript {
    resembling: Option<&'static str>,
    outcome: fn(u64) -> Outcome,
}

impl Objective for SilentScript {
    fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
        panic!("a study with a rule trains");
    }

    fn train(&self, _: &Point, trial: TrialId, monitor: &dyn Monitor) -> TrainingEnd {
        if let Some(what) = self.resembling {
            monitor.resembles_report(what);
        }
        TrainingEnd::Ended((self.outcome)(trial.trial))
    }
}

#[test]
fn a_run_says_once_that_nothing_was_reported() {
    for (resembling, expected) in [
        (
            Some("`epoch 3` is not a report: it is not a JSON object"),
            "could not stop it; `epoch 3` is not a report: it is not a JSON object; a report is a line {\"epoch\": 1, \"value\": 0.5}",
        ),
        (None, "could not stop it; a report is a line {\"epoch\": 1, \"value\": 0.5}"),
    ] {
        let study = Study::in_memory(&definition()).unwrap();
        let warnings = Warnings::default();
        // A trial that fails for another reason causes no warnings about reports.
        let outcome = |number| match number {
            0 => Outcome::Failed(Failure::Reported { message: "no memory".to_owned() }),
            _ => Outcome::Value(0.5),
        };
        run(&study, &SilentScript { resembling, outcome }, &warnings, 4);
        let warnings = warnings.0.into_inner().unwrap();
        assert_eq!(warnings.len(), 1, "{warnings:#?}");
        assert!(
            warnings[0].starts_with(
                "trial 1 has ended without a report, so rule \"median\" could not stop it"
            ),
            "{warnings:#?}"
        );
        assert!(warnings[0].contains(expected), "{warnings:#?}");
    }
}

#[test]
fn a_last_report_that_counts_is_the_value() {
    let unparsable =
        || Outcome::Failed(Failure::Unparsable { line: "done".to_owned(), stderr: String::new() });
    struct Ending<F>(F);
    impl<F: Fn(u64, &dyn Monitor) -> Outcome + Send + Sync> Objective for Ending<F> {
        fn evaluate(&self, _: &Point, _: TrialId) -> Outcome {
            panic!("a study with a rule trains");
        }

        fn train(&self, _: &Point, trial: TrialId, monitor: &dyn Monitor) -> TrainingEnd {
            TrainingEnd::Ended((self.0)(trial.trial, monitor))
        }
    }
    let study = Study::in_memory(&definition()).unwrap();
    let ending = Ending(|number, monitor: &dyn Monitor| {
        let say = |epoch, value| assert_eq!(monitor.report(epoch, value), Signal::Continue);
        match number {
            0 => {
                say(1, 0.5);
                say(N_EPOCHS, 0.25);
                unparsable()
            }
            1 => {
                say(1, 0.5);
                say(3, 0.125);
                unparsable()
            }
            // The last line is a report, but for an epoch that was already reported.
            2 => {
                say(1, 0.5);
                say(3, 0.125);
                say(3, 9.0);
                monitor.ends_with_report();
                Outcome::Value(9.0)
            }
            3 => {
                say(3, 0.125);
                Outcome::Value(9.0)
            }
            _ => {
                assert_eq!(monitor.no_number(2, "null"), Signal::Stop);
                Outcome::Value(9.0)
            }
        }
    });
    run(&study, &ending, &NullObserver, 5);
    let trials = study.trials().unwrap();
    let values: Vec<Option<f64>> = trials.iter().map(Trial::value).collect();
    assert_eq!(values, [Some(0.25), None, Some(0.125), Some(9.0), None]);
    let failure = |number: usize| match trials[number].told() {
        Some(Told::Failed { kind, message }) => (kind.as_str(), message.as_str()),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        failure(1),
        (
            "unparsable",
            "its last report, 0.125 at epoch 3, is not from the last epoch, 10, so it is not the value, and the command's last \
             line is \"done\", expected a number or {\"value\": ..}"
        )
    );
    assert_eq!(
        failure(4),
        ("not-finite", "the objective reported null at epoch 2, which is not a finite number")
    );
}

#[test]
fn reports_need_a_rule_and_epochs_of_it() {
    let without = Definition { early_stopping: None, ..definition() };
    let study = Study::in_memory(&without).unwrap();
    let number = study.ask().unwrap().number;
    assert!(matches!(
        study.report(number, 1, 0.5),
        Err(StudyError::EarlyStopping(EarlyStoppingError::NoRule { .. }))
    ));
    study.tell(number, 0.5).unwrap();
    // A closure that reports also runs to its end in a study without a rule.
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
    assert!(matches!(study.report(number, 1, f64::NAN), Err(StudyError::NotFinite { .. })));
    study.report(number, 2, 0.5).unwrap();
    let error = study.report(number, 1, 0.25).unwrap_err().to_string();
    assert_eq!(
        error,
        "trial 0 has reported 0.25 at epoch 1 after 0.5 at epoch 2; epochs must ascend"
    );
}

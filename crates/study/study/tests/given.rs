//! Trials with given values of some parameters.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use fedbo_error_class::{Class, Classified};
use fedbo_space::{ParameterSpec, Point};
use fedbo_storage::{TrialState, Worker};
use fedbo_strategies::{Observation, Points, Proposal, Strategy, StrategyError};
use fedbo_streams::Stream;
use fedbo_study::{AskOutcome, Definition, StrategySpec, Study};

fn point(text: &str) -> Point {
    serde_json::from_str(text).unwrap()
}

fn drying(strategy: StrategySpec) -> Definition {
    Definition::new("drying")
        .parameter("heat", ParameterSpec::float(0.0, 100.0))
        .parameter("humidity", ParameterSpec::float(0.0, 100.0))
        .parameter("fan", ParameterSpec::categorical(["low", "high"]))
        .strategy(strategy)
        .initial(4)
        .seed(3)
        .minimize()
}

/// The trials of the initial design and of the model have the given values, and the model learns
/// from all of them.
#[test]
fn every_strategy_asks_with_given_values() {
    let strategies =
        [StrategySpec::ts, StrategySpec::gp_ucb, StrategySpec::log_ei, StrategySpec::random];
    for strategy in strategies.into_iter().chain([StrategySpec::sobol as fn() -> _]) {
        let study = Study::in_memory(&drying(strategy())).unwrap();
        let mut sources = Vec::new();
        for number in 0..8 {
            let humidity = [35.0, 0.1 + 0.2, 80.0][number % 3];
            let given = Point::new(vec![("humidity".into(), humidity.into())]);
            let trial = study.ask_given(&given).unwrap();
            assert_eq!(trial.point.number("humidity").to_bits(), humidity.to_bits());
            study.tell(trial.number, (trial.point.number("heat") - humidity).powi(2)).unwrap();
            sources.push(trial.source);
        }
        if strategy().has_surrogate() {
            assert_eq!(sources[..4], ["initial"; 4]);
            assert!(sources[4..].iter().all(|source| source == "own" || source == "random"));
            assert!(sources[4..].iter().any(|source| source == "own"));
        }
        let whole = point(r#"{"heat":12.5,"humidity":7,"fan":"low"}"#);
        let trial = study.ask_given(&whole).unwrap();
        assert_eq!(trial.point, study.space().normalize(&whole).unwrap());
        // The same point is not evaluated twice, unless the study is noisy.
        assert!(study.ask_given(&whole).unwrap_err().to_string().contains("used up"));
    }
}

/// With no given values, the next trial is the same as from an ask, and a waiting trial continues
/// to wait.
#[test]
fn an_ask_without_given_values_is_an_ask() {
    let studies = [0, 1].map(|_| Study::in_memory(&drying(StrategySpec::log_ei())).unwrap());
    for _ in 0..6 {
        let plain = studies[0].ask().unwrap();
        let given = studies[1].ask_given(&Point::new(Vec::new())).unwrap();
        assert_eq!((&plain.point, &plain.source), (&given.point, &given.source));
        for study in &studies {
            study.tell(plain.number, 1.0).unwrap();
        }
    }
    let study = &studies[0];
    let waiting = study.enqueue(&point(r#"{"heat":1,"humidity":2,"fan":"low"}"#)).unwrap();
    let given = study.ask_given(&point(r#"{"humidity":40}"#)).unwrap();
    assert_ne!(given.number, waiting.number);
    assert!(matches!(study.trials().unwrap()[6].state, TrialState::Waiting));
    assert_eq!(study.ask().unwrap().number, waiting.number);
    let limited = study.ask_given_as(&Worker::by_hand(), None, Some(8), &point(r#"{"fan":"low"}"#));
    assert!(matches!(limited.unwrap(), AskOutcome::Full { open } if open.len() == 2));
}

#[derive(Clone)]
struct Middle;

impl Strategy for Middle {
    fn ask(&self, pending: &Points, _: &mut Stream) -> Result<Proposal, StrategyError> {
        let source = fedbo_strategies::Source::Own;
        Ok(Proposal { unit: vec![0.5; pending.dim()], source })
    }

    fn tell(&mut self, _: &[Observation]) -> Result<(), StrategyError> {
        Ok(())
    }
}

#[test]
fn given_values_that_cannot_be_kept_are_refused() {
    let study = Study::in_memory(&drying(StrategySpec::log_ei())).unwrap();
    let says = |study: &Study, text: &str| {
        let error = study.ask_given(&point(text)).unwrap_err();
        assert_eq!(error.class(), Class::Input);
        error.to_string()
    };
    assert_eq!(
        says(&study, r#"{"humidity":140}"#),
        "parameter humidity = 140.0, expected a number from 0.0 to 100.0"
    );
    assert_eq!(
        says(&study, r#"{"humid":40}"#),
        "there is no parameter humid; the space has heat, humidity, fan"
    );
    let own = Study::in_memory(&drying(StrategySpec::own())).unwrap();
    let own = own.with_strategy(Middle).unwrap();
    let refused = says(&own, r#"{"humidity":40}"#);
    assert!(refused.starts_with("strategy \"own\" cannot propose trials with given values"));
    for study in [&study, &own] {
        assert!(study.trials().unwrap().is_empty());
    }
    assert!(own.ask().is_ok());
}

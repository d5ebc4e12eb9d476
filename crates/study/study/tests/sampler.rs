//! Tests that queries for trials stored elsewhere equal the queries of a study.

use fedbo_space::{ParameterSpec, Point, Value};
use fedbo_storage::{Told, Trial};
use fedbo_strategies::StrategyError;
use fedbo_study::{Definition, EndedTrial, Sampler, StrategySpec, Study, StudyError};

fn definition() -> Definition {
    Definition::new("kept elsewhere")
        .parameter("x", ParameterSpec::float(-2.0, 2.0))
        .parameter("n", ParameterSpec::log_int(1, 64))
        .parameter("kind", ParameterSpec::categorical(["a", "b", "c"]))
        .strategy(StrategySpec::log_ei())
        .seed(3)
        .minimize()
}

fn value(point: &Point) -> Option<f64> {
    let (x, n) = (point.number("x"), point.number("n"));
    // One corner of the space fails.
    (x < 1.5).then(|| (x - 0.5).powi(2) + (n.ln() - 2.0).powi(2))
}

fn ended(trial: &Trial) -> EndedTrial {
    EndedTrial {
        point: trial.point.clone(),
        value: match trial.told() {
            Some(Told::Value(value)) => Some(*value),
            _ => None,
        },
        source: trial.source.clone(),
    }
}

#[test]
fn queries_are_those_of_a_study_with_these_trials() {
    let study = Study::in_memory(&definition()).unwrap();
    let mut kept = Sampler::new(&definition()).unwrap();
    let mut told: Vec<EndedTrial> = Vec::new();
    let mut waiting: Option<Trial> = None;
    let mut n_failed = 0;
    for number in 0..18_u64 {
        let open: Vec<Point> = waiting.iter().map(|trial| trial.point.clone()).collect();
        let trial = study.ask().unwrap();
        let queried = kept.propose(&told, &open, number).unwrap();
        assert_eq!(queried, (trial.point.clone(), trial.source.clone()), "trial {number}");
        // The cache does not change the result.
        let anew = Sampler::new(&definition()).unwrap().propose(&told, &open, number).unwrap();
        assert_eq!(anew, queried);
        // Every trial finishes one step late.
        if let Some(late) = waiting.replace(trial) {
            match value(&late.point) {
                Some(value) => study.tell(late.number, value).map(drop).unwrap(),
                None => {
                    n_failed += 1;
                    study.tell_failed(late.number, "the corner").map(drop).unwrap();
                }
            }
            let trials = study.trials().unwrap();
            told.push(ended(&trials[usize::try_from(late.number).unwrap()]));
        }
    }
    assert!(n_failed > 0, "no trial failed, so nothing was shown of failures");
    assert!(told.iter().any(|trial| trial.source == "own"));
}

#[test]
fn trials_in_another_order_begin_anew() {
    let mut kept = Sampler::new(&definition()).unwrap();
    let mut told: Vec<EndedTrial> = Vec::new();
    for number in 0..12 {
        let (point, source) = kept.propose(&told, &[], number).unwrap();
        told.push(EndedTrial { value: value(&point), point, source });
    }
    let before = kept.propose(&told, &[], 12).unwrap();
    told.swap(0, 5);
    let queried = kept.propose(&told, &[], 12).unwrap();
    let anew = Sampler::new(&definition()).unwrap().propose(&told, &[], 12).unwrap();
    assert_eq!(queried, anew);
    told.swap(0, 5);
    assert_eq!(kept.propose(&told, &[], 12).unwrap(), before);
    told.truncate(9);
    let anew = Sampler::new(&definition()).unwrap().propose(&told, &[], 9).unwrap();
    assert_eq!(kept.propose(&told, &[], 9).unwrap(), anew);
}

#[test]
fn a_space_without_an_untried_point_is_exhausted() {
    let definition = Definition::new("few")
        .parameter("kind", ParameterSpec::categorical(["a", "b", "c"]))
        .minimize();
    let mut kept = Sampler::new(&definition).unwrap();
    let mut told: Vec<EndedTrial> = Vec::new();
    for number in 0..3 {
        let (point, source) = kept.propose(&told, &[], number).unwrap();
        assert!(told.iter().all(|trial| trial.point != point));
        told.push(EndedTrial { point, value: Some(0.0), source });
    }
    let error = kept.propose(&told, &[], 3).unwrap_err();
    assert!(matches!(error, StudyError::Strategy(StrategyError::Exhausted { .. })), "{error}");
    let mut noisy = Sampler::new(&definition.noisy()).unwrap();
    noisy.propose(&told, &[], 3).unwrap();
}

#[test]
fn what_cannot_be_used_is_refused_and_leaves_no_trace() {
    let mut kept = Sampler::new(&definition()).unwrap();
    let (point, source) = kept.propose(&[], &[], 0).unwrap();
    let good = EndedTrial { value: Some(1.0), point, source };
    let infinite = EndedTrial { value: Some(f64::INFINITY), ..good.clone() };
    let error = kept.propose(&[infinite], &[], 1).unwrap_err();
    assert!(matches!(error, StudyError::NotFinite { .. }), "{error}");
    let elsewhere = Point::new(vec![("x".to_owned(), Value::Float(9.0))]);
    let error = kept.propose(std::slice::from_ref(&good), &[elsewhere], 1).unwrap_err();
    assert!(matches!(error, StudyError::Space(_)), "{error}");
    let anew =
        Sampler::new(&definition()).unwrap().propose(std::slice::from_ref(&good), &[], 1).unwrap();
    assert_eq!(kept.propose(&[good], &[], 1).unwrap(), anew);
}

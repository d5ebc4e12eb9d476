//! Tests of constraints and multiple objectives through the public Rust interface.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use fedbo_objective::{Objective, Outcome, TrialId};
use fedbo_space::{Direction, ParameterSpec, Point, Value};
use fedbo_storage::{MemoryStorage, Storage, Trial};
use fedbo_strategies::{Observation, Points, Proposal, Source, Strategy, StrategyError};
use fedbo_streams::{Purpose, Seed, Stream};
use fedbo_study::{Definition, NullObserver, RunOptions, Sampler, StrategySpec, Study, StudyError};

/// Defines two objectives with opposite directions, and two constraints.
fn definition(strategy: StrategySpec) -> Definition {
    Definition::new("beams")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .strategy(strategy)
        .objective("mass", Direction::Minimize)
        .objective("stiffness", Direction::Maximize)
        .at_most("length", 0.75)
        .at_least("width", 0.25)
}

fn numbers(point: &Point) -> [f64; 4] {
    let x = point.number("x");
    [x, x * x, x, x]
}

/// Proposes random points and records the observations that it receives.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<Observation>>>);

impl Strategy for Listener {
    fn ask(&self, _: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        Ok(Proposal { unit: vec![stream.uniform()], source: Source::Own })
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.0.lock().unwrap().extend_from_slice(observed);
        Ok(())
    }
}

#[test]
fn a_strategy_sees_objectives_to_maximize_and_slacks() {
    let listener = Listener::default();
    let study = Study::in_memory(&definition(StrategySpec::own()).initial(1)).unwrap();
    let study = study.with_strategy(listener.clone()).unwrap();
    let function = |point: &Point| match point.number("x") > 0.9 {
        true => Err("too long".to_owned()),
        false => Ok(numbers(point)),
    };
    study.optimize_numbers(40, function).unwrap();
    study.ask().unwrap(); // the strategy is told the last trial before the next query
    let observed = listener.0.lock().unwrap();
    assert_eq!(observed.len(), 40);
    for told in observed.iter() {
        let x = told.unit[0];
        match x > 0.9 {
            true => assert_eq!((told.value, told.further.len()), (None, 0)),
            false => {
                assert_eq!(told.value, Some(-x));
                assert_eq!(told.further, [x * x, 0.75 - x, x - 0.25]);
            }
        }
    }
    assert!(observed.iter().any(|told| told.value.is_none()));
}

#[test]
fn a_study_that_is_reopened_after_every_few_trials_takes_the_same_course() {
    for strategy in [StrategySpec::random(), StrategySpec::sobol(), StrategySpec::log_ei()] {
        let definition = definition(strategy);
        let whole = Study::in_memory(&definition).unwrap();
        whole.optimize_numbers(14, |point| Ok(numbers(point))).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        for n_trials in [3, 7, 14] {
            let study = Study::open(Arc::clone(&storage), &definition).unwrap();
            study.optimize_numbers(n_trials, |point| Ok(numbers(point))).unwrap();
        }
        let course = |study: &Study| -> Vec<(String, Vec<f64>)> {
            let trials = study.trials().unwrap();
            trials.iter().map(|t| (format!("{:?}", t.point), t.numbers().to_vec())).collect()
        };
        let parts = Study::load(storage, None).unwrap();
        assert_eq!(course(&whole), course(&parts), "{strategy:?}");
        assert!(!parts.best_trials().unwrap().is_empty());
    }
}

/// A strategy gets NaN for a number that is missing, and the trial is not a failure.
#[test]
fn a_strategy_sees_the_numbers_that_were_measured() {
    let listener = Listener::default();
    let study = Study::in_memory(&definition(StrategySpec::own()).initial(1)).unwrap();
    let study = study.with_strategy(listener.clone()).unwrap();
    for told in [[f64::NAN, 4.0, 0.5, 0.5], [3.0, f64::NAN, 0.5, f64::NAN]] {
        study.tell_numbers(study.ask().unwrap().number, told.to_vec()).unwrap();
    }
    study.ask().unwrap();
    let observed = listener.0.lock().unwrap();
    assert_eq!((observed[0].value, observed[0].further.clone()), (None, vec![4.0, 0.25, 0.25]));
    assert_eq!((observed[1].value, observed[1].further[1]), (Some(-3.0), 0.25));
    assert!(observed[1].further[0].is_nan() && observed[1].further[2].is_nan());
}

/// Tells `told` for the trial after a few complete ones, and returns the next proposals.
fn next_after(definition: &Definition, told: [f64; 4]) -> Vec<Point> {
    let study = Study::in_memory(definition).unwrap();
    study.optimize_numbers(4, |point| Ok(numbers(point))).unwrap();
    study.tell_numbers(study.ask().unwrap().number, told.to_vec()).unwrap();
    (0..2).map(|_| study.ask().unwrap().point).collect()
}

/// Each model uses the numbers that exist: a change of one changes the next query, although other
/// numbers of the trial are missing.
#[test]
fn a_trial_that_lacks_a_number_counts_for_the_other_models() {
    const NAN: f64 = f64::NAN;
    let two = definition(StrategySpec::log_ei()).initial(4);
    for (one, other) in [
        ([0.1, NAN, 0.5, 0.5], [5.0, NAN, 0.5, 0.5]),
        ([NAN, 0.1, 0.5, 0.5], [NAN, 9.0, 0.5, 0.5]),
        ([NAN, NAN, -9.0, 0.5], [NAN, NAN, 9.0, 0.5]),
    ] {
        assert_eq!(next_after(&two, one), next_after(&two, one));
        assert_ne!(next_after(&two, one), next_after(&two, other), "{one:?}");
    }
    for noisy in [false, true] {
        let definition = if noisy { two.clone().noisy() } else { two.clone() };
        let study = Study::in_memory(&definition).unwrap();
        for n in 0..12 {
            let trial = study.ask().unwrap();
            let mut told = numbers(&trial.point);
            told[n % 4] = NAN;
            study.tell_numbers(trial.number, told.to_vec()).unwrap();
        }
        assert!(study.best_trials().unwrap().is_empty());
        assert!(study.check().unwrap().is_empty());
        study.optimize_numbers(15, |point| Ok(numbers(point))).unwrap();
        let best = study.best_trials().unwrap();
        assert!(!best.is_empty() && best.iter().all(|trial| trial.number >= 12));
        let insight = study.insight_of(0).unwrap();
        assert!(insight.is_some());
    }
}

/// No trial of the run has the second objective.
#[test]
fn an_objective_may_be_missing_in_all_trials() {
    struct First;
    impl Objective for First {
        fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
            Outcome::Measured(vec![Some(point.number("x")), None, Some(0.5), Some(0.5)])
        }
    }
    for strategy in [StrategySpec::random(), StrategySpec::log_ei()] {
        let study = Study::in_memory(&definition(strategy).initial(3)).unwrap();
        let options = RunOptions::sequential(6);
        study.run(&First, &options, &NullObserver, &AtomicBool::new(false)).unwrap();
        let trials = study.trials().unwrap();
        assert!(trials.iter().all(|trial| trial.value().is_some() && trial.numbers()[1].is_nan()));
        assert!(study.best_trials().unwrap().is_empty());
    }
}

#[test]
fn a_trial_has_as_many_numbers_as_its_study_names() {
    let study = Study::in_memory(&definition(StrategySpec::random())).unwrap();
    let number = study.ask().unwrap().number;
    for wrong in [vec![1.0], vec![1.0; 3], vec![1.0; 5], Vec::new()] {
        let found = wrong.len();
        let error = study.tell_numbers(number, wrong).unwrap_err();
        let expected = "mass, stiffness, length, width".to_owned();
        assert_eq!(error, StudyError::WrongNumbers { expected, found });
    }
    let error = study.tell_numbers(number, vec![1.0, 1.0, f64::INFINITY, 1.0]).unwrap_err();
    assert_eq!(error, StudyError::NotFinite { value: f64::INFINITY });
    study.tell_numbers(number, vec![1.0, 2.0, 0.5, 0.5]).unwrap();
    assert!(study.check().unwrap().is_empty());
    let error = study.best().unwrap_err();
    assert_eq!(error, StudyError::SeveralObjectives { name: "beams".to_owned() });
    // A closure that returns a wrong count of numbers fails the trial.
    study.optimize_numbers(3, |_| Ok([1.0, 2.0])).unwrap();
    let message = format!("{:?}", study.trials().unwrap()[1].told());
    assert!(message.contains("the objective returned 2 numbers, expected 4"), "{message}");
    // A study with one number has neither objectives nor constraints.
    let single = Study::in_memory(&Definition::new("s").parameter("x", ParameterSpec::int(1, 9)));
    let single = single.unwrap();
    let number = single.ask().unwrap().number;
    assert!(single.tell_numbers(number, vec![1.0, 2.0]).is_err());
    single.tell_numbers(number, vec![1.0]).unwrap();
    assert_eq!(single.best().unwrap().unwrap().value(), Some(1.0));
}

#[test]
fn each_objective_has_an_insight_of_its_own() {
    let definition = definition(StrategySpec::random());
    let definition = definition.parameter("y", ParameterSpec::float(0.0, 1.0));
    let study = Study::in_memory(&definition).unwrap();
    let function = |point: &Point| {
        let (x, y) = (point.number("x"), point.number("y"));
        Ok([x, y, x, x])
    };
    study.optimize_numbers(20, function).unwrap();
    for (objective, parameter) in [(0, "x"), (1, "y")] {
        let insight = study.insight_of(objective).unwrap().unwrap();
        let most =
            insight.importance.iter().max_by(|a, b| a.variance_share.total_cmp(&b.variance_share));
        assert_eq!(most.unwrap().name, parameter);
        assert_eq!(insight.best_by_mean.numbers().len(), 4, "the whole trial");
    }
}

/// With noise, the best value with a slack above 0 is lucky twice. The model's choice is not lucky,
/// and its probability matches the true one.
#[test]
fn with_noise_the_models_choice_is_feasible_by_the_models_of_slacks() {
    let definition = Definition::new("noisy")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .strategy(StrategySpec::sobol())
        .at_most("length", 0.5);
    let function = |point: &Point| {
        let x = point.number("x");
        Ok([x + 0.02 * (4e4 * x).sin(), x + 0.2 * (9e4 * x).sin()])
    };
    for noisy in [false, true] {
        let definition = if noisy { definition.clone().noisy() } else { definition.clone() };
        let study = Study::in_memory(&definition).unwrap();
        study.optimize_numbers(60, function).unwrap();
        let insight = study.insight().unwrap().unwrap();
        let x_of = |trial: &Trial| trial.point.number("x");
        assert!(x_of(&study.best().unwrap().unwrap()) > 0.56);
        let chosen = x_of(&insight.best_by_mean);
        let Some(probability) = insight.probability_feasible else {
            assert!(!noisy && chosen > 0.56, "{chosen}");
            continue;
        };
        assert!(noisy && (0.4..0.56).contains(&chosen), "{chosen}");
        assert!((0.5..1.0).contains(&probability), "{probability}");
    }
    // Both constraints must be satisfied. At 0.5, half of the noise satisfies each constraint, but
    // only a quarter satisfies both.
    let two = definition.clone().at_most("width", 0.5).noisy();
    let study = Study::in_memory(&two).unwrap();
    let second = |x: f64| x + 0.2 * (5e4 * x).sin();
    study
        .optimize_numbers(60, |point| {
            function(point).map(|[y, c]| [y, c, second(point.number("x"))])
        })
        .unwrap();
    let insight = study.insight().unwrap().unwrap();
    assert!((0.5..0.9).contains(&insight.probability_feasible.unwrap()));
    // If no trial is feasible, the result is the trial with the highest probability of being
    // feasible.
    let study = Study::in_memory(&definition.at_most("width", -1.0).noisy()).unwrap();
    study.optimize_numbers(60, |point| function(point).map(|[y, c]| [y, c, c])).unwrap();
    let insight = study.insight().unwrap().unwrap();
    assert!(insight.best_by_mean.point.number("x") < 0.05);
    assert!(insight.probability_feasible.unwrap() < 0.01);
}

#[test]
fn others_refuse_further_numbers() {
    let refused = |definition: Definition, words: &str| {
        let error = Study::in_memory(&definition).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(definition(StrategySpec::ts()), "\"log-ei\", \"random\" or \"sobol\"");
    let five = ["a", "b", "c"].into_iter().fold(definition(StrategySpec::random()), |all, name| {
        all.objective(name, Direction::Minimize)
    });
    refused(five, "objectives has 5 entries, expected 2 to 4");
    let error = Sampler::new(&definition(StrategySpec::random())).err().unwrap().to_string();
    assert!(error.contains("[[objectives]] cannot be combined with a sampler"), "{error}");
}

/// With 5,600 trials, the models are conditioned on a subset of them. The front is at y = 0, where
/// there is no trial yet. The next trial is at y = 0.
#[test]
fn very_many_trials_of_two_objectives_lead_to_the_front() {
    let side = || ParameterSpec::float(0.0, 1.0);
    let definition = Definition::new("front")
        .parameter("x", side())
        .parameter("y", side())
        .strategy(StrategySpec::log_ei())
        .objective("first", Direction::Minimize)
        .objective("second", Direction::Minimize);
    let mut stream = Seed::new(1).stream(Purpose::INITIAL_DESIGN, 0, 0);
    let trial = |_| {
        let [x, y] = [stream.uniform(), stream.uniform()];
        let point = [("x", x), ("y", y)].map(|(name, at)| (name.to_owned(), Value::Float(at)));
        let g = 1.0 + 4.0 * y;
        (Point::new(point.to_vec()), vec![x, g * (1.0 - (x / g).sqrt())])
    };
    let trials: Vec<(Point, Vec<f64>)> = (0..5_600).map(trial).collect();
    let nearest = trials.iter().map(|(point, _)| point.number("y")).fold(1.0, f64::min);
    let storage = Arc::new(MemoryStorage::new());
    let (study, n_new) = Study::import(storage, &definition, &trials).unwrap();
    assert_eq!(n_new, 5_600);
    let asked = study.ask().unwrap();
    assert!(asked.point.number("y") < nearest, "{asked:?}");
}

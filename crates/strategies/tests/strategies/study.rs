//! Tests of strategies in single-party studies: running trials, discrete and mixed spaces, and
//! states that depend only on the observations.

use fedbo_space::{ParameterSpec, Space, Value};
use fedbo_strategies::{
    Domain, GpUcb, GpUcbSettings, LogEi, LogEiSettings, Observation, OutputOption, Points,
    RandomSearch, Repeats, SobolSearch, Source, Strategy, StrategyError, Surrogate,
    SurrogateSettings, ThompsonSampling, ThompsonSettings,
};
use fedbo_streams::Seed;
use fedbo_testkit::{test_stream, uniform_points};

use crate::strategies::common::{SEED, float, observed, unit_box};

fn int(low: f64, high: f64) -> ParameterSpec {
    ParameterSpec { kind: "int".into(), log: None, ..float(low, high, false) }
}

fn choices(names: &[&str]) -> ParameterSpec {
    ParameterSpec::categorical(names.iter().copied())
}

fn space(specs: &[(&str, ParameterSpec)]) -> Space {
    Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec))).unwrap()
}

/// Returns the strategies with a Gaussian process, for a deterministic or a noisy objective.
fn model_based(domain: &Domain, noisy: bool) -> Vec<(&'static str, Box<dyn Strategy>)> {
    let (dim, seed) = (domain.dim(), Seed::new(SEED));
    let domain = || domain.clone();
    let ts = ThompsonSettings::for_study(dim, noisy);
    let ucb = GpUcbSettings::for_study(dim, noisy);
    let ei = LogEiSettings::for_study(dim, noisy);
    vec![
        ("ts", Box::new(ThompsonSampling::new(domain(), ts, seed).unwrap())),
        ("gp-ucb", Box::new(GpUcb::new(domain(), ucb, seed).unwrap())),
        ("log-ei", Box::new(LogEi::new(domain(), ei, seed).unwrap())),
    ]
}

pub(crate) fn all_strategies(space: &Space) -> Vec<(&'static str, Box<dyn Strategy>)> {
    let domain = Domain::Space(space.clone());
    let mut all = model_based(&domain, false);
    all.push(("random", Box::new(RandomSearch::new(domain, Repeats::Avoid).unwrap())));
    let sobol = SobolSearch::new(space.clone(), Repeats::Avoid, Seed::new(SEED));
    all.push(("sobol", Box::new(sobol.unwrap())));
    all
}

/// Ends a proposed trial: of five, one keeps running, one fails, and the others get a value.
pub(crate) fn run(strategy: &mut dyn Strategy, trial: u64, unit: &[f64], pending: &mut Points) {
    let value: f64 = unit.iter().map(|u| (u - 0.3).powi(2)).sum();
    match trial % 5 {
        3 => pending.push(unit),
        4 => strategy.tell(&[observed(unit, None, Source::Own)]).unwrap(),
        _ => strategy.tell(&[observed(unit, Some(-value), Source::Own)]).unwrap(),
    }
}

fn observations(n: usize) -> Vec<Observation> {
    let points = uniform_points(n, 2, &mut test_stream(1));
    let value = |x: &[f64]| -30.0 * (x[0] - 0.3).powi(2) + (5.0 * x[1]).sin();
    let told = points.rows().enumerate();
    told.map(|(i, x)| observed(x, (i % 9 != 4).then(|| value(x)), Source::Initial)).collect()
}

/// The state is bitwise the same if observations, some of them failed, are reported one by one, in
/// random batches or all at once. This covers the proposals, with and without running trials, and
/// the predictions.
#[test]
fn a_state_depends_on_the_order_of_observations_alone() {
    let all = observations(34);
    let pending = uniform_points(2, 2, &mut test_stream(3));
    for noisy in [false, true] {
        let told = |portions: &mut dyn FnMut() -> usize| {
            let mut strategies = model_based(&unit_box(2), noisy);
            let mut answers = Vec::new();
            for (name, strategy) in &mut strategies {
                let mut rest = &all[..];
                while !rest.is_empty() {
                    let (portion, others) = rest.split_at(portions().min(rest.len()));
                    strategy.tell(portion).unwrap();
                    rest = others;
                }
                for running in [&Points::new(2), &pending] {
                    let found = strategy.ask(running, &mut test_stream(7)).unwrap();
                    answers.push((*name, found.unit));
                }
                let posterior = strategy.surrogate().unwrap().posterior();
                let (mean, variance) = posterior.mean_variance(&[0.2, 0.6]);
                answers.push((*name, vec![mean, variance]));
            }
            answers
        };
        let singly = told(&mut || 1);
        assert_eq!(told(&mut || usize::MAX), singly);
        for draw in 0..3 {
            let mut stream = test_stream(40 + draw);
            assert_eq!(told(&mut || 1 + stream.below(9)), singly);
        }
    }
}

/// The posterior uses hyperparameters fitted on schedule, counts the fits, and falls back if a fit
/// cannot start.
#[test]
fn scheduled_fits_are_counted_and_fall_back_to_the_initial_hyperparameters() {
    let settings = SurrogateSettings::for_study(2, false);
    let mut settings = settings.with_outputs(OutputOption::YeoJohnson); // one fit each time
    let initial = settings.initial().clone();
    let mut surrogate = Surrogate::new(2, settings.clone(), None, Seed::new(SEED)).unwrap();
    let all = observations(30);
    for observation in &all {
        surrogate.tell(std::slice::from_ref(observation)).unwrap();
    }
    // Predictions are in the units of the observed values, so they reproduce the data up to the
    // noise.
    for observation in all.iter().filter(|o| o.value.is_some()) {
        let (median, spread) = surrogate.predict(&observation.unit);
        assert!((median - observation.value.unwrap()).abs() < 0.1);
        assert!(spread > 0.0 && spread < 0.1 && surrogate.noise_std() < 0.1);
    }
    // 27 successes, with fits at 2 to 20, 22 and 25.
    assert_eq!((surrogate.len(), surrogate.diagnostics().n_fits), (27, 21));
    assert_eq!(surrogate.diagnostics().n_failed_fits, 0);
    assert_ne!(surrogate.posterior().kernel(), &initial.kernel);
    settings.standardize = false; // makes squares of outputs overflow
    let mut huge = Surrogate::new(2, settings, None, Seed::new(SEED)).unwrap();
    let value = |i: usize| if i.is_multiple_of(2) { 1e200 } else { -1e200 };
    for (i, o) in all.iter().enumerate().take(4) {
        huge.tell(&[observed(&o.unit, Some(value(i)), Source::Initial)]).unwrap();
    }
    assert_eq!((huge.diagnostics().n_fits, huge.diagnostics().n_failed_fits), (3, 3));
    assert_eq!(huge.posterior().kernel(), &initial.kernel);
}

/// Makes five queries in a row, each while all earlier ones are still running, on a box and on a
/// small discrete space. No point is proposed twice.
#[test]
fn running_trials_are_never_proposed_again() {
    for space in [
        space(&[("x", float(0.0, 1.0, false)), ("y", float(0.0, 1.0, false))]),
        space(&[("x", int(1.0, 4.0)), ("y", choices(&["a", "b"]))]),
    ] {
        for (name, strategy) in &mut all_strategies(&space) {
            for unit in [[0.1, 0.9], [0.9, 0.2], [0.6, 0.6]] {
                let unit = space.snap(&unit);
                let value = Some(unit[0] - (unit[1] - 0.5).powi(2));
                strategy.tell(&[observed(&unit, value, Source::Initial)]).unwrap();
            }
            let mut running = Points::new(2);
            for trial in 0..5 {
                let found = strategy.ask(&running, &mut test_stream(trial)).unwrap();
                assert_eq!(space.snap(&found.unit), found.unit, "{name}");
                assert!(running.rows().all(|x| x != found.unit), "{name} repeats");
                running.push(&found.unit);
            }
        }
    }
}

/// Every strategy visits each of 12 points once, some of them running and some failed, and then
/// reports that none is left. If repeats are allowed and there are no failures, it continues.
#[test]
fn a_discrete_space_is_used_up() {
    let small = space(&[("x", int(1.0, 4.0)), ("y", choices(&["a", "b", "c"]))]);
    for (name, strategy) in &mut all_strategies(&small) {
        let mut visited: Vec<Vec<f64>> = Vec::new();
        for trial in 0..10 {
            let found = strategy.ask(&Points::new(4), &mut test_stream(trial)).unwrap();
            assert!(!visited.contains(&found.unit), "{name} repeats");
            let value = (trial % 4 != 3).then_some(found.unit[0] + found.unit[2]);
            strategy.tell(&[observed(&found.unit, value, found.source)]).unwrap();
            visited.push(found.unit);
        }
        let mut running = Points::new(4);
        for trial in 10..12 {
            let found = strategy.ask(&running, &mut test_stream(trial)).unwrap();
            assert!(!visited.contains(&found.unit), "{name} repeats");
            visited.push(found.unit.clone());
            running.push(&found.unit);
        }
        let nothing = strategy.ask(&running, &mut test_stream(12));
        assert_eq!(nothing, Err(StrategyError::Exhausted { n_points: 12 }), "{name}");
        assert!(strategy.ask(&Points::new(4), &mut test_stream(12)).is_ok());
    }
    let mut noisy = RandomSearch::new(Domain::Space(small), Repeats::Allow).unwrap();
    for trial in 0..40 {
        let found = noisy.ask(&Points::new(4), &mut test_stream(trial)).unwrap();
        noisy.tell(&[observed(&found.unit, Some(0.0), found.source)]).unwrap();
    }
}

/// The last of 30 000 points is found, although random draws would hardly hit it.
#[test]
fn the_last_point_is_found_by_enumeration() {
    let wide = space(&[("x", int(1.0, 30_000.0))]);
    let mut search = RandomSearch::new(Domain::Space(wide), Repeats::Avoid).unwrap();
    let unit = |v: u32| [(f64::from(v) - 0.5) / 30_000.0];
    let all: Vec<Observation> = (1..=30_000)
        .filter(|v| *v != 777)
        .map(|v| observed(&unit(v), Some(0.0), Source::Random))
        .collect();
    search.tell(&all).unwrap();
    let found = search.ask(&Points::new(1), &mut test_stream(1)).unwrap();
    assert!((found.unit[0] - unit(777)[0]).abs() < 1e-9);
}

/// The space has a choice of three values, a logarithmic float and an integer, with a different
/// optimum for each choice. After 6 random trials and 30 queries, the median best value of 5 runs
/// is within 0.001 of the optimum for the model-based strategies.
#[test]
fn mixed_spaces_converge() {
    let mixed = space(&[
        ("kind", choices(&["a", "b", "c"])),
        ("rate", float(1e-5, 1.0, true)),
        ("depth", int(1.0, 12.0)),
    ]);
    let value = |unit: &[f64]| {
        let point = mixed.decode(unit);
        let (offset, best_rate, best_depth) = match point.get("kind") {
            Some(Value::Choice(kind)) if kind == "b" => (0.0, -3.0, 7.0),
            Some(Value::Choice(kind)) if kind == "a" => (-1.0, -1.0, 3.0),
            _ => (-2.0, -4.0, 10.0),
        };
        let number = |name: &str| point.get(name).and_then(Value::as_f64).unwrap();
        let (rate, depth) = (number("rate").log10(), number("depth"));
        offset - (rate - best_rate).powi(2) - 0.1 * (depth - best_depth).powi(2)
    };
    let mut regrets = vec![Vec::new(); 3];
    for run in 0..5 {
        let initial = uniform_points(6, mixed.dim(), &mut test_stream(100 + run));
        let mut strategies = model_based(&Domain::Space(mixed.clone()), false);
        for ((_, strategy), regrets) in strategies.iter_mut().zip(&mut regrets) {
            let mut best = f64::NEG_INFINITY;
            for x in initial.rows() {
                let unit = mixed.snap(x);
                let y = value(&unit);
                strategy.tell(&[observed(&unit, Some(y), Source::Initial)]).unwrap();
            }
            for trial in 0..30 {
                let mut stream = test_stream(1000 * run + trial);
                let found = strategy.ask(&Points::new(mixed.dim()), &mut stream).unwrap();
                let y = value(&found.unit);
                best = best.max(y);
                strategy.tell(&[observed(&found.unit, Some(y), found.source)]).unwrap();
            }
            regrets.push(-best);
        }
    }
    for regrets in &mut regrets {
        regrets.sort_by(f64::total_cmp);
        assert!(regrets[2] < 1e-3, "{regrets:?}");
    }
}

/// Sobol search continues the sequence. Both finished and running trials advance the sequence.
#[test]
fn sobol_search_counts_told_and_running_trials() {
    let square = space(&[("x", float(0.0, 1.0, false)), ("y", float(0.0, 1.0, false))]);
    let new = || SobolSearch::new(square.clone(), Repeats::Avoid, Seed::new(SEED)).unwrap();
    let (mut told, fresh) = (new(), new());
    let mut running = Points::new(2);
    for trial in 0..20 {
        let found = told.ask(&Points::new(2), &mut test_stream(trial)).unwrap();
        let same = fresh.ask(&running, &mut test_stream(99)).unwrap();
        assert_eq!(found, same);
        let value = (trial % 3 != 0).then_some(1.0);
        told.tell(&[observed(&found.unit, value, Source::Random)]).unwrap();
        running.push(&found.unit);
    }
}

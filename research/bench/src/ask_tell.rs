//! One step of a study with t finished trials: `ask` for a trial and `tell` its value.

use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;
use fedbo_space::{ParameterSpec, Point};
use fedbo_streams::{Purpose, Seed};
use fedbo_study::{Definition, StrategySpec, Study};
use serde_json::{Value, json};

use crate::measure::{Limits, columns, count, measure, rounded};
use crate::memory::peak_mib;
use crate::scaling::exponent;

/// A search space to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// A box of three dimensions, as in the peers' script.
    Box3,
    /// A box of five dimensions.
    Box5,
    /// A choice of three branches, two shared numbers, and in each branch a choice of two with one
    /// number each, which is a tree of 12 parameters.
    Tree12,
}

/// Finds a strategy by name, among those that have a surrogate and need no old studies.
pub(crate) fn strategy(name: &str) -> Result<StrategySpec, String> {
    let is_meant = |each: &StrategySpec| each.has_surrogate() && !each.requires_old_studies();
    let mut timed = StrategySpec::of_files().into_iter().filter(is_meant);
    let found = timed.find(|each| each.name() == name);
    found.ok_or_else(|| format!("expected {}", StrategySpec::names("or", is_meant)))
}

/// Returns one row per number of trials.
///
/// `seconds` is the *mean* over the steps of one refit interval, so it includes refits; the median
/// is smaller. The interval is a tenth of the trials, but at least 12 steps as in the peers'
/// script.
pub(crate) fn rows(
    strategy: StrategySpec,
    shape: Shape,
    sizes: &[usize],
    limits: &Limits,
) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for &t in sizes {
        let study = study_of(strategy, shape, t)?;
        let steps = Limits {
            min_reps: t.div_ceil(10).max(12),
            max_reps: t.div_ceil(10).max(12),
            ..*limits
        };
        let (timing, _) = measure(&steps, |_| Ok(()), |()| step(&study))?;
        let mut row = columns(json!({
            "peer": "fedbo", "what": strategy.name(), "space": format!("{shape:?}"), "trials": t,
        }));
        row.extend(timing.columns());
        row.insert("median".into(), rounded(timing.median(), 9));
        row.insert("seconds".into(), rounded(timing.mean(), 9));
        rows.push(Value::Object(row));
    }
    Ok(rows)
}

/// Number of timed steps at each size of [`growth`].
const N_STEPS: usize = 40;

/// Returns costs at growing numbers of trials, and the growth exponent of each cost.
///
/// The costs are the mean step time, the longest step time, the time of the first step after the
/// study has been opened, and the peak memory of the process. The best values before and after
/// these steps also have rows, without an exponent.
pub(crate) fn growth(strategy: StrategySpec, largest: usize) -> Result<Vec<Value>> {
    let name = strategy.name();
    let ladder = [100, 200, 500, 1000, 2000, 5000, 10_000, 20_000];
    let curve =
        |what: &str, unit| Curve { what: format!("{name}: {what}"), unit, points: Vec::new() };
    let mut curves = [
        curve("ask and tell, mean", "seconds"),
        curve("ask and tell, longest", "seconds"),
        curve("first ask after opening", "seconds"),
        curve("peak memory", "mib"),
        curve("best of the random points", "value"),
        curve("best of the steps", "value"),
    ];
    for t in ladder.into_iter().filter(|t| *t <= largest) {
        // The last step runs at t trials, so that all 5000 are still modelled at t = 5000.
        let study = study_of(strategy, Shape::Box3, t - N_STEPS - 1)?;
        let best = || study.best()?.and_then(|trial| trial.value()).context("a best value");
        let at_random = best()?;
        let seconds = (0..=N_STEPS)
            .map(|_| {
                let begin = Instant::now();
                step(&study)?;
                Ok(begin.elapsed().as_secs_f64())
            })
            .collect::<Result<Vec<f64>>>()?;
        let (first, steps) = seconds.split_first().context("at least one step")?;
        let mean = steps.iter().sum::<f64>() / count(steps.len());
        let longest = steps.iter().copied().fold(0.0, f64::max);
        let t = u32::try_from(t)?;
        let costs = [mean, longest, *first, peak_mib()?, at_random, best()?];
        for (curve, cost) in curves.iter_mut().zip(costs) {
            curve.points.push((t, cost));
        }
    }
    let mut rows = Vec::new();
    for Curve { what, unit, points } in &curves {
        for (t, value) in points {
            let mut row = columns(json!({ "peer": "fedbo", "what": what, "t": t }));
            row.insert((*unit).into(), rounded(*value, 6));
            rows.push(Value::Object(row));
        }
        if let Some(exponent) = exponent(points).filter(|_| *unit != "value") {
            rows.push(json!({
                "peer": "fedbo", "what": what, "exponent_in": "t", "exponent": rounded(exponent, 2),
            }));
        }
    }
    Ok(rows)
}

/// One cost at growing numbers of trials.
struct Curve {
    what: String,
    /// Name of the cost's column.
    unit: &'static str,
    points: Vec<(u32, f64)>,
}

/// Creates an in-memory study with t finished trials at random points.
fn study_of(strategy: StrategySpec, shape: Shape, t: usize) -> Result<Study> {
    let mut definition = Definition::new("bench").strategy(strategy).seed(1).minimize();
    for (name, parameter) in shape.parameters() {
        definition = definition.parameter(name, parameter);
    }
    let study = Study::in_memory(&definition)?;
    let mut stream = Seed::new(1).stream(Purpose::TEST, u64::try_from(t)?, 0);
    for _ in 0..t {
        let unit: Vec<f64> = (0..study.space().dim()).map(|_| stream.uniform()).collect();
        let trial = study.enqueue(&study.space().decode(&unit))?;
        study.tell(trial.number, value(&trial.point))?;
    }
    Ok(study)
}

fn step(study: &Study) -> Result<u64> {
    let trial = study.ask()?;
    study.tell(trial.number, value(&trial.point))?;
    Ok(trial.number)
}

impl Shape {
    fn parameters(self) -> Vec<(String, ParameterSpec)> {
        let number = || ParameterSpec::float(0.0, 1.0);
        let numbers = |n: usize| (0..n).map(|i| (format!("x{i}"), number())).collect::<Vec<_>>();
        match self {
            Self::Box3 => numbers(3),
            Self::Box5 => numbers(5),
            Self::Tree12 => {
                let mut parameters = numbers(2);
                parameters.push(("root".into(), ParameterSpec::categorical(["a", "b", "c"])));
                for (branch, n) in [("a", 2), ("b", 3), ("c", 1)] {
                    let kind = ParameterSpec::categorical(["left", "right"]).when("root", branch);
                    parameters.push((branch.into(), kind));
                    let inner = (0..n).map(|i| {
                        let side = ["left", "right"][i % 2];
                        (format!("{branch}{i}"), number().when(branch, side))
                    });
                    parameters.extend(inner);
                }
                parameters
            }
        }
    }
}

/// Evaluates the objective function of the peers' script. Each choice counts as a number.
fn value(point: &Point) -> f64 {
    let squares = point.iter().enumerate().map(|(i, (_, value))| {
        let number = value.as_f64().unwrap_or_else(|| count(value.to_string().len()));
        (number - 0.3 * count(i + 1)).powi(2)
    });
    squares.sum::<f64>() + 0.1 * (9.0 * point.number("x0")).cos()
}

//! Counts the trials that a study wastes if part of the space fails. Computes the figures of
//! docs/decisions/0009-studies.md.
//!
//! Branin's function, 30 trials, seeds 0 to 9: median number of failed trials and median regret.
#![expect(clippy::print_stdout, reason = "what an example is for")]

use fedbo_space::ParameterSpec;
use fedbo_study::{Definition, StrategySpec, Study, StudyError};

const OPTIMUM: f64 = 0.397_887;

fn branin(a: f64, b: f64) -> f64 {
    let pi = std::f64::consts::PI;
    let square = b - 5.1 / (4.0 * pi * pi) * a * a + 5.0 / pi * a - 6.0;
    square * square + 10.0 * (1.0 - 1.0 / (8.0 * pi)) * a.cos() + 10.0
}

fn main() -> Result<(), StudyError> {
    for (name, left) in [("a < 2.5 fails", true), ("a > 2.5 fails", false)] {
        for strategy in [StrategySpec::log_ei(), StrategySpec::ts(), StrategySpec::gp_ucb()] {
            let (mut failed, mut regrets) = (Vec::new(), Vec::new());
            for seed in 0..10 {
                let definition = Definition::new("branin")
                    .parameter("a", ParameterSpec::float(-5.0, 10.0))
                    .parameter("b", ParameterSpec::float(0.0, 15.0))
                    .strategy(strategy)
                    .seed(seed)
                    .minimize();
                let study = Study::in_memory(&definition)?;
                let report = study.optimize(30, |point| match point.number("a") {
                    a if (a < 2.5) == left => Err("no value here".to_owned()),
                    a => Ok(branin(a, point.number("b"))),
                })?;
                let best = study.best()?.and_then(|trial| trial.value());
                failed.push(report.n_failed);
                regrets.push(best.map_or(f64::INFINITY, |best| best - OPTIMUM));
            }
            failed.sort_unstable();
            regrets.sort_by(f64::total_cmp);
            println!(
                "{name}, {}: {} to {} failed, median {}; regret {:.1e}",
                strategy.name(),
                failed[0],
                failed[9],
                failed[5],
                regrets[5]
            );
        }
    }
    Ok(())
}

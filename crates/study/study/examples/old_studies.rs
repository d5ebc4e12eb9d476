//! Measures the benefit of old studies by number of trials: the table in docs/old-studies.md.
//!
//! Three old studies of 20 trials each, one of them with the opposite sign, and a new study. Seeds
//! 0 to 11 for the plain function, 0 to 7 for the one with ripples. Prints one line per strategy:
//! the geometric mean of the best value after the given numbers of trials, and in brackets the
//! number of seeds with a value below the one without old studies.
#![expect(clippy::print_stdout, reason = "what an example is for")]

use fedbo_space::{ParameterSpec, Point};
use fedbo_strategies::UcbMultiplier;
use fedbo_strategies::meta::RmGpUcbOptions;
use fedbo_study::{Definition, OldStudy, StrategySpec, Study, StudyError};

/// The objective of a season: its centre along x, its sign, and whether it has ripples.
#[derive(Clone, Copy)]
struct SeasonObjective {
    centre: f64,
    sign: f64,
    has_ripples: bool,
}

impl SeasonObjective {
    fn loss(self, point: &Point) -> f64 {
        let (dx, dy) = (point.number("x") - self.centre, point.number("y") - 0.3);
        let plain = match self.has_ripples {
            false => dx.powi(2) + dy.powi(2),
            true => {
                dx.powi(2) / 2.25 + dy.powi(2) + 0.15 * (2.0 - (7.0 * dx).cos() - (9.0 * dy).cos())
            }
        };
        match self.sign < 0.0 {
            false => self.sign * plain,
            true => 3.0 + self.sign * plain,
        }
    }
}

fn plain(seed: u64) -> Definition {
    Definition::new("season")
        .parameter("x", ParameterSpec::float(-1.0, 2.0))
        .parameter("y", ParameterSpec::float(0.0, 1.0))
        .minimize()
        .seed(seed)
}

/// Returns the best value after each trial.
fn course(
    definition: &Definition,
    season: SeasonObjective,
    n_trials: u64,
) -> Result<Vec<f64>, StudyError> {
    let study = Study::in_memory(definition)?;
    study.optimize(n_trials, |point| Ok(season.loss(point)))?;
    let mut best = f64::INFINITY;
    let values = study.trials()?.into_iter().filter_map(|trial| trial.value());
    Ok(values
        .map(|value| {
            best = best.min(value);
            best
        })
        .collect())
}

fn old_studies(seed: u64, has_ripples: bool) -> Result<Vec<OldStudy>, StudyError> {
    [("spring", 0.55, 1.0), ("summer", 0.45, 1.1), ("winter", 0.5, -1.0)]
        .into_iter()
        .map(|(name, centre, sign)| {
            let season = SeasonObjective { centre, sign, has_ripples };
            let study = Study::in_memory(&plain(seed))?;
            study.optimize(20, |point| Ok(season.loss(point)))?;
            let trials = study.trials()?.into_iter();
            let values = trials.filter_map(|trial| Some((trial.point.clone(), trial.value()?)));
            Ok(OldStudy::new(name, values)?)
        })
        .collect()
}

fn main() -> Result<(), StudyError> {
    let autumn = |has_ripples| SeasonObjective { centre: 0.5, sign: 1.0, has_ripples };
    let wide =
        StrategySpec::RmGpUcb(RmGpUcbOptions { ucb_multiplier: UcbMultiplier::Constant(2.0) });
    for (has_ripples, n_seeds, after) in [(false, 12, [3, 5, 10]), (true, 8, [5, 10, 25])] {
        println!("ripples: {has_ripples}; best value after {after:?} trials");
        let n_trials = after[2] as u64;
        let mut without: Vec<Vec<f64>> = Vec::new();
        for arm in [
            "no [meta], log-ei",
            "rm-gp-ucb",
            "rm-gp-ucb, ucb_multiplier = 2",
            "log-ei, warm_start = 3",
            "shared-prior",
        ] {
            let mut courses = Vec::new();
            for seed in 0..n_seeds {
                let learning = || -> Result<Definition, StudyError> {
                    let studies = old_studies(seed, has_ripples)?;
                    Ok(studies.into_iter().fold(plain(seed), Definition::learn_from))
                };
                let definition = match arm {
                    "rm-gp-ucb" => learning()?,
                    "rm-gp-ucb, ucb_multiplier = 2" => learning()?.strategy(wide),
                    "shared-prior" => learning()?.strategy(StrategySpec::shared_prior()),
                    "log-ei, warm_start = 3" => {
                        let n_initial = plain(seed).n_initial;
                        let definition = learning()?.warm_start(3).strategy(StrategySpec::log_ei());
                        definition.initial(n_initial)
                    }
                    _ => plain(seed),
                };
                courses.push(course(&definition, autumn(has_ripples), n_trials)?);
            }
            if without.is_empty() {
                without = courses.clone();
            }
            print!("{arm:>32}:");
            for n in after {
                let mean =
                    courses.iter().map(|best| best[n - 1].ln()).sum::<f64>() / courses.len() as f64;
                let n_better =
                    courses.iter().zip(&without).filter(|(ours, lone)| ours[n - 1] < lone[n - 1]);
                print!("  {:.2e} ({})", mean.exp(), n_better.count());
            }
            println!();
        }
    }
    Ok(())
}

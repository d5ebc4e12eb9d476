//! A custom strategy in one file: `cargo run --package fedbo --example own_strategy`.
//!
//! Logarithm of the probability of improvement (Kushner 1964), with fedbo's surrogate and
//! maximizer.
#![expect(clippy::print_stdout, reason = "what an example is for")]

use fedbo::prelude::*;
use fedbo::strategy::{Acquisition, Observation, Points, Proposal, Proposer, Score, StrategyError};

/// Queries the point with the highest probability of improving on the best value by a margin.
#[derive(Clone)]
struct ProbabilityOfImprovement {
    proposer: Proposer,
    /// Minimum improvement, in the surrogate's units: standard deviations of the values.
    margin: f64,
}

impl Strategy for ProbabilityOfImprovement {
    /// Maximizes z = (μ − f* − margin)/σ, which has the same maximizer as Φ(z) because Φ is
    /// increasing.
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let posterior = self.proposer.surrogate().posterior();
        let best = posterior.outputs().iter().copied().fold(0.0, f64::max);
        let predictor = posterior.predictor();
        let target = best + self.margin;
        let score = |mean: f64, std: f64| {
            let std = std.max(1e-9);
            let z = (mean - target) / std;
            Score { value: z, d_mean: 1.0 / std, d_std: -z / std }
        };
        let acquisition = Acquisition::new(&predictor, score);
        self.proposer.propose_acquisition(&acquisition, pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.proposer.tell(observed)
    }
}

fn main() -> Result<(), StudyError> {
    let definition = Definition::new("own")
        .parameter("x", ParameterSpec::float(-1.0, 2.0))
        .parameter("n", ParameterSpec::int(1, 9))
        .strategy(StrategySpec::own())
        .minimize();
    let strategy = ProbabilityOfImprovement {
        proposer: Proposer::for_study(&definition.space()?, false, Seed::new(7))?,
        margin: 0.02,
    };
    let study = Study::in_memory(&definition)?.with_strategy(strategy)?;
    study.optimize(25, |point| {
        Ok((point.number("x") - 0.5).powi(2) + (point.number("n") - 4.0).powi(2) / 10.0)
    })?;
    if let Some(best) = study.best()? {
        let (x, n) = (best.point.number("x"), best.point.number("n"));
        println!("best: x = {x:.4}, n = {n}, by trial {}", best.number);
    }
    Ok(())
}

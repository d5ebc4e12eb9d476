//! The plainest use of earlier tasks: their best points are tried first.

use fedbo_optim::Points;
use fedbo_streams::Stream;

use super::{MetaTask, Transfer};
use crate::{Observation, Proposal, Source, Strategy, StrategyError, Surrogate};

/// The best observed point of each meta-task, then another strategy. A check of what more elaborate rules are worth.
pub struct WarmStart {
    then: Box<dyn Strategy>,
    first: Points,
    n_told: usize,
}

impl WarmStart {
    /// The tasks' best points in the order of tasks, each point once.
    ///
    /// # Panics
    /// If tasks have different dimensions.
    pub fn new(tasks: &[MetaTask], dim: usize, then: Box<dyn Strategy>) -> Self {
        let mut first = Points::new(dim);
        for task in tasks {
            let best = (0..task.outputs.len())
                .filter(|index| task.outputs[*index].is_finite())
                .max_by(|a, b| task.outputs[*a].total_cmp(&task.outputs[*b]));
            if let Some(best) = best.map(|index| task.inputs.row(index))
                && first.rows().all(|known| known != best)
            {
                first.push(best);
            }
        }
        Self {
            then,
            first,
            n_told: 0,
        }
    }
}

impl Strategy for WarmStart {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let next = self.n_told + pending.len();
        if next < self.first.len() {
            return Ok(Proposal {
                unit: self.first.row(next).to_vec(),
                source: Source::MetaTasks,
            });
        }
        self.then.ask(pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.then.tell(observed)?;
        let queries = observed.iter().filter(|o| o.source != Source::Initial);
        self.n_told += queries.count();
        Ok(())
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        self.then.surrogate()
    }

    fn transfer(&self) -> Option<Transfer> {
        self.then.transfer()
    }
}

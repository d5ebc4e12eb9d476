//! The simplest use of earlier tasks: trying their best points first.

use fedbo_optim::Points;
use fedbo_streams::Stream;

use super::{MetaTask, Transfer};
use crate::{Observation, Proposal, Source, Strategy, StrategyError, Surrogate};

/// Queries the best observed point of each meta-task, then switches to a different strategy. A
/// baseline for more elaborate rules.
pub struct WarmStart {
    then: Box<dyn Strategy>,
    first: Points,
    n_told: usize,
}

impl WarmStart {
    /// Creates a strategy that first queries the tasks' best points, in task order and without
    /// duplicates.
    ///
    /// # Panics
    /// If the tasks have different dimensions.
    pub fn new(tasks: &[MetaTask], dim: usize, then: Box<dyn Strategy>) -> Self {
        let mut first = Points::new(dim);
        add_round(tasks, 0, tasks.len(), &mut first);
        Self { then, first, n_told: 0 }
    }

    /// Returns the best `n_points` points of the given tasks, without duplicates: the best point of
    /// each task in task order, then the second best points, and so on. Returns fewer if there are
    /// not enough.
    ///
    /// # Panics
    /// If the tasks have different dimensions.
    pub fn best_points(tasks: &[MetaTask], dim: usize, n_points: usize) -> Points {
        let longest = tasks.iter().map(|task| task.outputs.len()).max();
        let mut points = Points::new(dim);
        for rank in 0..longest.unwrap_or(0) {
            if points.len() >= n_points {
                break;
            }
            add_round(tasks, rank, n_points, &mut points);
        }
        points
    }
}

/// Adds each task's point at this rank (0 for the best), in task order and without duplicates, up
/// to `n_max` points.
fn add_round(tasks: &[MetaTask], rank: usize, n_max: usize, points: &mut Points) {
    for task in tasks {
        let mut order: Vec<usize> =
            (0..task.outputs.len()).filter(|index| task.outputs[*index].is_finite()).collect();
        // Among equal outputs, the latest one comes first.
        order.sort_by(|a, b| (task.outputs[*b].total_cmp(&task.outputs[*a])).then(b.cmp(a)));
        if let Some(index) = order.get(rank)
            && points.len() < n_max
            && points.rows().all(|known| known != task.inputs.row(*index))
        {
            points.push(task.inputs.row(*index));
        }
    }
}

impl Strategy for WarmStart {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let next = self.n_told + pending.len();
        if next < self.first.len() {
            return Ok(Proposal { unit: self.first.row(next).to_vec(), source: Source::MetaTasks });
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

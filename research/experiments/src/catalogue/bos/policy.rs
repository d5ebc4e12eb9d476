//! Search for a linear policy of a swimmer by discounted returns (thesis 4.5.3.1, A.4.3, Fig. 4.3a).

use std::sync::atomic::AtomicBool;

use fedbo_problems::Swimmer;
use fedbo_report::{Metric, Scale};
use fedbo_strategies::early_stopping::BosSettings;

use super::super::{ExperimentResult, Progress, RunOptions};
use super::arms::{Arm, BO_BOS, GP_UCB, Method, Modelling, SCHEDULE_B};
use super::{Configuration, Plan};

pub(in super::super) const DEFAULT_RUNS: u32 = 10;

/// Whole episodes that a run may spend.
const N_EPISODES: usize = 60;

const ARMS: [Arm; 5] = [
    (GP_UCB, Method::GpUcb),
    (BO_BOS, Method::BoBos(SCHEDULE_B)),
    ("hyperband", Method::Hyperband),
    ("median gp", Method::MedianGp),
    ("dealt stops", Method::DealtStops(SCHEDULE_B)),
];

pub(in super::super) fn run(
    options: &RunOptions,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> anyhow::Result<ExperimentResult> {
    let configuration = |n_epochs: usize, discount: f64| {
        let problem = Swimmer::new(n_epochs, discount)?;
        let returns = problem.clone();
        anyhow::Ok(Configuration {
            name: format!("N = {n_epochs}, discount {discount}"),
            problem: Box::new(problem),
            optimum: None,
            arms: ARMS.to_vec(),
            modelling: Modelling::Ours,
            n_initial: 6,
            budget: N_EPISODES * n_epochs,
            bos: BosSettings::for_epochs(n_epochs),
            // What counts is the return itself; discounted ones are for the search alone.
            shown: Some(Box::new(move |point, run| {
                returns.returns(point, run).ok().map(|found| found.undiscounted)
            })),
        })
    };
    let plan = Plan {
        name: "bos-policy",
        title: "A swimmer's linear policy: best return of a whole episode".into(),
        y_label: "best undiscounted return".into(),
        value_label: "discounted return",
        scale: Scale::Linear,
        metric: Metric::Best,
        checkpoints: vec![1000, 2000],
        configurations: vec![
            configuration(50, 0.9)?,
            configuration(50, 0.75)?,
            configuration(50, 1.0)?,
            configuration(100, 0.9)?,
        ],
        replays: false,
        notes: vec!["With N = 100 an epoch has 10 steps of the swimmer, else 20.".into()],
    };
    plan.run(options, options.runs.unwrap_or(DEFAULT_RUNS), progress, stop)
}

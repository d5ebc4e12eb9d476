//! Hyperparameters of logistic regression on images (thesis 4.5.1, A.4.1, Fig. 4.1).

use std::sync::atomic::AtomicBool;

use fedbo_algorithms::early_stopping::{BosSettings, ValueBounds};
use fedbo_problems::ImageLogistic;
use fedbo_report::{Metric, Scale};

use super::super::{Finding, Progress, RunOptions};
use super::{Configuration, Plan, arms};

pub(in super::super) const DEFAULT_RUNS: u32 = 20;

/// Epochs that a run may spend; the thesis shows 2,500.
const BUDGET: usize = 2000;

pub(in super::super) fn run(
    options: &RunOptions,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> anyhow::Result<Finding> {
    let problem = ImageLogistic::new();
    let plan = Plan {
        name: "bos-logistic",
        title: "Logistic regression on images: best validation error".into(),
        y_label: "best validation error".into(),
        scale: Scale::Linear,
        metric: Metric::Best,
        checkpoints: vec![500, 1000, 1500],
        configurations: vec![Configuration {
            name: "bos-logistic".into(),
            problem: Box::new(problem),
            optimum: None,
            arms: arms::ALL.to_vec(),
            n_initial: 6,
            budget: BUDGET,
            bos: BosSettings {
                // Errors are minimized, so values are their negatives.
                bounds: ValueBounds {
                    low: -1.0,
                    high: 0.0,
                },
                ..BosSettings::for_epochs(50)
            },
            shown: None,
        }],
        replays: true,
        notes: vec![
            "The authors' figures on MNIST, read off Fig. 4.1: GP-UCB .0811 at 500 epochs and .0752 at 1,000, BO-BOS .0768 and .0734."
                .into(),
        ],
    };
    plan.run(
        options,
        options.runs.unwrap_or(DEFAULT_RUNS),
        progress,
        stop,
    )
}

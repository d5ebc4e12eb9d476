//! Hyperparameters of gradient boosting together with forward feature selection (thesis 4.5.3.2, A.4.4, Fig. 4.3b).

use fedbo_problems::{FeatureSelection, TrainingProblem};
use fedbo_report::{Metric, Scale};
use fedbo_strategies::early_stopping::{BosSettings, ValueBounds};

use super::super::{Call, ExperimentResult};
use super::arms::{Arm, GP_UCB, Method, Modelling};
use super::{Configuration, Plan};

/// K_1 grows more slowly here (thesis 4.5.3.2).
const SCHEDULE: f64 = 0.99;

const ARMS: [Arm; 6] = [
    (GP_UCB, Method::GpUcb),
    ("bo-bos c", Method::BoBos(SCHEDULE)),
    ("hyperband", Method::Hyperband),
    ("asha gp", Method::AshaGp),
    ("median gp", Method::MedianGp),
    ("dealt stops", Method::DealtStops(SCHEDULE)),
];

pub(in super::super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let problem = FeatureSelection::new();
    let n_epochs = problem.n_epochs();
    let plan = Plan {
        name: "bos-features",
        title: "Boosting with forward feature selection: best validation error".into(),
        y_label: "best validation error".into(),
        value_label: "validation error",
        scale: Scale::Linear,
        metric: Metric::Best,
        checkpoints: vec![i64::try_from(10 * n_epochs)?, i64::try_from(20 * n_epochs)?],
        configurations: vec![Configuration {
            name: "bos-features".into(),
            problem: Box::new(problem),
            optimum: None,
            arms: ARMS.to_vec(),
            modelling: Modelling::Ours,
            n_initial: 6,
            budget: 20 * n_epochs,
            bos: BosSettings::for_epochs(n_epochs).with_bounds(ValueBounds::NEGATIVE_ERRORS),
            shown: None,
        }],
        replays: true,
        notes: Vec::new(),
    };
    plan.run(call)
}

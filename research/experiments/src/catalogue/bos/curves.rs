//! Synthetic learning curves with known final values.

use fedbo_report::{Metric, Scale};
use fedbo_research_problems::{CurveFamily, LearningCurves, TrainingProblem};
use fedbo_strategies::early_stopping::{BosSettings, ValueBounds};

use super::super::{Call, ExperimentResult};
use super::arms::{Arm, BO_BOS, GP_UCB, Method, Modelling, SCHEDULE_B};
use super::{Configuration, Plan};

const ARMS: [Arm; 12] = [
    (GP_UCB, Method::GpUcb),
    (BO_BOS, Method::BoBos(SCHEDULE_B)),
    ("bo-bos d", Method::BoBos(1.0)),
    ("bo-bos update", Method::BoBosUpdate),
    ("hyperband", Method::Hyperband),
    ("asha", Method::Asha),
    ("asha gp", Method::AshaGp),
    ("median gp", Method::MedianGp),
    ("boca", Method::Boca),
    ("lc prediction", Method::Prediction),
    ("gp-ucb epochs", Method::EpochGpUcb),
    ("dealt stops", Method::DealtStops(SCHEDULE_B)),
];

pub(in super::super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let configuration = |family: CurveFamily| {
        let problem = LearningCurves::new(family);
        Configuration {
            name: family.name().to_owned(),
            optimum: Some(problem.optimum()),
            bos: BosSettings::for_epochs(problem.n_epochs())
                .with_bounds(ValueBounds::NEGATIVE_ERRORS),
            problem: Box::new(problem),
            arms: ARMS.to_vec(),
            modelling: Modelling::Ours,
            n_initial: 6,
            budget: 1500,
            shown: None,
        }
    };
    let plan = Plan {
        name: "bos-curves",
        title: "Synthetic learning curves: regret of the best error".into(),
        y_label: "simple regret".into(),
        value_label: "error",
        scale: Scale::Log,
        metric: Metric::Regret,
        checkpoints: vec![500, 1000, 1500],
        configurations: CurveFamily::ALL.map(configuration).into_iter().collect(),
        replays: true,
        notes: Vec::new(),
    };
    plan.run(call)
}

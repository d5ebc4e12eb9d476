//! Hyperparameters of logistic regression on images (thesis 4.5.1, A.4.1, Fig. 4.1).

use fedbo_report::{Metric, Scale};
use fedbo_research_problems::{ImageLogistic, Steps};
use fedbo_strategies::early_stopping::{BosSettings, ValueBounds};

use super::super::{Call, ExperimentResult};
use super::arms::{Arm, BO_BOS, GP_UCB, Method, Modelling, SCHEDULE_B};
use super::{Configuration, Plan};

/// Fig. 4.1: four schedules of K_1, with rivals and a placebo.
const SCHEDULES: [Arm; 12] = [
    (GP_UCB, Method::GpUcb),
    ("bo-bos a", Method::BoBos(0.89)),
    (BO_BOS, Method::BoBos(SCHEDULE_B)),
    ("bo-bos c", Method::BoBos(0.99)),
    ("bo-bos d", Method::BoBos(1.0)),
    ("bo-bos authors", Method::BoBosAuthors),
    ("hyperband", Method::Hyperband),
    ("asha", Method::Asha),
    ("median gp", Method::MedianGp),
    ("dealt stops", Method::DealtStops(SCHEDULE_B)),
    ("boca", Method::Boca),
    ("lc prediction", Method::Prediction),
];

/// The arms run with fedbo's own models.
const KEPT: [Arm; 5] = [
    (GP_UCB, Method::GpUcb),
    (BO_BOS, Method::BoBos(SCHEDULE_B)),
    ("gp-ucb epochs", Method::EpochGpUcb),
    ("median gp", Method::MedianGp),
    ("dealt stops", Method::DealtStops(SCHEDULE_B)),
];

/// The arms run with fedbo's own models and a logarithmic search of hyperparameters: all rivals.
const RIVALS: [Arm; 13] = [
    (GP_UCB, Method::GpUcb),
    (BO_BOS, Method::BoBos(SCHEDULE_B)),
    ("bo-bos d", Method::BoBos(1.0)),
    ("bo-bos b one process", Method::BoBosOneProcess(SCHEDULE_B)),
    ("bo-bos b linear", Method::BoBosLinear(SCHEDULE_B)),
    ("random", Method::Random),
    ("hyperband", Method::Hyperband),
    ("asha", Method::Asha),
    ("median gp", Method::MedianGp),
    ("boca", Method::Boca),
    ("lc prediction", Method::Prediction),
    ("gp-ucb epochs", Method::EpochGpUcb),
    ("dealt stops", Method::DealtStops(SCHEDULE_B)),
];

pub(in super::super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let configuration = |name: &str, steps, modelling, arms: &[Arm], budget| Configuration {
        name: name.to_owned(),
        problem: Box::new(ImageLogistic::new(steps)),
        optimum: None,
        arms: arms.to_vec(),
        modelling,
        n_initial: 6,
        budget,
        bos: BosSettings::for_epochs(50).with_bounds(ValueBounds::NEGATIVE_ERRORS),
        shown: None,
    };
    let plan = Plan {
        name: "bos-logistic",
        title: "Logistic regression on images: best validation error".into(),
        y_label: "best validation error".into(),
        value_label: "validation error",
        scale: Scale::Log,
        metric: Metric::Best,
        checkpoints: vec![500, 700, 1000, 1500, 2500],
        configurations: vec![
            configuration(
                "as in the paper",
                Steps::Linear,
                Modelling::Paper,
                &SCHEDULES,
                2500,
            ),
            configuration("our models", Steps::Linear, Modelling::Ours, &KEPT, 1500),
            configuration(
                "our models, logarithms",
                Steps::Logarithmic,
                Modelling::Ours,
                &RIVALS,
                1500,
            ),
        ],
        replays: true,
        notes: vec![
            "The authors' figures on MNIST, read off Fig. 4.1: GP-UCB .0811 at 500 epochs and .0752 at 1,000, BO-BOS .0768 and .0734."
                .into(),
        ],
    };
    plan.run(call)
}

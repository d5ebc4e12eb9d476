//! Hyperparameters of gradient boosting combined with forward feature selection (thesis 4.5.3.2,
//! A.4.4, Fig. 4.3b).

use fedbo_report::{Metric, Scale};
use fedbo_research_problems::{FeatureSelection, TrainingProblem as _, read_emails};
use fedbo_strategies::early_stopping::{BosSettings, ValueBounds};

use super::super::{Call, ExperimentResult};
use super::arms::{Arm, GP_UCB, Method, Modelling};
use super::{Configuration, Plan};

/// Schedule of K_1, which grows more slowly here (thesis 4.5.3.2).
const SCHEDULE: f64 = 0.99;

const ARMS: [Arm; 6] = [
    (GP_UCB, Method::GpUcb),
    ("bo-bos c", Method::BoBos(SCHEDULE)),
    ("hyperband", Method::Hyperband),
    ("asha gp", Method::AshaGp),
    ("median gp", Method::MedianGp),
    ("dealt stops", Method::DealtStops(SCHEDULE)),
];

/// Arms of the runs on e-mails, which take longer to train. ASHA is omitted: its many starts would
/// have to be trained to the end to identify wrong stops.
const ARMS_EMAILS: [Arm; 5] = [ARMS[0], ARMS[1], ARMS[2], ARMS[4], ARMS[5]];

/// Runs on images instead of the thesis' e-mails, so that no data folder is needed.
pub(in super::super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    plan("bos-features", FeatureSelection::digits(), &ARMS)?.run(call)
}

/// Runs on the thesis' e-mails.
pub(in super::super) fn run_emails(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let emails = read_emails(call.data_folder()?)?;
    plan("bos-spam", FeatureSelection::emails(&emails)?, &ARMS_EMAILS)?.run(call)
}

fn plan(name: &'static str, problem: FeatureSelection, arms: &[Arm]) -> anyhow::Result<Plan> {
    let n_epochs = problem.n_epochs();
    Ok(Plan {
        name,
        title: "Boosting with forward feature selection: best validation error".into(),
        y_label: "best validation error".into(),
        value_label: "validation error",
        scale: Scale::Linear,
        metric: Metric::Best,
        checkpoints: vec![i64::try_from(10 * n_epochs)?, i64::try_from(20 * n_epochs)?],
        configurations: vec![Configuration {
            name: name.into(),
            problem: Box::new(problem),
            optimum: None,
            arms: arms.to_vec(),
            modelling: Modelling::Ours,
            n_initial: 6,
            budget: 20 * n_epochs,
            bos: BosSettings::for_epochs(n_epochs).with_bounds(ValueBounds::NEGATIVE_ERRORS),
            shown: None,
        }],
        replays: true,
        notes: Vec::new(),
    })
}

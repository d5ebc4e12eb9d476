//! Compares the values that a study's model is told at the end of a stopped trial: nothing, the
//! mean of the predicted curves, or the last value.

use fedbo_report::{Metric, Scale};
use fedbo_research_problems::{CurveFamily, ImageLogistic, LearningCurves, Steps, TrainingProblem};
use fedbo_strategies::early_stopping::{BosSettings, ValueBounds};

use super::super::{Call, ExperimentResult};
use super::arms::{Arm, GP_UCB, Method, Modelling, ToldEnd};
use super::{Configuration, Plan};

const ARMS: [Arm; 4] = [
    (GP_UCB, Method::GpUcb),
    ("reports only", Method::BoBosOfStudy(ToldEnd::Nothing)),
    ("expected end", Method::BoBosOfStudy(ToldEnd::Expected)),
    ("last value", Method::BoBosOfStudy(ToldEnd::Last)),
];

pub(in super::super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let configuration = |name: &str, problem: Box<dyn TrainingProblem>| Configuration {
        name: name.to_owned(),
        optimum: None,
        bos: BosSettings::for_epochs(problem.n_epochs()).with_bounds(ValueBounds::NEGATIVE_ERRORS),
        problem,
        arms: ARMS.to_vec(),
        modelling: Modelling::Ours,
        n_initial: 6,
        budget: 1500,
        shown: None,
    };
    let logistic = ImageLogistic::new(Steps::Logarithmic);
    let mut configurations = vec![configuration("logistic", Box::new(logistic))];
    configurations.extend(
        CurveFamily::ALL
            .map(|family| configuration(family.name(), Box::new(LearningCurves::new(family)))),
    );
    let plan = Plan {
        name: "bos-ends",
        title: "What the model is told of a stopped trial's end: best error".into(),
        y_label: "best error".into(),
        value_label: "error",
        scale: Scale::Log,
        metric: Metric::Best,
        checkpoints: vec![500, 1000, 1500],
        configurations,
        replays: false,
        notes: Vec::new(),
    };
    plan.run(call)
}

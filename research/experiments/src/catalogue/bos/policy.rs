//! Search for a linear policy of a swimmer by discounted returns (thesis 4.5.3.1, A.4.3, Fig. 4.3a,
//! A.5).

use std::path::Path;

use anyhow::Context as _;
use fedbo_report::{CurveEnd, LearningCurveLine, LearningCurvesPicture, Metric, Scale};
use fedbo_research_problems::{Swimmer, TrainingProblem as _};
use fedbo_strategies::early_stopping::BosSettings;
use fedbo_streams::Seed;
use rayon::prelude::*;

use super::super::markdown::MarkdownTable;
use super::super::meta::similarity::{correlation, mean};
use super::super::{Call, ExperimentResult};
use super::arms::{Arm, BO_BOS, GP_UCB, Method, Modelling, SCHEDULE_B};
use super::{Configuration, Plan};
use fedbo_runner::Ended;

/// Budget of a run in complete episodes.
const N_EPISODES: usize = 60;

const ARMS: [Arm; 5] = [
    (GP_UCB, Method::GpUcb),
    (BO_BOS, Method::BoBos(SCHEDULE_B)),
    ("hyperband", Method::Hyperband),
    ("median gp", Method::MedianGp),
    ("dealt stops", Method::DealtStops(SCHEDULE_B)),
];

pub(in super::super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
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
            // The final criterion is the undiscounted return. Discounted returns only guide the
            // search.
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
    let mut result = plan.run(call)?;
    if result.ended == Ended::Complete {
        result.notes.push(example_returns(&call.options.out, call.seed())?);
    }
    Ok(result)
}

/// Number of random policies in Fig. A.5. The first [`N_DRAWN`] of them are drawn as curves.
const N_POLICIES: u64 = 200;
const N_DRAWN: u64 = 8;
/// N, and the rule's N_0.
const N_EPOCHS: usize = 50;
const FIRST_EPOCHS: usize = 8;

/// Reproduces Fig. A.5: the returns of the same random policies after each epoch, with and without
/// discount.
///
/// Writes figures of some of them into one folder per discount. The returned table describes, for
/// all policies, the shape of a curve and how well its start predicts its end.
fn example_returns(out: &Path, seed: Seed) -> anyhow::Result<String> {
    let title = format!(
        "Fig. A.5: returns of {N_POLICIES} random policies after each of {N_EPOCHS} epochs (curves of {N_DRAWN} in the folders returns-*)"
    );
    let heads = [
        format!("share of the end reached after {FIRST_EPOCHS} epochs"),
        "correlation of value and epoch along a curve".to_owned(),
        format!(
            "correlation over policies of the values after {FIRST_EPOCHS} and {N_EPOCHS} epochs"
        ),
    ];
    let mut table = MarkdownTable::new(title, "discount", heads);
    for (discount, folder) in [(1.0, "returns-undiscounted"), (0.9, "returns-discounted")] {
        let problem = Swimmer::new(N_EPOCHS, discount)?;
        let curve = |policy: u64| {
            let mut stream = seed.stream(fedbo_study::SENSITIVITY, policy, 0);
            let unit = problem.space().parameters().iter().map(|_| stream.uniform());
            problem.curve(&problem.space().decode(&unit.collect::<Vec<f64>>()), 0)
        };
        let curves: Vec<_> = (0..N_POLICIES).into_par_iter().map(curve).collect();
        let curves: Vec<Vec<f64>> = curves.into_iter().collect::<Result<_, _>>()?;
        let at = |epoch: usize| curves.iter().map(|curve| curve[epoch - 1]).collect::<Vec<f64>>();
        let (first, end) = (at(FIRST_EPOCHS), at(N_EPOCHS));
        let shares: Vec<f64> = first.iter().zip(&end).map(|(first, end)| first / end).collect();
        let epochs: Vec<f64> = (1..=N_EPOCHS).map(|epoch| epoch as f64).collect();
        let straight: Vec<f64> = curves.iter().map(|curve| correlation(curve, &epochs)).collect();
        let correlations = [mean(&straight), correlation(&first, &end)].map(|r| format!("{r:.3}"));
        let share = format!("{:.2}", mean(&shares));
        table.row(discount, [share].into_iter().chain(correlations));
        let lines = (0..N_DRAWN).zip(&curves).map(|(trial, curve)| LearningCurveLine {
            trial,
            values: (1..).zip(curve.iter().copied()).collect(),
            ended: CurveEnd::Complete,
            rest: Vec::new(),
        });
        let folder = out.join(folder);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        LearningCurvesPicture {
            title: format!("Random policies of the swimmer, discount {discount}"),
            y_label: "return, a share of the largest".into(),
            n_epochs: u32::try_from(N_EPOCHS)?,
            direction: problem.direction(),
            scale: Some(Scale::Linear),
            lines: lines.collect(),
        }
        .write(&folder)?;
    }
    Ok(table.into_text())
}

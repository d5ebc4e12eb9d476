//! An SVM on one landmine field, helped by searches on the 28 others: many earlier tasks, some of
//! which are misleading (Fig. 7.2d).

use std::sync::Arc;

use fedbo_report::{Clusters, Metric, task_weight_table};
use fedbo_research_problems::{LandmineGrid, Problem, read_landmine_grids};
use fedbo_strategies::meta::MetaTask;
use fedbo_strategies::{Domain, Points};
use fedbo_streams::{Purpose, Seed};

use super::super::{Call, ExperimentResult};
use super::arms::{LEARNED, Rule, arms};
use super::measure::{Declaration, Naming, measure, seconds_note};
use super::run_setting::{N_META_OBS, RunSetting};

/// Together with five initial points, this is the maximum that PEM-BO supports with 28 tasks.
const N_QUERIES: u64 = 20;

pub(in super::super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let runs = call.runs();
    let folder = call.data_folder()?;
    let fields: Vec<Arc<LandmineGrid>> =
        read_landmine_grids(folder)?.into_iter().map(Arc::new).collect();
    let mut points = Points::new(2);
    for point in fields[0].points() {
        points.push(point);
    }
    let domain = Domain::Finite(Arc::new(points));
    let seed = call.seed();
    let mut order: Vec<usize> = (0..fields.len()).collect();
    seed.stream(Purpose::PROBLEM, 0, 0).shuffle(&mut order);
    let occasions: Vec<RunSetting> = (0..runs)
        .zip(order.into_iter().cycle())
        .map(|(run, field)| {
            let seed = seed.child(Purpose::RUN, u64::from(run));
            let others = || (0..).zip(&fields).filter(|(other, _)| *other != field);
            RunSetting {
                configuration: "meta-svm-landmine".to_owned(),
                run,
                target: Arc::clone(&fields[field]) as Arc<dyn Problem>,
                domain: domain.clone(),
                tasks: others().map(|(n, grid)| some_points(n, grid, &seed)).collect(),
                tables: others().map(|(_, grid)| grid.aucs().to_vec()).collect(),
                seed,
            }
        })
        .collect();
    let declaration = Declaration {
        name: "meta-svm-landmine",
        title: "An SVM on each landmine field, 88 settings; 50 values from each of the 28 others",
        y_label: "simple regret (AUC)",
        metric: Metric::Regret,
        n_queries: N_QUERIES,
        clusters: Clusters::Designs(u32::try_from(fields.len())?),
        arms: arms(&[("pem-bo", Rule::PemBo)]),
        weighing: vec![LEARNED, "rgpe", "taf"],
        naming: Naming::Ranks,
    };
    let measured = measure(&declaration, &occasions.into(), call)?;
    let notes = vec![
        "Runs use the fields as targets in turn, in random order; runs of one field are averaged before errors are computed. \
         Each earlier task has 50 random points of the 88. Only PEM-BO sees every earlier task at all 88, which it needs."
            .to_owned(),
        format!(
            "Mean weights of the three tasks that have the largest weights at the end\n\n{}",
            task_weight_table(&measured.weights, &[1, 2, 5, 10, 20])
        ),
        "The thesis uses another table of SVMs (50 data sets, 288 settings; Fig. 7.2d): RM-GP-UCB is comparable with RGPE, and \
         ahead of GP-UCB, TAF and PEM-BO."
            .to_owned(),
        seconds_note(&measured.rows),
    ];
    Ok(ExperimentResult { notes, ..measured.concluded })
}

/// Returns the observations of field `number`, which are its values at random points of the grid.
fn some_points(number: usize, grid: &LandmineGrid, seed: &Seed) -> MetaTask {
    let mut order: Vec<usize> = (0..grid.points().len()).collect();
    let mut stream = seed.stream(Purpose::HISTORY, number as u64, 0);
    stream.shuffle(&mut order);
    let mut inputs = Points::new(2);
    let mut outputs = Vec::new();
    for index in order.into_iter().take(N_META_OBS) {
        inputs.push(&grid.points()[index]);
        outputs.push(grid.aucs()[index]);
    }
    MetaTask { name: format!("field {number}"), inputs, outputs }
}

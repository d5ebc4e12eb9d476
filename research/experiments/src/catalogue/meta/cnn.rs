//! A CNN's learning rate, decay and L2 penalty on four image data sets, replayed from the authors'
//! records (Fig. 7.2, D.3, D.5).

use std::sync::Arc;

use fedbo_report::{Clusters, Metric, TaskWeightRow, task_weight_table};
use fedbo_research_problems::{CNN_DATA_SETS, CnnRecords, Problem, read_cnn_records};
use fedbo_strategies::Domain;
use fedbo_strategies::meta::{MetaTask, OutputScale};
use fedbo_streams::{Purpose, Seed};

use super::super::markdown::MarkdownTable;
use super::super::{Call, ExperimentResult};
use super::arms::{LARGEST, LEARNED, RAW, Rule, arms};
use super::cnn_replay::CnnReplay;
use super::measure::{Declaration, Naming, measure, seconds_note};
use super::run_setting::RunSetting;
use super::similarity::{correlation, surface};

const N_QUERIES: u64 = 25;
/// For each target, the task with the largest weight in the authors' runs, and its mean final
/// weight.
const AUTHORS: [(&str, &str, f64); 4] = [
    ("cifar_10", "svhn", 0.948),
    ("cifar_100", "cifar_10", 0.974),
    ("svhn", "cifar_10", 0.994),
    ("mnist", "svhn", 0.981),
];

pub(in super::super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let runs = call.runs();
    let folder = call.data_folder()?;
    let records = read_cnn_records(folder)?;
    let seed = call.seed();
    // The surfaces are part of the problem and therefore the same for all seeds.
    let replays = records
        .iter()
        .map(|records| CnnReplay::new(records, Seed::new(0)).map(Arc::new))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut occasions = Vec::new();
    for (target, replay) in replays.iter().enumerate() {
        for run in 0..runs {
            occasions.push(RunSetting {
                configuration: CNN_DATA_SETS[target].to_owned(),
                run,
                domain: Domain::Space(replay.space().clone()),
                target: Arc::clone(replay) as Arc<dyn Problem>,
                tasks: other_tasks(&records, target),
                tables: Vec::new(),
                seed: seed.child(Purpose::RUN, u64::from(run)),
            });
        }
    }
    let arms = arms(&[
        (RAW, Rule::RmGpUcb(OutputScale::Raw)),
        ("mtbo", Rule::Mtbo),
        ("rgpe authors", Rule::RgpeAuthors),
        ("taf authors", Rule::TafAuthors),
        (LARGEST, Rule::LargestGap),
    ]);
    let declaration = Declaration {
        name: "meta-cnn",
        title: "A CNN on four data sets, replayed from records; the other three as earlier tasks",
        y_label: "best validation accuracy (replayed)",
        metric: Metric::Best,
        n_queries: N_QUERIES,
        clusters: Clusters::Units,
        arms,
        weighing: vec![LEARNED, RAW, LARGEST],
        naming: Naming::Tasks,
    };
    let measured = measure(&declaration, &occasions.into(), call)?;
    let last = i64::try_from(N_QUERIES)?;
    let notes = vec![
        "A replay: each surface is the posterior median of a Gaussian process fitted to the authors' records of a data set and \
         clipped to their range, so values between records are the model's belief, not a network's accuracy. The earlier tasks \
         are the 50 records of each of the other three data sets."
            .to_owned(),
        replay_note(&replays, &seed),
        authors_note(&measured.weights, last),
        format!(
            "Mean weights at some queries\n\n{}",
            task_weight_table(&measured.weights, &[1, 2, 5, 10, last])
        ),
        "The authors' own validation errors after 25 queries (real trainings; MNIST, SVHN, CIFAR-10, CIFAR-100): GP-UCB 0.0088, \
         0.140, 0.316, 0.659; RM-GP-UCB 0.0078, 0.132, 0.297, 0.632; RGPE 0.0089, 0.129, 0.292, 0.627."
            .to_owned(),
        seconds_note(&measured.rows),
    ];
    Ok(ExperimentResult { notes, ..measured.concluded })
}

/// Returns the records of all data sets except one.
fn other_tasks(records: &[CnnRecords], target: usize) -> Vec<MetaTask> {
    let others = records.iter().enumerate().filter(|(t, _)| *t != target);
    others.map(|(_, records)| CnnReplay::task(records)).collect()
}

/// Returns a note on the surfaces: their correlations, and their distance from the records.
fn replay_note(replays: &[Arc<CnnReplay>], seed: &Seed) -> String {
    const N_POINTS: usize = 500;
    let surfaces: Vec<Vec<f64>> =
        replays.iter().map(|replay| surface(replay.as_ref(), N_POINTS, seed)).collect();
    let title = format!(
        "Correlation of the surfaces at {N_POINTS} random points, the number of settings recorded, and the root mean \
         square of the records' distance from the surface"
    );
    let heads = CNN_DATA_SETS.into_iter().chain(["settings", "distance"]);
    let mut table = MarkdownTable::new(title, "", heads);
    for ((name, replay), own) in CNN_DATA_SETS.iter().zip(replays).zip(&surfaces) {
        let cells = surfaces.iter().map(|other| format!("{:.2}", correlation(own, other)));
        let records = [replay.n_records.to_string(), format!("{:.3}", replay.residual)];
        table.row(name, cells.chain(records));
    }
    table.into_text()
}

/// Returns a note on the final weights of the tasks that dominate in the authors' runs.
fn authors_note(weights: &[TaskWeightRow], last: i64) -> String {
    let title = format!(
        "Weight of the task with the largest weight in the authors' runs, at query {last}: mean over runs"
    );
    let mut table = MarkdownTable::new(title, "target", ["task", "authors", RAW, LEARNED]);
    for (target, task, authors) in AUTHORS {
        let [raw, learned] = [RAW, LEARNED].map(|arm| {
            let of_arm: Vec<f64> = weights
                .iter()
                .filter(|row| row.experiment == target && row.arm == arm)
                .filter(|row| row.task == task && row.iteration == last)
                .map(|row| row.weight)
                .collect();
            match of_arm.is_empty() {
                true => "–".to_owned(),
                false => format!("{:.3}", super::similarity::mean(&of_arm)),
            }
        });
        table.row(target, [task.to_owned(), format!("{authors:.3}"), raw, learned]);
    }
    table.into_text()
}

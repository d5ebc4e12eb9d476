//! Policy search for a cart with a pole: three earlier tasks begin near the target's state, seven elsewhere (Fig. 7.3c, d).

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_problems::{CartPole, CartPoleTasks, Problem};
use fedbo_report::{Clusters, Metric, TaskWeightRow, check_folder};
use fedbo_strategies::Domain;
use fedbo_streams::{Purpose, Seed};

use super::super::{ExperimentResult, Progress, RunOptions};
use super::arms::{LEARNED, arms};
use super::measure::{Declaration, Naming, measure, seconds_note};
use super::run_setting::{RunSetting, earlier_task, occasions};
use super::similarity::{correlation, mean, surface};

/// Repetitions.
pub(in super::super) const DEFAULT_RUNS: u32 = 60;
const N_QUERIES: u64 = 30;

pub(in super::super) fn run(
    options: &RunOptions,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> anyhow::Result<ExperimentResult> {
    let runs = options.runs.unwrap_or(DEFAULT_RUNS);
    check_folder(&options.out, options.overwrite)?;
    let seed = Seed::new(options.seed);
    let items: Vec<u32> = (0..runs).collect();
    let occasions = occasions("searches from ten other states", &items, progress, |&run| {
        let seed = seed.child(Purpose::Run, u64::from(run));
        let drawn = CartPoleTasks::draw(seed);
        let mut tasks = Vec::new();
        for (number, task) in (0..).zip(drawn.earlier()) {
            let own_seed = seed.child(Purpose::History, number);
            let name = task.name();
            let name = name.trim_start_matches("cart-pole ");
            match earlier_task(task, name, own_seed, stop)? {
                Some(task) => tasks.push(task),
                None => return Ok(None),
            }
        }
        Ok(Some(RunSetting {
            configuration: "meta-cartpole".to_owned(),
            run,
            domain: Domain::Space(drawn.target.space().clone()),
            target: Arc::new(drawn.target),
            tasks,
            tables: Vec::new(),
            seed,
        }))
    })?;
    let declaration = Declaration {
        name: "meta-cartpole",
        title: "Cart and pole: searches from three near and seven random states as earlier tasks",
        y_label: "best share of 200 steps",
        metric: Metric::Best,
        n_queries: N_QUERIES,
        clusters: Clusters::Units,
        arms: arms(&[]),
        weighing: vec![LEARNED, "rgpe", "taf"],
        naming: Naming::Tasks,
    };
    let measured = measure(&declaration, &occasions, options, progress, stop)?;
    let notes = vec![
        "Each run draws its own initial states. One policy serves nearly all of them, so the best policies of dissimilar tasks \
         are good starts too: they differ in how bad bad policies are."
            .to_owned(),
        likeness_note(runs.min(10), seed),
        similar_note(&measured.weights),
        "What the thesis reports (Fig. 7.3c, d): RM-GP-UCB is best, as it finds the three similar tasks where RGPE and TAF do not."
            .to_owned(),
        seconds_note(&measured.rows),
    ];
    Ok(ExperimentResult { summary: measured.summary, ended: measured.ended, notes })
}

/// Correlation of the tasks' surfaces with the target's.
fn likeness_note(runs: u32, seed: Seed) -> String {
    const N_POINTS: usize = 300;
    let (mut similar, mut dissimilar) = (Vec::new(), Vec::new());
    for run in 0..runs {
        let seed = seed.child(Purpose::Run, u64::from(run));
        let drawn = CartPoleTasks::draw(seed);
        let target = surface(&drawn.target, N_POINTS, &seed);
        let likeness = |task: &CartPole| correlation(&surface(task, N_POINTS, &seed), &target);
        similar.extend(drawn.similar.iter().map(likeness));
        dissimilar.extend(drawn.dissimilar.iter().map(likeness));
    }
    format!(
        "Correlation with the target at {N_POINTS} random policies, mean over {runs} runs: similar tasks {:.2}, dissimilar {:.2}",
        mean(&similar),
        mean(&dissimilar)
    )
}

/// The weight of the three similar tasks together; 0.3 would be their part of equal weights.
fn similar_note(weights: &[TaskWeightRow]) -> String {
    const QUERIES: [i64; 5] = [1, 5, 10, 20, 30];
    let mut note = "Share of the three similar tasks in all weights at some queries (0.3 if all were equal)\n\n| arm |".to_owned();
    for query in QUERIES {
        let _ = write!(note, " {query} |");
    }
    note += "\n|---|---|---|---|---|---|";
    let mut arms: Vec<&str> = Vec::new();
    for row in weights {
        if !arms.contains(&row.arm.as_str()) {
            arms.push(&row.arm);
        }
    }
    for arm in arms {
        let _ = write!(note, "\n| {arm} |");
        for query in QUERIES {
            let at = |row: &&TaskWeightRow| row.arm == arm && row.iteration == query;
            let rows: Vec<&TaskWeightRow> = weights.iter().filter(at).collect();
            let all: f64 = rows.iter().map(|row| row.weight).sum();
            let of_similar = rows.iter().filter(|row| row.task.starts_with("similar"));
            let of_similar: f64 = of_similar.map(|row| row.weight).sum();
            let _ = write!(note, " {:.2} |", of_similar / all);
        }
    }
    note
}

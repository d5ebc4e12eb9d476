//! Policy search for a cart with a pole: three earlier tasks start near the target's state and
//! seven elsewhere (Fig. 7.3c, d), or 18 and 42 (Fig. D.7).

use std::sync::Arc;

use fedbo_report::{Clusters, Metric, TaskWeightRow};
use fedbo_research_problems::{CartPole, CartPoleTasks, Problem};
use fedbo_strategies::Domain;
use fedbo_streams::{Purpose, Seed};

use super::super::markdown::MarkdownTable;
use super::super::{Call, ExperimentResult};
use super::arms::{LEARNED, arms};
use super::measure::{Declaration, Naming, measure, seconds_note};
use super::run_setting::{N_META_OBS, RunSetting, earlier_task, occasions};
use super::similarity::{correlation, mean, surface};

const N_QUERIES: u64 = 30;

/// Number of earlier tasks, and number of observations of each.
struct Size {
    name: &'static str,
    title: &'static str,
    n_similar: u32,
    n_dissimilar: u32,
    n_observations: usize,
    /// The corresponding figures of the thesis, and their results.
    reported: &'static str,
}

const TEN: Size = Size {
    name: "meta-cartpole",
    title: "Cart and pole: searches from three near and seven random states as earlier tasks",
    n_similar: 3,
    n_dissimilar: 7,
    n_observations: N_META_OBS,
    reported: "Results reported in the thesis (Fig. 7.3c, d): RM-GP-UCB is best, because it identifies the three similar tasks where RGPE and TAF do not.",
};

/// The thesis does not state how many of its 60 tasks are similar. Here the share is the same.
const SIXTY: Size = Size {
    name: "meta-cartpole-large",
    title: "Cart and pole: 60 searches, from 18 near and 42 random states, as earlier tasks",
    n_similar: 18,
    n_dissimilar: 42,
    n_observations: 130,
    reported: "Results reported in the thesis (Fig. D.7): RM-GP-UCB is also best with 60 tasks of 130 observations each.",
};

pub(in super::super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    run_size(&TEN, call)
}

pub(in super::super) fn run_large(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    run_size(&SIXTY, call)
}

fn run_size(size: &Size, call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let runs = call.runs();
    let seed = call.seed();
    let items: Vec<u32> = (0..runs).collect();
    let note = |run: &u32| format!("{} run {run}", size.name);
    let occasions = occasions("searches from other states", &items, note, call, |&run| {
        let seed = seed.child(Purpose::RUN, u64::from(run));
        let drawn = CartPoleTasks::draw(seed, size.n_similar, size.n_dissimilar);
        let mut tasks = Vec::new();
        for (number, task) in (0..).zip(drawn.earlier()) {
            let own_seed = seed.child(Purpose::HISTORY, number);
            let name = task.name();
            let name = name.trim_start_matches("cart-pole ");
            match earlier_task(task, name, size.n_observations, own_seed, call.stop)? {
                Some(task) => tasks.push(task),
                None => return Ok(None),
            }
        }
        Ok(Some(RunSetting {
            configuration: size.name.to_owned(),
            run,
            domain: Domain::Space(drawn.target.space().clone()),
            target: Arc::new(drawn.target),
            tasks,
            tables: Vec::new(),
            seed,
        }))
    })?;
    let declaration = Declaration {
        name: size.name,
        title: size.title,
        y_label: "best share of 200 steps",
        metric: Metric::Best,
        n_queries: N_QUERIES,
        clusters: Clusters::Units,
        arms: arms(&[]),
        weighing: vec![LEARNED, "rgpe", "taf"],
        naming: Naming::Tasks,
    };
    let measured = measure(&declaration, &occasions, call)?;
    let notes = vec![
        "Each run draws its own initial states. One policy serves nearly all of them, so the best policies of dissimilar tasks \
         are good starts too. The tasks differ in how bad the bad policies are."
            .to_owned(),
        likeness_note(size, runs.min(10), seed),
        similar_note(size, &measured.weights),
        size.reported.to_owned(),
        seconds_note(&measured.rows),
    ];
    Ok(ExperimentResult { notes, ..measured.concluded })
}

/// Returns a note on the correlation of the tasks' surfaces with the target's.
fn likeness_note(size: &Size, runs: u32, seed: Seed) -> String {
    const N_POINTS: usize = 300;
    let (mut similar, mut dissimilar) = (Vec::new(), Vec::new());
    for run in 0..runs {
        let seed = seed.child(Purpose::RUN, u64::from(run));
        let drawn = CartPoleTasks::draw(seed, size.n_similar, size.n_dissimilar);
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

/// Returns a note on the total weight of the similar tasks, which would be 0.3 with equal weights.
fn similar_note(size: &Size, weights: &[TaskWeightRow]) -> String {
    const QUERIES: [i64; 5] = [1, 5, 10, 20, 30];
    let number = if size.n_similar == 3 { "three".to_owned() } else { size.n_similar.to_string() };
    let title = format!(
        "Share of the {number} similar tasks in all weights at some queries (0.3 if all were equal)"
    );
    let mut table = MarkdownTable::new(title, "arm", QUERIES);
    let mut arms: Vec<&str> = Vec::new();
    for row in weights {
        if !arms.contains(&row.arm.as_str()) {
            arms.push(&row.arm);
        }
    }
    for arm in arms {
        let shares = QUERIES.map(|query| {
            let at = |row: &&TaskWeightRow| row.arm == arm && row.iteration == query;
            let rows: Vec<&TaskWeightRow> = weights.iter().filter(at).collect();
            let all: f64 = rows.iter().map(|row| row.weight).sum();
            let of_similar = rows.iter().filter(|row| row.task.starts_with("similar"));
            let of_similar: f64 = of_similar.map(|row| row.weight).sum();
            format!("{:.2}", of_similar / all)
        });
        table.row(arm, shares);
    }
    table.into_text()
}

//! One step of learning from many earlier tasks (one query and its value), compared with one
//! Gaussian process over all tasks.

use anyhow::Result;
use fedbo_rivals::{Mtbo, MtboSettings};
use fedbo_space::{ParameterSpec, Space};
use fedbo_strategies::meta::{
    GapBound, MetaTask, OutputScale, RmGpUcb, RmGpUcbSettings, TaskModel, TaskModels,
};
use fedbo_strategies::{Domain, Observation, Points, Refit, Source, Strategy, Surrogate};
use fedbo_streams::{Purpose, Seed, Stream};
use serde_json::{Value, json};

use crate::measure::{Limits, Timing, columns, measure};

/// Dimension of a linear policy for Cart-Pole, and number of observations of the target.
const DIM: usize = 8;
const N_TARGET: usize = 30;

/// Returns rows for every number of meta-tasks: always RM-GP-UCB, and MTBO up to `largest_joint`
/// tasks.
///
/// MTBO has one row without and one row with a fit of its hyperparameters.
pub(crate) fn rows(
    n_tasks: &[usize],
    n_meta_obs: usize,
    largest_joint: usize,
    limits: &Limits,
) -> Result<Vec<Value>> {
    let spec = ParameterSpec::float(0.0, 1.0);
    let names: Vec<String> = (0..DIM).map(|j| format!("x{j}")).collect();
    let space = Space::from_specs(names.iter().map(|name| (name.as_str(), &spec)))?;
    let mut rows = Vec::new();
    for &m in n_tasks {
        let tasks: Vec<MetaTask> = (0..m).map(|index| task(index, n_meta_obs)).collect();
        let domain = Domain::Space(space.clone());
        let settings =
            RmGpUcbSettings { scale: OutputScale::Common, ..RmGpUcbSettings::for_study(DIM, true) };
        rows.extend(parts(&tasks, &settings, limits)?);
        let mut robust = RmGpUcb::new(domain.clone(), &tasks, settings, Seed::new(1))?;
        robust.tell(&target())?;
        rows.push(step("rm-gp-ucb", m, n_meta_obs, &robust, limits)?);
        if m > largest_joint {
            continue;
        }
        for (name, refit) in [("mtbo", Refit::At(Vec::new())), ("mtbo with a fit", Refit::Every(1))]
        {
            let settings = MtboSettings { refit, ..MtboSettings::for_study(DIM, true) };
            let mut joint = Mtbo::new(domain.clone(), &tasks, settings, Seed::new(1))?;
            // The measured step adds the value of its own query to these observations.
            joint.tell(&target())?;
            rows.push(step(name, m, n_meta_obs, &joint, limits)?);
        }
    }
    Ok(rows)
}

/// Times the two parts of a step that do not depend on the search.
///
/// These parts are the evaluation of all tasks' models at 1000 points, O(Σ N_i²), and the bounds on
/// all gaps, O(n² Σ N_i).
fn parts(tasks: &[MetaTask], settings: &RmGpUcbSettings, limits: &Limits) -> Result<Vec<Value>> {
    let seed = Seed::new(1);
    let models = TaskModels::fit(tasks, settings.scale, &settings.surrogate, seed)?;
    let mut own =
        Surrogate::new(DIM, models.target_settings(settings.surrogate.clone()), None, seed)?;
    own.tell(&target())?;
    let points = points(1000, &mut Seed::new(4).stream(Purpose::TEST, 0, 0));
    let (bounds, _) = measure(
        limits,
        |_| Ok(()),
        |()| Ok(GapBound::practical().of(own.posterior(), 1.0, models.tasks())),
    )?;
    let (evaluations, _) = measure(
        limits,
        |_| Ok(()),
        |()| {
            let tasks = models.tasks().iter();
            Ok(tasks.map(|task| task.mean_variances(&points)).collect::<Vec<_>>())
        },
    )?;
    let row = |name, timing: &Timing| {
        let mut row = columns(json!({ "peer": name, "M": tasks.len(), "t": N_TARGET }));
        row.extend(timing.columns());
        Value::Object(row)
    };
    Ok(vec![
        row("rm-gp-ucb, gap bounds", &bounds),
        row("rm-gp-ucb, 1000 evaluations", &evaluations),
    ])
}

/// Times one query and the `tell` of its value.
fn step(
    name: &str,
    n_tasks: usize,
    n_meta_obs: usize,
    strategy: &(impl Strategy + Clone),
    limits: &Limits,
) -> Result<Value> {
    let (timing, _) = measure(
        limits,
        |draw| Ok((strategy.clone(), Seed::new(2).stream(Purpose::TEST, draw, 0))),
        |(strategy, stream)| {
            let proposal = strategy.ask(&Points::new(DIM), stream)?;
            let value = Some(value(0, &proposal.unit));
            strategy.tell(&[Observation::new(proposal.unit, value, proposal.source)])?;
            Ok(())
        },
    )?;
    let mut row = columns(json!({ "peer": name, "M": n_tasks, "N_i": n_meta_obs, "t": N_TARGET }));
    row.extend(timing.columns());
    Ok(Value::Object(row))
}

/// Evaluates a smooth function of the first three coordinates, which is shifted per task.
fn value(task: usize, x: &[f64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "numbers of tasks")]
    let shift = 0.005 * task as f64;
    (4.0 * (x[0] + shift)).sin() - (x[1] - 0.4 - shift).powi(2) + 0.3 * x[2]
}

fn points(n: usize, stream: &mut Stream) -> Points {
    Points::from_flat(DIM, (0..n * DIM).map(|_| stream.uniform()).collect())
}

fn task(index: usize, n: usize) -> MetaTask {
    let mut stream = Seed::new(3).stream(Purpose::HISTORY, index as u64, 0);
    let inputs = points(n, &mut stream);
    MetaTask {
        name: format!("task {index}"),
        outputs: inputs.rows().map(|x| value(index, x) + 0.05 * stream.normal()).collect(),
        inputs,
    }
}

fn target() -> Vec<Observation> {
    let mut stream = Seed::new(3).stream(Purpose::PROBLEM, 0, 0);
    points(N_TARGET, &mut stream)
        .rows()
        .map(|x| Observation::new(x.to_vec(), Some(value(0, x)), Source::Initial))
        .collect()
}

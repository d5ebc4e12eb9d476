//! FTS section 5.2, Fig. 2a, 3a, 3d and 5: FTS against RGPE and TAF, which receive complete models
//! of the other agents.

mod arms;
mod notes;
mod population_time;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use fedbo_gp::FeatureMap;
use fedbo_objective::Objective;
use fedbo_report::{Clusters, FigureSpec, Metric, PanelBy, Reference, SummaryRequest};
use fedbo_research_problems::{N_FIELDS, Problem};
use fedbo_strategies::Domain;
use fedbo_streams::{Purpose, Seed};

use self::arms::{Arm, Contributor, PAPER, arms};
use self::notes::Authors;
use super::fts_landmine::{N_ROUNDS, helpful_map, history, unit_seed};
use super::jobs::{Job, JobResult};
use super::landmine_fields::{DIM, Fields, N_DESIGNS, N_TARGETS};
use super::meta::OneParty;
use super::{Call, ExperimentResult};
use fedbo_runner::Decoder;
use fedbo_runner::RowLabels;

/// Data shared by all arms.
struct Setup {
    fields: Fields,
    /// The authors' observations of every field.
    recorded: Vec<Contributor>,
    /// The observations that every field made while tuning on its own, by run.
    past: BTreeMap<u32, Vec<Contributor>>,
}

pub(super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let folder = call.data_folder()?;
    let runs = call.runs();
    let seed = call.seed();
    let fields = Fields::read(folder)?;
    let authors = Authors::read(folder)?;
    let past = past(&fields, runs, seed, call)?;
    let recorded = (0..N_FIELDS)
        .map(|field| contributor(field, fields.recorded(field), seed))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let setup = Setup { fields, recorded, past };
    let space = setup.fields.svms[0].space();
    let parameters = space.parameters().iter().map(|p| p.name().to_owned());
    let parameters: Vec<String> = parameters.collect();
    let writer = call.writer(&parameters)?;
    let arms = arms();
    let mut jobs = Vec::new();
    for arm in &arms {
        for target in 0..N_TARGETS {
            for run in 0..runs {
                let setup = &setup;
                let unit = RowLabels::new(
                    arm.configuration,
                    arm.name.clone(),
                    format!("field {target}"),
                    run,
                );
                jobs.push(Job::new(unit, move |unit, stop| {
                    tune(setup, arm, target, unit, unit_seed(seed, target, run), stop)
                }));
            }
        }
    }
    let (rows, ended) = call.play("fts-vs-meta", &jobs, writer)?;
    let request = SummaryRequest {
        checkpoints: vec![5, 10, 20, 50],
        clusters: Clusters::Designs(N_DESIGNS),
        figure: Some(FigureSpec {
            title: "SVM on landmine fields 0 to 5: FTS, RGPE and TAF with messages from 28 others"
                .into(),
            x_label: "queries".into(),
            y_label: "best validation AUC".into(),
            panel_by: PanelBy::Experiment,
            shared_y: true,
            references: vec![Reference { label: "best of an 88-point grid".into(), value: 0.8495 }],
            ..FigureSpec::default()
        }),
        ..call.summary_request("fts-vs-meta", setup.fields.svms[0].direction(), Metric::Best)
    };
    let pairs_of = |configuration: &str| {
        let of_it = arms.iter().filter(|arm| arm.configuration == configuration);
        let pairs = of_it.flat_map(|arm| {
            let controls = arm.controls().into_iter();
            controls.map(|control| (arm.name.clone(), control.to_owned()))
        });
        pairs.collect()
    };
    let mut concluded = call.conclude(&rows, ended, request, pairs_of)?;
    concluded.summary.add_tradeoff(notes::tradeoff(&arms, &rows), &call.options.out)?;
    let mut notes = notes::by_message_length(&authors, &arms, &concluded.summary);
    notes.extend(notes::by_run_time(&authors, &rows));
    notes.push(notes::by_target(&authors, &rows));
    notes.extend(authors.missing());
    notes.extend(population_time::run_times(call)?);
    Ok(ExperimentResult { notes, ..concluded })
}

/// Runs TS on every field separately, with one history per run that serves all targets.
fn past(
    fields: &Fields,
    runs: u32,
    seed: Seed,
    call: Call<'_>,
) -> anyhow::Result<BTreeMap<u32, Vec<Contributor>>> {
    let units: Vec<(u32, usize)> =
        (0..runs).flat_map(|run| (0..N_FIELDS).map(move |field| (run, field))).collect();
    let found = call.prepare(
        "the other fields' own runs",
        &units,
        |(run, field)| format!("field {field} run {run}"),
        |&(run, field)| {
            let seed = seed.child(Purpose::RUN, u64::from(run));
            let observed = history(fields, field, seed, call.stop)?;
            observed.map(|observed| contributor(field, observed, seed)).transpose()
        },
    )?;
    let mut past: BTreeMap<u32, Vec<Contributor>> = BTreeMap::new();
    for ((run, _), contributor) in units.into_iter().zip(found) {
        past.entry(run).or_default().extend(contributor);
    }
    Ok(past)
}

fn contributor(
    field: usize,
    observed: Vec<fedbo_strategies::Observation>,
    seed: Seed,
) -> anyhow::Result<Contributor> {
    let own = seed.child(Purpose::HISTORY, field as u64);
    Contributor::new(u32::try_from(field)?, format!("field {field}"), observed, own)
}

fn tune(
    setup: &Setup,
    arm: &Arm,
    target: usize,
    unit: &RowLabels,
    seed: Seed,
    stop: &AtomicBool,
) -> JobResult {
    let past = if arm.configuration == PAPER {
        &setup.recorded
    } else {
        setup
            .past
            .get(&unit.run)
            .filter(|past| past.len() == N_FIELDS)
            .context("the other fields' runs were interrupted")?
    };
    let others = past.iter().filter(|other| other.id as usize != target);
    let others: Vec<Contributor> = others.cloned().collect();
    let svm = &setup.fields.svms[target];
    let space = svm.space().clone();
    let map: Arc<FeatureMap> = if arm.configuration == PAPER {
        Arc::clone(&setup.fields.paper_maps[&arm.n_features])
    } else {
        helpful_map(seed, arm.n_features)?
    };
    let domain = Domain::Space(space.clone());
    let mut strategy = arm.strategy(domain, &others, &map, seed)?;
    let decoder: Decoder = Arc::new(move |unit: &[f64]| space.decode(unit));
    let objective: &dyn Objective = svm.as_ref();
    let party = OneParty {
        unit,
        objective,
        decoder: &decoder,
        direction: svm.direction(),
        initial: &setup.fields.initial(target, unit.run),
        n_queries: N_ROUNDS,
        optimum: None,
        truth: &|_| None,
        dim: DIM,
        seed,
    };
    let (course, ended) = party.run(strategy.as_mut(), stop)?;
    Ok((course.rows, ended))
}

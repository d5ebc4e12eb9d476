//! Eight wine sites tune their own classifiers together: the general setting of FTS, in which every
//! agent optimizes.
//!
//! The federation is that of `research/examples/wine.toml`, and its arms run as in `fedbo run`:
//! equal seeds give equal values.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fedbo_config::TomlFile;
use fedbo_federation::{ALGORITHMS, Arm, Federation, FederationFile, Objectives};

use super::jobs::{Job, JobResult};
use super::{Call, ExperimentResult};
use fedbo_report::{Clusters, FigureSpec, Metric, PanelBy, SummaryRequest};
use fedbo_research_problems::ResearchProblems;
use fedbo_runner::RowLabels;
use fedbo_runner::federation::run_arm;

/// The federation file in the repository.
const FILE: (&str, &str) =
    ("research/examples/wine.toml", include_str!("../../../examples/wine.toml"));

pub(super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let runs = call.runs();
    let file = TomlFile::from_text(Path::new(FILE.0), FILE.1);
    let mut federation = file.parse::<FederationFile>()?.validate(
        &file,
        Objectives::Here,
        &ResearchProblems,
        ALGORITHMS,
    )?;
    federation.seed = call.options.seed;
    let parameters: Vec<String> =
        federation.space.parameters().iter().map(|p| p.name().to_owned()).collect();
    let writer = call.writer(&parameters)?;
    let federation = &federation;
    let mut jobs = Vec::new();
    for run in 0..runs {
        for arm in [federation.own_arm(), Arm::ALONE, Arm::PLACEBO] {
            let unit = RowLabels::new("fts-wine", arm.name(), "", run);
            let work =
                move |unit: &RowLabels, stop: &AtomicBool| session(federation, arm, unit, stop);
            jobs.push(Job::new(unit, work));
        }
    }
    let (rows, ended) = call.play("fts-wine", &jobs, writer)?;
    let figure = FigureSpec {
        title: "Eight wine sites, each tuning (C, gamma) of its own SVM".into(),
        x_label: "queries a site".into(),
        y_label: "best validation AUC".into(),
        panel_by: PanelBy::Agent,
        mean_over_agents: true,
        shared_y: true,
        ..FigureSpec::default()
    };
    let request = SummaryRequest {
        checkpoints: vec![3, 5, 10, 20],
        clusters: Clusters::Runs,
        figure: Some(figure),
        ..call.summary_request("fts-wine", federation.direction, Metric::Best)
    };
    let pairs_of = |_: &str| ["ts", "placebo"].map(|control| ("fts".into(), control.into())).into();
    call.conclude(&rows, ended, request, pairs_of)
}

/// Runs an arm of the federation in one repetition.
fn session(federation: &Federation, arm: Arm, unit: &RowLabels, stop: &AtomicBool) -> JobResult {
    let federation = federation.repetition(unit.run);
    Ok(run_arm(&federation, arm, &unit.experiment, stop)?)
}

//! The outcome of a run: its summary, its pictures, and the agents that failed.

use std::collections::BTreeMap;

use fedbo_report::{
    Clusters, Figure, FigureSpec, Metric, PanelBy, PrivacySpent, Row, Scale, Summary,
    SummaryRequest, summarize,
};

use super::run::{AgentFailures, RunOptions};
use super::run_error::RunError;
use crate::session::Ended;
use fedbo_federation::{Arm, Federation};

/// Most agents that get a panel each.
const PANELS_MAX: usize = 12;

/// Writes the summary and the pictures.
pub(super) fn report(
    federation: &Federation,
    options: &RunOptions,
    arms: &[Arm],
    rows: &[Row],
    wall_seconds: BTreeMap<String, f64>,
    ended: Ended,
    privacy: Option<PrivacySpent>,
) -> Result<Summary, RunError> {
    let by_regret = federation.knows_regret();
    let metric = if by_regret { Metric::Regret } else { Metric::Best };
    // Agents differ more than arms do: each has a panel beside that of their mean, unless there are too many of them.
    let by_agent = federation.agents.len() <= PANELS_MAX;
    let figure = FigureSpec {
        title: federation.name.clone(),
        x_label: "queries of each agent".to_owned(),
        y_label: match (by_regret, by_agent) {
            (true, true) => "simple regret".to_owned(),
            (true, false) => "simple regret, mean over agents".to_owned(),
            (false, true) => "best value so far".to_owned(),
            (false, false) => "best value so far, mean over agents".to_owned(),
        },
        scale: if by_regret { Scale::Log } else { Scale::Linear },
        panel_by: if by_agent { PanelBy::Agent } else { PanelBy::None },
        mean_over_agents: true,
        shared_y: true,
        ..FigureSpec::default()
    };
    let (first, controls) =
        arms.split_first().unwrap_or_else(|| unreachable!("there is at least one arm"));
    let rounds = i64::try_from(federation.rounds).unwrap_or(i64::MAX);
    let mut checkpoints = vec![rounds / 6, rounds / 3];
    checkpoints.retain(|iteration| *iteration > 0);
    checkpoints.dedup();
    let request = SummaryRequest {
        checkpoints,
        pairs: controls
            .iter()
            .map(|control| (first.name().to_owned(), control.name().to_owned()))
            .collect(),
        // Agents that learn from each other are one value together: a single run has no standard error.
        clusters: Clusters::Runs,
        private: if federation.is_simulation() {
            Some(false) // INV-10
        } else {
            privacy.is_some().then_some(true)
        },
        privacy: privacy
            .map(|spent| (federation.own_arm().name().to_owned(), spent))
            .into_iter()
            .collect(),
        wall_seconds,
        figure: Some(figure.clone()),
        ..SummaryRequest::new(
            federation.name.clone(),
            federation.seed,
            federation.direction,
            metric,
        )
    };
    let mut summary = summarize(rows, &request);
    summary.interrupted = ended == Ended::Interrupted;
    summary.write(&options.out)?;
    Figure::from_rows(rows, metric, &figure).write(&options.out)?;
    Ok(summary)
}

/// Agents with failed trials.
pub(super) fn failures(names: &[String], rows: &[Row]) -> Vec<AgentFailures> {
    let of = |name: &String| {
        let own = || rows.iter().filter(|row| row.agent == *name);
        let last = own().rfind(|row| row.is_failed())?;
        let reason = last.status.strip_prefix("failed: ").unwrap_or(&last.status);
        Some(AgentFailures {
            agent: name.clone(),
            n_trials: own().count(),
            n_failed: own().filter(|row| row.is_failed()).count(),
            last: reason.to_owned(),
        })
    };
    names.iter().filter_map(of).collect()
}

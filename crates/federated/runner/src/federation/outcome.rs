//! The outcome of a run: its summary, its figures, and the agents with failed trials.

use std::collections::BTreeMap;

use fedbo_report::{
    Clusters, Figure, FigureSpec, Metric, PanelBy, PrivacySpent, Row, Scale, Summary,
    SummaryRequest, summarize,
};

use super::run::{AgentFailures, RunOptions};
use super::run_error::RunError;
use crate::session::Ended;
use fedbo_federation::{Arm, Federation};

/// Maximum number of agents for which each agent has its own panel.
const PANELS_MAX: usize = 12;

/// Writes the summary and the figures.
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
    // Agents differ more than arms do, so each agent has a panel next to the panel with the mean,
    // unless there are too many agents.
    let by_agent = federation.agents.len() <= PANELS_MAX;
    let figure = FigureSpec {
        title: federation.name.clone(),
        x_label: "queries of each agent".to_owned(),
        y_label: y_label(federation.value_name.as_deref(), by_regret, by_agent),
        arm_labels: Arm::labels()
            .into_iter()
            .filter(|(name, _)| arms.iter().any(|arm| arm.name() == name))
            .collect(),
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
        // Agents that learn from each other are not independent, so a run counts as a single value,
        // and one run has no standard error.
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

/// Returns the label of the vertical axis: the plotted quantity, with the file's name for the value
/// if it has one.
fn y_label(value_name: Option<&str>, by_regret: bool, by_agent: bool) -> String {
    let mean = if by_agent { "" } else { ", mean over agents" };
    match (value_name, by_regret) {
        (_, true) => format!("simple regret{mean}"),
        (Some(name), false) => format!("{name} (best so far)"),
        (None, false) => format!("best value so far{mean}"),
    }
}

/// Returns the agents with failed trials.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The file's name for the value is not used for regrets.
    #[test]
    fn the_axis_has_the_words_of_the_file() {
        let words = Some("digits read correctly");
        assert_eq!(y_label(words, false, false), "digits read correctly (best so far)");
        assert_eq!(y_label(words, true, true), "simple regret");
        assert_eq!(y_label(None, false, false), "best value so far, mean over agents");
        assert_eq!(y_label(None, false, true), "best value so far");
    }
}

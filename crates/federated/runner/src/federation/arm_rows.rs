//! Converts the trials of a federation's agents to rows of its results.

use fedbo_federation::{Arm, Federation};
use fedbo_report::Row;

use crate::row_builder::{RowBuilder, RowLabels};
use crate::session::TrialRecord;

/// Row builders for the agents of one arm in one repetition.
pub(crate) struct ArmRowBuilders<'a> {
    federation: &'a Federation,
    /// In the order of the agents.
    row_builders: Vec<RowBuilder>,
}

impl<'a> ArmRowBuilders<'a> {
    /// Creates the builders for a new arm; `experiment` is its name in the results.
    pub(crate) fn new(federation: &'a Federation, experiment: &str, arm: Arm) -> Self {
        let agents = federation.agents.iter();
        let row_builder = agents.map(|agent| {
            let unit = RowLabels {
                experiment: experiment.to_owned(),
                arm: arm.name().to_owned(),
                agent: agent.name.clone(),
                run: federation.run.unwrap_or(0),
            };
            let optimum = agent.objective.optimum();
            RowBuilder::new(unit, federation.direction, federation.n_initial, optimum)
        });
        Self { federation, row_builders: row_builder.collect() }
    }

    /// The row of a trial. The trials of each agent must come in order.
    pub(crate) fn row(&mut self, record: &TrialRecord) -> Row {
        let index = record.agent as usize;
        let agents = &self.federation.agents;
        let truth = agents[index].objective.truth(&record.point);
        let name_of = |sender: u32| agents[sender as usize].name.clone();
        self.row_builders[index].row(record, truth, name_of)
    }
}

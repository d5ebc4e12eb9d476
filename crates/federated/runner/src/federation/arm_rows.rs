//! Conversion of a federation's trials to result rows.

use fedbo_federation::{Arm, Federation};
use fedbo_report::Row;

use crate::row_builder::{RowBuilder, RowLabels};
use crate::session::TrialRecord;

/// Row builders for the agents of an arm in one repetition.
pub(crate) struct ArmRowBuilders<'a> {
    federation: &'a Federation,
    /// One per agent, in order.
    row_builders: Vec<RowBuilder>,
}

impl<'a> ArmRowBuilders<'a> {
    /// Creates the builders for an arm. `experiment` is the experiment's name in the results.
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

    /// Converts a trial to a row. Each agent's trials must be passed in order.
    pub(crate) fn row(&mut self, record: &TrialRecord) -> Row {
        let index = record.agent as usize;
        let agents = &self.federation.agents;
        let truth = agents[index].objective.truth(&record.point);
        let name_of = |sender: u32| agents[sender as usize].name.clone();
        self.row_builders[index].row(record, truth, name_of)
    }
}

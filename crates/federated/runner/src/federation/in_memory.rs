//! Runs of a single arm with in-memory results.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_federation::{Arm, Federation};
use fedbo_report::Row;

use super::arm::{ArmRun, objectives};
use super::arm_rows::ArmRowBuilders;
use super::run_error::RunError;
use crate::session::{Ended, Observer, TrialRecord};

/// Runs an arm without charges on the current thread pool, and returns its rows, grouped by agent.
/// `experiment` is the experiment name in the rows. If `stop` is set, no further wave of trials
/// begins.
///
/// # Errors
/// If an objective cannot be used, or the session fails.
pub fn run_arm(
    federation: &Federation,
    arm: Arm,
    experiment: &str,
    stop: &AtomicBool,
) -> Result<(Vec<Row>, Ended), RunError> {
    let known = federation.arms();
    if !known.contains(&arm) {
        return Err(RunError::UnknownArm { arm, known });
    }
    // Evaluations that have started are never stopped.
    let never = Arc::new(AtomicBool::new(false));
    let objectives = objectives(federation, &never)?;
    let mut rows = Collector {
        row_builders: ArmRowBuilders::new(federation, experiment, arm),
        rows: vec![Vec::new(); federation.agents.len()],
    };
    let ended = ArmRun::uncharged(federation, arm, objectives, &mut rows, stop).run()?;
    Ok((rows.rows.concat(), ended))
}

/// Collects the rows of an arm, grouped by agent.
struct Collector<'a> {
    row_builders: ArmRowBuilders<'a>,
    rows: Vec<Vec<Row>>,
}

impl Observer for Collector<'_> {
    fn wave_ended(&mut self, records: &[TrialRecord]) -> anyhow::Result<()> {
        for record in records {
            let row = self.row_builders.row(record);
            self.rows[record.agent as usize].push(row);
        }
        Ok(())
    }
}

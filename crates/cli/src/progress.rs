//! Progress of a run: bars on a terminal, occasional lines elsewhere.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fedbo_console::text::{number, one_line, shown};
use fedbo_console::{self as console, BARS, Mode, SILENCE, TICK, style};
use fedbo_federation::PrivacyPlan;
use fedbo_ledger::Statement;
use fedbo_objective::{Direction, Outcome};
use fedbo_privacy::accounting::Claim;
use fedbo_protocol::UpdateRejected;
use fedbo_report::Row;
use fedbo_runner::federation::{ArmStarted, RunProgress};
use indicatif::ProgressBar;

use fedbo_documents::promise::{NOT_PROMISED, promised};

/// Maximum number of agents for which each agent gets a line on the screen.
const AGENT_LINES_MAX: usize = 16;
/// Number of progress lines per arm if standard error is not a terminal.
const N_LINES: u64 = 10;
/// Progress display of a federation.
pub(crate) struct RunDisplay {
    mode: Mode,
    state: Mutex<RunState>,
}

#[derive(Default)]
struct RunState {
    arm: String,
    /// True for one of several runs. Lines are then printed only at the start of each run and after
    /// a long silence.
    is_repeated: bool,
    agents: Vec<String>,
    rounds: u64,
    direction: Option<Direction>,
    best: Vec<Option<f64>>,
    n_failed: usize,
    total: Option<ProgressBar>,
    lines: Vec<ProgressBar>,
    last_line: Option<(u64, Instant)>,
}

impl RunState {
    /// Returns the best value so far and the agent that found it.
    fn leader(&self) -> Option<(f64, &str)> {
        let direction = self.direction?;
        let mut leader: Option<(f64, &str)> = None;
        for (best, agent) in self.best.iter().zip(&self.agents) {
            if let Some(best) = best
                && leader.is_none_or(|(value, _)| direction.is_better(*best, value))
            {
                leader = Some((*best, agent));
            }
        }
        leader
    }

    fn status(&self, iteration: i64) -> String {
        let mut text = match u64::try_from(iteration) {
            Ok(round) if round > 0 => format!("round {round} of {}", self.rounds),
            _ => "initial points".to_owned(),
        };
        if let Some((best, agent)) = self.leader() {
            text += &format!(", best {} ({agent})", short(best));
        }
        match self.n_failed {
            0 => {}
            1 => text += ", 1 failed trial",
            n => text += &format!(", {n} failed trials"),
        }
        text
    }

    fn clear(&mut self) {
        for bar in self.lines.drain(..).chain(self.total.take()) {
            bar.finish_and_clear();
            BARS.remove(&bar);
        }
    }
}

impl RunDisplay {
    pub(crate) fn new() -> Self {
        Self { mode: Mode::choose(), state: Mutex::default() }
    }

    /// Removes the bars from the screen.
    pub(crate) fn finish(&self) {
        self.state().clear();
    }

    fn state(&self) -> MutexGuard<'_, RunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunProgress for RunDisplay {
    fn ledger_kept(&self, path: &Path) {
        console::note(&format!(
            "warning: the ledger of the results that are overwritten is kept as {}; its spending still counts, and this run \
             spends more",
            path.display()
        ));
    }

    /// Prints the limits of the privacy guarantee before the guarantee, even in quiet mode.
    fn charging(&self, plan: &PrivacyPlan, spent: &Statement) {
        console::note(&format!("not promised: {NOT_PROMISED}"));
        if let Some(claim) = plan.paid_claim() {
            let parameters =
                plan.parameters().map(|(key, value)| format!("{key} {}", number(value)));
            console::note(&format!(
                "promised: {}, with {}",
                promised(claim),
                parameters.join(", ")
            ));
        }
        if let Some(most) = plan.charter.participations {
            console::note(&format!(
                "each agent is in at most {most} of the releases, one per window, and pays for these; the releases that an \
                 agent is in are public, and so is roughly how long its trials take"
            ));
        }
        if spent.n_releases() > 0 {
            console::note(&format!("spent before: {}", spent.claim));
        }
        if let Some(warning) = plan.paid_claim().and_then(Claim::warning) {
            console::note(&format!("warning: {warning}"));
        }
        let (n_paid, n_planned) = (plan.n_paid(), plan.n_planned());
        if n_paid < n_planned {
            console::note(&format!(
                "warning: the budget of epsilon = {} pays for {n_paid} of {n_planned} planned releases with this \
                 noise_multiplier; after them nothing is collected, and agents continue alone",
                plan.budget().epsilon()
            ));
        }
    }

    fn arm_started(&self, start: &ArmStarted<'_>) {
        if self.mode == Mode::Nothing {
            return;
        }
        let mut state = self.state();
        state.clear();
        let n_agents = start.agents.len();
        let arm = start.arm.name();
        *state = RunState {
            arm: match start.run {
                None => arm.to_owned(),
                Some((run, n_runs)) => format!("run {} of {n_runs}, {arm}", run + 1),
            },
            is_repeated: start.run.is_some(),
            last_line: start.run.map(|_| (0, Instant::now())),
            agents: start.agents.to_vec(),
            rounds: start.rounds,
            direction: Some(start.direction),
            best: vec![None; n_agents],
            ..RunState::default()
        };
        let n_each = start.n_initial as u64 + start.rounds;
        if self.mode == Mode::Lines {
            let agents = if n_agents == 1 { "agent" } else { "agents" };
            let mut text = state.arm.clone();
            // All runs have the same numbers of agents and rounds, so only the first run's line
            // contains them.
            if start.run.is_none_or(|(run, _)| run == 0) {
                text += &format!(
                    ": {n_agents} {agents}, {} initial points and {} rounds each",
                    start.n_initial, start.rounds
                );
                if start.n_contributors > 0 {
                    let n = start.n_contributors;
                    text += &match n {
                        1 => "; 1 other shares its earlier observations once".to_owned(),
                        _ => format!("; {n} others share their earlier observations once"),
                    };
                }
            }
            if start.n_recorded > 0 {
                text += &format!("; {} trials are taken from the earlier run", start.n_recorded);
            }
            console::note(&text);
            return;
        }
        let total = BARS.add(ProgressBar::new(n_each * n_agents as u64));
        total.set_style(style("{prefix:10} {bar:24} {pos}/{len} trials  {elapsed}  {wide_msg}"));
        total.set_prefix(state.arm.clone());
        total.enable_steady_tick(TICK);
        if n_agents <= AGENT_LINES_MAX {
            let width = start.agents.iter().map(|name| name.chars().count()).max();
            let line =
                format!("  {{prefix:{}}} {{pos:>5}}/{{len}}  {{wide_msg}}", width.unwrap_or(0));
            for name in start.agents {
                let bar = BARS.add(ProgressBar::new(n_each));
                bar.set_style(style(&line));
                bar.set_prefix(shown(name).into_owned());
                state.lines.push(bar);
            }
        }
        state.total = Some(total);
    }

    fn trial_ended(&self, agent: usize, outcome: &Outcome) {
        if self.mode != Mode::Bars {
            return;
        }
        let state = self.state();
        if let Some(total) = &state.total {
            total.inc(1);
        }
        if let Some(bar) = state.lines.get(agent) {
            bar.inc(1);
            if let Outcome::Failed(failure) = outcome {
                bar.set_message(format!("failed: {}", one_line(&failure.to_string())));
            }
        }
    }

    fn wave_ended(&self, iteration: i64, rows: &[Row]) {
        if self.mode == Mode::Nothing {
            return;
        }
        let mut state = self.state();
        for row in rows {
            let Some(index) = state.agents.iter().position(|name| *name == row.agent) else {
                continue;
            };
            state.best[index] = row.best;
            if row.is_failed() {
                state.n_failed += 1;
            } else if let (Some(bar), Some(best)) = (state.lines.get(index), row.best) {
                bar.set_message(format!("best {}", short(best)));
            }
        }
        let status = state.status(iteration);
        if let Some(total) = &state.total {
            total.set_message(shown(&status).into_owned());
            return;
        }
        let round = u64::try_from(iteration).unwrap_or(0);
        let share = round * N_LINES / state.rounds.max(1);
        let due = state.last_line.is_none_or(|(last, when)| {
            (share > last && !state.is_repeated) || when.elapsed() > SILENCE
        });
        if due && round > 0 {
            state.last_line = Some((share, Instant::now()));
            console::note(&format!("{}: {status}", state.arm));
        }
    }

    fn refused(&self, rejected: &UpdateRejected) {
        console::note(&format!("warning: a message was refused: {rejected}"));
    }
}

/// Formats a value briefly.
fn short(value: f64) -> String {
    let size = value.abs();
    if size > 0.0 && !(1e-3..1e6).contains(&size) {
        format!("{value:.3e}")
    } else {
        format!("{value:.4}")
    }
}

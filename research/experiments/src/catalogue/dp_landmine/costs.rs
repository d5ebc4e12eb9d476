//! The privacy cost that an arm's schedule would have with secure noise.

use fedbo_privacy::accounting::{
    AccountantKind, Budget, Delta, Sampling, SamplingRate, smallest_multiplier,
};

use crate::catalogue::population::CollaborationMode;

/// δ of the helpful setting.
pub(super) const DELTA: f64 = 1e-5;

/// ε, or `None` without noise or if the accountant does not support such events.
pub(super) type Cost = anyhow::Result<Option<f64>>;

/// Returns the paper's choice δ = 1/N^1.1.
pub(super) fn papers_delta(n_agents: usize) -> f64 {
    (n_agents as f64).powf(-1.1)
}

/// Returns the cost by the moments accountant at the paper's δ, as published.
pub(super) fn by_moments(approach: &CollaborationMode, n_agents: usize) -> Cost {
    let delta = papers_delta(n_agents);
    cost(AccountantKind::Moments, approach, n_agents, delta)
}

/// Returns the cost by privacy loss distributions.
pub(super) fn by_pld(approach: &CollaborationMode, n_agents: usize, delta: f64) -> Cost {
    cost(AccountantKind::Pld, approach, n_agents, delta)
}

/// Returns the cost by the accountant for samples of a fixed size, under replace-one adjacency.
pub(super) fn by_fixed_size(approach: &CollaborationMode, n_agents: usize, delta: f64) -> Cost {
    cost(AccountantKind::FixedSize, approach, n_agents, delta)
}

fn cost(kind: AccountantKind, approach: &CollaborationMode, n_agents: usize, delta: f64) -> Cost {
    let Some(event) = approach.event(n_agents)? else {
        return Ok(None);
    };
    let fixed_size = matches!(event.sampling, Sampling::WithoutReplacement { .. });
    if fixed_size != (kind == AccountantKind::FixedSize) {
        return Ok(None);
    }
    let mut accountant = kind.accountant();
    accountant.compose(&event, approach.n_releases)?;
    Ok(Some(accountant.epsilon(Delta::new(delta)?)?))
}

/// Returns the noise multiplier with which this number of releases from all agents costs `epsilon`
/// at [`DELTA`] by PLD.
pub(super) fn multiplier_for(epsilon: f64, n_releases: u64) -> anyhow::Result<f64> {
    let budget = Budget::new(epsilon, Delta::new(DELTA)?)?;
    let sampling = Sampling::Poisson(SamplingRate::ALL);
    let found = smallest_multiplier(AccountantKind::Pld, sampling, n_releases, budget)?;
    Ok(found.value.get())
}

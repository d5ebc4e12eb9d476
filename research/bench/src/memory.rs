//! Peak memory of federated Thompson sampling with all agents in one process.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use fedbo_federated::fts::{AgentSampling, Fts, FtsSettings};
use fedbo_optim::Points;
use fedbo_protocol::Weights;
use fedbo_space::{ParameterSpec, Space};
use fedbo_strategies::{
    Collaborator, Domain, LocalProb, MessageSettings, Observation, Proposal, Source, Strategy,
    ThompsonSettings,
};
use fedbo_streams::{Purpose, Seed};
use serde_json::{Value, json};

use crate::measure::rounded;
use crate::message::feature_map;

/// Returns one row. The federation uses 100 shared features in two dimensions and five initial
/// points per agent. Hyperparameters are fitted on the default schedule, and every agent's message
/// is sent to all others in each round.
pub(crate) fn rows(n_agents: u32, n_rounds: u64) -> Result<Vec<Value>> {
    let seed = Seed::new(1);
    let (before, begin) = (peak_mib()?, Instant::now());
    let map = Arc::new(feature_map(100, 2)?);
    let unit = ParameterSpec::float(0.0, 1.0);
    let domain = Domain::Space(Space::from_specs([("x1", &unit), ("x2", &unit)])?);
    let mut agents = Vec::new();
    for agent in 0..n_agents {
        let settings = FtsSettings {
            own: ThompsonSettings::default_for(2),
            local_prob: LocalProb::InverseSqrt,
            agent_sampling: AgentSampling::Uniform,
            message: MessageSettings::default(),
        };
        let own_seed = seed.child(Purpose::AGENT, u64::from(agent));
        let mut strategy = Fts::new(domain.clone(), settings, Arc::clone(&map), own_seed)?;
        let mut stream = own_seed.stream(Purpose::INITIAL_DESIGN, 0, 0);
        let initial: Vec<Observation> = (0..5)
            .map(|_| {
                let unit = domain.random(&mut stream);
                observe(agent, Proposal { unit, source: Source::Initial })
            })
            .collect();
        strategy.tell(&initial)?;
        agents.push(strategy);
    }
    for round in 0..n_rounds {
        let mut messages = Vec::new();
        for (agent, strategy) in (0..).zip(&agents) {
            let mut stream = seed.stream(fedbo_protocol::WEIGHT_SAMPLE, u64::from(agent), round);
            messages.push((agent, Weights::from(strategy.weight_sample(&mut stream)?)));
        }
        for (agent, strategy) in (0..).zip(&mut agents) {
            for (sender, weights) in messages.iter().filter(|(sender, _)| *sender != agent) {
                strategy.receive(*sender, map.hash(), weights)?;
            }
            let mut stream = seed.stream(Purpose::PROPOSAL, u64::from(agent), round);
            let proposal = strategy.ask(&Points::new(strategy.domain().dim()), &mut stream)?;
            strategy.tell(&[observe(agent, proposal)])?;
        }
    }
    Ok(vec![json!({
        "peer": "fedbo",
        "agents": n_agents,
        "rounds": n_rounds,
        "seconds": rounded(begin.elapsed().as_secs_f64(), 3),
        "start_mib": rounded(before, 1),
        "peak_mib": rounded(peak_mib()?, 1),
    })])
}

/// Evaluates a smooth objective that differs slightly between agents.
fn observe(agent: u32, proposal: Proposal) -> Observation {
    let shift = 0.02 * f64::from(agent % 10);
    let distance = |x: f64, centre: f64| (x - centre).powi(2);
    let Proposal { unit, source } = proposal;
    let value = -distance(unit[0], 0.3 + shift) - distance(unit[1], 0.7 - shift)
        + 0.1 * (9.0 * unit[0]).sin();
    Observation::new(unit, Some(value), source)
}

/// Returns the peak resident memory of this process so far, in MiB, as reported by Linux.
pub(crate) fn peak_mib() -> Result<f64> {
    let path = "/proc/self/status";
    let status = std::fs::read_to_string(path).with_context(|| format!("{path}: Linux only"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = line
        .and_then(|line| line.split_whitespace().next())
        .context("no VmHWM in /proc/self/status")?
        .parse()?;
    Ok(kib / 1024.0)
}

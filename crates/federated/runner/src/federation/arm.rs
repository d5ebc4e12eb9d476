//! A single arm of a run: its agents and their coordinator.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_gp::FeatureMap;
use fedbo_objective::Objective;
use fedbo_privacy::mechanism::{SecureNoise, SimNoise};
use fedbo_protocol::{
    Agent, AgentEffect, AgentError, AgentUpdate, Aggregator, Instants, Mailbox, Participations,
    Relay, RoundMechanism, UsesHandouts,
};
use fedbo_strategies::StrategyError;
use fedbo_streams::Seed;

use super::run_error::RunError;
use super::study_ledger::StudyLedger;
use crate::peer_session::{PeerMember, SimulatedNetwork, run_peers};
use crate::release_store::{ReleaseStore, UnchargedReleases};
use crate::session::{
    Ended, Evaluation, FreeTimes, Member, Observer, run_free_session, run_relayed, run_session,
};
use fedbo_federated::VirtualNetwork;
use fedbo_federation::{
    Arm, Collaboration, Federation, FederationAgent, FreePlan, NeighbourPlan, Protection,
    ReleasePlan, Role,
};

/// An arm that is ready to run once.
pub(crate) struct ArmRun<'a> {
    /// The federation of the current repetition.
    pub(crate) federation: &'a Federation,
    pub(crate) arm: Arm,
    /// The objectives of the agents that make queries, in file order.
    pub(crate) objectives: Vec<Arc<dyn Objective>>,
    /// The ledger that the arm's releases are charged to, if they are charged.
    pub(super) ledger: Option<&'a mut StudyLedger>,
    pub(crate) observer: &'a mut (dyn Observer + Send),
    pub(crate) stop: &'a AtomicBool,
}

/// Returns the objectives of the agents that make queries.
pub(crate) fn objectives(
    federation: &Federation,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Arc<dyn Objective>>, RunError> {
    federation.tuning().map(|(_, agent)| objective(federation, agent, stop)).collect()
}

/// Returns the objective of an agent.
pub(crate) fn objective(
    federation: &Federation,
    agent: &FederationAgent,
    stop: &Arc<AtomicBool>,
) -> Result<Arc<dyn Objective>, RunError> {
    let name = || agent.name.clone();
    let objective = federation.objective(agent, stop);
    objective
        .map_err(|source| RunError::Command { agent: name(), source: Box::new(source) })?
        .ok_or_else(|| RunError::NoObjective { agent: name() })
}

impl<'a> ArmRun<'a> {
    /// Creates an arm without charges, for a declared experiment.
    pub(crate) fn uncharged(
        federation: &'a Federation,
        arm: Arm,
        objectives: Vec<Arc<dyn Objective>>,
        observer: &'a mut (dyn Observer + Send),
        stop: &'a AtomicBool,
    ) -> Self {
        Self { federation, arm, objectives, ledger: None, observer, stop }
    }

    /// Runs the arm on the current thread pool.
    pub(crate) fn run(mut self) -> Result<Ended, RunError> {
        let federation = self.federation;
        let map = federation.feature_map().map_err(RunError::Features)?;
        match &federation.collaboration {
            Collaboration::Relayed(settings) => {
                let arm = self.arm;
                let agent = |seed| federation.relayed_agent(settings.as_ref(), arm, &map, seed);
                let mut members = self.members(agent)?;
                if let Some(free) = &federation.free {
                    let participants = members.iter().map(|member| member.agent.id()).collect();
                    let window = Some(federation.network.round_ms);
                    let (n, hash) = (federation.message_len(), map.hash());
                    let mailbox = Mailbox::new(free.max_age, free.sample, federation.root());
                    let mut relay = Relay::new(participants, Vec::new(), n, hash, window, 0)
                        .with_mailbox(mailbox);
                    let store = &mut UnchargedReleases;
                    let times = times(free);
                    return Ok(run_free_session(
                        &mut members,
                        &times,
                        &mut relay,
                        store,
                        self.observer,
                        self.stop,
                    )?);
                }
                let contributions = contributions(federation, agent)?;
                let ended = run_relayed(
                    &mut members,
                    contributions,
                    federation.message_len(),
                    map.hash(),
                    self.observer,
                    self.stop,
                )?;
                Ok(ended)
            }
            Collaboration::Released(releases) => self.released(releases, &map),
            Collaboration::Neighbours(neighbours) => self.neighbours(neighbours),
        }
    }

    /// Runs an arm of agents that share observations with neighbours, in virtual time.
    fn neighbours(self, neighbours: &NeighbourPlan) -> Result<Ended, RunError> {
        let federation = self.federation;
        let mut members = Vec::with_capacity(federation.agents.len());
        let agents = federation.agents.iter().zip(self.objectives);
        for (id, (agent, objective)) in (0_u32..).zip(agents) {
            let name = || agent.name.clone();
            let peer = federation.peer(neighbours, self.arm, id);
            let peer = peer.map_err(|source| AgentError::Strategy { agent: id, source })?;
            members.push(PeerMember {
                peer: peer.ok_or_else(|| RunError::NoStart { agent: name() })?,
                evaluation: Evaluation::new(
                    federation.space.clone(),
                    objective,
                    federation.direction,
                ),
            });
        }
        let VirtualNetwork { spread, delay, loss } = neighbours.exchange().network;
        let network = SimulatedNetwork { spread, delay, loss };
        let seed = federation.root();
        let ended = run_peers(&mut members, network, seed, self.observer, self.stop)?;
        Ok(ended)
    }

    /// Runs an arm of agents that learn from releases. The noise of charged releases comes from the
    /// operating system. All other noise comes from the seed (INV-10).
    fn released(
        mut self,
        releases: &ReleasePlan,
        map: &Arc<FeatureMap>,
    ) -> Result<Ended, RunError> {
        let federation = self.federation;
        let is_charged = self.arm.role == Role::Own
            && matches!(releases.releases.protection, Protection::Charged(_));
        match (is_charged, self.ledger.take()) {
            (true, Some(ledger)) => {
                let rounds = releases.rounds(self.arm, SecureNoise::new());
                self.drive(releases, map, rounds, ledger)
            }
            (false, None) => {
                let noise = SimNoise::new(federation.noise_seed());
                let rounds = releases.rounds(self.arm, noise);
                self.drive(releases, map, rounds, &mut UnchargedReleases)
            }
            _ => Err(RunError::Other(anyhow::anyhow!(
                "arm {} and its ledger do not belong together",
                self.arm
            ))),
        }
    }

    fn drive<M: RoundMechanism>(
        mut self,
        releases: &ReleasePlan,
        map: &Arc<FeatureMap>,
        rounds: M,
        store: &mut dyn ReleaseStore,
    ) -> Result<Ended, RunError> {
        let (federation, arm) = (self.federation, self.arm);
        let mut members =
            self.members(|seed| federation.released_agent(releases, arm, map, seed))?;
        if let Some(free) = &federation.free {
            let n_slots = rounds.n_slots();
            let window = federation.network.round_ms;
            let instants = Instants::new(window, window).map_err(|error| {
                RunError::Other(anyhow::anyhow!("network.round_s gives no windows: {error}"))
            })?;
            let mut coordinator =
                Aggregator::new(rounds, releases.schedule(), map.hash(), Some(instants));
            if let Some(most) = releases.releases.participations {
                coordinator = coordinator.with_participations(Participations::new(n_slots, most));
            }
            return Ok(run_free_session(
                &mut members,
                &times(free),
                &mut coordinator,
                store,
                self.observer,
                self.stop,
            )?);
        }
        let mut coordinator = Aggregator::new(rounds, releases.schedule(), map.hash(), None);
        let ended = run_session(
            &mut members,
            Vec::new(),
            &mut coordinator,
            store,
            self.observer,
            self.stop,
        )?;
        Ok(ended)
    }

    /// Creates the agents that make queries, in file order. Moves their objectives out of `self`.
    fn members<S: UsesHandouts>(
        &mut self,
        strategy: impl Fn(Seed) -> Result<S, StrategyError>,
    ) -> Result<Vec<Member<S>>, RunError> {
        let federation = self.federation;
        let seed = federation.root();
        let mut members = Vec::with_capacity(federation.agents.len());
        let objectives = std::mem::take(&mut self.objectives);
        for ((id, agent), objective) in federation.tuning().zip(objectives) {
            let name = || agent.name.clone();
            let strategy = strategy(federation.agent_seed(id))?;
            let plan = federation.agent_plan(id);
            let plan = plan.ok_or_else(|| RunError::NoStart { agent: name() })?;
            let agent = Agent::new(strategy, plan, seed)?;
            members.push(Member {
                agent: match federation.free_pace() {
                    Some(pace) => agent.at_free_pace(pace),
                    None => agent,
                },
                evaluation: Evaluation::new(
                    federation.space.clone(),
                    objective,
                    federation.direction,
                ),
            });
        }
        Ok(members)
    }
}

/// Creates the messages that agents with earlier trials send before the first round.
fn contributions<S: UsesHandouts>(
    federation: &Federation,
    strategy: impl Fn(Seed) -> Result<S, StrategyError>,
) -> Result<Vec<AgentUpdate>, RunError> {
    let mut contributions = Vec::new();
    for id in (0_u32..).take(federation.agents.len()) {
        if federation.history(id).is_none() {
            continue;
        }
        let agent = || federation.agents[id as usize].name.clone();
        let plan = federation.agent_plan(id).ok_or_else(|| RunError::NoStart { agent: agent() })?;
        let strategy = strategy(federation.agent_seed(id))?;
        let effects = Agent::new(strategy, plan, federation.root())?.start()?;
        contributions.extend(effects.into_iter().filter_map(|effect| match effect {
            AgentEffect::Upload(update) => Some(update),
            _ => None,
        }));
    }
    Ok(contributions)
}

/// Returns the durations of trials and windows at a free pace.
fn times(free: &FreePlan) -> FreeTimes {
    FreeTimes { trials: free.trial_ms.clone(), last_window: free.windows - 1 }
}

//! One arm of a run: its agents, and who coordinates them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_algorithms::StrategyError;
use fedbo_gp::FeatureMap;
use fedbo_objective::Objective;
use fedbo_privacy::mechanism::{NoiseSource, SecureNoise, SimNoise};
use fedbo_protocol::{
    Agent, AgentError, Aggregator, LatticeRounds, PaperRounds, RoundMechanism, Takes,
};
use fedbo_streams::Seed;

use super::run_error::RunError;
use super::study_ledger::StudyLedger;
use crate::peer_session::{PeerMember, SimulatedNetwork, run_peers};
use crate::release_store::{Forgetful, ReleaseStore};
use crate::session::{Ended, Member, Observer, run_fts, run_session};
use fedbo_federation::Distributed;
use fedbo_federation::Protection;
use fedbo_federation::ReleaseMechanism;
use fedbo_federation::{Arm, Collaboration, Federation, FederationAgent};
use fedbo_federation::{Neighbours, VirtualNetwork};

/// An arm that is about to run, once.
pub(crate) struct ArmRun<'a> {
    /// The federation, in the repetition that is run.
    pub(crate) federation: &'a Federation,
    pub(crate) arm: Arm,
    /// The objective of each agent, in the order of the file.
    pub(crate) objectives: Vec<Arc<dyn Objective>>,
    /// The ledger to which the arm's releases are charged, if they are.
    pub(super) ledger: Option<&'a mut StudyLedger>,
    pub(crate) observer: &'a mut (dyn Observer + Send),
    pub(crate) stop: &'a AtomicBool,
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
        .map_err(|source| RunError::Command {
            agent: name(),
            source: Box::new(source),
        })?
        .ok_or_else(|| RunError::NoObjective { agent: name() })
}

impl<'a> ArmRun<'a> {
    /// An arm that charges nothing: one of a declared experiment.
    pub(crate) fn uncharged(
        federation: &'a Federation,
        arm: Arm,
        objectives: Vec<Arc<dyn Objective>>,
        observer: &'a mut (dyn Observer + Send),
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            federation,
            arm,
            objectives,
            ledger: None,
            observer,
            stop,
        }
    }

    /// Runs it on the current thread pool.
    pub(crate) fn run(mut self) -> Result<Ended, RunError> {
        let federation = self.federation;
        let map = federation.feature_map().map_err(RunError::Features)?;
        match &federation.collaboration {
            Collaboration::Fts(settings) => {
                let arm = self.arm;
                let mut members = self.members(|seed| federation.fts(settings, arm, &map, seed))?;
                let ended = run_fts(
                    &mut members,
                    Vec::new(),
                    map.n_features(),
                    map.hash(),
                    self.observer,
                    self.stop,
                )?;
                Ok(ended)
            }
            Collaboration::Distributed(distributed) => self.distributed(distributed, &map),
            Collaboration::Neighbours(neighbours) => self.neighbours(neighbours),
        }
    }

    /// An arm of distributed Thompson sampling, in virtual time.
    fn neighbours(self, neighbours: &Neighbours) -> Result<Ended, RunError> {
        let federation = self.federation;
        let mut members = Vec::with_capacity(federation.agents.len());
        let agents = federation.agents.iter().zip(self.objectives);
        for (id, (agent, objective)) in (0_u32..).zip(agents) {
            let name = || agent.name.clone();
            let peer = federation.peer(neighbours, self.arm, id);
            let peer = peer.map_err(|source| AgentError::Strategy { agent: id, source })?;
            let space = federation.space.clone();
            members.push(PeerMember {
                peer: peer.ok_or_else(|| RunError::NoStart { agent: name() })?,
                objective,
                decoder: Arc::new(move |unit| space.decode(unit)),
                direction: federation.direction,
            });
        }
        let VirtualNetwork {
            spread,
            delay,
            loss,
        } = neighbours.network;
        let network = SimulatedNetwork {
            spread,
            delay,
            loss,
        };
        let seed = federation.root();
        let ended = run_peers(&mut members, network, seed, self.observer, self.stop)?;
        Ok(ended)
    }

    /// An arm of DP-FTS-DE. What is charged has noise of the operating system, all else has noise from the seed (INV-10).
    fn distributed(
        mut self,
        distributed: &Distributed,
        map: &Arc<FeatureMap>,
    ) -> Result<Ended, RunError> {
        let federation = self.federation;
        let is_charged = self.arm == Arm::DpFtsDe
            && matches!(distributed.releases.protection, Protection::Charged(_));
        match (is_charged, self.ledger.take()) {
            (true, Some(ledger)) => self.with_noise(distributed, map, SecureNoise::new(), ledger),
            (false, None) => {
                let noise = SimNoise::new(federation.noise_seed());
                self.with_noise(distributed, map, noise, &mut Forgetful)
            }
            _ => Err(RunError::Other(anyhow::anyhow!(
                "arm {} and its ledger do not belong together",
                self.arm
            ))),
        }
    }

    fn with_noise<S: NoiseSource>(
        self,
        distributed: &Distributed,
        map: &Arc<FeatureMap>,
        noise: S,
        store: &mut dyn ReleaseStore,
    ) -> Result<Ended, RunError> {
        let schedule = distributed.schedule();
        match distributed.mechanism(self.arm) {
            ReleaseMechanism::Lattice(mechanism) => {
                let rounds = LatticeRounds::new(mechanism, schedule, noise)
                    .with_witnesses(distributed.releases.n_witnesses);
                self.drive(distributed, map, rounds, store)
            }
            ReleaseMechanism::Paper(mechanism) => {
                let exploration = distributed.exploration.clone();
                let weights = move |round| exploration.agent_weights(round);
                let rounds = PaperRounds::new(mechanism, weights, noise);
                self.drive(distributed, map, rounds, store)
            }
        }
    }

    fn drive<M: RoundMechanism>(
        mut self,
        distributed: &Distributed,
        map: &Arc<FeatureMap>,
        rounds: M,
        store: &mut dyn ReleaseStore,
    ) -> Result<Ended, RunError> {
        let (federation, arm) = (self.federation, self.arm);
        let mut members = self.members(|seed| federation.dp_fts_de(distributed, arm, map, seed))?;
        let mut coordinator = Aggregator::new(rounds, distributed.schedule(), map.hash(), None);
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

    /// The agents, in the order of the file, with their objectives, which are then gone from here.
    fn members<S: Takes>(
        &mut self,
        strategy: impl Fn(Seed) -> Result<S, StrategyError>,
    ) -> Result<Vec<Member<S>>, RunError> {
        let federation = self.federation;
        let seed = federation.root();
        let mut members = Vec::with_capacity(federation.agents.len());
        let objectives = std::mem::take(&mut self.objectives);
        let agents = federation.agents.iter().zip(objectives);
        for (id, (agent, objective)) in (0_u32..).zip(agents) {
            let name = || agent.name.clone();
            let strategy = strategy(federation.agent_seed(id))?;
            let plan = federation.agent_plan(id);
            let plan = plan.ok_or_else(|| RunError::NoStart { agent: name() })?;
            let space = federation.space.clone();
            members.push(Member {
                agent: Agent::new(strategy, plan, seed)?,
                objective,
                decoder: Arc::new(move |unit| space.decode(unit)),
                direction: federation.direction,
            });
        }
        Ok(members)
    }
}

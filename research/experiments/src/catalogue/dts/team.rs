//! One team in one run: its agents, its graph, and its regret.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use fedbo_federated::distributed_ts::{
    DistributedTs, DistributedTsSettings, IndependentDraws, Query,
};
use fedbo_protocol::{InitialSharing, Neighbourhood, Pace, Peer, PeerPlan, ReportContent};
use fedbo_report::TeamRegret;
use fedbo_research_problems::{Function, Problem, TestFunction};
use fedbo_space::{ParameterSpec, Space};
use fedbo_strategies::{Domain, Repeats, ThompsonSettings};
use fedbo_streams::{Purpose, Seed};
use fedbo_topology::{Graph, GraphSpec};

use fedbo_runner::{Ended, Observer, TrialRecord};
use fedbo_runner::{Evaluation, PeerMember, SimulatedNetwork, run_peers};

/// Number of private initial points of each agent, as in the authors' code.
const N_INITIAL: usize = 10;
/// Number of points of the authors' grid in each dimension.
const GRID: usize = 100;

/// The objective of a team.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landscape {
    pub(super) name: &'static str,
    function: Function,
    /// Bounds of the two coordinates.
    bounds: [(f64, f64); 2],
    /// Standard deviation of the observation noise.
    noise_std: f64,
    /// Maximum move of an agent in the authors' code, in units of the coordinates.
    radius: f64,
}

/// The paper's two functions. Domains, noise and radius are taken from the code of the paper's
/// figure.
pub(super) const LANDSCAPES: [Landscape; 2] = [
    Landscape {
        name: "ackley",
        function: Function::Ackley { dim: 2 },
        bounds: [(-5.0, 5.0); 2],
        noise_std: 1.0,
        radius: 0.5,
    },
    Landscape {
        name: "rosenbrock",
        function: Function::Rosenbrock { dim: 2 },
        bounds: [(-2.0, 2.0), (-1.0, 3.0)],
        noise_std: 0.1,
        radius: 0.5,
    },
];

/// The source of an experiment's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// The paper's text: functions are drawn from the posterior, all data is shared, and regret is
    /// computed from the true function.
    Text,
    /// The authors' code: independent draws per candidate, within a radius of the last point. Only
    /// the best initial point is shared. Regret is computed from noisy values and clipped at 0.
    Authors,
}

/// An arm, by the data that its agents share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arm {
    /// Neighbours share their observations.
    Dts,
    /// The same number of agents, each working alone.
    Ts,
    /// Neighbours share values at random points.
    Placebo,
}

impl Arm {
    pub(super) const ALL: [Self; 3] = [Self::Dts, Self::Ts, Self::Placebo];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Dts => "distributed-ts",
            Self::Ts => "ts",
            Self::Placebo => "placebo",
        }
    }
}

/// A team of agents.
#[derive(Clone, Debug)]
pub(super) struct Team {
    pub(super) landscape: Landscape,
    pub(super) graph: GraphSpec,
    pub(super) n_agents: u32,
    pub(super) n_rounds: u64,
    pub(super) setting: Setting,
}

impl Team {
    /// Creates a team that plays 50 rounds as in the paper's text.
    pub(super) fn of_text(landscape: Landscape, graph: GraphSpec, n_agents: u32) -> Self {
        Self { landscape, graph, n_agents, n_rounds: 50, setting: Setting::Text }
    }

    /// Returns the graph of a run.
    pub(super) fn graph(&self, seed: Seed) -> anyhow::Result<Graph> {
        let mut stream = seed.stream(fedbo_topology::TOPOLOGY, u64::from(self.n_agents), 0);
        Ok(self.graph.build(self.n_agents, &mut stream)?)
    }

    /// Runs the team. Equal seeds give equal initial points and noise in every arm. Returns `None`
    /// if interrupted.
    pub(super) fn run(
        &self,
        arm: Arm,
        seed: Seed,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<TeamRegret>> {
        let graph = self.graph(seed)?;
        let Landscape { function, noise_std, .. } = self.landscape;
        let problem = Arc::new(TestFunction::new(function, noise_std, seed)?);
        let space = self.space(problem.as_ref())?;
        let mut members = Vec::new();
        for id in graph.agents() {
            let settings = self.settings(space.dim());
            let strategy = DistributedTs::new(Domain::Space(space.clone()), settings, seed)?;
            let plan = self.plan(arm, id, &graph, &space, seed);
            members.push(PeerMember {
                peer: Peer::new(Box::new(strategy), plan, seed),
                evaluation: Evaluation::new(
                    space.clone(),
                    Arc::clone(&problem) as Arc<_>,
                    problem.direction(),
                ),
            });
        }
        let mut instants =
            Instants { problem: problem.as_ref(), setting: self.setting, rounds: Vec::new() };
        let network = SimulatedNetwork::default();
        let ended = run_peers(&mut members, network, seed, &mut instants, stop)?;
        if ended == Ended::Interrupted {
            return Ok(None);
        }
        let regret = TeamRegret::of(&instants.rounds);
        let mut regret = regret.context("no trial of the first round has a value")?;
        if self.setting == Setting::Authors {
            regret.best.iter_mut().for_each(|best| *best = best.max(0.0));
        }
        Ok(Some(regret))
    }

    fn space(&self, problem: &dyn Problem) -> anyhow::Result<Space> {
        let names = problem.space().parameters().iter().map(|p| p.name().to_owned());
        let specs: Vec<(String, ParameterSpec)> = names
            .zip(self.landscape.bounds)
            .map(|(name, (low, high))| (name, ParameterSpec::float(low, high)))
            .collect();
        let specs = specs.iter().map(|(name, spec)| (name.as_str(), spec));
        Ok(Space::from_specs(specs)?)
    }

    fn settings(&self, dim: usize) -> DistributedTsSettings {
        let own = ThompsonSettings {
            repeats: Repeats::Allow, // values are noisy
            ..ThompsonSettings::default_for(dim)
        };
        let (low, high) = self.landscape.bounds[0];
        let query = match self.setting {
            Setting::Text => Query::Sample,
            // Both domains are squares.
            Setting::Authors => Query::IndependentDraws(IndependentDraws {
                n_per_dim: GRID,
                radius: self.landscape.radius / (high - low),
            }),
        };
        DistributedTsSettings { own, query }
    }

    fn plan(&self, arm: Arm, id: u32, graph: &Graph, space: &Space, seed: Seed) -> PeerPlan {
        let mut stream = seed.stream(Purpose::INITIAL_DESIGN, u64::from(id), 0);
        let domain = Domain::Space(space.clone());
        let initial = (0..N_INITIAL).map(|_| domain.random(&mut stream));
        let neighbours = match arm {
            Arm::Ts => &[][..],
            Arm::Dts | Arm::Placebo => graph.neighbours(id),
        };
        PeerPlan {
            id,
            initial: initial.collect(),
            n_rounds: self.n_rounds,
            neighbourhood: Neighbourhood::fixed(neighbours.iter().copied()),
            pace: Pace::Synchronous { patience: None },
            initial_sharing: match self.setting {
                Setting::Text => InitialSharing::All,
                Setting::Authors => InitialSharing::Best,
            },
            content: match arm {
                Arm::Placebo => ReportContent::Placebo,
                Arm::Dts | Arm::Ts => ReportContent::Observed,
            },
        }
    }
}

/// Collects instantaneous regrets by round.
struct Instants<'a> {
    problem: &'a TestFunction,
    setting: Setting,
    rounds: Vec<Vec<f64>>,
}

impl Observer for Instants<'_> {
    fn wave_ended(&mut self, records: &[TrialRecord]) -> anyhow::Result<()> {
        for record in records.iter().filter(|record| record.trial.round > 0) {
            let value = match self.setting {
                Setting::Text => self.problem.noiseless(&record.point),
                Setting::Authors => match record.outcome {
                    fedbo_objective::Outcome::Value(value) => Some(value),
                    _ => None,
                },
            };
            let round = usize::try_from(record.trial.round - 1)?;
            if self.rounds.len() <= round {
                self.rounds.resize(round + 1, Vec::new());
            }
            let optimum = self.problem.optimum().unwrap_or(0.0);
            self.rounds[round].extend(value.map(|value| value - optimum));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regret(arm: Arm, setting: Setting, n_agents: u32) -> TeamRegret {
        let team = Team {
            landscape: LANDSCAPES[0],
            graph: GraphSpec::Star,
            n_agents,
            n_rounds: 4,
            setting,
        };
        let stop = AtomicBool::new(false);
        team.run(arm, Seed::new(3), &stop).unwrap().unwrap()
    }

    #[test]
    fn regret_is_that_of_the_true_function_and_repeats() {
        let team = regret(Arm::Dts, Setting::Text, 3);
        assert_eq!(team, regret(Arm::Dts, Setting::Text, 3));
        assert_eq!(team.best.len(), 4);
        for round in 0..4 {
            let (best, average, worst) = (team.best[round], team.average[round], team.worst[round]);
            assert!(best >= 0.0 && best <= average && average <= worst);
        }
        assert_ne!(team, regret(Arm::Ts, Setting::Text, 3));
        assert_ne!(team, regret(Arm::Placebo, Setting::Text, 3));
        // A single agent has no neighbours.
        assert_eq!(regret(Arm::Dts, Setting::Text, 1), regret(Arm::Ts, Setting::Text, 1));
    }

    #[test]
    fn the_authors_code_moves_in_small_steps_and_cuts_at_zero() {
        let team = regret(Arm::Dts, Setting::Authors, 2);
        assert!(team.best.iter().all(|best| *best >= 0.0));
        assert_ne!(team, regret(Arm::Dts, Setting::Text, 2));
    }
}

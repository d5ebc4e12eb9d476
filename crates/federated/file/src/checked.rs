//! A federation whose file has been checked: everything that a run takes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_config::{FileError, TomlFile};
use fedbo_federated::{ALGORITHMS, AgentSetup, Algorithm, Arm, Relayed};
use fedbo_gp::{FeatureDescription, FeatureMap, GpError};
use fedbo_objective::{CommandObjective, CommandSpec, NoProblems, Objective, Problem, Problems};
use fedbo_protocol::{AgentPlan, AggregateHandout, Broadcast, FreePace, Peer, UsesHandouts};
use fedbo_space::{Direction, Point, Space};
use fedbo_strategies::{Domain, StrategyError, UcbMultiplier};
use fedbo_streams::{Purpose, Seed};

use crate::file::FederationFile;
use crate::neighbours::NeighbourPlan;
use crate::network::Network;
use crate::pace::FreePlan;
use crate::privacy::PrivacyPlan;
use crate::public_text::check_only_agent_names;
use crate::release_mechanism::ReleaseMechanism;
use crate::releases::ReleasePlan;
use crate::topology::Topology;

/// The place of the agents' objectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objectives {
    /// In the file: each agent has a command or a built-in problem.
    Here,
    /// Functions of the program: the file need not say what agents tune, which is in this process.
    OfProgram,
    /// Agents are other processes: the file need not say what they tune.
    Elsewhere,
}

/// A federation that can be run.
#[derive(Clone)]
pub struct Federation {
    /// Its name.
    pub name: String,
    /// The number that the root of all randomness is made of; see [`Federation::root`].
    pub seed: u64,
    /// The number of this repetition; none for a single run.
    pub run: Option<u32>,
    /// The direction in which values are better.
    pub direction: Direction,
    /// The algorithm that it runs.
    pub algorithm: Algorithm,
    /// Queries of each agent after its initial points.
    pub rounds: u64,
    /// Initial points of each agent.
    pub n_initial: usize,
    /// The parameters, in the order of the file.
    pub space: Space,
    /// The shared features.
    pub features: FeatureDescription,
    /// The agents, in the order of the file.
    pub agents: Vec<FederationAgent>,
    /// The pace of rounds when agents are other processes.
    pub network: Network,
    /// Present at a free pace.
    pub free: Option<FreePlan>,
    /// The collaboration of the agents.
    pub collaboration: Collaboration,
    /// β_t of the arm `ts`.
    pub(crate) ts_ucb_multiplier: UcbMultiplier,
    /// The tables of the file.
    pub(crate) file: FederationFile,
    pub(crate) source: TomlFile,
}

/// The collaboration of agents: what they exchange, and with which settings.
#[derive(Clone)]
pub enum Collaboration {
    /// By messages that all can read, or not at all.
    Relayed(Arc<dyn Relayed>),
    /// By releases of sums.
    Released(Box<ReleasePlan>),
    /// By observations that neighbours share.
    Neighbours(Box<NeighbourPlan>),
}

impl Collaboration {
    /// Returns true if what is released are sums of whole numbers of which everybody is a part: then several can have parts of them.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        let Self::Released(plan) = self else {
            return false;
        };
        matches!(&plan.releases.mechanism, ReleaseMechanism::Lattice(mechanism) if mechanism.has_parts())
    }
}

/// A name that no agent of a federation has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no agent is named {name:?}; the federation's are {}", known.join(", "))]
pub struct UnknownAgent {
    /// The name.
    pub name: String,
    /// The names of all agents.
    pub known: Vec<String>,
}

/// An agent with its objective.
#[derive(Clone)]
pub struct FederationAgent {
    /// Its name, unlike all others'.
    pub name: String,
    /// The objective that it tunes.
    pub objective: AgentObjective,
}

/// The objective of an agent.
#[derive(Clone)]
pub enum AgentObjective {
    /// A command, run once a trial.
    Command(CommandSpec),
    /// A built-in problem.
    Problem(Arc<dyn Problem>),
    /// Of the program itself.
    Function(Arc<dyn Objective>),
    /// Known to the agent alone, which is another process.
    Elsewhere,
}

impl AgentObjective {
    /// The best true value, where it is known.
    #[must_use]
    pub fn optimum(&self) -> Option<f64> {
        match self {
            Self::Command(_) | Self::Function(_) | Self::Elsewhere => None,
            Self::Problem(problem) => problem.optimum(),
        }
    }

    /// The true value at a point, where it is known.
    #[must_use]
    pub fn truth(&self, point: &Point) -> Option<f64> {
        match self {
            Self::Command(_) | Self::Function(_) | Self::Elsewhere => None,
            Self::Problem(problem) => problem.noiseless(point),
        }
    }
}

impl Federation {
    /// Reads and checks a file in which every agent has an objective.
    ///
    /// # Errors
    /// The first thing in it that cannot be used.
    pub fn load(path: &Path, problems: &dyn Problems) -> Result<Self, FileError> {
        Self::load_with_seed(path, None, problems)
    }

    /// The same with another seed in place of the file's, if one is given.
    ///
    /// # Errors
    /// As [`Federation::load`].
    pub fn load_with_seed(
        path: &Path,
        seed: Option<u64>,
        problems: &dyn Problems,
    ) -> Result<Self, FileError> {
        Self::read(path, seed, Objectives::Here, problems)
    }

    /// The same for a program that says what agents tune by [`Federation::with_objective`]: the file need not, and what it says holds
    /// for the others.
    ///
    /// # Errors
    /// As [`Federation::load`].
    pub fn load_for_program(
        path: &Path,
        seed: Option<u64>,
        problems: &dyn Problems,
    ) -> Result<Self, FileError> {
        Self::read(path, seed, Objectives::OfProgram, problems)
    }

    fn read(
        path: &Path,
        seed: Option<u64>,
        objectives: Objectives,
        problems: &dyn Problems,
    ) -> Result<Self, FileError> {
        let file = TomlFile::read(path)?;
        let mut read = file.parse::<FederationFile>()?;
        if let (Some(seed), Some(head)) = (seed, &mut read.federation) {
            head.seed = Some(seed);
        }
        read.validate(&file, objectives, problems, ALGORITHMS)
    }

    /// Reads and checks the text of a file, in which agents have names alone: what they tune is said by
    /// [`Federation::with_objective`]. It may name the given algorithms, [`ALGORITHMS`] or those of a program.
    ///
    /// # Errors
    /// The first thing in it that cannot be used.
    pub fn from_text(text: &str, algorithms: &[Algorithm]) -> Result<Self, FileError> {
        let file = TomlFile::from_text(Path::new("the federation's text"), text);
        let read = file.parse::<FederationFile>()?;
        check_only_agent_names(&read, &file)?;
        read.validate(&file, Objectives::OfProgram, &NoProblems, algorithms)
    }

    /// Says what an agent tunes, by a function of this program.
    ///
    /// # Errors
    /// If no agent has this name.
    pub fn with_objective(
        mut self,
        agent: &str,
        objective: Arc<dyn Objective>,
    ) -> Result<Self, UnknownAgent> {
        let found = self.agents.iter_mut().find(|each| each.name == agent);
        match found {
            Some(found) => found.objective = AgentObjective::Function(objective),
            None => {
                return Err(UnknownAgent {
                    name: agent.to_owned(),
                    known: self.agents.iter().map(|each| each.name.clone()).collect(),
                });
            }
        }
        Ok(self)
    }

    /// The root of all randomness: that of the seed, or of a repetition its child, as in the declared experiments.
    #[must_use]
    pub fn root(&self) -> Seed {
        let seed = Seed::new(self.seed);
        self.run.map_or(seed, |run| seed.child(Purpose::Run, u64::from(run)))
    }

    /// A repetition: with draws and noise of its own, the same in every arm, on the same graph of neighbours.
    #[must_use]
    pub fn repetition(&self, run: u32) -> Self {
        let mut repetition = Self { run: Some(run), ..self.clone() };
        let root = repetition.root();
        for agent in &mut repetition.agents {
            if let AgentObjective::Problem(problem) = &mut agent.objective
                && let Some(noisy) = problem.with_noise_from(root)
            {
                *problem = noisy;
            }
        }
        repetition
    }

    /// The tables of the file, as they were read.
    #[must_use]
    pub fn file(&self) -> &FederationFile {
        &self.file
    }

    /// The text that it was read from.
    #[must_use]
    pub fn source(&self) -> &TomlFile {
        &self.source
    }

    /// The arm that the file itself asks for.
    #[must_use]
    pub fn own_arm(&self) -> Arm {
        let has_noise = match &self.collaboration {
            Collaboration::Released(releases) => releases.has_noise(),
            Collaboration::Relayed(_) | Collaboration::Neighbours(_) => true,
        };
        self.algorithm.own_arm(has_noise)
    }

    /// The arms that can be compared: the algorithm, and its controls.
    #[must_use]
    pub fn arms(&self) -> Vec<Arm> {
        let own = match self.own_arm() {
            Arm::ALONE => Arm::own(self.algorithm.compared_with.unwrap_or(self.algorithm.name)),
            own => own,
        };
        let controls = self.algorithm.controls.iter().copied();
        [own].into_iter().chain(controls).chain([Arm::ALONE, Arm::PLACEBO]).collect()
    }

    /// The guarantee and the budget of the file's own arm; `None` where nothing is promised.
    #[must_use]
    pub fn privacy(&self) -> Option<&PrivacyPlan> {
        match &self.collaboration {
            Collaboration::Released(releases) => releases.privacy(),
            Collaboration::Relayed(_) | Collaboration::Neighbours(_) => None,
        }
    }

    /// Returns true if the noise of its releases comes from the seed, so that they protect nobody.
    #[must_use]
    pub fn is_simulation(&self) -> bool {
        match &self.collaboration {
            Collaboration::Released(releases) => releases.is_simulation(),
            Collaboration::Relayed(_) | Collaboration::Neighbours(_) => false,
        }
    }

    /// The strategy of an agent that gets everybody's messages, in an arm; its draws come from `seed`.
    ///
    /// # Errors
    /// If the strategy refuses its settings.
    pub fn relayed_agent(
        &self,
        settings: &dyn Relayed,
        arm: Arm,
        map: &Arc<FeatureMap>,
        seed: Seed,
    ) -> Result<Box<dyn UsesHandouts<Handout = Broadcast>>, StrategyError> {
        settings.agent(&self.setup(arm, map, seed))
    }

    /// The strategy of an agent that works by releases in an arm; its draws come from `seed`.
    ///
    /// # Errors
    /// If the strategy refuses its settings.
    pub fn released_agent(
        &self,
        releases: &ReleasePlan,
        arm: Arm,
        map: &Arc<FeatureMap>,
        seed: Seed,
    ) -> Result<Box<dyn UsesHandouts<Handout = AggregateHandout>>, StrategyError> {
        releases.agent(&self.setup(arm, map, seed), arm)
    }

    pub(crate) fn setup<'a>(
        &'a self,
        arm: Arm,
        map: &'a Arc<FeatureMap>,
        seed: Seed,
    ) -> AgentSetup<'a> {
        AgentSetup {
            role: arm.role,
            alone_ucb_multiplier: self.ts_ucb_multiplier,
            space: &self.space,
            map,
            seed,
        }
    }

    /// The machine of an agent among neighbours in an arm. None if no point was found to begin with.
    ///
    /// # Errors
    /// If the strategy refuses its settings.
    pub fn peer(
        &self,
        neighbours: &NeighbourPlan,
        arm: Arm,
        id: u32,
    ) -> Result<Option<Peer>, StrategyError> {
        let seed = self.root();
        let map = self.feature_map()?;
        let strategy = neighbours.algorithm.agent(&self.setup(arm, &map, seed))?;
        let initial = self.initial_points(u64::from(id));
        let plan = initial.map(|initial| neighbours.plan(arm.role, id, initial, self.rounds));
        Ok(plan.map(|plan| Peer::new(strategy, plan, seed)))
    }

    /// The graph of neighbours; `None` where agents do not share with neighbours.
    #[must_use]
    pub fn topology(&self) -> Option<&Topology> {
        match &self.collaboration {
            Collaboration::Neighbours(neighbours) => Some(&neighbours.topology),
            Collaboration::Relayed(_) | Collaboration::Released(_) => None,
        }
    }

    /// Initial points of an agent in unit-cube coordinates: uniform in the space or in the agent's region, the same in every
    /// arm, different where there are as many points. None if no point of the region was found.
    #[must_use]
    pub fn initial_points(&self, agent: u64) -> Option<Vec<Vec<f64>>> {
        const N_TRIES: usize = 100;
        let domain = Domain::Space(self.space.clone());
        let mut stream = self.root().stream(Purpose::InitialDesign, agent, 0);
        let mut draw = || match &self.collaboration {
            Collaboration::Relayed(_) | Collaboration::Neighbours(_) => {
                Some(domain.random(&mut stream))
            }
            Collaboration::Released(releases) => {
                let agent = usize::try_from(agent).unwrap_or(usize::MAX);
                releases.algorithm.start(agent, &self.space, &mut stream)
            }
        };
        let mut points: Vec<Vec<f64>> = Vec::with_capacity(self.n_initial);
        for _ in 0..self.n_initial {
            let mut point = draw()?;
            for _ in 0..N_TRIES {
                if !points.contains(&point) {
                    break;
                }
                point = draw()?;
            }
            points.push(point);
        }
        Some(points)
    }

    /// The plan of the agent of this index, without a history; `None` if no point of its region was found to begin
    /// with.
    #[must_use]
    pub fn agent_plan(&self, id: u32) -> Option<AgentPlan> {
        Some(AgentPlan {
            id,
            history: Vec::new(),
            initial: self.initial_points(u64::from(id))?,
            n_rounds: self.rounds,
        })
    }

    /// The pace of an agent, where it is free.
    #[must_use]
    pub fn free_pace(&self) -> Option<FreePace> {
        let plan = self.free.as_ref()?;
        let (every, uploads_max) = match &self.collaboration {
            Collaboration::Released(made) => {
                (made.releases.own_every, made.releases.participations)
            }
            Collaboration::Relayed(_) | Collaboration::Neighbours(_) => (1, None),
        };
        Some(FreePace { every, uploads_max, max_age: plan.max_age })
    }

    /// The last round, or at a free pace the last window: with the next one, a coordinator ends the study.
    #[must_use]
    pub fn last_round(&self) -> u64 {
        self.free.as_ref().map_or(self.rounds, |free| free.windows - 1)
    }

    /// The number of rounds, or at a free pace of windows.
    #[must_use]
    pub fn n_rounds(&self) -> u64 {
        self.free.as_ref().map_or(self.rounds, |free| free.windows)
    }

    /// The number of numbers in what an agent sends in a round.
    #[must_use]
    pub fn message_len(&self) -> usize {
        let (n_features, dim) = (self.features.n_features, self.features.dim);
        match &self.collaboration {
            Collaboration::Relayed(settings) => settings.message_len(n_features, dim),
            Collaboration::Released(_) | Collaboration::Neighbours(_) => n_features,
        }
    }

    /// The random features that all agents share.
    ///
    /// # Errors
    /// If they cannot be drawn.
    pub fn feature_map(&self) -> Result<Arc<FeatureMap>, GpError> {
        let mut stream = self.root().stream(Purpose::SharedFeatures, 0, 0);
        FeatureMap::draw(&self.features, &mut stream).map(Arc::new)
    }

    /// Root of the draws of an agent's strategy.
    #[must_use]
    pub fn agent_seed(&self, id: u32) -> Seed {
        self.root().child(Purpose::Agent, u64::from(id))
    }

    /// The key of all noise that protects nobody: the same in every arm.
    #[must_use]
    pub fn noise_seed(&self) -> [u8; 32] {
        let mut stream = self.root().stream(Purpose::SimulatedNoise, 0, 0);
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(4) {
            chunk.copy_from_slice(&stream.bits().to_le_bytes());
        }
        bytes
    }

    /// The objective of an agent, if it is known here; `stop` ends a running command.
    ///
    /// # Errors
    /// If its command cannot be used.
    pub fn objective(
        &self,
        agent: &FederationAgent,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<Arc<dyn Objective>>, fedbo_objective::CommandError> {
        Ok(match &agent.objective {
            AgentObjective::Command(spec) => {
                let objective = CommandObjective::new(spec, &self.space, Arc::clone(stop))?;
                Some(Arc::new(objective))
            }
            AgentObjective::Problem(problem) => Some(Arc::new(BuiltIn(Arc::clone(problem)))),
            AgentObjective::Function(objective) => Some(Arc::clone(objective)),
            AgentObjective::Elsewhere => None,
        })
    }

    /// Returns true if the best true value of every agent is known.
    #[must_use]
    pub fn knows_regret(&self) -> bool {
        self.agents.iter().all(|agent| agent.objective.optimum().is_some())
    }
}

/// A problem that several arms evaluate.
struct BuiltIn(Arc<dyn Problem>);

impl Objective for BuiltIn {
    fn evaluate(&self, point: &Point, trial: fedbo_objective::TrialId) -> fedbo_objective::Outcome {
        self.0.evaluate(point, trial)
    }
}

//! A validated federation, with everything that a run needs.

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

/// The source of the agents' objectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objectives {
    /// The file, in which each agent has a command or a built-in problem.
    Here,
    /// Functions in this program. The file can omit the objectives.
    OfProgram,
    /// Other processes, which run the agents. The file can omit the objectives.
    Elsewhere,
}

/// A federation that can be run.
#[derive(Clone)]
pub struct Federation {
    /// Name of the federation.
    pub name: String,
    /// The seed of all random draws; see [`Federation::root`].
    pub seed: u64,
    /// The index of this repetition; `None` for a single run.
    pub run: Option<u32>,
    /// A plain name for the objective value, used in figures.
    pub value_name: Option<String>,
    /// The direction of optimization.
    pub direction: Direction,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Number of queries of each agent after its initial points.
    pub rounds: u64,
    /// Number of initial points of each agent.
    pub n_initial: usize,
    /// The parameters, in the order of the file.
    pub space: Space,
    /// The random features that all agents share.
    pub features: FeatureDescription,
    /// The agents, in the order of the file.
    pub agents: Vec<FederationAgent>,
    /// The timing of rounds when agents run in other processes.
    pub network: Network,
    /// The plan for a free pace; `None` if the federation proceeds in rounds.
    pub free: Option<FreePlan>,
    /// The kind of exchange between the agents, with its settings.
    pub collaboration: Collaboration,
    /// β_t of the arm `ts`.
    pub(crate) ts_ucb_multiplier: UcbMultiplier,
    /// The tables of the file.
    pub(crate) file: FederationFile,
    pub(crate) source: TomlFile,
}

/// The kind of exchange between agents, with its settings.
#[derive(Clone)]
pub enum Collaboration {
    /// Messages that all agents can read, or no exchange.
    Relayed(Arc<dyn Relayed>),
    /// Releases of sums.
    Released(Box<ReleasePlan>),
    /// Observations shared with neighbours.
    Neighbours(Box<NeighbourPlan>),
}

impl Collaboration {
    /// Returns true if releases are integer sums that include all agents, so that several
    /// collectors can each hold a partial sum.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        let Self::Released(plan) = self else {
            return false;
        };
        matches!(&plan.releases.mechanism, ReleaseMechanism::Lattice(mechanism) if mechanism.has_parts())
    }
}

/// The error if no agent of the federation has the given name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no agent is named {name:?}; the federation's are {}", known.join(", "))]
pub struct UnknownAgent {
    /// The unknown name.
    pub name: String,
    /// The names of all agents.
    pub known: Vec<String>,
}

/// An agent with its objective.
#[derive(Clone)]
pub struct FederationAgent {
    /// Unique name of the agent.
    pub name: String,
    /// The objective of the agent.
    pub objective: AgentObjective,
}

/// An agent's objective.
#[derive(Clone)]
pub enum AgentObjective {
    /// A command, run once per trial.
    Command(CommandSpec),
    /// A built-in problem.
    Problem(Arc<dyn Problem>),
    /// A function in this program.
    Function(Arc<dyn Objective>),
    /// No objective. The agent sends one message based on these earlier trials, and makes no
    /// queries.
    Earlier(Arc<[(Point, f64)]>),
    /// An objective known only to the agent, which runs in a different process.
    Elsewhere,
}

impl AgentObjective {
    /// Returns the optimal noise-free value, if it is known.
    #[must_use]
    pub fn optimum(&self) -> Option<f64> {
        match self {
            Self::Command(_) | Self::Function(_) | Self::Earlier(_) | Self::Elsewhere => None,
            Self::Problem(problem) => problem.optimum(),
        }
    }

    /// Returns the noise-free value at a point, if it is known.
    #[must_use]
    pub fn truth(&self, point: &Point) -> Option<f64> {
        match self {
            Self::Command(_) | Self::Function(_) | Self::Earlier(_) | Self::Elsewhere => None,
            Self::Problem(problem) => problem.noiseless(point),
        }
    }
}

impl Federation {
    /// Loads and validates a file that gives every agent an objective.
    ///
    /// # Errors
    /// Returns the first invalid entry of the file.
    pub fn load(path: &Path, problems: &dyn Problems) -> Result<Self, FileError> {
        Self::load_with_seed(path, None, problems)
    }

    /// Same as [`Federation::load`], but `seed`, if given, replaces the file's seed.
    ///
    /// # Errors
    /// Same as [`Federation::load`].
    pub fn load_with_seed(
        path: &Path,
        seed: Option<u64>,
        problems: &dyn Problems,
    ) -> Result<Self, FileError> {
        Self::read(path, seed, Objectives::Here, problems)
    }

    /// Same as [`Federation::load_with_seed`], for a program that sets objectives with
    /// [`Federation::with_objective`]. The file can omit objectives. Objectives in the file apply
    /// to the remaining agents.
    ///
    /// # Errors
    /// Same as [`Federation::load`].
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

    /// Parses and validates the text of a file that gives agents only names.
    /// [`Federation::with_objective`] sets the objectives. The text can name any of `algorithms`:
    /// [`ALGORITHMS`] or a program's custom list.
    ///
    /// # Errors
    /// Returns the first invalid entry of the text.
    pub fn from_text(text: &str, algorithms: &[Algorithm]) -> Result<Self, FileError> {
        let file = TomlFile::from_text(Path::new("the federation's text"), text);
        let read = file.parse::<FederationFile>()?;
        check_only_agent_names(&read, &file)?;
        read.validate(&file, Objectives::OfProgram, &NoProblems, algorithms)
    }

    /// Sets an agent's objective to a function in this program.
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

    /// Returns the seed from which all random draws are derived: the federation's seed, or a child
    /// of it for a repetition. Declared experiments use the same seeds.
    #[must_use]
    pub fn root(&self) -> Seed {
        let seed = Seed::new(self.seed);
        self.run.map_or(seed, |run| seed.child(Purpose::RUN, u64::from(run)))
    }

    /// Creates a repetition with its own draws and noise, which are the same in every arm. The
    /// graph of neighbours does not change.
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

    /// Returns the parsed tables of the file.
    #[must_use]
    pub fn file(&self) -> &FederationFile {
        &self.file
    }

    /// Returns the source file of the federation.
    #[must_use]
    pub fn source(&self) -> &TomlFile {
        &self.source
    }

    /// Returns the arm that the file itself describes.
    #[must_use]
    pub fn own_arm(&self) -> Arm {
        let has_noise = match &self.collaboration {
            Collaboration::Released(releases) => releases.has_noise(),
            Collaboration::Relayed(_) | Collaboration::Neighbours(_) => true,
        };
        self.algorithm.own_arm(has_noise)
    }

    /// Returns the arms of a comparison: the algorithm and its controls.
    #[must_use]
    pub fn arms(&self) -> Vec<Arm> {
        let own = match self.own_arm() {
            Arm::ALONE => Arm::own(self.algorithm.compared_with.unwrap_or(self.algorithm.name)),
            own => own,
        };
        let controls = self.algorithm.controls.iter().copied();
        [own].into_iter().chain(controls).chain([Arm::ALONE, Arm::PLACEBO]).collect()
    }

    /// Returns the privacy guarantee and budget of the file's own arm; `None` without a guarantee.
    #[must_use]
    pub fn privacy(&self) -> Option<&PrivacyPlan> {
        match &self.collaboration {
            Collaboration::Released(releases) => releases.privacy(),
            Collaboration::Relayed(_) | Collaboration::Neighbours(_) => None,
        }
    }

    /// Returns true if the noise in releases comes from the seed. Such releases are not private.
    #[must_use]
    pub fn is_simulation(&self) -> bool {
        match &self.collaboration {
            Collaboration::Released(releases) => releases.is_simulation(),
            Collaboration::Relayed(_) | Collaboration::Neighbours(_) => false,
        }
    }

    /// Creates the strategy of an agent that receives all messages, for an arm. Random draws come
    /// from `seed`.
    ///
    /// # Errors
    /// If the strategy rejects its settings.
    pub fn relayed_agent(
        &self,
        settings: &dyn Relayed,
        arm: Arm,
        map: &Arc<FeatureMap>,
        seed: Seed,
    ) -> Result<Box<dyn UsesHandouts<Handout = Broadcast>>, StrategyError> {
        settings.agent(&self.setup(arm, map, seed))
    }

    /// Creates the strategy of an agent that uses releases, for an arm. Random draws come from
    /// `seed`.
    ///
    /// # Errors
    /// If the strategy rejects its settings.
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

    /// Creates the state machine of an agent with neighbours, for an arm. Returns `None` if no
    /// initial point was found.
    ///
    /// # Errors
    /// If the strategy rejects its settings.
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

    /// Returns the graph of neighbours; `None` if agents do not share observations with neighbours.
    #[must_use]
    pub fn topology(&self) -> Option<&Topology> {
        match &self.collaboration {
            Collaboration::Neighbours(neighbours) => Some(&neighbours.topology),
            Collaboration::Relayed(_) | Collaboration::Released(_) => None,
        }
    }

    /// Draws an agent's initial points in unit-cube coordinates, uniformly in the space or in the
    /// agent's region. They are the same in every arm, and distinct if the space has enough points.
    /// Returns `None` if no point in the region was found.
    #[must_use]
    pub fn initial_points(&self, agent: u64) -> Option<Vec<Vec<f64>>> {
        const N_TRIES: usize = 100;
        let domain = Domain::Space(self.space.clone());
        let mut stream = self.root().stream(Purpose::INITIAL_DESIGN, agent, 0);
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

    /// Returns the plan of the agent with this index. An agent with earlier trials has them as its
    /// history and makes no queries. Any other agent has initial points and no history. `None` if
    /// no initial point in its region was found.
    #[must_use]
    pub fn agent_plan(&self, id: u32) -> Option<AgentPlan> {
        if let Some(history) = self.history(id) {
            return Some(AgentPlan { id, history, initial: Vec::new(), n_rounds: 0 });
        }
        Some(AgentPlan {
            id,
            history: Vec::new(),
            initial: self.initial_points(u64::from(id))?,
            n_rounds: self.rounds,
        })
    }

    /// Returns the pace of each agent; `None` unless the pace is free.
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

    /// Returns the last round, or the last window at a free pace. A coordinator ends the study when
    /// the next round would begin.
    #[must_use]
    pub fn last_round(&self) -> u64 {
        self.free.as_ref().map_or(self.rounds, |free| free.windows - 1)
    }

    /// Returns the number of rounds, or of windows at a free pace.
    #[must_use]
    pub fn n_rounds(&self) -> u64 {
        self.free.as_ref().map_or(self.rounds, |free| free.windows)
    }

    /// Returns the length of an agent's message in a round.
    #[must_use]
    pub fn message_len(&self) -> usize {
        let (n_features, dim) = (self.features.n_features, self.features.dim);
        match &self.collaboration {
            Collaboration::Relayed(settings) => settings.message_len(n_features, dim),
            Collaboration::Released(_) | Collaboration::Neighbours(_) => n_features,
        }
    }

    /// Draws the random features that all agents share.
    ///
    /// # Errors
    /// If the features cannot be drawn.
    pub fn feature_map(&self) -> Result<Arc<FeatureMap>, GpError> {
        let mut stream = self.root().stream(Purpose::SHARED_FEATURES, 0, 0);
        FeatureMap::draw(&self.features, &mut stream).map(Arc::new)
    }

    /// Returns the seed for the random draws of an agent's strategy.
    #[must_use]
    pub fn agent_seed(&self, id: u32) -> Seed {
        self.root().child(Purpose::AGENT, u64::from(id))
    }

    /// Returns the seed of all non-private noise, which is the same in every arm.
    #[must_use]
    pub fn noise_seed(&self) -> [u8; 32] {
        let mut stream = self.root().stream(fedbo_protocol::SIMULATED_NOISE, 0, 0);
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(4) {
            chunk.copy_from_slice(&stream.bits().to_le_bytes());
        }
        bytes
    }

    /// Returns an agent's objective, if it is known to this process. Setting `stop` stops a running
    /// command.
    ///
    /// # Errors
    /// If the agent's command cannot be used.
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
            AgentObjective::Earlier(_) | AgentObjective::Elsewhere => None,
        })
    }

    /// Returns true if the optimal value is known for every agent that makes queries.
    #[must_use]
    pub fn knows_regret(&self) -> bool {
        self.tuning().all(|(_, agent)| agent.objective.optimum().is_some())
    }
}

/// A built-in problem, shared by several arms.
struct BuiltIn(Arc<dyn Problem>);

impl Objective for BuiltIn {
    fn evaluate(&self, point: &Point, trial: fedbo_objective::TrialId) -> fedbo_objective::Outcome {
        self.0.evaluate(point, trial)
    }
}

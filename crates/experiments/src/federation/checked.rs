//! A federation whose file has been checked: everything that a run takes.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_algorithms::{Domain, FtsSettings, LocalProb, MessageContent, UcbMultiplier};
use fedbo_config::{FileError, TomlFile};
use fedbo_gp::FeatureDescription;
use fedbo_objective::{CommandObjective, CommandSpec, Objective};
use fedbo_problems::Problem;
use fedbo_space::{Direction, Point, Space};
use fedbo_streams::{Purpose, Seed};

use super::dp_fts_de::Distributed;
use super::file::FederationFile;
use super::privacy::PrivacyPlan;
use super::settings_record::SettingsRecord;
use crate::session::Decoder;

/// What a federation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Federated Thompson sampling.
    Fts,
    /// Thompson sampling, each agent alone.
    Ts,
    /// Federated Thompson sampling with distributed exploration, differentially private unless that is switched off.
    DpFtsDe,
}

/// One way to run the agents of a federation, on the same seeds as every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arm {
    /// Federated Thompson sampling.
    Fts,
    /// Each agent alone: p_t = 1.
    Ts,
    /// The file's algorithm with messages that hold no information: draws of the prior, or zeros where releases are noisy.
    Placebo,
    /// Federated Thompson sampling with distributed exploration, with noise.
    DpFtsDe,
    /// The same without noise.
    FtsDe,
}

impl Arm {
    const ALL: [Self; 5] = [
        Self::Fts,
        Self::DpFtsDe,
        Self::FtsDe,
        Self::Ts,
        Self::Placebo,
    ];

    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fts => "fts",
            Self::Ts => "ts",
            Self::Placebo => "placebo",
            Self::DpFtsDe => "dp-fts-de",
            Self::FtsDe => "fts-de",
        }
    }

    /// Whether agents use each other's messages in it.
    #[must_use]
    pub fn exchanges(self) -> bool {
        self != Self::Ts
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|arm| arm.name() == text)
            .ok_or_else(|| format!("unknown arm {text:?}; known are {}", names(&Self::ALL)))
    }
}

/// Names of arms, with commas between.
pub(super) fn names(arms: &[Arm]) -> String {
    let names: Vec<&str> = arms.iter().map(|arm| arm.name()).collect();
    names.join(", ")
}

/// A federation that can be run.
#[derive(Clone)]
pub struct Federation {
    /// Its name.
    pub name: String,
    /// Root of all randomness.
    pub seed: u64,
    /// Which values are better.
    pub direction: Direction,
    /// What it runs.
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
    pub(super) collaboration: Collaboration,
    /// β_t of the arm `ts`.
    pub(super) ts_ucb_multiplier: UcbMultiplier,
    /// What the file says, to be kept with the results.
    pub(super) settings_record: SettingsRecord,
}

/// How agents work together.
#[derive(Clone)]
pub(super) enum Collaboration {
    /// By messages that all can read, or not at all.
    Fts(Box<FtsSettings>),
    /// By releases of sums.
    Distributed(Box<Distributed>),
}

/// An agent with its objective.
#[derive(Clone)]
pub struct FederationAgent {
    /// Its name, unlike all others'.
    pub name: String,
    /// What it tunes.
    pub objective: AgentObjective,
}

/// What an agent tunes.
#[derive(Clone)]
pub enum AgentObjective {
    /// A command, run once a trial.
    Command(CommandSpec),
    /// A built-in problem.
    Problem(Arc<dyn Problem>),
}

impl AgentObjective {
    /// The best true value, where it is known.
    pub(super) fn optimum(&self) -> Option<f64> {
        match self {
            Self::Command(_) => None,
            Self::Problem(problem) => problem.optimum(),
        }
    }

    /// The true value at a point, where it is known.
    pub(super) fn truth(&self, point: &Point) -> Option<f64> {
        match self {
            Self::Command(_) => None,
            Self::Problem(problem) => problem.noiseless(point),
        }
    }
}

impl Federation {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The first thing in it that cannot be used.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let file = TomlFile::read(path)?;
        file.parse::<FederationFile>()?.validate(&file)
    }

    /// The arm that the file itself asks for.
    #[must_use]
    pub fn own_arm(&self) -> Arm {
        match (&self.collaboration, self.algorithm) {
            (Collaboration::Distributed(distributed), _) => distributed.own_arm(),
            (Collaboration::Fts(_), Algorithm::Ts) => Arm::Ts,
            (Collaboration::Fts(_), _) => Arm::Fts,
        }
    }

    /// The arms that can be compared.
    #[must_use]
    pub fn arms(&self) -> [Arm; 3] {
        let own = match &self.collaboration {
            Collaboration::Distributed(distributed) => distributed.own_arm(),
            Collaboration::Fts(_) => Arm::Fts,
        };
        [own, Arm::Ts, Arm::Placebo]
    }

    /// What the file's own arm promises and may spend; none where nothing is promised.
    #[must_use]
    pub fn privacy(&self) -> Option<&PrivacyPlan> {
        match &self.collaboration {
            Collaboration::Distributed(distributed) => distributed.plan(),
            Collaboration::Fts(_) => None,
        }
    }

    /// Whether the noise of its releases comes from the seed, so that they protect nobody.
    #[must_use]
    pub fn is_simulation(&self) -> bool {
        match &self.collaboration {
            Collaboration::Distributed(distributed) => distributed.is_simulation(),
            Collaboration::Fts(_) => false,
        }
    }

    /// How an agent of federated Thompson sampling works in an arm.
    pub(super) fn fts_settings(&self, settings: &FtsSettings, arm: Arm) -> FtsSettings {
        let mut settings = settings.clone();
        match arm {
            Arm::Ts => {
                settings.local_prob = LocalProb::Constant(1.0);
                settings.own.ucb_multiplier = self.ts_ucb_multiplier;
            }
            Arm::Placebo => settings.message.content = MessageContent::Placebo,
            Arm::Fts | Arm::DpFtsDe | Arm::FtsDe => {}
        }
        settings
    }

    /// Initial points of an agent in unit-cube coordinates: uniform in the space or in the agent's region, the same in every
    /// arm, different where there are as many points. None if no point of the region was found.
    pub(super) fn initial_points(&self, agent: u64) -> Option<Vec<Vec<f64>>> {
        const N_TRIES: usize = 100;
        let domain = Domain::Space(self.space.clone());
        let mut stream = Seed::new(self.seed).stream(Purpose::InitialDesign, agent, 0);
        let mut draw = || match &self.collaboration {
            Collaboration::Fts(_) => Some(domain.random(&mut stream)),
            Collaboration::Distributed(distributed) => {
                let agent = usize::try_from(agent).unwrap_or(usize::MAX);
                distributed
                    .exploration
                    .start(agent, &self.space, &mut stream)
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

    /// The objective of an agent; `stop` ends a running command.
    pub(super) fn objective(
        &self,
        agent: &FederationAgent,
        stop: &Arc<AtomicBool>,
    ) -> Result<Arc<dyn Objective>, fedbo_objective::CommandError> {
        match &agent.objective {
            AgentObjective::Command(spec) => {
                let objective = CommandObjective::new(spec, &self.space, Arc::clone(stop))?;
                Ok(Arc::new(objective))
            }
            AgentObjective::Problem(problem) => Ok(Arc::new(BuiltIn(Arc::clone(problem)))),
        }
    }

    pub(super) fn decoder(&self) -> Decoder {
        let space = self.space.clone();
        Arc::new(move |unit| space.decode(unit))
    }

    /// Whether the best true value of every agent is known.
    pub(super) fn knows_regret(&self) -> bool {
        self.agents
            .iter()
            .all(|agent| agent.objective.optimum().is_some())
    }
}

/// A problem that several arms evaluate.
struct BuiltIn(Arc<dyn Problem>);

impl Objective for BuiltIn {
    fn evaluate(&self, point: &Point, trial: fedbo_objective::TrialId) -> fedbo_objective::Outcome {
        self.0.evaluate(point, trial)
    }
}

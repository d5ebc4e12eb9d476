//! A seed, and the streams and child seeds derived from it by label.

use sha2::{Digest, Sha256};

use crate::Stream;

/// The purpose of a stream: the first part of its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Initial points of an agent, before any surrogate.
    InitialDesign,
    /// An agent's choice in one step: the function to use, the function sample, the maximiser's
    /// starts.
    Proposal,
    /// The weight sample that an agent sends.
    WeightSample,
    /// The message that replaces a real one in a placebo arm.
    Placebo,
    /// Frequencies and phases of the features shared in a federation.
    SharedFeatures,
    /// Restarts of a hyperparameter fit.
    HyperparameterFit,
    /// The definition of a random problem, for example a function drawn from a prior or a split of
    /// a data set.
    Problem,
    /// Noise that a built-in problem adds to its observations.
    ObservationNoise,
    /// The past observations of an agent that joins with a history.
    History,
    /// One of several repetitions of an experiment.
    Run,
    /// An agent of a federation.
    Agent,
    /// The model of an earlier task, and choices among such tasks.
    MetaTask,
    /// Continuations of a learning curve, which decide whether a trial continues training.
    EarlyStopping,
    /// Points at which the effect of parameters on a model is measured.
    Sensitivity,
    /// Coins and noise of a mechanism in a simulation, which protects no data.
    SimulatedNoise,
    /// Durations of trials and messages in a simulated network, and lost messages.
    Network,
    /// A player's choice in one round of a game, and its simulation of the other players.
    Play,
    /// The edges of a random graph of agents, and the positions of agents in a figure.
    Topology,
    /// Draws inside a test or a benchmark.
    Test,
}

impl Purpose {
    fn label(self) -> &'static str {
        match self {
            Self::InitialDesign => "initial-design",
            Self::Proposal => "proposal",
            Self::WeightSample => "weight-sample",
            Self::Placebo => "placebo",
            Self::SharedFeatures => "shared-features",
            Self::HyperparameterFit => "hyperparameter-fit",
            Self::Problem => "problem",
            Self::ObservationNoise => "observation-noise",
            Self::History => "history",
            Self::Run => "run",
            Self::Agent => "agent",
            Self::MetaTask => "meta-task",
            Self::EarlyStopping => "early-stopping",
            Self::Sensitivity => "sensitivity",
            Self::SimulatedNoise => "simulated-noise",
            Self::Network => "network",
            Self::Play => "play",
            Self::Topology => "topology",
            Self::Test => "test",
        }
    }
}

/// The root of all reproducible randomness of a run.
///
/// A stream's key is SHA-256 of the seed, the purpose and two indices, so streams with different labels are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// The seed for a number given by a user.
    pub fn new(number: u64) -> Self {
        Self(digest(&[b"fedbo seed", &number.to_le_bytes()]))
    }

    /// The stream for `purpose`, an index such as an agent's and another such as a round's.
    pub fn stream(&self, purpose: Purpose, index: u64, step: u64) -> Stream {
        Stream::from_key(self.derive(b"stream", purpose, index, step))
    }

    /// A separate seed for a part of a run, so that the part's streams never collide with others.
    pub fn child(&self, purpose: Purpose, index: u64) -> Self {
        Self(self.derive(b"child", purpose, index, 0))
    }

    fn derive(&self, role: &[u8], purpose: Purpose, index: u64, step: u64) -> [u8; 32] {
        let label = purpose.label().as_bytes();
        digest(&[role, b"\0", &self.0, label, b"\0", &index.to_le_bytes(), &step.to_le_bytes()])
    }
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

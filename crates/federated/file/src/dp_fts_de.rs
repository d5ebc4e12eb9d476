//! A federation of DP-FTS-DE agents: `[dp-fts-de]`, and what its arms differ in.

use std::sync::Arc;

use fedbo_algorithms::dp_fts_de::{DpFtsDe, DpFtsDeSettings, Memory, Trust};
use fedbo_algorithms::{
    Domain, LocalProb, MessageContent, MessageNoise, MessageSettings, StrategyError,
    ThompsonSettings, UcbMultiplier,
};
use fedbo_config::{Check, FileError, WordOrNumbers};
use fedbo_gp::FeatureMap;
use fedbo_privacy::mechanism::PaperMechanism;
use fedbo_protocol::ReleaseSchedule;
use fedbo_space::Space;
use fedbo_streams::Seed;

use crate::checked::{Arm, Objectives};
use crate::exploration::Exploration;
use crate::file::{DpFtsDeTable, FederationFile};
use crate::privacy::{PrivacyMode, PrivacyPlan, Protection, Releases, Setting};
use crate::public_config::PublicConfig;
use crate::release_mechanism::ReleaseMechanism;

/// The collaboration of agents by releases of sums.
#[derive(Clone, Debug)]
pub struct Distributed {
    /// The assignment of agents to the regions that they explore.
    pub exploration: Exploration,
    /// The mechanism and the schedule of releases, and their protection.
    pub releases: Releases,
    own: ThompsonSettings,
    local_prob: LocalProb,
    trust: Trust,
    message: MessageSettings,
    memory: Memory,
    /// Averages of all agents' vectors as they are, for arms without noise.
    exact: PaperMechanism,
}

/// The facts about a federation that are known when its collaboration is checked.
pub(crate) struct Around<'a> {
    pub(crate) check: Check<'a>,
    pub(crate) name: &'a str,
    pub(crate) rounds: u64,
    pub(crate) n_agents: usize,
    pub(crate) n_features: usize,
    pub(crate) space: &'a Space,
    pub(crate) own: ThompsonSettings,
    /// The public configuration so far (INV-11): what follows is added to it.
    pub(crate) config: PublicConfig,
    /// The place of the objectives: `Here` if all agents are in one process.
    pub(crate) objectives: Objectives,
}

impl Distributed {
    /// Checks the tables `[dp-fts-de]`, `[exploration]` and `[privacy]`.
    pub(crate) fn of(file: &FederationFile, around: Around<'_>) -> Result<Self, FileError> {
        let Around { check, .. } = around;
        let table = file.dp_fts_de.clone().unwrap_or_default();
        let privacy = file.privacy.clone().unwrap_or_default();
        let exploration = file.exploration.clone().unwrap_or_default();
        let exploration = Exploration::of(&exploration, check, around.space, around.n_agents)?;
        if around.objectives == Objectives::Here {
            memory_suffices(&exploration, &around)?;
        }
        let papers = PrivacyMode::of(&privacy, check)?.is_papers();
        let local_prob = local_prob(&table, check, papers)?;
        let message = message(&table, check, papers)?;
        let memory = memory(&table, check, papers)?;
        let words = [("schedule", Trust::Schedule), ("signal", Trust::Signal)];
        let trust = check.word(&["dp-fts-de", "trust"], table.trust.as_deref(), &words)?;
        let trust = trust.unwrap_or(Trust::Schedule);

        let mut config = around.config;
        config.exploration(&exploration);
        config.strategy(&local_prob, trust, &message, memory);
        let setting = Setting {
            check,
            name: around.name,
            rounds: around.rounds,
            n_agents: u32::try_from(around.n_agents).unwrap_or(u32::MAX), // a file of 2^32 agents fits no memory
            n_features: u32::try_from(around.n_features).unwrap_or(u32::MAX), // checked to be far below
            exploration: &exploration,
            content: message.content,
        };
        let releases = Releases::of(&privacy, &setting, config)?;
        let exact = setting.exact()?;
        Ok(Self {
            releases,
            exact,
            own: around.own,
            local_prob,
            trust,
            message,
            memory,
            exploration,
        })
    }

    /// The arm that the file itself asks for.
    pub(crate) fn own_arm(&self) -> Arm {
        match self.releases.protection {
            Protection::Off => Arm::FtsDe,
            Protection::Simulated | Protection::Charged(_) => Arm::DpFtsDe,
        }
    }

    /// The guarantee and the budget of its own arm; `None` where nothing is promised.
    pub(crate) fn plan(&self) -> Option<&PrivacyPlan> {
        match &self.releases.protection {
            Protection::Charged(plan) => Some(plan),
            Protection::Off | Protection::Simulated => None,
        }
    }

    /// Returns true if the noise comes from the seed.
    pub(crate) fn is_simulation(&self) -> bool {
        matches!(self.releases.protection, Protection::Simulated)
    }

    fn is_noisy(&self) -> bool {
        !matches!(self.releases.protection, Protection::Off)
    }

    /// The mechanism that makes the releases of an arm. In `ts`, nothing is collected of what agents alone know.
    #[must_use]
    pub fn mechanism(&self, arm: Arm) -> ReleaseMechanism {
        match arm {
            Arm::Ts => ReleaseMechanism::Paper(self.exact.clone()),
            _ => self.releases.mechanism.clone(),
        }
    }

    /// The schedule of releases.
    #[must_use]
    pub fn schedule(&self) -> ReleaseSchedule {
        self.releases.schedule
    }

    /// The strategy of an agent in an arm. In `ts` and in a placebo of noisy releases the vectors are zero, so that nothing
    /// of anybody is released; where releases have no noise, a placebo's vectors are draws of the prior.
    pub(crate) fn strategy(
        &self,
        arm: Arm,
        ts_ucb_multiplier: UcbMultiplier,
        space: &Space,
        map: &Arc<FeatureMap>,
        seed: Seed,
    ) -> Result<DpFtsDe, StrategyError> {
        let mut settings = DpFtsDeSettings {
            own: self.own.clone(),
            local_prob: self.local_prob.clone(),
            trust: self.trust,
            message: self.message,
            partition: self.exploration.partition.clone(),
            region_sizes: self.exploration.region_sizes(),
            emphasis: self.exploration.emphasis,
            sampling_rate: self.mechanism(arm).sampling_rate(),
            memory: self.memory,
        };
        match arm {
            Arm::Ts => {
                settings.local_prob = LocalProb::Constant(1.0);
                settings.own.ucb_multiplier = ts_ucb_multiplier;
                settings.message.content = MessageContent::Zero;
            }
            Arm::Placebo if self.is_noisy() => settings.message.content = MessageContent::Zero,
            Arm::Placebo => settings.message.content = MessageContent::Placebo,
            Arm::Fts | Arm::FtsDe | Arm::DpFtsDe | Arm::DistributedTs => {}
        }
        DpFtsDe::new(
            Domain::Space(space.clone()),
            settings,
            Arc::clone(map),
            seed,
        )
    }
}

/// Every agent of a process keeps a sum a region: refuses what cannot fit.
fn memory_suffices(exploration: &Exploration, around: &Around<'_>) -> Result<(), FileError> {
    const BYTES_MAX: f64 = 4.0e9;
    let (n_agents, n_regions) = (around.n_agents, exploration.n_regions());
    // The sums, and as much while a release is being taken in.
    let bytes = 2.0 * 8.0 * n_agents as f64 * n_regions as f64 * around.n_features as f64;
    if bytes <= BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "{n_agents} agents that keep {} numbers for each of {n_regions} regions would need about {:.0} GB of memory in one process, \
         which stops at {:.0}; lower exploration.regions or features.count",
        around.n_features,
        bytes / 1e9,
        BYTES_MAX / 1e9
    );
    Err(around
        .check
        .file
        .error(&["exploration", "regions"], message))
}

fn local_prob(
    table: &DpFtsDeTable,
    check: Check<'_>,
    papers: bool,
) -> Result<LocalProb, FileError> {
    let path = ["dp-fts-de", "local_prob"];
    let schedule = match &table.local_prob {
        None if papers => LocalProb::Power(0.5),
        None => LocalProb::Power(1.0),
        Some(WordOrNumbers::Number(p)) => LocalProb::Constant(*p),
        Some(WordOrNumbers::List(list)) => LocalProb::List(list.clone()),
        Some(WordOrNumbers::Word(word)) => {
            let word: String = word.chars().filter(|c| !c.is_whitespace()).collect();
            match word.as_str() {
                "1-1/t" => LocalProb::Power(1.0),
                "1-1/sqrt(t)" => LocalProb::Power(0.5),
                _ => {
                    let expected =
                        "\"1-1/t\", \"1-1/sqrt(t)\", a probability, or a list of probabilities";
                    return Err(check.file.value_error(&path, expected));
                }
            }
        }
    };
    check.setting(&path, schedule.validate())
}

fn message(
    table: &DpFtsDeTable,
    check: Check<'_>,
    papers: bool,
) -> Result<MessageSettings, FileError> {
    let standard = MessageSettings::default();
    let words = [
        ("mean", MessageContent::Mean),
        ("sample", MessageContent::Posterior),
    ];
    let content = check.word(&["dp-fts-de", "message"], table.message.as_deref(), &words)?;
    let settings = MessageSettings {
        content: content.unwrap_or(match papers {
            true => MessageContent::Posterior,
            false => MessageContent::Mean,
        }),
        noise_variance: table
            .message_noise
            .map_or(standard.noise_variance, MessageNoise::Given),
        standardize: table.standardize.unwrap_or(standard.standardize),
    };
    check.setting(&["dp-fts-de", "message_noise"], settings.validate())
}

fn memory(table: &DpFtsDeTable, check: Check<'_>, papers: bool) -> Result<Memory, FileError> {
    let words = [("mean", false), ("latest", true)];
    let latest = check.word(&["dp-fts-de", "memory"], table.memory.as_deref(), &words)?;
    let path = ["dp-fts-de", "discount"];
    match (latest.unwrap_or(papers), table.discount) {
        (true, None) => Ok(Memory::Latest),
        (true, Some(_)) => {
            let message = "dp-fts-de.discount has no effect unless memory = \"mean\"; remove it, or set memory";
            Err(check.file.error(&path, message))
        }
        (false, discount) => {
            let discount = discount.unwrap_or(1.0);
            if discount > 0.0 && discount <= 1.0 {
                return Ok(Memory::Mean { discount });
            }
            Err(check
                .file
                .value_error(&path, "a number above 0 and at most 1"))
        }
    }
}

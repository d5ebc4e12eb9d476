//! Describes a study's privacy promise for its agents' uploads in one sentence, and identifies
//! studies to which an agent with a budget sends nothing (INV-25).

use fedbo_federation::{Collaboration, Federation, PrivacyPlan, Protection};
use fedbo_privacy::accounting::Mode;

use crate::RunError;

/// A kind of study that does not charge uploads as the default mode does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unprotected {
    /// Every agent gets every message.
    Relayed,
    /// `privacy.mode = "off"`: sums leave without noise.
    NoNoise,
    /// `privacy.simulate = true`: the noise comes from a seed.
    Simulated,
    /// `privacy.mode = "paper"`: the guarantee is the one claimed in the paper.
    Paper,
}

impl Unprotected {
    /// Returns how this study lacks protection, or `None` if its uploads are charged as in the
    /// default mode.
    #[must_use]
    pub fn of(federation: &Federation) -> Option<Self> {
        match &federation.collaboration {
            Collaboration::Relayed(_) | Collaboration::Neighbours(_) => Some(Self::Relayed),
            Collaboration::Released(releases) => match &releases.releases.protection {
                Protection::Off => Some(Self::NoNoise),
                Protection::Simulated => Some(Self::Simulated),
                Protection::Charged(plan) if plan.charter.mode == Mode::Paper => Some(Self::Paper),
                Protection::Charged(_) => None,
            },
        }
    }

    /// Returns a description of the study, to be placed after the study's name.
    fn what(self) -> &'static str {
        match self {
            Self::Relayed => "relays every message to every agent and charges nothing",
            Self::NoNoise => "adds no noise (privacy.mode = \"off\") and charges nothing",
            Self::Simulated => {
                "draws its noise from a seed (privacy.simulate = true), which protects nobody, and charges nothing"
            }
            Self::Paper => {
                "gives only the guarantee of its paper (privacy.mode = \"paper\"), which is weaker than that of the default mode"
            }
        }
    }
}

impl std::fmt::Display for Unprotected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.what())
    }
}

/// Describes the protection of an agent's uploads in a study, in one sentence. If there is a
/// promise, states its ε, δ, number of releases, q and z.
#[must_use]
pub fn protection(federation: &Federation) -> String {
    let not_private = |why: &str| format!("the messages of this study are not private: {why}");
    match &federation.collaboration {
        Collaboration::Relayed(settings) => {
            let algorithm = federation.algorithm.name;
            let sent = settings.messages_are().trim_end_matches(',');
            let windows = match federation.free {
                Some(_) => {
                    "; all agents see in which windows an agent sends, and so roughly how long its trials take"
                }
                None => "",
            };
            not_private(&format!("every agent gets {sent} (algorithm {algorithm:?}){windows}"))
        }
        Collaboration::Neighbours(_) => not_private("neighbours get observations"),
        Collaboration::Released(releases) => match &releases.releases.protection {
            Protection::Off => not_private("no noise is added (privacy.mode = \"off\")"),
            Protection::Simulated => {
                not_private("the noise comes from a seed (privacy.simulate = true)")
            }
            Protection::Charged(plan) => charged(plan, federation),
        },
    }
}

/// Returns a warning if a study's promised ε is so large that it offers hardly any protection.
#[must_use]
pub fn weak_protection(federation: &Federation) -> Option<String> {
    federation.privacy()?.paid_claim()?.warning()
}

/// A promise with a larger δ gets a remark, because δ bounds the probability that the promise
/// fails.
const DELTA_LARGE: f64 = 1e-2;

fn charged(plan: &PrivacyPlan, federation: &Federation) -> String {
    let Some(claim) = plan.paid_claim() else {
        return "the budget of this study covers no release, so no upload is released".to_owned();
    };
    let [(_, q), (_, z), _] = plan.parameters();
    let but = match claim.delta > DELTA_LARGE {
        true => "; such a large delta gives almost no guarantee",
        false => "",
    };
    let (n, of, public) = match &federation.free {
        None => (claim.n_releases.to_string(), "releases".to_owned(), ""),
        Some(free) => (
            format!("at most {}", claim.n_releases),
            format!(
                "of {} releases, one every {} s,",
                free.windows,
                seconds(federation.network.round_ms)
            ),
            "; an agent's participation in a release is public, and so is roughly how long its trials take",
        ),
    };
    let trusted = match federation.file().secure_sum {
        None => "the coordinator is trusted with the vectors themselves",
        Some(_) => {
            "neither of the two servers sees a vector, but both together would; both know which agents upload"
        }
    };
    format!(
        "uploads of this study are protected by differential privacy: {claim}, in {n} {of} with q = {q:?} and z = {z:?}; \
         {trusted}{public}{but}",
    )
}

#[expect(clippy::cast_precision_loss, reason = "at most a month")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

/// Checks that an agent may send to this study: the agent has no budget, the study charges its
/// releases as the default mode does, or the agent's owner has exempted the study (INV-25).
pub(crate) fn check(
    study: &str,
    federation: &Federation,
    has_budget: bool,
    allowed: &[String],
) -> Result<(), RunError> {
    match Unprotected::of(federation) {
        Some(what) if has_budget && !allowed.iter().any(|name| name == study) => {
            Err(RunError::Unprotected { study: study.to_owned(), what })
        }
        _ => Ok(()),
    }
}

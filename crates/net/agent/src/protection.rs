//! The promise of a study for what its agents send, in one sentence, and the studies that an agent with a budget stays
//! out of (INV-25).

use fedbo_federation::{Collaboration, Federation, PrivacyPlan, Protection};
use fedbo_privacy::accounting::Mode;

use crate::RunError;

/// A study whose uploads are not charged as the default mode charges them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unprotected {
    /// Every agent gets every message.
    Relayed,
    /// `privacy.mode = "off"`: sums leave without noise.
    NoNoise,
    /// `privacy.simulate = true`: the noise comes from a seed.
    Simulated,
    /// `privacy.mode = "paper"`: the guarantee is the paper's.
    Paper,
}

impl Unprotected {
    /// Returns the property of this study that stands in the way of a budget, if there is one.
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

    /// Returns a description of the study, which stands after its name.
    fn what(self) -> &'static str {
        match self {
            Self::Relayed => "relays every message to every agent and charges nothing",
            Self::NoNoise => "adds no noise (privacy.mode = \"off\") and charges nothing",
            Self::Simulated => {
                "draws its noise from a seed (privacy.simulate = true), which protects nobody, and charges nothing"
            }
            Self::Paper => {
                "promises only what its paper does (privacy.mode = \"paper\"), which is less than the default mode"
            }
        }
    }
}

impl std::fmt::Display for Unprotected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.what())
    }
}

/// Describes the protection of what an agent sends in a study, in one sentence: with its ε, δ, number of releases, q
/// and z where there is a promise.
#[must_use]
pub fn protection(federation: &Federation) -> String {
    let not_private = |why: &str| format!("the messages of this study are not private: {why}");
    match &federation.collaboration {
        Collaboration::Relayed(settings) => {
            let algorithm = federation.algorithm.name;
            let sent = settings.messages_are().trim_end_matches(',');
            let windows = match federation.free {
                Some(_) => {
                    "; all see in which windows an agent has news, and so roughly how long its trials take"
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

/// Above this δ a promise is remarked upon: δ bounds the chance that it does not hold.
const DELTA_LARGE: f64 = 1e-2;

fn charged(plan: &PrivacyPlan, federation: &Federation) -> String {
    let Some(claim) = plan.paid_claim() else {
        return "the budget of this study pays for no release, so nothing is released of what is sent"
            .to_owned();
    };
    let [(_, q), (_, z), _] = plan.parameters();
    let but = match claim.delta > DELTA_LARGE {
        true => "; a delta as large as this promises hardly anything",
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
            "; in which of them an agent takes part is public, and so is roughly how long its trials take",
        ),
    };
    let trusted = match federation.file().secure_sum {
        None => "the coordinator is trusted with the vectors themselves",
        Some(_) => {
            "neither of the two servers sees a vector, both together would; who uploads is known to both"
        }
    };
    format!(
        "what is sent in this study is protected by differential privacy: {claim}, in {n} {of} of q = {q:?} and z = {z:?}; \
         {trusted}{public}{but}",
    )
}

#[expect(clippy::cast_precision_loss, reason = "at most a month")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

/// Checks that an agent may send to this study: it has no budget, the study charges what it releases, or its owner has named it (INV-25).
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

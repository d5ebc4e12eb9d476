//! The arms of the experiment: the curves of its panels, and their controls.

use fedbo_federated::dp_fts_de::{AggregateUse, ExplorationWeightLaw, ExplorationWeights, Memory};
use fedbo_gp::FeatureSampling;
use fedbo_privacy::accounting::{
    AccountantKind, Budget, Delta, Sampling, SamplingRate, smallest_multiplier,
};
use fedbo_privacy::mechanism::PaperSampling;
use fedbo_research_problems::NOISE_VARIANCE;
use fedbo_strategies::{LocalProb, MessageContent, MessageNoise, MessageSettings};

use super::super::population::{CollaborationMode, Release};
use super::{DELTA, EPSILON, N_ROUNDS};

/// The family of the agents' functions.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Population {
    /// The common function ± 0.02.
    Similar,
    /// α f^n + (1 − α) f.
    Different(f64),
}

/// One curve and its panels.
pub(super) struct Arm {
    pub(super) name: String,
    pub(super) panels: Vec<&'static str>,
    pub(super) crowd: Population,
    pub(super) approach: CollaborationMode,
}

mod panel {
    pub(super) const BENEFIT: &str = "2a benefit of DE";
    pub(super) const COMPONENTS: &str = "5 components of DE";
    pub(super) const CLIPPING: &str = "2b clipping S";
    pub(super) const SAMPLING: &str = "2c sampling rate q";
    pub(super) const NOISE: &str = "2d noise z";
    pub(super) const REGIONS: &str = "4, 6 regions P";
    pub(super) const WEIGHTS: &str = "9, 12a weights";
    pub(super) const SOME: &str = "7a alpha = 0.7";
    pub(super) const ALL: &str = "7b alpha = 1";
    pub(super) const BUDGET: &str = "epsilon = 2";
    pub(super) const BUDGET_PARTS: &str = "epsilon = 2, one change each";
}

/// The paper's messages: samples from the posterior given raw outputs.
const MESSAGE: MessageSettings = MessageSettings {
    content: MessageContent::Posterior,
    noise_variance: MessageNoise::Given(NOISE_VARIANCE),
    standardize: false,
};

/// Returns the paper's setting with P regions, without privacy: FTS for P = 1 and FTS-DE otherwise.
fn plain(n_regions: u32) -> CollaborationMode {
    CollaborationMode {
        n_regions,
        regional_start: true,
        n_features: 50,
        sampling: FeatureSampling::Random,
        emphasis: ExplorationWeights::SYNTHETIC,
        local_prob: LocalProb::Power(0.5),
        trust: AggregateUse::Schedule,
        message: MESSAGE,
        memory: Memory::Latest,
        release: Release::Paper {
            sampling: PaperSampling::Poisson(SamplingRate::ALL),
            noise_multiplier: 0.0,
            max_norm: f64::INFINITY,
        },
        n_releases: N_ROUNDS,
        every: 1,
    }
}

/// Returns the paper's mechanism.
fn paper(
    n_regions: u32,
    rate: f64,
    noise_multiplier: f64,
    max_norm: f64,
) -> anyhow::Result<CollaborationMode> {
    Ok(CollaborationMode {
        release: Release::Paper {
            sampling: PaperSampling::Poisson(SamplingRate::new(rate)?),
            noise_multiplier,
            max_norm,
        },
        ..plain(n_regions)
    })
}

/// Returns our configuration for a small budget: releases from all agents (q = 1) while agents
/// still learn a lot, each as informative as possible. Vectors are posterior means, clipped to a
/// small S, because only their direction matters and the noise shrinks with S. The configuration
/// was chosen on seeds that differ from the experiment's.
fn ours(noise_multiplier: f64) -> CollaborationMode {
    CollaborationMode {
        n_regions: 4,
        sampling: FeatureSampling::QuasiRandom,
        local_prob: LocalProb::Power(1.0),
        message: MessageSettings { content: MessageContent::Mean, ..MESSAGE },
        memory: Memory::Mean { discount: 0.9 },
        release: Release::Lattice { sampling_rate: 1.0, noise_multiplier, max_norm: OUR_NORM },
        n_releases: OUR_RELEASES,
        ..plain(4)
    }
}

const OUR_NORM: f64 = 1.0;
const OUR_RELEASES: u64 = 20;

pub(super) fn arms() -> anyhow::Result<Vec<Arm>> {
    use panel::{
        ALL, BENEFIT, BUDGET, BUDGET_PARTS, CLIPPING, COMPONENTS, NOISE, REGIONS, SAMPLING, SOME,
        WEIGHTS,
    };
    let mut arms = Vec::new();
    let mut add = |name: &str, panels: &[&'static str], crowd, approach: CollaborationMode| {
        arms.push(Arm { name: name.to_owned(), panels: panels.to_vec(), crowd, approach });
    };
    let similar = Population::Similar;
    let of_paper = [BENEFIT, COMPONENTS, CLIPPING, SAMPLING, NOISE, REGIONS, WEIGHTS];
    let everywhere = [of_paper.as_slice(), &[BUDGET, BUDGET_PARTS]].concat();
    add("ts", &everywhere, similar, plain(1).alone());
    add("ts regional P=2", &of_paper, similar, plain(2).alone());
    add("ts regional P=3", &[BENEFIT, REGIONS], similar, plain(3).alone());
    add("ts regional P=4", &[REGIONS, BUDGET, BUDGET_PARTS], similar, plain(4).alone());

    // Without privacy: Fig. 2a and 5.
    add("fts", &[BENEFIT], similar, plain(1));
    add("fts-de P=2", &[BENEFIT, COMPONENTS], similar, plain(2));
    add("fts-de P=3", &[BENEFIT], similar, plain(3));
    add("placebo P=2", &[BENEFIT], similar, plain(2).with_content(MessageContent::Placebo));
    let equal = CollaborationMode { emphasis: ExplorationWeights::UNIFORM, ..plain(2) };
    add("fts-de P=2, equal weights", &[COMPONENTS], similar, equal);
    let anywhere = CollaborationMode { regional_start: false, ..plain(2) };
    add("fts-de P=2, start anywhere", &[COMPONENTS], similar, anywhere);

    // The paper's mechanism: Fig. 2b, 2c, 2d, 4, 6, 9, 12a.
    let base = paper(2, 0.25, 1.0, 11.0)?;
    let with_base = [CLIPPING, SAMPLING, NOISE, REGIONS, WEIGHTS];
    add("q=.25 z=1 S=11 P=2", &with_base, similar, base.clone());
    add("placebo (noise of q=.25 z=1 S=11 P=2)", &with_base, similar, base.silent());
    for norm in [3.0, 6.0, 22.0] {
        let approach = paper(2, 0.25, 1.0, norm)?;
        add(&format!("S={norm}"), &[CLIPPING], similar, approach);
    }
    for rate in [0.15, 0.5] {
        let approach = paper(2, rate, 1.0, 11.0)?;
        add(&format!("q={rate}"), &[SAMPLING], similar, approach);
    }
    for z in [1.2, 1.5] {
        add(&format!("z={z}"), &[NOISE], similar, paper(2, 0.25, z, 11.0)?);
    }
    add("dp-fts (P=1) S=8", &[REGIONS], similar, paper(1, 0.25, 1.0, 8.0)?);
    for n_regions in [3, 4] {
        let approach = paper(n_regions, 0.25, 1.0, 11.0)?;
        add(&format!("P={n_regions}"), &[REGIONS], similar, approach);
    }
    for (name, emphasis) in [
        ("not adaptive", ExplorationWeights { hold: None, ..ExplorationWeights::SYNTHETIC }),
        ("weights 1 (a=9)", ExplorationWeights { start: 10.0, ..ExplorationWeights::SYNTHETIC }),
        (
            "weights 2 (1000)",
            ExplorationWeights {
                law: ExplorationWeightLaw::Linear,
                start: 1000.0,
                ..ExplorationWeights::SYNTHETIC
            },
        ),
        (
            "weights 3 (40 squared)",
            ExplorationWeights {
                law: ExplorationWeightLaw::Square,
                start: 40.0,
                ..ExplorationWeights::SYNTHETIC
            },
        ),
    ] {
        add(name, &[WEIGHTS], similar, CollaborationMode { emphasis, ..base.clone() });
    }

    // Agents with different functions: Fig. 7.
    for (panel, difference) in [(SOME, 0.7), (ALL, 1.0)] {
        let crowd = Population::Different(difference);
        add("ts regional P=2", &[panel], crowd, plain(2).alone());
        add("fts-de, 1-p = 1/sqrt(t)", &[panel], crowd, plain(2));
        let fast = CollaborationMode { local_prob: LocalProb::Power(1.0), ..plain(2) };
        add("fts-de, 1-p = 1/t", &[panel], crowd, fast);
    }

    // Beyond the paper: a small budget.
    let best = ours(noise_for(1.0, OUR_RELEASES)?);
    add("ours", &[BUDGET, BUDGET_PARTS], similar, best.clone());
    add("ours, placebo", &[BUDGET], similar, best.silent());
    let papers = paper(2, 0.25, noise_for(0.25, N_ROUNDS)?, 11.0)?;
    add("paper's mechanism P=2", &[BUDGET], similar, papers.clone());
    add("paper's mechanism, placebo", &[BUDGET], similar, papers.silent());
    let release = |noise_multiplier, max_norm| Release::Lattice {
        sampling_rate: 1.0,
        noise_multiplier,
        max_norm,
    };
    let z = noise_for(1.0, OUR_RELEASES)?;
    let changed = [
        ("samples, not means", best.with_content(MessageContent::Posterior)),
        (
            "S = 1.1 sqrt(P M)",
            CollaborationMode { release: release(z, 1.1 * 200.0_f64.sqrt()), ..best.clone() },
        ),
        ("latest release alone", CollaborationMode { memory: Memory::Latest, ..best.clone() }),
        ("P=1", CollaborationMode { n_regions: 1, ..best.clone() }),
        ("P=2", CollaborationMode { n_regions: 2, ..best.clone() }),
        (
            "random features",
            CollaborationMode { sampling: FeatureSampling::Random, ..best.clone() },
        ),
        ("M=100", CollaborationMode { n_features: 100, ..best.clone() }),
        ("p by signal", CollaborationMode { trust: AggregateUse::Signal, ..best.clone() }),
        (
            "40 releases",
            CollaborationMode {
                release: release(noise_for(1.0, N_ROUNDS)?, OUR_NORM),
                n_releases: N_ROUNDS,
                ..best.clone()
            },
        ),
        (
            "5 releases",
            CollaborationMode {
                release: release(noise_for(1.0, 5)?, OUR_NORM),
                n_releases: 5,
                ..best.clone()
            },
        ),
        (
            "1 release",
            CollaborationMode {
                release: release(noise_for(1.0, 1)?, OUR_NORM),
                n_releases: 1,
                ..best.clone()
            },
        ),
        (
            "weighted copies",
            CollaborationMode {
                release: Release::Paper {
                    sampling: PaperSampling::Poisson(SamplingRate::ALL),
                    noise_multiplier: z,
                    max_norm: OUR_NORM,
                },
                ..best
            },
        ),
    ];
    for (name, approach) in changed {
        add(name, &[BUDGET_PARTS], similar, approach);
    }
    Ok(arms)
}

/// Returns the pairs (arm, control) of a panel: every arm against Thompson sampling with the same
/// initial points, if the panel has it, and against a placebo.
pub(super) fn pairs_of(arms: &[Arm], panel: &str) -> Vec<(String, String)> {
    let members: Vec<&Arm> = arms.iter().filter(|arm| arm.panels.contains(&panel)).collect();
    let is_control = |arm: &Arm| arm.name.starts_with("ts") || arm.name.contains("placebo");
    let start = |arm: &Arm| {
        let approach = &arm.approach;
        if approach.regional_start { approach.n_regions } else { 1 }
    };
    let mut pairs = Vec::new();
    for arm in members.iter().filter(|arm| !is_control(arm)) {
        let alone =
            members.iter().find(|other| other.name.starts_with("ts") && start(other) == start(arm));
        let own_placebo = format!("{}, placebo", arm.name);
        let placebo = members
            .iter()
            .find(|other| other.name == own_placebo)
            .or_else(|| members.iter().find(|other| other.name.contains("placebo")));
        for control in alone.into_iter().chain(placebo) {
            pairs.push((arm.name.clone(), control.name.clone()));
        }
        let whole = members.iter().find(|other| other.name == "ours");
        if panel == panel::BUDGET_PARTS
            && let Some(whole) = whole
            && arm.name != whole.name
        {
            pairs.push((arm.name.clone(), whole.name.clone()));
        }
        if panel == panel::COMPONENTS && arm.name != "fts-de P=2" {
            pairs.push(("fts-de P=2".to_owned(), arm.name.clone()));
        }
    }
    pairs
}

/// Returns the noise multiplier with which a schedule costs [`EPSILON`] at [`DELTA`] if its noise
/// were not simulated.
fn noise_for(rate: f64, n_releases: u64) -> anyhow::Result<f64> {
    let budget = Budget::new(EPSILON, Delta::new(DELTA)?)?;
    let sampling = Sampling::Poisson(SamplingRate::new(rate)?);
    let found = smallest_multiplier(AccountantKind::Pld, sampling, n_releases, budget)?;
    Ok(found.value.get())
}

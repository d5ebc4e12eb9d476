//! The arms, and their panels.

use fedbo_federated::dp_fts_de::{AggregateUse, ExplorationWeights, Memory};
use fedbo_gp::{
    Family, FeatureSampling, FitCriterion, FitOptions, Hyperparameters, Kernel, LengthscaleLaw,
};
use fedbo_optim::MultiStart;
use fedbo_privacy::accounting::SamplingRate;
use fedbo_privacy::mechanism::PaperSampling;
use fedbo_strategies::{
    HyperparameterPolicy, LocalProb, Maximizer, MessageContent, MessageNoise, MessageSettings,
    OwnQuery, OwnSampler, Refit, Repeats, SampleSearch, SurrogateSettings, ThompsonSettings,
    UcbMultiplier,
};

use super::costs::multiplier_for;
use super::{DIM, N_INITIAL, N_ROUNDS};
use crate::catalogue::population::{CollaborationMode, Release};

/// Names of the panels. The three panels of the paper's setting share Thompson sampling, FTS,
/// FTS-DE and the placebo.
pub(super) mod panel {
    pub(in super::super) const NOISE: &str = "paper's setting: noise z";
    pub(in super::super) const SAMPLING: &str = "paper's setting: rate q";
    pub(in super::super) const VARIANTS: &str = "paper's setting: variants";
    pub(in super::super) const OURS: &str = "our setting";
}

/// Model, shared features and scaling of the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// As in the paper and the authors' code.
    Paper,
    /// Our own setting, see [`open`].
    Ours,
}

impl Setting {
    /// Returns the length scales of the shared features.
    pub(super) fn lengthscales(self) -> LengthscaleLaw {
        match self {
            Self::Paper => LengthscaleLaw::Fixed(0.01),
            Self::Ours => LengthscaleLaw::LogNormal { median: 0.3, spread: 0.7 },
        }
    }

    /// Returns the settings of the agents' own Thompson sampling.
    ///
    /// The paper's settings are as follows: SE with one length scale from ℓ = 1, variance 0.1 and
    /// noise variance 1e-6, raw outputs, maximum likelihood with ten starts after 10, 15, 20, …
    /// observations, 100 fresh features for the agent's own sample, and repeated points replaced by
    /// random ones (authors' code), with 1000 points and 20 ascents (appendix B.2.6).
    ///
    /// Deviations: the 20 ascents start from the best of the 1000 points instead of 20 others. The
    /// authors raise the noise variance to 1e-5 when they draw a sample. Here no fit goes below
    /// that value.
    pub(super) fn own(self) -> anyhow::Result<ThompsonSettings> {
        if self == Self::Ours {
            return Ok(ThompsonSettings::default_for(DIM));
        }
        let initial = Hyperparameters {
            kernel: Kernel::isotropic(Family::SquaredExponential, DIM, 1.0, 0.1)?,
            noise_variance: 1e-6,
        };
        let options = FitOptions {
            criterion: FitCriterion::MaximumLikelihood,
            isotropic: true,
            n_restarts: 9,
            lengthscale_bounds: (1e-3, 1e3),
            outputscale_bounds: (1e-6, 1e6),
            noise_bounds: (1e-5, 1e2),
            ..FitOptions::default()
        };
        let last = N_INITIAL + usize::try_from(N_ROUNDS)?;
        Ok(ThompsonSettings {
            surrogate: SurrogateSettings {
                hyperparameters: HyperparameterPolicy::Fitted {
                    initial,
                    options,
                    refit: Refit::At((N_INITIAL..=last).step_by(5).collect()),
                },
                standardize: false,
                sampler: OwnSampler::Features(100),
            },
            maximizer: Maximizer::MultiStart(MultiStart {
                n_starts: 1000,
                candidate_iterations: 0,
                n_refine: 20,
                ..MultiStart::for_dim(DIM)
            }),
            ucb_multiplier: UcbMultiplier::Constant(1.0),
            repeats: Repeats::Randomize,
            search: SampleSearch::Global,
            own_query: OwnQuery::Sample,
        })
    }
}

/// One curve and its panels.
pub(super) struct Arm {
    pub(super) name: String,
    /// Label of the arm's marker in the trade-off.
    pub(super) label: String,
    pub(super) panels: Vec<&'static str>,
    /// The panel of the arm's series in the trade-off, or `None` for arms without a cost there.
    pub(super) series: Option<&'static str>,
    pub(super) setting: Setting,
    pub(super) approach: CollaborationMode,
}

impl Arm {
    /// Returns a unique name.
    pub(super) fn key(&self) -> String {
        format!("{}: {}", self.panels[0], self.name)
    }
}

/// Returns the paper's setting with P regions, without privacy: FTS for P = 1 and FTS-DE otherwise.
fn plain(n_regions: u32) -> CollaborationMode {
    CollaborationMode {
        n_regions,
        regional_start: true,
        n_features: 100,
        sampling: FeatureSampling::Random,
        emphasis: ExplorationWeights::REAL,
        local_prob: LocalProb::Power(1.0),
        trust: AggregateUse::Schedule,
        message: MessageSettings {
            content: MessageContent::Posterior,
            noise_variance: MessageNoise::Given(1e-6),
            standardize: false,
        },
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

/// Returns the paper's mechanism with P = 4 and S = 22.
fn papers(sampling: PaperSampling, noise_multiplier: f64) -> CollaborationMode {
    CollaborationMode {
        release: Release::Paper { sampling, noise_multiplier, max_norm: 22.0 },
        ..plain(4)
    }
}

fn poisson(rate: f64, noise_multiplier: f64) -> anyhow::Result<CollaborationMode> {
    let sampling = PaperSampling::Poisson(SamplingRate::new(rate)?);
    Ok(papers(sampling, noise_multiplier))
}

/// The budgets of our setting.
pub(super) const EPSILONS: [f64; 3] = [2.0, 4.0, 8.0];
const OUR_RELEASES: u64 = 5;

/// Returns our setting without privacy, which is designed to help.
///
/// Few features with many length scales let a message carry information between its observations,
/// and expose few coordinates to noise. Each agent standardizes its outputs. Messages are posterior
/// means under large noise (σ² = 1), so that they contain broad structure instead of details. All
/// agents have the same weight, because 29 agents are too few to divide among regions.
///
/// The setting was written down before it was run, with random features and with σ² from the
/// agent's own fit. Variants were then tried at epsilon = 8, with four runs each on a different
/// seed: of σ², length scales, features, number and timing of releases, weights, p_t and start.
/// Most were within noise of each other, and a p_t that relies more on the others was worse. σ² = 1
/// and quasi-random features were adopted.
fn open() -> CollaborationMode {
    CollaborationMode {
        n_regions: 4,
        n_features: 40,
        sampling: FeatureSampling::QuasiRandom,
        emphasis: ExplorationWeights::UNIFORM,
        message: MessageSettings {
            content: MessageContent::Mean,
            noise_variance: MessageNoise::Given(1.0),
            standardize: true,
        },
        ..plain(4)
    }
}

/// Returns [`open`] within a budget: five releases from all agents, clipped so strongly (S = 1)
/// that only the direction of a vector matters.
fn ours(epsilon: f64) -> anyhow::Result<CollaborationMode> {
    Ok(CollaborationMode {
        memory: Memory::Mean { discount: 1.0 },
        release: Release::Lattice {
            sampling_rate: 1.0,
            noise_multiplier: multiplier_for(epsilon, OUR_RELEASES)?,
            max_norm: 1.0,
        },
        n_releases: OUR_RELEASES,
        ..open()
    })
}

/// Returns all arms. The arms of a run share their initial points, features and noise.
pub(super) fn arms() -> anyhow::Result<Vec<Arm>> {
    use panel::{NOISE, OURS, SAMPLING, VARIANTS};
    let mut arms = Vec::new();
    let mut add =
        |name: String, label: &str, panels: &[&'static str], approach: CollaborationMode| {
            let is_ours = panels == [OURS];
            arms.push(Arm {
                name,
                label: label.to_owned(),
                panels: panels.to_vec(),
                series: None,
                setting: match is_ours {
                    true => Setting::Ours,
                    false => Setting::Paper,
                },
                approach,
            });
            arms.len() - 1
        };
    let all = [NOISE, SAMPLING, VARIANTS];
    add("ts".into(), "", &all, plain(1).alone());
    add("ts regional".into(), "", &all, plain(4).alone());
    add("fts".into(), "", &all, plain(1));
    add("fts-de".into(), "", &all, plain(4));
    // The argmax of pure noise does not depend on the noise's magnitude, so one placebo serves
    // every q and z.
    add("placebo".into(), "", &all, poisson(0.35, 1.0)?.silent());

    let mut series = Vec::new();
    let base = poisson(0.35, 1.0)?;
    let index = add("q=0.35 z=1".into(), "q=0.35, z=1", &all, base.clone());
    series.push((index, NOISE));
    for z in [1.6, 2.0, 3.0, 4.0] {
        let (name, label) = (format!("q=0.35 z={z}"), format!("z={z}"));
        series.push((add(name, &label, &[NOISE], poisson(0.35, z)?), NOISE));
    }
    for q in [0.1, 0.15, 0.2, 0.25] {
        let (name, label) = (format!("q={q} z=1"), format!("q={q}"));
        series.push((add(name, &label, &[SAMPLING], poisson(q, 1.0)?), SAMPLING));
    }
    for z in [1.0, 2.0] {
        let fixed = PaperSampling::FixedSize(SamplingRate::new(0.35)?);
        let name = format!("10 of 29, z={z}");
        add(name, "", &[VARIANTS], papers(fixed, z));
    }
    let fixed_weights = CollaborationMode {
        emphasis: ExplorationWeights { hold: None, ..ExplorationWeights::REAL },
        ..base
    };
    let name = "q=0.35 z=1, weights not adaptive".into();
    series.push((add(name, "", &[VARIANTS], fixed_weights), VARIANTS));

    let only = &[OURS];
    add("ts".into(), "", only, plain(1).alone());
    add("ts regional".into(), "", only, plain(4).alone());
    add("fts-de".into(), "", only, open());
    add("placebo".into(), "", only, ours(EPSILONS[0])?.silent());
    for epsilon in EPSILONS {
        let name = format!("epsilon = {epsilon}");
        series.push((add(name.clone(), &name, only, ours(epsilon)?), OURS));
    }
    for (index, panel) in series {
        arms[index].series = Some(panel);
    }
    Ok(arms)
}

/// Returns the pairs (arm, control) of a panel: every arm against Thompson sampling from points
/// anywhere, against Thompson sampling from points in regions, and against the placebo; and each
/// control against the controls before it.
pub(super) fn pairs_of(arms: &[Arm], panel: &str) -> Vec<(String, String)> {
    const CONTROLS: [&str; 3] = ["ts", "ts regional", "placebo"];
    let mut pairs = Vec::new();
    for arm in arms.iter().filter(|arm| arm.panels.contains(&panel)) {
        let place = CONTROLS.iter().position(|control| arm.name == *control);
        for control in &CONTROLS[..place.unwrap_or(CONTROLS.len())] {
            pairs.push((arm.name.clone(), (*control).to_owned()));
        }
    }
    pairs
}

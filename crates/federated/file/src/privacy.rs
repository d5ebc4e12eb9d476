//! `[privacy]`: the mechanism, guarantee and budget of releases.

use fedbo_config::{Check, FileError};
use fedbo_federated::dp_fts_de::clipping::default_max_norm;
use fedbo_federated::{PublicConfig, ReleaseShape};
use fedbo_ledger::Charter;
use fedbo_privacy::accounting::{
    AccountantKind, Budget, Claim, Delta, InvalidParameter, Mode, NoiseMultiplier, PrivacyEvent,
    SamplingRate,
};
use fedbo_privacy::mechanism::{
    Mechanism, MechanismSettings, PaperMechanism, PaperSampling, PaperSettings, WeightMax,
};
use fedbo_protocol::ReleaseSchedule;
use fedbo_secure_sum::Sharing;
use fedbo_strategies::MessageContent;

use crate::file::PrivacyTable;
use crate::pace::FreePlan;
use crate::pricing::{Pricing, PricingError, rounded_up};
use crate::release_mechanism::{MechanismRefused, ReleaseMechanism};
use crate::secure_sum::SecureSum;

/// Default number of witnesses. With this many, noise below about half of its nominal standard
/// deviation is detected in a single release.
const N_WITNESSES: u32 = 64;
/// Maximum number of witnesses.
const N_WITNESSES_MAX: u32 = 100_000;

/// Default number of charged releases. A few informative releases are worth more than many noisy
/// ones.
const N_RELEASES: u64 = 5;

/// The mechanism, schedule and protection of releases.
#[derive(Clone, Debug)]
pub struct Releases {
    pub(crate) mechanism: ReleaseMechanism,
    pub(crate) schedule: ReleaseSchedule,
    /// Number of releases that the file requests.
    pub(crate) n_planned: u64,
    /// Number of witnesses, which are coordinates after the features that are zero in all vectors.
    pub n_witnesses: u32,
    /// k, the maximum number of releases in which each agent takes part, if it is limited (at a
    /// free pace).
    pub participations: Option<u64>,
    /// Number of an agent's own queries between uploads, at a free pace.
    pub(crate) own_every: u64,
    /// The protection of the releases.
    pub protection: Protection,
}

/// The protection of releases.
#[derive(Clone, Debug)]
pub enum Protection {
    /// No protection: releases have no noise.
    Off,
    /// No protection: the noise comes from a seed.
    Simulated,
    /// Differential privacy, charged to a ledger.
    Charged(Box<PrivacyPlan>),
}

/// The guarantee and budget of a run, which are fixed before its first round (INV-11).
#[derive(Clone, Debug)]
pub struct PrivacyPlan {
    /// The charter with which the study's ledger begins.
    pub charter: Charter,
    /// The cost of each release.
    pub event: PrivacyEvent,
    /// The total cost of the releases that the budget covers, or an error if it covers none.
    pub claim: Result<Claim, FileError>,
    n_planned: u64,
    parameters: [(&'static str, f64); 3],
}

impl PrivacyPlan {
    /// Returns the total cost of the releases that the budget covers, or `None` if it covers none.
    pub fn paid_claim(&self) -> Option<&Claim> {
        self.claim.as_ref().ok()
    }

    /// Returns the number of releases that the file requests.
    pub fn n_planned(&self) -> u64 {
        self.n_planned
    }

    /// Returns the number of releases that the budget covers, up to the planned number.
    pub fn n_paid(&self) -> u64 {
        self.claim.as_ref().map_or(0, |claim| claim.n_releases)
    }

    /// Returns the privacy budget.
    pub fn budget(&self) -> Budget {
        self.charter.budget
    }

    /// Returns q, z and S, with the names of their keys.
    pub fn parameters(&self) -> [(&'static str, f64); 3] {
        self.parameters
    }
}

/// The settings of the federation that are needed to check the table.
pub(crate) struct Setting<'a> {
    pub(crate) check: Check<'a>,
    pub(crate) name: &'a str,
    pub(crate) rounds: u64,
    pub(crate) n_agents: u32,
    pub(crate) n_features: u32,
    pub(crate) shape: ReleaseShape,
    pub(crate) free: Option<&'a FreePlan>,
    pub(crate) secure_sum: Option<SecureSum>,
}

/// The privacy mode that the table selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrivacyMode {
    /// With noise, in one of two modes.
    On(Mode),
    /// Without noise.
    Off,
}

impl PrivacyMode {
    pub(crate) fn of(given: &PrivacyTable, check: Check<'_>) -> Result<Self, FileError> {
        let modes = [
            ("default", Self::On(Mode::Default)),
            ("paper", Self::On(Mode::Paper)),
            ("off", Self::Off),
        ];
        let mode = check.word(&["privacy", "mode"], given.mode.as_deref(), &modes)?;
        Ok(mode.unwrap_or(Self::On(Mode::Default)))
    }

    /// Returns true if the paper's choices are the defaults, which is the case in modes `paper` and
    /// `off`.
    pub(crate) fn is_papers(self) -> bool {
        self != Self::On(Mode::Default)
    }
}

impl Releases {
    /// Returns the expected fraction of agents in a release: k/T with T windows, or 1.
    pub(crate) fn expected_share(&self) -> f64 {
        let windows = self.schedule.n_releases();
        match self.participations {
            #[expect(clippy::cast_precision_loss, reason = "both are far below 2^53")]
            Some(most) if most < windows => most as f64 / windows as f64,
            _ => 1.0,
        }
    }

    /// Checks the table. `config` is the rest of the study's public configuration, to which this
    /// function adds its own lines.
    pub(crate) fn of(
        given: &PrivacyTable,
        setting: &Setting<'_>,
        mut config: PublicConfig,
    ) -> Result<Self, FileError> {
        let Setting { check, .. } = *setting;
        let PrivacyMode::On(mode) = PrivacyMode::of(given, check)? else {
            return Self::without_noise(given, setting);
        };
        // An agent pays for all releases. At a free pace, it pays only for those that include it.
        let n_planned = match setting.free {
            None => setting.n_releases(given, mode == Mode::Default)?,
            Some(free) => setting.n_participations(given, mode, free)?,
        };
        let limit = |n: u64| setting.free.map(|_| n);
        let own_every = given.every.unwrap_or(1);
        let n_witnesses = setting.n_witnesses(given, mode)?;
        let pricing = setting.pricing(given, mode)?;
        let rate = SamplingRate::new(given.sampling_rate.unwrap_or(1.0));
        let rate = rate.map_err(|error| setting.invalid("sampling_rate", &error))?;
        let of_noise = |z| setting.mechanism(given, mode, rate, z, n_witnesses);
        let mechanism = match given.noise_multiplier {
            Some(z) => of_noise(z).map_err(|error| setting.refused(&error))?,
            None => setting.least_noise_mechanism(&pricing, rate, n_planned, of_noise)?,
        };
        if given.simulate == Some(true) {
            return Ok(Self {
                mechanism,
                schedule: setting.schedule(n_planned, given)?,
                n_planned,
                n_witnesses,
                participations: limit(n_planned),
                own_every,
                protection: Protection::Simulated,
            });
        }
        let budget = pricing.budget.ok_or_else(|| setting.without_budget())?;
        let Some(event) = mechanism.event() else { unreachable!("the noise is above 0") };
        let priced = |error: PricingError| setting.unpriced(&error);
        let claim = match pricing.most_releases(&event, n_planned).map_err(priced)? {
            0 => Err(setting.budget_pays_for_nothing(given, &pricing, &event)),
            n_paid => Ok(pricing.claim(&event, n_paid).map_err(priced)?),
        };
        let n_paid = claim.as_ref().map_or(n_planned, |claim| claim.n_releases);
        let schedule = setting.schedule(n_paid, given)?;
        let (max_norm, noise_multiplier) = mechanism.norm_and_noise();
        let parameters = [
            ("sampling_rate", mechanism.sampling_rate()),
            ("noise_multiplier", noise_multiplier),
            ("max_norm", max_norm),
        ];
        for (key, value) in parameters {
            config.number(key, value);
        }
        match setting.free {
            None => {
                config.count("releases", n_planned);
                config.count("every", schedule.every());
            }
            Some(free) => {
                config.count("windows", free.windows);
                config.count("participations", n_paid);
                config.count("every", own_every);
            }
        }
        config.count("witnesses", n_witnesses.into());
        if let Some(SecureSum { proof, bits }) = setting.secure_sum {
            config.line("secure_sum", proof.name());
            config.count("bits", bits.into());
        }
        let plan = PrivacyPlan {
            charter: Charter {
                name: setting.name.to_owned(),
                config: config.bytes(),
                budget,
                mode,
                accountant: pricing.kind,
                participations: limit(n_paid),
            },
            event,
            claim,
            n_planned,
            parameters,
        };
        Ok(Self {
            mechanism,
            schedule,
            n_planned,
            n_witnesses,
            participations: limit(n_paid),
            own_every,
            protection: Protection::Charged(Box::new(plan)),
        })
    }

    /// Creates the releases of FTS-DE: exact averages over all agents' vectors.
    fn without_noise(given: &PrivacyTable, setting: &Setting<'_>) -> Result<Self, FileError> {
        let unused = [
            ("epsilon", given.epsilon.is_some()),
            ("delta", given.delta.is_some()),
            ("sampling_rate", given.sampling_rate.is_some()),
            ("noise_multiplier", given.noise_multiplier.is_some()),
            ("max_norm", given.max_norm.is_some()),
            ("participations", given.participations.is_some()),
            ("accountant", given.accountant.is_some()),
            ("witnesses", given.witnesses.is_some()),
            ("simulate", given.simulate.is_some()),
        ];
        if let Some((key, _)) = unused.iter().find(|(_, is_given)| *is_given) {
            let message =
                format!("privacy.{key} has no effect with mode = \"off\"; remove it, or the mode");
            return Err(setting.check.file.error(&["privacy", key], message));
        }
        let planned = match setting.free {
            None => setting.n_releases(given, false)?,
            Some(free) => {
                setting.windows_release(given)?;
                free.windows
            }
        };
        Ok(Self {
            mechanism: ReleaseMechanism::Paper(setting.exact()?),
            schedule: setting.schedule(planned, given)?,
            n_planned: planned,
            n_witnesses: 0,
            participations: None,
            own_every: given.every.unwrap_or(1),
            protection: Protection::Off,
        })
    }
}

impl Setting<'_> {
    /// Returns the number of releases that the file requests. No agent could use a release from the
    /// last round or later.
    fn n_releases(&self, given: &PrivacyTable, few: bool) -> Result<u64, FileError> {
        let every = given.every.unwrap_or(1);
        if every == 0 {
            let expected = "a whole number of rounds, at least 1";
            return Err(self.check.file.value_error(&["privacy", "every"], expected));
        }
        let most = (self.rounds - 1) / every + 1;
        let standard = if few { most.min(N_RELEASES) } else { most };
        let n_releases = given.releases.unwrap_or(standard);
        if (1..=most).contains(&n_releases) {
            return Ok(n_releases);
        }
        let expected = format!(
            "a whole number from 1 to {most}: with rounds = {} and every = {every}, later releases would be useless",
            self.rounds
        );
        Err(self.check.file.value_error(&["privacy", "releases"], expected))
    }

    /// Checks the keys for a free pace, where every window has a release and the key `releases` is
    /// not allowed.
    fn windows_release(&self, given: &PrivacyTable) -> Result<(), FileError> {
        let file = self.check.file;
        if given.releases.is_some() {
            let message = "privacy.releases has no effect with federation.pace = \"free\", where every window releases; set \
                           federation.windows and privacy.participations instead";
            return Err(file.error(&["privacy", "releases"], message.to_owned()));
        }
        if given.every == Some(0) {
            let expected = "a whole number of an agent's queries, at least 1";
            return Err(file.value_error(&["privacy", "every"], expected));
        }
        Ok(())
    }

    /// Returns k, the maximum number of releases in which each agent takes part at a free pace.
    fn n_participations(
        &self,
        given: &PrivacyTable,
        mode: Mode,
        free: &FreePlan,
    ) -> Result<u64, FileError> {
        let file = self.check.file;
        self.windows_release(given)?;
        if mode == Mode::Paper {
            let message = "privacy.mode = \"paper\" accounts for rounds in which all agents may take part; remove federation.pace, or the mode";
            return Err(file.error(&["privacy", "mode"], message.to_owned()));
        }
        if given.sampling_rate.is_some_and(|rate| rate < 1.0) {
            let message = "privacy.sampling_rate below 1 is not accounted for with federation.pace = \"free\", where participation is \
                           public; remove it, or the pace";
            return Err(file.error(&["privacy", "sampling_rate"], message.to_owned()));
        }
        let most = free.windows;
        let participations = given.participations.unwrap_or(most.min(N_RELEASES));
        if !(1..=most).contains(&participations) {
            let expected = format!("a whole number from 1 to {most}, the number of windows");
            return Err(file.value_error(&["privacy", "participations"], expected));
        }
        Ok(participations)
    }

    fn n_witnesses(&self, given: &PrivacyTable, mode: Mode) -> Result<u32, FileError> {
        let path = ["privacy", "witnesses"];
        match (given.witnesses, mode) {
            (None, Mode::Default) => Ok(N_WITNESSES),
            (None, Mode::Paper) => Ok(0),
            (Some(n), Mode::Default) if n <= N_WITNESSES_MAX => Ok(n),
            (Some(_), Mode::Default) => {
                let expected = format!("a whole number from 0 to {N_WITNESSES_MAX}");
                Err(self.check.file.value_error(&path, expected))
            }
            (Some(_), Mode::Paper) => {
                let message = "privacy.witnesses has no effect with mode = \"paper\"; remove it";
                Err(self.check.file.error(&path, message))
            }
        }
    }

    fn schedule(
        &self,
        n_releases: u64,
        given: &PrivacyTable,
    ) -> Result<ReleaseSchedule, FileError> {
        let regions_until = self.shape.uniform_from.unwrap_or(u64::MAX);
        let (n_releases, every) = match self.free {
            None => (n_releases, given.every.unwrap_or(1)),
            Some(free) => (free.windows, 1),
        };
        ReleaseSchedule::new(n_releases, every, regions_until)
            .map_err(|error| self.invalid("releases", &error))
    }

    fn pricing(&self, given: &PrivacyTable, mode: Mode) -> Result<Pricing, FileError> {
        let file = self.check.file;
        let n_agents = f64::from(self.n_agents);
        let (largest, law) = match mode {
            Mode::Default => ((1.0 / (n_agents * n_agents)).min(1e-5), "min(1e-5, 1/N^2)"),
            Mode::Paper => (n_agents.powf(-1.1), "1/N^1.1"),
        };
        let delta = given.delta.unwrap_or(largest);
        let expected = format!(
            "above 0 and at most {largest:?}, which is {law} for N = {} agents",
            self.n_agents
        );
        let delta = Delta::new(delta).ok().filter(|_| delta <= largest);
        let delta = delta.ok_or_else(|| file.value_error(&["privacy", "delta"], expected))?;
        let kinds = [AccountantKind::Pld, AccountantKind::Renyi, AccountantKind::Moments];
        let named = kinds.map(|kind| (kind.name(), kind));
        let path = ["privacy", "accountant"];
        let kind = self.check.word(&path, given.accountant.as_deref(), &named)?;
        let standard = match mode {
            Mode::Default => AccountantKind::Pld,
            Mode::Paper => AccountantKind::Moments,
        };
        let path = ["privacy", "epsilon"];
        let budget = given.epsilon.map(|epsilon| {
            Budget::new(epsilon, delta).map_err(|error| file.value_error(&path, error.expected))
        });
        Ok(Pricing { kind: kind.unwrap_or(standard), mode, delta, budget: budget.transpose()? })
    }

    /// Builds the mechanism with the smallest noise multiplier, to four digits, for which all
    /// planned releases fit the budget.
    fn least_noise_mechanism(
        &self,
        pricing: &Pricing,
        rate: SamplingRate,
        n_planned: u64,
        of_noise: impl Fn(f64) -> Result<ReleaseMechanism, MechanismRefused>,
    ) -> Result<ReleaseMechanism, FileError> {
        const N_TRIES: usize = 8;
        let budget = pricing.budget.ok_or_else(|| self.without_budget())?;
        let mut z =
            pricing.least_noise(rate, n_planned, budget).map_err(|error| self.unpriced(&error))?;
        for _ in 0..N_TRIES {
            // If the budget requires too much noise, the error refers to the budget.
            let mechanism = of_noise(z).map_err(|error| match error.path() {
                [_, "noise_multiplier"] => {
                    let expected = format!(
                        "a larger budget: this one needs more noise than is possible ({error})"
                    );
                    self.check.file.value_error(&["privacy", "epsilon"], expected)
                }
                _ => self.refused(&error),
            })?;
            let Some(event) = mechanism.event() else { unreachable!("the noise is above 0") };
            let n_paid =
                pricing.most_releases(&event, n_planned).map_err(|error| self.unpriced(&error))?;
            if n_paid == n_planned {
                return Ok(mechanism);
            }
            z = rounded_up(z.next_up());
        }
        let expected = "a budget that some noise multiplier satisfies; set noise_multiplier too";
        Err(self.check.file.value_error(&["privacy", "epsilon"], expected))
    }

    fn without_budget(&self) -> FileError {
        let remedy = "add epsilon = .., the budget of all releases together, for instance 2.0: a smaller value gives a \
                      stronger guarantee and less informative releases";
        self.check.file.missing_error(&["privacy", "epsilon"], remedy)
    }

    fn unpriced(&self, error: &PricingError) -> FileError {
        let key = match error {
            PricingError::Calibration(_) => "epsilon",
            PricingError::Event(_) => "accountant",
            PricingError::Epsilon(_) => "noise_multiplier",
        };
        let message = format!("the cost of [privacy] cannot be computed: {error}");
        self.check.file.error(&["privacy", key], message)
    }

    fn budget_pays_for_nothing(
        &self,
        given: &PrivacyTable,
        pricing: &Pricing,
        event: &PrivacyEvent,
    ) -> FileError {
        let cost = match pricing.claim(event, 1) {
            Ok(claim) => {
                format!("one costs {claim}; set epsilon to at least {}", rounded_up(claim.epsilon))
            }
            Err(_) => "one release has no finite bound".to_owned(),
        };
        let message = format!(
            "privacy.epsilon = {:?} does not cover a single release with noise_multiplier = {:?}: {cost}, raise \
             noise_multiplier, or remove it to use the smallest one that fits",
            given.epsilon.unwrap_or_default(),
            given.noise_multiplier.unwrap_or_default()
        );
        self.check.file.error(&["privacy", "epsilon"], message)
    }

    fn mechanism(
        &self,
        given: &PrivacyTable,
        mode: Mode,
        rate: SamplingRate,
        noise_multiplier: f64,
        n_witnesses: u32,
    ) -> Result<ReleaseMechanism, MechanismRefused> {
        let multiplier = NoiseMultiplier::new(noise_multiplier)?;
        let n_regions = self.shape.n_regions;
        let standard = match self.shape.content {
            // This S is smaller than the norm of nearly all vectors. Only the direction of a mean
            // matters, and the noise scales with S.
            MessageContent::Mean => 1.0,
            _ => default_max_norm(n_regions, self.n_features),
        };
        let max_norm = given.max_norm.unwrap_or(standard);
        Ok(match mode {
            Mode::Default => {
                let settings = MechanismSettings {
                    n_slots: self.n_agents,
                    n_regions,
                    n_features: self.n_features.saturating_add(n_witnesses),
                    max_norm,
                    sampling_rate: rate,
                    noise_multiplier: multiplier,
                };
                match self.secure_sum {
                    None => ReleaseMechanism::Lattice(Mechanism::new(settings)?),
                    Some(SecureSum { proof, bits }) => {
                        let mechanism = Mechanism::for_secure_sum(settings, bits)?;
                        let sharing = Sharing::new(mechanism, n_witnesses, bits, proof)?;
                        ReleaseMechanism::SecureSum(sharing)
                    }
                }
            }
            Mode::Paper => ReleaseMechanism::Paper(PaperMechanism::new(PaperSettings {
                n_slots: self.n_agents,
                n_regions,
                n_features: self.n_features,
                max_norm,
                sampling: PaperSampling::Poisson(rate),
                noise_multiplier,
                weight_max: WeightMax::Overall,
            })?),
        })
    }

    /// Returns the mechanism that averages over all agents, without clipping or noise.
    pub(crate) fn exact(&self) -> Result<PaperMechanism, FileError> {
        PaperMechanism::new(PaperSettings {
            n_slots: self.n_agents,
            n_regions: self.shape.n_regions,
            n_features: self.n_features,
            max_norm: f64::INFINITY,
            sampling: PaperSampling::Poisson(SamplingRate::ALL),
            noise_multiplier: 0.0,
            weight_max: WeightMax::Overall,
        })
        .map_err(|error| self.refused(&error.into()))
    }

    fn invalid(&self, key: &str, error: &InvalidParameter) -> FileError {
        self.check.file.value_error(&["privacy", key], error.expected)
    }

    fn refused(&self, error: &MechanismRefused) -> FileError {
        let ([table, key], message) = (error.path(), error.to_string());
        match error {
            MechanismRefused::Noise(error) => self.invalid(key, error),
            _ => self.check.file.error(&[table, key], format!("[{table}] {message}")),
        }
    }
}

//! The definition of a study. It is fixed when the study is created and is the same for all
//! workers.

use fedbo_config::{Changes, Keys};
use fedbo_space::{Direction, MixtureSpec, ParameterSpec, RuleSpec, Space};
use fedbo_strategies::{Registered, StrategySpec, keys_of};
use serde::{Deserialize, Serialize};

use crate::{
    ArchiveSpec, Constraint, EarlyStoppingError, EarlyStoppingSpec, MetaError, MetaScale, MetaSpec,
    NamedObjective, OldStudy, StudyError,
};

/// All settings that determine a study's trials.
///
/// The definition is stored with the study. Equal definitions and equal values produce equal
/// trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The study's name, unique within its storage.
    pub name: String,
    /// The parameters, in order.
    pub space: Vec<NamedParameter>,
    /// The direction of optimization.
    pub direction: Direction,
    /// The objectives if there is more than one, otherwise empty. `direction` is then the first
    /// objective's direction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<NamedObjective>,
    /// Bounds on additional numbers of each trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Constraint>,
    /// Linear rules that every point satisfies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleSpec>,
    /// Parameters that are the shares of a total.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixtures: Vec<MixtureSpec>,
    /// Seed of all random streams.
    pub seed: u64,
    /// The strategy that chooses queries.
    pub strategy: StrategySpec,
    /// Number of trials in the initial design. These are scrambled Sobol points, evaluated before
    /// the surrogate is used.
    pub n_initial: usize,
    /// True if the objective is noisy, in which case a point can be evaluated more than once.
    /// Otherwise no two proposed trials in the study have the same encoding.
    pub noisy: bool,
    /// Old studies to learn from, with their trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<MetaSpec>,
    /// The federation releases to start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<ArchiveSpec>,
    /// The early stopping rule for trials that report during training; `None` disables early
    /// stopping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<EarlyStoppingSpec>,
}

/// A parameter with its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedParameter {
    /// The name.
    pub name: String,
    /// The declaration.
    #[serde(flatten)]
    pub spec: ParameterSpec,
}

impl Definition {
    /// Creates a definition without parameters that maximizes the objective with the default
    /// strategy and seed 0.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            space: Vec::new(),
            direction: Direction::Maximize,
            objectives: Vec::new(),
            constraints: Vec::new(),
            rules: Vec::new(),
            mixtures: Vec::new(),
            seed: 0,
            strategy: StrategySpec::default(),
            n_initial: Self::default_n_initial(1),
            noisy: false,
            meta: None,
            archive: None,
            early_stopping: None,
        }
    }

    /// Returns the default number of initial points: two per parameter, at least 5 and at most 20.
    ///
    /// A categorical parameter counts once, regardless of its number of choices: its coordinates
    /// encode the choice and are not independent directions.
    pub fn default_n_initial(n_parameters: usize) -> usize {
        n_parameters.saturating_mul(2).clamp(5, 20)
    }

    /// Adds a parameter and resets the size of the initial design to its default.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>, spec: ParameterSpec) -> Self {
        let name = name.into();
        self.space.push(NamedParameter { name, spec });
        self.n_initial = Self::default_n_initial(self.space.len());
        self
    }

    /// Adds a linear rule.
    #[must_use]
    pub fn rule(mut self, rule: RuleSpec) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds a mixture.
    #[must_use]
    pub fn mixture(mut self, mixture: MixtureSpec) -> Self {
        self.mixtures.push(mixture);
        self
    }

    /// Sets the direction to minimize.
    #[must_use]
    pub fn minimize(mut self) -> Self {
        self.direction = Direction::Minimize;
        self
    }

    /// Sets the seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the strategy.
    #[must_use]
    pub fn strategy(mut self, strategy: StrategySpec) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets the number of initial points. Call this after adding the parameters.
    #[must_use]
    pub fn initial(mut self, n_initial: usize) -> Self {
        self.n_initial = n_initial;
        self
    }

    /// Marks the objective as noisy.
    #[must_use]
    pub fn noisy(mut self) -> Self {
        self.noisy = true;
        self
    }

    /// Makes the study learn from an old study. Uses robust meta-GP-UCB unless a different
    /// meta-learning strategy is set.
    ///
    /// The study has no initial points: the old studies already guide its first query. Call this
    /// after adding the parameters; see [`OldStudy::new`].
    #[must_use]
    pub fn learn_from(mut self, study: OldStudy) -> Self {
        if !self.strategy.requires_old_studies() {
            self.strategy = StrategySpec::rm_gp_ucb();
        }
        if self.meta.is_none() {
            self.n_initial = 0;
        }
        self.meta.get_or_insert_default().studies.push(study);
        self
    }

    /// Sets the units in which values of old studies are compared with those of the new study.
    ///
    /// With [`MetaScale::Own`], the study evaluates initial points first, since they determine its
    /// scale.
    #[must_use]
    pub fn meta_scale(mut self, scale: MetaScale) -> Self {
        self.n_initial = match scale {
            MetaScale::Own => Self::default_n_initial(self.space.len()),
            MetaScale::Common | MetaScale::Raw => 0,
        };
        self.meta.get_or_insert_default().settings.scale = scale;
        self
    }

    /// Evaluates the `n_points` best points of the old studies first, then continues with the
    /// study's strategy.
    ///
    /// With a warm start, the strategy does not have to be a meta-learning strategy. Set the
    /// strategy and [`Definition::initial`] after this call.
    #[must_use]
    pub fn warm_start(mut self, n_points: usize) -> Self {
        self.meta.get_or_insert_default().settings.warm_start = n_points;
        self
    }

    /// Makes the study start from the releases of a federation with the same space, without initial
    /// points. See [`ArchiveSpec::read`].
    #[must_use]
    pub fn begin_with(mut self, archive: ArchiveSpec) -> Self {
        self.archive = Some(archive);
        self.n_initial = 0;
        self
    }

    /// Stops trials early based on the values that they report during training
    /// ([`crate::Study::optimize_training`]).
    ///
    /// Uses GP-UCB unless a compatible strategy is set.
    #[must_use]
    pub fn early_stopping(mut self, spec: EarlyStoppingSpec) -> Self {
        if spec.check_strategy(&self.strategy).is_err() {
            self.strategy = StrategySpec::gp_ucb();
        }
        self.early_stopping = Some(spec);
        self
    }

    /// Returns the validated search space.
    ///
    /// # Errors
    /// Fails if a declaration is not valid.
    pub fn space(&self) -> Result<Space, StudyError> {
        let specs = self.space.iter().map(|each| (each.name.as_str(), &each.spec));
        Ok(Space::from_specs(specs)?.with_rules(&self.rules, &self.mixtures)?)
    }

    /// Serializes the definition for storage.
    pub(crate) fn to_text(&self) -> String {
        json(self)
    }

    /// Deserializes a stored definition.
    pub(crate) fn from_text(name: &str, text: &str) -> Result<Self, StudyError> {
        serde_json::from_str(text).map_err(|error| StudyError::Definition {
            name: name.to_owned(),
            message: error.to_string(),
        })
    }

    /// Returns the differences between this stored definition and `given`, or `None` if they are
    /// equal.
    pub fn difference(&self, given: &Self) -> Option<StudyError> {
        let differs =
            |changes| StudyError::Differs { name: self.name.clone(), changes: Box::new(changes) };
        if self.archive != given.archive {
            let source = |archive: &Option<ArchiveSpec>| {
                let source = archive.as_ref().map(|archive| archive.source.as_str());
                source.map(|source| format!("{source:?}"))
            };
            let (ours, mut theirs) = (source(&self.archive), source(&given.archive));
            if ours == theirs {
                theirs = theirs.map(|source| source + " with other contents");
            }
            let path = ["archive", "file"];
            return Some(differs(Changes::of_key(&path, ours, theirs, STORED)));
        }
        if let Some(changes) = Changes::between(&self.keys(), &given.keys(), STORED) {
            return Some(differs(changes));
        }
        let (ours, theirs) = (self.meta.as_ref()?, given.meta.as_ref()?);
        let mut pairs = ours.studies.iter().zip(&theirs.studies);
        let (ours, theirs) = pairs.find(|(a, b)| a != b)?;
        let (stored, given) = (ours.len(), theirs.len());
        Some(differs(Changes::of_key(
            &[&format!("the list of trials of old study {:?}", ours.name)],
            Some(format!("{stored} trials")),
            Some(format!("another, of {given} trials,")),
            STORED,
        )))
    }

    /// Validates the definition and returns its space.
    ///
    /// # Errors
    /// Returns the first invalid part.
    pub(crate) fn check(&self) -> Result<Space, StudyError> {
        let space = self.space()?;
        let parts = Parts {
            strategy: &self.strategy,
            learns: self.meta.as_ref().map(|meta| Learning {
                has_studies: !meta.studies.is_empty(),
                has_warm_start: meta.settings.warm_start > 0,
            }),
            has_archive: self.archive.is_some(),
            early_stopping: self.early_stopping.as_ref(),
            outcomes: self.outcomes_table(),
        };
        parts.check().map_err(|misfit| *misfit.error)?;
        self.check_outcomes().map_err(|bad| StudyError::Outcomes { message: bad.message })?;
        if let Some(early_stopping) = &self.early_stopping {
            early_stopping.method()?;
            early_stopping.check_storable()?;
        }
        if let Some(meta) = &self.meta {
            meta.settings.belief()?;
            meta.tasks(&space, self.direction)?;
        }
        Ok(space)
    }

    /// Returns the definition key by key, as in a study file.
    fn keys(&self) -> Keys {
        let mut keys = Keys::default();
        let names: Vec<&str> = self.space.iter().map(|p| p.name.as_str()).collect();
        keys.push(&["space"], names);
        for parameter in &self.space {
            let (name, spec) = (parameter.name.as_str(), &parameter.spec);
            keys.push_parameter(&format!("space.{name}"), &["space", name], spec);
        }
        keys.push(&["rules"], (!self.rules.is_empty()).then_some(&self.rules));
        keys.push(&["mixtures"], (!self.mixtures.is_empty()).then_some(&self.mixtures));
        let meta = self.meta.as_ref();
        let studies: Option<Vec<&str>> =
            meta.map(|meta| meta.studies.iter().map(OldStudy::place).collect());
        let settings = meta.map(|meta| &meta.settings);
        keys.push(&["meta", "studies"], studies);
        keys.push(&["meta", "mismatch"], settings.map(|s| s.mismatch));
        keys.push(&["meta", "scale"], settings.map(|s| s.scale));
        keys.push(&["meta", "trials_max"], settings.map(|s| s.trials_max));
        keys.push(&["meta", "values"], settings.map(|s| &s.values));
        keys.push(&["meta", "decay"], settings.map(|s| s.decay));
        keys.push(&["meta", "gap_exponent"], settings.map(|s| s.gap_exponent));
        keys.push(&["meta", "rate"], settings.map(|s| s.rate));
        keys.push(&["meta", "warm_start"], settings.map(|s| s.warm_start));
        EarlyStoppingSpec::push_keys(self.early_stopping.as_ref(), &mut keys);
        let names: Vec<&str> = self.objectives.iter().map(|each| each.name.as_str()).collect();
        keys.push(&["objectives"], (!names.is_empty()).then_some(names));
        for (index, each) in self.objectives.iter().enumerate() {
            let path = ["objectives", &index.to_string(), "direction"];
            keys.push_as(&format!("objectives.{}.direction", each.name), &path, each.direction);
        }
        let names: Vec<&str> = self.constraints.iter().map(|each| each.name.as_str()).collect();
        keys.push(&["constraints"], (!names.is_empty()).then_some(names));
        for (index, each) in self.constraints.iter().enumerate() {
            for (bound, value) in [("at_most", each.at_most), ("at_least", each.at_least)] {
                let path = ["constraints", &index.to_string(), bound];
                keys.push_as(&format!("constraints.{}.{bound}", each.name), &path, value);
            }
        }
        let direction = self.objectives.is_empty().then_some(self.direction);
        keys.push(&["study", "direction"], direction);
        keys.push(&["study", "seed"], self.seed);
        keys.push(&["strategy", "name"], self.strategy.name());
        push_options(&mut keys, "strategy", &StrategySpec::all(), Some(&self.strategy));
        keys.push(&["study", "initial"], self.n_initial);
        keys.push(&["study", "noisy"], self.noisy);
        keys
    }
}

/// The parts of a definition that are validated together.
pub(crate) struct Parts<'a> {
    pub(crate) strategy: &'a StrategySpec,
    pub(crate) learns: Option<Learning>,
    pub(crate) has_archive: bool,
    pub(crate) early_stopping: Option<&'a EarlyStoppingSpec>,
    /// The table in the study file that declares additional numbers for trials.
    pub(crate) outcomes: Option<&'static str>,
}

/// The use of old studies.
pub(crate) struct Learning {
    pub(crate) has_studies: bool,
    pub(crate) has_warm_start: bool,
}

/// An invalid combination of parts, and the key in the study file at which it is reported.
pub(crate) struct Mismatch {
    pub(crate) at: &'static [&'static str],
    pub(crate) error: Box<StudyError>,
}

impl Parts<'_> {
    /// # Errors
    /// Returns the first invalid combination.
    pub(crate) fn check(&self) -> Result<(), Mismatch> {
        let misfit = |at, error| {
            let error = Box::new(error);
            Err(Mismatch { at, error })
        };
        let beside = |at, table| misfit(at, EarlyStoppingError::Beside { table }.into());
        let by_name = |error| misfit(&["strategy", "name"], error);
        let strategy = self.strategy.name();
        if let Some(table) = self.outcomes {
            let others: [(&[&str], _, _); 3] = [
                (&["early_stopping"], "[early_stopping]", self.early_stopping.is_some()),
                (&["meta"], "[meta]", self.learns.is_some()),
                (&["archive"], "[archive]", self.has_archive),
            ];
            if let Some((at, other, _)) = others.into_iter().find(|(_, _, is_there)| *is_there) {
                return misfit(at, StudyError::IncompatibleOutcomes { table, other });
            }
            if !self.strategy.takes_outcomes() {
                return by_name(StudyError::OutcomesStrategy { table, strategy });
            }
        }
        if let Some(early_stopping) = self.early_stopping {
            if self.learns.is_some() {
                return beside(&["meta"], "[meta]");
            }
            if self.has_archive {
                return beside(&["archive"], "[archive]");
            }
            if let Err(error) = early_stopping.check_strategy(self.strategy) {
                return by_name(error.into());
            }
        }
        let has_studies = self.learns.as_ref().is_some_and(|learns| learns.has_studies);
        match (&self.learns, self.strategy.requires_old_studies()) {
            (None, true) => by_name(MetaError::NoStudies { strategy }.into()),
            (Some(_), _) if !has_studies => by_name(MetaError::NoStudies { strategy }.into()),
            (Some(learns), false) if !learns.has_warm_start => {
                by_name(MetaError::NoMetaStrategy { strategy }.into())
            }
            _ => Ok(()),
        }
    }
}

/// Adds the options of an entry as keys of a table. Options of the other entries in its registry
/// are added without values.
pub(crate) fn push_options<E: Registered>(
    keys: &mut Keys,
    table: &str,
    entries: &[E],
    chosen: Option<&E>,
) {
    for key in keys_of(entries) {
        keys.push(&[table, key], chosen.and_then(|chosen| chosen.value(key)));
    }
}

/// Term for the stored definition in messages about changes.
pub(crate) const STORED: &str = "the stored study";

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value)
        .unwrap_or_else(|error| unreachable!("plain data becomes JSON: {error}"))
}

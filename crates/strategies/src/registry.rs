//! The registry of strategies and early-stopping rules that a study can name, with one line per
//! entry.
//!
//! A line contains the name used in files, the constructor with default options, the options
//! struct, and the kind of constructor. No other code matches on a name: code for files, stored
//! definitions, messages and the command line queries this registry.

use std::convert::identity;
use std::sync::Arc;

use fedbo_space::Space;
use fedbo_streams::Seed;
use serde::de::value::Error as NoValue;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::{Deserialize, Serialize, forward_to_deserialize_any};

use crate::early_stopping::{
    AshaOptions, BoBosOptions, HyperbandOptions, MedianOptions, StoppingOptions,
};
use crate::meta::{
    MetaBeliefSettings, MetaTask, OutputScale, RgpeOptions, RmGpTsOptions, RmGpUcbOptions,
    TafOptions, TaskModels,
};
use crate::{
    Domain, GpUcbOptions, LogEiOptions, Outcomes, RandomOptions, Repeats, SharedPriorOptions,
    SobolOptions, Strategy, StrategyError, SurrogateSettings, TsOptions, UcbMultiplier,
};

/// The study for which a strategy is created.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The search space.
    pub space: &'a Space,
    /// True if the objective is noisy.
    pub noisy: bool,
    /// Seed for hyperparameter fits and designs.
    pub seed: Seed,
    /// Numbers of objectives and constraints. Differs from the default only if the strategy returns
    /// true from [`StrategyOptions::takes_outcomes`].
    pub outcomes: Outcomes,
}

impl Setup<'_> {
    /// Returns the domain of queries.
    pub fn domain(&self) -> Domain {
        Domain::Space(self.space.clone())
    }

    /// Returns the dimension of the unit cube.
    pub fn dim(&self) -> usize {
        self.space.dim()
    }

    /// Returns the settings for the model of the study's objective.
    pub fn surrogate(&self) -> SurrogateSettings {
        SurrogateSettings::for_space(self.space, self.noisy)
    }

    /// Returns the rule for proposing points again, which allows it only if the objective is noisy.
    pub fn repeats(&self) -> Repeats {
        Repeats::for_study(self.noisy)
    }
}

/// Earlier studies over the same space, and the options for comparing them with the new study.
/// Supplements a [`Setup`] with the `[meta]` section.
#[derive(Clone, Debug)]
pub struct Earlier<'a> {
    /// Observations of the earlier studies. Never empty.
    pub tasks: &'a [MetaTask],
    /// The units in which values are compared.
    pub scale: OutputScale,
    /// Settings for weighting by distance.
    pub belief: MetaBeliefSettings,
    /// True if any earlier study is noisy.
    pub noisy: bool,
}

impl Earlier<'_> {
    /// Returns the settings for the earlier studies' models. All models allow for noise if any
    /// study is noisy, including the new one.
    pub fn surrogate(&self, setup: &Setup<'_>) -> SurrogateSettings {
        SurrogateSettings::for_space(setup.space, setup.noisy || self.noisy)
    }

    /// Fits the models of the earlier studies.
    ///
    /// # Errors
    /// If a model cannot be fitted.
    pub fn models(&self, setup: &Setup<'_>) -> Result<Arc<TaskModels>, StrategyError> {
        let surrogate = self.surrogate(setup);
        TaskModels::fit(self.tasks, self.scale, &surrogate, setup.seed).map(Arc::new)
    }
}

/// Options of a strategy that does not need earlier studies.
pub trait StrategyOptions {
    /// Creates the strategy without observations.
    ///
    /// # Errors
    /// If an option is out of range.
    fn make(&self, setup: &Setup<'_>) -> Result<Box<dyn Strategy>, StrategyError>;

    /// Returns true if the strategy models the objective. The strategy is then used only after an
    /// initial design.
    fn has_surrogate(&self) -> bool {
        true
    }

    /// Returns true if the strategy supports constraints and several objectives.
    fn takes_outcomes(&self) -> bool {
        false
    }

    /// Returns β_t if the strategy maximizes an upper confidence bound that is also available over
    /// points and epochs. [`crate::early_stopping::EpochGpUcb`] then replaces the strategy in a
    /// study with early stopping.
    fn epoch_bound(&self) -> Option<UcbMultiplier> {
        None
    }
}

/// Options of a strategy that learns from earlier studies.
pub trait MetaOptions {
    /// Creates the strategy without observations.
    ///
    /// # Errors
    /// If an option is out of range, or a model of an earlier study cannot be fitted.
    fn make(
        &self,
        setup: &Setup<'_>,
        earlier: &Earlier<'_>,
    ) -> Result<Box<dyn Strategy>, StrategyError>;

    /// Returns true if the strategy weights earlier studies by their distance from the new one,
    /// with [`Earlier::scale`] and [`Earlier::belief`].
    fn weighs_by_distance(&self) -> bool {
        false
    }

    /// Returns the reason why the strategy needs no scale of values, as a phrase that follows its
    /// name. Used only for strategies that do not weight by distance.
    fn without_scale(&self) -> &'static str {
        "compares rankings, which have no scale"
    }

    /// Returns true if the first query uses earlier studies, compared in these units, instead of an
    /// initial design.
    fn begins_with_old_studies(&self, scale: OutputScale) -> bool {
        scale != OutputScale::Own // this scale needs some values of the new study
    }
}

/// Options of `own`, which has none. The calling program provides the strategy, so a file cannot
/// name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnOptions {}

/// The constructor of a strategy, classified by its requirements.
#[derive(Clone, Copy)]
pub enum Maker<'a> {
    /// Requires only a [`Setup`].
    Alone(&'a dyn StrategyOptions),
    /// Also requires [`Earlier`] studies.
    Meta(&'a dyn MetaOptions),
    /// Provided by the calling program.
    Own(&'a OwnOptions),
}

/// A source of options, such as a table in a file.
pub trait ReadOptions {
    /// The error for options that cannot be read.
    type Error;

    /// Reads the options from the source. Options that the source does not contain are taken from
    /// `default`.
    ///
    /// # Errors
    /// If an option is unknown or out of range.
    fn read<T: Serialize + DeserializeOwned>(self, default: T) -> Result<T, Self::Error>;
}

/// A registry entry with options.
pub trait Registered: Copy + Serialize {
    /// Returns the name used in files.
    fn name(&self) -> &'static str;

    /// Returns the keys of the options, in declaration order.
    fn keys(&self) -> &'static [&'static str];

    /// Returns the entry with the options read from a source.
    ///
    /// # Errors
    /// If the source returns an error.
    fn read<R: ReadOptions>(self, source: R) -> Result<Self, R::Error>;

    /// Returns the value of an option. Returns `None` if the entry has no option with this name, or
    /// the option is at a default that is not stored.
    fn value(&self, key: &str) -> Option<serde_json::Value> {
        serde_json::to_value(self).ok()?.get(key).cloned()
    }
}

/// Returns the keys of all options of the entries, without duplicates.
pub fn keys_of<E: Registered>(entries: &[E]) -> Vec<&'static str> {
    let mut keys = Vec::new();
    for key in entries.iter().flat_map(|entry| entry.keys()) {
        if !keys.contains(key) {
            keys.push(*key);
        }
    }
    keys
}

/// Defines a registry: an enum with one variant per line. A value is stored as its options with the
/// tag `name`.
macro_rules! registry {
    (
        $(#[$attribute:meta])*
        $Spec:ident, $Options:ty, $default:ident $parameters:tt $arguments:tt;
        $($(#[$doc:meta])* $name:literal => $new:ident $Variant:ident($Each:ty) $wrap:path;)+
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "name")]
        pub enum $Spec {
            $($(#[$doc])* #[serde(rename = $name)] $Variant($Each),)+
        }

        impl $Spec {
            $($(#[$doc])* ///
            /// Returns the entry with its default options.
            pub fn $new $parameters -> Self {
                Self::$Variant(<$Each>::$default $arguments)
            })+

            /// Returns all entries with their default options, in the order in which messages list
            /// them.
            pub fn all $parameters -> Vec<Self> {
                vec![$(Self::$new $arguments),+]
            }

            /// Returns the name used in files.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$Variant(_) => $name,)+
                }
            }

            /// Returns the options as a trait object.
            pub fn options(&self) -> $Options {
                match self {
                    $(Self::$Variant(options) => $wrap(options),)+
                }
            }
        }

        impl Registered for $Spec {
            fn name(&self) -> &'static str {
                self.name()
            }

            fn keys(&self) -> &'static [&'static str] {
                match self {
                    $(Self::$Variant(_) => fields_of::<$Each>(),)+
                }
            }

            fn read<R: ReadOptions>(self, source: R) -> Result<Self, R::Error> {
                match self {
                    $(Self::$Variant(default) => source.read(default).map(Self::$Variant),)+
                }
            }
        }
    };
}

registry! {
    /// A strategy and its options.
    StrategySpec, Maker<'_>, default () ();
    /// Thompson sampling.
    "ts" => ts Ts(TsOptions) Maker::Alone;
    /// Maximizes μ + β σ.
    "gp-ucb" => gp_ucb GpUcb(GpUcbOptions) Maker::Alone;
    /// Maximizes the logarithm of the expected improvement.
    "log-ei" => log_ei LogEi(LogEiOptions) Maker::Alone;
    /// GP-UCB mixed with the upper bounds of old studies, weighted by their agreement with the new
    /// trials.
    "rm-gp-ucb" => rm_gp_ucb RmGpUcb(RmGpUcbOptions) Maker::Meta;
    /// Thompson sampling from the models of old studies, less often as trials accumulate.
    "rm-gp-ts" => rm_gp_ts RmGpTs(RmGpTsOptions) Maker::Meta;
    /// Expected improvement under an ensemble that includes the models of old studies, weighted by
    /// how well they rank the new trials.
    "rgpe" => rgpe Rgpe(RgpeOptions) Maker::Meta;
    /// Expected improvement averaged over the old studies, weighted by how well they rank the new
    /// trials.
    "taf" => taf Taf(TafOptions) Maker::Meta;
    /// Expected improvement under a mixture of models: a prior of functions from the old studies,
    /// the same prior negated, and the study's own model.
    "shared-prior" => shared_prior SharedPrior(SharedPriorOptions) Maker::Meta;
    /// Uniformly random points.
    "random" => random Random(RandomOptions) Maker::Alone;
    /// Points of a scrambled Sobol sequence.
    "sobol" => sobol Sobol(SobolOptions) Maker::Alone;
    /// A strategy provided by the calling program. A file cannot name it.
    "own" => own Own(OwnOptions) Maker::Own;
}

registry! {
    /// An early-stopping rule and its options.
    StoppingRuleSpec, &dyn StoppingOptions, for_epochs (epochs: u32) (epochs);
    /// Bayesian optimal stopping within GP-UCB: [`crate::early_stopping::BoBos`].
    "bo-bos" => bo_bos BoBos(BoBosOptions) identity;
    /// The median rule: [`crate::early_stopping::MedianRule`].
    "median" => median Median(MedianOptions) identity;
    /// Asynchronous successive halving: [`crate::early_stopping::AshaRule`].
    "asha" => asha Asha(AshaOptions) identity;
    /// Successive halving in several brackets: [`crate::early_stopping::HyperbandRule`].
    "hyperband" => hyperband Hyperband(HyperbandOptions) identity;
}

impl Default for StrategySpec {
    /// Log expected improvement, the best strategy for a single party that runs one trial at a
    /// time.
    fn default() -> Self {
        Self::log_ei()
    }
}

impl StrategySpec {
    /// Maximum number of trials that a study file can request.
    pub const TRIALS_MAX: u64 = 1_000_000;

    /// Returns all strategies that a file can name.
    pub fn of_files() -> Vec<Self> {
        let mut all = Self::all();
        all.retain(|each| !matches!(each.options(), Maker::Own(_)));
        all
    }

    /// Formats the names of the strategies that a file can name and that satisfy `is_meant`:
    /// `"random" or "sobol"`.
    pub fn names(conjunction: &str, is_meant: impl Fn(&Self) -> bool) -> String {
        let meant = Self::of_files().into_iter().filter(is_meant);
        in_words(meant.map(|each| each.name()), conjunction)
    }

    /// Returns true if the strategy requires old studies.
    pub fn requires_old_studies(&self) -> bool {
        matches!(self.options(), Maker::Meta(_))
    }

    /// Returns true if the strategy supports constraints and several objectives.
    pub fn takes_outcomes(&self) -> bool {
        match self.options() {
            Maker::Alone(options) => options.takes_outcomes(),
            Maker::Meta(_) => false,
            Maker::Own(_) => true,
        }
    }

    /// Returns true if the strategy weights old studies by their distance from the new one.
    pub fn weighs_by_distance(&self) -> bool {
        matches!(self.options(), Maker::Meta(options) if options.weighs_by_distance())
    }

    /// Returns the reason why the strategy needs no scale for the values of old studies, as a
    /// phrase that follows its name. Returns `None` unless the strategy learns from old studies
    /// without weighting them by distance.
    pub fn without_scale(&self) -> Option<&'static str> {
        match self.options() {
            Maker::Meta(options) if !options.weighs_by_distance() => Some(options.without_scale()),
            _ => None,
        }
    }

    /// Returns true if the first query uses old studies, compared in these units, instead of an
    /// initial design.
    pub fn begins_with_old_studies(&self, scale: OutputScale) -> bool {
        matches!(self.options(), Maker::Meta(options) if options.begins_with_old_studies(scale))
    }

    /// Returns true if the strategy models the objective.
    pub fn has_surrogate(&self) -> bool {
        match self.options() {
            Maker::Alone(options) => options.has_surrogate(),
            Maker::Meta(_) | Maker::Own(_) => true,
        }
    }

    /// Returns β_t for the bound over points and epochs that the strategy maximizes if trials
    /// report during training, or `None` if there is no such bound.
    pub fn epoch_bound(&self) -> Option<UcbMultiplier> {
        match self.options() {
            Maker::Alone(options) => options.epoch_bound(),
            Maker::Meta(_) | Maker::Own(_) => None,
        }
    }

    /// Returns true if the strategy supports stopped trials, which have no final value.
    pub fn goes_with_stopped_trials(&self) -> bool {
        self.epoch_bound().is_some() || !self.has_surrogate()
    }
}

/// Quotes the names and joins them, with a conjunction before the last one: `"a", "b" or "c"`.
pub fn in_words<'a>(names: impl IntoIterator<Item = &'a str>, conjunction: &str) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("{name:?}")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => {
            format!("{} {conjunction} {last}", rest.join(", "))
        }
        _ => quoted.concat(),
    }
}

/// Returns the fields that deserializing a struct requests, in order.
fn fields_of<T: DeserializeOwned>() -> &'static [&'static str] {
    /// A deserializer without values that records the requested fields.
    struct Noting<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Noting<'_> {
        type Error = NoValue;

        fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, NoValue> {
            Err(NoValue::custom("there is no value"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _name: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, NoValue> {
            *self.0 = fields;
            self.deserialize_any(visitor)
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut fields: &'static [&'static str] = &[];
    let _ = T::deserialize(Noting(&mut fields)); // always fails
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OutputOption;

    /// Entries must be stored as in existing databases: the name, then the options.
    #[test]
    fn entries_are_stored_with_their_name_first_and_options_in_order() {
        let stored = |spec: &StrategySpec| serde_json::to_string(spec).unwrap();
        let of_strategies: Vec<String> = StrategySpec::all().iter().map(stored).collect();
        let expected = [
            r#"{"name":"ts","ucb_multiplier":1.0,"output_transform":"automatic","search":"local"}"#,
            r#"{"name":"gp-ucb","ucb_multiplier":2.0,"output_transform":"automatic"}"#,
            r#"{"name":"log-ei","output_transform":"automatic","augmented":true}"#,
            r#"{"name":"rm-gp-ucb"}"#,
            r#"{"name":"rm-gp-ts"}"#,
            r#"{"name":"rgpe"}"#,
            r#"{"name":"taf"}"#,
            r#"{"name":"shared-prior","rank":25,"trust":0.5,"best_points":3,"probe":true,"acquisition":"log-ei"}"#,
            r#"{"name":"random"}"#,
            r#"{"name":"sobol"}"#,
            r#"{"name":"own"}"#,
        ];
        assert_eq!(of_strategies, expected);
        let stored = |spec: &StoppingRuleSpec| serde_json::to_string(spec).unwrap();
        let of_rules: Vec<String> = StoppingRuleSpec::all(50).iter().map(stored).collect();
        let expected = [
            "{\"name\":\"bo-bos\",\"bounds\":null,\"first_epochs\":8,\"stop_std_ratio\":2.0,\"wrong_stop_loss\":100.0,\
             \"wrong_stop_growth\":1.0526315789473684,\"wrong_continue_loss\":99.0,\"epoch_cost\":1.0,\
             \"expected_end\":false}",
            r#"{"name":"median","warmup_epochs":5,"trials_min":5}"#,
            r#"{"name":"asha","reduction":3,"first_rung":1}"#,
            r#"{"name":"hyperband","reduction":3}"#,
        ];
        assert_eq!(of_rules, expected);
        for spec in StrategySpec::all() {
            let text = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<StrategySpec>(&text).unwrap(), spec);
        }
        // Studies stored before this option existed keep their behaviour.
        let old = serde_json::from_str::<StrategySpec>(r#"{"name":"log-ei"}"#).unwrap();
        let yeo_johnson =
            LogEiOptions { output_transform: OutputOption::YeoJohnson, augmented: false };
        assert_eq!(old, StrategySpec::LogEi(yeo_johnson));
        for spec in StoppingRuleSpec::all(50) {
            let text = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<StoppingRuleSpec>(&text).unwrap(), spec);
        }
    }

    #[test]
    fn names_are_unique_and_keys_are_those_that_are_stored() {
        let names: Vec<&str> = StrategySpec::all().iter().map(StrategySpec::name).collect();
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
        let keys = |rule: StoppingRuleSpec| {
            let stored = serde_json::to_value(rule).unwrap();
            let stored = stored.as_object().unwrap();
            assert_eq!(stored.len(), rule.keys().len() + 1);
            assert!(rule.keys().iter().all(|key| stored.contains_key(*key)));
            rule.keys()
        };
        let of_rules: Vec<_> = StoppingRuleSpec::all(9).into_iter().map(keys).collect();
        assert_eq!(of_rules[2], ["reduction", "first_rung"]);
        assert_eq!(StrategySpec::rm_gp_ucb().keys(), ["ucb_multiplier"]);
        assert!(StrategySpec::sobol().keys().is_empty());
    }

    #[test]
    fn what_an_entry_needs_and_goes_with_is_said_by_its_options() {
        assert_eq!(
            StrategySpec::names("or", StrategySpec::requires_old_studies),
            r#""rm-gp-ucb", "rm-gp-ts", "rgpe", "taf" or "shared-prior""#
        );
        assert_eq!(
            StrategySpec::names("and", StrategySpec::weighs_by_distance),
            r#""rm-gp-ucb" and "rm-gp-ts""#
        );
        assert_eq!(
            StrategySpec::names("or", StrategySpec::goes_with_stopped_trials),
            r#""gp-ucb", "random" or "sobol""#
        );
    }
}

//! The `[meta]` table of `study.toml`, and reading the old studies listed in it.

use std::collections::BTreeMap;

use fedbo_config::{Check, FileError};
use fedbo_space::{Space, Value};
use fedbo_storage::Address;
use fedbo_streams::Seed;
use serde::Deserialize;

use super::fit::Fitting;
use super::{MetaError, MetaScale, MetaSettings, MetaSpec, Mismatch, OldSource, OldStudy};
use crate::{Definition, StrategySpec};

/// The raw table, before validation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MetaTable {
    studies: Option<Vec<String>>,
    mismatch: Option<String>,
    scale: Option<String>,
    trials_max: Option<usize>,
    values: BTreeMap<String, serde_json::Value>,
    decay: Option<f64>,
    gap_exponent: Option<f64>,
    rate: Option<f64>,
    warm_start: Option<usize>,
}

/// A validated `[meta]` table: the old studies and how they are used. The studies have not been
/// read yet.
#[derive(Clone, Debug, PartialEq)]
pub struct MetaFile {
    /// Settings for reading and weighting the old studies.
    pub settings: MetaSettings,
    /// Sources of the old studies, in file order.
    pub sources: Vec<OldSource>,
}

/// Maximum number of points from old studies that are evaluated first.
const WARM_START_MAX: usize = 1000;
/// Maximum number of old studies per study.
const STUDIES_MAX: usize = 100;

impl MetaTable {
    /// Returns true if the best points of old studies are evaluated first.
    pub(crate) fn has_warm_start(&self) -> bool {
        self.warm_start.is_some_and(|n_points| n_points > 0)
    }

    pub(crate) fn validate(
        &self,
        check: Check<'_>,
        strategy: &StrategySpec,
    ) -> Result<MetaFile, FileError> {
        let file = check.file;
        let at = ["meta", "studies"];
        let Some(studies) = &self.studies else {
            let remedy = "add studies = [\"sqlite:FILE\", ..], the locations of the old studies, or remove [meta]";
            return Err(file.missing_error(&at, remedy));
        };
        if !(1..=STUDIES_MAX).contains(&studies.len()) {
            let expected =
                format!("a list of 1 to {STUDIES_MAX} old studies; without any, remove [meta]");
            return Err(file.value_error(&at, expected));
        }
        let mut sources: Vec<OldSource> = Vec::with_capacity(studies.len());
        for (index, text) in studies.iter().enumerate() {
            let index = index.to_string();
            let at = [at[0], at[1], &index];
            let source = OldSource::parse(text, file.folder());
            let source = source.map_err(|expected| match text.contains("://") {
                true => file.error(&at, format!("{}, expected {expected}", at.join("."))), // the value may contain a password
                false => file.value_error(&at, expected),
            })?;
            if sources.contains(&source) {
                return Err(
                    file.error(&at, format!("{:?} is named twice; remove one", source.text()))
                );
            }
            sources.push(source);
        }
        let default = MetaSettings::default();
        let words = [("refuse", Mismatch::Refuse), ("shared", Mismatch::Shared)];
        let mismatch = check.word(&["meta", "mismatch"], self.mismatch.as_deref(), &words)?;
        let words = [MetaScale::Common, MetaScale::Own, MetaScale::Raw].map(|s| (s.name(), s));
        let scale = check.word(&["meta", "scale"], self.scale.as_deref(), &words)?;
        let default_scale = match strategy.weighs_by_distance() {
            true => MetaScale::default(),
            false => MetaScale::Own, // the other strategies do not compare values
        };
        if let Some(scale) = scale
            && scale != default_scale
            && !strategy.weighs_by_distance()
        {
            let Some(reason) = strategy.without_scale() else {
                let message = format!(
                    "{:?} does not compare values of old studies, so they need no scale; remove meta.scale = {:?}",
                    strategy.name(),
                    scale.name()
                );
                return Err(file.error(&["meta", "scale"], message));
            };
            let message = format!(
                "{:?} {reason}; remove meta.scale = {:?}, or choose {}",
                strategy.name(),
                scale.name(),
                StrategySpec::names("or", StrategySpec::weighs_by_distance)
            );
            return Err(file.error(&["meta", "scale"], message));
        }
        let max = fedbo_strategies::Surrogate::MAX_CONDITIONED;
        let trials_max = self.trials_max.unwrap_or(default.trials_max);
        let settings = MetaSettings {
            mismatch: mismatch.unwrap_or_default(),
            scale: scale.unwrap_or(default_scale),
            trials_max: check.count(&["meta", "trials_max"], trials_max, max)?,
            values: self.values(check)?,
            decay: self.decay.unwrap_or(default.decay),
            gap_exponent: self.gap_exponent.unwrap_or(default.gap_exponent),
            rate: self.rate.unwrap_or(default.rate),
            warm_start: match self.warm_start {
                None | Some(0) => 0,
                Some(n) => check.count(&["meta", "warm_start"], n, WARM_START_MAX)?,
            },
        };
        for (key, given) in
            [("decay", self.decay), ("gap_exponent", self.gap_exponent), ("rate", self.rate)]
        {
            if given.is_none() {
                continue;
            }
            if !strategy.weighs_by_distance() {
                let message = format!(
                    "meta.{key} is for {}; remove it, or choose one of them instead of {:?}",
                    StrategySpec::names("and", StrategySpec::weighs_by_distance),
                    strategy.name()
                );
                return Err(file.error(&["meta", key], message));
            }
            let alone = MetaSettings {
                decay: if key == "decay" { settings.decay } else { default.decay },
                gap_exponent: if key == "gap_exponent" {
                    settings.gap_exponent
                } else {
                    default.gap_exponent
                },
                rate: if key == "rate" { settings.rate } else { default.rate },
                ..MetaSettings::default()
            };
            check.setting(&["meta", key], alone.belief())?;
        }
        Ok(MetaFile { settings, sources })
    }

    fn values(&self, check: Check<'_>) -> Result<BTreeMap<String, Value>, FileError> {
        let value = |(name, given): (&String, &serde_json::Value)| {
            let value = match given {
                serde_json::Value::String(text) => Some(Value::Choice(text.clone())),
                serde_json::Value::Bool(flag) => Some(Value::Bool(*flag)),
                serde_json::Value::Number(number) => match number.as_i64() {
                    Some(whole) => Some(Value::Int(whole)),
                    None => number.as_f64().map(Value::Float),
                },
                _ => None,
            };
            let value = value.ok_or_else(|| {
                let expected =
                    "the parameter's value in the old studies: a number, or the name of a choice";
                check.file.value_error(&["meta", "values", name], expected)
            })?;
            Ok((name.clone(), value))
        };
        self.values.iter().map(value).collect()
    }
}

impl MetaFile {
    /// Reads every old study and converts its trials to the new study's space. `storage` is the
    /// storage of the new study.
    ///
    /// # Errors
    /// Fails if an old study cannot be read, is the new study itself, or does not match.
    pub fn read(
        &self,
        definition: &Definition,
        space: &Space,
        storage: &Address,
    ) -> Result<Vec<OldStudy>, MetaError> {
        let fitting = self.fitting(definition, space);
        fitting.check_values()?;
        let mut studies: Vec<OldStudy> = Vec::with_capacity(self.sources.len());
        let mut names: Vec<String> = Vec::new();
        let mut unused: Vec<&String> = self.settings.values.keys().collect();
        for (index, source) in (0..).zip(&self.sources) {
            let old = source.read((storage, &definition.name))?;
            let mut before = self.sources.iter().zip(&names);
            if before.any(|(other, name)| *name == old.name && other.is_in_same_storage(source)) {
                let source_text = source.text().to_owned();
                return Err(MetaError::Twice { source_text });
            }
            names.push(old.name.clone());
            unused.retain(|name| !fitting.uses_value(&old, name));
            studies.push(fitting.fit(old, index, source.text())?);
        }
        if let Some(name) = unused.first() {
            return Err(MetaError::Value {
                name: name.to_string(),
                message: "every old study has its own values of this parameter; remove it"
                    .to_owned(),
            });
        }
        disambiguate_names(&mut studies);
        Ok(studies)
    }

    /// Describes how the old studies have changed since the study was created. Returns one entry
    /// for each old study that differs or cannot be read.
    pub(crate) fn news(
        &self,
        definition: &Definition,
        space: &Space,
        storage: &Address,
        stored: &[OldStudy],
    ) -> Vec<String> {
        let read = (0..).zip(&self.sources).map(|(index, source)| {
            let fitting = self.fitting(definition, space);
            let old = source.read((storage, &definition.name))?;
            fitting.fit(old, index, source.text())
        });
        let news = read.zip(stored).filter_map(|(now, stored)| match now {
            Ok(now) if now.has_same_content(stored) => None,
            Ok(now) => {
                let (n_now, n_stored) =
                    (now.len() + now.n_left_out(), stored.len() + stored.n_left_out());
                let what = match n_now == n_stored {
                    true => "its trials are different now".to_owned(),
                    false => format!("it has {n_now} trials now, and had {n_stored}"),
                };
                Some(format!("old study {} has changed: {what}", stored.name))
            }
            Err(error) => Some(format!("old study {}: {error}", stored.name)),
        });
        news.collect()
    }

    fn fitting<'a>(&'a self, definition: &Definition, space: &'a Space) -> Fitting<'a> {
        Fitting {
            space,
            direction: definition.direction,
            seed: Seed::new(definition.seed),
            settings: &self.settings,
        }
    }

    /// Returns the settings together with these old studies.
    pub fn with(&self, studies: Vec<OldStudy>) -> MetaSpec {
        MetaSpec { settings: self.settings.clone(), studies }
    }
}

/// Makes duplicate study names unique by appending their sources.
fn disambiguate_names(studies: &mut [OldStudy]) {
    let names: Vec<String> = studies.iter().map(|study| study.name.clone()).collect();
    for study in studies {
        if names.iter().filter(|name| **name == study.name).count() > 1 {
            let source = study.source.as_deref().unwrap_or_default();
            study.name = format!("{} ({source})", study.name);
        }
    }
}

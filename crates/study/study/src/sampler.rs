//! Queries for trials that somebody else keeps.

use std::collections::BTreeSet;

use fedbo_space::{Point, Space};
use fedbo_storage::{Told, Trial, TrialState};
use fedbo_strategies::StrategyError;

use crate::model::Model;
use crate::study::{ATTEMPTS_MAX, encoding};
use crate::{Definition, StudyError};

/// A trial that has ended, as whoever keeps it tells of it.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedTrial {
    /// The point that was tried.
    pub point: Point,
    /// Its finite value in the user's own sign; `None` if it failed.
    pub value: Option<f64>,
    /// The source of its point, as [`Sampler::propose`] named it; any other word for points of the caller's own.
    pub source: String,
}

/// The queries of a study whose trials are kept elsewhere, such as in another framework's storage.
///
/// A query is a function of the definition and of what [`Sampler::propose`] is given, to the bit, and equal to that of a
/// [`crate::Study`] with these trials. What stays here between calls is a cache: trials that are told as before and then further ones
/// are taken in, and anything else begins anew.
///
/// ```
/// use fedbo_space::ParameterSpec;
/// use fedbo_study::{Definition, EndedTrial, Sampler};
///
/// let definition = Definition::new("parabola").parameter("x", ParameterSpec::float(-2.0, 2.0)).minimize();
/// let mut sampler = Sampler::new(&definition)?;
/// let mut told = Vec::new();
/// for number in 0..15 {
///     let (point, source) = sampler.propose(&told, &[], number)?;
///     let value = Some(point.number("x").powi(2));
///     told.push(EndedTrial { point, value, source });
/// }
/// let best = told.iter().filter_map(|trial| trial.value).fold(f64::INFINITY, f64::min);
/// assert!(best < 0.05);
/// # Ok::<(), fedbo_study::StudyError>(())
/// ```
pub struct Sampler {
    definition: Definition,
    space: Space,
    /// The trials that the model knows, in order.
    told: Vec<EndedTrial>,
    /// None before the first query, and after one that failed.
    model: Option<Model>,
}

impl Sampler {
    /// A sampler of a definition; its name is of no account.
    ///
    /// # Errors
    /// If the definition is not valid, or has constraints or several objectives.
    pub fn new(definition: &Definition) -> Result<Self, StudyError> {
        if let Some(table) = definition.outcomes_table() {
            let other = "a sampler, whose trials have a value alone";
            return Err(StudyError::OutcomesBeside { table, other });
        }
        let space = definition.check()?;
        Ok(Self { definition: definition.clone(), space, told: Vec::new(), model: None })
    }

    /// Its search space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The point of trial `number` and its source (`initial`, `own`, `random`, …) after the trials of `told`, in the order of telling,
    /// and while those of `open` are evaluated. The first numbers are the initial design.
    ///
    /// # Errors
    /// If a point is not in the space or a value is not finite; [`StrategyError::Exhausted`] if every point was tried and the
    /// objective is not noisy; or if the strategy fails.
    pub fn propose(
        &mut self,
        told: &[EndedTrial],
        open: &[Point],
        number: u64,
    ) -> Result<(Point, String), StudyError> {
        let mut tried = BTreeSet::new();
        for point in told.iter().map(|trial| &trial.point).chain(open) {
            tried.insert(encoding(&self.space, point)?);
        }
        let model = self.take_in(told)?;
        let open: Vec<Trial> =
            open.iter().map(|point| trial(point, "", TrialState::Waiting)).collect();
        let mut found = None;
        for attempt in 0..ATTEMPTS_MAX {
            let proposal = model.propose(number, &open, attempt)?;
            let point = self.space.decode(&proposal.unit);
            if self.definition.noisy || !tried.contains(&encoding(&self.space, &point)?) {
                found = Some((point, proposal.source.to_string()));
                break;
            }
        }
        self.model = Some(model);
        found.ok_or_else(|| StrategyError::Exhausted { n_points: tried.len() }.into())
    }

    /// The model of these trials, which is taken out of the cache until a query succeeded.
    fn take_in(&mut self, told: &[EndedTrial]) -> Result<Model, StudyError> {
        let not_finite = told.iter().filter_map(|trial| trial.value).find(|v| !v.is_finite());
        if let Some(value) = not_finite {
            return Err(StudyError::NotFinite { value });
        }
        let known = told.strip_prefix(self.told.as_slice());
        let (mut model, news) = match (self.model.take(), known) {
            (Some(model), Some(news)) => (model, news),
            _ => {
                self.told.clear();
                (Model::new(&self.definition, None)?, told)
            }
        };
        let trials: Vec<Trial> = news
            .iter()
            .map(|ended| {
                let outcome = match ended.value {
                    Some(value) => Told::Value(value),
                    None => Told::Failed { kind: "reported".to_owned(), message: String::new() },
                };
                trial(&ended.point, &ended.source, TrialState::Told(outcome))
            })
            .collect();
        model.absorb(&trials)?;
        self.told.extend_from_slice(news);
        Ok(model)
    }
}

/// A trial as the model looks at it, which is not at its number and times.
fn trial(point: &Point, source: &str, state: TrialState) -> Trial {
    Trial {
        number: 0,
        point: point.clone(),
        source: source.to_owned(),
        state,
        attempts: 1,
        asked_at_ms: 0,
        started_at_ms: None,
        told_at_ms: None,
        told_seq: None,
        ask_seconds: 0.0,
        reports: Vec::new(),
    }
}

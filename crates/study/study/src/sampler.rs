//! Queries for trials that another program stores.

use std::collections::BTreeSet;

use fedbo_space::{Point, Space};
use fedbo_storage::{Told, Trial, TrialState};
use fedbo_strategies::StrategyError;

use crate::model::Model;
use crate::study::{ATTEMPTS_MAX, encoding};
use crate::{Definition, StudyError};

/// A trial that has ended, supplied by the program that stores it.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedTrial {
    /// The point of the trial.
    pub point: Point,
    /// The trial's finite value in the user's own sign; `None` if the trial failed.
    pub value: Option<f64>,
    /// The source of the point, as returned by [`Sampler::propose`]. Any other string marks a
    /// user-supplied point.
    pub source: String,
}

/// Proposes queries for a study whose trials are stored elsewhere, for example by another
/// framework.
///
/// A query is a function of the definition and the arguments of [`Sampler::propose`], bit for bit.
/// It equals the query of a [`crate::Study`] with the same trials. The state kept between calls is
/// a cache: if the finished trials extend the previous call's trials, only the new trials are added
/// to the model; otherwise the model is rebuilt.
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
    /// The trials that the model contains, in order.
    told: Vec<EndedTrial>,
    /// `None` before the first query and after a failed one.
    model: Option<Model>,
}

impl Sampler {
    /// Creates a sampler for a definition. The definition's name is ignored.
    ///
    /// # Errors
    /// Fails if the definition is invalid, or has constraints or multiple objectives.
    pub fn new(definition: &Definition) -> Result<Self, StudyError> {
        if let Some(table) = definition.outcomes_table() {
            let other = "a sampler, which supports only one value per trial";
            return Err(StudyError::IncompatibleOutcomes { table, other });
        }
        let space = definition.check()?;
        Ok(Self { definition: definition.clone(), space, told: Vec::new(), model: None })
    }

    /// Returns the search space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the point of trial `number` and its source (`initial`, `own`, `random`, …).
    ///
    /// `told` contains the ended trials in completion order, and `open` the points under
    /// evaluation. The first trial numbers belong to the initial design.
    ///
    /// # Errors
    /// Fails if a point is not in the space, a value is not finite, or the strategy fails. Returns
    /// [`StrategyError::Exhausted`] if every point has been tried and the objective is not noisy.
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
        let model = self.absorb(told)?;
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

    /// Returns the model of these trials. The model is removed from the cache until a query
    /// succeeds.
    fn absorb(&mut self, told: &[EndedTrial]) -> Result<Model, StudyError> {
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

/// Creates a trial for the model, which does not use the trial's number and times.
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

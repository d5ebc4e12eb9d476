//! Converts an old study's trials to the space of a new study.

use std::collections::BTreeSet;

use fedbo_optim::sobol_point;
use fedbo_space::{Direction, Kind, Parameter, Point, Space, SpaceError, Value};
use fedbo_streams::Seed;

use super::source::OldTrials;
use super::{LeftOut, MetaError, MetaSettings, Mismatch, OldStudy};

/// The new study's properties.
pub(super) struct Fitting<'a> {
    pub(super) space: &'a Space,
    pub(super) direction: Direction,
    pub(super) seed: Seed,
    pub(super) settings: &'a MetaSettings,
}

/// Source of a parameter's values in the new space.
enum Column<'a> {
    /// A column of the old study.
    Old(usize),
    /// A constant value for all old trials.
    Given(&'a Value),
    /// Arbitrary values: the old study is constant in this parameter.
    Spread,
}

/// The values of an old trial, `None` for parameters that do not exist there, and its value.
type OldRow = (Vec<Option<Value>>, f64);

impl Fitting<'_> {
    /// Returns the old study's usable trials as points of the new space. `index` is the old study's
    /// position among all old studies.
    ///
    /// A parameter that the old study does not have, and that has no value in `[meta.values]`, is
    /// spread evenly over its range. If the old study is assumed to be constant in it, an
    /// observation at one of its values is an observation at any other value. The spread lets the
    /// model learn that the old study is constant in the parameter, and makes distances means over
    /// the parameter.
    pub(super) fn fit(
        &self,
        old: OldTrials,
        index: u64,
        source_text: &str,
    ) -> Result<OldStudy, MetaError> {
        if let Some(theirs) = old.direction
            && theirs != self.direction
        {
            return Err(MetaError::Direction {
                source_text: source_text.to_owned(),
                theirs: theirs.to_string(),
                ours: self.direction.to_string(),
            });
        }
        let columns = self.columns(&old);
        let existing = self.existing(&old, &columns);
        let differences = self.differences(&old, &columns, &existing);
        if self.settings.mismatch == Mismatch::Refuse && !differences.is_empty() {
            return Err(MetaError::Space { source_text: source_text.to_owned(), differences });
        }
        if !columns.iter().any(|column| matches!(column, Column::Old(_))) {
            return Err(MetaError::NothingShared { source_text: source_text.to_owned() });
        }
        let mut left_out = old.left_out.clone();
        let mut rows = Vec::new();
        let scramble = self.seed.stream(fedbo_strategies::META_TASK, index, 0).bits();
        for (row, (texts, value)) in old.rows.iter().enumerate() {
            match self.point(&columns, texts, (row, scramble)) {
                Ok(point) => rows.push((point, *value)),
                Err(why) => count(&mut left_out, 1, &why),
            }
        }
        let n_usable = rows.len();
        let rows = self.thinned(rows);
        if rows.len() < n_usable {
            let why = format!("beyond trials_max = {}", self.settings.trials_max);
            count(&mut left_out, n_usable - rows.len(), &why);
        }
        if rows.is_empty() {
            let why: Vec<String> = left_out.iter().map(ToString::to_string).collect();
            return Err(MetaError::NoTrial {
                source_text: source_text.to_owned(),
                why: match why.is_empty() {
                    true => "it is empty".to_owned(),
                    false => why.join(", "),
                },
            });
        }
        let dropped = self.dropped(&old, &columns);
        let parameters = self.space.parameters().iter();
        Ok(OldStudy {
            name: old.name.clone(),
            source: Some(source_text.to_owned()),
            parameters: parameters.map(|each| each.name().to_owned()).collect(),
            rows,
            noisy: old.noisy || !dropped.is_empty(),
            assumptions: self.assumptions(&columns, &existing, &dropped),
            left_out,
        })
    }

    /// Checks the values in `[meta.values]` against the new parameters.
    pub(super) fn check_values(&self) -> Result<(), MetaError> {
        for (name, value) in &self.settings.values {
            let refused = |message: String| MetaError::Value { name: name.clone(), message };
            let parameter = self.space.parameter(name);
            let parameter = parameter.map_err(|error| refused(error.to_string()))?;
            cell(parameter, &value.to_string()).map_err(|_| {
                let found = match value {
                    Value::Choice(text) => format!("{text:?}"),
                    number => number.to_string(),
                };
                refused(format!("{found}, expected {}", parameter.kind()))
            })?;
        }
        Ok(())
    }

    /// Returns true if the parameter's value for the old study is taken from `[meta.values]`.
    pub(super) fn uses_value(&self, old: &OldTrials, name: &str) -> bool {
        let columns = self.columns(old);
        let mut pairs = self.space.parameters().iter().zip(&columns);
        pairs.any(|(each, column)| each.name() == name && matches!(column, Column::Given(_)))
    }

    fn columns(&self, old: &OldTrials) -> Vec<Column<'_>> {
        let of = |parameter: &Parameter| {
            let name = parameter.name();
            let at = old.parameters.iter().position(|each| each == name);
            match (at, self.settings.values.get(name)) {
                (Some(at), _) if is_comparable(parameter, old) => Column::Old(at),
                (_, Some(value)) => Column::Given(value),
                _ => Column::Spread,
            }
        };
        self.space.parameters().iter().map(of).collect()
    }

    /// Returns the parameters that the old study has and the new one does not.
    fn dropped<'a>(&self, old: &'a OldTrials, columns: &[Column<'_>]) -> Vec<&'a str> {
        let is_used =
            |at: usize| columns.iter().any(|c| matches!(c, Column::Old(used) if *used == at));
        let names = old.parameters.iter().enumerate();
        let unused = names.filter(|(at, _)| !is_used(*at));
        unused.map(|(_, name)| name.as_str()).collect()
    }

    fn assumptions(
        &self,
        columns: &[Column<'_>],
        existing: &[bool],
        dropped: &[&str],
    ) -> Vec<String> {
        let pairs = self.space.parameters().iter().zip(columns).zip(existing);
        let mut words: Vec<String> = pairs
            .filter_map(|(pair, exists)| exists.then_some(pair))
            .filter_map(|(parameter, column)| match column {
                Column::Old(_) => None,
                Column::Given(value) => Some(format!("{} was {value}", parameter.name())),
                Column::Spread => Some(format!("taken as constant in {}", parameter.name())),
            })
            .collect();
        words
            .extend(dropped.iter().map(|name| format!("the effect of {name} is treated as noise")));
        words
    }

    /// Describes each difference between the parameters of the two spaces.
    fn differences(
        &self,
        old: &OldTrials,
        columns: &[Column<'_>],
        existing: &[bool],
    ) -> Vec<String> {
        let mut differences = Vec::new();
        let pairs = self.space.parameters().iter().zip(columns).zip(existing);
        for ((parameter, column), exists) in pairs {
            let (name, ours) = (parameter.name(), parameter.kind());
            let theirs = old.space.as_ref().and_then(|space| space.parameter(name).ok());
            match (theirs, column) {
                (Some(theirs), _) if !theirs.kind().has_same_values(ours) => {
                    differences.push(format!("{name}: {} there, {ours} here", theirs.kind()));
                }
                (Some(theirs), _) if theirs.when() != parameter.when() => {
                    let [there, here] = [theirs, parameter].map(|each| match each.condition() {
                        Some(condition) => format!("only when {condition}"),
                        None => "always".to_owned(),
                    });
                    differences.push(format!("{name}: exists {there} there, {here} here"));
                }
                (Some(_), _) | (None, Column::Given(_)) => {}
                (None, Column::Spread) if !exists => {}
                (None, Column::Spread) => differences.push(format!(
                    "{name}: not there (if it had a fixed value there, set it in [meta.values]), {ours} here"
                )),
                (None, Column::Old(at)) => {
                    let outside: Vec<&str> = old
                        .rows
                        .iter()
                        .map(|(texts, _)| texts[*at].as_str())
                        .filter(|text| {
                            let may_be_blank = parameter.condition().is_some();
                            cell(parameter, text).is_err() && !(may_be_blank && text.is_empty())
                        })
                        .collect();
                    if let Some(first) = outside.first() {
                        let (n_outside, n) = (outside.len(), old.rows.len());
                        differences.push(format!(
                            "{name}: {first:?} there (of {n} values, {n_outside} are outside), {ours} here"
                        ));
                    }
                }
            }
        }
        for name in self.dropped(old, columns) {
            if self.space.parameter(name).is_err() {
                differences.push(format!("{name}: not here"));
            }
        }
        differences
    }

    /// Converts a trial to a point of the new space, or returns the reason why it cannot be
    /// converted.
    fn point(
        &self,
        columns: &[Column<'_>],
        texts: &[String],
        (row, scramble): (usize, u32),
    ) -> Result<Vec<Option<Value>>, String> {
        let n_spread = columns.iter().filter(|c| matches!(c, Column::Spread)).count();
        let mut spread = sobol_point(n_spread, row, scramble).into_iter();
        let parameters = self.space.parameters();
        let parse = |(parameter, column): (&Parameter, &Column<'_>)| match column {
            Column::Old(at) => cell(parameter, &texts[*at]),
            Column::Given(value) => cell(parameter, &value.to_string()),
            Column::Spread => Ok(at_share(parameter, spread.next().unwrap_or(0.5))),
        };
        let parsed: Vec<Result<Value, ()>> = parameters.iter().zip(columns).map(parse).collect();
        let entries = parameters.iter().zip(&parsed).filter_map(|(parameter, value)| {
            Some((parameter.name().to_owned(), value.as_ref().ok()?.clone()))
        });
        let exist = self.space.existing(&Point::new(entries.collect()));
        // A value of a parameter that does not exist here had no effect.
        let values = parsed.into_iter().zip(exist).enumerate().map(|(index, (value, exists))| {
            let name = parameters[index].name();
            match (value, exists) {
                (_, false) => Ok(None),
                (Ok(value), true) => Ok(Some(value)),
                (Err(()), true) if is_blank(&columns[index], texts) => {
                    Err(format!("without a value of {name}"))
                }
                (Err(()), true) => Err(format!("outside the range of {name} here")),
            }
        });
        let values: Vec<Option<Value>> = values.collect::<Result<_, String>>()?;
        let entries = parameters.iter().zip(&values);
        let entries = entries
            .filter_map(|(parameter, value)| Some((parameter.name().to_owned(), value.clone()?)));
        match self.space.normalize(&Point::new(entries.collect())) {
            Err(SpaceError::Broken { rule, .. }) => Err(format!("against the rule {rule}")),
            _ => Ok(values),
        }
    }

    /// Returns true for each parameter that exists in at least one of the old trials.
    fn existing(&self, old: &OldTrials, columns: &[Column<'_>]) -> Vec<bool> {
        if !self.space.has_conditions() {
            return vec![true; columns.len()];
        }
        let mut exist = vec![false; columns.len()];
        for (row, (texts, _)) in old.rows.iter().enumerate() {
            let Ok(values) = self.point(columns, texts, (row, 0)) else {
                continue;
            };
            for (exists, value) in exist.iter_mut().zip(values) {
                *exists |= value.is_some();
            }
        }
        exist
    }

    /// Selects at most `trials_max` of the trials: as many of the best trials as a warm start
    /// evaluates, but at least one, and an evenly spaced selection of the others.
    fn thinned(&self, mut rows: Vec<OldRow>) -> Vec<OldRow> {
        let (n, max) = (rows.len(), self.settings.trials_max);
        if n <= max {
            return rows;
        }
        let n_best = self.settings.warm_start.clamp(1, max);
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| {
            let ascending = rows[*a].1.total_cmp(&rows[*b].1);
            match self.direction {
                Direction::Minimize => ascending,
                Direction::Maximize => ascending.reverse(),
            }
        });
        let mut others = order.split_off(n_best);
        others.sort_unstable();
        let mut kept: BTreeSet<usize> = order.into_iter().collect();
        let n_others = max - n_best;
        kept.extend((0..n_others).map(|place| others[place * others.len() / n_others]));
        let mut index = 0;
        rows.retain(|_| {
            index += 1;
            kept.contains(&(index - 1))
        });
        rows
    }
}

fn count(left_out: &mut Vec<LeftOut>, n_trials: usize, why: &str) {
    match left_out.iter_mut().find(|each| each.why == why) {
        Some(known) => known.n_trials += n_trials,
        None => left_out.push(LeftOut { n_trials, why: why.to_owned() }),
    }
}

/// Returns true if the old trial has no value in this column.
fn is_blank(column: &Column<'_>, texts: &[String]) -> bool {
    matches!(column, Column::Old(at) if texts[*at].is_empty())
}

/// Parses a parameter's value. Fails if the string is not a value of the parameter.
fn cell(parameter: &Parameter, text: &str) -> Result<Value, ()> {
    match parameter.kind().choices() {
        [] => parameter.parse(text).map_err(|_| ()),
        // Not trimmed: a name can begin or end with spaces.
        _ => parameter.kind().choice(text).ok_or(()),
    }
}

/// Returns the value at a fraction of the parameter's range.
fn at_share(parameter: &Parameter, share: f64) -> Value {
    let choices = parameter.kind().choices();
    if choices.is_empty() {
        return parameter.kind().draw(&[share]);
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share in [0,1) of a number of choices"
    )]
    let index = (share * choices.len() as f64) as usize;
    choices[index.min(choices.len() - 1)].clone()
}

/// Returns true if an old parameter of this name is comparable: both are numeric, or both are
/// categorical. Old choices that are all numbers are comparable with a set of numbers.
fn is_comparable(parameter: &Parameter, old: &OldTrials) -> bool {
    let theirs = old.space.as_ref().map(|space| space.parameter(parameter.name()));
    let is_numeric = |parameter: &Parameter| parameter.kind().numbers().is_some();
    match theirs {
        Some(Ok(theirs)) if matches!(parameter.kind(), Kind::Set(_)) => {
            theirs.kind().choices().iter().all(|choice| choice.as_f64().is_some())
        }
        Some(Ok(theirs)) => is_numeric(theirs) == is_numeric(parameter),
        Some(Err(_)) | None => true,
    }
}

#[cfg(test)]
mod tests;

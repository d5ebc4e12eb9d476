//! The tables of Optuna's storages in databases (layout 12, of Optuna 3.0 and later).

use std::collections::BTreeMap;

use fedbo_space::Direction;

use super::{Defect, Distribution, Found, State, Stored, add_constraints, key_of};

/// The tables that are read.
pub(super) const NAMES: [&str; 7] = [
    "studies",
    "study_directions",
    "study_system_attributes",
    "trials",
    "trial_system_attributes",
    "trial_params",
    "trial_values",
];

/// A database that has the tables.
pub(super) trait Database {
    /// The schema of the tables, as it stands in a statement.
    fn schema(&self) -> &str;

    /// Calls `each` with the rows of a query in SQL that all databases know. `study` is its parameter $1, if it has one.
    fn query(
        &mut self,
        sql: &str,
        study: Option<i64>,
        each: &mut dyn FnMut(&dyn Cells) -> Result<(), Defect>,
    ) -> Result<(), Defect>;
}

/// A row.
pub(super) trait Cells {
    fn whole(&self, column: usize) -> Result<i64, Defect>;
    fn real(&self, column: usize) -> Result<Option<f64>, Defect>;
    fn text(&self, column: usize) -> Result<String, Defect>;
}

/// A study in the tables of an Optuna storage.
pub(super) fn read(database: &mut dyn Database, study: Option<&str>) -> Result<Stored, Defect> {
    let mut tables = Tables { database };
    let id = key_of(&tables.studies()?, study)?;
    let directions = tables.directions(id)?;
    let metric_names = if directions.len() > 1 { tables.metric_names(id)? } else { None };
    Ok(Stored { metric_names, trials: tables.trials(id)?, directions })
}

/// Makes sure that what is read are tables: a view is a query of its author, which may never end. `others` are names that are none.
pub(super) fn check_tables(others: impl IntoIterator<Item = String>) -> Result<(), Defect> {
    match others.into_iter().next() {
        None => Ok(()),
        Some(name) => {
            Err(Defect::Content(format!("{name} is no table, as in a storage of Optuna")))
        }
    }
}

struct Tables<'a> {
    database: &'a mut dyn Database,
}

fn state_of(text: &str) -> State {
    match text {
        "COMPLETE" => State::Complete,
        "FAIL" => State::Failed,
        "PRUNED" => State::Pruned,
        _ => State::Open,
    }
}

impl Tables<'_> {
    /// The rows of a query in which `@` stands for the schema.
    fn rows<T>(
        &mut self,
        sql: &str,
        study: Option<i64>,
        each: impl Fn(&dyn Cells) -> Result<T, Defect>,
    ) -> Result<Vec<T>, Defect> {
        let sql = sql.replace('@', self.database.schema());
        let mut all = Vec::new();
        self.database.query(&sql, study, &mut |row| {
            all.push(each(row)?);
            Ok(())
        })?;
        Ok(all)
    }

    fn studies(&mut self) -> Result<Vec<(i64, String)>, Defect> {
        let sql = "SELECT study_id, study_name FROM @.studies ORDER BY study_id";
        self.rows(sql, None, |row| Ok((row.whole(0)?, row.text(1)?)))
    }

    fn directions(&mut self, study: i64) -> Result<Vec<Direction>, Defect> {
        let sql = "SELECT direction FROM @.study_directions WHERE study_id = $1 ORDER BY objective";
        self.rows(sql, Some(study), |row| match row.text(0)?.as_str() {
            "MINIMIZE" | "NOT_SET" => Ok(Direction::Minimize), // not set means minimize
            "MAXIMIZE" => Ok(Direction::Maximize),
            other => Err(Defect::Content(format!(
                "its direction {other:?} is neither MINIMIZE nor MAXIMIZE"
            ))),
        })
    }

    /// The names of the objectives, if the study has some.
    fn metric_names(&mut self, study: i64) -> Result<Option<Vec<String>>, Defect> {
        let sql = "SELECT value_json FROM @.study_system_attributes
                   WHERE study_id = $1 AND key = 'study:metric_names'";
        let texts = self.rows(sql, Some(study), |row| row.text(0))?;
        Ok(texts.first().and_then(|text| serde_json::from_str(text).ok()))
    }

    /// All trials, in their order.
    fn trials(&mut self, study: i64) -> Result<Vec<Found>, Defect> {
        let sql =
            "SELECT trial_id, state FROM @.trials WHERE study_id = $1 ORDER BY number, trial_id";
        let states = self.rows(sql, Some(study), |row| Ok((row.whole(0)?, row.text(1)?)))?;
        let places: BTreeMap<i64, usize> =
            states.iter().enumerate().map(|(place, (id, _))| (*id, place)).collect();
        let mut found: Vec<Found> = states
            .into_iter()
            .map(|(_, state)| Found { state: state_of(&state), ..Found::default() })
            .collect();

        let sql = "SELECT p.trial_id, p.param_name, p.param_value, p.distribution_json FROM @.trial_params p
                   JOIN @.trials t ON t.trial_id = p.trial_id WHERE t.study_id = $1";
        let parameters = self.rows(sql, Some(study), |row| {
            Ok((row.whole(0)?, row.text(1)?, row.real(2)?, row.text(3)?))
        })?;
        for (trial, name, number, text) in parameters {
            let distribution = Distribution::read(&text).map_err(|reason| {
                Defect::Content(format!("the distribution of parameter {name:?}: {reason}"))
            })?;
            let number = number
                .ok_or_else(|| Defect::Content(format!("parameter {name:?} has no value")))?;
            if let Some(place) = places.get(&trial) {
                found[*place].parameters.insert(name, (number, distribution));
            }
        }

        let sql = "SELECT v.trial_id, v.value, v.value_type FROM @.trial_values v
                   JOIN @.trials t ON t.trial_id = v.trial_id WHERE t.study_id = $1 ORDER BY v.objective";
        let values =
            self.rows(sql, Some(study), |row| Ok((row.whole(0)?, row.real(1)?, row.text(2)?)))?;
        for (trial, value, kind) in values {
            if let Some(place) = places.get(&trial) {
                let value = value.filter(|value| kind == "FINITE" && value.is_finite());
                found[*place].values.push(value);
            }
        }

        let sql = "SELECT a.trial_id, a.key, a.value_json FROM @.trial_system_attributes a
                   JOIN @.trials t ON t.trial_id = a.trial_id WHERE t.study_id = $1 AND a.key LIKE 'constraints%'";
        let attributes =
            self.rows(sql, Some(study), |row| Ok((row.whole(0)?, row.text(1)?, row.text(2)?)))?;
        for (trial, key, text) in attributes {
            if let (Some(place), Ok(value)) = (places.get(&trial), serde_json::from_str(&text)) {
                add_constraints(&mut found[*place].constraints, &key, &value);
            }
        }
        Ok(found)
    }
}

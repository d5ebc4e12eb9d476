//! Landmine detection: 29 fields. Each field is an agent that tunes an SVM on its own locations
//! (Xue et al. 2007; FTS 5.2).

use std::path::Path;

use fedbo_objective::{Direction, Objective, Outcome, Problem, TrialId};
use fedbo_space::{Point, Space};

use crate::problem::{coordinates, linear_space, log_space, svm_outcome};
use crate::svm::{Labelled, SplitSvm};
use crate::table::{self, DataError};

/// Number of fields in the data set.
pub const N_FIELDS: usize = 29;
pub(crate) const FILE: &str = "landmine/landmine.csv";
pub(crate) const N_FEATURES: usize = 9;
/// Range of the penalty C, mapped linearly from x1 in `[0,1]`.
pub(crate) const C_RANGE: [f64; 2] = [1e-4, 10.0];
/// Range of the kernel parameter gamma, mapped linearly from x2 in `[0,1]`.
pub(crate) const GAMMA_RANGE: [f64; 2] = [0.01, 10.0];

/// One field's locations, in the authors' 50/50 split and order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LandmineField {
    /// Training locations.
    pub train: Labelled,
    /// Validation locations.
    pub validation: Labelled,
}

/// Reads all fields from `landmine/landmine.csv` in the data folder. Field n is entry n.
///
/// # Errors
/// If the folder or the file is missing, or a line is malformed.
pub fn read_fields(folder: &Path) -> Result<Vec<LandmineField>, DataError> {
    let mut fields = vec![LandmineField::default(); N_FIELDS];
    table::read(folder, FILE, |row| {
        let field: usize = row.get("field")?;
        let field = fields.get_mut(field).ok_or_else(|| {
            row.malformed(format!("field = {field}, expected 0 to {}", N_FIELDS - 1))
        })?;
        let split: String = row.get("split")?;
        let half = match split.as_str() {
            "train" => &mut field.train,
            "validation" => &mut field.validation,
            other => {
                let message = format!("split = {other:?}, expected train or validation");
                return Err(row.malformed(message));
            }
        };
        let label: u8 = row.get("label")?;
        if label > 1 {
            return Err(row.malformed(format!("label = {label}, expected 0 or 1")));
        }
        let features = (1..=N_FEATURES)
            .map(|feature| row.number(&format!("f{feature}")))
            .collect::<Result<_, _>>()?;
        half.push(features, label == 1);
        Ok(())
    })?;
    Ok(fields)
}

/// One field's objective: validation AUC of an RBF-kernel SVM over C and gamma, to be maximized.
///
/// The AUC ranks rows by the decision value and is therefore free of noise. Deviation: the authors
/// rank by Platt probabilities. In some of their draws the slope has the wrong sign, and the
/// recorded value is then 1 − AUC.
#[derive(Clone, Debug)]
pub struct LandmineSvm {
    field: usize,
    space: Space,
    machine: SplitSvm,
}

impl LandmineSvm {
    /// Creates the objective of field number `field` from all fields of [`read_fields`].
    ///
    /// # Errors
    /// If there is no field with this number, or its rows lack one of the labels.
    pub fn new(fields: &[LandmineField], field: usize) -> Result<Self, crate::ProblemError> {
        let data = fields.get(field).ok_or_else(|| crate::ProblemError::Option {
            problem: "landmine-svm".into(),
            key: "field",
            found: field.to_string(),
            expected: format!("a number from 0 to {}", fields.len().saturating_sub(1)),
        })?;
        Ok(Self {
            field,
            space: linear_space([("C", C_RANGE), ("gamma", GAMMA_RANGE)]),
            machine: SplitSvm::new(&data.train, &data.validation)?,
        })
    }

    /// Returns the same objective over logarithmic axes of C and gamma.
    #[must_use]
    pub fn on_logarithmic_axes(self) -> Self {
        Self { space: log_space([("C", C_RANGE), ("gamma", GAMMA_RANGE)]), ..self }
    }

    /// Returns the validation AUC at penalty `c` and kernel parameter `gamma`.
    ///
    /// # Errors
    /// If a hyperparameter is not a finite number above 0.
    pub fn auc(&self, c: f64, gamma: f64) -> Result<f64, crate::SvmError> {
        self.machine.auc(c, gamma)
    }
}

impl Objective for LandmineSvm {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        svm_outcome(&self.space, point, |c, gamma| self.auc(c, gamma))
    }
}

impl Problem for LandmineSvm {
    fn name(&self) -> String {
        format!("landmine-svm field {}", self.field)
    }

    fn space(&self) -> &Space {
        &self.space
    }

    fn direction(&self) -> Direction {
        Direction::Maximize
    }

    fn noiseless(&self, point: &Point) -> Option<f64> {
        let at = coordinates(&self.space, point).ok()?;
        self.auc(at[0], at[1]).ok()
    }
}

//! The landmine SVMs on a small grid of hyperparameters: tables with known optima (landmine).

use std::path::Path;

use fedbo_objective::{Direction, Failure, Objective, Outcome, Problem, TrialId};
use fedbo_space::{Point, Space};

use crate::landmine::{C_RANGE, GAMMA_RANGE};
use crate::problem::linear_space;
use crate::table::{DataError, read};

pub(crate) const FILE: &str = "landmine/svm_auc_reference.csv";
/// Coordinates closer than this are the same grid point. Grid coordinates are at least 2⁻¹⁰ apart.
const TOLERANCE: f64 = 1e-6;

/// One field's validation AUC of an RBF-kernel SVM at 88 settings of C and gamma, computed with
/// scikit-learn, to be maximized.
///
/// The space is the same as that of [`crate::LandmineSvm`]. Evaluating a point off the grid fails.
#[derive(Clone, Debug)]
pub struct LandmineGrid {
    field: usize,
    space: Space,
    points: Vec<[f64; 2]>,
    aucs: Vec<f64>,
}

/// Reads the tables of all fields from `landmine/svm_auc_reference.csv` in the data folder. Field n
/// is entry n, and all fields have the same points in the same order.
///
/// # Errors
/// If the file is missing, a line is malformed, or the fields do not have the same points.
pub fn read_landmine_grids(folder: &Path) -> Result<Vec<LandmineGrid>, DataError> {
    let mut grids: Vec<LandmineGrid> = Vec::new();
    read(folder, FILE, |row| {
        let field: usize = row.get("field")?;
        if field == grids.len() {
            grids.push(LandmineGrid {
                field,
                space: linear_space([("C", C_RANGE), ("gamma", GAMMA_RANGE)]),
                points: Vec::new(),
                aucs: Vec::new(),
            });
        } else if field + 1 != grids.len() {
            let message = format!(
                "field = {field}, expected {} or the next one",
                grids.len().saturating_sub(1)
            );
            return Err(row.malformed(message));
        }
        let point = [row.number("x1")?, row.number("x2")?];
        let auc = row.number("auc")?;
        for (name, value) in [("x1", point[0]), ("x2", point[1]), ("auc", auc)] {
            if !(0.0..=1.0).contains(&value) {
                let message = format!("{name} = {value}, expected a number from 0 to 1");
                return Err(row.malformed(message));
            }
        }
        let place = grids[field].points.len();
        let expected = grids[0].points.get(place).copied();
        if field > 0 && expected != Some(point) {
            let message = format!("point {place} of field {field} differs from that of field 0");
            return Err(row.malformed(message));
        }
        grids[field].points.push(point);
        grids[field].aucs.push(auc);
        Ok(())
    })?;
    let n_points = grids[0].points.len();
    match grids.iter().find(|grid| grid.points.len() != n_points) {
        None => Ok(grids),
        Some(short) => Err(DataError::Malformed {
            path: folder.join(FILE),
            line: 1,
            message: format!(
                "field {} has {} points, expected the {n_points} of field 0",
                short.field,
                short.points.len()
            ),
        }),
    }
}

impl LandmineGrid {
    /// Returns the grid's coordinates in `[0,1]²`.
    pub fn points(&self) -> &[[f64; 2]] {
        &self.points
    }

    /// Returns the AUC at every point of the grid, in order.
    pub fn aucs(&self) -> &[f64] {
        &self.aucs
    }

    fn auc_at(&self, point: &Point) -> Result<f64, Failure> {
        let bad = |message: String| Failure::BadPoint { message };
        let unit = self.space.encode(point).map_err(|error| bad(error.to_string()))?;
        let is_here = |at: &[f64; 2]| {
            let mut pairs = at.iter().zip(&unit);
            pairs.all(|(a, b)| (a - b).abs() < TOLERANCE)
        };
        let index = self.points.iter().position(is_here);
        let index = index.ok_or_else(|| bad("the point is not on the grid".to_owned()))?;
        Ok(self.aucs[index])
    }
}

impl Objective for LandmineGrid {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        self.auc_at(point).map_or_else(Outcome::Failed, Outcome::Value)
    }
}

impl Problem for LandmineGrid {
    fn name(&self) -> String {
        format!("landmine-grid field {}", self.field)
    }

    fn space(&self) -> &Space {
        &self.space
    }

    fn direction(&self) -> Direction {
        Direction::Maximize
    }

    fn optimum(&self) -> Option<f64> {
        self.aucs.iter().copied().reduce(f64::max)
    }

    fn noiseless(&self, point: &Point) -> Option<f64> {
        self.auc_at(point).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "field,x1,x2,C,gamma,auc,n_support\n";

    fn grids(text: &str) -> Result<Vec<LandmineGrid>, DataError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("landmine")).unwrap();
        std::fs::write(folder.path().join(FILE), text).unwrap();
        read_landmine_grids(folder.path())
    }

    #[test]
    fn a_table_answers_at_its_points_and_fails_elsewhere() {
        let rows = "0,0,0.001953125,1,1,0.7,9\n0,1,0.5,1,1,0.6,9\n1,0,0.001953125,1,1,0.4,9\n1,1,0.5,1,1,0.8,9\n";
        let grids = grids(&format!("{HEADER}{rows}")).unwrap();
        assert_eq!(grids.len(), 2);
        assert_eq!(grids[1].optimum(), Some(0.8));
        let trial = TrialId { agent: 0, trial: 0 };
        for (grid, aucs) in grids.iter().zip([[0.7, 0.6], [0.4, 0.8]]) {
            assert_eq!(grid.aucs(), aucs);
            for (unit, auc) in grid.points().iter().zip(aucs) {
                let point = grid.space().decode(unit);
                assert_eq!(grid.evaluate(&point, trial), Outcome::Value(auc));
            }
        }
        let off = grids[0].space().decode(&[0.0, 0.003]);
        assert!(matches!(
            grids[0].evaluate(&off, trial),
            Outcome::Failed(Failure::BadPoint { .. })
        ));
    }

    #[test]
    fn a_broken_table_is_an_error_that_names_what_is_wrong() {
        let first = "0,0,0,1,1,0.7,9\n0,1,0.5,1,1,0.6,9\n";
        for (rest, expected) in [
            ("2,0,0,1,1,0.4,9\n", "field = 2, expected 0 or the next"),
            ("1,0,0.5,1,1,0.4,9\n", "point 0 of field 1 differs"),
            ("1,0,0,1,1,0.4,9\n", "field 1 has 1 points, expected the 2"),
            ("1,0,0,1,1,1.4,9\n", "auc = 1.4"),
            ("1,0,y,1,1,0.4,9\n", "x2 = \"y\""),
        ] {
            let message = grids(&format!("{HEADER}{first}{rest}")).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}

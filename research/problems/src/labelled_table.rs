//! Published tables with a label and many measurements. Shape, ranges and sums are known, and are
//! checked when a table is read.

use std::ops::Range;
use std::path::Path;

use crate::svm::Labelled;
use crate::table::{self, DataError};

/// Relative tolerance of a sum. The published values have at most five digits, so this allows only
/// for rounding.
const SUM_TOLERANCE: f64 = 1e-9;

/// A measurement: its column, and its smallest and largest published value.
pub(crate) type Measurement = (&'static str, f64, f64);

/// The description of a published table.
pub(crate) struct LabelledTable {
    /// Path within the data folder.
    pub(crate) file: &'static str,
    /// Column of the label, which is 0 or 1.
    pub(crate) label: &'static str,
    /// The other columns.
    pub(crate) measurements: &'static [Measurement],
    /// Number of rows.
    pub(crate) n_rows: usize,
    /// Number of rows with label 1.
    pub(crate) n_positive: usize,
    /// Sums over all rows of one measurement, or of several together. These sums distinguish the
    /// published version from others.
    pub(crate) sums: &'static [(Range<usize>, f64)],
}

impl LabelledTable {
    /// Reads the table from a data folder and checks it. Measurements are in the order of the
    /// description.
    ///
    /// # Errors
    /// If the file is missing, a line is malformed, or the table differs from the published one.
    pub(crate) fn read(&self, folder: &Path) -> Result<Labelled, DataError> {
        let mut rows = Labelled::default();
        table::read(folder, self.file, |row| {
            let label: u8 = row.get(self.label)?;
            if label > 1 {
                return Err(row.malformed(format!("{} = {label}, expected 0 or 1", self.label)));
            }
            let numbers = self.measurements.iter().map(|(name, ..)| row.number(name));
            let numbers = numbers.collect::<Result<Vec<f64>, DataError>>()?;
            self.check_row(&numbers).map_err(|message| row.malformed(message))?;
            rows.push(numbers, label == 1);
            Ok(())
        })?;
        let fault =
            |message| DataError::Malformed { path: folder.join(self.file), line: 1, message };
        self.check_all(&rows).map_err(fault)?;
        Ok(rows)
    }

    /// Checks that the measurements of a row are within their ranges.
    ///
    /// # Errors
    /// If a measurement is out of range. The message names the measurement.
    pub(crate) fn check_row(&self, numbers: &[f64]) -> Result<(), String> {
        for ((name, low, high), value) in self.measurements.iter().zip(numbers) {
            if !(*low..=*high).contains(value) {
                return Err(format!("{name} = {value}, expected a number from {low} to {high}"));
            }
        }
        Ok(())
    }

    /// Checks the number of rows, the number of positive labels, and the sums.
    ///
    /// # Errors
    /// If any of them differs from the published table.
    pub(crate) fn check_all(&self, rows: &Labelled) -> Result<(), String> {
        if rows.len() != self.n_rows {
            return Err(format!("{} rows, expected {}", rows.len(), self.n_rows));
        }
        if rows.n_positive() != self.n_positive {
            let (label, found, expected) = (self.label, rows.n_positive(), self.n_positive);
            return Err(format!("{found} rows with {label} = 1, expected {expected}"));
        }
        for (columns, expected) in self.sums {
            let cells = rows.rows.iter().flat_map(|row| &row[columns.clone()]);
            let sum: f64 = cells.sum();
            if (sum - expected).abs() > SUM_TOLERANCE * expected.abs() {
                let name = |at: usize| self.measurements[at].0;
                let (first, last) = (name(columns.start), name(columns.end - 1));
                let names = match columns.len() {
                    1 => first.to_owned(),
                    _ => format!("{first} to {last}"),
                };
                return Err(format!(
                    "the values of {names} add up to {sum}, expected {expected}: this is another version of the data"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: LabelledTable = LabelledTable {
        file: "small.csv",
        label: "ill",
        measurements: &[("weight", 40.0, 90.0), ("height", 1.5, 2.0), ("age", 20.0, 30.0)],
        n_rows: 3,
        n_positive: 1,
        sums: &[(0..1, 195.5), (1..3, 80.0)],
    };

    fn read(text: &str) -> Result<Labelled, (u64, String)> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(SMALL.file), text).unwrap();
        SMALL.read(folder.path()).map_err(|error| match error {
            DataError::Malformed { line, message, .. } => (line, message),
            other => panic!("{other}"),
        })
    }

    #[test]
    fn a_table_is_read_by_the_names_of_its_columns() {
        let text = "age,ill,note,height,weight\n20,0,a,1.5,60\n25,1,b,1.75,75.5\n30,0,c,1.75,60\n";
        let rows = read(text).unwrap();
        assert_eq!(rows.positive, [false, true, false]);
        assert_eq!(rows.rows[1], [75.5, 1.75, 25.0]);
    }

    #[test]
    fn another_table_is_refused_with_the_reason() {
        let good = "weight,height,age,ill\n60,1.5,20,0\n75.5,1.75,25,1\n60,1.75,30,0\n";
        read(good).unwrap();
        for (old, new, line, expected) in [
            ("75.5", "95.5", 3, "weight = 95.5, expected a number from 40 to 90"),
            ("75.5", "NaN", 3, "weight = NaN, expected a finite number"),
            ("75.5", "", 3, "weight = \"\", expected a number"),
            (",1\n", ",2\n", 3, "ill = 2, expected 0 or 1"),
            ("age", "years", 2, "there is no column age"),
            ("60,1.75,30,0\n", "", 1, "2 rows, expected 3"),
            ("20,0", "20,1", 1, "2 rows with ill = 1, expected 1"),
            ("75.5", "76.5", 1, "the values of weight add up to 196.5, expected 195.5"),
            (",30,", ",29,", 1, "the values of height to age add up to 79, expected 80"),
        ] {
            let (at, message) = read(&good.replacen(old, new, 1)).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
            assert_eq!(at, line, "{message}");
        }
    }
}

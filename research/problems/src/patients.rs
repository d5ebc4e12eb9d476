//! Diabetes among 768 Pima women of at least 21 years, with eight measurements (Smith et al. 1988).

use std::path::Path;

use crate::labelled_table::LabelledTable;
use crate::svm::Labelled;
use crate::table::DataError;

/// The published table: ranges and sums of the data set `PimaIndiansDiabetes` in the R package
/// mlbench 2.1. Missing measurements of glucose, pressure, triceps, insulin or mass are recorded as
/// 0.
pub(crate) const PATIENTS: LabelledTable = LabelledTable {
    file: "pima/pima.csv",
    label: "diabetes",
    measurements: &[
        ("pregnant", 0.0, 17.0),
        ("glucose", 0.0, 199.0),
        ("pressure", 0.0, 122.0),
        ("triceps", 0.0, 99.0),
        ("insulin", 0.0, 846.0),
        ("mass", 0.0, 67.1),
        ("pedigree", 0.078, 2.42),
        ("age", 21.0, 81.0),
    ],
    n_rows: 768,
    n_positive: 268,
    sums: &[
        (0..1, 2953.0),
        (1..2, 92_847.0),
        (2..3, 53_073.0),
        (3..4, 15_772.0),
        (4..5, 61_286.0),
        (5..6, 24_570.3),
        (6..7, 362.401),
        (7..8, 25_529.0),
    ],
};

/// Reads the patients from `pima/pima.csv` in the data folder, in the order of the published table.
///
/// Rows have eight measurements (times pregnant, plasma glucose, blood pressure, triceps skin fold,
/// insulin, body mass index, diabetes pedigree, age), and diabetes is the label.
///
/// # Errors
/// If the file is missing, a line is malformed, or the table differs from the published one.
pub fn read_patients(folder: &Path) -> Result<Labelled, DataError> {
    PATIENTS.read(folder)
}

//! 4601 e-mails, labelled as spam or not, with the frequencies of 54 words and characters and three
//! measures of runs of capitals (UCI Machine Learning Repository, Spambase).

use std::path::Path;

use crate::labelled_table::LabelledTable;
use crate::svm::Labelled;
use crate::table::DataError;

/// The published table: ranges and sums of the data set `spam` in the R package kernlab 0.9.
/// Frequencies are percentages of the words or characters of an e-mail.
pub(crate) const EMAILS: LabelledTable = LabelledTable {
    file: "spam/spam.csv",
    label: "spam",
    measurements: &[
        ("make", 0.0, 4.54),
        ("address", 0.0, 14.28),
        ("all", 0.0, 5.1),
        ("num3d", 0.0, 42.81),
        ("our", 0.0, 10.0),
        ("over", 0.0, 5.88),
        ("remove", 0.0, 7.27),
        ("internet", 0.0, 11.11),
        ("order", 0.0, 5.26),
        ("mail", 0.0, 18.18),
        ("receive", 0.0, 2.61),
        ("will", 0.0, 9.67),
        ("people", 0.0, 5.55),
        ("report", 0.0, 10.0),
        ("addresses", 0.0, 4.41),
        ("free", 0.0, 20.0),
        ("business", 0.0, 7.14),
        ("email", 0.0, 9.09),
        ("you", 0.0, 18.75),
        ("credit", 0.0, 18.18),
        ("your", 0.0, 11.11),
        ("font", 0.0, 17.1),
        ("num000", 0.0, 5.45),
        ("money", 0.0, 12.5),
        ("hp", 0.0, 20.83),
        ("hpl", 0.0, 16.66),
        ("george", 0.0, 33.33),
        ("num650", 0.0, 9.09),
        ("lab", 0.0, 14.28),
        ("labs", 0.0, 5.88),
        ("telnet", 0.0, 12.5),
        ("num857", 0.0, 4.76),
        ("data", 0.0, 18.18),
        ("num415", 0.0, 4.76),
        ("num85", 0.0, 20.0),
        ("technology", 0.0, 7.69),
        ("num1999", 0.0, 6.89),
        ("parts", 0.0, 8.33),
        ("pm", 0.0, 11.11),
        ("direct", 0.0, 4.76),
        ("cs", 0.0, 7.14),
        ("meeting", 0.0, 14.28),
        ("original", 0.0, 3.57),
        ("project", 0.0, 20.0),
        ("re", 0.0, 21.42),
        ("edu", 0.0, 22.05),
        ("table", 0.0, 2.17),
        ("conference", 0.0, 10.0),
        ("charSemicolon", 0.0, 4.385),
        ("charRoundbracket", 0.0, 9.752),
        ("charSquarebracket", 0.0, 4.081),
        ("charExclamation", 0.0, 32.478),
        ("charDollar", 0.0, 6.003),
        ("charHash", 0.0, 19.829),
        ("capitalAve", 1.0, 1102.5),
        ("capitalLong", 1.0, 9989.0),
        ("capitalTotal", 1.0, 15_841.0),
    ],
    n_rows: 4601,
    n_positive: 1813,
    sums: &[(0..54, 45735.377), (54..55, 23_886.161), (55..56, 240_047.0), (56..57, 1_303_414.0)],
};

/// Reads the e-mails from `spam/spam.csv` in the data folder, in the order of the published table,
/// which lists all spam first.
///
/// # Errors
/// If the file is missing, a line is malformed, or the table differs from the published one.
pub fn read_emails(folder: &Path) -> Result<Labelled, DataError> {
    EMAILS.read(folder)
}

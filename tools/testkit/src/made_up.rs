//! Synthetic tables in the shape of published ones: the same numbers of rows and labels, the same
//! sums, and values within the published ranges. They replace data that cannot be redistributed.

use std::fmt::Write as _;

/// A column: the sum of its values, and the maximum distance of a value from the mean, both in
/// units of the last digit.
struct Column<'a> {
    name: &'a str,
    sum: i64,
    spread: i64,
    /// Digits after the decimal point.
    digits: usize,
}

/// Returns a table like `pima/pima.csv`: 768 patients, of whom 268 have diabetes.
pub fn patients_csv() -> String {
    let column = |name, sum, spread, digits| Column { name, sum, spread, digits };
    let columns = [
        column("pregnant", 2953, 3, 0),
        column("glucose", 92_847, 60, 0),
        column("pressure", 53_073, 40, 0),
        column("triceps", 15_772, 20, 0),
        column("insulin", 61_286, 79, 0),
        column("mass", 245_703, 200, 1),
        column("pedigree", 362_401, 300, 3),
        column("age", 25_529, 12, 0),
    ];
    table("diabetes", &columns, 768, 268)
}

/// Returns a table like `spam/spam.csv`: 4601 e-mails, of which 1813 are spam. The caller passes
/// the 57 column names in the published order.
pub fn emails_csv(names: &[String]) -> String {
    assert_eq!(names.len(), 57, "columns of an e-mail");
    let frequencies = 45_735_377;
    let column = |at| match at {
        0 => (frequencies - 53 * (frequencies / 54), 180, 3),
        54 => (23_886_161, 4000, 3),
        55 => (240_047, 51, 0),
        56 => (1_303_414, 282, 0),
        _ => (frequencies / 54, 180, 3),
    };
    let columns = names.iter().enumerate().map(|(at, name)| {
        let (sum, spread, digits) = column(at);
        Column { name: name.as_str(), sum, spread, digits }
    });
    let columns: Vec<Column<'_>> = columns.collect();
    table("spam", &columns, 4601, 1813)
}

/// Creates a table in which positive rows come first. Adjacent rows deviate from the mean by
/// opposite amounts, which preserves the sum.
fn table(label: &str, columns: &[Column<'_>], n_rows: usize, n_positive: usize) -> String {
    let mut text = label.to_owned();
    for column in columns {
        text.push(',');
        text.push_str(column.name);
    }
    text.push('\n');
    let n = i64::try_from(n_rows).expect("a few thousand rows");
    for (row, at) in (0..n_rows).zip(0_i64..) {
        text.push_str(if row < n_positive { "1" } else { "0" });
        for (column, number) in columns.iter().zip(1_i64..) {
            let base = column.sum / n + i64::from(at < column.sum % n);
            let is_paired = at < n - n % 2;
            let off = if is_paired { (at / 2 * 31 * number) % (column.spread + 1) } else { 0 };
            let value = base + if at % 2 == 0 { off } else { -off };
            let unit = 10_i64.pow(u32::try_from(column.digits).expect("a few digits"));
            let _ = match column.digits {
                0 => write!(text, ",{value}.0"),
                digits => {
                    let (whole, rest) = (value / unit, value % unit);
                    let rest = format!("{rest:0digits$}");
                    let rest = rest.trim_end_matches('0');
                    write!(text, ",{whole}.{}", if rest.is_empty() { "0" } else { rest })
                }
            };
        }
        text.push('\n');
    }
    text
}

//! Formatting of numbers as in the programs that wrote the published tables.

/// Formats a number with the fewest digits that parse as the same number, like Python's `repr`:
/// `0.5`, `12.0`, `8.5e-05`.
pub(super) fn shortest(value: f64) -> String {
    written(&format!("{value:e}"), 16, true)
}

/// Formats a number with ten significant digits, like C's `%.10g`: `0.04401227175`, `12`,
/// `8.5e-05`.
pub(super) fn ten_digits(value: f64) -> String {
    written(&format!("{value:.9e}"), 10, false)
}

/// Rewrites `d.ddde±x`. The result has an exponent of at least two digits if x is below −4 or at
/// least `first_large`, and no exponent otherwise. With `keeps_point`, whole numbers end in `.0`.
fn written(scientific: &str, first_large: i32, keeps_point: bool) -> String {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        rest => rest,
    };
    if exponent < -4 || exponent >= first_large {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let minus = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}{point}{rest}e{minus}{:02}", exponent.unsigned_abs());
    }
    let places = exponent.unsigned_abs() as usize;
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(places - 1));
    }
    let whole = places + 1;
    if digits.len() > whole {
        let (before, after) = digits.split_at(whole);
        return format!("{sign}{before}.{after}");
    }
    let zeros = "0".repeat(whole - digits.len());
    format!("{sign}{digits}{zeros}{}", if keeps_point { ".0" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected strings are those of Python 3: `repr(x)` and `"%.10g" % x`.
    #[test]
    fn numbers_are_written_as_python_writes_them() {
        for (value, repr, general) in [
            (0.0, "0.0", "0"),
            (-0.0, "-0.0", "-0"),
            (1.0, "1.0", "1"),
            (-12.0, "-12.0", "-12"),
            (0.1 + 0.2, "0.30000000000000004", "0.3"),
            (0.0001, "0.0001", "0.0001"),
            (-7.815497651608952e-05, "-7.815497651608952e-05", "-7.815497652e-05"),
            (2.0 / 3.0 * 1e9, "666666666.6666666", "666666666.7"),
            (1e15, "1000000000000000.0", "1e+15"),
            (1e16, "1e+16", "1e+16"),
            (1.5e300, "1.5e+300", "1.5e+300"),
            (9_999_999_999.6, "9999999999.6", "1e+10"),
            (191.3453897999055, "191.3453897999055", "191.3453898"),
            (5e-324, "5e-324", "4.940656458e-324"),
        ] {
            assert_eq!(shortest(value), repr);
            assert_eq!(ten_digits(value), general);
        }
    }
}

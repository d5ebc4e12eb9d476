//! The separator of a table's columns, and the decimal mark of its numbers.

/// The separator of a table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    Comma,
    /// Used by spreadsheets of countries with a decimal comma.
    Semicolon,
    Tab,
}

impl Separator {
    /// Returns the separator with which the header has the columns `names`. Defaults to commas.
    pub(crate) fn of_table(bytes: &[u8], names: &[&str]) -> Result<Self, csv::Error> {
        let separators = [Self::Comma, Self::Semicolon, Self::Tab];
        for separator in separators {
            let mut reader = separator.reader(bytes);
            let header = reader.headers()?;
            if names.iter().all(|name| header.iter().any(|each| each == *name)) {
                return Ok(separator);
            }
        }
        Ok(Self::Comma)
    }

    /// Returns a reader of a table with this separator.
    pub(crate) fn reader(self, bytes: &[u8]) -> csv::Reader<&[u8]> {
        let mark = match self {
            Self::Comma => b',',
            Self::Semicolon => b';',
            Self::Tab => b'\t',
        };
        csv::ReaderBuilder::new().trim(csv::Trim::All).delimiter(mark).from_reader(bytes)
    }

    /// Describes the cells of a column of numbers.
    pub(crate) fn expected_number(self) -> &'static str {
        match self {
            Self::Comma | Self::Semicolon => "a number, or nothing for a trial without a value",
            Self::Tab => {
                "a number with a decimal point (2.5), or nothing for a trial without a value; decimal commas are read in tables with \
                 semicolons"
            }
        }
    }
}

/// The decimal marks found in a table so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecimalMarks {
    has_point: bool,
    has_comma: bool,
}

impl DecimalMarks {
    /// Adds the mark of a cell, and returns false if the table now has both marks. A point can then
    /// also separate thousands.
    pub(crate) fn agree_with(&mut self, cell: &str) -> bool {
        self.has_point |= cell.contains('.') && cell.parse::<f64>().is_ok();
        self.has_comma |=
            with_decimal_point(cell).is_some_and(|number| number.parse::<f64>().is_ok());
        !(self.has_point && self.has_comma)
    }
}

/// Replaces a single decimal comma by a point. Returns `None` without such a comma.
pub(crate) fn with_decimal_point(number: &str) -> Option<String> {
    match (number.matches(',').count(), number.contains('.')) {
        (1, false) => Some(number.replace(',', ".")),
        _ => None,
    }
}

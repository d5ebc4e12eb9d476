//! Tables for the terminal, which omit columns that do not fit.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

use crate::text::shown;

/// A column: its header, its cells, and its priority when columns are omitted.
pub struct Column {
    /// The header.
    pub head: String,
    /// The cells, from top to bottom.
    pub cells: Vec<String>,
    /// True to right-align the cells.
    pub is_number: bool,
    /// Columns with higher values are omitted first; of columns with equal values, the last one.
    /// Columns with 0 are always shown.
    pub spare: u32,
}

impl Column {
    /// Creates a right-aligned column of numbers.
    #[must_use]
    pub fn numbers(head: &str, cells: Vec<String>, spare: u32) -> Self {
        Self { head: head.to_owned(), cells, is_number: true, spare }
    }

    /// Creates a left-aligned column of words.
    #[must_use]
    pub fn words(head: &str, cells: Vec<String>, spare: u32) -> Self {
        Self { is_number: false, ..Self::numbers(head, cells, spare) }
    }
}

/// Draws a table with a line below its header.
pub fn draw(columns: &[Column]) -> String {
    let mut table = Table::new();
    table.set_header(columns.iter().map(|column| shown(&column.head)));
    let n_rows = columns.iter().map(|column| column.cells.len()).max();
    for row in 0..n_rows.unwrap_or(0) {
        let cell = |column: &Column| {
            let cell = column.cells.get(row);
            cell.map_or_else(String::new, |cell| shown(cell).into_owned())
        };
        table.add_row(columns.iter().map(cell));
    }
    let line = LineStyle::none().fill('─').junction('─');
    table.load_style(TableStyle::new().header_separator(line));
    for (drawn, column) in table.column_iter_mut().zip(columns) {
        drawn.set_padding((0, 1));
        if column.is_number {
            drawn.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Draws a table within `width` terminal columns, if given. Also returns the headers of the omitted
/// columns.
pub fn fit(mut columns: Vec<Column>, width: Option<u16>) -> (String, Vec<String>) {
    let Some(width) = width else {
        return (draw(&columns), Vec::new());
    };
    let mut left_out = Vec::new();
    loop {
        let text = draw(&columns);
        // All lines of a table have about the same length.
        let longest = text.lines().map(|line| line.chars().count()).max();
        let fits = longest.unwrap_or(0) <= usize::from(width);
        let mut next = None;
        for (index, column) in columns.iter().enumerate() {
            if column.spare > 0 && next.is_none_or(|(_, spare)| column.spare >= spare) {
                next = Some((index, column.spare));
            }
        }
        match next {
            Some((index, _)) if !fits => left_out.push(columns.remove(index).head),
            _ => {
                left_out.reverse();
                return (text, left_out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_left_out_and_named() {
        let cells = || vec!["12345678".to_owned(); 2];
        let columns = || {
            vec![
                Column::numbers("trial", vec!["0".to_owned(), "10".to_owned()], 0),
                Column::words("source", cells(), 2),
                Column::numbers("x", cells(), 1),
                Column::numbers("y", cells(), 1),
            ]
        };
        let (whole, left_out) = fit(columns(), None);
        assert!(left_out.is_empty());
        assert_eq!(whole.lines().count(), 4);
        assert!(whole.lines().nth(2).is_some_and(|line| line.starts_with("    0  1234")));
        let (_, left_out) = fit(columns(), Some(30));
        assert_eq!(left_out, ["source"]);
        let (text, left_out) = fit(columns(), Some(20));
        assert_eq!(left_out, ["y", "source"]);
        assert!(text.lines().all(|line| line.chars().count() <= 20), "{text}");
        let (_, left_out) = fit(columns(), Some(3));
        assert_eq!(left_out, ["x", "y", "source"]);
    }
}

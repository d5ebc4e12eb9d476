//! Markdown tables for notes of experiments.

use std::fmt::Display;

/// A Markdown table after its title and an empty line. An empty cell is a single space.
pub(super) struct MarkdownTable(String);

impl MarkdownTable {
    /// Creates a table without rows, with the given headings of the first and the other columns.
    pub(super) fn new<T: Display>(
        title: impl Display,
        first: &str,
        others: impl IntoIterator<Item = T>,
    ) -> Self {
        let others: Vec<T> = others.into_iter().collect();
        let mut table = Self(format!("{title}\n"));
        table.row(first, &others);
        table.0 += "\n|---|";
        table.0 += &"---|".repeat(others.len());
        table
    }

    /// Appends a row.
    pub(super) fn row<T: Display>(
        &mut self,
        label: impl Display,
        cells: impl IntoIterator<Item = T>,
    ) {
        self.0 += "\n|";
        let cells = cells.into_iter().map(|cell| cell.to_string());
        for cell in std::iter::once(label.to_string()).chain(cells) {
            self.0 += &if cell.is_empty() { " |".to_owned() } else { format!(" {cell} |") };
        }
    }

    /// Returns the complete table, without a trailing line break.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_head_a_rule_and_its_rows() {
        let mut table = MarkdownTable::new("Title", "", ["a", "b"]);
        table.row("x", [1, 2]);
        table.row("y", ["–", ""]);
        let text = "Title\n\n| | a | b |\n|---|---|---|\n| x | 1 | 2 |\n| y | – | |";
        assert_eq!(table.into_text(), text);
    }
}

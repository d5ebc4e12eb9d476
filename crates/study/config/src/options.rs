//! Options of a registry entry, read from a table that also contains other keys.

use fedbo_strategies::{ReadOptions, Registered, in_words, keys_of};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::toml_file::{FileError, TomlFile};

/// A table with the name and the options of a registry entry: `[strategy]`, `[early_stopping]`.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions<'a> {
    /// The file.
    pub file: &'a TomlFile,
    /// The table.
    pub table: &'static str,
    /// The keys that are not options. The first one selects the entry.
    pub keys: &'static [&'static str],
}

impl TableOptions<'_> {
    /// Checks that every key is either in `self.keys` or an option of one of the entries.
    ///
    /// The error lists the keys of `chosen`, or the keys of all entries if `chosen` is `None`.
    ///
    /// # Errors
    /// Returns an error for the first unknown key.
    pub fn check_keys<E: Registered>(
        &self,
        entries: &[E],
        chosen: Option<E>,
    ) -> Result<(), FileError> {
        let known = |entries: &[E]| [self.keys, &keys_of(entries)].concat();
        let all = known(entries);
        let mut given = self.file.keys_in_order(&[self.table]).into_iter();
        let Some(unknown) = given.find(|key| !all.contains(&key.as_str())) else {
            return Ok(());
        };
        let known = chosen.map_or(all, |chosen| known(&[chosen]));
        Err(self.file.unknown_key(&[self.table, &unknown], &known))
    }

    /// Reads the options of the chosen entry.
    ///
    /// # Errors
    /// Fails if an option belongs to a different entry or is out of range.
    pub fn read<E: Registered>(&self, entries: &[E], chosen: E) -> Result<E, FileError> {
        let (table, file) = (self.table, self.file);
        let given = file.keys_in_order(&[table]);
        let known = |key: &str| self.keys.contains(&key) || chosen.keys().contains(&key);
        if let Some(key) = given.iter().find(|key| !known(key)) {
            let owners = entries.iter().filter(|e| e.keys().contains(&key.as_str()));
            let owners: Vec<&str> = owners.map(Registered::name).collect();
            if owners.is_empty() {
                let known = [self.keys, chosen.keys()].concat();
                return Err(file.unknown_key(&[table, key], &known));
            }
            let instead = match owners.len() {
                0..=2 => in_words(owners.iter().copied(), "or"),
                _ => "one of them".to_owned(),
            };
            let message = format!(
                "{table}.{key} is for {}; remove it, or choose {instead} instead of {:?}",
                in_words(owners.iter().copied(), "and"),
                chosen.name()
            );
            return Err(file.error(&[table, key], message));
        }
        chosen.read(*self)
    }
}

impl ReadOptions for TableOptions<'_> {
    type Error = FileError;

    fn read<T: Serialize + DeserializeOwned>(self, default: T) -> Result<T, FileError> {
        self.file.parse_table(self.table, self.keys, &default)
    }
}

//! The format of a file: its application id, and its table layout by version.

use std::collections::BTreeMap;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::Failure;

/// A kind of SQLite file: its application id, its layout, and its name in messages.
#[derive(Debug)]
pub struct Format {
    /// The SQLite `application_id` of files of this format.
    pub application_id: i32,
    /// The steps that create the layout. Step `i`, counted from 0, upgrades version `i` to version
    /// `i + 1`. Version 0 is an empty file. A released step never changes.
    pub steps: &'static [&'static str],
    /// The name of this kind of file, for example `storage of studies`.
    pub what: &'static str,
    /// A clause for messages about an empty file, for example `no study was ever stored in it`.
    pub never: &'static str,
    /// The command that lists a file's problems, if there is one.
    pub verify: Option<&'static str>,
}

impl Format {
    /// Returns advice for the user of a damaged file.
    pub(crate) fn first_aid(&self) -> String {
        match self.verify {
            Some(command) => format!("`{command}` lists the problems"),
            None => "replace it with a copy".to_owned(),
        }
    }
}

/// The kind of content in a SQLite file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The file is empty.
    Empty,
    /// Tables of this format, with their version.
    Ours(i64),
    /// Tables of another program.
    Foreign,
}

impl Format {
    /// Returns the version that this program reads and writes.
    pub fn version(&self) -> i64 {
        version(self.steps)
    }

    /// Determines the content of a file without writing to it.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn content(&self, connection: &Connection) -> Result<Content, Failure> {
        let tx = connection.unchecked_transaction()?;
        let (id, version) = (pragma(&tx, "application_id")?, pragma(&tx, "user_version")?);
        let tables: i64 =
            tx.query_one("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        tx.commit()?;
        Ok(match (id, version, tables) {
            (0, 0, 0) => Content::Empty,
            (id, 1.., _) if id == i64::from(self.application_id) => Content::Ours(version),
            _ => Content::Foreign,
        })
    }

    /// Checks that the file has this format and this program's version.
    ///
    /// # Errors
    /// [`Failure::NotOurs`] or [`Failure::Version`].
    pub fn check_content(&self, content: Content) -> Result<(), Failure> {
        match content {
            Content::Ours(found) => self.of_our_version(found),
            other => Err(Failure::NotOurs(other)),
        }
    }

    /// Checks that the file still has this program's version. This is cheap enough for every
    /// transaction.
    ///
    /// # Errors
    /// [`Failure::Version`], or an error if the file cannot be read.
    pub fn check_version(&self, connection: &Connection) -> Result<(), Failure> {
        self.of_our_version(pragma(connection, "user_version")?)
    }

    fn of_our_version(&self, found: i64) -> Result<(), Failure> {
        let expected = self.version();
        if found == expected { Ok(()) } else { Err(Failure::Version { found, expected }) }
    }

    /// Creates the layout in an empty file, in one transaction. Does nothing if another process has
    /// created it in the meantime.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create_layout(&self, connection: &Connection) -> Result<(), Failure> {
        let tx = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        let is_empty = pragma(&tx, "user_version")? == 0 && pragma(&tx, "application_id")? == 0;
        if is_empty {
            tx.pragma_update(None, "application_id", self.application_id)?;
            for (version, step) in (1_i64..).zip(self.steps) {
                tx.execute_batch(step)?;
                tx.pragma_update(None, "user_version", version)?;
            }
        }
        Ok(tx.commit()?)
    }

    /// Lists the differences between the layout and the file's tables, indexes and triggers.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn layout_problems(&self, connection: &Connection) -> Result<Vec<String>, Failure> {
        self.layout_problems_beside(connection, &[])
    }

    /// Like [`Format::layout_problems`], but allows optional objects. Each of `additions` is a
    /// statement that creates such an object. Programs create these objects on first use, without
    /// increasing the layout's version.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn layout_problems_beside(
        &self,
        connection: &Connection,
        additions: &[&str],
    ) -> Result<Vec<String>, Failure> {
        let model = Connection::open_in_memory()?;
        self.create_layout(&model)?;
        let (expected, mut found) = (objects(&model)?, objects(connection)?);
        for addition in additions {
            model.execute_batch(addition)?;
        }
        let mut added = objects(&model)?;
        added.retain(|name, _| !expected.contains_key(name));
        let mut problems = Vec::new();
        for (name, sql) in expected {
            match found.remove(&name) {
                None => problems.push(format!("{name} is missing")),
                Some(other) if !are_equal_words(&other, &sql) => {
                    problems.push(format!("{name} differs from the layout of this version"));
                }
                Some(_) => {}
            }
        }
        for (name, sql) in found {
            match added.get(&name) {
                None => problems.push(format!("{name} does not belong here")),
                Some(other) if !are_equal_words(other, &sql) => {
                    problems.push(format!("{name} differs from the addition of this program"));
                }
                Some(_) => {}
            }
        }
        Ok(problems)
    }
}

fn version(steps: &[&str]) -> i64 {
    steps.len() as i64
}

/// Lists the problems found by SQLite's own checks of pages, indexes, constraints and references.
///
/// # Errors
/// If the file cannot be read completely.
pub fn integrity_problems(connection: &Connection) -> Result<Vec<String>, Failure> {
    let mut problems = Vec::new();
    let mut statement = connection.prepare("PRAGMA integrity_check(1000)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            problems.push(format!("SQLite: {line}"));
        }
    }
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
        problems.push(format!("a row of {table} refers to a missing row of {parent}"));
    }
    Ok(problems)
}

/// Returns the value of a numeric pragma.
///
/// # Errors
/// If the file cannot be read.
pub fn pragma(connection: &Connection, name: &str) -> Result<i64, Failure> {
    let mut statement = connection.prepare_cached(&format!("PRAGMA {name}"))?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// Returns all tables, indexes and triggers with the SQL that created them.
fn objects(connection: &Connection) -> Result<BTreeMap<String, String>, Failure> {
    let mut statement = connection.prepare(
        "SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%'",
    )?;
    let objects = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(objects.collect::<Result<_, _>>()?)
}

/// Compares two strings, ignoring differences in white space.
fn are_equal_words(one: &str, other: &str) -> bool {
    one == other || one.split_whitespace().eq(other.split_whitespace())
}

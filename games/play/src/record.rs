//! The record of a game: its definition, the submitted moves, and the rounds played. The record is
//! stored in a file or in memory.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fedbo_database::{Failure, File, FileFault, Mode};
use fedbo_space::Point;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use crate::schema::FORMAT;
use crate::{Definition, PlayError, RoundRecord, SubstituteAction};

/// An open record of a game. Data that is appended to a file is on disk when the call returns.
pub struct GameRecord {
    /// `None` for a record in memory.
    file: Option<File>,
    path: PathBuf,
    connection: Mutex<Connection>,
    definition: Definition,
}

impl fmt::Debug for GameRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GameRecord {{ {} }}", self.path.display())
    }
}

/// The outcome of submitting a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    /// The move is new, and is now durable.
    New,
    /// The same move was submitted before.
    Already,
}

/// A move in the current round.
#[derive(Clone, Debug, PartialEq)]
pub struct ToldMove {
    /// The action.
    pub point: Point,
    /// The kind of substitute and the reason for it, if the action is not the player's own.
    pub substitute: Option<SubstituteAction>,
}

impl GameRecord {
    /// Creates a record in memory, which is lost when the process ends.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub fn in_memory(definition: Definition) -> Result<Self, PlayError> {
        let path = PathBuf::from("memory:");
        let refused = |failure: Failure| in_words(&path, failure);
        let connection = Connection::open_in_memory().map_err(|error| refused(error.into()))?;
        FORMAT.create_layout(&connection).map_err(refused)?;
        Ok(Self { file: None, connection: Mutex::new(connection), definition, path })
    }

    /// Opens the record in a file. Creates the record if it does not exist. An existing record must
    /// belong to the given game.
    ///
    /// # Errors
    /// If the file is unusable or contains a different game.
    pub fn open(path: &Path, definition: Definition) -> Result<Self, PlayError> {
        let (file, connection) = open(path)?;
        let mut record = Self {
            file: Some(file),
            path: path.to_owned(),
            connection: Mutex::new(connection),
            definition,
        };
        let text = serde_json::to_string(&record.definition)
            .unwrap_or_else(|error| unreachable!("plain data becomes JSON: {error}"));
        let stored = record.write(|tx| {
            let sql = "INSERT OR IGNORE INTO game (id, definition) VALUES (1, ?)";
            tx.execute(sql, [&text])?;
            let stored = read_definition(tx)?;
            stored.ok_or_else(|| Failure::Contradiction("it contains no game".to_owned()))
        })?;
        if let Some(changes) = record.definition.difference(&stored) {
            return Err(PlayError::Differs { path: record.path, changes: Box::new(changes) });
        }
        record.definition = stored;
        Ok(record)
    }

    /// Opens the record in a file for reading. Nothing can be appended, and the file may be
    /// read-only.
    ///
    /// # Errors
    /// If there is no record.
    pub fn load(path: &Path) -> Result<Self, PlayError> {
        let located = File::locate(path, Mode::Existing, &FORMAT);
        let (file, _) = located.map_err(|fault| of_fault(path, fault))?;
        let connection = file.open_for_verification().map_err(|failure| in_words(path, failure))?;
        let definition = connection
            .unchecked_transaction()
            .map_err(Failure::from)
            .and_then(|tx| read_definition(&tx))
            .map_err(|failure| in_words(path, failure))?;
        // A missing row means that a process was killed between creating the tables and writing the
        // row.
        let definition = definition.ok_or_else(|| PlayError::Absent { path: path.to_owned() })?;
        Ok(Self {
            file: Some(file),
            path: path.to_owned(),
            connection: Mutex::new(connection),
            definition,
        })
    }

    /// Returns the game's definition, as stored in the record.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Returns the path of the record's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the record is lost when the process ends.
    pub fn is_in_memory(&self) -> bool {
        self.file.is_none()
    }

    /// Returns the rounds played so far, in order.
    ///
    /// # Errors
    /// If reading fails.
    pub fn rounds(&self) -> Result<Vec<RoundRecord>, PlayError> {
        self.read(|tx| {
            let mut statement = tx.prepare_cached("SELECT played FROM rounds ORDER BY round")?;
            let texts = statement.query_map([], |row| row.get::<_, String>(0))?;
            let mut rounds = Vec::new();
            for text in texts {
                rounds.push(from_json(&text?, "a round")?);
            }
            Ok(rounds)
        })
    }

    /// Returns the number of rounds played so far.
    ///
    /// # Errors
    /// If reading fails.
    pub fn n_rounds(&self) -> Result<usize, PlayError> {
        self.read(n_rounds)
    }

    /// Appends the round with number `round` (from 0).
    ///
    /// # Errors
    /// [`PlayError::Overtaken`] if the round was already played; another error if it cannot be
    /// stored.
    pub fn append(&self, round: usize, played: &RoundRecord) -> Result<(), PlayError> {
        let text = serde_json::to_string(played)
            .unwrap_or_else(|error| unreachable!("plain data becomes JSON: {error}"));
        let is_next = self.write(|tx| {
            if n_rounds(tx)? != round {
                return Ok(false);
            }
            let sql = "INSERT INTO rounds (round, played) VALUES (?, ?)";
            tx.execute(sql, params![as_i64(round), text])?;
            Ok(true)
        })?;
        match is_next {
            true => Ok(()),
            false => Err(PlayError::Overtaken { path: self.path.clone(), round: round + 1 }),
        }
    }

    /// Returns a player's submitted or substituted move in a round (from 0), or `None` if there is
    /// none.
    ///
    /// # Errors
    /// If reading fails.
    pub fn told(&self, round: usize, player: usize) -> Result<Option<ToldMove>, PlayError> {
        self.read(|tx| told(tx, round, player))
    }

    /// Stores a player's move in the next round, which must be `round` (from 0). The move must be
    /// one of the player's actions.
    ///
    /// # Errors
    /// [`PlayError::Move`] if a different move was submitted, or the round was played in the
    /// meantime; another error if the move cannot be stored.
    pub fn tell(
        &self,
        round: usize,
        player: usize,
        point: &Point,
    ) -> Result<MoveOutcome, PlayError> {
        let text = serde_json::to_string(point)
            .unwrap_or_else(|error| unreachable!("plain data becomes JSON: {error}"));
        let name = &self.definition.players[player].name;
        let refused = self.write(|tx| {
            if let Some(before) = told(tx, round, player)? {
                let text = serde_json::to_string(&before.point).unwrap_or_default();
                let round = round + 1;
                return Ok(match before.substitute {
                    None if before.point == *point => Ok(MoveOutcome::Already),
                    None => Err(format!(
                        "{name:?} has already submitted its move for round {round}: {text}, which is final"
                    )),
                    Some(_) => Err(format!(
                        "no move of {name:?} arrived in time for round {round}: {text} replaces it"
                    )),
                });
            }
            if n_rounds(tx)? != round {
                return Ok(Err(format!(
                    "round {} was played in the meantime; ask for the next one",
                    round + 1
                )));
            }
            insert(tx, round, player, &text, None)?;
            Ok(Ok(MoveOutcome::New))
        })?;
        refused.map_err(|message| PlayError::Move { message })
    }

    /// Stores a player's move in the next round, which must be `round` (from 0), unless a move
    /// exists. Returns the stored move.
    ///
    /// # Errors
    /// [`PlayError::Overtaken`] if the round was played in the meantime; another error if the move
    /// cannot be stored.
    pub(crate) fn keep(
        &self,
        round: usize,
        player: usize,
        given: ToldMove,
    ) -> Result<ToldMove, PlayError> {
        let text = |value: serde_json::Result<String>| {
            value.unwrap_or_else(|error| unreachable!("plain data becomes JSON: {error}"))
        };
        let point = text(serde_json::to_string(&given.point));
        let substitute = given.substitute.as_ref().map(|why| text(serde_json::to_string(why)));
        let kept = self.write(|tx| {
            if let Some(before) = told(tx, round, player)? {
                return Ok(Some(before));
            }
            if n_rounds(tx)? != round {
                return Ok(None);
            }
            insert(tx, round, player, &point, substitute.as_deref())?;
            Ok(Some(given))
        })?;
        kept.ok_or_else(|| PlayError::Overtaken { path: self.path.clone(), round: round + 1 })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // The next transaction rolls back a transaction that a panic left open.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<R>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, PlayError> {
        self.within(TransactionBehavior::Deferred, act)
    }

    fn write<R>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, PlayError> {
        self.within(TransactionBehavior::Immediate, act)
    }

    fn within<R>(
        &self,
        behavior: TransactionBehavior,
        act: impl FnOnce(&Transaction<'_>) -> Result<R, Failure>,
    ) -> Result<R, PlayError> {
        let connection = self.lock();
        let run = || {
            let transaction = match &self.file {
                Some(file) => file.begin(&connection, behavior)?,
                None => connection.unchecked_transaction()?,
            };
            let result = act(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        run().map_err(|failure: Failure| in_words(&self.path, failure))
    }
}

fn open(path: &Path) -> Result<(File, Connection), PlayError> {
    let located = File::locate(path, Mode::Create, &FORMAT);
    let (file, _) = located.map_err(|fault| of_fault(path, fault))?;
    let connection = file.open_for_writing(Mode::Create);
    let connection = connection.map_err(|failure| in_words(path, failure))?;
    Ok((file, connection))
}

fn read_definition(tx: &Transaction<'_>) -> Result<Option<Definition>, Failure> {
    let text: Option<String> =
        tx.query_row("SELECT definition FROM game", [], |row| row.get(0)).optional()?;
    text.map(|text| from_json(&text, "the game")).transpose()
}

fn n_rounds(tx: &Transaction<'_>) -> Result<usize, Failure> {
    let mut statement = tx.prepare_cached("SELECT count(*) FROM rounds")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

fn told(tx: &Transaction<'_>, round: usize, player: usize) -> Result<Option<ToldMove>, Failure> {
    let sql = "SELECT point, stand_in FROM moves WHERE round = ? AND player = ?";
    let mut statement = tx.prepare_cached(sql)?;
    let place = params![as_i64(round), as_i64(player)];
    let texts = statement.query_row(place, |row| Ok((row.get(0)?, row.get(1)?)));
    let Some((point, substitute)): Option<(String, Option<String>)> = texts.optional()? else {
        return Ok(None);
    };
    let substitute = substitute.map(|text| from_json(&text, "a substitute action"));
    Ok(Some(ToldMove { point: from_json(&point, "a move")?, substitute: substitute.transpose()? }))
}

fn insert(
    tx: &Transaction<'_>,
    round: usize,
    player: usize,
    point: &str,
    substitute: Option<&str>,
) -> Result<(), Failure> {
    let sql = "INSERT INTO moves (round, player, point, stand_in) VALUES (?, ?, ?, ?)";
    tx.execute(sql, params![as_i64(round), as_i64(player), point, substitute])?;
    Ok(())
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Result<T, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::Contradiction(format!("{what} cannot be read: {error}")))
}

/// Converts a number for SQLite.
fn as_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn in_words(path: &Path, failure: Failure) -> PlayError {
    of_fault(path, failure.into_fault(&FORMAT))
}

fn of_fault(path: &Path, fault: FileFault) -> PlayError {
    let path = path.to_owned();
    match fault {
        FileFault::Absent => PlayError::Absent { path },
        FileFault::NotOurs(message) | FileFault::Damaged(message) => {
            PlayError::NotARecord { path, message }
        }
        FileFault::Version { found, expected } => PlayError::Version { path, found, expected },
        FileFault::Refused(message) => PlayError::Refused { path, message },
        FileFault::Gone => PlayError::Gone { path },
    }
}

//! A peer's memory: the ordered log of its machine's events, and its own reports.
//!
//! The log also serves as the queue: a received report is appended before it is acknowledged, and
//! the machine reads its events from the log. A restarted peer therefore processes the same events
//! in the same order.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fedbo_database::{Failure, Mode};
use fedbo_party::{Database, HomeError};
use fedbo_protocol::Tick;
use fedbo_wire::{PeerReport, PublicKey};
use rusqlite::{Transaction, params};

use crate::Member;
use crate::error::OtherHome;
use crate::records::{
    Log, MEMORY_FILE, NeighbourMemory, Sender, begin, n_outgoing, outgoing, read_event, read_log,
    read_neighbours,
};
use crate::schema::FORMAT;

/// A peer's memory, which is shared by all threads of its process.
#[derive(Debug)]
pub struct Memory {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    database: Database,
    /// Received reports by sender.
    senders: BTreeMap<u32, Sender>,
    /// Number and time of the last event.
    last: (u64, Tick),
    /// Time of the last event logged by earlier processes, and the instant at which this process
    /// started.
    since: (Tick, Instant),
}

/// An event and its position in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Logged {
    /// Number of the event, starting from 1.
    pub seq: u64,
    /// Time of the event on the peer's running-time clock ([`Memory::now`]), in milliseconds.
    pub at: Tick,
    /// The event itself.
    pub event: Event,
}

/// An event of a peer.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// One of the peer's trials has ended.
    Evaluated {
        /// Number of the trial.
        trial: u64,
        /// Value of the trial, to be maximized, or `None` if the trial failed.
        value: Option<f64>,
    },
    /// A report was received. Contains its signed bytes.
    Report(Vec<u8>),
    /// The machine's deadline for a round has passed.
    Tick,
}

/// Outcome of storing a received report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The report is new, and is now durable.
    New,
    /// The report was already stored.
    Again,
    /// A different report from this sender for this round is already stored.
    Conflict {
        /// True for the round's first conflict, which is kept as evidence.
        is_new: bool,
    },
}

impl Memory {
    /// Opens the memory in a home, or creates it for this member and key.
    ///
    /// # Errors
    /// If the memory cannot be read or written, or belongs to a different peer.
    pub fn open(home: &Path, member: &Member, key: PublicKey) -> Result<Self, OtherHome> {
        let database = Database::open(&home.join(MEMORY_FILE), Mode::Create, &FORMAT)?;
        let stored = database.write(|tx| begin(tx, member, key))?;
        let differs = [
            ("federation", stored.digest != member.digest),
            ("name", stored.slot != member.slot),
            ("key", stored.key != key),
        ];
        if let Some((what, _)) = differs.iter().find(|(_, differs)| *differs) {
            return Err(OtherHome::Differs { path: home.to_owned(), what, name: stored.name });
        }
        let Log { senders, last } = database.read(read_log)?;
        Ok(Self {
            inner: Mutex::new(Inner { database, senders, last, since: (last.1, Instant::now()) }),
        })
    }

    /// Returns the peer's total running time in milliseconds. For earlier processes, the time after
    /// their last event is not included.
    pub fn now(&self) -> Tick {
        self.lock().now()
    }

    /// Returns a batch of the events after number `seq`.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn events_after(&self, seq: u64) -> Result<Vec<Logged>, HomeError> {
        const SOME: u32 = 256;
        let sql = "SELECT seq, at_ms, kind, trial, value, bytes FROM events WHERE seq > ? ORDER BY seq LIMIT ?";
        let inner = self.lock();
        if seq >= inner.last.0 {
            return Ok(Vec::new());
        }
        inner.database.read(|tx| {
            let mut statement = tx.prepare_cached(sql)?;
            let mut rows = statement.query(params![seq, SOME])?;
            let mut events = Vec::new();
            while let Some(row) = rows.next()? {
                events.push(read_event(row)?);
            }
            Ok(events)
        })
    }

    /// Appends the end of a trial to the log. The event is durable when this returns.
    ///
    /// # Errors
    /// If the memory cannot be written.
    pub fn note_evaluated(&self, trial: u64, value: Option<f64>) -> Result<(), HomeError> {
        let sql =
            "INSERT INTO events (seq, at_ms, kind, trial, value) VALUES (?, ?, 'evaluated', ?, ?)";
        let value = value.map(f64::to_le_bytes);
        self.lock().append(|tx, seq, at| {
            tx.execute(sql, params![seq, at, trial, value])?;
            Ok(())
        })
    }

    /// Appends a passed deadline to the log. The event is durable when this returns.
    ///
    /// # Errors
    /// If the memory cannot be written.
    pub fn note_tick(&self) -> Result<(), HomeError> {
        let sql = "INSERT INTO events (seq, at_ms, kind) VALUES (?, ?, 'tick')";
        self.lock().append(|tx, seq, at| {
            tx.execute(sql, params![seq, at])?;
            Ok(())
        })
    }

    /// Stores a validated report from a neighbour. The report is durable when this returns.
    ///
    /// # Errors
    /// If the memory cannot be written.
    pub fn take(&self, sender: u32, round: u64, bytes: &[u8]) -> Result<Taken, HomeError> {
        let mut inner = self.lock();
        let has_come = inner
            .senders
            .get(&sender)
            .is_some_and(|known| round < known.next || known.early.contains(&round));
        if has_come {
            return inner.compare(sender, round, bytes);
        }
        let sql = "INSERT INTO events (seq, at_ms, kind, sender, round, bytes) VALUES (?, ?, 'report', ?, ?, ?)";
        inner.append(|tx, seq, at| {
            tx.execute(sql, params![seq, at, sender, round, bytes])?;
            Ok(())
        })?;
        inner.senders.entry(sender).or_default().add(round);
        Ok(Taken::New)
    }

    /// Returns the number of reports received from a sender without a gap, starting at round 0.
    pub fn received_from(&self, sender: u32) -> u64 {
        let inner = self.lock();
        inner.senders.get(&sender).map_or(0, |known| known.next)
    }

    /// Stores one of the peer's own reports before it is sent. Returns false if a different report
    /// for the round is already stored.
    ///
    /// # Errors
    /// If the memory cannot be written.
    pub fn keep(&self, round: u64, bytes: &[u8]) -> Result<bool, HomeError> {
        let inner = self.lock();
        if let Some(kept) = inner.database.read(|tx| outgoing(tx, round))? {
            return Ok(kept == bytes);
        }
        let sql = "INSERT INTO outbox (round, bytes) VALUES (?, ?)";
        inner.database.write(|tx| {
            tx.execute(sql, params![round, bytes])?;
            Ok(())
        })?;
        Ok(true)
    }

    /// Returns the peer's own report for a round, if it is stored.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn outgoing(&self, round: u64) -> Result<Option<Vec<u8>>, HomeError> {
        self.lock().database.read(|tx| outgoing(tx, round))
    }

    /// Returns the number of the peer's own stored reports.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn n_outgoing(&self) -> Result<u64, HomeError> {
        self.lock().database.read(n_outgoing)
    }

    /// Returns the records of all neighbours, ordered by slot.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn neighbours(&self) -> Result<Vec<NeighbourMemory>, HomeError> {
        self.lock().database.read(read_neighbours)
    }

    /// Stores the URL of a neighbour, and its key if the user configured one.
    ///
    /// # Errors
    /// If the memory cannot be written.
    pub fn meet(
        &self,
        slot: u32,
        name: &str,
        url: &str,
        key: Option<PublicKey>,
    ) -> Result<(), HomeError> {
        let sql = "INSERT INTO neighbours (slot, name, url, key) VALUES (?, ?, ?, ?)
                   ON CONFLICT (slot) DO UPDATE SET url = excluded.url, key = coalesce(excluded.key, key)";
        self.lock().database.write(|tx| {
            tx.execute(sql, params![slot, name, url, key.map(|key| key.0)])?;
            Ok(())
        })
    }

    /// Stores a neighbour's key, unless one is already known.
    ///
    /// # Errors
    /// If the memory cannot be written.
    pub fn pin(&self, slot: u32, key: PublicKey) -> Result<(), HomeError> {
        let sql = "UPDATE neighbours SET key = ? WHERE slot = ? AND key IS NULL";
        self.lock().database.write(|tx| {
            tx.execute(sql, params![key.0, slot])?;
            Ok(())
        })
    }

    /// Stores the number of reports that a neighbour has confirmed, and the time of the
    /// confirmation.
    ///
    /// # Errors
    /// If the memory cannot be written.
    pub fn confirm(&self, slot: u32, confirmed: u64, now_ms: u64) -> Result<(), HomeError> {
        let sql = "UPDATE neighbours SET confirmed = ?, contact_at_ms = ? WHERE slot = ?";
        self.lock().database.write(|tx| {
            tx.execute(sql, params![confirmed, now_ms, slot])?;
            Ok(())
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The fields are updated only after the database was, so a poisoned lock is harmless.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn now(&self) -> Tick {
        let (before, began) = self.since;
        let elapsed = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        before.saturating_add(elapsed).max(self.last.1)
    }

    fn append(
        &mut self,
        insert: impl FnOnce(&Transaction<'_>, u64, Tick) -> Result<(), Failure>,
    ) -> Result<(), HomeError> {
        let (seq, at) = (self.last.0 + 1, self.now());
        self.database.write(|tx| insert(tx, seq, at))?;
        self.last = (seq, at);
        Ok(())
    }

    /// Compares a report with the stored one for the same sender and round. A different report is
    /// kept as evidence.
    fn compare(&self, sender: u32, round: u64, bytes: &[u8]) -> Result<Taken, HomeError> {
        let sql = "SELECT bytes FROM events WHERE kind = 'report' AND sender = ? AND round = ?";
        let known: Vec<u8> = self.database.read(|tx| {
            let mut statement = tx.prepare_cached(sql)?;
            Ok(statement.query_row(params![sender, round], |row| row.get(0))?)
        })?;
        if PeerReport::content_of(&known) == PeerReport::content_of(bytes) {
            return Ok(Taken::Again);
        }
        let sql = "INSERT OR IGNORE INTO conflicts (sender, round, bytes) VALUES (?, ?, ?)";
        let n_kept =
            self.database.write(|tx| Ok(tx.execute(sql, params![sender, round, bytes])?))?;
        Ok(Taken::Conflict { is_new: n_kept > 0 })
    }
}

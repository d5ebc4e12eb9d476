//! Reads and creates the records in a peer's memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fedbo_database::{Failure, Mode};
use fedbo_party::{Database, HomeError, fixed};
use fedbo_protocol::Tick;
use fedbo_wire::{Digest, PublicKey};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use crate::Member;
use crate::memory::{Event, Logged};
use crate::schema::FORMAT;

/// File name of a peer's memory in its folder.
pub(crate) const MEMORY_FILE: &str = "peer.db";

/// The received reports of one sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sender {
    /// All rounds below `next` and those in `early` have arrived.
    pub(crate) next: u64,
    pub(crate) early: BTreeSet<u64>,
}

/// Record of a neighbour and the exchange with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourMemory {
    /// Slot on the roster.
    pub slot: u32,
    /// Name on the roster.
    pub name: String,
    /// Last known address of the neighbour.
    pub url: String,
    /// The neighbour's key, once known.
    pub key: Option<PublicKey>,
    /// Number of this peer's reports that the neighbour has confirmed.
    pub confirmed: u64,
    /// Time of the last confirmation, in milliseconds since 1970.
    pub contact_at_ms: Option<u64>,
}

impl Sender {
    pub(crate) fn add(&mut self, round: u64) {
        self.early.insert(round);
        while self.early.remove(&self.next) {
            self.next += 1;
        }
    }
}

/// The peer that owns a memory.
pub(crate) struct Owner {
    pub(crate) name: String,
    pub(crate) slot: u32,
    pub(crate) digest: Digest,
    pub(crate) study: String,
    pub(crate) rounds: u64,
    pub(crate) maximizes: bool,
    pub(crate) key: PublicKey,
}

/// Snapshot of a memory for readers.
pub(crate) struct Look {
    pub(crate) owner: Owner,
    pub(crate) n_outgoing: u64,
    pub(crate) neighbours: Vec<NeighbourMemory>,
    pub(crate) received: BTreeMap<u32, u64>,
    pub(crate) n_conflicts: u64,
}

/// Reads the memory in a home. Returns `None` if the home has no peer yet.
pub(crate) fn look(home: &Path) -> Result<Option<Look>, HomeError> {
    let database = Database::look(&home.join(MEMORY_FILE), &FORMAT)?;
    database.read(|tx| {
        let Some(owner) = read_owner(tx)? else {
            return Ok(None);
        };
        let senders = read_log(tx)?.senders;
        Ok(Some(Look {
            owner,
            n_outgoing: n_outgoing(tx)?,
            neighbours: read_neighbours(tx)?,
            received: senders.into_iter().map(|(slot, known)| (slot, known.next)).collect(),
            n_conflicts: tx.query_row("SELECT count(*) FROM conflicts", [], |row| row.get(0))?,
        }))
    })
}

/// Returns the public key of a home's peer, or `None` if the home has no peer yet or the peer's
/// process was killed before it had a key.
pub(crate) fn key_of(home: &Path) -> Result<Option<PublicKey>, HomeError> {
    if !home.join(MEMORY_FILE).exists() {
        return Ok(None);
    }
    let database = Database::open(&home.join(MEMORY_FILE), Mode::Create, &FORMAT)?;
    Ok(database.read(read_owner)?.map(|owner| owner.key))
}

pub(crate) fn begin(
    tx: &Transaction<'_>,
    member: &Member,
    key: PublicKey,
) -> Result<Owner, Failure> {
    if let Some(owner) = read_owner(tx)? {
        return Ok(owner);
    }
    let owner = Owner {
        name: member.name().to_owned(),
        slot: member.slot,
        digest: member.digest,
        study: member.federation.clone(),
        rounds: member.rounds,
        maximizes: member.direction == fedbo_space::Direction::Maximize,
        key,
    };
    tx.execute(
        "INSERT INTO peer (id, name, slot, federation, study, rounds, maximizes, key) VALUES (1, ?, ?, ?, ?, ?, ?, ?)",
        params![
            owner.name,
            owner.slot,
            owner.digest.0,
            owner.study,
            owner.rounds,
            owner.maximizes,
            owner.key.0
        ],
    )?;
    Ok(owner)
}

fn read_owner(tx: &Transaction<'_>) -> Result<Option<Owner>, Failure> {
    let sql = "SELECT name, slot, federation, study, rounds, maximizes, key FROM peer";
    let mut statement = tx.prepare(sql)?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let bytes = |column: &str| row.get::<_, Vec<u8>>(column);
    Ok(Some(Owner {
        name: row.get("name")?,
        slot: row.get("slot")?,
        digest: Digest(fixed(&bytes("federation")?, "a digest")?),
        study: row.get("study")?,
        rounds: row.get("rounds")?,
        maximizes: row.get("maximizes")?,
        key: PublicKey(fixed(&bytes("key")?, "a key")?),
    }))
}

/// Summary of the log.
pub(crate) struct Log {
    /// Received reports by sender.
    pub(crate) senders: BTreeMap<u32, Sender>,
    /// Number and time of the last event.
    pub(crate) last: (u64, Tick),
}

pub(crate) fn read_log(tx: &Transaction<'_>) -> Result<Log, Failure> {
    let mut senders: BTreeMap<u32, Sender> = BTreeMap::new();
    let mut statement = tx.prepare("SELECT sender, round FROM events WHERE kind = 'report'")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        senders.entry(row.get(0)?).or_default().add(row.get(1)?);
    }
    let sql = "SELECT seq, at_ms FROM events ORDER BY seq DESC LIMIT 1";
    let last = tx.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
    let last = last.optional()?.unwrap_or_default();
    Ok(Log { senders, last })
}

pub(crate) fn read_event(row: &Row<'_>) -> Result<Logged, Failure> {
    let kind: String = row.get("kind")?;
    let event = match kind.as_str() {
        "evaluated" => {
            let value: Option<Vec<u8>> = row.get("value")?;
            let value = value.map(|bytes| fixed(&bytes, "a value")).transpose()?;
            Event::Evaluated { trial: row.get("trial")?, value: value.map(f64::from_le_bytes) }
        }
        "report" => Event::Report(row.get("bytes")?),
        "tick" => Event::Tick,
        other => {
            return Err(Failure::Contradiction(format!("an event has the unknown kind {other:?}")));
        }
    };
    Ok(Logged { seq: row.get("seq")?, at: row.get("at_ms")?, event })
}

pub(crate) fn read_neighbours(tx: &Transaction<'_>) -> Result<Vec<NeighbourMemory>, Failure> {
    let sql = "SELECT slot, name, url, key, confirmed, contact_at_ms FROM neighbours ORDER BY slot";
    let mut statement = tx.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let key: Option<Vec<u8>> = row.get("key")?;
        let key = key.map(|bytes| fixed(&bytes, "a key")).transpose()?;
        all.push(NeighbourMemory {
            slot: row.get("slot")?,
            name: row.get("name")?,
            url: row.get("url")?,
            key: key.map(PublicKey),
            confirmed: row.get("confirmed")?,
            contact_at_ms: row.get("contact_at_ms")?,
        });
    }
    Ok(all)
}

pub(crate) fn outgoing(tx: &Transaction<'_>, round: u64) -> Result<Option<Vec<u8>>, Failure> {
    let mut statement = tx.prepare_cached("SELECT bytes FROM outbox WHERE round = ?")?;
    Ok(statement.query_row([round], |row| row.get(0)).optional()?)
}

pub(crate) fn n_outgoing(tx: &Transaction<'_>) -> Result<u64, Failure> {
    let sql = "SELECT coalesce(max(round) + 1, 0) FROM outbox";
    Ok(tx.query_row(sql, [], |row| row.get(0))?)
}

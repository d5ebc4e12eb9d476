//! `ledger_file`: complete ledger files, corrupted or forged (INV-15).

use std::path::Path;
use std::sync::OnceLock;

use fedbo_ledger::{Charter, Head, Ledger, LedgerError, event_to_bytes, read, verify};
use fedbo_privacy::accounting::{
    AccountantKind, Budget, Delta, Mode, Noise, NoiseMultiplier, PrivacyEvent, Sampling,
    SamplingRate,
};
use fedbo_wire::{LedgerEntry, LedgerHead};
use rusqlite::{Connection, params};

use crate::input_reader::Pieces;
use crate::scratch;
use crate::sqlite_file::{change_cells, damage, put};

const NAME: &str = "ledger.db";

/// The first byte selects the change to a small ledger: bytes, cells, or additional entries that
/// have valid hashes but no charge. The ledger is then verified, read, and opened for writing.
pub fn ledger_file(bytes: &[u8]) {
    let mut pieces = Pieces(bytes);
    match pieces.byte() % 3 {
        0 => damaged(pieces),
        1 => changed(pieces),
        _ => forged_entries(pieces),
    }
}

fn damaged(mut pieces: Pieces<'_>) {
    let base = base();
    let (mut file, mut log) = match pieces.byte() & 1 {
        0 => (base.closed.clone(), Vec::new()),
        _ => (base.running.clone(), base.log.clone()),
    };
    while !pieces.is_empty() {
        match pieces.byte() & 1 {
            0 => damage(&mut file, &mut pieces),
            _ => damage(&mut log, &mut pieces),
        }
    }
    judge(&put(NAME, &file, &log), Some(&base.heads));
    // Open fresh copies, since reading the files has checkpointed the log.
    open(&put(NAME, &file, &log));
}

fn changed(pieces: Pieces<'_>) {
    let base = base();
    let path = put(NAME, &base.closed, &[]);
    change_cells(&path, pieces, |_, bytes| bytes);
    judge(&path, Some(&base.heads));
    open(&path);
}

/// Appends entries with arbitrary charges and valid hashes.
fn forged_entries(mut pieces: Pieces<'_>) {
    /// Maximum number of entries.
    const MAX: usize = 6;
    let (charter, empty) = &base().empty[pieces.below(AccountantKind::ALL.len())];
    let path = put(NAME, empty, &[]);
    let genesis = charter.genesis();
    let mut head = LedgerHead { seq: genesis.seq, hash: genesis.hash };
    let connection = Connection::open(&path).expect("a sound file");
    for _ in 0..MAX {
        if pieces.is_empty() {
            break;
        }
        let entry = LedgerEntry {
            seq: head.seq + 1,
            round: u64::from(pieces.u32()),
            event: pieces.piece().to_vec(),
            release: pieces.piece().to_vec(),
        };
        let after = head.after(std::slice::from_ref(&entry)).expect("the entry that follows");
        let LedgerEntry { seq, round, event, release } = entry;
        let added = connection.execute(
            "INSERT INTO entries (seq, previous, round, event, release, hash) VALUES (?, ?, ?, ?, ?, ?)",
            params![seq, head.hash, round, event, release, after.hash],
        );
        // The file refuses a round that is not later than the previous one.
        if added.is_ok() {
            head = after;
        }
    }
    drop(connection);
    judge(&path, None);
    let ledger = Ledger::open(&path, charter);
    assert!(ledger.is_err() || ledger.is_ok_and(|ledger| ledger.releases() == head.seq));
}

/// Reads a file with `verify` and `read`. Both must agree on whether it is valid, and its head must
/// be one of the known heads.
fn judge(path: &Path, heads: Option<&[Head]>) {
    let report = match verify(path, None) {
        Ok(report) => report,
        Err(error) => {
            check_refusal(&error);
            assert!(read(path).is_err());
            return;
        }
    };
    match read(path) {
        Ok(statement) => {
            assert!(report.problems.is_empty());
            assert_eq!(Some(statement.head), report.head);
            assert!(heads.is_none_or(|heads| heads.contains(&statement.head)));
            let charged: u64 = statement.charges.iter().map(|charge| charge.count).sum();
            assert_eq!(charged, statement.n_releases(), "each release is charged");
            // INV-14: NaN is not a bound.
            assert!(statement.claim.epsilon >= 0.0);
        }
        // No price can be proved for the charged events.
        Err(error @ LedgerError::Accounting { .. }) => check_refusal(&error),
        Err(error) => {
            assert!(!report.problems.is_empty() && report.head.is_none(), "{error}");
            assert!(report.problems.iter().all(|problem| !problem.message.is_empty()));
            check_refusal(&error);
        }
    }
}

fn open(path: &Path) {
    match Ledger::open(path, &base().charter) {
        Ok(ledger) => {
            assert!(base().heads.contains(&ledger.head()));
            for round in 0..4 {
                assert!(ledger.stored(round).is_ok());
            }
        }
        Err(error) => check_refusal(&error),
    }
}

fn check_refusal(error: &LedgerError) {
    assert!(error.to_string().len() > 40, "{error}");
}

/// A small ledger as stored on disk.
struct Base {
    charter: Charter,
    /// The file after the end of the study.
    closed: Vec<u8>,
    /// The file left behind by a process that was killed while a reader was open.
    running: Vec<u8>,
    log: Vec<u8>,
    /// The head of the ledger after each commit.
    heads: Vec<Head>,
    /// Ledgers without entries, by accountant.
    empty: Vec<(Charter, Vec<u8>)>,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let folder = scratch::folder();
        let path = folder.join("base.db");
        let charter = charter(AccountantKind::Moments);
        let mut ledger = Ledger::create(&path, &charter).expect("a new ledger");
        let reader = Connection::open(&path).expect("a sound file");
        let begun = reader.execute_batch("BEGIN; SELECT count(*) FROM entries");
        begun.expect("a sound file");
        let mut heads = vec![ledger.head()];
        for round in [0, 1, 3] {
            let release = [u8::try_from(round).unwrap_or(9); 24];
            heads.push(ledger.commit(round, &event(), &release).expect("a small release"));
        }
        let bytes = |name: &str| std::fs::read(folder.join(name)).expect("a file of the ledger");
        let (running, log) = (bytes("base.db"), bytes("base.db-wal"));
        drop((reader, ledger));
        Base {
            closed: bytes("base.db"),
            running,
            log,
            heads,
            charter,
            empty: AccountantKind::ALL.into_iter().map(empty).collect(),
        }
    })
}

fn empty(accountant: AccountantKind) -> (Charter, Vec<u8>) {
    let path = scratch::folder().join(format!("empty-{}.db", accountant.name()));
    let charter = charter(accountant);
    drop(Ledger::create(&path, &charter).expect("a new ledger"));
    let bytes = std::fs::read(&path).expect("a file of the ledger");
    (charter, bytes)
}

fn charter(accountant: AccountantKind) -> Charter {
    let delta = Delta::new(1e-5).expect("between 0 and 1");
    Charter {
        name: "study".to_owned(),
        config: b"n_agents = 200\n".to_vec(),
        budget: Budget::new(1e9, delta).expect("above 0"),
        mode: Mode::Default,
        accountant,
        participations: None,
    }
}

/// Returns an event with full participation and Gaussian noise.
fn event() -> PrivacyEvent {
    PrivacyEvent {
        sampling: Sampling::Poisson(SamplingRate::ALL),
        noise: Noise::Gaussian(NoiseMultiplier::new(1.5).expect("above 0")),
    }
}

/// Returns one input of each kind, and the unchanged files.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let event = event_to_bytes(&event()).expect("an event of a mechanism");
    let length = u8::try_from(event.len()).unwrap_or(u8::MAX);
    let entry = |round: u8| [&[round, 0, 0, 0, length][..], &event, &[2, 7, 7]].concat();
    let forged_entries = |accountant: u8| {
        let entries = [entry(1), entry(2), entry(5)].concat();
        [&[2, accountant, 0], &entries[..]].concat()
    };
    let mut seeds: Vec<Vec<u8>> = crate::ledger::seeds()
        .into_iter()
        .filter(|seed| seed[0] == 0)
        .map(|seed| {
            let length = u8::try_from(seed.len() - 1).unwrap_or(u8::MAX);
            [&[2, 0, 0, 1, 0, 0, 0, length][..], &seed[1..], &[0]].concat()
        })
        .collect();
    seeds.extend((0..3).map(forged_entries));
    seeds.extend([
        vec![0, 0],
        vec![0, 1],
        vec![0, 0, 0, 100, 0, 0, 0, 4, 3],
        vec![0, 1, 1, 200, 2, 0, 0, 1],
        vec![0, 0, 0, 0, 32, 0, 0, 0, 4, 1, 2, 3, 4],
        vec![0, 1, 0, 64, 0, 0, 0, 2, 3, 9, 9, 9, 1, 0, 1, 0, 0, 3, 8],
        vec![1, 1, 0, 2, 0, 1, 0, 1, 9, 9, 0, 0, 0, 0, 0, 0],
        vec![1, 0, 0, 2, 0, 0, 0, 5, 3, 1, 2, 3],
    ]);
    seeds
}

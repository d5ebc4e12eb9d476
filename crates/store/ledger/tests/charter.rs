//! INV-11: the definition of a study does not change, and a ledger is created only once.
use crate::common;

use common::{charter, files, quick_folder};
use fedbo_ledger::{CONFIG_BYTES_MAX, Charter, Ledger, LedgerError, read, verify};
use fedbo_privacy::accounting::{AccountantKind, Budget, Delta, Mode};

#[test]
fn another_charter_is_refused_by_the_keys_that_differ() {
    let folder = quick_folder();
    let path = folder.path().join("ledger.db");
    drop(Ledger::create(&path, &charter()).unwrap());
    let changed = |change: fn(&mut Charter)| {
        let mut charter = charter();
        change(&mut charter);
        let error = Ledger::open(&path, &charter).unwrap_err();
        assert!(matches!(error, LedgerError::OtherCharter { .. }), "{error}");
        error.to_string()
    };
    for (text, expected) in [
        (
            changed(|c| c.name = "other".to_owned()),
            "name = \"other\" here, \"study\" in the ledger",
        ),
        (
            changed(|c| c.budget = common::budget(2.5)),
            "budget.epsilon = 2.5 here, 1000000000.0 in the ledger",
        ),
        (
            changed(|c| c.budget = Budget::new(1e9, Delta::new(1e-6).unwrap()).unwrap()),
            "budget.delta = 1e-6 here, 1e-5 in the ledger",
        ),
        (changed(|c| c.mode = Mode::Paper), "mode = paper here, default in the ledger"),
        (
            changed(|c| c.accountant = AccountantKind::Pld),
            "accountant = pld here, moments in the ledger",
        ),
        (
            changed(|c| c.config = b"max_norm = 22.0\nn_agents = 201\n".to_vec()),
            "config, line 2 = \"n_agents = 201\" here, \"n_agents = 200\" in the ledger",
        ),
        (
            changed(|c| c.config.truncate(16)),
            "config, line 2 = \"\" here, \"n_agents = 200\" in the ledger",
        ),
        (changed(|c| c.config = vec![0xff]), "config = 1 bytes with SHA-256 a8100ae6aa1940d0"),
    ] {
        assert!(text.contains(expected), "{text}");
    }
    let all = changed(|c| {
        c.name = "other".to_owned();
        c.budget = common::budget(1.0);
        c.mode = Mode::Paper;
        c.accountant = AccountantKind::Pld;
        c.config = Vec::new();
    });
    assert!(all.contains("and 2 more"), "{all}");
    Ledger::open(&path, &charter()).unwrap();
}

#[test]
fn a_hostile_charter_begins_nothing() {
    let folder = quick_folder();
    let path = folder.path().join("ledger.db");
    let refused = |change: &dyn Fn(&mut Charter), expected: &str| {
        let mut charter = charter();
        change(&mut charter);
        let error = Ledger::create(&path, &charter).unwrap_err();
        assert!(matches!(error, LedgerError::Charter { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(expected), "{text}");
        assert!(text.len() < 300, "{}", text.len());
    };
    for name in ["", "a\nb", "\u{1b}[31m", &"x".repeat(201), "a\0"] {
        refused(&|c| c.name = name.to_owned(), "name = ");
    }
    refused(&|c| c.config = vec![0; CONFIG_BYTES_MAX + 1], "config = 16777217 bytes");
    assert_eq!(files(folder.path()), []);
    // These charters are unusual, but they are valid and can be stored.
    for (i, (name, config, epsilon)) in [
        ("'; DROP TABLE entries; --", vec![0xff; 1000], f64::MIN_POSITIVE),
        ("größe \u{202e} 🜛", Vec::new(), f64::MAX),
        ("x", vec![0; CONFIG_BYTES_MAX], 1.0 / 3.0),
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path().join(format!("{i}.db"));
        let mut charter = charter();
        (charter.name, charter.config) = (name.to_owned(), config);
        charter.budget = Budget::new(epsilon, Delta::new(f64::MIN_POSITIVE).unwrap()).unwrap();
        drop(Ledger::create(&path, &charter).unwrap());
        let ledger = Ledger::open(&path, &charter).unwrap();
        assert_eq!(ledger.charter(), &charter);
        assert_eq!(verify(&path, None).unwrap().problems, []);
    }
}

#[test]
fn a_ledger_is_not_begun_over_anything() {
    let folder = quick_folder();
    let at = |name: &str| folder.path().join(name);
    drop(Ledger::create(&at("ledger.db"), &charter()).unwrap());
    std::fs::write(at("empty.db"), "").unwrap();
    std::fs::write(at("gone.db-wal"), "charges").unwrap();
    std::fs::create_dir(at("folder.db")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(at("nowhere"), at("link.db")).unwrap();
    for name in ["ledger.db", "empty.db", "gone.db", "folder.db", "link.db"] {
        if cfg!(not(unix)) && name == "link.db" {
            continue;
        }
        let error = Ledger::create(&at(name), &charter()).unwrap_err();
        assert!(matches!(error, LedgerError::Exists { .. }), "{name}: {error}");
    }
    let error = Ledger::create(&at("none/ledger.db"), &charter()).unwrap_err();
    assert!(error.to_string().contains("create it first"), "{error}");
    // An empty file or another program's file is not accepted as an empty ledger.
    let other = rusqlite::Connection::open(at("other.db")).unwrap();
    other.execute_batch("CREATE TABLE t (x)").unwrap();
    std::fs::write(at("notes.txt"), "epsilon = 1\n".repeat(99)).unwrap();
    for name in ["empty.db", "other.db", "notes.txt", "folder.db"] {
        let refused = |error: LedgerError| {
            assert!(matches!(error, LedgerError::NotALedger { .. }), "{error}");
        };
        refused(Ledger::open(&at(name), &charter()).unwrap_err());
        refused(verify(&at(name), None).unwrap_err());
        refused(read(&at(name)).unwrap_err());
    }
    for error in [
        Ledger::open(&at("none.db"), &charter()).unwrap_err(),
        verify(&at("none.db"), None).unwrap_err(),
        read(&at("none.db")).unwrap_err(),
    ] {
        assert!(matches!(error, LedgerError::Absent { .. }), "{error}");
    }
    assert!(!at("none.db").exists() && !at("none.db-lock").exists());
}

//! `fedbo privacy statement` and `verify` on valid and invalid ledgers.

use crate::common;
use std::path::Path;

use common::Sandbox;
use fedbo_ledger::{Charter, Head, Ledger};
use fedbo_privacy::accounting::{
    AccountantKind, Budget, Delta, Mode, Noise, PrivacyEvent, Sampling, SamplingRate,
};

fn charter(name: &str) -> Charter {
    let delta = Delta::new(1e-5).expect("a delta");
    Charter {
        name: name.to_owned(),
        config: b"n_agents = 200\n".to_vec(),
        budget: Budget::new(3.0, delta).expect("a budget"),
        mode: Mode::Default,
        accountant: AccountantKind::Pld,
        participations: None,
    }
}

/// Returns a mechanism's event with z = 2.
fn event() -> PrivacyEvent {
    let bound = 1_u64 << 23;
    PrivacyEvent {
        sampling: Sampling::Poisson(SamplingRate::new(0.25).expect("a rate")),
        noise: Noise::DiscreteGaussian {
            variance: 4 * u128::from(bound).pow(2),
            bound,
            n_coordinates: 800,
        },
    }
}

fn ledger(path: &Path, name: &str, rounds: u64) -> Head {
    let mut ledger = Ledger::create(path, &charter(name)).expect("a new ledger");
    for round in 0..rounds {
        let release = format!("<release of round {round}>");
        ledger.commit(round, &event(), release.as_bytes()).expect("within the budget");
    }
    ledger.head()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_statement_says_what_was_spent_and_on_what_the_figure_depends() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("results")).expect("a folder");
    let head = ledger(&sandbox.path("results/ledger.db"), "wine", 5);
    let ran = sandbox.fedbo(&["privacy", "statement", "results", "--json"]);
    ran.expect(0, &[]);
    let said = json(&ran.stdout);
    let epsilon = said["epsilon"].as_f64().expect("a number");
    let remaining = said["remaining_epsilon"].as_f64().expect("a number");
    assert!((0.1..3.0).contains(&epsilon), "{said}");
    assert!((epsilon + remaining - 3.0).abs() < 1e-12, "{said}");
    for (key, value) in [
        ("study", serde_json::json!("wine")),
        ("delta", serde_json::json!(1e-5)),
        ("adjacency", serde_json::json!("zero-out")),
        ("accountant", serde_json::json!("pld")),
        ("mode", serde_json::json!("default")),
        ("releases", serde_json::json!(5)),
        ("budget_epsilon", serde_json::json!(3.0)),
        ("is_overdrawn", serde_json::json!(false)),
        ("head", serde_json::json!(head.to_string())),
        (
            "charges",
            serde_json::json!([{
                "releases": 5,
                "sampling": "poisson",
                "sampling_rate": 0.25,
                "noise": "discrete-gaussian",
                "noise_multiplier": 2.0,
                "variance": (1_u64 << 48).to_string(),
                "bound": 1 << 23,
                "n_coordinates": 800,
            }]),
        ),
    ] {
        assert_eq!(said[key], value, "{key} in {said}");
    }
    // The reported number of further releases fits the budget, and a thousandth more does not.
    let further = said["further_releases"].as_u64().expect("a number");
    let mut accountant = AccountantKind::Pld.accountant();
    let delta = charter("wine").budget.delta();
    accountant.compose(&event(), 5 + further).expect("an event");
    assert!(accountant.epsilon(delta).expect("a bound") <= 3.0);
    accountant.compose(&event(), 2 + further / 1000).expect("an event");
    assert!(accountant.epsilon(delta).expect("a bound") > 3.0);

    let ran = sandbox.fedbo(&["privacy", "statement", "results/ledger.db"]);
    ran.expect(0, &[]);
    let further = format!("enough for {further} more such releases");
    for part in [
        "study wine",
        "zero-out, delta = 1e-5, 5 rounds, accountant pld, mode default",
        "budget: epsilon = 3, ",
        &further,
        "each with probability 0.25",
        "discrete Gaussian, 800 coordinates",
        &format!("head {head}"),
    ] {
        assert!(ran.stdout.contains(part), "{part:?} in {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("<release"), "what was released is no part of it");
}

#[test]
fn a_statement_of_nothing_released_costs_nothing() {
    let sandbox = Sandbox::new();
    // A name from an untrusted file must not control the terminal.
    ledger(&sandbox.path("a.db"), "x\u{202e}y", 0);
    let ran = sandbox.fedbo(&["privacy", "statement", "a.db"]);
    ran.expect(0, &[]);
    assert!(ran.stdout.contains("study x\\u202ey"), "{}", ran.stdout);
    assert!(ran.stdout.contains("epsilon = 0 ("), "{}", ran.stdout);
    let said = json(&sandbox.fedbo(&["privacy", "statement", "a.db", "--json"]).stdout);
    assert_eq!(said["epsilon"], 0.0);
    assert_eq!(said["further_releases"], serde_json::Value::Null);
    assert_eq!(said["charges"], serde_json::json!([]));
}

#[test]
fn verify_tells_a_sound_ledger_from_a_changed_and_an_older_one() {
    let sandbox = Sandbox::new();
    let path = sandbox.path("ledger.db");
    let head = ledger(&path, "wine", 3).to_string();
    let ran = sandbox.fedbo(&["privacy", "verify", "."]);
    ran.expect(0, &[]);
    assert!(
        ran.stdout.contains("ledger.db is sound as far as it goes: 3 releases"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains(&format!("head {head}")), "{}", ran.stdout);
    assert!(ran.stderr.contains("`fedbo agent status`"), "{}", ran.stderr);
    let ran = sandbox.fedbo(&["privacy", "verify", "ledger.db", "--head", &head]);
    ran.expect(0, &[]);
    assert!(ran.stdout.contains("ledger.db is sound: 3 releases"), "{}", ran.stdout);

    let older = ledger(&sandbox.path("older.db"), "wine", 2).to_string();
    sandbox.fedbo(&["privacy", "verify", "ledger.db", "--head", &older]).expect(0, &[]);
    let ran = sandbox.fedbo(&["privacy", "verify", "older.db", "--head", &head]);
    ran.expect(2, &["older.db: 1 problem in 2 releases"]);
    assert!(ran.stdout.contains("rolled back to an older state"), "{}", ran.stdout);

    // A run writes the head beside its ledger. This detects an older copy of the ledger.
    sandbox.write("ledger.head", &format!("{head}\n"));
    for command in ["statement", "verify"] {
        sandbox.fedbo(&["privacy", command, "."]).expect(0, &[]);
    }
    let newer = std::fs::read(&path).expect("a file");
    std::fs::copy(sandbox.path("older.db"), &path).expect("a writable file");
    let ran = sandbox.fedbo(&["privacy", "verify", "."]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stdout.contains("rolled back to an older state"), "{}", ran.stdout);
    sandbox.fedbo(&["privacy", "statement", "."]).expect(2, &["rolled back to an older state"]);
    sandbox.write("ledger.head", "3");
    for command in ["statement", "verify"] {
        sandbox
            .fedbo(&["privacy", command, "."])
            .expect(2, &["ledger.head: head = \"3\", expected SEQ:HASH"]);
    }
    std::fs::remove_file(sandbox.path("ledger.head")).expect("a file");
    std::fs::write(&path, newer).expect("a writable file");

    let mut bytes = std::fs::read(&path).expect("a file");
    let part = b"<release of round 1>";
    let at = bytes.windows(part.len()).position(|window| window == part);
    bytes[at.expect("the release is in the file")] ^= 1;
    std::fs::write(&path, bytes).expect("a writable file");
    let ran = sandbox.fedbo(&["privacy", "verify", "ledger.db"]);
    ran.expect(2, &["1 problem in 3 releases", "nothing may be released"]);
    let expected = "entry 2: it does not match its hash: it was changed";
    assert!(ran.stdout.contains(expected), "{}", ran.stdout);
    let ran = sandbox.fedbo(&["privacy", "verify", "ledger.db", "--json"]);
    ran.expect(2, &[]);
    let said = json(&ran.stdout);
    assert_eq!(said["is_sound"], false);
    assert_eq!(said["head"], serde_json::Value::Null);
    assert_eq!(said["problems"][0]["entry"], 2);
    sandbox
        .fedbo(&["privacy", "statement", "ledger.db"])
        .expect(2, &["the ledger is damaged: entry 2", "`fedbo privacy verify`"]);
}

#[test]
fn what_is_no_ledger_is_wrong_usage() {
    let sandbox = Sandbox::new();
    sandbox.write("notes.txt", &"epsilon = 0\n".repeat(100));
    sandbox.write("empty.db", "");
    std::fs::create_dir(sandbox.path("results")).expect("a folder");
    for command in ["statement", "verify"] {
        for (path, part) in [
            ("results", "results/ledger.db: there is no such ledger"),
            ("none.db", "none.db: there is no such ledger"),
            ("notes.txt", "it is not a valid privacy ledger"),
            ("empty.db", "it is empty, no charge was ever stored in it"),
        ] {
            sandbox.fedbo(&["privacy", command, path]).expect(2, &[part]);
        }
    }
    sandbox
        .fedbo(&["privacy", "verify", "notes.txt", "--head", "17"])
        .expect(2, &["--head", "expected SEQ:HASH"]);
}

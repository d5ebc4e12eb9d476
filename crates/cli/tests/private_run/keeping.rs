//! A ledger cannot be lost, mixed with other results, or rolled back unnoticed.

use rustix::process::Signal;

use crate::common::{self, Sandbox, finished, finished_code, interrupt, json, wait_until};
use crate::private_run::federations::{LEDGER, constant, federation, releases};

#[test]
fn a_ledger_is_not_lost_by_overwriting_nor_mixed_with_other_results() {
    let sandbox = Sandbox::new();
    let tables = "[privacy]\nepsilon = 2.0\nreleases = 2\n";
    let text = federation(8, 2, tables);
    sandbox.write("f.toml", &text);
    sandbox.fedbo(&["run", "f.toml"]).expect(0, &[]);
    let before = releases(&sandbox.path(LEDGER));
    let refused = |file: &str, arguments: &[&str], parts: &[&str]| {
        sandbox.fedbo(&[&["run", file][..], arguments].concat()).expect(2, parts);
        assert_eq!(releases(&sandbox.path(LEDGER)), before);
        assert_eq!(sandbox.results("results/test").len(), 1 + 8 * 4);
    };
    let ways = ["ledger.db records the cost of releases", "--resume", "--spend-again"];
    refused("f.toml", &["--overwrite"], &ways);
    refused("f.toml", &["--overwrite", "--arms", "ts"], &ways);
    refused("f.toml", &[], &["results of another run"]);
    refused("f.toml", &["--spend-again"], &["--overwrite"]);
    // A different budget, or any other change of public settings, defines a different study.
    for (from, to) in
        [("epsilon = 2.0", "epsilon = 3.0"), ("\"a7\"", "\"b7\""), ("count = 20", "count = 21")]
    {
        sandbox.write("g.toml", &text.replace(from, to));
        refused("g.toml", &["--resume"], &["cannot resume results/test"]);
    }
    // A folder with a ledger but without results cannot be used either.
    let aside = sandbox.path("aside.csv");
    std::fs::rename(sandbox.path("results/test/results.csv"), &aside).expect("results");
    sandbox.fedbo(&["run", "f.toml"]).expect(2, &ways);
    sandbox.write("g.toml", &text.replace("epsilon = 2.0", "epsilon = 3.0"));
    let parts =
        ["the ledger belongs to another study", "budget.epsilon = 3.0 here, 2.0 in the ledger"];
    sandbox.fedbo(&["run", "g.toml", "--resume"]).expect(2, &parts);
    // Lost results are recomputed from the releases, and nothing is charged.
    sandbox.fedbo(&["run", "f.toml", "--resume"]).expect(0, &["spent before: "]);
    assert_eq!(releases(&sandbox.path(LEDGER)), before);
    assert_eq!(
        sandbox.results("results/test"),
        common::results(&aside),
        "the same releases lead to the same queries"
    );

    let ran = sandbox.fedbo(&["run", "f.toml", "--overwrite", "--spend-again"]);
    ran.expect(0, &["warning: the ledger of the results that are overwritten is kept as results/test/ledger-1.db"]);
    assert_eq!(releases(&sandbox.path("results/test/ledger-1.db")), before);
    assert_ne!(releases(&sandbox.path(LEDGER)), before);
    sandbox.fedbo(&["privacy", "verify", "results/test/ledger-1.db"]).expect(0, &[]);
}

/// The results and the head beside a ledger reveal that the ledger is older than they are.
#[test]
fn a_ledger_that_was_rolled_back_or_lost_is_noticed() {
    let sandbox = Sandbox::new();
    let tables = "[privacy]\nepsilon = 2.0\nreleases = 20\n";
    sandbox.write("f.toml", &federation(8, 20, tables));
    let (path, head) = (sandbox.path(LEDGER), sandbox.path("results/test/ledger.head"));
    let mut child = sandbox.start(&["run", "f.toml"]);
    wait_until(|| releases(&path).len() >= 2);
    interrupt(&child, Signal::KILL);
    finished_code(&mut child);
    let files = ["ledger.db", "ledger.db-wal"].map(|name| sandbox.path("results/test").join(name));
    let old = files.clone().map(|path| std::fs::read(path).unwrap_or_default());
    let n_old = releases(&path).len();
    let resume = ["run", "f.toml", "--resume"];
    sandbox.fedbo(&resume).expect(0, &[]);
    let whole = std::fs::read(&path).expect("a ledger");
    let noted = std::fs::read_to_string(&head).expect("a head");
    assert!(n_old < releases(&path).len());

    // Lose the ledger, with and without the head.
    std::fs::remove_file(&path).expect("a ledger");
    sandbox
        .fedbo(&resume)
        .expect(2, &["ledger.db is missing, but the results beside it depend on its charges"]);
    std::fs::remove_file(&head).expect("a head");
    sandbox
        .fedbo(&resume)
        .expect(2, &["ledger.db is missing, but the results beside it depend on its charges"]);
    assert!(!path.exists());
    // Restore an older state of the ledger. The results reveal this even without the head.
    for (path, bytes) in files.iter().zip(&old) {
        std::fs::write(path, bytes).expect("writable");
    }
    let parts = [
        format!("ledger.db holds {n_old} releases, but the results beside it depend on 20"),
        "put back the latest ledger of these results".to_owned(),
    ];
    sandbox.fedbo(&resume).expect(2, &parts.each_ref().map(String::as_str));
    std::fs::write(&head, &noted).expect("writable");
    sandbox.fedbo(&resume).expect(2, &parts.each_ref().map(String::as_str));
    assert_eq!(releases(&path).len(), n_old, "nothing was released anew");
    // Restore the original state.
    for path in &files {
        let _ = std::fs::remove_file(path);
    }
    std::fs::write(&path, &whole).expect("writable");
    sandbox.fedbo(&resume).expect(0, &["spent before: "]);
}

/// The run's summary keeps a record of the spending even if the results are lost as well, so no
/// option starts over silently.
#[test]
fn a_summary_remembers_what_was_spent() {
    let sandbox = Sandbox::new();
    let tables = "[privacy]\nepsilon = 2.0\nreleases = 2\n";
    sandbox.write("f.toml", &federation(8, 2, tables));
    sandbox.fedbo(&["run", "f.toml"]).expect(0, &[]);
    let file = |name: &str| sandbox.path("results/test").join(name);
    let whole = std::fs::read(file("ledger.db")).expect("a ledger");
    let head = std::fs::read(file("ledger.head")).expect("a head");
    let aside = sandbox.path("aside.csv");
    std::fs::rename(file("results.csv"), &aside).expect("results");
    for name in ["ledger.db", "ledger.head"] {
        std::fs::remove_file(file(name)).expect("a file");
    }
    let missing = ["ledger.db is missing, but the results beside it depend on its charges"];
    sandbox.fedbo(&["run", "f.toml", "--resume"]).expect(2, &missing);
    let records = ["ledger.db records the cost of releases"];
    sandbox.fedbo(&["run", "f.toml"]).expect(2, &records);
    sandbox.fedbo(&["run", "f.toml", "--overwrite"]).expect(2, &records);
    assert!(!file("ledger.db").exists());
    // The ledger exists without its head, so a rollback cannot be excluded.
    std::fs::write(file("ledger.db"), &whole).expect("writable");
    let parts = ["ledger.head is missing beside a ledger with 2 releases", "SEQ:HASH"];
    sandbox.fedbo(&["run", "f.toml", "--resume"]).expect(2, &parts);
    std::fs::write(file("ledger.head"), &head).expect("writable");
    sandbox.fedbo(&["run", "f.toml", "--resume"]).expect(0, &["spent before: "]);
    assert_eq!(sandbox.results("results/test"), common::results(&aside));
}

#[test]
fn ctrl_c_keeps_what_was_spent_and_the_run_goes_on() {
    let sandbox = Sandbox::new();
    let tables = "[privacy]\nepsilon = 2.0\nreleases = 20\n";
    sandbox.write("f.toml", &federation(8, 20, tables));
    let child = sandbox.start(&["run", "f.toml", "--json"]);
    wait_until(|| releases(&sandbox.path(LEDGER)).len() >= 3);
    interrupt(&child, Signal::INT);
    let ran = finished(child);
    if ran.code == Some(130) {
        let summary = json(ran.expect(130, &["continue with: fedbo run f.toml --resume"]));
        let n_released = releases(&sandbox.path(LEDGER)).len();
        assert_eq!(summary["interrupted"], true);
        let privacy = &summary["arms"][0]["privacy"];
        assert_eq!(privacy["releases"], n_released);
        assert_eq!(privacy["planned_releases"], 20);
    }
    let before = releases(&sandbox.path(LEDGER));
    sandbox.fedbo(&["run", "f.toml", "--resume"]).expect(0, &[]);
    let after = releases(&sandbox.path(LEDGER));
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), 20);
}

/// A run without a started trial has spent nothing, so its budget may still change.
#[test]
fn a_ledger_without_charges_is_in_nobodys_way() {
    for is_put_aside in [false, true] {
        begin_anew_without_charges(is_put_aside);
    }
}

/// Starts over from a ledger without charges. If `is_put_aside`, the second run was killed after it
/// had moved the ledger away, but before it moved the head.
fn begin_anew_without_charges(is_put_aside: bool) {
    let sandbox = Sandbox::new();
    let text = |epsilon: f64| {
        let tables = format!("[privacy]\nepsilon = {epsilon}\n");
        constant(&tables, 2).replacen("\"echo\"", "\"sleep\", \"60\", \"echo\"", 1)
    };
    sandbox.write("f.toml", &text(2.0));
    let mut child = sandbox.start(&["run", "f.toml"]);
    wait_until(|| sandbox.path("results/test/results.csv").exists());
    interrupt(&child, Signal::KILL);
    finished_code(&mut child);
    assert_eq!(releases(&sandbox.path(LEDGER)), []);
    std::fs::remove_file(sandbox.path("results/test/results.csv")).expect("it was there");
    for ending in ["", "-wal", "-shm"].into_iter().filter(|_| is_put_aside) {
        let path = |stem: &str| sandbox.path(&format!("results/test/{stem}.db{ending}"));
        std::fs::rename(path("ledger"), path("ledger-1")).expect("it was there");
    }
    sandbox.write("f.toml", &text(3.0).replace("\"sleep\", \"60\", ", ""));
    sandbox.fedbo(&["run", "f.toml"]).expect(0, &[]);
    assert_eq!(releases(&sandbox.path(LEDGER)).len(), 5);
    assert_eq!(releases(&sandbox.path("results/test/ledger-1.db")), []);
}

//! `fedbo run` with `algorithm = "dp-fts-de"`: what it promises, what it charges, what it keeps, what it never shows.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use common::{Ran, Sandbox, finished, finished_code, interrupt, json, wait_until};
use fedbo_algorithms::Points;
use fedbo_gp::{
    Family, FeatureDescription, FeatureMap, FeatureSampling, LengthscaleLaw, WeightPosterior,
};
use fedbo_ledger::{Head, Statement};
use fedbo_privacy::mechanism::{Release, Secure};
use fedbo_streams::{Purpose, Seed};
use rusqlite::OpenFlags;
use rustix::process::Signal;

const LEDGER: &str = "results/test/ledger.db";

/// A federation of test functions.
fn federation(n_agents: usize, rounds: u64, tables: &str) -> String {
    let mut text = format!(
        "[federation]\nname = \"test\"\ndirection = \"minimize\"\nalgorithm = \"dp-fts-de\"\nrounds = {rounds}\n\
         initial = 2\nseed = 3\nnoisy = true\n[features]\ncount = 20\nlengthscale = 0.3\n{tables}\n"
    );
    for index in 0..n_agents {
        text +=
            &format!("[[agents]]\nname = \"a{index}\"\nproblem = \"branin\"\nnoise_std = 0.1\n");
    }
    text
}

fn statement(path: &Path) -> Statement {
    fedbo_ledger::read(path).expect("a sound ledger")
}

/// The releases in a ledger by round; none if there is no ledger yet. Looks without changing anything.
fn releases(path: &Path) -> Vec<(u64, Vec<u8>)> {
    if !path.exists() {
        return Vec::new();
    }
    let connection = rusqlite::Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("a ledger");
    let mut query = connection
        .prepare("SELECT round, release FROM entries ORDER BY seq")
        .expect("its entries");
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.expect("its entries")
        .collect::<Result<_, _>>()
        .expect("rounds and bytes")
}

/// All that a run shows or leaves behind, but for the trials in results.csv and the pictures of them.
fn shown(sandbox: &Sandbox, ran: &Ran) -> String {
    let file = |name: &str| {
        std::fs::read_to_string(sandbox.path("results/test").join(name)).expect("a file of the run")
    };
    let files = ["summary.json", "settings.json", "ledger.head"];
    files.map(file).concat() + &ran.stdout + &ran.stderr
}

#[test]
fn a_run_says_first_what_it_does_not_promise_and_charges_what_it_releases() {
    let sandbox = Sandbox::new();
    let tables = "[privacy]\nepsilon = 2.0\nreleases = 3\n";
    sandbox.write("f.toml", &federation(8, 5, tables));
    let arms = "dp-fts-de,ts,placebo";
    let ran = sandbox.fedbo(&["run", "f.toml", "--arms", arms]);
    ran.expect(
        0,
        &[
            "This process sees every agent's vectors as they are",
            "mode central",
        ],
    );
    let not = ran
        .stderr
        .find("not promised: ")
        .expect("what is not promised");
    let promised = ran.stderr.find("\npromised: ").expect("what is promised");
    let first_round = ran
        .stderr
        .find("dp-fts-de: 8 agents")
        .expect("the first arm");
    assert!(not < promised && promised < first_round, "{}", ran.stderr);

    // The claim is complete wherever it stands, within the budget, and the ledger's.
    let spent = statement(&sandbox.path(LEDGER));
    let claim = spent.claim.to_string();
    assert!(claim.contains("(zero-out, delta = 1e-5, 3 rounds, accountant pld, mode default)"));
    assert!(
        ran.stdout.contains(&format!("spent: {claim}\n")),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.contains(&claim), "{}", ran.stderr);
    assert!(
        spent.claim.epsilon <= 2.0 && spent.claim.epsilon > 1.99,
        "{claim}"
    );
    assert_eq!(
        spent.charges.iter().map(|charge| charge.count).sum::<u64>(),
        3
    );
    let rounds: Vec<u64> = releases(&sandbox.path(LEDGER))
        .iter()
        .map(|r| r.0)
        .collect();
    assert_eq!(rounds, [0, 1, 2]);

    // Only the arm that releases something of somebody is charged.
    let summary = std::fs::read_to_string(sandbox.path("results/test/summary.json"));
    let summary: serde_json::Value =
        serde_json::from_str(&summary.expect("a summary")).expect("JSON");
    assert_eq!(summary["private"], true);
    let privacy = &summary["arms"][0]["privacy"];
    assert_eq!(privacy["epsilon"].as_f64(), Some(spent.claim.epsilon));
    assert_eq!(privacy["ledger_head"], spent.head.to_string());
    for (key, value) in [
        ("adjacency", "zero-out"),
        ("accountant", "pld"),
        ("mode", "default"),
    ] {
        assert_eq!(privacy[key], value);
    }
    assert_eq!(
        (&privacy["releases"], &privacy["planned_releases"]),
        (&3.into(), &3.into())
    );
    assert!(summary["arms"][1]["privacy"].is_null() && summary["arms"][2]["privacy"].is_null());

    // Every arm begins with the same points, and `ts` uses nothing but its own.
    let rows = sandbox.results("results/test");
    let of = |arm: &str, part: &str| -> Vec<String> {
        let prefix = format!("test,{arm},");
        let rows = rows.iter().filter_map(|row| row.strip_prefix(&prefix));
        rows.filter(|row| row.contains(part))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(of("dp-fts-de", ",initial,").len(), 16);
    for arm in ["ts", "placebo"] {
        assert_eq!(of("dp-fts-de", ",initial,"), of(arm, ",initial,"));
    }
    assert!(of("ts", ",region:").is_empty());
    assert!(!of("dp-fts-de", ",region:").is_empty() && !of("placebo", ",region:").is_empty());

    // The ledger and the pictures of the folder can be looked at.
    sandbox
        .fedbo(&["privacy", "verify", "results/test"])
        .expect(0, &[]);
    let ran = sandbox.fedbo(&["privacy", "statement", "results/test"]);
    assert!(ran.expect(0, &[]).stdout.contains(&claim));
    sandbox.fedbo(&["plot", "results/test"]).expect(0, &[]);

    // Noise that is charged has no seed; noise that protects nobody has.
    let first = rows.clone();
    sandbox
        .fedbo(&["run", "f.toml", "--arms", arms, "--out", "again"])
        .expect(0, &[]);
    let again = sandbox.results("again");
    let of_arm = |rows: &[String], arm: &str| -> Vec<String> {
        let prefix = format!("test,{arm},");
        rows.iter()
            .filter(|row| row.starts_with(&prefix))
            .cloned()
            .collect()
    };
    assert_ne!(of_arm(&first, "dp-fts-de"), of_arm(&again, "dp-fts-de"));
    for arm in ["ts", "placebo"] {
        assert_eq!(of_arm(&first, arm), of_arm(&again, arm));
    }
}

/// Initial points of agent n lie in region n mod P: here the quarters of a square.
#[test]
fn agents_begin_in_their_regions() {
    let sandbox = Sandbox::new();
    let run = |tables: &str| {
        let tables = format!("[privacy]\nepsilon = 2.0\nreleases = 1\n{tables}");
        sandbox.write("f.toml", &federation(8, 1, &tables));
        let arguments = ["run", "f.toml", "--quiet", "--overwrite", "--spend-again"];
        sandbox.fedbo(&arguments).expect(0, &[]);
        let rows = sandbox.results("results/test");
        let initial = rows.iter().filter(|row| row.contains(",initial,"));
        let placed = initial.map(|row| {
            let fields: Vec<&str> = row.split(',').collect();
            let agent: usize = fields[2][1..].parse().expect("a number");
            let number = |index: usize| fields[index].parse::<f64>().expect("a number");
            // branin's x1 from -5 to 10, x2 from 0 to 15
            let quarter = 2 * usize::from(number(6) >= 2.5) + usize::from(number(7) >= 7.5);
            (agent, quarter)
        });
        placed.collect::<Vec<_>>()
    };
    let regional = run("");
    assert_eq!(regional.len(), 16);
    assert!(
        regional
            .iter()
            .all(|(agent, quarter)| agent % 4 == *quarter),
        "{regional:?}"
    );
    let anywhere = run("[exploration]\nstart = \"anywhere\"");
    assert!(
        anywhere
            .iter()
            .any(|(agent, quarter)| agent % 4 != *quarter)
    );
    let one = run("[exploration]\nregions = 1");
    assert!(one.iter().any(|(agent, quarter)| agent % 4 != *quarter));
}

#[test]
fn a_budget_that_pays_for_some_releases_ends_them_early_and_one_that_pays_for_none_is_code_3() {
    let sandbox = Sandbox::new();
    let text = |epsilon: f64| {
        let tables =
            format!("[privacy]\nepsilon = {epsilon}\nnoise_multiplier = 2.0\nreleases = 6\n");
        federation(8, 7, &tables)
    };
    sandbox.write("f.toml", &text(4.0));
    let ran = sandbox.fedbo(&["run", "f.toml"]);
    ran.expect(
        0,
        &["warning: the budget of epsilon = 4 pays for 3 of 6 planned releases"],
    );
    let spent = statement(&sandbox.path(LEDGER));
    assert_eq!(spent.n_releases(), 3);
    assert!(spent.claim.epsilon <= 4.0);
    assert_eq!(spent.further(), Some(0));
    assert!(ran.stdout.contains("3 rounds"), "{}", ran.stdout);
    // The agents went on to the end.
    assert_eq!(sandbox.results("results/test").len(), 1 + 8 * 9);

    sandbox.write("f.toml", &text(0.5));
    let ran = sandbox.fedbo(&["run", "f.toml", "--out", "none"]);
    let parts = [
        "f.toml, line 13: privacy.epsilon = 0.5 does not pay for a single release with noise_multiplier = 2.0",
        "set epsilon to at least 1.994",
        "raise noise_multiplier, or remove it",
    ];
    ran.expect(3, &parts);
    assert!(!sandbox.path("none").exists());
    // Alone, nothing is released, and so nothing is to be paid.
    sandbox
        .fedbo(&["run", "f.toml", "--out", "none", "--arms", "ts"])
        .expect(0, &[]);
    assert!(!sandbox.path("none/ledger.db").exists());
}

#[test]
fn without_noise_the_word_never_appears() {
    let sandbox = Sandbox::new();
    sandbox.write("f.toml", &federation(8, 3, "[privacy]\nmode = \"off\"\n"));
    let arguments = ["run", "f.toml", "--arms", "fts-de,ts,placebo"];
    let ran = sandbox.fedbo(&arguments);
    ran.expect(0, &["fts-de: releases are exact averages"]);
    let mut all = ran.stdout + &ran.stderr;
    for name in ["summary.json", "settings.json", "results.csv", "curves.svg"] {
        let path = sandbox.path("results/test").join(name);
        all += &std::fs::read_to_string(path).expect("a file of the run");
    }
    assert!(
        !all.to_lowercase().contains("private") && !all.contains("epsilon ="),
        "{all}"
    );
    assert!(!all.contains("dp-fts-de,"), "{all}");
    assert!(!sandbox.path(LEDGER).exists());
    // Nothing in it is random but for the seed.
    let first = sandbox.results("results/test");
    sandbox
        .fedbo(&[&arguments[..], &["--overwrite"]].concat())
        .expect(0, &[]);
    assert_eq!(sandbox.results("results/test"), first);
    // What the file does not run is said.
    sandbox
        .fedbo(&["run", "f.toml", "--arms", "dp-fts-de"])
        .expect(
            2,
            &["arm dp-fts-de is none of this file's, which are fts-de, ts, placebo"],
        );
}

#[test]
fn a_simulation_promises_nothing_and_charges_nothing() {
    let sandbox = Sandbox::new();
    for mode in ["default", "paper"] {
        let tables = format!("[privacy]\nmode = \"{mode}\"\nepsilon = 2.0\nsimulate = true\n");
        sandbox.write("f.toml", &federation(8, 3, &tables));
        let ran = sandbox.fedbo(&["run", "f.toml", "--json", "--overwrite"]);
        ran.expect(
            0,
            &["simulation: the noise comes from the seed and protects nobody"],
        );
        let summary = json(&ran);
        assert_eq!(summary["private"], false);
        assert!(!ran.stdout.contains("epsilon") && !ran.stderr.contains("promised:"));
        assert!(!sandbox.path(LEDGER).exists());
        let first = sandbox.results("results/test");
        sandbox
            .fedbo(&["run", "f.toml", "--overwrite"])
            .expect(0, &[]);
        assert_eq!(sandbox.results("results/test"), first);
    }
}

#[test]
fn the_papers_mode_claims_the_papers_guarantee() {
    let sandbox = Sandbox::new();
    let tables = "[privacy]\nmode = \"paper\"\nepsilon = 10.0\nsampling_rate = 0.5\nnoise_multiplier = 1.5\n";
    sandbox.write("f.toml", &federation(8, 4, tables));
    let ran = sandbox.fedbo(&["run", "f.toml"]);
    // 8^-1.1 = 0.101532
    let parts = [
        "accountant moments, mode paper: the paper's guarantee",
        "delta = 0.101532",
    ];
    ran.expect(0, &parts);
    assert_eq!(statement(&sandbox.path(LEDGER)).n_releases(), 4);
}

#[test]
fn a_ledger_is_not_lost_by_overwriting_nor_mixed_with_other_results() {
    let sandbox = Sandbox::new();
    let tables = "[privacy]\nepsilon = 2.0\nreleases = 2\n";
    let text = federation(8, 2, tables);
    sandbox.write("f.toml", &text);
    sandbox.fedbo(&["run", "f.toml"]).expect(0, &[]);
    let before = releases(&sandbox.path(LEDGER));
    let refused = |file: &str, arguments: &[&str], parts: &[&str]| {
        sandbox
            .fedbo(&[&["run", file][..], arguments].concat())
            .expect(2, parts);
        assert_eq!(releases(&sandbox.path(LEDGER)), before);
        assert_eq!(sandbox.results("results/test").len(), 1 + 8 * 4);
    };
    let ways = [
        "ledger.db records what releases have cost",
        "--resume",
        "--spend-again",
    ];
    refused("f.toml", &["--overwrite"], &ways);
    refused("f.toml", &["--overwrite", "--arms", "ts"], &ways);
    refused("f.toml", &[], &["results of another run"]);
    refused("f.toml", &["--spend-again"], &["--overwrite"]);
    // Another budget, or any other change of what is public, is another study.
    for (from, to) in [
        ("epsilon = 2.0", "epsilon = 3.0"),
        ("\"a7\"", "\"b7\""),
        ("count = 20", "count = 21"),
    ] {
        sandbox.write("g.toml", &text.replace(from, to));
        refused("g.toml", &["--resume"], &["cannot go on from results/test"]);
    }
    // A ledger without results is no free folder either.
    let aside = sandbox.path("aside.csv");
    std::fs::rename(sandbox.path("results/test/results.csv"), &aside).expect("results");
    sandbox.fedbo(&["run", "f.toml"]).expect(2, &ways);
    sandbox.write("g.toml", &text.replace("epsilon = 2.0", "epsilon = 3.0"));
    let parts = [
        "the ledger is of another study",
        "budget.epsilon = 3.0 here, 2.0 in the ledger",
    ];
    sandbox
        .fedbo(&["run", "g.toml", "--resume"])
        .expect(2, &parts);
    // Results that are lost are made again from what was released: nothing is charged.
    sandbox
        .fedbo(&["run", "f.toml", "--resume"])
        .expect(0, &["spent before: "]);
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
    sandbox
        .fedbo(&["privacy", "verify", "results/test/ledger-1.db"])
        .expect(0, &[]);
}

/// The results and the head beside it tell on a ledger that is older than they are.
#[test]
fn a_ledger_that_was_set_back_or_lost_is_noticed() {
    let sandbox = Sandbox::new();
    let tables = "[privacy]\nepsilon = 2.0\nreleases = 20\n";
    sandbox.write("f.toml", &federation(8, 20, tables));
    let (path, head) = (
        sandbox.path(LEDGER),
        sandbox.path("results/test/ledger.head"),
    );
    let mut child = sandbox.start(&["run", "f.toml"]);
    wait_until(|| releases(&path).len() >= 2);
    interrupt(&child, Signal::KILL);
    finished_code(&mut child);
    let files = ["ledger.db", "ledger.db-wal"].map(|name| sandbox.path("results/test").join(name));
    let old = files
        .clone()
        .map(|path| std::fs::read(path).unwrap_or_default());
    let n_old = releases(&path).len();
    let resume = ["run", "f.toml", "--resume"];
    sandbox.fedbo(&resume).expect(0, &[]);
    let whole = std::fs::read(&path).expect("a ledger");
    let noted = std::fs::read_to_string(&head).expect("a head");
    assert!(n_old < releases(&path).len());

    // Lost, with the head and without.
    std::fs::remove_file(&path).expect("a ledger");
    sandbox
        .fedbo(&resume)
        .expect(2, &["there is no such ledger"]);
    std::fs::remove_file(&head).expect("a head");
    sandbox
        .fedbo(&resume)
        .expect(2, &["there is no such ledger"]);
    assert!(!path.exists());
    // An older state, restored from a disk: the results know better even without the head.
    for (path, bytes) in files.iter().zip(&old) {
        std::fs::write(path, bytes).expect("writable");
    }
    let parts = [
        format!("ledger.db holds {n_old} releases, and the results beside it rest on 20"),
        "put back the ledger of these results".to_owned(),
    ];
    sandbox
        .fedbo(&resume)
        .expect(2, &parts.each_ref().map(String::as_str));
    std::fs::write(&head, &noted).expect("writable");
    sandbox
        .fedbo(&resume)
        .expect(2, &parts.each_ref().map(String::as_str));
    assert_eq!(releases(&path).len(), n_old, "nothing was released anew");
    // As it was.
    for path in &files {
        let _ = std::fs::remove_file(path);
    }
    std::fs::write(&path, &whole).expect("writable");
    sandbox.fedbo(&resume).expect(0, &["spent before: "]);
}

/// Twenty kills at random points: what was released is charged, stays the same byte for byte, and is never released twice.
#[test]
fn kill_nine() {
    const N_AGENTS: usize = 8;
    const N_ROUNDS: u64 = 30;
    let sandbox = Sandbox::new();
    let tables = format!("[privacy]\nepsilon = 2.0\nreleases = {N_ROUNDS}\n");
    sandbox.write("f.toml", &federation(N_AGENTS, N_ROUNDS, &tables));
    let (ledger, head) = (
        sandbox.path(LEDGER),
        sandbox.path("results/test/ledger.head"),
    );
    let n_released = || {
        let text = std::fs::read_to_string(&head).unwrap_or_default();
        text.parse::<Head>().map_or(0, |head| head.seq)
    };
    let mut kept: Vec<(u64, Vec<u8>)> = Vec::new();
    let (mut moment, mut n_midway) = (11_u64, 0);
    for kill in 0..20_u64 {
        let mut child = sandbox.start(&["run", "f.toml", "--resume", "--threads", "2", "--quiet"]);
        // Spread over the whole course: some come before anything was done, the others around a release.
        if kill % 4 != 0 {
            let target = kill * N_ROUNDS / 20;
            wait_until(|| n_released() >= target || child.try_wait().expect("a child").is_some());
        }
        moment = moment
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        std::thread::sleep(Duration::from_micros((moment >> 33) % 30_000));
        if child.try_wait().expect("a child").is_none() {
            interrupt(&child, Signal::KILL);
        }
        finished_code(&mut child);

        let noted = n_released();
        let found = releases(&ledger);
        assert!(found.len() as u64 >= noted, "what has left is charged"); // INV-1
        assert_eq!(
            found[..kept.len()],
            kept,
            "what was released is released for ever"
        ); // INV-2
        for (index, (round, _)) in found.iter().enumerate() {
            assert_eq!(*round, index as u64, "each round once");
        }
        if ledger.exists() {
            let text = std::fs::read_to_string(&head).ok();
            let known = text.map(|text| text.parse::<Head>().expect("a whole head"));
            let report = fedbo_ledger::verify(&ledger, known.as_ref()).expect("a ledger");
            assert_eq!(report.problems, []);
            let charged = statement(&ledger)
                .charges
                .iter()
                .map(|c| c.count)
                .sum::<u64>();
            assert_eq!(charged, found.len() as u64);
        }
        n_midway += u64::from((1..N_ROUNDS).contains(&(found.len() as u64)));
        kept = found;
    }
    assert!(n_midway >= 10, "{n_midway} kills were midway");

    sandbox.fedbo(&["run", "f.toml", "--resume"]).expect(0, &[]);
    let found = releases(&ledger);
    assert_eq!(found.len() as u64, N_ROUNDS);
    assert_eq!(found[..kept.len()], kept);
    let spent = statement(&ledger);
    assert!(spent.claim.epsilon <= 2.0 && spent.n_releases() == N_ROUNDS);
    let rows = sandbox.results("results/test");
    assert_eq!(rows.len(), 1 + N_AGENTS * (2 + N_ROUNDS as usize));
    assert!(rows[1..].iter().all(|row| row.ends_with(",ok")));
    // Whole, it has nothing left to do or to charge.
    sandbox
        .fedbo(&["run", "f.toml", "--resume"])
        .expect(0, &["spent before: "]);
    assert_eq!(sandbox.results("results/test"), rows);
    assert_eq!(releases(&ledger), found);
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
        let summary = json(ran.expect(130, &["go on with: fedbo run f.toml --resume"]));
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

#[test]
fn nothing_shown_depends_on_the_sample_or_on_what_was_clipped() {
    // Every objective is constant and every agent trusts its own model alone, so that all that is shown is the same in every
    // run unless it tells of coins, norms or clips.
    let run = |max_norm: &str| {
        let sandbox = Sandbox::new();
        let tables = format!(
            "[dp-fts-de]\nlocal_prob = 1.0\nstandardize = false\n[privacy]\nepsilon = 2.0\nsampling_rate = 0.5\n\
             max_norm = {max_norm}\n"
        );
        sandbox.write("f.toml", &constant(&tables, 16));
        let ran = sandbox.fedbo(&["run", "f.toml", "--threads", "1"]);
        ran.expect(0, &[]);
        let sizes = ["results.csv", "ledger.db", "summary.json"].map(|name| {
            // Seconds have more digits or fewer.
            let size = std::fs::metadata(sandbox.path("results/test").join(name))
                .expect("a file")
                .len();
            if name == "ledger.db" { size } else { 0 }
        });
        let queries = sandbox.results("results/test").join("\n");
        (
            timeless(&shown(&sandbox, &ran)).replace(max_norm, "S"),
            queries,
            sizes,
        )
    };
    let first = run("1.25");
    assert!(
        first.0.contains("spent: epsilon") && first.0.len() > 2000,
        "{}",
        first.0
    );
    for max_norm in ["1.25", "1.25", "1.25", "1280.0"] {
        let (shown, queries, sizes) = run(max_norm);
        // Under another S the noise stays relative to it.
        let shown = shown.replace("1280", "S");
        assert_eq!(shown, first.0.replace("1.25", "S"));
        assert_eq!((queries, sizes), (first.1.clone(), first.2));
    }
}

/// Without what no two runs share: seconds, and the hash of the ledger.
fn timeless(text: &str) -> String {
    let mut kept = String::new();
    for line in text.lines() {
        let is_time =
            line.contains("_seconds") || line.contains("s/query") || line.contains("0/112");
        if is_time || line.contains("round ") {
            continue;
        }
        kept += &without_hashes(line);
        kept.push('\n');
    }
    kept
}

fn without_hashes(line: &str) -> String {
    let words = line.split_inclusive(|c: char| !c.is_ascii_hexdigit());
    words.filter(|word| word.len() < 64).collect()
}

/// Agents with constant objectives over the unit square.
fn constant(tables: &str, n_agents: usize) -> String {
    let mut text = format!(
        "[federation]\nname = \"test\"\nalgorithm = \"dp-fts-de\"\nrounds = 5\ninitial = 2\nseed = 3\n[features]\n\
         count = 16\nlengthscale = 0.3\n{tables}\n"
    );
    for name in ["x", "y"] {
        text += &format!("[space.{name}]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n");
    }
    for index in 0..n_agents {
        let value = canary(index);
        text += &format!("[[agents]]\nname = \"a{index}\"\ncommand = [\"echo\", \"{value:?}\"]\n");
    }
    text
}

/// The value that an agent's objective always has.
fn canary(agent: usize) -> f64 {
    0.731_946_285_307_1 + 0.013_579_246_801_3 * agent as f64
}

/// The vectors that agents hand to the coordinator in the rounds that release: computed here once more from the trials in
/// `results.csv`. By round, then by agent.
fn vectors(sandbox: &Sandbox, n_agents: usize, n_rounds: i64) -> Vec<Vec<Vec<f64>>> {
    let description = FeatureDescription {
        n_features: 16,
        dim: 2,
        family: Family::SquaredExponential,
        lengthscale: LengthscaleLaw::Fixed(0.3),
        sampling: FeatureSampling::Random,
    };
    let mut stream = Seed::new(3).stream(Purpose::SharedFeatures, 0, 0);
    let map = FeatureMap::draw(&description, &mut stream).expect("features");
    let rows = sandbox.results("results/test");
    let of = |agent: usize, until: i64| {
        let (mut inputs, mut outputs) = (Points::new(2), Vec::new());
        for row in &rows[1..] {
            let fields: Vec<&str> = row.split(',').collect();
            let iteration: i64 = fields[4].parse().expect("a number");
            if fields[2] == format!("a{agent}") && iteration <= until {
                let number = |index: usize| fields[index].parse::<f64>().expect("a number");
                inputs.push(&[number(6), number(7)]);
                outputs.push(number(8));
            }
        }
        let posterior = WeightPosterior::new(&map, 0.01, &inputs, &outputs).expect("a posterior");
        posterior.mean().to_vec()
    };
    let rounds = 0..n_rounds;
    rounds
        .map(|round| (0..n_agents).map(|agent| of(agent, round)).collect())
        .collect()
}

const CANARIES: &str = "[exploration]\nregions = 1\n[dp-fts-de]\nlocal_prob = 1.0\nstandardize = false\nmessage_noise = 0.01\n";

/// The vectors that [`vectors`] computes are those that were released: with hardly any noise their sum is.
#[test]
fn the_canaries_are_the_vectors_that_agents_send() {
    let sandbox = Sandbox::new();
    let privacy =
        "[privacy]\nepsilon = 1e7\nnoise_multiplier = 0.001\nreleases = 2\nmax_norm = 4.0\n";
    sandbox.write("f.toml", &constant(&(CANARIES.to_owned() + privacy), 2));
    let ran = sandbox.fedbo(&["run", "f.toml"]);
    ran.expect(0, &["warning: epsilon = ", "protects hardly anybody"]);
    let expected = vectors(&sandbox, 2, 2);
    for ((_, bytes), vectors) in releases(&sandbox.path(LEDGER)).iter().zip(&expected) {
        let release = Release::<Secure>::from_bytes(bytes).expect("a release");
        for (index, value) in release.values(0).iter().enumerate() {
            let sum = vectors[0][index] + vectors[1][index];
            assert!(
                sum.abs() > 1e-6 && (value - sum).abs() < 6.0 * 0.001 * 4.0,
                "{value} {sum}"
            );
        }
        assert!(
            vectors.iter().all(|vector| norm(vector) < 4.0),
            "nothing was clipped"
        );
    }
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

const N_DIGITS: usize = 10;

/// Ten digits of a number, as they stand in any decimal form of it with so many.
fn digits(number: f64) -> String {
    let text = format!("{:.17e}", number.abs());
    text.chars()
        .filter(char::is_ascii_digit)
        .take(N_DIGITS)
        .collect()
}

/// What gives vectors away: digits of coordinates and norms, floats, and multiples of the lattice's spacing; unclipped or
/// clipped.
struct Canaries {
    digits: BTreeSet<String>,
    bytes: BTreeSet<[u8; 8]>,
}

impl Canaries {
    fn of(vectors: &[Vec<f64>], bound: f64, spacing: f64) -> Self {
        let (mut all, mut bytes) = (BTreeSet::new(), BTreeSet::new());
        for vector in vectors {
            let norm = norm(vector);
            let clipped = vector.iter().map(|x| x * (bound / norm).min(1.0));
            let numbers = vector.iter().copied().chain(clipped).chain([norm]);
            for number in numbers.filter(|number| number.abs() > 1e-9) {
                all.insert(digits(number));
                let lattice = (number / spacing).trunc() as i64;
                bytes.extend([number.to_le_bytes(), number.to_be_bytes()]);
                bytes.extend([lattice, lattice - lattice.signum()].map(i64::to_le_bytes));
            }
        }
        Self { digits: all, bytes }
    }

    /// The first of them in an output.
    fn found(&self, output: &[u8]) -> Option<String> {
        let text: String = String::from_utf8_lossy(output)
            .chars()
            .filter(|c| *c != '.')
            .map(|c| if c.is_ascii() { c } else { '?' })
            .collect();
        let in_text = |at: usize| {
            text.get(at..at + N_DIGITS)
                .filter(|part| self.digits.contains(*part))
        };
        let shown = (0..text.len()).find_map(in_text).map(str::to_owned);
        shown.or_else(|| {
            let mut windows = output
                .windows(8)
                .filter(|w| <[u8; 8]>::try_from(*w).is_ok_and(|w| self.bytes.contains(&w)));
            windows.next().map(|window| format!("{window:?}"))
        })
    }
}

/// No coordinate, norm or clipped coordinate of any vector is in any output (INV-4).
#[test]
fn canary_grep() {
    const N_AGENTS: usize = 6;
    let sandbox = Sandbox::new();
    let privacy = "[privacy]\nepsilon = 2.0\nsampling_rate = 0.5\nreleases = 2\nmax_norm = 0.5\n";
    sandbox.write(
        "f.toml",
        &constant(&(CANARIES.to_owned() + privacy), N_AGENTS),
    );
    let ran = sandbox.fedbo(&["run", "f.toml"]);
    ran.expect(0, &[]);
    let vectors: Vec<Vec<f64>> = vectors(&sandbox, N_AGENTS, 2)
        .into_iter()
        .flatten()
        .collect();
    let (_, bytes) = &releases(&sandbox.path(LEDGER))[0];
    let spacing = Release::<Secure>::from_bytes(bytes)
        .expect("a release")
        .spacing();
    let canaries = Canaries::of(&vectors, 0.5, spacing);
    let look = |bytes: &[u8]| canaries.found(bytes);
    for entry in std::fs::read_dir(sandbox.path("results/test")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a file");
        assert_eq!(look(&bytes), None, "in {}", path.display());
    }
    assert_eq!(look(ran.stdout.as_bytes()), None);
    assert_eq!(look(ran.stderr.as_bytes()), None);

    // So it can fail: whatever of a vector is hidden in such an output is found.
    let vector = &vectors[3];
    let clipped = vector[2] * 0.5 / norm(vector);
    let lattice = ((clipped / spacing).trunc() as i64).to_le_bytes();
    for text in [
        format!("debug: {vector:?}"),
        format!("clipped to {clipped:.12}"),
        format!("norm {:e}", norm(vector)),
    ] {
        assert!(look(text.as_bytes()).is_some(), "{text}");
    }
    for bytes in [
        vector[0].to_le_bytes(),
        vector[15].to_be_bytes(),
        clipped.to_le_bytes(),
        lattice,
    ] {
        let hidden = [&b"SQLite format 3"[..], &bytes, b"tail"].concat();
        assert!(look(&hidden).is_some());
    }
}

#[test]
fn what_cannot_be_promised_is_refused_with_the_key_and_the_way_out() {
    let sandbox = Sandbox::new();
    let text = federation(8, 5, "[privacy]\nepsilon = 2.0\n");
    let refused = |tables: &str, part: &str| {
        sandbox.write("f.toml", &federation(8, 5, tables));
        let ran = sandbox.fedbo(&["run", "f.toml"]);
        ran.expect(2, &["error: f.toml", part]);
        assert!(!sandbox.path("results").exists());
    };
    let privacy =
        |key: &str, part: &str| refused(&format!("[privacy]\nepsilon = 2.0\n{key}\n"), part);
    refused(
        "",
        "privacy.epsilon is missing; add epsilon = .., what all releases together may spend",
    );
    refused(
        "[privacy]\nepsilon = 0",
        "privacy.epsilon = 0, expected a finite number above 0",
    );
    refused(
        "[privacy]\nepsilon = inf",
        "privacy.epsilon = inf, expected a finite number",
    );
    refused(
        "[privacy]\nepsilon = 1e-9",
        "privacy.epsilon = 1e-9, expected a larger budget",
    );
    privacy(
        "epsilom = 1",
        "unknown key privacy.epsilom; did you mean epsilon?",
    );
    privacy(
        "mode = \"private\"",
        "privacy.mode = \"private\", expected \"default\", \"paper\" or \"off\"",
    );
    privacy(
        "delta = 1e-3",
        "privacy.delta = 1e-3, expected above 0 and at most 1e-5",
    );
    privacy("delta = 0.0", "privacy.delta = 0.0, expected above 0");
    privacy(
        "sampling_rate = 1.5",
        "privacy.sampling_rate = 1.5, expected above 0 and at most 1",
    );
    privacy(
        "noise_multiplier = 0",
        "privacy.noise_multiplier = 0, expected a finite number above 0",
    );
    privacy(
        "noise_multiplier = 1e9",
        "[privacy] noise_multiplier = 1000000000: it must be within",
    );
    privacy(
        "max_norm = -1",
        "[privacy] max_norm = -1: max_norm / sqrt(n_regions) must be within",
    );
    privacy(
        "releases = 6",
        "privacy.releases = 6, expected a whole number from 1 to 5",
    );
    privacy(
        "releases = 3\nevery = 3",
        "privacy.releases = 3, expected a whole number from 1 to 2",
    );
    privacy(
        "every = 0",
        "privacy.every = 0, expected a whole number of rounds, at least 1",
    );
    privacy(
        "accountant = \"fixed-size\"",
        "privacy.accountant = \"fixed-size\", expected \"pld\", \"renyi\" or \"moments\"",
    );
    privacy(
        "mode = \"off\"",
        "privacy.epsilon has no effect with mode = \"off\"",
    );
    let with =
        |tables: &str, part: &str| refused(&format!("[privacy]\nepsilon = 2.0\n{tables}\n"), part);
    with(
        "[exploration]\nregions = 9",
        "exploration.regions = 9, expected a whole number from 1 to 8",
    );
    with(
        "[exploration]\nstart = \"here\"",
        "exploration.start = \"here\", expected \"region\" or \"anywhere\"",
    );
    with(
        "[exploration]\nweights = \"uniform\"\nweight_hold = 3",
        "exploration.weight_hold has no effect",
    );
    with(
        "[exploration]\nweight_hold = \"ever\"",
        "exploration.weight_hold = \"ever\", expected a whole number of rounds",
    );
    with(
        "[exploration]\nweight_hold = 1.5",
        "exploration.weight_hold = 1.5, expected a whole number of rounds",
    );
    with(
        "[exploration]\nweight_start = 0.5",
        "exploration.weight_start = 0.5, expected a number of at least 1",
    );
    with(
        "[exploration]\nweight_hold = \"forever\"\nweight_decay = 3",
        "exploration.weight_decay has no effect",
    );
    with(
        "[dp-fts-de]\nlocal_prob = \"1-1/t^2\"",
        "dp-fts-de.local_prob = \"1-1/t^2\", expected \"1-1/t\"",
    );
    with(
        "[dp-fts-de]\nlocal_prob = 1.5",
        "dp-fts-de.local_prob = 1.5, expected a probability",
    );
    with(
        "[dp-fts-de]\nmessage = \"median\"",
        "dp-fts-de.message = \"median\", expected \"mean\" or \"sample\"",
    );
    with(
        "[dp-fts-de]\nmemory = \"latest\"\ndiscount = 0.5",
        "dp-fts-de.discount has no effect",
    );
    with(
        "[dp-fts-de]\ndiscount = 0.0",
        "dp-fts-de.discount = 0.0, expected a number above 0",
    );
    with(
        "[dp-fts-de]\ntrust = \"me\"",
        "dp-fts-de.trust = \"me\", expected \"schedule\" or \"signal\"",
    );
    with(
        "[dp-fts-de]\nmessage_noise = 0",
        "dp-fts-de.message_noise = 0, expected",
    );
    with(
        "[fts]\nlocal_prob = 0.5",
        "[fts] has no effect unless federation.algorithm is \"fts\" or \"ts\"",
    );
    // A [privacy] that would protect nobody is no file to run.
    for algorithm in ["fts", "ts"] {
        let other = text.replace("\"dp-fts-de\"", &format!("{algorithm:?}"));
        sandbox.write("f.toml", &other);
        let part = "[privacy] has no effect unless federation.algorithm is \"dp-fts-de\"";
        sandbox
            .fedbo(&["run", "f.toml"])
            .expect(2, &["f.toml, line 12", part]);
    }
    // Regions that hold no point of the space.
    let narrow = constant("[privacy]\nepsilon = 2.0\n[exploration]\nregions = 8\n", 8).replace(
        "type = \"float\"\nlow = 0.0\nhigh = 1.0",
        "type = \"int\"\nlow = 0\nhigh = 1",
    );
    sandbox.write("f.toml", &narrow);
    sandbox.fedbo(&["run", "f.toml"]).expect(
        2,
        &["exploration.regions = 8: the space cannot be cut into 8 regions"],
    );
}

#[test]
fn the_example_runs() {
    let sandbox = Sandbox::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/private.toml");
    let ran = sandbox.fedbo(&["run", file, "--out", "example", "--json"]);
    let summary = json(ran.expect(0, &["not promised: ", "promised: "]));
    assert_eq!(summary["private"], true);
    assert!(
        summary["arms"][0]["privacy"]["epsilon"]
            .as_f64()
            .is_some_and(|epsilon| epsilon <= 4.0)
    );
    assert_eq!(summary["arms"][0]["failed_trials"], 0);
    sandbox
        .fedbo(&["privacy", "verify", "example"])
        .expect(0, &[]);
}

//! Statements and charges of a run in each mode.

use crate::common::{Sandbox, json};
use crate::private_run::federations::{LEDGER, constant, federation, releases, statement};

#[test]
fn a_run_says_first_what_it_does_not_promise_and_charges_what_it_releases() {
    let sandbox = Sandbox::new();
    let tables = "[privacy]\nepsilon = 2.0\nreleases = 3\n";
    sandbox.write("f.toml", &federation(8, 5, tables));
    let arms = "dp-fts-de,ts,placebo";
    let ran = sandbox.fedbo(&["run", "f.toml", "--arms", arms]);
    ran.expect(0, &["This process sees every agent's vectors as they are", "mode central"]);
    let not = ran.stderr.find("not promised: ").expect("what is not promised");
    let promised = ran.stderr.find("\npromised: ").expect("what is promised");
    let first_round = ran.stderr.find("dp-fts-de: 8 agents").expect("the first arm");
    assert!(not < promised && promised < first_round, "{}", ran.stderr);

    // The claim is always complete, within the budget, and equal to that of the ledger.
    let spent = statement(&sandbox.path(LEDGER));
    let claim = spent.claim.to_string();
    assert!(claim.contains("(zero-out, delta = 1e-5, 3 rounds, accountant pld, mode default)"));
    assert!(ran.stdout.contains(&format!("spent: {claim}\n")), "{}", ran.stdout);
    assert!(ran.stderr.contains(&claim), "{}", ran.stderr);
    assert!(spent.claim.epsilon <= 2.0 && spent.claim.epsilon > 1.99, "{claim}");
    assert_eq!(spent.charges.iter().map(|charge| charge.count).sum::<u64>(), 3);
    let rounds: Vec<u64> = releases(&sandbox.path(LEDGER)).iter().map(|r| r.0).collect();
    assert_eq!(rounds, [0, 1, 2]);

    // Only the arm that releases agents' data is charged.
    let summary = std::fs::read_to_string(sandbox.path("results/test/summary.json"));
    let summary: serde_json::Value =
        serde_json::from_str(&summary.expect("a summary")).expect("JSON");
    assert_eq!(summary["private"], true);
    let privacy = &summary["arms"][0]["privacy"];
    assert_eq!(privacy["epsilon"].as_f64(), Some(spent.claim.epsilon));
    assert_eq!(privacy["ledger_head"], spent.head.to_string());
    for (key, value) in [("adjacency", "zero-out"), ("accountant", "pld"), ("mode", "default")] {
        assert_eq!(privacy[key], value);
    }
    assert_eq!((&privacy["releases"], &privacy["planned_releases"]), (&3.into(), &3.into()));
    assert!(summary["arms"][1]["privacy"].is_null() && summary["arms"][2]["privacy"].is_null());

    // Every arm starts with the same points, and `ts` uses only its own observations.
    let rows = sandbox.results("results/test");
    let of = |arm: &str, part: &str| -> Vec<String> {
        let prefix = format!("test,{arm},");
        let rows = rows.iter().filter_map(|row| row.strip_prefix(&prefix));
        rows.filter(|row| row.contains(part)).map(str::to_owned).collect()
    };
    assert_eq!(of("dp-fts-de", ",initial,").len(), 16);
    for arm in ["ts", "placebo"] {
        assert_eq!(of("dp-fts-de", ",initial,"), of(arm, ",initial,"));
    }
    assert!(of("ts", ",region:").is_empty());
    assert!(!of("dp-fts-de", ",region:").is_empty() && !of("placebo", ",region:").is_empty());

    // The ledger and the pictures of the folder can be inspected.
    sandbox.fedbo(&["privacy", "verify", "results/test"]).expect(0, &[]);
    let ran = sandbox.fedbo(&["privacy", "statement", "results/test"]);
    assert!(ran.expect(0, &[]).stdout.contains(&claim));
    sandbox.fedbo(&["plot", "results/test"]).expect(0, &[]);

    // Charged noise has no seed, whereas noise without protection has one.
    let first = rows.clone();
    sandbox.fedbo(&["run", "f.toml", "--arms", arms, "--out", "again"]).expect(0, &[]);
    let again = sandbox.results("again");
    let of_arm = |rows: &[String], arm: &str| -> Vec<String> {
        let prefix = format!("test,{arm},");
        rows.iter().filter(|row| row.starts_with(&prefix)).cloned().collect()
    };
    assert_ne!(of_arm(&first, "dp-fts-de"), of_arm(&again, "dp-fts-de"));
    for arm in ["ts", "placebo"] {
        assert_eq!(of_arm(&first, arm), of_arm(&again, arm));
    }
}

/// There is one note if a norm clips most samples, and one if there are too few features. There is
/// no note if neither matters: for vectors that are means, the default norm, and agents alone.
#[test]
fn settings_that_cannot_work_well_are_noted() {
    let sandbox = Sandbox::new();
    let noted = |lengthscale: &str, tables: &str, arms: &str| -> (bool, bool) {
        let tables = format!("[privacy]\nepsilon = 2.0\nsimulate = true\n{tables}");
        let text = federation(8, 1, &tables);
        let text = text.replace("lengthscale = 0.3", &format!("lengthscale = {lengthscale}"));
        sandbox.write("f.toml", &text);
        let ran = sandbox.fedbo(&["run", "f.toml", "--overwrite", "--arms", arms]);
        let notes = &ran.expect(0, &[]).stderr;
        (
            notes
                .contains("note: privacy.max_norm 1 clips 100 % of weight samples (M = 20, P = 4,"),
            notes.contains("note: features.count 20 is too few for features.lengthscale"),
        )
    };
    let (own, draws) = ("dp-fts-de", "[dp-fts-de]\nmessage = \"sample\"\n");
    assert_eq!(noted("0.3", &format!("max_norm = 1.0\n{draws}"), own), (true, false));
    assert_eq!(noted("0.01", &format!("max_norm = 1.0\n{draws}"), own), (true, true));
    assert_eq!(noted("0.01", draws, own), (false, true));
    assert_eq!(noted("0.3", "max_norm = 1.0\n", own), (false, false));
    assert_eq!(noted("0.3", "", own), (false, false));
    assert_eq!(noted("0.01", &format!("max_norm = 1.0\n{draws}"), "ts"), (false, false));
}

/// Initial points of agent n are in region n mod P. The regions are the quarters of a square.
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
            // Branin's x1 ranges from -5 to 10, and x2 from 0 to 15.
            let quarter = 2 * usize::from(number(6) >= 2.5) + usize::from(number(7) >= 7.5);
            (agent, quarter)
        });
        placed.collect::<Vec<_>>()
    };
    let regional = run("");
    assert_eq!(regional.len(), 16);
    assert!(regional.iter().all(|(agent, quarter)| agent % 4 == *quarter), "{regional:?}");
    let anywhere = run("[exploration]\nstart = \"anywhere\"");
    assert!(anywhere.iter().any(|(agent, quarter)| agent % 4 != *quarter));
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
    ran.expect(0, &["warning: the budget of epsilon = 4 pays for 3 of 6 planned releases"]);
    let spent = statement(&sandbox.path(LEDGER));
    assert_eq!(spent.n_releases(), 3);
    assert!(spent.claim.epsilon <= 4.0);
    assert_eq!(spent.further(), Some(0));
    assert!(ran.stdout.contains("3 rounds"), "{}", ran.stdout);
    // The agents continued to the end.
    assert_eq!(sandbox.results("results/test").len(), 1 + 8 * 9);

    sandbox.write("f.toml", &text(0.5));
    let ran = sandbox.fedbo(&["run", "f.toml", "--out", "none"]);
    let parts = [
        "f.toml, line 13: privacy.epsilon = 0.5 does not cover a single release with noise_multiplier = 2.0",
        "set epsilon to at least 1.994",
        "raise noise_multiplier, or remove it",
    ];
    ran.expect(3, &parts);
    assert!(!sandbox.path("none").exists());
    // Agents alone make no releases, so nothing is charged.
    sandbox.fedbo(&["run", "f.toml", "--out", "none", "--arms", "ts"]).expect(0, &[]);
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
    assert!(!all.to_lowercase().contains("private") && !all.contains("epsilon ="), "{all}");
    assert!(!all.contains("dp-fts-de,"), "{all}");
    assert!(!sandbox.path(LEDGER).exists());
    // All randomness depends only on the seed.
    let first = sandbox.results("results/test");
    sandbox.fedbo(&[&arguments[..], &["--overwrite"]].concat()).expect(0, &[]);
    assert_eq!(sandbox.results("results/test"), first);
    // An arm that the file does not have is an error.
    sandbox.fedbo(&["run", "f.toml", "--arms", "dp-fts-de"]).expect(
        2,
        &["arm dp-fts-de is not an arm of this file, which has fts-de, log-ei, ts, placebo"],
    );
}

#[test]
fn a_simulation_promises_nothing_and_charges_nothing() {
    let sandbox = Sandbox::new();
    for mode in ["default", "paper"] {
        let tables = format!("[privacy]\nmode = \"{mode}\"\nepsilon = 2.0\nsimulate = true\n");
        sandbox.write("f.toml", &federation(8, 3, &tables));
        let ran = sandbox.fedbo(&["run", "f.toml", "--json", "--overwrite"]);
        ran.expect(0, &["simulation: the noise comes from the seed and protects nobody"]);
        let summary = json(&ran);
        assert_eq!(summary["private"], false);
        assert!(!ran.stdout.contains("epsilon") && !ran.stderr.contains("promised:"));
        assert!(!sandbox.path(LEDGER).exists());
        let first = sandbox.results("results/test");
        sandbox.fedbo(&["run", "f.toml", "--overwrite"]).expect(0, &[]);
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
    let parts = ["accountant moments, mode paper: the paper's guarantee", "delta = 0.101532"];
    ran.expect(0, &parts);
    assert_eq!(statement(&sandbox.path(LEDGER)).n_releases(), 4);
}

#[test]
fn the_example_runs() {
    let sandbox = Sandbox::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/private.toml");
    let ran = sandbox.fedbo(&["run", file, "--out", "example", "--json"]);
    let summary = json(ran.expect(0, &["not promised: ", "promised: "]));
    assert_eq!(summary["private"], true);
    assert!(
        summary["arms"][0]["privacy"]["epsilon"].as_f64().is_some_and(|epsilon| epsilon <= 4.0)
    );
    assert_eq!(summary["arms"][0]["failed_trials"], 0);
    sandbox.fedbo(&["privacy", "verify", "example"]).expect(0, &[]);
}

/// With a placebo, agents that follow only releases make the same queries, regardless of their
/// objectives.
#[test]
fn a_placebo_holds_nothing_of_anybody() {
    let sandbox = Sandbox::new();
    let tables = "[dp-fts-de]\nlocal_prob = 0.0\nstandardize = false\n[privacy]\nepsilon = 8.0\nsimulate = true\n";
    let text = constant(tables, 8);
    let queries = |text: &str, arm: &str| -> Vec<String> {
        sandbox.write("f.toml", text);
        let arguments = ["run", "f.toml", "--quiet", "--overwrite", "--arms", arm];
        sandbox.fedbo(&arguments).expect(0, &[]);
        let rows = sandbox.results("results/test");
        let without_value = |row: &String| row.split(',').take(8).collect::<Vec<_>>().join(",");
        rows.iter().skip(1).map(without_value).collect()
    };
    let other = text.replace("\"0.", "\"-9.");
    assert_ne!(text, other);
    assert_eq!(queries(&text, "placebo"), queries(&other, "placebo"));
    assert!(queries(&text, "placebo").iter().any(|row| row.contains(",region:")));
    // Check that the test can fail: with real messages, agents make different queries.
    assert_ne!(queries(&text, "dp-fts-de"), queries(&other, "dp-fts-de"));
}

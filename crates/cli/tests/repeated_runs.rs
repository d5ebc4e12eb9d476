//! `fedbo run --runs N --seed S`: repetitions paired across arms, their results, and their
//! continuation.

use crate::common;
use std::time::Duration;

use common::{PARABOLA, Sandbox, federation, finished, interrupt, wait_until};

/// Returns the rows of an arm in a run.
fn of<'a>(rows: &'a [String], arm: &str, run: u32) -> Vec<&'a str> {
    let is_its = |row: &&String| {
        let fields: Vec<&str> = row.split(',').collect();
        fields[1] == arm && fields[3] == run.to_string()
    };
    rows.iter().filter(is_its).map(String::as_str).collect()
}

/// Returns the queries and their results, without the names of arm and run.
fn without_names(rows: &[&str]) -> Vec<String> {
    let fields = rows.iter().map(|row| row.split(',').collect::<Vec<_>>());
    fields.map(|row| [&row[2..3], &row[4..]].concat().join(",")).collect()
}

fn branin(seed: &str) -> String {
    let agent = |name: &str| {
        format!("[[agents]]\nname = \"{name}\"\nproblem = \"branin\"\nnoise_std = 0.1\n")
    };
    format!(
        "[federation]\nname = \"test\"\ndirection = \"minimize\"\nalgorithm = \"fts\"\nrounds = 4\nnoisy = true\n{seed}\n{}{}",
        agent("a"),
        agent("b")
    )
}

#[test]
fn arms_of_a_run_share_their_draws_and_runs_do_not() {
    let sandbox = Sandbox::new();
    sandbox.write("f.toml", &branin("seed = 3"));
    let run = |out: &str, more: &[&str]| {
        let arguments = ["run", "f.toml", "--out", out, "--arms", "fts,ts"];
        let ran = sandbox.fedbo(&[&arguments[..], more].concat());
        ran.expect(0, &[]);
        (sandbox.results(out), ran)
    };
    let (rows, ran) = run("runs", &["--runs", "3", "--seed", "5", "--threads", "1"]);
    assert_eq!(rows.len(), 1 + 3 * 2 * 2 * 7);
    let initial = |arm: &str, number: u32| {
        let rows = of(&rows, arm, number);
        let initial = without_names(&rows).into_iter();
        initial.filter(|row| row.contains(",initial,")).collect::<Vec<_>>()
    };
    for number in 0..3 {
        assert_eq!(initial("fts", number).len(), 6);
        assert_eq!(initial("fts", number), initial("ts", number));
        for before in 0..number {
            let before = initial("fts", before);
            assert!(initial("fts", number).iter().all(|row| !before.contains(row)));
        }
    }
    for part in ["95 % interval", "p (Holm)", "over all 2 comparisons"] {
        assert!(ran.stdout.contains(part), "{part} in {}", ran.stdout);
    }
    assert!(!ran.stderr.contains("repeat it"), "{}", ran.stderr);
    assert!(ran.stderr.contains("run 3 of 3, ts"), "{}", ran.stderr);
    // Results do not depend on threads, and no run depends on the number of runs.
    assert_eq!(rows, run("again", &["--runs", "3", "--seed", "5", "--threads", "2"]).0);
    assert_eq!(rows[..1 + 28], run("one", &["--runs", "1", "--seed", "5"]).0);
    // The file's seed is the default, and --seed alone overrides it.
    let by_file = run("by-file", &["--runs", "2"]).0;
    assert_eq!(by_file, run("by-option", &["--runs", "2", "--seed", "3"]).0);
    assert_ne!(by_file[1..], rows[1..1 + 56]);
    let (plain, ran) = run("plain", &[]);
    assert_eq!(plain, run("plain-3", &["--seed", "3"]).0);
    sandbox.write("f.toml", &branin("seed = 8"));
    assert_eq!(run("plain-8", &[]).0, {
        sandbox.write("f.toml", &branin(""));
        run("option-8", &["--seed", "8"]).0
    });
    assert_ne!(plain[1..], by_file[1..1 + 28]);
    ran.expect(0, &["repeat it with: fedbo run f.toml --out plain-runs --arms fts,ts --runs 20"]);
}

/// The differences in the summary agree with a computation from the rows.
#[test]
fn differences_are_paired_by_run_and_judged_by_students_t() {
    let sandbox = Sandbox::new();
    sandbox.write("f.toml", &branin("seed = 3"));
    let ran = sandbox.fedbo(&["run", "f.toml", "--runs", "4", "--json", "--quiet"]);
    let summary: serde_json::Value =
        serde_json::from_str(&ran.expect(0, &[]).stdout).expect("JSON");
    let arms: Vec<&str> = summary["arms"]
        .as_array()
        .expect("arms")
        .iter()
        .filter_map(|arm| arm["arm"].as_str())
        .collect();
    assert_eq!(arms, ["fts", "log-ei", "ts", "placebo"], "the controls come with --runs");
    // Compute the regret of the last query of each agent, averaged over agents.
    let rows = sandbox.results("results/test");
    let regret = |arm: &str, run: u32| {
        let rows = of(&rows, arm, run);
        let last = rows.iter().filter(|row| row.split(',').nth(4) == Some("4"));
        let regrets: Vec<f64> = last
            .map(|row| {
                let regret = row.split(',').nth_back(1).expect("a column");
                regret.parse().expect("a number")
            })
            .collect();
        assert_eq!(regrets.len(), 2);
        f64::midpoint(regrets[0], regrets[1])
    };
    let differences: Vec<f64> = (0..4).map(|run| regret("fts", run) - regret("ts", run)).collect();
    let mean = differences.iter().sum::<f64>() / 4.0;
    let squares: f64 = differences.iter().map(|each| (each - mean).powi(2)).sum();
    let error = (squares / 12.0).sqrt();
    let found = summary["differences"]
        .as_array()
        .expect("differences")
        .iter()
        .find(|each| each["control"] == "ts" && each["iteration"].is_null())
        .expect("the end");
    let close = |found: &serde_json::Value, expected: f64| {
        let found = found.as_f64().expect("a number");
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    };
    close(&found["estimate"]["mean"], mean);
    close(&found["estimate"]["standard_error"], error);
    // The factor is the quantile of Student's distribution with 3 degrees of freedom.
    close(&found["interval"]["low"], mean - 3.182_446_305_284 * error);
    close(&found["interval"]["high"], mean + 3.182_446_305_284 * error);
    let differences = summary["differences"].as_array().expect("differences");
    assert_eq!(summary["comparisons"], differences.len());
    for each in differences {
        let (p, adjusted) = (each["p_value"].as_f64(), each["p_adjusted"].as_f64());
        assert!(adjusted >= p && adjusted <= Some(1.0), "{each}");
        assert_eq!(each["gain"], each["verdict"] == "gain");
    }
}

/// Script that is slow enough to be interrupted. A file `hold` makes a trial of `a` wait for the
/// interruption.
const SLOW: &str = r#"if [ -e hold ]; then sleep 60; fi; sleep 0.01; awk -v x="$1" -v n="$2" 'BEGIN { print (x - 0.5) ^ 2 + n / 10 }'"#;

/// The command is interrupted in the second of three runs, continued, and then extended. The
/// results equal those without an interruption.
#[test]
fn an_interrupted_repetition_goes_on_in_the_middle() {
    let sandbox = Sandbox::new();
    let text = federation(4, "", &[("a", SLOW), ("b", &SLOW.replace("hold", "no-hold"))]);
    sandbox.write("f.toml", &text);
    let command = |out: &'static str, runs: &'static str| {
        vec!["run", "f.toml", "--out", out, "--arms", "fts,ts", "--seed", "9", "--runs", runs]
    };
    sandbox.fedbo(&command("whole", "3")).expect(0, &[]);
    let expected = sandbox.results("whole");
    let of_a_run = 2 * 2 * 6;
    assert_eq!(expected.len(), 1 + 3 * of_a_run);

    let path = sandbox.path("parts/results.csv");
    let n_rows = || std::fs::read_to_string(&path).unwrap_or_default().lines().count();
    let child = sandbox.start(&command("parts", "3"));
    wait_until(|| n_rows() >= 1 + of_a_run + 5);
    sandbox.write("hold", "");
    std::thread::sleep(Duration::from_millis(150));
    interrupt(&child, rustix::process::Signal::INT);
    let ran = finished(child);
    std::fs::remove_file(sandbox.path("hold")).expect("it was there");
    ran.expect(
        130,
        &["continue with: fedbo run f.toml --out parts --arms fts,ts --seed 9 --runs 3 --resume"],
    );
    let kept = sandbox.results("parts");
    assert!(kept.len() > 1 + of_a_run && kept.len() < expected.len());
    // The trial of the agent without `hold` ends before that of the other agent, which comes first
    // without an interruption.
    let (last, whole) = kept.split_last().expect("rows");
    assert_eq!(whole, &expected[..whole.len()]);
    assert!(expected[whole.len()..whole.len() + 2].contains(last), "{last}");

    // With a different seed or none, with fewer runs than exist, or as a single run, the command
    // does not continue these results.
    let refused = |more: &[&str], part: &str| {
        let begin = ["run", "f.toml", "--out", "parts", "--arms", "fts,ts", "--resume"];
        let ran = sandbox.fedbo(&[&begin[..], more].concat());
        ran.expect(2, &["cannot resume parts/", part]);
        assert_eq!(sandbox.results("parts"), kept);
    };
    refused(
        &["--runs", "3"],
        "federation.seed is 3 in f.toml:7, the run there has 9; only rounds, command, directory and timeout_s may change. Undo the change, also of --seed",
    );
    refused(
        &["--runs", "3", "--seed", "8"],
        "federation.seed is 8 in the given settings, the run there has 9; only rounds",
    );
    refused(&["--runs", "1", "--seed", "9"], "it holds run 1");
    refused(&["--seed", "9"], "it holds run 1");

    let resume = |runs| [command("parts", runs), vec!["--resume"]].concat();
    sandbox.fedbo(&resume("3")).expect(0, &[]);
    assert_eq!(sandbox.results("parts"), expected);
    // A complete run has nothing left to do. More runs extend it.
    sandbox.write("hold", "");
    sandbox.fedbo(&resume("3")).expect(0, &[]);
    std::fs::remove_file(sandbox.path("hold")).expect("it was there");
    sandbox.fedbo(&resume("4")).expect(0, &[]);
    let more = sandbox.results("parts");
    assert_eq!((more.len(), &more[..expected.len()]), (1 + 4 * of_a_run, &expected[..]));

    // A single run differs from the first of several.
    sandbox.fedbo(&["run", "f.toml", "--out", "single"]).expect(0, &[]);
    sandbox
        .fedbo(&["run", "f.toml", "--out", "single", "--arms", "fts", "--resume", "--runs", "2"])
        .expect(2, &["it was started without --runs"]);
}

#[test]
fn what_cannot_be_repeated_is_refused() {
    let sandbox = Sandbox::new();
    let agents = [("a", PARABOLA), ("b", PARABOLA)];
    sandbox.write("f.toml", &federation(1, "", &agents));
    for (option, value) in [("--runs", "0"), ("--runs", "-1"), ("--seed", "-1"), ("--seed", "x")] {
        let ran = sandbox.fedbo(&["run", "f.toml", option, value]);
        ran.expect(2, &[option]);
    }
    // A federation of agents alone has no controls.
    let alone = federation(1, "", &agents).replace("\"fts\"", "\"ts\"");
    sandbox.write("f.toml", &alone);
    sandbox.fedbo(&["run", "f.toml", "--runs", "2"]).expect(0, &[]);
    let rows = sandbox.results("results/test");
    assert!(rows[1..].iter().all(|row| row.starts_with("test,ts,")));
}

/// Repeating a charged federation would spend its budget each time. Its other arms, and a
/// simulation, can be repeated.
#[test]
fn a_budget_is_not_spent_by_repetition() {
    let sandbox = Sandbox::new();
    let file = |privacy: &str| {
        let mut text = format!(
            "[federation]\nname = \"test\"\ndirection = \"minimize\"\nalgorithm = \"dp-fts-de\"\nrounds = 2\ninitial = 2\n\
             [features]\ncount = 10\nlengthscale = 0.3\n[privacy]\n{privacy}\n"
        );
        for agent in 0..3 {
            text += &format!("[[agents]]\nname = \"a{agent}\"\nproblem = \"branin\"\n");
        }
        text
    };
    sandbox.write("f.toml", &file("epsilon = 2.0\nreleases = 2"));
    sandbox
        .fedbo(&["run", "f.toml", "--runs", "3"])
        .expect(2, &["--runs 3 would release 3 times", "--arms ts,placebo", "simulate = true"]);
    assert!(!sandbox.path("results").exists(), "nothing was begun");
    sandbox.fedbo(&["run", "f.toml", "--runs", "3", "--arms", "ts,placebo"]).expect(0, &[]);
    assert!(!sandbox.path("results/test/ledger.db").exists());
    sandbox.write("g.toml", &file("simulate = true\nepsilon = 2.0\nreleases = 2"));
    let ran = sandbox.fedbo(&["run", "g.toml", "--runs", "3", "--out", "simulated"]);
    ran.expect(0, &["the noise comes from the seed and protects nobody"]);
    let rows = sandbox.results("simulated");
    assert_eq!(rows.len(), 1 + 3 * 4 * 3 * 4);
    assert_ne!(
        without_names(&of(&rows, "dp-fts-de", 0)),
        without_names(&of(&rows, "dp-fts-de", 1))
    );
}

//! Runs of the real binary: failing objectives, equal results, interruption and resumption.

use crate::common;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{PARABOLA, Sandbox, federation, finished, finished_code, interrupt, wait_until};

#[test]
fn failing_objectives_are_recorded_and_the_others_go_on() {
    let sandbox = Sandbox::new();
    let text = federation(
        1,
        "",
        &[
            ("good", PARABOLA),
            ("silent", "true"),
            ("nan", "echo NaN"),
            ("json nan", "echo '{\"value\": NaN}'"),
            ("exits", "echo 1.0; echo broken sensor >&2; exit 1"),
            ("prints", "head -c 10000000 /dev/zero | tr '\\0' x"),
            ("killed", "kill -9 $$"),
            ("words", "echo done"),
            ("hangs", "sleep 60"),
        ],
    );
    let text = text.replace("name = \"hangs\"", "name = \"hangs\"\ntimeout_s = 0.3");
    sandbox.write("f.toml", &text);
    let started = Instant::now();
    let ran = sandbox.fedbo(&["run", "f.toml", "--threads", "9"]);
    ran.expect(
        0,
        &[
            "\"silent\": 3 of 3 trials failed, the last one because the command printed nothing",
            "\"nan\": 3 of 3 trials failed, the last one because the objective returned NaN",
            "\"json nan\": 3 of 3",
            "exit status 1; its standard error ends: broken sensor",
            "the command's last line is \"xxx",
            "ended by signal 9",
            "the command's last line is \"done\"",
            "killed after its timeout of 0.3 s",
        ],
    );
    assert!(!ran.stderr.contains("\"good\""), "{}", ran.stderr);
    assert!(ran.stdout.contains("24/27"), "{}", ran.stdout);
    assert!(started.elapsed() < Duration::from_secs(20));
    let rows = sandbox.results("results/test");
    assert_eq!(rows.iter().filter(|row| row.ends_with(",ok")).count(), 3);
    assert_eq!(rows.iter().filter(|row| row.contains("failed: ")).count(), 24);
}

#[test]
fn a_run_without_one_value_is_code_5() {
    let sandbox = Sandbox::new();
    let text = federation(1, "", &[("a", "exit 3"), ("b", "exit 4")]);
    sandbox.write("f.toml", &text);
    let ran = sandbox.fedbo(&["run", "f.toml"]);
    ran.expect(5, &["all 6 trials failed", "exit status 4"]);
    assert!(ran.stdout.is_empty());
    assert!(sandbox.path("results/test/summary.json").exists());
    let ran = sandbox.fedbo(&["run", "f.toml", "--json", "--overwrite"]);
    assert!(ran.expect(5, &[]).stdout.contains("\"failed_trials\": 6"));
}

#[test]
fn equal_files_give_equal_results_whatever_the_number_of_threads() {
    let sandbox = Sandbox::new();
    let branin = |name: &str| {
        format!("[[agents]]\nname = \"{name}\"\nproblem = \"branin\"\nnoise_std = 0.1\n")
    };
    let text = format!(
        "[federation]\nname = \"b\"\ndirection = \"minimize\"\nalgorithm = \"fts\"\nrounds = 6\nnoisy = true\n{}{}{}",
        branin("a"),
        branin("b"),
        branin("c")
    );
    sandbox.write("b.toml", &text);
    let run = |out: &str, threads: &str, more: &[&str]| {
        let arguments = ["run", "b.toml", "--out", out, "--threads", threads];
        sandbox.fedbo(&[&arguments[..], more].concat()).expect(0, &[]);
        sandbox.results(out)
    };
    let arms = ["--arms", "fts,ts,placebo"];
    let one = run("one", "1", &arms);
    assert_eq!(one, run("two", "2", &arms));
    assert_eq!(one, run("again", "2", &arms));
    assert_eq!(one.len(), 1 + 3 * 3 * 9);
    // Arms share initial points and noise, and an arm that runs alone gives the same results.
    let of = |arm: &str, iteration: &str| -> Vec<String> {
        let part = format!("b,{arm},");
        let rows = one.iter().filter_map(|row| row.strip_prefix(&part));
        rows.filter(|row| row.contains(iteration)).map(str::to_owned).collect()
    };
    assert_eq!(of("fts", ",initial,"), of("ts", ",initial,"));
    assert_eq!(of("fts", ",initial,"), of("placebo", ",initial,"));
    assert_eq!(of("fts", ",initial,").len(), 9);
    assert!(of("ts", ",message:").is_empty() && !of("fts", ",message:").is_empty());
    let alone = run("alone", "2", &["--arms", "ts"]);
    assert_eq!(&alone[1..], &one[28..55]);
    // The optima are known, so regret is reported.
    let summary = std::fs::read_to_string(sandbox.path("one/summary.json")).expect("a summary");
    assert!(summary.contains("\"metric\": \"regret\""));
}

#[test]
fn json_is_on_standard_output_alone() {
    let sandbox = Sandbox::new();
    sandbox.write("f.toml", &federation(1, "", &[("a", PARABOLA), ("b", PARABOLA)]));
    let ran = sandbox.fedbo(&["run", "f.toml", "--json", "--quiet", "--arms", "fts,ts"]);
    ran.expect(0, &[]);
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    let summary: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(summary["arms"][1]["arm"], "ts");
    assert_eq!(summary["differences"][0]["control"], "ts");
    let ran = sandbox.fedbo(&["plot", "results/test", "--json"]);
    let files: serde_json::Value = serde_json::from_str(&ran.expect(0, &[]).stdout).expect("JSON");
    assert_eq!(files["files"][1], "results/test/curves.png");
    assert_eq!(files["files"][2], serde_json::Value::Null);
}

/// The summary contains the data of the tradeoff. `plot` redraws the tradeoff, but only if the
/// summary has its data.
#[test]
fn a_tradeoff_is_drawn_again_from_the_summary() {
    let sandbox = Sandbox::new();
    let agents = [("a", PARABOLA), ("b", PARABOLA)];
    sandbox.write("f.toml", &federation(1, "", &agents));
    let ran = sandbox.fedbo(&["run", "f.toml", "--quiet", "--arms", "fts,ts"]);
    ran.expect(0, &[]);
    let path = sandbox.path("results/test/summary.json");
    let text = std::fs::read_to_string(&path).expect("a summary");
    let mut summary: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let fts = serde_json::json!({ "arm": { "arm": "fts" }, "label": "dear", "cost": 3.0 });
    summary["tradeoff"] = serde_json::json!({ "panels": [{
        "series": [{ "name": "of one kind", "points": [fts] }],
        "levels": [{ "arm": "ts" }],
    }]});
    std::fs::write(&path, summary.to_string()).expect("a writable file");
    let ran = sandbox.fedbo(&["plot", "results/test"]);
    ran.expect(0, &[]);
    let files: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(files[2..], ["results/test/tradeoff.svg", "results/test/tradeoff.png"]);
    let svg = std::fs::read_to_string(sandbox.path(files[2])).expect("the picture");
    for text in ["of one kind", "dear", ">\nts\n<"] {
        assert!(svg.contains(text), "{text} is not in {svg}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sandbox = Sandbox::new();
    sandbox.write("f.toml", &federation(1, "", &[("a", PARABOLA), ("b", PARABOLA)]));
    for arguments in [&["run", "f.toml"][..], &["topology", "--help"], &["--help"]] {
        let mut child = sandbox.start(arguments);
        drop(child.stdout.take());
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{arguments:?}");
    }
    let mut child = sandbox.start(&["run", "f.toml", "--overwrite"]);
    drop(child.stderr.take());
    assert_eq!(finished_code(&mut child), Some(0));
}

#[test]
fn parameters_stand_in_the_order_of_the_file_and_reach_the_command() {
    let sandbox = Sandbox::new();
    let text = r#"
[federation]
name = "order"
algorithm = "ts"
rounds = 1
initial = 1
[space.zeta]
type = "categorical"
choices = ["one two", "three"]
[space.alpha]
type = "int"
low = 3
high = 5
log = true
[[agents]]
name = "only"
directory = "elsewhere"
command = ["sh", "-c", "pwd >> seen; echo \"$FEDBO_PARAMS\" >> seen; echo \"{\\\"value\\\": $FEDBO_TRIAL}\""]
"#;
    sandbox.write("f.toml", text);
    std::fs::create_dir(sandbox.path("elsewhere")).expect("writable");
    sandbox.fedbo(&["run", "f.toml"]).expect(0, &[]);
    let rows = sandbox.results("results/order");
    assert_eq!(
        rows[0],
        "experiment,arm,agent,run,iteration,source,zeta,alpha,value,best,regret,status"
    );
    assert!(rows[2].ends_with(",1,1,,ok"), "{rows:?}");
    let seen = std::fs::read_to_string(sandbox.path("elsewhere/seen")).expect("it ran there");
    assert!(seen.contains("/elsewhere\n{\"zeta\":") && seen.contains("\"alpha\":"), "{seen}");
}

/// Script that is slow enough to be interrupted. A file `hold` makes a trial wait for the
/// interruption.
const SLOW: &str = r#"if [ -e hold ]; then sleep 60; fi; sleep 0.02; awk -v x="$1" -v n="$2" 'BEGIN { print (x - 0.5) ^ 2 + n / 10 }'"#;

/// The run is interrupted in the first arm, again in the second, and then completed. The results
/// equal those of an uninterrupted run.
#[test]
fn an_interrupted_run_goes_on_and_equals_one_that_was_not() {
    let sandbox = Sandbox::new();
    let flaky = r#"if [ "$FEDBO_TRIAL" = 3 ]; then echo "a, \"b\"" >&2; echo c >&2; exit 9; fi; "#
        .to_owned()
        + SLOW;
    let text = federation(5, "", &[("a", SLOW), ("b", &flaky), ("c", SLOW)]);
    sandbox.write("f.toml", &text);
    let arms = ["--arms", "fts,ts", "--threads", "3"];
    let whole = [&["run", "f.toml", "--out", "whole"][..], &arms].concat();
    sandbox.fedbo(&whole).expect(0, &[]);
    let expected = sandbox.results("whole");
    let path = sandbox.path("parts/results.csv");
    // Count records rather than lines, because the reason for a failure may have several lines.
    let n_rows = |path: &std::path::Path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter(|line| line.starts_with("test,")).count()
    };
    let mut n_kept = 0;
    let half = (expected.len() - 1) / 2;
    for (target, signal) in
        [(8, rustix::process::Signal::INT), (half + 4, rustix::process::Signal::TERM)]
    {
        let again = if n_kept > 0 { &["--resume"][..] } else { &[] };
        let child =
            sandbox.start(&[&["run", "f.toml", "--out", "parts"][..], &arms, again].concat());
        wait_until(|| n_rows(&path) >= target);
        sandbox.write("hold", "");
        std::thread::sleep(Duration::from_millis(150));
        interrupt(&child, signal);
        let ran = finished(child);
        std::fs::remove_file(sandbox.path("hold")).expect("it was there");
        ran.expect(130, &["interrupted: ", "fedbo run f.toml --out parts --arms fts,ts --resume"]);
        assert!(
            sandbox.path("parts/summary.json").exists()
                && sandbox.path("parts/curves.png").exists()
        );
        assert!(!sandbox.path("parts/.new-results").exists());
        let kept = sandbox.results("parts");
        assert!(kept.len() > target && kept.len() < expected.len());
        assert!(kept.iter().all(|row| expected.contains(row)), "{kept:?}");
        n_kept = kept.len();
    }

    // A crash of the machine may truncate the last line.
    let text = std::fs::read_to_string(&path).expect("results");
    std::fs::write(&path, format!("{text}test,ts,\"a")).expect("writable");
    sandbox
        .fedbo(&[&["run", "f.toml", "--out", "parts", "--resume"][..], &arms].concat())
        .expect(0, &[]);
    assert_eq!(sandbox.results("parts"), expected);

    // A complete run has nothing left to do and evaluates nothing.
    sandbox.write("hold", "");
    let ran =
        sandbox.fedbo(&[&["run", "f.toml", "--out", "parts", "--resume"][..], &arms].concat());
    ran.expect(0, &[]);
    assert_eq!(sandbox.results("parts"), expected);
}

/// A replay that is interrupted before it has caught up leaves the old results unchanged.
#[test]
fn an_interrupted_replay_loses_nothing() {
    let sandbox = Sandbox::new();
    let text = federation(3, "", &[("a", SLOW), ("b", SLOW)]);
    sandbox.write("f.toml", &text);
    sandbox.fedbo(&["run", "f.toml"]).expect(0, &[]);
    let path = sandbox.path("results/test/results.csv");
    let whole = std::fs::read_to_string(&path).expect("results");
    // Without the first trial, the replay has to evaluate before it can continue.
    let mut lines: Vec<&str> = whole.lines().collect();
    lines.remove(1);
    let damaged = lines.join("\n") + "\n";
    std::fs::write(&path, &damaged).expect("writable");
    sandbox.write("hold", "");
    let child = sandbox.start(&["run", "f.toml", "--resume"]);
    wait_until(|| sandbox.path("results/test/.new-results").exists());
    std::thread::sleep(Duration::from_millis(100));
    interrupt(&child, rustix::process::Signal::INT);
    finished(child).expect(130, &["9 finished trials are kept"]);
    assert_eq!(std::fs::read_to_string(&path).expect("results"), damaged);
    std::fs::remove_file(sandbox.path("hold")).expect("it was there");
    sandbox.fedbo(&["run", "f.toml", "--resume"]).expect(0, &[]);
    let again = std::fs::read_to_string(&path).expect("results");
    assert_eq!(again.lines().count(), whole.lines().count());
}

/// With more rounds, the first arm continues before the second one is replayed. The first arm's
/// results are kept if the run is killed or stopped.
#[test]
fn a_run_that_is_extended_keeps_what_it_adds() {
    let sandbox = Sandbox::new();
    let objective =
        r#"if [ -e hold ] && [ "$FEDBO_TRIAL" -ge 5 ]; then sleep 60; fi; "#.to_owned() + PARABOLA;
    let text = federation(2, "", &[("a", &objective), ("b", &objective)]);
    let longer = text.replace("rounds = 2", "rounds = 4");
    sandbox.write("f.toml", &text);
    sandbox.write("whole.toml", &longer);
    sandbox.fedbo(&["run", "whole.toml", "--arms", "fts,ts", "--out", "whole"]).expect(0, &[]);
    let resume = ["run", "f.toml", "--arms", "fts,ts", "--resume"];
    sandbox.fedbo(&resume[..4]).expect(0, &[]);
    sandbox.write("f.toml", &longer);
    sandbox.write("hold", "");
    let path = sandbox.path("results/test/results.csv");
    let staging = sandbox.path("results/test/.new-results");
    let n_lines = |path: &Path| std::fs::read_to_string(path).unwrap_or_default().lines().count();
    let before = std::fs::read_to_string(&path).expect("results");
    // Wait for the third round of two agents in the first arm.
    let n_kept = n_lines(&path) + 2;
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::INT] {
        let child = sandbox.start(&resume);
        // The new file has two initial points and three rounds of two agents in the first arm. The
        // run then waits in the fourth round.
        wait_until(|| n_lines(&staging.join("results.csv")) == 1 + 2 * 5);
        wait_until(|| n_lines(&path) == n_kept);
        interrupt(&child, signal);
        let ran = finished(child);
        if signal == rustix::process::Signal::INT {
            ran.expect(130, &[&format!("{} finished trials are kept", n_kept - 1)]);
        } else {
            std::fs::remove_dir_all(&staging).expect("it is left");
        }
        let kept = std::fs::read_to_string(&path).expect("results");
        assert!(kept.starts_with(&before) && n_lines(&path) == n_kept, "{kept}");
        let summary = std::fs::read_to_string(sandbox.path("results/test/summary.json"));
        assert!(summary.expect("a summary").contains("\"interrupted\": true"));
    }
    std::fs::remove_file(sandbox.path("hold")).expect("it was there");
    sandbox.fedbo(&resume).expect(0, &[]);
    assert_eq!(sandbox.results("results/test"), sandbox.results("whole"));
    let summary = std::fs::read_to_string(sandbox.path("results/test/summary.json"));
    assert!(!summary.expect("a summary").contains("\"interrupted\": true"));
}

#[test]
fn results_of_another_file_are_not_gone_on_from() {
    let sandbox = Sandbox::new();
    let text = federation(2, "", &[("a", PARABOLA), ("b", PARABOLA)]);
    sandbox.write("f.toml", &text);
    // The folder is empty, so there is nothing to continue, and nothing is started.
    let nothing = ["results/test holds nothing to resume", "leave out --resume", "--out DIR"];
    let resume = ["run", "f.toml", "--resume", "--arms", "fts,ts"];
    sandbox.fedbo(&resume).expect(2, &nothing);
    assert!(!sandbox.path("results").exists());
    std::fs::create_dir_all(sandbox.path("results/test")).expect("writable");
    sandbox.fedbo(&resume).expect(2, &nothing);
    let n_files = std::fs::read_dir(sandbox.path("results/test")).expect("a folder").count();
    assert_eq!(n_files, 0);
    sandbox.fedbo(&["run", "f.toml", "--arms", "fts,ts"]).expect(0, &[]);
    let before = std::fs::read(sandbox.path("results/test/results.csv")).expect("results");
    let refused = |from: &str, to: &str, arms: &str, part: &str| {
        sandbox.write("g.toml", &text.replacen(from, to, 1));
        let ran = sandbox.fedbo(&["run", "g.toml", "--resume", "--arms", arms]);
        ran.expect(2, &["cannot resume results/test/", part]);
        let after = std::fs::read(sandbox.path("results/test/results.csv")).expect("results");
        assert_eq!(before, after);
    };
    refused("", "", "fts", "it holds the arm ts");
    refused(
        "seed = 3",
        "seed = 4",
        "fts,ts",
        "federation.seed is 4 in g.toml:7, the run there has 3; only rounds, command, directory and timeout_s may change",
    );
    refused(
        "rounds = 2",
        "rounds = 1",
        "fts,ts",
        "it holds iteration 2, and the file asks for -1 to 1",
    );
    refused("\"a\"", "\"z\"", "fts,ts", "no agent \"a\"");
    refused(
        "high = 9",
        "high = 99",
        "fts,ts",
        "space.n.high is 99 in g.toml:15, the run there has 9;",
    );
    refused(
        "[space.",
        "[fts]\nlocal_prob = 0.5\n[space.",
        "fts,ts",
        "fts.local_prob is 0.5 in g.toml:9, the run there has none;",
    );
    // More rounds extend the run.
    sandbox.write("g.toml", &text.replace("rounds = 2", "rounds = 3"));
    sandbox.fedbo(&["run", "g.toml", "--resume", "--arms", "fts,ts"]).expect(0, &[]);
    assert_eq!(sandbox.results("results/test").len(), 1 + 2 * 2 * 5);
    // Rows added by the first arm are removed if the second arm turns out to differ.
    let path = sandbox.path("results/test/results.csv");
    let written = std::fs::read_to_string(&path).expect("results");
    let (others, last) = written.trim_end().rsplit_once('\n').expect("rows");
    let changed = format!("{others}\n{}\n", last.replace(",own,", ",random,"));
    assert_ne!(changed, written);
    std::fs::write(&path, &changed).expect("writable");
    let beside = ["summary.json", "regret.csv"].map(|name| path.with_file_name(name));
    std::fs::write(&beside[1], "of a team").expect("writable");
    let read = || beside.each_ref().map(|path| std::fs::read_to_string(path).expect("a file"));
    let as_before = read();
    sandbox.write("g.toml", &text.replace("rounds = 2", "rounds = 4"));
    let ran = sandbox.fedbo(&["run", "g.toml", "--resume", "--arms", "fts,ts"]);
    ran.expect(2, &["cannot resume results/test/", "at iteration 3 of arm ts"]);
    assert_eq!(std::fs::read_to_string(&path).expect("results"), changed);
    assert_eq!(read(), as_before);
}

#[test]
fn a_second_signal_exits_at_once() {
    let sandbox = Sandbox::new();
    // Neither script exits on SIGTERM, so the first signal takes the grace period of half a second.
    let stubborn = "trap '' TERM; sleep 3";
    sandbox.write("f.toml", &federation(1, "", &[("a", stubborn), ("b", stubborn)]));
    let child = sandbox.start(&["run", "f.toml"]);
    wait_until(|| sandbox.path("results/test/results.csv").exists());
    std::thread::sleep(Duration::from_millis(200));
    interrupt(&child, rustix::process::Signal::INT);
    std::thread::sleep(Duration::from_millis(100));
    interrupt(&child, rustix::process::Signal::INT);
    let started = Instant::now();
    let mut child = child;
    assert_eq!(finished_code(&mut child), Some(130));
    assert!(started.elapsed() < Duration::from_millis(300));
}

#[test]
fn the_help_lists_the_exit_codes() {
    let ran = Sandbox::new().fedbo(&["--help"]);
    let (_, codes) = ran.expect(0, &[]).stdout.split_once("Exit codes:").expect("a table");
    let expected = "
  0    done
  1    internal error
  2    wrong usage, or a file, setting, command, study or data folder that cannot be used
  3    a privacy budget is spent
  4    results cannot be written: read-only folder, disk full
  5    every trial failed, or too many in a row
  6    a coordinator or neighbour cannot be reached, refuses, or is not to be trusted
  7    a player of a game, or its payoffs, failed; the rounds before are kept
  130  interrupted (Ctrl-C, SIGTERM, SIGHUP); finished trials are kept
";
    assert_eq!(codes, expected);
}

#[test]
fn the_examples_run() {
    let sandbox = Sandbox::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/");
    for (name, n_rows) in [("digits", 14 * 21), ("branin", 3 * 18), ("private-prior", 24 * 13)] {
        let file = format!("{examples}{name}.toml");
        let ran = sandbox.fedbo(&["run", &file, "--out", name]);
        ran.expect(0, &[]);
        assert!(!ran.stderr.contains("failed"), "{}", ran.stderr);
        assert_eq!(sandbox.results(name).len(), 1 + n_rows);
    }
}

/// If two runs wrote to one file, both would lose work.
#[test]
fn two_runs_do_not_share_a_folder() {
    let sandbox = Sandbox::new();
    let slow = "sleep 2; echo 1";
    sandbox.write("f.toml", &federation(1, "", &[("a", slow), ("b", slow)]));
    let child = sandbox.start(&["run", "f.toml"]);
    wait_until(|| sandbox.path("results/test/results.csv").exists());
    sandbox
        .fedbo(&["run", "f.toml", "--overwrite"])
        .expect(2, &["another run is writing into results/test"]);
    interrupt(&child, rustix::process::Signal::INT);
    finished(child).expect(130, &[]);
    let summary = std::fs::read_to_string(sandbox.path("results/test/summary.json"));
    assert!(summary.expect("a summary").contains("\"interrupted\": true"));
}

#[test]
fn agents_that_cannot_fit_into_memory_are_refused() {
    let sandbox = Sandbox::new();
    let names: Vec<String> = (0..2000).map(|i| format!("a{i}")).collect();
    let agents: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), PARABOLA)).collect();
    sandbox.write("f.toml", &federation(1, "", &agents));
    sandbox.fedbo(&["run", "f.toml"]).expect(2, &["2000 agents", "GB of memory", "features.count"]);
}

/// Commands inherit the environment without fedbo's secrets, and no open files (INV-26), both in a
/// study and in a federation.
#[test]
fn commands_get_no_secrets() {
    let sandbox = Sandbox::new();
    let script = "env > seen.$$; ls -l /proc/$$/fd > open.$$; echo 1";
    sandbox.write("f.toml", &federation(1, "", &[("a", script), ("b", script)]));
    sandbox.write("s.toml", &common::study(2, "random", script));
    let secrets = [
        "FEDBO_TOKEN",
        "FEDBO_WORKER_TOKEN",
        "MLFLOW_TRACKING_PASSWORD",
        "MLFLOW_TRACKING_TOKEN",
        "FEDBO_COORDINATOR_STORE",
        "FEDBO_COORDINATOR_KEY",
        "PGPASSWORD",
        "PGPASSFILE",
        "OTEL_EXPORTER_OTLP_HEADERS",
    ];
    for arguments in [["run", "f.toml"], ["tune", "s.toml"]] {
        let mut command = sandbox.command(&arguments);
        command.envs(secrets.map(|name| (name, "hunter2")));
        let ran = command.env("CUDA_VISIBLE_DEVICES", "3").output();
        common::Ran::from(ran.expect("it starts")).expect(0, &[]);
        let mut n_seen = 0;
        for name in sandbox.names() {
            let is_open = name.starts_with("open.");
            if !is_open && !name.starts_with("seen.") {
                continue;
            }
            let path = sandbox.path(&name);
            let text = std::fs::read_to_string(&path).expect("written");
            std::fs::remove_file(&path).expect("there");
            if is_open {
                for ours in [".db", ".lock", "socket:", "results"] {
                    assert!(!text.contains(ours), "{arguments:?}, {ours}: {text}");
                }
                continue;
            }
            n_seen += 1;
            for stays in ["CUDA_VISIBLE_DEVICES=3", "FEDBO_PARAMS=", "PATH="] {
                assert!(text.contains(stays), "{arguments:?}, {stays}: {text}");
            }
            assert!(!text.contains("hunter2"), "{arguments:?}: {text}");
        }
        assert!(n_seen >= 2, "{arguments:?}: {n_seen}");
    }
}

/// Labels of the value are not settings: a run can be resumed with different labels. Pictures and
/// the table show these and the labels of arms. The results file contains only the names of arms.
#[test]
fn pictures_and_table_show_plain_words_and_results_the_names_of_arms() {
    let sandbox = Sandbox::new();
    let scripts = [("north", PARABOLA), ("south", PARABOLA)];
    let named = |name: &str| {
        let head = format!("direction = \"minimize\"\nvalue_name = {name:?}");
        federation(2, "", &scripts).replace("direction = \"minimize\"", &head)
    };
    for (name, expected) in [("", "1 to 60 characters on one line"), ("a\nb", "on one line")] {
        sandbox.write("f.toml", &named(name));
        sandbox.fedbo(&["run", "f.toml"]).expect(2, &["f.toml", "value_name", expected]);
    }
    sandbox.write("f.toml", &named("milligrams"));
    let ran = sandbox.fedbo(&["run", "f.toml", "--arms", "fts,ts"]);
    ran.expect(0, &[]);
    for row in ["together (fts)  ", "each alone (ts)  ", "together (fts) − each alone (ts)  "] {
        assert!(ran.stdout.lines().any(|line| line.starts_with(row)), "{row}: {}", ran.stdout);
    }
    let picture =
        || std::fs::read_to_string(sandbox.path("results/test/curves.svg")).expect("a picture");
    let summary =
        std::fs::read_to_string(sandbox.path("results/test/summary.json")).expect("a summary");
    assert!(
        summary.contains("\"arm\": \"fts\"") && summary.contains("\"control\": \"ts\""),
        "{summary}"
    );
    for row in sandbox.results("results/test").iter().skip(1) {
        assert!(row.starts_with("test,fts,") || row.starts_with("test,ts,"), "{row}");
    }
    for words in ["together (fts)", "each alone (ts)", "milligrams (best so far)"] {
        assert!(picture().contains(words), "{words}");
    }
    sandbox.write("f.toml", &named("grams").replace("rounds = 2", "rounds = 3"));
    sandbox.fedbo(&["run", "f.toml", "--arms", "fts,ts", "--resume"]).expect(0, &[]);
    assert!(picture().contains("grams (best so far)") && !picture().contains("milligrams"));
    sandbox.fedbo(&["plot", "results/test"]).expect(0, &[]);
    assert!(picture().contains("each alone (ts)") && picture().contains("grams (best so far)"));
}

/// Runs the basic setting of FTS from a file. The trials of one agent are in a table or in a
/// separate study.
#[test]
fn an_agent_tells_trials_that_it_made_before() {
    let sandbox = Sandbox::new();
    let head = "[federation]\nname = \"basic\"\nalgorithm = \"fts\"\nrounds = 3\ninitial = 2\ndirection = \"minimize\"\n\
                [fts]\nlocal_prob = 0.0\n[space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n\
                [[agents]]\nname = \"north\"\ncommand = [\"awk\", \"-v\", \"x={x}\", \"BEGIN { print (x - 0.3) ^ 2 }\"]\n\
                [[agents]]\nname = \"south\"\nobservations = ";
    let write = |name: &str, place: &str| sandbox.write(name, &format!("{head}\"{place}\"\n"));
    let table: String = (0..=20)
        .map(|i| format!("{},{}\n", f64::from(i) / 20.0, (f64::from(i) / 20.0 - 0.3).powi(2)))
        .collect();
    sandbox.write("south.csv", &format!("x,value\n{table}0.5,\n"));
    write("f.toml", "south.csv");
    let ran = sandbox.fedbo(&["run", "f.toml", "--out", "table"]);
    ran.expect(0, &["1 agent, 2 initial points and 3 rounds each; 1 other shares its earlier observations once"]);
    let rows = std::fs::read_to_string(sandbox.path("table/results.csv")).unwrap();
    assert!(!rows.contains(",south,"), "{rows}");
    let first =
        rows.lines().find(|line| line.contains(",message:south,")).expect("a query by its message");
    let x: f64 = first.split(',').nth(6).unwrap().parse().unwrap();
    assert!((x - 0.3).abs() < 0.1, "{first}");

    sandbox.write(
        "study.toml",
        "[study]\nname = \"south\"\ndirection = \"minimize\"\ntrials = 4\nstorage = \"sqlite:south.db\"\n[space.x]\ntype = \"float\"\n\
         low = 0.0\nhigh = 1.0\n[objective]\ncommand = [\"awk\", \"-v\", \"x={x}\", \"BEGIN { print (x - 0.3) ^ 2 }\"]\n",
    );
    sandbox.fedbo(&["tune", "study.toml"]).expect(0, &[]);
    write("s.toml", "sqlite:south.db#south");
    sandbox.fedbo(&["run", "s.toml", "--out", "study"]).expect(0, &[]);
    assert!(
        std::fs::read_to_string(sandbox.path("study/results.csv"))
            .unwrap()
            .contains(",message:south,")
    );

    // The trials are part of the run's settings, so changes are detected when it continues.
    sandbox.write("south.csv", "x,value\n0.5,1.0\n");
    sandbox.fedbo(&["run", "f.toml", "--out", "table", "--resume"]).expect(
        2,
        &[
            "agents.south.observations is \"1 trials, digest ",
            "the run there has \"21 trials, digest ",
        ],
    );

    sandbox.write("wrong.csv", "z,value\n0.5,1.0\n");
    sandbox.write("outside.csv", "x,value\n0.5,1.0\n7.0,1.0\n");
    for (place, message) in [
        ("wrong.csv", "agent \"south\": observations \"wrong.csv\": it has a different space: "),
        ("outside.csv", "it has a different space: x: \"7.0\" there"),
        ("none.csv", "observations \"none.csv\": it cannot be read: "),
        ("south.db", "expected \"sqlite:FILE\""),
    ] {
        write("w.toml", place);
        sandbox.fedbo(&["run", "w.toml"]).expect(2, &[message]);
    }
    let with = |old: &str, new: &str| {
        sandbox.write("w.toml", &format!("{head}\"south.csv\"\n").replacen(old, new, 1));
        sandbox.fedbo(&["run", "w.toml"])
    };
    with("observations", "problem = \"branin\"\nobservations")
        .expect(2, &["has both observations and a problem"]);
    with("[fts]\nlocal_prob = 0.0\n", "").expect(0, &[]);
    with("rounds = 3", "rounds = 3\npace = \"free\"")
        .expect(2, &["observations are for pace = \"rounds\""]);
    with("\"fts\"\nrounds", "\"ts\"\nrounds")
        .expect(2, &["observations are for algorithms whose agents send messages to all"]);
    with(
        "command = [\"awk\", \"-v\", \"x={x}\", \"BEGIN { print (x - 0.3) ^ 2 }\"]",
        "observations = \"south.csv\"",
    )
    .expect(2, &["every agent has observations and makes no queries"]);
}

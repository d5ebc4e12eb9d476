//! Protection of a study against its own files, signals, closed pipes and untrusted strings, and
//! the remedies in messages.

use crate::common;
use std::process::Stdio;

use common::{LOSS, Sandbox, allow, finished, interrupt, json, study, wait_until};
use rustix::process::Signal;

#[test]
fn no_result_is_written_over_the_study_itself() {
    let sandbox = Sandbox::new();
    let text = study(3, "random", LOSS);
    sandbox.write("s.toml", &text);
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &[]);
    let before = sandbox.fedbo(&["export", "s.toml"]).stdout;
    std::os::unix::fs::symlink("study.db", sandbox.path("link")).expect("a link");
    let absolute = sandbox.path("study.db").display().to_string();
    let names = sandbox.names();
    for out in ["study.db", &absolute, "link", "study.db-wal", "./study.db-shm"] {
        for study in ["s.toml", "sqlite:link"] {
            for command in ["export", "plot"] {
                let ran = sandbox.fedbo(&[command, study, "--out", out]);
                ran.expect(2, &["--out would overwrite ", "name another"]);
                assert_eq!(sandbox.names(), names, "{command} {study} {out}");
            }
        }
    }
    sandbox
        .fedbo(&["export", "s.toml", "--out", "./s.toml"])
        .expect(2, &["--out would overwrite s.toml"]);
    let kept = std::fs::read_to_string(sandbox.path("s.toml"));
    assert_eq!(kept.expect("the file"), text);
    assert_eq!(sandbox.fedbo(&["export", "s.toml"]).stdout, before);
    // Temporary output files and pictures could overwrite it as well.
    std::fs::create_dir(sandbox.path("p")).expect("a folder");
    for (name, arguments) in [
        ("all.csv.part", ["export", "sqlite:all.csv.part", "--out", "all.csv"]),
        ("p/slices.svg", ["plot", "sqlite:p/slices.svg", "--out", "p"]),
    ] {
        std::fs::copy(sandbox.path("study.db"), sandbox.path(name)).expect("a copy");
        sandbox.fedbo(&arguments).expect(2, &["would overwrite"]);
        assert_eq!(sandbox.fedbo(&["export", arguments[1]]).stdout, before);
    }
    sandbox.fedbo(&["export", "s.toml", "--out", "other.db"]).expect(0, &[]);
}

#[test]
fn a_folder_is_no_storage() {
    let sandbox = Sandbox::new();
    for place in [".", "./", "./.", ".//"] {
        let address = format!("sqlite:{place}");
        sandbox.write("s.toml", &study(3, "random", LOSS).replace("sqlite:study.db", &address));
        let says = ["it is a folder; name a file in it"];
        for command in ["tune", "ask", "trials"] {
            sandbox.fedbo(&[command, "s.toml"]).expect(2, &says);
        }
        sandbox.fedbo(&["ask", &address]).expect(2, &says);
        assert_eq!(sandbox.names(), ["s.toml"]);
    }
}

/// The program runs as under `nohup`. Otherwise, closing the terminal would end the run.
#[test]
fn a_signal_that_was_ignored_from_the_start_stays_so() {
    let sandbox = Sandbox::new();
    let script = format!("touch begun; while [ ! -e go ]; do sleep 0.01; done; rm go; {LOSS}");
    sandbox.write("s.toml", &study(3, "sobol", &script));
    let child = std::process::Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$FEDBO\" tune s.toml"])
        .env("FEDBO", env!("CARGO_BIN_EXE_fedbo"))
        .current_dir(sandbox.folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the shell starts");
    let begun = sandbox.path("begun");
    wait_until(|| begun.exists());
    for _ in 0..2 {
        interrupt(&child, Signal::HUP);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    std::fs::remove_file(&begun).expect("it was there");
    sandbox.write("go", "");
    wait_until(|| begun.exists());
    interrupt(&child, Signal::INT);
    finished(child).expect(130, &["stopping: ", "interrupted after 1 finished trial;"]);
}

#[test]
fn a_trial_that_nobody_reads_is_given_back() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(2000, "sobol", LOSS));
    for arguments in
        [&["ask", "s.toml", "--count", "1000"][..], &["ask", "s.toml", "--count", "1000", "--json"]]
    {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = sandbox.command(arguments);
        let ran = command.stdout(writer).stderr(Stdio::piped()).output();
        let ran: common::Ran = ran.expect("the binary starts").into();
        assert!(ran.expect(0, &[]).stderr.is_empty(), "{}", ran.stderr);
        let rows = sandbox.export("s.toml");
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0]["state"], "waiting");
    }
}

#[test]
fn the_way_to_more_trials_is_the_one_that_leads_there() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(8, "sobol", LOSS));
    let limit =
        "--trials 3 was the limit: without it, the same command continues to the file's 8 trials";
    let raise = "to continue, raise trials in the file";
    let ran = sandbox.fedbo(&["tune", "s.toml", "--trials", "3"]);
    assert!(!ran.expect(0, &[limit]).stderr.contains(raise));
    let told = "3 of 3 trials told in sqlite:study.db, and --trials 3 is the limit";
    sandbox.fedbo(&["tune", "s.toml", "--trials", "3"]).expect(0, &[told, limit]);
    let ran = sandbox.fedbo(&["tune", "s.toml", "--trials", "9"]);
    let more = "run the same command with more than --trials 9";
    assert!(!ran.expect(0, &[more]).stderr.contains(raise));
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &[raise]);

    let small = study(20, "random", "echo $2")
        .replace("sqlite:study.db", "sqlite:small.db")
        .replace("high = 9", "high = 2")
        .replace("[space.x]\ntype = \"float\"\nlow = -1.0\nhigh = 2.0\n", "")
        .replace("\"{x}\"", "\"x\"");
    sandbox.write("small.toml", &small);
    for _ in 0..2 {
        let ran = sandbox.fedbo(&["tune", "small.toml"]);
        ran.expect(0, &["every point of the space was tried"]);
        assert!(!ran.stderr.contains("raise"), "{}", ran.stderr);
    }
}

#[test]
fn a_file_that_is_taken_away_is_said_to_be_and_lost_values_are_named() {
    let sandbox = Sandbox::new();
    let script = format!("if [ $FEDBO_TRIAL = 3 ]; then rm study.db; echo 0.625; exit; fi; {LOSS}");
    sandbox.write("s.toml", &study(9, "sobol", &script));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    let lost = "\nnot stored anywhere:\n  trial 3: 0.625\n";
    ran.expect(4, &["study.db: ", "-wal", "-shm", lost]);
    for wrong in ["are kept", "fedbo tell", "continue with"] {
        assert!(!ran.stderr.contains(wrong), "{}", ran.stderr);
    }
}

#[test]
fn a_command_that_is_gone_ends_the_run_and_nothing_counts_as_tried() {
    let sandbox = Sandbox::new();
    let text = study(9, "sobol", "").replace("\"sh\", \"-c\", '''''', \"sh\"", "\"./evaluate\"");
    sandbox.write("s.toml", &text);
    let put = || {
        let script = "#!/bin/sh\nif [ $FEDBO_TRIAL = 2 ]; then rm \"$0\"; fi\necho 1\n";
        allow(&sandbox.write("evaluate", script), 0o755);
    };
    put();
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(2, &["error: ", "the trial was released, and the run ended"]);
    let stored = "s.toml"; // can be read although its command is missing
    assert_eq!(sandbox.told(stored).len(), 3);
    assert_eq!(sandbox.export(stored)[3]["state"], "waiting");
    put();
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &["3 of 9 trials told"]);
}

#[test]
fn the_advice_for_an_odd_name_can_be_pasted() {
    let sandbox = Sandbox::new();
    let text = study(2, "random", LOSS).replace("storage = \"sqlite:study.db\"\n", "");
    let text = text.replace("\"test\"", "'a \"b\"'");
    sandbox.write("s.toml", &text);
    let ran = sandbox.fedbo(&["ask", "s.toml"]);
    let line = "storage = \"sqlite:a \\\"b\\\".db\"";
    ran.expect(2, &[&format!("add {line} to [study]")]);
    let pasted = text.replacen("seed", &format!("{line}\nseed"), 1);
    sandbox.write("s.toml", &pasted);
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &[]);
    assert_eq!(sandbox.names(), ["a \"b\".db", "s.toml"]);
}

#[test]
fn verify_reads_definitions_and_points() {
    let sandbox = Sandbox::new();
    for name in ["one", "two", "three"] {
        let text = study(3, "sobol", LOSS).replace("\"test\"", &format!("{name:?}"));
        sandbox.write("s.toml", &text);
        sandbox.fedbo(&["tune", "s.toml"]).expect(0, &[]);
    }
    let verify = ["storage", "verify", "study.db"];
    sandbox.fedbo(&verify).expect(0, &[]);
    {
        let file = rusqlite::Connection::open(sandbox.path("study.db")).expect("a database");
        let changes = [
            "definition = replace(definition, '\"high\":9', '\"high\":2') WHERE name = 'one'",
            "definition = '{}' WHERE name = 'three'",
        ];
        for change in changes {
            let statement = format!("UPDATE studies SET {change}");
            assert_eq!(file.execute(&statement, []), Ok(1));
        }
    }
    let ran = sandbox.fedbo(&verify);
    ran.expect(2, &["study.db is damaged: "]);
    for part in
        ["study \"one\": trial ", "parameter n = ", "study \"three\": the stored definition"]
    {
        assert!(ran.stdout.contains(part), "{part:?} in {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("\"two\""), "{}", ran.stdout);
    let report = json(&sandbox.fedbo(&["storage", "verify", "study.db", "--json"]));
    assert_eq!(report["is_sound"], false);
    assert_eq!(report["problems"][0]["study"], "one");
}

#[test]
fn an_export_takes_json_as_every_command_does() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(2, "random", LOSS));
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &[]);
    let short = sandbox.fedbo(&["export", "s.toml", "--json"]);
    let long = sandbox.fedbo(&["export", "s.toml", "--format", "json"]);
    assert_eq!(short.expect(0, &[]).stdout, long.stdout);
    assert_eq!(json(&short)["study"], "test");
    sandbox
        .fedbo(&["export", "s.toml", "--json", "--format", "csv"])
        .expect(2, &["cannot be used with"]);
}

#[test]
fn texts_of_others_do_not_steer_the_terminal() {
    let sandbox = Sandbox::new();
    let script = format!(
        "if [ $FEDBO_TRIAL = 1 ]; then printf 'red\\342\\200\\256\\n' >&2; exit 3; fi; {LOSS}"
    );
    // Add a choice that changes the text direction.
    let text =
        study(4, "sobol", &script).replace("[\"a\", \"b\", \"c\"]", "[\"a\", \"b\\u202e\", \"c\"]");
    sandbox.write("s.toml", &text);
    let tune = sandbox.fedbo(&["tune", "s.toml"]);
    tune.expect(0, &["trial 1 failed: ", "ends: red\\u202e"]);
    let point = ["x=0", "n=1", "kind=b\u{202e}"];
    let enqueued = sandbox.fedbo(&[&["enqueue", "s.toml"][..], &point].concat());
    assert!(enqueued.expect(0, &[]).stdout.contains("kind=b\\u202e"), "{}", enqueued.stdout);
    let trials = sandbox.fedbo(&["trials", "s.toml"]);
    assert!(trials.stdout.contains("b\\u202e"), "{}", trials.stdout);
    let document = sandbox.fedbo(&["trials", "s.toml", "--json"]);
    for ran in [&tune, &enqueued, &trials, &document] {
        for text in [&ran.stdout, &ran.stderr] {
            let raw = text.find(|c: char| c != '\n' && (c.is_control() || c == '\u{202e}'));
            assert_eq!(raw, None, "{text:?}");
        }
    }
    // Programs read back the original string.
    let kind = &json(&document)["trials"][4]["parameters"]["kind"];
    assert_eq!(kind, "b\u{202e}");
    assert_eq!(sandbox.export("s.toml")[4]["kind"], "b\u{202e}");
    let asked = sandbox.fedbo(&["ask", "s.toml"]);
    assert!(asked.stdout.contains("'kind=b\u{202e}'"), "{}", asked.stdout);
}

//! Studies from the command line: runs, trials by hand, lists, exports, pictures.

use crate::common;
use common::{LOSS, Sandbox, json, study};

#[test]
fn a_study_runs_says_what_it_does_and_prints_its_best() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(15, "log-ei", LOSS));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(
        0,
        &[
            "test: a new study in sqlite:study.db: 15 trials by log-ei\n",
            "[1/15] trial 0: ",
            ", the best so far, at x=",
            "[15/15] trial 14: ",
            "fedbo best s.toml ",
            "fedbo plot s.toml ",
        ],
    );
    assert!(ran.stdout.starts_with("best value "), "{}", ran.stdout);
    assert!(
        ran.stdout.ends_with("\n15 of 15 trials told; stored in sqlite:study.db\n"),
        "{}",
        ran.stdout
    );
    assert_eq!(sandbox.names(), ["s.toml", "study.db"]);
    // With more trials, the study continues. With the same number, nothing happens.
    let ran = sandbox.fedbo(&["tune", "s.toml", "--trials", "17", "--json", "--quiet"]);
    assert!(ran.expect(0, &[]).stderr.is_empty(), "{}", ran.stderr);
    let closing = json(&ran);
    assert_eq!(closing["schema_version"], 1);
    assert_eq!(closing["study"], "test");
    assert_eq!(closing["storage"], "sqlite:study.db");
    assert_eq!(closing["ended"], "complete");
    assert_eq!(closing["trials_wanted"], 17);
    assert_eq!(closing["told_by_this_run"], 2);
    assert_eq!(closing["trials"]["complete"], 17);
    let best = &closing["best"];
    let values = sandbox.export("s.toml");
    let values = values.iter().map(|row| row["value"].parse().expect("a number"));
    let least = values.fold(f64::INFINITY, f64::min);
    assert_eq!(best["value"].as_f64().map(f64::to_bits), Some(least.to_bits()));
    assert!(best["parameters"]["kind"].is_string());

    // With only the storage, the output is the same.
    for command in ["trials", "best", "export"] {
        let of_file = sandbox.fedbo(&[command, "s.toml"]);
        let of_storage = sandbox.fedbo(&[command, "sqlite:study.db"]);
        assert_eq!(of_file.expect(0, &[]).stdout, of_storage.expect(0, &[]).stdout);
    }
    let ran = sandbox.fedbo(&["best", "s.toml"]);
    assert!(ran.stdout.contains("parameter  value"), "{}", ran.stdout);
    assert!(ran.stdout.contains("share  relevance"), "{}", ran.stdout);
    let found = json(&sandbox.fedbo(&["best", "s.toml", "--json"]));
    assert_eq!(found["best"]["number"], best["number"]);
    assert_eq!(found["model"]["importance"][2]["name"], "kind");
    assert_eq!(found["model"]["n_values"], 17);
}

#[test]
fn without_a_storage_trials_are_said_to_be_lost() {
    let sandbox = Sandbox::new();
    let text = study(3, "random", LOSS).replace("storage = \"sqlite:study.db\"\n", "");
    sandbox.write("s.toml", &text);
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    let keep = "add storage = \"sqlite:test.db\" to [study]";
    ran.expect(0, &["trials are kept in memory and lost at the end", keep]);
    assert!(ran.stdout.contains("best value"), "{}", ran.stdout);
    for arguments in [
        &["ask", "s.toml"][..],
        &["tell", "s.toml", "0", "1"],
        &["enqueue", "s.toml", "x=0", "n=1", "kind=a"],
        &["release", "s.toml", "0"],
        &["trials", "s.toml"],
        &["best", "s.toml"],
        &["export", "s.toml"],
        &["plot", "s.toml"],
    ] {
        let ran = sandbox.fedbo(arguments);
        ran.expect(2, &["s.toml keeps its trials in memory", keep]);
        assert!(ran.stdout.is_empty());
    }
    assert_eq!(sandbox.names(), ["s.toml"]);
}

#[test]
fn failed_trials_are_recorded_with_their_reasons_and_the_rest_counts() {
    let sandbox = Sandbox::new();
    let script = format!(
        r#"case $FEDBO_TRIAL in
1) echo broken sensor >&2; exit 3;;
2) echo NaN;;
3) sleep 60;;
4) kill -9 $$;;
5) echo done;;
*) {LOSS};;
esac"#
    );
    let text = study(8, "ts", &script) + "timeout_s = 0.3\n";
    sandbox.write("s.toml", &text);
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(
        0,
        &[
            "trial 1 failed: the command ended with exit status 3; its standard error ends: broken sensor",
            "trial 3 failed: the command was killed after its timeout of 0.3 s",
        ],
    );
    assert!(ran.stdout.contains("8 of 8 trials told, 5 of them failed"), "{}", ran.stdout);
    let rows = sandbox.export("s.toml");
    let failures: Vec<&str> = rows.iter().map(|row| row["failure"].as_str()).collect();
    let kinds = ["exit: ", "not-finite: ", "timed-out: ", "signal: ", "unparsable: "];
    for (failure, kind) in failures[1..].iter().zip(kinds) {
        assert!(failure.starts_with(kind), "{failures:?}");
    }
    assert!(rows[1]["value"].is_empty() && !rows[0]["value"].is_empty());
    let ran = sandbox.fedbo(&["trials", "s.toml"]);
    assert!(ran.stdout.contains("failed: timed-out"), "{}", ran.stdout);
    sandbox.fedbo(&["best", "s.toml"]).expect(0, &[]);
}

#[test]
fn a_study_without_one_value_is_code_5() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(3, "log-ei", "echo no licence >&2; exit 3"));
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(
        5,
        &[
            "error: all 3 trials failed, the last one because the command ended with exit status 3; its standard error ends: no \
             licence",
            "fedbo trials s.toml",
        ],
    );
    assert!(ran.stdout.is_empty());
    sandbox.fedbo(&["tune", "s.toml"]).expect(5, &["all 3 trials failed"]);
    let ran = sandbox.fedbo(&["tune", "s.toml", "--json"]);
    assert!(json(ran.expect(5, &[]))["best"].is_null());
    sandbox.fedbo(&["best", "s.toml"]).expect(5, &["no trial has a value: 3 trials failed"]);
    sandbox.fedbo(&["plot", "s.toml"]).expect(0, &[]);
}

/// Works like a shell script: ask, evaluate, tell, until no trials are left.
#[test]
fn a_loop_of_ask_and_tell_completes_a_study_without_a_command() {
    let sandbox = Sandbox::new();
    let text = study(12, "log-ei", "");
    let (text, _) = text.split_once("[objective]").expect("a table");
    sandbox.write("s.toml", text);
    sandbox
        .fedbo(&["tune", "s.toml"])
        .expect(2, &["s.toml names no command; add [objective]", "fedbo ask s.toml"]);
    assert_eq!(sandbox.names(), ["s.toml"]);
    for command in ["trials", "best", "plot"] {
        sandbox.fedbo(&[command, "s.toml"]).expect(
            2,
            &["study \"test\" has no trials yet in sqlite:study.db", "fedbo tune s.toml"],
        );
    }
    assert_eq!(sandbox.names(), ["s.toml"]);

    let script = r#"
while line=$("$FEDBO" ask s.toml); do
    number=${line%% *}
    x=${line#*x=}; x=${x%% *}
    "$FEDBO" tell s.toml "$number" "$(awk -v x="$x" 'BEGIN { printf "%.17g", x - 3 }')" || exit 9
done"#;
    let shell = std::process::Command::new("sh")
        .args(["-c", script])
        .env("FEDBO", env!("CARGO_BIN_EXE_fedbo"))
        .current_dir(sandbox.folder.path())
        .output();
    let ran: common::Ran = shell.expect("the shell starts").into();
    // This is the last ask, which ends the loop.
    let part = "error: study \"test\" has all its 12 trials; raise trials in the file";
    ran.expect(0, &[part]);
    let rows = sandbox.export("s.toml");
    assert_eq!(rows.len(), 12);
    for row in &rows {
        let number = |name: &str| -> f64 { row[name].parse().expect("a number") };
        assert!((number("x") - 3.0 - number("value")).abs() < 1e-15, "{row:?}");
        assert_eq!(row["state"], "complete");
    }
    assert!(rows.iter().any(|row| row["source"] == "own"));
}

#[test]
fn trials_are_asked_for_told_given_back_and_enqueued_by_hand() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(6, "sobol", LOSS));
    let ran = sandbox.fedbo(&["ask", "s.toml", "--count", "3", "--json"]);
    let lines: Vec<serde_json::Value> = ran
        .expect(0, &[])
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2]["trial"], 2);
    assert!(lines[2]["parameters"]["n"].is_i64());

    let tell = |arguments: &[&str], code: i32, parts: &[&str]| {
        let ran = sandbox.fedbo(&[&["tell", "s.toml"], arguments].concat());
        ran.expect(code, parts);
        ran.stdout
    };
    assert_eq!(tell(&["0", "-1.5e-3"], 0, &[]), "trial 0 told: -0.0015; best -0.0015 (trial 0)\n");
    assert_eq!(
        tell(&["0", "-0.0015"], 0, &[]),
        "trial 0 was already told: -0.0015; best -0.0015 (trial 0)\n"
    );
    tell(&["0", "-0.0016"], 2, &["trial 0 has already ended with the value -0.0015, which stays"]);
    tell(&["0", "--failed", "no"], 2, &["has already ended with the value"]);
    assert!(tell(&["1", "--failed", "-no luck"], 0, &[]).starts_with("trial 1 told: failed"));
    assert!(
        tell(&["1", "--failed", "-no luck", "--json"], 0, &[]).contains("\"told\":\"already\"")
    );
    tell(&["7", "1"], 2, &["there is no trial 7; the study has 3 so far, numbered from 0"]);
    tell(&["2"], 2, &["how did trial 2 end? give its VALUE, or --failed REASON"]);
    tell(&["2", "1", "--failed", "x"], 2, &["cannot be used with"]);
    for value in ["nan", "-inf", "1e999"] {
        tell(&["2", value], 2, &["is not a finite number; tell a failure instead"]);
    }
    tell(&["2", "one"], 2, &["'one'", "expected a number"]);
    tell(&["two", "1"], 2, &["'two'"]);

    let release = |code: i32, parts: &[&str]| {
        sandbox.fedbo(&["release", "s.toml", "2"]).expect(code, parts);
    };
    release(0, &[]);
    assert_eq!(sandbox.export("s.toml")[2]["state"], "waiting");
    let again = sandbox.fedbo(&["ask", "s.toml"]);
    assert!(again.stdout.starts_with("2 x="), "{}", again.stdout);
    tell(&["2", "0.5"], 0, &[]);
    release(2, &["trial 2 has already ended"]);

    let ran = sandbox.fedbo(&["enqueue", "s.toml", "x=-0.25", "kind=b", "n=4"]);
    assert_eq!(ran.expect(0, &[]).stdout, "trial 3 waits: x=-0.25 n=4 kind=b\n");
    sandbox
        .fedbo(&["enqueue", "s.toml", "x=-0.25", "kind=b", "n=4"])
        .expect(2, &["this point is already trial 3"]);
    let ran = sandbox.fedbo(&["ask", "s.toml", "--count", "5"]);
    ran.expect(0, &["only 3 of 5: study \"test\" has all its 6 trials"]);
    assert!(ran.stdout.starts_with("3 x=-0.25 n=4 kind=b\n4 x="), "{}", ran.stdout);
    sandbox.fedbo(&["ask", "s.toml"]).expect(
        2,
        &["asked for manually and not told yet: 3, 4, 5 (fedbo tell s.toml TRIAL VALUE, or fedbo release s.toml TRIAL)"],
    );
    // A run does not touch trials that were asked for manually, and reports them.
    sandbox.fedbo(&["release", "s.toml", "4"]).expect(0, &[]);
    sandbox.fedbo(&["tune", "s.toml"]).expect(
        0,
        &["3 of 6 trials told (1 failed), 1 waits", "asked for manually and not told yet: 3, 5;"],
    );
    assert_eq!(sandbox.export("s.toml")[4]["state"], "complete");
    assert_eq!(sandbox.export("s.toml")[3]["source"], "enqueued");
}

#[test]
fn a_storage_may_hold_several_studies() {
    let sandbox = Sandbox::new();
    for name in ["one", "two"] {
        let text = study(2, "random", LOSS).replace("\"test\"", &format!("{name:?}"));
        sandbox.write(&format!("{name}.toml"), &text);
        sandbox.fedbo(&["tune", &format!("{name}.toml")]).expect(0, &[]);
    }
    let at = "sqlite:study.db";
    sandbox
        .fedbo(&["trials", at])
        .expect(2, &["which study? this storage has \"one\", \"two\"; name one with --study NAME"]);
    let ran = sandbox.fedbo(&["trials", at, "--study", "two", "--json"]);
    assert_eq!(json(ran.expect(0, &[]))["study"], "two");
    sandbox
        .fedbo(&["trials", at, "--study", "three"])
        .expect(2, &["there is no study \"three\" in this storage; it has \"one\", \"two\""]);
    // A storage does not contain the requested number of trials.
    sandbox.fedbo(&["ask", at, "--study", "one"]).expect(0, &[]);
    let ran = sandbox.fedbo(&["storage", "verify", at, "--json"]);
    let report = json(ran.expect(0, &[]));
    assert_eq!((&report["studies"], &report["trials"]), (&2.into(), &5.into()));
    assert_eq!(report["is_sound"], true);
}

#[test]
fn a_noisy_study_also_names_the_best_by_its_model() {
    let sandbox = Sandbox::new();
    let text = study(12, "log-ei", LOSS).replace("seed = 3", "seed = 3\nnoisy = true");
    sandbox.write("s.toml", &text);
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    let ran = sandbox.fedbo(&["best", "s.toml"]);
    assert!(ran.expect(0, &[]).stdout.contains("the model "), "{}", ran.stdout);
    // Points can be tried again.
    for _ in 0..2 {
        sandbox.fedbo(&["enqueue", "s.toml", "x=0", "n=1", "kind=a"]).expect(0, &[]);
    }
}

#[test]
fn a_space_that_is_used_up_ends_a_study() {
    let sandbox = Sandbox::new();
    let text = study(20, "log-ei", "echo $2");
    let x = "[space.x]\ntype = \"float\"\nlow = -1.0\nhigh = 2.0\n";
    let text = text.replace(x, "").replace("\"{x}\"", "\"x\"");
    let text = text.replace("high = 9", "high = 2");
    sandbox.write("s.toml", &text);
    let ran = sandbox.fedbo(&["tune", "s.toml"]);
    ran.expect(0, &["every point of the space was tried"]);
    assert_eq!(sandbox.export("s.toml").len(), 6);
    let ran = sandbox.fedbo(&["tune", "s.toml", "--json"]);
    assert_eq!(json(ran.expect(0, &[]))["ended"], "exhausted");
    sandbox.fedbo(&["ask", "s.toml"]).expect(2, &["all 6 points", "the study ends here"]);
}

#[test]
fn an_export_has_all_columns_and_reads_back() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(3, "random", LOSS));
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &[]);
    let ran = sandbox.fedbo(&["export", "s.toml"]);
    let header = "number,state,source,value,failure,attempts,asked_at,started_at,told_at,ask_seconds,evaluate_seconds,trained_epochs,x,n,kind";
    assert_eq!(ran.stdout.lines().next(), Some(header));
    let ran = sandbox.fedbo(&["export", "s.toml", "--format", "json", "--out", "all.json"]);
    assert!(ran.expect(0, &[]).stdout.is_empty());
    let text = std::fs::read_to_string(sandbox.path("all.json")).expect("an export");
    assert_eq!(text, sandbox.fedbo(&["trials", "s.toml", "--json"]).stdout);
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let trials = document["trials"].as_array().expect("a list");
    for (row, trial) in sandbox.export("s.toml").iter().zip(trials) {
        let value: f64 = row["value"].parse().expect("a number");
        assert_eq!(trial["value"].as_f64().map(f64::to_bits), Some(value.to_bits()));
        let x: f64 = row["x"].parse().expect("a number");
        let told = trial["parameters"]["x"].as_f64();
        assert_eq!(told.map(f64::to_bits), Some(x.to_bits()));
        assert!(row["told_at"].ends_with('Z') && row["told_at"] >= row["asked_at"]);
    }
}

#[test]
fn the_pictures_of_a_study_are_drawn() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(8, "sobol", LOSS));
    sandbox.fedbo(&["ask", "s.toml"]).expect(0, &[]);
    sandbox.fedbo(&["plot", "s.toml"]).expect(2, &["has no finished trial to draw yet"]);
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &[]);
    let ran = sandbox.fedbo(&["plot", "s.toml", "--json"]);
    let files = json(ran.expect(0, &[]));
    assert_eq!(files["files"][0], "results/test/history.svg");
    assert_eq!(files["files"].as_array().map(Vec::len), Some(6));
    let ran = sandbox.fedbo(&["plot", "sqlite:study.db", "--out", "there"]);
    for path in ran.expect(0, &[]).stdout.lines() {
        assert!(sandbox.path(path).exists(), "{path}");
    }
    let svg = std::fs::read_to_string(sandbox.path("there/slices.svg")).expect("a picture");
    assert!(svg.contains("kind"));
    sandbox.write("plain", "a file");
    sandbox
        .fedbo(&["plot", "s.toml", "--out", "plain/x"])
        .expect(4, &["cannot create the folder plain/x"]);
    sandbox
        .fedbo(&["plot", "there", "--out", "x"])
        .expect(2, &["--out, --study and --trial are for the pictures of a study"]);
}

#[test]
fn a_damaged_storage_is_named_and_never_written() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(30, "random", LOSS));
    sandbox.fedbo(&["tune", "s.toml"]).expect(0, &[]);
    let ran = sandbox.fedbo(&["storage", "upgrade", "sqlite:study.db"]);
    assert!(ran.expect(0, &[]).stdout.contains("study.db is up to date"), "{}", ran.stdout);
    let mut bytes = std::fs::read(sandbox.path("study.db")).expect("a file");
    let n_bytes = bytes.len();
    bytes[n_bytes - 3000..].fill(0x5a);
    std::fs::write(sandbox.path("study.db"), &bytes).expect("writable");
    let ran = sandbox.fedbo(&["storage", "verify", "study.db"]);
    ran.expect(2, &["study.db is damaged"]);
    assert!(!ran.stdout.is_empty());
    let ran = sandbox.fedbo(&["storage", "verify", "study.db", "--json"]);
    assert_eq!(json(ran.expect(2, &[]))["is_sound"], false);
    std::fs::write(sandbox.path("study.db"), "words").expect("writable");
    for arguments in
        [&["trials", "s.toml"][..], &["tune", "s.toml"], &["storage", "verify", "study.db"]]
    {
        sandbox.fedbo(arguments).expect(2, &["study.db: it is not a valid storage of studies"]);
    }
    let after = std::fs::read_to_string(sandbox.path("study.db"));
    assert_eq!(after.expect("still text"), "words");
}

/// A study that was stored before its strategy had its current options continues unchanged, with
/// the same file.
#[test]
fn a_study_that_was_stored_without_later_options_goes_on() {
    let sandbox = Sandbox::new();
    for (strategy, options) in [
        ("log-ei", vec![r#","output_transform":"automatic""#, r#","augmented":true"#]),
        ("ts", vec![r#","output_transform":"automatic""#, r#","search":"local""#]),
    ] {
        let file = format!("{strategy}.toml");
        let text = study(8, strategy, LOSS).replace("study.db", &format!("{strategy}.db"));
        sandbox.write(&file, &text);
        sandbox.fedbo(&["tune", &file, "--quiet"]).expect(0, &[]);
        let path = sandbox.path(&format!("{strategy}.db"));
        let connection = rusqlite::Connection::open(path).expect("a storage");
        for option in options {
            let sql = "UPDATE studies SET definition = replace(definition, ?, '')";
            connection.execute(sql, [option]).expect("a definition");
        }
        let sql = "SELECT definition FROM studies";
        let stored: String = connection.query_row(sql, [], |row| row.get(0)).expect("one");
        for key in ["output_transform", "search", "augmented"] {
            assert!(!stored.contains(&format!("\"{key}\"")), "{stored}");
        }
        drop(connection);
        sandbox.write(&file, &text.replace("trials = 8", "trials = 10"));
        sandbox.fedbo(&["tune", &file, "--quiet"]).expect(0, &[]);
        assert_eq!(sandbox.export(&format!("sqlite:{strategy}.db")).len(), 10);
    }
}

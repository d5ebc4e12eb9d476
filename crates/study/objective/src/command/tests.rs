//! Tests of all outcomes of a command, each produced by a small shell script.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::thread;

use fedbo_space::{Kind, Parameter, ParameterSpec, Value};

use super::running::Finished;
use super::running::TAIL_BYTES;
use super::training_output::LINE_CHARS;
use super::*;

/// Time limit of a script. Even on a busy machine, only a hang exceeds it.
const PATIENCE: Duration = Duration::from_secs(20);

fn space() -> Space {
    let float = ParameterSpec::float(-5.0, 10.0);
    let choice = ParameterSpec::categorical(["rbf", "it's"]);
    let space = Space::from_specs([("x1", &float), ("kernel", &choice)]).unwrap();
    assert!(matches!(space.parameters()[0].kind(), Kind::Float { .. }));
    assert_eq!(space.parameters().iter().map(Parameter::name).count(), 2);
    space
}

fn point() -> Point {
    Point::new(vec![
        ("x1".into(), Value::Float(-0.5)),
        ("kernel".into(), Value::Choice("it's".into())),
    ])
}

const TRIAL: TrialId = TrialId { agent: 3, trial: 9 };

fn spec(argv: &[&str]) -> CommandSpec {
    CommandSpec {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        ..CommandSpec::default()
    }
}

fn objective(spec: &CommandSpec) -> CommandObjective {
    CommandObjective::new(spec, &space(), Arc::default()).unwrap()
}

fn refused(spec: &CommandSpec) -> CommandError {
    CommandObjective::new(spec, &space(), Arc::default()).unwrap_err()
}

/// Runs a script to its end, within [`PATIENCE`].
fn run(script: &str) -> Outcome {
    let started = Instant::now();
    let outcome = objective(&spec(&["sh", "-c", script])).evaluate(&point(), TRIAL);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    outcome
}

fn failure(script: &str) -> Failure {
    match run(script) {
        Outcome::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

fn run_for(script: &str, timeout_ms: u64) -> Outcome {
    let started = Instant::now();
    let limited = CommandSpec {
        timeout: Some(Duration::from_millis(timeout_ms)),
        ..spec(&["sh", "-c", script])
    };
    let outcome = objective(&limited).evaluate(&point(), TRIAL);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    outcome
}

#[test]
fn the_last_line_is_a_number_or_an_object_with_a_value() {
    for (script, value) in [
        ("echo 1.5", 1.5),
        ("echo loading; echo ' -2e-3 '; echo; echo", -2e-3),
        ("printf 7", 7.0),
        (r#"echo '{"value": 0.25, "epochs": 3}'"#, 0.25),
        (r#"echo '{"value": 2}'"#, 2.0),
        ("printf '\\377\\n3\\r\\n'", 3.0),
        ("printf ' 50%%|##  |\\r100%%|####|\\r0.25\\n'", 0.25),
        ("printf '4\\r\\r\\n \\r\\n'", 4.0),
    ] {
        assert_eq!(run(script), Outcome::Value(value), "{script}");
    }
}

#[test]
fn a_last_line_without_a_value_is_told_from_no_line_at_all() {
    assert_eq!(
        failure("echo why >&2; printf '\\n  \\n'"),
        Failure::NoValue { stderr: "why".into() }
    );
    for line in ["done", "0.5 0.6", r#"{"score": 1}"#, "[1]", r#"{"value": null}"#, "1,5"] {
        let found = failure(&format!("echo 1; echo '{line}'"));
        assert_eq!(found, Failure::Unparsable { line: line.into(), stderr: String::new() });
        assert!(found.to_string().contains("expected a number"), "{found}");
    }
}

#[test]
fn a_value_that_is_not_finite_is_a_failure() {
    for line in ["nan", "NaN", "-inf", "1e999", r#"{"value": NaN}"#, r#"{"value": -Infinity}"#] {
        let found = failure(&format!("echo '{line}'"));
        assert!(matches!(found, Failure::NotFinite(_)), "{line}: {found:?}");
    }
}

#[test]
fn exit_status_and_signal_are_told_apart_and_keep_the_end_of_stderr() {
    assert_eq!(
        failure("echo 1; printf 'bad \\033[31mthing' >&2; exit 3"),
        Failure::Exit { code: 3, stderr: "bad [31mthing".into() }
    );
    let killed = failure("echo 1; kill -9 $$");
    assert_eq!(killed, Failure::Signal { signal: 9, stderr: String::new() });
    let long = failure("yes trace | head -n 9999 >&2; echo the cause >&2; exit 1").to_string();
    assert!(long.ends_with("the cause"), "{long}");
    assert!(long.len() < 600, "{}", long.len());
}

#[test]
fn much_output_on_either_pipe_neither_blocks_nor_grows() {
    let both = "yes | head -c 10000000 & yes | head -c 10000000 >&2; wait; echo; echo 4";
    assert_eq!(run(both), Outcome::Value(4.0));
    let endless = run_for("yes", 300);
    assert!(matches!(endless, Outcome::Failed(Failure::TimedOut { .. })));

    let child = Command::new("sh")
        .args(["-c", "yes | head -c 10000000; echo last"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut running = Running::new(child, false);
    while !running.has_ended().unwrap() {
        running.listen(TICK).unwrap();
        assert!(running.stdout.tail.capacity() <= 4 * TAIL_BYTES);
    }
    let Finished { stdout, .. } = running.finish().unwrap();
    assert!(stdout.len() >= TAIL_BYTES && stdout.len() <= 2 * TAIL_BYTES);
    assert!(stdout.ends_with(b"last\n"));
}

#[test]
fn one_endless_line_is_unparsable_not_a_value() {
    let found = failure("head -c 1000000 /dev/zero | tr '\\0' 1; echo 1x");
    assert!(matches!(found, Failure::Unparsable { line, .. } if line.len() <= LINE_CHARS));
}

#[test]
fn a_command_that_hangs_is_killed_with_all_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let script = format!("echo started >&2; (sleep 2; touch {0}) & sleep 600", mark.display());
    let outcome = run_for(&script, 200);
    let Outcome::Failed(found @ Failure::TimedOut { .. }) = outcome else {
        panic!("{outcome:?}");
    };
    let message = found.to_string();
    assert!(message.contains("0.2 s") && message.contains("started"), "{message}");
    thread::sleep(Duration::from_millis(2300));
    assert!(!mark.exists(), "a child outlived the timeout");
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_and_one_that_heeds_it_may_clean_up() {
    let deaf = run_for("trap '' TERM; while :; do sleep 1; done", 200);
    assert!(matches!(deaf, Outcome::Failed(Failure::TimedOut { .. })));
    let tidy =
        run_for("trap 'echo tidy >&2; exit 0' TERM; echo 5; while :; do sleep 0.05; done", 300);
    let Outcome::Failed(Failure::TimedOut { stderr, .. }) = tidy else {
        panic!("{tidy:?}");
    };
    assert!(stderr.ends_with("tidy"), "{stderr}"); // some shells report their own dead children first
}

#[test]
fn a_grandchild_that_keeps_the_pipes_open_does_not_hold_the_trial() {
    assert_eq!(run("sleep 600 & echo 8"), Outcome::Value(8.0));
    // A child that left the process group cannot be killed, but it must not block the run either.
    let started = Instant::now();
    assert_eq!(run("setsid sleep 25 & sleep 0.2; echo 8"), Outcome::Value(8.0));
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[test]
fn outputs_closed_early_do_not_end_the_trial() {
    assert_eq!(
        failure("exec >&- 2>&-; sleep 0.2; exit 4"),
        Failure::Exit { code: 4, stderr: String::new() }
    );
}

/// A signal reaches both the command and this process, and the command exits first.
///
/// The trial counts as interrupted, not as failed.
#[test]
fn a_command_that_ends_by_the_signal_that_ends_this_process_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let script = format!("touch '{}'; kill -TERM $$", begun.display());
    let stop = Arc::new(AtomicBool::new(false));
    let killed =
        CommandObjective::new(&spec(&["sh", "-c", &script]), &space(), Arc::clone(&stop)).unwrap();
    assert!(matches!(killed.evaluate(&point(), TRIAL), Outcome::Failed(_)), "nobody stops it");
    std::fs::remove_file(&begun).unwrap();
    let outcome = thread::scope(|scope| {
        let trial = scope.spawn(|| killed.evaluate(&point(), TRIAL));
        while !begun.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(10)); // the command has ended by now, or is about to
        stop.store(true, Ordering::Relaxed);
        trial.join().unwrap()
    });
    assert_eq!(outcome, Outcome::Interrupted);
}

#[test]
fn the_stop_flag_interrupts_a_running_trial_and_refuses_the_next() {
    let stop = Arc::new(AtomicBool::new(false));
    let sleeper =
        CommandObjective::new(&spec(&["sleep", "600"]), &space(), Arc::clone(&stop)).unwrap();
    let started = Instant::now();
    let outcome = thread::scope(|scope| {
        let trial = scope.spawn(|| sleeper.evaluate(&point(), TRIAL));
        thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        trial.join().unwrap()
    });
    assert_eq!(outcome, Outcome::Interrupted);
    assert_eq!(sleeper.evaluate(&point(), TRIAL), Outcome::Interrupted);
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn parameters_arrive_as_arguments_and_in_the_environment() {
    let script = r#"[ "$1" = --x1=-0.5/1 ] && [ "$2" = --kernel=it\'s ] || exit 1
        [ "$3" = '{{x1}}' ] && [ "$4" = '{"a": {}}' ] || exit 1
        [ "$FEDBO_PARAMS" = '{"x1":-0.5,"kernel":"it'"'"'s"}' ] || exit 2
        [ "$FEDBO_TRIAL/$FEDBO_AGENT" = 9/3 ] || exit 3
        if read -r line; then exit 4; fi
        echo 1"#;
    let arguments = ["--x1={x1}/1", "--kernel={kernel}", "{{x1}}", r#"{"a": {}}"#];
    let argv = [&["sh", "-c", script, "sh"][..], &arguments].concat();
    let outcome = objective(&spec(&argv)).evaluate(&point(), TRIAL);
    assert_eq!(outcome, Outcome::Value(1.0));
    let lacking = objective(&spec(&argv)).evaluate(&Point::new(Vec::new()), TRIAL);
    assert!(matches!(lacking, Outcome::Failed(Failure::BadPoint { .. })));
}

#[test]
fn a_program_is_found_on_path_or_relative_to_the_working_directory() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("score.sh");
    std::fs::write(&script, "#!/bin/sh\npwd\necho 6\n").unwrap();
    let local = CommandSpec { directory: Some(folder.path().to_owned()), ..spec(&["./score.sh"]) };
    assert!(matches!(refused(&local), CommandError::NotExecutable { .. }));
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(objective(&local).evaluate(&point(), TRIAL), Outcome::Value(6.0));
    std::fs::remove_file(&script).unwrap();
    let gone = CommandSpec { argv: vec!["./score.sh".into()], ..local.clone() };
    assert!(matches!(refused(&gone), CommandError::NoSuchFile { .. }));
    let elsewhere = CommandSpec { directory: Some(folder.path().join("none")), ..spec(&["sh"]) };
    assert!(matches!(refused(&elsewhere), CommandError::Directory { .. }));
}

#[test]
fn a_program_that_vanishes_before_the_trial_is_a_failed_trial() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("score.sh");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let found = objective(&spec(&[script.to_str().unwrap()])).evaluate(&point(), TRIAL);
    assert!(matches!(found, Outcome::Failed(Failure::Spawn { .. })), "{found:?}");
}

#[test]
fn a_command_that_cannot_work_is_refused_with_the_key_the_value_and_the_way_out() {
    for (argv, expected) in [
        (&[] as &[&str], "objective.command = []"),
        (&[""], "objective.command[0] = \"\""),
        (&["{x1}"], "objective.command[0] = \"{x1}\""),
        (&["no-such-program-here"], "not on PATH"),
        (&["/no/such/program"], "there is no file /no/such/program"),
        (&["/"], "not an executable file"),
        (
            &["sh", "--x2", "{x2}"],
            "objective.command[2] = \"{x2}\": {x2} is not a parameter; known are x1, kernel (write {{x2}} for the text {x2} itself)",
        ),
        (&["sh", "a\0b"], "has a NUL character"),
    ] {
        let message = refused(&spec(argv)).to_string();
        assert!(message.contains(expected), "{argv:?}: {message}");
    }
    let hurried = CommandSpec { timeout: Some(Duration::ZERO), ..spec(&["sh"]) };
    assert_eq!(refused(&hurried), CommandError::Timeout);
}

/// Braces with blanks are a placeholder only if a parameter has this name.
#[test]
fn names_with_blanks_and_units_are_placeholders() {
    let number = ParameterSpec::float(0.0, 1.0);
    let names = ["Temp (°C)", "Stir speed"];
    let space = Space::from_specs(names.map(|name| (name, &number))).unwrap();
    let script = "echo 1 2 | awk '{print $2}' >&2; [ \"$1 $2\" = '--temp=0.25 {{Stir speed}}' ] && echo {Stir speed}";
    let argv = ["sh", "-c", script, "sh", "--temp={Temp (°C)}", "{{Stir speed}}"];
    let objective = CommandObjective::new(&spec(&argv), &space, Arc::default()).unwrap();
    let entries = names.map(str::to_owned).into_iter().zip([0.25, 0.5].map(Value::Float));
    let outcome = objective.evaluate(&Point::new(entries.collect()), TRIAL);
    assert_eq!(outcome, Outcome::Value(0.5));
    let unknown = CommandObjective::new(&spec(&["echo", "{Stir}"]), &space, Arc::default());
    let message = unknown.unwrap_err().to_string();
    assert!(message.contains("Temp (°C), Stir speed"), "{message}");
}

/// Attack: a coordinator sends a choice that an agent's shell would run as code (INV-24).
#[test]
fn choices_are_not_code() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = "x; touch pwned";
    let choices = [hostile, "--config=other.conf", "$(touch pwned)", "`touch pwned`"];
    let spec_of = ParameterSpec::categorical(choices);
    let width = ParameterSpec::float(0.0, 1.0);
    let space = Space::from_specs([("kernel", &spec_of), ("x", &width)]).unwrap();
    let command = |argv: &[&str]| {
        let spec = CommandSpec { directory: Some(folder.path().to_owned()), ..spec(argv) };
        CommandObjective::new(&spec, &space, Arc::default())
    };
    let refused = command(&["sh", "-c", "echo {kernel}; echo 1"]).unwrap_err();
    assert!(matches!(refused, CommandError::JoinedText { index: 2, .. }), "{refused:?}");
    let message = refused.to_string();
    for part in [
        "objective.command[2] = \"echo {kernel}; echo 1\"",
        "{kernel} is text that could be run as code here",
        r#"["sh", "-c", "./train \"$1\"", "sh", "{kernel}"]"#,
        "FEDBO_PARAMS",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let chosen = command(&["env", "A=1", "{kernel}"]).unwrap_err();
    assert!(matches!(chosen, CommandError::TextWithoutScript { index: 2, .. }), "{chosen:?}");
    // A whole argument is data, and a number is not code in any language.
    let argv = ["sh", "-c", "[ \"$1\" = \"$2\" ] && echo {x}", "sh", "{kernel}", "x; touch pwned"];
    let point = Point::new(vec![
        ("kernel".into(), Value::Choice(hostile.into())),
        ("x".into(), Value::Float(0.25)),
    ]);
    let outcome = command(&argv).unwrap().evaluate(&point, TRIAL);
    assert_eq!(outcome, Outcome::Value(0.25));
    assert!(!folder.path().join("pwned").exists());
}

#[test]
fn an_argument_of_a_parameter_that_does_not_exist_is_left_out_with_its_option() {
    let booster = ParameterSpec::categorical(["gbtree", "dart"]);
    let rate = ParameterSpec::float(0.0, 1.0).when("booster", "dart");
    let space = Space::from_specs([("booster", &booster), ("rate", &rate)]).unwrap();
    let script = "echo \"$#:$*|$FEDBO_PARAMS\" >&2; exit 1";
    let arguments = |rest: &[&str], point: &str| {
        let argv = [&["sh", "-c", script, "sh"], rest].concat();
        let command = CommandObjective::new(&spec(&argv), &space, Arc::default()).unwrap();
        match command.evaluate(&serde_json::from_str(point).unwrap(), TRIAL) {
            Outcome::Failed(failure) => failure.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let (tree, dart) = (r#"{"booster":"gbtree"}"#, r#"{"booster":"dart","rate":0.5}"#);
    let usual = ["--booster", "{booster}", "--rate", "{rate}", "-v"];
    for (rest, point, expected) in [
        (&usual[..], dart, "5:--booster dart --rate 0.5 -v|"),
        (&usual, tree, "3:--booster gbtree -v|{\"booster\":\"gbtree\"}"),
        (&["--rate={rate}", "{booster}"], tree, "1:gbtree|"),
        (&["-a", "--rate={rate}", "{booster}"], tree, "2:-a gbtree|"),
        (&["--a=1", "{rate}", "x"], tree, "2:--a=1 x|"),
        (&["--", "{rate}"], tree, "1:--|"),
        (&["{booster}", "{rate}", "{rate}"], tree, "1:gbtree|"),
        (&["-a", "{rate}", "{rate}", "x"], tree, "1:x|"),
        (&["-a", "-b", "{rate}", "{rate}", "x"], tree, "2:-a x|"),
    ] {
        let failed = arguments(rest, point);
        assert!(failed.contains(expected), "{rest:?} {point}: {failed}");
    }
    // A parameter without a condition is never left out.
    let failed = arguments(&["{booster}"], r#"{"rate":0.5}"#);
    assert!(failed.contains("lacks parameter booster"), "{failed}");
    let argv = ["timeout", "{rate}", "./train", "{booster}"];
    let refused = CommandObjective::new(&spec(&argv), &space, Arc::default()).unwrap_err();
    assert!(matches!(refused, CommandError::ConditionalBeforeText { index: 1, .. }), "{refused}");
}

/// Secrets in the environment and open files of this process are hidden from commands (INV-26).
#[test]
fn a_command_gets_no_secrets_and_no_open_files_of_ours() {
    const MARK: &str = "FEDBO_TEST_SECRETS";
    const SECRETS: [&str; 10] = [
        "FEDBO_TOKEN",
        "FEDBO_WORKER_TOKEN",
        "MLFLOW_TRACKING_USERNAME",
        "MLFLOW_TRACKING_PASSWORD",
        "MLFLOW_TRACKING_TOKEN",
        "FEDBO_COORDINATOR_STORE",
        "PGPASSWORD",
        "PGPASSFILE",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
    ];
    if std::env::var_os(MARK).is_none() {
        // A process gets its environment when it starts, so this test runs itself again with
        // secrets set.
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "--nocapture"]);
        again.arg("command::tests::a_command_gets_no_secrets_and_no_open_files_of_ours");
        again.envs(SECRETS.map(|name| (name, "hunter2"))).env(MARK, "1");
        let ran = again.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = std::fs::File::create(folder.path().join("open")).unwrap();
    let script = format!(
        "env > env; ls /proc/$$/fd > fds; [ -n \"${MARK}\" ] && [ -n \"$PATH\" ] && echo 1"
    );
    let spec =
        CommandSpec { directory: Some(folder.path().to_owned()), ..spec(&["sh", "-c", &script]) };
    let objective = CommandObjective::new(&spec, &space(), Arc::default()).unwrap();
    assert_eq!(objective.evaluate(&point(), TRIAL), Outcome::Value(1.0));
    drop(open);
    let seen = std::fs::read_to_string(folder.path().join("env")).unwrap();
    assert!(seen.contains("FEDBO_PARAMS=") && !seen.contains("hunter2"), "{seen}");
    for name in SECRETS {
        assert!(is_secret(name.as_ref()) && !seen.contains(name), "{name}: {seen}");
    }
    // Only the standard streams and the shell's own redirection (10 and above) are open.
    let fds = std::fs::read_to_string(folder.path().join("fds")).unwrap();
    let own =
        |fd: &str| matches!(fd, "0" | "1" | "2") || fd.parse::<u32>().is_ok_and(|fd| fd >= 10);
    assert!(fds.lines().all(own), "{fds}");
}

/// Returns the names of environment variables in the product's sources, each with whether its line
/// reads the variable with a direct call.
fn variables_in_sources() -> Vec<(String, bool)> {
    fn walk(folder: &std::path::Path, found: &mut Vec<(String, bool)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !matches!(name.as_str(), "tests" | "target" | "assets" | "__pycache__") {
                    walk(&path, found);
                }
            } else if (name.ends_with(".rs") || name.ends_with(".py")) && !name.contains("tests") {
                let text = std::fs::read_to_string(&path).unwrap();
                let product = text.split("#[cfg(test)]").next().unwrap();
                for line in product.lines() {
                    // Pieces at odd indices are between quotation marks.
                    let pieces: Vec<&str> = line.split(['"', '\'']).collect();
                    for (place, piece) in pieces.iter().enumerate().skip(1).step_by(2) {
                        let is_name =
                            |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                        if piece.len() >= 4 && piece.chars().all(is_name) {
                            let before = pieces[place - 1];
                            let reads =
                                ["env = ", "env::var(", "var_os(", "environ.get(", "environ["];
                            let is_read = reads.iter().any(|call| before.ends_with(call));
                            found.push(((*piece).to_owned(), is_read));
                        }
                    }
                }
            }
        }
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut found = Vec::new();
    walk(&root.join("crates"), &mut found);
    walk(&root.join("games"), &mut found);
    walk(&root.join("python/fedbo"), &mut found);
    found
}

/// Each variable that the product reads is withheld from commands or listed here (INV-26).
#[test]
fn every_secret_that_the_sources_name_is_kept_from_commands() {
    const HARMLESS: [&str; 15] = [
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XDG_RUNTIME_DIR",
        "PATH",
        "PYTHONUNBUFFERED",
        "FEDBO_LOG",
        "FEDBO_COORDINATOR", // folders
        "FEDBO_HELPER",
        "OTEL_SERVICE_NAME",
        "OTEL_SDK_DISABLED",
        // Hosts. Commands need a proxy for their own downloads, even one with a password.
        "NO_PROXY",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ];
    let words =
        ["TOKEN", "PASSWORD", "PASSFILE", "SECRET", "USERNAME", "CREDENTIAL", "HEADERS", "API_KEY"];
    let found = variables_in_sources();
    for (name, is_read) in &found {
        let is_secret_by_name = words.iter().any(|word| name.contains(word));
        let is_ours =
            ["FEDBO_", "MLFLOW_", "OTEL_", "PG", "WANDB_"].iter().any(|of| name.starts_with(of));
        if is_secret_by_name && is_ours || *is_read && !HARMLESS.contains(&name.as_str()) {
            assert!(is_secret(name.as_ref()), "commands inherit {name}");
        }
    }
    for name in [
        "FEDBO_TOKEN",
        "FEDBO_WORKER_TOKEN",
        "FEDBO_COORDINATOR_STORE",
        "FEDBO_COORDINATOR_KEY",
        "PGPASSWORD",
        "MLFLOW_TRACKING_TOKEN",
    ] {
        assert!(found.iter().any(|(known, _)| known == name), "the sources do not read {name}");
    }
}

/// A service in this process can raise its open-file limit. Commands keep the previous limit.
#[cfg(target_os = "linux")]
#[test]
fn a_command_gets_the_limit_of_open_files_from_before_it_was_raised() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const MARK: &str = "FEDBO_TEST_OPEN_FILES";
    if std::env::var_os(MARK).is_none() {
        // The limit is per process, so this test runs itself again in a child process.
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "--nocapture", "--include-ignored"]);
        again.arg(
            "command::tests::a_command_gets_the_limit_of_open_files_from_before_it_was_raised",
        );
        let ran = again.env(MARK, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let set = |current| {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).unwrap();
    };
    set(300);
    let objective = objective(&spec(&["sh", "-c", "sleep 0.2; ulimit -Sn"]));
    set(600);
    assert_eq!(objective.evaluate(&point(), TRIAL), Outcome::Value(300.0));
    assert_eq!(getrlimit(Resource::Nofile).current, Some(600));
}

#[test]
fn a_command_with_several_numbers_prints_an_object_with_exactly_these() {
    let names = NumberNames::new(["error", "size_mb"]);
    let run = |script: &str| {
        let objective =
            CommandObjective::new(&spec(&["sh", "-c", script]), &space(), Arc::default()).unwrap();
        objective.with_numbers(names.clone()).evaluate(&point(), TRIAL)
    };
    let whole = "echo log; echo '{\"size_mb\": 12, \"error\": 0.1}'";
    assert_eq!(run(whole), Outcome::Numbers(vec![0.1, 12.0]));
    for (line, kind, words) in [
        (
            "{\"error\": 0.1}",
            "numbers",
            "\"size_mb\" is missing; expected {\"error\": .., \"size_mb\": ..}",
        ),
        (
            "{\"error\": 1, \"size_mb\": 2, \"size\": 3}",
            "numbers",
            "\"size\" is not a number of this study",
        ),
        (
            "{\"error\": 1, \"size_mb\": \"big\"}",
            "numbers",
            "\"size_mb\" is \"big\", expected a number",
        ),
        ("{\"error\": NaN, \"size_mb\": 2}", "not-finite", "\"error\" is not a finite number"),
        ("0.5", "numbers", "it is not a JSON object"),
    ] {
        match run(&format!("echo '{line}'")) {
            Outcome::Failed(failure) => {
                let message = failure.to_string();
                assert!(failure.kind() == kind && message.contains(words), "{line}: {message}");
            }
            other => panic!("{line}: {other:?}"),
        }
    }
}

//! Output on a terminal while a study runs, and its colours.

use crate::common;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use common::{LOSS, Sandbox, finished_code, study, terminal, written};

/// Returns all terminal output of a study's run, and its standard output.
fn watched(columns: u16) -> (String, String) {
    let sandbox = Sandbox::new();
    let script = format!("sleep 0.1; if [ $FEDBO_TRIAL = 3 ]; then exit 7; fi; {LOSS}");
    sandbox.write("s.toml", &study(10, "sobol", &script));
    let (ours, theirs) = terminal(columns);
    let mut child = sandbox
        .command(&["tune", "s.toml"])
        .stdout(Stdio::piped())
        .stderr(theirs)
        .spawn()
        .expect("the binary starts");
    let reader = written(ours);
    let mut stdout = String::new();
    let mut pipe = child.stdout.take().expect("piped");
    pipe.read_to_string(&mut stdout).expect("UTF-8");
    assert_eq!(finished_code(&mut child), Some(0));
    (reader.join().expect("it reads"), stdout)
}

#[test]
fn a_terminal_shows_how_far_the_study_is() {
    let (screen, stdout) = watched(100);
    for part in [
        "test: a new study in sqlite:study.db: 10 trials by sobol",
        "trial 3 failed: the command ended with exit status 7",
        "/10 trials, 1 failed  ",
        "  best   ",
        "  curve  ",
        "  times  ",
        " an evaluation (medians)",
        "  now    trial ",
        "━",
    ] {
        assert!(screen.contains(part), "{part:?} in {screen:?}");
    }
    // Plain lines are used only without a terminal.
    assert!(!screen.contains("[1/10]"), "{screen:?}");
    assert!(stdout.starts_with("best value "), "{stdout}");
    assert!(!stdout.contains('\u{1b}'), "{stdout:?}");
}

#[test]
fn a_narrow_terminal_shows_less() {
    let (screen, _) = watched(30);
    assert!(screen.contains("  best   ") && screen.contains('…'), "{screen:?}");
    // The display is cleared at the end, and only lines remain.
    let (_, end) = screen.rsplit_once("\u{1b}[2K").expect("a cleared line");
    assert!(!end.contains("  now    "), "{screen:?}");
}

/// Runs a command on a terminal with these variables set. Returns its standard output and standard
/// error together.
fn on_terminal(sandbox: &Sandbox, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let (ours, theirs) = terminal(100);
    let errors = theirs.try_clone().expect("another handle").into();
    shown_on(ours, theirs, errors, sandbox, arguments, variables)
}

/// Runs a command with a terminal as its standard output, and returns this output. Standard error
/// is omitted, because a slow machine shows spinners there.
fn output_on_terminal(sandbox: &Sandbox, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let (ours, theirs) = terminal(100);
    shown_on(ours, theirs, Stdio::null(), sandbox, arguments, variables)
}

fn shown_on(
    ours: OwnedFd,
    theirs: OwnedFd,
    errors: Stdio,
    sandbox: &Sandbox,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> String {
    let mut command = sandbox.command(arguments);
    plain(&mut command);
    let mut child = command
        .envs(variables.iter().copied())
        .stdout(theirs)
        .stderr(errors)
        .spawn()
        .expect("the binary starts");
    drop(command); // closes its handles of the other end
    let reader = written(ours);
    child.wait().expect("it ends");
    reader.join().expect("it reads")
}

/// Sets a terminal with colours, and removes variables that control them.
fn plain(command: &mut std::process::Command) {
    command.env("TERM", "xterm-256color");
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        command.env_remove(name);
    }
}

/// Runs a command with pipes. Returns its standard output and standard error.
fn in_pipes(sandbox: &Sandbox, arguments: &[&str], variables: &[(&str, &str)]) -> (String, String) {
    let mut command = sandbox.command(arguments);
    plain(&mut command);
    let output = command.envs(variables.iter().copied()).output();
    let ran: common::Ran = output.expect("the binary starts").into();
    (ran.stdout, ran.stderr)
}

const RED: &str = "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m ";

#[test]
fn a_terminal_has_colours_unless_they_are_not_wanted() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(4, "sobol", LOSS));
    sandbox.fedbo(&["tune", "s.toml", "-q"]).expect(0, &[]);
    let best = sandbox.fedbo(&["best", "s.toml", "--json"]);
    let number = common::json(&best)["best"]["number"].as_u64().expect("a number");

    let shown = on_terminal(&sandbox, &["trials", "s.toml"], &[]);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("\u{1b}[1mtrial"), "{shown:?}");
    let green: Vec<&&str> = lines.iter().filter(|line| line.contains("\u{1b}[32m")).collect();
    assert_eq!(green.len(), 1, "{shown:?}");
    let row = green[0].trim_start_matches("\u{1b}[1m\u{1b}[32m").trim_start();
    assert!(row.starts_with(&format!("{number} ")), "{shown:?}");

    for off in [("NO_COLOR", "1"), ("CLICOLOR", "0"), ("TERM", "dumb")] {
        let shown = on_terminal(&sandbox, &["trials", "s.toml"], &[off]);
        assert!(!shown.contains('\u{1b}'), "{off:?}: {shown:?}");
        assert!(shown.contains("trial"), "{off:?}: {shown:?}");
        let shown = on_terminal(&sandbox, &["tune", "none.toml"], &[off]);
        assert!(shown.starts_with("error: cannot read none.toml"), "{off:?}: {shown:?}");
        let shown = on_terminal(&sandbox, &["--help"], &[off]);
        assert!(!shown.contains('\u{1b}'), "{off:?}: {shown:?}");
    }
    let shown = on_terminal(&sandbox, &["tune", "none.toml"], &[]);
    assert!(shown.starts_with(RED), "{shown:?}");
    // Help and errors about arguments are coloured too.
    assert!(on_terminal(&sandbox, &["--help"], &[]).contains('\u{1b}'));
    assert!(on_terminal(&sandbox, &["tune"], &[]).contains("\u{1b}[31m"));
    // Data for programs have no colours, even on a terminal.
    for arguments in [["trials", "s.toml", "--json"], ["best", "s.toml", "--json"]] {
        let shown = output_on_terminal(&sandbox, &arguments, &[("CLICOLOR_FORCE", "1")]);
        assert!(shown.starts_with(['{', '[']), "{shown:?}");
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
    }
}

#[test]
fn pipes_have_no_colours_unless_they_are_forced() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(4, "sobol", LOSS));
    sandbox.fedbo(&["tune", "s.toml", "-q"]).expect(0, &[]);
    for arguments in [&["trials", "s.toml"][..], &["tune", "none.toml"], &["--help"], &["tune"]] {
        let (stdout, stderr) = in_pipes(&sandbox, arguments, &[]);
        assert!(!(stdout + &stderr).contains('\u{1b}'), "{arguments:?}");
    }
    let forced = [("CLICOLOR_FORCE", "1")];
    let (stdout, _) = in_pipes(&sandbox, &["trials", "s.toml"], &forced);
    assert!(stdout.contains("\u{1b}[32m"), "{stdout:?}");
    let (_, stderr) = in_pipes(&sandbox, &["tune", "none.toml"], &forced);
    assert!(stderr.starts_with(RED), "{stderr:?}");
    let (stdout, _) = in_pipes(&sandbox, &["export", "s.toml"], &forced);
    assert!(!stdout.contains('\u{1b}'), "{stdout:?}");
}

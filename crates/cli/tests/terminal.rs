//! What stands on a terminal while a study runs.

mod common;

use std::io::Read;
use std::os::fd::OwnedFd;

use common::{LOSS, Sandbox, finished_code, study};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Both ends of a terminal of so many columns.
fn terminal(columns: u16) -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("our own terminal");
    unlockpt(&ours).expect("our own terminal");
    let name = ptsname(&ours, Vec::new()).expect("a name");
    let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
    let theirs = theirs.expect("the other end");
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&theirs, size).expect("a terminal");
    (ours, theirs)
}

/// All that a study's run writes to a terminal, and its standard output.
fn watched(columns: u16) -> (String, String) {
    let sandbox = Sandbox::new();
    let script = format!("sleep 0.1; if [ $FEDBO_TRIAL = 3 ]; then exit 7; fi; {LOSS}");
    sandbox.write("s.toml", &study(10, "sobol", &script));
    let (ours, theirs) = terminal(columns);
    let mut child = sandbox
        .command(&["tune", "s.toml"])
        .stdout(std::process::Stdio::piped())
        .stderr(theirs)
        .spawn()
        .expect("the binary starts");
    let reader = std::thread::spawn(move || {
        let mut written = Vec::new();
        let mut part = [0; 4096];
        let mut ours = std::fs::File::from(ours);
        // The end is an error once nobody holds the other end any more.
        while let Ok(n_bytes @ 1..) = ours.read(&mut part) {
            written.extend_from_slice(&part[..n_bytes]);
        }
        String::from_utf8(written).expect("UTF-8")
    });
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
    // Lines one below the other are for where there is no terminal.
    assert!(!screen.contains("[1/10]"), "{screen:?}");
    assert!(stdout.starts_with("best value "), "{stdout}");
    assert!(!stdout.contains('\u{1b}'), "{stdout:?}");
}

#[test]
fn a_narrow_terminal_shows_less() {
    let (screen, _) = watched(30);
    assert!(
        screen.contains("  best   ") && screen.contains('…'),
        "{screen:?}"
    );
    // What is drawn is cleared again: at the end only lines stand there.
    let (_, end) = screen.rsplit_once("\u{1b}[2K").expect("a cleared line");
    assert!(!end.contains("  now    "), "{screen:?}");
}

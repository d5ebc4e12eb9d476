//! Failing objectives, unusable folders, and conflicting processes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fedbo_agent::{Ended, EnrolError, RunError, enrol_with};
use fedbo_objective::{CommandObjective, CommandSpec, FailuresMax, Objective, Outcome, TrialId};
use fedbo_party::HomeError;
use fedbo_space::Point;
use fedbo_storage::{Mode, NewTrial, SqliteStorage, Storage as _, Told};
use fedbo_transport::KeyError;

use crate::ways::{TestLink, token};
use crate::world::{Bump, Member, coordinator, finish, members, options};

fn command(
    script: &str,
    timeout_ms: u64,
    member: &Member,
    stop: &Arc<AtomicBool>,
) -> Arc<dyn Objective> {
    let spec = CommandSpec {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        directory: None,
        timeout: Some(Duration::from_millis(timeout_ms)),
    };
    let space = member.link.coordinator.borrow().federation.space.clone();
    Arc::new(CommandObjective::new(&spec, &space, Arc::clone(stop)).unwrap())
}

fn one(folder: &Path) -> Member {
    let coordinator = coordinator("mishap", "fts", "");
    members(folder, &coordinator).remove(0)
}

#[test]
fn trials_that_fail_or_take_too_long_are_kept_as_failed() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = one(folder.path());
    let stop = Arc::new(AtomicBool::new(false));
    let script = "if [ $FEDBO_TRIAL = 0 ]; then echo no luck >&2; exit 3; else sleep 30; fi";
    member.objective = command(script, 100, &member, &stop);
    let mut session = member.session().unwrap();
    assert_eq!(finish(&mut session, 3).unwrap(), None, "it goes on to its upload");
    drop(session);
    let kinds: Vec<String> = member
        .trials()
        .into_iter()
        .map(|(_, _, told)| match told {
            Some(Told::Failed { kind, message }) => format!("{kind}: {message}"),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(kinds[0].starts_with("exit: ") && kinds[0].contains("no luck"), "{kinds:?}");
    assert!(kinds[1].starts_with("timed-out: "), "{kinds:?}");
    assert_eq!(member.ears.count("sent 0"), 1);
}

#[test]
fn an_agent_that_fails_from_the_start_stops_and_goes_on_once_it_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = one(folder.path());
    let stop = Arc::new(AtomicBool::new(false));
    member.objective = command("echo no licence >&2; exit 3", 60_000, &member, &stop);
    member.failures_max = FailuresMax::BeforeFirstValue(1);
    let error = member.session().unwrap().run().unwrap_err();
    assert!(matches!(error, RunError::Failing { n_consecutive: 1, .. }));
    let text = error.to_string();
    for words in ["1 trial failed", "no licence", "fix the command"] {
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(member.trials().len(), 1, "what has failed stays told");
    // The command fails again, and is then replaced by one that works.
    let error = member.session().unwrap().run().unwrap_err();
    assert!(matches!(error, RunError::Failing { n_consecutive: 1, .. }));
    member.objective = Arc::new(Bump);
    let mut session = member.session().unwrap();
    finish(&mut session, 3).unwrap();
    drop(session);
    let told: Vec<bool> =
        member.trials().iter().map(|(_, _, told)| matches!(told, Some(Told::Value(_)))).collect();
    assert!(!told[0] && !told[1] && told[2..].iter().all(|is_value| *is_value));
}

#[test]
fn the_stop_flag_ends_a_trial_which_runs_again_next_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = one(folder.path());
    let stop = Arc::new(AtomicBool::new(false));
    member.objective = command("sleep 30", 60_000, &member, &stop);
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
        });
        let mut session = member.session_with(&member.link, &stop).unwrap();
        assert_eq!(session.run().unwrap(), Ended::Interrupted);
    });
    assert!(began.elapsed() < Duration::from_secs(5));
    let before = member.trials();
    assert!(before.len() == 1 && before[0].2.is_none());
    member.objective = Arc::new(Bump);
    let mut session = member.session().unwrap();
    finish(&mut session, 3).unwrap();
    drop(session);
    let after = member.trials();
    assert_eq!(after.len(), 2);
    assert_eq!(after[0].0, before[0].0, "the same point");
    assert!(matches!(after[0].2, Some(Told::Value(_))));
}

#[test]
fn a_program_that_cannot_be_started_ends_the_run_and_no_trial() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = one(folder.path());
    let program = folder.path().join("program");
    std::fs::write(&program, "#!/bin/sh\necho 1\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let spec =
        CommandSpec { argv: vec![program.display().to_string()], directory: None, timeout: None };
    let space = member.link.coordinator.borrow().federation.space.clone();
    let stop = Arc::new(AtomicBool::new(false));
    member.objective = Arc::new(CommandObjective::new(&spec, &space, stop).unwrap());
    std::fs::remove_file(&program).unwrap();
    let error = member.session().unwrap().run().unwrap_err();
    assert!(matches!(error, RunError::Objective { .. }));
    assert!(error.to_string().contains("fix the command"), "{error}");
    assert!(member.trials()[0].2.is_none());
}

#[test]
fn one_process_at_a_time_runs_a_study() {
    let folder = tempfile::tempdir().unwrap();
    let member = one(folder.path());
    let first = member.session().unwrap();
    let error = member.session().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, RunError::Home(HomeError::Held { .. })));
    let pid = format!("process {} runs this study", std::process::id());
    assert!(text.contains(&pid), "{text}");
    drop(first);
    assert!(member.session().is_ok());
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("mishap", "fts", "");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let token = token(&coordinator.borrow(), 0);
    let options = options(&file.join("home"), token);
    let error = enrol_with(&options, &TestLink::new(&coordinator)).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, EnrolError::Home(HomeError::Folder { .. })), "{text}");
    assert!(text.contains("file/home") && text.contains("name another"), "{text}");
    assert!(coordinator.borrow().keys.is_empty(), "nobody was asked");
    let error = fedbo_agent::Home::open(&folder.path().join("nowhere")).unwrap_err();
    assert!(error.to_string().contains("no agent here"), "{error}");
    // A process that is killed while it creates the database leaves an empty file.
    let memory = folder.path().join("agent.db");
    std::fs::write(&memory, "").unwrap();
    let error = fedbo_agent::status(folder.path()).unwrap_err();
    assert!(error.to_string().contains("no agent here"), "{error}");
    assert_eq!(std::fs::metadata(&memory).unwrap().len(), 0);
}

#[test]
fn a_key_that_others_may_read_stops_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let member = one(folder.path());
    let key = member.home.join("identity.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = member.session().unwrap_err();
    assert!(matches!(error, RunError::Home(HomeError::Key(KeyError::Exposed { mode: 0o644, .. }))));
}

/// Returns different values in each process.
struct Fickle(f64);

impl Objective for Fickle {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        Outcome::Value(self.0 * point.number("x"))
    }
}

#[test]
fn with_other_trials_than_before_nothing_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let mut member = one(folder.path());
    member.objective = Arc::new(Fickle(1.0));
    finish(&mut member.session().unwrap(), 3).unwrap();
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(member.home.join(format!("trials.db{end}")));
    }
    member.objective = Arc::new(Fickle(-1.0));
    let n_before = member.link.coordinator.borrow().arrived.values().map(Vec::len).sum::<usize>();
    let error = member.session().unwrap().run().unwrap_err();
    assert!(matches!(error, RunError::UploadDiffers { round: 0 }), "{error}");
    let n_after = member.link.coordinator.borrow().arrived.values().map(Vec::len).sum::<usize>();
    assert_eq!(n_after, n_before);
}

#[test]
fn trials_that_the_agent_did_not_ask_for_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let member = one(folder.path());
    drop(member.session().unwrap()); // creates the file's layout
    let storage = SqliteStorage::open(&member.home.join("trials.db"), Mode::Existing).unwrap();
    let study = storage.studies().unwrap().remove(0);
    let strange = NewTrial::new(
        vec![1],
        member.link.coordinator.borrow().federation.space.decode(&[0.123]),
        "enqueued",
    );
    storage.add(study.key, &strange).unwrap();
    let error = member.session().unwrap().run().unwrap_err().to_string();
    assert!(error.contains("trial 0 is not the one that the agent asked for"), "{error}");
}

#[test]
fn a_memory_that_was_changed_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let member = one(folder.path());
    let path = member.home.join("agent.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    let rewrite =
        "DROP TRIGGER memberships_are_fixed; UPDATE memberships SET config = config || ' ';";
    database.execute_batch(rewrite).unwrap();
    drop(database);
    let error = member.session().unwrap_err().to_string();
    assert!(error.contains("memberships_are_fixed is missing"), "{error}");
    let restore = "CREATE TRIGGER memberships_are_fixed BEFORE UPDATE OF id, study, coordinator, slot, agent, config, digest, \
                   signature ON memberships BEGIN SELECT RAISE(ABORT, 'what was enrolled for does not change'); END;";
    rusqlite::Connection::open(&path).unwrap().execute_batch(restore).unwrap();
    let error = member.session().unwrap_err().to_string();
    assert!(error.contains("not the one that its coordinator signed"), "{error}");
}

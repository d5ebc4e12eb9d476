//! Strings in a hostile coordinator's study are treated only as data (INV-24).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_agent::{AgentFile, Ended, EnrolError, RunError, RunOptions, Silent, enrol_showing, run};

use crate::ways::{TestLink, token};
use crate::world::{Member, coordinator, options};

/// Enrols an agent in a study with these choices, and runs it with this objective in its file. The
/// run is stopped before the first request. If it gets that far, it has accepted the study.
fn ran(folder: &Path, choices: &str, objective: &str) -> Result<Ended, RunError> {
    let space = format!("[space.kernel]\ntype = \"categorical\"\nchoices = [{choices}]\n");
    let coordinator = coordinator("hostile", "fts", &space);
    Member::enrol(&folder.join("home"), &coordinator, 0);
    let path = folder.join("agent.toml");
    std::fs::write(&path, format!("[agent]\nhome = \"home\"\n[objective]\n{objective}\n")).unwrap();
    let file = AgentFile::load(&path).unwrap();
    run(&RunOptions { file: &file, stop: Arc::new(AtomicBool::new(true)), observer: &Silent })
}

/// The attacks are choices that the agent's shell would run, or that its program would parse as an
/// option.
#[test]
fn choices_are_not_code() {
    let hostile = [
        ("\"rbf\", \"x; touch pwned\"", "x; touch pwned"),
        ("\"rbf\", \"--config=other.conf\"", "--config=other.conf"),
        ("\"rbf\", \"../../etc/passwd\"", "../../etc/passwd"),
        ("\"rbf\", \"$(touch pwned)\"", "$(touch pwned)"),
        ("\"rbf\", \"\\u202Efbr\"", "\\u{202e}fbr"),
    ];
    let as_shell = "command = [\"sh\", \"-c\", \"echo {kernel}; echo 1\"]";
    let as_argument = "command = [\"sh\", \"-c\", \"true\", \"sh\", \"{kernel}\"]";
    let fresh = || tempfile::tempdir().unwrap();
    for (choices, named) in hostile {
        for objective in [as_shell, as_argument] {
            let folder = fresh();
            let error = ran(folder.path(), choices, objective).unwrap_err();
            assert!(matches!(error, RunError::File(_)), "{error}");
            let message = error.to_string();
            assert!(message.contains(named) && message.contains("[choices]"), "{message}");
            assert!(!folder.path().join("pwned").exists());
        }
        // A choice that the owner has reviewed and listed is passed, but as an argument and not as
        // a script.
        let listed = format!("[choices]\nkernel = [{choices}]");
        let ended = ran(fresh().path(), choices, &format!("{as_argument}\n{listed}"));
        assert_eq!(ended.unwrap(), Ended::Interrupted);
        let error = ran(fresh().path(), choices, &format!("{as_shell}\n{listed}")).unwrap_err();
        assert!(error.to_string().contains("{kernel} is text"), "{error}");
    }
    let ended = ran(fresh().path(), "\"rbf\", \"matern\"", as_argument);
    assert_eq!(ended.unwrap(), Ended::Interrupted);
}

#[test]
fn a_study_is_shown_before_it_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("shown", "fts", "");
    let options = options(folder.path(), token(&coordinator.borrow(), 1));
    let mut n_shown = 0;
    enrol_showing(&options, &TestLink::new(&coordinator), &mut |federation| {
        assert_eq!(federation.space.parameters()[0].name(), "x");
        let home = fedbo_agent::Home::open(folder.path()).unwrap();
        assert!(home.memberships().unwrap().is_empty());
        n_shown += 1;
    })
    .unwrap();
    assert_eq!(n_shown, 1);
}

#[test]
fn a_parameter_whose_name_may_act_is_not_joined() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("names", "fts", "");
    let text = coordinator.borrow().text.replace("[space.x]", "[space.\"x;id\"]");
    coordinator.borrow_mut().text = text;
    let options = options(folder.path(), token(&coordinator.borrow(), 1));
    let enrolled = enrol_showing(&options, &TestLink::new(&coordinator), &mut |_| {});
    let error = enrolled.unwrap_err();
    assert!(matches!(error, EnrolError::Config(_)), "{error}");
    assert!(error.to_string().contains("x;id"), "{error}");
}

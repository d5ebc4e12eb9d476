//! Agents with homes restored from older copies, with real processes of the program (INV-28).

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::federation_folder::{Process, Setup, World};

/// Copies a folder, like a backup.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

fn spent(world: &World) -> Value {
    world.json(&["agent", "status", "--home", "home0"])["privacy"].clone()
}

/// There are two studies at two coordinators, each of which costs the whole budget, and a home that
/// was restored from a copy made before the first study. Before the second study runs, the
/// coordinator of the first one reports the uploads that it received.
#[test]
fn a_home_that_was_restored_between_two_studies_pays_for_the_first() {
    let setup = Setup { privacy: "epsilon = 6.0\nreleases = 2\n", ..Setup::charged(2, 3, 0.8) };
    let (first, second) = (World::new(&setup), World::new(&setup));
    let tokens = first.create();
    let (_first_service, first_port) = first.serve(0);
    for (agent, token) in tokens.iter().enumerate() {
        first.enrol(agent, token, first_port);
    }
    let capped = |world: &World| {
        let path = world.path("agent0.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("epsilon_max = 2000.0", "epsilon_max = 6.0")).unwrap();
    };
    capped(&first);
    copy(&first.path("home0"), &first.path("backup"));
    let mut agents: Vec<Process> =
        (0..2).map(|agent| Process::start(&mut first.agent(agent))).collect();
    for process in &mut agents {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    let paid = spent(&first);
    assert_eq!(paid["releases"], 2);

    // The home moves to the second study in its state before the first study.
    std::fs::rename(first.path("backup"), second.path("home0")).unwrap();
    let text = std::fs::read_to_string(second.path("federation.toml")).unwrap();
    std::fs::write(second.path("federation.toml"), text.replace("\"labs\"", "\"mill\"")).unwrap();
    let tokens = second.create();
    let (_second_service, second_port) = second.serve(0);
    for (agent, token) in tokens.iter().enumerate() {
        second.enrol(agent, token, second_port);
    }
    capped(&second);
    let path = second.path("agent0.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("[agent]\n", "[agent]\nstudy = \"mill\"\n")).unwrap();
    let mut agents: Vec<Process> =
        (0..2).map(|agent| Process::start(&mut second.agent(agent))).collect();
    assert_eq!(agents[0].end(), Some(3), "{:#?}", agents[0].said);
    assert_eq!(agents[1].end(), Some(0), "{:#?}", agents[1].said);
    let said = agents[0].all();
    assert!(said.contains("restored from an older copy") && said.contains("round 0, 1"), "{said}");
    assert_eq!(spent(&second), paid, "nothing was sent to the second study");
    let status = second.json(&["agent", "status", "--home", "home0"]);
    assert_eq!(status["studies"][1]["uploads_acknowledged"], 0, "{status}");

    // In the first study, the home is behind, and the agent reports this until the home is
    // reconciled.
    let run = |file: &str| {
        let output = second.output(&["agent", "run", file]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    std::fs::write(
        second.path("labs.toml"),
        text.replace("[agent]\n", "[agent]\nstudy = \"labs\"\n"),
    )
    .unwrap();
    let (code, said) = run("labs.toml");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("restored from an older copy") && said.contains("agent reconcile"),
        "{said}"
    );
    let document = second.json(&["agent", "reconcile", "--home", "home0", "--study", "labs"]);
    let found = &document["studies"][0];
    assert_eq!((&found["study"], &found["releases"]), (&"labs".into(), &2.into()), "{document}");
    assert_eq!(found["charged"].as_array().unwrap().len(), 0, "it is charged already");
    assert!(found["counter"].as_u64().unwrap() > found["counter_before"].as_u64().unwrap());
    assert_eq!(document["privacy"], paid);
    let (code, said) = run("labs.toml");
    assert_ne!(code, Some(2), "{said}");
    let printed = second.done(&["agent", "reconcile", "--home", "home0", "--study", "labs"]);
    assert!(printed.contains("2 releases in its ledger"), "{printed}");
}

/// An unreachable coordinator is reported, and does not block other studies.
#[test]
fn a_coordinator_that_cannot_be_asked_is_named() {
    let setup = Setup { privacy: "epsilon = 6.0\nreleases = 2\n", ..Setup::charged(2, 2, 0.6) };
    let (first, second) = (World::new(&setup), World::new(&setup));
    let tokens = first.create();
    let (service, port) = first.serve(0);
    first.enrol(0, &tokens[0], port);
    drop(service);
    std::fs::rename(first.path("home0"), second.path("home0")).unwrap();
    let text = std::fs::read_to_string(second.path("federation.toml")).unwrap();
    std::fs::write(second.path("federation.toml"), text.replace("\"labs\"", "\"mill\"")).unwrap();
    let tokens = second.create();
    let (_service, port) = second.serve(0);
    second.enrol(0, &tokens[0], port);
    second.enrol(1, &tokens[1], port);
    let path = second.path("agent0.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("[agent]\n", "[agent]\nstudy = \"mill\"\n")).unwrap();
    let _other = Process::start(&mut second.agent(1));
    let mut agent = Process::start(&mut second.agent(0));
    assert_eq!(agent.end(), Some(0), "{:#?}", agent.said);
    let said = agent.all();
    assert!(
        said.contains("cannot ask the coordinator of study \"labs\"")
            && said.contains("agent reconcile"),
        "{said}"
    );
    let refused = second.output(&["agent", "reconcile", "--home", "home0"]);
    assert_eq!(refused.status.code(), Some(6), "{}", String::from_utf8_lossy(&refused.stderr));
}

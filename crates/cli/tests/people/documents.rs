//! JSON documents of the commands that change something.

use serde_json::Value;

use crate::federation_folder::{Process, Setup, World};

/// Returns the JSON object that a process prints among other lines.
fn printed(process: &mut Process) -> Value {
    let said = process.all();
    let (from, to) = (said.find("{\n").unwrap(), said.rfind("\n}").unwrap());
    serde_json::from_str(&said[from..to + 2]).unwrap()
}

#[test]
fn a_federation_over_a_network_in_json() {
    let world =
        World::new(&Setup { algorithm: "fts", privacy: "", ..Setup::simulated(2, 1, 60.0) });
    let certs = world.json(&["dev", "certs", "--out", "made", "localhost"]);
    assert_eq!(certs["files"][0], "made/ca.pem");
    assert_eq!(certs["files"].as_array().unwrap().len(), 3);
    assert_eq!(certs["hosts"][0], "localhost");

    let tokens = world.create();
    let paused = world.json(&["coordinator", "study", "pause", "labs"]);
    assert_eq!(paused["study"], "labs");
    assert_eq!(paused["state"], "paused");
    assert_eq!((&paused["agents"], &paused["enrolled"]), (&2.into(), &0.into()));

    let mut command = world.service("coordinator", 0);
    let mut service = Process::start(command.args(["--json", "-q"]));
    let line = service.wait_for("\"url\"");
    let listening: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(listening["schema_version"], 1);
    assert_eq!(listening["store"], "coordinator");
    let port = listening["url"].as_str().unwrap().rsplit(':').next().unwrap();
    let port = port.parse().unwrap();

    for (agent, token) in tokens.iter().enumerate() {
        world.enrol(agent, token, port);
    }
    let rotated = world.json(&["agent", "rotate", "--home", "home0"]);
    assert_eq!(rotated["key"].as_str().unwrap().len(), 64);
    let resumed = world.json(&["coordinator", "study", "resume", "labs"]);
    assert_eq!((&resumed["state"], &resumed["enrolled"]), (&"running".into(), &2.into()));

    let mut agents: Vec<Process> =
        (0..2).map(|agent| Process::start(world.agent(agent).args(["--json", "-q"]))).collect();
    for (agent, process) in agents.iter_mut().enumerate() {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
        let closing = printed(process);
        assert_eq!(closing["schema_version"], 1);
        assert_eq!(closing["ended"], "complete");
        assert_eq!(closing["told_by_this_run"], world.trials(agent).len());
        assert_eq!((&closing["failed"], &closing["budget_reached"]), (&0.into(), &false.into()));
        assert_eq!(closing["storage"], format!("sqlite:./home{agent}/trials.db"));
    }

    let revoked = world.json(&["coordinator", "agents", "revoke", "labs", "lab 1"]);
    let expected = serde_json::json!({ "slot": 1, "agent": "lab 1", "state": "revoked" });
    assert_eq!(revoked, expected);
    let copied = world.json(&["storage", "backup", "coordinator", "copy"]);
    assert_eq!(copied["files"][0], "copy/coordinator.db");
    // A copy gets its name only when it is complete. It never replaces an existing copy, and is
    // refused if there is a partial one.
    let refused = |to: &str, part: &str| {
        let output = world.output(&["storage", "backup", "coordinator", to]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(part), "{said}");
    };
    refused("copy/", "copy/: exists already; name another place");
    std::fs::create_dir(world.path("half.part")).unwrap();
    refused("half", "half.part: belongs to an interrupted copy");
    assert!(!world.path("copy.part").exists() && !world.path("half").exists());
    let copied = world.json(&["storage", "backup", "home0/trials.db", "trials.db"]);
    assert_eq!(copied["files"], serde_json::json!(["trials.db"]));
    assert!(world.path("trials.db").exists());
}

//! Complete federations: the same results as in one process, and a valid ledger.

use crate::federation_folder::{Process, Setup, World};

/// A coordinator and eight agents with commands as objectives, over TLS: all trials equal those of
/// `fedbo run`.
#[test]
fn eight_agents_over_tls_do_what_one_process_does() {
    let setup = Setup { tls: true, ..Setup::simulated(8, 4, 1.5) };
    let world = World::new(&setup);
    let expected = world.in_process();
    let tokens = world.create();
    let (mut service, port) = world.serve(0);
    let mut agents = world.start_agents(&tokens, port);
    for (agent, process) in agents.iter_mut().enumerate() {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
        assert_eq!(world.trials(agent), expected[agent], "agent {agent}");
        assert_eq!(expected[agent].len(), 6);
    }
    let shown = world.json(&["coordinator", "study", "show", "labs"]);
    assert_eq!(shown["enrolled"], 8);
    service.signal(rustix::process::Signal::TERM);
    assert_eq!(service.end(), Some(0), "{:#?}", service.said);
}

/// With relayed messages, all trials equal those of `fedbo run` too.
#[test]
fn a_relayed_federation_does_what_one_process_does() {
    let setup = Setup { algorithm: "fts", privacy: "", ..Setup::simulated(3, 5, 60.0) };
    let world = World::new(&setup);
    let expected = world.in_process();
    let tokens = world.create();
    let (mut service, port) = world.serve(0);
    for (agent, process) in world.start_agents(&tokens, port).iter_mut().enumerate() {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
        assert_eq!(world.trials(agent), expected[agent], "agent {agent}");
    }
    // Nothing in the output is called private.
    assert!(!service.all().contains("private"), "{}", service.all());
}

/// With a conditional parameter, a rule and a mixture too, and every agent satisfies them.
#[test]
fn a_federation_over_a_tree_with_rules_does_what_one_process_does() {
    let space = r#"[space.kind]
type = "categorical"
choices = ["a", "b"]
[space.z]
type = "float"
low = 0.0
high = 1.0
when = { kind = ["b"] }
[space.u]
type = "float"
low = 0.0
high = 1.0
[space.v]
type = "float"
low = 0.0
high = 1.0
[[rules]]
terms = { x = 1.0, y = 1.0 }
at_most = -1.0
[[mixtures]]
parameters = ["u", "v"]
"#;
    let algorithm = "shared-prior";
    let setup = Setup { algorithm, privacy: "", space, ..Setup::simulated(2, 5, 60.0) };
    let world = World::new(&setup);
    let expected = world.in_process();
    let tokens = world.create();
    let (_service, port) = world.serve(0);
    for (agent, process) in world.start_agents(&tokens, port).iter_mut().enumerate() {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
        assert_eq!(world.trials(agent), expected[agent], "agent {agent}");
        assert!(expected[agent].iter().all(|[x, y, _]| x + y <= -1.0 + 1e-4), "{expected:?}");
        assert!(
            world.done(&["agent", "status", "--home", &format!("home{agent}")]).contains("labs")
        );
    }
}

/// With secret noise, the ledger is valid and agrees with the agents' spending, and nothing else is
/// charged.
#[test]
fn a_charged_federation_leaves_a_ledger_that_agents_agree_with() {
    let world = World::new(&Setup::charged(3, 4, 1.0));
    let tokens = world.create();
    let (_service, port) = world.serve(0);
    let mut agents = world.start_agents(&tokens, port);
    for process in &mut agents {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    let statement = world.ledger();
    let epsilon = statement["epsilon"].as_f64().unwrap();
    assert!(epsilon > 0.0 && epsilon <= 6.0, "{statement}");
    for agent in 0..3 {
        let status = world.json(&["agent", "status", "--home", &format!("home{agent}")]);
        let spent = status["privacy"]["epsilon"].as_f64().unwrap();
        assert_eq!(status["privacy"]["releases"], statement["releases"], "{statement}");
        // The agent and the ledger count the same events with the same accountant at the same
        // delta.
        assert!((spent - epsilon).abs() < 1e-9 * epsilon, "{spent} {epsilon}");
        assert_eq!(status["studies"][0]["uploads_missed"], 0);
        let rho = status["studies"][0]["alignment"]["rho"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&rho), "{status}");
        assert_eq!(world.trials(agent).len(), 6);
    }
    // A second study would cost the same again. Agents stop at their own limit, whatever the
    // coordinator does.
    let shown = world.json(&["coordinator", "study", "show", "labs"]);
    assert_eq!(shown["ledger_head"].as_str(), statement["head"].as_str(), "{statement}");
}

/// Round 0 includes the initial trials, which take longer than a round. The round waits for them,
/// and no release without a vector is charged.
#[test]
fn no_agent_misses_round_0_for_its_initial_trials() {
    let world = World::new(&Setup { trial_s: 0.6, ..Setup::charged(2, 2, 1.8) });
    let tokens = world.create();
    let (_service, port) = world.serve(0);
    for process in &mut world.start_agents(&tokens, port) {
        assert_eq!(process.end(), Some(0), "{:#?}", process.said);
    }
    for agent in 0..2 {
        let status = world.json(&["agent", "status", "--home", &format!("home{agent}")]);
        assert_eq!(status["studies"][0]["uploads_missed"], 0, "{status}");
        assert_eq!(status["privacy"]["releases"], world.ledger()["releases"]);
    }
}

/// A mistyped folder has no coordinator. A new coordinator with a new key is only created at the
/// operator's request.
#[test]
fn a_service_begins_no_coordinator_unless_it_is_told_to() {
    let world = World::new(&Setup::charged(2, 3, 1.0));
    let refused = world.service("coordinatr", 0).output().unwrap();
    let err = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{err}");
    assert!(
        err.contains("coordinatr: there is no coordinator")
            && err.contains("`fedbo coordinator run --create`"),
        "{err}"
    );
    assert!(!world.path("coordinatr").exists());
    let mut service = Process::start(world.service("coordinatr", 0).arg("--create"));
    service.wait_for("://");
    assert!(world.path("coordinatr/coordinator.key").exists());
}

/// The memory of a coordinator or an agent is not written to core dumps.
#[cfg(target_os = "linux")]
#[test]
fn processes_with_secrets_leave_no_core_dumps() {
    let world = World::new(&Setup::charged(2, 30, 1.0));
    let tokens = world.create();
    let (service, port) = world.serve(0);
    let mut agents = world.start_agents(&tokens, port);
    agents[0].wait_for("round");
    for process in [&service, &agents[0]] {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.pid())).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max core file size"));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        assert_eq!(words[4..6], ["0", "0"], "{limits}");
    }
}

/// Only one service can use a folder.
#[test]
fn two_coordinators() {
    let world = World::new(&Setup::charged(2, 3, 1.0));
    world.create();
    let (mut first, _) = world.serve(0);
    let second = world.service("coordinator", 0).output().unwrap();
    let err = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(2), "{err}");
    assert!(err.contains("another coordinator is running on this folder"), "{err}");
    assert!(!first.has_ended());
    // The lock is released when its process ends, for whatever reason.
    first.signal(rustix::process::Signal::KILL);
    assert_eq!(first.end(), None);
    let (_third, _) = world.serve(0);
}

/// A coordinator sends choices that an agent's shell would execute. The agent shows them when it
/// enrols, and refuses to run (INV-24). The agent's command gets no secrets from the environment
/// (INV-26).
#[test]
fn choices_are_not_code() {
    let setup = Setup { algorithm: "fts", privacy: "", ..Setup::simulated(2, 3, 60.0) };
    let world = World::new(&setup);
    let file = world.path("federation.toml");
    let choices = r#"["rbf", "x; touch pwned", "\u202Efbr"]"#;
    let hostile = format!("[space.kernel]\ntype = \"categorical\"\nchoices = {choices}\n");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replacen("[[agents]]", &format!("{hostile}[[agents]]"), 1);
    std::fs::write(&file, text).unwrap();
    let created = world.output(&["coordinator", "study", "create", "federation.toml"]);
    let said = String::from_utf8_lossy(&created.stderr);
    let warned = said.contains("only if their own agent.toml lists them");
    assert!(created.status.success() && warned, "{said}");
    let printed = String::from_utf8(created.stdout).unwrap();
    let words = printed.split_whitespace();
    let tokens: Vec<&str> = words.filter(|word| word.starts_with("fbt")).collect();
    assert_eq!(tokens.len(), 2, "{printed}");
    let (_service, port) = world.serve(0);

    let enrolled = world.enrolment(0, tokens[0], port).output().unwrap();
    let said = String::from_utf8_lossy(&enrolled.stderr);
    assert!(enrolled.status.success(), "{said}");
    for part in [
        "x: float, low = -5.0, high = 5.0",
        r#"kernel: categorical, choices = ["rbf","x; touch pwned","\u202efbr"]"#,
        "[choices]",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains('\u{202e}'), "{said}");
    let mut second = world.enrolment(1, tokens[1], port);
    let json = second.arg("--json").output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["space"][2]["name"], "kernel");
    assert_eq!(json["space"][2]["choices"][1], "x; touch pwned");

    let write = |text: &str| std::fs::write(world.path("agent0.toml"), text).unwrap();
    let head = "[agent]\nhome = \"home0\"\n[objective]\n";
    let by_shell = format!("{head}command = [\"sh\", \"-c\", \"{{kernel}}; echo 1\"]\n");
    let listed = format!("[choices]\nkernel = {choices}\n");
    for (text, why) in [
        (by_shell.clone(), "add [choices] with kernel ="),
        (format!("{by_shell}{listed}"), "{kernel} is text"),
    ] {
        write(&text);
        let ran = world.agent(0).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains(why) && !said.contains('\u{202e}'), "{said}");
    }
    // If the agent's owner lists the choice, it is passed as an argument and is therefore data.
    let script = r#"env > seen; echo "$1" > given; echo 1"#;
    write(&format!(
        "{head}command = [\"sh\", \"-c\", '{script}', \"sh\", \"{{kernel}}\"]\n{listed}"
    ));
    let mut agent = world.agent(0);
    agent.env("FEDBO_TOKEN", tokens[0]);
    let mut agent = Process::start(agent.env("PGPASSWORD", "hunter2"));
    agent.wait_for("trial 1");
    let seen = std::fs::read_to_string(world.path("seen")).unwrap();
    assert!(seen.contains("FEDBO_PARAMS="), "{seen}");
    assert!(!seen.contains("fbt") && !seen.contains("hunter2"), "{seen}");
    assert!(world.path("given").exists() && !world.path("pwned").exists());
}

//! Rounds, in which each handout is created only once, even across restarts.

use std::time::Duration;

use fedbo_coordinator::Home;
use fedbo_database::Mode;
use fedbo_federation::{Federation, FrozenFor};
use fedbo_servers::card_of;
use fedbo_wire::{Content, EnrolRequest, SealedUpload, SigningKey, StudyStatus};

use crate::world::{TestAgent, World, one_hot, relayed, summed};

const NO_NOISE: &str = "mode = \"off\"";

#[test]
fn messages_are_relayed_and_stragglers_named() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), &[&relayed(1.0)]);
    let agents = world.enrol("relayed");
    for agent in &agents {
        let weights = vec![f64::from(agent.slot), 0.5];
        assert_eq!(agent.upload(0, weights).status, 200);
    }
    let answer = agents[1].poll("wait=10");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let handout = world.read("relayed", &answer.body);
    assert_eq!((handout.round, handout.collects), (1, true));
    let Content::Messages { messages, stragglers } = handout.content else {
        panic!("messages are relayed")
    };
    let found: Vec<(u32, f64)> = messages.iter().map(|m| (m.sender, m.weights[0])).collect();
    assert_eq!(found, [(0, 0.0), (1, 1.0), (2, 2.0)]);
    assert!(stragglers.is_empty());
    // Agent 2 is absent in round 1, so the round closes at its deadline.
    for agent in &agents[..2] {
        assert_eq!(agent.upload(1, vec![7.0, 0.5]).status, 200);
    }
    let answer = agents[2].poll("after=1&wait=10&delivered=0");
    let handout = world.read("relayed", &answer.body);
    assert_eq!(handout.round, 2);
    let Content::Messages { messages, stragglers } = handout.content else {
        panic!("messages are relayed")
    };
    assert_eq!(messages.len(), 2);
    assert_eq!(stragglers, [2]);
    // An agent that was away receives both rounds at once, as the newest message from each sender.
    let answer = agents[0].poll("wait=0");
    let handout = world.read("relayed", &answer.body);
    assert_eq!(handout.round, 2);
    let Content::Messages { messages, .. } = handout.content else {
        panic!("messages are relayed")
    };
    let found: Vec<(u32, u64)> = messages.iter().map(|m| (m.sender, m.round)).collect();
    assert_eq!(found, [(0, 1), (1, 1)]);
    world.end();
}

/// Each agent's vector is 1 at the agent's index and 0 elsewhere, so the sum shows which slots
/// counted and how often.
#[test]
fn each_vector_counts_once_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), &[&summed(NO_NOISE, 2.0, 1.5)]);
    let mut agents = world.enrol("summed");
    for agent in &agents[..2] {
        for _ in 0..3 {
            assert_eq!(agent.upload(0, one_hot(agent.slot, 3)).status, 200);
        }
        // A different vector from the same slot for the same round gets the same response, and the
        // first counts (INV-6).
        assert_eq!(agent.upload(0, vec![9.0; 3]).status, 200);
    }
    // The restart loses the vectors that had arrived, and agents are asked to resend them.
    let world = world.restart();
    for agent in &mut agents {
        agent.address = world.address;
    }
    let answer = agents[0].poll("delivered=0&wait=0");
    assert_eq!(answer.status, 204, "{}", answer.text());
    assert_eq!(answer.header("fedbo-resend"), Some("0"));
    for agent in &agents {
        assert_eq!(agent.upload(0, one_hot(agent.slot, 3)).status, 200);
    }
    let answer = agents[0].poll("delivered=0&wait=0");
    assert_eq!(answer.header("fedbo-resend"), None);
    let answer = agents[0].poll("delivered=0&wait=10");
    let handout = world.read("summed", &answer.body);
    let Content::Releases(entries) = &handout.content else { panic!("releases are handed out") };
    assert_eq!((entries.len(), entries[0].seq, entries[0].round), (1, 1, 0));
    assert_eq!(handout.head.seq, 1);
    // In the paper's layout, the release ends with the weights: a mean of three one-hot vectors.
    let release = &entries[0].release;
    let third = (1.0_f64 / 3.0).to_le_bytes();
    let n_thirds = release.windows(8).filter(|window| *window == third).count();
    assert_eq!(n_thirds, 3, "{release:?}");
    // All agents receive the same bytes, even after another restart (INV-2).
    let again = agents[2].poll("wait=10");
    assert_eq!(again.body, answer.body);
    let world = world.restart();
    agents[1].address = world.address;
    let later = agents[1].poll("wait=10");
    let handout = world.read("summed", &later.body);
    let Content::Releases(later) = handout.content else { panic!("releases are handed out") };
    assert_eq!(later[0], entries[0]);
    world.end();
}

/// The helper's address does not respond. Round 0 does not begin, and agents receive nothing that
/// would make them charge.
#[test]
fn a_round_of_a_secure_sum_waits_for_the_helper() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(folder.path(), Mode::Create).unwrap();
    let helper = card_of(&SigningKey::from_seed([9; 32]));
    let text = summed("epsilon = 8.0\nreleases = 2", 0.4, 0.2)
        + &format!("[secure_sum]\nhelper = \"{helper}\"\nhelper_url = \"http://127.0.0.1:1\"\n");
    let path = folder.path().join("study.toml");
    std::fs::write(&path, text).unwrap();
    let (key, card) = (home.key().public().to_string(), card_of(&home.key()).to_string());
    let by = FrozenFor { key: &key, card: &card };
    let (federation, config) = Federation::freeze(&path, by, &fedbo_objective::NoProblems).unwrap();
    home.create_study(&federation, &config).unwrap();
    let world = World::on(home);
    let agents = world.enrol("summed");
    let sizes = world.study("summed").sum.unwrap().sealed_sizes();
    let upload = SealedUpload {
        config: agents[1].digest,
        map: agents[1].map,
        slot: 1,
        round: 0,
        nonce: [0; 16],
        public: vec![0; sizes.public],
        for_leader: vec![0; sizes.for_leader],
        for_helper: vec![0; sizes.for_helper],
    };
    // Wait for the duration of several rounds.
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(500));
        let status = agents[0].ask("GET", "/v1/studies/summed", &[]).text();
        for part in ["\"state\":\"running\"", "\"round\":0", "\"head\":\"0:"] {
            assert!(status.contains(part), "{status}");
        }
        assert!(!status.contains("elapsed_ms") && !status.contains("round_key"), "{status}");
        let answer = agents[0].poll("wait=0&state=waiting");
        assert_eq!(answer.status, 204, "{}", answer.text());
        assert_eq!(answer.header("fedbo-elapsed"), None);
        assert_eq!(answer.header("fedbo-round-key"), None);
        let bytes = upload.to_bytes(sizes.n_features);
        let answer = agents[1].ask("PUT", &agents[1].target(0, 1), &bytes);
        assert!(answer.text().contains("\"code\":\"early\""), "{}", answer.text());
    }
    world.end();
}

#[test]
fn a_charged_study_keeps_its_ledger_and_releases_also_when_nobody_comes() {
    let folder = tempfile::tempdir().unwrap();
    let text = summed("epsilon = 8.0\nreleases = 2", 0.4, 0.2);
    let world = World::new(folder.path(), &[&text]);
    let agents = world.enrol("summed");
    let answer = agents[0].poll("after=1&wait=20");
    let handout = world.read("summed", &answer.body);
    let Content::Releases(entries) = handout.content else { panic!("releases are handed out") };
    assert_eq!(entries.len(), 2);
    // The entries must form a chain from the charter to the head.
    let study = world.study("summed");
    let plan = study.federation.privacy().unwrap();
    let mut head = plan.charter.genesis();
    let event = fedbo_ledger::event_to_bytes(&plan.event).unwrap();
    for entry in &entries {
        assert_eq!(entry.event, event);
        head = head.follow(entry.round, &entry.event, &entry.release);
    }
    assert_eq!((head.seq, head.hash), (handout.head.seq, handout.head.hash));
    let path = world.home.ledger("summed");
    // Wait for the end of the study: the third round has no release.
    let answer = agents[1].poll("after=4&wait=20");
    assert_eq!(answer.status, 204, "{}", answer.text());
    assert_eq!(answer.header("fedbo-state"), Some("finished"));
    world.end();
    let statement = fedbo_ledger::read(&path).unwrap();
    assert_eq!(statement.n_releases(), 2);
    assert_eq!(statement.head.to_string(), head.to_string());
}

#[test]
fn a_paused_study_takes_nothing_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), &[&summed(NO_NOISE, 30.0, 29.0)]);
    let agents = world.enrol("summed");
    assert_eq!(agents[0].upload(0, one_hot(0, 3)).status, 200);
    let store = world.home.store();
    let key = store.study("summed").unwrap().key;
    store.set_state(key, fedbo_coordinator::store::StudyState::Paused).unwrap();
    let refused = (0..50).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let answer = agents[1].upload(0, one_hot(1, 3));
        (answer.status != 200).then_some(answer)
    });
    let refused = refused.unwrap();
    assert!(refused.text().contains("paused"), "{}", refused.text());
    store.set_state(key, fedbo_coordinator::store::StudyState::Running).unwrap();
    // The upload from before the pause is requested again.
    let mut answers = Vec::new();
    let asked = (0..50).find(|_| {
        let answer = agents[0].poll("delivered=0&wait=1");
        answers.push((answer.status, answer.text()));
        answer.header("fedbo-resend") == Some("0")
    });
    assert!(asked.is_some(), "{answers:?}");
    assert_eq!(agents[0].upload(0, one_hot(0, 3)).status, 200);
    world.end();
}

/// A poll that waits for the start of a study returns the elapsed time of its round. Agents derive
/// their send time from it (INV-12). A paused study reports it too, even after a restart.
#[test]
fn it_is_always_said_since_when_a_round_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), &[&summed(NO_NOISE, 30.0, 29.0)]);
    let first = world.enrol_slot("summed", 0);
    let answer = first.poll("wait=0");
    assert_eq!(answer.header("fedbo-state"), Some("waiting"));
    assert_eq!(answer.header("fedbo-elapsed"), None);
    let answer = std::thread::scope(|scope| {
        let poll = scope.spawn(|| first.poll("wait=20&state=waiting"));
        std::thread::sleep(std::time::Duration::from_millis(100));
        for slot in 1..3 {
            world.enrol_slot("summed", slot);
        }
        poll.join().unwrap()
    });
    assert_eq!(answer.header("fedbo-state"), Some("running"));
    assert!(answer.header("fedbo-elapsed").is_some(), "{}", answer.head);
    let store = world.home.store();
    let key = store.study("summed").unwrap().key;
    let paused = fedbo_coordinator::store::StudyState::Paused;
    store.set_state(key, paused).unwrap();
    let world = world.restart();
    let first = TestAgent { address: world.address, ..first };
    let elapsed = (0..50).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let answer = first.poll("wait=0");
        assert_eq!(answer.header("fedbo-state"), Some("paused"));
        answer.header("fedbo-elapsed").map(str::to_owned)
    });
    assert!(elapsed.is_some());
    world.end();
}

/// A poll with an outdated state of the study returns at once, even with a long wait. Otherwise, if
/// the study started between an early upload and the poll, the agent would still be waiting after
/// its first round.
#[test]
fn a_poll_ends_at_once_when_the_study_is_in_another_state_than_known() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), &[&relayed(60.0)]);
    let agents = world.enrol("relayed");
    let since = std::time::Instant::now();
    let answer = agents[0].poll("wait=30&state=waiting");
    assert_eq!(answer.status, 204, "{}", answer.text());
    assert_eq!(answer.header("fedbo-state"), Some("running"));
    assert!(since.elapsed() < std::time::Duration::from_secs(10));
    let answer = agents[0].poll("wait=0&state=asleep");
    assert_eq!(answer.status, 400, "{}", answer.text());
    world.end();
}

/// An agent is told the rounds in which its slot delivered: while the round collects, when it is
/// released, and after a restart. A later owner of the slot is told only its own rounds.
#[test]
fn the_account_of_a_slot_has_the_rounds_that_it_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), &[&summed("epsilon = 8.0\nreleases = 3", 0.5, 0.3)]);
    let mut agents = world.enrol("summed");
    let account = |agent: &TestAgent| {
        let status = agent.ask_counted(0, "GET", "/v1/studies/summed", &[]);
        let status: StudyStatus = serde_json::from_slice(&status.body).unwrap();
        let account = status.account;
        account.verify(&agent.coordinator, &agent.key.public()).unwrap();
        let [study] = account.studies.as_slice() else { panic!("one study") };
        assert!(!study.event.is_empty() && study.mode == "default", "{study:?}");
        assert_eq!((study.slot, study.unrecorded.as_slice()), (agent.slot, &[][..]));
        study.delivered.clone()
    };
    assert_eq!(account(&agents[1]), []);
    assert_eq!(agents[1].upload(0, one_hot(1, 3)).status, 200);
    assert_eq!(account(&agents[1]), [(0, 0)], "it is not released yet");
    assert_eq!(account(&agents[2]), []);
    assert_eq!(agents[1].poll("wait=10").status, 200);
    assert_eq!(agents[1].upload(1, one_hot(1, 3)).status, 200);
    assert_eq!(agents[1].poll("after=1&wait=10").status, 200);
    assert_eq!(account(&agents[1]), [(0, 1)]);
    let world = world.restart();
    agents.iter_mut().for_each(|agent| agent.address = world.address);
    assert_eq!(account(&agents[1]), [(0, 1)]);
    assert_eq!(account(&agents[2]), []);
    assert_eq!(agents[1].poll("after=2&wait=10").status, 200);
    let token = world.home.token(&world.home.store().study("summed").unwrap(), 1).unwrap();
    let heir =
        TestAgent { key: SigningKey::from_seed([90; 32]), study: "summed".to_owned(), ..agents[1] };
    let request = EnrolRequest::new(&token, &heir.key.public());
    let enrolled = heir.ask("POST", "/v1/enrol", &serde_json::to_vec(&request).unwrap());
    assert_eq!(enrolled.status, 200, "{}", enrolled.text());
    assert_eq!(account(&heir), []);
    world.end();
}

/// Round 0 lasts one round duration per initial trial, in all studies. Other rounds last one round
/// duration.
#[test]
fn round_0_has_time_for_the_initial_trials() {
    let folder = tempfile::tempdir().unwrap();
    let files = [relayed(0.6), summed("mode = \"off\"", 0.6, 0.4)]; // three initial trials by default
    let world = World::new(folder.path(), &[&files[0], &files[1]]);
    for name in ["relayed", "summed"] {
        let agents = world.enrol(name);
        let elapsed_ms = || {
            let answer = agents[0].poll("wait=0");
            answer.header("fedbo-elapsed").map_or(0, |ms| ms.parse::<u64>().unwrap())
        };
        while elapsed_ms() < 1_300 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let n = if name == "relayed" { 2 } else { 3 };
        let answer = agents[1].upload(0, one_hot(1, n));
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        assert!(agents[0].poll("wait=0").status == 204 && elapsed_ms() < 1_800, "{name}");
        let first = agents[0].poll("wait=10");
        assert_eq!(first.status, 200, "{}", first.text());
        let since = std::time::Instant::now();
        let second = agents[0].poll("after=1&wait=10");
        assert_eq!(second.status, 200, "{}", second.text());
        let took = since.elapsed().as_millis();
        assert!((400..900).contains(&took), "{name}: {took} ms");
    }
    world.end();
}

/// Windows close at a fixed time, without waiting for agents. Messages are handed out again in
/// later windows, even by a restarted coordinator.
#[test]
fn at_a_free_pace_the_newest_messages_are_handed_out_in_every_window() {
    let folder = tempfile::tempdir().unwrap();
    let text = relayed(0.5).replace("rounds = 3", "rounds = 3\npace = \"free\"\nwindows = 12");
    let world = World::new(folder.path(), &[&text]);
    let mut agents = world.enrol("relayed");
    assert_eq!(agents[1].upload(0, vec![7.0, 0.5]).status, 200);
    let senders = |world: &World, agent: &TestAgent, query: &str| {
        let answer = agent.poll(query);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let handout = world.read("relayed", &answer.body);
        let Content::Messages { messages, stragglers } = handout.content else {
            panic!("messages are relayed")
        };
        assert!(stragglers.is_empty());
        let found: Vec<(u32, u64)> = messages.iter().map(|m| (m.sender, m.round)).collect();
        (handout.round, found)
    };
    let (window, found) = senders(&world, &agents[0], "wait=10");
    assert_eq!(found, [(1, 0)]);
    let (later, found) = senders(&world, &agents[0], &format!("after={window}&wait=10"));
    assert!(later > window);
    assert_eq!(found, [(1, 0)], "nobody has sent anything since");
    assert_eq!(agents[2].upload(later, vec![8.0, 0.5]).status, 200);
    let (last, found) = senders(&world, &agents[0], &format!("after={later}&wait=10"));
    assert_eq!(found, [(1, 0), (2, later)]);
    let world = world.restart();
    agents[0].address = world.address;
    let (_, found) = senders(&world, &agents[0], &format!("after={last}&wait=10"));
    assert_eq!(found, [(1, 0), (2, later)], "what was handed out is not forgotten");
    let answer = agents[0].poll("after=12&wait=20");
    assert_eq!(answer.header("fedbo-state"), Some("finished"), "with window 12, as 11 is the last");
    world.end();
}

/// The slots that take part in a release are recorded. A slot that has reached its limit of
/// releases is refused, even after a restart.
#[test]
fn at_a_free_pace_no_slot_is_in_more_releases_than_it_pays_for() {
    let folder = tempfile::tempdir().unwrap();
    let text = summed("epsilon = 8.0\nparticipations = 2", 0.6, 0.4);
    let text = text.replace("rounds = 3", "rounds = 3\npace = \"free\"\nwindows = 40");
    let world = World::new(folder.path(), &[&text]);
    let agents = world.enrol("summed");
    let mut window = 0;
    let mut sent = Vec::new();
    let next = |world: &World, agent: &TestAgent, window: &mut u64| {
        let answer = agent.poll(&format!("after={window}&wait=20"));
        *window = world.read("summed", &answer.body).round;
    };
    while sent.len() < 2 {
        if agents[1].upload(window, one_hot(1, 3)).status == 200 {
            sent.push(window);
        }
        next(&world, &agents[1], &mut window);
    }
    let refused = agents[1].upload(window, one_hot(1, 3));
    assert_ne!(refused.status, 200);
    assert!(refused.text().contains("already in 2 releases"), "{}", refused.text());
    let found = |world: &World| {
        let store = world.home.store();
        let found = store.participants(store.study("summed").unwrap().key, 0).unwrap();
        let with = found.into_iter().filter(|found| found.slots == [1]);
        with.map(|found| found.round).collect::<Vec<_>>()
    };
    assert_eq!(found(&world), sent);
    let world = world.restart();
    let mut agents = agents;
    agents.iter_mut().for_each(|agent| agent.address = world.address);
    next(&world, &agents[1], &mut window);
    let refused = agents[1].upload(window, one_hot(1, 3));
    assert!(refused.text().contains("already in 2 releases"), "{}", refused.text());
    // Every release has a record, even if it has no participants.
    let store = world.home.store();
    let study = store.study("summed").unwrap().key;
    let noted = store.participants(study, 0).unwrap();
    assert_eq!(noted.iter().filter(|found| found.slots == [1]).count(), 2);
    assert!(noted.len() > 2, "{noted:?}");
    // Each slot has its own limit.
    while agents[0].upload(window, one_hot(0, 3)).status != 200 {
        next(&world, &agents[0], &mut window);
    }
    let path = world.home.ledger("summed");
    world.end();
    let statement = fedbo_ledger::read(&path).unwrap();
    assert_eq!(statement.participations, Some(2));
    assert!(statement.n_releases() > 2 && !statement.is_overdrawn());
}

/// A store restored from an older copy may contain a record for a release that was later made over
/// different slots. This release counts for all slots.
#[test]
fn a_note_that_is_not_of_the_release_counts_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let text = summed("epsilon = 8.0\nparticipations = 1", 0.6, 0.4);
    let text = text.replace("rounds = 3", "rounds = 3\npace = \"free\"\nwindows = 40");
    let world = World::new(folder.path(), &[&text]);
    let mut agents = world.enrol("summed");
    let first = agents[2].poll("wait=20");
    let window = world.read("summed", &first.body).round;
    let store = rusqlite::Connection::open(folder.path().join("coordinator.db")).unwrap();
    let sql = "UPDATE participants SET release = zeroblob(32) WHERE round = 0";
    assert_eq!(store.execute(sql, []).unwrap(), 1);
    drop(store);
    let world = world.restart();
    agents[2].address = world.address;
    let next = agents[2].poll(&format!("after={window}&wait=20"));
    let window = world.read("summed", &next.body).round;
    let refused = agents[2].upload(window, one_hot(2, 3));
    assert!(refused.text().contains("already in 1 releases"), "{}", refused.text());
    world.end();
}

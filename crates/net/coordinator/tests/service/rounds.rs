//! Rounds: what is handed out, once, also after restarts.

use fedbo_wire::Content;

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
    // Round 1 without agent 2: the deadline closes it.
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
    // Who was away gets both at once: the newest message of each.
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

/// Each agent's vector is 1 at its own place: the sum shows who counted, and how often.
#[test]
fn each_vector_counts_once_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), &[&summed(NO_NOISE, 2.0, 1.5)]);
    let mut agents = world.enrol("summed");
    for agent in &agents[..2] {
        for _ in 0..3 {
            assert_eq!(agent.upload(0, one_hot(agent.slot, 3)).status, 200);
        }
        // Another vector of the same slot and round gets the same answer, and the first counts (INV-6).
        assert_eq!(agent.upload(0, vec![9.0; 3]).status, 200);
    }
    // What had arrived is lost with the process, and asked for again.
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
    // The paper's layout ends in the weights: a mean of three one-hot vectors.
    let release = &entries[0].release;
    let third = (1.0_f64 / 3.0).to_le_bytes();
    let n_thirds = release.windows(8).filter(|window| *window == third).count();
    assert_eq!(n_thirds, 3, "{release:?}");
    // The same bytes for everybody, and after another restart (INV-2).
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
    // They follow from the charter, one by one, to the head.
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
    // To the end of the study: the third round has no release.
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
    // What was there before is asked for again.
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

/// Whoever waits for a study to begin hears of that with the time since when, from which follows when agents send (INV-12). A
/// paused study says it too, also after a restart.
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

/// A poll of an agent that knows the study in another state is answered at once, however long it may wait: a study that began
/// between an upload that came too soon and the poll would leave the agent waiting past its first round.
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

/// Windows close by the clock and wait for nobody; what was handed out is handed out again, also by a coordinator that was started again.
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

/// The slots in a release are noted, and one that was in as many as it may be in is refused; also after a restart.
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
    assert!(refused.text().contains("in 2 releases already"), "{}", refused.text());
    let found = |world: &World| {
        let store = world.home.store();
        let found = store.participants(store.study("summed").unwrap().key).unwrap();
        let with = found.into_iter().filter(|found| found.slots == [1]);
        with.map(|found| found.round).collect::<Vec<_>>()
    };
    assert_eq!(found(&world), sent);
    let world = world.restart();
    let mut agents = agents;
    agents.iter_mut().for_each(|agent| agent.address = world.address);
    next(&world, &agents[1], &mut window);
    let refused = agents[1].upload(window, one_hot(1, 3));
    assert!(refused.text().contains("in 2 releases already"), "{}", refused.text());
    // Every release has its note, also of nobody.
    let store = world.home.store();
    let study = store.study("summed").unwrap().key;
    let noted = store.participants(study).unwrap();
    assert_eq!(noted.iter().filter(|found| found.slots == [1]).count(), 2);
    assert!(noted.len() > 2, "{noted:?}");
    // Another slot has its own.
    while agents[0].upload(window, one_hot(0, 3)).status != 200 {
        next(&world, &agents[0], &mut window);
    }
    let path = world.home.ledger("summed");
    world.end();
    let statement = fedbo_ledger::read(&path).unwrap();
    assert_eq!(statement.participations, Some(2));
    assert!(statement.n_releases() > 2 && !statement.is_overdrawn());
}

/// A store that is an older copy may have noted who was to be in a release that was then made with others: it counts for all.
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
    assert!(refused.text().contains("in 1 releases already"), "{}", refused.text());
    world.end();
}

//! Refused requests: each refusal states an actionable reason and reveals nothing else.

use std::time::Duration;

use fedbo_coordinator::Home;
use fedbo_coordinator::store::StudyState;
use fedbo_database::Mode;
use fedbo_wire::{
    EnrolRequest, EnrolmentToken, Problem, ProblemCode, RequestSignature, SigningKey, Stamp,
    StudyStatus,
};

use crate::world::{TestAgent, World, next_counter, one_hot, relayed, send, summed};

fn code(answer: &crate::world::Answer) -> ProblemCode {
    let problem: Problem = serde_json::from_slice(&answer.body)
        .unwrap_or_else(|_| panic!("no problem: {} {}", answer.status, answer.text()));
    assert_eq!(answer.status, problem.code.http_status());
    assert!(problem.message.len() > 10, "{}", problem.message);
    problem.code
}

/// A home that was restored from an older copy, or that is used twice, sends counters that were
/// already used. These requests are refused, even after a restart. An exact repeat by the transport
/// is accepted.
#[test]
fn a_request_that_is_not_newer_than_another_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), &[&relayed(60.0)]);
    let mut agent = world.enrol("relayed").remove(0);
    let target = agent.target(0, 0);
    let body = agent.bytes(0, one_hot(0, 2));
    let poll = "/v1/studies/relayed/handouts?wait=0";
    let first = next_counter() + 100;
    let stamp = Stamp { time_ms: crate::world::now_ms(), counter: first };
    let signed =
        fedbo_wire::sign_request(&agent.key, &agent.coordinator, "PUT", &target, &body, stamp);
    let headers = crate::world::headers(&signed);
    for _ in 0..2 {
        assert_eq!(send(world.address, "PUT", &target, &headers, &body).status, 200);
    }
    let world = world.restart();
    agent.address = world.address;
    let known = |agent: &TestAgent| {
        let status = agent.ask_counted(0, "GET", "/v1/studies/relayed", &[]);
        let status: StudyStatus = serde_json::from_slice(&status.body).unwrap();
        let account = status.account;
        account.verify(&agent.coordinator, &agent.key.public()).unwrap();
        account.studies[0].counter
    };
    assert_eq!(known(&agent), first);
    for counter in [0, 1, first - 1, first] {
        for (method, target, body) in [("PUT", target.as_str(), &body[..]), ("GET", poll, &[])] {
            let refused = agent.ask_counted(counter, method, target, body);
            assert_eq!(code(&refused), ProblemCode::CounterBehind);
            let said = refused.text();
            assert!(
                said.contains("two machines") && said.contains("fedbo agent reconcile"),
                "{said}"
            );
        }
    }
    assert_eq!(agent.ask_counted(first + 1, "GET", poll, &[]).status, 204);
    assert_eq!(known(&agent), first + 1);
    // Each slot has its own counter.
    world.end();
}

/// An agent reads a token's offer before claiming the slot. Reading the offer does not claim the
/// slot.
#[test]
fn an_offer_takes_no_slot() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), &[&relayed(60.0)]);
    let store = world.home.store();
    let record = store.study("relayed").unwrap();
    let token = world.home.token(&record, 1).unwrap();
    let ask = |seed: u8, target: &str, token: &EnrolmentToken| {
        let known = world.study("relayed");
        let agent = TestAgent {
            key: SigningKey::from_seed([seed; 32]),
            slot: 1,
            study: known.name.clone(),
            digest: known.digest,
            map: fedbo_wire::Digest(known.map.0),
            address: world.address,
            coordinator: world.home.key().public(),
        };
        let request = EnrolRequest::new(token, &agent.key.public());
        agent.ask("POST", target, &serde_json::to_vec(&request).unwrap())
    };
    for seed in [50, 51] {
        let offer = ask(seed, "/v1/offer", &token);
        assert_eq!(offer.status, 200, "{}", offer.text());
        assert_eq!(offer.text(), record.config);
        assert_eq!(offer.header("fedbo-slot"), Some("1"));
        let signature = offer.header("fedbo-signature").unwrap().parse().unwrap();
        let signed = fedbo_wire::verify_config(&token.coordinator, &offer.body, &signature);
        assert!(signed.is_ok());
        assert!(store.slots(record.key).unwrap().iter().all(|slot| slot.key.is_none()));
    }
    assert_eq!(ask(51, "/v1/enrol", &token).status, 200);
    assert_eq!(
        ask(51, "/v1/offer", &token).status,
        200,
        "an enrolment that was interrupted is done again"
    );
    assert_eq!(code(&ask(50, "/v1/offer", &token)), ProblemCode::TokenUsed);
    let mut unknown = token.clone();
    unknown.secret[0] ^= 1;
    assert_eq!(code(&ask(50, "/v1/offer", &unknown)), ProblemCode::TokenUnknown);
    world.end();
}

#[test]
fn each_refusal_has_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let files = [relayed(60.0), summed("mode = \"off\"", 60.0, 59.0)];
    let world = World::new(folder.path(), &[&files[0], &files[1]]);
    let agents = world.enrol("relayed");
    let agent = &agents[0];
    let target = agent.target(0, 0);
    let good = agent.bytes(0, vec![1.0, 2.0]);
    let stranger =
        TestAgent { key: SigningKey::from_seed([99; 32]), study: agent.study.clone(), ..*agent };
    let put =
        |agent: &TestAgent, target: &str, bytes: &[u8]| code(&agent.ask("PUT", target, bytes));
    let mut long = good.clone();
    long.push(0);
    let mut wrong_map = good.clone();
    wrong_map[56] ^= 1;
    let mut wrong_config = good.clone();
    wrong_config[24] ^= 1;
    let mut other_version = good.clone();
    other_version[4] = 9;
    let with_nan = agent.bytes(0, vec![f64::NAN, 0.0]);
    let early = agent.bytes(1, vec![1.0, 2.0]);
    for (found, expected) in [
        (put(&stranger, &target, &good), ProblemCode::UnknownStudy),
        (put(agent, &agent.target(0, 1), &good), ProblemCode::NotYourSlot),
        (put(agent, &target, &long), ProblemCode::WrongLength),
        (put(agent, &target, &wrong_map), ProblemCode::WrongMap),
        (put(agent, &target, &wrong_config), ProblemCode::WrongConfig),
        (put(agent, &target, &with_nan), ProblemCode::NotFinite),
        (put(agent, &agent.target(1, 0), &early), ProblemCode::Early),
        (put(agent, &agent.target(1, 0), &good), ProblemCode::BadRequest),
        (put(agent, "/v1/studies/relayed/rounds/x/slots/0", &good), ProblemCode::BadRequest),
        (put(agent, "/v1/studies/none/rounds/0/slots/0", &good), ProblemCode::UnknownStudy),
        (code(&agent.ask("GET", "/nowhere", &[])), ProblemCode::NotFound),
        (code(&agent.ask("DELETE", &target, &[])), ProblemCode::Method),
        (code(&agent.poll("wait=61")), ProblemCode::BadRequest),
        (code(&agent.poll("wait=-1")), ProblemCode::BadRequest),
        (code(&agent.poll("what=1")), ProblemCode::BadRequest),
        (
            code(&send(world.address, "PUT", &target, "fedbo-protocol: 3\r\n", &good)),
            ProblemCode::NotSigned,
        ),
        (
            code(&send(world.address, "PUT", &target, "fedbo-protocol: 2\r\n", &good)),
            ProblemCode::UnsupportedVersion,
        ),
        (code(&send(world.address, "PUT", &target, "", &good)), ProblemCode::UnsupportedVersion),
    ] {
        assert_eq!(found, expected);
    }
    assert_eq!(put(agent, &target, &other_version).http_status(), 400);
    // A signature for a different body.
    let signed = fedbo_wire::sign_request(
        &agent.key,
        &agent.coordinator,
        "PUT",
        &target,
        b"x",
        Stamp { time_ms: crate::world::now_ms(), counter: next_counter() },
    );
    let headers = |time_ms: u64| {
        let stamp = Stamp { time_ms, ..signed.stamp };
        crate::world::headers(&RequestSignature { stamp, ..signed })
    };
    let answer = send(world.address, "PUT", &target, &headers(signed.stamp.time_ms), &good);
    assert_eq!(code(&answer), ProblemCode::BadSignature);
    let answer = send(world.address, "PUT", &target, &headers(1_000), &good);
    assert_eq!(code(&answer), ProblemCode::ClockDiffers);
    // A request signed for a different coordinator is invalid.
    let elsewhere = TestAgent {
        key: SigningKey::from_seed([1; 32]), // the key of slot 0
        study: agent.study.clone(),
        coordinator: SigningKey::from_seed([77; 32]).public(),
        ..*agent
    };
    assert_eq!(elsewhere.key.public(), agent.key.public());
    let replayed = elsewhere.ask("PUT", &target, &good);
    assert_eq!(code(&replayed), ProblemCode::BadSignature);
    // None of these requests counted as an upload.
    assert_eq!(agent.ask("PUT", &target, &good).status, 200);
    assert_eq!(agent.ask("PUT", &target, &good).status, 200);
    let conflict = agent.upload(0, vec![1.0, 2.5]);
    assert_eq!(code(&conflict), ProblemCode::Conflict);
    // The other study is still waiting for its agents.
    let record = world.home.store().study("summed").unwrap();
    let token = world.home.token(&record, 0).unwrap();
    let waiting = TestAgent {
        key: SigningKey::from_seed([50; 32]),
        study: "summed".to_owned(),
        digest: world.study("summed").digest,
        map: fedbo_wire::Digest(world.study("summed").map.0),
        ..*agent
    };
    let enrol = |token: &EnrolmentToken, agent: &TestAgent| {
        serde_json::to_vec(&EnrolRequest::new(token, &agent.key.public())).unwrap()
    };
    let body = enrol(&token, &waiting);
    assert_eq!(waiting.ask("POST", "/v1/enrol", &body).status, 200);
    assert_eq!(waiting.ask("POST", "/v1/enrol", &body).status, 200);
    assert_eq!(code(&waiting.upload(0, one_hot(0, 3))), ProblemCode::NotStarted);
    // One agent's proof that it has a token does not let another agent claim the slot.
    assert_eq!(code(&stranger.ask("POST", "/v1/enrol", &body)), ProblemCode::BadSignature);
    let body = enrol(&token, &stranger);
    assert_eq!(code(&stranger.ask("POST", "/v1/enrol", &body)), ProblemCode::TokenUsed);
    let mut changed = token.clone();
    changed.config.0[0] ^= 1;
    assert_eq!(
        code(&waiting.ask("POST", "/v1/enrol", &enrol(&changed, &waiting))),
        ProblemCode::WrongConfig
    );
    assert_eq!(code(&stranger.ask("POST", "/v1/enrol", b"{}")), ProblemCode::BadRequest);
    let mut other = token;
    other.secret[0] ^= 1;
    let body = enrol(&other, &stranger);
    assert_eq!(code(&stranger.ask("POST", "/v1/enrol", &body)), ProblemCode::TokenUnknown);
    // An agent that was removed from the roster.
    let store = world.home.store();
    store.revoke(store.study("relayed").unwrap().key, 2).unwrap();
    let revoked = (0..60).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let answer = agents[2].poll("wait=0");
        answer.status == ProblemCode::Revoked.http_status() && code(&answer) == ProblemCode::Revoked
    });
    assert!(revoked);
    world.end();
}

#[test]
fn what_everybody_may_ask() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), &[&relayed(60.0)]);
    let get = |target: &str| send(world.address, "GET", target, "", &[]);
    assert_eq!(get("/healthz").text(), "ok\n");
    assert_eq!(get("/readyz").text(), "ready\n");
    let metrics = get("/metrics").text();
    assert!(
        metrics.contains("fedbo_requests_total{route=\"/readyz\",status=\"200\"} 1"),
        "{metrics}"
    );
    let openapi: serde_json::Value = serde_json::from_slice(&get("/v1/openapi.json").body).unwrap();
    assert!(openapi.is_object());
    // Only the study's agents may read the configuration and the status.
    let agents = world.enrol("relayed");
    let config = agents[1].ask("GET", "/v1/studies/relayed/config", &[]);
    assert_eq!(config.text(), world.study("relayed").config);
    assert_eq!(config.header("fedbo-config").unwrap(), world.study("relayed").digest.to_string());
    let status: fedbo_wire::StudyStatus =
        serde_json::from_slice(&agents[1].ask("GET", "/v1/studies/relayed", &[]).body).unwrap();
    assert_eq!((status.round, status.rounds), (0, 3));
    assert_eq!(get("/v1/studies/relayed/config").status, 400);
    world.end();
}

#[test]
fn a_key_is_rotated_once_and_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path(), &[&relayed(60.0)]);
    let agents = world.enrol("relayed");
    let old = &agents[0];
    let new = SigningKey::from_seed([77; 32]);
    let body = fedbo_wire::RotateRequest::new(&new, "relayed", 0, &old.key.public());
    let body = serde_json::to_vec(&body).unwrap();
    let target = "/v1/studies/relayed/key";
    assert_eq!(old.ask("POST", target, &body).status, 200);
    // The request is retried after its response was lost.
    assert_eq!(old.ask("POST", target, &body).status, 200);
    assert_eq!(code(&old.ask("GET", "/v1/studies/relayed", &[])), ProblemCode::UnknownStudy);
    let renewed = TestAgent { key: new, study: old.study.clone(), ..*old };
    assert_eq!(renewed.ask("GET", "/v1/studies/relayed", &[]).status, 200);
    // The key of another agent is refused.
    let body = fedbo_wire::RotateRequest::new(&agents[1].key, "relayed", 0, &renewed.key.public());
    let body = serde_json::to_vec(&body).unwrap();
    assert_eq!(code(&renewed.ask("POST", target, &body)), ProblemCode::Conflict);
    world.end();
}

/// A coordinator with a stalled study is alive and reachable, but not ready.
#[test]
fn readyz_names_a_study_that_stands_still() {
    let folder = tempfile::tempdir().unwrap();
    let files = [summed("epsilon = 4.0\nreleases = 3", 60.0, 59.0), relayed(60.0)];
    let world = World::new(folder.path(), &[&files[0], &files[1]]);
    world.enrol("summed");
    world.enrol("relayed");
    let get = |world: &World, target: &str| send(world.address, "GET", target, "", &[]);
    assert_eq!(get(&world, "/readyz").text(), "ready\n");
    world.end();
    // Damage the ledger.
    for name in ["summed.ledger.db-wal", "summed.ledger.db-shm"] {
        let _ = std::fs::remove_file(folder.path().join(name));
    }
    std::fs::write(folder.path().join("summed.ledger.db"), "damaged").unwrap();
    let world = World::on(Home::open(folder.path(), Mode::Existing).unwrap());
    let answers = |status: u16| {
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            get(&world, "/readyz").status == status
        })
    };
    assert!(answers(503));
    let said = get(&world, "/readyz").text();
    let is_named = said.starts_with("study \"summed\" is blocked: ");
    assert!(is_named && said.lines().count() == 1, "{said}");
    // A stalled study affects neither the store check nor the liveness check.
    assert_eq!(get(&world, "/readyz?scope=store").status, 200);
    assert_eq!(get(&world, "/healthz").status, 200);
    // The operator pauses the study.
    let store = world.home.store();
    store.set_state(store.study("summed").unwrap().key, StudyState::Paused).unwrap();
    assert!(answers(200));
    world.end();
}

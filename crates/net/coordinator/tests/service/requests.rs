//! Requests that are refused: why, in words that somebody can act on, and nothing more.

use fedbo_wire::{EnrolRequest, EnrolmentToken, HEADER_PROTOCOL, Problem, ProblemCode, SigningKey};

use crate::world::{TestAgent, World, one_hot, relayed, send, summed};

fn code(answer: &crate::world::Answer) -> ProblemCode {
    let problem: Problem = serde_json::from_slice(&answer.body)
        .unwrap_or_else(|_| panic!("no problem: {} {}", answer.status, answer.text()));
    assert_eq!(answer.status, problem.code.http_status());
    assert!(problem.message.len() > 10, "{}", problem.message);
    problem.code
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
            code(&send(world.address, "PUT", &target, "fedbo-protocol: 2\r\n", &good)),
            ProblemCode::NotSigned,
        ),
        (
            code(&send(world.address, "PUT", &target, "fedbo-protocol: 1\r\n", &good)),
            ProblemCode::UnsupportedVersion,
        ),
        (code(&send(world.address, "PUT", &target, "", &good)), ProblemCode::UnsupportedVersion),
    ] {
        assert_eq!(found, expected);
    }
    assert_eq!(put(agent, &target, &other_version).http_status(), 400);
    // A signature of another body.
    let signed = fedbo_wire::sign_request(
        &agent.key,
        &agent.coordinator,
        "PUT",
        &target,
        b"x",
        crate::world::now_ms(),
    );
    let headers = |time: u64| {
        format!(
            "{HEADER_PROTOCOL}: 2\r\nfedbo-key: {}\r\nfedbo-time: {time}\r\nfedbo-signature: {}\r\n",
            signed.key, signed.signature
        )
    };
    let answer = send(world.address, "PUT", &target, &headers(signed.time_ms), &good);
    assert_eq!(code(&answer), ProblemCode::BadSignature);
    let answer = send(world.address, "PUT", &target, &headers(1_000), &good);
    assert_eq!(code(&answer), ProblemCode::ClockDiffers);
    // What was signed for another coordinator says nothing to this one.
    let elsewhere = TestAgent {
        key: SigningKey::from_seed([1; 32]), // that of slot 0
        study: agent.study.clone(),
        coordinator: SigningKey::from_seed([77; 32]).public(),
        ..*agent
    };
    assert_eq!(elsewhere.key.public(), agent.key.public());
    let replayed = elsewhere.ask("PUT", &target, &good);
    assert_eq!(code(&replayed), ProblemCode::BadSignature);
    // None of this was taken for an upload.
    assert_eq!(agent.ask("PUT", &target, &good).status, 200);
    assert_eq!(agent.ask("PUT", &target, &good).status, 200);
    let conflict = agent.upload(0, vec![1.0, 2.5]);
    assert_eq!(code(&conflict), ProblemCode::Conflict);
    // The other study waits for its agents.
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
    // What one agent says to have a token with takes a slot for no other.
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
    // Off the roster.
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
    // Config and status are for agents of the study.
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
    // The answer was lost, and the request comes again.
    assert_eq!(old.ask("POST", target, &body).status, 200);
    assert_eq!(code(&old.ask("GET", "/v1/studies/relayed", &[])), ProblemCode::UnknownStudy);
    let renewed = TestAgent { key: new, study: old.study.clone(), ..*old };
    assert_eq!(renewed.ask("GET", "/v1/studies/relayed", &[]).status, 200);
    // Nobody takes the key of another.
    let body = fedbo_wire::RotateRequest::new(&agents[1].key, "relayed", 0, &renewed.key.public());
    let body = serde_json::to_vec(&body).unwrap();
    assert_eq!(code(&renewed.ask("POST", target, &body)), ProblemCode::Conflict);
    world.end();
}

//! The link over another system's messages. A process gets responses, leaves requests, and never
//! waits.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use fedbo_agent::{
    AgentFile, Caller, Link as _, Mail, MailLink, Place, Poll, Polled, RequestId, RunOptions,
    Silent, run_by_mail,
};
use fedbo_transport::{CarriedRequest, CarriedResponse, Clock as _, LinkError, SystemClock};
use fedbo_wire::{
    Account, Digest, EnrolRequest, EnrolmentToken, ProblemCode, SigningKey, StudyState, StudyStatus,
};

use crate::coordinator::TestCoordinator;
use crate::world::{Member, frozen, three_agents};

const TO: Place<'_> = Place { study: "wine", round: 3, slot: 1 };
const POLL: Poll = Poll {
    after: Some(2),
    entries: 4,
    helper: 0,
    wait_s: 25,
    delivered: None,
    state: None,
    bytes_max: 100,
};

fn key() -> SigningKey {
    SigningKey::from_seed([9; 32])
}

/// Returns a caller whose key lives as long as the tests.
fn by(seed: u8) -> Caller<'static> {
    static KEYS: [OnceLock<SigningKey>; 2] = [const { OnceLock::new() }; 2];
    let key = &KEYS[usize::from(seed == 9)];
    Caller { key: key.get_or_init(|| SigningKey::from_seed([seed; 32])), counter: 3 }
}

/// Creates the mail of a process, and a link to a coordinator.
fn opened(
    answers: Vec<(RequestId, CarriedResponse)>,
    asked_ms: Option<u64>,
) -> (Arc<Mail>, MailLink) {
    let mail = Arc::new(Mail::new(answers, None, asked_ms));
    let link = MailLink::new(Arc::clone(&mail), SigningKey::from_seed([4; 32]).public());
    (mail, link)
}

fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> CarriedResponse {
    let headers = [&[("fedbo-protocol", "3")], headers].concat();
    let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    CarriedResponse { status, headers, body: body.to_vec() }
}

/// Returns the requests that a process without responses leaves.
fn left(ask: impl Fn(&MailLink) -> Option<LinkError>) -> Vec<(RequestId, CarriedRequest)> {
    let (mail, link) = opened(Vec::new(), None);
    assert_eq!(ask(&link), Some(LinkError::Stopped));
    mail.outbox()
}

fn status(time_ms: u64) -> Vec<u8> {
    let status = StudyStatus {
        study: "wine".into(),
        state: StudyState::Running,
        round: 3,
        rounds: 9,
        collects: true,
        head: String::new(),
        time_ms,
        elapsed_ms: Some(700),
        round_key: None,
        account: Account::new(&key(), key().public(), time_ms, Vec::new()),
    };
    serde_json::to_vec(&status).unwrap()
}

fn targets(requests: &[(RequestId, CarriedRequest)]) -> Vec<&str> {
    requests.iter().map(|(_, request)| request.target.as_str()).collect()
}

/// The next process begins with the study's state, so this is requested as well, after the actual
/// request.
#[test]
fn what_has_no_answer_is_left_and_gets_it_in_the_next_process() {
    let requests = left(|link| link.upload(by(9), TO, b"vector").err());
    assert_eq!(targets(&requests), ["/v1/studies/wine/rounds/3/slots/1", "/v1/studies/wine"]);
    assert_eq!(
        (requests[0].1.method.as_str(), requests[0].1.body.as_slice()),
        ("PUT", &b"vector"[..])
    );
    let (mail, link) =
        opened(vec![(requests[0].0, answer(200, &[], br#"{"status":"accepted"}"#))], None);
    assert!(!link.has_answer(&key(), TO, b"another"));
    assert!(link.has_answer(&key(), TO, b"vector"));
    assert_eq!(link.upload(by(9), TO, b"vector"), Ok(()));
    assert!(mail.outbox().is_empty());
    // A response can be used only once.
    assert!(!link.has_answer(&key(), TO, b"vector"));
    assert_eq!(link.upload(by(9), TO, b"vector"), Err(LinkError::Stopped));
    assert_eq!(mail.outbox().len(), 2);
}

#[test]
fn an_answer_to_another_request_or_another_key_is_none() {
    let requests = left(|link| link.handouts(by(9), "wine", POLL).err());
    let other = [
        left(|link| link.handouts(by(9), "wine", Poll { after: None, ..POLL }).err()),
        left(|link| link.handouts(by(8), "wine", POLL).err()),
    ];
    for other in other {
        assert_ne!(other[0].0, requests[0].0);
        let (_, link) = opened(vec![(other[0].0, answer(200, &[], b"handout"))], None);
        assert_eq!(link.handouts(by(9), "wine", POLL).err(), Some(LinkError::Stopped));
    }
}

/// The process is about to end, so unused responses are dropped and requested again later.
#[test]
fn after_a_request_is_left_no_answer_is_used() {
    let state = left(|link| link.status(&key(), "wine").err());
    let (mail, link) =
        opened(vec![(state[0].0, answer(200, &[], &status(SystemClock.now_ms())))], None);
    assert_eq!(link.handouts(by(9), "wine", POLL).err(), Some(LinkError::Stopped));
    assert_eq!(link.status(&key(), "wine").err(), Some(LinkError::Stopped));
    assert_eq!(mail.outbox().len(), 2, "each once");
}

#[test]
fn the_state_of_a_study_serves_while_it_is_fresh_and_ages() {
    let state = left(|link| link.status(&key(), "wine").err());
    let (mail, link) =
        opened(vec![(state[0].0, answer(200, &[], &status(SystemClock.now_ms())))], None);
    let first = link.status(&key(), "wine").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(30));
    let again = link.status(&key(), "wine").unwrap();
    assert!(first.elapsed_ms >= Some(700));
    assert!(again.elapsed_ms >= first.elapsed_ms.map(|ms| ms + 29), "{first:?} {again:?}");
    assert!(mail.outbox().is_empty());
}

#[test]
fn a_round_has_gone_on_since_its_handout_came() {
    let poll = left(|link| link.handouts(by(9), "wine", POLL).err());
    let came = answer(200, &[("fedbo-elapsed", "700")], b"handout");
    let (_, link) = opened(vec![(poll[0].0, came)], None);
    std::thread::sleep(std::time::Duration::from_millis(30));
    match link.handouts(by(9), "wine", POLL).unwrap() {
        Polled::Handout { bytes, elapsed_ms } => {
            assert_eq!(bytes, b"handout");
            assert!(elapsed_ms >= Some(729), "{elapsed_ms:?}");
        }
        Polled::Nothing(_) => panic!("there is a handout"),
    }
}

/// A message can wait for a node for hours, so its age does not show that clocks differ.
#[test]
fn answers_that_were_under_way_for_long_do_not_show_that_clocks_differ() {
    let now_ms = SystemClock.now_ms();
    let state = left(|link| link.status(&key(), "wine").err());
    let poll = left(|link| link.handouts(by(9), "wine", POLL).err());
    let stale = || (state[0].0, answer(200, &[], &status(now_ms - 400_000)));
    let refused = || {
        let problem = br#"{"code":"clock-differs","message":"400 s"}"#;
        (poll[0].0, answer(401, &[], problem))
    };
    let (mail, link) = opened(vec![stale()], Some(now_ms - 400_000));
    assert_eq!(link.status(&key(), "wine").err(), Some(LinkError::Stopped));
    assert_eq!(mail.outbox().len(), 1);
    let (mail, link) = opened(vec![refused()], Some(now_ms - 400_000));
    assert_eq!(link.handouts(by(9), "wine", POLL).err(), Some(LinkError::Stopped));
    assert_eq!(mail.outbox().len(), 2);
    // Without the time of its requests, a process was restarted, and its responses may have any
    // age.
    let (mail, link) = opened(vec![stale()], None);
    assert_eq!(link.status(&key(), "wine").err(), Some(LinkError::Stopped));
    assert_eq!(mail.outbox().len(), 1);
    // A response to a recent request does show that clocks differ.
    let (_, link) = opened(vec![stale()], Some(now_ms - 1_000));
    assert_eq!(link.status(&key(), "wine").unwrap().time_ms, now_ms - 400_000);
    let (_, link) = opened(vec![refused()], Some(now_ms - 1_000));
    let code = link.handouts(by(9), "wine", POLL).err().and_then(|error| error.code());
    assert_eq!(code, Some(ProblemCode::ClockDiffers));
}

/// Responses can be changed in transit, so they are read with the same limits as responses over a
/// connection.
#[test]
fn answers_that_are_none_are_named() {
    let poll = left(|link| link.handouts(by(9), "wine", POLL).err());
    let asked = |answer: CarriedResponse| {
        let (_, link) = opened(vec![(poll[0].0, answer)], None);
        link.handouts(by(9), "wine", POLL).err().unwrap()
    };
    let unusable = |error: LinkError| matches!(error, LinkError::Unusable { .. });
    assert!(unusable(asked(answer(200, &[], &[0; 101]))));
    assert!(unusable(asked(answer(200, &[("a header", "x")], b"handout"))));
    assert!(unusable(asked(answer(200, &[("x", "a\r\nb")], b"handout"))));
    assert!(unusable(asked(answer(204, &[], b"")))); // without the round
    // 64 headers are accepted, including the protocol's own header, and 65 are not. Tens of
    // thousands would exceed the capacity of a header map.
    let with_others = |count: usize| answer(200, &vec![("x", "y"); count], b"handout");
    let (_, link) = opened(vec![(poll[0].0, with_others(63))], None);
    assert!(link.handouts(by(9), "wine", POLL).is_ok());
    assert!(unusable(asked(with_others(64))));
    assert!(unusable(asked(with_others(40_000))));
    assert!(unusable(asked(CarriedResponse {
        status: 200,
        headers: Vec::new(),
        body: Vec::new()
    })));
    let other = CarriedResponse {
        status: 200,
        headers: vec![("fedbo-protocol".into(), "7".into())],
        body: Vec::new(),
    };
    assert!(matches!(asked(other), LinkError::OtherVersion { theirs: 7, .. }));
}

/// Every process repeats an enrolment from the start, with the challenge of the first process and
/// all responses since then.
#[test]
fn an_enrolment_goes_on_from_process_to_process() {
    let challenge = Digest([5; 32]);
    let (mail, link) = opened(Vec::new(), None);
    assert_eq!(link.pending_challenge(), None);
    assert_eq!(link.prove(&challenge).err(), Some(LinkError::Stopped));
    assert_eq!(mail.challenge(), Some(challenge));
    let asked = mail.outbox();
    let proof = fedbo_wire::CoordinatorProof::new(&SigningKey::from_seed([4; 32]), &challenge);
    let proof = serde_json::to_vec(&proof).unwrap();
    let mail =
        Arc::new(Mail::new([(asked[0].0, answer(200, &[], &proof))], mail.challenge(), None));
    let link = MailLink::new(Arc::clone(&mail), SigningKey::from_seed([4; 32]).public());
    assert_eq!(link.pending_challenge(), Some(challenge));
    link.prove(&challenge).unwrap().verify(&challenge).unwrap();
    let token = EnrolmentToken {
        secret: [5; 20],
        coordinator: SigningKey::from_seed([4; 32]).public(),
        config: Digest([7; 32]),
    };
    let request = EnrolRequest::new(&token, &key().public());
    assert_eq!(link.offer(&key(), &request).err(), Some(LinkError::Stopped));
    assert_eq!(targets(&mail.outbox()).len(), 2);
    assert_eq!(mail.outbox()[1], asked[0], "what was answered is asked again");
}

/// Agents at a free pace make requests while a trial runs, which a process that never waits cannot
/// do. The run is refused before any request.
#[test]
fn a_study_at_a_free_pace_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let text = three_agents("free", "fts", "").replace("rounds = 4", "rounds = 4\npace = \"free\"");
    let coordinator = Rc::new(RefCell::new(TestCoordinator::new(&frozen(&text))));
    let home = folder.path().join("home");
    Member::enrol(&home, &coordinator, 0);
    let text = format!("[agent]\nhome = {home:?}\n[objective]\ncommand = [\"true\", \"{{x}}\"]\n");
    let file = AgentFile::from_text(&folder.path().join("agent.toml"), &text).unwrap();
    let mail = Arc::new(Mail::new(Vec::new(), None, None));
    let options = RunOptions { file: &file, stop: Arc::default(), observer: &Silent };
    let error = run_by_mail(&options, None, &mail).unwrap_err().to_string();
    assert!(error.contains("pace = \"free\"") && error.contains("join it over HTTPS"), "{error}");
    assert!(mail.outbox().is_empty());
}

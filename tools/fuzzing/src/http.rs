//! `http`: fedbo's own parsing of requests and responses. The target `service` covers the framework
//! and the service.

use std::fmt::Debug;

use fedbo_wire::{
    Accepted, Account, COUNTER_MAX, CoordinatorProof, EnrolRequest, Enrolled, EnrolmentToken,
    Problem, ProblemCode, RequestSignature, RotateRequest, Stamp, StudyState, StudyStatus,
    sign_request,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::input_reader::{Pieces, text};
use crate::keys::{agent, coordinator};

/// The first byte selects the decoder: signature headers and their request; a request with a valid
/// signature; or a JSON body of a request or a response.
pub fn http(bytes: &[u8]) {
    let mut pieces = Pieces(bytes);
    match pieces.byte() % 11 {
        0 => headers(pieces),
        1 => signed(pieces),
        2 => enrolment(pieces.0),
        3 => rotation(pieces.0),
        4 => body::<Enrolled>(pieces.0),
        5 => body::<Accepted>(pieces.0),
        6 => body::<StudyStatus>(pieces.0),
        7 => body::<Problem>(pieces.0),
        8 => body::<ProblemCode>(pieces.0),
        10 => body::<CoordinatorProof>(pieces.0),
        _ => state(&text(pieces.0)),
    }
}

/// Reads one header per line, then method, target and body.
fn headers(mut pieces: Pieces<'_>) {
    let present = pieces.byte();
    let [key, time, counter, signature, method, target] =
        std::array::from_fn(|_| text(pieces.line()));
    let given = |bit: u8, value| (present & bit == 0).then_some(value);
    let read = RequestSignature::from_headers(
        given(1, key.as_str()),
        given(2, time.as_str()),
        given(8, counter.as_str()),
        given(4, signature.as_str()),
    );
    match read {
        Ok(read) => {
            // Each header has only one valid encoding.
            assert_eq!(read.key.to_string(), key);
            assert_eq!(read.stamp.time_ms.to_string(), time);
            assert_eq!(read.stamp.counter.to_string(), counter);
            assert_eq!(read.signature.to_string(), signature);
            check_time(&read, pieces.0);
            let to = coordinator().public();
            let verified = read.verify(&to, &method, &target, pieces.0);
            assert_eq!(verified, read.verify(&to, &method, &target, pieces.0));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Checks that a valid signature is accepted for its request and rejected for any other.
fn signed(mut pieces: Pieces<'_>) {
    let stamp = Stamp { time_ms: pieces.u64(), counter: pieces.u64() & COUNTER_MAX };
    let (method, target) = (text(pieces.line()), text(pieces.line()));
    let body = pieces.0;
    let to = coordinator().public();
    let signature = sign_request(agent(), &to, &method, &target, body, stamp);
    let (key, digits) = (signature.key.to_string(), signature.signature.to_string());
    let (time, counter) = (stamp.time_ms.to_string(), stamp.counter.to_string());
    let read =
        RequestSignature::from_headers(Some(&key), Some(&time), Some(&counter), Some(&digits));
    assert_eq!(read.as_ref(), Ok(&signature));
    assert!(signature.verify(&to, &method, &target, body).is_ok());
    assert!(signature.verify(&agent().public(), &method, &target, body).is_err());
    let moved = format!("{method}{target}");
    assert!(target.is_empty() || signature.verify(&to, &moved, "", body).is_err());
    let longer = [body, &[0]].concat();
    assert!(signature.verify(&to, &method, &target, &longer).is_err());
    check_time(&signature, body);
}

fn check_time(signature: &RequestSignature, rest: &[u8]) {
    let mut rest = Pieces(rest);
    for now_ms in [0, rest.u64(), 1 << 60, u64::MAX] {
        if let Err(differs) = signature.check_time(now_ms) {
            assert!(differs.to_string().contains(" UTC"));
        }
    }
}

/// Checks that a valid request survives a round trip. A fuzzer can sign only with the token of the
/// seeds, so requests with all other tokens must be refused.
fn enrolment(bytes: &[u8]) {
    match serde_json::from_slice::<EnrolRequest>(bytes) {
        Ok(request) => {
            let again: Option<EnrolRequest> = serde_json::from_slice(&json(&request)).ok();
            assert_eq!(again.as_ref(), Some(&request));
            let (agent, coordinator) = (agent().public(), coordinator().public());
            let is_its = request.verify(&agent, &coordinator).is_ok();
            assert!(!is_its || request.token == token().key().public());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn token() -> EnrolmentToken {
    EnrolmentToken {
        secret: [5; 20],
        coordinator: coordinator().public(),
        config: fedbo_wire::Digest([3; 32]),
    }
}

fn rotation(bytes: &[u8]) {
    let Ok(request) = serde_json::from_slice::<RotateRequest>(bytes) else {
        return;
    };
    assert_eq!(serde_json::from_slice(&json(&request)).ok(), Some(request.clone()));
    // A fuzzer has no signing key, so every request is refused.
    assert!(request.verify("study", 1, &agent().public()).is_err());
}

/// Checks that a valid body survives a round trip.
fn body<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(body) = serde_json::from_slice::<T>(bytes) {
        let again: Option<T> = serde_json::from_slice(&json(&body)).ok();
        assert_eq!(again.as_ref(), Some(&body));
    }
}

fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("plain data has a form in JSON")
}

fn state(text: &str) {
    if let Ok(state) = text.parse::<StudyState>() {
        assert_eq!(state.name(), text);
    }
}

/// Returns valid requests and responses.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let (method, target, body) = ("GET", "/v1/studies/labs/handouts?after=3&wait=5", "");
    let signature = sign_request(
        agent(),
        &coordinator().public(),
        method,
        target,
        body.as_bytes(),
        Stamp { time_ms: 1_700_000_000_000, counter: 17 },
    );
    let headers = format!(
        "{}\n{}\n{}\n{}\n{method}\n{target}\n{body}",
        signature.key, signature.stamp.time_ms, signature.stamp.counter, signature.signature
    );
    let enrolment = EnrolRequest::new(&token(), &agent().public());
    let of = |kind: u8, body: &[u8]| [&[kind], body].concat();
    let mut seeds = vec![
        of(0, &[&[0], headers.as_bytes()].concat()),
        of(0, &[&[2], headers.as_bytes()].concat()),
        of(1, b"\x00\x00\x01\x00\x00\x00\x00\x00PUT\n/v1/studies/labs/rounds/3/slots/1\nbody"),
        of(2, &json(&enrolment)),
        of(3, &json(&RotateRequest::new(agent(), "study", 1, &coordinator().public()))),
        of(5, &json(&Accepted::default())),
        of(8, b"\"bad-request\""),
        of(9, b"paused"),
    ];
    let enrolled = Enrolled {
        study: "labs".to_owned(),
        slot: 1,
        agent: "north".to_owned(),
        config: fedbo_wire::Digest([3; 32]),
        coordinator: coordinator().public(),
    };
    let status = StudyStatus {
        study: "labs".to_owned(),
        state: StudyState::Running,
        round: 1,
        rounds: 3,
        collects: true,
        head: String::new(),
        time_ms: 1_700_000_000_000,
        elapsed_ms: Some(5),
        round_key: None,
        account: Account::new(coordinator(), agent().public(), 1_700_000_000_000, Vec::new()),
    };
    let problem = Problem { code: ProblemCode::Late, message: "the round is over".to_owned() };
    seeds.push(of(4, &json(&enrolled)));
    seeds.push(of(6, &json(&status)));
    seeds.push(of(7, &json(&problem)));
    seeds
}

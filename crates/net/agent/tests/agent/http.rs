//! The HTTP link, against a minimal server.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fedbo_agent::{Caller, HttpLink, Link as _, Place, Poll, Polled, Progress};
use fedbo_transport::LinkError;
use fedbo_wire::{
    Digest, EnrolRequest, EnrolmentToken, HEADER_COUNTER, HEADER_KEY, HEADER_SIGNATURE,
    HEADER_TIME, ProblemCode, PublicKey, RequestSignature, RoundKey, SigningKey, StudyState,
};

/// A received request with a verified signature.
struct Came {
    method: String,
    target: String,
    body: Vec<u8>,
}

/// A server that returns the given responses in order. After the last one, it never responds.
struct Server {
    url: String,
    came: Arc<Mutex<Vec<Came>>>,
}

const OURS: &str = "fedbo-protocol: 3\r\n";

fn coordinator() -> PublicKey {
    SigningKey::from_seed([4; 32]).public()
}

fn answer(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}").into_bytes()
}

impl Server {
    fn start(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/prefix/", listener.local_addr().unwrap());
        let came: Arc<Mutex<Vec<Came>>> = Arc::default();
        let log = Arc::clone(&came);
        std::thread::spawn(move || {
            let mut answers = VecDeque::from(answers);
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                log.lock().unwrap().push(read(&stream));
                match answers.pop_front() {
                    Some(answer) => stream.write_all(&answer).unwrap(),
                    None => kept.push(stream), // open, without a response
                }
            }
        });
        Self { url, came }
    }

    fn link(&self) -> HttpLink {
        HttpLink::new(&self.url, None, coordinator(), Arc::new(AtomicBool::new(false))).unwrap()
    }
}

fn read(stream: &TcpStream) -> Came {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first = line();
    let mut words = first.split(' ');
    let method = words.next().unwrap().to_owned();
    let target = words.next().unwrap().strip_prefix("/prefix").unwrap().to_owned();
    let mut headers = std::collections::BTreeMap::new();
    loop {
        let header = line();
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(": ").unwrap();
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let header = |name: &str| headers.get(name).map(String::as_str);
    assert_eq!(header("fedbo-protocol"), Some("3"));
    let length = header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let signed = RequestSignature::from_headers(
        header(HEADER_KEY),
        header(HEADER_TIME),
        header(HEADER_COUNTER),
        header(HEADER_SIGNATURE),
    );
    // The request for the coordinator's identity is unsigned.
    match target.starts_with("/v1/coordinator?") {
        true => assert!(signed.is_err()),
        false => {
            let verified = signed.unwrap().verify(&coordinator(), &method, &target, &body);
            verified.unwrap();
        }
    }
    Came { method, target, body }
}

const POLL: Poll = Poll {
    after: Some(3),
    entries: 2,
    helper: 0,
    wait_s: 1,
    delivered: Some(3),
    state: Some(StudyState::Waiting),
    bytes_max: 100,
};

#[test]
fn requests_are_signed_and_answers_read() {
    let key = SigningKey::from_seed([3; 32]);
    let coordinator = coordinator();
    let digest = "ab".repeat(32);
    let enrolled = format!(
        "{{\"study\":\"a b\",\"slot\":2,\"agent\":\"north\",\"config\":\"{digest}\",\"coordinator\":\"{coordinator}\",\"new\":1}}"
    );
    let signature = "cd".repeat(64);
    let config = format!(
        "{OURS}fedbo-config: {digest}\r\nfedbo-signature: {signature}\r\nfedbo-slot: 2\r\n"
    );
    let round_key = RoundKey::new(&key, &Digest([1; 32]), 3, [6; 32]);
    let news = format!(
        "{OURS}fedbo-round: 3\r\nfedbo-state: running\r\nfedbo-resend: 2\r\nfedbo-elapsed: 70\r\nfedbo-round-key: {round_key}\r\n"
    );
    let server = Server::start(vec![
        answer(200, &config, "[federation]"),
        answer(200, OURS, &enrolled),
        answer(200, OURS, "{\"status\":\"accepted\"}"),
        answer(204, &news, ""),
        answer(200, OURS, "FBHO"),
    ]);
    let link = server.link();
    let token = EnrolmentToken { secret: [5; 20], coordinator, config: Digest([7; 32]) };
    let request = EnrolRequest::new(&token, &key.public());
    let found = link.offer(&key, &request).unwrap();
    assert_eq!((found.text.as_slice(), found.digest.to_string()), (&b"[federation]"[..], digest));
    assert_eq!(found.slot, 2);
    let found = link.enrol(&key, &request).unwrap();
    assert_eq!((found.study.as_str(), found.slot), ("a b", 2));
    let to = Place { study: "a b", round: 3, slot: 2 };
    link.upload(Caller { key: &key, counter: 7 }, to, &[1, 0, 255]).unwrap();
    let nothing = Progress {
        round: 3,
        state: StudyState::Running,
        resend: Some(2),
        elapsed_ms: Some(70),
        round_key: Some(round_key),
    };
    assert!(
        link.handouts(Caller { key: &key, counter: 7 }, "a b", POLL).unwrap()
            == Polled::Nothing(nothing)
    );
    let first = Poll { after: None, delivered: None, state: None, ..POLL };
    let handout = Polled::Handout { bytes: b"FBHO".to_vec(), elapsed_ms: None };
    assert!(link.handouts(Caller { key: &key, counter: 7 }, "a b", first).unwrap() == handout);
    let came = server.came.lock().unwrap();
    let lines: Vec<String> =
        came.iter().map(|came| format!("{} {}", came.method, came.target)).collect();
    assert_eq!(
        lines,
        [
            "POST /v1/offer",
            "POST /v1/enrol",
            "PUT /v1/studies/a%20b/rounds/3/slots/2",
            "GET /v1/studies/a%20b/handouts?entries=2&wait=1&after=3&delivered=3&state=waiting",
            "GET /v1/studies/a%20b/handouts?entries=2&wait=1",
        ]
    );
    assert_eq!(came[2].body, [1, 0, 255]);
    let sent: EnrolRequest = serde_json::from_slice(&came[0].body).unwrap();
    assert_eq!(sent, request);
    assert!(sent.verify(&key.public(), &coordinator).is_ok());
}

#[test]
fn what_is_no_answer_is_told_from_a_refusal() {
    let key = SigningKey::from_seed([3; 32]);
    let refusal = "{\"code\":\"late\",\"message\":\"round 3 is over\"}";
    let long = "x".repeat(101);
    let server = Server::start(vec![
        answer(409, OURS, refusal),
        answer(
            429,
            &format!("{OURS}retry-after: 7\r\n"),
            "{\"code\":\"busy\",\"message\":\"later\"}",
        ),
        answer(502, "", "<html>"),
        answer(404, "", "<html>"),
        answer(200, "", "{\"status\":\"accepted\"}"),
        answer(200, OURS, &long),
        answer(204, OURS, ""),
        b"HTTP/1.1 200 OK\r\nfedbo-protocol: 3\r\ncontent-length: 50\r\n\r\nshort".to_vec(),
    ]);
    let link = server.link();
    let ask = || match link.handouts(Caller { key: &key, counter: 7 }, "s", POLL) {
        Ok(_) => panic!("an answer"),
        Err(error) => error,
    };
    let refused = ask();
    assert!(refused.code() == Some(ProblemCode::Late) && !refused.is_temporary());
    let busy = ask();
    assert!(busy.is_temporary() && busy.retry_after() == Some(Duration::from_secs(7)));
    for (is_temporary, words) in [
        (true, "status 502"),
        (false, "status 404"),
        (false, "not a server of this version"),
        (false, "longer than 100 bytes"),
        (false, "fedbo-round is missing"),
        (true, "cut off"),
    ] {
        let error = ask();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.is_temporary(), is_temporary, "{error}");
    }
    let nobody =
        HttpLink::new("http://127.0.0.1:1", None, coordinator(), Arc::new(AtomicBool::new(false)))
            .unwrap();
    let error = nobody.status(&key, "s").unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("cannot be reached"), "{error}");
}

#[test]
fn a_request_that_waits_ends_with_the_stop_flag() {
    let server = Server::start(Vec::new());
    let stop = Arc::new(AtomicBool::new(false));
    let link = HttpLink::new(&server.url, None, coordinator(), Arc::clone(&stop)).unwrap();
    let key = SigningKey::from_seed([3; 32]);
    let setter = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            std::thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            Instant::now()
        }
    });
    let poll = Poll { wait_s: 60, ..POLL };
    let stopped = match link.handouts(Caller { key: &key, counter: 7 }, "s", poll) {
        Err(LinkError::Stopped) => Instant::now(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("an answer"),
    };
    let set = setter.join().unwrap();
    assert!(stopped.duration_since(set) < Duration::from_millis(500));
    assert_eq!(server.came.lock().unwrap().len(), 1);
}

/// A coordinator with a different protocol version is distinguished from other servers, regardless
/// of its response.
#[test]
fn a_coordinator_of_another_version_is_named() {
    let earlier = "fedbo-protocol: 2\r\n";
    let refusal = "{\"code\":\"not-found\",\"message\":\"there is no such resource\"}";
    let server = Server::start(vec![answer(404, earlier, refusal), answer(200, earlier, "{}")]);
    let link = server.link();
    for _ in 0..2 {
        let error = link.prove(&Digest([1; 32])).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, LinkError::OtherVersion { theirs: 2, .. }));
        assert!(!error.is_temporary());
        for words in ["uses version 2", "version 3", "same version of fedbo"] {
            assert!(text.contains(words), "{text}");
        }
    }
    // The request reveals nothing about the agent.
    let came = server.came.lock().unwrap();
    assert!(came[0].target.starts_with("/v1/coordinator?challenge=01"));
}

/// A link whose hurry flag is set does not wait for a missing response. A later response is used
/// for the same request, which is sent only once.
#[test]
fn a_request_is_set_aside_for_who_is_to_hurry_and_taken_up_by_the_same() {
    let (answers, to_answer) = std::sync::mpsc::channel::<()>();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/prefix", listener.local_addr().unwrap());
    let came = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&came);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            drop(read(&stream));
            *counted.lock().unwrap() += 1;
            to_answer.recv().unwrap();
            stream
                .write_all(&answer(
                    204,
                    &format!("{OURS}fedbo-round: 3\r\nfedbo-state: running\r\n"),
                    "",
                ))
                .unwrap();
        }
    });
    let link = HttpLink::new(&url, None, coordinator(), Arc::default()).unwrap();
    let hurry = link.hurry().unwrap();
    let key = SigningKey::from_seed([4; 32]);
    let poll = Poll {
        after: Some(3),
        entries: 0,
        helper: 0,
        wait_s: 0,
        delivered: None,
        state: None,
        bytes_max: 100,
    };
    hurry.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        let began = Instant::now();
        assert_eq!(
            link.handouts(Caller { key: &key, counter: 7 }, "labs", poll).err(),
            Some(LinkError::SetAside)
        );
        assert!(began.elapsed() < Duration::from_secs(20), "an answer may take 30");
    }
    hurry.store(false, Ordering::Relaxed);
    answers.send(()).unwrap();
    let progress = match link.handouts(Caller { key: &key, counter: 7 }, "labs", poll).unwrap() {
        Polled::Nothing(progress) => progress,
        Polled::Handout { .. } => panic!("a handout"),
    };
    assert_eq!((progress.round, *came.lock().unwrap()), (3, 1));
}

//! Tests of JSON bodies.

use std::collections::BTreeSet;

use fedbo_wire::{
    Accepted, Account, Digest, EnrolRequest, Enrolled, EnrolmentToken, JSON_REQUEST_BYTES_MAX,
    Problem, ProblemCode, PublicKey, RotateRequest, RoundKey, SigningKey, StudyState, StudyStatus,
};
use serde_json::{from_str, to_string};

#[test]
fn requests_have_exactly_their_keys() {
    let token = EnrolmentToken {
        secret: [1; 20],
        coordinator: PublicKey([2; 32]),
        config: Digest([3; 32]),
    };
    let request = EnrolRequest::new(&token, &PublicKey([4; 32]));
    let text = to_string(&request).unwrap();
    let (key, threes) = (token.key().public(), "03".repeat(32));
    assert_eq!(
        text,
        format!("{{\"token\":\"{key}\",\"config\":\"{threes}\",\"proof\":\"{}\"}}", request.proof)
    );
    assert!(text.len() <= JSON_REQUEST_BYTES_MAX);
    assert_eq!(from_str::<EnrolRequest>(&text).unwrap(), request);
    for bad in [
        text.replace("{", "{\"slot\":1,"),
        text.replace("{", "{\"token\":\"\","),
        text.replace("token", "tokens"),
        text.replace("\"03", "\"3"),
        format!("{text} 1"),
        "{}".to_owned(),
        "{\"token\":7}".to_owned(),
    ] {
        assert!(from_str::<EnrolRequest>(&bad).is_err(), "{bad}");
    }
    let new = SigningKey::from_seed([3; 32]);
    let request = RotateRequest::new(&new, "wine", 1, &PublicKey([2; 32]));
    let text = to_string(&request).unwrap();
    assert_eq!(text, format!("{{\"key\":\"{}\",\"proof\":\"{}\"}}", request.key, request.proof));
    assert!(text.len() <= JSON_REQUEST_BYTES_MAX);
    assert_eq!(from_str::<RotateRequest>(&text).unwrap(), request);
    assert!(from_str::<RotateRequest>(&text.replace("{", "{\"slot\":1,")).is_err());
}

#[test]
fn answers_may_gain_keys() {
    let enrolled = Enrolled {
        study: "wine".to_owned(),
        slot: 3,
        agent: "north".to_owned(),
        config: Digest([4; 32]),
        coordinator: PublicKey([5; 32]),
    };
    let text = to_string(&enrolled).unwrap();
    let (fours, fives) = ("04".repeat(32), "05".repeat(32));
    assert_eq!(
        text,
        format!(
            "{{\"study\":\"wine\",\"slot\":3,\"agent\":\"north\",\"config\":\"{fours}\",\"coordinator\":\"{fives}\"}}"
        )
    );
    let newer = |text: &str| text.replacen('{', "{\"new\":[1],", 1);
    assert_eq!(from_str::<Enrolled>(&newer(&text)).unwrap(), enrolled);

    let accepted = to_string(&Accepted::default()).unwrap();
    assert_eq!(accepted, "{\"status\":\"accepted\"}");
    assert!(from_str::<Accepted>(&newer(&accepted)).is_ok());
    assert!(from_str::<Accepted>("{\"status\":\"refused\"}").is_err());

    let key = SigningKey::from_seed([3; 32]);
    let account = Account::new(&key, key.public(), 5, Vec::new());
    let of_key = format!(
        "{{\"key\":\"{}\",\"time_ms\":5,\"studies\":[],\"proof\":\"{}\"}}",
        account.key, account.proof
    );
    let round_key = RoundKey::new(&key, &Digest([4; 32]), 4, [5; 32]);
    let status = StudyStatus {
        study: "wine".to_owned(),
        state: StudyState::Running,
        round: 4,
        rounds: 40,
        collects: true,
        head: "2:00".to_owned(),
        time_ms: 5,
        elapsed_ms: Some(7),
        round_key: Some(round_key),
        account,
    };
    let text = to_string(&status).unwrap();
    assert_eq!(
        text,
        format!(
            "{{\"study\":\"wine\",\"state\":\"running\",\"round\":4,\"rounds\":40,\"collects\":true,\"head\":\"2:00\",\"time_ms\":5,\"elapsed_ms\":7,\"round_key\":\"{round_key}\",\"account\":{of_key}}}"
        )
    );
    assert_eq!(from_str::<StudyStatus>(&newer(&text)).unwrap(), status);
}

#[test]
fn a_state_has_the_same_name_in_headers_and_bodies() {
    for name in ["waiting", "running", "paused", "finished"] {
        let state: StudyState = name.parse().unwrap();
        assert_eq!(state.to_string(), name);
        assert_eq!(to_string(&state).unwrap(), format!("\"{name}\""));
        assert_eq!(from_str::<StudyState>(&format!("\"{name}\"")).unwrap(), state);
    }
    assert!("Running".parse::<StudyState>().is_err());
}

/// Agents in other languages depend on these names and numbers, which never change within a
/// version.
#[test]
fn problems_are_those_of_the_protocol() {
    let table = include_str!("../../../../docs/protocol.md");
    let mut names = BTreeSet::new();
    for code in ProblemCode::ALL {
        assert!(names.insert(code.name()));
        let again = if code.is_temporary() { "yes" } else { "no" };
        let row = format!("| `{code}` | {} | {again} |", code.http_status());
        assert!(table.contains(&row), "docs/protocol.md has no row {row}");
        let problem = Problem { code, message: "why".to_owned() };
        let text = to_string(&problem).unwrap();
        assert_eq!(text, format!("{{\"code\":\"{code}\",\"message\":\"why\"}}"));
        assert_eq!(from_str::<Problem>(&text).unwrap(), problem);
    }
    let rows = table.lines().filter(|line| {
        let cells: Vec<&str> = line.split(" | ").collect();
        cells.len() == 4 && ["yes", "no"].contains(&cells[2])
    });
    assert_eq!(rows.count(), ProblemCode::ALL.len());
    assert!(from_str::<Problem>("{\"code\":\"other\",\"message\":\"\"}").is_err());
}

/// The message of a hostile coordinator's refusal is a single line (INV-24).
#[test]
fn a_message_is_one_line_as_it_is_read() {
    let hostile = format!("no\nerror: all is lost\u{1b}[2K\r\u{2028}{}", "x".repeat(9_999));
    let code = ProblemCode::ALL[0];
    let text = serde_json::to_string(&Problem { code, message: hostile });
    let read: Problem = from_str(&text.unwrap()).unwrap();
    let begin = "no error: all is lost [2K  xxx";
    assert!(read.message.starts_with(begin), "{}", read.message);
    assert_eq!(read.message.chars().count(), 500);
}

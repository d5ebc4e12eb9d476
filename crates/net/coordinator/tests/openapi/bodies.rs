//! Checks that the keys of all bodies match the description.

use std::collections::BTreeSet;

use fedbo_coordinator::store::StudyState;
use fedbo_wire::{
    Accepted, Account, CoordinatorProof, Digest, EnrolRequest, Enrolled, EnrolmentToken, Problem,
    ProblemCode, PublicKey, RotateRequest, RoundKey, SigningKey, StudyAccount, StudyStatus, Upload,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::openapi::description::{Description, strings};

/// Checks that a body has exactly the described keys with the described types, and that all
/// required keys are needed. A request must not accept other keys.
fn check<T: Serialize + DeserializeOwned>(name: &str, body: &T, is_request: bool) {
    let description = Description::read();
    let schema = description.schema(name);
    let body = serde_json::to_value(body).unwrap();
    let body = body.as_object().unwrap();
    let keys: BTreeSet<String> = body.keys().cloned().collect();
    let properties = schema["properties"].as_object().unwrap();
    let described: BTreeSet<String> = properties.keys().cloned().collect();
    assert_eq!(keys, described, "{name}");
    let required = strings(&schema["required"]);
    assert!(required.is_subset(&keys), "{name}");
    for (key, value) in body {
        let kind = match value {
            Value::String(_) => "string",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "integer",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
            _ => panic!("{name}.{key} is of a kind that no body has"),
        };
        let of_key = description.resolve(&properties[key]);
        assert_eq!(of_key["type"], kind, "{name}.{key}");
        let mut without = body.clone();
        without.remove(key);
        let read = serde_json::from_value::<T>(Value::Object(without));
        assert_eq!(read.is_err(), required.contains(key), "{name} without {key}");
    }
    let mut with_more = body.clone();
    with_more.insert("more".to_owned(), json!(1));
    let takes_more = serde_json::from_value::<T>(Value::Object(with_more)).is_ok();
    assert_eq!(takes_more, !is_request, "{name}");
    let is_closed = schema.get("additionalProperties") == Some(&json!(false));
    assert_eq!(is_closed, is_request, "{name}");
}

#[test]
fn bodies_have_the_keys_that_are_described() {
    let key = SigningKey::from_seed([3; 32]);
    let token =
        EnrolmentToken { secret: [1; 20], coordinator: key.public(), config: Digest([4; 32]) };
    let enrolment = EnrolRequest::new(&token, &key.public());
    check("EnrolRequest", &enrolment, true);
    let proof = CoordinatorProof::new(&key, &Digest([4; 32]));
    check("CoordinatorProof", &proof, false);
    let rotation = RotateRequest::new(&key, "wine", 1, &PublicKey([2; 32]));
    check("RotateRequest", &rotation, true);
    let enrolled = Enrolled {
        study: "wine".to_owned(),
        slot: 3,
        agent: "north".to_owned(),
        config: Digest([4; 32]),
        coordinator: key.public(),
    };
    check("Enrolled", &enrolled, false);
    check("Accepted", &Accepted::default(), false);
    let of_study = StudyAccount {
        study: "wine".to_owned(),
        config: Digest([4; 32]),
        slot: 3,
        counter: 17,
        event: "0100".to_owned(),
        mode: "default".to_owned(),
        delivered: vec![(0, 2)],
        unrecorded: vec![(4, 4)],
    };
    check("StudyAccount", &of_study, false);
    let account = Account::new(&key, key.public(), 1_700_000_000_000, vec![of_study]);
    check("Account", &account, false);
    let status = StudyStatus {
        study: "wine".to_owned(),
        state: StudyState::Paused,
        round: 4,
        rounds: 40,
        collects: true,
        head: String::new(),
        time_ms: 1_700_000_000_000,
        elapsed_ms: Some(5),
        round_key: Some(RoundKey::new(&key, &Digest([4; 32]), 4, [5; 32])),
        account,
    };
    check("StudyStatus", &status, false);
    let problem = Problem { code: ProblemCode::Late, message: "late".to_owned() };
    check("Problem", &problem, false);
}

#[test]
fn texts_have_the_form_that_is_described() {
    let description = Description::read();
    let key = SigningKey::from_seed([3; 32]);
    let rotation = RotateRequest::new(&key, "wine", 1, &PublicKey([2; 32]));
    for (name, text) in [
        ("Digest", Digest([4; 32]).to_string()),
        ("PublicKey", key.public().to_string()),
        ("Signature", rotation.proof.to_string()),
    ] {
        let form = format!("^[0-9a-f]{{{}}}$", text.len());
        assert_eq!(description.schema(name)["pattern"], form, "{name}");
    }
    let states =
        [StudyState::Waiting, StudyState::Running, StudyState::Paused, StudyState::Finished];
    let names = states.map(StudyState::name);
    assert_eq!(description.schema("StudyState")["enum"], json!(names));
    let word = &description.schema("Accepted")["properties"]["status"]["const"];
    let accepted = serde_json::to_value(Accepted::default()).unwrap();
    assert_eq!(*word, accepted["status"]);
    // All parts of an upload except its weights.
    let upload = description.schema("Upload")["description"].as_str().unwrap();
    let begins = format!("{} + 8·M bytes", Upload::n_bytes(0));
    assert!(upload.starts_with(&begins), "{upload}");
}

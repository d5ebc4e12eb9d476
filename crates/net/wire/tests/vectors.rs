//! The examples of `docs/protocol-vectors.json`, made by a program in another language.

#![expect(clippy::unwrap_used, reason = "a test fails on unexpected data")]

use fedbo_wire::{
    Account, CharterParts, Content, CoordinatorProof, Digest, EnrolRequest, EnrolmentToken,
    Handout, HandoutUnreadable, HeadersUnreadable, HelperEntry, KeyUnreadable, LedgerEntry,
    LedgerHead, Limits, PeerIdentity, PeerReport, PublicKey, Receipt, RelayedMessage,
    ReportUnreadable, RequestSignature, RotateRequest, RoundKey, SealedSizes, SealedUpload,
    ServerCard, SharedObservation, Signature, SigningKey, Stamp, TokenUnreadable, Upload,
    UploadUnreadable, config_digest, digest, sign_config, sign_request, verify_config,
};
use serde_json::Value;

fn cases(group: &str, kind: &str) -> Vec<Value> {
    let text = include_str!("../../../../docs/protocol-vectors.json");
    let vectors: Value = serde_json::from_str(text).unwrap();
    assert_eq!(vectors["protocol"], fedbo_wire::PROTOCOL_VERSION);
    let cases = vectors[group][kind].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or_else(|| panic!("{key} in {case}"))
}

fn bytes(case: &Value, key: &str) -> Vec<u8> {
    from_hex(text(case, key))
}

fn from_hex(digits: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(digits.as_bytes()).unwrap()
}

fn array<const N: usize>(case: &Value, key: &str) -> [u8; N] {
    bytes(case, key).try_into().unwrap()
}

/// Parses a 64-bit number.
fn long(case: &Value, key: &str) -> u64 {
    text(case, key).parse().unwrap()
}

fn short(case: &Value, key: &str) -> u32 {
    case[key].as_u64().unwrap().try_into().unwrap()
}

fn key(case: &Value, name: &str) -> SigningKey {
    SigningKey::from_seed(array(case, name))
}

fn weights(case: &Value) -> Vec<f64> {
    let bytes = bytes(case, "weights");
    let numbers = bytes.chunks_exact(8);
    numbers.map(|number| f64::from_le_bytes(number.try_into().unwrap())).collect()
}

fn limits(case: &Value) -> Limits {
    let limits = &case["limits"];
    Limits {
        n_features: short(limits, "n_features"),
        n_slots: short(limits, "n_slots"),
        release_bytes_max: long(limits, "release_bytes_max"),
    }
}

fn head(case: &Value) -> LedgerHead {
    LedgerHead { seq: long(case, "seq"), hash: array(case, "hash") }
}

fn entries(cases: &Value) -> Vec<LedgerEntry> {
    let entry = |case: &Value| LedgerEntry {
        seq: long(case, "seq"),
        round: long(case, "round"),
        event: bytes(case, "event"),
        release: bytes(case, "release"),
    };
    cases.as_array().unwrap().iter().map(entry).collect()
}

#[test]
fn keys_and_their_files() {
    for case in cases("good", "signing_keys") {
        let signing = key(&case, "seed");
        assert_eq!(signing.public().to_string(), text(&case, "public"));
        assert_eq!(*signing.to_file_text(), text(&case, "file_text"));
        let read = SigningKey::from_file_text(text(&case, "file_text")).unwrap();
        assert_eq!(read.public(), signing.public());
    }
    for case in cases("bad", "signing_keys") {
        let error = match SigningKey::from_file_text(text(&case, "file_text")).unwrap_err() {
            KeyUnreadable::OtherKind => "other-kind",
            KeyUnreadable::Damaged => "damaged",
        };
        assert_eq!(error, text(&case, "error"), "{case}");
    }
}

#[test]
fn what_is_signed_and_hashed() {
    for case in cases("good", "framing") {
        let parts = case["parts"].as_array().unwrap().iter();
        let parts: Vec<Vec<u8>> = parts.map(|part| from_hex(part.as_str().unwrap())).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let purpose = text(&case, "purpose");
        assert_eq!(digest(purpose, &parts).to_string(), text(&case, "digest"));
        let signing = key(&case, "seed");
        let signature = signing.sign(purpose, &parts);
        assert_eq!(signature.to_string(), text(&case, "signature"));
        assert_eq!(signing.public().verify(purpose, &parts, &signature), Ok(()));
    }
}

#[test]
fn requests() {
    for case in cases("good", "requests") {
        let (method, target) = (text(&case, "method"), text(&case, "target"));
        let body = bytes(&case, "body");
        let stamp =
            Stamp { time_ms: long(&case, "fedbo-time"), counter: long(&case, "fedbo-counter") };
        let made = sign_request(&key(&case, "seed"), &to(&case), method, target, &body, stamp);
        assert_eq!(made.key.to_string(), text(&case, "fedbo-key"));
        assert_eq!(made.signature.to_string(), text(&case, "fedbo-signature"));
        let read = headers(&case).unwrap();
        assert_eq!(read, made);
        assert_eq!(read.verify(&to(&case), method, target, &body), Ok(()));
    }
    for case in cases("bad", "requests") {
        let error = match headers(&case) {
            Err(HeadersUnreadable::Missing { .. }) => "missing",
            Err(HeadersUnreadable::Hex { .. }) => "hex",
            Err(HeadersUnreadable::Time) => "time",
            Err(HeadersUnreadable::Counter) => "counter",
            Ok(read) => {
                let body = bytes(&case, "body");
                let verified =
                    read.verify(&to(&case), text(&case, "method"), text(&case, "target"), &body);
                verified.map_or("signature", |()| "accepted")
            }
        };
        assert_eq!(error, text(&case, "error"), "{case}");
    }
}

fn to(case: &Value) -> PublicKey {
    text(case, "coordinator").parse().unwrap()
}

fn headers(case: &Value) -> Result<RequestSignature, HeadersUnreadable> {
    RequestSignature::from_headers(
        case["fedbo-key"].as_str(),
        case["fedbo-time"].as_str(),
        case["fedbo-counter"].as_str(),
        case["fedbo-signature"].as_str(),
    )
}

#[test]
fn configs() {
    for case in cases("good", "configs") {
        let config = bytes(&case, "text");
        let coordinator = key(&case, "seed");
        assert_eq!(config_digest(&config).to_string(), text(&case, "digest"));
        let signature = sign_config(&coordinator, &config);
        assert_eq!(signature.to_string(), text(&case, "signature"));
        assert!(verify_config(&coordinator.public(), &config, &signature).is_ok());
        let other = [&config[..], b" "].concat();
        assert!(verify_config(&coordinator.public(), &other, &signature).is_err());
    }
}

#[test]
fn tokens() {
    for case in cases("good", "tokens") {
        let token = EnrolmentToken {
            secret: array(&case, "secret"),
            coordinator: PublicKey(array(&case, "coordinator")),
            config: Digest(array(&case, "config")),
        };
        assert_eq!(*token.to_text(), text(&case, "text"));
        assert_eq!(token.key().public().to_string(), text(&case, "key"));
        let agent = key(&case, "agent_seed").public();
        let request = EnrolRequest::new(&token, &agent);
        assert_eq!(request.proof.to_string(), text(&case, "proof"));
        assert_eq!(request.verify(&agent, &token.coordinator), Ok(()));
        let read: EnrolmentToken = text(&case, "text").parse().unwrap();
        assert_eq!(read.secret, token.secret);
        assert_eq!(read.coordinator, token.coordinator);
        assert_eq!(read.config, token.config);
    }
    for case in cases("bad", "tokens") {
        let error = match text(&case, "text").parse::<EnrolmentToken>().unwrap_err() {
            TokenUnreadable::OtherKind => "other-kind",
            TokenUnreadable::Earlier => "earlier",
            TokenUnreadable::CutOff { .. } => "cut-off",
            TokenUnreadable::TooLong { .. } => "too-long",
            TokenUnreadable::Mistyped => "mistyped",
        };
        assert_eq!(error, text(&case, "error"), "{case}");
    }
}

#[test]
fn coordinators() {
    for case in cases("good", "coordinators") {
        let challenge = Digest(array(&case, "challenge"));
        let proof = CoordinatorProof::new(&key(&case, "seed"), &challenge);
        assert_eq!(proof.proof.to_string(), text(&case, "proof"));
        assert_eq!(proof.verify(&challenge), Ok(()));
    }
}

#[test]
fn rotations() {
    for case in cases("good", "rotations") {
        let (study, slot) = (text(&case, "study"), short(&case, "slot"));
        let old: PublicKey = text(&case, "old").parse().unwrap();
        let request = RotateRequest::new(&key(&case, "new_seed"), study, slot, &old);
        assert_eq!(request.key.to_string(), text(&case, "key"));
        assert_eq!(request.proof.to_string(), text(&case, "proof"));
        assert_eq!(request.verify(study, slot, &old), Ok(()));
    }
}

#[test]
fn accounts() {
    for case in cases("good", "accounts") {
        let coordinator = key(&case, "seed");
        let account: Account = serde_json::from_value(case["account"].clone()).unwrap();
        assert_eq!(account.verify(&coordinator.public(), &account.key), Ok(()));
        let Account { key, time_ms, studies, .. } = account.clone();
        assert_eq!(Account::new(&coordinator, key, time_ms, studies), account);
        assert_eq!(serde_json::to_value(&account).unwrap(), case["account"]);
    }
}

#[test]
fn uploads() {
    for case in cases("good", "uploads") {
        let upload = Upload {
            config: Digest(array(&case, "config")),
            map: Digest(array(&case, "map")),
            slot: short(&case, "slot"),
            round: long(&case, "round"),
            weights: weights(&case),
        };
        let encoded = bytes(&case, "bytes");
        assert_eq!(upload.to_bytes(), encoded);
        let n_features = upload.weights.len().try_into().unwrap();
        let read = Upload::from_bytes(&encoded, n_features).unwrap();
        assert_eq!(read.to_bytes(), encoded);
        assert_eq!((read.slot, read.round), (upload.slot, upload.round));
        assert_eq!((read.config, read.map), (upload.config, upload.map));
    }
    for case in cases("bad", "uploads") {
        let read = Upload::from_bytes(&bytes(&case, "bytes"), short(&case, "n_features"));
        let error = match read.unwrap_err() {
            UploadUnreadable::OtherKind { .. } => "other-kind",
            UploadUnreadable::Version { .. } => "version",
            UploadUnreadable::Reserved { .. } => "reserved",
            UploadUnreadable::Features { .. } => "features",
            UploadUnreadable::Size { .. } => "size",
        };
        assert_eq!(error, text(&case, "error"), "{case}");
    }
}

#[test]
fn reports_of_peers() {
    for case in cases("good", "reports") {
        let observation = |case: &Value| SharedObservation {
            unit: bytes(case, "unit")
                .as_chunks()
                .0
                .iter()
                .map(|number| f64::from_le_bytes(*number))
                .collect(),
            value: case["value"].as_f64(),
        };
        let observations = case["observations"].as_array().unwrap().iter();
        let report = PeerReport {
            federation: Digest(array(&case, "federation")),
            sender: short(&case, "sender"),
            round: long(&case, "round"),
            is_last: case["last"].as_bool().unwrap(),
            observations: observations.map(observation).collect(),
        };
        let (signing, encoded) = (key(&case, "seed"), bytes(&case, "bytes"));
        let dim = short(&case, "dim");
        assert_eq!(report.to_bytes(dim as usize, &signing), encoded);
        let read = PeerReport::from_bytes(&encoded, dim).unwrap();
        assert_eq!(read.to_bytes(dim as usize, &signing), encoded);
        assert_eq!(PeerReport::verify(&encoded, &signing.public()), Ok(()));
    }
    for case in cases("bad", "reports") {
        let signer: PublicKey = text(&case, "signer").parse().unwrap();
        let encoded = bytes(&case, "bytes");
        let error = match PeerReport::from_bytes(&encoded, short(&case, "dim")) {
            Err(ReportUnreadable::OtherKind) => "other-kind",
            Err(ReportUnreadable::Version { .. }) => "version",
            Err(ReportUnreadable::Field { .. }) => "field",
            Err(ReportUnreadable::Dim { .. }) => "dim",
            Err(ReportUnreadable::Size { .. }) => "size",
            Ok(_) => match PeerReport::verify(&encoded, &signer) {
                Err(_) => "signature",
                Ok(()) => panic!("{case} is accepted"),
            },
        };
        assert_eq!(error, text(&case, "error"), "{case}");
    }
}

#[test]
fn receipts_and_identities() {
    for case in cases("good", "receipts") {
        let (signing, federation) = (key(&case, "seed"), Digest(array(&case, "federation")));
        let sender = short(&case, "sender");
        let receipt = Receipt::new(&signing, &federation, sender, long(&case, "received_from"));
        assert_eq!(receipt.proof.to_string(), text(&case, "proof"));
        assert_eq!(receipt.verify(&signing.public(), &federation, sender), Ok(()));
    }
    for case in cases("good", "identities") {
        let (signing, federation) = (key(&case, "seed"), Digest(array(&case, "federation")));
        let challenge = Digest(array(&case, "challenge"));
        let (name, slot) = (text(&case, "name"), short(&case, "slot"));
        let identity = PeerIdentity::new(&signing, name, slot, federation, &challenge);
        assert_eq!(identity.proof.to_string(), text(&case, "proof"));
        assert_eq!(identity.verify(&challenge), Ok(()));
    }
}

#[test]
fn ledgers() {
    for case in cases("good", "ledgers") {
        let charter = &case["charter"];
        let genesis = LedgerHead::of_charter(&CharterParts {
            name: text(charter, "name"),
            config: &bytes(charter, "config"),
            epsilon: charter["epsilon"].as_f64().unwrap(),
            delta: charter["delta"].as_f64().unwrap(),
            mode: text(charter, "mode"),
            accountant: text(charter, "accountant"),
        });
        let heads: Vec<LedgerHead> = case["heads"].as_array().unwrap().iter().map(head).collect();
        let entries = entries(&case["entries"]);
        assert_eq!(heads.len(), entries.len() + 1);
        assert_eq!(genesis, heads[0]);
        for (n, expected) in heads.iter().enumerate() {
            assert_eq!(genesis.after(&entries[..n]), Ok(*expected));
            assert_eq!(expected.after(&entries[n..]), Ok(heads[entries.len()]));
        }
    }
}

#[test]
fn handouts() {
    for case in cases("good", "handouts") {
        let content = match (case["releases"].as_array(), case["helper"].as_array()) {
            (Some(_), Some(helper)) => Content::Shares {
                leader: entries(&case["releases"]),
                helper: helper.iter().map(helper_entry).collect(),
                key: case["key"].as_str().map(|text| text.parse().unwrap()),
            },
            (Some(_), None) => Content::Releases(entries(&case["releases"])),
            _ => Content::Messages {
                messages: messages(&case),
                stragglers: case["stragglers"].as_array().unwrap().iter().map(slot).collect(),
            },
        };
        let handout = Handout {
            config: Digest(array(&case, "config")),
            round: long(&case, "round"),
            collects: case["collects"].as_bool().unwrap(),
            head: head(&case["head"]),
            content,
        };
        let coordinator = key(&case, "seed");
        let encoded = bytes(&case, "bytes");
        assert_eq!(handout.to_bytes(&coordinator), encoded);
        let read = Handout::from_bytes(&encoded, &coordinator.public(), limits(&case)).unwrap();
        assert_eq!(read.to_bytes(&coordinator), encoded);
        assert_eq!((read.round, read.config), (handout.round, handout.config));
        assert_eq!((read.collects, read.head), (handout.collects, handout.head));
    }
    for case in cases("bad", "handouts") {
        let signer: PublicKey = text(&case, "signer").parse().unwrap();
        let read = Handout::from_bytes(&bytes(&case, "bytes"), &signer, limits(&case));
        let error = match read.unwrap_err() {
            HandoutUnreadable::OtherKind => "other-kind",
            HandoutUnreadable::Version { .. } => "version",
            HandoutUnreadable::Signature(_) => "signature",
            HandoutUnreadable::CutOff { .. } => "cut-off",
            HandoutUnreadable::Field { .. } => "field",
            HandoutUnreadable::TooLarge { .. } => "too-large",
            HandoutUnreadable::Features { .. } => "features",
            HandoutUnreadable::Order { .. } => "order",
            HandoutUnreadable::Trailing { .. } => "trailing",
        };
        assert_eq!(error, text(&case, "error"), "{case}");
    }
}

/// Returns an entry at the end of its chain, signed by the helper of the examples.
fn helper_entry(case: &Value) -> HelperEntry {
    let entry = entries(&Value::Array(vec![case.clone()])).remove(0);
    let (leader_share, signature) = (Digest(array(case, "leader_share")), array(case, "proof"));
    HelperEntry { entry, leader_share, signature: Signature(signature) }
}

#[test]
fn entries_of_helpers() {
    let ledger = &cases("good", "ledgers")[0];
    let mut n_verified = 0;
    for case in cases("good", "handouts").iter().filter(|case| case["helper"].is_array()) {
        let mut head = head(&ledger["heads"][0]);
        for shown in case["helper"].as_array().unwrap() {
            let found = helper_entry(shown);
            head = head.after(std::slice::from_ref(&found.entry)).unwrap();
            let card: ServerCard = text(&cases("good", "cards")[0], "text").parse().unwrap();
            found.verify(&card.key, &Digest(array(case, "config")), &head.hash).unwrap();
            n_verified += 1;
        }
    }
    assert_eq!(n_verified, 4);
}

#[test]
fn keys_of_rounds() {
    for case in cases("good", "round_keys") {
        let config = Digest(array(&case, "config"));
        let made =
            RoundKey::new(&key(&case, "seed"), &config, long(&case, "round"), array(&case, "key"));
        assert_eq!(made.to_string(), text(&case, "text"));
        let read: RoundKey = text(&case, "text").parse().unwrap();
        assert_eq!(read, made);
        read.verify(&key(&case, "seed").public(), &config).unwrap();
    }
}

#[test]
fn cards_of_servers() {
    for case in cases("good", "cards") {
        let card =
            ServerCard::new(&key(&case, "seed"), array(&case, "seal"), array(&case, "agree"));
        assert_eq!(card.to_string(), text(&case, "text"));
        assert_eq!(text(&case, "text").parse(), Ok(card));
    }
}

#[test]
fn sealed_uploads() {
    for case in cases("good", "sealed_uploads") {
        let parts: Vec<Vec<u8>> = case["parts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| from_hex(part.as_str().unwrap()))
            .collect();
        let n_features = short(&case, "n_features");
        let sizes = SealedSizes {
            n_features,
            public: parts[0].len(),
            for_leader: parts[1].len(),
            for_helper: parts[2].len(),
        };
        let [public, for_leader, for_helper] = parts.try_into().unwrap();
        let upload = SealedUpload {
            config: Digest(array(&case, "config")),
            map: Digest(array(&case, "map")),
            slot: short(&case, "slot"),
            round: long(&case, "round"),
            nonce: array(&case, "nonce"),
            public,
            for_leader,
            for_helper,
        };
        let encoded = bytes(&case, "bytes");
        assert_eq!(upload.to_bytes(n_features), encoded);
        assert_eq!(SealedUpload::from_bytes(&encoded, sizes), Ok(upload));
    }
}

fn messages(case: &Value) -> Vec<RelayedMessage> {
    let message = |case: &Value| RelayedMessage {
        sender: short(case, "sender"),
        round: long(case, "round"),
        weights: weights(case),
    };
    let messages = case["messages"].as_array().unwrap().iter();
    messages.map(message).collect()
}

fn slot(slot: &Value) -> u32 {
    slot.as_u64().unwrap().try_into().unwrap()
}

//! Tests of the bytes that signatures cover, the clock tolerance, and secrets in outputs.

use fedbo_wire::{
    BadSignature, CLOCK_TOLERANCE_MS, ChainBroken, Digest, EnrolRequest, EnrolmentToken,
    HexUnreadable, LedgerEntry, LedgerHead, PublicKey, RelayedMessage, RotateRequest, SigningKey,
    Stamp, Upload, digest, sign_request,
};

fn key() -> SigningKey {
    SigningKey::from_seed([0xA5; 32])
}

/// Different purposes or lists of parts have different signatures and hashes.
#[test]
fn nothing_moves_between_parts() {
    let lists: [(&str, &[&[u8]]); 8] = [
        ("ab", &[b"c"]),
        ("a", &[b"bc"]),
        ("abc", &[]),
        ("", &[b"abc"]),
        ("ab", &[b"", b"c"]),
        ("ab", &[b"c", b""]),
        ("ab", &[b"c\0"]),
        ("ab", &[]),
    ];
    for (at, (purpose, parts)) in lists.iter().enumerate() {
        let signature = key().sign(purpose, parts);
        for (other_at, (other, other_parts)) in lists.iter().enumerate() {
            let verified = key().public().verify(other, other_parts, &signature);
            assert_eq!(verified.is_ok(), at == other_at);
            let same = digest(purpose, parts) == digest(other, other_parts);
            assert_eq!(same, at == other_at);
        }
    }
}

fn stamp(time_ms: u64) -> Stamp {
    Stamp { time_ms, counter: 3 }
}

#[test]
fn a_request_is_signed_with_all_that_matters() {
    let to = SigningKey::from_seed([2; 32]).public();
    let signed = sign_request(&key(), &to, "PUT", "/v1/a?b=c", b"body", stamp(12));
    assert_eq!(signed.verify(&to, "PUT", "/v1/a?b=c", b"body"), Ok(()));
    for (method, target, body) in [
        ("PU", "T/v1/a?b=c", &b"body"[..]),
        ("put", "/v1/a?b=c", b"body"),
        ("PUT", "/x/v1/a?b=c", b"body"),
        ("PUT", "/v1/a", b"body"),
        ("PUT", "/v1/a?b=c", b""),
        ("PUT", "/v1/a?b=c", b"bodz"),
    ] {
        assert_eq!(signed.verify(&to, method, target, body), Err(BadSignature));
    }
    // A request to one coordinator is not valid for another coordinator.
    let elsewhere = SigningKey::from_seed([4; 32]).public();
    let moved = signed.verify(&elsewhere, "PUT", "/v1/a?b=c", b"body");
    assert_eq!(moved, Err(BadSignature));
    let mut other = signed;
    other.stamp.time_ms += 1;
    assert_eq!(other.verify(&to, "PUT", "/v1/a?b=c", b"body"), Err(BadSignature));
    let mut other = signed;
    other.stamp.counter += 1;
    assert_eq!(other.verify(&to, "PUT", "/v1/a?b=c", b"body"), Err(BadSignature));
    let mut other = signed;
    other.key = SigningKey::from_seed([1; 32]).public();
    assert_eq!(other.verify(&to, "PUT", "/v1/a?b=c", b"body"), Err(BadSignature));
}

#[test]
fn clocks_may_differ_by_five_minutes() {
    let signed = |time| sign_request(&key(), &key().public(), "GET", "/v1/", b"", stamp(time));
    let now = 1_700_000_000_000;
    for time in [now, now - CLOCK_TOLERANCE_MS, now + CLOCK_TOLERANCE_MS] {
        assert_eq!(signed(time).check_time(now), Ok(()));
    }
    let behind = signed(now - CLOCK_TOLERANCE_MS - 1).check_time(now);
    assert_eq!(
        behind.unwrap_err().to_string(),
        "the agent's clock says 2023-11-14 22:08:19.999 UTC, the coordinator's 2023-11-14 22:13:20.000 UTC: the agent is \
         300.001 s behind, and at most 300 s are allowed; set the clock that is wrong, then try again"
    );
    let ahead = signed(now + 3_600_000).check_time(now).unwrap_err();
    assert!(ahead.to_string().contains("3600.000 s ahead"));
    for (time, now) in [(0, u64::MAX), (u64::MAX, 0)] {
        assert!(!signed(time).check_time(now).unwrap_err().to_string().is_empty());
    }
}

#[test]
fn a_new_key_proves_itself_for_one_slot_and_one_old_key() {
    let (old, new) = (key().public(), SigningKey::from_seed([1; 32]));
    let request = RotateRequest::new(&new, "wine", 3, &old);
    assert_eq!(request.verify("wine", 3, &old), Ok(()));
    assert_eq!(request.verify("wine", 4, &old), Err(BadSignature));
    assert_eq!(request.verify("win", 3, &old), Err(BadSignature));
    assert_eq!(request.verify("wine", 3, &new.public()), Err(BadSignature));
    let stolen = RotateRequest { key: old, ..request };
    assert_eq!(stolen.verify("wine", 3, &old), Err(BadSignature));
}

#[test]
fn a_slot_is_asked_for_one_key_at_one_coordinator_under_one_configuration() {
    let token = EnrolmentToken {
        secret: [5; 20],
        coordinator: PublicKey([1; 32]),
        config: Digest([3; 32]),
    };
    let agent = key().public();
    let request = EnrolRequest::new(&token, &agent);
    assert_eq!(request.verify(&agent, &token.coordinator), Ok(()));
    let other = SigningKey::from_seed([1; 32]).public();
    assert_eq!(request.verify(&other, &token.coordinator), Err(BadSignature));
    assert_eq!(request.verify(&agent, &other), Err(BadSignature));
    for changed in [
        EnrolRequest { config: Digest([4; 32]), ..request.clone() },
        EnrolRequest { token: agent, ..request },
    ] {
        let verified = changed.verify(&agent, &token.coordinator);
        assert_eq!(verified, Err(BadSignature));
    }
}

#[test]
fn entries_follow_their_head_by_number() {
    let entry = |seq| LedgerEntry { seq, round: seq, event: vec![1], release: vec![2] };
    let start = LedgerHead { seq: 4, hash: [9; 32] };
    let after = start.after(&[entry(5), entry(6)]).unwrap();
    assert_eq!(after.seq, 6);
    assert_eq!(start.after(&[entry(5)]).unwrap().after(&[entry(6)]), Ok(after));
    for entries in [vec![entry(4)], vec![entry(6)], vec![entry(5), entry(5)]] {
        assert!(start.after(&entries).is_err());
    }
    let other = LedgerEntry { release: vec![3], ..entry(5) };
    assert_ne!(start.after(&[other, entry(6)]), Ok(after));
    let last = LedgerHead { seq: u64::MAX, ..start };
    let broken = ChainBroken { expected: u64::MAX, found: u64::MAX };
    assert_eq!(last.after(&[entry(u64::MAX)]), Err(broken));
    assert_eq!(after.to_string().split_once(':').unwrap().0, "6");
}

/// The hash equals the known hash in the ledger's tests.
#[test]
fn the_hash_of_a_known_entry_is_the_ledgers() {
    let start = LedgerHead { seq: 0, hash: [7; 32] };
    let entry = LedgerEntry { seq: 1, round: 2, event: b"ab".to_vec(), release: b"cd".to_vec() };
    assert_eq!(
        start.after(&[entry]).unwrap().to_string(),
        "1:b32ef2ffcf2cc10b3db44be7c85e3d13bd1f286431d634577d6f608033b937e1"
    );
}

/// Secrets and weights occur only in outputs that are meant to contain them.
#[test]
fn canary_grep() {
    let token = EnrolmentToken {
        secret: [0xA5; 20],
        coordinator: PublicKey([1; 32]),
        config: Digest([3; 32]),
    };
    let weights = vec![165.165; 3];
    let upload = Upload {
        config: Digest([1; 32]),
        map: Digest([2; 32]),
        slot: 0,
        round: 0,
        weights: weights.clone(),
    };
    let message = RelayedMessage { sender: 0, round: 0, weights };
    let entry = LedgerEntry { seq: 1, round: 1, event: vec![0xA5; 4], release: vec![0xA5; 4] };
    let (secret_text, key_text) = (token.to_text(), key().to_file_text());
    let (damaged_token, damaged_key) =
        (secret_text.replace('p', "q"), key_text.replace("a5", "A5"));
    let in_place_of_a_key = key_text.trim().parse::<PublicKey>().unwrap_err();
    let request = EnrolRequest::new(&token, &key().public());
    let body = serde_json::to_string(&request).unwrap();
    let outputs = [
        format!("{token:?} {request:?} {body} {:?}", token.key()),
        format!("{:?} {:?}", key(), key().public()),
        format!("{upload:?} {message:?} {entry:?}"),
        format!("{0:?} {0}", damaged_token.parse::<EnrolmentToken>().unwrap_err()),
        format!("{0:?} {0}", SigningKey::from_file_text(&damaged_key).unwrap_err()),
        format!("{in_place_of_a_key:?} {in_place_of_a_key}"),
    ];
    let secret_words = ["a5a5", "A5A5", "165.165", "paWl", "qaWl", "apWl", &secret_text[5..12]];
    for output in &outputs {
        for word in secret_words {
            assert!(!output.contains(word), "{word} in {output}");
        }
    }
    assert!(secret_text.contains("paWl") && key_text.contains("a5a5")); // recognizable
}

/// The checksum covers every bit, including its own.
#[test]
fn no_token_with_one_other_character_is_accepted() {
    let token = EnrolmentToken {
        secret: [0x5C; 20],
        coordinator: key().public(),
        config: Digest([0xC5; 32]),
    };
    let text = token.to_text();
    let alphabet = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['-', '_']);
    for other in alphabet.chain(['+', '/', '=', ' ', '\0']) {
        for at in "fbt2_".len()..text.len() {
            let mut changed = text.to_string();
            changed.replace_range(at..=at, &other.to_string());
            assert_eq!(changed.parse::<EnrolmentToken>().is_ok(), changed == *text);
        }
    }
}

#[test]
fn hexadecimal_texts_have_one_form() {
    let text = key().public().to_string();
    let read = |text: &str| text.parse::<PublicKey>();
    assert_eq!(read(&text), Ok(key().public()));
    let length = |found| HexUnreadable::Length { what: "public key", expected: 64, found };
    let digit = |at| HexUnreadable::Digit { what: "public key", at };
    assert_eq!(read(""), Err(length(0)));
    assert_eq!(read(&text[1..]), Err(length(63)));
    assert_eq!(read(&format!("{text}00")), Err(length(66)));
    assert_eq!(read(&format!(" {text}")), Err(digit(1)));
    assert_eq!(read(&format!("{}ä", &text[2..])), Err(digit(63)));
    assert_eq!(read(&format!("0x{}", &text[2..])), Err(digit(2)));
}

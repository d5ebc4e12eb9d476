//! Messages between the two servers of a secure sum, and the servers' cards and uploads.

use data_encoding::BASE64URL_NOPAD;
use fedbo_wire::{
    CardUnreadable, CloseAnswer, Digest, HelperEntry, LedgerEntry, OpenAnswer, PassedReport,
    PassedSizes, RoundKey, SealedSizes, SealedUpload, ServerCard, ServerMessageUnreadable,
    SigningKey, SumPlace, close_from_bytes, close_size, close_to_bytes, entries_from_bytes,
    entries_size_max, entries_to_bytes, open_from_bytes, open_size, open_to_bytes,
    reveal_from_bytes, reveal_size, reveal_to_bytes, share_digest, verdicts_from_bytes,
    verdicts_to_bytes, verify_from_bytes, verify_size, verify_to_bytes,
};
use sha2::{Digest as _, Sha256};

const PLACE: SumPlace = SumPlace { config: Digest([3; 32]), round: 7, session: [5; 16] };
const SIZES: PassedSizes = PassedSizes { public: 5, for_helper: 9, verifier: 4, message: 3 };

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed([seed; 32])
}

fn report(slot: u32) -> PassedReport {
    PassedReport {
        slot,
        nonce: [slot.to_le_bytes()[0]; 16],
        public: vec![1; 5],
        for_helper: vec![2; 9],
        verifier: vec![3; 4],
    }
}

/// Checks that a message is accepted only in its own context and with its exact length.
fn whole<T>(
    bytes: &[u8],
    read: impl Fn(&[u8], SumPlace) -> Result<T, ServerMessageUnreadable>,
) -> T {
    for n in 0..bytes.len() {
        assert!(read(&bytes[..n], PLACE).is_err(), "{n} bytes");
    }
    assert!(read(&[bytes, &[0]].concat(), PLACE).is_err());
    let other_round = SumPlace { round: 8, ..PLACE };
    let other_study = SumPlace { config: Digest([4; 32]), ..PLACE };
    let other_session = SumPlace { session: [6; 16], ..PLACE };
    for other in [other_round, other_study, other_session] {
        assert!(read(bytes, other).is_err());
    }
    read(bytes, PLACE).expect("the message itself")
}

/// Checks that every flipped bit in a response is detected, and that the response is accepted only
/// for its own request.
fn signed<T>(bytes: &[u8], read: impl Fn(&[u8], &[u8], u8) -> Result<T, ServerMessageUnreadable>) {
    for bit in 0..8 * bytes.len() {
        let mut changed = bytes.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&changed, b"request", 2).is_err(), "bit {bit}");
    }
    assert!(read(bytes, b"another request", 2).is_err());
    assert!(read(bytes, b"request", 3).is_err());
}

#[test]
fn a_round_is_opened_with_the_newest_share_that_is_known() {
    for known in [None, Some((6, Digest([8; 32])))] {
        let bytes = open_to_bytes(PLACE, known);
        assert!(bytes.len() <= open_size());
        assert_eq!(whole(&bytes, open_from_bytes), known);
    }
    let key = RoundKey::new(&self::key(2), &PLACE.config, PLACE.round, [4; 32]);
    for key in [None, Some(key)] {
        let answer = OpenAnswer { session: [9; 16], key };
        let bytes = answer.to_bytes(PLACE, (&self::key(2), b"request"));
        assert!(bytes.len() <= OpenAnswer::size_max());
        let read = |bytes: &[u8], at, request: &[u8], by: u8| {
            OpenAnswer::from_bytes(bytes, at, (&self::key(by).public(), request))
        };
        assert_eq!(whole(&bytes, |bytes, at| read(bytes, at, b"request", 2)), answer);
        signed(&bytes, |bytes, request, by| read(bytes, PLACE, request, by));
    }
}

/// The helper signs a key for one study and one round.
#[test]
fn a_key_of_a_round_is_signed_for_its_place() {
    let made = RoundKey::new(&key(2), &PLACE.config, 7, [4; 32]);
    made.verify(&key(2).public(), &PLACE.config).unwrap();
    assert!(made.verify(&key(3).public(), &PLACE.config).is_err());
    assert!(made.verify(&key(2).public(), &Digest([0; 32])).is_err());
    for other in [RoundKey { round: 8, ..made }, RoundKey { key: [5; 32], ..made }] {
        assert!(other.verify(&key(2).public(), &PLACE.config).is_err());
    }
    let text = made.to_string();
    assert_eq!((text.len(), text.parse()), (208, Ok(made)));
    assert!(
        text[1..].parse::<RoundKey>().is_err() && text.to_uppercase().parse::<RoundKey>().is_err()
    );
    assert_eq!(serde_json::from_str::<RoundKey>(&format!("{text:?}")).unwrap(), made);
}

#[test]
fn reports_are_passed_on_whole() {
    let reports = vec![report(4), report(2)];
    let bytes = verify_to_bytes(PLACE, &reports);
    assert_eq!(bytes.len(), verify_size(SIZES, 2));
    assert_eq!(whole(&bytes, |bytes, at| verify_from_bytes(bytes, at, SIZES)), reports);
    // A count that exceeds the bytes present causes no allocation (INV-19).
    let mut many = bytes;
    many[64..68].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(verify_from_bytes(&many, PLACE, SIZES).is_err());
}

#[test]
fn verdicts_answer_one_request_of_one_leader() {
    let verdicts = vec![Some(vec![1, 2, 3]), None];
    let bytes = verdicts_to_bytes(PLACE, (&key(2), b"request"), &verdicts, SIZES);
    let read = |bytes: &[u8], at, n| {
        verdicts_from_bytes(bytes, at, (&key(2).public(), b"request"), (n, SIZES))
    };
    assert_eq!(whole(&bytes, |bytes, at| read(bytes, at, 2)), verdicts);
    assert!(read(&bytes, PLACE, 1).is_err());
    signed(&bytes, |bytes, request, by| {
        verdicts_from_bytes(bytes, PLACE, (&key(by).public(), request), (2, SIZES))
    });
}

#[test]
fn slots_ascend_and_are_on_the_roster() {
    let bytes = close_to_bytes(PLACE, &[0, 2, 5]);
    assert_eq!(bytes.len(), close_size(3));
    assert_eq!(whole(&bytes, |bytes, at| close_from_bytes(bytes, at, 6)), [0, 2, 5]);
    assert!(close_from_bytes(&bytes, PLACE, 5).is_err());
    for slots in [&[2, 0][..], &[1, 1]] {
        assert!(close_from_bytes(&close_to_bytes(PLACE, slots), PLACE, 9).is_err());
    }
    for answer in [
        CloseAnswer::Closed { slots: vec![0, 5], commitment: Digest([8; 32]) },
        CloseAnswer::Missing { slots: vec![1] },
    ] {
        let bytes = answer.to_bytes(PLACE, (&key(2), b"request"));
        assert!(bytes.len() <= CloseAnswer::size_max(6));
        let read = |bytes: &[u8], at, request: &[u8], by: u8| {
            CloseAnswer::from_bytes(bytes, at, (&key(by).public(), request), 6)
        };
        assert_eq!(whole(&bytes, |bytes, at| read(bytes, at, b"request", 2)), answer);
        signed(&bytes, |bytes, request, by| read(bytes, PLACE, request, by));
    }
}

#[test]
fn shares_are_shown_and_given_with_their_chain() {
    let bytes = reveal_to_bytes(PLACE, &[7; 20]);
    assert_eq!(bytes.len(), reveal_size(20));
    let read = |bytes: &[u8], at| reveal_from_bytes(bytes, at, 20).map(<[u8]>::to_vec);
    assert_eq!(whole(&bytes, read), [7; 20]);
    let entry = LedgerEntry { seq: 4, round: 7, event: vec![1; 6], release: vec![2; 20] };
    let shown = share_digest(&[7; 20]);
    let entry = HelperEntry::new(&key(2), &PLACE.config, entry, &[9; 32], shown);
    entry.verify(&key(2).public(), &PLACE.config, &[9; 32]).unwrap();
    assert!(entry.verify(&key(3).public(), &PLACE.config, &[9; 32]).is_err());
    assert!(entry.verify(&key(2).public(), &Digest([0; 32]), &[9; 32]).is_err());
    assert!(entry.verify(&key(2).public(), &PLACE.config, &[8; 32]).is_err());
    let other = HelperEntry { leader_share: share_digest(b"chosen later"), ..entry.clone() };
    assert!(other.verify(&key(2).public(), &PLACE.config, &[9; 32]).is_err());
    let entries = vec![entry];
    let bytes = entries_to_bytes(PLACE, (&key(2), b"request"), &[5; 32], &entries);
    assert!(bytes.len() as u64 <= entries_size_max(1, 20));
    let read = |bytes: &[u8], at, request: &[u8], by: u8| {
        entries_from_bytes(bytes, at, (&key(by).public(), request), 20)
    };
    assert_eq!(whole(&bytes, |bytes, at| read(bytes, at, b"request", 2)), ([5; 32], entries));
    signed(&bytes, |bytes, request, by| read(bytes, PLACE, request, by));
    assert!(entries_from_bytes(&bytes, PLACE, (&key(2).public(), b"request"), 19).is_err());
}

#[test]
fn a_sealed_upload_has_one_form_and_one_size() {
    let sizes = SealedSizes { n_features: 4, public: 3, for_leader: 8, for_helper: 6 };
    let upload = SealedUpload {
        config: Digest([1; 32]),
        map: Digest([2; 32]),
        slot: 3,
        round: 4,
        nonce: [5; 16],
        public: vec![6; 3],
        for_leader: vec![7; 8],
        for_helper: vec![8; 6],
    };
    let bytes = upload.to_bytes(4);
    assert_eq!(bytes.len(), SealedUpload::n_bytes(sizes));
    assert_eq!(SealedUpload::from_bytes(&bytes, sizes), Ok(upload));
    for n in 0..bytes.len() {
        assert!(SealedUpload::from_bytes(&bytes[..n], sizes).is_err());
    }
    assert!(SealedUpload::from_bytes(&[&bytes[..], &[0]].concat(), sizes).is_err());
    let plain = [b"FBUP", &bytes[4..]].concat();
    let refused = SealedUpload::from_bytes(&plain, sizes).unwrap_err();
    assert!(refused.to_string().contains("FBSU"), "{refused}");
    assert!(SealedUpload::from_bytes(&bytes, SealedSizes { n_features: 5, ..sizes }).is_err());
}

#[test]
fn a_card_is_its_owners_and_no_character_of_it_may_change() {
    let card = ServerCard::new(&key(1), [2; 32], [3; 32]);
    let text = card.to_string();
    assert_eq!(text.parse::<ServerCard>(), Ok(card));
    assert_eq!(format!(" {text}\n").parse::<ServerCard>(), Ok(card));
    for place in 5..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(changed.parse::<ServerCard>().is_err(), "{changed}");
    }
    for other in ["", "fbs1_", &text[..50], "fbt2_AAAA", &format!("{text}A")] {
        assert_eq!(other.parse::<ServerCard>(), Err(CardUnreadable::OtherKind));
    }
    // An attacker combines its own keys with the owner's key.
    let bytes = |card: &ServerCard| {
        let text = card.to_string();
        BASE64URL_NOPAD.decode(text.strip_prefix("fbs1_").unwrap().as_bytes()).unwrap()
    };
    let mut forged = bytes(&ServerCard::new(&key(9), [4; 32], [5; 32]));
    forged[..32].copy_from_slice(&card.key.0);
    let check = Sha256::digest(&forged[..160]);
    forged[160..].copy_from_slice(&check[..4]);
    let forged = format!("fbs1_{}", BASE64URL_NOPAD.encode(&forged));
    assert_eq!(forged.parse::<ServerCard>(), Err(CardUnreadable::NotSigned));
}

//! Peers' reports have exactly one encoding, and only the sender's signature is accepted.

use fedbo_wire::{
    Digest, PeerIdentity, PeerReport, Receipt, ReportUnreadable, SharedObservation, SigningKey,
};
use proptest::prelude::*;

const DIM: u32 = 3;

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed([seed; 32])
}

fn report(values: &[Option<f64>]) -> PeerReport {
    let observation =
        |value: &Option<f64>| SharedObservation { unit: vec![0.0, 0.25, 1.0], value: *value };
    PeerReport {
        federation: Digest([7; 32]),
        sender: 2,
        round: 5,
        is_last: false,
        observations: values.iter().map(observation).collect(),
    }
}

fn bytes(report: &PeerReport) -> Vec<u8> {
    report.to_bytes(DIM as usize, &key(1))
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        sender: u32, round: u64, is_last: bool, federation: [u8; 32],
        values in prop::collection::vec(prop::option::of(any::<f64>().prop_map(|v| if v.is_nan() { 0.5 } else { v })), 0..6),
    ) {
        let report = PeerReport { federation: Digest(federation), sender, round, is_last, ..report(&values) };
        let written = bytes(&report);
        prop_assert_eq!(written.len(), PeerReport::n_bytes(DIM as usize, values.len()));
        prop_assert_eq!(PeerReport::from_bytes(&written, DIM), Ok(report.clone()));
        prop_assert_eq!(PeerReport::verify(&written, &key(1).public()), Ok(()));
        prop_assert_eq!(bytes(&report), written);
    }

    #[test]
    fn what_is_read_has_one_form(rest: Vec<u8>, n in 0..4_usize) {
        let values = vec![Some(1.5); n];
        let mut found = bytes(&report(&values));
        for (place, byte) in rest.iter().enumerate().take(found.len()) {
            let at = (place * 7 + usize::from(*byte)) % found.len();
            found[at] ^= byte;
        }
        if let Ok(read) = PeerReport::from_bytes(&found, DIM) {
            let again = bytes(&read);
            prop_assert_eq!(PeerReport::content_of(&again), PeerReport::content_of(&found));
        }
    }
}

#[test]
fn every_truncation_and_every_bit_flip_is_refused() {
    let whole = bytes(&report(&[Some(0.5), None]));
    for length in 0..whole.len() {
        assert!(PeerReport::from_bytes(&whole[..length], DIM).is_err());
        assert!(PeerReport::verify(&whole[..length], &key(1).public()).is_err());
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(matches!(PeerReport::from_bytes(&longer, DIM), Err(ReportUnreadable::Size { .. })));
    for bit in 0..8 * whole.len() {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(PeerReport::verify(&flipped, &key(1).public()).is_err(), "bit {bit}");
    }
    assert!(PeerReport::verify(&whole, &key(2).public()).is_err());
}

#[test]
fn what_a_report_never_says_is_refused() {
    let whole = bytes(&report(&[Some(0.5), None]));
    let with = |at: usize, byte: u8| {
        let mut changed = whole.clone();
        changed[at] = byte;
        PeerReport::from_bytes(&changed, DIM).unwrap_err()
    };
    let field = |field| ReportUnreadable::Field { field };
    assert_eq!(with(0, b'X'), ReportUnreadable::OtherKind);
    assert_eq!(with(4, 9), ReportUnreadable::Version { found: 9 });
    assert_eq!(with(6, 2), field("last"));
    let (found, expected) = (4, 3);
    assert_eq!(with(12, 4), ReportUnreadable::Dim { found, expected });
    assert!(matches!(with(56, 255), ReportUnreadable::Size { .. }));
    assert_eq!(with(60, 3), field("succeeded"));
    let second = 60 + 9 + 24;
    assert_eq!(with(second + 1, 1), field("value"));
    // A count that exceeds the bytes present causes no allocation.
    let mut claims = whole[..60].to_vec();
    claims[56..60].copy_from_slice(&[255; 4]);
    assert!(PeerReport::from_bytes(&claims, DIM).is_err());
}

#[test]
fn receipts_and_identities_are_their_givers_alone() {
    let (giver, other, federation) = (key(3), key(4), Digest([9; 32]));
    let receipt = Receipt::new(&giver, &federation, 1, 12);
    assert_eq!(receipt.verify(&giver.public(), &federation, 1), Ok(()));
    assert!(receipt.verify(&other.public(), &federation, 1).is_err());
    assert!(receipt.verify(&giver.public(), &federation, 2).is_err());
    let elsewhere = Digest([8; 32]);
    assert!(receipt.verify(&giver.public(), &elsewhere, 1).is_err());
    let raised = Receipt { received_from: 13, ..receipt };
    assert!(raised.verify(&giver.public(), &federation, 1).is_err());

    let challenge = Digest([1; 32]);
    let identity = PeerIdentity::new(&giver, "lab 1", 1, federation, &challenge);
    assert_eq!(identity.verify(&challenge), Ok(()));
    assert!(identity.verify(&Digest([2; 32])).is_err());
    for changed in [
        PeerIdentity { name: "lab 2".to_owned(), ..identity.clone() },
        PeerIdentity { slot: 2, ..identity.clone() },
        PeerIdentity { key: other.public(), ..identity.clone() },
        PeerIdentity { federation: elsewhere, ..identity },
    ] {
        assert!(changed.verify(&challenge).is_err());
    }
}

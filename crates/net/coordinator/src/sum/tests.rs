use std::fmt;
use std::sync::{Arc, Mutex};

use fedbo_federation::{Federation, FrozenFor};
use fedbo_ledger::Head;
use fedbo_objective::NoProblems;
use fedbo_privacy::mechanism::{SecureNoise, Server};
use fedbo_secure_sum::Sharing;
use fedbo_servers::{HelperMisconduct, SumStudy, card_of, sealing_key_of};
use fedbo_transport::{CarriedAnswer, CarriedRequest, Courier, HttpClient, LinkError};
use fedbo_wire::{
    CloseAnswer, Digest, HEADER_PROTOCOL, HelperEntry, LedgerEntry, PROTOCOL_VERSION, PassedReport,
    SigningKey, close_from_bytes, commitment, entries_to_bytes, share_digest, verdicts_to_bytes,
    verify_from_bytes,
};

use super::helper::{HelperFailed, HelperLink};
use super::intake::{SumIntake, Verified};

const SALT: [u8; 32] = [7; 32];

fn key(seed: u8) -> Arc<SigningKey> {
    Arc::new(SigningKey::from_seed([seed; 32]))
}

fn study() -> SumStudy {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.toml");
    let (leader, helper) = (card_of(&key(1)), card_of(&key(2)));
    let text = format!(
        "[federation]\nname = \"labs\"\nalgorithm = \"dp-fts-de\"\nrounds = 9\n[features]\ncount = 4\n[privacy]\nepsilon = 1000.0\n\
         noise_multiplier = 1.0\nreleases = 4\n[secure_sum]\nhelper = \"{helper}\"\nhelper_url = \"http://127.0.0.1:1\"\n[space.x]\n\
         type = \"float\"\nlow = 0.0\nhigh = 1.0\n[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n[[agents]]\nname = \"c\"\n"
    );
    std::fs::write(&path, text).unwrap();
    let (key, card) = (leader.key.to_string(), leader.to_string());
    let by = FrozenFor { key: &key, card: &card };
    let (federation, config) = Federation::freeze(&path, by, &NoProblems).unwrap();
    SumStudy::of(&federation, &config).unwrap().unwrap()
}

/// A helper that says what a test has it say.
struct FakeHelper {
    study: SumStudy,
    /// The answers to requests to close a round, one after the other; the last again and again.
    closes: Vec<CloseAnswer>,
    entries: Vec<HelperEntry>,
    asked: Mutex<usize>,
}

impl fmt::Debug for FakeHelper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a helper")
    }
}

impl Courier for FakeHelper {
    fn carry(&self, request: CarriedRequest) -> Result<CarriedAnswer, LinkError> {
        let (_, rest) = request.target.split_once("/rounds/").unwrap();
        let (round, action) = rest.split_once('/').unwrap();
        let place = self.study.sum_place(round.parse().unwrap());
        let (key, body) = (key(2), request.body.as_slice());
        let by = (&*key, body);
        let body = match action.split('?').next().unwrap() {
            "close" => {
                close_from_bytes(body, place, self.study.n_slots).unwrap();
                let mut asked = self.asked.lock().unwrap();
                let answer = &self.closes[(*asked).min(self.closes.len() - 1)];
                *asked += 1;
                assert!(*asked < 20, "it is asked again and again");
                answer.to_bytes(place, by)
            }
            "verify" => {
                let sizes = self.study.passed_sizes();
                let reports = verify_from_bytes(body, place, sizes).unwrap();
                verdicts_to_bytes(place, by, &vec![None; reports.len()], sizes)
            }
            _ => entries_to_bytes(place, by, &SALT, &self.entries),
        };
        let headers = vec![(HEADER_PROTOCOL.to_owned(), PROTOCOL_VERSION.to_string())];
        Ok(CarriedAnswer { status: 200, headers, body })
    }
}

fn intake(study: &SumStudy, closes: Vec<CloseAnswer>, entries: Vec<HelperEntry>) -> SumIntake {
    let helper = FakeHelper { study: study.clone(), closes, entries, asked: Mutex::new(0) };
    let helper: Arc<dyn Courier> = Arc::new(helper);
    let client = || HttpClient::carried("http://helper", Arc::clone(&helper), "the helper");
    let link = HelperLink::by(client(), client(), key(1));
    SumIntake::with(study.clone(), fedbo_gp::MapHash([0; 32]), &key(1), link).unwrap()
}

/// A share of a round over slots whose vectors are all 0.
fn share(study: &SumStudy, server: Server, round: u64, slots: &[u32]) -> Vec<u8> {
    let at = (round, study.schedule.shape(round));
    let mut sums = study.sharing.begin(server, at, &mut SecureNoise::new()).unwrap();
    for slot in slots {
        sums.keep(*slot, verified(study, round, *slot).vector);
    }
    sums.close(slots).unwrap().to_bytes()
}

/// A vector of an agent, as a leader keeps it.
fn verified(study: &SumStudy, round: u64, slot: u32) -> Verified {
    let sharing: &Sharing = &study.sharing;
    let context = study.place(round, slot).context();
    let report = sharing.share(&context, &[0.1, 0.2, 0.0, -0.1]).unwrap();
    let theirs = study.sealing(Server::Helper);
    let verification = sealing_key_of(&key(1)).verification_key(&theirs, &study.config.0).unwrap();
    let look = |server, share: &[u8]| {
        let parts = (&report.nonce, report.public.as_slice(), share);
        sharing.verify(server, &verification, &context, parts).unwrap()
    };
    let (state, verifier) = look(Server::Leader, &report.leader);
    let (of_helper, from_helper) = look(Server::Helper, &report.helper);
    let message = sharing.decide(&context, &of_helper, [&verifier, &from_helper]).unwrap();
    let vector = sharing.accept(&context, state, &message).unwrap();
    let for_helper = vec![0; study.passed_sizes().for_helper];
    let (nonce, public) = (report.nonce, report.public.clone());
    Verified { vector, passed: PassedReport { slot, nonce, public, for_helper, verifier } }
}

/// The helper's ledger: rounds, its shares, and the digests of the leader's that it puts to them.
fn entries(study: &SumStudy, rounds: &[(u64, &[u8], Digest)]) -> Vec<HelperEntry> {
    let mut head: Head = study.helper_genesis;
    let mut all = Vec::new();
    for (round, share, shown) in rounds {
        let event = study.event_bytes.clone();
        head = head.follow(*round, &event, share);
        let entry = LedgerEntry { seq: head.seq, round: *round, event, release: share.to_vec() };
        all.push(HelperEntry::new(&key(2), &study.config, entry, &head.hash, *shown));
    }
    all
}

fn closed(share: &[u8]) -> CloseAnswer {
    CloseAnswer::Closed { slots: Vec::new(), commitment: commitment(&SALT, share) }
}

/// A bad helper cannot have the coordinator hand out what agents would hold against the coordinator, nor a share that it chose late.
#[test]
fn a_helper_that_breaks_the_protocol_gives_agents_nothing() {
    let study = study();
    let own = share(&study, Server::Leader, 0, &[]);
    let right = share(&study, Server::Helper, 0, &[]);
    let shown = share_digest(&own);
    let reveal = |bound: &[u8], found: Vec<HelperEntry>| {
        let intake = intake(&study, vec![closed(bound)], found);
        intake.begin(0, true, Vec::new());
        intake.agree(0).unwrap();
        let revealed = intake.reveal(0, &own, |round| (round == 0).then(|| own.clone()));
        assert_eq!(intake.has_entry(0), revealed.is_ok());
        assert_eq!(intake.entries_before(9).len(), usize::from(revealed.is_ok()));
        revealed
    };
    reveal(&right, entries(&study, &[(0, &right, shown)])).unwrap();
    // It is bound to another share.
    let other = share(&study, Server::Helper, 0, &[]);
    let late = reveal(&right, entries(&study, &[(0, &other, shown)]));
    assert!(matches!(late, Err(HelperFailed::OtherShare { round: 0 })));
    // It is bound to what is no share of the round, or one over other slots.
    let mut beyond = right.clone();
    let last = beyond.len() - 8;
    beyond[last..].copy_from_slice(&u64::MAX.to_le_bytes());
    let elsewhere = share(&study, Server::Helper, 0, &[1]);
    let next_round = share(&study, Server::Helper, 1, &[]);
    for wrong in [vec![1; right.len()], beyond, elsewhere, next_round] {
        let revealed = reveal(&wrong, entries(&study, &[(0, &wrong, shown)]));
        assert!(matches!(revealed, Err(HelperFailed::Share { round: 0, .. })), "{revealed:?}");
    }
    // It signs that it was shown another share.
    let misled = reveal(&right, entries(&study, &[(0, &right, Digest([3; 32]))]));
    let is_misled =
        matches!(misled, Err(HelperFailed::Misconduct(HelperMisconduct::OtherShare { round: 0 })));
    assert!(is_misled);
    // After a start nobody knows to what it was bound, and it is not asked anew.
    let started = intake(&study, vec![closed(&right)], entries(&study, &[(0, &right, shown)]));
    let unbound = started.reveal(0, &own, |_| None);
    assert!(matches!(unbound, Err(HelperFailed::Unbound { round: 0 })));
    // Its ledger does not have the round.
    assert!(matches!(reveal(&right, Vec::new()), Err(HelperFailed::SetBack { round: 0 })));
}

/// The share of a round whose answer was lost comes with that of the next: as the coordinator had shown it, or as one that gives no release.
#[test]
fn entries_of_earlier_rounds_are_looked_at_as_well() {
    let study = study();
    let of = |server, round| share(&study, server, round, &[]);
    let own = [0, 1].map(|round| of(Server::Leader, round));
    let theirs = [0, 1].map(|round| of(Server::Helper, round));
    let shown = own.each_ref().map(|share| share_digest(share));
    let reveal = |first: Digest| {
        let found = entries(&study, &[(0, &theirs[0], first), (1, &theirs[1], shown[1])]);
        let intake = intake(&study, vec![closed(&theirs[1])], found);
        intake.remember(vec![(1, commitment(&SALT, &theirs[1]))]);
        let known = |round: u64| own.get(usize::try_from(round).unwrap()).cloned();
        intake.reveal(1, &own[1], known).map(|()| intake.entries_before(2).len())
    };
    assert_eq!(reveal(shown[0]).unwrap(), 2);
    assert_eq!(reveal(Digest([0; 32])).unwrap(), 2);
    let framed = reveal(shown[1]);
    assert!(matches!(
        framed,
        Err(HelperFailed::Misconduct(HelperMisconduct::OtherShare { round: 0 }))
    ));
}

/// A helper that never has what it is asked for is not asked for ever.
#[test]
fn a_helper_cannot_keep_a_round_busy() {
    let study = study();
    let missing = |slots: &[u32]| CloseAnswer::Missing { slots: slots.to_vec() };
    let share = share(&study, Server::Helper, 0, &[]);
    let agree = |closes: Vec<CloseAnswer>| {
        let intake = intake(&study, closes, Vec::new());
        intake.begin(0, true, Vec::new());
        for slot in 0..3 {
            intake.keep(slot, verified(&study, 0, slot));
        }
        intake.agree(0)
    };
    // Reports are passed on once more; what it has not after that is dropped.
    let answers = vec![missing(&[0]), missing(&[1]), missing(&[0, 2]), closed(&share)];
    assert_eq!(agree(answers).unwrap(), Vec::<u32>::new());
    let endless = agree(vec![missing(&[0]), missing(&[1]), missing(&[0]), missing(&[1])]);
    assert!(matches!(endless, Err(HelperFailed::Unasked { round: 0 })));
    for unasked in [missing(&[7]), missing(&[])] {
        assert!(matches!(
            agree(vec![unasked]),
            Err(HelperFailed::Unasked { round: 0 }) | Err(HelperFailed::Answer(_))
        ));
    }
    let others = CloseAnswer::Closed { slots: vec![1], commitment: Digest([1; 32]) };
    let intake = intake(&study, vec![others], Vec::new());
    intake.begin(0, true, Vec::new());
    assert!(matches!(intake.agree(0), Err(HelperFailed::OtherSlots { round: 0 })));
}

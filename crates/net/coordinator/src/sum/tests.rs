use std::fmt;
use std::sync::{Arc, Mutex};

use fedbo_federation::{Federation, FrozenFor};
use fedbo_ledger::Head;
use fedbo_objective::NoProblems;
use fedbo_privacy::mechanism::{SecureNoise, Server};
use fedbo_protocol::UpdateRejected;
use fedbo_secure_sum::Sharing;
use fedbo_servers::{HelperMisconduct, SumStudy, card_of, sealing_key_of};
use fedbo_transport::{CarriedRequest, CarriedResponse, Courier, HttpClient, LinkError};
use fedbo_wire::{
    CloseAnswer, Digest, HEADER_PROTOCOL, HelperEntry, LedgerEntry, NO_SESSION, OpenAnswer,
    PROTOCOL_VERSION, PassedReport, RoundKey, SealedUpload, Session, SigningKey, close_from_bytes,
    commitment, entries_to_bytes, open_from_bytes, share_digest, verdicts_to_bytes,
    verify_from_bytes,
};

use super::helper::{HelperFailed, HelperLink};
use super::intake::{NotVerified, SumIntake, Takes, Verified};

const SALT: [u8; 32] = [7; 32];
const SESSION: Session = [8; 16];

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

/// A round, and the newest helper share that the leader named.
type Opened = (u64, Option<(u64, Digest)>);

/// A helper with scripted responses.
struct FakeHelper {
    study: SumStudy,
    /// Responses to successive requests to close a round. The last one is repeated.
    closes: Vec<CloseAnswer>,
    entries: Vec<HelperEntry>,
    asked: Mutex<usize>,
    /// False if the keys of the rounds are signed with a different key.
    signs_keys: bool,
    /// Rounds that the leader asked to open, each with the newest helper share that the leader
    /// named.
    opened: Mutex<Vec<Opened>>,
}

impl fmt::Debug for FakeHelper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a helper")
    }
}

impl Courier for FakeHelper {
    fn carry(&self, request: CarriedRequest) -> Result<CarriedResponse, LinkError> {
        let (_, rest) = request.target.split_once("/rounds/").unwrap();
        let (round, action) = rest.split_once('/').unwrap();
        let action = action.split('?').next().unwrap();
        let session = if action == "open" { NO_SESSION } else { SESSION };
        let place = self.study.sum_place(round.parse().unwrap(), session);
        let (key, body) = (key(2), request.body.as_slice());
        let by = (&*key, body);
        let body = match action {
            "open" => {
                let known = open_from_bytes(body, place).unwrap();
                self.opened.lock().unwrap().push((place.round, known));
                let signer = if self.signs_keys { &key } else { &self::key(3) };
                let key = RoundKey::new(signer, &self.study.config, place.round, [5; 32]);
                OpenAnswer { session: SESSION, key: Some(key) }.to_bytes(place, by)
            }
            "close" => {
                close_from_bytes(body, place, self.study.n_slots).unwrap();
                let mut asked = self.asked.lock().unwrap();
                let answer = &self.closes[(*asked).min(self.closes.len() - 1)];
                *asked += 1;
                assert!(*asked < 20, "it is asked repeatedly");
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
        Ok(CarriedResponse { status: 200, headers, body })
    }
}

fn intake(study: &SumStudy, closes: Vec<CloseAnswer>, entries: Vec<HelperEntry>) -> SumIntake {
    let intake = intake_of(Arc::new(fake(study, closes, entries)));
    intake.open(0).unwrap();
    intake
}

fn fake(study: &SumStudy, closes: Vec<CloseAnswer>, entries: Vec<HelperEntry>) -> FakeHelper {
    FakeHelper {
        study: study.clone(),
        closes,
        entries,
        asked: Mutex::new(0),
        signs_keys: true,
        opened: Mutex::default(),
    }
}

fn intake_of(fake: Arc<FakeHelper>) -> SumIntake {
    let study = fake.study.clone();
    let helper: Arc<dyn Courier> = fake;
    let client = || HttpClient::carried("http://helper", Arc::clone(&helper), "the helper");
    let link = HelperLink::by(client(), client(), key(1));
    SumIntake::with(study, fedbo_gp::MapHash([0; 32]), &key(1), link).unwrap()
}

/// Returns a server's share of a round over `slots`.
fn share(study: &SumStudy, server: Server, round: u64, slots: &[u32]) -> Vec<u8> {
    let at = (round, study.schedule.shape(round));
    let mut sums = study.sharing.begin(server, at);
    for slot in slots {
        sums.keep(*slot, verified(study, round, *slot).vector);
    }
    sums.close(slots, &mut SecureNoise::new()).unwrap().to_bytes()
}

/// Returns an agent's vector as a leader keeps it.
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

/// Returns the helper's ledger, given its rounds, the helper's shares, and the digests of the
/// leader's shares.
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

/// A malicious helper can neither frame the coordinator nor choose its share after seeing the
/// leader's.
#[test]
fn a_helper_that_breaks_the_protocol_gives_agents_nothing() {
    let study = study();
    let own = share(&study, Server::Leader, 0, &[]);
    let right = share(&study, Server::Helper, 0, &[]);
    let shown = share_digest(&own);
    let reveal = |bound: &[u8], found: Vec<HelperEntry>| {
        let intake = intake(&study, vec![closed(bound)], found);
        intake.begin(0, Takes::Now, Vec::new());
        intake.agree(0).unwrap();
        let revealed = intake.reveal(0, &own, |round| (round == 0).then(|| own.clone()));
        assert_eq!(intake.has_entry(0), revealed.is_ok());
        assert_eq!(intake.entries_before(9).len(), usize::from(revealed.is_ok()));
        revealed
    };
    reveal(&right, entries(&study, &[(0, &right, shown)])).unwrap();
    // The helper has committed to a different share.
    let other = share(&study, Server::Helper, 0, &[]);
    let late = reveal(&right, entries(&study, &[(0, &other, shown)]));
    assert!(matches!(late, Err(HelperFailed::OtherShare { round: 0 })));
    // The helper has committed to an invalid share of the round, or to a share over different
    // slots.
    let mut beyond = right.clone();
    let last = beyond.len() - 8;
    beyond[last..].copy_from_slice(&u64::MAX.to_le_bytes());
    let elsewhere = share(&study, Server::Helper, 0, &[1]);
    let next_round = share(&study, Server::Helper, 1, &[]);
    for wrong in [vec![1; right.len()], beyond, elsewhere, next_round] {
        let revealed = reveal(&wrong, entries(&study, &[(0, &wrong, shown)]));
        assert!(matches!(revealed, Err(HelperFailed::Share { round: 0, .. })), "{revealed:?}");
    }
    // The helper signs that it saw a different share from the leader.
    let misled = reveal(&right, entries(&study, &[(0, &right, Digest([3; 32]))]));
    let is_misled =
        matches!(misled, Err(HelperFailed::Misconduct(HelperMisconduct::OtherShare { round: 0 })));
    assert!(is_misled);
    // After a restart, the helper's commitment is unknown, and the helper is not asked for it
    // again.
    let started = intake(&study, vec![closed(&right)], entries(&study, &[(0, &right, shown)]));
    let unbound = started.reveal(0, &own, |_| None);
    assert!(matches!(unbound, Err(HelperFailed::Unbound { round: 0 })));
    // The helper's ledger lacks the round.
    assert!(matches!(reveal(&right, Vec::new()), Err(HelperFailed::RolledBack { round: 0 })));
}

/// If the response with a share was lost, the share arrives along with that of the next round. The
/// entry for the lost share must name the share that the coordinator had revealed, or state that
/// there is no release.
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

/// A helper that never has the requested reports is not asked indefinitely.
#[test]
fn a_helper_cannot_keep_a_round_busy() {
    let study = study();
    let missing = |slots: &[u32]| CloseAnswer::Missing { slots: slots.to_vec() };
    let share = share(&study, Server::Helper, 0, &[]);
    let agree = |closes: Vec<CloseAnswer>| {
        let intake = intake(&study, closes, Vec::new());
        intake.begin(0, Takes::Now, Vec::new());
        for slot in 0..3 {
            intake.keep(slot, verified(&study, 0, slot));
        }
        intake.agree(0)
    };
    // Reports are passed on once more. Slots that are still missing after that are dropped.
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
    intake.begin(0, Takes::Now, Vec::new());
    assert!(matches!(intake.agree(0), Err(HelperFailed::OtherSlots { round: 0 })));
}

/// A restarted coordinator reveals its newest share immediately, and must not request the helper's
/// share again at every check.
#[test]
fn a_share_that_came_with_the_start_is_not_asked_for_again() {
    let study = study();
    let own = share(&study, Server::Leader, 0, &[]);
    let right = share(&study, Server::Helper, 0, &[]);
    let found = entries(&study, &[(0, &right, share_digest(&own))]);
    let intake = intake(&study, vec![closed(&right)], found);
    intake.remember(vec![(0, commitment(&SALT, &right))]);
    for _ in 0..3 {
        intake.reveal(0, &own, |_| None).unwrap();
        assert!(intake.has_entry(0));
    }
    // A different leader's share for the same round is misconduct.
    let other = share(&study, Server::Leader, 0, &[]);
    let misled = intake.reveal(0, &other, |_| None);
    assert!(matches!(
        misled,
        Err(HelperFailed::Misconduct(HelperMisconduct::OtherShare { round: 0 }))
    ));
}

/// The request to open a round names the helper's newest known share. A round key that the helper
/// has not signed is refused.
#[test]
fn a_round_is_opened_with_what_is_known_of_the_helper() {
    let study = study();
    let helper = Arc::new(fake(&study, Vec::new(), Vec::new()));
    let intake = intake_of(Arc::clone(&helper));
    assert!(matches!(intake.agree(0), Err(HelperFailed::NoSession)));
    assert_eq!(intake.open(0).unwrap().unwrap().round, 0);
    intake.remember(vec![(0, Digest([1; 32])), (2, Digest([2; 32]))]);
    intake.open(3).unwrap();
    let newest = Some((2, Digest([2; 32])));
    assert_eq!(*helper.opened.lock().unwrap(), [(0, None), (3, newest)]);
    let forger = FakeHelper { signs_keys: false, ..fake(&study, Vec::new(), Vec::new()) };
    let forged = intake_of(Arc::new(forger)).open(1);
    assert!(matches!(forged, Err(HelperFailed::Key { round: 1, .. })));
}

/// An agent that learned of the round before a restart of the coordinator uploads while the round
/// waits for the helper. The agent must retry, and has not missed the round.
#[test]
fn an_upload_for_a_round_that_waits_for_the_helper_is_early() {
    let study = study();
    let intake = intake_of(Arc::new(fake(&study, Vec::new(), Vec::new())));
    let sizes = study.sealed_sizes();
    let upload = SealedUpload {
        config: study.config,
        map: Digest([0; 32]),
        slot: 1,
        round: 3,
        nonce: [0; 16],
        public: vec![0; sizes.public],
        for_leader: vec![0; sizes.for_leader],
        for_helper: vec![0; sizes.for_helper],
    };
    let early = |refused| {
        matches!(refused, Err(NotVerified::Rejected(UpdateRejected::Early { round: 3, .. })))
    };
    intake.begin(2, Takes::Nothing, Vec::new());
    assert!(early(intake.post(&upload)));
    intake.begin(3, Takes::Soon, Vec::new());
    assert!(early(intake.post(&upload)));
    assert!(!intake.awaits(1, 3), "nobody is asked to send again");
    intake.begin(3, Takes::Nothing, Vec::new());
    let late = intake.post(&upload);
    assert!(matches!(late, Err(NotVerified::Rejected(UpdateRejected::Late { .. }))));
}

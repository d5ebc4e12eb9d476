//! Small studies and a fake coordinator: the setup that targets need before they can corrupt
//! anything.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use fedbo_agent::{Caller, Link, Observer, Offer, Place, Poll, Polled, Progress};
use fedbo_federation::{Collaboration, Federation, Protection, ReleaseMechanism};
use fedbo_ledger::event_to_bytes;
use fedbo_objective::{Objective, Outcome, TrialId};
use fedbo_privacy::mechanism::{ReleaseShape, SimNoise};
use fedbo_space::Point;
use fedbo_transport::{Clock, LinkError};
use fedbo_wire::{
    Account, Content, CoordinatorProof, Digest, EnrolRequest, Enrolled, Handout, LedgerEntry,
    LedgerHead, RelayedMessage, RotateRequest, SigningKey, StudyState, StudyStatus, config_digest,
    sign_config,
};

use crate::keys::coordinator;
use crate::scratch;

/// The length scale is fixed instead of fitted, since a target runs the agents of these studies
/// many times.
const TAIL: &str = "\
[surrogate]
lengthscale = 0.3
[network]
round_s = 2000000.0
[space.x]
type = \"float\"
low = 0.0
high = 1.0
[[agents]]
name = \"a\"
[[agents]]
name = \"b\"
";

/// A study that relays the agents' messages.
const RELAYED: &str = "[federation]\nname = \"relayed\"\nalgorithm = \"fts\"\nrounds = 3\ninitial = 1\n[features]\ncount = 2\n";

/// A study that charges its releases to a ledger.
const CHARGED: &str = "[federation]\nname = \"charged\"\nalgorithm = \"dp-fts-de\"\nrounds = 3\ninitial = 1\n[features]\n\
    count = 2\n[exploration]\nweights = \"uniform\"\n[privacy]\nepsilon = 9.0\nnoise_multiplier = 2.0\naccountant = \"renyi\"\n";

/// A study as frozen by its coordinator.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) federation: Federation,
    pub(crate) text: String,
}

/// Returns the relayed study and the charged one.
pub(crate) fn studies() -> &'static [Frozen; 2] {
    static STUDIES: OnceLock<[Frozen; 2]> = OnceLock::new();
    STUDIES.get_or_init(|| {
        [RELAYED, CHARGED].map(|head| {
            let path = scratch::file("frozen.toml", format!("{head}{TAIL}").as_bytes());
            let key = coordinator().public().to_string();
            let (federation, text) = Federation::freeze(&path, &key, &fedbo_objective::NoProblems)
                .expect("a valid file");
            Frozen { federation, text }
        })
    })
}

impl Frozen {
    /// Returns the handout at the beginning of a round, from 1, for an agent that has received all
    /// earlier handouts.
    pub(crate) fn handout(&self, round: u64) -> Vec<u8> {
        let entries = self.entries();
        let known = usize::try_from(round).unwrap_or(usize::MAX).min(entries.len());
        let (content, head) = match &self.federation.collaboration {
            Collaboration::Relayed(_) => {
                let message =
                    RelayedMessage { sender: 1, round: round - 1, weights: vec![0.5, -0.5] };
                let content = Content::Messages { messages: vec![message], stragglers: vec![0] };
                (content, LedgerHead::NONE)
            }
            Collaboration::Neighbours(_) => unreachable!("these studies have a coordinator"),
            Collaboration::Released(_) => {
                let genesis = self.genesis();
                let head = genesis.after(&entries[..known]).expect("entries without a gap");
                let new = entries[known - 1..known].to_vec();
                (Content::Releases(new), head)
            }
        };
        let handout = Handout {
            config: config_digest(self.text.as_bytes()),
            round,
            collects: round < self.federation.rounds,
            head,
            content,
        };
        handout.to_bytes(coordinator())
    }

    /// Returns the ledger's head at the beginning of a round; empty if messages are relayed.
    fn head_after(&self, round: u64) -> String {
        if matches!(self.federation.collaboration, Collaboration::Relayed(_)) {
            return String::new();
        }
        let entries = self.entries();
        let known = usize::try_from(round).unwrap_or(usize::MAX).min(entries.len());
        let head = self.genesis().after(&entries[..known]);
        head.expect("entries without a gap").to_string()
    }

    fn genesis(&self) -> LedgerHead {
        let plan = self.federation.privacy();
        plan.map_or(LedgerHead::NONE, |plan| {
            let genesis = plan.charter.genesis();
            LedgerHead { seq: genesis.seq, hash: genesis.hash }
        })
    }

    /// Returns the ledger of the charging study, with one entry per release; empty for the other
    /// study.
    pub(crate) fn entries(&self) -> Vec<LedgerEntry> {
        let Collaboration::Released(made) = &self.federation.collaboration else {
            return Vec::new();
        };
        let (ReleaseMechanism::Lattice(mechanism), Protection::Charged(plan)) =
            (made.mechanism(self.federation.own_arm()), &made.releases.protection)
        else {
            unreachable!("the studies above have no other releases");
        };
        let entry = |(seq, round)| {
            let closed = mechanism
                .begin(round, ReleaseShape::Total)
                .close(&mut SimNoise::new([1; 32]))
                .expect("a seed has randomness to give");
            let mut release = closed.release.to_bytes();
            release[KIND] = SECURE; // simulated noise, equal in every run, marked as secure
            LedgerEntry {
                seq,
                round,
                event: event_to_bytes(&plan.event).expect("an event of a mechanism"),
                release,
            }
        };
        (1..).zip(0..made.schedule().n_releases()).map(entry).collect()
    }
}

/// Offset of the byte that encodes the kind of a release, and its value for a secure release.
const KIND: usize = 8;
const SECURE: u8 = 1;

/// A coordinator that accepts every request and returns the next handout once its round has
/// started.
pub(crate) struct FakeCoordinator<'a> {
    pub(crate) study: &'a Frozen,
    /// Number of rounds that have started.
    pub(crate) n_rounds: u64,
}

/// Secret of all enrolment tokens.
pub(crate) const SECRET: [u8; 20] = [5; 20];

impl Link for FakeCoordinator<'_> {
    fn prove(&self, challenge: &Digest) -> Result<CoordinatorProof, LinkError> {
        Ok(CoordinatorProof::new(coordinator(), challenge))
    }

    fn enrol(&self, _: &SigningKey, _: &EnrolRequest) -> Result<Enrolled, LinkError> {
        Ok(Enrolled {
            study: self.study.federation.name.clone(),
            slot: 0,
            agent: "a".to_owned(),
            config: config_digest(self.study.text.as_bytes()),
            coordinator: coordinator().public(),
        })
    }

    fn offer(&self, _: &SigningKey, _: &EnrolRequest) -> Result<Offer, LinkError> {
        let text = self.study.text.clone().into_bytes();
        Ok(Offer {
            slot: 0,
            digest: config_digest(&text),
            signature: sign_config(coordinator(), &text),
            text,
        })
    }

    fn upload(&self, _: Caller<'_>, _: Place<'_>, _: &[u8]) -> Result<(), LinkError> {
        Ok(())
    }

    fn handouts(&self, _: Caller<'_>, _: &str, poll: Poll) -> Result<Polled, LinkError> {
        let next = poll.after.unwrap_or(0).saturating_add(1);
        if next <= self.n_rounds {
            return Ok(Polled::Handout { bytes: self.study.handout(next), elapsed_ms: Some(0) });
        }
        Ok(Polled::Nothing(Progress {
            round: self.n_rounds,
            state: StudyState::Running,
            resend: None,
            elapsed_ms: Some(0),
            round_key: None,
        }))
    }

    fn status(&self, key: &SigningKey, _: &str) -> Result<StudyStatus, LinkError> {
        let time_ms = Waited::default().now_ms();
        Ok(StudyStatus {
            study: self.study.federation.name.clone(),
            state: StudyState::Running,
            // Report no round as over, since the agent has to catch up.
            round: 0,
            rounds: self.study.federation.rounds,
            collects: true,
            head: self.study.head_after(self.n_rounds),
            time_ms,
            elapsed_ms: Some(0),
            round_key: None,
            account: Account::new(coordinator(), key.public(), time_ms, Vec::new()),
        })
    }

    fn rotate(&self, _: Caller<'_>, _: &str, _: &RotateRequest) -> Result<(), LinkError> {
        Err(LinkError::Stopped)
    }
}

/// A clock that advances only when it is asked to sleep.
#[derive(Default)]
pub(crate) struct Waited(Cell<u64>);

impl Clock for Waited {
    fn now_ms(&self) -> u64 {
        1_700_000_000_000
    }

    fn elapsed_ms(&self) -> u64 {
        self.0.get()
    }

    fn sleep(&self, time: Duration) {
        let waited = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.0.set(self.0.get().saturating_add(waited));
    }

    fn chance(&self) -> f64 {
        0.5
    }
}

/// An observer that ignores all events.
pub(crate) struct NullObserver;

impl Observer for NullObserver {}

/// The objective f(x) = x, which returns immediately.
struct Slope;

impl Objective for Slope {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        Outcome::Value(point.number("x"))
    }
}

pub(crate) fn objective() -> Arc<dyn Objective> {
    Arc::new(Slope)
}

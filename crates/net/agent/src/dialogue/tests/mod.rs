//! Tests dialogues without a coordinator, by comparing the effects of synthetic events.

mod network;

use std::time::Duration;

use fedbo_federation::{Federation, FrozenFor};
use fedbo_ledger::Head;
use fedbo_objective::NoProblems;
use fedbo_servers::card_of;
use fedbo_transport::LinkError;
use fedbo_wire::{
    Account, Content, Handout, LedgerHead, Problem, ProblemCode, RoundKey, SigningKey, StudyState,
    StudyStatus, sign_config,
};

use super::rounds::{Outgoing, Task};
use super::*;
use crate::Membership;
use crate::follower::Follower;
use crate::intake::Intake;
use crate::link::Progress;
use crate::pace::{Instant, Pace};
use crate::session::Ended;

/// A study, and the keys of its servers.
struct Study {
    leader: SigningKey,
    helper: SigningKey,
    federation: Federation,
    intake: Intake,
    membership: Membership,
    genesis: Head,
    account: Account,
}

impl Study {
    /// Creates a study with one-minute rounds and a collection period of 54 seconds.
    fn relayed() -> Self {
        Self::new("algorithm = \"fts\"\nrounds = 8\ninitial = 1", "[network]\ncollect_s = 54.0\n")
    }

    /// Like [`Self::relayed`], but with two servers.
    fn summed() -> Self {
        let other = card_of(&SigningKey::from_seed([2; 32]));
        let sum =
            format!("[secure_sum]\nhelper = \"{other}\"\nhelper_url = \"http://127.0.0.1:1\"\n");
        let privacy = "[privacy]\nepsilon = 9.0\nreleases = 8\n";
        Self::new("algorithm = \"dp-fts-de\"\nrounds = 8", &(privacy.to_owned() + &sum))
    }

    /// Creates a study with one-minute windows.
    fn free() -> Self {
        let head = "algorithm = \"fts\"\nrounds = 8\ninitial = 1\npace = \"free\"\nwindows = 9";
        Self::new(head, "")
    }

    fn new(head: &str, tables: &str) -> Self {
        let (leader, helper) = (SigningKey::from_seed([1; 32]), SigningKey::from_seed([2; 32]));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("federation.toml");
        let text = format!(
            "[federation]\nname = \"labs\"\n{head}\n[features]\ncount = 4\n{tables}[space.x]\ntype = \"float\"\nlow = 0.0\n\
             high = 1.0\n[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n[[agents]]\nname = \"c\"\n"
        );
        std::fs::write(&path, text).unwrap();
        let (key, card) = (leader.public().to_string(), card_of(&leader).to_string());
        let by = FrozenFor { key: &key, card: &card };
        let (federation, config) = Federation::freeze(&path, by, &NoProblems).unwrap();
        let membership = Membership {
            id: 1,
            study: "labs".to_owned(),
            url: "http://127.0.0.1:2".to_owned(),
            authority: None,
            coordinator: leader.public(),
            slot: 0,
            agent: "a".to_owned(),
            digest: fedbo_wire::config_digest(config.as_bytes()),
            signature: sign_config(&leader, config.as_bytes()),
            config,
            key: leader.public(),
            seed: None,
            contact_at_ms: 0,
            finished: false,
        };
        let intake = Intake::of(&federation, &membership).unwrap();
        let genesis = Follower::new(&membership, &federation, &intake).unwrap().head();
        let account = Account::new(&leader, membership.key, 0, Vec::new());
        Self { leader, helper, federation, intake, membership, genesis, account }
    }

    fn contact(&self, slot: u32, delivered: Option<u64>) -> Contact {
        let follower = Follower::new(&self.membership, &self.federation, &self.intake).unwrap();
        let Federation { network, .. } = self.federation;
        let last_round = self.federation.last_round();
        let pace = Pace::new(self.membership.digest, (slot, 3), network, last_round);
        Contact::new(follower, pace, 2, delivered)
    }

    /// Returns a handout without releases or messages.
    fn handout(&self, round: u64, key: Option<RoundKey>) -> Vec<u8> {
        let head = self.genesis;
        let (head, content) = match &self.intake {
            Intake::Plain => {
                (LedgerHead::NONE, Content::Messages { messages: vec![], stragglers: vec![] })
            }
            Intake::Sum(_) => (
                LedgerHead { seq: head.seq, hash: head.hash },
                Content::Shares { leader: vec![], helper: vec![], key },
            ),
        };
        let (config, collects) = (self.membership.digest, self.collects(round));
        Handout { config, round, collects, head, content }.to_bytes(&self.leader)
    }

    fn has_helper(&self) -> bool {
        matches!(self.intake, Intake::Sum(_))
    }

    fn collects(&self, round: u64) -> bool {
        match &self.intake {
            Intake::Plain => true,
            Intake::Sum(study) => study.schedule.releases(round),
        }
    }

    /// Returns the helper's key for a round, if the study has a helper.
    fn key(&self, round: u64) -> Option<RoundKey> {
        let key = || RoundKey::new(&self.helper, &self.membership.digest, round, [7; 32]);
        self.has_helper().then(key)
    }

    fn status(&self, progress: Progress) -> StudyStatus {
        let Progress { round, state, elapsed_ms, round_key, .. } = progress;
        let head = match &self.intake {
            Intake::Plain => String::new(),
            Intake::Sum(_) => self.genesis.to_string(),
        };
        StudyStatus {
            study: "labs".to_owned(),
            state,
            round,
            rounds: 8,
            collects: true,
            head,
            time_ms: 0,
            elapsed_ms,
            round_key,
            account: self.account.clone(),
        }
    }
}

fn running(round: u64, elapsed_ms: u64) -> Progress {
    let state = StudyState::Running;
    Progress { round, state, resend: None, elapsed_ms: Some(elapsed_ms), round_key: None }
}

fn stands(state: StudyState) -> Progress {
    Progress { round: 0, state, resend: None, elapsed_ms: None, round_key: None }
}

fn refused(code: ProblemCode) -> LinkError {
    let problem = Problem { code, message: "the test says so".to_owned() };
    LinkError::Refused { problem, retry_after: None }
}

fn unreachable() -> LinkError {
    LinkError::Unreachable { reason: "it is not there".to_owned() }
}

const T0: u64 = 1_000_000;

/// A dialogue machine and its contact.
struct Talk<D> {
    study: Study,
    contact: Contact,
    machine: D,
}

impl Talk<Rounds> {
    fn rounds(study: Study) -> Self {
        let contact = study.contact(0, None);
        Self { study, contact, machine: Rounds::new() }
    }

    fn deliver(&mut self, is_made: bool, ms: u64) -> Next {
        let task = Task::Deliver(Outgoing { round: 0, is_made, is_answered: false });
        self.on(Event::Turn(task), ms).0
    }
}

impl<D: Dialogue> Talk<D> {
    fn on(&mut self, event: Event<D::Task>, ms: u64) -> (Next, Vec<Effect>) {
        let next = self.machine.handle(&mut self.contact, event, Now { ms, chance: 0.5 });
        (next.unwrap(), self.contact.take_effects())
    }

    /// Passes an event to the machine, and returns the error.
    fn fails(&mut self, event: Event<D::Task>, ms: u64) -> RunError {
        self.machine.handle(&mut self.contact, event, Now { ms, chance: 0.5 }).unwrap_err()
    }

    /// Responds to a request for the study's state.
    fn state(&mut self, progress: Progress, ms: u64) -> (Next, Vec<Effect>) {
        let status = self.study.status(progress);
        self.on(Event::State(Ok(status)), ms)
    }
}

/// Returns the wait at the end of a turn, in milliseconds.
fn waits(next: &Next) -> u64 {
    match next {
        Next::Rest(Step::Waits(time)) => u64::try_from(time.as_millis()).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_upload_is_made_then_sent_at_its_instant_after_the_history_was_compared() {
    let mut talk = Talk::rounds(Study::relayed());
    assert!(matches!(talk.deliver(false, T0), Next::AskState));
    let (next, _) = talk.state(running(0, 0), T0);
    assert!(matches!(next, Next::Make(0)), "{next:?}");
    let (next, _) = talk.on(Event::Made(Made::Kept), T0);
    let at = T0 + waits(&next);
    assert_eq!(talk.contact.pace.upload_at(0), Instant::At(at));
    assert!(matches!(talk.deliver(true, at), Next::Send(0)));
    let (next, effects) = talk.on(Event::Sent(Ok(())), at);
    assert!(matches!(next, Next::Done));
    assert!(
        matches!(effects[..], [Effect::Answered, Effect::Decide(0, Verdict::Acknowledged)]),
        "{effects:?}"
    );
    // If the agent's budget does not allow an upload, none is sent.
    let mut talk = Talk::rounds(Study::relayed());
    talk.deliver(false, T0);
    talk.state(running(0, 0), T0);
    assert!(matches!(talk.on(Event::Made(Made::Withheld), T0).0, Next::Done));
}

#[test]
fn a_round_is_missed_only_after_its_state_was_asked_for() {
    let mut talk = Talk::rounds(Study::relayed());
    assert!(matches!(talk.on(Event::Turn(Task::Meet), T0).0, Next::AskState));
    assert!(matches!(talk.state(running(0, 0), T0).0, Next::Done));
    let late = T0 + 310_000;
    talk.machine.trial_ended(&talk.contact, late - 1);
    let pause = waits(&talk.deliver(false, late));
    let asked = late + pause;
    assert!(pause > 0, "nobody learns when the trial ended");
    assert!(matches!(talk.deliver(false, asked), Next::AskState));
    let (next, effects) = talk.state(running(0, 310_000), asked);
    assert!(matches!(next, Next::Done));
    assert!(matches!(effects[..], [Effect::Miss { round: 0, is_made: false, .. }]), "{effects:?}");
    // The upload is still possible if the round has restarted since.
    assert!(matches!(talk.deliver(false, asked), Next::AskState));
    assert!(matches!(talk.state(running(0, 1_000), asked).0, Next::Make(0)));
}

#[test]
fn nothing_is_made_before_the_helper_has_answered() {
    let mut talk = Talk::rounds(Study::summed());
    let held = Progress { elapsed_ms: None, ..running(0, 0) };
    assert!(matches!(talk.deliver(false, T0), Next::AskState));
    let (next, effects) = talk.state(held, T0);
    assert!(matches!(next, Next::Poll(_)), "{next:?}");
    assert!(matches!(effects[..], [Effect::HelperAwaited(0), Effect::StudyWaits(_)]));
    // This holds even if the coordinator reports that the round has begun.
    assert!(matches!(talk.deliver(false, T0 + 1_000), Next::AskState));
    let (next, effects) = talk.state(running(0, 0), T0 + 1_000);
    assert_eq!(waits(&next), 1_000);
    assert!(effects.is_empty(), "it is reported once: {effects:?}");
    let answered = Progress { round_key: talk.study.key(0), ..running(0, 0) };
    assert!(matches!(talk.deliver(false, T0 + 2_000), Next::AskState));
    assert!(matches!(talk.state(answered, T0 + 2_000).0, Next::Make(0)));
}

/// An upload with a scheduled instant is retried at further instants. The pauses are at most half
/// of the collection period, and never shorter than the server requests.
#[test]
fn failed_attempts_are_repeated_at_instants() {
    let mut talk = Talk::rounds(Study::relayed());
    talk.deliver(true, T0);
    let mut ms = T0 + waits(&talk.state(running(0, 0), T0).0);
    for n in 1..9 {
        let next = match talk.deliver(true, ms) {
            // The coordinator may have been restored from a backup since its last response.
            Next::AskState if n > 1 => talk.state(running(0, ms - T0), ms).0,
            next => next,
        };
        assert!(matches!(next, Next::Send(0)), "{next:?}");
        assert_eq!(talk.contact.has_asked, n > 1);
        let (next, effects) = talk.on(Event::Sent(Err(unreachable())), ms);
        assert!(matches!(effects[..], [Effect::Retry(..)]));
        ms += waits(&next);
        assert_eq!(talk.contact.pace.attempt_at(0, n), Instant::At(ms));
    }
    // A temporary refusal requests a longer wait.
    talk.deliver(true, ms);
    talk.state(running(0, ms - T0), ms);
    let problem = Problem { code: ProblemCode::Busy, message: String::new() };
    let busy = LinkError::Refused { problem, retry_after: Some(Duration::from_secs(3_600)) };
    let (next, _) = talk.on(Event::Sent(Err(busy)), ms);
    assert_eq!(waits(&next), 300_000, "but not for any");
}

#[test]
fn answers_to_an_upload_have_their_meanings() {
    let sent = |error: LinkError| {
        let mut talk = Talk::rounds(Study::relayed());
        talk.deliver(true, T0);
        let at = T0 + waits(&talk.state(running(0, 0), T0).0);
        talk.deliver(true, at);
        (
            talk.machine.handle(
                &mut talk.contact,
                Event::Sent(Err(error)),
                Now { ms: at, chance: 0.5 },
            ),
            talk,
        )
    };
    for code in [ProblemCode::Late, ProblemCode::NotCollected, ProblemCode::Finished] {
        let (next, mut talk) = sent(refused(code));
        assert!(matches!(next, Ok(Next::Done)));
        let effects = talk.contact.take_effects();
        assert!(matches!(&effects[1], Effect::Decide(0, Verdict::Missed(why)) if why.code == code));
    }
    for code in [ProblemCode::NotStarted, ProblemCode::Paused] {
        let (next, _) = sent(refused(code));
        let Ok(Next::Poll(poll)) = next else { panic!("{next:?}") };
        assert!(poll.state.is_some() && poll.delivered.is_none());
    }
    for code in [ProblemCode::UnknownAgent, ProblemCode::Revoked] {
        let (next, mut talk) = sent(refused(code));
        assert!(matches!(next, Ok(Next::Rest(Step::Went))));
        assert!(matches!(talk.contact.take_effects()[..], [Effect::ChangeKey]));
        // There is no third key.
        talk.deliver(true, T0 + 70_000);
        let error = talk.fails(Event::State(Err(refused(code))), T0 + 70_000);
        assert!(matches!(error, RunError::Refused { what: "a request for the study's state", .. }));
    }
    let (next, _) = sent(refused(ProblemCode::Conflict));
    assert!(matches!(next, Err(RunError::Refused { what: "an upload", .. })));
    let (next, _) = sent(LinkError::Stopped);
    assert!(matches!(next, Ok(Next::Rest(Step::Ended(Ended::Interrupted)))));
}

/// The state is compared again after every failed request, and after each request for a lost
/// upload.
#[test]
fn an_upload_is_sent_again_only_to_a_coordinator_with_the_same_history() {
    let mut talk = Talk::rounds(Study::relayed());
    talk.contact = talk.study.contact(0, Some(0));
    assert!(matches!(talk.on(Event::Turn(Task::Await), T0).0, Next::AskState));
    let (next, _) = talk.state(running(0, 0), T0);
    let Next::Poll(poll) = next else { panic!("{next:?}") };
    assert_eq!((poll.delivered, poll.after, poll.wait_s), (Some(0), None, 25));
    let lost = |round| {
        Event::Polled(Ok(Polled::Nothing(Progress { resend: Some(round), ..running(0, 0) })))
    };
    assert!(matches!(talk.on(lost(1), T0).0, Next::Rest(Step::Waits(_))), "it was never sent");
    assert_eq!(talk.contact.resend, None);
    talk.on(Event::Turn(Task::Await), T0);
    assert!(matches!(talk.on(lost(0), T0).0, Next::Rest(Step::Went)));
    assert_eq!(talk.contact.resend, Some(0));
    let again = |is_kept| Event::Turn(Task::Resend { round: 0, is_kept });
    assert!(matches!(talk.on(again(true), T0).0, Next::AskState));
    assert!(matches!(talk.state(running(0, 0), T0).0, Next::Send(0)));
    let (next, effects) = talk.on(Event::Sent(Ok(())), T0);
    assert_eq!(waits(&next), 1_000);
    assert!(matches!(effects[..], [Effect::Answered, Effect::Resent(0, Verdict::Acknowledged)]));
    assert_eq!(talk.contact.resend, None);
    // A vector that the log has erased is not sent.
    talk.on(Event::Turn(Task::Await), T0);
    talk.on(lost(0), T0);
    assert_eq!(waits(&talk.on(again(false), T0).0), 1_000);
    assert_eq!(talk.contact.resend, None);
}

#[test]
fn misconduct_ends_the_dialogue() {
    let mut talk = Talk::rounds(Study::relayed());
    talk.on(Event::Turn(Task::Await), T0);
    talk.state(running(0, 0), T0);
    let bytes = b"no handout".to_vec();
    let error = talk.fails(Event::Polled(Ok(Polled::Handout { bytes, elapsed_ms: None })), T0);
    assert!(matches!(error, RunError::Misconduct(_)));
    let effects = talk.contact.take_effects();
    assert!(matches!(&effects[..], [Effect::Answered, Effect::Accuse { evidence: Some(_), .. }]));
    let error = talk.fails(Event::Turn(Task::Await), T0);
    assert!(matches!(error, RunError::Misconduct(_)), "whatever comes next");
    // A coordinator that reports an earlier round for half a minute was rolled back.
    let mut talk = Talk::rounds(Study::relayed());
    talk.on(Event::Turn(Task::Await), T0);
    talk.state(running(3, 0), T0);
    let bytes = talk.study.handout(3, None);
    let (_, effects) = talk.on(Event::Polled(Ok(Polled::Handout { bytes, elapsed_ms: None })), T0);
    assert!(matches!(&effects[..], [Effect::Answered, Effect::Take { .. }]));
    let behind = || Event::Polled(Ok(Polled::Nothing(running(2, 0))));
    for ms in [T0 + 60_000, T0 + 89_000] {
        talk.on(Event::Turn(Task::Await), ms);
        talk.on(behind(), ms);
    }
    talk.on(Event::Turn(Task::Await), T0 + 90_000);
    let error = talk.fails(behind(), T0 + 90_000);
    assert!(matches!(error, RunError::Misconduct(Misconduct::RoundBack { last: 3, found: 2 })));
}

/// A study that has not started is reported once, however often it is polled, and there are pauses
/// between polls.
#[test]
fn a_study_that_waits_is_polled_with_pauses() {
    let mut talk = Talk::rounds(Study::relayed());
    talk.on(Event::Turn(Task::Await), T0);
    talk.state(stands(StudyState::Waiting), T0);
    let mut n_reported = 0;
    for n in 0..5 {
        let ms = T0 + 1_000 * n;
        if n > 0 {
            talk.on(Event::Turn(Task::Await), ms);
        }
        let answer = Event::Polled(Ok(Polled::Nothing(stands(StudyState::Waiting))));
        let (next, effects) = talk.on(answer, ms + 300);
        assert_eq!(waits(&next), 700);
        n_reported += effects.iter().filter(|e| matches!(e, Effect::StudyWaits(_))).count();
    }
    assert_eq!(n_reported, 1);
    talk.on(Event::Turn(Task::Await), T0);
    let over = Event::Polled(Ok(Polled::Nothing(stands(StudyState::Finished))));
    assert!(matches!(talk.on(over, T0).0, Next::StudyOver));
}

/// At a free pace, a request that was set aside is resumed before any other, and the next request
/// is known in advance.
#[test]
fn a_request_that_is_set_aside_is_resumed() {
    let study = Study::free();
    let contact = study.contact(0, None);
    let machine = Free::new(study.federation.last_round(), (None, None));
    let mut talk = Talk { study, contact, machine };
    let due = free::Due { has_upload: true, is_kept: false };
    let turn = || Event::Turn(free::Task::Due(due));
    assert!(matches!(talk.on(turn(), T0).0, Next::AskState));
    assert!(matches!(talk.state(running(0, 0), T0).0, Next::Poll(_)));
    assert!(matches!(
        talk.on(Event::Polled(Err(LinkError::SetAside)), T0).0,
        Next::Rest(Step::Went)
    ));
    assert!(!talk.machine.is_request_near(1_000_000, T0), "the trial's result comes first");
    let (next, _) = talk.on(turn(), T0 + 5);
    assert!(matches!(next, Next::Poll(Poll { wait_s: 0, .. })), "{next:?}");
    let answer = Event::Polled(Ok(Polled::Nothing(running(0, 5))));
    assert!(matches!(talk.on(answer, T0 + 5).0, Next::Rest(Step::Went)));
    let Instant::At(at) = talk.contact.pace.upload_at(0) else { panic!("the window is open") };
    assert!(waits(&talk.on(turn(), T0 + 10).0) <= 1_000);
    assert!(talk.machine.is_request_near(at - T0 - 10, T0 + 10));
    assert!(!talk.machine.is_request_near(at - T0 - 11, T0 + 10));
    assert!(matches!(talk.on(turn(), at).0, Next::Make(0)));
    assert!(matches!(talk.on(Event::Made(Made::Kept), at).0, Next::Send(0)));
    assert!(matches!(talk.on(Event::Sent(Err(LinkError::SetAside)), at).0, Next::Rest(Step::Went)));
    assert!(matches!(talk.on(turn(), at + 1).0, Next::Make(0)), "the stored one");
    talk.on(Event::Made(Made::Kept), at + 1);
    assert!(talk.machine.has_unsent(false));
    talk.on(Event::Sent(Ok(())), at + 1);
    assert!(!talk.machine.has_unsent(false));
    // There is only one upload per window.
    assert!(matches!(talk.on(turn(), at + 2).0, Next::Rest(Step::Waits(_))));
}

/// According to the coordinator, the agent has reached its maximum number of releases.
#[test]
fn an_agent_whose_upload_is_not_collected_has_nothing_to_send() {
    let study = Study::free();
    let contact = study.contact(0, None);
    let machine = Free::new(study.federation.last_round(), (None, None));
    let mut talk = Talk { study, contact, machine };
    let due = free::Due { has_upload: true, is_kept: false };
    talk.on(Event::Turn(free::Task::Due(due)), T0);
    talk.state(running(0, 0), T0);
    talk.on(Event::Polled(Ok(Polled::Nothing(running(0, 0)))), T0);
    let Instant::At(at) = talk.contact.pace.upload_at(0) else { panic!("the window is open") };
    talk.on(Event::Turn(free::Task::Due(due)), at);
    talk.on(Event::Made(Made::Kept), at);
    talk.on(Event::Sent(Err(unreachable())), at);
    // The next attempt follows in the same window.
    let Instant::At(at) = talk.contact.pace.attempt_at(0, 1) else { panic!("there is another") };
    assert!(matches!(talk.on(Event::Turn(free::Task::Due(due)), at).0, Next::AskState));
    assert!(matches!(talk.state(running(0, at - T0), at).0, Next::Make(0)));
    talk.on(Event::Made(Made::Kept), at);
    talk.on(Event::Sent(Err(refused(ProblemCode::NotCollected))), at);
    assert!(!talk.machine.has_unsent(true));
}

//! The status of an agent, read from its folder without contacting the coordinator.

use std::path::Path;

use fedbo_federation::{Alignment, Collaboration, Federation};
use fedbo_ledger::Head;
use fedbo_party::{HomeError, look};
use fedbo_space::Direction;

use crate::follower::{Follower, VerifiedContent};
use crate::intake::Intake;
use crate::log::{Log, UploadCounts};
use crate::{Home, PrivacyStatus, RunError, budget};

/// The status of an agent.
#[derive(Clone, Debug)]
pub struct HomeStatus {
    /// The agent's studies, sorted by name.
    pub memberships: Vec<MembershipStatus>,
    /// The agent's budget and its spending over all studies, or `None` before the first run with a
    /// budget.
    pub privacy: Option<PrivacyStatus>,
}

/// The status of an agent in a study.
#[derive(Clone, Debug, PartialEq)]
pub struct MembershipStatus {
    /// The study.
    pub study: String,
    /// The agent's name on the roster.
    pub agent: String,
    /// The agent's slot.
    pub slot: u32,
    /// The coordinator's address.
    pub url: String,
    /// The newest round that has begun, or `None` before the first.
    pub round: Option<u64>,
    /// The head of the study's ledger, as far as the agent has followed it. `None` before the first
    /// round, and if nothing is released.
    ///
    /// If two agents of a study have the same entry number but different hashes, the coordinator
    /// has shown them different histories.
    pub head: Option<Head>,
    /// Number of rounds in the agent's plan.
    pub rounds: u64,
    /// Number of trials that have ended.
    pub n_trials: u64,
    /// The best value so far.
    pub best: Option<f64>,
    /// Trust in the other agents, in percent, as stated by the newest query whose source states it.
    /// Negative if the agent trusts their negated functions.
    pub trust_percent: Option<i8>,
    /// The alignment of all agents' vectors, estimated from the releases that this agent has.
    /// `None` before the first release, if nothing is released, or if this program cannot read the
    /// releases.
    pub alignment: Option<Alignment>,
    /// The direction of optimization.
    pub direction: Direction,
    /// Counts of the agent's uploads, by outcome.
    pub uploads: UploadCounts,
    /// True if the agent's plan is done or the study is over.
    pub finished: bool,
    /// The protection of the agent's messages, in one sentence without jargon.
    pub in_plain_words: String,
    /// The time of the coordinator's last response, in milliseconds since 1970.
    pub contact_at_ms: u64,
}

/// Returns the status of the agent in a folder, including each of its studies. Only reads local
/// files, and changes nothing.
///
/// # Errors
/// If the folder contains no agent, or the stored data cannot be read.
pub fn status(home: &Path) -> Result<HomeStatus, RunError> {
    let home = match Home::look(home) {
        Err(HomeError::Absent { .. }) => {
            let path = home.to_owned();
            return Err(HomeError::Absent { path }.into());
        }
        home => home?,
    };
    let mut memberships = Vec::new();
    for membership in home.memberships()? {
        let federation = membership.federation()?;
        let log = Log { database: &home.database, membership: &membership };
        let (round, uploads) = log.progress()?;
        let direction = federation.direction;
        let trials = look(home.folder(), &membership.study, direction)?;
        memberships.push(MembershipStatus {
            rounds: federation.n_rounds(),
            round,
            head: log.head()?.filter(|head| head.seq > 0),
            n_trials: trials.n_told,
            best: trials.best,
            trust_percent: trials.trust_percent,
            alignment: alignment(&log, &federation).unwrap_or(None),
            direction,
            uploads,
            slot: membership.slot,
            finished: membership.finished,
            in_plain_words: federation.in_plain_words(),
            contact_at_ms: membership.contact_at_ms,
            study: membership.study,
            agent: membership.agent,
            url: membership.url,
        });
    }
    Ok(HomeStatus { memberships, privacy: budget::spent(&home.database)? })
}

/// Replays all handouts, as a run of the agent does, and returns the alignment estimated from their
/// releases.
fn alignment(log: &Log<'_>, federation: &Federation) -> Result<Option<Alignment>, RunError> {
    let membership = log.membership;
    if !matches!(federation.collaboration, Collaboration::Released(_)) {
        return Ok(None);
    }
    let intake = Intake::of(federation, membership)?;
    let mut follower = Follower::new(membership, federation, &intake)?;
    let mut releases = Vec::new();
    while let Some(taken) = log.handout_after(follower.round())? {
        let verified = follower.read(&taken.bytes)?;
        follower.advance(&verified);
        if let VerifiedContent::Releases(new) = verified.content {
            releases.extend(new.iter().map(|release| release.aggregate.clone()));
        }
    }
    Ok(federation.released(&releases)?.map(|(_, alignment)| alignment))
}

//! Runs an agent as configured by its file.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_federation::Federation;
use fedbo_objective::{CommandObjective, Failure, Objective};
use fedbo_transport::{LinkError, SystemClock};

use crate::account::ask_others;
use crate::rotate::LinkTo;
use crate::{
    AgentFile, Ended, Home, HttpLink, Link, Membership, Notice, Observer, Parts, RunError, Session,
    protection, short_rounds, weak_protection,
};

/// The options of a run.
pub struct RunOptions<'a> {
    /// The agent's file.
    pub file: &'a AgentFile,
    /// Ends the run, including a running command, once it is set.
    pub stop: Arc<AtomicBool>,
    /// The observer of the run.
    pub observer: &'a dyn Observer,
}

/// Runs an agent in one of its studies until its plan is done, the study is over, or the stop flag
/// is set.
///
/// After any interruption, the next run continues from the same point.
///
/// # Errors
/// If the file, the folder or the command cannot be used, the coordinator refuses permanently, or
/// it is caught in misconduct ([`RunError::Misconduct`]).
pub fn run(options: &RunOptions<'_>) -> Result<Ended, RunError> {
    run_linked(options, None, Reach::All, &|membership| http_link(options, membership))
}

/// Like [`run`], but with the given objective instead of the file's command.
///
/// # Errors
/// As for [`run`].
pub fn run_with(
    options: &RunOptions<'_>,
    objective: Arc<dyn Objective>,
) -> Result<Ended, RunError> {
    let link_to = |membership: &Membership| http_link(options, membership);
    run_linked(options, Some(objective), Reach::All, &link_to)
}

/// The coordinators that a link function can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The coordinators of all studies.
    All,
    /// Only the coordinator of the study that is run.
    One,
}

/// Like [`run`], but with the given links. Without an objective, uses the file's command.
///
/// # Errors
/// As for [`run`].
pub(crate) fn run_linked(
    options: &RunOptions<'_>,
    objective: Option<Arc<dyn Objective>>,
    reach: Reach,
    link_to: &LinkTo<'_>,
) -> Result<Ended, RunError> {
    let opened = Opened::of(options.file)?;
    let objective = match objective {
        Some(objective) => objective,
        None => command(options, &opened.federation)?,
    };
    if reach == Reach::All {
        ask_others(&opened.home, &opened.membership, link_to, options.observer)?;
    }
    opened.run(options, objective, link_to)
}

fn http_link(
    options: &RunOptions<'_>,
    membership: &Membership,
) -> Result<Box<dyn Link>, LinkError> {
    let authority = options.file.authority.as_deref().or(membership.authority.as_deref());
    let (url, stop) = (&membership.url, Arc::clone(&options.stop));
    let proxy = &options.file.proxy;
    let link = HttpLink::with_proxy(url, authority, proxy, membership.coordinator, stop)?;
    Ok(Box::new(link))
}

/// Returns the file's command as an objective.
fn command(
    options: &RunOptions<'_>,
    federation: &Federation,
) -> Result<Arc<dyn Objective>, RunError> {
    let command = options.file.command(&federation.space)?;
    let stop = Arc::clone(&options.stop);
    let objective = CommandObjective::new(&command, &federation.space, stop);
    let objective = objective.map_err(|error| RunError::Objective {
        message: Failure::Spawn {
            program: command.argv.first().cloned().unwrap_or_default(),
            message: error.to_string(),
        }
        .to_string(),
    })?;
    Ok(Arc::new(objective))
}

/// An agent's folder, and the study that is run.
struct Opened {
    home: Home,
    membership: Membership,
    federation: Federation,
}

impl Opened {
    fn of(file: &AgentFile) -> Result<Self, RunError> {
        let home = Home::open(&file.home)?;
        let membership = home.membership(file.study.as_deref())?;
        let federation = membership.federation()?;
        Ok(Self { home, membership, federation })
    }

    fn run(
        self,
        options: &RunOptions<'_>,
        objective: Arc<dyn Objective>,
        link_to: &LinkTo<'_>,
    ) -> Result<Ended, RunError> {
        let RunOptions { file, stop, observer } = options;
        let Self { home, membership, federation } = self;
        let link = link_to(&membership).map_err(RunError::Link)?;
        let parts = Parts {
            home,
            membership,
            federation,
            objective,
            seed: file.seed,
            cap: file.cap,
            failures_max: file.failures_max,
            allow_unprotected: file.allow_unprotected.clone(),
            link: link.as_ref(),
            clock: &SystemClock,
            observer: *observer,
            stop: Arc::clone(stop),
        };
        let promise = protection(&parts.federation);
        let warning = short_rounds(&parts.federation);
        let weak = weak_protection(&parts.federation);
        let mut session = Session::open(parts)?;
        observer.notice(&Notice::StudyOpened(&promise));
        if let Some(weak) = weak {
            observer.notice(&Notice::WeakProtection(&weak));
        }
        if let Some(warning) = warning {
            observer.notice(&Notice::RoundsAreShort(&warning));
        }
        session.run()
    }
}

//! A run of an agent as its file says.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_federation::Federation;
use fedbo_objective::{CommandObjective, Failure, Objective};
use fedbo_transport::{LinkError, SystemClock};

use crate::rotate::LinkTo;
use crate::{
    AgentFile, Ended, Home, HttpLink, Link, Membership, Notice, Observer, Parts, RunError, Session,
    protection, short_rounds,
};

/// The options of a run.
pub struct RunOptions<'a> {
    /// The agent's file.
    pub file: &'a AgentFile,
    /// Ends the run once it is set; a command that is running is ended too.
    pub stop: Arc<AtomicBool>,
    /// The observer of the run.
    pub observer: &'a dyn Observer,
}

/// Runs an agent in one of its studies until its plan is done, the study is over, or the stop flag is set. Interrupted in any
/// way, it goes on where it was when it is run again.
///
/// # Errors
/// If the file, the folder or the command cannot be used, the coordinator refuses for good, or it did what none may do
/// ([`RunError::Misconduct`]).
pub fn run(options: &RunOptions<'_>) -> Result<Ended, RunError> {
    run_linked(options, None, &|membership| http_link(options, membership))
}

/// The same with an objective of the program in place of the file's command.
///
/// # Errors
/// As for [`run`].
pub fn run_with(
    options: &RunOptions<'_>,
    objective: Arc<dyn Objective>,
) -> Result<Ended, RunError> {
    run_linked(options, Some(objective), &|membership| http_link(options, membership))
}

/// The same by another way to the coordinator; without an objective, with the file's command.
///
/// # Errors
/// As for [`run`].
pub(crate) fn run_linked(
    options: &RunOptions<'_>,
    objective: Option<Arc<dyn Objective>>,
    link_to: &LinkTo<'_>,
) -> Result<Ended, RunError> {
    let opened = Opened::of(options.file)?;
    let objective = match objective {
        Some(objective) => objective,
        None => command(options, &opened.federation)?,
    };
    opened.run(options, objective, link_to)
}

fn http_link(
    options: &RunOptions<'_>,
    membership: &Membership,
) -> Result<Box<dyn Link>, LinkError> {
    let authority = options.file.authority.as_deref().or(membership.authority.as_deref());
    let (url, stop) = (&membership.url, Arc::clone(&options.stop));
    Ok(Box::new(HttpLink::new(url, authority, membership.coordinator, stop)?))
}

/// The command of the file as an objective.
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
        let mut session = Session::open(parts)?;
        observer.notice(&Notice::StudyOpened(&promise));
        if let Some(warning) = warning {
            observer.notice(&Notice::RoundsAreShort(&warning));
        }
        session.run()
    }
}

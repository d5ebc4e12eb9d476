//! An agent of a federation as a process of its own: it keeps its objective and its data, and talks to a coordinator.
//!
//! Decides what of an agent is durable and when, which handouts of a coordinator it accepts, when it sends, and what it may spend
//! on that over all its studies. What to try and what to send is decided by the machines of `fedbo-protocol`,
//! what the bytes look like by `fedbo-wire`. Runs without threads but for the waiting for answers.
//!
//! An agent is a log in its folder: a run replays it and goes on.
//! Start at [`enrol`], then [`run`], inside of it [`Session`]; `follower.rs` verifies handouts, `budget.rs` holds the
//! budget.

mod agent_file;
mod budget;
mod enrol;
mod error;
mod evidence;
mod exchange;
mod follower;
mod free;
mod home;
mod http_link;
mod link;
mod log;
mod machine;
mod mail;
mod membership;
mod misconduct;
mod observer;
mod pace;
mod protection;
mod reader;
mod rotate;
mod run;
mod schema;
mod session;
mod status;

pub use agent_file::{AgentFile, HOME};
pub use budget::{BudgetReached, PrivacyStatus, Unpriced};
pub use enrol::{EnrolOptions, enrol, enrol_showing, enrol_with};
pub use error::{EnrolError, RotateError, RunError};
pub use follower::NotFollowed;
pub use home::Home;
pub use http_link::HttpLink;
pub use link::{Link, Place, Poll, Polled, Progress, SignedConfig};
pub use log::UploadCounts;
pub use mail::{Mail, MailLink, RequestId, enrol_by_mail, run_by_mail};
pub use membership::Membership;
pub use misconduct::Misconduct;
pub use observer::{Notice, Observer, Silent};
pub use pace::short_rounds;
pub use protection::{Unprotected, protection};
pub use reader::ReleaseDefect;
pub use rotate::{LinkTo, rotate, rotate_with};
pub use run::{RunOptions, run, run_with};
pub use session::{Ended, Parts, Session, Step};
pub use status::{HomeStatus, MembershipStatus, status};

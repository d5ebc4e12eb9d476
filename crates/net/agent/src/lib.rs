//! An agent of a federation as a separate process, which keeps its objective and data and talks to
//! a coordinator.
//!
//! This crate decides what is stored and when, which handouts an agent accepts, when an agent
//! sends, and how much privacy budget it can spend over all its studies. The state machines of
//! `fedbo-protocol` decide which points to try and which messages to send; `fedbo-wire` defines the
//! byte formats. The crate starts threads only to wait for responses and to evaluate a trial at a
//! free pace.
//!
//! An agent's state is the log in its folder. A run replays the log and continues from there. To
//! read the code, start at [`enrol`], then see [`run`] and [`Session`]. `dialogue` decides on
//! requests and retries without I/O, `follower.rs` verifies handouts, and `budget.rs` contains the
//! budget.

mod account;
mod agent_file;
mod budget;
mod dialogue;
mod enrol;
mod error;
mod evidence;
mod exchange;
mod follower;
mod free;
mod home;
mod http_link;
mod intake;
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
mod reconcile;
mod relocate;
mod requests;
mod rotate;
mod rounds;
mod run;
mod schema;
mod session;
mod status;

pub use account::TakenOver;
pub use agent_file::{AgentFile, HOME};
pub use budget::{BudgetReached, PrivacyStatus, Unpriced};
pub use enrol::{EnrolOptions, enrol, enrol_showing, enrol_with};
pub use error::{EnrolError, MoveError, ReconcileError, RotateError, RunError};
pub use follower::NotFollowed;
pub use home::Home;
pub use http_link::HttpLink;
pub use link::{Caller, Link, Offer, Place, Poll, Polled, Progress};
pub use log::UploadCounts;
pub use mail::{Mail, MailLink, RequestId, enrol_by_mail, run_by_mail};
pub use membership::Membership;
pub use misconduct::Misconduct;
pub use observer::{Notice, Observer, Silent};
pub use pace::short_rounds;
pub use protection::{Unprotected, protection, weak_protection};
pub use reader::ReleaseDefect;
pub use reconcile::{Reconciled, reconcile, reconcile_with};
pub use relocate::{LinkAt, MoveOptions, move_to, move_with};
pub use rotate::{LinkTo, rotate, rotate_with};
pub use run::{RunOptions, run, run_with};
pub use session::{Ended, Parts, Session, Step};
pub use status::{HomeStatus, MembershipStatus, status};

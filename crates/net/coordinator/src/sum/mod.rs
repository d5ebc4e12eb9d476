//! The coordinator's additional tasks as the leader of a secure sum, for which another party runs
//! the second server.

mod helper;
mod intake;
mod rounds;
#[cfg(test)]
mod tests;

pub(crate) use helper::HelperFailed;
pub(crate) use intake::{NotVerified, SumIntake, Takes};
pub(crate) use rounds::LeaderRounds;

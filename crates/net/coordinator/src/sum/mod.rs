//! The leader of a secure sum: what the coordinator does beside collecting and releasing, where another party runs the second server.

mod helper;
mod intake;
mod rounds;
#[cfg(test)]
mod tests;

pub(crate) use helper::HelperFailed;
pub(crate) use intake::{NotVerified, SumIntake};
pub(crate) use rounds::LeaderRounds;

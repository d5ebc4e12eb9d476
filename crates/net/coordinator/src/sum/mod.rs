//! The leader of a secure sum: the coordinator's additional tasks if another party runs the second
//! server.

mod helper;
mod intake;
mod rounds;
#[cfg(test)]
mod tests;

pub(crate) use helper::HelperFailed;
pub(crate) use intake::{NotVerified, SumIntake, Takes};
pub(crate) use rounds::LeaderRounds;

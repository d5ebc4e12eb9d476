//! Players' decisions compared with plain enumeration, and guarantees of strategies, in small
//! games.
#![expect(clippy::unwrap_used, reason = "tests")]

mod beliefs;
mod continuous;
mod enumeration;
mod level0;
mod levels;
mod payoff_model;
mod record;

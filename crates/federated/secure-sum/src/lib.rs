//! Secure sums of vectors by two servers, run by two different parties. Neither server sees a
//! vector.
//!
//! An agent clips its vector, shares it out and proves its bound ([`Sharing::share`]). It seals one
//! share for each server ([`seal`]). The two servers verify each report together
//! ([`Sharing::verify`], [`Sharing::decide`], [`Sharing::accept`]) and add up their shares. Each
//! adds the whole noise of the mechanism ([`ServerRound`]). The sum of both [`NoisedShare`]s is the
//! release. The rest of a malicious server's view reveals nothing; [MECHANISM.md] has the argument.
//!
//! Defines shares, proofs, and the combination of shares to a release. Messages, sockets, ledgers
//! and clocks are up to other crates. [`SecureSumRounds`] runs all of it in one process.
//!
//! [MECHANISM.md]: https://github.com/fedbo/fedbo/blob/main/crates/federated/secure-sum/MECHANISM.md

mod circuit;
mod place;
mod rounds;
mod seal;
mod server;
mod shares;

pub use place::{Place, Sizes};
pub use rounds::{SecureSumRound, SecureSumRounds};
pub use seal::{NotOpened, NotSealed, OpeningKey, SealingKey, SealingPublicKey, seal, sealed_size};
pub use server::{NoisedShare, NotClosed, ServerRound, ShareRefused, combine};
pub use shares::{
    NoProof, NotShared, OutputShare, Proof, Report, ReportRefused, Sharing, VerificationKey,
    Verifying,
};

/// Fresh random bytes of the operating system, or an error message.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(format!("the operating system gave no random bytes ({error})")),
    }
}

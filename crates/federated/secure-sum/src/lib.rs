//! Secure sums of vectors, computed by two servers that are run by different parties. Neither
//! server sees a vector.
//!
//! An agent clips its vector, splits it into shares and proves its bound ([`Sharing::share`]). It
//! seals one share for each server ([`seal`]). The two servers jointly verify each report
//! ([`Sharing::verify`], [`Sharing::decide`], [`Sharing::accept`]) and add up their shares. Each
//! server adds the mechanism's full noise ([`ServerRound`]). The sum of both [`NoisedShare`]s is
//! the release. The rest of a malicious server's view reveals nothing; see [MECHANISM.md] for the
//! argument.
//!
//! This crate defines shares, proofs, and how shares are combined into a release. Other crates
//! handle messages, sockets, ledgers and clocks. [`SecureSumRounds`] runs the whole protocol in one
//! process.
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

/// Returns fresh random bytes from the operating system, or an error message.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(format!("the operating system provided no random bytes ({error})")),
    }
}

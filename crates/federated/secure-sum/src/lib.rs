//! A sum of vectors by two servers that two parties run, of which neither sees a vector.
//!
//! An agent clips its vector, shares it out and proves its bound ([`Sharing::share`]). It seals one share for each server
//! ([`SealingKey`]). The two servers verify each report together ([`Sharing::verify`], [`Sharing::decide`], [`Sharing::accept`]), add
//! up what they hold, and each adds the whole noise of the mechanism ([`ServerRound`]). The sum of both [`NoisedShare`]s is the
//! release. What a bad server knows beyond it says nothing; [MECHANISM.md] has the argument.
//!
//! Decides what a share is, what is proved, and how shares become a release. Leaves messages, sockets, ledgers and clocks to others.
//! [`SecureSumRounds`] is the whole in one process.
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
pub use seal::{NotOpened, NotSealed, SealingKey, SealingPublicKey};
pub use server::{NoisedShare, ServerRound, ShareRefused, SlotsMissing, combine};
pub use shares::{
    NoProof, NotShared, OutputShare, Proof, Report, ReportRefused, Sharing, VerificationKey,
    Verifying,
};

/// Fresh bytes of the operating system; an error in words.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(format!("the operating system gave no random bytes ({error})")),
    }
}

//! The place of a report, to which seals and proofs are bound, and the sizes of a report's parts.

use fedbo_privacy::mechanism::Server;

/// The study, round and slot of a report. A report is valid only in its own place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Digest of the study's public configuration.
    pub study: [u8; 32],
    /// The round.
    pub round: u64,
    /// The agent's slot.
    pub slot: u32,
}

impl Place {
    /// Returns the context of a proof: the study and the round. Together with the servers' shared
    /// key and the nonce, the context determines the proof's query randomness.
    #[must_use]
    pub fn context(&self) -> Vec<u8> {
        [self.study.as_slice(), &self.round.to_le_bytes()].concat()
    }

    /// Returns the HPKE `info` of a share sealed for a server.
    #[must_use]
    pub fn info(&self, server: Server) -> Vec<u8> {
        let purpose: &[u8] = match server {
            Server::Leader => b"fedbo secure sum, share for the leader\0",
            Server::Helper => b"fedbo secure sum, share for the helper\0",
        };
        let (round, slot) = (self.round.to_le_bytes(), self.slot.to_le_bytes());
        [purpose, &self.study, &round, &slot].concat()
    }
}

/// Sizes in bytes of the parts of a report and of its verification. They do not depend on the
/// vector (INV-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The public share, which both servers receive.
    pub public: usize,
    /// The leader's share.
    pub leader: usize,
    /// The helper's share.
    pub helper: usize,
    /// A server's verifier share.
    pub verifier: usize,
    /// The verifier message.
    pub message: usize,
}

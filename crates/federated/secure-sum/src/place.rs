//! The place of a report, which seals and proofs are bound to, and the sizes of its parts.

use fedbo_privacy::mechanism::Server;

/// The study, round and slot that a report is made for: it is of use nowhere else.
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
    /// The context of proofs: study and round. The servers' common key, the nonce and this make where a proof is looked at.
    #[must_use]
    pub fn context(&self) -> Vec<u8> {
        [self.study.as_slice(), &self.round.to_le_bytes()].concat()
    }

    /// The words under which a share is sealed for a server.
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

/// Bytes of the parts of a report and of its verification; the same for every vector (INV-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Of the part that both servers see.
    pub public: usize,
    /// Of the leader's share.
    pub leader: usize,
    /// Of the helper's share.
    pub helper: usize,
    /// Of a server's share of the verification.
    pub verifier: usize,
    /// Of the common answer.
    pub message: usize,
}

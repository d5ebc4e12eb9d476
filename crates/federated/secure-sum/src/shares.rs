//! Secret sharing of a vector between two servers, and the joint verification of its bound.

use std::fmt;

use fedbo_privacy::mechanism::{Mechanism, Server};
use prio::codec::{Encode, ParameterizedDecode};
use prio::field::Field64;
use prio::flp::Type;
use prio::flp::gadgets::{Mul, ParallelSum};
use prio::flp::types::SumVec;
use prio::vdaf::prio3::{
    Prio3, Prio3InputShare, Prio3PublicShare, Prio3VerifierMessage, Prio3VerifierShare,
    Prio3VerifyState, optimal_chunk_length,
};
use prio::vdaf::xof::{IntoFieldVec, Xof, XofTurboShake128};
use prio::vdaf::{Aggregator as _, Client as _, VerifyTransition};
use zeroize::Zeroizing;

use crate::circuit::NormBound;
use crate::{Sizes, random_bytes};

/// Size in bytes of a seed, a verification key and a verifier message.
const SEED: usize = 32;

/// Size in bytes of a field element.
const NUMBER: usize = 8;

/// Number of proofs per vector. Over a 64-bit field, their joint soundness error is near 2^−128.
/// With joint randomness, this field requires three proofs (draft-irtf-cfrg-vdaf-18, section 7).
const PROOFS: u8 = 3;

/// Identifier of the algorithm, from the private range of draft-irtf-cfrg-vdaf-18.
const NORM_BOUND_ID: u32 = 0xFFFF_FB01;
const SUM_VEC_ID: u32 = 0xFFFF_FB02;

type Standard = SumVec<Field64, ParallelSum<Field64, Mul>>;
type Vdaf<T> = Prio3<T, XofTurboShake128, SEED>;

/// The bound that each agent proves for its vector. Privacy does not depend on it, because an
/// honest agent clips its own vector. The bound limits a dishonest agent's weight in a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// The vector's Euclidean norm is at most K. A dishonest agent has at most the weight of one
    /// honest agent.
    #[default]
    L2,
    /// Each number is within 2^(b−1). A dishonest agent has at most the weight of √M honest agents.
    /// Uses only standard components (`Prio3SumVec`).
    LInf,
    /// No bound. A dishonest agent controls the sum.
    None,
}

impl Proof {
    /// All variants, with their names in configuration files.
    pub const NAMED: [(&str, Self); 3] =
        [("l2", Self::L2), ("linf", Self::LInf), ("none", Self::None)];

    /// Returns the name in configuration files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::LInf => "linf",
            Self::None => "none",
        }
    }
}

/// The reason that a report is not counted. The reason reveals nothing about honest agents'
/// vectors, because honest reports are always accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportRefused {
    /// The bytes do not encode a valid share.
    #[error("the {part} cannot be read")]
    Unreadable {
        /// The invalid part.
        part: &'static str,
    },
    /// The proof is wrong, or the two servers have shares of different vectors.
    #[error("the proof does not hold")]
    Proof,
}

/// The error if an agent could not split its own vector into shares.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the vector cannot be split into shares: {0}")]
pub struct NotShared(String);

/// The error if no proof exists for the parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no sum of {n_features} numbers of {bits} bits can be proved")]
pub struct NoProof {
    /// Number of entries of a vector.
    pub n_features: u32,
    /// Bits per entry.
    pub bits: u32,
}

/// An agent's report, with one share for each server. All parts have a fixed length. Each share on
/// its own is uniformly distributed.
pub struct Report {
    /// 16 fresh bytes that identify the report.
    pub nonce: [u8; 16],
    /// The public share, which both servers receive.
    pub public: Vec<u8>,
    /// The leader's share.
    pub leader: Zeroizing<Vec<u8>>,
    /// The helper's share.
    pub helper: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Report {
    /// Prints only lengths.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (public, leader, helper) = (self.public.len(), self.leader.len(), self.helper.len());
        write!(f, "Report {{ {public} + {leader} + {helper} bytes }}")
    }
}

/// A server's verified share of a vector, which reveals nothing without the other server's share.
#[derive(Clone, PartialEq, Eq)]
pub struct OutputShare(pub(crate) Vec<Field64>);

impl fmt::Debug for OutputShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutputShare {{ {} numbers }}", self.0.len())
    }
}

/// A server's verification state for a report, until the servers have their verifier message.
#[derive(Clone)]
pub struct Verifying(State);

#[derive(Clone)]
enum State {
    Proved(Box<Prio3VerifyState<Field64, SEED>>),
    Unproved(OutputShare),
}

impl fmt::Debug for Verifying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifying")
    }
}

/// A study's public parameters for secret sharing between two servers, including the proved bound.
#[derive(Clone, Debug)]
pub struct Sharing {
    mechanism: Mechanism,
    n_features: usize,
    bits: u32,
    proof: Proof,
    kind: ProofKind,
    sizes: Sizes,
}

#[derive(Clone, Debug)]
enum ProofKind {
    L2(Vdaf<NormBound>),
    LInf(Vdaf<Standard>),
    None,
}

/// Evaluates an expression with the VDAF of whichever circuit is in use.
macro_rules! with_vdaf {
    ($kind:expr, $vdaf:ident => $do:expr, $none:expr) => {
        match $kind {
            ProofKind::L2($vdaf) => $do,
            ProofKind::LInf($vdaf) => $do,
            ProofKind::None => $none,
        }
    };
}

impl Sharing {
    /// Creates the sharing of a mechanism's vectors for a secure sum. The last `n_witnesses`
    /// coordinates are not features: servers add noise there, and agents add nothing.
    ///
    /// # Errors
    /// If no proof exists for these parameters.
    pub fn new(
        mechanism: Mechanism,
        n_witnesses: u32,
        bits: u32,
        proof: Proof,
    ) -> Result<Self, NoProof> {
        let n_features = mechanism.settings().n_features.saturating_sub(n_witnesses);
        let refused = || NoProof { n_features, bits };
        let len = n_features as usize;
        let (kind, sizes) = match proof {
            Proof::L2 => {
                let circuit = NormBound::new(len, bits, mechanism.lattice().bound());
                let circuit = circuit.ok_or_else(refused)?;
                let sizes = sizes_of(&circuit);
                let vdaf = Prio3::new(2, PROOFS, NORM_BOUND_ID, circuit);
                (ProofKind::L2(vdaf.map_err(|_| refused())?), sizes)
            }
            Proof::LInf => {
                let chunk = optimal_chunk_length(len * bits as usize);
                let circuit: Standard =
                    SumVec::new((1 << bits) - 1, len, chunk).map_err(|_| refused())?;
                let sizes = sizes_of(&circuit);
                let vdaf = Prio3::new(2, PROOFS, SUM_VEC_ID, circuit);
                (ProofKind::LInf(vdaf.map_err(|_| refused())?), sizes)
            }
            Proof::None => {
                let leader = NUMBER * len;
                let sizes = Sizes { public: 0, leader, helper: SEED, verifier: 0, message: 0 };
                (ProofKind::None, sizes)
            }
        };
        Ok(Self { mechanism, n_features: len, bits, proof, kind, sizes })
    }

    /// Returns the mechanism. Each server adds the mechanism's full noise.
    #[must_use]
    pub fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// Returns M, not counting the coordinates that hold only noise.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.n_features
    }

    /// Returns b, the number of bits of each entry of a vector.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the proved bound.
    #[must_use]
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// Returns the sizes in bytes of the parts of a report.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Returns 2^(b−1), added to each number of a vector before sharing.
    pub(crate) fn offset(&self) -> u64 {
        1 << (self.bits - 1)
    }

    /// Clips a vector as the mechanism does (INV-7) and splits it into shares. `context` identifies
    /// the study and the round. Draws a fresh nonce for the report.
    ///
    /// # Errors
    /// If the vector has the wrong length, or the operating system provides no random bytes.
    pub fn share(&self, context: &[u8], vector: &[f64]) -> Result<Report, NotShared> {
        if vector.len() != self.n_features {
            let found = vector.len();
            return Err(NotShared(format!("it has {found} numbers, not {}", self.n_features)));
        }
        self.share_whole(context, &self.mechanism.clipped(vector))
    }

    /// Splits a vector of integers, in units of the lattice spacing, into shares. With a proof, a
    /// vector beyond the bound is refused.
    pub(crate) fn share_whole(&self, context: &[u8], vector: &[i64]) -> Result<Report, NotShared> {
        let nonce = random_bytes().map_err(NotShared)?;
        let offset = self.offset().cast_signed();
        let raised = || vector.iter().map(|x| x.wrapping_add(offset).cast_unsigned());
        match &self.kind {
            ProofKind::L2(vdaf) => proved(vdaf, context, &vector.to_vec(), nonce),
            ProofKind::LInf(vdaf) => proved(vdaf, context, &raised().collect(), nonce),
            ProofKind::None => {
                let seed = Zeroizing::new(random_bytes().map_err(NotShared)?);
                let helper = expanded(&seed, context, &nonce, self.n_features);
                let mut leader = Zeroizing::new(Vec::with_capacity(8 * self.n_features));
                for (number, other) in raised().zip(&helper.0) {
                    leader.extend(u64::from(Field64::from(number) - *other).to_le_bytes());
                }
                let helper = Zeroizing::new(seed.to_vec());
                Ok(Report { nonce, public: Vec::new(), leader, helper })
            }
        }
    }

    /// Performs a server's first verification step. Returns the state to keep and the verifier
    /// share to send.
    ///
    /// `key` is the servers' shared key, which no agent knows.
    ///
    /// # Errors
    /// If the bytes do not encode a valid share.
    pub fn verify(
        &self,
        server: Server,
        key: &VerificationKey,
        context: &[u8],
        (nonce, public, share): (&[u8; 16], &[u8], &[u8]),
    ) -> Result<(Verifying, Vec<u8>), ReportRefused> {
        with_vdaf!(&self.kind, vdaf => {
            let unreadable = |part| move |_| ReportRefused::Unreadable { part };
            let public = Prio3PublicShare::get_decoded_with_param(vdaf, public)
                .map_err(unreadable("public share"))?;
            let share = Prio3InputShare::get_decoded_with_param(&(vdaf, index(server)), share)
                .map_err(unreadable("share"))?;
            let (state, verifier) = vdaf
                .verify_init(&key.0, context, index(server), &(), nonce, &public, &share)
                .map_err(|_| ReportRefused::Proof)?;
            let verifier = verifier.get_encoded().map_err(|_| ReportRefused::Proof)?;
            Ok((Verifying(State::Proved(Box::new(state))), verifier))
        }, {
            let unreadable = || ReportRefused::Unreadable { part: "share" };
            if !public.is_empty() {
                return Err(ReportRefused::Unreadable { part: "public share" });
            }
            let output = match server {
                Server::Helper => {
                    let seed = share.try_into().map_err(|_| unreadable())?;
                    expanded(seed, context, nonce, self.n_features)
                }
                Server::Leader => numbers(share, self.n_features).ok_or_else(unreadable)?,
            };
            Ok((Verifying(State::Unproved(output)), Vec::new()))
        })
    }

    /// Combines both servers' verifier shares into the verifier message for a report.
    ///
    /// # Errors
    /// If the proof does not hold, or a verifier share is not valid.
    pub fn decide(
        &self,
        context: &[u8],
        state: &Verifying,
        shares: [&[u8]; 2],
    ) -> Result<Vec<u8>, ReportRefused> {
        with_vdaf!(&self.kind, vdaf => {
            let State::Proved(state) = &state.0 else {
                return Err(ReportRefused::Proof);
            };
            let read = |share: &[u8]| Prio3VerifierShare::get_decoded_with_param(&**state, share);
            let [leader, helper] = shares.map(read);
            let unreadable = |_| ReportRefused::Unreadable { part: "verifier share" };
            let shares = [leader.map_err(unreadable)?, helper.map_err(unreadable)?];
            let message = vdaf.verifier_shares_to_message(context, &(), shares);
            let message = message.map_err(|_| ReportRefused::Proof)?;
            message.get_encoded().map_err(|_| ReportRefused::Proof)
        }, match shares.iter().all(|share| share.is_empty()) {
            true => Ok(Vec::new()),
            false => Err(ReportRefused::Unreadable { part: "verifier share" }),
        })
    }

    /// Completes a report's verification with the verifier message, and returns this server's share
    /// of the vector.
    ///
    /// # Errors
    /// If the message is not valid, or the servers did not see the same report.
    pub fn accept(
        &self,
        context: &[u8],
        state: Verifying,
        message: &[u8],
    ) -> Result<OutputShare, ReportRefused> {
        let state = match state.0 {
            State::Unproved(output) if message.is_empty() => return Ok(output),
            State::Unproved(_) => return Err(ReportRefused::Proof),
            State::Proved(state) => *state,
        };
        with_vdaf!(&self.kind, vdaf => {
            let message = Prio3VerifierMessage::get_decoded_with_param(&state, message)
                .map_err(|_| ReportRefused::Unreadable { part: "verifier message" })?;
            match vdaf.verify_next(context, state, message) {
                Ok(VerifyTransition::Finish(output)) => Ok(OutputShare(output.as_ref().to_vec())),
                Ok(VerifyTransition::Continue(..)) | Err(_) => Err(ReportRefused::Proof),
            }
        }, Err(ReportRefused::Proof))
    }
}

/// Computes the sizes in bytes of a report's parts, for a circuit with joint randomness
/// (draft-irtf-cfrg-vdaf-18, section 7.2).
fn sizes_of<T: Type<Field = Field64>>(circuit: &T) -> Sizes {
    let proofs = usize::from(PROOFS);
    Sizes {
        public: 2 * SEED,
        leader: NUMBER * (circuit.input_len() + proofs * circuit.proof_len()) + SEED,
        helper: 2 * SEED,
        verifier: NUMBER * proofs * circuit.verifier_len() + SEED,
        message: SEED,
    }
}

/// Splits a measurement into shares, with proofs.
fn proved<T: Type<Field = Field64>>(
    vdaf: &Vdaf<T>,
    context: &[u8],
    measurement: &T::Measurement,
    nonce: [u8; 16],
) -> Result<Report, NotShared> {
    let refused = |error: &dyn fmt::Display| NotShared(error.to_string());
    let (public, shares) = vdaf.shard(context, measurement, &nonce).map_err(|e| refused(&e))?;
    let mut shares = shares.iter().map(Encode::get_encoded);
    let mut next = || match shares.next() {
        Some(share) => share.map(Zeroizing::new).map_err(|e| refused(&e)),
        None => Err(NotShared("a share is missing".to_owned())),
    };
    let (leader, helper) = (next()?, next()?);
    let public = public.get_encoded().map_err(|e| refused(&e))?;
    Ok(Report { nonce, public, leader, helper })
}

/// Expands the helper's share of a vector without a proof from its seed.
fn expanded(seed: &[u8; SEED], context: &[u8], nonce: &[u8; 16], n: usize) -> OutputShare {
    let tag: &[u8] = b"fedbo secure sum, share without proof";
    let stream = XofTurboShake128::seed_stream(seed, &[tag, context], &[nonce]);
    OutputShare(stream.into_field_vec(n))
}

/// Parses numbers below p, 8 bytes each.
fn numbers(bytes: &[u8], n: usize) -> Option<OutputShare> {
    let read = bytes.chunks(8).map(|chunk| Field64::try_from(chunk).ok());
    let read: Option<Vec<Field64>> = read.collect();
    read.filter(|read| read.len() == n).map(OutputShare)
}

/// A server's index in the VDAF.
fn index(server: Server) -> usize {
    match server {
        Server::Leader => 0,
        Server::Helper => 1,
    }
}

/// The seed of the proofs' query randomness, shared by both servers. Agents must not know it,
/// because they could then construct false proofs that pass the queries.
#[derive(Clone)]
pub struct VerificationKey(pub(crate) Zeroizing<[u8; SEED]>);

impl fmt::Debug for VerificationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VerificationKey")
    }
}

#[cfg(test)]
mod tests {
    use fedbo_privacy::accounting::{NoiseMultiplier, SamplingRate};
    use fedbo_privacy::mechanism::MechanismSettings;
    use prio::field::FieldElement as _;

    use super::*;
    use crate::circuit::tests::{Cheating, wires};

    const CONTEXT: &[u8] = b"study, round 3";

    fn sharing(n_features: u32, proof: Proof) -> Sharing {
        let mechanism = Mechanism::for_secure_sum(
            MechanismSettings {
                n_slots: 9,
                n_regions: 2,
                n_features: n_features + 3,
                max_norm: 1.99 * 2.0_f64.sqrt(),
                sampling_rate: SamplingRate::ALL,
                noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
            },
            12,
        );
        Sharing::new(mechanism.unwrap(), 3, 12, proof).unwrap()
    }

    fn key() -> VerificationKey {
        VerificationKey(Zeroizing::new([9; SEED]))
    }

    fn verified(sharing: &Sharing, report: &Report) -> Result<[OutputShare; 2], ReportRefused> {
        let look = |server, share: &[u8]| {
            let parts = (&report.nonce, report.public.as_slice(), share);
            sharing.verify(server, &key(), CONTEXT, parts)
        };
        let (of_leader, from_leader) = look(Server::Leader, &report.leader)?;
        let (of_helper, from_helper) = look(Server::Helper, &report.helper)?;
        let answer = sharing.decide(CONTEXT, &of_helper, [&from_leader, &from_helper])?;
        let leader = sharing.accept(CONTEXT, of_leader, &answer)?;
        Ok([leader, sharing.accept(CONTEXT, of_helper, &answer)?])
    }

    fn sum(sharing: &Sharing, shares: &[OutputShare; 2]) -> Vec<i64> {
        let numbers = shares[0].0.iter().zip(&shares[1].0);
        let offset = Field64::from(sharing.offset());
        let whole = |x: Field64| match u64::from(x) {
            x if x > u64::MAX / 2 => -i64::try_from(u64::from(-Field64::from(x))).unwrap(),
            x => i64::try_from(x).unwrap(),
        };
        numbers.map(|(a, b)| whole(*a + *b - offset)).collect()
    }

    /// Builds the report of an agent that shares arbitrary wires, with the best proof that it can
    /// make.
    fn cheated(sharing: &Sharing, vector: &[i64], slack: u64) -> Report {
        let len = sharing.n_features();
        let norm = sharing.mechanism().lattice().bound();
        let circuit = NormBound::new(len, sharing.bits(), norm).unwrap();
        report_of(&circuit, &wires(&circuit, vector, slack))
    }

    fn report_of(circuit: &NormBound, wires: &Vec<Field64>) -> Report {
        let vdaf: Vdaf<Cheating> =
            Prio3::new(2, PROOFS, NORM_BOUND_ID, Cheating(circuit.clone())).unwrap();
        proved(&vdaf, CONTEXT, wires, random_bytes().unwrap()).unwrap()
    }

    #[test]
    fn shares_add_up_to_the_vector_with_every_proof() {
        for proof in [Proof::L2, Proof::LInf, Proof::None] {
            let sharing = sharing(7, proof);
            let vector = [0.3, -0.2, 1.0, -1.0, 0.0, 1e-9, -0.5];
            let report = sharing.share(CONTEXT, &vector).unwrap();
            let shares = verified(&sharing, &report).unwrap();
            assert_eq!(sum(&sharing, &shares), *sharing.mechanism().clipped(&vector), "{proof:?}");
            let once_more = sharing.share(CONTEXT, &vector).unwrap();
            assert_ne!(once_more.leader, report.leader);
            assert_ne!(once_more.nonce, report.nonce);
            let sizes =
                |report: &Report| (report.public.len(), report.leader.len(), report.helper.len());
            let expected = sharing.sizes();
            assert_eq!(sizes(&report), (expected.public, expected.leader, expected.helper));
            let parts = (&report.nonce, report.public.as_slice(), report.leader.as_slice());
            let (_, verifier) = sharing.verify(Server::Leader, &key(), CONTEXT, parts).unwrap();
            assert_eq!(verifier.len(), expected.verifier);
            // The size does not depend on the vector.
            for other in [[0.0; 7], [1e300; 7], [f64::NAN; 7]] {
                let other = sharing.share(CONTEXT, &other).unwrap();
                assert_eq!(sizes(&other), sizes(&report));
                verified(&sharing, &other).unwrap();
            }
        }
    }

    #[test]
    fn a_vector_of_norm_k_is_accepted_and_one_a_little_longer_is_not() {
        let sharing = sharing(5, Proof::L2);
        let k = sharing.mechanism().lattice().bound().cast_signed();
        assert_eq!(k, 2037);
        let most = |vector: &[i64]| {
            let squares: i64 = vector.iter().map(|x| x * x).sum();
            (k * k - squares).cast_unsigned()
        };
        let edge = [k, 0, 0, 0, 0];
        let report = cheated(&sharing, &edge, most(&edge));
        assert_eq!(sum(&sharing, &verified(&sharing, &report).unwrap()), edge);
        // A squared norm of K² + 1, with various slacks, including a negative one.
        let long = [k, 1, 0, 0, 0];
        for slack in [0, 1, most(&long), u64::MAX, 1 << 21] {
            let refused = verified(&sharing, &cheated(&sharing, &long, slack));
            assert_eq!(refused.unwrap_err(), ReportRefused::Proof, "{slack}");
        }
        // A dishonest agent cannot have the weight of many agents.
        let loud = [2047; 5];
        let refused = verified(&sharing, &cheated(&sharing, &loud, 0));
        assert_eq!(refused.unwrap_err(), ReportRefused::Proof);
        let linf = self::sharing(5, Proof::LInf);
        let report = linf.share_whole(CONTEXT, &loud).unwrap();
        assert_eq!(sum(&linf, &verified(&linf, &report).unwrap()), loud);
        assert!(linf.share_whole(CONTEXT, &[2048; 5]).is_err());
        let none = self::sharing(5, Proof::None);
        let report = none.share_whole(CONTEXT, &[1_000_000; 5]).unwrap();
        assert_eq!(sum(&none, &verified(&none, &report).unwrap()), [1_000_000; 5]);
    }

    /// A wire that is not a bit could encode a number that wraps around the modulus and satisfies
    /// the sum of squares.
    #[test]
    fn wires_that_are_no_bits_are_refused() {
        let sharing = sharing(2, Proof::L2);
        let k = sharing.mechanism().lattice().bound();
        let circuit = NormBound::new(2, sharing.bits(), k).unwrap();
        let honest = wires(&circuit, &[1, 2], k * k - 5);
        verified(&sharing, &report_of(&circuit, &honest)).unwrap();
        for (at, value) in (0..honest.len()).flat_map(|at| [(at, 2), (at, u64::MAX), (at, 3)]) {
            let mut changed = honest.clone();
            changed[at] = Field64::from(value);
            let refused = verified(&sharing, &report_of(&circuit, &changed));
            assert_eq!(refused.unwrap_err(), ReportRefused::Proof, "wire {at} = {value}");
        }
        // The whole slack is on one wire, so the sum of squares is satisfied for any vector.
        let mut wrapped = wires(&circuit, &[2047, 2047], 0);
        let slack = Field64::from(k * k) - Field64::from(2 * 2047 * 2047);
        let first = 2 * sharing.bits() as usize;
        wrapped[first] = slack;
        let refused = verified(&sharing, &report_of(&circuit, &wrapped));
        assert_eq!(refused.unwrap_err(), ReportRefused::Proof);
    }

    fn mutated(sharing: &Sharing, n: usize) {
        let report = sharing.share(CONTEXT, &vec![0.1; sharing.n_features()]).unwrap();
        let mut random = 0x1234_5678_u64;
        let mut draw = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(random >> 33).unwrap() % below
        };
        for trial in 0..n {
            let mut changed = Report {
                nonce: report.nonce,
                public: report.public.clone(),
                leader: report.leader.clone(),
                helper: report.helper.clone(),
            };
            let bytes: &mut [u8] = match trial % 4 {
                0 => &mut changed.nonce,
                1 => &mut changed.public,
                2 => &mut changed.helper,
                _ => &mut changed.leader,
            };
            let at = draw(bytes.len());
            bytes[at] ^= 1 << draw(8);
            assert!(verified(sharing, &changed).is_err(), "trial {trial}, byte {at}");
        }
    }

    #[test]
    fn a_report_with_a_changed_bit_is_refused() {
        mutated(&sharing(3, Proof::L2), 400);
        mutated(&sharing(3, Proof::LInf), 200);
    }

    #[test]
    #[ignore = "long: run by cargo xtask test --long"]
    fn a_million_reports_with_a_changed_bit_are_refused() {
        mutated(&sharing(3, Proof::L2), 1_000_000);
    }

    #[test]
    fn a_report_of_another_round_and_a_key_of_another_study_are_refused() {
        let sharing = sharing(3, Proof::L2);
        let report = sharing.share(b"another round", &[0.1, 0.2, 0.3]).unwrap();
        assert_eq!(verified(&sharing, &report).unwrap_err(), ReportRefused::Proof);
        // The servers use different keys, so the leader's verifier share does not match.
        let report = sharing.share(CONTEXT, &[0.1, 0.2, 0.3]).unwrap();
        let other = VerificationKey(Zeroizing::new([8; SEED]));
        let look = |server, key: &VerificationKey, share: &[u8]| {
            let parts = (&report.nonce, report.public.as_slice(), share);
            sharing.verify(server, key, CONTEXT, parts).unwrap()
        };
        let (_, from_leader) = look(Server::Leader, &other, &report.leader);
        let (state, from_helper) = look(Server::Helper, &key(), &report.helper);
        let decided = sharing.decide(CONTEXT, &state, [&from_leader, &from_helper]);
        assert_eq!(decided.unwrap_err(), ReportRefused::Proof);
    }

    #[test]
    fn what_is_no_share_is_refused_and_nothing_panics() {
        for proof in [Proof::L2, Proof::LInf, Proof::None] {
            let sharing = sharing(3, proof);
            let report = sharing.share(CONTEXT, &[0.0; 3]).unwrap();
            for server in [Server::Leader, Server::Helper] {
                let share = match server {
                    Server::Leader => &report.leader,
                    Server::Helper => &report.helper,
                };
                let long = [share.as_slice(), &[0]].concat();
                for bytes in [&[][..], &share[1..], &long] {
                    let parts = (&report.nonce, report.public.as_slice(), bytes);
                    assert!(sharing.verify(server, &key(), CONTEXT, parts).is_err());
                }
                let parts = (&report.nonce, &[1_u8, 2][..], share.as_slice());
                assert!(sharing.verify(server, &key(), CONTEXT, parts).is_err());
                let parts = (&report.nonce, report.public.as_slice(), share.as_slice());
                let (state, _) = sharing.verify(server, &key(), CONTEXT, parts).unwrap();
                assert!(sharing.decide(CONTEXT, &state, [&[1], &[2]]).is_err());
                assert!(sharing.accept(CONTEXT, state, &[1, 2, 3]).is_err());
            }
            assert!(sharing.share(CONTEXT, &[0.0; 4]).is_err());
        }
        assert_eq!(Field64::zero(), Field64::from(0));
    }
}

//! The validity circuit, which defines the statement that agents prove about their vectors.

use prio::field::{Field64, FieldElement, FieldElementWithInteger};
use prio::flp::gadgets::{Mul, ParallelSum, ParallelSumGadget};
use prio::flp::{Flp, FlpError, Gadget, Type};

/// The gadget: each call returns a sum of products.
type Products = ParallelSum<Field64, Mul>;

/// Accepts exactly the integer vectors x with entries from −2^(b−1) to 2^(b−1) − 1 and Σ x² ≤ K².
///
/// The input consists of the b bits of each x + 2^(b−1), followed by the bits of a slack s. The
/// circuit checks that a random combination of `w (w − 1)` over all wires is 0, which shows that
/// each wire is 0 or 1, and that Σ x² + s − K² is 0. The latter equation also holds over the
/// integers, because both sides are below p: n 4^(b−1) + 2^(bits of K²) < p. Since s is not
/// negative, Σ x² is at most K².
///
/// A single gadget computes all products, because the construction of Boneh, Boyle, Corrigan-Gibbs,
/// Gilboa and Ishai (2019, "Zero-knowledge proofs on secret-shared data via fully linear PCPs",
/// theorem 4.3) is proved for one gadget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NormBound {
    /// n, the number of entries of a vector.
    len: usize,
    /// b, the number of bits of an entry.
    bits: usize,
    /// K².
    bound: u64,
    /// Number of bits of K².
    slack_bits: usize,
    /// Products per gadget call.
    chunk: usize,
    /// Gadget calls for the wires.
    range_calls: usize,
    /// Gadget calls for the squares.
    square_calls: usize,
}

impl NormBound {
    /// Creates the circuit for vectors of `len` numbers with `bits` bits each and a norm of at most
    /// `norm`. Returns `None` if a parameter is out of range, or if the sums could exceed p.
    pub(crate) fn new(len: usize, bits: u32, norm: u64) -> Option<Self> {
        let bound = norm.checked_mul(norm).filter(|bound| *bound > 0)?;
        let slack_bits = (u64::BITS - bound.leading_zeros()) as usize;
        let largest = (len as u128).checked_mul(1 << (2 * bits.checked_sub(1)?.min(60)))?;
        let largest = largest.checked_add(1 << slack_bits)?;
        if len == 0 || bits > 40 || largest >= u128::from(Field64::modulus()) {
            return None;
        }
        let bits = bits as usize;
        let wires = len * bits + slack_bits;
        let (chunk, range_calls, square_calls) = chunks(wires, len);
        Some(Self { len, bits, bound, slack_bits, chunk, range_calls, square_calls })
    }

    fn calls(&self) -> usize {
        self.range_calls + self.square_calls
    }

    fn offset(&self) -> u64 {
        1 << (self.bits - 1)
    }
}

/// Returns the chunk size (products per call) and the numbers of calls for wires and for squares
/// that minimize the proof length. The calls, plus the random seed of each gadget wire, fill a
/// power of two.
fn chunks(wires: usize, squares: usize) -> (usize, usize, usize) {
    let calls = |chunk: usize| (wires.div_ceil(chunk), squares.div_ceil(chunk));
    let fits = |chunk: usize, most: usize| {
        let (range, square) = calls(chunk);
        range + square <= most
    };
    let of_most = |most: usize| {
        // The smallest chunk that needs at most `most` calls.
        let (mut low, mut high) = (1, wires);
        while low < high {
            let middle = low.midpoint(high);
            match fits(middle, most) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low
    };
    let candidates = (2..=(wires + squares + 1).ilog2() + 1).map(|log| {
        let most = (1_usize << log) - 1;
        (of_most(most), most)
    });
    let best = candidates.min_by_key(|(chunk, most)| 2 * chunk + 2 * most);
    let chunk = best.map_or(wires, |(chunk, _)| chunk);
    let (range, square) = calls(chunk);
    (chunk, range, square)
}

/// Decodes a number from its bits on these wires.
fn number(wires: &[Field64]) -> Field64 {
    let mut weight = Field64::one();
    let mut sum = Field64::zero();
    for wire in wires {
        sum += *wire * weight;
        weight += weight;
    }
    sum
}

/// Returns the bits of a number, lowest bit first. No branch depends on the number (INV-5).
pub(crate) fn wires_of(number: u64, bits: usize) -> impl Iterator<Item = Field64> {
    (0..bits).map(move |place| Field64::from((number >> place) & 1))
}

impl Flp for NormBound {
    type Field = Field64;

    fn gadget(&self) -> Vec<Box<dyn Gadget<Field64>>> {
        vec![Box::new(Products::new(Mul::new(self.calls()), self.chunk))]
    }

    fn num_gadgets(&self) -> usize {
        1
    }

    fn valid(
        &self,
        gadgets: &mut Vec<Box<dyn Gadget<Field64>>>,
        input: &[Field64],
        joint_rand: &[Field64],
        num_shares: usize,
    ) -> Result<Vec<Field64>, FlpError> {
        self.valid_call_check(input, joint_rand)?;
        let gadget = gadgets
            .first_mut()
            .ok_or_else(|| FlpError::InvalidParameter("no gadget was given".to_owned()))?;
        // Constants are split equally between the servers.
        let share = Field64::from(num_shares as u64).inv();
        let mut products = vec![Field64::zero(); 2 * self.chunk];
        let mut range = Field64::zero();
        for (chunk, random) in input.chunks(self.chunk).zip(joint_rand) {
            let mut weight = *random;
            for (at, pair) in products.as_chunks_mut().0.iter_mut().enumerate() {
                let wire = chunk.get(at).copied().unwrap_or_else(Field64::zero);
                *pair = [weight * wire, wire - share];
                weight *= *random;
            }
            range += gadget.eval(&products)?;
        }
        let (vector, slack) = input.split_at(self.len * self.bits);
        let offset = Field64::from(self.offset()) * share;
        let numbers: Vec<Field64> =
            vector.chunks(self.bits).map(|wires| number(wires) - offset).collect();
        let mut squares = number(slack) - Field64::from(self.bound) * share;
        for chunk in numbers.chunks(self.chunk) {
            for (at, pair) in products.as_chunks_mut().0.iter_mut().enumerate() {
                *pair = [chunk.get(at).copied().unwrap_or_else(Field64::zero); 2];
            }
            squares += gadget.eval(&products)?;
        }
        Ok(vec![range, squares])
    }

    fn input_len(&self) -> usize {
        self.len * self.bits + self.slack_bits
    }

    fn proof_len(&self) -> usize {
        2 * self.chunk + 2 * ((1 + self.calls()).next_power_of_two() - 1) + 1
    }

    fn verifier_len(&self) -> usize {
        2 + 2 * self.chunk
    }

    fn joint_rand_len(&self) -> usize {
        self.range_calls
    }

    fn eval_output_len(&self) -> usize {
        2
    }

    fn prove_rand_len(&self) -> usize {
        2 * self.chunk
    }
}

impl Type for NormBound {
    type Measurement = Vec<i64>;
    type AggregateResult = Vec<u64>;

    /// Encodes a vector as wires. Fails if the vector's norm exceeds the bound. Only the agent
    /// itself sees this error.
    fn encode_measurement(&self, vector: &Vec<i64>) -> Result<Vec<Field64>, FlpError> {
        let refused = |what: &str| FlpError::Encode(what.to_owned());
        let offset = self.offset().cast_signed();
        if vector.len() != self.len {
            return Err(refused("the vector has the wrong length"));
        }
        if vector.iter().any(|x| !(-offset..offset).contains(x)) {
            return Err(refused("an entry of the vector has too many bits"));
        }
        let squares: u64 = vector.iter().map(|x| (x * x).cast_unsigned()).sum();
        let slack = self.bound.checked_sub(squares);
        let slack = slack.ok_or_else(|| refused("the norm of the vector exceeds the bound"))?;
        let mut wires = Vec::with_capacity(self.input_len());
        for x in vector {
            wires.extend(wires_of((x + offset).cast_unsigned(), self.bits));
        }
        wires.extend(wires_of(slack, self.slack_bits));
        Ok(wires)
    }

    /// Returns the numbers x + 2^(b−1), which the servers add up. A sum's total offset is 2^(b−1),
    /// which is public, times the number of vectors in it.
    fn truncate(&self, input: Vec<Field64>) -> Result<Vec<Field64>, FlpError> {
        self.truncate_call_check(&input)?;
        Ok(input[..self.len * self.bits].chunks(self.bits).map(number).collect())
    }

    fn decode_result(&self, data: &[Field64], _: usize) -> Result<Vec<u64>, FlpError> {
        Ok(data.iter().map(|x| u64::from(*x)).collect())
    }

    fn output_len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The circuit of a prover that sets wires arbitrarily.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Cheating(pub(crate) NormBound);

    impl Flp for Cheating {
        type Field = Field64;

        fn gadget(&self) -> Vec<Box<dyn Gadget<Field64>>> {
            self.0.gadget()
        }
        fn num_gadgets(&self) -> usize {
            self.0.num_gadgets()
        }
        fn valid(
            &self,
            gadgets: &mut Vec<Box<dyn Gadget<Field64>>>,
            input: &[Field64],
            joint_rand: &[Field64],
            num_shares: usize,
        ) -> Result<Vec<Field64>, FlpError> {
            self.0.valid(gadgets, input, joint_rand, num_shares)
        }
        fn input_len(&self) -> usize {
            self.0.input_len()
        }
        fn proof_len(&self) -> usize {
            self.0.proof_len()
        }
        fn verifier_len(&self) -> usize {
            self.0.verifier_len()
        }
        fn joint_rand_len(&self) -> usize {
            self.0.joint_rand_len()
        }
        fn eval_output_len(&self) -> usize {
            self.0.eval_output_len()
        }
        fn prove_rand_len(&self) -> usize {
            self.0.prove_rand_len()
        }
    }

    impl Type for Cheating {
        type Measurement = Vec<Field64>;
        type AggregateResult = Vec<u64>;

        fn encode_measurement(&self, wires: &Vec<Field64>) -> Result<Vec<Field64>, FlpError> {
            Ok(wires.clone())
        }
        fn truncate(&self, input: Vec<Field64>) -> Result<Vec<Field64>, FlpError> {
            self.0.truncate(input)
        }
        fn decode_result(&self, data: &[Field64], n: usize) -> Result<Vec<u64>, FlpError> {
            self.0.decode_result(data, n)
        }
        fn output_len(&self) -> usize {
            self.0.output_len()
        }
    }

    /// Encodes wires as a dishonest agent might, with arbitrary numbers and slack.
    pub(crate) fn wires(circuit: &NormBound, vector: &[i64], slack: u64) -> Vec<Field64> {
        let raised = |x: &i64| x.wrapping_add(circuit.offset().cast_signed()).cast_unsigned();
        let bits = circuit.bits;
        let numbers = vector.iter().flat_map(|x| wires_of(raised(x), bits));
        numbers.chain(wires_of(slack, circuit.slack_bits)).collect()
    }

    fn is_valid(circuit: &NormBound, wires: &[Field64], joint_rand: &[Field64]) -> bool {
        let outputs = circuit.valid(&mut circuit.gadget(), wires, joint_rand, 1).unwrap();
        outputs.iter().all(|output| *output == Field64::zero())
    }

    /// Sets the wires for two 3-bit numbers to all combinations of 0, 1 and a third value. An
    /// assignment is valid if and only if all wires are bits and the squares plus the slack equal
    /// K².
    #[test]
    fn the_circuit_is_exact_by_brute_force() {
        let circuit = NormBound::new(2, 3, 3).unwrap();
        let n = circuit.input_len();
        assert_eq!(n, 2 * 3 + 4);
        let joint_rand: Vec<Field64> =
            (0..circuit.joint_rand_len() as u64).map(|i| Field64::from(0x9e37_79b9 + i)).collect();
        let minus_one = -Field64::one();
        let half = Field64::from(2).inv();
        let mut n_valid = 0;
        for other in [Field64::from(2), minus_one, half] {
            let values = [Field64::zero(), Field64::one(), other];
            for setting in 0..3_usize.pow(u32::try_from(n).unwrap()) {
                let mut rest = setting;
                let digits: Vec<usize> = (0..n)
                    .map(|_| {
                        let digit = rest % 3;
                        rest /= 3;
                        digit
                    })
                    .collect();
                let wires: Vec<Field64> = digits.iter().map(|digit| values[*digit]).collect();
                let decoded = |wires: &[usize]| {
                    let weighted = wires.iter().zip(0..).map(|(bit, place)| (*bit as i64) << place);
                    weighted.sum::<i64>()
                };
                let numbers = [decoded(&digits[..3]) - 4, decoded(&digits[3..6]) - 4];
                let squares: i64 = numbers.iter().map(|x| x * x).sum();
                let expected =
                    digits.iter().all(|digit| *digit < 2) && squares + decoded(&digits[6..]) == 9;
                assert_eq!(is_valid(&circuit, &wires, &joint_rand), expected, "{digits:?}");
                n_valid += usize::from(expected);
            }
        }
        assert_eq!(n_valid, 3 * 29); // the points of the disc of radius 3, for each third value
    }

    #[test]
    fn parameters_whose_sums_could_pass_the_modulus_give_no_circuit() {
        assert!(NormBound::new(100, 12, 2047).is_some());
        assert!(NormBound::new(0, 12, 2047).is_none());
        assert!(NormBound::new(100, 0, 2047).is_none());
        assert!(NormBound::new(100, 12, 0).is_none());
        assert!(NormBound::new(16, 31, 2047).is_none(), "16 * 4^30 reaches 2^64");
        assert!(NormBound::new(1, 12, 1 << 32).is_none());
    }

    /// Compares the announced lengths with those that the `prio` crate computes.
    #[test]
    fn a_proof_has_the_length_that_is_announced() {
        for (len, bits, norm) in [(1, 8, 100), (7, 9, 255), (100, 12, 2047), (1000, 14, 8191)] {
            let circuit = NormBound::new(len, bits, norm).unwrap();
            let input = circuit.encode_measurement(&vec![1; len]).unwrap();
            let random = |n: usize| -> Vec<Field64> {
                (0..n as u64).map(|i| Field64::from(i * i + 77_777)).collect()
            };
            let (prove, joint) =
                (random(circuit.prove_rand_len()), random(circuit.joint_rand_len()));
            let proof = circuit.prove(&input, &prove, &joint).unwrap();
            let query = random(circuit.query_rand_len());
            let verifier = circuit.query(&input, &proof, &query, &joint, 1).unwrap();
            assert_eq!(verifier.len(), circuit.verifier_len());
            assert!(circuit.decide(&verifier).unwrap());
        }
    }
}

//! Tests that a secure sum equals the sum of the clipped vectors and both servers' noise, bit for
//! bit.
#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it only in test functions, not in shared helpers"
)]

use fedbo_privacy::accounting::{NoiseMultiplier, SamplingRate};
use fedbo_privacy::mechanism::{
    Mechanism, MechanismSettings, ReleaseShape, Secure, SecureNoise, Server, SimNoise, Simulated,
};
use fedbo_protocol::{AggregateContent, ReleaseSchedule, RoundMechanism as _};
use fedbo_secure_sum::{
    NoisedShare, NotClosed, Place, Proof, SealingKey, SecureSumRounds, ServerRound, ShareRefused,
    Sharing, combine, seal,
};
use fedbo_testkit::test_stream;

const N_SLOTS: u32 = 7;
const N_REGIONS: u32 = 3;
const N_FEATURES: u32 = 4;
const N_WITNESSES: u32 = 2;

fn sharing(proof: Proof, multiplier: f64) -> Sharing {
    let settings = MechanismSettings {
        n_slots: N_SLOTS,
        n_regions: N_REGIONS,
        n_features: N_FEATURES + N_WITNESSES,
        max_norm: 3.0,
        sampling_rate: SamplingRate::ALL,
        noise_multiplier: NoiseMultiplier::new(multiplier).unwrap(),
    };
    let mechanism = Mechanism::for_secure_sum(settings, 12).unwrap();
    Sharing::new(mechanism, N_WITNESSES, 12, proof).unwrap()
}

fn seed(number: u64) -> [u8; 32] {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    seed
}

/// A round with two servers that have separate keys. Each agent seals its shares for them.
struct Servers {
    sharing: Sharing,
    keys: [SealingKey; 2],
    rounds: [ServerRound; 2],
    seeds: [u64; 2],
    round: u64,
}

const SERVERS: [Server; 2] = [Server::Leader, Server::Helper];

impl Servers {
    fn begin(sharing: &Sharing, at: (u64, ReleaseShape), seeds: [u64; 2]) -> Self {
        let rounds = SERVERS.map(|server| sharing.begin(server, at));
        let keys = [SealingKey::from_seed(&[1; 32]), SealingKey::from_seed(&[2; 32])];
        Self { sharing: sharing.clone(), keys, rounds, seeds, round: at.0 }
    }

    /// Passes a vector through both servers. Only the servers in `at` keep it.
    fn receive(&mut self, slot: u32, vector: &[f64], at: &[Server]) {
        let place = Place { study: [3; 32], round: self.round, slot };
        let context = place.context();
        let report = self.sharing.share(&context, vector).unwrap();
        let bound = [report.nonce.as_slice(), &report.public].concat();
        let shares = [&report.leader, &report.helper];
        let opened = [0, 1].map(|server| {
            let (key, info) = (&self.keys[server], place.info(SERVERS[server]));
            let sealed = seal(&key.public().seal, &info, &bound, shares[server]).unwrap();
            key.open(&info, &bound, &sealed).unwrap()
        });
        let keys = [0, 1].map(|server| {
            let other = self.keys[1 - server].public();
            self.keys[server].verification_key(&other, b"study").unwrap()
        });
        let looked = [0, 1].map(|server| {
            let parts = (&report.nonce, report.public.as_slice(), opened[server].as_slice());
            self.sharing.verify(SERVERS[server], &keys[server], &context, parts).unwrap()
        });
        let [(of_leader, from_leader), (of_helper, from_helper)] = looked;
        let answer =
            self.sharing.decide(&context, &of_helper, [&from_leader, &from_helper]).unwrap();
        for (server, state) in [of_leader, of_helper].into_iter().enumerate() {
            let vector = self.sharing.accept(&context, state, &answer).unwrap();
            if at.contains(&SERVERS[server]) {
                self.rounds[server].keep(slot, vector);
            }
        }
    }

    /// Returns the slots with a vector at both servers, and the sums of both shares after a round
    /// trip through their encoding.
    fn close(self, shape: ReleaseShape) -> (Vec<u32>, Vec<i64>) {
        let [leader, helper] = self.rounds;
        let here: Vec<u32> = helper.slots().collect();
        let slots: Vec<u32> = leader.slots().filter(|slot| here.contains(slot)).collect();
        let close = |round: ServerRound, number| {
            round.close(&slots, &mut SimNoise::new(seed(number))).unwrap().to_bytes()
        };
        let bytes = [close(leader, self.seeds[0]), close(helper, self.seeds[1])];
        let read = |server: usize| -> NoisedShare<Simulated> {
            self.sharing.read(SERVERS[server], (self.round, shape), &bytes[server]).unwrap()
        };
        let sums = combine(&read(0), &read(1)).unwrap();
        (slots, sums)
    }
}

/// Returns the sums of the plain mechanism, plus the noise of both servers.
fn expected(
    sharing: &Sharing,
    at: (u64, ReleaseShape),
    seeds: [u64; 2],
    vectors: &[(u32, Vec<f64>)],
) -> Vec<i64> {
    let mechanism = sharing.mechanism();
    let width = (N_FEATURES + N_WITNESSES) as usize;
    let n = match at.1 {
        ReleaseShape::Regions => N_REGIONS as usize,
        ReleaseShape::Total => 1,
    };
    let mut sums = vec![0; n * width];
    for (server, number) in SERVERS.into_iter().zip(seeds) {
        let place = (sums.len(), at.0);
        let noise = mechanism.server_noise(server, place, &mut SimNoise::new(seed(number)));
        sums.iter_mut().zip(noise.unwrap().iter()).for_each(|(sum, noise)| *sum += noise);
    }
    for (slot, vector) in vectors {
        let region = match at.1 {
            ReleaseShape::Regions => mechanism.region_of(*slot) as usize,
            ReleaseShape::Total => 0,
        };
        let clipped = mechanism.clipped(vector);
        let sums = &mut sums[region * width..];
        sums.iter_mut().zip(clipped.iter()).for_each(|(sum, number)| *sum += number);
    }
    sums
}

/// Uses a thousand seeds, with agents that are missing, send twice, or reach only one of the
/// servers.
#[test]
fn the_sum_is_that_of_the_lattice_bit_for_bit() {
    for number in 0..1000 {
        let mut stream = test_stream(number);
        let proof = match number % 8 {
            0 => Proof::LInf,
            1 => Proof::None,
            _ => Proof::L2,
        };
        let shape = if number % 3 == 0 { ReleaseShape::Total } else { ReleaseShape::Regions };
        let at = (number, shape);
        let sharing = sharing(proof, 1.5);
        let seeds = [2 * number, 2 * number + 1];
        let mut servers = Servers::begin(&sharing, at, seeds);
        let mut counted = Vec::new();
        for slot in 0..N_SLOTS {
            let scale = [0.01, 0.5, 40.0][usize::try_from((number + u64::from(slot)) % 3).unwrap()];
            let vector: Vec<f64> =
                stream.normals(N_FEATURES as usize).iter().map(|x| scale * x).collect();
            match (number + 3 * u64::from(slot)) % 11 {
                0 => continue, // the agent is missing
                1 => servers.receive(slot, &vector, &[Server::Leader]),
                2 => servers.receive(slot, &vector, &[Server::Helper]),
                3 => {
                    servers.receive(slot, &vector, &SERVERS);
                    servers.receive(slot, &[9.0; N_FEATURES as usize], &SERVERS); // the first counts
                    counted.push((slot, vector));
                }
                _ => {
                    servers.receive(slot, &vector, &SERVERS);
                    counted.push((slot, vector));
                }
            }
        }
        let (slots, sums) = servers.close(shape);
        assert_eq!(slots, counted.iter().map(|(slot, _)| *slot).collect::<Vec<_>>());
        assert_eq!(sums, expected(&sharing, at, seeds, &counted), "seed {number}");
    }
}

#[test]
fn a_server_closes_over_no_slot_that_it_does_not_have() {
    let sharing = sharing(Proof::L2, 1.0);
    let at = (4, ReleaseShape::Total);
    let mut servers = Servers::begin(&sharing, at, [1, 2]);
    servers.receive(2, &[0.1; 4], &SERVERS);
    let [leader, helper] = servers.rounds;
    let (leader, missing) = leader.close(&[2, 3], &mut SimNoise::new(seed(1))).unwrap_err();
    assert_eq!(missing, NotClosed::Missing { slots: vec![3] });
    let leader = leader.close(&[2], &mut SimNoise::new(seed(1))).unwrap();
    // The servers counted different slots, so their shares are not combined.
    let helper = helper.close(&[], &mut SimNoise::new(seed(2))).unwrap();
    assert_eq!(combine(&leader, &helper), Err(ShareRefused::Slots { round: 4 }));
    assert!(combine(&leader, &leader).is_err());
}

/// A server's process that holds the vectors of two agents is copied. One copy closes over both
/// vectors, the other copy over one of them, and the other server gets both shares. If the noise
/// were equal in both copies, their difference would reveal the missing share of a raw vector to
/// the other server (INV-29).
#[test]
fn copies_of_a_round_close_with_noise_of_their_own() {
    let sharing = sharing(Proof::None, 4.0);
    for shape in [ReleaseShape::Regions, ReleaseShape::Total] {
        let at = (4, shape);
        let context = Place { study: [3; 32], round: 4, slot: 0 }.context();
        let vectors = [0.3, -0.2].map(|x| {
            let report = sharing.share(&context, &[x; N_FEATURES as usize]).unwrap();
            let key = SealingKey::from_seed(&[1; 32]);
            let key = key.verification_key(&SealingKey::from_seed(&[2; 32]).public(), b"study");
            let look = |server, share: &[u8]| {
                let parts = (&report.nonce, report.public.as_slice(), share);
                sharing.verify(server, key.as_ref().unwrap(), &context, parts).unwrap()
            };
            let (_, from_leader) = look(Server::Leader, &report.leader);
            let (state, own) = look(Server::Helper, &report.helper);
            let answer = sharing.decide(&context, &state, [&from_leader, &own]).unwrap();
            sharing.accept(&context, state, &answer).unwrap()
        });
        // Both copies have the same history and use one noise source, as in a process.
        let copies = [(); 2].map(|()| {
            let mut round = sharing.begin(Server::Helper, at);
            (0..).zip(&vectors).for_each(|(slot, vector)| round.keep(slot, vector.clone()));
            round
        });
        let [first, second] = copies;
        let mut source = SecureNoise::new();
        let first = first.close(&[0, 1], &mut source).unwrap();
        let second = second.close(&[0], &mut source).unwrap();
        let noises = [first, second].map(|share: NoisedShare<Secure>| sharing.witnesses(&share));
        // Witnesses hold only noise, so equal witnesses would mean that the copies have the same
        // noise. Two independent draws are equal about once in a few hundred.
        let n_equal =
            noises[0].iter().zip(&noises[1]).filter(|(a, b)| a.to_bits() == b.to_bits()).count();
        let n = noises[0].len();
        assert!(n_equal < n, "{n_equal} of {n} numbers have the same noise");
    }
}

#[test]
fn shares_of_other_rounds_studies_and_kinds_are_refused() {
    let sharing = sharing(Proof::L2, 1.0);
    let at = (4, ReleaseShape::Regions);
    let round = sharing.begin(Server::Helper, at);
    let bytes = round.close(&[], &mut SimNoise::new(seed(3))).unwrap().to_bytes();
    assert_eq!(bytes.len(), sharing.share_size(at.1));
    let read = |server, at, bytes: &[u8]| sharing.read::<Simulated>(server, at, bytes);
    assert!(read(Server::Helper, at, &bytes).is_ok());
    assert!(read(Server::Leader, at, &bytes).is_err());
    assert!(read(Server::Helper, (5, at.1), &bytes).is_err());
    assert!(read(Server::Helper, (4, ReleaseShape::Total), &bytes).is_err());
    assert!(read(Server::Helper, at, &bytes[1..]).is_err());
    let secure = sharing.read::<Secure>(Server::Helper, at, &bytes);
    assert!(secure.is_err());
    let other = self::sharing(Proof::LInf, 1.0);
    assert!(other.read::<Simulated>(Server::Helper, at, &bytes).is_err());
    let mut beyond = bytes.clone();
    let last = beyond.len() - 8;
    beyond[last..].copy_from_slice(&u64::MAX.to_le_bytes()); // not below the modulus
    assert!(read(Server::Helper, at, &beyond).is_err());
    for at in 0..84 {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let found = read(Server::Helper, (4, ReleaseShape::Regions), &changed);
        // The digest of the slots is checked only against the other server's digest.
        assert_eq!(found.is_ok(), at >= 52, "byte {at}");
    }
}

/// Rounds in one process produce the same sums, and charge for one server's noise.
#[test]
fn rounds_in_one_process_are_those_of_two_servers() {
    let sharing = sharing(Proof::L2, 1.5);
    let schedule = ReleaseSchedule::new(6, 1, 3).unwrap();
    let mut rounds = SecureSumRounds::new(sharing.clone(), schedule, SimNoise::new(seed(5)));
    for round in 0..6 {
        let mut open = rounds.open(round).unwrap();
        let vectors: Vec<(u32, Vec<f64>)> =
            (0..N_SLOTS).map(|slot| (slot, vec![0.1 * f64::from(slot); 4])).collect();
        for (slot, vector) in &vectors {
            rounds.receive(&mut open, *slot, vector).unwrap();
            assert!(rounds.receive(&mut open, *slot, vector).is_err());
        }
        assert!(rounds.receive(&mut open, N_SLOTS, &[0.0; 4]).is_err());
        assert!(rounds.receive(&mut open, 0, &[0.0; 5]).is_err());
        let pending = rounds.close(open).unwrap();
        assert!(pending.event.is_none(), "noise from a seed is not private");
        let aggregate = rounds.restore(round, &pending.bytes).unwrap();
        let at = (round, schedule.shape(round));
        let spacing = sharing.mechanism().lattice().spacing();
        let sums = expected(&sharing, at, [5, 5], &vectors);
        let rows: Vec<Vec<f64>> = sums
            .chunks(6)
            .map(|row| row[..4].iter().map(|k| *k as f64 * spacing).collect())
            .collect();
        match aggregate.content {
            AggregateContent::RegionSums(found) => assert_eq!(found, rows),
            AggregateContent::Total(found) => assert_eq!(vec![found], rows),
            AggregateContent::Weighted(_) => panic!("another shape"),
        }
        assert_eq!(aggregate.witnesses.len(), rows.len() * 2);
        let one = sharing.mechanism().noise_std();
        assert!((aggregate.noise_std / one - 2.0_f64.sqrt()).abs() < 1e-12);
        assert!(rounds.restore(round + 1, &pending.bytes).is_err());
    }
}

//! The cost of a secure sum to an agent and to each of the two servers, relative to one Ed25519
//! verification in the same run.

use anyhow::{Context, Result};
use fedbo_privacy::accounting::{NoiseMultiplier, SamplingRate};
use fedbo_privacy::mechanism::{Mechanism, MechanismSettings, ReleaseShape, SecureNoise, Server};
use fedbo_secure_sum::{
    Place, Proof, Report, SealingKey, Sharing, seal as seal_share, sealed_size,
};
use fedbo_wire::{PassedSizes, SealedSizes, SealedUpload, SigningKey, verify_size};
use serde_json::{Value, json};

use crate::measure::{Limits, Timing, columns, measure, rounded};

/// Returns one row per vector length and kind of proof.
///
/// - `agent_s`: time to clip, share, prove and seal.
/// - `leader_s`, `helper_s`: time to open, verify and store one report; `helper_s` includes the
///   joint decision.
/// - `close_s`: time to close a round of `agents` reports.
/// - `upload`, `between`: bytes per report sent by the agent, and exchanged between the servers.
/// - `ratio_*`: time divided by that of one signature verification.
pub(crate) fn rows(sizes: &[u32], agents: u32, limits: &Limits) -> Result<Vec<Value>> {
    let signature = signature(limits)?;
    let mut rows = Vec::new();
    for &n_features in sizes {
        for proof in [Proof::L2, Proof::LInf, Proof::None] {
            let bits = if n_features < 1000 { 12 } else { 14 };
            rows.push(row(n_features, bits, proof, agents, &signature, limits)?);
        }
    }
    Ok(rows)
}

fn row(
    n_features: u32,
    bits: u32,
    proof: Proof,
    agents: u32,
    signature: &Timing,
    limits: &Limits,
) -> Result<Value> {
    let settings = MechanismSettings {
        n_slots: agents,
        n_regions: 1,
        n_features,
        max_norm: 1.0,
        sampling_rate: SamplingRate::ALL,
        noise_multiplier: NoiseMultiplier::new(1.0)?,
    };
    let sharing = Sharing::new(Mechanism::for_secure_sum(settings, bits)?, 0, bits, proof)?;
    let keys = [SealingKey::from_seed(&[1; 32]), SealingKey::from_seed(&[2; 32])];
    let study = [7; 32];
    let place = Place { study, round: 0, slot: 0 };
    let context = place.context();
    let verification = keys[0].verification_key(&keys[1].public(), &study);
    let verification = verification.context("both keys are good")?;
    let vector: Vec<f64> = (0..n_features).map(|i| if i % 3 == 0 { 0.5 } else { -0.25 }).collect();
    let bound = |report: &Report| [report.nonce.as_slice(), &report.public].concat();
    let seal = |server: usize, report: &Report, share: &[u8]| {
        let info = place.info([Server::Leader, Server::Helper][server]);
        seal_share(&keys[server].public().seal, &info, &bound(report), share)
    };
    let (agent, made) = measure(
        limits,
        |_| Ok(()),
        |()| {
            let report = sharing.share(&context, &vector)?;
            let sealed = [seal(0, &report, &report.leader)?, seal(1, &report, &report.helper)?];
            Ok((report, sealed))
        },
    )?;
    let (report, sealed) = made.into_iter().next_back().context("something was measured")?;
    let look = |server: usize| {
        let role = [Server::Leader, Server::Helper][server];
        let opened = keys[server].open(&place.info(role), &bound(&report), &sealed[server])?;
        let parts = (&report.nonce, report.public.as_slice(), opened.as_slice());
        Ok::<_, anyhow::Error>(sharing.verify(role, &verification, &context, parts)?)
    };
    let (_, from_leader) = look(0)?;
    let (of_helper, from_helper) = look(1)?;
    let answer = sharing.decide(&context, &of_helper, [&from_leader, &from_helper])?;
    let at = (0, ReleaseShape::Total);
    let begin = |role| sharing.begin(role, at);
    let mut round = begin(Server::Leader);
    let (leader, _) = measure(
        limits,
        |_| Ok(()),
        |()| {
            let (state, _) = look(0)?;
            round.keep(0, sharing.accept(&context, state, &answer)?);
            Ok(())
        },
    )?;
    let mut round = begin(Server::Helper);
    let (helper, _) = measure(
        limits,
        |_| Ok(()),
        |()| {
            let (state, own) = look(1)?;
            let answer = sharing.decide(&context, &state, [&from_leader, &own])?;
            round.keep(0, sharing.accept(&context, state, &answer)?);
            Ok(())
        },
    )?;
    let vector = sharing.accept(&context, of_helper, &answer)?;
    let slots: Vec<u32> = (0..agents).collect();
    let (close, _) = measure(
        limits,
        |_| {
            let mut round = begin(Server::Helper);
            slots.iter().for_each(|slot| round.keep(*slot, vector.clone()));
            Ok(Some(round))
        },
        |round| {
            let round = round.take().context("a round closes once")?;
            round.close(&slots, &mut SecureNoise::new()).map_err(|(_, refused)| refused.into())
        },
    )?;
    let parts = sharing.sizes();
    let upload = SealedUpload::n_bytes(SealedSizes {
        n_features,
        public: parts.public,
        for_leader: sealed_size(parts.leader),
        for_helper: sealed_size(parts.helper),
    });
    let passed = PassedSizes {
        public: parts.public,
        for_helper: sealed_size(parts.helper),
        verifier: parts.verifier,
        message: parts.message,
    };
    let between = verify_size(passed, 2) - verify_size(passed, 1) + parts.message + 1;
    let mut row = columns(json!({
        "peer": "fedbo", "M": n_features, "bits": bits, "proof": proof.name(), "upload": upload,
        "between": between, "agents": agents
    }));
    row.extend(agent.columns());
    for (name, timing) in
        [("agent", &agent), ("leader", &leader), ("helper", &helper), ("close", &close)]
    {
        row.insert(format!("{name}_s"), rounded(timing.median(), 9));
    }
    for (name, timing) in [("agent", &agent), ("leader", &leader), ("helper", &helper)] {
        let ratio = timing.median() / signature.median();
        row.insert(format!("ratio_{name}"), rounded(ratio, 2));
    }
    Ok(Value::Object(row))
}

/// Times the verification of a signature over one kilobyte.
fn signature(limits: &Limits) -> Result<Timing> {
    let key = SigningKey::from_seed([3; 32]);
    let (message, public) = ([5; 1024], key.public());
    let signature = key.sign("benchmark", &[&message]);
    let verify = |()| Ok(public.verify("benchmark", &[&message], &signature)?);
    Ok(measure(limits, |_| Ok(()), |_| verify(()))?.0)
}

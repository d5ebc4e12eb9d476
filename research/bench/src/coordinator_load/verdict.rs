//! Checks that each accepted upload is in its round's release exactly once.

use anyhow::{Context, Result, ensure};
use fedbo_federation::{Collaboration, ReleaseMechanism};
use fedbo_privacy::mechanism::SimNoise;
use fedbo_wire::LedgerHead;

use super::rounds::{Seen, UploadOutcome};
use super::study::{Prepared, Uploads};

/// Compares releases with the sums of the accepted uploads. Returns the number of releases that are
/// equal.
///
/// There must be one release per round, chained to the ledger head in the last handout. If the
/// noise is drawn from the seed and all agents take part (q = 1), the same mechanism with the same
/// seed reproduces each release from the accepted vectors, each added once. The bytes must then be
/// equal.
///
/// Vectors are dense, unique to slot and round, and summed exactly in integers. A vector that is
/// lost, duplicated or from another round leaves all sums of its region unchanged with a
/// probability below 2^-1000.
pub(super) fn check(seen: &Seen, prepared: &Prepared, uploads: &Uploads) -> Result<usize> {
    let federation = &prepared.study.federation;
    let Collaboration::Released(made) = &federation.collaboration else {
        anyhow::bail!("the study has no releases")
    };
    let mut head = match federation.privacy() {
        Some(plan) => plan.charter.genesis(),
        None => fedbo_ledger::Head::uncharged(prepared.study.config.as_bytes()),
    };
    for (round, entry) in (0..).zip(&seen.entries) {
        ensure!(entry.round == round, "a release of round {} instead of {round}", entry.round);
        head = head.follow(entry.round, &entry.event, &entry.release);
    }
    let head = LedgerHead { seq: head.seq, hash: head.hash };
    ensure!(head == seen.head, "the releases do not lead to the head that was handed out");
    if !federation.is_simulation() {
        return Ok(0);
    }
    let ReleaseMechanism::Lattice(mechanism) = made.mechanism(federation.own_arm()) else {
        anyhow::bail!("the study's sums are not integers")
    };
    let mut accepted = vec![Vec::new(); seen.entries.len()];
    for sent in seen.uploads.iter().filter(|sent| sent.fate == UploadOutcome::Accepted) {
        let of_round = accepted.get_mut(usize::try_from(sent.round)?);
        of_round.context("an upload without a round")?.push(sent.slot);
    }
    let n_coordinates = mechanism.settings().n_features as usize;
    let mut source = SimNoise::new(federation.noise_seed());
    for (round, (slots, entry)) in (0..).zip(accepted.iter().zip(&seen.entries)) {
        let shape = made.schedule().shape(round);
        let mut collecting = mechanism.begin(round, shape);
        for slot in slots {
            let mut weights: Vec<f64> = uploads.weights(*slot, round).collect();
            weights.resize(n_coordinates, 0.0); // the witnesses
            collecting.receive(*slot, &weights)?;
        }
        let expected = collecting.close(&mut source)?.release.to_bytes();
        ensure!(
            expected == entry.release,
            "round {round}: the release is not the sum of the {} vectors that were accepted",
            slots.len()
        );
    }
    Ok(seen.entries.len())
}

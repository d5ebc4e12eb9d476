//! Reads and checks the releases of a study.

use std::fmt;
use std::sync::Arc;

use fedbo_federation::{Arm, Protection, ReleaseMechanism, ReleasePlan};
use fedbo_privacy::mechanism::{NoiseSource, SecureNoise, Server};
use fedbo_protocol::{Aggregate, AggregateContent, MechanismFailed, Release, RoundMechanism};

/// A function that decodes a round's release from its bytes.
type Restore = dyn Fn(u64, &[u8]) -> Result<Aggregate, MechanismFailed> + Send + Sync;

/// A function that extracts each server's witnesses from a round's release, with their expected
/// standard deviation.
type ServerWitnesses =
    dyn Fn(u64, &[u8]) -> Result<Vec<(&'static str, Vec<f64>, f64)>, MechanismFailed> + Send + Sync;

/// Reads a study's releases, according to the study's configuration.
pub(crate) struct Reader {
    restore: Box<Restore>,
    /// Extracts the witnesses of each server of a secure sum, with the server's name and the
    /// standard deviation of one server's noise. `None` if one coordinator sums.
    servers: Option<Box<ServerWitnesses>>,
    n_regions: usize,
    n_features: usize,
    /// Maximum size of a release in bytes.
    pub(crate) bytes_max: u64,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, numbers) = (self.n_regions, self.n_features);
        write!(f, "Reader {{ releases of at most {rows} x {numbers} }}")
    }
}

/// A defect that shows that a release was not made by the study's mechanism.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseDefect {
    /// The bytes are not a release of the study's mechanism.
    #[error(transparent)]
    Bytes(#[from] MechanismFailed),
    /// The release has the wrong shape.
    #[error(
        "it has {rows} sums of {numbers} numbers, expected {expected_rows} of {expected_numbers}"
    )]
    Shape {
        /// Number of sums in the release.
        rows: usize,
        /// Length of the first sum that differs.
        numbers: usize,
        /// Expected number of sums: P or 1.
        expected_rows: usize,
        /// Expected length of each sum: M.
        expected_numbers: usize,
    },
    /// A number in the release is not finite.
    #[error("it holds a number that is not finite")]
    NotFinite,
    /// One server's share of the release has a defect.
    #[error("in the share of the {server}, {defect}")]
    Server {
        /// The server.
        server: &'static str,
        /// The defect.
        defect: Box<ReleaseDefect>,
    },
    /// The release contains less noise than was promised.
    #[error(
        "its {n} coordinates without signal have a standard deviation of {found:.3e}, but noise of {expected:.3e} was \
         promised: chance makes it this small in one of a billion releases"
    )]
    Quiet {
        /// Number of coordinates that are zero in all vectors.
        n: usize,
        /// Root mean square of these coordinates.
        found: f64,
        /// Standard deviation of the promised noise.
        expected: f64,
    },
}

impl Reader {
    /// Creates a reader for the arm that a study runs. Returns `None` for a simulated study if this
    /// build has no simulation.
    ///
    /// No noise is ever drawn from the noise sources here. They only select the kind of release to
    /// read (INV-10).
    pub(crate) fn of(releases: &ReleasePlan, arm: Arm) -> Option<Self> {
        match releases.releases.protection {
            // Without noise, nothing is drawn from this source.
            Protection::Charged(_) | Protection::Off => {
                Some(Self::of_kind(releases, arm, SecureNoise::new()))
            }
            Protection::Simulated => Self::simulated(releases, arm),
        }
    }

    #[cfg(feature = "simulation")]
    fn simulated(releases: &ReleasePlan, arm: Arm) -> Option<Self> {
        let source = fedbo_privacy::mechanism::SimNoise::new([0; 32]);
        Some(Self::of_kind(releases, arm, source))
    }

    #[cfg(not(feature = "simulation"))]
    fn simulated(_: &ReleasePlan, _: Arm) -> Option<Self> {
        None
    }

    fn of_kind<S: NoiseSource + Send + Sync + 'static>(
        releases: &ReleasePlan,
        arm: Arm,
        source: S,
    ) -> Self {
        let mechanism = releases.mechanism(arm);
        let n_regions = mechanism.n_regions();
        let rounds = releases.rounds(arm, source);
        let reader = Self::from_rounds(rounds, n_regions, releases.releases.n_witnesses);
        let ReleaseMechanism::SecureSum(sharing) = mechanism else {
            return reader;
        };
        let schedule = releases.schedule();
        let servers = move |round: u64, bytes: &[u8]| {
            let at = (round, schedule.shape(round));
            let (leader, helper) = bytes.split_at(bytes.len() / 2);
            let witnesses = |name, server, bytes: &[u8]| {
                let share = sharing.read::<S::Kind>(server, at, bytes);
                let share = share.map_err(|e| MechanismFailed::SecureSum(e.to_string()))?;
                let noise_std = sharing.mechanism().noise_std();
                Ok::<_, MechanismFailed>((name, sharing.witnesses(&share), noise_std))
            };
            Ok(vec![
                witnesses("coordinator", Server::Leader, leader)?,
                witnesses("helper", Server::Helper, helper)?,
            ])
        };
        // A release consists of two shares, each with its own header.
        let bytes_max = reader.bytes_max.saturating_mul(2);
        Self { servers: Some(Box::new(servers)), bytes_max, ..reader }
    }

    fn from_rounds<M: RoundMechanism + Send + Sync + 'static>(
        rounds: M,
        n_regions: u32,
        n_witnesses: u32,
    ) -> Self {
        /// Upper bound on the header size of any kind of release, in bytes.
        const HEADERS: u64 = 4096;
        let n_features = rounds.n_features();
        let n_numbers = n_features as u64 + 1 + u64::from(n_witnesses);
        let numbers = u64::from(n_regions).saturating_mul(n_numbers);
        Self {
            restore: Box::new(move |round, bytes| rounds.restore(round, bytes)),
            servers: None,
            n_regions: n_regions as usize,
            n_features,
            bytes_max: numbers.saturating_mul(8).saturating_add(HEADERS),
        }
    }

    /// Reads the bytes of a round's release.
    pub(crate) fn read(&self, round: u64, bytes: &[u8]) -> Result<Arc<Release>, ReleaseDefect> {
        let aggregate = (self.restore)(round, bytes)?;
        self.check_release(&aggregate)?;
        if let Some(servers) = &self.servers {
            for (server, witnesses, noise_std) in servers(round, bytes)? {
                let checked = check_noise(&witnesses, noise_std);
                checked
                    .map_err(|defect| ReleaseDefect::Server { server, defect: Box::new(defect) })?;
            }
        }
        Ok(Arc::new(Release { aggregate, bytes: bytes.into() }))
    }

    /// Checks that a release has the right shape, that its numbers are finite, and that its
    /// witnesses, if any, contain noise of about the promised strength. Every release is checked
    /// before it is used.
    fn check_release(&self, aggregate: &Aggregate) -> Result<(), ReleaseDefect> {
        let (rows, expected_rows) = match &aggregate.content {
            AggregateContent::RegionSums(rows) | AggregateContent::Weighted(rows) => {
                (rows.as_slice(), self.n_regions)
            }
            AggregateContent::Total(row) => (std::slice::from_ref(row), 1),
        };
        let strange = rows.iter().find(|row| row.len() != self.n_features);
        if rows.len() != expected_rows || strange.is_some() {
            return Err(ReleaseDefect::Shape {
                rows: rows.len(),
                numbers: strange.or(rows.first()).map_or(0, Vec::len),
                expected_rows,
                expected_numbers: self.n_features,
            });
        }
        let extra = aggregate.witnesses.iter().chain([&aggregate.noise_std]);
        let mut numbers = rows.iter().flatten().chain(extra);
        if !numbers.all(|number| number.is_finite()) {
            return Err(ReleaseDefect::NotFinite);
        }
        check_noise(&aggregate.witnesses, aggregate.noise_std)
    }
}

/// Checks that the coordinates that are zero in all vectors contain noise of about the promised
/// strength.
///
/// The sum of their squares over the variance has a chi-square distribution with one degree of
/// freedom per coordinate. A sum below that distribution's quantile at 1e-9 is refused. With 64
/// coordinates, this refuses noise below half of the promised strength. The check detects mistakes,
/// but not a malicious coordinator that adds noise only to these coordinates.
fn check_noise(witnesses: &[f64], noise_std: f64) -> Result<(), ReleaseDefect> {
    /// Quantile of the standard normal distribution at 1e-9.
    const QUANTILE: f64 = -5.997_807;
    let n = witnesses.len();
    if n == 0 {
        return Ok(());
    }
    let degrees = n as f64;
    let mean_square =
        witnesses.iter().map(|each| (each / noise_std).powi(2)).sum::<f64>() / degrees;
    // Quantile of chi-square over its degrees of freedom, approximated as by Wilson and Hilferty
    // (1931).
    let spread = 2.0 / (9.0 * degrees);
    let least = (1.0 - spread + QUANTILE * spread.sqrt()).max(0.0).powi(3);
    if mean_square < least {
        return Err(ReleaseDefect::Quiet {
            n,
            found: mean_square.sqrt() * noise_std,
            expected: noise_std,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the series of the incomplete gamma function, a chi-square variable with 64 degrees of
    /// freedom is below 17.40 with probability 1e-9. The approximation gives 17.02.
    #[test]
    fn noise_of_half_its_strength_is_seen_and_right_noise_is_not() {
        let with = |std: f64| {
            let alternating = (0..64).map(|i| if i % 2 == 0 { std } else { -std });
            check_noise(&alternating.collect::<Vec<_>>(), 1.0)
        };
        assert_eq!(with(1.0), Ok(()));
        assert_eq!(with((17.4_f64 / 64.0).sqrt()), Ok(()));
        for quiet in [0.0, 0.25, 0.5, (16.7_f64 / 64.0).sqrt()] {
            assert!(matches!(with(quiet), Err(ReleaseDefect::Quiet { n: 64, .. })), "{quiet}");
        }
        assert_eq!(check_noise(&[], 1.0), Ok(()));
    }

    fn reader() -> Reader {
        Reader {
            restore: Box::new(|_, _| unreachable!("nothing is read here")),
            servers: None,
            n_regions: 2,
            n_features: 3,
            bytes_max: 0,
        }
    }

    fn aggregate(content: AggregateContent) -> Aggregate {
        Aggregate { round: 0, content, noise_std: 1.0, witnesses: Vec::new() }
    }

    #[test]
    fn releases_of_another_shape_or_without_numbers_are_refused() {
        let check = |content| reader().check_release(&aggregate(content));
        let row = vec![0.0, -0.5, 1e300];
        assert_eq!(check(AggregateContent::RegionSums(vec![row.clone(), row.clone()])), Ok(()));
        assert_eq!(check(AggregateContent::Total(row.clone())), Ok(()));
        for content in [
            AggregateContent::RegionSums(vec![row.clone()]),
            AggregateContent::Weighted(vec![row.clone(), vec![1.0]]),
            AggregateContent::Total(vec![1.0; 4]),
            AggregateContent::RegionSums(Vec::new()),
        ] {
            assert!(matches!(check(content), Err(ReleaseDefect::Shape { .. })));
        }
        for number in [f64::NAN, f64::INFINITY] {
            let content = AggregateContent::Total(vec![0.0, number, 0.0]);
            assert_eq!(check(content), Err(ReleaseDefect::NotFinite));
        }
    }
}

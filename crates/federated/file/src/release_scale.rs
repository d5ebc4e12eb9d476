//! The scale of releases, according to a ledger's charter: the number of vectors in a sum, their
//! norm, and the amount of noise.

use fedbo_gp::FeatureDescription;

use crate::checked::{Collaboration, Federation};

/// The first line of the configuration of a federation in one process.
pub(crate) const LINES: &str = "fedbo federation, version 1\n";

/// The public parameters of a study's releases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReleaseScale {
    /// N, the number of agents on the roster.
    pub n_agents: u64,
    /// P, the number of regions, each with a separate sum.
    pub n_regions: u64,
    /// M, the number of features in a vector, without witnesses.
    pub n_features: u64,
    /// S, the bound on the norm of all of an agent's region vectors together.
    pub max_norm: f64,
    /// q, the probability that an agent's vector enters a release.
    pub sampling_rate: f64,
    /// z, the standard deviation of the noise divided by S / √P.
    pub noise_multiplier: f64,
    /// Number of independent noise terms in a release. A secure sum has two, but the accounting
    /// counts only one.
    pub n_noises: u32,
    /// Number of planned releases.
    pub n_planned: u64,
    /// True if agents run in separate processes and a coordinator sums their vectors.
    pub is_over_network: bool,
}

impl ReleaseScale {
    /// Parses the scale from the configuration in a charter, which is either the lines written by
    /// `fedbo run` or the text of a coordinator's study. Returns `None` if the configuration is
    /// neither, or if the study has no releases.
    #[must_use]
    pub fn of_config(config: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(config).ok()?;
        match text.strip_prefix(LINES) {
            Some(lines) => Self::of_lines(lines),
            None => Self::of_federation(&Federation::thaw(text).ok()?),
        }
    }

    /// Returns C = S / √P, the bound on the norm of an agent's vector in a sum.
    #[must_use]
    pub fn vector_norm(&self) -> f64 {
        self.max_norm / (self.n_regions as f64).sqrt()
    }

    /// Returns the standard deviation of the noise in each number of a release.
    #[must_use]
    pub fn noise_std(&self) -> f64 {
        self.noise_multiplier * self.vector_norm() * f64::from(self.n_noises).sqrt()
    }

    fn of_lines(lines: &str) -> Option<Self> {
        let pairs = || lines.lines().filter_map(|line| line.split_once(" = "));
        // Agent names come first, so the last match is the program's own line.
        let value = |wanted: &str| pairs().rfind(|(key, _)| *key == wanted).map(|(_, value)| value);
        let features: FeatureDescription = serde_json::from_str(value("features")?).ok()?;
        let cuts: Vec<u64> = match value("cuts") {
            Some(cuts) => serde_json::from_str(cuts).ok()?,
            None => Vec::new(),
        };
        let number = |key| value(key)?.parse::<f64>().ok();
        Some(Self {
            n_agents: pairs().filter(|(key, _)| key.starts_with("slot ")).count() as u64,
            n_regions: cuts.iter().try_fold(1_u64, |regions, cuts| regions.checked_mul(*cuts))?,
            n_features: features.n_features as u64,
            max_norm: number("max_norm")?,
            sampling_rate: number("sampling_rate")?,
            noise_multiplier: number("noise_multiplier")?,
            n_noises: if value("secure_sum").is_some() { 2 } else { 1 },
            n_planned: value("releases")?.parse().ok()?,
            is_over_network: false,
        })
    }

    fn of_federation(federation: &Federation) -> Option<Self> {
        let Collaboration::Released(made) = &federation.collaboration else {
            return None;
        };
        let mechanism = made.mechanism(federation.own_arm());
        let (max_norm, noise_multiplier) = mechanism.norm_and_noise();
        Some(Self {
            n_agents: mechanism.n_slots().into(),
            n_regions: mechanism.n_regions().into(),
            n_features: federation.features.n_features as u64,
            max_norm,
            sampling_rate: mechanism.sampling_rate(),
            noise_multiplier,
            n_noises: mechanism.n_noises(),
            n_planned: made.releases.n_planned,
            is_over_network: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use fedbo_config::TomlFile;
    use fedbo_objective::NoProblems;

    use super::*;
    use crate::checked::Objectives;
    use crate::file::FederationFile;

    /// Both configurations of a study give the same scale, even if a name looks like a setting.
    #[test]
    fn both_forms_of_a_configuration_are_read() {
        let agents: String =
            (0..8).map(|agent| format!("[[agents]]\nname = \"max_norm = {agent}\"\n")).collect();
        let text = format!(
            "[federation]\nname = \"f\"\nalgorithm = \"dp-fts-de\"\nrounds = 9\n[features]\ncount = 30\n[exploration]\nregions = 4\n\
             [privacy]\nepsilon = 3.0\nmax_norm = 2.0\nreleases = 3\n[space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n{agents}"
        );
        let file = TomlFile::from_text(std::path::Path::new("f.toml"), &text);
        let read = file.parse::<FederationFile>().unwrap();
        let federation = read
            .validate(&file, Objectives::Elsewhere, &NoProblems, fedbo_federated::ALGORITHMS)
            .unwrap();
        let plan = federation.privacy().unwrap();
        let lines = ReleaseScale::of_config(&plan.charter.config).unwrap();
        let frozen = ReleaseScale::of_config(text.as_bytes()).unwrap();
        assert_eq!(ReleaseScale { is_over_network: true, ..lines }, frozen);
        assert_eq!((lines.n_agents, lines.n_regions, lines.n_features), (8, 4, 30));
        assert_eq!((lines.vector_norm(), lines.n_planned), (1.0, 3));
        assert_eq!(plan.parameters()[1].1.to_bits(), lines.noise_multiplier.to_bits());
        for config in ["", LINES, "nothing", "fedbo federation, version 1\nfeatures = 3\n"] {
            assert_eq!(ReleaseScale::of_config(config.as_bytes()), None, "{config}");
        }
    }
}

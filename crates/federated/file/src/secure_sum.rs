//! `[secure_sum]`: sums computed by two servers of different parties. Neither server sees a vector.

use fedbo_config::{Check, FileError};
use fedbo_secure_sum::Proof;
use serde::Deserialize;

use crate::file::PrivacyTable;
use crate::privacy::PrivacyMode;

/// `[secure_sum]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecureSumTable {
    /// The bound that each agent proves for its vector: `l2` (default), on the norm; `linf`, on
    /// each number; or `none`.
    pub proof: Option<String>,
    /// Bits per number in a vector, from 8 to 20; default 12, or 14 with 1,000 features or more.
    pub bits: Option<u32>,
    /// The card of the other party's server, as printed by `fedbo helper card`; required over a
    /// network.
    pub helper: Option<String>,
    /// The address at which the coordinator reaches that server; required over a network.
    pub helper_url: Option<String>,
    /// The coordinator's own card. It is written when the study is frozen.
    pub leader: Option<String>,
}

/// The checked table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SecureSum {
    pub(crate) proof: Proof,
    pub(crate) bits: u32,
}

impl SecureSum {
    pub(crate) fn of(
        given: &SecureSumTable,
        privacy: &PrivacyTable,
        n_features: u32,
        check: Check<'_>,
    ) -> Result<Self, FileError> {
        if PrivacyMode::of(privacy, check)?.is_papers() {
            let mode = privacy.mode.as_deref().unwrap_or_default();
            let message = format!(
                "[secure_sum] has no effect with privacy.mode = \"{mode}\"; remove it, or the mode"
            );
            return Err(check.file.error(&["secure_sum"], message));
        }
        if privacy.sampling_rate.is_some_and(|rate| rate < 1.0) {
            let message = "privacy.sampling_rate below 1 is not possible with [secure_sum], where participation is public; remove it, \
                           or the table";
            return Err(check.file.error(&["privacy", "sampling_rate"], message.to_owned()));
        }
        if given.helper.is_some() != given.helper_url.is_some() {
            let key = if given.helper.is_some() { "helper_url" } else { "helper" };
            let remedy = "helper is the card printed by the other party's `fedbo helper card`, helper_url the address of its \
                          `fedbo helper run`; a study over a network needs both, and in one process neither has an effect";
            return Err(check.file.missing_error(&["secure_sum", key], remedy));
        }
        let path = ["secure_sum", "proof"];
        let proof = check.word(&path, given.proof.as_deref(), &Proof::NAMED)?;
        let standard = if n_features < 1000 { 12 } else { 14 };
        Ok(Self { proof: proof.unwrap_or_default(), bits: given.bits.unwrap_or(standard) })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fedbo_config::TomlFile;
    use fedbo_objective::NoProblems;

    use crate::checked::{Collaboration, Federation, Objectives};
    use crate::file::FederationFile;
    use crate::release_mechanism::ReleaseMechanism;
    use crate::release_scale::ReleaseScale;

    fn read(algorithm: &str, tables: &str) -> Result<Federation, String> {
        let text = format!(
            "[federation]\nname = \"f\"\nalgorithm = \"{algorithm}\"\nrounds = 9\n{tables}[space.x]\ntype = \"float\"\nlow = 0.0\n\
             high = 1.0\n[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n"
        );
        let file = TomlFile::from_text(Path::new("f.toml"), &text);
        let read = file.parse::<FederationFile>().map_err(|error| error.to_string())?;
        let algorithms = fedbo_federated::ALGORITHMS;
        let checked = read.validate(&file, Objectives::Elsewhere, &NoProblems, algorithms);
        checked.map_err(|error| error.to_string())
    }

    const BUDGET: &str = "[privacy]\nepsilon = 4.0\n";

    #[test]
    fn an_empty_table_is_a_sum_of_two_servers_that_costs_as_much_and_has_two_noises() {
        let alone = read("dp-fts-de", BUDGET).unwrap();
        let sum = read("dp-fts-de", &format!("{BUDGET}[secure_sum]\n")).unwrap();
        let z = |federation: &Federation| federation.privacy().unwrap().parameters()[1].1;
        assert_eq!(z(&sum).to_bits(), z(&alone).to_bits());
        assert_ne!(sum.privacy().unwrap().charter, alone.privacy().unwrap().charter);
        let scale = |federation: &Federation| {
            let config = &federation.privacy().unwrap().charter.config;
            ReleaseScale::of_config(config).unwrap().noise_std()
        };
        assert!((scale(&sum) / scale(&alone) - 2.0_f64.sqrt()).abs() < 1e-12);
        let Collaboration::Released(made) = &sum.collaboration else { panic!("it releases") };
        let ReleaseMechanism::SecureSum(sharing) = made.mechanism(sum.own_arm()) else {
            panic!("two servers sum")
        };
        assert_eq!((sharing.bits(), sharing.proof().name()), (12, "l2"));
        // With 1,000 features or more, numbers have a finer resolution.
        let many = format!("[features]\ncount = 1000\n{BUDGET}[secure_sum]\nproof = \"none\"\n");
        let Collaboration::Released(made) = read("dp-fts-de", &many).unwrap().collaboration else {
            panic!("it releases")
        };
        let ReleaseMechanism::SecureSum(sharing) = &made.releases.mechanism else {
            panic!("two servers sum")
        };
        assert_eq!((sharing.bits(), sharing.proof().name()), (14, "none"));
    }

    #[test]
    fn what_two_servers_cannot_do_is_refused_with_the_way_out() {
        let card = "helper = \"fbs1_x\"\n";
        for (algorithm, tables, parts) in [
            ("fts", "[secure_sum]\n".to_owned(), ["[secure_sum] has no effect", "dp-fts-de"]),
            (
                "dp-fts-de",
                "[privacy]\nmode = \"off\"\n[secure_sum]\n".to_owned(),
                ["[secure_sum] has no effect with privacy.mode = \"off\"", "remove it"],
            ),
            (
                "dp-fts-de",
                format!("{BUDGET}sampling_rate = 0.5\n[secure_sum]\n"),
                ["privacy.sampling_rate below 1", "or the table"],
            ),
            (
                "dp-fts-de",
                format!("{BUDGET}[secure_sum]\nproof = \"l1\"\n"),
                ["secure_sum.proof", "l2"],
            ),
            (
                "dp-fts-de",
                format!("{BUDGET}[secure_sum]\nbits = 7\n"),
                ["bits = 7", "from 8 to 20"],
            ),
            (
                "dp-fts-de",
                format!("{BUDGET}[secure_sum]\n{card}"),
                ["secure_sum.helper_url", "fedbo helper run"],
            ),
            (
                "dp-fts-de",
                format!("{BUDGET}[secure_sum]\nhelper_url = \"https://h\"\n"),
                ["secure_sum.helper", "fedbo helper card"],
            ),
        ] {
            let error = read(algorithm, &tables).map(|_| ()).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{part:?} is not in {error}");
            }
        }
    }

    /// A study cannot be frozen without the other party's server.
    #[test]
    fn a_study_over_a_network_needs_the_other_party() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.toml");
        let text = format!(
            "[federation]\nname = \"f\"\nalgorithm = \"dp-fts-de\"\nrounds = 9\n{BUDGET}[secure_sum]\n[space.x]\ntype = \"float\"\n\
             low = 0.0\nhigh = 1.0\n[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n"
        );
        std::fs::write(&path, &text).unwrap();
        let refused = Federation::freeze(&path, "00", &NoProblems).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("another party runs the second server"), "{refused}");
        let with = "[secure_sum]\nhelper = \"card\"\nhelper_url = \"https://h:7434\"\n";
        std::fs::write(&path, text.replace("[secure_sum]\n", with)).unwrap();
        let by = crate::FrozenFor { key: "00", card: "leader's card" };
        let (_, frozen) = Federation::freeze(&path, by, &NoProblems).unwrap();
        for part in ["leader = \"leader's card\"", "proof = \"l2\"", "bits = 12", "helper_url"] {
            assert!(frozen.contains(part), "{part} is not in\n{frozen}");
        }
        // Freezing the text again does not change it.
        std::fs::write(&path, &frozen).unwrap();
        assert_eq!(Federation::freeze(&path, by, &NoProblems).unwrap().1, frozen);
    }
}

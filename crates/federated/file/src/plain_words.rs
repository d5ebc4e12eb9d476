//! One-sentence descriptions of a study's protection for laypeople. All descriptions of a study use
//! the same wording.

use fedbo_privacy::accounting::{Claim, Mode};

use crate::checked::{Collaboration, Federation};
use crate::privacy::Protection;
use crate::release_scale::LINES;

/// The largest ε for which the bound is shown. For a larger ε, the bound exceeds twenty thousand,
/// which is hardly any protection.
const EPSILON_SHOWN_MAX: f64 = 10.0;

/// The computers that process agents' vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Servers {
    /// One process runs all agents.
    OneProcess,
    /// A coordinator computes the sums.
    Coordinator,
    /// A coordinator and a second party's helper add up shares.
    Two,
    /// A configuration that this program cannot read.
    Unknown,
}

impl Servers {
    fn of(federation: &Federation) -> Self {
        match federation.file().secure_sum {
            Some(_) => Self::Two,
            None => Self::Coordinator,
        }
    }

    /// Returns the servers according to the configuration in a ledger's charter.
    fn of_config(config: &[u8]) -> Self {
        match std::str::from_utf8(config) {
            Ok(text) if text.starts_with(LINES) => Self::OneProcess,
            Ok(text) => Federation::thaw(text).map_or(Self::Unknown, |study| Self::of(&study)),
            Err(_) => Self::Unknown,
        }
    }

    /// Returns the beginning of the sentence, which names the parties that can read an agent's
    /// vectors and the location of the results.
    fn see(self) -> &'static str {
        match self {
            Self::OneProcess => {
                "the machine that runs all parties sees everything and results.csv is not protected; others can learn"
            }
            Self::Coordinator => {
                "each party keeps its data and results; the coordinator's operator can read the summary of its model that it sends, and \
                 others get"
            }
            Self::Two => {
                "each party keeps its data and results; neither the coordinator's operator nor the helper's can read the summary of its \
                 model that it sends unless the two work together, and others get"
            }
            Self::Unknown => "each party sends a summary of its model; others get",
        }
    }
}

impl Federation {
    /// Describes, in one sentence without technical terms, how an agent's messages are protected in
    /// this study, which a coordinator runs.
    #[must_use]
    pub fn in_plain_words(&self) -> String {
        let unprotected = |what: &str| format!("in plain words: {what}");
        match &self.collaboration {
            Collaboration::Relayed(settings) => unprotected(&format!(
                "each party keeps its data, but its messages are not protected: all parties and the coordinator's operator get {}",
                settings.messages_reveal()
            )),
            Collaboration::Neighbours(_) => unprotected(
                "each party keeps its data, but its messages are not protected: its neighbours get every setting that it tried and the \
                 result",
            ),
            Collaboration::Released(made) => match &made.releases.protection {
                Protection::Off => unprotected(
                    "each party keeps its data, but its messages are not protected: the coordinator's operator can read it, and all parties \
                     get exact averages, which hide little if few take part",
                ),
                Protection::Simulated => unprotected(
                    "the messages of parties are not protected: the noise of this study can be computed again from its seed, so use it \
                     only for experiments",
                ),
                Protection::Charged(plan) => charged(Servers::of(self), plan.paid_claim()),
            },
        }
    }
}

/// Describes the protection according to a ledger. `config` is the configuration in the ledger's
/// charter. The claim covers all releases so far.
#[must_use]
pub fn ledger_in_plain_words(config: &[u8], claim: &Claim) -> String {
    charged(Servers::of_config(config), (claim.n_releases > 0).then_some(claim))
}

/// Returns the sentence for releases covered by this claim. Without a claim, there are no releases.
fn charged(servers: Servers, claim: Option<&Claim>) -> String {
    let see = servers.see();
    let Some(claim) = claim else {
        return format!("in plain words: {see} nothing, as nothing is released");
    };
    let sums = "no more than noisy sums over all parties";
    if claim.epsilon > EPSILON_SHOWN_MAX {
        let epsilon = claim.epsilon;
        return format!(
            "in plain words: {see} {sums}, but with noise so weak (epsilon = {epsilon}) that it hardly protects a party"
        );
    }
    let but = match claim.mode {
        Mode::Default => "",
        Mode::Paper => {
            "; this holds for the paper's exact numbers, not for a computer's rounded numbers"
        }
    };
    format!(
        "in plain words: {see} {sums}; any conclusion from them about a party is at most {} times as likely as if the party had sent \
         nothing, plus a chance of 1 in {}{but}",
        thousands(rounded_up(claim.epsilon.exp())),
        thousands(one_in(claim.delta)),
    )
}

/// Rounds `value` ≥ 1 up to two significant digits, so that a bound is never understated.
fn rounded_up(value: f64) -> f64 {
    let scale = 10.0_f64.powf(1.0 - value.log10().floor());
    // Rounding errors of a logarithm or a quotient must not raise the result.
    ((value * scale) * (1.0 - 1e-12)).ceil() / scale
}

/// Returns the largest n ≥ 1 with two significant digits and 1/n ≥ δ.
fn one_in(delta: f64) -> f64 {
    let n = 1.0 / delta;
    let scale = 10.0_f64.powf(1.0 - n.log10().floor()).min(1.0);
    (((n * scale) * (1.0 + 1e-12)).floor() / scale).max(1.0)
}

/// Formats a positive number with commas as thousands separators. Below ten, numbers that are not
/// whole have one decimal place.
fn thousands(value: f64) -> String {
    if value < 10.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use fedbo_config::TomlFile;
    use fedbo_objective::NoProblems;
    use fedbo_privacy::accounting::{AccountantKind, Adjacency};

    use super::*;
    use crate::checked::Objectives;
    use crate::file::FederationFile;

    const CENTRAL: &str = "each party keeps its data and results; the coordinator's operator can read the summary of its model that it \
                           sends, and others get no more than noisy sums over all parties";
    const TWO: &str = "neither the coordinator's operator nor the helper's can read the summary of its model that it sends unless the two \
                       work together";

    fn text(algorithm: &str, tables: &str) -> String {
        let agents: String =
            (0..3).map(|agent| format!("[[agents]]\nname = \"a{agent}\"\n")).collect();
        format!(
            "[federation]\nname = \"f\"\nalgorithm = \"{algorithm}\"\nrounds = 3\n{tables}\n[space.x]\ntype = \"float\"\nlow = 0.0\n\
             high = 1.0\n{agents}"
        )
    }

    fn federation(algorithm: &str, tables: &str) -> Federation {
        let text = text(algorithm, tables);
        let file = TomlFile::from_text(std::path::Path::new("f.toml"), &text);
        let read = file.parse::<FederationFile>().unwrap();
        read.validate(&file, Objectives::Elsewhere, &NoProblems, fedbo_federated::ALGORITHMS)
            .unwrap()
    }

    /// Every mode has one sentence, which names the parties that see a party's messages. No
    /// sentence calls an unprotected mode private.
    #[test]
    fn every_mode_has_its_own_sentence() {
        let budget = "[privacy]\nepsilon = 4.0\n";
        let off = "[privacy]\nmode = \"off\"\n";
        let simulated = "[privacy]\nepsilon = 4.0\nsimulate = true\n";
        let paper = "[privacy]\nmode = \"paper\"\nepsilon = 4.0\ndelta = 0.01\n";
        let large = "[privacy]\nepsilon = 746.0\n";
        let secure = format!("{budget}[secure_sum]\n");
        for (algorithm, tables, parts) in [
            ("fts", "", ["its messages are not protected", "random draws of its model"]),
            (
                "shared-prior",
                "",
                [
                    "its messages are not protected",
                    "statistics of its results and its best setting",
                ],
            ),
            (
                "rgpe",
                "",
                ["its messages are not protected", "get statistics of its results, which reveal"],
            ),
            (
                "distributed-ts",
                "[topology]\ngraph = \"complete\"\n",
                ["its neighbours get every setting", "its messages are not protected"],
            ),
            ("dp-fts-de", off, ["its messages are not protected", "exact averages"]),
            ("dp-fts-de", simulated, ["the messages of parties are not protected", "seed"]),
            (
                "dp-fts-de",
                budget,
                [
                    CENTRAL,
                    "at most 55 times as likely as if the party had sent nothing, plus a chance of 1 in 100,000",
                ],
            ),
            ("dp-shared-prior", budget, [CENTRAL, "at most 55 times"]),
            ("dp-shared-prior", secure.as_str(), [TWO, "at most 55 times"]),
            ("dp-fts-de", paper, [CENTRAL, "1 in 100; this holds for the paper's exact numbers"]),
            ("dp-fts-de", large, [CENTRAL, "that it hardly protects a party"]),
        ] {
            let sentence = federation(algorithm, tables).in_plain_words();
            for part in parts {
                assert!(
                    sentence.contains(part),
                    "{algorithm} {tables}: {part} is not in: {sentence}"
                );
            }
            assert!(!sentence.contains(". ") && !sentence.contains("private"), "{sentence}");
        }
    }

    /// A ledger's sentence equals that of its study's file, but with the ledger's spending so far.
    #[test]
    fn a_ledger_has_the_sentence_of_its_study() {
        let claim = |epsilon: f64, n_releases| Claim {
            epsilon,
            delta: 1e-5,
            n_releases,
            accountant: AccountantKind::Pld,
            adjacency: Adjacency::ZeroOut,
            mode: Mode::Default,
        };
        let study = federation("dp-fts-de", "[privacy]\nepsilon = 4.0\n");
        let plan = study.privacy().unwrap();
        let in_process = ledger_in_plain_words(&plan.charter.config, &claim(1.0, 2));
        assert!(in_process.contains("results.csv is not protected"), "{in_process}");
        assert!(in_process.contains("at most 2.8 times"), "{in_process}");
        let text = text("dp-fts-de", "[privacy]\nepsilon = 4.0\n");
        let planned = plan.paid_claim().unwrap();
        assert_eq!(ledger_in_plain_words(text.as_bytes(), planned), study.in_plain_words());
        let none = ledger_in_plain_words(text.as_bytes(), &claim(0.0, 0));
        assert!(none.ends_with("others get nothing, as nothing is released"), "{none}");
        let unknown = ledger_in_plain_words(b"another program's", &claim(0.5, 1));
        assert!(!unknown.contains("coordinator") && unknown.contains("1.7 times"), "{unknown}");
    }

    /// e^ε is rounded up and 1/δ down: e^0.5 = 1.649, e^1 = 2.718, e^2 = 7.389, e^4 = 54.6, e^8 =
    /// 2980.96, e^10 = 22026.5.
    #[test]
    fn bounds_are_never_understated() {
        for (epsilon, text) in [
            (0.0, "1"),
            (0.5, "1.7"),
            (1.0, "2.8"),
            (2.0, "7.4"),
            (4.0, "55"),
            (8.0, "3,000"),
            (10.0, "23,000"),
        ] {
            assert_eq!(thousands(rounded_up(f64::exp(epsilon))), text, "{epsilon}");
        }
        for (delta, text) in [
            (1e-5, "100,000"),
            (2.94352e-3, "330"),
            (0.0246242, "40"),
            (0.9, "1"),
            (3e-7, "3,300,000"),
        ] {
            assert_eq!(thousands(one_in(delta)), text, "{delta}");
        }
    }
}

//! `pace = "free"`: windows that close at fixed times, and agents that never wait.

use fedbo_config::{Check, FileError};
use fedbo_federated::{Algorithm, Exchange, Role};

use crate::file::FederationFile;

/// Maximum number of windows.
const WINDOWS_MAX: u64 = 1_000_000;
/// Default number of windows for which a message remains usable after its own window.
const MAX_AGE: u64 = 100;
/// Default number of messages handed out in a window.
const SAMPLE: usize = 32;
/// Maximum duration of a trial in virtual time, in seconds.
const TRIAL_S_MAX: f64 = 1e9;

/// The plan for a federation at a free pace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreePlan {
    /// T, the number of windows. After the last window, agents continue with the information that
    /// they have.
    pub windows: u64,
    /// Number of windows for which a relayed message remains usable after its own window.
    pub max_age: u64,
    /// Maximum number of relayed messages handed out in a window.
    pub sample: usize,
    /// Duration of each agent's trials in milliseconds of virtual time, if all agents run in one
    /// process.
    pub trial_ms: Vec<u64>,
}

impl FreePlan {
    /// Parses the keys for a free pace. Returns `None` if the federation proceeds in rounds.
    pub(crate) fn of(
        given: &FederationFile,
        check: Check<'_>,
        algorithm: &Algorithm,
        (n_initial, rounds): (usize, u64),
    ) -> Result<Option<Self>, FileError> {
        let file = check.file;
        let head = given.federation.clone().unwrap_or_default();
        let paces = [("rounds", false), ("free", true)];
        let path = ["federation", "pace"];
        if check.word(&path, head.pace.as_deref(), &paces)? != Some(true) {
            return Self::refuse_keys(given, check).map(|()| None);
        }
        if algorithm.exchange == Exchange::Neighbours || algorithm.role == Role::Alone {
            let message = format!(
                "federation.pace = \"free\" is for agents with a coordinator, but algorithm = {:?} has none; remove it (the table of an \
                 algorithm for neighbours has a key `pace`)",
                algorithm.name
            );
            return Err(file.error(&path, message));
        }
        let standard = rounds.saturating_add(n_initial as u64);
        let windows = head.windows.unwrap_or(standard.min(WINDOWS_MAX));
        if !(1..=WINDOWS_MAX).contains(&windows) {
            let expected = format!("a whole number of windows from 1 to {WINDOWS_MAX}");
            return Err(file.value_error(&["federation", "windows"], expected));
        }
        let relayed = [
            ("max_age", given.network.max_age.is_some()),
            ("sample", given.network.sample.is_some()),
        ];
        if let Some((key, _)) = relayed.iter().find(|(_, is_given)| *is_given)
            && algorithm.exchange != Exchange::Relayed
        {
            let message = format!(
                "network.{key} has no effect with algorithm = {:?}, because its coordinator sends sums and no messages; remove it",
                algorithm.name
            );
            return Err(file.error(&["network", key], message));
        }
        let max_age = given.network.max_age.unwrap_or(MAX_AGE);
        if max_age == 0 {
            let expected = "a whole number of windows, at least 1";
            return Err(file.value_error(&["network", "max_age"], expected));
        }
        let sample = given.network.sample.unwrap_or(SAMPLE);
        let sample = check.count(&["network", "sample"], sample, 1_000_000)?;
        let round_s = given.network.round_s.unwrap_or(crate::network::ROUND_S);
        let trial_ms = given.agents.iter().enumerate().map(|(index, agent)| {
            let seconds = agent.trial_s.unwrap_or(round_s);
            if !(0.001..=TRIAL_S_MAX).contains(&seconds) {
                let expected = format!("seconds from 0.001 to {TRIAL_S_MAX}");
                let index = index.to_string();
                return Err(file.value_error(&["agents", &index, "trial_s"], expected));
            }
            Ok(crate::network::milliseconds(seconds))
        });
        let trial_ms = trial_ms.collect::<Result<_, _>>()?;
        Ok(Some(Self { windows, max_age, sample, trial_ms }))
    }

    /// Refuses keys that have no effect if the federation proceeds in rounds.
    fn refuse_keys(given: &FederationFile, check: Check<'_>) -> Result<(), FileError> {
        let head = given.federation.clone().unwrap_or_default();
        let privacy = given.privacy.clone().unwrap_or_default();
        let slow = given.agents.iter().position(|agent| agent.trial_s.is_some());
        let slow = slow.map(|index| index.to_string());
        let keys: [(&[&str], bool); 5] = [
            (&["federation", "windows"], head.windows.is_some()),
            (&["privacy", "participations"], privacy.participations.is_some()),
            (&["network", "max_age"], given.network.max_age.is_some()),
            (&["network", "sample"], given.network.sample.is_some()),
            (&["agents", slow.as_deref().unwrap_or("0"), "trial_s"], slow.is_some()),
        ];
        match keys.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((path, _)) => {
                let key = path.last().copied().unwrap_or_default();
                let message = format!(
                    "{key} has no effect in rounds; set federation.pace = \"free\", or remove it"
                );
                Err(check.file.error(path, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fedbo_federated::ALGORITHMS;

    use crate::{Collaboration, Federation, Protection};

    fn text(algorithm: &str, head: &str, tables: &str) -> String {
        let agents: String = (0..24).map(|n| format!("[[agents]]\nname = \"a{n}\"\n")).collect();
        format!(
            "[federation]\nname = \"f\"\nalgorithm = {algorithm:?}\nrounds = 60\n{head}\n{tables}\n\
             [space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n{agents}"
        )
    }

    fn read(algorithm: &str, head: &str, tables: &str) -> Result<Federation, String> {
        let text = text(algorithm, head, tables);
        Federation::from_text(&text, ALGORITHMS).map_err(|error| error.to_string())
    }

    /// Compares the noise multipliers for ε = 4 at δ = 1e-5, rounded up to four digits.
    #[test]
    fn an_agent_in_five_of_fifty_windows_pays_for_five_releases() {
        let z = |head: &str, keys: &str| {
            let privacy = format!("[privacy]\nepsilon = 4.0\ndelta = 1e-5\n{keys}");
            let federation = read("dp-fts-de", head, &privacy).unwrap();
            let plan = federation.privacy().unwrap();
            let Collaboration::Released(made) = &federation.collaboration else { unreachable!() };
            let [_, (_, z), _] = plan.parameters();
            (z, plan.charter.participations, made.schedule().n_releases())
        };
        let free = "pace = \"free\"\nwindows = 50";
        assert_eq!(z(free, "participations = 5"), (2.418, Some(5), 50));
        assert_eq!(z(free, ""), (2.418, Some(5), 50), "five by default");
        assert_eq!(z(free, "participations = 50"), (7.646, Some(50), 50));
        assert_eq!(z("", "releases = 50"), (7.646, None, 50));
        assert_eq!(z("", "releases = 5"), (2.418, None, 5));
    }

    #[test]
    fn a_budget_that_pays_for_fewer_lets_each_agent_be_in_fewer() {
        let privacy = "[privacy]\nepsilon = 2.0\nnoise_multiplier = 3.0\nparticipations = 9";
        let federation = read("dp-fts-de", "pace = \"free\"\nwindows = 50", privacy).unwrap();
        let Collaboration::Released(made) = &federation.collaboration else { unreachable!() };
        let Protection::Charged(plan) = &made.releases.protection else { unreachable!() };
        let n_paid = plan.n_paid();
        assert!((1..9).contains(&n_paid) && plan.n_planned() == 9, "{n_paid}");
        assert_eq!(made.releases.participations, Some(n_paid));
        assert_eq!(federation.free_pace().unwrap().uploads_max, Some(n_paid));
    }

    #[test]
    fn keys_that_have_no_effect_or_no_sense_are_named() {
        const FREE: &str = "pace = \"free\"";
        let private = |keys: &str| format!("[privacy]\nepsilon = 4.0\n{keys}");
        for (algorithm, head, tables, expected) in [
            ("fts", "pace = \"quick\"", String::new(), "federation.pace"),
            ("fts", "windows = 3", String::new(), "windows has no effect in rounds"),
            ("fts", "", "[network]\nsample = 3".to_owned(), "sample has no effect in rounds"),
            ("fts", "", "[network]\nmax_age = 3".to_owned(), "max_age has no effect in rounds"),
            (
                "dp-fts-de",
                "",
                private("participations = 3"),
                "participations has no effect in rounds",
            ),
            ("fts", "pace = \"free\"\nwindows = 0", String::new(), "from 1 to 1000000"),
            ("fts", FREE, "[network]\nmax_age = 0".to_owned(), "network.max_age"),
            ("fts", FREE, "[network]\nsample = 0".to_owned(), "network.sample"),
            ("ts", FREE, String::new(), "\"ts\" has none"),
            ("distributed-ts", FREE, String::new(), "\"distributed-ts\" has none"),
            ("dp-fts-de", FREE, private("releases = 5"), "privacy.releases has no effect"),
            ("dp-fts-de", FREE, private("sampling_rate = 0.5"), "privacy.sampling_rate below 1"),
            ("dp-fts-de", FREE, private("participations = 64"), "from 1 to 63"),
            ("dp-fts-de", FREE, private("participations = 0"), "from 1 to 63"),
            ("dp-fts-de", FREE, private("every = 0"), "privacy.every"),
            ("dp-fts-de", FREE, private("mode = \"paper\""), "privacy.mode = \"paper\""),
            ("dp-fts-de", FREE, private("[network]\nsample = 3"), "sends sums and no messages"),
            (
                "dp-fts-de",
                FREE,
                "[privacy]\nmode = \"off\"\nparticipations = 3".to_owned(),
                "privacy.participations has no effect with mode = \"off\"",
            ),
        ] {
            let error = read(algorithm, head, &tables).map(|_| ()).unwrap_err();
            assert!(error.contains(expected), "{algorithm} {head} {tables}: {error}");
        }
        let text = text("fts", FREE, "").replace("name = \"a0\"", "name = \"a0\"\ntrial_s = 0.0");
        let error = Federation::from_text(&text, ALGORITHMS).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("trial_s"), "{error}");
    }

    #[test]
    fn shards_are_for_sums_of_which_everybody_is_a_part() {
        const SHARDS: &str = "[network]\nintake = \"shards\"";
        for (algorithm, head, privacy) in [
            ("fts", "", ""),
            ("dp-fts-de", "", "[privacy]\nepsilon = 4.0\nsampling_rate = 0.5"),
            ("dp-fts-de", "", "[privacy]\nepsilon = 4.0\nmode = \"paper\""),
            ("dp-fts-de", "", "[privacy]\nepsilon = 4.0\n[secure_sum]"),
            ("dp-fts-de", "", "[privacy]\nmode = \"off\""),
        ] {
            let error = read(algorithm, head, &format!("{privacy}\n{SHARDS}"));
            let error = error.map(|_| ()).unwrap_err();
            assert!(error.contains("network.intake = \"shards\" is for sums"), "{error}");
        }
        let rows = format!("[privacy]\nepsilon = 4.0\n{}", SHARDS.replace("shards", "rows"));
        let unknown = read("dp-fts-de", "", &rows).map(|_| ());
        let unknown = unknown.unwrap_err();
        assert!(
            unknown.contains("network.intake") && unknown.contains("expected \"shards\""),
            "{unknown}"
        );
        for head in ["", "pace = \"free\""] {
            let federation =
                read("dp-fts-de", head, &format!("[privacy]\nepsilon = 4.0\n{SHARDS}"));
            assert!(federation.unwrap().network.is_sharded);
        }
    }

    /// The public text contains the chosen values, but not the agents' speeds.
    #[test]
    fn a_study_over_a_network_has_its_windows_written_down() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.toml");
        let freeze = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let problems = &fedbo_objective::NoProblems;
            Federation::freeze(&path, "00ff", problems).unwrap()
        };
        let slow = text("fts", "pace = \"free\"", "")
            .replace("name = \"a0\"", "name = \"a0\"\ntrial_s = 77.0");
        let (federation, frozen) = freeze(&slow);
        assert_eq!(federation.last_round(), 62, "windows 0 to 62");
        assert!(!frozen.contains("trial_s") && frozen.contains("windows = 63"), "{frozen}");
        for key in ["max_age = 100", "sample = 32"] {
            assert!(frozen.contains(key), "{frozen}");
        }
        assert_eq!(federation.network.collect_ms, Some(54_000));
        let private =
            text("dp-fts-de", "pace = \"free\"\nwindows = 50", "[privacy]\nepsilon = 4.0");
        let (federation, frozen) = freeze(&private);
        assert!(frozen.contains("participations = 5") && !frozen.contains("releases"), "{frozen}");
        assert_eq!(federation.privacy().unwrap().charter.participations, Some(5));
        assert_eq!(freeze(&frozen).1, frozen, "frozen once more, it is the same");
    }
}

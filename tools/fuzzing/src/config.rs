//! `config`: the frozen configuration of a study that a coordinator sends to an agent.

use fedbo_config::{FileError, Place};
use fedbo_federation::Federation;

/// Parses the bytes as a study's configuration. An accepted configuration must freeze and parse to
/// the same study again. No features are drawn.
pub fn config(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        thaw(text);
    }
}

/// Parses a string as a frozen federation. Returns `None` if it is invalid.
pub(crate) fn thaw(text: &str) -> Option<Federation> {
    let federation = match Federation::thaw(text) {
        Ok(federation) => federation,
        Err(error) => {
            check_refusal(&error, text);
            return None;
        }
    };
    let again = Federation::thaw(text).expect("what was accepted is accepted again");
    assert_eq!(federation.file(), again.file());
    assert_eq!(federation.space, again.space);
    assert_eq!(federation.features, again.features);
    let charters = [&federation, &again].map(|f| f.privacy().map(|plan| &plan.charter));
    assert_eq!(charters[0], charters[1]);
    if let Some(plan) = federation.privacy() {
        assert_eq!(plan.charter.config, text.as_bytes(), "INV-11");
        assert!(plan.n_paid() <= plan.n_planned());
        if let Some(claim) = plan.paid_claim() {
            assert!(claim.epsilon >= 0.0 && claim.epsilon <= plan.budget().epsilon());
        }
    }
    assert!(federation.space.dim() > 0 && !federation.agents.is_empty());
    Some(federation)
}

/// Checks that an error has a message, and that its position, if any, lies within the text.
pub(crate) fn check_refusal(error: &FileError, text: &str) {
    let plain = error.to_string();
    assert!(!plain.is_empty());
    // The excerpt with its carets follows below; it must not contain terminal control characters.
    let whole = format!("{error:#}");
    assert!(whole.starts_with(&plain));
    let excerpt = error.excerpt().unwrap_or_default();
    assert!(!excerpt.contains(|c: char| c.is_control() && c != '\n'), "{excerpt:?}");
    let place = match error {
        FileError::Syntax { place, .. }
        | FileError::UnknownKey { place, .. }
        | FileError::Value { place, .. }
        | FileError::Missing { place, .. }
        | FileError::Invalid { place, .. } => place,
        _ => return,
    };
    let Place { line, .. } = place;
    let n_lines = 1 + text.matches('\n').count();
    assert!(line.is_none_or(|line| (1..=n_lines).contains(&line)));
}

const PLAIN: &str = "\
[federation]
name = \"labs\"
algorithm = \"fts\"
rounds = 9
seed = 3
initial = 2
[features]
count = 5
lengthscale = { median = 0.5, spread = 0.5 }
[fts]
local_prob = [0.0, 0.5]
agent_sampling = [1.0, 2.0]
message_noise = 0.1
[surrogate]
lengthscale = 0.3
[network]
round_s = 30.0
[space.x]
type = \"float\"
low = 1e-3
high = 1.0
log = true
[space.k]
type = \"categorical\"
choices = [\"a\", \"b\", \"c\"]
[space.s]
type = \"int\"
low = 8
high = 64
step = 8
[space.v]
type = \"categorical\"
choices = [16, 0.5, true, \"auto\"]
[[agents]]
name = \"a\"
[[agents]]
name = \"b\"
";

const PRIVATE: &str = "\
version = 1
[federation]
name = \"labs\"
algorithm = \"dp-fts-de\"
direction = \"minimize\"
rounds = 4
[features]
count = 3
kernel = \"matern-5/2\"
sampling = \"quasi-random\"
[dp-fts-de]
local_prob = \"1-1/sqrt(t)\"
message = \"sample\"
memory = \"mean\"
discount = 0.5
[exploration]
regions = 2
weights = \"linear\"
weight_start = 3.0
weight_hold = \"forever\"
[privacy]
epsilon = 2.0
delta = 1e-6
sampling_rate = 0.5
noise_multiplier = 4.0
max_norm = 1.0
releases = 2
every = 2
accountant = \"renyi\"
[network]
coordinator = \"00ff\"
collect_s = 5.0
[space.n]
type = \"int\"
low = 1
high = 9
[[agents]]
name = \"a\"
[[agents]]
name = \"b\"
";

/// Returns both configurations above, and some with different tables.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let head = "[federation]\nname = \"l\"\nalgorithm = \"dp-fts-de\"\nrounds = 3\n";
    let tail = "[space.x]\ntype = \"float\"\nlow = 0\nhigh = 1\n[[agents]]\nname = \"a\"\n[[agents]]\nname = \"b\"\n";
    let with = |middle: &str| format!("{head}{middle}{tail}").into_bytes();
    vec![
        PLAIN.into(),
        PRIVATE.into(),
        with("[privacy]\nmode = \"off\"\n"),
        with(
            "[privacy]\nmode = \"paper\"\nepsilon = 9.0\nnoise_multiplier = 1.0\nsampling_rate = 0.5\n",
        ),
        with(
            "[privacy]\nepsilon = 2.0\nnoise_multiplier = 1e3\naccountant = \"renyi\"\nsimulate = true\n",
        ),
        with("[dp-fts-de]\nucb_multiplier = { norm_bound = 1.0, failure_prob = 0.1 }\n"),
        format!(
            "{}[[agents]]\nname = \"a\"\nproblem = \"branin\"\n[[agents]]\nname = \"b\"\nproblem = \"levy\"\ndim = 2\n",
            head.replace("dp-fts-de", "ts")
        )
        .into_bytes(),
    ]
}

//! Files with privacy guarantees that cannot be kept.

use crate::common::Sandbox;
use crate::private_run::federations::{constant, federation};

#[test]
fn what_cannot_be_promised_is_refused_with_the_key_and_the_way_out() {
    let sandbox = Sandbox::new();
    let text = federation(8, 5, "[privacy]\nepsilon = 2.0\n");
    let refused = |tables: &str, part: &str| {
        sandbox.write("f.toml", &federation(8, 5, tables));
        let ran = sandbox.fedbo(&["run", "f.toml"]);
        ran.expect(2, &["error: f.toml", part]);
        assert!(!sandbox.path("results").exists());
    };
    let privacy =
        |key: &str, part: &str| refused(&format!("[privacy]\nepsilon = 2.0\n{key}\n"), part);
    refused(
        "",
        "privacy.epsilon is missing; add epsilon = .., the budget of all releases together",
    );
    refused("[privacy]\nepsilon = 0", "privacy.epsilon = 0, expected a finite number above 0");
    refused("[privacy]\nepsilon = inf", "privacy.epsilon = inf, expected a finite number");
    refused("[privacy]\nepsilon = 1e-9", "privacy.epsilon = 1e-9, expected a larger budget");
    privacy("epsilom = 1", "unknown key privacy.epsilom; did you mean epsilon?");
    privacy(
        "mode = \"private\"",
        "privacy.mode = \"private\", expected \"default\", \"paper\" or \"off\"",
    );
    privacy("delta = 1e-3", "privacy.delta = 1e-3, expected above 0 and at most 1e-5");
    privacy("delta = 0.0", "privacy.delta = 0.0, expected above 0");
    privacy("sampling_rate = 1.5", "privacy.sampling_rate = 1.5, expected above 0 and at most 1");
    privacy(
        "noise_multiplier = 0",
        "privacy.noise_multiplier = 0, expected a finite number above 0",
    );
    privacy(
        "noise_multiplier = 1e9",
        "[privacy] noise_multiplier = 1000000000: it must be between",
    );
    privacy("max_norm = -1", "[privacy] max_norm = -1: max_norm / sqrt(n_regions) must be between");
    privacy("releases = 6", "privacy.releases = 6, expected a whole number from 1 to 5");
    privacy("releases = 3\nevery = 3", "privacy.releases = 3, expected a whole number from 1 to 2");
    privacy("every = 0", "privacy.every = 0, expected a whole number of rounds, at least 1");
    privacy(
        "accountant = \"fixed-size\"",
        "privacy.accountant = \"fixed-size\", expected \"pld\", \"renyi\" or \"moments\"",
    );
    privacy("mode = \"off\"", "privacy.epsilon has no effect with mode = \"off\"");
    let with =
        |tables: &str, part: &str| refused(&format!("[privacy]\nepsilon = 2.0\n{tables}\n"), part);
    with(
        "[exploration]\nregions = 9",
        "exploration.regions = 9, expected a whole number from 1 to 8",
    );
    with(
        "[exploration]\nstart = \"here\"",
        "exploration.start = \"here\", expected \"region\" or \"anywhere\"",
    );
    with(
        "[exploration]\nweights = \"uniform\"\nweight_hold = 3",
        "exploration.weight_hold has no effect",
    );
    with(
        "[exploration]\nweight_hold = \"ever\"",
        "exploration.weight_hold = \"ever\", expected a whole number of rounds",
    );
    with(
        "[exploration]\nweight_hold = 1.5",
        "exploration.weight_hold = 1.5, expected a whole number of rounds",
    );
    with(
        "[exploration]\nweight_start = 0.5",
        "exploration.weight_start = 0.5, expected a number of at least 1",
    );
    with(
        "[exploration]\nweight_hold = \"forever\"\nweight_decay = 3",
        "exploration.weight_decay has no effect",
    );
    with(
        "[dp-fts-de]\nlocal_prob = \"1-1/t^3\"",
        "dp-fts-de.local_prob = \"1-1/t^3\", expected \"1-1/t\", \"1-1/sqrt(t)\", \"1-1/t^2\"",
    );
    with("[dp-fts-de]\nlocal_prob = 1.5", "dp-fts-de.local_prob = 1.5, expected a probability");
    with(
        "[dp-fts-de]\nmessage = \"median\"",
        "dp-fts-de.message = \"median\", expected \"mean\" or \"sample\"",
    );
    with("[dp-fts-de]\nmemory = \"latest\"\ndiscount = 0.5", "dp-fts-de.discount has no effect");
    with("[dp-fts-de]\ndiscount = 0.0", "dp-fts-de.discount = 0.0, expected a number above 0");
    with(
        "[dp-fts-de]\ntrust = \"me\"",
        "dp-fts-de.trust = \"me\", expected \"schedule\" or \"signal\"",
    );
    with("[dp-fts-de]\nmessage_noise = 0", "dp-fts-de.message_noise = 0, expected");
    with(
        "[fts]\nlocal_prob = 0.5",
        "[fts] has no effect unless federation.algorithm is \"fts\" or \"ts\"",
    );
    // A file with a [privacy] table that would protect nobody is refused.
    for algorithm in ["fts", "ts"] {
        let other = text.replace("\"dp-fts-de\"", &format!("{algorithm:?}"));
        sandbox.write("f.toml", &other);
        let part = "[privacy] has no effect unless federation.algorithm is \"dp-shared-prior\" or \"dp-fts-de\"";
        sandbox.fedbo(&["run", "f.toml"]).expect(2, &["f.toml, line 12", part]);
    }
    // Regions that contain no point of the space are refused.
    let narrow = constant("[privacy]\nepsilon = 2.0\n[exploration]\nregions = 8\n", 8)
        .replace("type = \"float\"\nlow = 0.0\nhigh = 1.0", "type = \"int\"\nlow = 0\nhigh = 1");
    sandbox.write("f.toml", &narrow);
    sandbox
        .fedbo(&["run", "f.toml"])
        .expect(2, &["exploration.regions = 8: the space cannot be cut into 8 regions"]);
}

//! tmp
#![expect(clippy::print_stdout, reason = "tmp")]
use fedbo_federation::Federation;
use std::time::Instant;
fn time(label: &str, text: &str) {
    let t = Instant::now();
    let r = Federation::thaw(text);
    let rss = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hwm = rss
        .lines()
        .find(|l| l.starts_with("VmHWM"))
        .unwrap_or("")
        .to_owned();
    let said = match r {
        Ok(_) => "ok".to_owned(),
        Err(e) => e.to_string().chars().take(150).collect(),
    };
    println!(
        "{label}: {:.2}s {hwm} {said} ({} bytes)",
        t.elapsed().as_secs_f64(),
        text.len()
    );
}
fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let space = "[space.x]\ntype = \"float\"\nlow = 0\nhigh = 1\n";
    let agents = |n: usize| {
        (0..n)
            .map(|i| format!("[[agents]]\nname = \"a{i}\"\n"))
            .collect::<String>()
    };
    let dp = |rounds: u64, privacy: &str, n: usize| {
        format!(
            "[federation]\nname = \"l\"\nalgorithm = \"dp-fts-de\"\nrounds = {rounds}\n[privacy]\n{privacy}\n{space}{}",
            agents(n)
        )
    };
    let run = |label: &str, text: String| {
        if label.contains(&only) {
            time(label, &text)
        }
    };
    for acc in ["pld", "renyi", "moments"] {
        for rounds in [1u64, 100, 1_000_000] {
            run(
                &format!("dp {acc} {rounds} eps only"),
                dp(
                    rounds,
                    &format!("epsilon = 2.0\nreleases = {rounds}\naccountant = \"{acc}\""),
                    2,
                ),
            );
            run(
                &format!("dp {acc} {rounds} q z"),
                dp(
                    rounds,
                    &format!(
                        "epsilon = 2.0\nreleases = {rounds}\naccountant = \"{acc}\"\nsampling_rate = 0.01\nnoise_multiplier = 0.5"
                    ),
                    2,
                ),
            );
            run(
                &format!("dp {acc} {rounds} tiny eps"),
                dp(
                    rounds,
                    &format!(
                        "epsilon = 1e-9\nreleases = {rounds}\naccountant = \"{acc}\"\nsampling_rate = 1e-6"
                    ),
                    2,
                ),
            );
            run(
                &format!("dp {acc} {rounds} huge eps"),
                dp(
                    rounds,
                    &format!(
                        "epsilon = 1e9\nreleases = {rounds}\naccountant = \"{acc}\"\nsampling_rate = 0.3\ndelta=1e-300"
                    ),
                    2,
                ),
            );
            run(
                &format!("dp {acc} {rounds} small z"),
                dp(
                    rounds,
                    &format!(
                        "epsilon = 1e9\nreleases = {rounds}\naccountant = \"{acc}\"\nnoise_multiplier = 0.01\nsampling_rate = 0.3"
                    ),
                    2,
                ),
            );
            run(
                &format!("dp {acc} {rounds} large z"),
                dp(
                    rounds,
                    &format!(
                        "epsilon = 1.0\nreleases = {rounds}\naccountant = \"{acc}\"\nnoise_multiplier = 1e4\nsampling_rate = 0.9"
                    ),
                    2,
                ),
            );
        }
    }
    let fts = |middle: &str, space: &str, agents: &str| {
        format!(
            "[federation]\nname = \"l\"\nalgorithm = \"fts\"\nrounds = 3\n{middle}{space}{agents}"
        )
    };
    for n in [50_000usize, 400_000, 1_600_000] {
        run(
            &format!("choices {n}"),
            fts(
                "",
                &format!(
                    "[space.x]\ntype = \"categorical\"\nchoices = [{}]\n",
                    (0..n)
                        .map(|i| format!("\"{i}\""))
                        .collect::<Vec<_>>()
                        .join(",")
                ),
                &agents(2),
            ),
        );
        run(
            &format!("parameters {n}"),
            fts(
                "",
                &(0..n)
                    .map(|i| format!("[space.x{i}]\ntype = \"float\"\nlow = 0\nhigh = 1\n"))
                    .collect::<String>(),
                &agents(2),
            ),
        );
        run(&format!("agents {n}"), fts("", space, &agents(n)));
        run(&format!("dp agents {n}"), dp(3, "epsilon = 2.0", n));
        run(
            &format!("dotted {n}"),
            format!("{} = 1", vec!["a"; n].join(".")),
        );
        run(
            &format!("header {n}"),
            format!("[{}]", vec!["a"; n].join(".")),
        );
        run(
            &format!("nested {n}"),
            format!("a = {}{}", "[".repeat(n), "]".repeat(n)),
        );
        run(
            &format!("inline {n}"),
            format!("a = {}1{}", "{a=".repeat(n), "}".repeat(n)),
        );
        run(
            &format!("unknown tables {n}"),
            (0..n).map(|i| format!("[x{i}]\n")).collect::<String>(),
        );
        run(
            &format!("local_prob list {n}"),
            fts(
                &format!("[fts]\nlocal_prob = [{}]\n", vec!["0.5"; n].join(",")),
                space,
                &agents(2),
            ),
        );
    }
    run(
        "wine",
        fts(
            "direction = \"maximize\"\n",
            "",
            &(0..8)
                .map(|i| {
                    format!("[[agents]]\nname = \"a{i}\"\nproblem = \"wine-svm\"\nsilo = {i}\n")
                })
                .collect::<String>(),
        ),
    );
    run(
        "wine many",
        fts(
            "direction = \"maximize\"\n",
            "",
            &(0..200)
                .map(|i| {
                    format!(
                        "[[agents]]\nname = \"a{i}\"\nproblem = \"wine-svm\"\nsilo = {}\n",
                        i % 8
                    )
                })
                .collect::<String>(),
        ),
    );
    run(
        "dim",
        fts(
            "direction = \"minimize\"\n",
            "",
            &(0..200)
                .map(|i| format!("[[agents]]\nname = \"a{i}\"\nproblem = \"ackley\"\ndim = 1000\n"))
                .collect::<String>(),
        ),
    );
    run(
        "regions",
        format!(
            "{}[exploration]\nregions = 10000\n",
            dp(3, "epsilon = 2.0", 10000)
        ),
    );
}

//! The declared arms, their costs and their results, in sessions with few fields and rounds.

use fedbo_report::Summary;
use fedbo_strategies::MessageContent;
use fedbo_testkit::published_data;

use super::super::RunOptions;
use super::super::population::{CollaborationMode, Release};
use super::arms::{EPSILONS, Setting};
use super::*;
use fedbo_runner::Ended;

fn arm<'a>(arms: &'a [Arm], name: &str, panel: &str) -> &'a Arm {
    let mut found = arms.iter().filter(|arm| arm.name == name && arm.panels.contains(&panel));
    let arm = found.next().expect("an arm of this name");
    assert!(found.next().is_none(), "two arms are called {name}");
    arm
}

/// Returns a setup with the first fields and a few rounds.
fn small(n_agents: usize, n_rounds: u64) -> Setup {
    let mut setup = Setup::read(&published_data("landmine")).expect("the data folder");
    setup.svms.truncate(n_agents);
    Setup { n_rounds, ..setup }
}

/// Returns the rows of a session, and its share of signal.
fn played(setup: &Setup, arm: &Arm) -> (Vec<Row>, f64) {
    let unit = RowLabels::new(arm.panels[0], arm.name.clone(), "mean over fields", 0);
    let shares = Mutex::new(SharesOfSignal::new());
    let stop = AtomicBool::new(false);
    let played = session(setup, arm, &unit, &Seed::new(5), &shares, &stop);
    let (rows, ended) = played.expect("a session");
    assert_eq!(ended, Ended::Complete);
    let shares = shares.into_inner().expect("no panic");
    (rows, shares[&arm.key()][0])
}

fn values(rows: &[Row]) -> Vec<Option<f64>> {
    rows.iter().map(|row| row.value).collect()
}

/// The nine losses of Fig. 3a, to the printed digits. Exactly the arms with noise have a cost.
#[test]
fn schedules_cost_what_the_paper_says() {
    let arms = arms().expect("the arms");
    let published = [
        (0.35, 1.0, 15.17),
        (0.35, 1.6, 7.12),
        (0.35, 2.0, 5.14),
        (0.35, 3.0, 3.05),
        (0.35, 4.0, 2.16),
        (0.1, 1.0, 3.75),
        (0.15, 1.0, 5.98),
        (0.2, 1.0, 7.69),
        (0.25, 1.0, 9.82),
    ];
    for (q, z, loss) in published {
        let mut of_name = arms.iter().filter(|arm| arm.name == format!("q={q} z={z}"));
        let arm = of_name.next().expect("the arm");
        let found = costs::by_moments(&arm.approach, N_AGENTS).expect("an accountant");
        let found = found.expect("a cost");
        assert!((found - loss).abs() <= 0.005 + 1e-9, "{q} {z}: {found}");
        let pld = costs::by_pld(&arm.approach, N_AGENTS, costs::papers_delta(N_AGENTS));
        let pld = pld.expect("an accountant").expect("a cost");
        assert!(pld < 0.75 * found, "{pld} beside {found}");
    }
    for arm in &arms {
        let cost = costs::by_pld(&arm.approach, N_AGENTS, DELTA).expect("an accountant");
        let fixed = costs::by_fixed_size(&arm.approach, N_AGENTS, DELTA).expect("an accountant");
        assert_eq!(fixed.is_some(), arm.name.starts_with("10 of 29"), "{}", arm.name);
        let noisy = arm.name.contains('=') && fixed.is_none() || arm.name == "placebo";
        assert_eq!(cost.is_some(), noisy, "{}", arm.name);
    }
}

/// An arm named after an epsilon costs nearly that much, and never more.
#[test]
fn budgets_are_kept_and_used() {
    let arms = arms().expect("the arms");
    for epsilon in EPSILONS {
        let arm = arm(&arms, &format!("epsilon = {epsilon}"), panel::OURS);
        let cost = costs::by_pld(&arm.approach, N_AGENTS, DELTA).expect("an accountant");
        let cost = cost.expect("a cost");
        assert!(cost <= epsilon && cost > 0.99 * epsilon, "{cost}");
    }
}

#[test]
fn every_arm_is_compared_with_both_starts_and_the_placebo() {
    let arms = arms().expect("the arms");
    for panel in [panel::NOISE, panel::SAMPLING, panel::VARIANTS, panel::OURS] {
        let pairs = pairs_of(&arms, panel);
        for arm in arms.iter().filter(|arm| arm.panels.contains(&panel)) {
            let controls = pairs.iter().filter(|(name, _)| *name == arm.name);
            let n_controls = match arm.name.as_str() {
                "ts" => 0,
                "ts regional" => 1,
                "placebo" => 2,
                _ => 3,
            };
            assert_eq!(controls.count(), n_controls, "{panel}: {}", arm.name);
        }
        for (arm, control) in pairs {
            assert_ne!(arm, control);
            self::arm(&arms, &control, panel);
        }
    }
}

/// Every arm runs for two rounds: initial points and queries are present, values are AUCs, and arms
/// with equal starts have equal initial values.
#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn every_arm_runs() {
    let arms = arms().expect("the arms");
    let mut begun: BTreeMap<bool, Vec<Option<f64>>> = BTreeMap::new();
    let setup = small(5, 2);
    for arm in &arms {
        let (rows, share) = played(&setup, arm);
        assert_eq!(rows.len(), (N_INITIAL + 2) * arm.panels.len());
        let first = &rows[..N_INITIAL + 2];
        let iterations: Vec<i64> = first.iter().map(|row| row.iteration).collect();
        assert_eq!(iterations, (-9..=2).collect::<Vec<_>>());
        for row in first {
            let best = row.best.expect("a best value");
            assert!((0.4..=1.0).contains(&best) && row.agent == "mean over fields");
        }
        // FTS has one region, like Thompson sampling from points anywhere.
        let anywhere = arm.approach.n_regions == 1;
        let initial = values(&first[..N_INITIAL]);
        let known = begun.entry(anywhere).or_insert_with(|| initial.clone());
        assert_eq!(*known, initial, "{}", arm.name);
        // Round 1 uses the aggregate with certainty (p_1 = 0), unless the arm is alone.
        let alone = arm.name.starts_with("ts");
        assert_eq!(first[N_INITIAL].source == "5 of 5 from aggregates", !alone);
        if arm.name == "placebo" {
            assert!(share < 0.5, "{}: {share}", arm.name);
        } else if arm.name.starts_with("fts") {
            assert!(share > 0.999, "{}: {share}", arm.name);
        }
    }
    assert_ne!(begun[&true], begun[&false]);
}

/// One placebo serves all q and z, because the maximizer of pure noise does not depend on the
/// noise's magnitude. With a signal, it does.
#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn a_placebos_queries_do_not_depend_on_the_size_of_its_noise() {
    let (arms, setup) = (arms().expect("the arms"), small(6, 4));
    let louder = |arm: &Arm, factor: f64, content: MessageContent| {
        let mut approach: CollaborationMode = arm.approach.clone();
        if let Release::Paper { noise_multiplier, .. } = &mut approach.release {
            *noise_multiplier *= factor;
        }
        approach.message.content = content;
        let arm = Arm {
            name: arm.name.clone(),
            label: String::new(),
            panels: vec![panel::NOISE],
            series: None,
            setting: Setting::Paper,
            approach,
        };
        values(&played(&setup, &arm).0)
    };
    let placebo = arm(&arms, "placebo", panel::NOISE);
    let silent = [1.0, 4.0].map(|factor| louder(placebo, factor, MessageContent::Zero));
    assert_eq!(silent[0], silent[1]);
    let speaking = [1e-3, 4.0].map(|factor| louder(placebo, factor, MessageContent::Posterior));
    assert_ne!(speaking[0], speaking[1]);
}

#[test]
fn the_picture_has_all_arms_that_cost_something_and_the_others_as_lines() {
    let arms = arms().expect("the arms");
    let spec = tradeoff(&arms).expect("a specification");
    let [paper, ours] = &spec.panels[..] else { panic!("two panels") };
    let sizes: Vec<usize> = paper.series.iter().map(|each| each.points.len()).collect();
    assert_eq!((sizes, ours.series[0].points.len()), (vec![5, 4, 1], 3));
    let levels: Vec<&str> = paper.levels.iter().map(|level| level.arm.as_str()).collect();
    assert_eq!(levels, ["ts", "ts regional", "fts", "fts-de", "placebo"]);
    assert_eq!(ours.levels.len(), 4);
    for panel in &spec.panels {
        for point in panel.series.iter().flat_map(|series| &series.points) {
            arm(&arms, &point.arm.arm, &point.arm.configuration);
            assert!((1.0..16.0).contains(&point.cost), "{point:?}");
        }
    }
}

/// An experiment that is stopped immediately still has a summary, figures and the authors' values.
#[test]
#[ignore = "data: run by cargo xtask test --all"]
fn an_interrupted_experiment_still_says_what_schedules_cost() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = Some(published_data("landmine"));
    let options = RunOptions { data, ..RunOptions::once(3, folder.path()) };
    let stop = AtomicBool::new(true);
    let finding = run(Call { options: &options, progress: &(), stop: &stop, default_runs: 1 })
        .expect("a finding");
    assert_eq!(finding.ended, Ended::Interrupted);
    let summary = Summary::read(folder.path()).expect("a summary");
    assert!(summary.interrupted && summary.private != Some(true) && summary.tradeoff.is_some());
    assert!(folder.path().join("tradeoff.svg").exists());
    let notes = finding.notes.join("\n");
    for expected in [
        "authors' 0.2375", // TS
        "authors' 0.2319", // q = 0.35, z = 1
        "moments  15.17",
        "moments   2.16",
        "has norm z S phi_max sqrt(M)/q = 90",
        "nothing here is private",
    ] {
        assert!(notes.contains(expected), "{expected} is not in\n{notes}");
    }
    assert_eq!(notes.matches("authors' 0.2").count(), 12);
}

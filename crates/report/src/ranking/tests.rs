use fedbo_space::Direction;

use super::super::summary::{SummaryRequest, summarize, summarize_configurations};
use super::super::trace::tests::row;
use super::*;

fn request(experiment: &str) -> SummaryRequest {
    SummaryRequest {
        checkpoints: vec![1],
        clusters: Clusters::Agents,
        ..SummaryRequest::new(experiment, 0, Direction::Minimize, Metric::Best)
    }
}

fn ranking_request() -> RankingRequest {
    let group = |name: &str| vec![TaskGroup { by: "size".to_owned(), name: name.to_owned() }];
    let groups = [("f", "small"), ("g", "small"), ("h", "large")];
    RankingRequest {
        control: "a".to_owned(),
        checkpoints: vec![1],
        groups: groups.map(|(task, name)| (task.to_owned(), group(name))).into(),
    }
}

/// Creates rows for three tasks, one of them with two runs; smaller is better.
///
/// | task, run | a | b | c |
/// | --- | --- | --- | --- |
/// | f, 0 | 1 | 2 | 3 |
/// | f, 1 | 4 | 2 | 3 |
/// | g, 0 | 1 | 1 | 5 |
/// | h, 0 | 9 | 7 | none |
fn rows() -> Vec<Row> {
    let values = [
        ("f", 0, [Some(1.0), Some(2.0), Some(3.0)]),
        ("f", 1, [Some(4.0), Some(2.0), Some(3.0)]),
        ("g", 0, [Some(1.0), Some(1.0), Some(5.0)]),
        ("h", 0, [Some(9.0), Some(7.0), None]),
    ];
    let of = |(task, run, values): (&str, u32, [Option<f64>; 3])| {
        ["a", "b", "c"]
            .into_iter()
            .zip(values)
            .map(move |(arm, v)| row(arm, task, run, 1, v))
            .collect()
    };
    values.into_iter().flat_map::<Vec<Row>, _>(of).collect()
}

fn ranked(rows: &[Row]) -> Ranking {
    let mut summary = summarize(rows, &request("test"));
    summary.rank(rows, &ranking_request());
    summary.ranking.expect("it was asked for")
}

/// Task f: ranks (1, 2, 3) and (3, 1, 2), with means (2, 1.5, 2.5). Task g: (1.5, 1.5, 3). Task h
/// has no outcome for c and is omitted.
#[test]
fn mean_ranks_agree_with_a_hand_computation() {
    let ranking = ranked(&rows());
    let find = |name: Option<&str>| {
        let mut at_the_end = ranking.ranks.iter().filter(|ranks| ranks.iteration.is_none());
        at_the_end.find(|ranks| ranks.group.as_ref().map(|group| group.name.as_str()) == name)
    };
    let expected = [("a", 1.75), ("b", 1.5), ("c", 2.75)].map(|(arm, r)| (arm.to_owned(), r));
    for name in [None, Some("small")] {
        let found = find(name).expect("ranks");
        assert_eq!(found.tasks, 2);
        for ((arm, rank), (expected_arm, expected)) in found.arms.iter().zip(&expected) {
            assert_eq!(arm, expected_arm);
            assert!((rank - expected).abs() < 1e-12, "{arm}: {rank}");
        }
    }
    assert_eq!(find(Some("large")), None);
}

/// b against a: f has differences 1 and −2, with mean −0.5, so it is a win; g is a tie; h is a win.
/// c against a: f has 2 and −1, a loss; g is a loss.
#[test]
fn wins_ties_and_losses_agree_with_a_hand_computation() {
    let ranking = ranked(&rows());
    let find = |arm: &str, name: Option<&str>| {
        let mut all = ranking.signs.iter().filter(|signs| signs.iteration == Some(1));
        let of_group =
            |signs: &&Signs| signs.group.as_ref().map(|group| group.name.as_str()) == name;
        all.find(|signs| signs.arm == arm && of_group(signs)).expect("signs").clone()
    };
    let counts = |signs: Signs| (signs.wins, signs.ties, signs.losses);
    assert_eq!(counts(find("b", None)), (2, 1, 0));
    assert_eq!(counts(find("b", Some("small"))), (1, 1, 0));
    assert_eq!(counts(find("c", None)), (0, 0, 2));
    assert!(ranking.signs.iter().all(|signs| signs.arm != "a" && signs.control == "a"));
    let b = find("b", None);
    assert!((b.p_value.expect("no ties alone") - 0.5).abs() < 1e-12);
    assert_eq!(b.verdict, Verdict::Unclear);
    // At the checkpoint and at the end, for b and c: four tests.
    assert_eq!((ranking.comparisons, b.p_adjusted), (4, Some(1.0)));
    assert_eq!(find("b", Some("small")).p_adjusted, None);
}

#[test]
fn a_larger_value_wins_where_that_is_better() {
    let rows = rows();
    let mut summary =
        summarize(&rows, &SummaryRequest { direction: Direction::Maximize, ..request("test") });
    summary.rank(&rows, &ranking_request());
    let ranking = summary.ranking.expect("it was asked for");
    let b = ranking.signs.iter().find(|signs| signs.arm == "b" && signs.group.is_none());
    assert_eq!(b.map(|b| (b.wins, b.ties, b.losses)), Some((0, 1, 2)));
}

/// Eight wins out of eight give p = 2/256 = 0.0078. After correction for the four tests of two
/// configurations, it is 0.031, a gain.
#[test]
fn the_correction_is_over_all_configurations() {
    let tasks = ["1", "2", "3", "4", "5", "6", "7", "8"];
    let of = |experiment: &str| -> Vec<Row> {
        let both =
            |task: &&str| [("a", 2.0), ("b", 1.0)].map(|(arm, v)| row(arm, task, 0, 1, Some(v)));
        let named = |row: Row| Row { experiment: experiment.to_owned(), ..row };
        tasks.iter().flat_map(both).map(named).collect()
    };
    let rows = [of("one"), of("two")].concat();
    let mut summary = summarize_configurations(&rows, &request("test"), |_| Vec::new());
    summary.rank(&rows, &RankingRequest { groups: BTreeMap::new(), ..ranking_request() });
    assert_eq!(summary.ranking, None);
    for part in &summary.configurations {
        let ranking = part.ranking.as_ref().expect("each has its own");
        assert_eq!((ranking.comparisons, ranking.signs.len()), (4, 2));
        for signs in &ranking.signs {
            assert_eq!((signs.wins, signs.verdict), (8, Verdict::Gain));
            assert!((signs.p_value.expect("no ties") - 2.0 / 256.0).abs() < 1e-12);
            assert!((signs.p_adjusted.expect("no ties") - 8.0 / 256.0).abs() < 1e-12);
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    summary.write(folder.path()).expect("a writable folder");
    assert_eq!(Summary::read(folder.path()).expect("a readable summary"), summary);
}

/// Sums of binomial coefficients by hand: 2 (1 + 10)/2¹⁰, 2 (1 + 10 + 45 + 120)/2¹⁰, 2/2⁶.
#[test]
fn sign_tests_are_sums_of_binomial_coefficients() {
    for (wins, losses, expected) in [
        (9, 1, Some(22.0 / 1024.0)),
        (1, 9, Some(22.0 / 1024.0)),
        (3, 7, Some(352.0 / 1024.0)),
        (6, 0, Some(2.0 / 64.0)),
        (5, 5, Some(1.0)),
        (1, 0, Some(1.0)),
        (0, 0, None),
    ] {
        let found = sign_test(wins, losses);
        assert_eq!(found.is_some(), expected.is_some(), "{wins}, {losses}");
        if let (Some(found), Some(expected)) = (found, expected) {
            assert!((found - expected).abs() < 1e-12, "{wins}, {losses}: {found}");
        }
    }
    // Large numbers: for 600 wins in 1,000, the normal approximation with a continuity correction
    // gives about 2.8e-10.
    let p = sign_test(600, 400).expect("no ties");
    assert!(p > 1e-10 && p < 5e-10, "{p}");
}

#[test]
fn quantiles_lie_between_the_values() {
    let values = [1.0, 2.0, 4.0, 8.0];
    for (share, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 3.0), (1.0, 8.0)] {
        assert!((quantile(&values, share).expect("values") - expected).abs() < 1e-12);
    }
    assert_eq!(quantile(&[5.0], 0.75), Some(5.0));
    assert_eq!(quantile(&[], 0.5), None);
}

#[test]
fn tables_show_groups_at_the_end_and_all_tasks_on_the_way() {
    let tables = ranked(&rows()).tables(Metric::Best);
    for line in ["| all", "| size: small", "| b − a", "| best"] {
        assert!(tables.contains(line), "{line} in\n{tables}");
    }
    let groups = tables.lines().filter(|line| line.contains("size: small"));
    assert_eq!(groups.count(), 2, "ranks, and wins:\n{tables}");
    let small = tables.lines().rfind(|line| line.contains("size: small"));
    let cells: Vec<&str> =
        small.into_iter().flat_map(|line| line.split('|')).map(str::trim).collect();
    assert_eq!(cells[2..4], ["1/1/0", "0/0/2"], "{tables}");
}

//! Tables on standard output.

use serde_json::Value;

use super::cell::{Kind, Requirement};
use super::peers::Peers;
use super::{Measured, Row, service};

/// A mean that is at most this many combined standard errors below a peer's counts as equal.
const EQUAL_SE: f64 = 2.0;
/// A log likelihood that is at most this far below a peer's counts as equal, since the searches
/// stop within this tolerance.
const EQUAL_LML: f64 = 1e-3;

/// Prints one table per kind of cell.
pub(crate) fn print(done: &[Measured<'_>], peers: &Peers) {
    for kind in Kind::COMPARED {
        let cells: Vec<&Measured<'_>> = done.iter().filter(|m| m.cell.kind == kind).collect();
        if cells.is_empty() {
            continue;
        }
        println!("\n{}: {} cores, median wall seconds", kind.bench(), super::n_cores());
        match (kind, peers) {
            (Kind::Message, _) => println!(
                "The authors' times are stored results from another machine and time: read the ratio as an order of \
                 magnitude. gap: the improvement over our maximum found by 10,000 points and 50 refinements."
            ),
            (Kind::AskTell, Peers::Run { .. }) => println!(
                "Ours is the mean over the steps of one refit interval, including the refit; theirs is the median of 12 steps. \
                 Peers ran between two runs of ours in each cell; the slower of ours is shown."
            ),
            (_, Peers::Run { .. }) => println!(
                "Peers ran between two runs of ours in each cell; the slower of ours is shown."
            ),
            (_, Peers::Stored { .. }) => println!(
                "No Python with the peers' packages: theirs are stored times from another machine and time, so the \
                 ratios are not measurements."
            ),
            (_, Peers::Absent) => println!("Neither peers nor stored results are available."),
        }
        let mut table = Table::new(&[
            "cell",
            "peer",
            "ours",
            "theirs",
            "theirs / ours",
            "our quality",
            "their quality",
            "difference",
            "required",
        ]);
        cells.iter().for_each(|measured| compare(measured, &mut table));
        table.print();
    }
    for kind in Kind::ALONE {
        let rows: Vec<&Row> =
            done.iter().filter(|m| m.cell.kind == kind).flat_map(|m| &m.ours).collect();
        match kind {
            _ if rows.is_empty() => {}
            Kind::Aggregation => aggregation(&rows),
            Kind::PrivateRound => private_round(&rows),
            Kind::MetaStep | Kind::MetaScaling => other_tasks(kind, &rows),
            Kind::StoppingProblem => stopping_problem(&rows),
            Kind::GameDecision => game_decision(&rows),
            Kind::PrivacyAccounting => privacy_accounting(&rows),
            Kind::Secsum => secsum(&rows),
            Kind::CoordinatorLoad | Kind::CoordinatorConnections => service::print(kind, &rows),
            Kind::Memory => memory(&rows),
            other => scaling(other.bench(), &rows),
        }
    }
}

/// Adds one line per peer of a cell, or a single line without peers.
fn compare(measured: &Measured<'_>, table: &mut Table) {
    let Some(ours) = measured.ours.first() else {
        return;
    };
    let seconds = number(ours, "seconds").unwrap_or(f64::NAN);
    let name = measured.cell.name.clone();
    if measured.theirs.is_empty() {
        table.row([
            name.clone(),
            "-".into(),
            time(seconds),
            "-".into(),
            "-".into(),
            our_quality(ours),
            "-".into(),
            "-".into(),
            "-".into(),
        ]);
    }
    for theirs in &measured.theirs {
        let ratio = number(theirs, "seconds").unwrap_or(f64::NAN) / seconds;
        let difference = Difference::of(ours, theirs);
        let peer = text(theirs, "peer");
        let required = measured
            .cell
            .requirement
            .as_ref()
            .filter(|requirement| peer.starts_with(requirement.peer))
            .map_or_else(|| "-".into(), |r| verdict(r, ratio, &difference));
        table.row([
            name.clone(),
            peer,
            time(seconds),
            time(number(theirs, "seconds").unwrap_or(f64::NAN)),
            format!("{ratio:.0$}", usize::from(ratio < 100.0)),
            our_quality(ours),
            quality(theirs),
            difference.shown(),
            required,
        ]);
    }
}

fn verdict(requirement: &Requirement, ratio: f64, difference: &Difference) -> String {
    let word = match (ratio >= requirement.ratio, difference.equal_or_better()) {
        (true, true) => "held",
        (false, true) => "MISSED",
        (_, false) => "MISSED (quality)",
    };
    format!("{}x: {word}", requirement.ratio)
}

/// Difference between our quality and a peer's.
enum Difference {
    /// Mean values reached: the difference and its standard error.
    Values { ours_less_theirs: f64, standard_error: f64 },
    /// Log likelihoods.
    Likelihoods { ours_less_theirs: f64 },
    /// Not comparable.
    Unknown,
}

impl Difference {
    fn of(ours: &Row, theirs: &Row) -> Self {
        let both = |key: &str| number(ours, key).zip(number(theirs, key));
        if let Some((a, b)) = both("lml") {
            return Self::Likelihoods { ours_less_theirs: a - b };
        }
        match both("value_mean").zip(both("value_se")) {
            Some(((a, b), (se_a, se_b))) => {
                Self::Values { ours_less_theirs: a - b, standard_error: se_a.hypot(se_b) }
            }
            None => Self::Unknown,
        }
    }

    fn equal_or_better(&self) -> bool {
        match self {
            Self::Values { ours_less_theirs, standard_error } => {
                *ours_less_theirs >= -EQUAL_SE * standard_error
            }
            Self::Likelihoods { ours_less_theirs } => *ours_less_theirs >= -EQUAL_LML,
            Self::Unknown => true,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Values { ours_less_theirs, standard_error } => {
                format!("{ours_less_theirs:+.3} ± {standard_error:.3}")
            }
            Self::Likelihoods { ours_less_theirs } => format!("{ours_less_theirs:+.5}"),
            Self::Unknown => "-".into(),
        }
    }
}

/// Formats a mean value with its standard error, or a likelihood.
fn quality(row: &Row) -> String {
    if let Some(lml) = number(row, "lml") {
        return format!("lml {lml:.5}");
    }
    let Some((mean, se)) = number(row, "value_mean").zip(number(row, "value_se")) else {
        return "-".into();
    };
    format!("{mean:.3} ± {se:.3}")
}

/// Formats like [`quality`], and adds the gap to a longer search if it was measured.
fn our_quality(row: &Row) -> String {
    match number(row, "gap_median").zip(number(row, "gap_max")) {
        Some((median, most)) => {
            format!("{}, gap median {median}, most {most}", quality(row))
        }
        None => quality(row),
    }
}

/// Prints operations as rows, sizes as columns, and the exponent of growth as the last column.
fn scaling(bench: &str, rows: &[&Row]) {
    println!(
        "\n{bench}: wall seconds, median unless stated; exponent: least squares over the upper decade"
    );
    for size in ["t", "M"] {
        let mut sizes: Vec<u64> = Vec::new();
        let mut operations: Vec<String> = Vec::new();
        for row in rows {
            let Some(n) = row.get(size).and_then(Value::as_u64) else {
                continue;
            };
            if !sizes.contains(&n) {
                sizes.push(n);
            }
            let what = text(row, "what");
            if !operations.contains(&what) {
                operations.push(what);
            }
        }
        let mut head = vec!["operation".to_owned()];
        head.extend(sizes.iter().map(|n| format!("{size} = {n}")));
        head.push(format!("exponent in {size}"));
        let mut table = Table(vec![head]);
        for what in operations {
            let of_it = || rows.iter().filter(|row| text(row, "what") == what);
            let mut line = vec![what.clone()];
            for n in &sizes {
                let row = of_it().find(|row| row.get(size).and_then(Value::as_u64) == Some(*n));
                let seconds = row.and_then(|row| number(row, "seconds")).map(time);
                let memory = row.and_then(|row| number(row, "mib"));
                let memory = memory.map(|mib| format!("{mib:.0} MiB"));
                line.push(seconds.or(memory).unwrap_or_else(|| "-".into()));
            }
            let exponent = of_it().find_map(|row| number(row, "exponent"));
            line.push(exponent.map_or("-".into(), |e| format!("{e:.2}")));
            table.0.push(line);
        }
        table.print();
    }
}

fn aggregation(rows: &[&Row]) {
    println!(
        "\naggregation: a round of the private mechanism compared with summing the same numbers; `stream` uses eight partial sums"
    );
    let columns: [Column<'_>; 9] = [
        ("vectors", &shown("vectors")),
        ("agents", &shown("agents")),
        ("M", &shown("M")),
        ("round", &seconds("seconds")),
        ("draw", &seconds("draw_s")),
        ("sum", &seconds("sum_s")),
        ("stream", &seconds("stream_s")),
        ("round / sum", &shown("ratio_sum")),
        ("round / stream", &shown("ratio_stream")),
    ];
    print_columns(rows, &columns);
}

fn private_round(rows: &[&Row]) {
    println!(
        "\nprivate_round: all agents of a private federation in one process, without the objectives; 10 initial points each"
    );
    let columns: [Column<'_>; 8] = [
        ("agents", &shown("agents")),
        ("hyperparameters", &shown("hyperparameters")),
        ("rounds", &shown("rounds")),
        ("threads", &shown("threads")),
        ("seconds", &shown("seconds")),
        ("round", &seconds("round_s")),
        ("agent and round", &seconds("agent_round_s")),
        ("peak MiB", &shown("peak_mib")),
    ];
    print_columns(rows, &columns);
}

/// Prints the time of a query that uses models of other tasks, and its parts.
fn other_tasks(kind: Kind, rows: &[&Row]) {
    println!("\n{}: seconds for one query", kind.bench());
    let (what, tasks, features) = match kind {
        Kind::MetaStep => ("what", "agents", "M"),
        _ => ("peer", "M", ""),
    };
    let authors = |row: &Row| row.get("authors_seconds").map_or("-".into(), ToString::to_string);
    let columns: [Column<'_>; 8] = [
        ("what", &shown(what)),
        ("tasks", &shown(tasks)),
        ("M", &shown(features)),
        ("S", &shown("S")),
        ("t", &shown("t")),
        ("median", &seconds("seconds")),
        ("authors", &authors),
        ("times faster", &shown("times_faster")),
    ];
    print_columns(rows, &columns);
}

/// Prints one line per problem: the total time and its parts. The remainder is the time to sort
/// paths into cells.
fn stopping_problem(rows: &[&Row]) {
    println!(
        "\nstopping_problem: median wall seconds for the rule of one trial under BO-BOS; cells: the remainder of the total"
    );
    const PARTS: [&str; 4] = ["fit", "continuation", "draw", "induction"];
    let head = ["epochs", "paths", "belief", "whole"];
    let head: Vec<&str> = head.into_iter().chain(PARTS).collect();
    let head = [&head[..], &["cells", "required"]].concat();
    let mut table = Table::new(&head);
    for whole in rows.iter().filter(|row| text(row, "what") == "whole") {
        let same = |row: &Row| {
            let of = |key: &str| row.get(key) == whole.get(key);
            of("epochs") && of("paths") && of("belief")
        };
        let parts = PARTS.map(|part| {
            let row = rows.iter().find(|row| text(row, "what") == part && same(row));
            row.and_then(|row| number(row, "seconds")).unwrap_or(f64::NAN)
        });
        let seconds = number(whole, "seconds").unwrap_or(f64::NAN);
        let required = number(whole, "seconds_most").unwrap_or(f64::NAN);
        let word = if seconds <= required { "held" } else { "MISSED" };
        let shown = |key: &str| number(whole, key).map_or("-".into(), |v| v.to_string());
        let [fit, continuation, draw, induction] = parts.map(time);
        table.row([
            shown("epochs"),
            shown("paths"),
            text(whole, "belief").to_owned(),
            time(seconds),
            fit,
            continuation,
            draw,
            induction,
            time((seconds - parts.iter().sum::<f64>()).max(0.0)),
            format!("{} at most: {word}", time(required)),
        ]);
    }
    table.print();
}

/// Prints one line per level and number of rounds: the next decision of a player that took part in
/// all rounds, and the decision of a new player created from the record.
fn game_decision(rows: &[&Row]) {
    println!(
        "\ngame_decision: median wall seconds for one decision of R2-B2; all players have the same number of actions"
    );
    let head =
        ["players", "actions", "rounds", "level", "one round more", "record alone", "required"];
    let mut table = Table::new(&head);
    for along in rows.iter().filter(|row| text(row, "what") == "one round more") {
        let same = |row: &Row| {
            ["players", "actions", "t", "level"].iter().all(|key| row.get(*key) == along.get(*key))
        };
        let anew = rows.iter().find(|row| text(row, "what") == "record alone" && same(row));
        let shown = |key: &str| number(along, key).map_or("-".into(), |v| v.to_string());
        let seconds = |row: &Row| number(row, "seconds").map_or("-".into(), time);
        let required = number(along, "seconds_most").map_or("-".into(), |most| {
            let held = number(along, "seconds").is_some_and(|s| s <= most);
            let word = if held { "held" } else { "MISSED" };
            format!("{} at most: {word}", time(most))
        });
        table.row([
            shown("players"),
            shown("actions"),
            shown("t"),
            shown("level"),
            seconds(along),
            anew.map_or("-".into(), |row| seconds(row)),
            required,
        ]);
    }
    table.print();
}

fn privacy_accounting(rows: &[&Row]) {
    println!(
        "\nprivacy_accounting: seconds to compute an epsilon with each accountant, and the noise multiplier for this epsilon"
    );
    let delta = |row: &Row| number(row, "delta").map_or("-".into(), |v| format!("{v:.3e}"));
    let epsilon = |row: &Row| number(row, "epsilon").map_or("-".into(), |v| format!("{v:.4}"));
    let columns: [Column<'_>; 8] = [
        ("accountant", &shown("accountant")),
        ("q", &shown("q")),
        ("z", &shown("z")),
        ("rounds", &shown("T")),
        ("delta", &delta),
        ("epsilon", &epsilon),
        ("epsilon in", &seconds("seconds")),
        ("noise in", &seconds("noise_s")),
    ];
    print_columns(rows, &columns);
}

fn secsum(rows: &[&Row]) {
    println!(
        "\nsecsum: seconds per report at its agent and at each server (as multiples of signature verifications in the same run), bytes, and the end of a round"
    );
    let beside = |key: &'static str| {
        move |row: &Row| {
            let ratio = number(row, &format!("ratio_{key}")).unwrap_or(f64::NAN);
            format!("{} ({ratio:.1})", seconds(&format!("{key}_s"))(row))
        }
    };
    let columns: [Column<'_>; 9] = [
        ("M", &shown("M")),
        ("proof", &shown("proof")),
        ("upload", &shown("upload")),
        ("between", &shown("between")),
        ("agent", &beside("agent")),
        ("leader", &beside("leader")),
        ("helper", &beside("helper")),
        ("agents", &shown("agents")),
        ("close", &seconds("close_s")),
    ];
    print_columns(rows, &columns);
}

fn memory(rows: &[&Row]) {
    println!("\nmemory: federated Thompson sampling, all agents in one process and one thread");
    let columns: [Column<'_>; 5] = [
        ("agents", &shown("agents")),
        ("rounds", &shown("rounds")),
        ("seconds", &shown("seconds")),
        ("MiB at start", &shown("start_mib")),
        ("peak MiB", &shown("peak_mib")),
    ];
    print_columns(rows, &columns);
}

/// Title of a column, and the function that formats a row's cell in it.
pub(super) type Column<'a> = (&'a str, &'a dyn Fn(&Row) -> String);

/// Prints a table with one line per row.
pub(super) fn print_columns(rows: &[&Row], columns: &[Column<'_>]) {
    let mut table = Table::new(&columns.iter().map(|(title, _)| *title).collect::<Vec<_>>());
    for row in rows {
        table.0.push(columns.iter().map(|(_, show)| show(row)).collect());
    }
    table.print();
}

/// Formats the string or number at a key.
pub(super) fn shown(key: &str) -> impl Fn(&Row) -> String {
    move |row| match row.get(key) {
        Some(Value::String(text)) => text.clone(),
        value => value.and_then(Value::as_f64).map_or("-".into(), |v| v.to_string()),
    }
}

/// Formats the seconds at a key.
fn seconds(key: &str) -> impl Fn(&Row) -> String {
    move |row| number(row, key).map_or("-".into(), time)
}

fn number(row: &Row, key: &str) -> Option<f64> {
    row.get(key).and_then(Value::as_f64)
}

fn text(row: &Row, key: &str) -> String {
    let value = row.get(key).and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}

/// Formats seconds with three digits and a unit.
fn time(seconds: f64) -> String {
    let (scaled, unit) = match seconds {
        s if s < 1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    let decimals = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
    format!("{scaled:.decimals$} {unit}")
}

/// A Markdown table with aligned columns; the first row is the header.
struct Table(Vec<Vec<String>>);

impl Table {
    fn new(head: &[&str]) -> Self {
        Self(vec![head.iter().map(|&h| h.to_owned()).collect()])
    }

    fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.0.push(cells.to_vec());
    }

    fn print(&self) {
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.0[0].len()).map(width).collect();
        for (index, row) in self.0.iter().enumerate() {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            println!("| {} |", cells.join(" | "));
            if index == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                println!("| {} |", rules.join(" | "));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(value: Value) -> Row {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_requirement_is_held_only_with_speed_and_quality() {
        let requirement = Requirement { peer: "other", ratio: 30.0 };
        let ours = row(json!({ "value_mean": 2.10, "value_se": 0.03 }));
        let close = row(json!({ "value_mean": 2.15, "value_se": 0.04 })); // one combined standard error away
        let better = row(json!({ "value_mean": 2.30, "value_se": 0.04 })); // four
        let judge = |theirs, ratio| verdict(&requirement, ratio, &Difference::of(&ours, theirs));
        assert_eq!(judge(&close, 31.0), "30x: held");
        assert_eq!(judge(&close, 29.0), "30x: MISSED");
        assert_eq!(judge(&better, 31.0), "30x: MISSED (quality)");
    }

    #[test]
    fn likelihoods_are_compared_before_values() {
        let ours = row(json!({ "lml": 91.130, "value_mean": 1.0, "value_se": 0.1 }));
        let theirs = row(json!({ "lml": 91.132, "value_mean": 1.0, "value_se": 0.1 }));
        assert!(!Difference::of(&ours, &theirs).equal_or_better());
        assert!(Difference::of(&theirs, &ours).equal_or_better());
    }

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let shown = [4.2e-5, 1.234e-3, 0.0567, 0.250, 12.34].map(time);
        assert_eq!(shown, ["42.0 µs", "1.23 ms", "56.7 ms", "250 ms", "12.3 s"]);
    }
}

//! The closing table: the results of a run, for a terminal or a web page.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

use super::metric::Metric;
use super::student::{Interval, LEVEL};
use super::summary::{Clusters, Difference, Estimate, Summary, Verdict};

/// The parts of the table that fit the width.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// True if standard errors are on a separate line.
    stacked: bool,
    checkpoints: bool,
    ask_seconds: bool,
}

impl Form {
    const FULL: Self = Self { stacked: false, checkpoints: true, ask_seconds: true };
    /// All forms from the widest to the narrowest.
    const ALL: [Self; 4] = [
        Self::FULL,
        Self { stacked: true, ..Self::FULL },
        Self { stacked: true, checkpoints: false, ask_seconds: true },
        Self { stacked: true, checkpoints: false, ask_seconds: false },
    ];
}

/// Formats the table for a terminal, followed by a line that explains its marks.
///
/// If it is wider than `width` columns, standard errors move below their means; if that is not
/// enough, checkpoints and seconds per query are omitted. For a file or a pipe, `None` gives the
/// complete table.
#[must_use]
pub fn closing_table(summary: &Summary, width: Option<u16>) -> String {
    if !summary.configurations.is_empty() {
        let tables = summary
            .configurations
            .iter()
            .map(|part| format!("{}\n\n{}", part.experiment, closing_table(part, width)));
        return tables.collect::<Vec<_>>().join("\n");
    }
    let draw = |form| {
        let mut table = table(summary, form);
        let line = LineStyle::none().fill('─').junction('─');
        table.load_style(TableStyle::new().header_separator(line));
        for column in table.column_iter_mut() {
            column.set_padding((0, if form.ask_seconds { 2 } else { 1 }));
        }
        table.trim_fmt()
    };
    let fits = |text: &String| {
        let line = text.lines().map(|line| line.chars().count()).max();
        width.is_none_or(|width| line.unwrap_or(0) <= usize::from(width))
    };
    let narrowest = || draw(Form::ALL[Form::ALL.len() - 1]);
    let text = Form::ALL.into_iter().map(draw).find(fits).unwrap_or_else(narrowest);
    let draw = |labelled| {
        let mut table = differences(summary, labelled)?;
        let line = LineStyle::none().fill('─').junction('─');
        table.load_style(TableStyle::new().header_separator(line));
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Some(table.trim_fmt())
    };
    let differences = draw(true).filter(fits).or_else(|| draw(false));
    let differences = differences.map_or_else(String::new, |table| format!("{table}\n\n"));
    format!("{text}\n\n{differences}{}\n", notes(summary))
}

fn table(summary: &Summary, form: Form) -> Table {
    let controls = controls(summary);
    let checkpoints: Vec<i64> = summary
        .arms
        .first()
        .filter(|_| form.checkpoints)
        .map(|arm| arm.at.iter().map(|at| at.iteration).collect())
        .unwrap_or_default();
    let between = if form.stacked { "\n" } else { " " };
    let metric = match summary.metric {
        Metric::Best => "final best",
        Metric::Regret => "final regret",
        Metric::Mean => "mean value",
        Metric::MeanRegret => "mean regret",
        Metric::LogRegret => "final log10 regret",
    };
    let mut header = vec!["arm".to_owned(), "n".to_owned(), metric.to_owned()];
    header.extend(checkpoints.iter().map(|iteration| format!("at {iteration}")));
    header.extend(controls.iter().map(|control| format!("− {}", cell(control))));
    header.push("failed".to_owned());
    if form.ask_seconds {
        header.push("s/query".to_owned());
    }
    let measured = summary.arms.iter().any(|arm| arm.wall_seconds.is_some());
    header.push(if measured { "seconds" } else { "s asking" }.to_owned());
    let n_columns = header.len();
    let join = |(mean, error): (String, String), mark: &str| match (error.is_empty(), form.stacked)
    {
        (true, _) => mean + mark,
        (false, true) => {
            let room = " ".repeat(mark.chars().count());
            format!("{mean}{mark}\n{error}{room}")
        }
        (false, false) => format!("{mean} {error}{mark}"),
    };

    let mut table = Table::new();
    table.set_header(header);
    for arm in &summary.arms {
        let mut row = vec![
            label(summary, &arm.arm, between),
            arm.last.map_or(0, |last| last.n).to_string(),
            join(estimate(arm.last, false), ""),
        ];
        if form.checkpoints {
            row.extend(arm.at.iter().map(|at| join(estimate(at.estimate, false), "")));
        }
        row.extend(controls.iter().map(|control| {
            let mut at_the_end =
                summary.differences.iter().filter(|difference| difference.iteration.is_none());
            let found = at_the_end
                .find(|difference| difference.arm == arm.arm && difference.control == *control);
            found.map_or_else(String::new, |found| {
                join(estimate(found.estimate, true), mark(found.verdict))
            })
        }));
        row.push(format!("{}/{}", arm.failed_trials, arm.trials));
        if form.ask_seconds {
            row.push(seconds(arm.ask_seconds_mean));
        }
        row.push(match arm.wall_seconds {
            None if measured => String::new(),
            wall => seconds(wall.unwrap_or(arm.ask_seconds_total)),
        });
        table.add_row(row);
    }
    for index in 1..n_columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Formats each comparison on a separate line: the number of values, the paired difference,
/// Student's interval, and the p-value before and after Holm's correction.
///
/// Shows the labels of arms if `labelled`. `None` without pairs.
fn differences(summary: &Summary, labelled: bool) -> Option<Table> {
    if summary.differences.is_empty() {
        return None;
    }
    let is_tested = summary.comparisons + summary.primary_comparisons > 0;
    let mut table = Table::new();
    let mut header = vec!["paired difference", "at", "n", "mean"];
    if is_tested {
        header.extend(["95 % interval", "p", "p (Holm)"]);
    }
    table.set_header(header);
    let mut before: Option<(&str, &str)> = None;
    for each in &summary.differences {
        let pair = (each.arm.as_str(), each.control.as_str());
        let is_new = before.replace(pair) != Some(pair);
        let arm = |arm| if labelled { label(summary, arm, " ") } else { cell(arm) };
        let name = || format!("{} − {}", arm(&each.arm), arm(&each.control));
        let (mean, error) = estimate(each.estimate, true);
        let mut row = vec![
            if is_new { name() } else { String::new() },
            each.iteration.map_or_else(|| "end".to_owned(), |iteration| iteration.to_string())
                + if each.primary { " (primary)" } else { "" },
            each.estimate.map_or(0, |found| found.n).to_string(),
            format!("{mean} {error}{}", mark(each.verdict)),
        ];
        if is_tested {
            row.push(interval(each));
            row.extend([each.p_value, each.p_adjusted].map(p_value_text));
        }
        table.add_row(row);
    }
    for index in 1..7 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Some(table)
}

/// Formats "−0.0004 to +0.0016", to the precision of the standard error; empty if there is no
/// interval.
fn interval(difference: &Difference) -> String {
    let (Some(Interval { low, high }), Some(found)) = (difference.interval, difference.estimate)
    else {
        return String::new();
    };
    let decimals = match found.standard_error {
        Some(error) if error > found.mean.abs() * 1e-9 => decimals_of(error, 2),
        _ => decimals_of(found.mean.abs(), 4),
    };
    format!("{low:+.decimals$} to {high:+.decimals$}").replace('-', "−")
}

/// Formats a p-value with few digits, as is usual in tables; empty without a p-value.
#[must_use]
pub fn p_value_text(p: Option<f64>) -> String {
    match p {
        None => String::new(),
        Some(p) if p > 0.0 && p < 0.001 => format!("{p:.0e}").replace('-', "−"),
        Some(p) => format!("{p:.3}"),
    }
}

/// Returns the controls in order of first appearance.
fn controls(summary: &Summary) -> Vec<&str> {
    let mut controls: Vec<&str> = Vec::new();
    for difference in &summary.differences {
        if !controls.contains(&difference.control.as_str()) {
            controls.push(&difference.control);
        }
    }
    controls
}

/// Formats an arm with its label, if it has one: `each alone (log-ei)`.
fn label(summary: &Summary, arm: &str, between: &str) -> String {
    let words = summary.figure.as_ref().and_then(|figure| figure.arm_labels.get(arm));
    match words {
        Some(words) => format!("{}{between}({})", cell(words), cell(arm)),
        None => cell(arm),
    }
}

/// Puts a user-supplied name on one line, without the pipe characters that would end a Markdown
/// cell.
fn cell(text: &str) -> String {
    text.replace('|', "/").replace(['\n', '\r'], " ")
}

fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Gain => " ▲",
        Verdict::Loss => " ▼",
        Verdict::Unclear => "  ",
    }
}

/// Formats the mean, and ± with the standard error, both to the standard error's second significant
/// digit. The second string is empty if there is no standard error.
fn estimate(estimate: Option<Estimate>, signed: bool) -> (String, String) {
    let Some(Estimate { mean, standard_error, .. }) = estimate else {
        return ("none".to_owned(), String::new());
    };
    let sign = if signed && mean > 0.0 { "+" } else { "" };
    let (mean, error) = match standard_error {
        None => (significant(mean, 4), String::new()),
        // A standard error that consists of rounding errors does not determine the digits.
        Some(error) if error <= mean.abs() * 1e-9 => (significant(mean, 4), "± 0".to_owned()),
        Some(error) => {
            let decimals = decimals_of(error, 2);
            (format!("{mean:.decimals$}"), format!("± {error:.decimals$}"))
        }
    };
    (format!("{sign}{mean}").replace('-', "−"), error)
}

fn significant(value: f64, digits: u16) -> String {
    let decimals = decimals_of(value.abs(), digits);
    format!("{value:.decimals$}")
}

/// Returns the number of decimals that show `digits` significant digits of a number ≥ 0; at most 12.
fn decimals_of(value: f64, digits: u16) -> usize {
    let mut decimals = usize::from(digits.saturating_sub(1));
    let mut scaled = value;
    if scaled <= 0.0 {
        return decimals;
    }
    while scaled < 1.0 && decimals < 12 {
        scaled *= 10.0;
        decimals += 1;
    }
    while scaled >= 10.0 && decimals > 0 {
        scaled /= 10.0;
        decimals -= 1;
    }
    decimals
}

fn seconds(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { significant(value, 3) }
}

fn notes(summary: &Summary) -> String {
    let mut notes = match summary.clusters {
        Clusters::Units => {
            "Mean ± standard error over n agents and runs that have a value.".to_owned()
        }
        Clusters::Runs => {
            "Mean ± standard error over runs, each the mean of its agents.".to_owned()
        }
        Clusters::Agents => {
            "Mean ± standard error over agents, each the mean of its runs.".to_owned()
        }
        Clusters::Designs(n) => {
            format!(
                "Mean ± standard error over agents and {n} initial designs, each the mean of its runs."
            )
        }
    };
    if !summary.differences.is_empty() {
        notes += " Differences are paired, in the columns taken at the end.";
    }
    let over = |n: usize, kind: &str| match n {
        0 => None,
        1 => Some(format!("the one {kind}comparison")),
        n => Some(format!("all {n} {kind}comparisons")),
    };
    let ranks = [(summary.comparisons, ""), (summary.primary_comparisons, "primary ")];
    let ranks: Vec<String> = ranks.into_iter().filter_map(|(n, kind)| over(n, kind)).collect();
    if !ranks.is_empty() {
        notes += &format!(
            " Intervals and p are those of Student's t with n − 1 degrees of freedom, for each comparison on its own. A gain (▲ \
             better, ▼ worse) counts if p is below {LEVEL} after Holm's correction over {}.",
            ranks.join(", and by itself over "),
        );
    }
    let dropped: usize = summary
        .differences
        .iter()
        .filter(|each| each.iteration.is_none())
        .map(|each| each.dropped)
        .sum();
    if summary.interrupted {
        notes += " Interrupted: only the results finished by then.";
    }
    if dropped > 0 {
        notes += &format!(" {dropped} unpaired units left out.");
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::figure::FigureSpec;
    use super::super::summary::{PrimaryComparison, SummaryRequest, summarize};
    use super::super::trace::tests::row;
    use super::*;
    use fedbo_space::Direction;

    fn summary() -> Summary {
        let mut rows = Vec::new();
        for (run, shift) in [(0, 0.0), (1, 0.01), (2, 0.02)] {
            rows.push(row("ts", "a", run, 10, Some(0.5 + shift)));
            rows.push(row("placebo", "a", run, 10, Some(0.4 + 5.0 * shift)));
            rows.push(row("fts|x", "a", run, 10, Some(0.7 + 2.0 * shift)));
        }
        summarize(&rows, &request())
    }

    fn request() -> SummaryRequest {
        let pairs =
            ["ts", "placebo"].map(|control| ("fts|x".to_owned(), control.to_owned())).to_vec();
        SummaryRequest {
            checkpoints: vec![10],
            pairs,
            ..SummaryRequest::new("test", 1, Direction::Maximize, Metric::Best)
        }
    }

    #[test]
    fn the_table_shows_each_arm_with_its_differences() {
        let text = closing_table(&summary(), None);
        let line = text.lines().find(|line| line.contains("fts/x")).expect("a line for the arm");
        // fts − ts: 0.20, 0.21, 0.22; fts − placebo: 0.30, 0.27, 0.24.
        assert!(line.contains("0.720 ± 0.012"), "{text}");
        assert!(line.contains("+0.2100 ± 0.0058 ▲"), "{text}");
        assert!(line.contains("+0.270 ± 0.017 ▲"), "{text}");
        assert!(line.contains("0/3"), "{text}");
    }

    /// fts − ts: 0.20, 0.21, 0.22, so 0.21 ± 4.303 · 0.01/√3 and, with t = 36.4 and 2 degrees of
    /// freedom, p = 1 − t/√(2 + t²) = 0.00075. fts − placebo: 0.30, 0.27, 0.24, so 0.27 ± 4.303 ·
    /// 0.03/√3 and p = 0.0041. Corrected for two comparisons: 2 · 0.00075, and 0.0041. The end is
    /// also at iteration 10, so it is not a separate comparison.
    #[test]
    fn comparisons_stand_with_intervals_and_both_p_values() {
        let text = closing_table(&summary(), None);
        let (_, below) = text.split_once("paired difference").expect("the second table");
        let lines: Vec<Vec<&str>> = below
            .lines()
            .skip(2)
            .take(4)
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        let ts = ["+0.2100 ± 0.0058 ▲", "+0.1852 to +0.2348", "8e−4", "0.002"];
        let placebo = ["+0.270 ± 0.017 ▲", "+0.195 to +0.345", "0.004", "0.004"];
        for (line, name, at, rest) in [
            (0, Some("fts/x − ts"), "10", ts),
            (1, None, "end", ts),
            (2, Some("fts/x − placebo"), "10", placebo),
            (3, None, "end", placebo),
        ] {
            let expected: Vec<&str> = name.into_iter().chain([at, "3"]).chain(rest).collect();
            assert_eq!(lines[line], expected, "{text}");
        }
        assert!(text.contains("over all 2 comparisons"), "{text}");
    }

    #[test]
    fn primary_comparisons_are_named() {
        let rows_at = |iteration: i64| {
            let runs = [(0, 0.5), (1, 0.6), (2, 0.8)];
            let row = move |(run, value): (u32, f64)| {
                [("ts", 0.0), ("fts|x", 0.1 * value)]
                    .map(|(arm, gain)| row(arm, "a", run, iteration, Some(value + gain)))
            };
            runs.into_iter().flat_map(row).collect::<Vec<_>>()
        };
        let (rows, earlier_rows) = (rows_at(10), rows_at(5));
        let primary = PrimaryComparison {
            experiment: "test".to_owned(),
            arm: "fts|x".to_owned(),
            control: "ts".to_owned(),
            iteration: 10,
        };
        let request = SummaryRequest { primary: vec![primary], ..request() };
        let text = closing_table(&summarize(&rows, &request), None);
        assert!(text.contains("10 (primary)") && text.contains("end (primary)"), "{text}");
        assert!(text.contains("over the one primary comparison."), "{text}");
        let earlier = SummaryRequest { checkpoints: vec![5, 10], ..request };
        let rows = rows.into_iter().chain(earlier_rows).collect::<Vec<_>>();
        let text = closing_table(&summarize(&rows, &earlier), None);
        let both = "over the one comparison, and by itself over the one primary comparison.";
        assert!(text.contains(both), "{text}");
    }

    /// A wide table shows label and name on one line, a narrow one on two lines. Differences show
    /// labels if there is room.
    #[test]
    fn tables_show_plain_words_beside_the_names_of_arms() {
        let words = [("fts|x", "together"), ("ts", "each alone")];
        let arm_labels = words.map(|(arm, words)| (arm.to_owned(), words.to_owned())).into();
        let figure = Some(FigureSpec { arm_labels, ..FigureSpec::default() });
        let summary = Summary { figure, ..summary() };
        let whole = closing_table(&summary, None);
        let starts = |text: &str, start: &str| text.lines().any(|line| line.starts_with(start));
        assert!(starts(&whole, "together (fts/x)  ") && starts(&whole, "placebo  "), "{whole}");
        assert!(starts(&whole, "together (fts/x) − each alone (ts)  "), "{whole}");
        let narrow = closing_table(&summary, Some(80));
        assert!(starts(&narrow, "together  ") && starts(&narrow, "(fts/x)  "), "{narrow}");
        assert!(starts(&narrow, "fts/x − ts  "), "{narrow}");
    }

    /// A single run has differences but no measure of their reliability.
    #[test]
    fn one_run_shows_no_interval() {
        let rows = [row("ts", "a", 0, 10, Some(0.5)), row("fts", "a", 0, 10, Some(0.7))];
        let request =
            SummaryRequest { pairs: vec![("fts".to_owned(), "ts".to_owned())], ..request() };
        let text = closing_table(&summarize(&rows, &request), None);
        assert!(text.contains("+0.2000"), "{text}");
        assert!(!text.contains("interval") && !text.contains('▲'), "{text}");
    }

    #[test]
    fn digits_follow_the_standard_error() {
        let of =
            |mean, standard_error| estimate(Some(Estimate { mean, standard_error, n: 2 }), true);
        let pair = |mean: &str, error: &str| (mean.to_owned(), error.to_owned());
        assert_eq!(of(0.123_456, Some(0.001_23)), pair("+0.1235", "± 0.0012"));
        assert_eq!(of(-1234.4, Some(56.7)), pair("−1234", "± 57"));
        assert_eq!(of(5.0, Some(0.0)), pair("+5.000", "± 0"));
        assert_eq!(of(0.0, Some(0.0)), pair("0.000", "± 0"));
        assert_eq!(of(0.25, None), pair("+0.2500", ""));
        assert_eq!(estimate(None, true), pair("none", ""));
    }

    #[test]
    fn a_narrow_terminal_gets_a_narrow_table_with_the_differences() {
        let widest = |text: &str| text.lines().take(3).map(|line| line.chars().count()).max();
        let whole = closing_table(&summary(), None);
        assert!(whole.contains("at 10") && widest(&whole) > Some(80), "{whole}");
        for width in [80, 64] {
            let narrow = closing_table(&summary(), Some(width));
            assert!(widest(&narrow) <= Some(usize::from(width)), "{narrow}");
            assert!(narrow.contains("+0.2100 ▲") && narrow.contains("± 0.0058"), "{narrow}");
        }
    }
}

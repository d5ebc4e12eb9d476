//! The results of all matches of an experiment, for the tables of the summary.

use std::collections::BTreeMap;

use fedbo_report::{Estimate, LEVEL, Metric, Row, holm, p_value_text};

/// Values of one match by name.
pub(super) type Measures = BTreeMap<&'static str, f64>;

/// Value of the column `experiment`, and name of the arm.
type ArmKey = (String, String);

/// Rows and measures of all matches.
pub(super) struct Outcome {
    /// All rows, in the order of the file.
    pub(super) rows: Vec<Row>,
    /// Measures by configuration, arm and run.
    pub(super) measures: BTreeMap<(usize, usize, u32), Measures>,
    /// The metric's value in rounds 1, 2, … of each run.
    courses: BTreeMap<ArmKey, BTreeMap<u32, Vec<f64>>>,
}

impl Outcome {
    /// Collects all rows. The metric uses only the rounds after the initial ones.
    pub(super) fn new(
        rows: Vec<Row>,
        metric: Metric,
        measures: BTreeMap<(usize, usize, u32), Measures>,
    ) -> Self {
        let mut courses: BTreeMap<ArmKey, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.iteration > 0) {
            let runs = courses.entry((row.experiment.clone(), row.arm.clone())).or_default();
            let course = runs.entry(row.run).or_default();
            course.extend(metric.of(row));
        }
        Self { rows, measures, courses }
    }

    /// Returns the mean over the first `n_rounds` rounds after the initial ones, for each run of an
    /// arm.
    pub(super) fn means(&self, experiment: &str, arm: &str, n_rounds: usize) -> BTreeMap<u32, f64> {
        let Some(runs) = self.courses.get(&(experiment.into(), arm.into())) else {
            return BTreeMap::new();
        };
        let mean = |(run, course): (&u32, &Vec<f64>)| {
            let course = &course[..n_rounds.min(course.len())];
            (!course.is_empty()).then(|| (*run, course.iter().sum::<f64>() / course.len() as f64))
        };
        runs.iter().filter_map(mean).collect()
    }

    /// Returns a measure for each run of an arm. Configuration and arm are given by their indices
    /// in the plan.
    pub(super) fn measure(
        &self,
        configuration: usize,
        arm: usize,
        name: &str,
    ) -> BTreeMap<u32, f64> {
        let of_arm = self.measures.range((configuration, arm, 0)..=(configuration, arm, u32::MAX));
        of_arm.filter_map(|((_, _, run), measures)| Some((*run, *measures.get(name)?))).collect()
    }
}

/// Returns arm − control for the runs that both contain.
pub(super) fn paired(arm: &BTreeMap<u32, f64>, control: &BTreeMap<u32, f64>) -> BTreeMap<u32, f64> {
    let both = arm.iter().filter_map(|(run, value)| Some((*run, value - control.get(run)?)));
    both.collect()
}

/// Returns the mean and standard error over runs.
pub(super) fn over_runs(values: &BTreeMap<u32, f64>) -> Option<Estimate> {
    let values: Vec<f64> = values.values().copied().collect();
    Estimate::of(&values)
}

/// Returns the mean and standard error over games. Runs r, r + n, … play the same game.
pub(super) fn over_games(values: &BTreeMap<u32, f64>, n_games: u32) -> Option<Estimate> {
    let mut games: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for (run, value) in values {
        let (sum, n) = games.entry(run % n_games.max(1)).or_default();
        *sum += value;
        *n += 1.0;
    }
    let means: Vec<f64> = games.into_values().map(|(sum, n)| sum / n).collect();
    Estimate::of(&means)
}

/// Formats an estimate as "0.482 ± 0.006".
pub(super) fn shown(estimate: Option<Estimate>) -> String {
    let text = match estimate {
        Some(Estimate { mean, standard_error: Some(error), .. }) => {
            format!("{mean:.3} ± {error:.3}")
        }
        Some(Estimate { mean, .. }) => format!("{mean:.3}"),
        None => "–".into(),
    };
    text.replace('-', "−")
}

/// All comparisons shown in the tables of an experiment, judged together.
pub(super) struct Comparisons {
    /// p-values before and after Holm's correction over all comparisons.
    p_values: Vec<(f64, f64)>,
}

impl Comparisons {
    /// Collects the paired differences of all tables.
    pub(super) fn of(all: impl IntoIterator<Item = Option<Estimate>>) -> Self {
        let p_values: Vec<Option<f64>> =
            all.into_iter().map(|each| each.and_then(|found| found.p_value())).collect();
        let adjusted = holm(&p_values);
        let both = p_values.into_iter().zip(adjusted);
        Self { p_values: both.filter_map(|(p, adjusted)| Some((p?, adjusted?))).collect() }
    }

    /// Formats one of the paired differences as "+0.012 ± 0.003 * (n 20, +0.006 to +0.018, p
    /// 0.012)", with a star if it is significant.
    pub(super) fn shown(&self, estimate: Option<Estimate>, decimals: usize) -> String {
        let Some(found @ Estimate { mean, n, .. }) = estimate else {
            return "–".into();
        };
        let Some(error) = found.standard_error else {
            return format!("{mean:+.decimals$} (n {n})").replace('-', "−");
        };
        let p = self.adjusted(found);
        let mark = if found.differs_from_zero(p) { " *" } else { "" };
        let interval = found.interval().map_or_else(String::new, |interval| {
            format!(", {:+.decimals$} to {:+.decimals$}", interval.low, interval.high)
        });
        let p = p.map_or_else(String::new, |p| format!(", p {}", p_value_text(Some(p))));
        let text = format!("{mean:+.decimals$} ± {error:.decimals$}{mark} (n {n}{interval}{p})");
        text.replace('-', "−")
    }

    /// Explains the values in brackets and the star.
    pub(super) fn legend(&self) -> String {
        format!(
            "in brackets the number of values, Student's 95 % interval of each comparison by itself, and p after Holm's \
             correction over all {} comparisons in these tables; * means p below {LEVEL}",
            self.p_values.len()
        )
    }

    /// Returns the corrected p-value. Equal p-values have equal corrections.
    fn adjusted(&self, estimate: Estimate) -> Option<f64> {
        let p = estimate.p_value()?;
        let found = self.p_values.iter().find(|(by_itself, _)| by_itself.total_cmp(&p).is_eq());
        found.map(|(_, adjusted)| *adjusted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(arm: &str, run: u32, iteration: i64, regret: f64) -> Row {
        Row {
            experiment: "e".into(),
            arm: arm.into(),
            agent: "agent 1".into(),
            run,
            iteration,
            source: "level 0".into(),
            parameters: Vec::new(),
            value: Some(1.0 - regret),
            best: None,
            regret: Some(regret),
            ask_seconds: 0.0,
            status: Row::ok_status(),
        }
    }

    /// Runs 0 and 2 play one game, and run 1 the other.
    #[test]
    fn means_differences_and_errors_are_those_by_hand() {
        let mut rows = Vec::new();
        for (run, regret) in [(0, 0.2), (1, 0.4), (2, 0.6)] {
            rows.push(row("a", run, 0, 9.0)); // initial round
            rows.push(row("a", run, 1, regret));
            rows.push(row("a", run, 2, 3.0 * regret));
            rows.push(row("b", run, 1, 0.1));
        }
        let outcome = Outcome::new(rows, Metric::MeanRegret, BTreeMap::new());
        let means = outcome.means("e", "a", 2);
        for (run, mean) in [(0, 0.4), (1, 0.8), (2, 1.2)] {
            assert!((means[&run] - mean).abs() < 1e-12);
        }
        let first = outcome.means("e", "a", 1);
        assert!((first[&2] - 0.6).abs() < 1e-12);
        assert!(outcome.means("e", "c", 2).is_empty());
        let differences = paired(&first, &outcome.means("e", "b", 2));
        let by_run = over_runs(&differences).unwrap();
        assert!((by_run.mean - 0.3).abs() < 1e-12 && by_run.n == 3);
        // Games: (0.1 + 0.5)/2 = 0.3 and 0.3.
        let by_game = over_games(&differences, 2).unwrap();
        assert!((by_game.mean - 0.3).abs() < 1e-12 && by_game.n == 2);
        assert!(by_game.standard_error.unwrap() < 1e-12);
        // s² = 0.04, so the error is 0.2/√3 = 0.115.
        assert_eq!(shown(Some(by_run)), "0.300 ± 0.115");
        // Student's quantile with 2 degrees of freedom is 4.303, and 4.303 · 0.1155 = 0.497. t = 2.598 has p = 1 − t/√(2 + t²) =
        // 0.1217, and t = 4.330 has 0.0494.
        let lower = Estimate { mean: -0.5, ..by_run };
        let shown = |all: &[Estimate], one| {
            Comparisons::of(all.iter().copied().map(Some)).shown(Some(one), 3)
        };
        assert_eq!(shown(&[by_run], by_run), "+0.300 ± 0.115 (n 3, −0.197 to +0.797, p 0.122)");
        assert_eq!(shown(&[lower], lower), "−0.500 ± 0.115 * (n 3, −0.997 to −0.003, p 0.049)");
        // Two comparisons: 2 · 0.0494, and no star.
        assert_eq!(
            shown(&[by_run, lower], lower),
            "−0.500 ± 0.115 (n 3, −0.997 to −0.003, p 0.099)"
        );
        let single = Estimate { mean: 0.25, standard_error: None, n: 1 };
        assert_eq!(shown(&[lower, single], single), "+0.250 (n 1)");
        let comparisons = Comparisons::of([Some(lower), Some(single), None, Some(by_run)]);
        assert!(comparisons.legend().contains("over all 2 comparisons"));
        assert_eq!(comparisons.shown(None, 3), "–");
    }
}

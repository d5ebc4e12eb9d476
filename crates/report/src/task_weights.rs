//! Weights of earlier tasks, by query, for strategies that learn from such tasks: `weights.csv` and
//! its picture.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::chart::Scale;
use super::curves::{Curve, CurvePoint};
use super::error::ReportError;
use super::figure::{Figure, Panel};
use super::folder::{table_bytes, write_whole};

use super::summary::Estimate;

/// File names of task weights in a results folder.
pub const TASK_WEIGHT_FILES: [&str; 3] = ["weights.csv", "weights.svg", "weights.png"];

/// Name of the curve for the combined share of all meta-tasks.
const SHARE: &str = "share of all";

/// The weight of one meta-task at one query.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskWeightRow {
    /// Name of the experiment or of one of its configurations.
    pub experiment: String,
    /// The algorithm or control arm.
    pub arm: String,
    /// Index of the repetition.
    pub run: u32,
    /// The query that was chosen with this weight, from 1.
    pub iteration: i64,
    /// Name of the meta-task.
    pub task: String,
    /// The meta-task's fraction of the combined share of all meta-tasks.
    pub weight: f64,
    /// The latest estimate of the task's distance, if there is one.
    pub gap_bound: Option<f64>,
    /// The combined share of all meta-tasks in the acquisition.
    pub meta_share: f64,
}

/// Writes [`TASK_WEIGHT_FILES`]: all rows, and a picture of means over runs with one panel per
/// configuration and arm.
///
/// # Errors
/// Fails if a file cannot be written or drawn.
pub fn write_task_weights(
    folder: &Path,
    title: &str,
    rows: &[TaskWeightRow],
) -> Result<(), ReportError> {
    let [table, svg, png] = TASK_WEIGHT_FILES.map(|name| folder.join(name));
    let head =
        ["experiment", "arm", "run", "iteration", "task", "weight", "gap_bound", "meta_share"];
    let cells = |row: &TaskWeightRow| {
        [
            row.experiment.clone(),
            row.arm.clone(),
            row.run.to_string(),
            row.iteration.to_string(),
            row.task.clone(),
            row.weight.to_string(),
            row.gap_bound.map_or(String::new(), |gap| gap.to_string()),
            row.meta_share.to_string(),
        ]
    };
    let bytes = table_bytes(head, rows.iter().map(cells));
    let bytes = bytes.map_err(|cause| ReportError::Write { path: table.clone(), cause })?;
    write_whole(&table, &bytes)?;
    let figure = figure(title, rows);
    figure.write_svg(&svg)?;
    figure.write_png(&png)
}

/// Creates a figure with one panel per configuration and arm, in the order of the rows.
fn figure(title: &str, rows: &[TaskWeightRow]) -> Figure {
    let mut panels: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        if !panels.contains(&(&row.experiment, &row.arm)) {
            panels.push((&row.experiment, &row.arm));
        }
    }
    let one_experiment = panels.iter().all(|(name, _)| *name == panels[0].0);
    let panels = panels.into_iter().map(|(experiment, arm)| {
        let of_panel = |row: &&TaskWeightRow| row.experiment == experiment && row.arm == arm;
        let rows: Vec<&TaskWeightRow> = rows.iter().filter(of_panel).collect();
        let mut tasks: Vec<&str> = Vec::new();
        for row in &rows {
            if !tasks.contains(&row.task.as_str()) {
                tasks.push(&row.task);
            }
        }
        let first = tasks.first().copied();
        let mut curves: Vec<Curve> = tasks
            .iter()
            .map(|task| curve(task, rows.iter().filter(|row| row.task == *task), |row| row.weight))
            .collect();
        let shares = rows.iter().filter(|row| Some(row.task.as_str()) == first);
        curves.push(curve(SHARE, shares, |row| row.meta_share));
        Panel {
            title: match one_experiment {
                true => arm.to_owned(),
                false => format!("{experiment}: {arm}"),
            },
            curves,
            references: Vec::new(),
        }
    });
    Figure {
        title: title.to_owned(),
        x_label: "query".to_owned(),
        y_label: "weight".to_owned(),
        scale: Scale::Linear,
        shared_y: true,
        lead: None,
        panels: panels.collect(),
    }
}

/// Returns the mean and standard error over runs at each query.
fn curve<'a>(
    name: &str,
    rows: impl Iterator<Item = &'a &'a TaskWeightRow>,
    value: impl Fn(&TaskWeightRow) -> f64,
) -> Curve {
    let mut at: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for row in rows {
        at.entry(row.iteration).or_default().push(value(row));
    }
    let points = at.into_iter().filter_map(|(iteration, values)| {
        let estimate = Estimate::of(&values)?;
        Some(CurvePoint { iteration, estimate })
    });
    Curve { arm: name.to_owned(), points: points.collect() }
}

/// Formats the mean weights at some queries as a Markdown table with one line per configuration,
/// arm and task.
#[must_use]
pub fn task_weight_table(rows: &[TaskWeightRow], iterations: &[i64]) -> String {
    let mut lines = vec!["| configuration | arm | task |".to_owned(), "|---|---|---|".to_owned()];
    for iteration in iterations {
        lines[0] += &format!(" {iteration} |");
        lines[1] += "---|";
    }
    let mut seen = BTreeSet::new();
    for row in rows {
        if !seen.insert((&row.experiment, &row.arm, &row.task)) {
            continue;
        }
        let of_line = rows.iter().filter(|other| {
            other.experiment == row.experiment && other.arm == row.arm && other.task == row.task
        });
        let of_line: Vec<&TaskWeightRow> = of_line.collect();
        let curve = curve(&row.task, of_line.iter(), |row| row.weight);
        let mut line = format!("| {} | {} | {} |", row.experiment, row.arm, row.task);
        for iteration in iterations {
            let point = curve.points.iter().find(|p| p.iteration == *iteration);
            line += &match point {
                Some(point) => format!(" {:.3} |", point.estimate.mean),
                None => " – |".to_owned(),
            };
        }
        lines.push(line);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(run: u32, iteration: i64, task: &str, weight: f64) -> TaskWeightRow {
        TaskWeightRow {
            experiment: "e".into(),
            arm: "rm-gp-ucb".into(),
            run,
            iteration,
            task: task.into(),
            weight,
            gap_bound: (iteration > 1).then_some(0.5),
            meta_share: 0.7,
        }
    }

    #[test]
    fn rows_become_a_file_a_picture_and_a_table_of_means() {
        let folder = tempfile::tempdir().unwrap();
        let rows = [
            row(0, 1, "a", 0.5),
            row(0, 1, "b", 0.5),
            row(0, 2, "a", 0.9),
            row(0, 2, "b", 0.1),
            row(1, 2, "a", 0.7),
            row(1, 2, "b", 0.3),
        ];
        write_task_weights(folder.path(), "", &rows).unwrap();
        let text = std::fs::read_to_string(folder.path().join("weights.csv")).unwrap();
        assert_eq!(text.lines().nth(1), Some("e,rm-gp-ucb,0,1,a,0.5,,0.7"));
        assert_eq!(text.lines().nth(3), Some("e,rm-gp-ucb,0,2,a,0.9,0.5,0.7"));
        for name in TASK_WEIGHT_FILES {
            assert!(folder.path().join(name).exists(), "{name}");
        }
        let table = task_weight_table(&rows, &[1, 2, 3]);
        assert!(table.ends_with("| e | rm-gp-ucb | b | 0.500 | 0.200 | – |"), "{table}");
        assert_eq!(table.lines().count(), 4);
    }
}

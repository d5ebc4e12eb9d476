//! A logistic regression that is tuned again as its data grows, helped by the searches on less data
//! (Fig. 7.3b, D.5c, D.6).

use std::sync::Arc;

use anyhow::Context;
use fedbo_objective::{Objective, Outcome, TrialId};
use fedbo_report::{Clusters, Metric, task_weight_table};
use fedbo_research_problems::{
    GROWING_SIZES, GrowingData, Labelled, LogisticScale, LogisticScore, Problem, read_patients,
};
use fedbo_space::{Direction, Point, Space};
use fedbo_strategies::Domain;
use fedbo_streams::{Purpose, Seed};

use super::super::markdown::MarkdownTable;
use super::super::{Call, ExperimentResult};
use super::arms::{LARGEST, LEARNED, Rule, arms};
use super::measure::{Declaration, Naming, measure, seconds_note};
use super::run_setting::{N_META_OBS, RunSetting, earlier_task, occasions};
use super::similarity::{correlation, mean, surface};

const N_QUERIES: u64 = 25;
/// The score that each configuration maximizes, and the scale of L2 penalty and learning rate.
const CONFIGURATIONS: [(&str, LogisticScore, LogisticScale); 2] = [
    ("accuracy", LogisticScore::Accuracy, LogisticScale::Linear),
    ("log-likelihood", LogisticScore::LogLikelihood, LogisticScale::Linear),
];

/// Runs on red wines instead of the thesis' patients, so that no data folder is needed.
pub(in super::super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let growing = Growing {
        name: "meta-growing-data",
        title: "Logistic regression on 691 wines; searches on 138 to 552 of them as earlier tasks",
        unit: "bottles",
        patients: None,
        about: "Red wines replace the thesis' patients: each run draws its own validation bottles and order of arrival. Accuracy \
                moves by a few bottles of 300 over the whole space, so its differences are close to zero; the log-likelihood of \
                the same classifiers distinguishes settings.",
    };
    growing.run(call)
}

/// Runs on the thesis' patients.
pub(in super::super) fn run_patients(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let patients = read_patients(call.data_folder()?)?;
    let growing = Growing {
        name: "meta-diabetes",
        title: "Logistic regression on 691 patients; searches on 138 to 552 of them as earlier tasks",
        unit: "patients",
        patients: Some(&patients),
        about: "Each run draws its own 77 validation patients and order of arrival. Accuracy is a mean over five training runs, \
                so it moves in steps of 1/385; the log-likelihood of the same classifiers distinguishes settings.",
    };
    growing.run(call)
}

/// A growing data set.
struct Growing<'a> {
    name: &'static str,
    title: &'static str,
    /// A noun for the rows.
    unit: &'static str,
    /// Patients, or `None` for wines.
    patients: Option<&'a Labelled>,
    /// The first note.
    about: &'static str,
}

impl Growing<'_> {
    fn run(&self, call: Call<'_>) -> anyhow::Result<ExperimentResult> {
        let runs = call.runs();
        let seed = call.seed();
        let items: Vec<(usize, u32)> = (0..CONFIGURATIONS.len())
            .flat_map(|configuration| (0..runs).map(move |run| (configuration, run)))
            .collect();
        let note = |&(index, run): &(usize, u32)| format!("{} run {run}", CONFIGURATIONS[index].0);
        let occasions = occasions("searches on less data", &items, note, call, |&(index, run)| {
            let seed = seed.child(Purpose::RUN, u64::from(run));
            let mut stages = self.stages(index, seed)?;
            let target = stages.pop().context("there are no stages")?;
            let mut tasks = Vec::new();
            for (number, stage) in (0..).zip(&stages) {
                let name = format!("{} {}", stage.stage.rows().0.len(), self.unit);
                let own_seed = seed.child(Purpose::HISTORY, number);
                match earlier_task(stage, &name, N_META_OBS, own_seed, call.stop)? {
                    Some(task) => tasks.push(task),
                    None => return Ok(None),
                }
            }
            Ok(Some(RunSetting {
                configuration: CONFIGURATIONS[index].0.to_owned(),
                run,
                domain: Domain::Space(target.space().clone()),
                target: Arc::new(target),
                tasks,
                tables: Vec::new(),
                seed,
            }))
        })?;
        let declaration = Declaration {
            name: self.name,
            title: self.title,
            y_label: "best score above the middle setting's",
            metric: Metric::Best,
            n_queries: N_QUERIES,
            clusters: Clusters::Units,
            arms: arms(&[("mtbo", Rule::Mtbo), (LARGEST, Rule::LargestGap)]),
            weighing: vec![LEARNED, LARGEST, "rgpe", "taf"],
            naming: Naming::Tasks,
        };
        let measured = measure(&declaration, &occasions, call)?;
        let notes = vec![
            self.about.to_owned(),
            self.likeness_note(runs.min(5), seed)?,
            format!(
                "Mean weights at some queries\n\n{}",
                task_weight_table(&measured.weights, &[1, 2, 5, 10, 25])
            ),
            "Results reported in the thesis (Fig. 7.3b, diabetes): MTBO and TAF are best, and RM-GP-UCB follows closely, ahead of RGPE and GP-UCB."
                .to_owned(),
            seconds_note(&measured.rows),
        ];
        Ok(ExperimentResult { notes, ..measured.concluded })
    }

    /// Returns all stages of a run, with the target last.
    fn stages(&self, configuration: usize, seed: Seed) -> anyhow::Result<Vec<Gain>> {
        let (_, score, scale) = CONFIGURATIONS[configuration];
        let stage = |stage| match self.patients {
            Some(patients) => GrowingData::patients(patients, stage, scale, score, seed),
            None => GrowingData::wines(stage, scale, score, seed),
        };
        let stages = (0..GROWING_SIZES.len()).map(stage).collect::<Result<Vec<_>, _>>()?;
        let last = stages.last().context("there are no stages")?;
        let middle = last.space().decode(&[0.5; 3]);
        let reference = last.noiseless(&middle);
        let reference = reference.context("the middle setting has no score")?;
        let gains = stages.into_iter().map(|stage| Gain { stage, reference });
        Ok(gains.collect())
    }

    /// Returns a note on the correlation of each stage's surface with the last one's.
    fn likeness_note(&self, runs: u32, seed: Seed) -> anyhow::Result<String> {
        const N_POINTS: usize = 100;
        let title = format!(
            "Correlation of each stage with the last at {N_POINTS} random points, and the last one's standard deviation: mean over \
             {runs} runs"
        );
        let earlier = &GROWING_SIZES[..GROWING_SIZES.len() - 1];
        let heads = earlier.iter().map(ToString::to_string).chain(["deviation".to_owned()]);
        let mut table = MarkdownTable::new(title, "score", heads);
        for (index, (name, ..)) in CONFIGURATIONS.iter().enumerate() {
            let mut likeness = vec![Vec::new(); earlier.len()];
            let mut deviations = Vec::new();
            for run in 0..runs {
                let seed = seed.child(Purpose::RUN, u64::from(run));
                let mut surfaces: Vec<Vec<f64>> = self
                    .stages(index, seed)?
                    .iter()
                    .map(|stage| surface(stage, N_POINTS, &seed))
                    .collect();
                let Some(last) = surfaces.pop() else { continue };
                for (stage, own) in likeness.iter_mut().zip(&surfaces) {
                    stage.push(correlation(own, &last));
                }
                let centre = mean(&last);
                let squares: Vec<f64> = last.iter().map(|v| (v - centre).powi(2)).collect();
                deviations.push(mean(&squares).sqrt());
            }
            let cells = likeness.iter().map(|stage| format!("{:.2}", mean(stage)));
            table.row(name, cells.chain([format!("{:.4}", mean(&deviations))]));
        }
        Ok(table.into_text())
    }
}

/// A stage's score minus that of the target's middle setting, so that tuning gains can be averaged
/// over runs with different rows. All stages of a run have the same offset, so their differences
/// are unchanged.
struct Gain {
    stage: GrowingData,
    reference: f64,
}

impl Objective for Gain {
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
        match self.stage.evaluate(point, trial) {
            Outcome::Value(score) => Outcome::Value(score - self.reference),
            other => other,
        }
    }
}

impl Problem for Gain {
    fn name(&self) -> String {
        self.stage.name()
    }

    fn space(&self) -> &Space {
        self.stage.space()
    }

    fn direction(&self) -> Direction {
        self.stage.direction()
    }

    fn noiseless(&self, point: &Point) -> Option<f64> {
        Some(self.stage.noiseless(point)? - self.reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_scores_less_that_of_the_targets_middle() {
        let seed = Seed::new(3);
        let (name, title, unit, about) = ("wines", "", "bottles", "");
        let wines = Growing { name, title, unit, patients: None, about };
        for (index, (_, score, scale)) in CONFIGURATIONS.into_iter().enumerate() {
            let gains = wines.stages(index, seed).unwrap();
            let middle = gains[4].space().decode(&[0.5; 3]);
            let at_middle = gains[4].noiseless(&middle).unwrap();
            assert!(at_middle.abs() < 1e-15);
            let trial = TrialId { agent: 0, trial: 0 };
            let other = gains[0].space().decode(&[0.1, 0.9, 0.3]);
            let stage = |stage| GrowingData::wines(stage, scale, score, seed).unwrap();
            let expected =
                stage(0).noiseless(&other).unwrap() - stage(4).noiseless(&middle).unwrap();
            let Outcome::Value(gain) = gains[0].evaluate(&other, trial) else {
                panic!("a point of the space");
            };
            assert!((gain - expected).abs() < 1e-15);
            assert_eq!(gains[0].noiseless(&other), Some(gain));
        }
    }
}

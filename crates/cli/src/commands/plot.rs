//! `fedbo plot`: the pictures of a results folder again, or those of a study.

use std::path::{Path, PathBuf};

use fedbo_report::study::{
    PlottedImportance, PlottedOldStudy, PlottedParameter, PlottedTransfer, PlottedTrial,
    PlottedValue, STUDY_PICTURES, StudyPlot, TRANSFER_PICTURE,
};
use fedbo_report::{
    Figure, Metric, RESULTS_FILE, ReportError, SUMMARY_FILE, Summary, TRADEOFF_FILES, Tradeoff,
    read_results,
};
use fedbo_space::{Direction, Kind, Space, Value};
use fedbo_storage::Trial;
use fedbo_study::{StudyError, TransferStep};

use super::best::insight;
use crate::console;
use crate::exit::{BadInput, Exit};
use crate::study_ref::{Opened, StudyRef};

/// Draw the pictures of a results folder again, or those of a study
///
/// Of a folder: reads results.csv and, for titles and axes, summary.json; writes curves.svg and curves.png, and the same of
/// tradeoff where the summary asks for it. Of a study, also while it runs: writes history, slices and importance, and transfer
/// if it learns from old studies, as SVG and PNG. Prints their paths.
#[derive(clap::Args)]
pub(crate) struct Plot {
    /// A results folder; or a study: its file, for instance study.toml, or where it is stored, as sqlite:FILE
    #[arg(value_name = "DIR|STUDY")]
    place: String,
    /// Which study, where sqlite:FILE holds several
    #[arg(long = "study", value_name = "NAME")]
    name: Option<String>,
    /// Where a study's pictures are written [default: results/NAME, with the study's name]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the paths as JSON
    #[arg(long)]
    json: bool,
}

impl Plot {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let reference = StudyRef::new(&self.place, self.name.as_deref());
        let paths = match reference.as_path() {
            Some(path) if is_folder(path) => self.plot_folder(path)?,
            _ => self.plot_study(&reference)?,
        };
        let paths: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        if self.json {
            console::result(&serde_json::json!({ "files": paths }).to_string())?;
        } else {
            console::result(&paths.join("\n"))?;
        }
        Ok(Exit::Done)
    }

    fn plot_folder(&self, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
        if self.out.is_some() || self.name.is_some() {
            let message = "--out and --study are for the pictures of a study; those of a folder are written into it";
            return Err(BadInput(message.to_owned()).into());
        }
        let rows = read_results(&folder.join(RESULTS_FILE))?;
        if rows.is_empty() {
            let folder = folder.display();
            return Err(BadInput(format!("{folder} holds no trials to draw")).into());
        }
        // A run that crashed has no summary: it is drawn with the usual axes.
        let summary = match folder.join(SUMMARY_FILE).exists() {
            true => Some(Summary::read(folder)?),
            false => None,
        };
        let metric = summary.as_ref().map_or(Metric::Best, |s| s.metric);
        let spec = summary.as_ref().and_then(|s| s.figure.clone());
        Figure::from_rows(&rows, metric, &spec.unwrap_or_default()).write(folder)?;
        let mut pictures = vec!["curves.svg", "curves.png"];
        if let Some(summary) = &summary
            && let Some(spec) = &summary.tradeoff
        {
            Tradeoff::of(summary, spec).write(folder)?;
            pictures.extend(TRADEOFF_FILES);
        }
        Ok(pictures.iter().map(|name| folder.join(name)).collect())
    }

    fn plot_study(&self, reference: &StudyRef) -> anyhow::Result<Vec<PathBuf>> {
        let opened = reference.stored()?;
        let trials = opened.study.trials()?;
        if trials.iter().all(|trial| trial.told().is_none()) {
            let (name, word) = (opened.name(), &opened.word);
            return Err(BadInput(format!(
                "study {name:?} has no finished trial to draw yet; fedbo trials {word} lists what is open"
            ))
            .into());
        }
        let folder = match &self.out {
            Some(out) => out.clone(),
            None => PathBuf::from("results").join(opened.name()),
        };
        let both =
            |name: &str| ["svg", "png"].map(|ending| folder.join(name).with_extension(ending));
        let learns = opened.study.definition().meta.is_some();
        let further = learns.then_some(TRANSFER_PICTURE);
        let names = STUDY_PICTURES.into_iter().chain(further);
        let pictures: Vec<PathBuf> = names.flat_map(both).collect();
        for path in pictures.iter().chain([&folder]) {
            opened.check_apart(path)?;
        }
        let plot = study_plot(&opened, &trials)?;
        std::fs::create_dir_all(&folder).map_err(|cause| ReportError::CreateFolder {
            path: folder.clone(),
            cause,
        })?;
        plot.write(&folder)?;
        Ok(pictures)
    }
}

/// Whether a results folder is meant: also by the name of one that is not there.
fn is_folder(path: &Path) -> bool {
    path.is_dir() || (!path.exists() && path.extension().is_none())
}

/// A study as plain data.
fn study_plot(opened: &Opened, trials: &[Trial]) -> Result<StudyPlot, StudyError> {
    let space = opened.study.space();
    let mut told: Vec<&Trial> = trials.iter().filter(|t| t.told().is_some()).collect();
    told.sort_by_key(|trial| trial.told_seq);
    let importance = match told.iter().any(|trial| trial.value().is_some()) {
        true => insight(opened).map(|insight| insight.importance),
        false => None,
    };
    let transfer = opened.study.transfer_history()?;
    Ok(StudyPlot {
        title: opened.name().to_owned(),
        minimize: opened.study.direction() == Direction::Minimize,
        trials: told
            .into_iter()
            .map(|trial| plotted(space, trial))
            .collect(),
        parameters: space
            .parameters()
            .iter()
            .map(|parameter| PlottedParameter {
                name: parameter.name().to_owned(),
                range: parameter.kind().clone(),
            })
            .collect(),
        importance: importance
            .unwrap_or_default()
            .into_iter()
            .map(|each| PlottedImportance {
                parameter: each.name,
                variance_share: each.variance_share,
                relevance: each.relevance,
            })
            .collect(),
        transfer: transfer.map(|steps| plotted_transfer(&steps)),
    })
}

/// What a study built on old ones, study by study.
fn plotted_transfer(steps: &[TransferStep]) -> PlottedTransfer {
    let last = steps.last().map_or(&[][..], |step| &step.studies);
    let studies = last
        .iter()
        .enumerate()
        .map(|(index, trust)| PlottedOldStudy {
            name: trust.name.clone(),
            weights: steps
                .iter()
                .map(|step| step.studies[index].weight)
                .collect(),
            dropped: trust.dropped,
        });
    PlottedTransfer {
        shares: steps.iter().map(|step| step.share).collect(),
        studies: studies.collect(),
    }
}

fn plotted(space: &Space, trial: &Trial) -> PlottedTrial {
    let coordinates = space.parameters().iter().map(|parameter| {
        match (trial.point.get(parameter.name()), parameter.kind()) {
            (Some(Value::Choice(name)), Kind::Categorical { choices }) => {
                let index = choices.iter().position(|choice| choice == name);
                PlottedValue::Choice(index.unwrap_or(usize::MAX))
            }
            (value, _) => {
                let number = value.and_then(Value::as_f64);
                PlottedValue::Number(number.unwrap_or(f64::NAN))
            }
        }
    });
    PlottedTrial {
        number: trial.number,
        value: trial.value(),
        coordinates: coordinates.collect(),
        initial: trial.source == "initial",
    }
}

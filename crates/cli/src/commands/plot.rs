//! `fedbo plot`: redraw the pictures of a results folder, or draw those of a study or a game.

use std::path::{Path, PathBuf};

use anyhow::Context;
use fedbo_report::study::{PARETO_PICTURE, STUDY_PICTURES, StudyPlot, TRANSFER_PICTURE};
use fedbo_report::{
    DecisionRegionsPicture, Figure, LEARNING_CURVES_FILES, Metric, RESULTS_FILE, Region,
    RegionEpoch, ReportError, SUMMARY_FILE, Summary, TRADEOFF_FILES, Tradeoff,
    decision_regions_files, read_results,
};
use fedbo_space::Direction;
use fedbo_storage::{Told, Trial};
use fedbo_strategies::early_stopping::{BosRule, CellRule, Decision, LearningCurve};
use fedbo_study::StudyError;

use super::best::insight;
use fedbo_console as console;
use fedbo_console::text::whole;
use fedbo_console::{BadInput, Exit};
use fedbo_documents::file_kind::FileKind;
use fedbo_documents::pictures::{is_drawn, learning_curves, study_plot};
use fedbo_documents::study_ref::{OpenStudy, StudyRef, folder_of};

/// Redraw the pictures of a results folder, or draw those of a study or a game
///
/// For a results folder, reads results.csv and, for titles and axes, summary.json. Writes
/// curves.svg and curves.png, and also tradeoff.svg and tradeoff.png if the summary has a tradeoff.
/// For a study, finished or not, writes history, slices and importance as SVG and PNG, also
/// transfer if the study learns from old studies, and learning-curves if its trials report during
/// training. With several objectives, writes pareto instead. For a trial that BO-BOS may stop,
/// writes decision-regions-NUMBER with the decisions by epoch and average value so far. For a game,
/// given by its file, writes payoffs and actions. Prints the paths of the pictures.
#[derive(clap::Args)]
pub(crate) struct Plot {
    /// Results folder, study or game. A study is given by its file, for instance study.toml, or by
    /// its storage, as sqlite:FILE; a game by its file
    #[arg(value_name = "DIR|STUDY|GAME")]
    place: String,
    /// Name of the study, if sqlite:FILE contains several
    #[arg(long = "study", value_name = "NAME")]
    name: Option<String>,
    /// Folder for the pictures of a study or a game [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Draw instead the decisions of the rule "bo-bos" for this trial
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = whole::<u64>)]
    trial: Option<u64>,
    /// Print the paths as JSON
    #[arg(long)]
    json: bool,
}

impl Plot {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let reference = StudyRef::new(&self.place, self.name.as_deref());
        let paths = match reference.as_path() {
            Some(path) if is_folder(path) => self.plot_folder(path)?,
            Some(path) if FileKind::of(path) == Some(FileKind::Game) => self.plot_game(path)?,
            _ => match self.trial {
                Some(number) => self.plot_decisions(&reference, number)?,
                None => self.plot_study(&reference)?,
            },
        };
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        if self.json {
            console::result(&serde_json::json!({ "files": paths }).to_string())?;
        } else {
            console::result(&paths.join("\n"))?;
        }
        Ok(Exit::Done)
    }

    fn plot_folder(&self, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
        if self.out.is_some() || self.name.is_some() || self.trial.is_some() {
            let message = "--out, --study and --trial are for the pictures of a study; those of a folder are written into it";
            return Err(BadInput(message.to_owned()).into());
        }
        let results = folder.join(RESULTS_FILE);
        if !results.exists() {
            return Err(BadInput(format!(
                "cannot read {}: there is no such file; name a results folder, a study's or a game's file, or sqlite:FILE",
                results.display()
            ))
            .into());
        }
        let rows = read_results(&results)?;
        if rows.is_empty() {
            let folder = folder.display();
            return Err(BadInput(format!("{folder} holds no trials to draw")).into());
        }
        // A crashed run has no summary; use the default axes then.
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
        let curves = learning_curves(&opened.study, &trials);
        if !trials.iter().any(|trial| is_drawn(opened.study.definition(), trial))
            && curves.is_none()
        {
            let (name, word) = (opened.name(), &opened.word);
            return Err(BadInput(format!(
                "study {name:?} has no finished trial to draw yet; fedbo trials {word} lists the open trials"
            ))
            .into());
        }
        let folder = self.folder(opened.name())?;
        let both =
            |name: &str| ["svg", "png"].map(|ending| folder.join(name).with_extension(ending));
        let learns = opened.study.definition().meta.is_some();
        let further = learns.then_some(TRANSFER_PICTURE);
        let names: Vec<&str> = match opened.study.definition().objectives.is_empty() {
            true => STUDY_PICTURES.into_iter().chain(further).collect(),
            false => vec![PARETO_PICTURE],
        };
        let has_ended = trials.iter().any(|trial| is_drawn(opened.study.definition(), trial));
        let mut pictures: Vec<PathBuf> = match has_ended {
            true => names.into_iter().flat_map(both).collect(),
            false => Vec::new(),
        };
        if curves.is_some() {
            pictures.extend(LEARNING_CURVES_FILES.map(|name| folder.join(name)));
        }
        for path in pictures.iter().chain([&folder]) {
            opened.check_is_separate(path)?;
        }
        let plot = has_ended.then(|| whole_plot(&opened, &trials)).transpose()?;
        create_folder(&folder)?;
        if let Some(plot) = plot {
            plot.write(&folder)?;
        }
        if let Some(curves) = curves {
            curves.write(&folder)?;
        }
        Ok(pictures)
    }

    #[cfg(feature = "games")]
    fn plot_game(&self, path: &Path) -> anyhow::Result<Vec<PathBuf>> {
        if self.name.is_some() || self.trial.is_some() {
            let message = "--study and --trial are for the pictures of a study, and this is a game";
            return Err(BadInput(message.to_owned()).into());
        }
        fedbo_game_commands::plot(path, self.out.as_deref())
    }

    #[cfg(not(feature = "games"))]
    fn plot_game(&self, _: &Path) -> anyhow::Result<Vec<PathBuf>> {
        Err(super::without_games())
    }

    fn folder(&self, name: &str) -> Result<PathBuf, BadInput> {
        match &self.out {
            Some(out) => Ok(out.clone()),
            None => Ok(PathBuf::from("results").join(folder_of(name)?)),
        }
    }

    /// Draws the decisions of the rule BO-BOS for a trial.
    fn plot_decisions(&self, reference: &StudyRef, number: u64) -> anyhow::Result<Vec<PathBuf>> {
        let opened = reference.stored()?;
        let Some(rule) = opened.study.bos_rule(number)? else {
            let spec = opened.study.definition().early_stopping.as_ref();
            let why = match spec.map(|spec| &spec.rule) {
                Some(rule) if rule.options().needs_epoch_model() => {
                    "it is an initial one, which is trained to its end, or has not reported its first epochs".to_owned()
                }
                Some(other) => format!("only decisions of the rule \"bo-bos\" are drawn, and this study's is {:?}", other.name()),
                None => "its study stops no trials early".to_owned(),
            };
            let message = format!("trial {number} has no decisions to draw: {why}");
            return Err(BadInput(message).into());
        };
        let trials = opened.study.trials()?;
        let trial = trials.iter().find(|trial| trial.number == number);
        let trial = trial.with_context(|| format!("trial {number} is gone"))?;
        let folder = self.folder(opened.name())?;
        let paths: Vec<PathBuf> =
            decision_regions_files(Some(number)).iter().map(|name| folder.join(name)).collect();
        for path in paths.iter().chain([&folder]) {
            opened.check_is_separate(path)?;
        }
        create_folder(&folder)?;
        decision_regions(&opened, &rule, trial).write(&folder, Some(number))?;
        Ok(paths)
    }
}

fn create_folder(folder: &Path) -> Result<(), ReportError> {
    std::fs::create_dir_all(folder)
        .map_err(|cause| ReportError::CreateFolder { path: folder.to_owned(), cause })
}

/// Draws a rule's decision regions and the path of the trial.
///
/// The rule uses errors, which are distances from the best value as fractions of the range between
/// the bounds. The picture shows the user's values.
fn decision_regions(opened: &OpenStudy, rule: &BosRule, trial: &Trial) -> DecisionRegionsPicture {
    let direction = opened.study.direction();
    let value_of = |error: f64| direction.to_maximize(rule.settings().bounds().value(error));
    let region = |cell: &CellRule| match cell.decision {
        Decision::Continue => Region::Continue,
        Decision::StopEarly => Region::StopEarly,
        Decision::RunToEnd => Region::RunToEnd,
    };
    let epochs = rule.epochs().iter().map(|rules| {
        let cells = rules.cells.iter();
        let mut cells: Vec<_> = cells.map(|cell| cell.as_ref().map(region)).collect();
        let (mut low, mut high) = (value_of(rules.low), value_of(rules.high));
        // If values are maximized, the smallest error is the largest value.
        if direction == Direction::Maximize {
            cells.reverse();
            (low, high) = (high, low);
        }
        RegionEpoch { epoch: rules.epoch, low, high, cells, may_stop: rules.may_stop }
    });
    let reports: Vec<(u32, f64)> = trial
        .reports
        .iter()
        .map(|report| (report.epoch, direction.to_maximize(report.value)))
        .collect();
    let path = LearningCurve::from_reports(&reports).map_or_else(Vec::new, |curve| {
        let epochs = 1..=curve.n_epochs();
        epochs.map(|epoch| (epoch, value_of(rule.statistic(&curve.until(epoch))))).collect()
    });
    DecisionRegionsPicture {
        title: format!("{}: trial {}", opened.name(), trial.number),
        y_label: match direction {
            Direction::Minimize => "average value so far (smaller is better)".to_owned(),
            Direction::Maximize => "average value so far (larger is better)".to_owned(),
        },
        epochs: epochs.collect(),
        path,
        stopped_at: match trial.told() {
            Some(Told::Stopped { epoch, .. }) => usize::try_from(*epoch).ok(),
            _ => None,
        },
        ..DecisionRegionsPicture::default()
    }
}

/// Returns true if the path denotes a results folder. A nonexistent path denotes a folder if it has
/// no extension.
fn is_folder(path: &Path) -> bool {
    path.is_dir() || (!path.exists() && path.extension().is_none())
}

/// Returns the data for all pictures of a study.
fn whole_plot(opened: &OpenStudy, trials: &[Trial]) -> Result<StudyPlot, StudyError> {
    let has_value = trials.iter().any(|trial| trial.value().is_some());
    let insight = match has_value && opened.study.definition().objectives.is_empty() {
        true => insight(opened),
        false => None,
    };
    let transfer = opened.study.transfer_history()?;
    Ok(study_plot(&opened.study, trials, insight, transfer.as_deref()))
}

//! A study as JSON, pictures and tables.

use anyhow::Context as _;
use axum::response::Response;
use fedbo_report::study::{PARETO_PICTURE, STUDY_PICTURES};
use fedbo_report::{Picture, ReportError};
use fedbo_space::Direction;
use fedbo_storage::{Told, Trial, TrialState};
use fedbo_study::{NamedObjective, Study};
use hyper::StatusCode;
use hyper::header::HeaderMap;
use serde::{Deserialize, Serialize};

use super::catalog::Entry;
use super::request::{Asked, Problem, as_file, json as json_of};
use crate::answers::{PNG, SVG, typed};
use fedbo_console::text::timestamp;
use fedbo_documents::old_studies::OldStudiesRecord;
use fedbo_documents::pictures::{PictureError, StudyPicture, draw};
use fedbo_documents::space_display::{ShownParameter, parameters};
use fedbo_documents::trial_record::{
    self, SCHEMA_VERSION, StopRecord, TrialRecord, TrialsDocument,
};

#[derive(Serialize)]
struct List {
    schema_version: u32,
    /// True if the pages can change studies.
    actions: bool,
    studies: Vec<Listed>,
    unreadable: Vec<NotRead>,
}

/// A study in the list.
#[derive(Serialize)]
pub(super) struct Listed {
    id: String,
    name: String,
    place: String,
    direction: Direction,
    pub(super) n_trials: Option<u64>,
    pub(super) n_told: usize,
    pub(super) n_failed: usize,
    pub(super) n_running: usize,
    n_waiting: usize,
    pub(super) best: Option<f64>,
    pub(super) last_told_at: Option<String>,
}

/// A place that cannot be read, and the reason.
#[derive(Serialize)]
struct NotRead {
    place: String,
    why: String,
}

/// `GET /api/studies`.
pub(super) fn list(asked: &Asked) -> anyhow::Result<Response> {
    let (entries, unreadable) = asked.shared.catalog.entries();
    let mut unreadable: Vec<NotRead> =
        unreadable.into_iter().map(|each| NotRead { place: each.place, why: each.why }).collect();
    let mut studies = Vec::new();
    for entry in entries {
        match listed(&entry) {
            Ok(study) => studies.push(study),
            Err(error) => unreadable.push(NotRead {
                place: format!("{}, study {:?}", entry.place, entry.record.name),
                why: fedbo_documents::error_text(&error),
            }),
        }
    }
    let actions = asked.shared.actions.is_some();
    json_of(&List { schema_version: SCHEMA_VERSION, actions, studies, unreadable })
}

/// Returns a study's entry in the list.
pub(super) fn listed(entry: &Entry) -> anyhow::Result<Listed> {
    let study = entry.load()?;
    let (definition, trials) = (study.definition(), study.trials()?);
    let count = |is: &dyn Fn(&Trial) -> bool| trials.iter().filter(|trial| is(trial)).count();
    Ok(Listed {
        id: entry.id.clone(),
        name: entry.record.name.clone(),
        place: entry.place.clone(),
        direction: study.direction(),
        n_trials: entry.n_trials,
        n_told: count(&|trial| trial.told().is_some() && !trial.is_discarded()),
        n_failed: count(&|trial| matches!(trial.told(), Some(Told::Failed { .. }))),
        n_running: count(&|trial| matches!(trial.state, TrialState::Running(_))),
        n_waiting: count(&|trial| matches!(trial.state, TrialState::Waiting)),
        best: match definition.objectives.is_empty() {
            true => definition.best_trials(&trials).first().and_then(|best| best.value()),
            false => None,
        },
        last_told_at: trials.iter().filter_map(|trial| trial.told_at_ms).max().map(timestamp),
    })
}

/// A study without its trials.
#[derive(Serialize)]
struct Described {
    schema_version: u32,
    id: String,
    name: String,
    place: String,
    direction: Direction,
    n_trials: Option<u64>,
    n_initial: usize,
    strategy: serde_json::Value,
    parameters: Vec<ShownParameter>,
    /// Names and directions of the objectives, if there is more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    objectives: Vec<NamedObjective>,
    /// Names of a trial's numbers, except `value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outcomes: Vec<String>,
    /// Number of epochs in a complete training run, if trials are stopped early.
    epochs: Option<u32>,
    /// Names of the study's pictures.
    pictures: Vec<&'static str>,
    /// True if the page can change the study.
    actions: bool,
    /// The latest stop of the study, if any.
    last_stop: Option<StopRecord>,
}

/// `GET /api/studies/{id}`.
pub(super) fn one(asked: &Asked) -> anyhow::Result<Response> {
    let entry = asked.shared.catalog.entry(asked.id())?;
    let study = entry.load()?;
    let definition = study.definition();
    json_of(&Described {
        schema_version: SCHEMA_VERSION,
        name: entry.record.name.clone(),
        place: entry.place.clone(),
        direction: study.direction(),
        n_trials: entry.n_trials,
        n_initial: definition.n_initial,
        strategy: serde_json::to_value(definition.strategy)?,
        parameters: parameters(study.space()),
        objectives: definition.objectives.clone(),
        outcomes: definition.column_names().into_iter().map(str::to_owned).collect(),
        epochs: definition.early_stopping.as_ref().map(|spec| spec.epochs),
        pictures: pictures_of(&study),
        actions: asked.shared.actions.is_some(),
        last_stop: study.last_stop()?.as_ref().map(StopRecord::from),
        id: entry.id,
    })
}

/// Returns the names of a study's pictures.
pub(super) fn pictures_of(study: &Study) -> Vec<&'static str> {
    let definition = study.definition();
    if !definition.objectives.is_empty() {
        return vec![PARETO_PICTURE];
    }
    let mut pictures = STUDY_PICTURES.to_vec();
    pictures.extend(definition.early_stopping.as_ref().map(|_| LEARNING_CURVES));
    pictures.extend(definition.meta.as_ref().map(|_| TRANSFER));
    pictures
}

const LEARNING_CURVES: &str = "learning-curves";
const TRANSFER: &str = "transfer";

/// Returns the picture with the given name.
pub(super) fn picture_of(name: &str) -> Option<StudyPicture> {
    Some(match name {
        "history" => StudyPicture::History,
        "slices" => StudyPicture::Slices,
        "importance" => StudyPicture::Importance,
        PARETO_PICTURE => StudyPicture::Pareto,
        LEARNING_CURVES => StudyPicture::LearningCurves,
        TRANSFER => StudyPicture::Transfer,
        _ => return None,
    })
}

/// Maximum size in bytes of an SVG picture in a page. A larger one is replaced by a PNG, since
/// browsers take seconds to draw many thousands of trials.
pub(super) const SVG_BYTES: usize = 1 << 20;

/// Returns true if the response is embedded as an image rather than saved as a file.
fn is_shown(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-dest").is_some_and(|purpose| purpose == "image")
}

/// `GET /api/studies/{id}/pictures/{name}.svg` and `.png`: the picture of `fedbo plot`.
///
/// In a page, a large picture is sent as a PNG under either name.
pub(super) fn picture(asked: &Asked) -> anyhow::Result<Response> {
    let unknown = || Problem::absent("there is no such picture");
    let (name, ending) = asked.file().rsplit_once('.').ok_or_else(unknown)?;
    let which = picture_of(name).ok_or_else(unknown)?;
    let is_svg = match ending {
        "svg" => true,
        "png" => false,
        _ => return Err(unknown().into()),
    };
    let most = if is_shown(&asked.headers) { SVG_BYTES } else { usize::MAX };
    let study = asked.shared.catalog.entry(asked.id())?.load()?;
    let picture = draw(&study, which).map_err(|error| match error {
        PictureError::NoTrial { .. }
        | PictureError::NoCurves { .. }
        | PictureError::OtherObjectives { .. }
        | PictureError::NoTransfer { .. } => anyhow::Error::new(Problem::absent(error.to_string())),
        error => error.into(),
    })?;
    let (kind, bytes) = match is_svg {
        true => within(&picture, most)?,
        false => (PNG, picture.png()?),
    };
    Ok(typed(kind, bytes))
}

/// Returns a picture and its content type: SVG, or PNG if the SVG is larger than `most` bytes.
pub(super) fn within(
    picture: &Picture,
    most: usize,
) -> Result<(&'static str, Vec<u8>), ReportError> {
    let svg = picture.svg()?;
    match svg.len() <= most {
        true => Ok((SVG, svg.into_bytes())),
        false => Ok((PNG, picture.png()?)),
    }
}

/// Returns the number of trials with a value. They are counted before the model is fitted, so there
/// are more than the model uses only if the model left out trials.
fn n_with_value(study: &Study) -> anyhow::Result<usize> {
    Ok(study.trials()?.iter().filter(|trial| trial.value().is_some()).count())
}

/// `GET /api/studies/{id}/importance`: the numbers of the importance picture.
pub(super) fn importance(asked: &Asked) -> anyhow::Result<Response> {
    let none = || Problem::absent("the model needs two values");
    let study = asked.shared.catalog.entry(asked.id())?.load()?;
    let n_all = n_with_value(&study)?;
    if study.definition().outcomes().n_objectives > 1 {
        let message = "the importance of parameters is for a study with one objective";
        return Err(Problem::absent(message).into());
    }
    let insight = study.insight()?.with_context(none)?;
    json_of(&serde_json::json!({
        "schema_version": SCHEMA_VERSION, "n_values": insight.n_values, "n_all": n_all,
        "importance": insight.importance,
    }))
}

/// `GET /api/studies/{id}/transfer`: the latest numbers of the transfer picture, as in `fedbo best
/// --json`.
pub(super) fn transfer(asked: &Asked) -> anyhow::Result<Response> {
    let study = asked.shared.catalog.entry(asked.id())?.load()?;
    let none = || Problem::absent("this study learns from no old ones");
    let step = study.transfer()?.with_context(none)?;
    let meta = study.definition().meta.as_ref().with_context(none)?;
    let record = OldStudiesRecord::new(meta, &step, study.direction());
    json_of(&serde_json::json!({
        "schema_version": SCHEMA_VERSION, "n_told": step.n_told, "old_studies": record,
    }))
}

/// The two parameters of a surface.
#[derive(Deserialize)]
struct Axes {
    x: String,
    y: String,
}

/// `GET /api/studies/{id}/surface?x=PARAMETER&y=PARAMETER`.
pub(super) fn surface(asked: &Asked) -> anyhow::Result<Response> {
    let axes: Axes = asked.query()?;
    if axes.x == axes.y {
        let message = format!("x and y are both {:?}; name two different parameters", axes.x);
        return Err(Problem::new(StatusCode::BAD_REQUEST, message).into());
    }
    let study = asked.shared.catalog.entry(asked.id())?.load()?;
    for name in [&axes.x, &axes.y] {
        study.space().parameter(name).map_err(|error| Problem::absent(error.to_string()))?;
    }
    let none = || Problem::absent("the model needs two values");
    let n_all = n_with_value(&study)?;
    let surface = study.surface(&axes.x, &axes.y)?.with_context(none)?;
    json_of(&serde_json::json!({
        "schema_version": SCHEMA_VERSION, "x": surface.x, "y": surface.y, "mean": surface.mean,
        "std": surface.std, "n_values": surface.n_values, "n_all": n_all, "at": TrialRecord::new(study.definition(), &surface.at),
    }))
}

/// `GET /api/studies/{id}/trials.csv`: the table of `fedbo export`.
pub(super) fn csv(asked: &Asked) -> anyhow::Result<Response> {
    let study = asked.shared.catalog.entry(asked.id())?.load()?;
    let table = trial_record::csv(study.definition(), study.space(), &study.trials()?)?;
    Ok(as_file(typed("text/csv; charset=utf-8", table), "trials.csv"))
}

/// `GET /api/studies/{id}/trials.json`: the document of `fedbo trials --json`.
pub(super) fn json(asked: &Asked) -> anyhow::Result<Response> {
    let entry = asked.shared.catalog.entry(asked.id())?;
    let study = entry.load()?;
    let document = json_of(&TrialsDocument::new(
        &study,
        &entry.place,
        &study.trials()?,
        &study.corrections()?,
    ))?;
    Ok(as_file(document, "trials.json"))
}

#[cfg(test)]
mod tests {
    use fedbo_report::study::{PlottedParameter, PlottedTrial, PlottedValue, StudyPlot};
    use fedbo_space::Kind;

    use super::*;

    /// The size of an SVG grows with the number of trials; the size of a PNG does not.
    #[test]
    fn a_picture_of_many_trials_is_shown_in_points_of_the_screen() {
        let plot = |n_trials: u64| StudyPlot {
            parameters: vec![PlottedParameter {
                name: "x".to_owned(),
                range: Kind::Float { low: 0.0, high: 1.0, log: false },
            }],
            trials: (0..n_trials)
                .map(|number| {
                    let x = number as f64 / n_trials as f64;
                    PlottedTrial {
                        number,
                        value: Some(x),
                        coordinates: vec![PlottedValue::Number(x)],
                        initial: false,
                        numbers: Vec::new(),
                        feasible: true,
                        on_front: false,
                    }
                })
                .collect(),
            ..StudyPlot::default()
        };
        for (n_trials, expected) in [(100, SVG), (20_000, PNG)] {
            let picture = plot(n_trials).picture("slices").expect("a picture");
            let (kind, bytes) = within(&picture, SVG_BYTES).expect("bytes");
            assert_eq!(kind, expected, "{n_trials}");
            assert!(bytes.len() <= SVG_BYTES, "{n_trials}: {}", bytes.len());
            assert_eq!(bytes.starts_with(b"\x89PNG"), expected == PNG);
        }
    }
}

//! A page of one study or run as a single file that can be sent or archived.
//!
//! The file has no scripts and loads nothing: pictures and styles are embedded. The HTML library
//! escapes names and error messages.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use data_encoding::BASE64;
use fedbo_report::{ResultsTail, Row, closing_table};
use fedbo_storage::{Told, Trial};
use fedbo_study::Definition;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::answers::SVG;

use super::catalog::{Catalog, Entry};
use super::{folder, game, runs, studies};
use fedbo_console::BadInput;
use fedbo_console::text::{self, timestamp};
use fedbo_documents::game_results::PlayerResult;
use fedbo_documents::pictures::{PictureError, draw};
use fedbo_documents::trial_record::outcomes;

/// Maximum number of trials in a table. Browsers render larger tables too slowly.
const TRIALS: usize = 2000;
/// Allows only embedded content and no scripts.
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";

/// Renders the page of the only study or run in a catalog.
///
/// # Errors
/// Fails if the catalog does not contain exactly one study or run, or if it cannot be read or
/// drawn.
fn page(catalog: &Catalog) -> anyhow::Result<String> {
    let (entries, unreadable) = catalog.entries();
    let folders = catalog.runs();
    if let Some(place) = unreadable.first() {
        return Err(BadInput(format!("{}: {}", place.place, place.why)).into());
    }
    let (title, body) = match (entries.as_slice(), folders.as_slice()) {
        ([entry], []) => (entry.record.name.clone(), of_study(entry)?),
        ([], [(_, folder)]) => (folder::name(folder), of_run(folder)?),
        ([], []) => {
            let message = "there is no trial yet, so there is nothing to write a page about";
            return Err(BadInput(message.to_owned()).into());
        }
        _ => {
            let studies = entries.iter().map(|entry| &entry.record.name);
            let runs = folders.iter().map(|(_, folder)| folder::name(folder));
            let names: Vec<String> = studies
                .map(|name| text::quoted(name))
                .chain(runs.map(|name| text::quoted(&name)))
                .collect();
            let message = format!(
                "--html writes a page of one study or run; here are {}: name a study's file or a results folder",
                names.join(", ")
            );
            return Err(BadInput(message).into());
        }
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "fedbo: " (title) }
                style { (PreEscaped(style())) }
            }
            body {
                main {
                    h1 { (title) }
                    p .quiet { "as of " (timestamp(now_ms())) }
                    (body)
                }
            }
        }
    };
    Ok(page.into_string())
}

/// Returns the style sheet without its fonts, which are separate files.
fn style() -> String {
    let lines = include_str!("../../assets/dashboard/style.css").lines();
    lines.filter(|line| !line.starts_with("@font-face")).collect::<Vec<_>>().join("\n")
}

/// Returns the current time in milliseconds since 1970.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Renders a list of names and values.
fn facts(facts: &[(&str, String)]) -> Markup {
    html! {
        dl .facts {
            @for (name, value) in facts {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// Renders a scrollable table; the first cell of each row is a header.
fn table(label: &str, heads: &[String], rows: &[Vec<String>]) -> Markup {
    html! {
        div .scroll tabindex="0" role="region" aria-label=(label) {
            table {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (index, cell) in row.iter().enumerate() {
                                @if index == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Embeds a picture as an image, so that it cannot run scripts.
fn picture(name: &str, kind: &str, bytes: &[u8]) -> Markup {
    let source = format!("data:{kind};base64,{}", BASE64.encode(bytes));
    html! { figure { img src=(source) alt=(name); figcaption { (name) } } }
}

/// Formats a number for display.
fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), text::number)
}

fn of_study(entry: &Entry) -> anyhow::Result<Markup> {
    let listed = studies::listed(entry)?;
    let study = entry.load()?;
    let mut trials = study.trials()?;
    let mut pictures = Vec::new();
    let names = studies::pictures_of(&study).into_iter();
    for (name, which) in names.filter_map(|name| Some((name, studies::picture_of(name)?))) {
        match draw(&study, which) {
            Ok(picture) => pictures.push((name, studies::within(&picture, studies::SVG_BYTES)?)),
            // Nothing to draw yet.
            Err(
                PictureError::NoTrial { .. }
                | PictureError::NoCurves { .. }
                | PictureError::OtherObjectives { .. }
                | PictureError::NoTransfer { .. },
            ) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for trial in &trials {
        if let Some(Told::Failed { message, .. }) = trial.told() {
            *reasons.entry(message.lines().next().unwrap_or_default()).or_default() += 1;
        }
    }
    let reasons: Vec<Vec<String>> =
        reasons.into_iter().map(|(why, n)| vec![why.to_owned(), n.to_string()]).collect();
    let left_out = trials.len().saturating_sub(TRIALS);
    trials.drain(..left_out);
    trials.reverse();
    let names: Vec<&str> =
        study.space().parameters().iter().map(fedbo_space::Parameter::name).collect();
    let definition = study.definition();
    let value = definition.objectives.is_empty().then_some("value");
    let heads = ["trial", "state"].into_iter().chain(value).chain(definition.column_names());
    let heads = heads.chain(names.iter().copied()).chain(["source"]);
    let heads: Vec<String> = heads.map(str::to_owned).collect();
    let rows: Vec<Vec<String>> =
        trials.iter().map(|trial| row(definition, trial, &names)).collect();
    let told = match listed.n_trials {
        Some(n) => format!("{} of {n}", listed.n_told),
        None => listed.n_told.to_string(),
    };
    let (best, found) = match definition.objectives.is_empty() {
        true => ("best", number(listed.best)),
        false => ("on the front", study.best_trials()?.len().to_string()),
    };
    Ok(html! {
        (facts(&[
            (best, found),
            ("trials told", told),
            ("failed", listed.n_failed.to_string()),
            ("running", listed.n_running.to_string()),
            ("last told", listed.last_told_at.unwrap_or_else(|| "–".to_owned())),
        ]))
        div .pictures {
            @for (name, (kind, bytes)) in &pictures { (picture(name, kind, bytes)) }
        }
        @if !reasons.is_empty() {
            h2 { "Failures, by reason" }
            (table("failures", &["reason".to_owned(), "trials".to_owned()], &reasons))
        }
        h2 { "Trials" }
        @if left_out > 0 { p .note { "The last " (TRIALS) "; " (left_out) " before them are left out." } }
        (table("trials", &heads, &rows))
    })
}

fn row(definition: &Definition, trial: &Trial, names: &[&str]) -> Vec<String> {
    let value = fedbo_documents::trial_record::last_value(trial);
    let state = match definition.is_infeasible(trial) {
        true => "infeasible",
        false => trial.state.word(),
    };
    let mut cells = vec![trial.number.to_string(), state.to_owned()];
    if definition.objectives.is_empty() {
        cells.push(number(value));
    }
    let outcomes = outcomes(definition, trial.numbers());
    let outcome = |name: &str| number(outcomes.get(name).and_then(serde_json::Value::as_f64));
    cells.extend(definition.column_names().into_iter().map(outcome));
    let parameter = |name: &&str| trial.point.get(name).map_or_else(|| "–".to_owned(), text::value);
    cells.extend(names.iter().map(parameter));
    cells.push(trial.source.clone());
    cells
}

fn of_run(folder: &Path) -> anyhow::Result<Markup> {
    let rows = ResultsTail::new(folder).more()?.unwrap_or_default();
    let (state, problem) = runs::state(folder);
    let summary = folder::summary(folder).ok().flatten();
    let standings = match folder::is_game(folder) {
        true => game::standings(folder)?,
        false => Vec::new(),
    };
    let mut pictures = Vec::new();
    for name in folder::pictures(folder) {
        pictures.push((name.clone(), folder::read(&folder.join(format!("{name}.svg")))?));
    }
    let figure = folder::figure(folder, summary.as_ref());
    // The last row of each agent, per arm and repetition.
    let mut last: BTreeMap<(&str, u32, &str), (&Row, usize)> = BTreeMap::new();
    for row in &rows {
        let entry = last.entry((&row.arm, row.run, &row.agent)).or_insert((row, 0));
        *entry = (row, entry.1 + usize::from(row.is_failed()));
    }
    let agents = last.values().take(TRIALS).map(|(row, n_failed)| {
        vec![
            row.agent.clone(),
            figure.arm_label(&row.arm),
            row.run.to_string(),
            row.iteration.to_string(),
            number(row.best),
            number(row.regret),
            n_failed.to_string(),
        ]
    });
    let agents: Vec<Vec<String>> = agents.collect();
    let heads = ["agent", "arm", "repetition", "iteration", "best", "regret", "failed"];
    Ok(html! {
        (facts(&[("state", state.to_owned()), ("rows", rows.len().to_string())]))
        @if let Some(problem) = &problem { p .note { (problem) } }
        @if !standings.is_empty() {
            h2 { "Standings" }
            (standings_table(&standings))
        }
        @if let Some(summary) = &summary {
            h2 { "Summary" }
            pre { (closing_table(summary, None)) }
        }
        div .pictures {
            @for (name, svg) in &pictures { (picture(name, SVG, svg)) }
        }
        h2 { "Agents" }
        @if last.len() > TRIALS { p .note { "The first " (TRIALS) " of " (last.len()) "." } }
        (table("agents", &heads.map(str::to_owned), &agents))
    })
}

/// Renders the standings of a game as on its page.
fn standings_table(standings: &[PlayerResult]) -> Markup {
    let heads = [
        "player",
        "plays",
        "mean payoff",
        "random rounds",
        "last tenth",
        "best",
        "lost",
        "stand-ins",
    ];
    let rows = standings.iter().map(|each| {
        vec![
            each.player.clone(),
            each.plays.clone(),
            number(each.mean),
            number(each.mean_of_initial),
            number(each.mean_of_last_tenth),
            number(each.best),
            each.n_lost.to_string(),
            each.n_stand_ins.to_string(),
        ]
    });
    table("standings", &heads.map(str::to_owned), &rows.collect::<Vec<_>>())
}

/// Writes the page atomically. If this fails, the file is unchanged.
///
/// # Errors
/// Fails if the content cannot be read, or if the file cannot be written.
pub fn write(catalog: &Catalog, path: &Path) -> anyhow::Result<()> {
    let page = page(catalog)?;
    fedbo_report::write_whole(path, page.as_bytes())
        .with_context(|| format!("cannot write the page {}", path.display()))
}

//! Results of a game: `results.csv`, the pictures, and the players' payoffs.

use std::path::{Path, PathBuf};

use fedbo_documents::game_results::{PlayerResult, STAND_IN, mean_of, plotted};
use fedbo_play::{GameHistory, RoundRecord};
use fedbo_report::{
    GAME_ACTION_FILES, GAME_PAYOFF_FILES, GamePicture, ParameterCourse, PlayerCourse, ReportError,
    Row, StagedResults, remove_reports,
};
use fedbo_space::Point;

/// Returns the results of all players.
pub(crate) fn standings(course: &GameHistory) -> Vec<PlayerResult> {
    let definition = course.definition();
    let rounds = course.rounds();
    let players = definition.players.iter().enumerate();
    players
        .map(|(player, spec)| {
            let action_substituted =
                |round: &&RoundRecord| round.stand_ins.iter().any(|each| each.player == player);
            let n_stand_ins = rounds.iter().filter(action_substituted).count();
            let payoffs = payoffs(rounds, player);
            PlayerResult::of(&spec.name, spec.how(), &payoffs, definition.n_initial, n_stand_ins)
        })
        .collect()
}

fn payoffs(rounds: &[RoundRecord], player: usize) -> Vec<Option<f64>> {
    rounds.iter().map(|round| round.payoffs[player]).collect()
}

/// Returns a player's mean payoff; `None` if it has no payoffs.
pub(crate) fn mean(rounds: &[RoundRecord], player: usize) -> Option<f64> {
    mean_of(&payoffs(rounds, player))
}

/// Writes `results.csv` and the pictures, and returns the paths of the pictures.
pub(crate) fn write_all(folder: &Path, course: &GameHistory) -> Result<Vec<PathBuf>, ReportError> {
    write_results(folder, course)?;
    write_pictures(folder, course)
}

/// Writes the pictures and returns their paths.
pub(crate) fn write_pictures(
    folder: &Path,
    course: &GameHistory,
) -> Result<Vec<PathBuf>, ReportError> {
    let picture = picture(course);
    picture.write_payoffs(folder)?;
    picture.write_actions(folder)?;
    let names = GAME_PAYOFF_FILES.into_iter().chain(GAME_ACTION_FILES);
    Ok(names.map(|name| folder.join(name)).collect())
}

/// Writes one row per round and player.
///
/// Each row contains all actions of its round, in columns PLAYER.PARAMETER. Random rounds have
/// iterations ≤ 0.
fn write_results(folder: &Path, course: &GameHistory) -> Result<(), ReportError> {
    let definition = course.definition();
    let mut parameters = Vec::new();
    for player in &definition.players {
        parameters.extend(player.space.iter().map(|(name, _)| format!("{}.{name}", player.name)));
    }
    let (staged, mut writer) = StagedResults::create(folder, &parameters)?;
    let mut best: Vec<Option<f64>> = vec![None; definition.players.len()];
    let first = 1 - i64::try_from(definition.n_initial).unwrap_or(i64::MAX);
    for (iteration, (index, round)) in (first..).zip(course.rounds().iter().enumerate()) {
        let values = round.actions.iter().flat_map(Point::iter);
        let actions: Vec<(String, String)> =
            parameters.iter().cloned().zip(values.map(|(_, value)| value.to_string())).collect();
        for (player, spec) in definition.players.iter().enumerate() {
            let value = round.payoffs[player];
            best[player] = best[player].into_iter().chain(value).reduce(f64::max);
            let substitute = round.stand_ins.iter().find(|each| each.player == player);
            let because = round.lost_because.as_deref().unwrap_or("the payoff was lost");
            writer.append(&Row {
                experiment: definition.name.clone(),
                arm: spec.how(),
                agent: spec.name.clone(),
                run: 0,
                iteration,
                source: match substitute {
                    Some(substitute) => format!("{STAND_IN}{}", substitute.kind),
                    None => source(course, index, player),
                },
                parameters: actions.clone(),
                value,
                best: best[player],
                regret: None,
                ask_seconds: round.move_seconds[player],
                status: match value {
                    Some(_) => Row::ok_status(),
                    None => Row::failed_status(because),
                },
            })?;
        }
    }
    writer.commit()?;
    remove_reports(folder)?;
    staged.promote(&mut writer)
}

/// Returns the source of an action: `initial` in the random rounds, otherwise the player's method.
fn source(course: &GameHistory, index: usize, player: usize) -> String {
    use fedbo_play::ActionSource;
    let definition = course.definition();
    match &definition.players[player].plays {
        ActionSource::Reasoning(_) if index < definition.n_initial => "initial".to_owned(),
        _ => definition.players[player].how(),
    }
}

fn picture(course: &GameHistory) -> GamePicture {
    let definition = course.definition();
    let rounds = course.rounds();
    let players = definition.players.iter().enumerate();
    let players = players.map(|(player, spec)| PlayerCourse {
        name: spec.name.clone(),
        label: spec.how(),
        payoffs: rounds.iter().map(|round| round.payoffs[player]).collect(),
        parameters: course
            .actions(player)
            .space()
            .parameters()
            .iter()
            .map(|parameter| ParameterCourse {
                name: parameter.name().to_owned(),
                range: parameter.kind().clone(),
                values: rounds
                    .iter()
                    .map(|round| {
                        let value = round.actions[player].get(parameter.name());
                        plotted(value, parameter.kind())
                    })
                    .collect(),
            })
            .collect(),
        substituted: rounds
            .iter()
            .map(|round| round.stand_ins.iter().any(|each| each.player == player))
            .collect(),
    });
    GamePicture {
        title: definition.name.clone(),
        n_initial: definition.n_initial,
        players: players.collect(),
    }
}

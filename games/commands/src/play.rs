//! `fedbo play`: a repeated game, round by round.

use std::io::IsTerminal;
use std::path::PathBuf;

use fedbo_play::{Ended, GameFile, GameRecord, MoveSource, PlayError, ROUNDS_MAX, Referee};
use fedbo_report::{FolderLock, ReportError};

use crate::display::GameDisplay;
use crate::results::{standings, write_all};
use fedbo_console as console;
use fedbo_console::interrupt;
use fedbo_console::table::{self, Column};
use fedbo_console::text::{self, counted, quoted};
use fedbo_console::{BadInput, Exit};
use fedbo_documents::file_kind::FileKind;
use fedbo_documents::game_results::PlayerResult;

/// Play a repeated game with unknown payoffs
///
/// Plays rounds until the game has the number in its file. If it is interrupted or killed, or a
/// player fails, all finished rounds are kept, and the same command continues the game. A player
/// that moves by hand is asked on this terminal, or tells its moves with fedbo game tell.
#[derive(clap::Args)]
pub struct Play {
    /// The game's file, for instance examples/pricing.toml
    file: PathBuf,
    /// Total number of rounds, including those of earlier runs [default: the file's rounds]
    #[arg(long, value_name = "N", value_parser = parse_rounds)]
    rounds: Option<usize>,
    /// Folder for results.csv and the pictures [default: results/NAME, with the game's name]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl Play {
    /// Runs the command.
    ///
    /// # Errors
    /// If the game's file or record cannot be used, or a player fails.
    pub fn run(&self) -> anyhow::Result<Exit> {
        FileKind::Game.check(&self.file)?;
        let mut file = GameFile::load(&self.file)?;
        if let Some(rounds) = self.rounds {
            file.n_rounds = rounds;
        }
        let folder = match &self.out {
            Some(out) => out.clone(),
            None => PathBuf::from("results").join(&file.definition.name),
        };
        // A rejected file must leave nothing behind: check existing data before creating anything.
        let open = |path: &PathBuf| file.open_record(path);
        let known = match &file.storage {
            Some(path) if path.exists() => Some(open(path)?),
            Some(_) => None,
            None => Some(self.in_memory(&file)?),
        };
        let _held = FolderLock::acquire(&folder)?;
        check_results(&folder, &file)?;
        let record = match (known, &file.storage) {
            (None, Some(path)) => open(path)?,
            (Some(known), _) => known,
            (None, None) => self.in_memory(&file)?,
        };
        let stop = interrupt::stop_flag(
            "stopping: the current round is discarded (once more to exit at once)",
        );
        let mut referee = Referee::new(record)?;
        let word = quoted(&self.file.display().to_string());
        console::remark(&beginning(&file, &referee));
        // Players that submit moves need `--rounds` too if it differs from the file.
        let told_to = match self.rounds {
            Some(rounds) => format!("{word} --rounds {rounds}"),
            None => word.clone(),
        };
        let display = GameDisplay::new(referee.course(), file.n_rounds, &told_to);
        let played = referee.play(&file, &display, &stop);
        if !referee.course().rounds().is_empty() {
            write_all(&folder, referee.course())?;
        }
        if self.json || !referee.course().rounds().is_empty() {
            self.conclude(&file, &referee, &folder, played.as_ref().ok().copied())?;
        }
        let kept = counted(referee.course().rounds().len() as u64, "round");
        let way = match referee.record().is_in_memory() {
            true => "the record was in memory and is lost".to_owned(),
            false => format!("continue with: {}", self.again(&word)),
        };
        match played {
            Ok(Ended::Complete) => Ok(Exit::Done),
            Ok(Ended::Stopped) => {
                console::note(&format!("interrupted after {kept}; {way}"));
                Ok(Exit::Interrupted)
            }
            Err(error) => {
                if is_failure(&error) {
                    console::note(&format!("the game stopped after {kept}, which are kept; {way}"));
                }
                Err(error.into())
            }
        }
    }

    fn in_memory(&self, file: &GameFile) -> anyhow::Result<GameRecord> {
        let is_by_hand = |mover: &MoveSource| matches!(mover, MoveSource::ByHand { .. });
        if file.movers.iter().any(is_by_hand) && !std::io::stdin().is_terminal() {
            return Err(BadInput(format!(
                "{}: moves made by hand need a record in a file, or a terminal; {}",
                self.file.display(),
                persistence_hint(file)
            ))
            .into());
        }
        console::remark(&format!(
            "the record is kept in memory and lost at the end; to keep it and continue later, {}",
            persistence_hint(file)
        ));
        Ok(GameRecord::in_memory(file.definition.clone())?)
    }

    fn conclude(
        &self,
        file: &GameFile,
        referee: &Referee,
        folder: &std::path::Path,
        ended: Option<Ended>,
    ) -> anyhow::Result<()> {
        let course = referee.course();
        let standings = standings(course);
        if self.json {
            let closing = serde_json::json!({
                "schema_version": 1,
                "game": file.definition.name,
                "storage": referee.record().path(),
                "results": folder,
                "ended": match ended {
                    Some(Ended::Complete) => "complete",
                    Some(Ended::Stopped) => "interrupted",
                    None => "failed",
                },
                "rounds_wanted": file.n_rounds,
                "rounds": course.rounds().len(),
                "players": standings,
            });
            console::result(&serde_json::to_string_pretty(&closing)?)?;
            return Ok(());
        }
        let (table, _) = table::fit(columns(&standings), console::width());
        console::table(&format!("\n{table}\n"), None)?;
        console::remark(&format!(
            "results.csv, payoffs and actions (svg, png) are in {}",
            folder.display()
        ));
        Ok(())
    }

    /// Returns the command line that continues the game.
    fn again(&self, word: &str) -> String {
        let mut text = format!("fedbo play {word}");
        if let Some(rounds) = self.rounds {
            text += &format!(" --rounds {rounds}");
        }
        if let Some(out) = &self.out {
            text += &format!(" --out {}", quoted(&out.display().to_string()));
        }
        text
    }
}

/// Returns true if a player or the payoffs failed. Such a failure is visible in the record.
fn is_failure(error: &PlayError) -> bool {
    matches!(
        error,
        PlayError::Player { .. } | PlayError::Payoffs { .. } | PlayError::Repeatedly { .. }
    )
}

fn persistence_hint(file: &GameFile) -> String {
    // A JSON string is a valid TOML string.
    let address = serde_json::Value::from(format!("sqlite:{}.db", file.definition.name));
    format!("add storage = {address} to [game]")
}

/// Checks that existing results in the folder belong to this game.
fn check_results(folder: &std::path::Path, file: &GameFile) -> anyhow::Result<()> {
    fedbo_report::check_folder(folder, true)?;
    let path = folder.join(fedbo_report::RESULTS_FILE);
    if !std::fs::metadata(&path).is_ok_and(|file| file.len() > 0) {
        return Ok(());
    }
    let rows = fedbo_report::read_results(&path).map_err(|error| match error {
        ReportError::Read { .. } => error.into(),
        _ => anyhow::Error::from(BadInput(format!(
            "{error}; move that file away, or name another folder with --out"
        ))),
    })?;
    let players = &file.definition.players;
    let is_ours = |row: &fedbo_report::Row| {
        row.experiment == file.definition.name
            && players.iter().any(|player| player.name == row.agent)
    };
    if rows.iter().all(is_ours) && fedbo_runner::federation::recorded_tables(folder).is_none() {
        return Ok(());
    }
    Err(BadInput(format!(
        "{} contains other results; choose another folder with --out",
        folder.display()
    ))
    .into())
}

/// Formats the line that announces this run.
fn beginning(file: &GameFile, referee: &Referee) -> String {
    let definition = referee.course().definition();
    let players: Vec<String> = definition
        .players
        .iter()
        .map(|player| format!("{} ({})", text::shown(&player.name), player.how()))
        .collect();
    let name = text::shown(&definition.name);
    let (played, wanted) = (referee.course().rounds().len(), file.n_rounds);
    let players = players.join(" v ");
    match played {
        0 => format!(
            "{name}: {}: {players}{}",
            counted(wanted as u64, "round"),
            match definition.n_initial {
                _ if !file.movers.contains(&MoveSource::Reasoning) => String::new(),
                0 => String::new(),
                n if n >= wanted => "; all at random".to_owned(),
                1 => "; the first one at random".to_owned(),
                n => format!("; the first {n} at random"),
            }
        ),
        _ if played >= wanted => {
            format!(
                "{name}: complete, {} of {wanted}; there is nothing left to do",
                counted(played as u64, "round")
            )
        }
        _ => format!("{name}: continues after {played} of {wanted} rounds: {players}"),
    }
}

fn columns(standings: &[PlayerResult]) -> Vec<Column> {
    let words = |of: fn(&PlayerResult) -> String| standings.iter().map(of).collect();
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), text::number);
    let numbers = |of: fn(&PlayerResult) -> Option<f64>| {
        standings.iter().map(|each| number(of(each))).collect()
    };
    vec![
        Column::words("player", words(|each| each.player.clone()), 0),
        Column::words("plays", words(|each| each.plays.clone()), 0),
        Column::numbers("mean payoff", numbers(|each| each.mean), 0),
        Column::numbers("random rounds", numbers(|each| each.mean_of_initial), 2),
        Column::numbers("last tenth", numbers(|each| each.mean_of_last_tenth), 1),
        Column::numbers("best", numbers(|each| each.best), 3),
        Column::numbers("lost", words(|each| each.n_lost.to_string()), 4),
        Column::numbers("stand-ins", words(|each| each.n_stand_ins.to_string()), 5),
    ]
}

pub(crate) fn parse_rounds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rounds @ 1..=ROUNDS_MAX) => Ok(rounds),
        _ => Err(format!("expected a number from 1 to {ROUNDS_MAX}")),
    }
}

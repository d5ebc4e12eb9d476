//! `game.toml`: a game as the user writes it, and its validation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fedbo_config::{Check, CommandKeys, FileError, SurrogateTable, TomlFile, WordOrNumbers};
use fedbo_objective::CommandSpec;
use fedbo_space::ParameterSpec;
use fedbo_storage::Address;
use serde::Deserialize;

use crate::game_history::placeholders;
use crate::spec::{Known, MindTable, Minds};
use crate::{
    ACTIONS_MAX, ActionSource, Actions, Definition, GameRecord, MoveSource, OnFailure,
    OnLostPayoffs, PlayError, PlayerSpec,
};

/// Maximum number of rounds. Every decision solves a system with all earlier payoffs.
pub const ROUNDS_MAX: usize = 20_000;
/// Maximum number of players.
const PLAYERS_MAX: usize = 16;
/// Default number of initial random rounds (appendix E.6.2.1).
const N_INITIAL: usize = 5;
/// Maximum number of consecutive failures, of one player or of the payoffs, in a game that
/// continues after failures.
const FAILURES_MAX: usize = 5;

/// A whole file as plain data, not yet validated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GameToml {
    /// Version of the file's layout; defaults to 1.
    version: Option<u64>,
    game: Option<GameTable>,
    payoffs: Option<PayoffsTable>,
    /// A map is unordered, so the order of players is taken from the text.
    players: BTreeMap<String, PlayerTable>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GameTable {
    name: Option<String>,
    rounds: Option<usize>,
    initial: Option<usize>,
    seed: Option<u64>,
    storage: Option<String>,
    failures_max: Option<usize>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PayoffsTable {
    command: Option<Vec<String>>,
    directory: Option<PathBuf>,
    timeout_s: Option<f64>,
    range: Option<[f64; 2]>,
    on_failure: Option<String>,
}

/// A player. The keys of [`MindTable`] are repeated, because a flattened table would not refuse
/// unknown keys.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PlayerTable {
    space: BTreeMap<String, ParameterSpec>,
    grid: Option<usize>,
    payoff_range: Option<[f64; 2]>,
    // A reasoning player:
    level: Option<usize>,
    level0: Option<WordOrNumbers>,
    expectation: Option<WordOrNumbers>,
    ucb_multiplier: Option<f64>,
    surrogate: Option<SurrogateTable>,
    believes: BTreeMap<String, MindTable>,
    // A program, or moves made by hand:
    command: Option<Vec<String>>,
    directory: Option<PathBuf>,
    by_hand: Option<bool>,
    timeout_s: Option<f64>,
    on_failure: Option<String>,
}

/// A validated `game.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct GameFile {
    /// The definition of the game.
    pub definition: Definition,
    /// Total number of rounds, including random ones.
    pub n_rounds: usize,
    /// Source of each player's moves.
    pub movers: Vec<MoveSource>,
    /// Command that computes the payoffs of a round; `None` if the file was read without commands.
    pub payoffs: Option<CommandSpec>,
    /// Range of each player's payoffs, if given in the file.
    pub ranges: Vec<Option<(f64, f64)>>,
    /// Action to take if payoffs are missing.
    pub on_lost_payoffs: OnLostPayoffs,
    /// Maximum number of consecutive failures in a game that continues after failures.
    pub failures_max: usize,
    /// The path of the record, relative to the file's folder; `None` for memory.
    pub storage: Option<PathBuf>,
    /// The text of the file.
    source: TomlFile,
}

impl GameFile {
    /// Opens the record of this game in a file. Creates the record if it does not exist. An
    /// existing record must belong to this game.
    ///
    /// # Errors
    /// If the file is unusable or contains a different game. In the latter case, the error lists
    /// the changed keys with their lines.
    pub fn open_record(&self, path: &Path) -> Result<GameRecord, PlayError> {
        GameRecord::open(path, self.definition.clone()).map_err(|error| match error {
            PlayError::Differs { path, changes } => {
                PlayError::Differs { path, changes: Box::new(changes.located(&self.source)) }
            }
            other => other,
        })
    }

    /// Reads and validates a file.
    ///
    /// # Errors
    /// The first invalid setting, with its position and the remedy.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        Self::of(&TomlFile::read(path)?, true)
    }

    /// Reads and validates a file without its commands, which are not needed to show a game or
    /// submit a move.
    ///
    /// # Errors
    /// As for [`GameFile::load`], except for errors in commands.
    pub fn load_without_commands(path: &Path) -> Result<Self, FileError> {
        Self::of(&TomlFile::read(path)?, false)
    }

    fn of(file: &TomlFile, with_commands: bool) -> Result<Self, FileError> {
        let table: GameToml = file.parse()?;
        table.validate(Check::new(file), with_commands)
    }
}

impl GameToml {
    fn validate(&self, check: Check<'_>, with_commands: bool) -> Result<GameFile, FileError> {
        let file = check.file;
        if self.version.is_some_and(|version| version != 1) {
            let expected = "1, the only version of this file's layout so far";
            return Err(file.value_error(&["version"], expected));
        }
        let Some(game) = &self.game else {
            let remedy = "begin the file with [game] and its name and rounds";
            return Err(file.missing_error(&["game"], remedy));
        };
        let Some(name) = &game.name else {
            let remedy = "add name = \"...\", which names its results";
            return Err(file.missing_error(&["game", "name"], remedy));
        };
        check.folder_name(&["game", "name"], name)?;
        let Some(rounds) = game.rounds else {
            let remedy = "add rounds = .., the total number of rounds";
            return Err(file.missing_error(&["game", "rounds"], remedy));
        };
        let n_rounds = check.count(&["game", "rounds"], rounds, ROUNDS_MAX)?;
        let n_initial = match game.initial {
            Some(0) => 0,
            given => check.count(&["game", "initial"], given.unwrap_or(N_INITIAL), ROUNDS_MAX)?,
        };
        let given = game.failures_max.unwrap_or(FAILURES_MAX);
        let failures_max = check.count(&["game", "failures_max"], given, ROUNDS_MAX)?;
        let names = self.names(check)?;
        let actions = self.actions(check, &names)?;
        let nothing = PayoffsTable::default();
        let payoffs = self.payoffs.as_ref().unwrap_or(&nothing);
        let range = range(check, &["payoffs", "range"], payoffs.range)?;
        let on_failure = check.word(
            &["payoffs", "on_failure"],
            payoffs.on_failure.as_deref(),
            &[("stop", OnLostPayoffs::Stop), ("go-on", OnLostPayoffs::GoOn)],
        )?;
        let mut ranges = Vec::new();
        for name in &names {
            let own = self.players[name].payoff_range;
            let own = self::range(check, &["players", name, "payoff_range"], own)?;
            ranges.push(own.or(range));
        }
        let tables: Vec<MindTable> = names.iter().map(|name| self.players[name].mind()).collect();
        let mut movers = Vec::new();
        for (name, table) in names.iter().zip(&tables) {
            movers.push(self.players[name].mover(check, name, table, with_commands)?);
        }
        let spec = match with_commands {
            false => None,
            true => Some(self.command(check, payoffs, &names, &actions)?),
        };
        Ok(GameFile {
            definition: Definition {
                name: name.clone(),
                seed: game.seed.unwrap_or(0),
                n_initial,
                players: self.players(check, &names, &actions, &ranges, &tables, &movers)?,
            },
            n_rounds,
            movers,
            ranges,
            payoffs: spec,
            on_lost_payoffs: on_failure.unwrap_or_default(),
            failures_max,
            storage: storage(check, game)?,
            source: check.file.clone(),
        })
    }

    /// Returns the players' names in file order.
    fn names(&self, check: Check<'_>) -> Result<Vec<String>, FileError> {
        if self.players.is_empty() {
            let remedy = "add a [players.NAME] table for each player, with its level and a [players.NAME.space.PARAMETER]";
            return Err(check.file.missing_error(&["players"], remedy));
        }
        let names = check.file.keys_in_order(&["players"]);
        for name in &names {
            check.folder_name(&["players", name], name)?;
            if name.contains(['.', '{', '}', '=']) || name.chars().any(char::is_whitespace) {
                let message = format!(
                    "player {name:?}: a name must not have a space, dot, brace or =, because commands contain {{NAME.PARAMETER}}"
                );
                return Err(check.file.error(&["players", name], message));
            }
        }
        if !(2..=PLAYERS_MAX).contains(&names.len()) {
            let message = format!(
                "a game has 2 to {PLAYERS_MAX} players, found {}; for one player use a study.toml and fedbo tune",
                names.len()
            );
            return Err(check.file.error(&["players"], message));
        }
        Ok(names)
    }

    fn actions(&self, check: Check<'_>, names: &[String]) -> Result<Vec<Actions>, FileError> {
        let mut actions = Vec::new();
        for name in names {
            let table = &self.players[name];
            let at = ["players", name, "space"];
            if table.space.is_empty() {
                let remedy = format!(
                    "add a [players.{name}.space.PARAMETER] table for each parameter of its actions"
                );
                return Err(check.file.missing_error(&at, remedy));
            }
            let space = check.unconditional_space(&at, &table.space, "a game")?;
            let at_grid = ["players", name, "grid"];
            if let Some(grid) = table.grid {
                if grid < 2 {
                    let expected = "at least 2 values of each float";
                    return Err(check.file.value_error(&at_grid, expected));
                }
                check.count(&at_grid, grid, ACTIONS_MAX)?;
            }
            let own = Actions::new(space, table.grid);
            if table.grid.is_some() && own.n_actions().is_none() {
                let expected = format!(
                    "a coarser grid: with this one {name} has more than {ACTIONS_MAX} actions (without grid, they are continuous)"
                );
                return Err(check.file.value_error(&at_grid, expected));
            }
            actions.push(own);
        }
        Ok(actions)
    }

    fn players(
        &self,
        check: Check<'_>,
        names: &[String],
        actions: &[Actions],
        ranges: &[Option<(f64, f64)>],
        tables: &[MindTable],
        movers: &[MoveSource],
    ) -> Result<Vec<PlayerSpec>, FileError> {
        let reasons = |player: usize| movers[player] == MoveSource::Reasoning;
        let known = (0..names.len()).map(|player| Known {
            name: &names[player],
            actions: &actions[player],
            range: ranges[player],
            mind: reasons(player).then(|| &tables[player]),
        });
        let mut minds = Minds {
            check,
            players: known.collect(),
            dim: actions.iter().map(|own| own.space().dim()).sum(),
            n_minds: 0,
        };
        let mut players = Vec::new();
        for (player, name) in names.iter().enumerate() {
            let table = &self.players[name];
            let parameters = actions[player].space().parameters().iter();
            let space = parameters.map(|parameter| {
                let name = parameter.name().to_owned();
                let spec = table.space[&name].clone();
                (name, spec)
            });
            let plays = match &movers[player] {
                MoveSource::Reasoning => {
                    ActionSource::Reasoning(minds.of(player, &["players", name])?)
                }
                MoveSource::Program { .. } => ActionSource::Program,
                MoveSource::ByHand { .. } => ActionSource::ByHand,
            };
            players.push(PlayerSpec {
                name: name.clone(),
                space: space.collect(),
                grid: table.grid,
                plays,
            });
        }
        Ok(players)
    }

    /// Returns the command that computes the payoffs of a round.
    fn command(
        &self,
        check: Check<'_>,
        table: &PayoffsTable,
        names: &[String],
        actions: &[Actions],
    ) -> Result<CommandSpec, FileError> {
        let at = ["payoffs", "command"];
        let Some(command) = &table.command else {
            let remedy = "add command = [\"program\", \"argument\", ..]; its last line of output has a number for each player";
            return Err(check.file.missing_error(&at, remedy));
        };
        let spaces = names.iter().zip(actions).map(|(name, own)| (name.as_str(), own.space()));
        let known = placeholders(spaces);
        let keys = CommandKeys {
            command,
            directory: table.directory.as_deref(),
            timeout_s: table.timeout_s,
        };
        check.program(&["payoffs"], "", keys, &known)
    }
}

impl PlayerTable {
    fn mind(&self) -> MindTable {
        MindTable {
            level: self.level,
            level0: self.level0.clone(),
            expectation: self.expectation.clone(),
            ucb_multiplier: self.ucb_multiplier,
            surrogate: self.surrogate.clone(),
            believes: self.believes.clone(),
        }
    }

    fn mover(
        &self,
        check: Check<'_>,
        name: &str,
        mind: &MindTable,
        with_commands: bool,
    ) -> Result<MoveSource, FileError> {
        let at = |key| ["players", name, key];
        let by_hand = self.by_hand.unwrap_or(false);
        let ways = [self.level.is_some(), self.command.is_some(), by_hand];
        if ways.iter().filter(|way| **way).count() != 1 {
            let ways = "level = 0, 1, 2, .. (it reasons), command = [..] (a program is asked), or by_hand = true";
            if has_no_action_source(self, by_hand) {
                let remedy = format!("specify how {name} plays: {ways}");
                return Err(check.file.missing_error(&at("level"), remedy));
            }
            let message = format!("player {name:?} plays in more than one way; keep one of {ways}");
            return Err(check.file.error(&["players", name], message));
        }
        if self.level.is_some() {
            let misplaced = [
                ("timeout_s", self.timeout_s.is_some()),
                ("on_failure", self.on_failure.is_some()),
                ("directory", self.directory.is_some()),
            ];
            if let Some((key, _)) = misplaced.iter().find(|(_, is_given)| *is_given) {
                let message = format!(
                    "players.{name}.{key} is for a player with command or by_hand; one with level is never late; remove it"
                );
                return Err(check.file.error(&at(key), message));
            }
            return Ok(MoveSource::Reasoning);
        }
        if let Some(key) = mind.first_key() {
            let message = format!(
                "players.{name}.{key} is for a player with level; beliefs of others about {name} belong under \
                 their [players.NAME.believes.{name}]; remove it"
            );
            return Err(check.file.error(&at(key), message));
        }
        let words = [
            ("stop", OnFailure::Stop),
            ("random", OnFailure::Random),
            ("repeat", OnFailure::Repeat),
        ];
        let on_failure = check.word(&at("on_failure"), self.on_failure.as_deref(), &words)?;
        let on_failure = on_failure.unwrap_or_default();
        let Some(command) = &self.command else {
            if self.directory.is_some() {
                let message =
                    format!("players.{name}.directory is for a player with command; remove it");
                return Err(check.file.error(&at("directory"), message));
            }
            let timeout = check.timeout(&at("timeout_s"), self.timeout_s)?;
            return Ok(MoveSource::ByHand { timeout, on_failure });
        };
        let keys = CommandKeys {
            command,
            directory: self.directory.as_deref(),
            timeout_s: self.timeout_s,
        };
        let command = match with_commands {
            true => check.program(&["players", name], "", keys, &[])?,
            false => CommandSpec::default(),
        };
        Ok(MoveSource::Program { command, on_failure })
    }
}

fn has_no_action_source(table: &PlayerTable, by_hand: bool) -> bool {
    table.level.is_none() && table.command.is_none() && !by_hand
}

/// Returns the smallest and largest payoff, if given in the file.
fn range(
    check: Check<'_>,
    path: &[&str],
    given: Option<[f64; 2]>,
) -> Result<Option<(f64, f64)>, FileError> {
    match given {
        None => Ok(None),
        Some([low, high]) if low.is_finite() && high.is_finite() && low < high => {
            Ok(Some((low, high)))
        }
        Some(_) => {
            let expected = "[LEAST, LARGEST], two finite numbers, the first one smaller";
            Err(check.file.value_error(path, expected))
        }
    }
}

fn storage(check: Check<'_>, game: &GameTable) -> Result<Option<PathBuf>, FileError> {
    let Some(given) = &game.storage else {
        return Ok(None);
    };
    let expected = "\"sqlite:FILE\" (without storage, the record is kept in memory)";
    let refused = || check.file.value_error(&["game", "storage"], expected);
    match given.parse::<Address>().map_err(|_| refused())? {
        Address::Memory => Ok(None),
        address @ Address::Sqlite(_) => match address.relative_to(check.file.folder()) {
            Address::Sqlite(path) => match path.strip_prefix(".") {
                Ok(plain) if !plain.as_os_str().is_empty() => Ok(Some(plain.to_owned())),
                _ => Ok(Some(path)),
            },
            Address::Memory | Address::Postgres(_) => Err(refused()),
        },
        Address::Postgres(_) => Err(refused()),
    }
}

//! Display of a running game: a table that grows by one row per round, and the terminal prompt for
//! moves made by hand.

use std::cell::{Cell, RefCell};
use std::io::{BufRead as _, IsTerminal};
use std::sync::mpsc::{Receiver, channel};

use fedbo_play::{GameHistory, GameObserver, PlayError, RoundRecord, SubstituteAction};
use fedbo_space::{Parameter, Point, Space};

use crate::results::mean;
use fedbo_console as console;
use fedbo_console::text::one_line;
use fedbo_console::text::{self, shown};

/// Maximum number of characters of an action.
const ACTION_CHARS: usize = 30;
/// Column width of a payoff or mean, in characters.
const PAYOFF_CHARS: usize = 12;
/// Characters per line if output is not a terminal.
const LINE_CHARS: usize = 120;

/// Shows rounds on standard error.
pub(crate) struct GameDisplay {
    n_rounds: usize,
    n_initial: usize,
    /// The path of the game file, quoted for a shell.
    word: String,
    players: Vec<PlayerColumns>,
    rounds: RefCell<Vec<RoundRecord>>,
    has_head: Cell<bool>,
    /// Lines typed on the terminal; `None` if standard input is not a terminal.
    lines: RefCell<Option<Receiver<String>>>,
}

/// A player's columns.
struct PlayerColumns {
    name: String,
    space: Space,
    /// Description of each parameter's allowed values.
    in_words: Vec<String>,
    /// Width of the actions; `None` if there is no room for them.
    actions: Option<usize>,
    is_random_first: bool,
}

impl GameDisplay {
    pub(crate) fn new(course: &GameHistory, n_rounds: usize, word: &str) -> Self {
        use fedbo_play::ActionSource;
        let definition = course.definition();
        let mut players: Vec<PlayerColumns> = definition
            .players
            .iter()
            .enumerate()
            .map(|(player, spec)| {
                let space = course.actions(player).space().clone();
                let width = |parameter: &Parameter| parameter.name().chars().count() + 9;
                let width: usize = space.parameters().iter().map(width).sum();
                let name = shown(&spec.name).into_owned();
                PlayerColumns {
                    actions: Some(width.max(name.chars().count()).min(ACTION_CHARS)),
                    is_random_first: matches!(spec.plays, ActionSource::Reasoning(_)),
                    in_words: course.actions(player).in_words(),
                    name,
                    space,
                }
            })
            .collect();
        let room = console::stderr_width().map_or(LINE_CHARS, usize::from);
        let wanted = |player: &PlayerColumns| player.actions.unwrap_or(0) + 2 * PAYOFF_CHARS + 2;
        let is_too_wide = 7 + players.iter().map(wanted).sum::<usize>() > room;
        for player in players.iter_mut().filter(|_| is_too_wide) {
            player.actions = None;
        }
        Self {
            n_rounds,
            n_initial: definition.n_initial,
            word: word.to_owned(),
            players,
            rounds: RefCell::new(course.rounds().to_vec()),
            has_head: Cell::new(false),
            lines: RefCell::new(None),
        }
    }

    fn head(&self) -> String {
        let mut line = format!("{:>5}", "round");
        for player in &self.players {
            let name = &player.name;
            match player.actions {
                Some(width) => {
                    line += &format!("  {}", left(&cut(name, width), width));
                    line += &right("payoff", PAYOFF_CHARS);
                }
                None => line += &right(&cut(name, PAYOFF_CHARS - 1), PAYOFF_CHARS + 2),
            }
            line += &right("mean", PAYOFF_CHARS);
        }
        line
    }

    fn row(&self, number: usize, played: &RoundRecord) -> String {
        let mut line = format!("{number:>5}");
        let rounds = self.rounds.borrow();
        let after = rounds.get(self.n_initial..).unwrap_or_default();
        for (index, player) in self.players.iter().enumerate() {
            let payoff = match played.payoffs[index] {
                Some(payoff) => payoff_text(payoff),
                None => "lost".to_owned(),
            };
            match player.actions {
                Some(width) => {
                    let action = cut(&short(&played.actions[index]), width);
                    line += &format!("  {}{}", left(&action, width), right(&payoff, PAYOFF_CHARS));
                }
                None => line += &right(&payoff, PAYOFF_CHARS + 2),
            }
            let mean = mean(after, index).map_or_else(|| "-".to_owned(), payoff_text);
            line += &right(&mean, PAYOFF_CHARS);
        }
        if number <= self.n_initial && self.players.iter().any(|player| player.is_random_first) {
            line += "  random";
        }
        line
    }

    /// Starts reading lines from the terminal, if there is one.
    fn listen(&self) -> bool {
        let mut lines = self.lines.borrow_mut();
        if lines.is_none() && std::io::stdin().is_terminal() {
            let (sender, receiver) = channel();
            let reader = std::thread::Builder::new().name("terminal".to_owned());
            let started = reader.spawn(move || {
                for line in std::io::stdin().lock().lines() {
                    let Ok(line) = line else { break };
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
            *lines = started.is_ok().then_some(receiver);
        }
        lines.is_some()
    }
}

impl GameObserver for GameDisplay {
    fn awaits(&self, round: usize, player: usize) {
        let shown = &self.players[player];
        let (name, word, n_rounds) = (&shown.name, &self.word, self.n_rounds);
        let example = shown.in_words.join(" ");
        console::note(&match self.listen() {
            true => format!("round {round} of {n_rounds}, {name}: your move? {example}"),
            false => format!(
                "round {round} of {n_rounds} waits for {name}: fedbo game tell {word} {} {example}",
                text::quoted(name)
            ),
        });
    }

    fn given(&self, player: usize) -> Option<Point> {
        let line = self.lines.borrow().as_ref()?.try_recv().ok()?;
        if line.trim().is_empty() {
            return None;
        }
        match parse_move(&self.players[player].space, line.split_whitespace()) {
            Ok(point) => Some(point),
            Err(why) => {
                console::note(&why);
                None
            }
        }
    }

    fn refused(&self, _: usize, why: &PlayError) {
        console::note(&why.to_string());
    }

    fn action_substituted(&self, round: usize, substitute: &SubstituteAction) {
        let what = match substitute.kind.as_str() {
            "repeat" => "its last action is used",
            _ => "a random action is used",
        };
        console::note(&format!(
            "warning: round {round}: no action from {}: {}; {what}",
            self.players[substitute.player].name,
            one_line(&substitute.because)
        ));
    }

    fn outside(&self, round: usize, player: usize, payoff: f64, (low, high): (f64, f64)) {
        console::note(&format!(
            "warning: round {round}: the payoff {} of {} lies outside its range [{low}, {high}]; gp-mw and exp3 use the nearer \
             end instead (shown once for each player)",
            payoff_text(payoff),
            self.players[player].name
        ));
    }

    fn played(&self, round: usize, played: &RoundRecord) {
        self.rounds.borrow_mut().push(played.clone());
        if let Some(because) = &played.lost_because {
            console::note(&format!("warning: round {round}: payoffs lost: {}", one_line(because)));
        }
        if console::is_quiet() {
            return;
        }
        if !self.has_head.replace(true) {
            console::note(&self.head());
        }
        console::note(&self.row(round, played));
    }
}

/// Parses a move from NAME=VALUE words. For a single parameter, the value is sufficient.
pub(crate) fn parse_move<'a>(
    space: &Space,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<Point, String> {
    let parameters = space.parameters();
    let names = || {
        let names: Vec<&str> = parameters.iter().map(Parameter::name).collect();
        names.join(", ")
    };
    let mut entries: Vec<(String, fedbo_space::Value)> = Vec::new();
    for word in words {
        let (name, value) = match (word.split_once('='), parameters) {
            (Some((name, value)), _) => (name.trim(), value),
            (None, [only]) => (only.name(), word),
            (None, _) => {
                return Err(format!("{word:?}: expected NAME=VALUE for each of {}", names()));
            }
        };
        if entries.iter().any(|(earlier, _)| earlier == name) {
            return Err(format!("{name} is given twice"));
        }
        let value = space.parameter(name).and_then(|parameter| parameter.parse(value));
        entries.push((name.to_owned(), value.map_err(|error| error.to_string())?));
    }
    let point = space.normalize(&Point::new(entries));
    point.map_err(|error| format!("{error}; give a value for each of {}", names()))
}

/// Formats an action with four significant digits.
fn short(point: &Point) -> String {
    let entries = point.iter().map(|(name, value)| match value {
        fedbo_space::Value::Float(value) => format!("{}={}", shown(name), text::digits(*value, 4)),
        other => format!("{}={}", shown(name), text::value(other)),
    });
    entries.collect::<Vec<_>>().join(" ")
}

/// Truncates a string to `width` characters.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

/// Formats a payoff with five digits. Adding 0.0 prevents "-0".
fn payoff_text(value: f64) -> String {
    text::digits(value + 0.0, 5)
}

fn left(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}

fn right(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

#[cfg(test)]
mod tests {
    use fedbo_space::ParameterSpec;

    use super::*;

    fn space(specs: &[(&str, ParameterSpec)]) -> Space {
        Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec))).unwrap()
    }

    #[test]
    fn a_move_is_named_unless_there_is_one_parameter() {
        let one = space(&[("price", ParameterSpec::float(1.0, 9.0))]);
        for words in [vec!["3"], vec!["price=3"]] {
            let point = parse_move(&one, words).unwrap();
            assert_eq!(text::point(&point), "price=3");
        }
        let two =
            space(&[("price", ParameterSpec::float(1.0, 9.0)), ("pack", ParameterSpec::int(1, 3))]);
        let point = parse_move(&two, ["pack=2", "price=1.5"]).unwrap();
        assert_eq!(text::point(&point), "price=1.5 pack=2");
        for (words, part) in [
            (vec!["3"], "NAME=VALUE"),
            (vec!["price=3"], "pack"),
            (vec!["price=3", "price=4"], "twice"),
            (vec!["price=10", "pack=1"], "10"),
            (vec!["prize=1", "pack=1"], "prize"),
            (vec!["price=x", "pack=1"], "x"),
        ] {
            let why = parse_move(&two, words).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}

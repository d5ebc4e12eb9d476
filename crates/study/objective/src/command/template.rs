//! Arguments with placeholders, and the program that receives them.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fedbo_space::{Parameter, Space, Value};

use super::CommandError;
use super::text_arguments::{Misplaced, misplaced};

/// A name that can appear in braces in an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// Name without the braces.
    pub name: String,
    /// True if the value can be arbitrary text.
    ///
    /// Other values are numbers, `true` or `false`, as formatted by this program. They are not code
    /// in any language.
    pub is_text: bool,
    /// True if the parameter has a condition. Where it does not exist, its argument is left out.
    pub is_conditional: bool,
}

impl Placeholder {
    /// Creates the placeholder `name` for a parameter.
    #[must_use]
    pub fn named(name: impl Into<String>, parameter: &Parameter) -> Self {
        Self {
            name: name.into(),
            is_text: parameter.kind().choices().iter().any(|c| matches!(c, Value::Choice(_))),
            is_conditional: !parameter.when().is_empty(),
        }
    }

    /// Creates a placeholder for each parameter of a space.
    #[must_use]
    pub fn of(space: &Space) -> Vec<Self> {
        let parameters = space.parameters().iter();
        parameters.map(|parameter| Self::named(parameter.name(), parameter)).collect()
    }
}

/// Part of an argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Parameter(Placeholder),
}

/// Splits a program's arguments into text and placeholders.
///
/// `argv` includes the program; the result does not.
pub(super) fn templates(
    argv: &[String],
    known: &[Placeholder],
) -> Result<Vec<Vec<Piece>>, CommandError> {
    let mut all = Vec::with_capacity(argv.len());
    for (index, argument) in argv.iter().enumerate().skip(1) {
        all.push(template(argument, known, index)?);
    }
    runs_no_text(argv, &all)?;
    Ok(all)
}

/// Checks that no text choice can be run as code (INV-24).
///
/// A choice can come from another party and is inserted without quoting.
fn runs_no_text(argv: &[String], templates: &[Vec<Piece>]) -> Result<(), CommandError> {
    let Some((index, fault)) = misplaced(argv, templates) else {
        return Ok(());
    };
    let argument = argv[index].clone();
    let name = text_of(&templates[index - 1]).unwrap_or_default().to_owned();
    Err(match fault {
        Misplaced::Joined => CommandError::JoinedText { index, argument, name },
        Misplaced::NoScript => CommandError::TextWithoutScript { index, argument, name },
        Misplaced::Dropped => CommandError::ConditionalBeforeText { index, argument },
    })
}

/// Returns the name of the first text placeholder.
fn text_of(pieces: &[Piece]) -> Option<&str> {
    pieces.iter().find_map(|piece| match piece {
        Piece::Parameter(placeholder) if placeholder.is_text => Some(placeholder.name.as_str()),
        _ => None,
    })
}

/// Splits an argument into text and placeholders.
fn template(
    argument: &str,
    known: &[Placeholder],
    index: usize,
) -> Result<Vec<Piece>, CommandError> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = argument;
    while let Some(start) = rest.find('{') {
        text.push_str(&rest[..start]);
        rest = &rest[start..];
        if let Some(name) = braced(rest, "{{", "}}", known) {
            let _ = write!(text, "{{{name}}}");
            rest = &rest[name.len() + 4..];
        } else if let Some(name) = braced(rest, "{", "}", known) {
            let Some(placeholder) = known.iter().find(|known| known.name == name) else {
                let known: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
                return Err(CommandError::Placeholder {
                    index,
                    argument: argument.to_owned(),
                    name: name.to_owned(),
                    known: known.join(", "),
                });
            };
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::Parameter(placeholder.clone()));
            rest = &rest[name.len() + 2..];
        } else {
            text.push('{');
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// Returns the text between `open` and `close` at the start of `text`, if it is a possible name. A
/// text with blanks is one only if it is `known`, because braces with blanks are common in scripts
/// (`{print $1}`).
fn braced<'a>(text: &'a str, open: &str, close: &str, known: &[Placeholder]) -> Option<&'a str> {
    let inner = text.strip_prefix(open)?;
    let name = &inner[..inner.find('}')?];
    let is_known = || known.iter().any(|known| known.name == name);
    let can_be_name = !name.is_empty()
        && !name.contains(['{', ',', '"'])
        && (!name.contains(char::is_whitespace) || is_known());
    (can_be_name && inner[name.len()..].starts_with(close)).then_some(name)
}

/// Fills in the placeholders of a program's arguments.
///
/// `value` returns the value of a placeholder; `None` for a parameter that does not exist. An
/// argument with such a placeholder is left out. If it is the value of an option, as in `--rate-drop
/// {rate_drop}`, so is the option.
pub(super) fn filled<E>(
    templates: &[Vec<Piece>],
    value: impl Fn(&Placeholder) -> Result<Option<String>, E>,
) -> Result<Vec<String>, E> {
    let mut arguments: Vec<String> = Vec::with_capacity(templates.len());
    let mut before: Option<&[Piece]> = None;
    for pieces in templates {
        match argument(pieces, &value)? {
            Some(text) => {
                arguments.push(text);
                before = Some(pieces);
            }
            None => {
                let option = before.take().filter(|_| !begins_an_option(pieces));
                if option.is_some_and(is_option) {
                    arguments.pop();
                }
            }
        }
    }
    Ok(arguments)
}

/// Returns an argument; `None` if a placeholder in it has no value.
fn argument<E>(
    pieces: &[Piece],
    value: &impl Fn(&Placeholder) -> Result<Option<String>, E>,
) -> Result<Option<String>, E> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(piece) => text.push_str(piece),
            Piece::Parameter(placeholder) => match value(placeholder)? {
                Some(value) => text.push_str(&value),
                None => return Ok(None),
            },
        }
    }
    Ok(Some(text))
}

/// Returns true for an option whose value is the next argument: `--rate-drop`, but not `--`.
fn is_option(pieces: &[Piece]) -> bool {
    match pieces {
        [Piece::Text(text)] => {
            begins_an_option(pieces) && !text.contains('=') && !matches!(text.as_str(), "-" | "--")
        }
        _ => false,
    }
}

/// Returns true for an argument that starts with a hyphen as written, as in `--rate={rate}`.
fn begins_an_option(pieces: &[Piece]) -> bool {
    matches!(pieces.first(), Some(Piece::Text(text)) if text.starts_with('-'))
}

/// Returns the absolute path of a program. A name without a slash is looked up on PATH.
pub(super) fn find_program(
    program: &str,
    directory: Option<&Path>,
) -> Result<PathBuf, CommandError> {
    if program.is_empty() || braced_anywhere(program) {
        return Err(CommandError::Program { program: program.to_owned() });
    }
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    if program.contains('/') {
        let path = absolute(directory.unwrap_or(Path::new("")).join(program));
        let program = program.to_owned();
        return if is_executable(&path) {
            Ok(path)
        } else if path.exists() {
            Err(CommandError::NotExecutable { program, path })
        } else {
            Err(CommandError::NoSuchFile { program, path })
        };
    }
    let search = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    std::env::split_paths(&search)
        .map(|folder| absolute(folder.join(program)))
        .find(|path| is_executable(path))
        .ok_or_else(|| CommandError::NotOnPath { program: program.to_owned() })
}

fn braced_anywhere(text: &str) -> bool {
    text.char_indices().any(|(at, c)| c == '{' && braced(&text[at..], "{", "}", &[]).is_some())
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

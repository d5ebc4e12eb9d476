//! Arguments with placeholders for parameters, and the program that receives them.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fedbo_space::{Kind, Parameter, Space, Value};

use super::CommandError;
use super::interpreters::{Argument, ExecutionMode, danger};

/// A name that may stand in braces in an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// The name.
    pub name: String,
    /// True if a text that somebody chose takes its place. Anything else is a number, `true` or `false` as this program
    /// writes it, which is no code in any language.
    pub is_text: bool,
}

impl Placeholder {
    /// The placeholder of a parameter under a name.
    #[must_use]
    pub fn named(name: impl Into<String>, parameter: &Parameter) -> Self {
        Self {
            name: name.into(),
            is_text: match parameter.kind() {
                Kind::Float { .. } | Kind::Int { .. } | Kind::Stepped(_) => false,
                Kind::Categorical { choices } => {
                    let is_text = |choice: &Value| matches!(choice, Value::Choice(_));
                    choices.iter().any(is_text)
                }
            },
        }
    }

    /// Those of a space's parameters.
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

/// Cuts the arguments of a program into text and placeholders.
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

/// No text that somebody chose is run as code (INV-24).
fn runs_no_text(argv: &[String], templates: &[Vec<Piece>]) -> Result<(), CommandError> {
    // INV-24: a choice may come from others, and is pasted in as it is.
    let as_written: Vec<(String, Option<usize>)> = templates.iter().map(|t| written(t)).collect();
    let program = argv.iter().take(1).map(|program| Argument { text: program, head: None });
    let rest = as_written
        .iter()
        .map(|(text, place)| Argument { text, head: place.map(|place| &text[..place]) });
    let arguments: Vec<Argument<'_>> = program.chain(rest).collect();
    let Some(found) = danger(&arguments) else {
        return Ok(());
    };
    let index = found.index;
    let (argument, by) = (argv[index].clone(), found.by);
    let name = text_of(&templates[index - 1]).unwrap_or_default().to_owned();
    let instead = match found.way {
        ExecutionMode::Program => {
            return Err(CommandError::ChoosesProgram { index, argument, name, by });
        }
        ExecutionMode::Shell => format!(
            "hand it over as an argument of its own, which is data: [\"sh\", \"-c\", \"./train \\\"$1\\\"\", \"sh\", \"{{{name}}}\"]"
        ),
        ExecutionMode::Code => format!(
            "hand it over as an argument of its own behind the code, where the code finds it as data: [.., \"{{{name}}}\"]"
        ),
        ExecutionMode::Awk => {
            format!(
                "hand it over as a variable, which is data: [\"{by}\", \"-v\", \"v={{{name}}}\", ..]"
            )
        }
        ExecutionMode::Line => format!(
            "write a script that is handed \"{{{name}}}\" as an argument of its own, and quotes it"
        ),
    };
    Err(CommandError::Code { index, argument, name, by, instead })
}

/// An argument with its placeholders, and where the first one of a text stands in it.
fn written(pieces: &[Piece]) -> (String, Option<usize>) {
    let (mut text, mut place) = (String::new(), None);
    for piece in pieces {
        match piece {
            Piece::Text(plain) => text.push_str(plain),
            Piece::Parameter(placeholder) => {
                if placeholder.is_text {
                    place = place.or(Some(text.len()));
                }
                let _ = write!(text, "{{{}}}", placeholder.name);
            }
        }
    }
    (text, place)
}

/// The first placeholder of a text.
fn text_of(pieces: &[Piece]) -> Option<&str> {
    pieces.iter().find_map(|piece| match piece {
        Piece::Parameter(placeholder) if placeholder.is_text => Some(placeholder.name.as_str()),
        _ => None,
    })
}

/// Cuts an argument into text and placeholders.
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
        if let Some(name) = braced(rest, "{{", "}}") {
            let _ = write!(text, "{{{name}}}");
            rest = &rest[name.len() + 4..];
        } else if let Some(name) = braced(rest, "{", "}") {
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

/// The parameter name between `open` and `close` at the start of `text`, if what stands there can be one.
fn braced<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let inner = text.strip_prefix(open)?;
    let name = &inner[..inner.find('}')?];
    let can_be_name = !name.is_empty()
        && !name.chars().any(|c| c.is_whitespace() || matches!(c, '{' | ',' | '"'));
    (can_be_name && inner[name.len()..].starts_with(close)).then_some(name)
}

/// Absolute path of the program: by its path if it has a slash, otherwise on PATH.
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
    text.char_indices().any(|(at, c)| c == '{' && braced(&text[at..], "{", "}").is_some())
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

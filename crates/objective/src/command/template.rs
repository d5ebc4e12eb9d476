//! Arguments with placeholders for parameters, and the program that receives them.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::CommandError;

/// Part of an argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Parameter(String),
}

/// Cuts an argument into text and placeholders.
pub(super) fn template(
    argument: &str,
    known: &[&str],
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
            if !known.contains(&name) {
                return Err(CommandError::Placeholder {
                    index,
                    argument: argument.to_owned(),
                    name: name.to_owned(),
                    known: known.join(", "),
                });
            }
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::Parameter(name.to_owned()));
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
        && !name
            .chars()
            .any(|c| c.is_whitespace() || matches!(c, '{' | ',' | '"'));
    (can_be_name && inner[name.len()..].starts_with(close)).then_some(name)
}

/// Absolute path of the program: by its path if it has a slash, otherwise on PATH.
pub(super) fn find_program(
    program: &str,
    directory: Option<&Path>,
) -> Result<PathBuf, CommandError> {
    if program.is_empty() || braced_anywhere(program) {
        return Err(CommandError::Program {
            program: program.to_owned(),
        });
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
        .ok_or_else(|| CommandError::NotOnPath {
            program: program.to_owned(),
        })
}

fn braced_anywhere(text: &str) -> bool {
    text.char_indices()
        .any(|(at, c)| c == '{' && braced(&text[at..], "{", "}").is_some())
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

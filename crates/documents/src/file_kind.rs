//! Kinds of user-written files, identified by their first table, and the command for each kind.

use std::io::Read as _;
use std::path::Path;

use fedbo_config::{TomlFile, nearest};

use fedbo_console::BadInput;
use fedbo_console::text::quoted;

/// A kind of user-written file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// One party's objective: study.toml.
    Study,
    /// The parties of a federation and their cooperation: federation.toml.
    Federation,
    /// A repeated game: game.toml.
    Game,
    /// A party in a federation with a coordinator: agent.toml.
    Agent,
    /// A party in a federation of neighbours: peer.toml.
    Peer,
}

impl FileKind {
    const ALL: [Self; 5] = [Self::Study, Self::Federation, Self::Game, Self::Agent, Self::Peer];

    /// Returns the table that only files of this kind have.
    fn table(self) -> &'static str {
        match self {
            Self::Study => "study",
            Self::Federation => "federation",
            Self::Game => "game",
            Self::Agent => "agent",
            Self::Peer => "peer",
        }
    }

    /// Returns the possessive that precedes "file" in messages.
    fn whose(self) -> &'static str {
        match self {
            Self::Study => "a study's",
            Self::Federation => "a federation's",
            Self::Game => "a game's",
            Self::Agent => "an agent's",
            Self::Peer => "a peer's",
        }
    }

    /// Returns the kind of a file; `None` if it is unknown or if the file is not a regular file (a
    /// pipe cannot be read twice).
    pub fn of(path: &Path) -> Option<Self> {
        if !path.is_file() {
            return None;
        }
        let file = TomlFile::read(path).ok()?;
        Self::ALL.into_iter().find(|kind| !file.keys_in_order(&[kind.table()]).is_empty())
    }

    /// Checks that a file can be of this kind.
    ///
    /// # Errors
    /// Fails if the file is known to be something else. The message contains the right command.
    /// Mistakes inside the file are reported by its parser.
    pub fn check(self, path: &Path) -> Result<(), BadInput> {
        let (shown, whose) = (path.display(), self.whose());
        if path.is_dir() {
            return Err(BadInput(format!(
                "cannot read {shown}: it is a folder; name {whose} file in it{}",
                self.known_in(path)
            )));
        }
        if !path.exists() {
            let folder = path.parent().unwrap_or(Path::new(""));
            let way = match self.nearest(path) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("name {whose} file{}", self.known_in(folder)),
            };
            return Err(BadInput(format!("cannot read {shown}: there is no such file; {way}")));
        }
        if is_database(path) {
            return Err(BadInput(format!(
                "{shown} is a database, not {whose} file; name the file ending in .toml"
            )));
        }
        match Self::of(path) {
            Some(found) if found != self => Err(BadInput(format!(
                "{shown} is {} file, not {whose}; {}",
                found.whose(),
                found.way(self, &quoted(&path.display().to_string()))
            ))),
            _ => Ok(()),
        }
    }

    /// Returns advice for a user who gave a file of this kind instead of an `expected` one.
    fn way(self, expected: Self, word: &str) -> String {
        match (self, expected) {
            (Self::Study, _) => format!("tune it with: fedbo tune {word}"),
            (Self::Federation, Self::Agent) => format!(
                "run it with: fedbo run {word}, or begin it for agents elsewhere with: fedbo coordinator study create {word}"
            ),
            (Self::Federation, Self::Peer) => format!(
                "a peer's file has [peer] with federation = {word:?} and the peer's name; all in one process: fedbo run {word}"
            ),
            (Self::Federation, _) => format!("run it with: fedbo run {word}"),
            (Self::Game, _) => format!("play it with: fedbo play {word}"),
            (Self::Agent, _) => format!("run it with: fedbo agent run {word}"),
            (Self::Peer, _) => format!("run it with: fedbo peer {word}"),
        }
    }

    /// Lists the files of this kind in a folder, in parentheses, for a message.
    fn known_in(self, folder: &Path) -> String {
        const MAX: usize = 4;
        let names = self.names_in(folder);
        match names.len() {
            0 => String::new(),
            n if n > MAX => {
                format!(" ({} and {} more are there)", names[..MAX].join(", "), n - MAX)
            }
            1 => format!(" ({} is there)", names[0]),
            _ => format!(" ({} are there)", names.join(", ")),
        }
    }

    /// Returns the path, quoted for a shell, of the file with the most similar name among the files
    /// of this kind in the same folder.
    fn nearest(self, path: &Path) -> Option<String> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let names = self.names_in(folder);
        let name = path.file_name()?.to_str()?;
        let near = nearest(name, names.iter().map(String::as_str))?;
        Some(quoted(&folder.join(near).display().to_string()))
    }

    /// Returns the sorted names of the files of this kind in a folder; empty if the folder has too
    /// many entries.
    fn names_in(self, folder: &Path) -> Vec<String> {
        const ENTRIES_MAX: usize = 256;
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        let Ok(entries) = std::fs::read_dir(folder) else {
            return Vec::new();
        };
        let paths: Vec<_> = entries.flatten().map(|entry| entry.path()).take(ENTRIES_MAX).collect();
        if paths.len() == ENTRIES_MAX {
            return Vec::new();
        }
        let is_ours = |path: &Path| {
            path.extension().is_some_and(|ending| ending == "toml") && Self::of(path) == Some(self)
        };
        let names = paths.iter().filter(|path| is_ours(path));
        let mut names: Vec<String> =
            names.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
        names.sort();
        names
    }
}

/// Returns true if a file is an SQLite database, identified by its magic header.
pub fn is_database(path: &Path) -> bool {
    if !path.is_file() {
        return false; // bytes read from a pipe would be lost
    }
    let mut head = [0; 15];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && &head == b"SQLite format 3"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_from_the_others_with_its_command() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |kind: FileKind| folder.path().join(format!("{}.toml", kind.table()));
        for kind in FileKind::ALL {
            std::fs::write(path(kind), format!("[{}]\nname = \"a\"\n", kind.table()))
                .expect("writable");
        }
        for kind in FileKind::ALL {
            assert_eq!(FileKind::of(&path(kind)), Some(kind));
            assert!(kind.check(&path(kind)).is_ok());
            for other in FileKind::ALL.into_iter().filter(|other| *other != kind) {
                let error = other.check(&path(kind)).expect_err("another kind").to_string();
                let (is, not) = (kind.whose(), other.whose());
                assert!(error.contains(&format!("is {is} file, not {not}; ")), "{error}");
                assert!(error.contains("fedbo "), "{error}");
            }
        }
    }

    #[test]
    fn what_is_not_there_is_answered_with_what_is() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        for (name, table) in [("wine.toml", "federation"), ("train.toml", "study")] {
            std::fs::write(at(name), format!("[{table}]\nname = \"a\"\n")).expect("writable");
        }
        let message =
            |kind: FileKind, name: &str| kind.check(&at(name)).expect_err("not there").to_string();
        assert!(message(FileKind::Federation, "wnie.toml").ends_with("wine.toml?"));
        let other = message(FileKind::Study, "zzz.toml");
        assert!(other.ends_with("name a study's file (train.toml is there)"), "{other}");
        let folder = message(FileKind::Federation, "");
        assert!(
            folder.ends_with("it is a folder; name a federation's file in it (wine.toml is there)"),
            "{folder}"
        );
        std::fs::write(at("s.db"), b"SQLite format 3\0").expect("writable");
        assert!(message(FileKind::Agent, "s.db").contains("is a database, not an agent's file"));
    }
}

//! The study that a command is about: STUDY on the command line.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fedbo_config::FileError;
use fedbo_space::Space;
use fedbo_storage::{Address, Mode, StorageError};
use fedbo_study::{Study, StudyError, StudyFile};

use crate::console;
use crate::exit::BadInput;
use crate::file_kind::{FileKind, is_database};
use crate::text::quoted;

/// The name of a stored study as that of a folder.
///
/// # Errors
/// If it is none: whoever wrote the storage chose it, and it could lead anywhere.
pub(crate) fn folder_of(name: &str) -> Result<&str, BadInput> {
    match fedbo_config::is_folder_name(name) {
        true => Ok(name),
        false => Err(BadInput(format!(
            "the stored study is called {name:?}, which cannot be a folder's name; nothing was written"
        ))),
    }
}

/// A study by its file or by its storage.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct StudyRef {
    /// The study: its file, for instance study.toml, or where it is stored, as sqlite:FILE or
    /// postgresql://USER@HOST/DATABASE
    #[arg(value_name = "STUDY")]
    place: String,
    /// Name of the study, where a storage holds several
    #[arg(long = "study", value_name = "NAME")]
    name: Option<String>,
}

/// An open study, and how it was named.
pub(crate) struct OpenStudy {
    pub(crate) study: Study,
    /// Its file, if that was named.
    pub(crate) file: Option<StudyFile>,
    /// The place where it is kept, for people.
    pub(crate) storage: String,
    /// STUDY as a shell reads it.
    pub(crate) word: String,
    pub(crate) own: OwnFiles,
}

impl OpenStudy {
    /// Number of trials that it is to have; `None` if only its file would know.
    pub(crate) fn n_trials(&self) -> Option<u64> {
        self.file.as_ref().map(|file| file.n_trials)
    }

    pub(crate) fn name(&self) -> &str {
        &self.study.definition().name
    }

    /// Refuses to write where a file of the study stands.
    pub(crate) fn check_is_separate(&self, out: &Path) -> Result<(), BadInput> {
        self.own.check_is_separate(out)
    }
}

/// The files that a study consists of, those included that SQLite keeps beside its own.
pub(crate) struct OwnFiles(Vec<PathBuf>);

impl OwnFiles {
    /// Those of a storage.
    pub(crate) fn of(address: &Address) -> Self {
        Self(files_of(address))
    }

    /// Refuses to write where a file of the study stands.
    pub(crate) fn check_is_separate(&self, out: &Path) -> Result<(), BadInput> {
        let aside = with_ending(out, ".part"); // where it is written before it is put in place
        for own in &self.0 {
            if is_same(own, out) || is_same(own, &aside) {
                return Err(BadInput(format!(
                    "--out would overwrite {}, a file of the study itself; name another",
                    own.display()
                )));
            }
        }
        Ok(())
    }
}

/// The target of STUDY: a study's file, or a storage.
enum Place {
    File(Box<StudyFile>),
    Storage(Address),
}

impl StudyRef {
    /// As if it stood on the command line.
    pub(crate) fn new(place: &str, name: Option<&str>) -> Self {
        Self { place: place.to_owned(), name: name.map(str::to_owned) }
    }

    /// The study's file, read and checked.
    pub(crate) fn file(&self) -> anyhow::Result<StudyFile> {
        match self.place(StudyFile::load)? {
            Place::File(file) => Ok(*file),
            Place::Storage(_) => {
                let message = "fedbo tune needs the study's file, which names the command to run; a storage does not hold it";
                Err(BadInput(message.to_owned()).into())
            }
        }
    }

    /// The file or the folder that STUDY may be the path of; `None` if it is the address of a storage.
    pub(crate) fn as_path(&self) -> Option<&Path> {
        match self.place.parse::<Address>() {
            Ok(_) => None,
            Err(_) => Some(Path::new(&self.place)),
        }
    }

    /// STUDY as a shell reads it, without a password.
    pub(crate) fn word(&self) -> String {
        let place = match self.place.parse::<Address>() {
            Ok(address @ Address::Postgres(_)) => address.to_string(),
            _ => self.place.clone(),
        };
        match &self.name {
            Some(name) => format!("{} --study {}", quoted(&place), quoted(name)),
            None => quoted(&place),
        }
    }

    /// The stored study. Nothing is created. A file that says something else than what is stored gets a warning: what is
    /// stored counts.
    pub(crate) fn stored(&self) -> anyhow::Result<OpenStudy> {
        match self.place(StudyFile::load_without_command)? {
            Place::Storage(address) => self.in_storage(&address),
            Place::File(file) => {
                self.check_outlives(&file)?;
                let absent = || {
                    let (name, word) = (&file.definition.name, self.word());
                    BadInput(format!(
                        "study {name:?} has no trials yet in {}; begin it with: fedbo tune {word} (or fedbo ask {word})",
                        file.storage
                    ))
                };
                let storage = match fedbo_storage::open(&file.storage, Mode::Existing) {
                    Err(StorageError::Absent { .. }) => return Err(absent().into()),
                    opened => opened?,
                };
                let study = match Study::load(storage, Some(&file.definition.name)) {
                    Err(StudyError::NoStudy { .. }) => return Err(absent().into()),
                    loaded => loaded?,
                };
                if let Some(differs) = file.difference(study.definition()) {
                    let file = &self.place;
                    console::note(&format!(
                        "warning: {file} was changed, what is stored counts: {differs}"
                    ));
                }
                let address = file.storage.clone();
                Ok(self.opened(study, &address, Some(*file)))
            }
        }
    }

    /// The stored study; one that a file describes is created if it is not stored yet, and must be as the file says.
    pub(crate) fn stored_or_new(&self) -> anyhow::Result<OpenStudy> {
        match self.place(StudyFile::load_without_command)? {
            Place::Storage(address) => self.in_storage(&address),
            Place::File(file) => {
                self.check_outlives(&file)?;
                self.create(*file)
            }
        }
    }

    /// The study of a file, which says how many trials it is to have; it may be kept in this process's memory.
    pub(crate) fn to_serve(&self) -> anyhow::Result<OpenStudy> {
        match self.place(StudyFile::load_without_command)? {
            Place::File(file) => self.create(*file),
            Place::Storage(_) => {
                let message = "fedbo serve needs the study's file, which says how many trials it is to have; a storage does not hold it";
                Err(BadInput(message.to_owned()).into())
            }
        }
    }

    /// The space that STUDY's file declares; `None` if it is a storage.
    pub(crate) fn space_of_file(&self) -> anyhow::Result<Option<Space>> {
        Ok(match self.place(StudyFile::load_without_command)? {
            Place::File(file) => Some(file.space),
            Place::Storage(_) => None,
        })
    }

    /// A file's study, created in its storage (which may be memory) if it is not there yet.
    pub(crate) fn create(&self, file: StudyFile) -> anyhow::Result<OpenStudy> {
        let study = file.open().map_err(|error| match error {
            StudyError::Meta(error) => {
                anyhow::Error::from(BadInput(format!("{}: {error}", self.place)))
            }
            other => other.into(),
        })?;
        let address = file.storage.clone();
        Ok(self.opened(study, &address, Some(file)))
    }

    fn in_storage(&self, address: &Address) -> anyhow::Result<OpenStudy> {
        let storage = match fedbo_storage::open(address, Mode::Existing) {
            Err(error @ StorageError::Absent { .. }) => {
                let way = "a study begins with its file: fedbo tune FILE";
                return Err(BadInput(format!("{error}; {way}")).into());
            }
            opened => opened?,
        };
        let study = match Study::load(storage, self.name.as_deref()) {
            Err(error @ StudyError::WhichStudy { .. }) => {
                let way = "name one with --study NAME, or begin one with fedbo tune FILE";
                return Err(BadInput(format!("{error}; {way}")).into());
            }
            loaded => loaded?,
        };
        Ok(self.opened(study, address, None))
    }

    fn opened(&self, study: Study, address: &Address, file: Option<StudyFile>) -> OpenStudy {
        let mut own = OwnFiles::of(address);
        if file.is_some() {
            own.0.push(PathBuf::from(&self.place));
        }
        OpenStudy { study, file, storage: address.to_string(), word: self.word(), own }
    }

    /// The file's storage must be one that outlives this process.
    fn check_outlives(&self, file: &StudyFile) -> Result<(), BadInput> {
        match &file.storage {
            Address::Memory => Err(BadInput(format!(
                "{} keeps its trials in memory, where only `fedbo tune` has them while it runs; {}",
                self.place,
                persistence_hint(file)
            ))),
            Address::Sqlite(_) | Address::Postgres(_) => Ok(()),
        }
    }

    fn place(&self, load: impl Fn(&Path) -> Result<StudyFile, FileError>) -> anyhow::Result<Place> {
        match self.place.parse::<Address>() {
            Ok(Address::Memory) => {
                let message = "memory: holds no study after the program that ran it; name a study's file, or its storage";
                Err(BadInput(message.to_owned()).into())
            }
            Ok(address) => Ok(Place::Storage(address)),
            Err(error) => {
                let path = Path::new(&self.place);
                if let Some(message) = self.not_a_file(path, &error) {
                    return Err(BadInput(message).into());
                }
                FileKind::Study.check(path)?;
                let mut file = load(path)?;
                tidy(&mut file.storage);
                match &self.name {
                    Some(name) if *name != file.definition.name => Err(BadInput(format!(
                        "--study {name}: the study of {} is {:?}; leave --study out, or name the storage instead",
                        self.place, file.definition.name
                    ))
                    .into()),
                    _ => Ok(Place::File(Box::new(file))),
                }
            }
        }
    }

    /// The message for a text that is neither an address nor looks like the path of a study's file.
    fn not_a_file(&self, path: &Path, error: &StorageError) -> Option<String> {
        // The error's address is ours without a password.
        let StorageError::Address { address: place, hint } = error else {
            return None;
        };
        if is_database(path) {
            return Some(format!("{place} is a storage, not a study's file; write sqlite:{place}"));
        }
        if path.exists() || path.extension().is_some_and(|extension| extension == "toml") {
            return None;
        }
        Some(format!(
            "STUDY = {place:?}: there is no such file; expected a study's file, sqlite:FILE or \
             postgresql://USER@HOST/DATABASE{hint}"
        ))
    }
}

/// A storage's files: SQLite keeps further ones beside its own, also where a link leads to.
fn files_of(address: &Address) -> Vec<PathBuf> {
    let Address::Sqlite(path) = address else {
        return Vec::new();
    };
    let mut files = Vec::new();
    for file in std::iter::once(path.clone()).chain(path.canonicalize()) {
        files.extend(["-wal", "-shm", "-journal"].map(|ending| with_ending(&file, ending)));
        files.push(file);
    }
    files
}

/// A path with something added to its last name.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut text = OsString::from(path);
    text.push(ending);
    PathBuf::from(text)
}

/// Returns true if both are the same file, or would be if they were there.
fn is_same(one: &Path, other: &Path) -> bool {
    if let (Ok(one), Ok(other)) = (one.metadata(), other.metadata()) {
        return (one.dev(), one.ino()) == (other.dev(), other.ino());
    }
    place_of(one) == place_of(other)
}

/// A path without links, as far as it leads.
fn place_of(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (absolute.parent().map(Path::canonicalize), absolute.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

/// The line to add to a file whose trials are kept in memory.
pub(crate) fn persistence_hint(file: &StudyFile) -> String {
    let address = format!("sqlite:{}.db", file.definition.name);
    // A string in JSON is one in TOML.
    let address = serde_json::Value::from(address);
    format!("add storage = {address} to [study]")
}

/// Writes an address as one would: without the `./` of a file in this folder.
fn tidy(address: &mut Address) {
    if let Address::Sqlite(path) = address
        && let Ok(tidied) = path.strip_prefix(".")
        && tidied != Path::new("")
    {
        *path = tidied.to_owned();
    }
}

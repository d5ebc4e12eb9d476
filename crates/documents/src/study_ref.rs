//! The study that a command operates on: the STUDY argument.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fedbo_config::FileError;
use fedbo_space::Space;
use fedbo_storage::{Address, Mode, StorageError};
use fedbo_study::{Study, StudyError, StudyFile};

use crate::corrections::check_not_federated;
use crate::file_kind::{FileKind, is_database};
use fedbo_console as console;
use fedbo_console::BadInput;
use fedbo_console::text::quoted;

/// Returns a stored study's name if it can be used as a folder name.
///
/// # Errors
/// Fails otherwise: the author of the storage chose the name, which could refer to a path outside
/// the folder.
pub fn folder_of(name: &str) -> Result<&str, BadInput> {
    match fedbo_config::is_folder_name(name) {
        true => Ok(name),
        false => Err(BadInput(format!(
            "the stored study is called {name:?}, which cannot be a folder's name; nothing was written"
        ))),
    }
}

/// A study given by its file or by its storage.
#[derive(clap::Args, Clone, Debug)]
pub struct StudyRef {
    /// Study: its file, for instance study.toml, or its storage, as sqlite:FILE or
    /// postgresql://USER@HOST/DATABASE
    #[arg(value_name = "STUDY")]
    place: String,
    /// Name of the study, if the storage holds several
    #[arg(long = "study", value_name = "NAME")]
    name: Option<String>,
}

/// An open study, and how it was specified.
pub struct OpenStudy {
    /// The study.
    pub study: Study,
    /// The study file, if given.
    pub file: Option<StudyFile>,
    /// The storage, for display.
    pub storage: String,
    /// The STUDY argument, quoted for a shell.
    pub word: String,
    /// Files that must not be overwritten by output.
    pub own: OwnFiles,
}

impl OpenStudy {
    /// Returns the target number of trials; `None` without a study file.
    pub fn n_trials(&self) -> Option<u64> {
        self.file.as_ref().map(|file| file.n_trials)
    }

    /// Returns the name of the study.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.study.definition().name
    }

    /// Checks that the trials are not those of an agent of a federation.
    pub fn check_not_federated(&self) -> Result<(), BadInput> {
        let address = self.storage.parse::<Address>();
        check_not_federated(&address.map_err(|error| BadInput(error.to_string()))?)
    }

    /// Checks that an output path is not a file of the study.
    pub fn check_is_separate(&self, out: &Path) -> Result<(), BadInput> {
        self.own.check_is_separate(out)
    }
}

/// A study's files, including SQLite's auxiliary files.
pub struct OwnFiles(Vec<PathBuf>);

impl OwnFiles {
    /// Returns the files of a storage.
    pub fn of(address: &Address) -> Self {
        Self(files_of(address))
    }

    /// Checks that an output path is not a file of the study.
    pub fn check_is_separate(&self, out: &Path) -> Result<(), BadInput> {
        let aside = with_ending(out, ".part"); // the output is written here before it is renamed
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

/// The study file or storage that STUDY refers to.
enum Place {
    File(Box<StudyFile>),
    Storage(Address),
}

impl StudyRef {
    /// Creates a reference as if it had been given on the command line.
    pub fn new(place: &str, name: Option<&str>) -> Self {
        Self { place: place.to_owned(), name: name.map(str::to_owned) }
    }

    /// Reads and validates the study file.
    pub fn file(&self) -> anyhow::Result<StudyFile> {
        match self.place(StudyFile::load)? {
            Place::File(file) => Ok(*file),
            Place::Storage(_) => {
                let message = "fedbo tune needs the study's file, which contains the command to run; a storage does not contain it";
                Err(BadInput(message.to_owned()).into())
            }
        }
    }

    /// Returns STUDY as the path of a file or folder; `None` if it is the address of a storage.
    pub fn as_path(&self) -> Option<&Path> {
        match self.place.parse::<Address>() {
            Ok(_) => None,
            Err(_) => Some(Path::new(&self.place)),
        }
    }

    /// Returns STUDY quoted for a shell, without a password.
    pub fn word(&self) -> String {
        let place = match self.place.parse::<Address>() {
            Ok(address @ Address::Postgres(_)) => address.to_string(),
            _ => self.place.clone(),
        };
        match &self.name {
            Some(name) => format!("{} --study {}", quoted(&place), quoted(name)),
            None => quoted(&place),
        }
    }

    /// Opens the stored study without creating anything. Warns if the file differs from the stored
    /// definition, which takes precedence.
    pub fn stored(&self) -> anyhow::Result<OpenStudy> {
        match self.place(StudyFile::load_without_command)? {
            Place::Storage(address) => self.in_storage(&address),
            Place::File(file) => {
                self.check_outlives(&file)?;
                let absent = || {
                    let (name, word) = (&file.definition.name, self.word());
                    BadInput(format!(
                        "study {name:?} has no trials yet in {}; start it with: fedbo tune {word} (or fedbo ask {word})",
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
                        "warning: {file} was changed; the stored settings are used: {differs}"
                    ));
                }
                let address = file.storage.clone();
                Ok(self.opened(study, &address, Some(*file)))
            }
        }
    }

    /// Opens the stored study. If STUDY is a file, the study is created if it does not exist;
    /// otherwise it must match the file.
    pub fn stored_or_new(&self) -> anyhow::Result<OpenStudy> {
        match self.place(StudyFile::load_without_command)? {
            Place::Storage(address) => self.in_storage(&address),
            Place::File(file) => {
                self.check_outlives(&file)?;
                self.create(*file)
            }
        }
    }

    /// Opens the study that a file describes. The file sets the number of trials. The study can be
    /// stored in this process's memory.
    pub fn to_serve(&self) -> anyhow::Result<OpenStudy> {
        match self.place(StudyFile::load_without_command)? {
            Place::File(file) => self.create(*file),
            Place::Storage(_) => {
                let message = "fedbo serve needs the study's file, which sets the number of trials; a storage does not contain it";
                Err(BadInput(message.to_owned()).into())
            }
        }
    }

    /// Returns the space declared in STUDY's file; `None` if STUDY is a storage.
    pub fn space_of_file(&self) -> anyhow::Result<Option<Space>> {
        Ok(match self.place(StudyFile::load_without_command)? {
            Place::File(file) => Some(file.space),
            Place::Storage(_) => None,
        })
    }

    /// Opens the study that a file describes. Creates the study in its storage (possibly in memory)
    /// if it does not exist.
    pub fn create(&self, file: StudyFile) -> anyhow::Result<OpenStudy> {
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
                let way = "create a study from its file: fedbo tune FILE";
                return Err(BadInput(format!("{error}; {way}")).into());
            }
            opened => opened?,
        };
        let study = match Study::load(storage, self.name.as_deref()) {
            Err(error @ StudyError::AmbiguousStudy { .. }) => {
                let way = "name one with --study NAME, or create one with fedbo tune FILE";
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

    /// Checks that the file's storage outlives this process.
    fn check_outlives(&self, file: &StudyFile) -> Result<(), BadInput> {
        match &file.storage {
            Address::Memory => Err(BadInput(format!(
                "{} keeps its trials in memory, which only `fedbo tune` can read while it runs; {}",
                self.place,
                persistence_hint(file)
            ))),
            Address::Sqlite(_) | Address::Postgres(_) => Ok(()),
        }
    }

    fn place(&self, load: impl Fn(&Path) -> Result<StudyFile, FileError>) -> anyhow::Result<Place> {
        match self.place.parse::<Address>() {
            Ok(Address::Memory) => {
                let message = "memory: holds no study after the program exits; name a study's file, or its storage";
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

    /// Returns the error message for a STUDY that is neither an address nor likely to be the path
    /// of a study file.
    fn not_a_file(&self, path: &Path, error: &StorageError) -> Option<String> {
        // The error contains the address without its password.
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

/// Returns the files of a storage, including SQLite's auxiliary files. For a symbolic link, this
/// includes the files beside its target.
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

/// Appends `ending` to the last component of a path.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut text = OsString::from(path);
    text.push(ending);
    PathBuf::from(text)
}

/// Returns true if both paths refer to the same file, or would if they existed.
fn is_same(one: &Path, other: &Path) -> bool {
    if let (Ok(one), Ok(other)) = (one.metadata(), other.metadata()) {
        return (one.dev(), one.ino()) == (other.dev(), other.ino());
    }
    place_of(one) == place_of(other)
}

/// Returns the path with symbolic links in its folder resolved, if the folder exists.
fn place_of(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (absolute.parent().map(Path::canonicalize), absolute.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

/// Returns the line that a study file needs for storing its trials durably.
pub fn persistence_hint(file: &StudyFile) -> String {
    let address = format!("sqlite:{}.db", file.definition.name);
    // A JSON string is a valid TOML string.
    let address = serde_json::Value::from(address);
    format!("add storage = {address} to [study]")
}

/// Removes a leading `./` from an address.
fn tidy(address: &mut Address) {
    if let Address::Sqlite(path) = address
        && let Ok(tidied) = path.strip_prefix(".")
        && tidied != Path::new("")
    {
        *path = tidied.to_owned();
    }
}

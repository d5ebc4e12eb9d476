//! The current studies and runs in the storages, files and folders given on the command line.

use std::collections::HashMap;
use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use fedbo_report::RESULTS_FILE;
use fedbo_storage::{Address, Mode, Storage, StorageError, StudyRecord};
use fedbo_study::{Study, StudyFile};

use super::folder::has_file;
use super::request::Problem;
use super::{Stamp, stamp};
use fedbo_console::BadInput;
use fedbo_documents::file_kind::{FileKind, is_database};

/// Storages by address; `None` while a storage is being opened.
type Opening = HashMap<String, Option<Arc<dyn Storage>>>;

/// Maximum time that a request waits for another request to open the same storage.
const OPENS: Duration = Duration::from_secs(3);
/// Maximum number of files examined per folder.
const FILES_MAX: usize = 1000;
/// Maximum size of a study file in bytes.
const FILE_BYTES: u64 = 1 << 20;

/// A storage of studies, which may not exist yet.
struct Place {
    /// Identifier in URLs: the index of the command-line argument, followed by the file name for
    /// files in a folder. Stable when files are added.
    id: String,
    address: Address,
    /// The only study to show, if the argument was a study file.
    only: Option<Only>,
}

/// The study in a file.
#[derive(Clone)]
struct Only {
    name: String,
    n_trials: u64,
}

/// The relevant content of a file.
#[derive(Clone)]
enum Content {
    Study(Address, Only),
    Database,
    Other,
}

/// An open storage and its studies.
type Opened = (Arc<dyn Storage>, Vec<StudyRecord>);

/// A command-line argument.
enum Word {
    /// A folder that contains study files and storages.
    Folder(PathBuf),
    /// A study file.
    File(PathBuf),
    Storage(Address),
}

/// All studies and runs to show.
#[derive(Default)]
pub struct Catalog {
    words: Vec<Word>,
    /// Folders with results, either directly or in subfolders.
    folders: Vec<PathBuf>,
    /// The last content read from each file.
    files: Mutex<HashMap<PathBuf, (Stamp, Content)>>,
    /// Open storages by address.
    opened: Mutex<Opening>,
    /// Notified when opening a storage has succeeded or failed.
    is_opened: Condvar,
}

/// A stored study and its place.
pub(crate) struct Entry {
    /// Identifier in URLs: the id of the place and the study's key in the storage.
    pub(crate) id: String,
    pub(crate) storage: Arc<dyn Storage>,
    /// The storage, for display.
    pub(crate) place: String,
    pub(crate) record: StudyRecord,
    /// Target number of trials, if the study file was given.
    pub(crate) n_trials: Option<u64>,
}

impl Entry {
    /// Loads the study.
    pub(crate) fn load(&self) -> anyhow::Result<Study> {
        Ok(Study::load(Arc::clone(&self.storage), Some(&self.record.name))?)
    }
}

/// A place or study that cannot be read.
pub(crate) struct Unreadable {
    pub(crate) place: String,
    pub(crate) why: String,
}

impl Catalog {
    /// Creates the catalog for the given arguments. A folder adds the study files and storages in
    /// it.
    ///
    /// # Errors
    /// Fails if an argument is not a study file, a storage, or a folder that contains one.
    pub fn new(words: &[String]) -> anyhow::Result<Self> {
        let mut catalog = Self::default();
        for text in words {
            let folder = PathBuf::from(text);
            if folder.is_dir() && !catalog.folders.contains(&folder) {
                catalog.folders.push(folder);
            }
            let word = Word::of(text)?;
            let places = catalog.places_of(catalog.words.len(), &word)?;
            if let Word::Folder(folder) = &word
                && places.is_empty()
                && run_folders(folder).is_empty()
            {
                let shown = folder.display();
                return Err(BadInput(format!(
                    "{shown} has no study file, storage or run results; name one, or the folder that has them"
                ))
                .into());
            }
            catalog.words.push(word);
        }
        Ok(catalog)
    }

    /// Returns all current studies, and the places that cannot be read. A storage that does not
    /// exist yet has no studies.
    pub(crate) fn entries(&self) -> (Vec<Entry>, Vec<Unreadable>) {
        let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
        let (places, mut missing) = self.places();
        self.keep(&places);
        for place in places {
            match self.entries_of(&place) {
                Ok(some) => entries.extend(some),
                Err(error) => unreadable.push(Unreadable {
                    place: place.address.to_string(),
                    why: fedbo_documents::error_text(&error),
                }),
            }
        }
        unreadable.append(&mut missing);
        (entries, unreadable)
    }

    /// Returns the runs with results, each with its id: the index of the given folder, and the
    /// run's path relative to that folder.
    pub(crate) fn runs(&self) -> Vec<(String, PathBuf)> {
        let folders = self.folders.iter().enumerate();
        let runs = folders.flat_map(|(index, folder)| {
            run_folders(folder)
                .into_iter()
                .map(move |(below, path)| (format!("{index}-{below}"), path))
        });
        runs.collect()
    }

    /// Returns the folder of the run with this id.
    ///
    /// # Errors
    /// Fails if there is no such run.
    pub(crate) fn run(&self, id: &str) -> anyhow::Result<PathBuf> {
        let found = self.runs().into_iter().find(|(known, _)| known == id);
        let (_, folder) = found
            .with_context(|| Problem::absent(format!("there is no run {id:?} here, or not yet")))?;
        Ok(folder)
    }

    /// Returns the study with this id.
    ///
    /// # Errors
    /// Fails if there is no such study, or if its storage cannot be read.
    pub(crate) fn entry(&self, id: &str) -> anyhow::Result<Entry> {
        let absent = || Problem::absent(format!("there is no study {id:?} here, or not yet"));
        let (named, _) = id.rsplit_once('-').with_context(absent)?;
        let place = self.places().0.into_iter().find(|place| place.id == named);
        let entries = self.entries_of(&place.with_context(absent)?)?;
        entries.into_iter().find(|entry| entry.id == id).with_context(absent)
    }

    /// Resolves the arguments to their current places, without duplicates. Also returns the
    /// arguments that cannot be resolved.
    fn places(&self) -> (Vec<Place>, Vec<Unreadable>) {
        let (mut places, mut missing) = (Vec::<Place>::new(), Vec::new());
        for (index, word) in self.words.iter().enumerate() {
            match self.places_of(index, word) {
                Ok(found) => {
                    for place in found {
                        if !places.iter().any(|known| known.is_same(&place)) {
                            places.push(place);
                        }
                    }
                }
                Err(error) => missing.push(Unreadable {
                    place: word.to_string(),
                    why: fedbo_documents::error_text(&error),
                }),
            }
        }
        (places, missing)
    }

    /// Resolves the argument at `index` to its current places.
    fn places_of(&self, index: usize, word: &Word) -> anyhow::Result<Vec<Place>> {
        let id = index.to_string();
        match word {
            Word::Folder(folder) => self.in_folder(index, folder),
            Word::Storage(address) => Ok(vec![Place::of(id, address.clone(), None)?]),
            Word::File(path) => {
                // While the file is being written or replaced, use its last readable content.
                let read = self.content(path, Content::of_study);
                let content = read.or_else(|error| self.last_content(path).ok_or(error))?;
                match content {
                    Content::Study(address, only) => Ok(vec![Place::of(id, address, Some(only))?]),
                    Content::Database | Content::Other => Ok(Vec::new()),
                }
            }
        }
    }

    /// Returns the study files in a folder, and the storages that none of them uses.
    fn in_folder(&self, index: usize, folder: &Path) -> anyhow::Result<Vec<Place>> {
        if has_file(folder, RESULTS_FILE) {
            // A run's databases are its ledger, not storages.
            return Ok(Vec::new());
        }
        let read = || format!("cannot read the folder {}", folder.display());
        let mut paths: Vec<PathBuf> = Vec::new();
        for file in std::fs::read_dir(folder).with_context(read)?.take(FILES_MAX) {
            paths.push(file.with_context(read)?.path());
        }
        paths.sort();
        let (mut places, mut databases) = (Vec::new(), Vec::new());
        for path in paths.into_iter().filter(|path| path.is_file()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let id = format!("{index}-{name}");
            // Files found in a folder can be incomplete. Files given by name must be complete.
            let place = match self.content(&path, Content::of) {
                Ok(Content::Study(address, only)) => Place::of(id, address, Some(only)),
                Ok(Content::Database) => {
                    databases.push((id, path));
                    continue;
                }
                Ok(Content::Other) => continue,
                Err(error) => Err(error),
            };
            match place {
                Ok(place) => places.push(place),
                Err(error) => self.warn_once(&path, &error),
            }
        }
        let stored: Vec<PathBuf> = places.iter().filter_map(Place::file).collect();
        for (id, path) in databases {
            let is_known = path.canonicalize().is_ok_and(|path| stored.contains(&path));
            if !is_known {
                places.push(Place::of(id, Address::Sqlite(path), None)?);
            }
        }
        Ok(places)
    }

    /// Returns the content of a file. Reads the file only if it has changed.
    fn content(
        &self,
        path: &Path,
        read: fn(&Path) -> anyhow::Result<Content>,
    ) -> anyhow::Result<Content> {
        let files = || self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp_of(path)?;
        if let Some((known, content)) = files().get(path)
            && *known == stamp
        {
            return Ok(content.clone());
        }
        let content = read(path)?;
        files().insert(path.to_owned(), (stamp, content.clone()));
        Ok(content)
    }

    /// Returns the content of a file from the last successful read.
    fn last_content(&self, path: &Path) -> Option<Content> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(path).map(|(_, content)| content.clone())
    }

    /// Warns that a file in a folder cannot be read, and ignores the file until it changes.
    fn warn_once(&self, path: &Path, error: &anyhow::Error) {
        fedbo_console::note(&format!("warning: {}", fedbo_documents::error_text(error)));
        if let Ok(stamp) = stamp_of(path) {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.insert(path.to_owned(), (stamp, Content::Other));
        }
    }

    /// Returns the storage at an address, opened once; `None` if it does not exist yet.
    ///
    /// An unresponsive server blocks a single request and no other storage.
    fn storage(&self, address: &Address) -> anyhow::Result<Option<Arc<dyn Storage>>> {
        let name = address.to_string();
        {
            let is_opening = |opened: &mut Opening| matches!(opened.get(&name), Some(None));
            let waited = self.is_opened.wait_timeout_while(self.opened(), OPENS, is_opening);
            let (mut opened, _) = waited.unwrap_or_else(PoisonError::into_inner);
            match opened.get(&name) {
                Some(Some(storage)) => return Ok(Some(Arc::clone(storage))),
                Some(None) => anyhow::bail!("{name} has not responded yet"),
                None => opened.insert(name.clone(), None),
            };
        }
        let found = fedbo_storage::open(address, Mode::Existing);
        let mut opened = self.opened();
        opened.remove(&name);
        self.is_opened.notify_all();
        match found {
            Ok(storage) => {
                opened.insert(name, Some(Arc::clone(&storage)));
                Ok(Some(storage))
            }
            Err(StorageError::Absent { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn opened(&self) -> MutexGuard<'_, Opening> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes storages that are not among `places`, and drops the cached content of files that no
    /// longer exist.
    fn keep(&self, places: &[Place]) {
        let addresses: Vec<String> = places.iter().map(|place| place.address.to_string()).collect();
        self.opened().retain(|address, storage| storage.is_none() || addresses.contains(address));
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        // A file given by name can be missing briefly while it is replaced.
        let is_named = |path: &PathBuf| {
            self.words.iter().any(|word| matches!(word, Word::File(named) if named == path))
        };
        files.retain(|path, _| path.exists() || is_named(path));
    }

    /// Drops an open storage, so that the next access opens the file that has replaced it.
    fn forget(&self, address: &Address) {
        self.opened().remove(&address.to_string());
    }

    /// Returns the storage and its studies. Reopens the storage if its file was deleted and
    /// recreated.
    fn studies(&self, address: &Address) -> anyhow::Result<Option<Opened>> {
        let Some(storage) = self.storage(address)? else {
            return Ok(None);
        };
        match storage.studies() {
            Ok(records) => Ok(Some((storage, records))),
            Err(StorageError::Gone { .. }) => {
                self.forget(address);
                let Some(storage) = self.storage(address)? else {
                    return Ok(None);
                };
                let records = storage.studies()?;
                Ok(Some((storage, records)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn entries_of(&self, place: &Place) -> anyhow::Result<Vec<Entry>> {
        let Some((storage, records)) = self.studies(&place.address)? else {
            return Ok(Vec::new());
        };
        let shown = records
            .into_iter()
            .filter(|record| place.name().is_none_or(|name| name == record.name));
        Ok(shown
            .map(|record| Entry {
                id: format!("{}-{}", place.id, record.key.0),
                storage: Arc::clone(&storage),
                place: place.address.to_string(),
                n_trials: place.only.as_ref().map(|only| only.n_trials),
                record,
            })
            .collect())
    }
}

/// Returns the stamp of the file at a path.
fn stamp_of(path: &Path) -> anyhow::Result<Stamp> {
    let meta = path.metadata().with_context(|| format!("cannot read {}", path.display()))?;
    Ok(stamp(&meta))
}

/// Returns the folders with results: the folder itself, or the folders in it and in its subfolder
/// `results`, where `fedbo run` writes. Each is returned with its path relative to the folder.
fn run_folders(folder: &Path) -> Vec<(String, PathBuf)> {
    if has_file(folder, RESULTS_FILE) {
        return vec![(String::new(), folder.to_owned())];
    }
    let mut found = Vec::new();
    for below in ["", "results/"] {
        let files = std::fs::read_dir(folder.join(below)).into_iter().flatten().take(FILES_MAX);
        for file in files.flatten().filter(|file| has_file(&file.path(), RESULTS_FILE)) {
            if let Ok(name) = file.file_name().into_string() {
                found.push((format!("{below}{name}"), file.path()));
            }
        }
    }
    found.sort();
    found
}

impl Word {
    fn of(text: &str) -> anyhow::Result<Self> {
        let path = PathBuf::from(text);
        if path.is_dir() {
            return Ok(Self::Folder(path));
        }
        match text.parse() {
            Ok(address) => Ok(Self::Storage(address)),
            Err(_) if is_database(&path) => Ok(Self::Storage(Address::Sqlite(path))),
            Err(_) => {
                FileKind::Study.check(&path)?;
                Ok(Self::File(path))
            }
        }
    }
}

impl Display for Word {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(path) | Self::File(path) => path.display().fmt(f),
            Self::Storage(address) => address.fmt(f),
        }
    }
}

impl Content {
    fn of(path: &Path) -> anyhow::Result<Self> {
        if is_database(path) {
            return Ok(Self::Database);
        }
        let is_short = path.metadata().is_ok_and(|meta| meta.len() <= FILE_BYTES);
        if !is_short || FileKind::of(path) != Some(FileKind::Study) {
            return Ok(Self::Other);
        }
        Self::of_study(path)
    }

    fn of_study(path: &Path) -> anyhow::Result<Self> {
        let file = StudyFile::load_without_command(path)?;
        let only = Only { name: file.definition.name, n_trials: file.n_trials };
        Ok(Self::Study(file.storage, only))
    }
}

impl Place {
    fn of(id: String, address: Address, only: Option<Only>) -> anyhow::Result<Self> {
        if matches!(address, Address::Memory) {
            let message = "trials in memory: are visible only to the program that runs them; name a storage in [study], for instance \
                 storage = \"sqlite:study.db\"";
            return Err(BadInput(message.to_owned()).into());
        }
        Ok(Self { id, address, only })
    }

    fn name(&self) -> Option<&str> {
        self.only.as_ref().map(|only| only.name.as_str())
    }

    /// Returns true if both places contain the same studies.
    fn is_same(&self, other: &Self) -> bool {
        self.address.to_string() == other.address.to_string() && self.name() == other.name()
    }

    /// Returns the storage's file, if it exists.
    fn file(&self) -> Option<PathBuf> {
        match &self.address {
            Address::Sqlite(path) => path.canonicalize().ok(),
            Address::Memory | Address::Postgres(_) => None,
        }
    }
}

//! The studies and runs that there are: those of the storages, files and folders that were named, as of now.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use fedbo_report::RESULTS_FILE;
use fedbo_storage::{Address, Mode, Storage, StorageError, StudyRecord};
use fedbo_study::{Study, StudyFile};

use super::NotThere;
use crate::exit::BadInput;
use crate::file_kind::{FileKind, is_database};

/// Files of a folder that are looked at.
const FILES_MAX: usize = 1000;

/// A storage of studies, which may not be there yet.
struct Place {
    address: Address,
    /// The only study of it that is shown, if a file was named.
    only: Option<Only>,
    storage: Mutex<Option<Arc<dyn Storage>>>,
}

/// The study that a file is about.
struct Only {
    name: String,
    n_trials: u64,
}

/// Everything that is shown.
#[derive(Default)]
pub(crate) struct Catalog {
    places: Vec<Place>,
    /// Folders that have results, or whose folders do.
    folders: Vec<PathBuf>,
}

/// A study as it is stored, with its place.
pub(crate) struct Entry {
    /// Its name in addresses: the place's number and the storage's key.
    pub(crate) id: String,
    pub(crate) storage: Arc<dyn Storage>,
    /// The place where it is kept, for people.
    pub(crate) place: String,
    pub(crate) record: StudyRecord,
    /// Number of trials that it is to have, if its file was named.
    pub(crate) n_trials: Option<u64>,
}

impl Entry {
    /// The study itself.
    pub(crate) fn load(&self) -> anyhow::Result<Study> {
        Ok(Study::load(Arc::clone(&self.storage), Some(&self.record.name))?)
    }
}

/// A place, or one of its studies, that cannot be read.
pub(crate) struct Unreadable {
    pub(crate) place: String,
    pub(crate) why: String,
}

impl Catalog {
    /// The places that were named. A folder means the studies' files and the storages in it.
    ///
    /// # Errors
    /// If one of them is not a study's file, a storage or a folder that has one.
    pub(crate) fn new(words: &[String]) -> anyhow::Result<Self> {
        let (mut places, mut folders) = (Vec::<Place>::new(), Vec::<PathBuf>::new());
        for word in words {
            let folder = PathBuf::from(word);
            if folder.is_dir() && !folders.contains(&folder) {
                folders.push(folder);
            }
            for place in Place::named(word)? {
                let is_known = places.iter().any(|known| {
                    known.address.to_string() == place.address.to_string()
                        && known.name() == place.name()
                });
                if !is_known {
                    places.push(place);
                }
            }
        }
        Ok(Self { places, folders })
    }

    /// All studies, and what cannot be read. A storage that is not there yet has none.
    pub(crate) fn entries(&self) -> (Vec<Entry>, Vec<Unreadable>) {
        let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
        for (index, place) in self.places.iter().enumerate() {
            match place.entries(index) {
                Ok(some) => entries.extend(some),
                Err(error) => unreadable.push(Unreadable {
                    place: place.address.to_string(),
                    why: crate::words(&error),
                }),
            }
        }
        (entries, unreadable)
    }

    /// The runs that have results, by their id: the number of the folder that was named, and the path below it.
    pub(crate) fn runs(&self) -> Vec<(String, PathBuf)> {
        let folders = self.folders.iter().enumerate();
        let runs = folders.flat_map(|(index, folder)| {
            run_folders(folder)
                .into_iter()
                .map(move |(below, path)| (format!("{index}-{below}"), path))
        });
        runs.collect()
    }

    /// The folder of the run with an id.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn run(&self, id: &str) -> anyhow::Result<PathBuf> {
        let found = self.runs().into_iter().find(|(known, _)| known == id);
        let (_, folder) =
            found.with_context(|| NotThere(format!("there is no run {id:?} here, or not yet")))?;
        Ok(folder)
    }

    /// The study with an id.
    ///
    /// # Errors
    /// If there is none, or its storage cannot be read.
    pub(crate) fn entry(&self, id: &str) -> anyhow::Result<Entry> {
        let absent = || NotThere(format!("there is no study {id:?} here, or not yet"));
        let place = id.split_once('-').and_then(|(index, _)| index.parse::<usize>().ok());
        let index = place.filter(|index| *index < self.places.len()).with_context(absent)?;
        let entries = self.places[index].entries(index)?;
        entries.into_iter().find(|entry| entry.id == id).with_context(absent)
    }
}

/// The folders with results: a folder itself, or those in it and in its folder `results`, which `fedbo run` writes to. Each with
/// its path below the folder.
fn run_folders(folder: &Path) -> Vec<(String, PathBuf)> {
    if folder.join(RESULTS_FILE).is_file() {
        return vec![(String::new(), folder.to_owned())];
    }
    let mut found = Vec::new();
    for below in ["", "results/"] {
        let files = std::fs::read_dir(folder.join(below)).into_iter().flatten().take(FILES_MAX);
        for file in files.flatten().filter(|file| file.path().join(RESULTS_FILE).is_file()) {
            if let Ok(name) = file.file_name().into_string() {
                found.push((format!("{below}{name}"), file.path()));
            }
        }
    }
    found.sort();
    found
}

impl Place {
    /// Those that a word of the command line means.
    fn named(word: &str) -> anyhow::Result<Vec<Self>> {
        let path = Path::new(word);
        if path.join(RESULTS_FILE).is_file() {
            // The databases of a run are its ledger.
            return Ok(Vec::new());
        }
        if path.is_dir() {
            return Self::in_folder(path);
        }
        Ok(vec![match word.parse::<Address>() {
            Ok(address) => Self::of(address, None)?,
            Err(_) if is_database(path) => Self::of(Address::Sqlite(path.to_owned()), None)?,
            Err(_) => {
                FileKind::Study.check(path)?;
                Self::of_file(path)?
            }
        }])
    }

    /// The studies' files of a folder, and its storages that none of them names.
    fn in_folder(folder: &Path) -> anyhow::Result<Vec<Self>> {
        let shown = folder.display();
        let read = || format!("cannot read the folder {shown}");
        let mut paths: Vec<PathBuf> = Vec::new();
        for file in std::fs::read_dir(folder).with_context(read)?.take(FILES_MAX) {
            paths.push(file.with_context(read)?.path());
        }
        paths.sort();
        let mut places = Vec::new();
        for path in paths.iter().filter(|path| FileKind::of(path) == Some(FileKind::Study)) {
            // A file of a folder may be half written; what was named by itself must be whole.
            match Self::of_file(path) {
                Ok(place) => places.push(place),
                Err(error) => crate::console::note(&format!("warning: {}", crate::words(&error))),
            }
        }
        let stored: Vec<PathBuf> = places.iter().filter_map(Self::file).collect();
        for path in paths.iter().filter(|path| is_database(path)) {
            let is_known = path.canonicalize().is_ok_and(|path| stored.contains(&path));
            if !is_known {
                places.push(Self::of(Address::Sqlite(path.clone()), None)?);
            }
        }
        if places.is_empty() && run_folders(folder).is_empty() {
            return Err(BadInput(format!(
                "{shown} has no study's file, no storage and no results of a run; name one, or the folder that has them"
            ))
            .into());
        }
        Ok(places)
    }

    fn of_file(path: &Path) -> anyhow::Result<Self> {
        let file = StudyFile::load_without_command(path)?;
        let only = Only { name: file.definition.name, n_trials: file.n_trials };
        Self::of(file.storage, Some(only))
    }

    fn of(address: Address, only: Option<Only>) -> anyhow::Result<Self> {
        if matches!(address, Address::Memory) {
            let message = "trials in memory: are seen by the program alone that runs them; name a storage in [study], for instance \
                 storage = \"sqlite:study.db\"";
            return Err(BadInput(message.to_owned()).into());
        }
        Ok(Self { address, only, storage: Mutex::default() })
    }

    fn name(&self) -> Option<&str> {
        self.only.as_ref().map(|only| only.name.as_str())
    }

    /// The file of the storage, if it is there.
    fn file(&self) -> Option<PathBuf> {
        match &self.address {
            Address::Sqlite(path) => path.canonicalize().ok(),
            Address::Memory | Address::Postgres(_) => None,
        }
    }

    /// The storage, opened once; none as long as it is not there.
    fn storage(&self) -> Result<Option<Arc<dyn Storage>>, StorageError> {
        let mut storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        if storage.is_none() {
            *storage = match fedbo_storage::open(&self.address, Mode::Existing) {
                Ok(opened) => Some(opened),
                Err(StorageError::Absent { .. }) => None,
                Err(error) => return Err(error),
            };
        }
        Ok(storage.clone())
    }

    fn entries(&self, index: usize) -> anyhow::Result<Vec<Entry>> {
        let Some(storage) = self.storage()? else {
            return Ok(Vec::new());
        };
        let records = storage.studies()?.into_iter();
        let shown = records.filter(|record| self.name().is_none_or(|name| name == record.name));
        Ok(shown
            .map(|record| Entry {
                id: format!("{index}-{}", record.key.0),
                storage: Arc::clone(&storage),
                place: self.address.to_string(),
                n_trials: self.only.as_ref().map(|only| only.n_trials),
                record,
            })
            .collect())
    }
}

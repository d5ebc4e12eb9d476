//! Parses and checks `peer.toml`, a peer's configuration file.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_config::{Check, ListedChoices, TomlFile};
use fedbo_objective::{CommandObjective, Failure, Objective, Problems};
use fedbo_party::{EvaluationError, ObjectiveTable};
use fedbo_transport::{ConnectionLimits, ListenSettings, ProxySetting, TlsFiles, checked_url};
use fedbo_wire::PublicKey;
use serde::Deserialize;

use crate::federation_file::SharedFile;
use crate::{Address, Member, Observer, Parts, PeerError};

/// Default folder of a peer.
pub const HOME: &str = "fedbo-peer";
/// Default address to listen on.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7434);
/// Maximum number of connections in addition to the neighbours' connections.
const N_UNAUTHENTICATED: usize = 256;

/// The parsed file, before validation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PeerToml {
    /// Version of the file format, which must be 1. Defaults to 1.
    version: Option<u64>,
    peer: PeerTable,
    objective: Option<ObjectiveTable>,
    neighbours: Vec<NeighbourTable>,
    choices: ListedChoices,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PeerTable {
    federation: Option<PathBuf>,
    name: Option<String>,
    home: Option<PathBuf>,
    listen: Option<SocketAddr>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    ca: Option<PathBuf>,
    proxy: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NeighbourTable {
    name: Option<String>,
    url: Option<String>,
    key: Option<String>,
}

/// Settings from outside the file, which take precedence over it.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The peer's name on the roster.
    pub name: Option<String>,
    /// The peer's folder.
    pub home: Option<PathBuf>,
    /// The address to listen on.
    pub listen: Option<SocketAddr>,
    /// Neighbours, each as `URL` or `NAME=URL`. `NAME=URL` replaces the named neighbour's URL in
    /// the file.
    pub neighbours: Vec<String>,
    /// Allows plain HTTP to and from other machines.
    pub plain_http: bool,
    /// Exits after the last round, without waiting for neighbours that are away or not done.
    pub leaves: bool,
}

/// A peer file that has passed all checks that do not need the federation file.
#[derive(Clone, Debug)]
pub struct PeerFile {
    /// The peer's folder.
    pub home: PathBuf,
    federation: PathBuf,
    name: String,
    listen: SocketAddr,
    tls: Option<TlsFiles>,
    authority: Option<PathBuf>,
    proxy: ProxySetting,
    neighbours: Vec<NeighbourTable>,
    objective: Option<ObjectiveTable>,
    choices: ListedChoices,
    overrides: Overrides,
    file: TomlFile,
}

impl PeerFile {
    /// Reads and checks a file. Relative paths are relative to the file's folder.
    ///
    /// # Errors
    /// Returns the first unusable setting, with its location and the remedy.
    pub fn load(path: &Path, overrides: Overrides) -> Result<Self, PeerError> {
        Self::checked(TomlFile::read(path)?, overrides)
    }

    fn checked(file: TomlFile, overrides: Overrides) -> Result<Self, PeerError> {
        let read: PeerToml = file.parse()?;
        if read.version.is_some_and(|version| version != 1) {
            let expected = "1, the only version of this file's layout so far";
            return Err(file.value_error(&["version"], expected).into());
        }
        let PeerTable { federation, name, home, listen, tls_cert, tls_key, ca, proxy } = read.peer;
        let proxy = proxy.map(|given| given.parse()).transpose();
        let proxy = proxy.map_err(|expected| file.value_error(&["peer", "proxy"], expected))?;
        let folder = file.folder().to_owned();
        let at_home = |path: PathBuf| folder.join(path);
        let Some(name) = overrides.name.clone().or(name) else {
            let remedy = "add name = \"...\", one of the federation's [[agents]], or give --name";
            return Err(file.missing_error(&["peer", "name"], remedy).into());
        };
        let tls = match (tls_cert, tls_key) {
            (Some(certificate), Some(key)) => {
                Some(TlsFiles { certificate: at_home(certificate), key: at_home(key) })
            }
            (None, None) => None,
            (given, _) => {
                let missing = if given.is_some() { "tls_key" } else { "tls_cert" };
                let remedy = "name a certificate and its key, both as PEM files, or neither";
                return Err(file.missing_error(&["peer", missing], remedy).into());
            }
        };
        let home = home.unwrap_or_else(|| HOME.into());
        let home = overrides.home.clone().unwrap_or_else(|| at_home(home));
        let listen = overrides.listen.or(listen).unwrap_or(LISTEN);
        Ok(Self {
            federation: at_home(federation.unwrap_or_else(|| "federation.toml".into())),
            authority: ca.map(at_home),
            proxy: proxy.unwrap_or_default(),
            neighbours: read.neighbours,
            objective: read.objective,
            choices: read.choices,
            home,
            name,
            listen,
            tls,
            overrides,
            file,
        })
    }

    /// Returns everything that a run needs. `problems` are the built-in problems that the
    /// federation file can name.
    ///
    /// # Errors
    /// If the federation file, an address or the command cannot be used.
    pub fn parts(
        &self,
        problems: &dyn Problems,
        observer: Arc<dyn Observer>,
        stop: Arc<AtomicBool>,
    ) -> Result<Parts, PeerError> {
        let has_objective = self.objective.is_some();
        let shared = SharedFile::load(&self.federation, &self.name, has_objective, problems)?;
        let objective = self.objective(&shared, &stop)?;
        self.parts_of(shared, objective, observer, stop)
    }

    /// Same as [`PeerFile::parts`], but with the given objective instead of a command.
    ///
    /// # Errors
    /// If the federation file or an address cannot be used.
    pub fn parts_with(
        &self,
        objective: Arc<dyn Objective>,
        problems: &dyn Problems,
        observer: Arc<dyn Observer>,
        stop: Arc<AtomicBool>,
    ) -> Result<Parts, PeerError> {
        let shared = SharedFile::load(&self.federation, &self.name, true, problems)?;
        Check::new(&self.file).foreign_names(&shared.federation.space)?; // INV-24
        self.parts_of(shared, objective, observer, stop)
    }

    fn parts_of(
        &self,
        shared: SharedFile,
        objective: Arc<dyn Objective>,
        observer: Arc<dyn Observer>,
        stop: Arc<AtomicBool>,
    ) -> Result<Parts, PeerError> {
        let neighbours = self.addresses(&shared.member)?;
        let SharedFile { federation, member, machine, path } = shared;
        Ok(Parts {
            home: self.home.clone(),
            listen: ListenSettings {
                address: self.listen,
                tls: self.tls.clone(),
                plain_http: self.overrides.plain_http,
                limits: ConnectionLimits {
                    n_connections: N_UNAUTHENTICATED + 2 * member.neighbours.len(),
                    ..ConnectionLimits::default()
                },
            },
            file: path,
            authority: self.authority.clone(),
            proxy: self.proxy.clone(),
            leaves: self.overrides.leaves,
            federation,
            member,
            machine,
            objective,
            neighbours,
            observer,
            stop,
        })
    }

    /// Returns the peer's objective from its own file, or otherwise from the federation file.
    fn objective(
        &self,
        shared: &SharedFile,
        stop: &Arc<AtomicBool>,
    ) -> Result<Arc<dyn Objective>, PeerError> {
        let unusable = |program: String, error: fedbo_objective::CommandError| {
            let message = error.to_string();
            let message = Failure::Spawn { program, message }.to_string();
            PeerError::Evaluation(EvaluationError::Objective { message })
        };
        let check = Check::new(&self.file);
        check.foreign_names(&shared.federation.space)?; // INV-24
        if self.objective.is_some() || !self.choices.is_empty() {
            // A command in the federation file needs no check, since the same file defines the
            // choices.
            check.foreign_choices(&self.choices, &shared.federation.space)?;
        }
        if let Some(table) = &self.objective {
            let command = table.command(&self.file, &shared.federation.space)?;
            let objective =
                CommandObjective::new(&command, &shared.federation.space, Arc::clone(stop));
            let program = command.argv.first().cloned().unwrap_or_default();
            return Ok(Arc::new(objective.map_err(|error| unusable(program, error))?));
        }
        let own = shared.federation.agents.get(shared.member.slot as usize);
        let objective = own.map(|agent| shared.federation.objective(agent, stop));
        let objective = objective.transpose();
        let objective = objective.map_err(|error| unusable(self.name.clone(), error))?;
        objective.flatten().ok_or_else(|| {
            let remedy = "add [objective] with command = [\"program\", \"argument\", ..] (the last line of its output is the \
                          value), or give this agent a command in the federation's file";
            self.file.missing_error(&["objective", "command"], remedy).into()
        })
    }

    /// Returns one address for each neighbour in the graph.
    fn addresses(&self, member: &Member) -> Result<Vec<Address>, PeerError> {
        let mut addresses = Vec::new();
        let mut unnamed = Vec::new();
        let mut tables = self.neighbours.clone();
        for given in &self.overrides.neighbours {
            let is_url = given.starts_with("http://") || given.starts_with("https://");
            match given.split_once('=') {
                Some((name, url)) if !is_url => {
                    let known = tables.iter_mut().find(|table| table.name.as_deref() == Some(name));
                    match known {
                        Some(table) => table.url = Some(url.to_owned()),
                        None => tables.push(NeighbourTable {
                            name: Some(name.to_owned()),
                            url: Some(url.to_owned()),
                            key: None,
                        }),
                    }
                }
                _ => unnamed.push(Address { slot: None, url: self.url(given, given)?, key: None }),
            }
        }
        let known: Vec<&str> = member.neighbours.iter().map(|slot| member.name_of(*slot)).collect();
        let known = known.join(", ");
        for (index, table) in tables.iter().enumerate() {
            let index = index.to_string();
            let at = |key| ["neighbours", index.as_str(), key];
            let Some(name) = &table.name else {
                let remedy = format!("add name = \"...\", one of {known}");
                return Err(self.file.missing_error(&at("name"), &remedy).into());
            };
            let slot = member.slot_of(name).filter(|slot| member.neighbours.contains(slot));
            let Some(slot) = slot else {
                return Err(PeerError::Addresses(format!(
                    "{name:?} is not a neighbour of {:?} in the federation's graph; its neighbours are {known}",
                    member.name()
                )));
            };
            if addresses.iter().any(|known: &Address| known.slot == Some(slot)) {
                return Err(PeerError::Addresses(format!(
                    "neighbour {name:?} has two addresses; remove one"
                )));
            }
            let Some(url) = &table.url else {
                let remedy =
                    format!("add url = \"https://HOST:PORT\", or give --neighbour \"{name}=URL\"");
                return Err(self.file.missing_error(&at("url"), &remedy).into());
            };
            let key = table.key.as_ref().map(|key| {
                let expected =
                    "64 hexadecimal digits, as its owner sees them in `fedbo peer status`";
                key.parse::<PublicKey>().map_err(|_| self.file.value_error(&at("key"), expected))
            });
            addresses.push(Address {
                slot: Some(slot),
                url: self.url(name, url)?,
                key: key.transpose()?,
            });
        }
        let is_missing = |slot: &&u32| !addresses.iter().any(|known| known.slot == Some(**slot));
        let missing: Vec<&str> =
            member.neighbours.iter().filter(is_missing).map(|slot| member.name_of(*slot)).collect();
        if missing.len() != unnamed.len() {
            let missing = match missing.as_slice() {
                [] => "every neighbour already has an address by name".to_owned(),
                missing => format!("no address by name is given for {}", missing.join(", ")),
            };
            return Err(PeerError::Addresses(format!(
                "{:?} has {} neighbours in the federation's graph ({known}) and needs an address for each: {missing}; {} \
                 addresses are given without a name. Give --neighbour NAME=URL, or [[neighbours]] with name and url",
                member.name(),
                member.neighbours.len(),
                unnamed.len()
            )));
        }
        addresses.append(&mut unnamed);
        Ok(addresses)
    }

    fn url(&self, neighbour: &str, given: &str) -> Result<String, PeerError> {
        checked_url(given, self.overrides.plain_http).map_err(|message| {
            PeerError::Addresses(format!("neighbour {neighbour:?} at {given:?}: {message}"))
        })
    }
}

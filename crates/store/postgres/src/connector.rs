//! Connects to servers, and refuses unsafe ones.

use std::fmt;
use std::time::Duration;

use postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{PostgresAddress, Problem, password, tls};

/// Timeout of a connection attempt, unless the address sets a timeout.
const CONNECT: Duration = Duration::from_secs(5);
/// Idle time before a keepalive probe is sent. If probes get no response for as long again, the
/// connection counts as lost.
const SILENCE: Duration = Duration::from_secs(10);
/// Oldest server version that supports the SQL used here.
const OLDEST: i64 = 130_000;

/// Session settings: a lock timeout, a timeout that releases the locks if this process stalls
/// inside a transaction, and a fixed search path.
const SETTINGS: &str = "SET lock_timeout = '30s'; SET idle_in_transaction_session_timeout = '10s'; \
     SET search_path = pg_catalog, pg_temp";

/// Opens connections to one database.
pub struct Connector {
    config: Config,
    tls: MakeRustlsConnect,
    shown: String,
}

impl fmt::Debug for Connector {
    /// Formats the address without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connector").field(&self.shown).finish()
    }
}

impl Connector {
    /// Creates a connector without connecting. If the address has no password, takes it from the
    /// environment.
    ///
    /// # Errors
    /// [`Problem::Refused`] if certificates or a password file cannot be used.
    pub fn new(address: &PostgresAddress) -> Result<Self, Problem> {
        let mut config = address.config().map_err(Problem::Refused)?;
        password::add(&mut config, |name| std::env::var_os(name)).map_err(Problem::Refused)?;
        complete(&mut config);
        Ok(Self {
            tls: tls::connector(address.trust()).map_err(Problem::Refused)?,
            config,
            shown: address.to_string(),
        })
    }

    /// Opens a connection to a server with settings that make acknowledged commits durable.
    ///
    /// # Errors
    /// If the server cannot be reached, is too old, or may lose acknowledged commits.
    pub fn connect(&self) -> Result<Client, Problem> {
        let mut client = self.connect_unchecked()?;
        let row = client.query_typed_one(
            "SELECT current_setting('server_version_num')::bigint, current_setting('server_version'),
                    current_setting('server_encoding'), current_setting('fsync'), current_setting('full_page_writes'),
                    current_setting('synchronous_commit')",
            &[],
        )?;
        let (number, version): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        if number < OLDEST {
            let oldest = OLDEST / 10_000;
            return Err(Problem::Refused(format!(
                "the server is PostgreSQL {version}; {oldest} or later is needed"
            )));
        }
        let encoding: String = row.try_get(2)?;
        if encoding != "UTF8" {
            return Err(Problem::Refused(format!(
                "the database's encoding is {encoding}, which does not support all characters; \
                 create a database with createdb --encoding=UTF8 --template=template0"
            )));
        }
        let commit = check_settings(row.try_get(3)?, row.try_get(4)?, row.try_get(5)?)?;
        client.batch_execute(SETTINGS)?;
        // Raises a weaker setting, which would not wait for the standbys' disks, to `on`. Keeps a
        // stronger setting.
        if commit != "remote_apply" {
            client.batch_execute("SET synchronous_commit = on")?;
        }
        Ok(client)
    }

    /// Opens a connection to a server with any version and settings, to read data of other
    /// programs.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn connect_unchecked(&self) -> Result<Client, Problem> {
        Ok(self.config.connect(self.tls.clone())?)
    }
}

/// Sets the defaults for options that the address does not set.
fn complete(config: &mut Config) {
    if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
        config.keepalives_idle(SILENCE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(SILENCE / 5);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(5);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(2 * SILENCE);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_application_name().is_none() {
        config.application_name("fedbo");
    }
}

/// Refuses a server on which `fsync`, `full_page_writes` or `synchronous_commit` is `off`, because
/// it may lose acknowledged commits. Returns `synchronous_commit`.
///
/// # Errors
/// [`Problem::Unsafe`] with the name of the setting that is off.
pub fn check_settings(fsync: String, pages: String, commit: String) -> Result<String, Problem> {
    for (setting, value) in
        [("fsync", &fsync), ("full_page_writes", &pages), ("synchronous_commit", &commit)]
    {
        if value == "off" {
            return Err(Problem::Unsafe(setting));
        }
    }
    Ok(commit)
}

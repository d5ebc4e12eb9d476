//! Finds the password for an address without one, in `PGPASSWORD` or a libpq password file.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use postgres::Config;
use postgres::config::Host;

/// Sets the password of `config` from the environment, if it has none.
///
/// # Errors
/// Returns a message if a password file cannot be read, or if other users can read it.
pub(crate) fn add(
    config: &mut Config,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<(), String> {
    if config.get_password().is_some() {
        return Ok(());
    }
    if let Some(password) = environment("PGPASSWORD") {
        let password = password.into_string().map_err(|_| "PGPASSWORD is not UTF-8".to_owned())?;
        config.password(password);
        return Ok(());
    }
    let (path, is_named) = match (environment("PGPASSFILE"), environment("HOME")) {
        (Some(path), _) => (PathBuf::from(path), true),
        (None, Some(home)) => (PathBuf::from(home).join(".pgpass"), false),
        (None, None) => return Ok(()),
    };
    let text = match read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_named => return Ok(()),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let user = config.get_user().map(str::to_owned);
    let user = user.or_else(|| environment("USER")?.into_string().ok());
    if let Some(password) = look_up(&text, config, user.as_deref().unwrap_or_default()) {
        config.password(password);
    }
    Ok(())
}

/// Returns the content of a file. Fails if other users can read the file.
fn read(path: &Path) -> io::Result<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let mode = std::fs::metadata(path)?.mode();
        if mode & 0o077 != 0 {
            let message = "other users may read this password file; chmod 600 it";
            return Err(io::Error::other(message));
        }
    }
    std::fs::read_to_string(path)
}

/// Returns the password in the first line that matches one of the hosts.
fn look_up(text: &str, config: &Config, user: &str) -> Option<String> {
    let database = config.get_dbname().unwrap_or(user);
    let ports = config.get_ports();
    let hosts: Vec<(String, u16)> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(index, host)| {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            (name(host), port)
        })
        .collect();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(fields).find_map(|fields| {
        let [host, port, base, role, password] = <[String; 5]>::try_from(fields).ok()?;
        let fits = |field: &str, value: &str| field == "*" || field == value;
        let server = hosts
            .iter()
            .any(|(name, number)| fits(&host, name) && fits(&port, &number.to_string()));
        (server && fits(&base, database) && fits(&role, user)).then_some(password)
    })
}

/// Returns a host in the notation of a password file.
fn name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(folder) => folder.display().to_string(),
    }
}

/// Splits a line at colons. A backslash escapes the next character.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (character, fields.last_mut()) {
            (':', _) => fields.push(String::new()),
            ('\\', Some(field)) => field.extend(characters.next()),
            (other, Some(field)) => field.push(other),
            (_, None) => {}
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(config: &str, environment: &[(&str, &str)]) -> Option<String> {
        let mut config: Config = config.parse().unwrap();
        add(&mut config, |name| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.into())
        })
        .unwrap();
        let password = config.get_password().map(<[u8]>::to_vec);
        password.map(|password| String::from_utf8(password).unwrap())
    }

    #[test]
    fn the_address_comes_first_then_the_environment() {
        let secret = [("PGPASSWORD", "outside")];
        let inside = found("postgresql://me:inside@h/db", &secret);
        assert_eq!(inside.as_deref(), Some("inside"));
        let outside = found("postgresql://me@h/db", &secret);
        assert_eq!(outside.as_deref(), Some("outside"));
        assert_eq!(found("postgresql://me@h/db", &[]), None);
    }

    #[test]
    fn a_password_file_is_read_line_by_line() {
        let text = "# h:*:*:*:comment\nh:5433:db:me:one\nh:*:other:*:two\n/run/pg:*:*:me:a\\:b\\\\c\nshort:line\n*:*:*:you:three\n";
        for (url, expected) in [
            ("postgresql://me@h:5433/db", Some("one")),
            ("postgresql://me@g:1,h:5433/db", Some("one")),
            ("postgresql://me@h/db", None),
            ("postgresql://me@h/other", Some("two")),
            ("postgresql://me@%2Frun%2Fpg/db", Some("a:b\\c")),
            ("postgresql://you@elsewhere/db", Some("three")),
        ] {
            let config: Config = url.parse().unwrap();
            let user = config.get_user().unwrap().to_owned();
            assert_eq!(look_up(text, &config, &user).as_deref(), expected, "{url}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_password_file_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pass");
        std::fs::write(&path, "*:*:*:*:secret\n").unwrap();
        let with_mode = |mode: u32| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let mut config: Config = "postgresql://me@h/db".parse().unwrap();
            let added = add(&mut config, |name| {
                (name == "PGPASSFILE").then(|| path.clone().into_os_string())
            });
            added.map(|()| config.get_password().map(<[u8]>::to_vec))
        };
        assert_eq!(with_mode(0o600).unwrap().as_deref(), Some(&b"secret"[..]));
        let refused = with_mode(0o640).unwrap_err();
        assert!(refused.contains("chmod 600") && !refused.contains("secret"), "{refused}");
    }
}

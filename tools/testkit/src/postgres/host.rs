//! Resources of the machine for a scratch server: PostgreSQL programs, a folder, a user, and the
//! process list.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Pid;

/// An unprivileged user for a server that root starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// A process of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) id: Pid,
    pub(super) parent: Option<Pid>,
    /// `T` if stopped, `Z` if a zombie; otherwise the process runs.
    pub(super) state: char,
}

/// Lists all processes from `/proc`, or from `ps` if `/proc` does not exist.
pub(super) fn processes() -> Vec<Process> {
    let table = match fs::read_dir("/proc/self") {
        Ok(_) => of_proc(),
        Err(_) => {
            let columns = ["-A", "-o", "pid=,ppid=,stat="];
            let ps = Command::new("ps").args(columns).output();
            String::from_utf8(ps.unwrap().stdout).unwrap()
        }
    };
    let process = |line: &str| {
        let mut fields = line.split_whitespace();
        let mut number = || fields.next()?.parse().ok();
        let (id, parent) = (number()?, number()?);
        Some(Process {
            id: Pid::from_raw(id)?,
            parent: Pid::from_raw(parent),
            state: fields.next()?.chars().next()?,
        })
    };
    table.lines().filter_map(process).collect()
}

/// Returns one line per process: its ID, its parent's ID and its state.
fn of_proc() -> String {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // Format: "pid (name) state ppid …". The name may contain spaces and parentheses.
        let (pid, _) = stat.split_once(' ')?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, parent) = (fields.next()?, fields.next()?);
        Some(format!("{pid} {parent} {state}\n"))
    });
    lines.collect()
}

/// Returns the parent of the server's folder: `/dev/shm` if it has enough space, otherwise the
/// system's temporary folder.
///
/// Tests kill processes, not machines, so syncs to a real disk would only cost time. The server
/// still calls fsync.
pub(super) fn place() -> PathBuf {
    const ROOM: u64 = 512 << 20;
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map(|fs| fs.f_bavail.saturating_mul(fs.f_frsize));
    let is_ours = || rustix::fs::access(memory, rustix::fs::Access::WRITE_OK).is_ok();
    match free {
        Ok(free) if free >= ROOM && is_ours() => memory.to_path_buf(),
        _ => std::env::temp_dir(),
    }
}

/// Returns the user for the server; `None` unless the current user is root.
pub(super) fn ordinary_user() -> Option<User> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let found = ["postgres", "nobody"].iter().find_map(|name| {
        let mut lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let fields = lines.find(|fields| fields.first() == Some(name))?;
        let (uid, gid) = (fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?);
        Some(User { uid, gid })
    });
    Some(found.unwrap_or_else(|| {
        panic!(
            "PostgreSQL refuses to run as root, and this machine has neither a user postgres nor a user nobody; run the \
             tests as an ordinary user"
        )
    }))
}

/// Returns the folder of PostgreSQL's programs: one in `PATH`, or the default of Debian, Fedora or
/// Homebrew.
pub(super) fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    for (parent, inside) in
        [("/usr/lib/postgresql", "bin"), ("/opt/homebrew/opt", "bin"), ("/usr/local/opt", "bin")]
    {
        let Ok(entries) = fs::read_dir(parent) else {
            continue;
        };
        let mut found: Vec<_> = entries.flatten().map(|e| e.path().join(inside)).collect();
        found.sort();
        folders.extend(found.into_iter().rev());
    }
    folders.push(PathBuf::from("/usr/pgsql/bin"));
    let has_all = |folder: &&PathBuf| {
        let is_there = |program: &str| folder.join(program).is_file();
        is_there("initdb") && is_there("postgres")
    };
    let folder = folders.iter().find(has_all).unwrap_or_else(|| {
        panic!(
            "there is no PostgreSQL on this machine (initdb and postgres), which this test needs; install it, on Debian \
             with: apt-get install postgresql"
        )
    });
    // Resolve symlinks, since PostgreSQL looks for its other files next to the real program.
    let initdb = folder.join("initdb").canonicalize().unwrap();
    initdb.parent().map(Path::to_path_buf).unwrap()
}

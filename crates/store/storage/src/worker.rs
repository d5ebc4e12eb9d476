//! Workers that evaluate trials, and the detection of dead worker processes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// An evaluator of trials: a worker in a process, or a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// A token, unique to each worker.
    pub id: String,
    /// The worker's process; `None` for a person.
    pub process: Option<Process>,
}

/// The identity of a process, which no other process ever has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The machine's boot id and the process's PID namespace.
    pub machine: String,
    /// The process id.
    pub pid: u32,
    /// The start time in kernel ticks since boot.
    pub started: u64,
}

impl Worker {
    /// Creates a worker in this process, with a new token.
    pub fn of_this_process() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let process = Process::current();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let id = format!(
            "{}-{:x}-{}",
            std::process::id(),
            since_epoch.as_nanos(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        Self { id, process }
    }

    /// Returns the worker for a person, or for a program in another language, that holds a trial
    /// until it is told or released.
    pub fn by_hand() -> Self {
        Self { id: "by-hand".to_owned(), process: None }
    }

    /// Returns true if the worker's process is known to be gone. Returns false if this is unknown,
    /// because the process runs on another machine or the system has no `/proc`.
    pub fn is_gone(&self) -> bool {
        self.life() == ProcessState::Gone
    }

    /// Returns true if the worker's process is known to be alive. Returns false if this is unknown.
    pub(crate) fn is_alive(&self) -> bool {
        self.life() == ProcessState::Alive
    }

    fn life(&self) -> ProcessState {
        self.process.as_ref().map_or(ProcessState::Unknown, Process::life)
    }
}

impl Process {
    /// Returns this process, or `None` if the system has no usable `/proc`.
    pub fn current() -> Option<Self> {
        let pid = std::process::id();
        Some(Self { machine: machine()?.to_owned(), pid, started: start_of(pid).ok().flatten()? })
    }

    fn life(&self) -> ProcessState {
        if machine() != Some(self.machine.as_str()) {
            return ProcessState::Unknown;
        }
        match start_of(self.pid) {
            Ok(Some(started)) if started == self.started => ProcessState::Alive,
            Ok(_) => ProcessState::Gone,
            Err(_) => ProcessState::Unknown,
        }
    }
}

/// The state of a process, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessState {
    Alive,
    Gone,
    Unknown,
}

/// Returns the machine's boot id and this process's PID namespace. Neither changes during the
/// process's lifetime.
fn machine() -> Option<&'static str> {
    static MACHINE: OnceLock<Option<String>> = OnceLock::new();
    let find = || {
        // If `/proc` belongs to a different PID namespace, it describes different processes with
        // the same ids.
        let this = std::fs::read_link("/proc/self").ok()?;
        if this.as_os_str() != std::process::id().to_string().as_str() {
            return None;
        }
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
        Some(format!("{} {}", boot.trim(), namespace.display()))
    };
    MACHINE.get_or_init(find).as_deref()
}

/// Returns the start time of a process in ticks, or `Ok(None)` if there is no such process or it is
/// a zombie.
fn start_of(pid: u32) -> std::io::Result<Option<u64>> {
    let stat = match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // `/proc` may hide the processes of other users.
            return if exists(pid) { Err(error) } else { Ok(None) };
        }
        // The process ended between open and read.
        Err(error) if is_no_process(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    // The format is "pid (name) state ppid …". The name may contain spaces and parentheses. The
    // start time is field 22.
    let unreadable = || std::io::Error::other("/proc/PID/stat in an unknown form");
    let (_, fields) = stat.rsplit_once(')').ok_or_else(unreadable)?;
    let mut fields = fields.split_whitespace();
    if matches!(fields.next(), Some("Z" | "X")) {
        return Ok(None);
    }
    let started = fields.nth(18).and_then(|field| field.parse().ok());
    started.map(Some).ok_or_else(unreadable)
}

/// Returns true if a process with this id exists, even if /proc hides it.
#[cfg(unix)]
fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn exists(_: u32) -> bool {
    true
}

#[cfg(unix)]
fn is_no_process(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

#[cfg(not(unix))]
fn is_no_process(_: &std::io::Error) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_gone_once_it_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let process = Process {
            pid,
            started: start_of(pid).unwrap().unwrap(),
            ..Process::current().unwrap()
        };
        assert_eq!(process.life(), ProcessState::Alive);
        let reused = Process { started: process.started + 1, ..process.clone() };
        assert_eq!(reused.life(), ProcessState::Gone, "another process with the same number");
        let elsewhere = Process { machine: "another boot".into(), ..reused.clone() };
        assert_eq!(elsewhere.life(), ProcessState::Unknown, "nothing is known of other machines");
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while process.life() != ProcessState::Gone {
            assert!(std::time::Instant::now() < deadline, "an unreaped process counts as gone");
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait().unwrap();
        assert_eq!(process.life(), ProcessState::Gone);
    }

    #[test]
    fn workers_of_one_process_have_different_tokens() {
        let (a, b) = (Worker::of_this_process(), Worker::of_this_process());
        assert_ne!(a.id, b.id);
        assert_eq!(a.process, b.process);
        assert!(!a.is_gone());
        assert!(!Worker::by_hand().is_gone());
    }
}

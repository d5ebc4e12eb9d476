//! A running command: its process group, output and termination.

use std::io::{ErrorKind, Read, Write as _};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group, waitid,
};

use super::lines::{Lines, TrainingMessage};
use super::near_report::NearReport;
use crate::Failure;

/// Number of bytes kept from the end of each output stream. They contain the value or the cause of
/// a failure.
pub(super) const TAIL_BYTES: usize = 64 * 1024;
/// Maximum time between two polls of the stop flag, the deadline and the command's state.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// Maximum number of bytes read after the command has exited.
///
/// A process that has left the group can keep writing.
const REST_BYTES: usize = 16 * 1024 * 1024;

/// A running command: its process group and its output so far.
///
/// The group is signalled only before its leader is reaped, so its id cannot have been reused.
pub(super) struct Running {
    child: Child,
    group: Pid,
    stdin: Option<ChildStdin>,
    pub(super) stdout: Output<ChildStdout>,
    stderr: Output<ChildStderr>,
    /// Sleep time while both outputs are closed and the command is still running. Grows up to
    /// [`TICK`].
    pause: Duration,
    reaped: bool,
}

impl Running {
    /// Wraps a started child. If `trains` is true, standard output is parsed for training messages.
    ///
    /// Standard error is also parsed, but only to detect reports written to the wrong stream.
    pub(super) fn new(mut child: Child, trains: bool) -> Self {
        let lines = || trains.then(Lines::default);
        Self {
            group: Pid::from_child(&child),
            stdin: child.stdin.take(),
            stdout: Output::new(child.stdout.take(), lines()),
            stderr: Output::new(child.stderr.take(), lines()),
            child,
            pause: Duration::from_micros(200),
            reaped: false,
        }
    }

    /// Returns true if the leader has exited. Does not reap it.
    pub(super) fn has_ended(&self) -> Result<bool, Failure> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(self.group), options) {
                Ok(status) => return Ok(status.as_ref().is_some_and(is_end)),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(lost(&error)),
            }
        }
    }

    /// Waits up to `wait` for output and reads it. Returns the number of bytes read.
    pub(super) fn listen(&mut self, wait: Duration) -> Result<usize, Failure> {
        let mut ready = [false; 2];
        {
            let mut waited = Vec::with_capacity(2);
            if let Some(pipe) = &self.stdout.pipe {
                waited.push((0, PollFd::new(pipe, PollFlags::IN)));
            }
            if let Some(pipe) = &self.stderr.pipe {
                waited.push((1, PollFd::new(pipe, PollFlags::IN)));
            }
            if waited.is_empty() {
                std::thread::sleep(self.pause.min(wait));
                self.pause = (self.pause * 2).min(TICK);
                return Ok(0);
            }
            let (which, mut fds): (Vec<usize>, Vec<_>) = waited.into_iter().unzip();
            let timeout = Timespec {
                tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            };
            match poll(&mut fds, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(lost(&error)),
            }
            for (index, fd) in which.into_iter().zip(&fds) {
                ready[index] = !fd.revents().is_empty();
            }
        }
        let mut n_read = 0;
        if ready[0] {
            n_read += self.stdout.read()?;
        }
        if ready[1] {
            n_read += self.stderr.read()?;
        }
        Ok(n_read)
    }

    /// Sends SIGTERM to the group, then waits up to `grace` for the leader to exit.
    pub(super) fn terminate(&mut self, grace: Duration) -> Result<(), Failure> {
        self.signal(Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < grace && !self.has_ended()? {
            self.listen(TICK)?;
        }
        Ok(())
    }

    /// Kills the rest of the group, drains the pipes and reaps the leader.
    pub(super) fn finish(mut self) -> Result<Finished, Failure> {
        self.signal(Signal::KILL);
        while !self.has_ended()? {
            self.listen(TICK)?;
        }
        let mut n_rest = 0;
        while n_rest < REST_BYTES {
            let open = [self.stdout.pipe.is_some(), self.stderr.pipe.is_some()];
            if open == [false, false] {
                break;
            }
            let n_read = self.listen(Duration::ZERO)?;
            let still_open = [self.stdout.pipe.is_some(), self.stderr.pipe.is_some()];
            if n_read == 0 && open == still_open {
                break; // only a process that left the group still holds the pipe
            }
            n_rest += n_read;
        }
        let status = self.child.wait().map_err(|error| lost(&error))?;
        self.reaped = true;
        Ok(Finished {
            status,
            said: self.said(),
            resembling: self.resembling(),
            stdout: std::mem::take(&mut self.stdout.tail),
            stderr: std::mem::take(&mut self.stderr.tail),
        })
    }

    /// Takes the training messages since the last call. Messages on standard error are discarded.
    pub(super) fn said(&mut self) -> Vec<TrainingMessage> {
        if let Some(lines) = &mut self.stderr.lines {
            drop(lines.said());
        }
        let lines = self.stdout.lines.as_mut();
        lines.map(Lines::said).unwrap_or_default()
    }

    /// Returns the line most similar to a report, with its fault.
    ///
    /// Returns `None` if standard output has a report, or if no line resembles one.
    fn resembling(&self) -> Option<String> {
        let stdout = self.stdout.lines.as_ref()?;
        if stdout.first_report().is_some() {
            return None;
        }
        let elsewhere = self.stderr.lines.as_ref().and_then(Lines::first_report);
        match elsewhere {
            Some(line) => Some(NearReport::on_standard_error(line).what),
            None => Some(stdout.resembling()?.what.clone()),
        }
    }

    /// Asks the leader to stop training: with a signal if given, otherwise with the line `stop` on
    /// stdin.
    pub(super) fn ask_to_stop(&mut self, by: Option<Signal>) {
        // Both fail only if no receiver exists. Five bytes always fit into an empty pipe.
        match (by, self.stdin.take()) {
            (Some(signal), stdin) => {
                self.stdin = stdin;
                let _ = kill_process(self.group, signal);
            }
            (None, Some(mut stdin)) => {
                let _ = stdin.write_all(b"stop\n");
            }
            (None, None) => {}
        }
    }

    fn signal(&self, signal: Signal) {
        // Fails only if no receiver exists.
        let _ = kill_process_group(self.group, signal);
    }
}

/// A command's exit status and remaining output.
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    /// Training messages that have not been taken yet.
    pub(super) said: Vec<TrainingMessage>,
    /// The line most similar to a report, with its fault; `None` if there was a report.
    pub(super) resembling: Option<String>,
    /// Tail of standard output.
    pub(super) stdout: Vec<u8>,
    /// Tail of standard error.
    pub(super) stderr: Vec<u8>,
}

impl Drop for Running {
    /// Kills the group and reaps the leader, even if an error ended the trial early.
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn is_end(status: &WaitIdStatus) -> bool {
    status.exited() || status.killed() || status.dumped()
}

fn lost(error: &dyn std::error::Error) -> Failure {
    Failure::Lost { message: error.to_string() }
}

/// An output stream of the command. Only its tail is kept.
pub(super) struct Output<R> {
    pipe: Option<R>,
    pub(super) tail: Vec<u8>,
    lines: Option<Lines>,
}

impl<R: Read + AsFd> Output<R> {
    fn new(pipe: Option<R>, lines: Option<Lines>) -> Self {
        let tail = Vec::new();
        Self { pipe, tail, lines }
    }

    /// Reads once, and closes the pipe at the end of the stream.
    ///
    /// Does not block if `poll` has reported the pipe as ready.
    fn read(&mut self) -> Result<usize, Failure> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(0);
        };
        let mut chunk = [0; 8192];
        match pipe.read(&mut chunk) {
            Ok(0) => {
                self.pipe = None;
                if let Some(lines) = &mut self.lines {
                    lines.end();
                }
                Ok(0)
            }
            Ok(n) => {
                if self.tail.len() + n > 2 * TAIL_BYTES {
                    self.tail.drain(..self.tail.len() - TAIL_BYTES);
                }
                self.tail.extend_from_slice(&chunk[..n]);
                if let Some(lines) = &mut self.lines {
                    lines.absorb(&chunk[..n]);
                }
                Ok(n)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(lost(&error)),
        }
    }
}

//! Allowed positions of text choices in a command line.
//!
//! A text choice can come from another party and must never be run as code (INV-24). The check
//! accepts only a few forms of command line:
//!
//! - The choice is a whole argument or the whole value of an option (`--kernel={kernel}`).
//! - The choice follows a user-supplied script or program: `./train {k}`, `python3 train.py {k}`,
//!   `sh -c 'CODE' sh {k}`, also behind `env`, `nice`, `nohup`, `setsid`, `time` or `timeout`.
//! - No other program that runs its arguments is between the script and the choice.
//! - An argument before the choice that is left out where its parameter does not exist follows the
//!   script too, so that the script is the same in every trial.
//!
//! All other forms are rejected, because programs differ in the arguments that they run as code.
//! Any command can be written as `sh -c 'CODE' sh {k}`.

use super::template::Piece;

/// Shells. All arguments after their script are data.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ksh", "zsh"];
/// Other interpreters that run their first operand.
const INTERPRETERS: [&str; 6] = ["Rscript", "julia", "node", "perl", "python", "ruby"];
/// Programs that run the rest of their arguments as a command, without a shell.
const WRAPPERS: [&str; 6] = ["env", "nice", "nohup", "setsid", "time", "timeout"];
/// Programs that run some of their arguments. No text choice can follow them, even as an
/// argument of a user's script, since the script might start them.
const RUNNERS: [&str; 54] = [
    "R",
    "ash",
    "autossh",
    "awk",
    "bsub",
    "bun",
    "busybox",
    "conda",
    "csh",
    "deno",
    "docker",
    "expect",
    "fish",
    "flock",
    "gawk",
    "gdb",
    "git",
    "hyperfine",
    "ipython",
    "just",
    "make",
    "mamba",
    "matlab",
    "mawk",
    "mosh",
    "npx",
    "numactl",
    "octave",
    "parallel",
    "pdsh",
    "php",
    "podman",
    "poetry",
    "psql",
    "pwsh",
    "qsub",
    "rsh",
    "sbatch",
    "script",
    "sg",
    "sqlite",
    "srun",
    "ssh",
    "su",
    "sudo",
    "taskset",
    "tclsh",
    "tcsh",
    "torchrun",
    "toybox",
    "tsx",
    "uv",
    "watch",
    "xargs",
];
/// Prefixes of system folders. Programs in them do not count as user-supplied.
const SYSTEM: [&str; 12] = [
    "/bin/", "/etc/", "/gnu/", "/lib", "/nix/", "/opt/", "/proc/", "/run/", "/sbin/", "/snap/",
    "/sys/", "/usr/",
];

/// The reason why the position of a text choice is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misplaced {
    /// The choice is joined with other characters.
    Joined,
    /// No user-supplied script or program precedes the choice.
    NoScript,
    /// An argument before the choice is sometimes left out, and no user-supplied script or program
    /// precedes it. Without it, another argument could become the program.
    Dropped,
}

/// Position of a text choice within an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Whole,
    OptionValue,
    Joined,
}

/// Returns the position of the text choice in an argument; `None` if the argument has none.
fn shape(pieces: &[Piece]) -> Option<Shape> {
    let is_text = |piece: &Piece| matches!(piece, Piece::Parameter(each) if each.is_text);
    if !pieces.iter().any(is_text) {
        return None;
    }
    Some(match pieces {
        [_] => Shape::Whole,
        [Piece::Text(option), last] if is_text(last) => {
            let name = option.strip_prefix('-').and_then(|rest| rest.strip_suffix('='));
            match name {
                Some(name) if !name.is_empty() && !name.contains('=') => Shape::OptionValue,
                _ => Shape::Joined,
            }
        }
        _ => Shape::Joined,
    })
}

/// Returns the first text choice in a rejected position: its index in `argv` and the reason.
///
/// `argv` is the command as written; `templates` are its parsed arguments, without the program.
pub(super) fn misplaced(argv: &[String], templates: &[Vec<Piece>]) -> Option<(usize, Misplaced)> {
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let is_conditional = |pieces: &[Piece]| {
        pieces.iter().any(|piece| matches!(piece, Piece::Parameter(each) if each.is_conditional))
    };
    let last_text = templates.iter().rposition(|pieces| shape(pieces).is_some());
    templates.iter().zip(1..).find_map(|(pieces, index)| {
        let fault = match shape(pieces) {
            Some(Shape::Joined) => return Some((index, Misplaced::Joined)),
            Some(Shape::Whole | Shape::OptionValue) => Misplaced::NoScript,
            None if is_conditional(pieces) && last_text.is_some_and(|last| index <= last) => {
                Misplaced::Dropped
            }
            None => return None,
        };
        (!follows_own_script(&argv[..index])).then_some((index, fault))
    })
}

/// Returns the program name of an argument, without folders and version: `python` for
/// `/usr/bin/python3.12`. Empty for options and assignments.
fn program_name(argument: &str) -> &str {
    if argument.starts_with('-') || argument.contains('=') {
        return "";
    }
    let base = argument.rsplit('/').next().unwrap_or(argument);
    let end = base.find(|c: char| c.is_ascii_digit()).unwrap_or(base.len());
    base[..end].trim_end_matches(['-', '.'])
}

/// Returns true for the name of a program that runs some of its arguments.
fn runs_arguments(name: &str) -> bool {
    [&SHELLS[..], &INTERPRETERS, &WRAPPERS, &RUNNERS].iter().any(|names| names.contains(&name))
}

/// Returns true if an argument can be a user-supplied file: it is not an option, a placeholder or
/// an installed program.
fn is_own_file(argument: &str) -> bool {
    let mut folders = argument.rsplit('/').skip(1);
    !argument.starts_with(['-', '{'])
        && !SYSTEM.iter().any(|folder| argument.starts_with(folder))
        && !folders.any(|folder| matches!(folder, ".bin" | "bin" | "sbin"))
        && !runs_arguments(program_name(argument))
}

/// Returns true if a user-supplied script or program precedes a text choice, and no other program
/// that runs its arguments is between them.
fn follows_own_script(before: &[&str]) -> bool {
    let Some(at) = program_of(before) else {
        return false;
    };
    let program = before[at];
    let after = match script_of(program_name(program), &before[at + 1..]) {
        Some(length) => at + 1 + length,
        None if program.contains('/') && is_own_file(program) => at + 1,
        None => return false,
    };
    let arguments = before.get(after..).unwrap_or_default();
    !arguments.iter().any(|argument| runs_arguments(program_name(argument)))
}

/// Returns the index of the program behind wrappers with options that are known here; `None` for
/// other options.
fn program_of(argv: &[&str]) -> Option<usize> {
    let mut at = 0;
    while WRAPPERS.contains(argv.get(at)?) {
        let rest = &argv[at + 1..];
        let is_variable = |argument: &&&str| {
            argument.split_once('=').is_some_and(|(name, _)| {
                name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty()
            })
        };
        at += 1 + match (argv[at], rest) {
            ("env", _) => rest.iter().take_while(is_variable).count(),
            ("nice", ["-n", ..]) => 2,
            ("timeout", ["-k" | "-s", _, ..]) => 3,
            ("timeout", _) => 1,
            _ => 0,
        };
    }
    Some(at)
}

/// Returns the number of an interpreter's arguments up to and including its script. For shell code,
/// this includes the name that follows the code. Returns `None` for other programs, without a
/// script, and for unknown options before the script, which might take the next argument.
fn script_of(interpreter: &str, arguments: &[&str]) -> Option<usize> {
    let is_shell = SHELLS.contains(&interpreter);
    // Options that take no value.
    let flags = match interpreter {
        "python" => "BEIOSbdqsuv",
        _ if is_shell => "aeflnuvx",
        _ if INTERPRETERS.contains(&interpreter) => "",
        _ => return None,
    };
    let are_flags = |letters: &str| letters.chars().all(|letter| flags.contains(letter));
    let mut at = 0;
    loop {
        let argument = *arguments.get(at)?;
        at += 1;
        let Some(letters) = argument.strip_prefix('-') else {
            let is_script = argument.contains(['.', '/']) && is_own_file(argument);
            return is_script.then_some(at);
        };
        match letters {
            "" => return None,
            "-" => {}
            _ if are_flags(letters) => {}
            // An option that is followed by code. Shells read further options before the code, and
            // the script's name after it.
            _ if letters.strip_suffix('c').is_some_and(are_flags)
                && (is_shell || interpreter == "python") =>
            {
                let is_code = !arguments.get(at)?.starts_with(['-', '+']);
                return is_code.then_some(at + 1 + usize::from(is_shell));
            }
            // `-o pipefail` of shells.
            _ if is_shell && letters.strip_suffix('o').is_some_and(are_flags) => at += 1,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::template::Placeholder;
    use super::*;

    /// Returns the fault of a command with `{k}` for a text choice, `{x}` for a number and, as a
    /// whole argument, `{c}` for a number that does not always exist.
    fn found(line: &[&str]) -> Option<(usize, Misplaced)> {
        let pieces = |argument: &&str| {
            let placeholder = |name: &str| Placeholder {
                name: name.into(),
                is_text: name == "k",
                is_conditional: name == "c",
            };
            if *argument == "{c}" {
                return vec![Piece::Parameter(placeholder("c"))];
            }
            let mut pieces = Vec::new();
            for (part, index) in argument.split("{k}").zip(0..) {
                if index > 0 {
                    pieces.push(Piece::Parameter(placeholder("k")));
                }
                if !part.is_empty() {
                    pieces.push(Piece::Text(part.to_owned()));
                }
            }
            pieces
        };
        let argv: Vec<String> = line.iter().map(|&each| each.to_owned()).collect();
        let templates: Vec<Vec<Piece>> = line[1..].iter().map(pieces).collect();
        misplaced(&argv, &templates)
    }

    #[test]
    fn a_text_within_code_is_found_behind_options_and_other_programs() {
        let accepted: Vec<_> = REFUSED.iter().filter(|line| found(line).is_none()).collect();
        assert!(accepted.is_empty(), "{accepted:#?}");
        for line in REFUSED {
            let text = line.iter().position(|each| each.contains("{k}"));
            assert_eq!(found(line).map(|(index, _)| index), text, "{line:?}");
        }
    }

    #[test]
    fn data_is_not_taken_for_code() {
        let refused: Vec<_> = ALLOWED.iter().filter(|line| found(line).is_some()).collect();
        assert!(refused.is_empty(), "{refused:#?}");
    }

    #[test]
    fn a_text_is_an_argument_or_the_value_of_an_option() {
        assert_eq!(found(&["./train", "--kernel={k}"]), None);
        assert_eq!(found(&["./train", "-k={k}"]), None);
        for joined in ["a{k}", "{k}{k}", "--a=b={k}", "-={k}", "--kernel={k}x", "K={k}", "-{k}"] {
            let expected = Some((1, Misplaced::Joined));
            assert_eq!(found(&["./train", joined]), expected, "{joined}");
        }
    }

    /// Without its duration, `timeout` would take the script as one and run the text.
    #[test]
    fn an_argument_that_is_sometimes_left_out_follows_the_script() {
        for (line, index) in [
            (&["timeout", "{c}", "./train", "{k}"][..], 1),
            (&["nice", "-n", "{c}", "python3", "train.py", "{k}"], 2),
            (&["sh", "-c", "{c}", "sh", "{k}"], 2),
        ] {
            assert_eq!(found(line), Some((index, Misplaced::Dropped)), "{line:?}");
        }
        for line in [
            &["./train", "--drop", "{c}", "{k}"][..],
            &["python3", "train.py", "{k}", "{c}"],
            &["sh", "-c", "./train \"$@\"", "sh", "{c}", "--kernel={k}"],
            &["timeout", "{c}", "./train", "{x}"],
        ] {
            assert_eq!(found(line), None, "{line:?}");
        }
    }

    /// Commands that might run the text, or that are not known to be safe.
    const REFUSED: &[&[&str]] = &[
        &["uv", "run", "python", "-u", "train.py", "{k}"],
        &["docker", "run", "--rm", "image", "python3", "train.py", "--kernel", "{k}"],
        &["taskset", "-c", "0-3", "./train", "{k}"],
        &["perl", "-e", "print @ARGV", "{k}"],
        &["./train", "--mode", "parallel", "{k}"],
        &["node", "-e", "CODE", "{k}"],
        &["ruby", "-e", "CODE", "{k}"],
        &["Rscript", "-e", "CODE", "{k}"],
        &["timeout", "60", "perl", "-e", "CODE", "{k}"],
        &["bash", "-c", "-e", "{k}"],
        &["sh", "-c", "--", "{k}"],
        &["sh", "-c", "+x", "{k}"],
        &["bash", "-euo", "pipefail", "-c", "-l", "{k}"],
        &["docker", "run", "--rm", "--entrypoint", "sh", "me/image", "-c", "{k}"],
        &["docker", "run", "-e", "PYTHON=/usr/bin/python3", "me/image", "{k}"],
        &["env", "SHELL=/bin/bash", "/usr/bin/awk", "{k}"],
        &["env", "PYTHON=/usr/bin/python3", "/usr/bin/ssh", "host", "{k}"],
        &["sudo", "-u", "node", "/bin/sh", "-c", "{k}"],
        &["uv", "run", "--python", "python3.12", "/bin/sh", "-c", "{k}"],
        &["python3", "/usr/lib/python3.11/timeit.py", "{k}"],
        &["python3", ".venv/bin/ipython", "-c", "{k}"],
        &["python3", ".venv/bin/torchrun", "{k}"],
        &["node", "node_modules/.bin/ts-node", "-e", "{k}"],
        &["/opt/homebrew/bin/awk", "{k}"],
        &["/run/current-system/sw/bin/awk", "{k}"],
        &[".venv/bin/python3.13t", "-c", "{k}"],
        &["./busybox", "awk", "{k}"],
        &["/opt/slurm/bin/sbatch", "--wrap={k}"],
        &["/lib64/ld-linux-x86-64.so.2", "{k}"],
        &["//bin/awk", "{k}"],
        &["../../usr/bin/awk", "{k}"],
        &["/etc/alternatives/awk", "{k}"],
        &["timeout", "60", "bsub", "-K", "python3", "train.py", "{k}"],
        &["timeout", "60", "hyperfine", "python3", "train.py", "{k}"],
        &["timeout", "60", "gdb", "python3", "./core", "-ex", "{k}"],
        &["conda", "run", "-n", "e", "python3", "train.py", "{k}"],
        &["./entry.sh", "timeout", "60", "{k}"],
        &["./entry.sh", "sudo", "-u", "bob", "{k}"],
        &["./entry.sh", "bash", "-o", "pipefail", "-c", "{k}"],
        &["./entry.sh", "python3", "-m", "timeit", "{k}"],
        &["./entry.sh", "ssh", "host", "{k}"],
        &["sh", "-c", "cd d && exec \"$@\"", "sh", "bash", "-c", "{k}"],
        &["timeout", "-k", "9", "{k}"],
        &["sh", "-c", "./train {k}"],
        &["sg", "users", "-c", "./train {k}"],
        &["capsh", "--", "-c", "./train {k}"],
        &["python3", "-m", "timeit", "-n1", "{k}"],
        &["python3", "-mtimeit", "{k}"],
        &["/bin/bash", "-lc", "{k}"],
        &["bash", "-euc", "a {k}"],
        &["bash", "-euo", "pipefail", "-c", "a {k}"],
        &["bash", "-ceuo", "pipefail", "a {k}"],
        &["bash", "-c", "-e", "a {k}"],
        &["bash", "--norc", "--rcfile", "f", "-c", "--", "{k}"],
        &["zsh", "+x", "-c", "{k}"],
        &["fish", "--command={k}"],
        &["fish", "-c", "{k}"],
        &["pwsh", "-NoProfile", "-Command", "./a", "{k}"],
        &["busybox", "sh", "-c", "{k}"],
        &["env", "-i", "A=1", "sh", "-c", "{k}"],
        &["env", "-u", "A", "bash", "-c", "{k}"],
        &["env", "-S", "sh -c {k}"],
        &["nice", "-n", "5", "timeout", "-k", "9", "5s", "dash", "-c", "{k}"],
        &["sudo", "-u", "bob", "--", "sh", "-c", "{k}"],
        &["xargs", "-I", "@", "sh", "-c", "{k}"],
        &["docker", "run", "--rm", "image", "sh", "-c", "{k}"],
        &["./own", "sh", "-c", "{k}"],
        &["su", "bob", "-c", "{k}"],
        &["flock", "lock", "-c", "{k}"],
        &["script", "-q", "-c", "{k}", "out"],
        &["ssh", "-p", "22", "host", "./train", "--kernel", "{k}"],
        &["nohup", "ssh", "host", "{k}"],
        &["sudo", "--user", "bob", "ssh", "host", "{k}"],
        &["make", "train", "KERNEL={k}"],
        &["python3.12", "-c", "f('{k}')"],
        &["python3", "-W", "ignore", "-Bc", "f('{k}')"],
        &["python3", "-cprint('{k}')"],
        &["uv", "run", "python", "-c", "{k}"],
        &["perl", "-lane", "{k}"],
        &["perl", "-Mstrict", "-e", "{k}"],
        &["perl", "-i.before", "-e", "{k}"],
        &["ruby", "-rjson", "-e", "{k}"],
        &["ruby", "-r", "json", "-e", "{k}"],
        &["node", "--eval={k}"],
        &["node", "-pe", "{k}"],
        &["deno", "eval", "{k}"],
        &["php", "-r", "{k}"],
        &["Rscript", "-e", "{k}"],
        &["julia", "--project", "-e", "{k}"],
        &["octave", "--eval", "{k}"],
        &["awk", "BEGIN { print {k} }"],
        &["gawk", "-F", ",", "-v", "a={x}", "{ print \"{k}\" }", "file"],
        &["sed", "s/a/{k}/"],
        &["sed", "-i.before", "-e", "p", "-e", "s/a/{k}/"],
        &["busybox", "awk", "{k}"],
        &["sbatch", "--wait", "--wrap", "echo 1 {k}"],
        &["sbatch", "--wrap=echo 1 {k}"],
        &["env", "BASH_ENV={k}", "bash", "./e.sh"],
        &["env", "LD_PRELOAD=./{k}.so", "./train"],
        &["git", "-c", "{k}", "x"],
        &["ghci", "-e", "{k}"],
        &["tar", "-I", "{k}", "-cf", "a"],
        &["find", ".", "-exec", "{k}", ";"],
        &["taskset", "-c", "0-3", "ssh", "h", "./train {k}"],
        &["taskset", "0x3", "awk", "BEGIN { print {k} }"],
        &["gosu", "1000", "make", "K={k}"],
        &["setarch", "-R", "ssh", "h", "{k}"],
        &["setarch", "x86_64", "-R", "ssh", "h", "{k}"],
        &["sudo", "--preserve-env", "{k}"],
        &["sh", "{k}"],
        &["python3", "-u", "{k}", "--x", "{x}"],
        &["python3", "-m", "{k}"],
        &["bash", "-{k}", "x"],
        &["env", "A=1", "{k}", "x"],
        &["timeout", "5", "{k}"],
        &["duckdb", "-c", "{k}"],
        &["duckdb", "a.db", "{k}"],
        &["sqlite3", "./a.db", "{k}"],
        &["jq", "{k}"],
        &["jq", "-r", "{k}", "f"],
        &["npx", "-c", "{k}"],
        &["sshpass", "-p", "x", "ssh", "h", "{k}"],
        &["timeout", "9", "ssh", "h", "python3", "train.py", "{k}"],
        &["bash", "--rcfile", "./f", "-c", "{k}"],
        &["node", "-r", "./x.js", "-e", "{k}"],
        &["ruby", "-r", "./x.rb", "-e", "{k}"],
        &["perl", "-e", "1", "-e", "{k}"],
        &["python3", "-m", "pdb", "{k}"],
        &["flock", "./lock", "{k}"],
        &["env", "-C", "./dir", "{k}"],
        &["env", "-C", "./dir", "--split-string={k}"],
        &["/usr/bin/awk", "{k}"],
        &["train", "{k}"],
        &["node", "-e", "1", "--eval={k}"],
        &["nice", "{k}"],
        &["./own", "python3", "-c", "{k}"],
        &["sudo", "-D", "./d", "--preserve-env", "{k}"],
        &["vim", "./x.py", "-c", "{k}"],
        &["R", "-f", "train.R", "-e", "{k}"],
        &["python3", "-m", "train", "{k}"],
        &["python3", "train.py", "--shell", "sh", "{k}"],
        &["python3", "-m", "train", "-c", "{k}"],
        &["python3", "-mtrain", "-c", "{k}"],
        &["python3", "train_{k}.py"],
        &["env", "KERNEL={k}", "./train"],
        &["git", "checkout", "{k}"],
        &["find", "data", "-name", "{k}"],
        &["tar", "-xzf", "{k}"],
        &["env", "-u", "A", "KERNEL={k}", "./train", "batch", "{k}"],
        &["awk", "-v", "k={k}", "BEGIN { print k }"],
        &["awk", "-vk={k}", "-f", "loss.awk", "{k}"],
        &["awk", "BEGIN { print ARGV[1] }", "{k}"],
        &["sed", "-f", "script", "{k}"],
        &["R", "--slave", "-f", "train.R", "--args", "-e", "{k}"],
        &["./train", "--kind", "node", "{k}"],
        &["flock", "lock", "./train", "{k}"],
        &["gosu", "1000", "train", "{k}"],
        &["uv", "run", "--frozen", "train.py", "{k}"],
        &["setsid", "--wait", "./train", "{k}"],
        &["conda", "run", "-n", "e", "--no-capture-output", "./train", "{k}"],
        &["sudo", "--preserve-env", "--", "train", "{k}"],
        &["docker", "run", "image", "./train", "{k}"],
    ];

    /// Commands that receive the text as data.
    const ALLOWED: &[&[&str]] = &[
        &["timeout", "-s", "KILL", "60", "./train", "{k}"],
        &["env", "A=1", "python3", "-u", "train.py", "--kernel={k}"],
        &["python3", "-c", "CODE", "--kernel", "{k}"],
        &["sh", "-c", "./train \"$1\"", "sh", "{x}", "{k}"],
        &["./train", "--kernel", "{k}"],
        &["sh", "-c", "./train \"$1\"", "sh", "{k}"],
        &["bash", "-euo", "pipefail", "-c", "./train \"$1\"", "bash", "{k}"],
        &["sh", "run.sh", "-c", "{k}"],
        &["sh", "-c", "awk -v x={x} 1"],
        &["python3", "train.py", "-c", "{k}"],
        &["python3", "-c", "import sys", "{k}"],
        &["python3", "-c", "print({x})"],
        &["timeout", "60", "./train", "{k}"],
        &["nice", "-n", "5", "python3", "train.py", "{k}"],
        &["node", "train.js", "-e", "{k}"],
        &["Rscript", "train.R", "-e", "{k}"],
        &["julia", "train.jl", "{k}"],
        &["timeout", "-k", "9", "60s", "./train", "--kernel={k}"],
        &["env", "A=1", "./train", "{k}"],
        &["sh", "./run", "--kernel={k}"],
        &["/opt/conda/bin/python3.12", "train.py", "{k}"],
    ];
}

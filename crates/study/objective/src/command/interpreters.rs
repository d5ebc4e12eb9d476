//! Arguments that a shell or an interpreter runs as code: no text that somebody chose may stand in them (INV-24).
//!
//! This is a list of programs and of how they find their code, so it knows those that are common and no others. It errs towards
//! refusing: what is refused can be said in another way, with the text in an argument of its own.

/// An argument as far as its code matters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Argument<'a> {
    /// The argument as it is written.
    pub(super) text: &'a str,
    /// The part before the first placeholder of a text; none if there is no such placeholder.
    pub(super) head: Option<&'a str>,
}

impl Argument<'_> {
    fn has_text(&self) -> bool {
        self.head.is_some()
    }

    /// Returns true if a text is its beginning, so that it may be an option, or the name of a program.
    fn leads_with_text(&self) -> bool {
        self.head == Some("")
    }
}

/// A text that would be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnsafeText {
    /// The argument.
    pub(super) index: usize,
    /// The program that runs it, as it is written.
    pub(super) by: String,
    /// The way in which the text is run, and so the way to hand it over instead.
    pub(super) way: ExecutionMode,
}

/// The way in which a text is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExecutionMode {
    /// As a script of a shell, which numbers further arguments.
    Shell,
    /// As code of a language that finds further arguments by itself.
    Code,
    /// As a program of awk, which takes variables.
    Awk,
    /// As part of a command line, which has no place for data.
    Line,
    /// It names the program.
    Program,
}

/// The place where a program finds its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// In the first operand if a letter says so; else the first operand is a file.
    Shell,
    /// In values of options; the first operand is a file, and all that follows is data.
    Script,
    /// In the first operand, unless an option gives it.
    Operand,
    /// In values of options, wherever they stand.
    Anywhere,
    /// In all that follows an option.
    Rest,
    /// Everywhere.
    All,
}

/// A language: its programs, and the arguments in which they find their code. Letters are those of options as in `-x`,
/// words are whole options.
struct Language {
    names: &'static [&'static str],
    form: Form,
    way: ExecutionMode,
    /// Their value is code.
    code: &'static str,
    code_words: &'static [&'static str],
    /// Their value is data.
    data: &'static str,
    data_words: &'static [&'static str],
    /// The rest of the argument after them is data.
    attached: &'static str,
    /// Their value is a file of code.
    file: &'static str,
    /// Their value is a program that all that follows is handed to.
    module: &'static str,
}

const BASE: Language = Language {
    names: &[],
    form: Form::Script,
    way: ExecutionMode::Code,
    code: "",
    code_words: &[],
    data: "",
    data_words: &[],
    attached: "",
    file: "",
    module: "",
};

/// Versions at the end of a name (`python3.12`) are left out.
const LANGUAGES: &[Language] = &[
    Language {
        names: &[
            "sh", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "pdksh", "oksh", "ash", "yash",
            "posh", "csh", "tcsh", "hush",
        ],
        form: Form::Shell,
        way: ExecutionMode::Shell,
        code: "c",
        data: "oO",
        data_words: &["--rcfile", "--init-file"],
        ..BASE
    },
    Language {
        names: &["fish", "nu", "elvish", "xonsh", "ion", "rc", "es"],
        code: "cC",
        code_words: &["--command", "--init-command", "--commands", "--execute", "-e"],
        ..BASE
    },
    Language {
        names: &["pwsh", "powershell"],
        form: Form::Rest,
        code_words: &[
            "-c",
            "-command",
            "-commandwithargs",
            "-cwa",
            "-e",
            "-ec",
            "-encodedcommand",
            "/c",
            "/command",
        ],
        ..BASE
    },
    Language {
        names: &["python", "pythonw", "pypy", "ipython", "micropython", "sage", "gap"],
        code: "c",
        data: "WXQ",
        data_words: &["--check-hash-based-pycs"],
        module: "m",
        ..BASE
    },
    Language { names: &["perl", "raku"], code: "eEMm", data: "I", attached: "ixFC", ..BASE },
    Language { names: &["ruby", "jruby", "irb"], code: "e", data: "rICEF", attached: "ix", ..BASE },
    Language {
        names: &["node", "nodejs", "deno", "bun", "tsx", "ts-node", "qjs"],
        code_words: &["-e", "-p", "-pe", "-ep", "--eval", "--print", "eval"],
        data: "rC",
        data_words: &["--require", "--import", "--loader", "--conditions"],
        ..BASE
    },
    Language {
        names: &["php"],
        code: "rBRE",
        code_words: &["--run", "--process-begin", "--process-code", "--process-end"],
        data: "cdFz",
        file: "f",
        ..BASE
    },
    Language { names: &["lua", "luajit", "luau"], code: "e", data: "l", ..BASE },
    Language {
        names: &["r", "rscript", "littler"],
        code: "e",
        code_words: &["--expression", "--eval"],
        data: "g",
        file: "f",
        ..BASE
    },
    Language {
        names: &["julia"],
        code: "eE",
        code_words: &["--eval", "--print"],
        data: "JLptCH",
        data_words: &["--load", "--sysimage", "--procs", "--threads"],
        ..BASE
    },
    Language {
        names: &[
            "elixir",
            "ghci",
            "runghc",
            "scala",
            "groovy",
            "ghc",
            "racket",
            "guile",
            "osascript",
            "gnuplot",
            "dc",
            "expect",
            "tclsh",
            "clojure",
        ],
        code: "ec",
        code_words: &["--eval", "--rpc-eval", "--expression"],
        ..BASE
    },
    Language {
        names: &[
            "octave",
            "octave-cli",
            "matlab",
            "emacs",
            "sbcl",
            "erl",
            "maxima",
            "swipl",
            "gdb",
            "lldb",
            "bb",
        ],
        form: Form::Anywhere,
        code_words: &[
            "--eval",
            "-eval",
            "--execute",
            "-execute",
            "-r",
            "-batch",
            "--batch-string",
            "-g",
            "-t",
            "-ex",
            "-o",
            "-e",
            "--eval-command",
        ],
        ..BASE
    },
    Language {
        names: &["vi", "vim", "nvim", "ex", "psql", "mysql", "mariadb"],
        form: Form::Anywhere,
        way: ExecutionMode::Line,
        code: "ce",
        code_words: &["--cmd", "--command", "--execute"],
        ..BASE
    },
    Language {
        names: &["su", "sg", "runuser", "script", "flock", "nix-shell"],
        form: Form::Anywhere,
        way: ExecutionMode::Shell,
        code: "c",
        code_words: &["--command", "--session-command", "--run"],
        ..BASE
    },
    Language {
        names: &["sbatch", "salloc", "bsub", "condor_run"],
        form: Form::Anywhere,
        way: ExecutionMode::Line,
        code_words: &["--wrap"],
        ..BASE
    },
    Language {
        names: &["git"],
        form: Form::Anywhere,
        way: ExecutionMode::Line,
        code: "c",
        code_words: &["--upload-pack", "--receive-pack", "--exec", "--exec-path"],
        ..BASE
    },
    Language {
        names: &["tar", "gtar", "bsdtar"],
        form: Form::Anywhere,
        way: ExecutionMode::Line,
        code: "IF",
        code_words: &[
            "--use-compress-program",
            "--to-command",
            "--checkpoint-action",
            "--rsh-command",
            "--info-script",
        ],
        ..BASE
    },
    Language {
        names: &["rsync"],
        form: Form::Anywhere,
        way: ExecutionMode::Line,
        code: "e",
        code_words: &["--rsh"],
        ..BASE
    },
    Language {
        names: &["find"],
        form: Form::Anywhere,
        way: ExecutionMode::Line,
        code_words: &["-exec", "-execdir", "-ok", "-okdir"],
        ..BASE
    },
    Language {
        names: &["env"],
        way: ExecutionMode::Line,
        code: "S",
        code_words: &["--split-string"],
        data: "uC",
        data_words: &["--unset", "--chdir"],
        ..BASE
    },
    Language {
        names: &["awk", "gawk", "mawk", "nawk", "original-awk", "goawk"],
        form: Form::Operand,
        way: ExecutionMode::Awk,
        code: "e",
        code_words: &["--source"],
        data: "vFilW",
        data_words: &["--assign", "--field-separator", "--include", "--load"],
        file: "fE",
        ..BASE
    },
    Language {
        names: &["sed", "gsed"],
        form: Form::Operand,
        way: ExecutionMode::Line,
        code: "e",
        code_words: &["--expression"],
        data: "l",
        data_words: &["--line-length"],
        attached: "i",
        file: "f",
        ..BASE
    },
    Language {
        names: &[
            "qsub",
            "qrsh",
            "ssh",
            "autossh",
            "slogin",
            "rsh",
            "mosh",
            "parallel",
            "sem",
            "watch",
            "hyperfine",
            "entr",
            "make",
            "gmake",
            "bmake",
            "just",
            "tmux",
            "screen",
            "at",
            "batch",
            "sqlite",
            "capsh",
            "cmd",
            "command.com",
        ],
        form: Form::All,
        way: ExecutionMode::Line,
        ..BASE
    },
];

/// A program that runs the command that follows: its name, how many operands stand before that, and letters of options with a value.
const WRAPPERS: &[(&str, usize, &str)] = &[
    ("env", 0, "uCS"),
    ("busybox", 0, ""),
    ("toybox", 0, ""),
    ("nice", 0, "n"),
    ("ionice", 0, "cnpPu"),
    ("timeout", 0, "sk"), // its operand is a number
    ("nohup", 0, ""),
    ("setsid", 0, ""),
    ("stdbuf", 0, "ioe"),
    ("unbuffer", 0, ""),
    ("time", 0, "fo"),
    ("sudo", 0, "ugCDhprRtTU"),
    ("doas", 0, "uC"),
    ("su-exec", 1, ""),
    ("gosu", 1, ""),
    ("setpriv", 0, ""),
    ("chpst", 0, "uUbemdfpo"),
    ("prlimit", 0, ""),
    ("xargs", 0, "EILPRadns"),
    ("chroot", 1, ""),
    ("flock", 1, "wE"),
    ("taskset", 1, ""),
    ("chrt", 0, ""),
    ("numactl", 0, "iplmNCw"),
    ("setarch", 1, ""),
    ("unshare", 0, ""),
    ("nsenter", 0, "tSG"),
    ("firejail", 0, ""),
    ("bwrap", 0, ""),
    ("strace", 0, "eopsuEPXabIO"),
    ("ltrace", 0, "eopsuanAlx"),
    ("valgrind", 0, ""),
    ("xvfb-run", 0, "efnps"),
    ("dbus-run-session", 0, ""),
    ("caffeinate", 0, "tw"),
    ("systemd-run", 0, "ptuMHE"),
    ("systemd-inhibit", 0, ""),
    ("srun", 0, "nNpctJomwGAqCDe"),
    ("mpirun", 0, "nHx"),
    ("mpiexec", 0, "nHx"),
    ("winpty", 0, ""),
    ("chronic", 0, ""),
    ("uv", 1, "p"),
    ("poetry", 1, ""),
    ("pipenv", 1, ""),
    ("pdm", 1, ""),
    ("rye", 1, ""),
    ("hatch", 1, "e"),
    ("pixi", 1, "e"),
    ("conda", 1, "np"),
    ("mamba", 1, "np"),
    ("micromamba", 1, "np"),
];

/// The first text that would be run, if there is one; the first argument is the program.
pub(super) fn danger(arguments: &[Argument<'_>]) -> Option<UnsafeText> {
    // Before a command of one's own they are variables; behind it they are its arguments.
    let steered = arguments.iter().position(sets_code_path);
    if let Some(index) = steered.filter(|_| wrapper(arguments.first()).is_some()) {
        let by = name(arguments[0].text).to_owned();
        let way = ExecutionMode::Line;
        return Some(UnsafeText { index, by, way });
    }
    let (commands, chosen) = commands(arguments);
    // Of a word that need not be a program, `sh` in `--kind sh -c x`, only what an option gives counts as code.
    let run = (0..arguments.len()).find_map(|at| {
        let language = language(&arguments[at])?;
        let (index, way) = code(arguments, at, language, commands.contains(&at))?;
        let by = name(arguments[at].text).to_owned();
        Some(UnsafeText { index, by, way })
    });
    let way = ExecutionMode::Program;
    run.or_else(|| chosen.map(|(index, by)| UnsafeText { index, by, way }))
}

/// Returns true if a text is the value of a variable of the environment by which programs find code: `BASH_ENV={k}`.
fn sets_code_path(argument: &Argument<'_>) -> bool {
    let Some((variable, _)) = argument.head.and_then(|head| head.split_once('=')) else {
        return false;
    };
    STEERING.contains(&variable) || STEERING_STARTS.iter().any(|start| variable.starts_with(start))
}

/// Variables whose value is code, or says where code is.
const STEERING: &[&str] = &[
    "PATH",
    "ENV",
    "BASH_ENV",
    "SHELL",
    "IFS",
    "PS4",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "BROWSER",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUBYLIB",
    "NODE_OPTIONS",
    "NODE_PATH",
    "CLASSPATH",
    "JAVA_TOOL_OPTIONS",
    "R_PROFILE",
    "R_PROFILE_USER",
    "R_ENVIRON",
    "JULIA_LOAD_PATH",
    "LUA_INIT",
    "LUA_PATH",
    "LUA_CPATH",
    "PHPRC",
    "MAKEFLAGS",
    "CC",
    "CXX",
];

/// Beginnings of the names of such variables.
const STEERING_STARTS: &[&str] = &["LD_", "DYLD_", "BASH_FUNC_", "PYTHON", "GIT_", "SSH_"];

/// The file's name of a program.
fn name(program: &str) -> &str {
    program.rsplit(['/', '\\']).next().unwrap_or(program)
}

/// The name of a program without its version.
fn plain(argument: &Argument<'_>) -> Option<String> {
    if argument.has_text() {
        return None;
    }
    let name = name(argument.text).to_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    let of_version = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-');
    Some(name.trim_end_matches(of_version).to_owned())
}

fn language(argument: &Argument<'_>) -> Option<&'static Language> {
    let name = plain(argument)?;
    let is_its = |language: &&Language| language.names.contains(&name.as_str());
    LANGUAGES.iter().find(is_its)
}

/// Returns the places of programs of which one runs the next, and a text that stands in the place of one, with the
/// program that would run it.
fn commands(arguments: &[Argument<'_>]) -> (Vec<usize>, Option<(usize, String)>) {
    let mut found = vec![0];
    let mut at = 0;
    while let Some((n_operands, letters)) = wrapper(arguments.get(at)) {
        let by = || name(arguments[at].text).to_owned();
        let mut n_operands = n_operands;
        let mut is_value = false;
        let mut next = None;
        for (index, argument) in arguments.iter().enumerate().skip(at + 1) {
            let text = argument.text;
            if std::mem::take(&mut is_value) {
                continue;
            }
            if argument.leads_with_text() {
                return (found, Some((index, by())));
            }
            if let Some(letters_given) =
                text.strip_prefix('-').filter(|rest| !rest.starts_with('-'))
            {
                let last = letters_given.chars().next_back();
                is_value =
                    letters_given.chars().count() == 1 && last.is_some_and(|c| letters.contains(c));
                continue;
            }
            let is_assignment = text.split_once('=').is_some_and(|(key, _)| !key.contains('/'));
            if text.starts_with("--") || is_assignment {
                continue;
            }
            let is_known = language(argument).is_some() || wrapper(Some(argument)).is_some();
            // An operand may be left out before a program that is known here (`setarch -R ssh`).
            if n_operands > 0 && !is_known {
                n_operands -= 1;
                continue;
            }
            if text.starts_with(|c: char| c.is_ascii_digit()) {
                continue;
            }
            // The value of `--user bob` is no program that is known here.
            let before = arguments[index - 1].text;
            let may_be_value = index > at + 1
                && before.starts_with("--")
                && !before.contains('=')
                && before != "--";
            let is_file = text.contains(['/', '.']);
            if may_be_value && !is_known && !is_file {
                continue;
            }
            next = Some(index);
            break;
        }
        let Some(next) = next else { break };
        found.push(next);
        at = next;
    }
    (found, None)
}

fn wrapper(argument: Option<&Argument<'_>>) -> Option<(usize, &'static str)> {
    let name = plain(argument?)?;
    let found = WRAPPERS.iter().find(|(known, ..)| *known == name)?;
    Some((found.1, found.2))
}

/// A text in the code of the program at `at`. What is code by its place alone, or an option of the program, counts only where it is
/// certain that the program runs (`is_command`).
fn code(
    arguments: &[Argument<'_>],
    at: usize,
    language: &Language,
    is_command: bool,
) -> Option<(usize, ExecutionMode)> {
    let way = language.way;
    let rest = arguments.iter().enumerate().skip(at + 1);
    let first_text = |from: usize| {
        let mut rest = arguments.iter().enumerate().skip(from);
        rest.find(|(_, argument)| argument.has_text()).map(|(index, _)| (index, way))
    };
    if language.form == Form::All {
        return is_command.then(|| first_text(at + 1)).flatten();
    }
    // Values of options that are still to come, each with whether it is code.
    let mut values: Vec<Value> = Vec::new();
    let mut is_given = false;
    let mut only_operands = false;
    for (index, argument) in rest {
        if !values.is_empty() {
            match values.remove(0) {
                Value::Code if argument.has_text() => return Some((index, way)),
                Value::Module if argument.leads_with_text() && is_command => {
                    return Some((index, ExecutionMode::Program));
                }
                Value::Module if executes_arguments(argument.text) => return first_text(index),
                Value::Module => return None,
                Value::Code | Value::Data => continue,
            }
        }
        let text = argument.text;
        let word = text.split_once('=').map_or(text, |(word, _)| word);
        let word = match language.form {
            Form::Rest => word.to_lowercase(),
            _ => word.to_owned(),
        };
        if !only_operands && language.code_words.contains(&word.as_str()) {
            is_given = true;
            if language.form == Form::Rest {
                return first_text(index);
            }
            if text.len() == word.len() {
                values.push(Value::Code);
            } else if argument.has_text() {
                return Some((index, way));
            }
            continue;
        }
        let is_option = !only_operands
            && !argument.leads_with_text()
            && text.len() > 1
            && (text.starts_with('-') || (language.form == Form::Shell && text.starts_with('+')));
        if !is_option {
            match language.form {
                Form::Anywhere | Form::Rest => continue,
                Form::Shell if is_given => return argument.has_text().then_some((index, way)),
                Form::Operand if !is_given && is_command => {
                    return argument.has_text().then_some((index, way));
                }
                _ => {
                    let names_program = argument.leads_with_text() && !is_given && is_command;
                    return names_program.then_some((index, ExecutionMode::Program));
                }
            }
        }
        if text == "--" {
            only_operands = true;
            continue;
        }
        if text == "--args" {
            return None; // of R: all that follows is data
        }
        if text.starts_with("--") {
            if argument.has_text() && is_command && language.form != Form::Anywhere {
                return Some((index, way));
            }
            if language.data_words.contains(&text) {
                values.push(Value::Data);
            }
            continue;
        }
        let letters = argument.head.unwrap_or(text);
        let mut is_cut = argument.has_text();
        for (place, letter) in letters.char_indices().skip(1) {
            let has_more = place + letter.len_utf8() < text.len();
            let value = if language.code.contains(letter) {
                is_given = true;
                match language.form {
                    Form::Shell => continue,
                    _ => Value::Code,
                }
            } else if language.module.contains(letter) {
                Value::Module
            } else if language.data.contains(letter) || language.file.contains(letter) {
                is_given |= language.file.contains(letter);
                Value::Data
            } else if language.attached.contains(letter) {
                is_cut = false;
                break;
            } else {
                continue;
            };
            if !has_more || language.form == Form::Shell {
                values.push(value);
                if language.form == Form::Shell {
                    continue;
                }
            } else if value == Value::Code && argument.has_text() {
                return Some((index, way));
            } else if value == Value::Module {
                let module = &text[place + letter.len_utf8()..];
                return executes_arguments(module).then(|| first_text(index))?;
            }
            is_cut = false;
            break;
        }
        // The text itself would be letters of options.
        if is_cut && is_command && language.form != Form::Anywhere {
            return Some((index, way));
        }
    }
    None
}

/// Returns true if a module of Python runs its arguments as code instead of taking them as data.
fn executes_arguments(module: &str) -> bool {
    module == "timeit"
}

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Code,
    Data,
    Module,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The danger in a command in which `{k}` stands for a text, and `{x}` for a number.
    fn found(line: &[&str]) -> Option<(usize, ExecutionMode)> {
        let arguments: Vec<Argument<'_>> = line
            .iter()
            .map(|text| Argument { text, head: text.find("{k}").map(|at| &text[..at]) })
            .collect();
        danger(&arguments).map(|danger| (danger.index, danger.way))
    }

    #[test]
    fn a_text_within_code_is_found_behind_options_and_other_programs() {
        let cases: &[(&[&str], usize, ExecutionMode)] = &[
            (&["sh", "-c", "./train {k}"], 2, ExecutionMode::Shell),
            (&["sg", "users", "-c", "./train {k}"], 3, ExecutionMode::Shell),
            (&["capsh", "--", "-c", "./train {k}"], 3, ExecutionMode::Line),
            (&["python3", "-m", "timeit", "-n1", "{k}"], 4, ExecutionMode::Code),
            (&["python3", "-mtimeit", "{k}"], 2, ExecutionMode::Code),
            (&["/bin/bash", "-lc", "{k}"], 2, ExecutionMode::Shell),
            (&["bash", "-euc", "a {k}"], 2, ExecutionMode::Shell),
            (&["bash", "-euo", "pipefail", "-c", "a {k}"], 4, ExecutionMode::Shell),
            (&["bash", "-ceuo", "pipefail", "a {k}"], 3, ExecutionMode::Shell),
            (&["bash", "-c", "-e", "a {k}"], 3, ExecutionMode::Shell),
            (&["bash", "--norc", "--rcfile", "f", "-c", "--", "{k}"], 6, ExecutionMode::Shell),
            (&["zsh", "+x", "-c", "{k}"], 3, ExecutionMode::Shell),
            (&["fish", "--command={k}"], 1, ExecutionMode::Code),
            (&["fish", "-c", "{k}"], 2, ExecutionMode::Code),
            (&["pwsh", "-NoProfile", "-Command", "./a", "{k}"], 4, ExecutionMode::Code),
            (&["busybox", "sh", "-c", "{k}"], 3, ExecutionMode::Shell),
            (&["env", "-i", "A=1", "sh", "-c", "{k}"], 5, ExecutionMode::Shell),
            (&["env", "-u", "A", "bash", "-c", "{k}"], 5, ExecutionMode::Shell),
            (&["env", "-S", "sh -c {k}"], 2, ExecutionMode::Line),
            (
                &["nice", "-n", "5", "timeout", "-k", "9", "5s", "dash", "-c", "{k}"],
                9,
                ExecutionMode::Shell,
            ),
            (&["sudo", "-u", "bob", "--", "sh", "-c", "{k}"], 6, ExecutionMode::Shell),
            (&["xargs", "-I", "@", "sh", "-c", "{k}"], 5, ExecutionMode::Shell),
            (&["docker", "run", "--rm", "image", "sh", "-c", "{k}"], 6, ExecutionMode::Shell),
            (&["./own", "sh", "-c", "{k}"], 3, ExecutionMode::Shell),
            (&["su", "bob", "-c", "{k}"], 3, ExecutionMode::Shell),
            (&["flock", "lock", "-c", "{k}"], 3, ExecutionMode::Shell),
            (&["script", "-q", "-c", "{k}", "out"], 3, ExecutionMode::Shell),
            (&["ssh", "-p", "22", "host", "./train", "--kernel", "{k}"], 6, ExecutionMode::Line),
            (&["nohup", "ssh", "host", "{k}"], 3, ExecutionMode::Line),
            (&["sudo", "--user", "bob", "ssh", "host", "{k}"], 5, ExecutionMode::Line),
            (&["make", "train", "KERNEL={k}"], 2, ExecutionMode::Line),
            (&["python3.12", "-c", "f('{k}')"], 2, ExecutionMode::Code),
            (&["python3", "-W", "ignore", "-Bc", "f('{k}')"], 4, ExecutionMode::Code),
            (&["python3", "-cprint('{k}')"], 1, ExecutionMode::Code),
            (&["uv", "run", "python", "-c", "{k}"], 4, ExecutionMode::Code),
            (&["perl", "-lane", "{k}"], 2, ExecutionMode::Code),
            (&["perl", "-Mstrict", "-e", "{k}"], 3, ExecutionMode::Code),
            (&["perl", "-i.before", "-e", "{k}"], 3, ExecutionMode::Code),
            (&["ruby", "-rjson", "-e", "{k}"], 3, ExecutionMode::Code),
            (&["ruby", "-r", "json", "-e", "{k}"], 4, ExecutionMode::Code),
            (&["node", "--eval={k}"], 1, ExecutionMode::Code),
            (&["node", "-pe", "{k}"], 2, ExecutionMode::Code),
            (&["deno", "eval", "{k}"], 2, ExecutionMode::Code),
            (&["php", "-r", "{k}"], 2, ExecutionMode::Code),
            (&["Rscript", "-e", "{k}"], 2, ExecutionMode::Code),
            (&["julia", "--project", "-e", "{k}"], 3, ExecutionMode::Code),
            (&["octave", "--eval", "{k}"], 2, ExecutionMode::Code),
            (&["awk", "BEGIN { print {k} }"], 1, ExecutionMode::Awk),
            (
                &["gawk", "-F", ",", "-v", "a={x}", "{ print \"{k}\" }", "file"],
                5,
                ExecutionMode::Awk,
            ),
            (&["sed", "s/a/{k}/"], 1, ExecutionMode::Line),
            (&["sed", "-i.before", "-e", "p", "-e", "s/a/{k}/"], 5, ExecutionMode::Line),
            (&["busybox", "awk", "{k}"], 2, ExecutionMode::Awk),
            (&["sbatch", "--wait", "--wrap", "echo 1 {k}"], 3, ExecutionMode::Line),
            (&["sbatch", "--wrap=echo 1 {k}"], 1, ExecutionMode::Line),
            (&["env", "BASH_ENV={k}", "bash", "./e.sh"], 1, ExecutionMode::Line),
            (&["env", "LD_PRELOAD=./{k}.so", "./train"], 1, ExecutionMode::Line),
            (&["git", "-c", "{k}", "x"], 2, ExecutionMode::Line),
            (&["ghci", "-e", "{k}"], 2, ExecutionMode::Code),
            (&["tar", "-I", "{k}", "-cf", "a"], 2, ExecutionMode::Line),
            (&["find", ".", "-exec", "{k}", ";"], 3, ExecutionMode::Line),
            (&["taskset", "-c", "0-3", "ssh", "h", "./train {k}"], 5, ExecutionMode::Line),
            (&["taskset", "0x3", "awk", "BEGIN { print {k} }"], 3, ExecutionMode::Awk),
            (&["gosu", "1000", "make", "K={k}"], 3, ExecutionMode::Line),
            (&["setarch", "-R", "ssh", "h", "{k}"], 4, ExecutionMode::Line),
            (&["setarch", "x86_64", "-R", "ssh", "h", "{k}"], 5, ExecutionMode::Line),
            (&["sudo", "--preserve-env", "{k}"], 2, ExecutionMode::Program),
            // The text would be an option, or choose the program.
            (&["sh", "{k}"], 1, ExecutionMode::Program),
            (&["python3", "-u", "{k}", "--x", "{x}"], 2, ExecutionMode::Program),
            (&["python3", "-m", "{k}"], 2, ExecutionMode::Program),
            (&["bash", "-{k}", "x"], 1, ExecutionMode::Shell),
            (&["env", "A=1", "{k}", "x"], 2, ExecutionMode::Program),
            (&["timeout", "5", "{k}"], 2, ExecutionMode::Program),
        ];
        for (line, index, way) in cases {
            assert_eq!(found(line), Some((*index, *way)), "{line:?}");
        }
    }

    #[test]
    fn data_is_not_taken_for_code() {
        for line in [
            &["./train", "--kernel", "{k}"] as &[&str],
            &["python3", "-m", "train", "{k}"],
            &["sh", "-c", "./train \"$1\"", "sh", "{k}"],
            &["bash", "-euo", "pipefail", "-c", "./train \"$1\"", "bash", "{k}"],
            &["sh", "run.sh", "-c", "{k}"],
            &["sh", "-c", "awk -v x={x} 1"],
            &["python3", "train.py", "-c", "{k}"],
            &["python3", "train.py", "--shell", "sh", "{k}"],
            &["python3", "-c", "import sys", "{k}"],
            &["python3", "-m", "train", "-c", "{k}"],
            &["python3", "-mtrain", "-c", "{k}"],
            &["python3", "train_{k}.py"],
            &["python3", "-c", "print({x})"],
            &["env", "KERNEL={k}", "./train"],
            &["git", "checkout", "{k}"],
            &["find", "data", "-name", "{k}"],
            &["tar", "-xzf", "{k}"],
            &["./train", "--path={k}", "PATH={k}"],
            &["env", "-u", "A", "KERNEL={k}", "./train", "batch", "{k}"],
            &["timeout", "60", "./train", "{k}"],
            &["nice", "-n", "5", "python3", "train.py", "{k}"],
            &["awk", "-v", "k={k}", "BEGIN { print k }"],
            &["awk", "-vk={k}", "-f", "loss.awk", "{k}"],
            &["awk", "BEGIN { print ARGV[1] }", "{k}"],
            &["sed", "-f", "script", "{k}"],
            &["perl", "-e", "print @ARGV", "{k}"],
            &["node", "train.js", "-e", "{k}"],
            &["Rscript", "train.R", "-e", "{k}"],
            &["R", "--slave", "-f", "train.R", "--args", "-e", "{k}"],
            &["julia", "train.jl", "{k}"],
            &["./train", "--kind", "node", "{k}"],
            &["./train", "--mode", "parallel", "{k}"],
            &["flock", "lock", "./train", "{k}"],
            &["taskset", "-c", "0-3", "./train", "{k}"],
            &["gosu", "1000", "train", "{k}"],
            &["uv", "run", "--frozen", "train.py", "{k}"],
            &["setsid", "--wait", "./train", "{k}"],
            &["conda", "run", "-n", "e", "--no-capture-output", "./train", "{k}"],
            &["sudo", "--preserve-env", "--", "train", "{k}"],
            &["docker", "run", "image", "./train", "{k}"],
        ] {
            assert_eq!(found(line), None, "{line:?}");
        }
    }
}

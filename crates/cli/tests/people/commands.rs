//! All commands, as listed by `--help`.

use crate::common::Sandbox;

/// A command: its words after `fedbo`, its help text, and its subcommands.
struct Listed {
    words: Vec<String>,
    help: String,
    subcommands: Vec<String>,
}

/// Returns the names in a list of subcommands.
fn subcommands(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("Commands:\n") else {
        return Vec::new();
    };
    let lines = list.lines().take_while(|line| !line.is_empty());
    // A name is indented by two spaces. Its description may continue on further lines.
    let names = lines.filter_map(|line| {
        let entry = line.strip_prefix("  ")?;
        (!entry.starts_with(' ')).then(|| entry.split_whitespace().next().unwrap().to_owned())
    });
    names.filter(|name| name != "help").collect()
}

/// Returns `fedbo` itself and all its commands, depth first.
fn all() -> Vec<Listed> {
    let sandbox = Sandbox::new();
    let mut found = Vec::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(words) = open.pop() {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = sandbox.fedbo(&arguments).expect(0, &[]).stdout.clone();
        let subcommands = subcommands(&help);
        for name in &subcommands {
            open.push([words.clone(), vec![name.clone()]].concat());
        }
        found.push(Listed { words, help, subcommands });
    }
    assert!(found.len() > 45, "{}", found.len());
    found
}

#[test]
fn every_command_is_quiet_or_verbose_when_asked_and_every_one_prints_json() {
    for command in all() {
        let name = command.words.join(" ");
        for option in ["-q, --quiet", "-v, --verbose"] {
            assert!(command.help.contains(option), "{name}: {option}");
        }
        let acts = command.subcommands.is_empty() || name == "peer";
        // Scripts have their own format.
        if acts && name != "completions" {
            assert!(command.help.contains("--json"), "{name}");
        }
        let is_parallel = ["tune", "run"].contains(&name.as_str());
        assert_eq!(command.help.contains("-j, --"), is_parallel, "{name}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let sandbox = Sandbox::new();
    let ran = sandbox.fedbo(&["man", "pages", "--json"]);
    let printed = crate::common::json(ran.expect(0, &[]));
    let mut names: Vec<String> = printed["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap().to_owned())
        .collect();
    let commands = all();
    for command in &commands {
        let page = ["fedbo".to_owned()]
            .into_iter()
            .chain(command.words.iter().cloned())
            .collect::<Vec<_>>()
            .join("-");
        let path = format!("pages/{page}.1");
        let text = std::fs::read_to_string(sandbox.path(&path)).unwrap();
        // The first line of a command's help is the summary on its manual page.
        let about = command.help.lines().next().unwrap();
        let first: Vec<&str> = about.split_whitespace().take(4).collect();
        let plain = text.replace("\\-", "-").replace("\\*(Aq", "'");
        assert!(plain.contains(".SH SYNOPSIS"), "{path}");
        assert!(plain.contains(&first.join(" ")), "{path}: {about}");
        assert!(plain.contains("quiet"), "{path}");
        for name in &command.subcommands {
            assert!(plain.contains(&format!("{page}-{name}(1)")), "{path}: {name}");
        }
        names.retain(|name| *name != path);
    }
    assert!(names.is_empty(), "pages of no command: {names:?}");
    // Repeating the command replaces the pages.
    let ran = sandbox.fedbo(&["man", "pages"]);
    let n_pages = format!("wrote {} pages to pages", commands.len());
    assert!(ran.expect(0, &[]).stdout.contains(&n_pages), "{}", ran.stdout);
    sandbox.write("plain", "");
    sandbox.fedbo(&["man", "plain/pages"]).expect(4, &["cannot create the folder plain/pages"]);
}

#[test]
fn every_shell_gets_completions_of_every_command() {
    let sandbox = Sandbox::new();
    let commands = all();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = sandbox.fedbo(&["completions", shell]);
        let script = &ran.expect(0, &[]).stdout;
        for command in &commands {
            for word in &command.words {
                assert!(script.contains(word), "{shell}: {:?}", command.words);
            }
        }
        // These are options of single commands, and global ones.
        for option in ["plain-http", "spend-again", "quiet", "verbose"] {
            assert!(script.contains(option), "{shell}: {option}");
        }
    }
    let script = sandbox.fedbo(&["completions", "bash"]).stdout.clone();
    sandbox.write("fedbo.bash", &script);
    // The shell offers exactly the existing subcommands.
    let ask = "source ./fedbo.bash; COMP_WORDS=(fedbo agent ''); COMP_CWORD=2; _fedbo fedbo '' agent; echo ${COMPREPLY[@]}";
    let Ok(output) = std::process::Command::new("bash")
        .args(["-c", ask])
        .current_dir(sandbox.folder.path())
        .output()
    else {
        return; // bash is not installed
    };
    let offered = String::from_utf8(output.stdout).unwrap();
    for name in ["enrol", "run", "status", "rotate"] {
        assert!(
            offered.split_whitespace().any(|word| word == name),
            "{offered} {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn verbose_commands_log_what_they_run_and_quiet_ones_say_little() {
    use crate::common::{LOSS, study};
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", &study(3, "sobol", LOSS));
    let ran = sandbox.fedbo(&["tune", "s.toml", "-v", "-j", "2"]);
    ran.expect(0, &["DEBUG", "starts", "FEDBO_TRIAL=\"2\"", "exit status: 0", ", 2 at once"]);
    assert!(!ran.stdout.contains("DEBUG"), "{}", ran.stdout);
    // The position before or after the subcommand makes no difference.
    for arguments in [["-q", "tune", "s.toml"], ["tune", "s.toml", "-q"]] {
        let ran = sandbox.fedbo(&arguments);
        assert_eq!(ran.expect(0, &[]).stderr, "");
        assert!(ran.stdout.starts_with("best value"), "{}", ran.stdout);
    }
    let ran = sandbox.fedbo(&["trials", "s.toml", "-q"]);
    assert_eq!(ran.expect(0, &[]).stderr, "");
    let ran = sandbox.fedbo(&["trials", "s.toml"]);
    ran.expect(0, &["3 trials, 3 told"]);
    // Errors are never suppressed.
    sandbox.fedbo(&["-q", "tune", "none.toml"]).expect(2, &["error: cannot read none.toml"]);
    sandbox.fedbo(&["tune", "s.toml", "-q", "-v"]).expect(2, &["cannot be used with"]);
}

//! Manual pages and completions, as the packages have them: nothing of the command line or of the configuration is missing, and the
//! shells take them.

// Its `main` is for the packages.
#[allow(dead_code)]
#[path = "../examples/manual.rs"]
mod manual;

use aggregator::config::schema;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Everything that can be written: each verb with those above it, and its long options.
fn collect(command: &clap::Command, above: &str, found: &mut Vec<(String, Vec<String>)>) {
    let options = command.get_arguments().filter(|option| !option.is_hide_set()).filter_map(clap::Arg::get_long);
    let page = format!("{above}{}", command.get_name());
    found.push((page.clone(), options.map(str::to_owned).collect()));
    command.get_subcommands().for_each(|verb| collect(verb, &format!("{page}-"), found));
}

fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn manual_and_completions_have_every_verb_and_option() {
    let folder = tempfile::tempdir().unwrap();
    manual::write_manual(folder.path()).unwrap();
    let mut verbs = Vec::new();
    collect(&aggregator::cli::command(), "", &mut verbs);
    assert!(verbs.len() > 20 && verbs.iter().any(|(page, _)| page == "aggregator-discover-openstack"), "{verbs:?}");
    let completions =
        ["aggregator.bash", "_aggregator", "aggregator.fish"].map(|file| (file, read(folder.path(), file)));
    for (page, options) in &verbs {
        let text = read(folder.path(), &format!("{page}.1"));
        let verb = page.rsplit('-').next().expect("a word");
        for (file, completion) in &completions {
            assert!(completion.contains(verb), "{verb} in {file}");
        }
        for option in options {
            // A hyphen in a manual page is written so that it cannot become a dash.
            assert!(text.contains(&format!("\\-\\-{}", option.replace('-', "\\-"))), "--{option} in {page}.1");
            for (file, completion) in &completions {
                let written = if *file == "aggregator.fish" { format!("-l {option}") } else { format!("--{option}") };
                assert!(completion.contains(&written), "--{option} of {verb} in {file}");
            }
        }
    }
}

#[test]
fn the_page_of_the_configuration_has_every_key() {
    let folder = tempfile::tempdir().unwrap();
    manual::write_manual(folder.path()).unwrap();
    // What is wrong with a page goes to standard error.
    let mut groff = Command::new("groff");
    groff.args(["-man", "-ww", "-Tutf8", "-rLL=500n", "-P-cbou", "aggregator.toml.5"]);
    let output = groff.current_dir(folder.path()).output().expect("groff is installed by make test");
    let (text, faults) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && faults.is_empty(), "{faults}");
    let (mut lines, mut keys) = (text.lines().map(str::trim), 0);
    for table in schema::tables() {
        let title = if table.path.is_empty() { "THE FILE" } else { table.path };
        lines.find(|line| *line == title).unwrap_or_else(|| panic!("no section {title} in its place"));
        for key in table.keys {
            keys += 1;
            let line = lines.find(|line| line.split(' ').next() == Some(key.name));
            let line = line.unwrap_or_else(|| panic!("no {} in {title}", key.name));
            assert!(line.contains(&key.takes) && line.contains(key.default), "{line}");
        }
    }
    assert!(keys > 150, "{keys}");
}

#[test]
fn bash_completes_verbs_and_options() {
    let folder = tempfile::tempdir().unwrap();
    manual::write_manual(folder.path()).unwrap();
    let complete = |words: &str| {
        let script = format!(
            "source ./aggregator.bash && complete -p aggregator && COMP_WORDS=({words}) && \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) && _aggregator aggregator \"${{COMP_WORDS[-1]}}\" && echo \"${{COMPREPLY[@]}}\""
        );
        let output = Command::new("bash").args(["--norc", "-c", &script]).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let told = complete("aggregator retr");
    assert!(told.contains("-F _aggregator aggregator\n") && told.ends_with("\nretransfer\n"), "{told}");
    let told = complete("aggregator retransfer --acc");
    assert!(told.ends_with("\n--accept\n"), "{told}");
}

#[test]
fn fish_completes_verbs_and_options() {
    let folder = tempfile::tempdir().unwrap();
    manual::write_manual(folder.path()).unwrap();
    for (line, wanted) in [("aggregator retr", "retransfer\t"), ("aggregator retransfer --acc", "--accept\t")] {
        let script = format!("source aggregator.fish; complete --do-complete '{line}'");
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", &script]).env("HOME", folder.path()).current_dir(folder.path());
        let output = fish.output().expect("fish is installed by make test");
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && told.lines().count() == 1 && told.starts_with(wanted), "{line}: {told}");
    }
}

/// Presses Tab behind each argument in an interactive zsh, whose functions are in the folder of the first argument, and
/// prints what is on its terminal then.
const TAB: &str = "zmodload zsh/zpty
zpty -b inner zsh -f -i
folder=$1; shift
seen=''
follow() { # pattern
    repeat 1000; do
        zpty -r -t inner part && seen+=$part
        [[ $seen == ${~1} ]] && return
        sleep 0.01
    done
    print -r -- \"no $1 in: $seen\"; exit 1
}
zpty -w inner \"PS1=; fpath=($folder \\$fpath); autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word; print ready-\\$((40+2))\"
follow '*ready-42*'
zpty -n -w inner \"$1\"$'\\t'
follow '*retransfer *'
zpty -n -w inner \"$2\"$'\\t'
follow '*--accept *'
zpty -d inner";

#[test]
fn zsh_completes_verbs_and_options() {
    let folder = tempfile::tempdir().unwrap();
    manual::write_manual(folder.path()).unwrap();
    let mut zsh = Command::new("zsh");
    zsh.args(["-f", "-c", TAB, "zsh"]).arg(folder.path()).args(["aggregator retr", "--acc"]);
    let output = zsh.env("TERM", "dumb").output().expect("zsh is installed by make test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

//! Manual pages and completions, as the packages have them: nothing of the command line or of the configuration is missing, and the
//! shells take them and know the zones.

mod harness;
// Its `main` is for the packages.
#[allow(dead_code)]
#[path = "../examples/manual.rs"]
mod manual;

use aggregator::config::schema;
use harness::{Aggregator, Folder, Settings, write_file};
use std::fs;
use std::path::{Path, PathBuf};
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

/// Zones and a region.
const CONFIGURATION: &str = "\
[control]
socket = \"control\"
[zones]
\"us-west-1.cns.example.com\" = \"127.0.0.1:9\"
\"us-west-2.cns.example.com\" = \"127.0.0.1:9\"
[aggregations.\"us-west.cns.example.com\"]
members = [\"us-west-1.cns.example.com\", \"us-west-2.cns.example.com\"]
";

/// A folder with the manual, the completions and a configuration, and a shell or program that works there and finds the
/// program and the configuration.
struct Place {
    folder: tempfile::TempDir,
    configuration: PathBuf,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        manual::write_manual(folder.path()).unwrap();
        let configuration = folder.path().join("aggregator.toml");
        write_file(&configuration, CONFIGURATION);
        Place { folder, configuration }
    }

    fn command(&self, program: &str) -> Command {
        let program_folder = Path::new(env!("CARGO_BIN_EXE_aggregator")).parent().unwrap();
        let path = std::env::join_paths(
            std::iter::once(program_folder.to_path_buf())
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
        );
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("PATH", path.unwrap()).env("HOME", self.folder.path());
        command.env("AGGREGATOR_CONFIG_FILE", &self.configuration).env("TERM", "dumb");
        command
    }

    /// What may stand at the end of a line, one to a line.
    fn candidates(&self, words: &[&str]) -> Vec<String> {
        let mut program = self.command(env!("CARGO_BIN_EXE_aggregator"));
        let output =
            program.env("AGGREGATOR_COMPLETE", "fish").args(["--", "aggregator"]).args(words).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
    }
}

#[test]
fn manual_and_completions_have_every_verb_and_option() {
    let place = Place::new();
    let mut verbs = Vec::new();
    collect(&aggregator::cli::command(), "", &mut verbs);
    assert!(verbs.len() > 20 && verbs.iter().any(|(page, _)| page == "aggregator-discover-openstack"), "{verbs:?}");
    for (page, options) in &verbs {
        let text = read(place.folder.path(), &format!("{page}.1"));
        let words: Vec<&str> = page.split('-').skip(1).collect();
        if let Some((verb, above)) = words.split_last() {
            let typed: Vec<&str> = above.iter().copied().chain([*verb]).collect();
            assert!(place.candidates(&typed).iter().any(|found| found == verb), "{page}");
        }
        let found = place.candidates(&words.iter().copied().chain(["--"]).collect::<Vec<_>>());
        for option in options {
            // A hyphen in a manual page is written so that it cannot become a dash.
            assert!(text.contains(&format!("\\-\\-{}", option.replace('-', "\\-"))), "--{option} in {page}.1");
            assert!(found.contains(&format!("--{option}")), "--{option} of {page} in {found:?}");
        }
    }
}

#[test]
fn zones_are_those_of_the_server_or_of_the_file() {
    let mut place = Place::new();
    let zones = ["us-west-1.cns.example.com", "us-west-2.cns.example.com", "us-west.cns.example.com"];
    assert_eq!(place.candidates(&["dump", "us"]), zones);
    assert_eq!(place.candidates(&["rollback", "US-"]), ["us-west.cns.example.com"], "regions only");
    assert_eq!(place.candidates(&["dump", "xx"]), Vec::<String>::new());
    fs::write(&place.configuration, "[zones").unwrap();
    assert_eq!(place.candidates(&["dump", "us"]), Vec::<String>::new(), "and no word about the file");
    // What the server has counts, whatever the file has become meanwhile.
    let folder = Folder::new();
    let plan = "[zones]\n\"us-east-1.cns.example.com\" = \"127.0.0.1:9\"\n";
    let daemon = Aggregator::start(&folder, plan);
    place.configuration = folder.subfolder("aggregator").join("aggregator.toml");
    daemon.write_settings(&Settings::new(&format!("{plan}\"us-east-2.cns.example.com\" = \"127.0.0.1:9\"\n")));
    assert_eq!(place.candidates(&["dump", "us"]), ["us-east-1.cns.example.com"]);
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

/// Lines, and what they become or begin with.
const LINES: [(&str, &str); 3] = [
    ("aggregator retr", "retransfer"),
    ("aggregator retransfer --acc", "--accept"),
    ("aggregator status us-west-2", "us-west-2.cns.example.com"),
];

#[test]
fn bash_completes_verbs_options_and_zones() {
    let place = Place::new();
    for (line, wanted) in LINES {
        let script = format!(
            "source ./aggregator.bash && complete -p aggregator && COMP_WORDS=({line}) && COMP_LINE='{line}' && \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) && function=$(complete -p aggregator | sed 's/.*-F \\([^ ]*\\).*/\\1/') && \
             $function aggregator \"${{COMP_WORDS[-1]}}\" && echo \"${{COMPREPLY[@]}}\""
        );
        let output = place.command("bash").args(["--norc", "-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told = String::from_utf8(output.stdout).unwrap();
        assert_eq!(told.lines().last().map(str::trim), Some(wanted), "{line}: {told}");
    }
}

#[test]
fn fish_completes_verbs_options_and_zones() {
    let place = Place::new();
    for (line, wanted) in LINES {
        let script = format!("source aggregator.fish; complete --do-complete '{line}'");
        let output = place.command("fish").args(["--no-config", "-c", &script]).output();
        let output = output.expect("fish is installed by make test");
        let told = String::from_utf8(output.stdout).unwrap();
        let first = told.split(['\t', '\n']).next();
        assert!(output.status.success() && told.lines().count() == 1 && first == Some(wanted), "{line}: {told}");
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
for line wanted in $@; do
    zpty -n -w inner \"$line\"$'\\t'
    follow \"*$wanted*\"
    zpty -n -w inner $'\\C-u'
    seen=''
done
zpty -d inner";

#[test]
fn zsh_completes_verbs_options_and_zones() {
    let place = Place::new();
    let mut zsh = place.command("zsh");
    zsh.args(["-f", "-c", TAB, "zsh"]).arg(place.folder.path());
    zsh.args(LINES.into_iter().flat_map(|(line, wanted)| [line, wanted]));
    let output = zsh.output().expect("zsh is installed by make test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

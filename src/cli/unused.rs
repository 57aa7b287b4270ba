//! Options that every verb has and some have no use for: the help of these does not show them, and whoever gives one is
//! told.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

/// Verbs, as words of the command line, with the options that mean nothing to them.
const UNUSED: [(&[&str], &[&str]); 12] = [
    (&["run"], &["socket", "json", "remote", "on", "identity", "ca"]),
    (&["boot"], &["socket", "json", "remote", "on", "identity", "ca"]),
    (&["check"], &["socket", "remote", "on", "identity", "ca"]),
    (&["top"], &["json", "on"]),
    (&["stop"], &["remote", "on", "identity", "ca"]),
    (&["demo"], &["socket", "json", "config", "remote", "on", "identity", "ca"]),
    (&["register"], &["socket", "remote", "on", "identity", "ca"]),
    (&["discover"], &["socket", "config", "remote", "on", "identity", "ca"]),
    (&["announce"], &["socket", "json", "remote", "on", "identity", "ca"]),
    (&["cns", "convert"], &["socket", "config", "remote", "on", "identity", "ca"]),
    (&["cns", "tag"], &["socket", "config", "remote", "on", "identity", "ca"]),
    (&["version"], &["socket", "config", "remote", "identity", "ca"]),
];

/// Hides options from the help of verbs that have no use for them.
pub fn hide(command: Command) -> Command {
    UNUSED.iter().fold(command, |command, (verb, options)| {
        let unused = command.get_arguments().filter(|option| options.contains(&option.get_id().as_str()));
        let hidden = unused.map(|option| option.clone().hide(true)).collect();
        add(command, verb, hidden)
    })
}

/// Adds options to a verb. What a verb has of its own stands in place of what all have.
fn add(command: Command, verb: &[&str], options: Vec<Arg>) -> Command {
    match verb {
        [] => command.args(options),
        // All are passed, because a single one would lose its place in the help.
        [first, rest @ ..] => command.mut_subcommands(|verb| match verb.get_name() == *first {
            true => add(verb, rest, options.clone()),
            false => verb,
        }),
    }
}

/// Finds an option that was given and that the verb has no use for.
pub fn find(given: &ArgMatches) -> Option<&'static str> {
    let is_verb = |words: &[&str]| {
        let mut at = given;
        words.iter().all(|word| at.subcommand().is_some_and(|(name, inner)| (name == *word, at = inner).0))
    };
    let is_given = |option: &&&str| given.value_source(option) == Some(ValueSource::CommandLine);
    UNUSED.iter().filter(|(verb, _)| is_verb(verb)).find_map(|(_, options)| options.iter().find(is_given)).copied()
}

#[cfg(test)]
mod tests {
    use super::super::command;
    use super::*;

    /// The help of a verb.
    fn help(words: &[&str]) -> String {
        let mut command = command();
        command.build();
        let verb = words.iter().fold(&mut command, |verb, word| verb.find_subcommand_mut(word).expect("a verb"));
        verb.render_long_help().to_string()
    }

    #[test]
    fn help_offers_what_a_verb_takes() {
        for (verb, options) in UNUSED {
            let help = help(verb);
            let offered: Vec<_> = options
                .iter()
                .filter(|option| help.contains(&format!("--{option} ")) || help.contains(&format!("--{option}\n")))
                .collect();
            assert!(offered.is_empty(), "{verb:?} offers {offered:?}:\n{help}");
        }
        let of_verbs_below = help(&["discover", "openstack"]);
        assert!(!of_verbs_below.contains("--socket") && of_verbs_below.contains("--json"), "{of_verbs_below}");
        let help = help(&["status"]);
        assert!(["--socket", "--config", "--json"].iter().all(|option| help.contains(option)), "{help}");
    }

    #[test]
    fn what_means_nothing_is_found_wherever_it_stands() {
        let found = |words: &[&str]| {
            let given = command().try_get_matches_from([&["aggregator"], words].concat());
            find(&given.unwrap_or_else(|error| panic!("{words:?}: {error}")))
        };
        assert_eq!(found(&["version", "-s", "x"]), Some("socket"));
        assert_eq!(found(&["-s", "x", "version"]), Some("socket"));
        assert_eq!(found(&["run", "--json"]), Some("json"));
        assert_eq!(found(&["cns", "tag", "web", "-c", "x"]), Some("config"));
        assert_eq!(found(&["cns", "status", "-c", "x", "-s", "y", "--json"]), None);
        assert_eq!(found(&["status", "-c", "x", "--json"]), None);
    }
}

//! `--on HOST`: one verb at several servers.
//!
//! Each host gets the same command line but for `--on`. A host that is written as a URL is a server that takes orders over HTTPS;
//! any other is a destination of ssh, at which `aggregator` is run. Verbs that only read run everywhere at once; the others
//! run at one host after the other, and the first failure ends it, so that a mistake meets one server and not all.
//!
//! Invariants: what is printed stands in the order of the hosts; the exit code is that of the first that failed.
//!
//! Cost: a process for each host.

use super::{FAILED, Outcome, fail, misuse, print_json};
use serde_json::{Map, Value, json};
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, ExitCode, Output, Stdio};

/// The program that reaches hosts, unless the environment names another.
const SSH: &str = "ssh";
/// Environment variable with that program and its options.
const SSH_VARIABLE: &str = "AGGREGATOR_SSH";
/// The option itself.
const OPTION: &str = "--on";

/// Verbs that may run at several hosts, with whether they only read.
const VERBS: [(&str, bool); 14] = [
    ("status", true),
    ("lookup", true),
    ("history", true),
    ("diff", true),
    ("dump", true),
    ("version", true),
    ("reload", false),
    ("refresh", false),
    ("retransfer", false),
    ("notify", false),
    ("drain", false),
    ("undrain", false),
    ("rollback", false),
    ("cns", false),
];

/// Runs a verb at each host; `line` is the whole command line.
pub fn run(hosts: &[String], verb: &str, line: &[OsString], json: bool) -> Outcome {
    let Some((_, reads)) = VERBS.iter().find(|(name, _)| *name == verb) else {
        let verbs: Vec<&str> = VERBS.iter().map(|(name, _)| *name).collect();
        return Err(misuse(format!("{verb} runs on one host at a time; {OPTION} is for {}", verbs.join(", "))));
    };
    if let Some(host) = hosts.iter().find(|host| host.is_empty() || host.starts_with('-')) {
        return Err(misuse(format!("\"{host}\" is no host")));
    }
    let arguments = without_hosts(line);
    let mut results = Map::new();
    let mut first_failure = None;
    let mut waiting: Vec<io::Result<Child>> = Vec::new();
    if *reads {
        waiting = hosts.iter().map(|host| start(host, &arguments, true, false)).collect();
    }
    let mut waiting = waiting.into_iter();
    for (index, host) in hosts.iter().enumerate() {
        // What asks shows its question at once; what only reads is shown when it is whole.
        if !json {
            head(host, index);
        }
        let child = waiting.next().unwrap_or_else(|| start(host, &arguments, json, !json));
        let ended = child.and_then(Child::wait_with_output);
        let Output { status, stdout, stderr } = ended.map_err(|error| fail(format!("{host}: {error}")))?;
        let _ = io::stderr().write_all(&stderr);
        if json {
            let value = serde_json::from_slice(&stdout).unwrap_or_else(|_| {
                let text = if stdout.is_empty() { &stderr } else { &stdout };
                json!({ "error": String::from_utf8_lossy(text).trim_end() })
            });
            results.insert(host.clone(), value);
        } else if let Err(error) = io::stdout().write_all(&stdout)
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Err(fail(format!("cannot write the output: {error}")));
        }
        if !status.success() {
            let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED);
            first_failure.get_or_insert((host, code));
            if !reads {
                let _ = writeln!(io::stderr(), "{}", describe_end(verb, hosts, index));
                break;
            }
        }
    }
    let printed = if json { print_json(&Value::Object(results)) } else { Ok(ExitCode::SUCCESS) };
    match first_failure {
        Some((_, code)) => printed.and(Ok(ExitCode::from(code))),
        None => printed,
    }
}

/// Prints which host comes now.
fn head(host: &str, index: usize) {
    let between = if index == 0 { "" } else { "\n" };
    // A reader that has gone is found out by what follows.
    let _ = writeln!(io::stdout(), "{between}== {host}");
    let _ = io::stdout().flush();
}

/// Tells where a verb was carried out and where it was not, after it failed at one host.
fn describe_end(verb: &str, hosts: &[String], failed: usize) -> String {
    let list = |hosts: &[String]| if hosts.is_empty() { "none".to_owned() } else { hosts.join(", ") };
    format!(
        "{verb} failed at {}; done at: {}; not tried: {}",
        hosts[failed],
        list(&hosts[..failed]),
        list(&hosts[failed + 1..])
    )
}

/// The command line without the program and without hosts.
fn without_hosts(line: &[OsString]) -> Vec<OsString> {
    let mut arguments = Vec::new();
    let mut rest = line.iter().skip(1);
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some(OPTION) => _ = rest.next(),
            Some(text) if text.strip_prefix(OPTION).is_some_and(|value| value.starts_with('=')) => {}
            // Behind it nothing is an option.
            Some("--") => {
                arguments.push(argument.clone());
                arguments.extend(rest.by_ref().cloned());
            }
            _ => arguments.push(argument.clone()),
        }
    }
    arguments
}

/// Starts the verb at a host; captured, or with our own output. It may ask who sits at the terminal if `may_ask`.
fn start(host: &str, arguments: &[OsString], is_captured: bool, may_ask: bool) -> io::Result<Child> {
    let mut command = if host.starts_with("https://") {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--remote").arg(host).args(arguments);
        command
    } else {
        let ssh = std::env::var(SSH_VARIABLE).unwrap_or_else(|_| SSH.to_owned());
        let mut words = ssh.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or(SSH));
        command.args(words);
        if may_ask && io::stdin().is_terminal() {
            command.arg("-t");
        }
        command.arg(host).arg("--").arg(quote_all(arguments));
        command
    };
    command.stdin(if may_ask { Stdio::inherit() } else { Stdio::null() });
    if is_captured {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    command.spawn()
}

/// The command line for the shell at the other end.
fn quote_all(arguments: &[OsString]) -> OsString {
    let mut line = OsString::from("aggregator");
    for argument in arguments {
        line.push(" ");
        line.push(quote(argument));
    }
    line
}

/// A word as a shell reads it.
fn quote(word: &OsStr) -> OsString {
    let text = word.to_string_lossy();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./:=,@+".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''")).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<OsString> {
        line.iter().map(OsString::from).collect()
    }

    #[test]
    fn hosts_are_taken_out_of_the_line_and_nothing_else() {
        let line = words(&["aggregator", "--on", "a,b", "drain", "--on=c", "dc", "--reason", "--onward", "--", "--on"]);
        assert_eq!(without_hosts(&line), words(&["drain", "dc", "--reason", "--onward", "--", "--on"]));
    }

    #[test]
    fn a_shell_reads_what_was_written() {
        for word in ["plain", "", "two words", "it's", "$(reboot)", "`reboot`", "*.svc", "a;b", "\"", "\\", "é", "a\nb"]
        {
            let line = quote_all(&words(&[word, "end"])).into_string().expect("text");
            let script = format!("aggregator() {{ printf '%s\\000' \"$@\"; }}; {line}");
            let output = Command::new("sh").arg("-c").arg(script).output().expect("a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{word}\0end\0"), "{line}");
        }
    }

    #[test]
    fn after_a_failure_it_is_told_how_far_it_came() {
        let hosts = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(describe_end("reload", &hosts, 1), "reload failed at b; done at: a; not tried: c");
        assert_eq!(describe_end("reload", &hosts[..1], 0), "reload failed at a; done at: none; not tried: none");
    }
}

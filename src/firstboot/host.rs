//! Settings from the host, put into effect: the network, and the keys for logging in. The configuration is left to
//! others.
//!
//! Invariant: what the host does not say stays as it is, and what is wrong there is told and left out.
//!
//! Cost: one short conversation, which holds its thread up.

use super::find::{self, NetworkKeys, Told};
use super::{Plan, login, network, say};
use std::process::{Command, Stdio};

/// Asks the host, if there is one, and sets up the network and the keys for logging in.
pub fn ask(plan: &Plan) -> Told {
    let mut told = find::ask_host(plan);
    told.network_problems = set_network(plan, told.network.take());
    set_login(plan, told.login.take());
    told
}

/// Sets up the network as the host describes it; returns the problems. Settings that it does not describe stay.
fn set_network(plan: &Plan, keys: Option<NetworkKeys>) -> Vec<String> {
    let mut problems = Vec::new();
    let (Some(folder), Some(keys)) = (&plan.network, keys) else { return problems };
    if let Some(Err(error)) = keys.host_name.as_deref().map(network::set_host_name) {
        problems.push(format!("cannot set the host name: {error}"));
    }
    if keys.nics.is_none() {
        return problems;
    }
    let written = network::describe(&keys, &mut problems)
        .and_then(|files| network::write_files(folder, &files).map_err(|error| error.to_string()));
    match written {
        // Before networkd runs, it finds the files by itself, and this fails, as it may.
        Ok(true) if !plan.only_network => {
            say("the network has been set up anew");
            // The first needs a message bus, which small systems lack; the second changes more than it must.
            let done = has_succeeded("networkctl", &["reload"])
                || has_succeeded("systemctl", &["try-restart", "systemd-networkd.service"]);
            if !done {
                say("systemd-networkd could not be told");
            }
        }
        Ok(_) => {}
        Err(error) => problems.push(error),
    }
    problems
}

/// Writes the keys for logging in, if the host has said whether it has any.
fn set_login(plan: &Plan, keys: Option<Option<String>>) {
    let (Some(file), Some(keys)) = (&plan.login, keys) else { return };
    match login::write_keys(file, keys.as_deref()) {
        Ok(true) if keys.is_some() => say(&format!("{} in metadata may log in", login::KEY)),
        Ok(true) => say(&format!("metadata has no {} any more; nobody may log in", login::KEY)),
        Ok(false) => {}
        Err(error) => say(&format!("cannot write {}: {error}", file.display())),
    }
}

/// Runs a program; whether it succeeded.
fn has_succeeded(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

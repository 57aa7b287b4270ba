//! `aggregator check --security`: the rights that a server with the configuration would give up on this machine, the
//! owners of what it must read and write, and what is in force for the server that runs.
//!
//! Cost: O(files that the configuration names).

use crate::cli::block_on;
use crate::config::Config;
use crate::config::problem::{Kind, Problem};
use crate::control::{self, Request};
use crate::daemon::rights;
use crate::security::account::{self, Account};
use crate::security::files::{self, Restriction};
use crate::security::process::name_capabilities;
use crate::security::{Sandbox, calls, privileges};
use crate::view::security::{Item, describe, describe_files};
use serde::Deserialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// Longest wait for a running server.
const PATIENCE: Duration = Duration::from_secs(5);

/// Findings on rights.
pub struct Security {
    /// As it would be for a server that is started now by whoever asks.
    here: Vec<Item>,
    running: Option<Running>,
    pub warnings: Vec<Problem>,
    pub notes: Vec<Problem>,
}

/// What the server that runs tells of itself.
#[derive(Deserialize)]
struct Running {
    process: u32,
    items: Vec<Item>,
}

/// Looks at everything.
pub fn examine(config: &Config) -> Security {
    let here = foresee(config);
    let (mut warnings, mut notes) = (Vec::new(), Vec::new());
    let mut warn = |place: &str, items: &[Item]| {
        let open = items.iter().filter(|item| !item.held);
        warnings
            .extend(open.map(|item| Problem::plain(Kind::Rights, format!("{place}: {}: {}", item.item, item.text))));
    };
    warn("here", &here);
    let running = match ask(config) {
        Asked::Told(running) => {
            warn("running server", &running.items);
            Some(running)
        }
        Asked::Nobody => None,
        Asked::Silent(reason) => {
            let text = format!("the running server does not tell its rights: {reason}");
            notes.push(Problem::plain(Kind::Rights, text));
            None
        }
    };
    Security { here, running, warnings, notes }
}

impl Security {
    /// The items for people.
    pub fn text(&self, config: &Config) -> String {
        let mut text = format!("rights of a server that is started here with {}\n", config.path.display());
        text += &describe(&self.here);
        match &self.running {
            Some(Running { process, items }) => {
                text += &format!("rights of the running server, process {process}\n{}", describe(items));
            }
            None => text += "no server that tells its rights runs with this control socket\n",
        }
        text
    }

    /// The items for programs.
    pub fn json(&self) -> serde_json::Value {
        let running = self.running.as_ref();
        let running = running.map(|running| serde_json::json!({ "process": running.process, "items": running.items }));
        serde_json::json!({ "here": self.here, "running": running })
    }
}

/// What came of asking a running server.
enum Asked {
    Told(Running),
    Nobody,
    Silent(String),
}

/// Asks the server that has the control socket.
fn ask(config: &Config) -> Asked {
    let socket = &config.control.socket;
    if !control::is_answering(socket) {
        return Asked::Nobody;
    }
    let reply = block_on(async { timeout(PATIENCE, control::call(socket, &Request::Security)).await });
    match reply {
        Ok(Ok(Ok(reply))) if reply.ok => match serde_json::from_value(reply.data) {
            Ok(running) => Asked::Told(running),
            Err(error) => Asked::Silent(error.to_string()),
        },
        Ok(Ok(Ok(reply))) => Asked::Silent(reply.text.trim_end().to_owned()),
        Ok(Ok(Err(error))) | Err(error) => Asked::Silent(error.to_string()),
        Ok(Err(_)) => Asked::Silent("it is busy".to_owned()),
    }
}

/// Foretells the rights of a server that is started now.
fn foresee(config: &Config) -> Vec<Item> {
    let plan = &config.security;
    let own = rustix::process::geteuid().as_raw();
    let mut items = Vec::new();
    let found = plan.user.as_deref().map(|user| account::find(user, plan.group.as_deref()));
    let user = match &found {
        Some(Err(error)) if own == 0 => {
            items.push(Item::new("user", false, error.to_string()));
            None
        }
        Some(Ok(account)) if own == 0 && account.user != 0 => {
            let text = format!("{}, which it becomes when root starts it", account.name);
            items.push(Item::new("user", true, text));
            Some(account)
        }
        Some(Ok(account)) if own == account.user => {
            items.push(Item::new("user", own != 0, account.name.clone()));
            Some(account)
        }
        _ => {
            let advice = if own == 0 { "; write user = \"NAME\" in [security]" } else { "" };
            items.push(Item::new("user", own != 0, format!("{}, who starts it{advice}", account::name_of(own))));
            None
        }
    };
    let stays_root = own == 0 && user.is_none();
    let needed = privileges::NEEDED.union(if stays_root { privileges::ROOTS_FILES } else { privileges::NEEDED });
    let is_on = plan.sandbox != Sandbox::Off;
    let off = "nothing is given up, with sandbox = \"off\"";
    let text = match is_on || user.is_some() {
        true => format!("{} at most", name_capabilities(needed.bits())),
        false => off.to_owned(),
    };
    items.push(Item::new("capabilities", (is_on || user.is_some()) && !stays_root, text));
    items.push(Item::new("no_new_privs", is_on, if is_on { "yes" } else { off }));
    items.push(match plan.sandbox {
        Sandbox::Off => Item::new("system calls", false, off),
        Sandbox::Log => Item::new("system calls", false, "logged, not refused, with sandbox = \"log\""),
        Sandbox::On => match calls::is_available() {
            Ok(()) => Item::new("system calls", true, format!("{} refused (seccomp)", calls::count())),
            Err(error) => Item::new("system calls", false, error.to_string()),
        },
    });
    items.push(match (plan.sandbox, files::version()) {
        (Sandbox::On, Some(version)) => {
            let paths = rights::paths(config);
            let (read, write, sockets) = (paths.read, paths.write, paths.sockets);
            Item::new("files", true, describe_files(&Restriction { version, read, write, sockets }))
        }
        (Sandbox::On, None) => Item::new("files", false, files::FilesError::Missing.to_string()),
        _ => Item::new("files", false, "not restricted, without sandbox = \"on\""),
    });
    items.push(Item::new(
        "memory",
        is_on,
        if is_on { "hidden from other processes of the user, no core dumps" } else { off },
    ));
    items.extend(describe_paths(config, user));
    items
}

/// The owners and modes of what the server reads and writes, and whether the user that it becomes may.
fn describe_paths(config: &Config, user: Option<&Account>) -> Vec<Item> {
    let mut items = Vec::new();
    let of_orders = config.control.https.as_ref().map(|https| &https.tls);
    let keys: Vec<&PathBuf> = config.listen.tls.iter().chain(of_orders).map(|tls| &tls.key).collect();
    for path in &config.named_paths {
        let is_ours = config.state.as_ref() == Some(path) || config.control.socket == *path;
        let Ok(about) = fs::metadata(path) else { continue };
        let is_public = about.mode() & 0o004 != 0;
        if is_ours || !about.is_file() {
            continue;
        }
        let readable = user.is_none_or(|user| may(&about, user, 0o4));
        let mut text = owner(path, &about);
        if !readable {
            text += &format!("; user {} cannot read it", user.map_or("", |user| &user.name));
        }
        if keys.contains(&path) && is_public {
            items.push(Item::new("secret file", false, format!("{text}; everybody can read it, run chmod 640")));
        } else if !is_public {
            items.push(Item::new("secret file", readable, text));
        } else if !readable {
            items.push(Item::new("file", false, text));
        }
    }
    if let Some(folder) = &config.state {
        items.push(match fs::metadata(folder) {
            Ok(about) => {
                // What belongs to root is handed over.
                let writable = user.is_none_or(|user| about.uid() == 0 || may(&about, user, 0o3));
                let is_closed = about.mode() & 0o007 == 0;
                let more = if writable { "" } else { "; the user cannot write there" };
                Item::new("state folder", writable && is_closed, owner(folder, &about) + more)
            }
            Err(_) => Item::new("state folder", true, format!("{}, which is made at the start", folder.display())),
        });
    }
    let socket = &config.control;
    let told = match fs::symlink_metadata(&socket.socket) {
        Ok(about) => owner(&socket.socket, &about),
        Err(_) => format!("{}, made with mode {:04o}", socket.socket.display(), socket.mode),
    };
    items.push(Item::new("control socket", socket.mode & 0o007 == 0, told));
    items
}

/// The path, mode and owner of something.
fn owner(path: &Path, about: &fs::Metadata) -> String {
    format!("{}, mode {:04o}, user {}", path.display(), about.mode() & 0o7777, account::name_of(about.uid()))
}

/// Returns true if a user has these rights, as three bits.
fn may(about: &fs::Metadata, user: &Account, bits: u32) -> bool {
    let shift = match () {
        () if about.uid() == user.user => 6,
        () if about.gid() == user.group || user.groups.contains(&about.gid()) => 3,
        () => 0,
    };
    about.mode() >> shift & bits == bits
}

//! The rights of the running server, item by item, as the kernel and the server itself tell them.
//!
//! Invariant: what is told as held was asked of the kernel for every thread, but for the paths of Landlock, which only
//! the process knows.
//!
//! Cost: a small file for each thread.

use crate::control::Reply;
use crate::security::process::{self, Rights, name_capabilities};
use crate::security::{self, Confinement, Sandbox, account, files::Restriction, privileges};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::PathBuf;

/// Something that restrains the server, or does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub item: String,
    /// True if it is as it should be.
    pub held: bool,
    pub text: String,
}

impl Item {
    /// An item with what is told of it.
    pub fn new(item: &str, held: bool, text: impl Into<String>) -> Item {
        Item { item: item.to_owned(), held, text: text.into() }
    }
}

/// Writes items, a line each; an exclamation mark stands before those that are not as they should be.
pub fn describe(items: &[Item]) -> String {
    let mut text = String::new();
    for Item { item, held, text: told } in items {
        let mark = if *held { ' ' } else { '!' };
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{mark} {item:<15} {told}");
    }
    text
}

/// Answers what is in force for this process.
pub fn tell() -> Result<Reply, String> {
    let rights = process::own().map_err(|error| format!("cannot read the rights of this process: {error}"))?;
    let items = items(&rights, security::confinement(), privileges::is_memory_hidden());
    let process = std::process::id();
    let text = format!("rights of the running server, process {process}\n{}", describe(&items));
    Ok(Reply { ok: true, text, data: serde_json::json!({ "process": process, "items": items }) })
}

/// The items of a process, from the rights of its threads and what it has noted.
fn items(rights: &[Rights], confinement: Option<&Confinement>, is_hidden: bool) -> Vec<Item> {
    let mut items = Vec::new();
    let all = |held: fn(&Rights) -> bool| !rights.is_empty() && rights.iter().all(held);
    let list = |of: &dyn Fn(&Rights) -> String| {
        let mut told: Vec<String> = rights.iter().map(of).collect();
        told.sort_unstable();
        told.dedup();
        told.join(" in one thread, in another ")
    };
    items.push(Item::new("user", all(|r| r.user != 0), list(&|r| account::name_of(r.user))));
    let is_least = |r: &Rights| r.permitted & !privileges::NEEDED.bits() == 0;
    items.push(Item::new("capabilities", all(is_least), list(&|r| name_capabilities(r.permitted))));
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    // What no program can gain needs no bound.
    let is_bounded = |r: &Rights| r.no_new_privs || r.bounding & !privileges::NEEDED.bits() == 0;
    items.push(Item::new("bounding set", all(is_bounded), list(&|r| name_capabilities(r.bounding))));
    items.push(Item::new("no_new_privs", all(|r| r.no_new_privs), list(&|r| yes(r.no_new_privs))));
    let own = confinement.and_then(|confinement| confinement.calls);
    let sandbox = confinement.map(|confinement| confinement.sandbox);
    let told = match (own, sandbox) {
        (Some(calls), Some(Sandbox::Log)) => format!("{calls} are logged, none refused (seccomp)"),
        (Some(calls), _) => format!("{calls} refused (seccomp)"),
        (None, _) if all(|r| r.filtered) => "filtered by the service manager (seccomp)".to_owned(),
        _ => "not filtered".to_owned(),
    };
    let is_filtered = all(|r| r.filtered) && sandbox != Some(Sandbox::Log);
    items.push(Item::new("system calls", is_filtered, told));
    match confinement.and_then(|confinement| confinement.files.as_ref()) {
        Some(restriction) => items.push(Item::new("files", true, describe_files(restriction))),
        None => items.push(Item::new("files", false, "not restricted")),
    }
    let told = if is_hidden { "hidden from other processes of the user, no core dumps" } else { "not hidden" };
    items.push(Item::new("memory", is_hidden, told));
    let missing = confinement.iter().flat_map(|confinement| &confinement.missing);
    items.extend(missing.map(|text| Item::new("missing", false, text.clone())));
    items
}

/// Describes what Landlock allows.
pub fn describe_files(Restriction { version, read, write, sockets }: &Restriction) -> String {
    let list = |paths: &[PathBuf]| {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        if paths.is_empty() { "nothing".to_owned() } else { paths.join(", ") }
    };
    let (read, write, sockets) = (list(read), list(write), list(sockets));
    format!("Landlock {version}: the system's and {read} are read, {write} written, sockets made in {sockets}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread of a confined server.
    fn thread() -> Rights {
        let (effective, permitted, bounding) = (0x400, 0x400, 0x400);
        let groups = vec![9];
        Rights {
            user: 123_456,
            group: 9,
            groups,
            effective,
            permitted,
            bounding,
            no_new_privs: true,
            filters: 2,
            filtered: true,
        }
    }

    /// What is told of threads that are not all as they should be.
    fn open(rights: &[Rights]) -> Vec<String> {
        let paths = || vec![PathBuf::from("/a")];
        let files = Some(Restriction { version: 7, read: paths(), write: paths(), sockets: paths() });
        let (user, missing) = (None, Vec::new());
        let confinement = Confinement { files, calls: Some(66), sandbox: Sandbox::On, user, missing };
        let items = items(rights, Some(&confinement), true);
        items.into_iter().filter(|item| !item.held).map(|item| format!("{}: {}", item.item, item.text)).collect()
    }

    #[test]
    fn one_thread_with_more_rights_is_seen() {
        assert_eq!(open(&[thread()]), Vec::<String>::new());
        assert_eq!(open(&[thread(), Rights { user: 0, ..thread() }]), ["user: 123456 in one thread, in another root"]);
        let more = Rights { permitted: 0x600, bounding: 0x600, no_new_privs: false, filtered: false, ..thread() };
        let told = open(&[thread(), more]);
        let items: Vec<&str> = told.iter().filter_map(|text| Some(text.split_once(':')?.0)).collect();
        assert_eq!(items, ["capabilities", "bounding set", "no_new_privs", "system calls"]);
        assert_eq!(open(&[]).len(), 5, "a process whose rights nobody knows is not told to be confined");
    }
}

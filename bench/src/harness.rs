//! What the bench shares with the system tests: child processes that end with their owner, free ports, folders that
//! remove themselves, waiting for conditions, a browser.
//!
//! Cost: a wait looks every ten milliseconds, so nothing that is timed goes through here.

// The tests use more of it.
#![allow(dead_code)]

#[path = "../../tests/harness/browser.rs"]
mod browser;
#[path = "../../tests/harness/folder.rs"]
mod folder;
#[path = "../../tests/harness/ports.rs"]
mod ports;
#[path = "../../tests/harness/process.rs"]
mod process;
#[path = "../../tests/harness/wait.rs"]
mod wait;
#[path = "../../tests/harness/znodes.rs"]
mod znodes;
#[path = "../../tests/harness/zookeeper.rs"]
mod zookeeper;

pub use browser::Browser;
pub use folder::{Folder, write_file};
pub use ports::Port;
pub use process::Process;
pub use wait::wait_until;
pub use znodes::Znodes;
pub use zookeeper::ZooKeeper;

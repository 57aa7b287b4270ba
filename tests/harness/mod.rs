//! Shared parts of the system tests: real name servers and our own daemon as child processes, a small DNS client, and
//! records that can be compared.
//!
//! Nothing in here uses code of the crate under test, so that a mistake there cannot hide itself. Every wait is for
//! a condition with a deadline; every process ends with the value that owns it; every file lies in a folder that
//! removes itself. A server that is not installed fails the test.

// Every test crate compiles the whole harness and uses its own part of it.
#![allow(dead_code, unused_imports)]

mod aggregator;
mod browser;
mod certificate;
mod client;
mod dname;
mod documents;
mod folder;
mod knotd;
mod manager;
mod merge;
mod message;
mod metadata;
mod named;
mod net;
mod nsd;
mod peer;
mod ports;
mod primary;
mod process;
mod prometheus;
mod random;
mod record;
mod registrar;
mod relay;
mod resolver;
mod secondary;
mod storm;
mod terminal;
mod text;
mod unloadable;
mod wait;
mod yaml;
mod znodes;
mod zookeeper;

pub use aggregator::{Aggregator, Output, Settings, run_verb};
pub use browser::{Browser, target_file};
pub use certificate::{certify, found, sign};
pub use client::{Client, Query, decode, read_frame, write_frame};
pub use dname::Dname;
pub use documents::write_table;
pub use folder::{Folder, write_file};
pub use knotd::Knotd;
pub use manager::ServiceManager;
pub use merge::Region;
pub use message::{Edns, Message};
pub use metadata::{Habit, MetadataHost};
pub use named::Named;
pub use net::Net;
pub use nsd::Nsd;
pub use peer::{COOKIE_SECRET, KEY_NAME, KEY_SECRET, Peer, ZoneText, program_path};
pub use ports::Port;
pub use primary::{Edit, Primary, PrimaryPlan};
pub use process::Process;
pub use prometheus::{Alert, Labels, Prometheus};
pub use random::Random;
pub use record::{Record, difference, rtype, type_text};
pub use registrar::Registrar;
pub use relay::{Questions, Relay, Weather};
pub use resolver::PackagedResolver;
pub use secondary::{Secondary, SecondaryPlan, TsigKey};
pub use storm::{Storm, StormPlan, Toll};
pub use terminal::Terminal;
pub use text::{read_capture, read_zone, write_zone};
pub use unloadable::start_unloadable_primary;
pub use wait::wait_until;
pub use yaml::{PYTHON, read_yaml, repository_file, repository_text, run_tool};
pub use znodes::Znodes;
pub use zookeeper::{Ensemble, ZooKeeper};

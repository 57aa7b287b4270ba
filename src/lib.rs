//! The CNS aggregator: zones of several Triton datacenters in, region zones out.
//!
//! ```text
//!  primaries ──► transfer ──Update──► keeper ──► Published ──► serve ──► clients
//!                                      │  ▲        (one pointer)
//!                                  merge, rewrite
//! ```
//!
//! `docs/architecture.md` has the whole picture, the threads, and the way of a query, a transfer, a NOTIFY and a reload.
//! The map, in the order in which the layers build on each other; an import goes down only (`tests/layering.rs`).
//!
//! Below the layers are the crates of `crates/`: [`wire`] has names, records, serials, messages and signatures,
//! [`settings`] the values of configuration files with their positions, [`relay`] the limit of what ZooKeeper may send,
//! [`registrar`] the agent that registers a service there and what it writes, [`sim`] datacenters that exist only in a
//! process.
//!
//! **Counting and showing.** [`metrics`] holds counters and their Prometheus names, [`timestamp`] points in time as text,
//! [`terminal`] what a terminal can do, and bars on it. [`log`] has the set-up of log lines, which go between those
//! bars.
//!
//! **Limits.** [`accept`] paces listeners that cannot accept, [`acl`] says who may have what, by address, host and key,
//! [`budget`] how much memory zones may take; [`restart`] runs a task again after a panic. [`client`] asks other
//! servers. [`security`] gives up what the process does not need.
//!
//! **Zones.** [`zone`] is an immutable version of a zone in a persistent table, the editor that makes the next version,
//! the loader and the patcher that turn transfers into one, differences of versions, and their history.
//!
//! **Publishing and renaming.** [`publish`] is the root that all readers take: every zone, behind one atomic pointer.
//! [`select`] chooses the records of a large set that one answer has, [`clients`] knows
//! which datacenter is whose home. [`rate_limit`] counts the answers that a network gets, [`cookie`] knows clients whose
//! addresses are not forged. [`tap`] gives copies of queries and responses to those who watch,
//! [`trace`] what became of each change.
//! [`rewrite`] moves one owner name and its records from a member zone to a region. [`catalog`] lists what is served,
//! as a zone, and reads what the catalogs of other servers list; [`static_zone`] makes zones of records that the configuration has itself,
//! [`source::zookeeper::zones`] of the nodes that Registrar writes into ZooKeeper.
//!
//! **Merging.** [`merge`] makes a region as a pure function of its members, name by name; all names or only those that
//! changed, with the same result; and tells of any name which member gave what.
//!
//! **Messages and answers.** [`source`] holds the messages between sources and keeper. [`serve::answer`] turns a
//! request into a response, [`serve::prefetch`] has memory ready for it, [`serve::notify`] takes announcements,
//! [`serve::xfr`] gives zones to secondaries; [`serve::respond`] chooses among them and sees to signatures,
//! [`serve::limit`] cuts what is over the rate limit, and
//! [`serve::refusals`] keeps floods of those who are turned away out of the log. No sockets. [`notify`] announces to
//! secondaries what has been published. [`state`] keeps on disk what a restart begins with.
//!
//! **The writer and the ways in.** [`keeper`] is the one task that changes what is served. [`transfer`] is a task for
//! each zone that polls its primaries and transfers it. [`source::zookeeper`] is a task for each tree of ZooKeeper's,
//! which mirrors it and feeds the zones that are made of it; [`source::inventory`] a task for each inventory of
//! instances; [`source::static_zone`] has its zones at once. They meet only
//! in messages. [`probe`] compares what the name servers of a zone say, and what its parent says of them.
//!
//! **Edges.** [`serve`] has the sockets: UDP threads, TCP, TLS, HTTP for monitoring and the status page, with
//! [`serve::places`], which decides whose connection is closed for a newcomer's. [`control`] is the operators' socket,
//! [`schedule`] the audit's clock, [`config`] the file, turned into the plans of the layers below. [`systemd`] tells
//! the service manager how we are and leaves it our sockets over a restart; [`metadata`] asks the host of a Triton
//! instance. [`discover`] finds services, and announces them on the local link.
//!
//! **The whole.** [`view`] shows everything: status, explanations of names, earlier versions, pages. [`daemon`] starts
//! everything from a configuration, changes it on reload, carries out orders, and stops it. [`firstboot`] finds the
//! configuration of an instance that was only just made, and follows it. [`demo`] runs the daemon beside primaries that
//! exist only in the process. [`cli`] is the command line.

#![warn(clippy::undocumented_unsafe_blocks)]

pub mod accept;
pub mod acl;
pub mod budget;
pub mod catalog;
pub mod cli;
pub mod client;
pub mod clients;
pub mod config;
pub mod control;
pub mod cookie;
pub mod daemon;
pub mod demo;
pub mod discover;
pub mod firstboot;
pub mod keeper;
pub mod log;
pub mod merge;
pub mod metadata;
pub mod metrics;
pub mod notify;
pub mod probe;
pub mod publish;
pub mod rate_limit;
pub mod restart;
pub mod rewrite;
pub mod schedule;
pub mod security;
pub mod select;
pub mod serve;
pub mod source;
pub mod state;
pub mod static_zone;
pub mod systemd;
pub mod tap;
pub mod terminal;
pub mod timestamp;
pub mod trace;
pub mod transfer;
pub mod view;
pub mod zone;

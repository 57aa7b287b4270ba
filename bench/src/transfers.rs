//! Transfers: three zones from a primary until all of them are answered, one large zone to a client, and a change that
//! comes as a whole zone.
//!
//! In: the clock starts before the process of a server that has nothing, and stops when the last of its zones is answered;
//! with us also the region that is made of them. The primary is NSD with one process for each zone. Out: the clock starts
//! before the connection is made and stops with the last record (`drain`). What the primary itself takes is measured in the
//! same rounds, with a client that only counts: no secondary can be faster.
//!
//! Cost: a start of each server a round, and one transfer.

use crate::drain;
use crate::generate::Datacenter;
use crate::memory::Memory;
use crate::options::Options;
use crate::probe::Probe;
use crate::quiet;
use crate::server::{Kind, Server};
use crate::stage::{LONGEST, REGION, Stage, ZONE};
use crate::table::{Figures, Table, thousands};
use std::thread;
use std::time::{Duration, Instant};

/// The tables of this part.
pub struct Tables {
    transfers: Table,
    changes: Table,
}

impl Tables {
    /// Tables without rows.
    pub fn new() -> Tables {
        let transfers = &["records", "server", "in: three zones", "out: one zone"];
        let alone = "the primary alone";
        let changes = &["records", "NOTIFY to the region's answer, by AXFR", alone, "highest memory ÷ before"];
        Tables { transfers: Table::new(transfers), changes: Table::new(changes) }
    }

    /// Prints what was measured.
    pub fn print(&self) {
        println!("Transfers: **median** (smallest … largest; rounds).\n\n{}", self.transfers);
        println!("One name changed while the primary gives whole zones only:\n\n{}", self.changes);
    }
}

/// Measures transfers of a size in and out, and a change by AXFR.
pub fn measure(options: &Options, records: usize, tables: &mut Tables) {
    let kinds: Vec<Kind> = options.peers.iter().copied().filter(|kind| kind.transfers()).collect();
    let mut stage = Stage::new(&options.program, records);
    let mut primary = stage.start_primary(3);
    let mut figures: Vec<[Figures; 2]> = kinds.iter().map(|_| Default::default()).collect();
    let mut alone = Figures::default();
    for round in 0..options.rounds {
        eprintln!("{} records: transfers in, round {}", thousands(records), round + 1);
        alone.push(drain_members(&stage, &primary));
        for (kind, [incoming, _]) in kinds.iter().zip(&mut figures) {
            // It is measured with zone files only.
            if *kind == Kind::PowerDns {
                continue;
            }
            let mut server = stage.prepare_secondary(*kind, &primary);
            let time = server.start_and_wait(stage.members(), REGION, LONGEST);
            time.into_iter().for_each(|time| incoming.push(time));
            server.stop();
        }
    }
    measure_out(options, &mut stage, &kinds, &mut figures);
    for (kind, figures) in kinds.iter().zip(&figures) {
        let figures = figures.iter().map(Figures::to_string);
        tables.transfers.row([thousands(records), kind.label().to_string()].into_iter().chain(figures).collect());
    }
    let alone = ["a client that only counts".to_string(), alone.to_string(), "–".to_string()];
    tables.transfers.row([thousands(records)].into_iter().chain(alone).collect());
    if kinds.contains(&Kind::Region) {
        tables.changes.row(measure_change(options, &mut stage, &mut primary));
    }
}

/// Takes all members from the primary at once.
fn drain_members(stage: &Stage, primary: &Server) -> Duration {
    quiet::wait_quiet(&[primary.id()]);
    let start = Instant::now();
    thread::scope(|scope| {
        for member in stage.members() {
            scope.spawn(|| drain_member(member, primary));
        }
    });
    start.elapsed()
}

/// Takes one member from the primary.
fn drain_member(member: &Datacenter, primary: &Server) -> Duration {
    drain::take(primary.address, &member.zone, member.records()).expect("the primary gives its zones")
}

/// Takes the large zone from each server.
fn measure_out(options: &Options, stage: &mut Stage, kinds: &[Kind], figures: &mut [[Figures; 2]]) {
    for (kind, [_, outgoing]) in kinds.iter().zip(figures).filter(|(kind, _)| **kind != Kind::Region) {
        stage.start(&[*kind]);
        for _ in 0..options.rounds {
            let server = &stage.servers[0];
            quiet::wait_quiet(&[server.id()]);
            match drain::take(server.address, ZONE, stage.records) {
                Ok(taken) => outgoing.push(taken),
                Err(error) => eprintln!("{}: {error}", kind.label()),
            }
        }
        stage.servers.clear();
    }
}

/// Changes one name of the first member, which comes as a whole zone.
fn measure_change(options: &Options, stage: &mut Stage, primary: &mut Server) -> Vec<String> {
    let mut server = stage.prepare_secondary(Kind::Region, primary);
    server.start_and_wait(stage.members(), REGION, LONGEST);
    let mut probe = Probe::new(server.address);
    let (mut figures, mut alone, mut highest) = (Figures::default(), Figures::default(), 0.0f64);
    for round in 0..options.rounds {
        eprintln!("{} records: a change by AXFR, round {}", thousands(stage.records), round + 1);
        stage.change_member(0, round);
        primary.reload(stage.members());
        quiet::wait_quiet(&[server.id(), primary.id()]);
        alone.push(drain_member(&stage.members()[0], primary));
        quiet::wait_quiet(&[server.id(), primary.id()]);
        let before = Memory::take(server.id());
        let changed: &Datacenter = &stage.members()[0];
        let start = Instant::now();
        probe.notify(&changed.zone);
        let name = format!("{}.{REGION}", changed.owner(round));
        let time = probe.time_until(&name, changed.address(round), start, LONGEST);
        time.into_iter().for_each(|time| figures.push(time));
        quiet::wait_quiet(&[server.id()]);
        highest = highest.max(Memory::take(server.id()).highest as f64 / before.resident as f64);
    }
    vec![thousands(stage.records), figures.to_string(), alone.to_string(), format!("{highest:.2}")]
}

//! From the start of the program to its first answer, with all data on disk and no primary to ask.
//!
//! The daemon has been through all changes and ends politely; NSD is taken away; then it is started again and again, in
//! turns with BIND, which loads the region from the pipeline's file. The clock starts before the process does.
//!
//! Cost: two starts a round.

use crate::options::Options;
use crate::scene::Scene;
use crate::table::{Figures, Table, thousands};
use std::time::Instant;

/// Measures on one scene, whose primary goes, and adds a row to the table.
pub fn measure(scene: &mut Scene, options: &Options, table: &mut Table) {
    let records = scene.datacenters[0].records();
    scene.wait_quiet();
    scene.primary = None;
    let mut figures = [Figures::default(), Figures::default()];
    for round in 0..options.rounds {
        eprintln!("{} records, restart, round {}", thousands(records), round + 1);
        for (server, figures) in figures.iter_mut().enumerate() {
            let start = if server == 0 {
                scene.daemon.stop();
                let start = Instant::now();
                scene.daemon.start_again();
                start
            } else {
                scene.pipeline.stop();
                let start = Instant::now();
                scene.pipeline.start_again();
                start
            };
            // Told on stderr; the tables of what worked are worth having all the same.
            scene.time_until_current(server, 0, start).into_iter().for_each(|time| figures.push(time));
            scene.wait_quiet();
        }
    }
    table.row([thousands(records)].into_iter().chain(figures.map(|figures| figures.to_string())).collect());
}

/// The table.
pub fn table() -> Table {
    Table::new(&["records", "aggregator, from its state folder", "BIND, from the region's zone file"])
}

//! Progress of first loads, as lines on the terminal while the server runs in the foreground.
//!
//! A zone has a line while its first transfer runs, or while what an earlier run left of it is read from disk, as soon
//! as either takes longer than a moment. Without a terminal there is no [`Loading`], and nobody looks.
//!
//! Cost: O(zones) for each look, five a second.

use crate::daemon::sources::{Source, Sources};
use crate::publish::Publisher;
use crate::terminal::{Bar, Bars};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::name::Name;

/// Shortest work that is shown.
const MOMENT: Duration = Duration::from_millis(200);
/// Lines at a time; on most terminals as many log lines stay in sight.
const MOST_LINES: usize = 10;

/// Progress of reading the files of zones and of the sources' first loads, for the terminal.
pub struct Loading {
    bars: Bars,
    /// Zones whose files are being read, and since when.
    reading: Mutex<HashMap<Name, Instant>>,
}

impl Loading {
    /// Looks after the first loads from now on, for as long as the runtime lives.
    pub fn start(bars: Bars, sources: Sources, publisher: Arc<Publisher>) -> Arc<Loading> {
        let loading = Arc::new(Loading { bars, reading: Mutex::default() });
        let shown = loading.clone();
        tokio::spawn(async move {
            let mut lines = BTreeMap::new();
            let mut pace = tokio::time::interval(MOMENT);
            loop {
                pace.tick().await;
                shown.draw(&mut lines, shown.find(&sources, &publisher));
            }
        });
        loading
    }

    /// Notes that a zone's file is read, until what this returns is dropped.
    pub fn read_file<'a>(&'a self, zone: &'a Name) -> ReadingFile<'a> {
        self.reading.lock().insert(zone.clone(), Instant::now());
        ReadingFile { loading: self, zone }
    }

    /// The zones that are on their way for longer than a moment, with the records that have come and words.
    fn find(&self, sources: &Sources, publisher: &Publisher) -> BTreeMap<String, (u64, String)> {
        let slow = |since: &Instant| since.elapsed() >= MOMENT;
        let reading = self.reading.lock();
        let mut found: BTreeMap<String, (u64, String)> = reading
            .iter()
            .filter(|(_, since)| slow(since))
            .map(|(zone, _)| (zone.to_string(), (0, "is read from disk".to_owned())))
            .collect();
        drop(reading);
        let published = publisher.load();
        for (zone, source) in sources.lock().iter() {
            let Source::Primaries(source) = source else { continue };
            if published.get(zone).is_some_and(|served| served.zone.is_some()) {
                continue;
            }
            let running =
                source.status().running.filter(|running| running.progress.milliseconds >= MOMENT.as_millis() as u64);
            found.extend(running.map(|running| (zone.to_string(), (running.progress.records, running.describe()))));
        }
        found
    }

    /// Draws a line for each load in progress, and removes the lines of finished ones.
    fn draw(&self, lines: &mut BTreeMap<String, Bar>, found: BTreeMap<String, (u64, String)>) {
        lines.retain(|zone, _| found.contains_key(zone));
        for (zone, (records, words)) in found {
            if lines.len() < MOST_LINES || lines.contains_key(&zone) {
                lines.entry(zone).or_insert_with_key(|zone| self.bars.add(zone)).show(records, None, words);
            }
        }
    }
}

/// A file that is being read.
pub struct ReadingFile<'a> {
    loading: &'a Loading,
    zone: &'a Name,
}

impl Drop for ReadingFile<'_> {
    fn drop(&mut self) {
        self.loading.reading.lock().remove(self.zone);
    }
}

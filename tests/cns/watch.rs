//! A secondary that never sleeps: transfers the datacenters' zones and the region all the time, and holds what it gets
//! against what the datacenters had.

use crate::harness::{Client, Dname, Record, rtype};
use crate::versions::{Versions, moved};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two looks, so that the watched have time to do something.
const PAUSE: Duration = Duration::from_millis(20);

/// A datacenter as it is watched.
pub type Truth = (Dname, Arc<Mutex<Versions>>);

/// The watching thread.
pub struct Watch {
    over: Arc<AtomicBool>,
    looks: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to watch zones that are loaded.
    pub fn start(server: SocketAddr, region: Dname, truths: Vec<Truth>) -> Watch {
        let (over, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut eye = Eye {
            client: Client::new(server).with_deadline(Duration::from_secs(20)),
            places: vec![0; truths.len()],
            region,
            truths,
            last: None,
        };
        let (told, count) = (over.clone(), looks.clone());
        let look = move || {
            while !told.load(Ordering::Acquire) {
                eye.look();
                count.fetch_add(1, Ordering::AcqRel);
                std::thread::sleep(PAUSE);
            }
        };
        Watch { over, looks, thread: Some(std::thread::spawn(look)) }
    }

    /// Number of complete looks so far.
    pub fn looks(&self) -> usize {
        self.looks.load(Ordering::Acquire)
    }

    /// Panics if the watch has seen something wrong.
    pub fn check(&mut self) {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            self.finish();
        }
    }

    /// Ends the watch.
    pub fn finish(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(Err(seen)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(seen);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
    }
}

/// Observations of the watching thread.
struct Eye {
    client: Client,
    region: Dname,
    truths: Vec<Truth>,
    /// Version of each datacenter that was seen last.
    places: Vec<usize>,
    last: Option<(u32, HashSet<Record>)>,
}

impl Eye {
    /// Serial and records of a zone, without its apex.
    fn transfer(&mut self, zone: &Dname) -> (u32, HashSet<Record>) {
        let records = self.client.transfer(zone).unwrap_or_else(|error| panic!("{zone} is not to be had: {error}"));
        assert_eq!(records[0].rtype, rtype::SOA);
        let count = records.len();
        let below: HashSet<Record> = records.iter().filter(|r| r.owner != *zone).map(Record::canonical).collect();
        assert!(!below.is_empty(), "{zone} is empty at serial {}", records[0].serial());
        assert!(below.len() + 1 < count, "{zone} lacks its NS");
        (records[0].serial(), below)
    }

    /// Looks at everything once.
    fn look(&mut self) {
        for index in 0..self.truths.len() {
            let (origin, versions) = self.truths[index].clone();
            let (serial, seen) = self.transfer(&origin);
            let versions = versions.lock().unwrap();
            let place = versions.find(self.places[index], serial);
            let place =
                place.unwrap_or_else(|| panic!("{origin} has serial {serial}, which it never had or had before"));
            self.places[index] = place;
            let missing = versions.missing(place, |record| seen.contains(record));
            assert!(missing.is_empty(), "{origin} lacks at serial {serial}: {missing:#?}");
            let strange: Vec<_> = seen.iter().filter(|record| !versions.knows(place, record)).collect();
            assert!(strange.is_empty(), "{origin} still has at serial {serial}: {strange:#?}");
        }
        self.look_at_region();
    }

    /// Looks at the region, which is published with its members and so at least as new as they were.
    fn look_at_region(&mut self) {
        let region = self.region.clone();
        let (serial, seen) = self.transfer(&region);
        if let Some((before, content)) = &self.last {
            let ahead = serial.wrapping_sub(*before);
            assert!(ahead < 1 << 31, "the serial of {region} fell from {before} to {serial}");
            assert!(ahead > 0 || *content == seen, "{region} has two contents at serial {serial}");
        }
        let truths: Vec<_> = self.truths.iter().map(|(origin, versions)| (origin, versions.lock().unwrap())).collect();
        for ((origin, versions), place) in truths.iter().zip(&self.places) {
            let missing = versions.missing(*place, |record| seen.contains(&moved(record, origin, &region)));
            assert!(missing.is_empty(), "{region} lacks at serial {serial}: {missing:#?}");
        }
        let known = |record: &&Record| {
            let mut members = truths.iter().zip(&self.places);
            members.any(|((origin, versions), place)| versions.knows(*place, &moved(record, &region, origin)))
        };
        let strange: Vec<_> = seen.iter().filter(|record| !known(record)).collect();
        assert!(strange.is_empty(), "{region} still has at serial {serial}: {strange:#?}");
        drop(truths);
        self.last = Some((serial, seen));
    }
}

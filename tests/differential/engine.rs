//! The answer engine alone, without daemon, transfer and sockets: thousands of zones in seconds.

use crate::generate::Zone;
use crate::harness::{Message, decode};
use crate::questions::Question;
use aggregator::publish::{Identity, Published, Served, State};
use aggregator::serve::answer::answer;
use aggregator::zone::Loader;
use std::sync::Arc;
use wire::name::{Name, NameBuf};

/// All zones as the engine takes them.
pub struct Engine {
    published: Published,
    rotation: u32,
}

impl Engine {
    /// Loads the zones as a transfer would.
    pub fn new<'a>(zones: impl Iterator<Item = &'a Zone>) -> Engine {
        let served = zones.map(|zone| {
            let origin = Name::parse(&zone.origin.to_string()).expect("origin");
            let mut loader = Loader::new(origin.clone());
            for record in &zone.records {
                let owner = NameBuf::from_wire(&record.owner.0).expect("owner");
                loader.push(&owner, record.rtype, record.ttl, &record.rdata);
            }
            let loaded = loader.finish(None).expect("a zone that Knot and NSD load");
            Arc::new(Served::new(origin, State::Ok, Some(Arc::new(loaded.zone))))
        });
        let identity = Identity { name: "ns1.test".to_string(), version: "test".to_string() };
        Engine { published: Published::new(identity, served, 1), rotation: 0 }
    }

    /// Answers one question, each time with another rotation.
    pub fn ask(&mut self, question: &Question) -> Message {
        self.rotation = self.rotation.wrapping_add(1);
        let request = question.query.encode(self.rotation as u16);
        let mut out = vec![0; 65_535];
        let response = answer(&self.published, &request, !question.tcp, self.rotation, &mut out);
        let length = response.unwrap_or_else(|| panic!("no response to {question:?}")).length;
        let message = decode(&out[..length]).unwrap_or_else(|error| panic!("{error} in the answer to {question:?}"));
        assert_eq!(message.id, self.rotation as u16);
        message
    }
}

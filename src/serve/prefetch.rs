//! Looking ahead: all requests of a batch are read before the first is answered, and the processor is asked for the
//! memory that the answers will be found in.
//!
//! In a zone of a million records every lookup waits for memory four times. Those of one batch wait together here, step
//! by step (see [`Table::fetch_shard`]); the answers then find everything near. What was found out on the way, the zone
//! and the hash of the name, goes along to the answer. Where answers are not whole sets for everyone, what is known of
//! sets and of clients is asked for in the same way.
//!
//! Cost: O(message) a request, no allocation but for an [`Prefetch`].

use crate::publish::{Published, Served};
use crate::select::Client;
use crate::serve::answer::Place;
use crate::zone::{LINE_BYTES, Table};
use std::net::IpAddr;
use wire::message::Request;

/// Requests that are looked at together. As many again changed nothing that could be measured, neither in the time that
/// is spent in the kernel nor in the wait for memory, and a batch is to be short.
pub const MOST: usize = 16;
/// Fewer have too little to wait for together.
const LEAST: usize = 3;
/// Sets of no more octets are asked for with their node.
const NODE_OCTETS: usize = LINE_BYTES;

/// The requests of a batch.
pub struct Prefetch {
    requests: Box<[Request; MOST]>,
}

/// Places to which the names of these requests lead; none for a request that is not to be answered.
pub type Places<'p> = [Option<Option<Place<'p>>>; MOST];

impl Default for Prefetch {
    fn default() -> Prefetch {
        Prefetch { requests: Box::new(std::array::from_fn(|_| Request::default())) }
    }
}

impl Prefetch {
    /// A request of the batch that was read last.
    pub fn request_mut(&mut self, index: usize) -> &mut Request {
        &mut self.requests[index]
    }

    /// Reads the requests of a batch and asks for what their answers will need.
    pub fn read<'p, 'm>(
        &mut self,
        published: &'p Published,
        messages: impl ExactSizeIterator<Item = &'m [u8]>,
    ) -> Places<'p> {
        let is_worth = messages.len() >= LEAST;
        let mut places = [None; MOST];
        for ((place, request), message) in places.iter_mut().zip(self.requests.iter_mut()).zip(messages) {
            if !request.read(message) {
                continue;
            }
            let question = request.question.as_ref();
            let found = question.and_then(|question| Place::find(published, question.lower.as_wire()));
            *place = Some(found);
            if is_worth {
                found.and_then(table_of).iter().for_each(|(table, hash)| table.fetch_shard(*hash));
            }
        }
        if is_worth {
            let tables = places.iter().filter_map(|place| table_of((*place)??));
            tables.clone().for_each(|(table, hash)| table.fetch_tags(hash));
            tables.for_each(|(table, hash)| table.fetch_node(hash));
        }
        places
    }

    /// Asks for what the answers to the requests of a batch will need beside nodes, if some zone has answers that are not
    /// whole sets; `peer` has the sender of each.
    #[inline]
    pub fn look_aside<'p>(&self, published: &'p Published, places: &mut Places<'p>, peer: impl Fn(usize) -> IpAddr) {
        if published.has_selections {
            self.fetch_aside(published, places, peer);
        }
    }

    /// Asks for selections, and for the homes of the clients that they are for.
    #[inline(never)]
    fn fetch_aside<'p>(&self, published: &'p Published, places: &mut Places<'p>, peer: impl Fn(usize) -> IpAddr) {
        let told = |index: usize| self.requests[index].edns.and_then(|edns| edns.subnet.address());
        // Whether what was told is believed is decided later: a wrong guess costs a line of memory.
        let address_of = |index: usize| told(index).unwrap_or_else(|| peer(index));
        let (mut found, mut count) = ([None; MOST], 0);
        for (index, place) in places.iter_mut().enumerate() {
            let Some(Some(Place { served, hash: Some(hash), named })) = place else { continue };
            let Some(hit) = served.selections.fetch(*hash) else { continue };
            *named = Some(hit);
            let address = address_of(index);
            published.clients.fetch_place(address);
            found[count] = Some((hit.entry(), index, address));
            count += 1;
        }
        let found = found[..count].iter().flatten();
        for (entry, _, address) in found.clone() {
            entry.fetch_selections();
            published.clients.fetch_ranges(*address);
        }
        let mut has_points = false;
        for (entry, index, _) in found.clone() {
            let octets = entry.set_octets();
            if octets > NODE_OCTETS
                && let Some((table, hash)) = places[*index].flatten().and_then(table_of)
            {
                table.fetch_sets(hash, octets);
            }
            entry.fetch_records();
            has_points |= entry.has_points();
        }
        if has_points {
            let client_of = |index| told(index).map_or_else(|| Client::from_source(peer(index)), Client::from_subnet);
            found.clone().for_each(|(entry, index, _)| entry.fetch_place(&client_of(*index)));
            found.for_each(|(entry, index, _)| entry.fetch_points(&client_of(*index)));
        }
    }
}

/// The table that has the node of a name, and its hash there.
fn table_of(Place { served, hash, .. }: Place<'_>) -> Option<(&Table, u64)> {
    Some((Served::answerable(served)?.table(), hash?))
}

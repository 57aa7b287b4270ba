//! Windows: answers from sets of which clients do not get all, or not all the same.
//!
//! Which records these are, `select` says; here they are looked up for whoever asks, written and counted.
//!
//! Cost: two look-ups, of the owner and of the client, and O(records written).
//!
//! RFCs: 7871 (EDNS Client Subnet, scopes).

use super::{Reply, Source};
use crate::clients::Subnet;
use crate::select::{Asker, Client, Selection, Window};
use crate::zone::Node;
use std::iter::once;
use wire::message::{Full, Owner, Section, Writer};
use wire::name;
use wire::rr::{self, Set, rtype};

impl<'p> Reply<'p, '_> {
    /// Adds those records of a set that this client gets now.
    #[cold]
    pub(super) fn add_window(
        &mut self,
        section: Section,
        source: Source<'p>,
        owner: Owner<'_>,
        node: Node<'_>,
        rrset: Set<'_>,
        compressed: bool,
    ) -> Result<(), Full> {
        let add_whole = |writer: &mut Writer<'_>, turn: u32| match compressed {
            false => writer.add_rrset(section, owner, rrset, turn, |_| ()),
            true => writer.add_services(section, owner, rrset, rrset.rdatas_from(turn), |_| ()),
        };
        let Some(selection) = self.selection(source, node, rrset) else {
            return add_whole(&mut self.writer, self.turn);
        };
        let asker = self.asker(source, node.owner(), selection, matches!(section, Section::Additional));
        // Most answers need not know all that a window does.
        let served = if let Some(turns) = selection.turns(&asker) {
            let served = turns.served();
            self.writer.add_at(section, owner, rrset, turns, compressed)?;
            served
        } else if let Some(near) = selection.near(&asker) {
            self.writer.add_at(section, owner, rrset, once(near), compressed)?;
            None
        } else {
            let window = selection.window(&asker);
            let served = window.served();
            if matches!(window, Window::Whole) {
                add_whole(&mut self.writer, self.turn)?;
            } else {
                let begun = self.writer.position();
                let again = window.is_by_priority().then(|| window.clone());
                self.writer.add_at(section, owner, rrset, once(window.map(|picked| picked.offset)), compressed)?;
                again.into_iter().for_each(|window| self.set_priorities(begun, window));
            }
            served
        };
        // What does not fit is no answer yet.
        if !asker.is_beside {
            selection.count(&asker, served);
        }
        Ok(())
    }

    /// What answers from a set of a node are made of, if not all are the whole set.
    #[inline]
    fn selection(&self, source: Source<'p>, node: Node<'_>, set: Set<'_>) -> Option<&'p Selection> {
        let labels = node.owner();
        match self.aside {
            Some((served, named)) if std::ptr::eq(served, source.served) && named.is_of(labels) => {
                named.entry().selection(set)
            }
            _ => source.served.selections.find(labels, set),
        }
    }

    /// Whoever asks, as far as answers from a set depend on it, with the orders of the zone.
    fn asker<'r>(&mut self, source: Source<'r>, labels: &'r [u8], selection: &Selection, is_beside: bool) -> Asker<'r> {
        let told = self.writer.subnet().and_then(|subnet| Some((subnet.address()?, subnet.source)));
        let client = told.map_or_else(|| Client::from_source(self.asked.peer), |(first, _)| Client::from_subnet(first));
        if told.is_some() && selection.is_by_client() {
            self.writer.narrow(client.prefix_bits());
        }
        let home = match told {
            _ if !selection.is_by_home() => None,
            None => self.published.clients.home_of(self.asked.peer),
            Some((address, length)) => {
                let found = self.published.clients.find(Subnet { address, length });
                self.writer.narrow(found.scope);
                found.home
            }
        };
        let (owner, orders) = ([labels, source.zone.origin.as_wire()], &*source.served.selections.orders);
        Asker { turn: self.turn, client, home, owner, orders, is_beside }
    }

    /// Gives the records of an answer that begin at a position the priorities by which clients are told what is near.
    fn set_priorities(&mut self, begun: usize, window: Window<'_>) {
        let mut position = begun;
        for picked in window {
            let message = self.writer.written();
            let found = name::skip(message, position).and_then(|fixed| rr::read_fixed(message, fixed));
            // Less may have fitted.
            let Some((.., start, length)) = found else { return };
            position = start + length;
            match picked.priority {
                Some(priority) => self.writer.overwrite(start, priority.to_be_bytes()),
                None => return,
            }
        }
    }

    /// Adds as much of a set as fits a message over TCP, where it does not fit as a whole: clients know no other way to
    /// get more.
    #[cold]
    pub(super) fn add_part(
        &mut self,
        source: Source<'p>,
        owner: Owner<'_>,
        node: Node<'_>,
        rrset: Set<'_>,
    ) -> Result<(), Full> {
        let is_meant = matches!(rrset.rtype, rtype::A | rtype::AAAA | rtype::SRV);
        if self.asked.datagram || !is_meant || node.get(rtype::RRSIG).is_some() {
            return Err(Full);
        }
        let selection = self.selection(source, node, rrset);
        let asked = selection.map(|selection| (selection, self.asker(source, node.owner(), selection, false)));
        let window = asked.map_or(Window::Whole, |(selection, asker)| selection.window(&asker));
        let served = window.served();
        let begun = self.writer.position();
        let added = match window {
            Window::Whole => self.writer.add_until_full(Section::Answer, owner, rrset, rrset.best_from(self.turn)),
            window => {
                let rdatas = window.clone().map(|picked| rrset.at(picked.offset));
                let added = self.writer.add_until_full(Section::Answer, owner, rrset, rdatas);
                self.set_priorities(begun, window);
                added
            }
        };
        if added.is_ok() {
            source.served.tally.count_part();
            asked.into_iter().for_each(|(selection, asker)| selection.count(&asker, served));
        }
        added
    }
}

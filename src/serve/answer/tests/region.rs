//! A region of three members with clients of its own, for tests of answers that depend on who asks.

use super::*;
use crate::acl::Prefix;
use crate::clients::{Clients, Home};
use crate::merge::tests::plan;
use crate::merge::{AnswersPlan, Giver, Region, Selected, Shares};
use crate::select::{Law, Orders, OrdersPlan};
use std::time::Instant;
use wire::message::Records;

/// The members of the region w.x.
pub const MEMBERS: [&str; 3] = ["w1.x", "w2.x", "w3.x"];
/// The resolver whose word on its clients is believed.
pub const RESOLVER: &str = "192.0.2.53";

/// What the region is made of, and who has it.
#[derive(Clone, Debug)]
pub struct World {
    /// Lines of each member.
    pub lines: [String; 3],
    pub region: AnswersPlan,
    /// Laws of the answers from the members' own zones.
    pub zones: AnswersPlan,
    /// Homes by number, and their clients.
    pub homes: Vec<Name>,
    pub prefixes: Vec<(Prefix, Home)>,
    /// Percent of the clients that get nothing of each member.
    pub shares: [u8; 3],
    pub stale: [bool; 3],
}

impl World {
    /// A region whose answers are all whole sets, without clients.
    pub fn new(lines: [&str; 3]) -> World {
        World {
            lines: lines.map(str::to_owned),
            region: AnswersPlan::new(Law::ALL),
            zones: AnswersPlan::new(Law::ALL),
            homes: Vec::new(),
            prefixes: Vec::new(),
            shares: [0; 3],
            stale: [false; 3],
        }
    }

    /// Makes these prefixes clients of zones.
    pub fn with_clients(mut self, clients: &[(&str, &str)]) -> World {
        for (prefix, home) in clients {
            let home = Name::parse(home).unwrap();
            let number = self.homes.iter().position(|other| *other == home).unwrap_or_else(|| {
                self.homes.push(home);
                self.homes.len() - 1
            });
            self.prefixes.push((prefix.parse().unwrap(), number as Home));
        }
        self
    }

    /// What is served: the members' zones and the region.
    pub fn published(&self) -> Published {
        let now = Instant::now();
        let load = |(member, lines): (&str, &String)| {
            let origin = format!("{member}.");
            Arc::new(zone(&origin, &format!("@ 30 SOA 1\n@ 3600 NS ns1.x.\n{lines}")))
        };
        let zones: Vec<Arc<Zone>> = MEMBERS.into_iter().zip(&self.lines).map(load).collect();
        let mut region = Region::new(plan(&MEMBERS));
        region.merge_all(&zones.iter().cloned().map(Some).collect::<Vec<_>>(), now);
        let merged = region.zone.clone().unwrap();
        let giver = |(zone, percent): (&Arc<Zone>, &u8)| {
            let mut shares = Shares::default();
            (*percent > 0).then(|| shares.add(None, *percent));
            Giver { zone: Some(zone.clone()), shares, ..Giver::default() }
        };
        let givers = zones.iter().zip(&self.shares).map(giver).collect();
        let laws = Arc::new(self.region.clone());
        let mut selections = Selected::new(None, &laws, &merged, Some(&region.plan), givers, now).selections;
        let orders = OrdersPlan {
            homes: &self.homes,
            members: &region.plan.members,
            near: &self.region.near,
            weights: &self.region.weights,
            stale: &self.stale,
        };
        selections.orders = Arc::new(Orders::new(&orders, None));
        let serve = |zone: &Arc<Zone>, selections| {
            Arc::new(Served { selections, ..Served::new(zone.origin.clone(), State::Ok, Some(zone.clone())) })
        };
        let laws = Arc::new(self.zones.clone());
        let of_zone = |zone| Selected::new(None, &laws, zone, None, [].into(), now).selections;
        let served = zones.iter().map(|zone| serve(zone, of_zone(zone))).chain([serve(&merged, selections)]);
        let mut published = Published::new(Identity::default(), served, 1);
        published.subnet_from = [Prefix::host(RESOLVER.parse().unwrap())].into();
        published.clients = Arc::new(Clients::new(self.homes.clone(), &self.prefixes).unwrap());
        published
    }
}

/// A question, and how it comes.
#[derive(Clone, Debug)]
pub struct Ask {
    pub owner: String,
    pub qtype: u16,
    /// The data of each option with a client's subnet.
    pub options: Vec<Vec<u8>>,
    pub peer: IpAddr,
    pub payload: u16,
    pub datagram: bool,
    pub turn: u32,
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub rcode: u16,
    pub is_truncated: bool,
    pub length: usize,
    /// Types and RDATA of the answer section, in order.
    pub records: Vec<(u16, Vec<u8>)>,
    /// Number of additional records but for OPT.
    pub beside: usize,
    /// The data of the option.
    pub option: Option<Vec<u8>>,
}

impl Ask {
    /// A question by UDP from the resolver that is believed, without a word on its client.
    pub fn new(owner: &str, qtype: u16) -> Ask {
        let peer = RESOLVER.parse().unwrap();
        Ask { owner: owner.into(), qtype, options: Vec::new(), peer, payload: 1232, datagram: true, turn: 7 }
    }

    /// The same for a client of a subnet.
    pub fn of(owner: &str, qtype: u16, subnet: &str) -> Ask {
        Ask { options: vec![option(subnet)], ..Ask::new(owner, qtype) }
    }

    /// Sends it.
    pub fn send(&self, published: &Published) -> Told {
        let options = self.options.iter().map(|data| [&[0, 8, 0, data.len() as u8], &data[..]].concat());
        let message =
            with_opt(question(&self.owner, self.qtype), self.payload, 0, &options.collect::<Vec<_>>().concat());
        let request = Request::parse(&message).unwrap();
        let limit = request.limit(self.datagram);
        let asked = Asked {
            message: &message,
            peer: self.peer,
            datagram: self.datagram,
            rotation: self.turn,
            now: 0,
            secured: None,
        };
        let mut out = vec![0; 65_535];
        let Response { length, rcode, truncated } = answer_request(published, &request, None, limit, &asked, &mut out);
        assert!(length <= limit, "{self:?}: {length} octets");
        let mut told = Told { rcode, is_truncated: truncated, length, records: Vec::new(), beside: 0, option: None };
        for record in Records::new(&out[..length]).unwrap().map(Result::unwrap) {
            let data = &out[record.rdata..record.end()];
            match (record.section, record.rtype) {
                (_, rtype::OPT) => told.option = option_in(data),
                (Section::Answer, kind) => told.records.push((kind, data.to_vec())),
                (Section::Additional, _) => told.beside += 1,
                (Section::Authority, _) => {}
            }
        }
        told
    }
}

impl Told {
    /// SCOPE PREFIX-LENGTH.
    pub fn scope(&self) -> Option<u8> {
        self.option.as_ref().map(|data| data[3])
    }

    /// The last octets of the addresses in the answer, in rising order.
    pub fn hosts(&self) -> Vec<u8> {
        let is_address = |kind: u16| matches!(kind, rtype::A | rtype::AAAA);
        let addresses = self.records.iter().filter(|(kind, _)| is_address(*kind));
        let mut hosts: Vec<u8> = addresses.map(|(_, rdata)| *rdata.last().unwrap()).collect();
        hosts.sort_unstable();
        hosts
    }
}

/// The data of the option with a subnet.
pub fn option(subnet: &str) -> Vec<u8> {
    let (address, source) = subnet.split_once('/').unwrap();
    let source: u8 = source.parse().unwrap();
    let (family, octets) = match address.parse().unwrap() {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (2, address.octets().to_vec()),
    };
    [&[0, family, source, 0], &octets[..usize::from(source.div_ceil(8))]].concat()
}

/// The data of the option with a subnet among the options of a response, which has one at most.
fn option_in(mut options: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    while let Some((&[high, low, _, length], behind)) = options.split_first_chunk() {
        let (data, rest) = behind.split_at(length.into());
        if [high, low] == [0, 8] {
            assert_eq!(found.replace(data.to_vec()), None, "one option");
        }
        options = rest;
    }
    found
}

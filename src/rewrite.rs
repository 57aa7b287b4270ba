//! Moving one owner name and its RRsets from a member zone to a region.
//!
//! Owner names move by whole labels, once, from their source zone (`Name::replace_suffix`). Names in RDATA stay by
//! default, because they name hosts of that datacenter, which this server also answers for; the policy `rewrite` moves
//! those within the member zone. Three exceptions hold under both policies: PTR records of service browsing move, since
//! a browser expects instances inside the domain it browses (RFC 6763 section 4.1), and the domain itself (section 11);
//! NS records keep their targets; TXT and everything opaque is never looked into.
//!
//! Cost: O(bytes).

use std::sync::Arc;
use wire::dnssd;
use wire::name::{self, Name, NameBuf, NameError};
use wire::rr::{self, RRset, Set, rtype};

/// Treatment of names in RDATA that lie within the member zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RdataNames {
    /// They go on naming the member zone.
    #[default]
    Keep,
    /// They move to the region like the owner names (RFD 172 read literally).
    Rewrite,
}

/// The way from one member zone to a region.
#[derive(Clone, Copy)]
pub struct Move<'a> {
    pub from: &'a Name,
    pub to: &'a Name,
    pub policy: RdataNames,
}

impl Move<'_> {
    /// The owner name as the primary spelled it, under the region's origin.
    pub fn spelling(&self, spelled: &[u8]) -> Option<Arc<[u8]>> {
        let cut = spelled.len().checked_sub(self.from.as_wire().len())?;
        let buf = NameBuf::from_wire(spelled).ok()?.splice(cut, self.to.as_wire()).ok()?;
        // Only the labels in front are the primary's; without capitals there, there is nothing to remember.
        (buf.to_lowercase().as_wire() != buf.as_wire()).then(|| Arc::from(buf.as_wire()))
    }

    /// A name within the member zone, moved; `None` for other names.
    pub fn target(&self, name: &NameBuf) -> Option<Result<NameBuf, NameError>> {
        let cut = name::suffix_offset(name.to_lowercase().as_wire(), self.from.as_wire())?;
        Some(name.splice(cut, self.to.as_wire()))
    }

    /// The RRset with its names moved as far as the policy says, for the owner name (member or region) `owner`.
    ///
    /// `exists` tells whether the region has data at a name: an alias moves only where it leads to something. A name
    /// that would become too long stays.
    pub fn rrset(&self, owner: &Name, rrset: Set<'_>, exists: impl Fn(&Name) -> bool) -> Arc<RRset> {
        if self.leaves(owner, rrset) {
            return Arc::new(rrset.to_rrset());
        }
        let rdatas = rrset.rdatas().map(|rdata| self.rdata(owner, rrset.rtype, rdata, &exists)).collect();
        Arc::new(RRset::build(rrset.rtype, rrset.ttl, rdatas).unwrap_or_else(|| rrset.to_rrset()))
    }

    /// The RDATA of one record, moved as [`Move::rrset`] does.
    pub fn rdata(&self, owner: &Name, rtype: u16, rdata: &[u8], exists: impl Fn(&Name) -> bool) -> Vec<u8> {
        if !self.may_move(owner, rtype) {
            return rdata.to_vec();
        }
        let replace = |name: &NameBuf| match self.target(name) {
            Some(Ok(moved)) if rtype != rtype::CNAME || exists(&moved.to_name()) => Ok(moved),
            _ => Ok(*name),
        };
        rr::map_names(rtype, rdata, replace).unwrap_or_else(|_| rdata.to_vec())
    }

    /// Returns true if an RRset stays as it is.
    pub fn leaves(&self, owner: &Name, rrset: Set<'_>) -> bool {
        !self.may_move(owner, rrset.rtype) || self.targets(rrset).next().is_none()
    }

    /// Returns true if the policy lets names move in RDATA of a type.
    fn may_move(&self, owner: &Name, rtype: u16) -> bool {
        match rtype {
            rtype::PTR if dnssd::is_browsing(owner.as_wire()) => true,
            rtype::NS => false,
            _ => self.policy == RdataNames::Rewrite,
        }
    }

    /// The names in an RRset's RDATA that lie within the member zone, moved.
    pub fn targets<'s>(&'s self, rrset: Set<'s>) -> impl Iterator<Item = Name> + 's {
        rrset.rdatas().flat_map(move |rdata| {
            let mut found = Vec::new();
            let looked = rr::map_names(rrset.rtype, rdata, |name| {
                found.extend(self.target(name).and_then(Result::ok).map(|moved| moved.to_name()));
                Ok(*name)
            });
            debug_assert!(looked.is_ok(), "stored RDATA is well formed");
            found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::tests::zone;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn moved(policy: RdataNames, owner: &str, record: &str, exists: bool) -> String {
        let (from, to) = (name("w1.x"), name("w.x"));
        let zone = zone("w1.x.", &format!("@ 30 SOA 1\n{owner} 30 {record}"));
        let owner = name(&format!("{owner}.w1.x"));
        let rrset = zone.get(owner.as_wire()).unwrap().rrsets().next().unwrap();
        let moved = Move { from: &from, to: &to, policy }.rrset(&owner, rrset, |_| exists);
        format!("{moved:?}")
    }

    #[test]
    fn each_policy_moves_what_it_should() {
        use RdataNames::{Keep, Rewrite};
        for (owner, record, keep, rewrite) in [
            ("web.svc", "SRV 80 a.inst", "30 SRV [0 10 80 a.inst.w1.x.]", "30 SRV [0 10 80 a.inst.w.x.]"),
            ("u.cmon", "CNAME cmon", "30 CNAME [cmon.w1.x.]", "30 CNAME [cmon.w.x.]"),
            ("x", "CNAME a.w2.x.", "30 CNAME [a.w2.x.]", "30 CNAME [a.w2.x.]"),
            ("x", "CNAME a.xw1.x.", "30 CNAME [a.xw1.x.]", "30 CNAME [a.xw1.x.]"),
            ("x", "TXT a.w1.x.", "30 TXT [\"a.w1.x.\"]", "30 TXT [\"a.w1.x.\"]"),
            ("sub", "NS ns.sub", "30 NS [ns.sub.w1.x.]", "30 NS [ns.sub.w1.x.]"),
            ("m", "MX a", "30 MX [10 a.w1.x.]", "30 MX [10 a.w.x.]"),
            ("m", "MX a.w2.x.", "30 MX [10 a.w2.x.]", "30 MX [10 a.w2.x.]"),
            ("d", "DNAME a", "30 DNAME [a.w1.x.]", "30 DNAME [a.w.x.]"),
            ("_os._tcp", "PTR i._os._tcp", "30 PTR [i._os._tcp.w.x.]", "30 PTR [i._os._tcp.w.x.]"),
            ("_services._dns-sd._udp", "PTR _os._tcp", "30 PTR [_os._tcp.w.x.]", "30 PTR [_os._tcp.w.x.]"),
            ("_s._sub._os._tcp", "PTR i._os._tcp", "30 PTR [i._os._tcp.w.x.]", "30 PTR [i._os._tcp.w.x.]"),
            ("_os._tcp", "PTR i._os._tcp.y.", "30 PTR [i._os._tcp.y.]", "30 PTR [i._os._tcp.y.]"),
            ("host", "PTR a", "30 PTR [a.w1.x.]", "30 PTR [a.w.x.]"),
        ] {
            assert_eq!(moved(Keep, owner, record, true), keep, "{owner} {record}");
            assert_eq!(moved(Rewrite, owner, record, true), rewrite, "{owner} {record}");
        }
    }

    /// RFC 3597: nothing is known of where an unknown type has names (`docs/regions.md` 8).
    #[test]
    fn what_looks_like_a_name_in_an_unknown_type_stays() {
        let (from, to) = (name("w1.x"), name("w.x"));
        let rrset = RRset::build(65_280, 30, vec![name("a.w1.x").as_wire()]).unwrap();
        let way = Move { from: &from, to: &to, policy: RdataNames::Rewrite };
        assert_eq!(*way.rrset(&name("x.w1.x"), rrset.as_set(), |_| true), rrset);
    }

    #[test]
    fn an_alias_moves_only_to_something() {
        assert_eq!(moved(RdataNames::Rewrite, "x", "CNAME a", false), "30 CNAME [a.w1.x.]");
        assert_eq!(moved(RdataNames::Rewrite, "x", "SRV 80 a", false), "30 SRV [0 10 80 a.w.x.]");
    }

    #[test]
    fn names_in_rdata_move_whatever_their_case() {
        assert_eq!(moved(RdataNames::Rewrite, "x", "SRV 80 Web.W1.X.", true), "30 SRV [0 10 80 Web.w.x.]");
    }

    #[test]
    fn a_target_that_would_be_too_long_stays() {
        let (from, to) = (name("w"), name("a-much-longer-origin"));
        let label = "l".repeat(60);
        let long = format!("{label}.{label}.{label}.{label}.w.");
        let zone = zone("w.", &format!("@ 30 SOA 1\nx 30 SRV 80 {long}"));
        let rrset = zone.get(name("x.w").as_wire()).unwrap().rrsets().next().unwrap();
        let way = Move { from: &from, to: &to, policy: RdataNames::Rewrite };
        assert_eq!(*way.rrset(&name("x.w"), rrset, |_| true), rrset.to_rrset());
    }
}

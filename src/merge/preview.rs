//! Preview of a region as it would be if other things were taken of its members.
//!
//! The region is merged once more, from what would be taken, beside the one that is published; what differs is counted.
//! A drain of a share takes nothing out: for it, names are counted by what other members give there.
//!
//! Cost: O(names × members), beside the keeper; nothing published is touched.

use super::{Drain, Members, Outcome, Region, RegionPlan};
use crate::zone::{Node, Owner, Zone};
use std::sync::Arc;
use std::time::Instant;
use wire::name::Name;
use wire::rr::rtype;

/// Types of the records of which clients get some members' only.
const CHOSEN_TYPES: [u16; 3] = [rtype::A, rtype::AAAA, rtype::SRV];

/// Summary of what would change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// Names that would have other records.
    pub changed: usize,
    /// Records that would go, less those that would come.
    pub fewer_records: u64,
    /// Names that have addresses and would have none, in canonical order.
    pub without_address: Vec<Name>,
    /// True if the region has names below its apex and would have none.
    pub is_emptied: bool,
}

/// Merges a region from other intakes and compares it with what is published.
pub fn preview(plan: &RegionPlan, present: Option<&Arc<Zone>>, members: &Members, now: Instant) -> Preview {
    let Some(before) = present else { return Preview::default() };
    let mut region = Region::new(plan.clone());
    region.zone = Some(before.clone());
    let outcome = region.merge_all(members, now);
    let (Outcome::New { touched, .. }, Some(after)) = (outcome, &region.zone) else { return Preview::default() };
    let has_address = |zone: &Zone, name: &Name| zone.get(name.as_wire()).is_some_and(Node::has_address);
    let loses = |name: &&Name| has_address(before, name) && !has_address(after, name);
    let mut without_address: Vec<Name> = touched.iter().filter(loses).cloned().collect();
    without_address.sort_by(Name::canonical_cmp);
    Preview {
        changed: touched.iter().filter(|name| **name != plan.origin).count(),
        fewer_records: before.records.saturating_sub(after.records),
        without_address,
        is_emptied: before.names() > 1 && after.names() == 1,
    }
}

/// What clients find elsewhere that a share keeps from a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharePreview {
    /// Names of the member with addresses or services, of all types of which another member gives some.
    pub elsewhere: usize,
    /// The other names with addresses or services, in canonical order: the member answers them as before.
    pub alone: Vec<Name>,
}

/// Looks for names of which a drain of a share keeps clients, in the version that they see.
pub fn preview_share(drain: &Drain, plan: &RegionPlan, seen: Option<&Arc<Zone>>, members: &Members) -> SharePreview {
    let mut preview = SharePreview::default();
    let meant = plan.members.iter().position(|member| drain.concerns(member, &plan.origin));
    let Some((seen, meant)) = seen.zip(meant) else { return preview };
    for node in seen.nodes() {
        let name = seen.name_of(node);
        let owner = Owner::new(name.owner_in(&plan.origin));
        if !drain.covers(owner.labels()) {
            continue;
        }
        let gives = |member: &Option<Arc<Zone>>, rtype: u16| {
            member.as_ref().and_then(|zone| zone.get_at(&owner)).is_some_and(|node| node.get(rtype).is_some())
        };
        let own = |rtype: &&u16| node.get(**rtype).is_some() && gives(&members[meant], **rtype);
        let others = || members.iter().enumerate().filter(|(member, _)| *member != meant);
        let mut own = CHOSEN_TYPES.iter().filter(own).peekable();
        if own.peek().is_none() {
            continue;
        }
        if own.all(|rtype| others().any(|(_, member)| gives(member, *rtype))) {
            preview.elsewhere += 1;
        } else {
            preview.alone.push(name);
        }
    }
    preview.alone.sort_by(Name::canonical_cmp);
    preview
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::tests::plan;
    use crate::merge::{DrainTarget, NamePattern};
    use crate::zone::tests::load;
    use std::time::UNIX_EPOCH;

    #[test]
    fn a_share_finds_names_that_others_give() {
        let zone = |origin: &str, text: &str| load(origin, &format!("@ 30 SOA 1\n{text}"), None).zone;
        let one = "web 30 A 192.0.2.1\ndb 30 A 192.0.2.1\nboth 30 A 192.0.2.1\nboth 30 AAAA 2001:db8::1\nabove.db 30 A 192.0.2.1\n\
                   text 30 TXT one";
        let two = "web 30 A 192.0.2.2\ndb 30 TXT two\nboth 30 A 192.0.2.2\ntext 30 TXT two\nother 30 A 192.0.2.2";
        let zones = [zone("w1.x", one), zone("w2.x", two)].map(|zone| Some(Arc::new(zone)));
        let plan = plan(&["w1.x", "w2.x"]);
        let mut region = Region::new(plan.clone());
        region.merge_all(&zones, Instant::now());
        let preview = |names: Option<&str>, region: Option<&Arc<Zone>>, members: &Members| {
            let names = names.map(|names| NamePattern::parse(names).unwrap());
            let target = DrainTarget { member: plan.members[0].clone(), region: None, names };
            let (share, since) = (Some(30), UNIX_EPOCH);
            let drain = Drain { target, share, since, until: None, reason: None, configured: false };
            let preview = preview_share(&drain, &plan, region, members);
            (preview.elsewhere, preview.alone.iter().map(Name::to_string).collect::<Vec<_>>())
        };
        let seen = region.zone.as_ref();
        let alone = ["both.w.x.", "db.w.x.", "above.db.w.x."].map(str::to_owned);
        assert_eq!(preview(None, seen, &zones), (1, alone.to_vec()));
        assert_eq!(preview(Some("web"), seen, &zones), (1, Vec::new()));
        assert_eq!(preview(Some("*.db"), seen, &zones), (0, alone[2..].to_vec()));
        assert_eq!(preview(None, None, &zones), (0, Vec::new()));
        let [one, _] = &zones;
        assert_eq!(
            preview(Some("web"), seen, &[one.clone(), None]),
            (0, vec!["web.w.x.".to_owned()]),
            "an expired one"
        );
    }
}

//! Ways that lead out of a region to sets larger than its own answers have: a CNAME or SRV target goes on under the law
//! of the zone that it is in.
//!
//! Chains are followed for one step, and targets that no zone here holds not at all.
//!
//! Cost: O(names of all regions with a law), and a look-up for each CNAME and SRV record.

use super::Handle;
use crate::control::Reply;
use crate::keeper::Snapshot;
use crate::merge::AnswersPlan;
use crate::publish::Published;
use crate::select::Selection;
use crate::serve::answer::{self, NameMatch};
use crate::zone::Zone;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::name::{Name, NameBuf};
use wire::rr::rtype;

/// Names of a region that lead into one zone to larger sets than the region's answers have.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lead {
    pub region: String,
    pub zone: String,
    /// Number of such names, at least one.
    pub names: u32,
    /// One of them, its target, and the records that an answer has there.
    pub name: String,
    pub target: String,
    pub records: u32,
}

impl Lead {
    /// What there is to say of it, and what to do.
    pub fn describe(&self) -> String {
        let Lead { region, zone, names, name, target, records } = self;
        let lead = if *names == 1 { "1 name leads" } else { &format!("{names} names lead") };
        format!(
            "{region}: {lead} to larger sets in {zone} than its own answers have, such as {name} to {target}, of \
             {records} records; set \"answers\" for {zone}"
        )
    }
}

/// Tells them to a program.
pub fn leads(view: &Handle) -> Result<Reply, String> {
    let found = find_leads(&view.snapshots.load());
    let text = found.iter().map(|lead| lead.describe() + "\n").collect();
    Ok(Reply { ok: true, text, data: serde_json::json!(found) })
}

/// Finds them, by region and zone.
pub fn find_leads(view: &Snapshot) -> Vec<Lead> {
    let mut found = BTreeMap::new();
    for (origin, region) in &view.regions {
        if let (Some(zone), Some(plan)) = (&region.served, view.answers.get(origin)) {
            find_in(&view.published, zone, plan, &mut found);
        }
    }
    found.into_values().collect()
}

/// Finds those of one region.
fn find_in(published: &Published, region: &Zone, plan: &AnswersPlan, found: &mut BTreeMap<[String; 2], Lead>) {
    let limits = plan.treatments().filter_map(|treatment| treatment.law.max);
    let Some(least) = limits.min() else { return };
    for node in region.nodes() {
        for (kind, offset) in [(rtype::CNAME, 0), (rtype::SRV, 6)] {
            let Some(set) = node.get(kind) else { continue };
            let targets = set.rdatas().filter_map(|rdata| NameBuf::read_plain(rdata, offset).ok());
            let larger = targets.filter_map(|(target, _)| {
                let target = target.to_name();
                let (zone, records) = most_in_answer(published, region, &target, least.get())?;
                Some((target, zone, records))
            });
            let name = Name::join(node.owner(), &region.origin);
            let Some(most) = plan.of(&name, &region.origin).law.max else { continue };
            let Some((target, zone, records)) = larger.max_by_key(|(.., records)| *records) else { continue };
            if records <= most.get() {
                continue;
            }
            let key = [region.origin.to_string(), zone.to_string()];
            let lead = found.entry(key.clone()).or_insert_with(|| {
                let [region, zone] = key;
                Lead { region, zone, names: 0, name: name.to_string(), target: target.to_string(), records }
            });
            lead.names += 1;
        }
    }
}

/// The zone of a name outside of a region, and the records that an answer has of its largest set; none where that
/// cannot be more than `least`.
fn most_in_answer<'p>(published: &'p Published, region: &Zone, name: &Name, least: u32) -> Option<(&'p Name, u32)> {
    let served = published.find(name.as_wire()).filter(|served| served.origin != region.origin)?;
    let zone = served.answerable().filter(|zone| zone.sizes.most_records() > least)?;
    let NameMatch::Node(node) = answer::find(zone, name.as_wire(), rtype::A) else { return None };
    let sets = [rtype::A, rtype::AAAA, rtype::SRV].into_iter().filter_map(|kind| node.get(kind));
    let counts = sets.map(|set| served.selections.find(node.owner(), set).map_or(set.count, Selection::most));
    Some((&served.origin, counts.max()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::{Law, Pick};
    use crate::view::lookup::tests::{answer_by, two};
    use std::num::NonZeroU32;

    #[test]
    fn names_that_lead_to_larger_sets_are_told_with_the_largest() {
        let sized = |owner: &str, count: u32| -> String {
            (0..count).map(|n| format!("{owner} 30 A 10.0.{}.{}\n", n / 250, n % 250)).collect()
        };
        let zone = [
            &sized("nine", 9)[..],
            &sized("eight", 8),
            &sized("*.wild", 12),
            "a 30 CNAME nine.w1.x.\nb 30 CNAME eight.w1.x.\nc 30 CNAME x.wild.w1.x.\nd 30 CNAME nine\n",
            "e 30 CNAME far.example.\ns 30 SRV 1 eight.w1.x.\ns 30 SRV 2 nine.w1.x.\nf.seeds 30 CNAME nine.w1.x.\n",
        ];
        let mut view = two(|_| (), &zone.concat(), "");
        let law = |max| Law { max: NonZeroU32::new(max), pick: Pick::Rotate };
        let told = |view: &Snapshot| -> Vec<String> { find_leads(view).iter().map(Lead::describe).collect() };
        assert_eq!(told(&view), Vec::<String>::new(), "a region with whole sets leads to none that are larger");
        answer_by(&mut view, [law(8), law(10)]);
        let names = told(&view);
        let ways = [
            "a.w.x. to nine.w1.x., of 9",
            "c.w.x. to x.wild.w1.x., of 12",
            "d.w.x. to nine.w1.x., of 9",
            "s.w.x. to nine.w1.x., of 9",
        ];
        let is_one = |way: &&str| {
            let expected = format!(
                "w.x.: 4 names lead to larger sets in w1.x. than its own answers have, such as {way} records; set \"answers\" for w1.x."
            );
            names == [expected]
        };
        assert_eq!(ways.iter().filter(|way| is_one(way)).count(), 1, "{names:?}");
        answer_by(&mut view, [law(9), law(8)]);
        let found = find_leads(&view);
        assert_eq!(found.iter().map(|lead| lead.names).collect::<Vec<_>>(), [2], "{found:?}");
        answer_by(&mut view, [law(12), Law::ALL]);
        assert_eq!(find_leads(&view), []);
    }
}

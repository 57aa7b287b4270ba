//! Sets of a name that are cut in answers, or larger than clients take.

use super::report::{LawReport, LookupStep, SetReport};
use crate::keeper::Snapshot;
use crate::publish::Served;
use crate::select::{Selection, Treatment};
use crate::zone::{Large, SizeLimit, Zone};
use wire::rr::{Set, TypeName};

/// Tells the sets of a step of which answers have a part, or that are over a limit.
pub fn add_sets(view: &Snapshot, served: &Served, zone: &Zone, wanted: Option<u16>, step: &mut LookupStep) {
    let Some(node) = zone.get(step.asked().as_wire()).filter(|_| step.has_records()) else { return };
    let plan = view.answers.get(&served.origin);
    let law = |selection: &Selection| {
        let plan = plan?;
        let exception = plan.exception(step.asked(), &zone.origin);
        let (pattern, Treatment { law, .. }) =
            exception.map_or((None, plan.usual), |(pattern, treatment)| (Some(pattern), *treatment));
        let pattern = pattern.map(ToString::to_string);
        Some(LawReport { max: law.max?.get(), pick: selection.pick(), pattern })
    };
    let tell = |set: Set<'_>| {
        let large = Large::of(set.count, set.wire_bytes(), node.owner().len());
        let over = SizeLimit::ALL.into_iter().filter(|limit| large.over(*limit) > 0).collect();
        let selection = served.selections.find(node.owner(), set);
        let answered = selection.map_or(set.count, Selection::most);
        let rtype = TypeName(set.rtype).to_string();
        let law = selection.filter(|selection| selection.is_cut()).and_then(law);
        let by_home = selection.is_some_and(Selection::is_by_home);
        SetReport { rtype, records: set.count, answered, by_home, over, law }
    };
    let asked = node.rrsets().filter(|set| wanted.is_none_or(|wanted| wanted == set.rtype));
    let told = asked.map(tell).filter(|set| set.answered < set.records || set.by_home || !set.over.is_empty());
    step.sets = told.collect();
}

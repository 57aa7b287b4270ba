//! Delegations of members, and whose records stand at and below them.
//!
//! A member may delegate what others have names in. So a cut stands only where no other member has authoritative data at or
//! below it; else it is left out with all that its member has there. Of members that cut at the same name the first one's NS
//! set counts: those who have the same stand with it, the others are left out. At and below a cut that stands, only the
//! members for which it stands are heard, so nobody else adds to its glue (`docs/regions.md` 19).
//!
//! A member's authoritative data is what it would bring into the region at names that are neither at nor below a cut of
//! its own. Exclusions of the plan count before everything else.
//!
//! Invariants: [`Delegations::loss`] depends on the members' zones and the plan, not on the way there;
//! [`Delegations::update`] returns every name, beside those that changed, at which it may say something else than
//! before.
//!
//! How: for each cut the number of names with data at or below it is known for each member, and how many of those are
//! at or below another cut of the same member further down: what is left is authoritative. Names stand here as their
//! labels from the origin on, so that what is above a name is the beginning of it and what is below is one range.
//!
//! Cost: nothing where no member has a delegation. O(labels × log cuts) for a name that changes. O(names below the cut
//! of the members that cut) where a cut comes or goes, and a look at each of them only where it is heard no more, or
//! again. Where a cut comes that has names below it, the members that have them are gone through once, O(their names),
//! because tables have no order by name: less than 0.1 µs a name, and 1 µs for one below the cut, 4 µs where its own
//! member cuts. Memory: some hundred octets a cut, and the names below cuts in the zones that cut.

use super::reasons::{ConflictKind, is_dropped};
use super::{Members, RegionPlan};
use crate::zone::{Node, Owner, Zone};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use wire::name::Name;
use wire::rr::{self, Set, rtype};

/// The labels of an owner without origin, the one next to the origin first.
type Path = Box<[u8]>;

/// All cuts of a region's members.
#[derive(Default)]
pub(super) struct Delegations {
    /// The members that this is about; none while there are no cuts.
    of: Vec<Option<Arc<Zone>>>,
    cuts: BTreeMap<Path, Cut>,
    /// Names of each member with data at or below its own cuts.
    under: Vec<BTreeSet<Path>>,
}

/// A name at which members delegate.
#[derive(Default)]
struct Cut {
    /// The members that do, in order.
    delegating: BTreeSet<usize>,
    /// Names with data at or below, for each member that has some.
    names: BTreeMap<usize, Count>,
    verdict: Verdict,
}

/// Names with data at or below a cut.
#[derive(Clone, Copy, Default)]
struct Count {
    all: u64,
    /// Names at or below another cut of the same member that is further down.
    inner: u64,
}

/// Decision on a cut: the members whose records stand at and below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Verdict {
    /// All members that delegate do so within a cut of their own.
    #[default]
    None,
    /// Records of these members stand.
    Stands(Vec<usize>),
    /// Records of the members that delegate fall, because this one has data.
    Falls(usize),
}

/// Loss of a member's records: the reason for which they are not in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    pub kind: ConflictKind,
    /// The member whose records did it.
    pub by: usize,
}

/// Effect of a cut on a member's data at and below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Nothing; cuts further down may mean something.
    None,
    /// All of it is heard.
    Heard,
    /// Nothing of it is heard.
    Lost(Loss),
}

impl Verdict {
    /// Returns the effect on a member, which delegates there or does not.
    fn effect(&self, member: usize, delegates: bool) -> Effect {
        match self {
            Verdict::Stands(members) if members.contains(&member) => Effect::Heard,
            Verdict::Stands(members) => {
                let kind =
                    if delegates { ConflictKind::DifferentDelegations } else { ConflictKind::HiddenByDelegation };
                members.first().map_or(Effect::None, |by| Effect::Lost(Loss { kind, by: *by }))
            }
            Verdict::Falls(by) if delegates => Effect::Lost(Loss { kind: ConflictKind::DelegationAboveData, by: *by }),
            Verdict::Falls(_) | Verdict::None => Effect::None,
        }
    }
}

impl Delegations {
    /// Forgets everything; the next update begins anew.
    pub fn clear(&mut self) {
        *self = Delegations::default();
    }

    /// Returns true if no member delegates anything.
    pub fn is_empty(&self) -> bool {
        self.cuts.is_empty()
    }

    /// Returns true if an owner is at or below a cut, so that it has to be looked at.
    pub fn covers(&self, owner: &[u8]) -> bool {
        !self.cuts.is_empty() && above(&path_of(owner)).any(|path| self.cuts.contains_key(path))
    }

    /// Reason for which a member's data at an owner is not in the region, if delegations are the reason.
    pub fn loss(&self, member: usize, owner: &[u8]) -> Option<Loss> {
        if self.cuts.is_empty() {
            return None;
        }
        let path = path_of(owner);
        let mut above: Vec<&Cut> = above(&path).filter_map(|path| self.cuts.get(path)).collect();
        above.reverse();
        for cut in above {
            match cut.verdict.effect(member, cut.delegating.contains(&member)) {
                Effect::None => {}
                Effect::Heard => return None,
                Effect::Lost(loss) => return Some(loss),
            }
        }
        None
    }

    /// Makes everything anew.
    pub fn rebuild(&mut self, plan: &RegionPlan, members: &Members) {
        self.clear();
        if plan.members.len() < 2 {
            return;
        }
        let mut fresh = Vec::new();
        for (member, zone) in members.iter().enumerate() {
            let Some(zone) = zone.as_ref().filter(|zone| zone.cuts > 0) else { continue };
            let cuts = zone.nodes().filter(|node| is_cut(plan, *node));
            fresh.extend(cuts.map(|node| (member, path_of(node.owner()))));
        }
        self.enter(plan, members, fresh, &mut Touched::default());
        let verdicts: Vec<Verdict> = self.cuts.keys().map(|path| self.judge(path, members)).collect();
        self.cuts.values_mut().zip(verdicts).for_each(|(cut, verdict)| cut.verdict = verdict);
        self.remember(members);
    }

    /// Follows the members, which have changed at these names of the region. Returns names to look at beside them.
    pub fn update(&mut self, plan: &RegionPlan, members: &Members, changed: &[(usize, Name)]) -> Vec<Name> {
        let has_cuts = members.iter().flatten().any(|zone| zone.cuts > 0);
        if plan.members.len() < 2 || !has_cuts && self.cuts.is_empty() {
            return Vec::new();
        }
        let changed: BTreeSet<(usize, Path)> =
            changed.iter().map(|(member, name)| (*member, path_of(name.owner_in(&plan.origin)))).collect();
        let of = std::mem::take(&mut self.of);
        self.under.resize_with(plan.members.len(), BTreeSet::new);
        let mut touched = Touched::default();
        let (mut gone, mut fresh) = (Vec::new(), Vec::new());
        let mut steps = Vec::new();
        for (member, path) in changed.iter().filter(|(_, path)| !path.is_empty()) {
            let owner = owner_of(path);
            let owner = Owner::new(&owner);
            let old = of.get(*member).and_then(Option::as_ref).and_then(|zone| zone.get_at(&owner));
            let new = members[*member].as_ref().and_then(|zone| zone.get_at(&owner));
            let is = |what: fn(&RegionPlan, Node<'_>) -> bool, node: Option<Node<'_>>| {
                node.is_some_and(|node| what(plan, node))
            };
            match (is(is_cut, old), is(is_cut, new)) {
                (true, false) => gone.push((*member, path)),
                (false, true) => fresh.push((*member, path.clone())),
                _ => {}
            }
            steps.push((*member, path, is(has_data, old), is(has_data, new)));
        }
        gone.iter().for_each(|(member, path)| self.take_cut_away(*member, path, &mut touched));
        for (member, path, had, has) in steps {
            self.count(member, path, i64::from(has) - i64::from(had), &mut touched);
            if has && self.is_under(member, path) {
                self.under[member].insert(path.clone());
            } else {
                self.under[member].remove(path);
            }
        }
        self.enter(plan, members, fresh, &mut touched);
        for path in std::mem::take(&mut touched.cuts) {
            let verdict = self.judge(&path, members);
            let Some(cut) = self.cuts.get_mut(&path) else { continue };
            let before = std::mem::replace(&mut cut.verdict, verdict);
            let cut = &self.cuts[&path];
            let delegated = touched.delegating.get(&path).unwrap_or(&cut.delegating);
            for member in 0..members.len() {
                let old = before.effect(member, delegated.contains(&member));
                let new = cut.verdict.effect(member, cut.delegating.contains(&member));
                self.look_below(member, &path, (old, new), &mut touched.names);
            }
            if cut.delegating.is_empty() {
                self.cuts.remove(&path);
            }
        }
        for (member, path) in gone {
            let below = range(&self.under[member], path).filter(|below| !self.is_under(member, below));
            let below: Vec<Path> = below.cloned().collect();
            below.iter().for_each(|path| _ = self.under[member].remove(path));
        }
        self.remember(members);
        touched.names.iter().map(|path| Name::join(&owner_of(path), &plan.origin)).collect()
    }

    /// Keeps what the counts are about.
    fn remember(&mut self, members: &Members) {
        if self.cuts.is_empty() {
            self.clear();
        } else {
            self.of = members.to_vec();
        }
    }

    /// Counts a name that got or lost its data.
    fn count(&mut self, member: usize, path: &[u8], change: i64, touched: &mut Touched) {
        let mut is_inner = false;
        for path in above(path) {
            let Some(cut) = self.cuts.get_mut(path) else { continue };
            // Also without a change of the number: the NS set may be another one.
            touched.cuts.insert(path.into());
            let count = cut.names.entry(member).or_default();
            count.all = count.all.wrapping_add_signed(change);
            count.inner = count.inner.wrapping_add_signed(if is_inner { change } else { 0 });
            if count.all == 0 {
                cut.names.remove(&member);
            }
            is_inner |= cut.delegating.contains(&member);
        }
    }

    /// Counts the data at and below a cut that a member gets or loses as inner data of the cuts above.
    fn count_inner(&mut self, member: usize, path: &[u8], comes: bool) {
        let Some(count) = self.cuts.get(path).and_then(|cut| cut.names.get(&member)) else { return };
        let change = (count.all - count.inner) as i64;
        for path in above(path).skip(1) {
            let Some(cut) = self.cuts.get_mut(path) else { continue };
            if let Some(count) = cut.names.get_mut(&member) {
                count.inner = count.inner.wrapping_add_signed(if comes { change } else { -change });
            }
            if cut.delegating.contains(&member) {
                return;
            }
        }
    }

    /// Takes note that a member no longer delegates a name. Its names below are still known until they have been looked
    /// at.
    fn take_cut_away(&mut self, member: usize, path: &Path, touched: &mut Touched) {
        self.touch_around(path, touched);
        if let Some(cut) = self.cuts.get_mut(path) {
            cut.delegating.remove(&member);
        }
        self.count_inner(member, path, false);
    }

    /// Takes in cuts that members have made.
    fn enter(&mut self, plan: &RegionPlan, members: &Members, fresh: Vec<(usize, Path)>, touched: &mut Touched) {
        self.under.resize_with(plan.members.len(), BTreeSet::new);
        let mut comes = Comes::new();
        for (member, path) in &fresh {
            let is_new = !self.cuts.contains_key(path);
            comes.entry(owner_of(path)).or_insert((is_new, HashSet::new())).1.insert(*member);
        }
        comes.keys().for_each(|owner| _ = self.cuts.entry(path_of(owner)).or_default());
        for (member, zone) in members.iter().enumerate() {
            let Some(zone) = zone else { continue };
            let counts = |(is_new, cutting): &(bool, HashSet<usize>)| *is_new || cutting.contains(&member);
            let concerned = comes.iter().filter(|(_, cut)| counts(cut));
            let nodes: Vec<Node<'_>> = concerned.filter_map(|(owner, _)| zone.get_at(&Owner::new(owner))).collect();
            if nodes.iter().all(|node| node.below == 0) {
                nodes.into_iter().for_each(|node| self.note(plan, member, node, &comes));
            } else {
                below_any(zone, &comes).for_each(|node| self.note(plan, member, node, &comes));
            }
        }
        for (member, path) in &fresh {
            self.touch_around(path, touched);
            self.count_inner(*member, path, true);
            if let Some(cut) = self.cuts.get_mut(path) {
                cut.delegating.insert(*member);
            }
        }
    }

    /// Counts a node of a member at and above which cuts have come.
    fn note(&mut self, plan: &RegionPlan, member: usize, node: Node<'_>, comes: &Comes) {
        if !has_data(plan, node) {
            return;
        }
        let path = path_of(node.owner());
        let mut is_inner = false;
        for above in above(&path) {
            let Some(cut) = self.cuts.get_mut(above) else { continue };
            if let Some((is_new, cutting)) = comes.get(&node.owner()[path.len() - above.len()..]) {
                if *is_new {
                    let count = cut.names.entry(member).or_default();
                    (count.all, count.inner) = (count.all + 1, count.inner + u64::from(is_inner));
                }
                if cutting.contains(&member) {
                    self.under[member].insert(path.clone());
                }
            }
            is_inner |= cut.delegating.contains(&member);
        }
    }

    /// Notes the cuts at, above and below one that somebody makes or takes away, whose verdicts may change.
    fn touch_around(&self, path: &Path, touched: &mut Touched) {
        if let Some(cut) = self.cuts.get(path) {
            touched.delegating.entry(path.clone()).or_insert_with(|| cut.delegating.clone());
        }
        touched.cuts.extend(above(path).filter(|path| self.cuts.contains_key(*path)).map(Path::from));
        touched.cuts.extend(self.cuts_from(path).cloned());
    }

    /// The cuts at and below a name.
    fn cuts_from<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = &'a Path> {
        let from = self.cuts.range::<[u8], _>((Bound::Included(path), Bound::Unbounded));
        from.map(|(below, _)| below).take_while(move |below| below.starts_with(path))
    }

    /// Notes the names of a member at and below a cut that means something else for it than before.
    fn look_below(&self, member: usize, path: &[u8], (old, new): (Effect, Effect), names: &mut BTreeSet<Path>) {
        let under = &self.under[member];
        match (old, new) {
            _ if old == new => {}
            // What was heard is heard, but where a cut further down says otherwise, or did.
            (Effect::None, Effect::Heard) | (Effect::Heard, Effect::None) => {
                let mut last: Option<&Path> = None;
                for inner in self.cuts_from(path).filter(|inner| inner.len() > path.len()) {
                    if last.is_none_or(|last| !inner.starts_with(last)) {
                        names.extend(range(under, inner).cloned());
                        last = Some(inner);
                    }
                }
            }
            _ => names.extend(range(under, path).cloned()),
        }
    }

    /// Returns true if a member delegates a name or one above it.
    fn is_under(&self, member: usize, path: &[u8]) -> bool {
        above(path).any(|path| self.cuts.get(path).is_some_and(|cut| cut.delegating.contains(&member)))
    }

    /// Decides which members' records stand at and below a cut.
    fn judge(&self, path: &[u8], members: &Members) -> Verdict {
        let Some(cut) = self.cuts.get(path) else { return Verdict::None };
        let is_within = |member: usize| above(path).nth(1).is_some_and(|above| self.is_under(member, above));
        let mut tops = cut.delegating.iter().copied().filter(|member| !is_within(*member));
        let Some(first) = tops.next() else { return Verdict::None };
        let has_authority = |(member, count): (&usize, &Count)| {
            (count.all > count.inner && !self.is_under(*member, path)).then_some(*member)
        };
        if let Some(by) = cut.names.iter().find_map(has_authority) {
            return Verdict::Falls(by);
        }
        let owner = owner_of(path);
        let owner = Owner::new(&owner);
        let servers = |member: usize| members[member].as_ref()?.get_at(&owner)?.get(rtype::NS);
        let is_same = |member: &usize| {
            servers(first).zip(servers(*member)).is_some_and(|(ours, theirs)| has_same_records(rtype::NS, ours, theirs))
        };
        Verdict::Stands(std::iter::once(first).chain(tops.filter(is_same)).collect())
    }
}

/// Owners at which cuts come: whether nothing is known of them yet, and who cuts there now.
type Comes = HashMap<Box<[u8]>, (bool, HashSet<usize>)>;

/// The nodes of a zone at and below any of the cuts that come. Tables have no order by name, so all nodes are passed;
/// of most nothing is looked at but how long the ends of their owners are.
fn below_any<'z>(zone: &'z Zone, comes: &'z Comes) -> impl Iterator<Item = Node<'z>> {
    let mut lengths = [0u64; 4];
    comes.keys().for_each(|owner| lengths[owner.len() / 64] |= 1 << (owner.len() % 64));
    zone.nodes().filter(move |node| {
        let mut end = node.owner();
        while let Some(length) = end.first() {
            if lengths[end.len() / 64] >> (end.len() % 64) & 1 == 1 && comes.contains_key(end) {
                return true;
            }
            end = &end[1 + usize::from(*length)..];
        }
        false
    })
}

/// Cuts and names that an update concerns.
#[derive(Default)]
struct Touched {
    /// Cuts whose verdicts may change.
    cuts: BTreeSet<Path>,
    /// Members that delegated there before, where they are others now.
    delegating: HashMap<Path, BTreeSet<usize>>,
    /// Names to look at.
    names: BTreeSet<Path>,
}

/// Returns true if two sets of a type have the same records.
pub(super) fn has_same_records(rtype: u16, some: Set<'_>, others: Set<'_>) -> bool {
    let is_equal = |(a, b)| rr::compare(rtype, a, b) == Ordering::Equal;
    some.count == others.count && some.rdatas().zip(others.rdatas()).all(is_equal)
}

/// Returns true if a node below the apex delegates, as far as the region cares.
fn is_cut(plan: &RegionPlan, node: Node<'_>) -> bool {
    !node.owner().is_empty() && node.get(rtype::NS).is_some() && !is_excluded(plan, node)
}

/// Returns true if a member would bring anything of a node below the apex into the region.
fn has_data(plan: &RegionPlan, node: Node<'_>) -> bool {
    node.rrsets().any(|set| !is_dropped(set.rtype, false)) && !is_excluded(plan, node)
}

/// Returns true if the configuration leaves a node out of the region.
fn is_excluded(plan: &RegionPlan, node: Node<'_>) -> bool {
    !plan.exclude.is_empty() && plan.excludes(&Name::join(node.owner(), &plan.origin))
}

//--- Paths ---

/// The path of an owner without origin.
fn path_of(owner: &[u8]) -> Path {
    reverse(owner)
}

/// The owner that a path leads to.
fn owner_of(path: &[u8]) -> Box<[u8]> {
    reverse(path)
}

/// Labels in the opposite order.
fn reverse(labels: &[u8]) -> Box<[u8]> {
    let mut reversed = vec![0; labels.len()];
    let (mut from, mut to) = (0, labels.len());
    while let Some(length) = labels.get(from) {
        let label = &labels[from..=from + usize::from(*length)];
        to -= label.len();
        reversed[to..to + label.len()].copy_from_slice(label);
        from += label.len();
    }
    reversed.into()
}

/// A path and those above it, the longest first, without that of the origin.
fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut ends = [0; 128];
    let (mut end, mut count) = (0, 0);
    while let Some(length) = path.get(end) {
        end += 1 + usize::from(*length);
        (ends[count], count) = (end as u8, count + 1);
    }
    (0..count).rev().map(move |index| &path[..usize::from(ends[index])])
}

/// The paths at and below one.
fn range<'a>(paths: &'a BTreeSet<Path>, path: &'a [u8]) -> impl Iterator<Item = &'a Path> {
    let from = paths.range::<[u8], _>((Bound::Included(path), Bound::Unbounded));
    from.take_while(move |below| below.starts_with(path))
}

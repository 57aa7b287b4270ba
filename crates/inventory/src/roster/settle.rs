//! One batch: what changed is judged, damped once, named and told.
//!
//! Invariants: groups are evaluated after all members of the batch have joined, left or withdrawn, and labels are given
//! after all claims are known, so that the order of changes within a batch has no part in the result.
//!
//! Cost: O(names of the instances looked at · log).

use super::judge::ZoneScope;
use super::{Claim, GroupKey, Instance, Members, Roster, Settled, Spot, Use, Wake};
use crate::contribution::{Place, Published, below};
use crate::model::{Account, Key, Moment, Uuid, Vm};
use crate::packed::Packed;
use crate::tag;
use crate::verdict::{Reason, Verdict};
use std::cmp::Reverse as Latest;
use std::collections::{BTreeMap, HashSet};
use wire::name::Name;

/// An instance of a batch, and the account in whose names it is after it; none if it has no names.
type Named = (Uuid, Option<Uuid>);
/// What the instances of a batch would publish.
type Drafts = BTreeMap<Uuid, Option<Packed<Published>>>;

impl Roster {
    /// Publishes one batch: hard removals, additions, new reports, and then damping, once.
    pub fn settle(&mut self, now: Moment) -> Settled {
        self.pass(now);
        self.wake();
        let scope = self.scope();
        let mut drafts: Drafts = BTreeMap::new();
        for (uuid, at) in std::mem::take(&mut self.dirty) {
            self.judge(uuid, at, &scope, &mut drafts);
        }
        self.damp();
        self.give_labels();
        let mut stale = std::mem::take(&mut self.stale);
        stale.retain(|uuid| !drafts.contains_key(uuid));
        // Who has names after this batch, in the order of the drafts.
        let named: Vec<Named> =
            drafts.iter().map(|(uuid, draft)| (*uuid, draft.as_ref().map(|draft| draft.open().owner))).collect();
        for (uuid, draft) in drafts {
            self.publish(uuid, draft.map(|draft| draft.open()), &named);
        }
        for uuid in stale {
            if let Some(published) = self.vms.get(&uuid).and_then(Instance::published) {
                self.publish(uuid, Some(published), &named);
            }
        }
        self.alias_nodes();
        let touched = std::mem::take(&mut self.touched);
        Settled {
            touched: touched.into_iter().map(|(zone, names)| (zone, names.into_iter().collect())).collect(),
            next: self.wakes.peek().map(|Latest((at, _))| *at),
        }
    }

    /// The same, for whoever makes all zones anew: no names are told, which would be all that the instances have.
    pub fn settle_untold(&mut self, now: Moment) -> Option<Moment> {
        self.is_untold = true;
        let next = self.settle(now).next;
        self.is_untold = false;
        next
    }

    /// Takes everything whose moment has come.
    fn wake(&mut self) {
        while let Some(Latest((at, _))) = self.wakes.peek()
            && *at <= self.now
            && let Some(Latest((at, wake))) = self.wakes.pop()
        {
            match wake {
                Wake::Server(uuid) => self.judge_server(uuid),
                Wake::Report(uuid) => self.wake_report(uuid, at),
                Wake::Group(key) => {
                    self.dirty_groups.insert(key);
                }
                Wake::Opening => {
                    if self.memory.closed_until.is_some_and(|until| until <= self.now) {
                        self.memory.closed_until = None;
                    }
                }
            }
        }
    }

    /// Judges an instance, and takes what it says into its groups and claims.
    fn judge(&mut self, uuid: Uuid, at: Moment, scope: &[ZoneScope], drafts: &mut Drafts) {
        let Some(instance) = self.vms.get(&uuid) else { return };
        let vm = instance.vm.open();
        let draft = match self.draft(&vm, scope) {
            Ok(draft) => draft,
            Err(reason) => {
                self.set_undecided(uuid, reason);
                // Its labels may be others by now, or another's.
                self.stale.insert(uuid);
                self.recall_published(uuid, drafts);
                return;
            }
        };
        let owner = draft.published.as_ref().map(|published| published.owner);
        let claim = owner.and_then(|owner| self.alias_claim(&vm, owner));
        let Some(instance) = self.vms.get_mut(&uuid) else { return };
        self.tally.remove(instance);
        (instance.instance, instance.service) = (draft.verdict.instance, draft.verdict.service);
        (instance.first, instance.all) = (draft.verdict.first, draft.verdict.all);
        instance.recalled = None;
        if instance.undecided.take().is_some() {
            self.keeping.elements.insert(Key::Vm(uuid));
        }
        let before = instance.published();
        self.tally.add(instance);
        let services: Vec<&str> =
            draft.published.iter().flat_map(|published| published.services.iter().map(|offer| &*offer.name)).collect();
        if let Some(before) = &before {
            let stays = if owner == Some(before.owner) { &services[..] } else { &[] };
            self.leave_groups(uuid, before, stays);
        }
        if let Some(published) = &draft.published {
            self.join_groups(uuid, &draft.verdict, published, at);
        }
        self.claim_alias(uuid, claim);
        let former = before.as_ref().map(|before| before.owner);
        if let Some(former) = former.filter(|former| Some(*former) != vm.owner) {
            self.unuse(uuid, vec![Use::Account(former)]);
        }
        if owner != former {
            // An alias with the text of this UUID may be used, or no more.
            let owners = owner.into_iter().chain(former);
            self.dirty_aliases.extend(owners.map(|owner| (owner, uuid.to_string().into())));
        }
        drafts.insert(uuid, draft.published.as_deref().map(Packed::new));
    }

    /// Notes that an instance cannot be judged: what it had stays.
    fn set_undecided(&mut self, uuid: Uuid, reason: Reason) {
        let now = self.now;
        let Some(instance) = self.vms.get_mut(&uuid) else { return };
        self.tally.remove(instance);
        let since = instance.undecided.map_or(now, |(_, since)| since);
        if instance.undecided.is_none() && instance.published.is_some() {
            self.keeping.elements.insert(Key::Vm(uuid));
        }
        instance.undecided = Some((reason, since));
        (instance.first, instance.all) = Default::default();
        instance.first.add(reason);
        instance.all.add(reason);
        self.tally.add(instance);
    }

    /// Publishes again what an instance that cannot be judged had before a restart.
    fn recall_published(&mut self, uuid: Uuid, drafts: &mut Drafts) {
        let Some(instance) = self.vms.get_mut(&uuid) else { return };
        let Some(published) = instance.recalled.take() else { return };
        let claim = instance.claim.take().map(|claim| claim.open());
        self.claim_alias(uuid, claim);
        for offer in published.services.iter().filter(|offer| offer.is_in) {
            let key = (published.owner, offer.name.clone());
            let held = self.kept_hold(&key, uuid);
            let spots = spots(&published);
            let group = self.group(&key);
            match held {
                Some(since) => group.hold(uuid, &spots, since),
                None => {
                    group.join(uuid, &spots);
                }
            }
            self.forget_kept(&key, uuid);
            self.dirty_groups.insert(key);
        }
        drafts.insert(uuid, Some(Packed::new(&published)));
    }

    //--- Groups ---

    /// The group of a service, with what was kept of it if it is new.
    fn group(&mut self, key: &GroupKey) -> &mut Members {
        let kept = self.memory.groups.get(key);
        self.groups.entry(key.clone()).or_insert_with(|| {
            let mut group = Members::default();
            if let Some(kept) = kept {
                group.recall(kept.removed.clone(), kept.alone.clone());
            }
            group
        })
    }

    /// Moment of the report of an instance that was held, as it was kept.
    fn kept_hold(&self, key: &GroupKey, uuid: Uuid) -> Option<Moment> {
        let kept = self.memory.groups.get(key)?;
        kept.held.iter().find(|(_, vm)| *vm == uuid).map(|(since, _)| *since)
    }

    /// Takes an instance into the groups of its services: in service, or held there, or not.
    fn join_groups(&mut self, uuid: Uuid, verdict: &Verdict, published: &Published, at: Moment) {
        let spots = spots(published);
        for offer in &published.services {
            let key = (published.owner, offer.name.clone());
            if spots.is_empty() || !(verdict.service || verdict.soft) {
                self.leave_group(uuid, &key);
                continue;
            }
            let is_known = self.groups.contains_key(&key);
            let held = self.kept_hold(&key, uuid);
            let held = held.or_else(|| self.is_presumed(uuid, published, &offer.name).then_some(at));
            if verdict.soft && !is_known && held.is_none() {
                continue;
            }
            let group = self.group(&key);
            let mut returned = false;
            if verdict.service {
                returned = group.join(uuid, &spots);
            } else if group.contains(&uuid) {
                group.withdraw(uuid, &spots, at);
            } else if let Some(since) = held {
                group.hold(uuid, &spots, since);
            } else {
                continue;
            }
            self.tally.returned += u64::from(returned);
            self.keeping.groups.extend(returned.then(|| key.clone()));
            self.forget_kept(&key, uuid);
            self.dirty_groups.insert(key);
        }
    }

    /// What was kept of a member counts once.
    fn forget_kept(&mut self, key: &GroupKey, uuid: Uuid) {
        if let Some(kept) = self.memory.groups.get_mut(key) {
            self.keeping.groups.insert(key.clone());
            kept.held.retain(|(_, vm)| *vm != uuid);
            // Until there is a group, nothing else has its removals.
            if kept.held.is_empty() && self.groups.contains_key(key) {
                self.memory.groups.remove(key);
            }
        }
    }

    /// Returns true if an instance was in service, as its zones tell.
    fn is_presumed(&self, uuid: Uuid, published: &Published, service: &str) -> bool {
        let account = published.owner.to_string();
        !self.memory.presumed.is_empty()
            && self.config.forward.iter().any(|zone| {
                let name = below(&zone.origin, &[service, "svc", &account]);
                name.is_some_and(|name| self.memory.presumed.contains(&(name, uuid)))
            })
    }

    /// Takes an instance out of the groups of services that it does not have any more.
    pub(super) fn leave_groups(&mut self, uuid: Uuid, before: &Published, stays: &[&str]) {
        for offer in before.services.iter().filter(|offer| !stays.contains(&&*offer.name)) {
            self.leave_group(uuid, &(before.owner, offer.name.clone()));
        }
    }

    fn leave_group(&mut self, uuid: Uuid, key: &GroupKey) {
        let was_held = self.groups.get(key).is_some_and(|group| group.held_since(&uuid).is_some());
        self.keeping.groups.extend(was_held.then(|| key.clone()));
        if self.groups.get_mut(key).is_some_and(|group| group.remove(&uuid)) {
            self.tally.hard_removals += 1;
            self.dirty_groups.insert(key.clone());
        }
        self.forget_kept(key, uuid);
    }

    /// Evaluates all groups that changed, once.
    fn damp(&mut self) {
        let closed_until = self.memory.closed_until;
        for key in std::mem::take(&mut self.dirty_groups) {
            let Some(group) = self.groups.get_mut(&key) else { continue };
            let before = group.next();
            let was_calm = group.is_calm();
            let gone = group.evaluate(&self.config.damping, self.now, closed_until);
            self.tally.soft_removals += gone.len() as u64;
            self.stale.extend(gone);
            let next = group.next().filter(|next| before != Some(*next) || *next <= self.now);
            if let Some(next) = next {
                self.wakes.push(Latest((next, Wake::Group(key.clone()))));
            }
            if !(was_calm && group.is_calm()) {
                self.keeping.groups.insert(key.clone());
            }
            self.tally.hold(&key, group);
            if group.is_empty() && group.is_calm() {
                self.groups.remove(&key);
            }
        }
    }

    //--- Labels ---

    /// The label of an account's login.
    pub(super) fn login_label(&self, account: &Account) -> Option<Box<str>> {
        tag::label(&account.login)
    }

    /// Takes back an account's claim.
    pub(super) fn unclaim_login(&mut self, account: Uuid, label: Option<Box<str>>) {
        if let Some(label) = label {
            self.logins.remove(&label, &account);
            self.dirty_logins.insert(label);
        }
    }

    /// The label that an instance with names claims for its alias.
    fn alias_claim(&self, vm: &Vm, owner: Uuid) -> Option<Claim> {
        let label = tag::label(vm.alias.as_deref().filter(|_| self.config.use_alias)?)?;
        Some(((owner, label), vm.created.unwrap_or(Moment(i64::MAX))))
    }

    /// Puts a claim in the place of the one that an instance had.
    pub(super) fn claim_alias(&mut self, uuid: Uuid, claim: Option<Claim>) {
        let Some(instance) = self.vms.get_mut(&uuid) else { return };
        let packed = claim.as_ref().map(Packed::new);
        if instance.claim == packed {
            return;
        }
        let before = std::mem::replace(&mut instance.claim, packed);
        self.unclaim_alias(uuid, before);
        if let Some((key, created)) = claim {
            self.aliases.add(key.clone(), (created, uuid));
            self.dirty_aliases.insert(key);
        }
    }

    /// Takes back an instance's claim.
    pub(super) fn unclaim_alias(&mut self, uuid: Uuid, claim: Option<Packed<Claim>>) {
        if let Some((key, created)) = claim.map(|claim| claim.open()) {
            self.aliases.remove(&key, &(created, uuid));
            self.dirty_aliases.insert(key);
        }
    }

    /// Gives labels to their owners, and looks at all instances that won or lost one.
    fn give_labels(&mut self) {
        for label in std::mem::take(&mut self.dirty_logins) {
            let before = self.label_owners.get(&label).copied();
            let taken = tag::uuid_label(&label).filter(|uuid| self.accounts.contains_key(uuid));
            let mut fit = self.logins.of(&label).copied().filter(|claimant| taken.is_none_or(|uuid| uuid == *claimant));
            let first = fit.next();
            let keeps = before.filter(|owner| first == Some(*owner) || fit.any(|claimant| claimant == *owner));
            // Accounts that are not known yet may come again.
            let unknown =
                before.filter(|owner| !self.accounts.contains_key(owner) && first.is_none() && taken.is_none());
            let owner = keeps.or(first).or(unknown);
            drop(fit);
            if owner == before {
                continue;
            }
            match owner {
                Some(owner) => self.label_owners.insert(label.clone(), owner),
                None => self.label_owners.remove(&label),
            };
            self.keeping.labels.insert(label);
            for account in before.into_iter().chain(owner) {
                self.stale.extend(self.users.get(&Use::Account(account)).into_iter().flatten());
            }
        }
        for key in std::mem::take(&mut self.dirty_aliases) {
            self.stale.extend(self.aliases.of(&key).map(|(_, uuid)| *uuid));
        }
    }

    /// The label of an instance's alias; none if it is another's. The UUID of another instance is that one's own.
    fn own_alias(&self, uuid: Uuid, claim: Option<Claim>, named: &[Named]) -> Result<Option<Box<str>>, Reason> {
        let Some((key, _)) = claim else { return Ok(None) };
        let other = tag::uuid_label(&key.1).filter(|other| *other != uuid);
        // What the batch makes of the other counts, whichever of the two is published first.
        let holder = other.and_then(|other| match named.binary_search_by_key(&other, |(uuid, _)| *uuid) {
            Ok(place) => named.get(place)?.1,
            Err(_) => Some(self.vms.get(&other)?.published()?.owner),
        });
        let is_taken = holder == Some(key.0);
        match self.aliases.of(&key).next() {
            Some((_, first)) if *first == uuid && !is_taken => Ok(Some(key.1)),
            _ => Err(Reason::AliasConflict),
        }
    }

    /// The label of an account's login; none if it is another's.
    pub(super) fn own_login(&self, owner: Uuid) -> Result<Option<Box<str>>, Reason> {
        let account = self.accounts.get(&owner).filter(|_| self.config.use_login);
        let Some(label) = account.and_then(|known| self.login_label(&known.element)) else { return Ok(None) };
        if self.label_owners.get(&label) == Some(&owner) { Ok(Some(label)) } else { Err(Reason::LoginConflict) }
    }

    //--- Names ---

    /// Puts what an instance publishes in the place of what it published.
    fn publish(&mut self, uuid: Uuid, draft: Option<Published>, named: &[Named]) {
        let Some(instance) = self.vms.get(&uuid) else { return };
        let mut faults = Vec::new();
        let published = draft.map(|mut published| {
            let mut own = |label: Result<Option<Box<str>>, Reason>| {
                label.unwrap_or_else(|reason| {
                    faults.push(reason);
                    None
                })
            };
            published.alias = own(self.own_alias(uuid, instance.claim.as_ref().map(Packed::open), named));
            published.login = own(self.own_login(published.owner));
            for offer in &mut published.services {
                let group: Option<&Members> = self.groups.get(&(published.owner, offer.name.clone()));
                offer.is_in = group.is_some_and(|group| group.contains(&uuid));
            }
            published
        });
        let packed = published.as_ref().map(Packed::new);
        let is_same = instance.published == packed;
        let mut is_cut = instance.is_cut;
        if !is_same {
            is_cut = false;
            let before = self.vms.get_mut(&uuid).and_then(|instance| instance.published.take());
            if let Some(before) = before {
                self.withdraw_names(uuid, &before.open());
            }
            if let Some(published) = &published {
                let mut names = Vec::new();
                is_cut = !published.names(&self.config, uuid, |place, name, role| names.push((place, name, role)));
                for (place, name, role) in names {
                    self.touch(&place, &name);
                    let is_new = role.is_own() || self.index.add(&place, name, (uuid, role));
                    if is_new && matches!(place, Place::Forward(_)) {
                        self.tally.add_name(published.owner);
                    }
                }
            }
        }
        let Some(instance) = self.vms.get_mut(&uuid) else { return };
        self.tally.remove(instance);
        instance.published = packed;
        instance.is_cut = is_cut;
        if !is_same && instance.undecided.is_some() {
            // What it has is kept with it, and nothing else would say that this is another.
            self.keeping.elements.insert(Key::Vm(uuid));
        }
        if !is_same || !faults.is_empty() {
            instance.first.set(Reason::LoginConflict, faults.contains(&Reason::LoginConflict));
            instance.first.set(Reason::AliasConflict, faults.contains(&Reason::AliasConflict));
            instance.all.set(Reason::LoginConflict, faults.contains(&Reason::LoginConflict));
            instance.all.set(Reason::AliasConflict, faults.contains(&Reason::AliasConflict));
        }
        self.tally.add(instance);
    }

    /// Removes all names of an instance.
    pub(super) fn withdraw_names(&mut self, uuid: Uuid, published: &Published) {
        let mut names = Vec::new();
        published.names(&self.config, uuid, |place, name, role| names.push((place, name, role)));
        for (place, name, role) in names {
            let is_gone = role.is_own() || self.index.remove(&place, &name, (uuid, role));
            if is_gone && matches!(place, Place::Forward(_)) {
                self.tally.remove_name(published.owner);
            }
            self.touch(&place, &name);
        }
    }

    fn touch(&mut self, place: &Place, name: &Name) {
        if self.is_untold {
            return;
        }
        let zone = match place {
            Place::Forward(zone) => &self.config.forward[usize::from(*zone)].origin,
            Place::Reverse(zone) => zone,
        };
        match self.touched.get_mut(zone) {
            Some(names) => {
                names.insert(name.clone());
            }
            None => {
                self.touched.insert(zone.clone(), HashSet::from([name.clone()]));
            }
        }
    }

    /// Makes the aliases of compute nodes: those that are set up have one while the operator's account is known.
    fn alias_nodes(&mut self) {
        let stale = std::mem::take(&mut self.stale_nodes);
        if stale.is_empty() {
            return;
        }
        let mut accounts = self.accounts.values().filter(|account| !account.gone);
        let has_operator = self.config.cmon && accounts.any(|account| &*account.element.login == "admin");
        for uuid in stale {
            let Some(node) = self.servers.get_mut(&uuid) else { continue };
            let wanted = has_operator && node.server.setup && !node.gone;
            let had = std::mem::replace(&mut node.has_alias, wanted);
            let is_over = node.gone && !self.users.contains_key(&Use::Server(uuid));
            if is_over {
                self.servers.remove(&uuid);
                self.keeping.servers.insert(uuid);
                self.keeping.elements.insert(Key::Server(uuid));
            }
            if had == wanted {
                continue;
            }
            for zone in 0..self.config.forward.len() {
                let text = uuid.to_string();
                let Some(name) = below(&self.config.forward[zone].origin, &[&text, "cmon"]) else { continue };
                self.touch(&Place::Forward(zone as u16), &name);
            }
        }
    }
}

/// The zones and prefixes at which an instance has addresses.
fn spots(published: &Published) -> Vec<Spot> {
    let places = published.places().into_iter();
    places.map(|(zone, prefix, _)| (zone, published.prefix(prefix).into())).collect()
}

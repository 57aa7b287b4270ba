//! The books of the budget, as a pure type: what is granted, who waits, who is refused.
//!
//! A zone *claims* `steady`, what it takes once a transfer is published, and *uses* more while old and new version are
//! there both. What its source keeps beside the versions counts with it, once. With `floor` = budget ÷ (2 × zones) and
//! `reserve` = the largest claim, never less than a floor, these hold for everything that is granted:
//!
//! - Σ max(steady, floor) + reserve + kept ≤ budget: each zone reaches its floor, and then the largest can be replaced;
//! - Σ max(use, floor) + kept ≤ budget: there is room for both versions meanwhile;
//! - Σ use + kept + leaving + buffers + histories ≤ budget. Replaced versions that are still read, and buffers of what
//!   waits for the disk, are waited for, for moments as a rule; histories have what nobody else uses, and go where it
//!   is needed.
//!
//! The last one gives way to the others, so that nothing waits for ever for a reader or a disk that hangs. Buffers hold
//! up growth beyond floors only; and whoever has waited long for replaced versions goes on all the same within its
//! floor, and in its turn with differences, which share most with what they replace. The rest is refused.
//!
//! Differences claim what has come of them, removals included, as if all of it were growth. Where there is no room for
//! that they take a turn like a whole zone, and may then hold as much as the version that is there; what they come to
//! claims what it takes more than that. So a version that is no larger than the one before always gets through.
//!
//! What is loaded from disk, written in the configuration or *kept* by order, counts and is never refused; where that
//! breaks the inequalities, nothing is granted but growth within floors, and one replacement at a time.
//!
//! Cost: O(log zones) for a change; O(transfers) where something does not fit.

use super::Excess;
use super::buffers::Buffers;
use std::any::Any;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Weak;
use wire::name::Name;

/// Histories take this part of the budget at most.
const HISTORY_PART: u64 = 4;

/// Effect of a transfer on the version that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Adds to it.
    Change,
    /// Changes it in its turn, with as much room in between as a replacement has.
    ChangeInTurn,
    /// Takes its place.
    Replace,
}

/// Answer to a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Granted,
    /// Something else has to give way, and will.
    Wait,
    Refused(Excess),
}

impl Verdict {
    /// The answer to a wish, if there is one yet.
    pub fn answer(self) -> Option<Result<(), Excess>> {
        match self {
            Verdict::Granted => Some(Ok(())),
            Verdict::Refused(excess) => Some(Err(excess)),
            Verdict::Wait => None,
        }
    }
}

/// Treatment of octets that wait for the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disk {
    Counted,
    Ignored,
}

/// The octets of everything, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Usage {
    pub budget: u64,
    /// Published versions, with what regions take of them.
    pub zones: u64,
    /// Transfers in progress, and versions that were replaced and that somebody still reads.
    pub transfers: u64,
    pub histories: u64,
    /// Contents to which regions are pinned.
    pub pinned: u64,
    pub catalog: u64,
    /// What answers are made of beside zones: selections, and whose clients are whose.
    pub answers: u64,
    /// Octets that wait for the disk.
    pub disk: u64,
}

impl Usage {
    /// The parts with their labels.
    pub fn parts(&self) -> [(&'static str, u64); 7] {
        let Usage { zones, transfers, histories, pinned, catalog, answers, disk, .. } = *self;
        [
            ("zones", zones),
            ("transfers", transfers),
            ("histories", histories),
            ("pinned", pinned),
            ("catalog", catalog),
            ("answers", answers),
            ("disk", disk),
        ]
    }

    /// All of them together.
    pub fn octets(&self) -> u64 {
        self.parts().iter().map(|(_, octets)| octets).sum()
    }
}

/// Octets of what nobody transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Contents to which regions are pinned.
    pub pinned: u64,
    pub catalog: u64,
    /// What answers are made of beside zones.
    pub answers: u64,
}

impl Kept {
    /// All of them.
    fn octets(self) -> u64 {
        self.pinned.saturating_add(self.catalog).saturating_add(self.answers)
    }
}

/// One zone.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Number of times that it is there: by itself, and in regions.
    weight: u64,
    /// Octets of the published version, once.
    version: u64,
    /// Octets that its source keeps beside it.
    beside: u64,
    /// Octets granted to transfers, weighted.
    changes: u64,
    replacements: u64,
}

impl Account {
    /// The published version, and what is beside it.
    fn published(&self) -> u64 {
        self.version.saturating_mul(self.weight).saturating_add(self.beside)
    }

    /// Returns the octets that it takes when its transfers are published.
    fn steady(&self) -> u64 {
        self.published().max(self.replacements).saturating_add(self.changes)
    }

    /// Returns the octets that it takes now.
    fn used(&self) -> u64 {
        self.published().saturating_add(self.replacements).saturating_add(self.changes)
    }
}

/// A transfer.
#[derive(Debug)]
struct Transfer {
    zone: Name,
    manner: Manner,
    /// Octets of the version that was published when it began, weighted.
    before: u64,
    /// Granted, weighted.
    octets: u64,
    /// Set when it has to give way.
    refused: Option<Excess>,
}

/// A version that is no longer published.
#[derive(Debug)]
struct Leaving {
    octets: u64,
    /// Gone when nobody has it any more.
    version: Weak<dyn Any + Send + Sync>,
}

/// The sums of all accounts.
#[derive(Debug, Default)]
struct Sums {
    /// Σ max(steady, floor), Σ max(use, floor), and Σ use.
    steady: u64,
    used: u64,
    filled: u64,
    /// Number of zones that claim as much.
    claims: BTreeMap<u64, usize>,
}

impl Sums {
    /// Counts an account.
    fn add(&mut self, account: &Account, floor: u64) {
        self.steady = self.steady.saturating_add(account.steady().max(floor));
        self.used = self.used.saturating_add(account.used().max(floor));
        self.filled = self.filled.saturating_add(account.used());
        *self.claims.entry(account.steady()).or_default() += 1;
    }

    /// Counts an account no more.
    fn remove(&mut self, account: &Account, floor: u64) {
        self.steady -= account.steady().max(floor);
        self.used -= account.used().max(floor);
        self.filled -= account.used();
        if let Some(count) = self.claims.get_mut(&account.steady()) {
            *count -= 1;
            if *count == 0 {
                self.claims.remove(&account.steady());
            }
        }
    }
}

/// The books.
#[derive(Debug)]
pub struct Ledger {
    budget: u64,
    floor: u64,
    histories: u64,
    kept: Kept,
    buffers: Buffers,
    /// Octets of histories that a transfer asks for.
    wanted: u64,
    zones: HashMap<Name, Account>,
    sums: Sums,
    transfers: HashMap<u64, Transfer>,
    /// Replacements that wait for their turn.
    line: VecDeque<u64>,
    leaving: Vec<Leaving>,
    next: u64,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger {
            budget: u64::MAX,
            floor: u64::MAX,
            histories: 0,
            kept: Kept::default(),
            buffers: Buffers::default(),
            wanted: 0,
            zones: HashMap::new(),
            sums: Sums::default(),
            transfers: HashMap::new(),
            line: VecDeque::new(),
            leaving: Vec::new(),
            next: 0,
        }
    }
}

impl Ledger {
    /// Sets the budget and the zones, each with how often it is there. O(zones)
    pub fn configure(&mut self, budget: u64, zones: impl IntoIterator<Item = (Name, u64)>) {
        let mut old = std::mem::take(&mut self.zones);
        let account = |(name, weight): (Name, u64)| {
            let Account { version, beside, .. } = old.remove(&name).unwrap_or_default();
            (name, Account { weight, version, beside, ..Account::default() })
        };
        self.zones = zones.into_iter().map(account).collect();
        for transfer in self.transfers.values() {
            if let Some(account) = self.zones.get_mut(&transfer.zone) {
                *account.granted(transfer.manner) += transfer.octets;
            }
        }
        self.budget = budget;
        self.floor = budget / (2 * self.zones.len().max(1) as u64);
        self.sums = Sums::default();
        self.zones.values().for_each(|account| self.sums.add(account, self.floor));
    }

    /// Notes what a zone's published version takes, wherever it came from.
    pub fn publish(&mut self, zone: &Name, octets: u64) {
        self.change(zone, |account| account.version = octets);
    }

    /// Notes what a zone's source keeps in memory beside the versions.
    pub fn set_beside(&mut self, zone: &Name, octets: u64) {
        self.change(zone, |account| account.beside = octets);
    }

    /// Notes what zones take that nobody transfers.
    pub fn set_kept(&mut self, kept: Kept) {
        self.kept = kept;
    }

    /// Counts these buffers from now on.
    pub fn set_buffers(&mut self, buffers: Buffers) {
        self.buffers = buffers;
    }

    /// Notes what all histories take.
    pub fn set_histories(&mut self, octets: u64) {
        (self.histories, self.wanted) = (octets, 0);
    }

    /// Returns what histories may take, so that they are in nobody's way.
    pub fn room_for_histories(&mut self) -> u64 {
        self.forget_leaving();
        let taken = self.all().saturating_sub(self.histories).saturating_add(self.wanted);
        (self.budget / HISTORY_PART).min(self.budget.saturating_sub(taken))
    }

    /// Returns true if histories take more than that.
    pub fn has_too_much_history(&mut self) -> bool {
        self.histories > self.room_for_histories()
    }

    /// Begins a transfer, which has nothing yet. All but changes ask for their turn first.
    pub fn begin(&mut self, zone: &Name, manner: Manner) -> u64 {
        self.next += 1;
        let before = self.zones.get(zone).map_or(0, Account::published);
        let transfer = Transfer { zone: zone.clone(), manner, before, octets: 0, refused: None };
        self.transfers.insert(self.next, transfer);
        if manner != Manner::Change {
            self.line.push_back(self.next);
        }
        self.next
    }

    /// Decides if a replacement may begin. It is granted as much as the version that it replaces, out of its floor
    /// where that has room, else in its turn out of what is free: the reserve is, when nobody else replaces anything
    /// beyond its floor. `None` while others are in front of it. One that has waited long for replaced versions is
    /// late.
    pub fn turn(&mut self, id: u64, is_late: bool) -> Option<Verdict> {
        let Some(place) = self.line.iter().position(|waiting| *waiting == id) else { return Some(Verdict::Granted) };
        let Transfer { zone, manner, .. } = &self.transfers[&id];
        let (manner, account) = (*manner, self.zones.get(zone).copied().unwrap_or_default());
        let octets = account.published();
        let used = account.used().saturating_add(octets);
        let is_first = || {
            let more = used.max(self.floor) - account.used().max(self.floor);
            let fits = self.sums.used.saturating_add(self.kept.octets()).saturating_add(more) <= self.budget;
            let is_within = |account: &Account| account.replacements == 0 || account.used() <= self.floor;
            place == 0 && (fits || self.zones.values().all(is_within))
        };
        let is_within = octets == 0 || used <= self.floor;
        if !(is_within || is_first()) {
            return None;
        }
        self.grant(id, octets);
        if self.is_obstructed(octets, Disk::Ignored) && !(is_late && (is_within || manner == Manner::ChangeInTurn)) {
            self.grant(id, 0);
            return Some(if is_late { Verdict::Refused(self.refuse(id, octets)) } else { Verdict::Wait });
        }
        self.line.remove(place);
        Some(Verdict::Granted)
    }

    /// Asks for so many octets in all: for one copy of what the transfer has brought, and for what is kept beside it.
    pub fn grow(&mut self, id: u64, octets: u64, beside: u64) -> Verdict {
        let Some(transfer) = self.transfers.get(&id) else { return Verdict::Granted };
        if let Some(excess) = transfer.refused {
            return Verdict::Refused(excess);
        }
        let Some(before) = self.zones.get(&transfer.zone).copied() else { return Verdict::Granted };
        let granted = transfer.octets;
        let octets = octets.saturating_mul(before.weight).saturating_add(beside);
        if octets <= granted {
            return Verdict::Granted;
        }
        self.grant(id, octets);
        let after = self.zones[&self.transfers[&id].zone];
        let is_within = after.used() <= self.floor;
        if is_within || self.fits() {
            let disk = if is_within { Disk::Ignored } else { Disk::Counted };
            if !self.is_obstructed(octets - granted, disk) {
                return Verdict::Granted;
            }
            self.grant(id, granted);
            return Verdict::Wait;
        }
        self.grant(id, granted);
        match self.furthest_over(id, after.steady()) {
            Some((steady, other)) => {
                self.refuse(other, steady);
                Verdict::Wait
            }
            None => Verdict::Refused(self.refuse(id, after.steady())),
        }
    }

    /// Asks once more for what others did not give way to in time.
    pub fn insist(&mut self, id: u64, octets: u64, beside: u64) -> Result<(), Excess> {
        if let Some(answer) = self.grow(id, octets, beside).answer() {
            return answer;
        }
        let Some(Transfer { zone, octets: granted, .. }) = self.transfers.get(&id) else { return Ok(()) };
        let (granted, account) = (*granted, self.zones.get(zone).copied().unwrap_or_default());
        let octets = octets.saturating_mul(account.weight).saturating_add(beside);
        if account.used().saturating_add(octets.saturating_sub(granted)) <= self.floor {
            self.grant(id, octets);
            return Ok(());
        }
        Err(self.refuse(id, octets))
    }

    /// Refuses a transfer with which its zone would take so much.
    fn refuse(&mut self, id: u64, octets: u64) -> Excess {
        let excess = Excess { octets, share: self.floor, budget: self.budget };
        self.transfers.entry(id).and_modify(|transfer| transfer.refused = Some(excess));
        excess
    }

    /// Returns why a transfer has to give way, if it has.
    pub fn refusal(&self, id: u64) -> Option<Excess> {
        self.transfers.get(&id)?.refused
    }

    /// Returns what a transfer does; none where it is unknown.
    pub fn manner(&self, id: u64) -> Option<Manner> {
        Some(self.transfers.get(&id)?.manner)
    }

    /// Lets a change become a replacement without a turn: the primary has sent the whole zone.
    pub fn turn_into_replacement(&mut self, id: u64) {
        let Some(transfer) = self.transfers.get(&id) else { return };
        let octets = transfer.octets;
        self.grant(id, 0);
        self.transfers.entry(id).and_modify(|transfer| transfer.manner = Manner::Replace);
        self.grant(id, octets);
    }

    /// Ends a transfer. Where it has replaced a version, what it had beside the new one counts for the old one until
    /// nobody has that any more.
    pub fn end(&mut self, id: u64, replaced: Option<Weak<dyn Any + Send + Sync>>) {
        self.line.retain(|waiting| *waiting != id);
        let granted = self.transfers.get(&id).map_or(0, |transfer| transfer.octets);
        self.grant(id, 0);
        let Some(Transfer { zone, before, .. }) = self.transfers.remove(&id) else { return };
        let Some(version) = replaced.filter(|version| version.strong_count() > 0) else { return };
        let now = self.zones.get(&zone).map_or(0, Account::published);
        let octets = before.saturating_add(granted).saturating_sub(now).min(before);
        if octets > 0 {
            self.leaving.push(Leaving { octets, version });
        }
    }

    /// Returns what is used for what. O(zones)
    pub fn usage(&mut self) -> Usage {
        self.forget_leaving();
        let zones = self.zones.values().map(Account::published).sum();
        let transfers = self.zones.values().map(|account| account.changes + account.replacements).sum::<u64>();
        let (transfers, Kept { pinned, catalog, answers }) = (transfers + self.leaving_octets(), self.kept);
        let (budget, histories, disk) = (self.budget, self.histories, self.buffers.octets());
        Usage { budget, zones, transfers, histories, pinned, catalog, answers, disk }
    }

    //--- Sums ---

    /// Returns true if what is granted is within the budget, as far as zones and transfers go.
    fn fits(&self) -> bool {
        let largest = self.sums.claims.last_key_value().map_or(0, |(claim, _)| *claim);
        let most = self.sums.steady.saturating_add(largest.max(self.floor)).max(self.sums.used);
        most.saturating_add(self.kept.octets()) <= self.budget
    }

    /// Returns true if what goes by itself, or gives way, is still where something was granted, the last of it so many
    /// octets. Histories give way with as much again, so that the next octets need not wait.
    fn is_obstructed(&mut self, octets: u64, disk: Disk) -> bool {
        let buffers = if disk == Disk::Counted { 0 } else { self.buffers.octets() };
        if self.all().saturating_sub(buffers) <= self.budget {
            return false;
        }
        self.forget_leaving();
        let all = self.all().saturating_sub(buffers);
        if self.histories > 0 && all > self.budget {
            self.wanted = self.wanted.max(octets.saturating_mul(2));
        }
        all > self.budget && all > self.sums.filled.saturating_add(self.kept.octets())
    }

    /// Octets of everything.
    fn all(&self) -> u64 {
        let parts = [self.kept.octets(), self.leaving_octets(), self.buffers.octets(), self.histories];
        parts.into_iter().fold(self.sums.filled, u64::saturating_add)
    }

    /// Octets of replaced versions.
    fn leaving_octets(&self) -> u64 {
        self.leaving.iter().map(|leaving| leaving.octets).sum()
    }

    /// Forgets replaced versions that nobody has any more.
    fn forget_leaving(&mut self) {
        self.leaving.retain(|leaving| leaving.version.strong_count() > 0);
    }

    /// The transfer that makes its zone grow furthest over its share, and what the zone takes then, if that is more than
    /// this claim.
    fn furthest_over(&self, except: u64, claim: u64) -> Option<(u64, u64)> {
        let grows = |(id, transfer): (&u64, &Transfer)| {
            let account = self.zones.get(&transfer.zone)?;
            let is_growth = transfer.octets > 0 && account.steady() > account.published().max(self.floor);
            let counts = *id != except && is_growth && account.steady() > claim;
            counts.then_some((account.steady(), *id))
        };
        self.transfers.iter().filter_map(grows).max()
    }

    /// Sets what a transfer has.
    fn grant(&mut self, id: u64, octets: u64) {
        let Some(transfer) = self.transfers.get_mut(&id) else { return };
        let (before, manner, zone) = (transfer.octets, transfer.manner, transfer.zone.clone());
        transfer.octets = octets;
        self.change(&zone, |account| {
            let granted = account.granted(manner);
            *granted = granted.saturating_sub(before).saturating_add(octets);
        });
    }

    /// Changes an account, and the sums with it.
    fn change(&mut self, zone: &Name, change: impl FnOnce(&mut Account)) {
        let Some(account) = self.zones.get_mut(zone) else { return };
        self.sums.remove(account, self.floor);
        change(account);
        self.sums.add(account, self.floor);
    }
}

impl Account {
    /// Returns what transfers of a manner have.
    fn granted(&mut self, manner: Manner) -> &mut u64 {
        match manner {
            Manner::Change => &mut self.changes,
            Manner::ChangeInTurn | Manner::Replace => &mut self.replacements,
        }
    }
}

#[cfg(test)]
mod tests;

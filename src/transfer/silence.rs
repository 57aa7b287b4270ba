//! Primaries that may have stopped announcing changes to us (`docs/cns.md` 26).
//!
//! CNS sends no more NOTIFY to an address that failed to reply five times in a row, whatever the zone, until five
//! minutes after the next transfer that it saw arrive. It does not say so. So its silence is assumed, for each address
//! of a primary and the address that we have for it,
//!
//! - when we begin, and when this process, its machine or the way to the primary stood still for [`Times::outage`]: we
//!   could not reply;
//! - when a timer's poll finds a serial that CNS made [`Times::age`] ago, and no NOTIFY has come.
//!
//! Then some transfer must start CNS' five minutes: one that is due, or else one question for differences at our own
//! serial, for one zone of the address. Until CNS is heard again, or [`Times::window`] after that transfer, all zones
//! of the address are polled every [`Times::interval`].
//!
//! That question waits in the queue of transfers, for a while: those in front of it start CNS' time as well. Of its
//! answer only the SOA in front is read, then the connection is closed, because CNS sends the whole zone to whoever has
//! it. It takes a transfer for done when it has written the end, whoever reads it, and then looks at the serial that we
//! serve.
//!
//! What was heard before says nothing. A NOTIFY that came while this process stood still is read when it runs again, so
//! after that none ends the silence before a transfer has started CNS' time.
//!
//! None of this concerns others than CNS: a zone is taken for one of CNS' by the timers of its SOA, which CNS has as
//! constants, and a serial that its clock can have made. Servers that forget nobody are polled as their zones ask. Nor
//! does it concern IPv6: CNS sends no NOTIFY there at all, and its zones are polled by their timers as ever.
//!
//! Invariants: polls are only ever hastened, to [`Times::gap`] apart for one address at most; what is heard of one zone
//! counts for all of its address.
//!
//! Cost: O(1) for each poll and NOTIFY; a task that looks at the clock and O(addresses) gauges once a second; O(zones
//! of the address) when silence begins.

use crate::client::Server;
use crate::metrics::{Metrics, unix_seconds};
use crate::timestamp;
use crate::transfer::error::TransferError;
use crate::transfer::status::{SilenceStatus, unix_after};
use crate::zone::Soa;
use chrono::{Datelike, Timelike};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::info;
use wire::serial::Serial;

/// Interval at which the clock is looked at for a time in which we stood still.
const LOOK: Duration = Duration::from_secs(1);
/// Pause before the next question at our own serial after one that failed.
const AGAIN: Duration = Duration::from_secs(60);
/// Error that a clock may have for its serials to be taken for those of CNS.
const CLOCK_ERROR: Duration = Duration::from_secs(86_400);
/// REFRESH, RETRY, EXPIRE and MINIMUM of every zone of CNS.
const CNS_TIMERS: (u32, u32, u32, u32) = (30, 60, 2_592_000, 30);
/// The serial of the first CNS, of October 2015.
const FIRST_SERIAL: Serial = Serial(372_030_984);

/// The serial that CNS' clock shows at a moment, but for the one that it adds: ticks of ten seconds on a calendar whose
/// months all have 31 days. Moments before 1970 count as 1970.
pub fn tick(moment: SystemTime) -> Serial {
    let moment = timestamp::calendar(moment);
    let months = (i64::from(moment.year()) - 1900) * 12 + i64::from(moment.month0());
    let days = months * 31 + i64::from(moment.day0());
    // Serial space is 32 bits wide; the cut is reached centuries from now.
    Serial((days * 8_640 + i64::from(moment.num_seconds_from_midnight() / 10)) as u32)
}

/// Returns true if a zone can be one that CNS serves.
fn is_cns(soa: &Soa, now: SystemTime) -> bool {
    (soa.refresh, soa.retry, soa.expire, soa.minimum) == CNS_TIMERS
        && !FIRST_SERIAL.newer_than(soa.serial)
        && !soa.serial.newer_than(tick(now + CLOCK_ERROR))
}

/// Times of what is done about silence.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Longest time without replies after which CNS still announces: less than five NOTIFY, one every five seconds.
    pub outage: Duration,
    /// Age of a serial that should have been announced: it appears within ten seconds of its tick, NOTIFY five
    /// later.
    pub age: Duration,
    /// Between two polls of a zone while silence is assumed.
    pub interval: Duration,
    /// Time for which silence is assumed after the transfer that ends it: CNS takes five minutes.
    pub window: Duration,
    /// Between two such polls of one address.
    pub gap: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Times {
            outage: Duration::from_secs(20),
            age: Duration::from_secs(10),
            interval: Duration::from_secs(10),
            window: Duration::from_secs(360),
            gap: Duration::from_millis(10),
        }
    }
}

/// By whom a primary knows us: its address, and ours if that is configured.
type Pair = (SocketAddr, Option<IpAddr>);

/// Assumptions about all addresses.
pub struct Silences {
    times: Times,
    metrics: Arc<Metrics>,
    pairs: Mutex<HashMap<Pair, Arc<Silence>>>,
}

impl Silences {
    /// Knows no address yet, and begins to look at the clock. Must be called within a tokio runtime.
    pub fn start(times: Times, metrics: Arc<Metrics>) -> Arc<Silences> {
        let silences = Arc::new(Silences { times, metrics, pairs: Mutex::default() });
        tokio::spawn(watch_clock(Arc::downgrade(&silences)));
        silences
    }

    /// Returns the assumptions about a primary; silence, if it was not known before.
    pub fn of(&self, primary: &Server) -> Arc<Silence> {
        let new = || Arc::new(Silence::assumed(self.times, Instant::now()));
        self.pairs().entry((primary.address, primary.source)).or_insert_with(new).clone()
    }

    /// Forgets the addresses that no zone has any more.
    pub fn forget_unused(&self) {
        let mut pairs = self.pairs();
        let unused = pairs.extract_if(|_, silence| Arc::strong_count(silence) == 1);
        let gone: Vec<SocketAddr> = unused.map(|((address, _), _)| address).collect();
        for address in gone.iter().filter(|gone| !pairs.keys().any(|(address, _)| address == *gone)) {
            self.metrics.forget_silence(&address.to_string());
        }
    }

    /// The addresses, for a moment.
    fn pairs(&self) -> MutexGuard<'_, HashMap<Pair, Arc<Silence>>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what is assumed of each address.
    fn show(&self, now: Instant) {
        let mut shown: HashMap<SocketAddr, bool> = HashMap::new();
        for ((address, _), silence) in self.pairs().iter() {
            let state = silence.state();
            if state.is_cns {
                *shown.entry(*address).or_default() |= state.is_assumed(now);
            }
        }
        for (address, assumed) in shown {
            self.metrics.silence_assumed.with_label_values(&[&address.to_string()]).set(i64::from(assumed));
        }
    }
}

/// Notices when nothing ran for a while, by both clocks: that of the process stops with the machine, the other one does
/// not.
async fn watch_clock(silences: Weak<Silences>) {
    loop {
        let (begun, wall) = (Instant::now(), SystemTime::now());
        tokio::time::sleep(LOOK).await;
        let Some(silences) = silences.upgrade() else { return };
        let gap = wall.elapsed().unwrap_or_default().max(begun.elapsed());
        silences.show(Instant::now());
        if gap > silences.times.outage {
            info!(seconds = gap.as_secs(), "nothing ran for a while; CNS may have stopped announcing changes");
            let now = Instant::now();
            silences.pairs().values().for_each(|silence| silence.assume_after_standstill(now));
        }
    }
}

/// Assumptions about one address.
pub struct Silence {
    times: Times,
    state: Mutex<State>,
    /// Rings whenever silence is assumed anew.
    bell: watch::Sender<()>,
}

/// The assumption.
struct State {
    /// Time from which a transfer that must still start CNS' time may be asked for.
    owed: Option<Instant>,
    /// Until when the zones are polled more often.
    until: Option<Instant>,
    /// The first moment that no such poll has taken.
    free: Instant,
    /// Since when the primary has not answered.
    lost: Option<Instant>,
    /// True if a zone of the address is one of CNS', which alone concerns anybody.
    is_cns: bool,
    /// True if a NOTIFY may have come before silence was assumed, and lain in a socket while nothing ran. What has
    /// started CNS' time was answered later than all of these were read.
    is_late: bool,
    /// Questions at our own serial that were answered.
    questions: u64,
    /// Time of the last one, in Unix seconds.
    asked: Option<i64>,
}

impl State {
    /// Returns true if the zones are polled more often.
    fn is_assumed(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

impl Silence {
    /// Assumes silence from the beginning.
    fn assumed(times: Times, now: Instant) -> Silence {
        let (owed, until) = (Some(now), Some(now + times.window));
        let state =
            State { owed, until, free: now, lost: None, is_cns: false, is_late: false, questions: 0, asked: None };
        Silence { times, state: Mutex::new(state), bell: watch::Sender::new(()) }
    }

    /// The assumption, for a moment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assumes silence from now on.
    fn assume(&self, now: Instant) {
        let mut state = self.state();
        (state.owed, state.until) = (Some(now), Some(now + self.times.window));
        drop(state);
        self.bell.send_replace(());
    }

    /// Assumes silence because nothing ran for a while. What is heard says nothing yet: it may have come before.
    fn assume_after_standstill(&self, now: Instant) {
        self.state().is_late = true;
        self.assume(now);
    }

    /// Takes a NOTIFY: there is no silence, unless it is an old one.
    pub fn hear(&self) {
        let mut state = self.state();
        if !state.is_late {
            (state.owed, state.until) = (None, None);
        }
    }

    /// Takes a transfer that the primary saw arrive, and that may have been overdue.
    fn note_transfer(&self, overdue: bool, now: Instant) {
        let is_assumed = {
            let state = self.state();
            state.owed.is_some() || state.is_assumed(now)
        };
        if overdue && !is_assumed {
            self.assume(now);
        }
        let mut state = self.state();
        state.is_late = false;
        if state.owed.take().is_some() {
            state.until = Some(now + self.times.window);
        }
    }

    /// Takes whether the primary could be asked.
    fn note_way(&self, is_open: bool, now: Instant) {
        let mut state = self.state();
        if !is_open {
            state.lost.get_or_insert(now);
            return;
        }
        let lost = state.lost.take();
        drop(state);
        if lost.is_some_and(|lost| now.duration_since(lost) > self.times.outage) {
            self.assume(now);
        }
    }

    /// Returns true if the caller is to start CNS' time; nobody else is asked to for a while.
    fn claim(&self, now: Instant) -> bool {
        let mut state = self.state();
        let is_due = state.owed.is_some_and(|due| due <= now);
        if is_due {
            state.owed = Some(now + AGAIN);
        }
        is_due
    }

    /// Returns true if CNS' time is still to be started.
    pub fn is_owed(&self) -> bool {
        self.state().owed.is_some()
    }

    /// Takes that the question at our own serial was answered, which CNS takes for a transfer.
    pub fn note_question(&self, now: Instant) {
        let mut state = self.state();
        (state.questions, state.asked) = (state.questions + 1, Some(unix_seconds(SystemTime::now())));
        drop(state);
        self.note_transfer(false, now);
    }

    /// Status for operators; none where no zone is one of CNS'.
    pub fn status(&self, now: Instant) -> Option<SilenceStatus> {
        let state = self.state();
        let until = state.until.and_then(|until| until.checked_duration_since(now)).filter(|left| !left.is_zero());
        let (owed, questions, asked) = (state.owed.is_some() && until.is_some(), state.questions, state.asked);
        state.is_cns.then(|| SilenceStatus { until: until.map(unix_after), owed, questions, asked })
    }

    /// Returns when a zone is polled next that must not be before `earliest` and will be at `regular`.
    fn hasten(&self, earliest: Instant, regular: Instant, now: Instant) -> Instant {
        let mut state = self.state();
        if state.until.is_none_or(|until| until <= earliest.max(now)) {
            return regular;
        }
        let at = earliest.max(now).max(state.free);
        if at >= regular {
            return regular;
        }
        state.free = at + self.times.gap;
        at
    }
}

/// Cause of a transfer, and what was there before. Nobody announces what comes under the serial that was there, and
/// what had to wait may have been announced when it came first.
#[derive(Clone, Copy)]
pub(super) struct Cause {
    pub before: Option<Serial>,
    /// True if somebody had called for it.
    pub asked: bool,
    /// True if a version waited for confirmation.
    pub held: bool,
}

/// Knowledge of one zone's task about the silence of its primaries.
pub(super) struct Ears {
    /// In the order of the plan; none for those that never announce.
    primaries: Vec<Option<Ear>>,
    refresh_min: Duration,
    /// Time of the zone's last poll.
    polled: Instant,
}

/// One of them.
struct Ear {
    silence: Arc<Silence>,
    bell: watch::Receiver<()>,
}

impl Ears {
    /// Listens for primaries.
    pub fn new(primaries: &[Server], refresh_min: Duration, silences: &Silences) -> Ears {
        let ear = |primary: &Server| {
            primary.address.is_ipv4().then(|| {
                let silence = silences.of(primary);
                let bell = silence.bell.subscribe();
                Ear { silence, bell }
            })
        };
        Ears { primaries: primaries.iter().map(ear).collect(), refresh_min, polled: Instant::now() }
    }

    /// Returns the assumptions about a primary, if the zone is one of CNS'.
    fn silence(&self, primary: usize, soa: Option<&Soa>) -> Option<&Arc<Silence>> {
        let ear = self.primaries[primary].as_ref()?;
        let is_cns = soa.is_some_and(|soa| is_cns(soa, SystemTime::now()));
        if is_cns {
            ear.silence.state().is_cns = true;
        }
        is_cns.then_some(&ear.silence)
    }

    /// Takes what came of a poll.
    pub fn note_poll<T>(&mut self, primary: usize, result: &Result<T, TransferError>) {
        use TransferError::{Closed, Connect, Io, Source, Timeout};
        self.polled = Instant::now();
        if let Some(ear) = &self.primaries[primary] {
            let is_open = !matches!(result, Err(Connect(_) | Source(..) | Timeout(_) | Closed | Io(_)));
            ear.silence.note_way(is_open, self.polled);
        }
    }

    /// Takes that a version was published as the primary sent it.
    pub fn note_transfer(&self, primary: usize, soa: Option<&Soa>, cause: Cause) {
        let (Some(silence), Some(soa)) = (self.silence(primary, soa), soa) else { return };
        let ripe = SystemTime::now().checked_sub(silence.times.age).unwrap_or(UNIX_EPOCH);
        let is_new = cause.before != Some(soa.serial);
        let overdue = is_new && !cause.asked && !cause.held && !soa.serial.newer_than(tick(ripe));
        silence.note_transfer(overdue, Instant::now());
    }

    /// Takes that the primary saw a transfer arrive that brought nothing.
    pub fn note_nothing(&self, primary: usize, soa: Option<&Soa>) {
        if let Some(silence) = self.silence(primary, soa) {
            silence.note_transfer(false, Instant::now());
        }
    }

    /// Returns how long to wait for the next poll of a zone that is well, instead of `delay`.
    pub fn hasten(&self, primary: usize, soa: Option<&Soa>, delay: Duration, now: Instant) -> Duration {
        let Some(silence) = self.silence(primary, soa) else { return delay };
        let earliest = self.polled + silence.times.interval.max(self.refresh_min);
        silence.hasten(earliest, now + delay, now) - now
    }

    /// Ready when silence is assumed anew of a primary.
    pub async fn rung(&mut self, primary: usize) {
        match &mut self.primaries[primary] {
            // It cannot end: the ear has the bell.
            Some(ear) => drop(ear.bell.changed().await),
            None => std::future::pending().await,
        }
    }

    /// The silence of a primary, if the caller is to start CNS' time by a question at our own serial.
    pub fn claim(&self, primary: usize, soa: Option<&Soa>) -> Option<Arc<Silence>> {
        self.silence(primary, soa).filter(|silence| silence.claim(Instant::now())).cloned()
    }
}

#[cfg(test)]
mod tests;

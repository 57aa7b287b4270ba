//! Log lines for refusals: one for the first of a client for a reason, and one an hour if it goes on.
//!
//! A secondary with a wrong key asks again and again, and anybody may ask for anything. So a line is worth writing
//! once, and the table of those that were written is bounded: `CLIENTS` for each reason, so that a flood of one kind,
//! whose addresses may be forged, hides nothing of another. When that is full, one line says so.
//!
//! Pure: the time is the caller's, in seconds; it may jump. Cost: O(1), and O(clients) at most once a minute.

use crate::acl::client_of;
use crate::serve::xfr::Refusal;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use wire::tsig::TsigError;

/// Clients that are told apart for each reason.
const CLIENTS: usize = 64;
/// Seconds until the same is worth another line.
const PAUSE: u64 = 3600;
/// Seconds until a full table is looked through again.
const SWEEP: u64 = 60;

/// Kind of request that was refused, and the reason.
pub type Reason = (&'static str, &'static str);

/// Decision on the log line of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A line; so many like it went without one since the last.
    Line { held_back: u64 },
    /// A line that says that there are too many clients for lines of their own.
    Overflow,
    /// Nothing.
    Silence,
}

/// The refusals that were logged.
#[derive(Default)]
pub struct Refusals(Mutex<HashMap<Reason, Group>>);

/// The clients that were refused for one reason.
#[derive(Default)]
struct Group {
    clients: HashMap<IpAddr, Logged>,
    /// Time at which the table was last looked through in vain; `overflow` is the time at which that was last logged.
    swept: Option<u64>,
    overflow: Option<u64>,
}

/// A line that was written.
struct Logged {
    at: u64,
    held_back: u64,
}

/// Returns true if something was so recently that it must not be repeated.
fn is_recent(at: u64, now: u64, pause: u64) -> bool {
    now.abs_diff(at) < pause
}

impl Refusals {
    /// Takes note of a refusal, and says what it is worth.
    pub fn note(&self, reason: Reason, address: IpAddr, now: u64) -> Notice {
        let mut groups = self.0.lock();
        groups.entry(reason).or_default().note(client_of(address), now)
    }
}

impl Group {
    /// Takes note of a client.
    fn note(&mut self, client: IpAddr, now: u64) -> Notice {
        if let Some(logged) = self.clients.get_mut(&client) {
            if is_recent(logged.at, now, PAUSE) {
                logged.held_back += 1;
                return Notice::Silence;
            }
            let held_back = logged.held_back;
            *logged = Logged { at: now, held_back: 0 };
            return Notice::Line { held_back };
        }
        if self.clients.len() >= CLIENTS && !self.swept.is_some_and(|at| is_recent(at, now, SWEEP)) {
            self.clients.retain(|_, logged| is_recent(logged.at, now, PAUSE));
            self.swept = Some(now);
        }
        if self.clients.len() < CLIENTS {
            self.clients.insert(client, Logged { at: now, held_back: 0 });
            return Notice::Line { held_back: 0 };
        }
        if self.overflow.is_some_and(|at| is_recent(at, now, PAUSE)) {
            return Notice::Silence;
        }
        self.overflow = Some(now);
        Notice::Overflow
    }
}

//--- Advice ---

/// Advice about a client that gets no transfer.
pub fn advise_on_transfer(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NotAuthoritative => "configure the zone here, or remove it from that secondary",
        Refusal::Prohibited => "if this is one of your secondaries, add its address or key to allow_transfer",
        Refusal::Malformed => "update the software of that secondary, or let it ask for whole zones (AXFR)",
        Refusal::NotReady | Refusal::Expired => "aggregator status says for each zone why it is not served",
        Refusal::Busy => "nothing: it comes again; if it lasts, let that secondary transfer fewer zones at once",
        Refusal::Tls => "let that secondary speak TLS 1.3 and offer the protocol \"dot\" (ALPN), or transfer over TCP",
        Refusal::Channel => {
            "let that secondary transfer over TLS, and show a certificate that client_ca of [server] tls has signed"
        }
    }
}

/// Advice about a request whose signature is not right.
pub fn advise_on_signature(error: TsigError) -> &'static str {
    match error {
        TsigError::UnknownKey => "add the key to [keys], or use one of those on the other side, with its algorithm",
        TsigError::BadSignature => "write the same secret on both sides",
        TsigError::BadTime { .. } => "set both clocks, best by NTP",
        _ => "update or correct the software on the other side",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: Reason = ("transfer", "refused");
    const LATE: Reason = ("tsig", "bad_time");
    const LINE: Notice = Notice::Line { held_back: 0 };

    fn address(number: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + number).into())
    }

    #[test]
    fn a_client_gets_a_line_for_each_reason_and_another_after_a_pause() {
        let refusals = Refusals::default();
        assert_eq!(refusals.note(REFUSED, address(1), 1000), LINE);
        assert_eq!(refusals.note(REFUSED, address(1), 1000), Notice::Silence);
        assert_eq!(refusals.note(LATE, address(1), 1000), LINE);
        assert_eq!(refusals.note(REFUSED, address(2), 1000), LINE);
        assert_eq!(refusals.note(REFUSED, address(1), 1000 + PAUSE - 1), Notice::Silence);
        assert_eq!(refusals.note(REFUSED, address(1), 1000 + PAUSE), Notice::Line { held_back: 2 });
        assert_eq!(refusals.note(REFUSED, address(1), 1000 + PAUSE), Notice::Silence);
        // A clock that was set back must not silence anything for years.
        assert_eq!(refusals.note(REFUSED, address(2), 0), Notice::Silence);
        assert_eq!(refusals.note(REFUSED, address(1), 0), Notice::Line { held_back: 1 });
        let v6 = |text: &str| refusals.note(REFUSED, text.parse().unwrap(), 0);
        assert_eq!([v6("2001:db8::1"), v6("2001:db8::2")], [LINE, Notice::Silence], "one network, one client");
    }

    #[test]
    fn a_flood_is_bounded_and_hides_nothing_of_another_kind() {
        let refusals = Refusals::default();
        let flood = |from: u32, now| (from..from + 10_000).map(move |number| (address(number), now));
        let lines = |notices: Vec<Notice>, wanted| notices.into_iter().filter(|notice| *notice == wanted).count();
        let note_all = |clients: &mut dyn Iterator<Item = (IpAddr, u64)>| -> Vec<Notice> {
            clients.map(|(client, now)| refusals.note(LATE, client, now)).collect()
        };
        let first = note_all(&mut flood(0, 50));
        assert_eq!((lines(first.clone(), LINE), lines(first, Notice::Overflow)), (CLIENTS, 1));
        assert_eq!(refusals.note(REFUSED, address(1), 50), LINE);
        assert_eq!(refusals.0.lock()[&LATE].clients.len(), CLIENTS);
        let second = note_all(&mut flood(20_000, 50 + PAUSE));
        assert_eq!((lines(second.clone(), LINE), lines(second, Notice::Overflow)), (CLIENTS, 1), "once an hour");
        assert_eq!(refusals.0.lock()[&LATE].clients.len(), CLIENTS);
    }
}

//! Clients of the demonstration, one in each datacenter: who serves each of them, and who should.
//!
//! A client is to be served by its own datacenter, and while that is away by the first of the others. Like the ledger it
//! knows neither sockets nor clocks: times are given, counted from the beginning of the run.
//!
//! Invariants: a client that is not where it should be either gets there in the time it has, or is told as a fault, once;
//! what a datacenter that goes or comes back makes of the clients of the others is nothing.
//!
//! Cost: O(datacenters) for an observation.

use std::collections::BTreeSet;
use std::time::Duration;

/// Time for which a client may be elsewhere though its datacenter did not go: a machine that stands still makes every poll
/// late.
const BLINK: Duration = Duration::from_secs(1);

/// Datacenters, by number, that an answer has addresses of.
pub type Served = BTreeSet<usize>;

/// The clients.
#[derive(Clone, Debug, Default)]
pub struct Steering {
    clients: Vec<LocalClient>,
    /// Moves that were made, in words.
    moves: Vec<String>,
    /// Times that a client was elsewhere for a moment.
    strays: usize,
}

/// The client of one datacenter.
#[derive(Clone, Debug)]
pub struct LocalClient {
    /// The label of its datacenter.
    home: String,
    /// True while its datacenter is away.
    is_alone: bool,
    /// Datacenters that served it when it was last seen.
    pub served: Served,
    pub place: Place,
}

/// What is known of a client's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Served by the right datacenter since then, after a move that took so long.
    Right { since: Duration, took: Option<Duration> },
    /// Not served by the right datacenter since then, and for so long at most.
    Moving { since: Duration, patience: Duration, is_move: bool },
    /// Not served by the right datacenter, which was told.
    Lost,
}

impl Steering {
    /// Starts with clients that should be at home.
    pub fn new(homes: impl IntoIterator<Item = String>, now: Duration) -> Steering {
        let place = Place::Right { since: now, took: None };
        let client = |home| LocalClient { home, is_alone: false, served: Served::new(), place };
        Steering { clients: homes.into_iter().map(client).collect(), ..Steering::default() }
    }

    /// The clients, by the number of their datacenter.
    pub fn clients(&self) -> &[LocalClient] {
        &self.clients
    }

    /// Notes that a datacenter has gone; its client must be served by the next one in time.
    pub fn begin_outage(&mut self, home: usize, now: Duration, patience: Duration) {
        self.move_client(home, true, now, patience);
    }

    /// Notes that the datacenter is back; its client must be at home in time.
    pub fn end_outage(&mut self, home: usize, now: Duration, patience: Duration) {
        self.move_client(home, false, now, patience);
    }

    /// Expects another datacenter to serve a client.
    fn move_client(&mut self, home: usize, is_alone: bool, now: Duration, patience: Duration) {
        if let Some(client) = self.clients.get_mut(home) {
            client.is_alone = is_alone;
            client.place = Place::Moving { since: now, patience, is_move: true };
        }
    }

    /// Returns true if every client is where it should be, or will not be any more.
    pub fn is_settled(&self) -> bool {
        !self.clients.iter().any(|client| matches!(client.place, Place::Moving { .. }))
    }

    /// The datacenter that should serve a client.
    pub fn wanted(&self, client: usize) -> usize {
        let is_away = |number: usize| self.clients[number].is_alone;
        let next = || (0..self.clients.len()).find(|number| !is_away(*number));
        if is_away(client) { next().unwrap_or(client) } else { client }
    }

    /// The labels of datacenters.
    pub fn labels(&self, served: &Served) -> String {
        let labels: Vec<&str> = served.iter().map(|number| self.clients[*number].home.as_str()).collect();
        if labels.is_empty() { "nobody".to_string() } else { labels.join(" and ") }
    }

    /// Compares who serves the clients with who should; none is a question that failed. Returns the moves that were made, in
    /// words, and adds the faults.
    pub fn judge(&mut self, now: Duration, observed: &[Option<&Served>], faults: &mut Vec<String>) -> Vec<String> {
        let mut told = Vec::new();
        for number in 0..self.clients.len() {
            let seen = observed.get(number).copied().flatten();
            let wanted = self.wanted(number);
            let client = &mut self.clients[number];
            if let Some(seen) = seen {
                client.served.clone_from(seen);
            }
            let is_right = seen.is_some_and(|served| served.iter().eq([&wanted]));
            let place = client.place;
            match place {
                Place::Moving { since, patience, is_move } => {
                    let took = now.saturating_sub(since);
                    let is_late = took > patience;
                    if is_right && !(is_late && is_move) {
                        client.place = Place::Right { since: now, took: is_move.then_some(took) };
                        told.push(self.note_move(number, wanted, took, is_move));
                    } else if is_late {
                        self.clients[number].place = Place::Lost;
                        faults.push(self.describe_fault(number, wanted, patience, is_right));
                    }
                }
                // A question that failed is told by itself.
                Place::Right { .. } if is_right || seen.is_none() => {}
                Place::Right { .. } => {
                    client.place = Place::Moving { since: now, patience: BLINK, is_move: false };
                }
                Place::Lost if is_right => client.place = Place::Right { since: now, took: None },
                Place::Lost => {}
            }
        }
        told
    }

    /// Notes that a client is where it should be, after a move or after it was elsewhere for a moment; in words.
    fn note_move(&mut self, client: usize, by: usize, took: Duration, is_move: bool) -> String {
        let (label, took) = (&self.clients[client].home, took.as_millis());
        if !is_move {
            self.strays += 1;
            return format!("{label}: its client was elsewhere for {took} ms");
        }
        let text = match client == by {
            true => format!("{label}: its client came home after {took} ms"),
            false => format!("{label}: its client went to {} after {took} ms", self.clients[by].home),
        };
        self.moves.push(text.clone());
        text
    }

    /// Describes a client that is not where it should be.
    fn describe_fault(&self, client: usize, wanted: usize, patience: Duration, is_right: bool) -> String {
        let LocalClient { home, served, .. } = &self.clients[client];
        let (wanted, patience) = (&self.clients[wanted].home, patience.as_secs_f64());
        let why = match is_right {
            true => "it came too late".to_string(),
            false => format!("it was served by {}", self.labels(served)),
        };
        format!("{home}: its client was not served by {wanted} within {patience} s: {why}")
    }

    /// The result of the run, a line each; `is_clean` is true if there was no fault.
    pub fn summary(&self, is_clean: bool) -> Vec<String> {
        let mut all =
            format!("{} clients were served by their own datacenters while these were there", self.clients.len());
        if self.strays > 0 {
            all += &format!(", but for {} moments", self.strays);
        }
        is_clean.then_some(all).into_iter().chain(self.moves.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    /// Clients of three datacenters, and their faults.
    struct Bench {
        steering: Steering,
        faults: Vec<String>,
    }

    impl Bench {
        fn new() -> Bench {
            let homes = ["w1", "w2", "w3"].map(String::from);
            Bench { steering: Steering::new(homes, Duration::ZERO), faults: Vec::new() }
        }

        /// Judges who serves each client; `None` is a question that failed.
        fn judge(&mut self, millis: u64, observed: [Option<&[usize]>; 3]) -> Vec<String> {
            let served = observed.map(|by| by.map(|by| by.iter().copied().collect::<Served>()));
            let served = served.each_ref().map(Option::as_ref);
            self.steering.judge(Duration::from_millis(millis), &served, &mut self.faults)
        }

        fn go(&mut self, home: usize, millis: u64) {
            self.steering.begin_outage(home, Duration::from_millis(millis), PATIENCE);
        }

        fn come(&mut self, home: usize, millis: u64) {
            self.steering.end_outage(home, Duration::from_millis(millis), PATIENCE);
        }
    }

    const HOME: [Option<&[usize]>; 3] = [Some(&[0]), Some(&[1]), Some(&[2])];

    #[test]
    fn clients_move_to_the_next_datacenter_and_come_home() {
        let mut bench = Bench::new();
        assert!(bench.judge(10, HOME).is_empty());
        for (home, next, moved) in [(2, "w1", [HOME[0], HOME[1], HOME[0]]), (0, "w2", [HOME[1], HOME[1], HOME[2]])] {
            let label = ["w1", "w2", "w3"][home];
            bench.go(home, 1000);
            assert!(bench.judge(1500, HOME).is_empty() && !bench.steering.is_settled());
            assert_eq!(bench.judge(3000, moved), [format!("{label}: its client went to {next} after 2000 ms")]);
            assert!(bench.judge(9000, moved).is_empty() && bench.steering.is_settled());
            bench.come(home, 9000);
            assert!(bench.judge(9050, moved).is_empty());
            assert_eq!(bench.judge(9200, HOME), [format!("{label}: its client came home after 200 ms")]);
        }
        let place = Place::Right { since: Duration::from_millis(9200), took: Some(Duration::from_millis(200)) };
        assert_eq!(bench.steering.clients()[0].place, place);
        assert_eq!(bench.faults, [""; 0]);
        let summary = bench.steering.summary(true);
        assert_eq!(summary[0], "3 clients were served by their own datacenters while these were there");
        assert_eq!((summary.len(), summary[1].as_str()), (5, "w3: its client went to w1 after 2000 ms"));
    }

    #[test]
    fn a_client_that_is_not_moved_in_time_is_a_fault() {
        let mut bench = Bench::new();
        bench.go(2, 1000);
        assert!(bench.judge(6000, HOME).is_empty() && bench.faults.is_empty());
        assert!(bench.judge(6001, HOME).is_empty());
        let fault = "w3: its client was not served by w1 within 5 s: it was served by w3";
        assert_eq!(bench.faults, [fault]);
        assert!(bench.judge(9000, HOME).is_empty() && bench.faults.len() == 1, "told once");
        assert!(bench.steering.is_settled() && bench.steering.clients()[2].place == Place::Lost);

        bench.come(2, 10_000);
        assert!(bench.judge(15_001, HOME).is_empty());
        assert_eq!(bench.faults[1], "w3: its client was not served by w3 within 5 s: it came too late");
        assert!(bench.judge(15_002, HOME).is_empty() && bench.faults.len() == 2);
        assert_eq!(bench.steering.summary(false), [""; 0]);
    }

    #[test]
    fn a_client_that_leaves_for_no_reason_has_a_moment() {
        let mut bench = Bench::new();
        let astray = [HOME[0], HOME[0], HOME[2]];
        assert!(bench.judge(1000, astray).is_empty());
        assert_eq!(bench.judge(1200, HOME), ["w2: its client was elsewhere for 200 ms"]);
        assert!(bench.faults.is_empty());
        assert!(bench.steering.summary(true)[0].ends_with(" while these were there, but for 1 moments"));

        bench.go(2, 2000);
        bench.judge(3000, [HOME[0], Some(&[0, 1]), HOME[0]]);
        bench.judge(4001, [HOME[0], Some(&[0, 1]), HOME[0]]);
        assert_eq!(bench.faults, ["w2: its client was not served by w2 within 1 s: it was served by w1 and w2"]);
    }

    #[test]
    fn questions_that_fail_move_nobody_and_end_no_wait() {
        let mut bench = Bench::new();
        bench.judge(1000, [None; 3]);
        assert!(bench.steering.is_settled() && bench.faults.is_empty());
        bench.go(0, 2000);
        bench.judge(7001, [None; 3]);
        assert_eq!(bench.faults, ["w1: its client was not served by w2 within 5 s: it was served by nobody"]);
        assert!(bench.steering.is_settled());
        bench.judge(7002, [HOME[1], HOME[1], HOME[2]]);
        assert_eq!(bench.faults.len(), 1);
    }
}

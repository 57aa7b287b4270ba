//! Places of connections: how many there may be, and which one is closed for a newcomer.
//!
//! A newcomer always gets a place. Where none is free another connection gives its own up (RFC 7766 section 6.2.2),
//! chosen by what it is to others, not by who came first: of the client with the most connections, the one that has
//! been without a complete request for the longest; where all of them are being answered, the one whose client has
//! taken the fewest octets within the last ten seconds. Among clients with equally many the same is compared over all
//! of them. So whoever opens connections without end closes their own, and whoever has few and uses them is never
//! touched. A client is an IPv4 address or an IPv6 /64 ([`client_of`]).
//!
//! Some places are reserved ([`Class::Reserved`]): for allowed secondaries, known by their address, and for monitoring,
//! known by the path of the request once it is there. All others together cannot take them, while those who have them
//! may have any place.
//!
//! Invariants: a connection that was chosen is counted out at once and has its place no more, even while its task still
//! ends; the newcomer itself is never chosen; nobody of [`Class::General`] stands in a reserved place.
//!
//! Cost: a request O(1), without a lock; a connection that comes, goes or begins to be answered O(log connections); a
//! choice O(log connections) for each request since the last, and O(connections) where every connection of those
//! clients that have the most is being answered.

mod connection;

pub use connection::{Connection, Measured};

use crate::acl::client_of;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::Instant;

/// Class of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    General,
    /// With a right to reserved places.
    Reserved,
}

/// Most connections that there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub total: usize,
    /// Most connections from one client.
    pub per_client: usize,
    /// Connections of the total that are reserved; fewer than all.
    pub reserved: usize,
}

/// The limit for which another connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Reached {
    Total,
    Client,
}

impl Reached {
    /// The metric label.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// All places.
pub struct Places {
    epoch: Instant,
    table: Mutex<Table>,
}

/// One connection's place; dropping it gives it back.
pub struct Place {
    places: Arc<Places>,
    /// Connection that has the place, as others may know it.
    pub connection: Arc<Connection>,
}

impl Places {
    /// Places that are all free.
    pub fn new(room: Room) -> Arc<Places> {
        let table = Table { room, next: 0, seats: HashMap::new(), groups: [Group::default(), Group::default()] };
        Arc::new(Places { epoch: Instant::now(), table: Mutex::new(table) })
    }

    /// Changes how many there may be. Those who are there stay; from now on one goes for each that comes.
    pub fn set_room(&self, room: Room) {
        self.table.lock().room = room;
    }

    /// Gives a newcomer a place, and tells the limit for which another had to go.
    pub fn enter(self: &Arc<Self>, address: IpAddr, class: Class) -> (Place, Option<Reached>) {
        let client = client_of(address);
        let mut table = self.table.lock();
        let reached = table.make_room(client, class);
        table.next += 1;
        let connection = Arc::new(Connection::new(client, table.next, self.epoch));
        table.add(connection.clone(), class, Some(connection.since()));
        (Place { places: self.clone(), connection }, reached)
    }
}

impl Place {
    /// Takes note that a request is answered for as long as the client takes octets.
    pub fn begin_answer(&self) {
        self.connection.note_request();
        self.places.table.lock().turn(self.connection.id, |seat| seat.waiting = None);
    }

    /// Takes note that the next request is waited for.
    pub fn end_answer(&self) {
        self.connection.note_request();
        let since = self.connection.since();
        self.places.table.lock().turn(self.connection.id, |seat| seat.waiting = Some(since));
    }

    /// Takes note that the connection has a right to reserved places.
    pub fn reserve(&self) {
        self.places.table.lock().turn(self.connection.id, |seat| seat.class = Class::Reserved);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.table.lock().remove(self.connection.id);
    }
}

/// Time of the last request on the client's connection that has waited the longest for another; [`NONE`] where none
/// waits.
type Oldest = u64;
/// Later than every time.
const NONE: Oldest = u64::MAX;

/// Table of the connections that have places.
struct Table {
    room: Room,
    /// The number of the last newcomer.
    next: u64,
    seats: HashMap<u64, Seat>,
    groups: [Group; 2],
}

/// A connection in the table.
#[derive(Clone)]
struct Seat {
    connection: Arc<Connection>,
    class: Class,
    /// Time since which a request is waited for, as far as the table knows: requests that came later are found out when
    /// it matters. None while one is answered.
    waiting: Option<u64>,
}

/// The connections of a class.
#[derive(Default)]
struct Group {
    total: usize,
    clients: HashMap<IpAddr, Client>,
    /// The clients, first of all the one that gives a place up.
    order: BTreeSet<(Reverse<usize>, Oldest, IpAddr)>,
}

/// The connections of a client.
#[derive(Default)]
struct Client {
    /// Times since which they wait for a request, with their numbers.
    waiting: BTreeSet<(u64, u64)>,
    answered: HashSet<u64>,
}

impl Client {
    fn count(&self) -> usize {
        self.waiting.len() + self.answered.len()
    }

    /// Rank of the client among all, by which it gives a place up.
    fn rank(&self, address: IpAddr) -> (Reverse<usize>, Oldest, IpAddr) {
        (Reverse(self.count()), self.waiting.first().map_or(NONE, |first| first.0), address)
    }
}

impl Group {
    /// Changes a client, which is forgotten with its last connection.
    fn edit(&mut self, address: IpAddr, change: impl FnOnce(&mut Client)) {
        let client = self.clients.entry(address).or_default();
        self.order.remove(&client.rank(address));
        self.total -= client.count();
        change(client);
        self.total += client.count();
        if client.count() == 0 {
            self.clients.remove(&address);
        } else {
            self.order.insert(client.rank(address));
        }
    }

    fn count(&self, address: IpAddr) -> usize {
        self.clients.get(&address).map_or(0, Client::count)
    }
}

impl Table {
    /// Closes a connection if a newcomer needs its place.
    fn make_room(&mut self, client: IpAddr, class: Class) -> Option<Reached> {
        let own = self.groups[class as usize].count(client);
        if own >= self.room.per_client {
            let chosen = self.first_of(class, client)?;
            self.displace(chosen);
            return Some(Reached::Client);
        }
        let crowded = self.crowded(class)?;
        let group = &self.groups[crowded as usize];
        let most = group.order.first().map_or(0, |first| first.0.0);
        // With the newcomer its client may be the one that has the most.
        let is_own = crowded == class && own > 0 && own + 1 > most;
        let chosen = if is_own { self.first_of(class, client) } else { self.first(crowded) };
        self.displace(chosen?);
        Some(Reached::Total)
    }

    /// The class that has a place to give up for a newcomer, if one must.
    fn crowded(&self, class: Class) -> Option<Class> {
        let [general, reserved] = self.groups.each_ref().map(|group| group.total);
        if class == Class::General && general >= self.room.total.saturating_sub(self.room.reserved) {
            Some(Class::General)
        } else if general + reserved < self.room.total {
            None
        } else {
            // Others have no more than their share, unless the limits were lowered.
            Some(if reserved > 0 { Class::Reserved } else { Class::General })
        }
    }

    /// The connection of a class that is closed first.
    fn first(&mut self, class: Class) -> Option<u64> {
        loop {
            let group = &self.groups[class as usize];
            let &(most, oldest, address) = group.order.first()?;
            if oldest == NONE {
                let equal = group.order.iter().take_while(|rank| rank.0 == most);
                let answered = equal.filter_map(|rank| group.clients.get(&rank.2)).flat_map(|client| &client.answered);
                return self.least_taken(answered);
            }
            let chosen = self.first_of(class, address);
            // Its requests since the table last looked may have put another client before it.
            if self.groups[class as usize].order.first().is_some_and(|first| first.2 == address) {
                return chosen;
            }
        }
    }

    /// The connection of a client that is closed first.
    fn first_of(&mut self, class: Class, address: IpAddr) -> Option<u64> {
        loop {
            let client = self.groups[class as usize].clients.get(&address)?;
            let Some(&(known, id)) = client.waiting.first() else { return self.least_taken(&client.answered) };
            let since = self.seats.get(&id)?.connection.since();
            if since == known {
                return Some(id);
            }
            self.turn(id, |seat| seat.waiting = Some(since));
        }
    }

    /// The connection whose client has taken the fewest octets lately; of equals the one that came first.
    fn least_taken<'a>(&self, ids: impl IntoIterator<Item = &'a u64>) -> Option<u64> {
        let seats = ids.into_iter().filter_map(|id| self.seats.get(id));
        seats.map(|seat| (seat.connection.taken_lately(), seat.connection.id)).min().map(|(_, id)| id)
    }

    /// Counts a connection in.
    fn add(&mut self, connection: Arc<Connection>, class: Class, waiting: Option<u64>) {
        let (id, client) = (connection.id, connection.client);
        self.seats.insert(id, Seat { connection, class, waiting });
        self.groups[class as usize].edit(client, |client| match waiting {
            Some(since) => _ = client.waiting.insert((since, id)),
            None => _ = client.answered.insert(id),
        });
    }

    /// Counts a connection out, if it is in.
    fn remove(&mut self, id: u64) -> Option<Seat> {
        let seat = self.seats.remove(&id)?;
        self.groups[seat.class as usize].edit(seat.connection.client, |client| match seat.waiting {
            Some(since) => _ = client.waiting.remove(&(since, id)),
            None => _ = client.answered.remove(&id),
        });
        Some(seat)
    }

    /// Changes what a connection is counted as, if it is in.
    fn turn(&mut self, id: u64, change: impl FnOnce(&mut Seat)) {
        if let Some(mut seat) = self.remove(id) {
            change(&mut seat);
            self.add(seat.connection, seat.class, seat.waiting);
        }
    }

    /// Takes a connection's place away.
    fn displace(&mut self, id: u64) {
        if let Some(seat) = self.remove(id) {
            seat.connection.displace();
        }
    }
}

#[cfg(test)]
mod tests;

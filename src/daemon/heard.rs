//! Serials of regions as other servers have them, in case that what is remembered here is too old.
//!
//! A server that has lost its state would give a region the sum of its members' serials, although clients may have seen a
//! newer one, and secondaries would take no change until the sum has passed that. One whose state is old, because the folder
//! had become read-only or was restored from a copy, would do the same with another number. So at each start all who may have
//! a region are asked for its SOA: its secondaries, its name servers, and another server at our own addresses.
//!
//! The first publication waits for the answers where nothing certain is remembered: the folder cannot be written, or knows
//! nothing of the region. Else it does not, and the keeper hears of what is newer later ([`Later::tell`]).
//!
//! Name servers of a region are those that the configuration lists; where it lists none, those of its members' zones, which
//! are asked too when they are not common to all members. Servers that only the parent zone lists are not asked: who is
//! found by a delegation need not be ours, and the prober tells of the difference.
//!
//! Invariants: questions are asked side by side, at most [`AT_ONCE`] of them; those that a publication waits for come first
//! and take [`PATIENCE`] together, whoever is silent; for each of the two rounds the system is asked once for a name, however
//! many regions it serves, and for at most [`LOOKUPS`] names at a time; what is heard is only told to the keeper, which
//! believes it within bounds.
//!
//! Cost: a round trip or two for each server of each region, and a thread for each lookup that is under way.
//!
//! RFCs: 1035 section 3.3.13 (SOA), 1982 (serials).

use super::restore::Remains;
use super::sources::Sources;
use crate::client::{Question, Role, soa_of};
use crate::config::Config;
use crate::keeper;
use crate::log::list;
use crate::merge::{NsPolicy, RegionPlan};
use crate::publish::{Published, Publisher, State};
use crate::source::{Wake, WakeKind};
use crate::state::Store;
use crate::zone::Zone;
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use wire::name::Name;
use wire::serial::Serial;

/// How long one answer may take, and how long all may take together where somebody waits for them.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same where nobody does.
const LONG_PATIENCE: Duration = Duration::from_secs(60);
/// Questions that are under way together: each has a socket.
const AT_ONCE: usize = 128;
/// Names that the system looks up together: each holds a thread of those that also read and write files.
const LOOKUPS: usize = 8;

/// Serials of regions.
type Serials = HashMap<Name, Vec<Serial>>;

/// Answers that nobody waits for.
pub struct Later {
    answers: JoinHandle<Serials>,
    members: HashMap<Name, Vec<Name>>,
}

/// Asks for all regions at a start. Returns what the first publication must know, and what may come after it.
pub async fn ask_at_start(config: &Config, store: Option<&Store>, remains: &Remains) -> (Serials, Later) {
    let remembered =
        store.filter(|store| store.was_writable).map(|store| store.facts.states.clone()).unwrap_or_default();
    let zone = |member: &Name| remains.zones.get(member).map(|restored| restored.zone.clone());
    let questions = |later: bool| {
        let regions = config.regions.iter().filter(|plan| remembered.contains_key(&plan.origin) == later);
        Questions::new(config, regions, zone, &config.listen.dns)
    };
    let members = config.regions.iter().map(|plan| (plan.origin.clone(), plan.members.clone())).collect();
    let heard = questions(false).ask(PATIENCE, find).await;
    log(&heard);
    let answers = tokio::spawn(questions(true).ask(LONG_PATIENCE, find));
    (heard, Later { answers, members })
}

/// Asks for regions that come by a reload, and of which nothing is remembered.
pub async fn ask(config: &Config, store: Option<&Store>, published: &Published) -> Serials {
    let remembered = store.map(|store| store.facts.states.clone()).unwrap_or_default();
    let is_new = |plan: &&RegionPlan| published.get(&plan.origin).is_none() && !remembered.contains_key(&plan.origin);
    let zone = |member: &Name| published.get(member).and_then(|served| served.zone.clone());
    // At our own addresses we would hear ourselves.
    let heard = Questions::new(config, config.regions.iter().filter(is_new), zone, &[]).ask(PATIENCE, find).await;
    log(&heard);
    heard
}

/// Tells what was heard before a publication.
fn log(heard: &Serials) {
    for (region, serials) in heard {
        let serials = list(serials);
        tracing::info!(%region, %serials, "nothing certain is remembered of the region; other servers have these serials");
    }
}

impl Later {
    /// Tells the keeper of regions that others have under newer serials than ours, and wakes the sources of their members:
    /// newer members may be all there is to it.
    pub fn tell(self, keeper: &keeper::KeeperHandle, publisher: Arc<Publisher>, sources: Sources) {
        // The keeper ends when nobody can tell it anything any more.
        let commands = keeper.commands.downgrade();
        tokio::spawn(async move {
            let Ok(mut heard) = self.answers.await else { return };
            let at = Instant::now();
            let published = publisher.load();
            heard.retain(|region, serials| {
                let members = self.members.get(region).map_or(&[][..], Vec::as_slice);
                may_be_newer(&published, region, members, serials)
            });
            for (region, serials) in &heard {
                let serials = list(serials);
                tracing::info!(%region, %serials, "other servers have serials that are newer, or may be while members \
                     are missing; asking the members' sources");
            }
            let members: HashSet<&Name> =
                heard.keys().filter_map(|region| self.members.get(region)).flatten().collect();
            let members: Vec<Name> = members.into_iter().cloned().collect();
            let Some(commands) = commands.upgrade().filter(|_| !heard.is_empty()) else { return };
            // If the keeper is gone, so are its regions.
            let _ = commands.send(keeper::Command::Heard(heard, at)).await;
            for member in &members {
                if let Some(source) = sources.lock().get(member) {
                    source.wake(Wake { kind: WakeKind::Refresh, done: None });
                }
            }
        });
    }
}

/// Whether a serial that others have of a region may be newer than ours. Beside a part of the sum, what is newer may look
/// older.
fn may_be_newer(published: &Published, region: &Name, members: &[Name], serials: &[Serial]) -> bool {
    let ours = published.get(region).and_then(|served| Some(served.zone.as_ref()?.soa.serial));
    let is_there = |member: &Name| published.get(member).is_some_and(|served| served.state == State::Ok);
    !members.iter().all(is_there) || ours.is_none_or(|ours| serials.iter().any(|theirs| theirs.newer_than(ours)))
}

/// Whom to ask for which regions.
#[derive(Debug, Default, PartialEq)]
struct Questions {
    regions: Vec<Name>,
    /// Our own addresses, where another server may be.
    own: Vec<SocketAddr>,
    known: HashSet<(Name, SocketAddr)>,
    /// Name servers whose addresses have to be found, each with its regions.
    named: HashMap<Name, HashSet<Name>>,
    port: u16,
}

impl Questions {
    /// The questions for some regions, whose members have these zones.
    fn new<'c>(
        config: &Config,
        regions: impl Iterator<Item = &'c RegionPlan>,
        zone: impl Fn(&Name) -> Option<Arc<Zone>>,
        own: &[SocketAddr],
    ) -> Questions {
        let mut questions = Questions { own: own.to_vec(), port: config.probe.port, ..Questions::default() };
        for plan in regions {
            let region = &plan.origin;
            questions.regions.push(region.clone());
            let secondaries = config.targets.get(region).into_iter().flatten().map(|target| target.address);
            questions.known.extend(secondaries.map(|server| (region.clone(), server)));
            let servers = match &plan.ns {
                NsPolicy::Listed(names) => names.clone(),
                NsPolicy::Intersection | NsPolicy::Union => {
                    let zones = plan.members.iter().filter_map(&zone);
                    zones.flat_map(|zone| zone.name_servers().collect::<Vec<_>>()).collect()
                }
            };
            for server in servers {
                match config.probe.hosts.get(&server) {
                    Some(known) => questions.known.extend(known.iter().map(|server| (region.clone(), *server))),
                    None => _ = questions.named.entry(server).or_default().insert(region.clone()),
                }
            }
        }
        questions
    }

    /// The answers that come in time, of servers whose addresses are found so.
    async fn ask<F: Future<Output = Vec<SocketAddr>> + Send + 'static>(
        self,
        patience: Duration,
        find: impl Fn(Name, u16) -> F,
    ) -> Serials {
        let mut heard = Serials::new();
        if self.regions.is_empty() {
            return heard;
        }
        let mut tasks = JoinSet::new();
        let places = Arc::new(Semaphore::new(AT_ONCE));
        for (region, server) in self.known {
            tasks.spawn(ask_one(places.clone(), region, server));
        }
        let lookups = Arc::new(Semaphore::new(LOOKUPS));
        for (server, regions) in self.named {
            let (lookups, addresses) = (lookups.clone(), find(server, self.port));
            let addresses = async move {
                // Nobody closes it.
                let _place = lookups.acquire().await;
                addresses.await
            };
            tasks.spawn(ask_all(places.clone(), regions.into_iter().collect(), addresses));
        }
        for address in self.own {
            tasks.spawn(ask_all(places.clone(), self.regions.clone(), find_own(address)));
        }
        let all = async {
            while let Some(answer) = tasks.join_next().await {
                for (region, serial) in answer.into_iter().flatten() {
                    heard.entry(region).or_default().push(serial);
                }
            }
        };
        // Who says nothing knows nothing.
        let _ = timeout(patience, all).await;
        heard
    }
}

/// Asks a server at each of its addresses for all these regions.
async fn ask_all(
    places: Arc<Semaphore>,
    regions: Vec<Name>,
    addresses: impl Future<Output = Vec<SocketAddr>>,
) -> Vec<(Name, Serial)> {
    let mut questions = JoinSet::new();
    for address in addresses.await {
        for region in &regions {
            questions.spawn(ask_one(places.clone(), region.clone(), address));
        }
    }
    questions.join_all().await.into_iter().flatten().collect()
}

/// Looks for another server at one of our own addresses.
async fn find_own(address: SocketAddr) -> Vec<SocketAddr> {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let address = SocketAddr::new(ip, address.port());
    let is_there = matches!(timeout(PATIENCE, TcpStream::connect(address)).await, Ok(Ok(_)));
    if is_there { vec![address] } else { Vec::new() }
}

/// Looks up a name server's addresses by the system.
async fn find(server: Name, port: u16) -> Vec<SocketAddr> {
    lookup_host((server.to_string(), port)).await.into_iter().flatten().collect()
}

/// Asks a server for the serial of a region.
async fn ask_one(places: Arc<Semaphore>, region: Name, server: SocketAddr) -> Vec<(Name, Serial)> {
    // Nobody closes it.
    let _place = places.acquire().await;
    let question = Question::new(&region, RecordType::SOA, Role::Authority);
    let answer = question.ask(&server.into(), PATIENCE).await;
    let answer = answer
        .ok()
        .filter(|answer| answer.metadata.authoritative && answer.metadata.response_code == ResponseCode::NoError);
    let serial = answer.and_then(|answer| soa_of(&answer, &region));
    serial.map(|(_, serial)| (region, serial)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::{Identity, Served};
    use hickory_proto::op::{Message, MessageType};
    use hickory_proto::rr::rdata::SOA;
    use hickory_proto::rr::{RData, Record};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::net::UdpSocket;
    use tokio::sync::Barrier;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    /// A server that has all zones under serial 7.
    async fn server() -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
                let mut message = Message::from_vec(&buffer[..length]).unwrap();
                message.metadata.message_type = MessageType::Response;
                message.metadata.authoritative = true;
                let owner = message.queries[0].name().clone();
                let soa = SOA::new(owner.clone(), owner.clone(), 7, 60, 60, 60, 60);
                message.answers.push(Record::from_rdata(owner, 60, RData::SOA(soa)));
                socket.send_to(&message.to_vec().unwrap(), client).await.unwrap();
            }
        });
        address
    }

    /// Three regions with the same name servers.
    fn questions(servers: usize) -> Questions {
        let regions: Vec<Name> = ["a.x", "b.x", "c.x"].map(name).into();
        let of = |number| (name(&format!("ns{number}.x")), regions.iter().cloned().collect());
        Questions { named: (0..servers).map(of).collect(), regions: regions.clone(), ..Questions::default() }
    }

    #[test]
    fn what_looks_older_is_told_while_members_are_missing() {
        let served = |(origin, serial, state): (&str, u32, State)| {
            let lines = format!("@ 30 SOA {serial}");
            let zone = Arc::new(crate::zone::tests::zone(&format!("{origin}."), &lines));
            Arc::new(Served::new(name(origin), state, Some(zone)))
        };
        let (members, serials) = ([name("m1.x"), name("m2.x")], [Serial(9), Serial(10)]);
        let tells = |zones: &[(&str, u32, State)]| {
            let published = Published::new(Identity::default(), zones.iter().copied().map(served), 1);
            may_be_newer(&published, &name("r.x"), &members, &serials)
        };
        let ours = |serial| [("r.x", serial, State::Ok), ("m1.x", 1, State::Ok), ("m2.x", 2, State::Ok)];
        assert!(tells(&ours(9)) && !tells(&ours(10)) && !tells(&ours(11)));
        assert!(tells(&ours(11)[..2]) && tells(&ours(11)[1..]), "one is not there");
        let [region, one, (other, serial, _)] = ours(11);
        assert!(tells(&[region, one, (other, serial, State::Expired)]));
    }

    #[tokio::test]
    async fn each_name_is_looked_up_once_and_few_at_a_time() {
        const SERVERS: usize = 5 * LOOKUPS;
        let address = server().await;
        let looked_up = Arc::new(Mutex::new(Vec::new()));
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        // As many as there may be wait for each other; with fewer of them nothing would come.
        let together = Arc::new(Barrier::new(LOOKUPS));
        let find = |server: Name, _| {
            let (looked_up, running, most) = (looked_up.clone(), running.clone(), most.clone());
            let together = together.clone();
            async move {
                looked_up.lock().unwrap().push(server);
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                together.wait().await;
                running.fetch_sub(1, Ordering::SeqCst);
                vec![address]
            }
        };
        let heard = questions(SERVERS).ask(LONG_PATIENCE, find).await;
        let looked_up = looked_up.lock().unwrap();
        assert_eq!((looked_up.len(), looked_up.iter().collect::<HashSet<_>>().len()), (SERVERS, SERVERS));
        assert_eq!(most.load(Ordering::SeqCst), LOOKUPS);
        let expected = vec![Serial(7); SERVERS];
        assert_eq!(heard, ["a.x", "b.x", "c.x"].map(|region| (name(region), expected.clone())).into());
    }

    /// A thread that looks something up cannot be called off: those that hang must be few.
    #[tokio::test]
    async fn lookups_that_hang_let_no_others_begin() {
        let begun = Arc::new(AtomicUsize::new(0));
        let find = |_, _| {
            let begun = begun.clone();
            async move {
                begun.fetch_add(1, Ordering::SeqCst);
                std::future::pending().await
            }
        };
        assert_eq!(questions(3 * LOOKUPS).ask(Duration::from_millis(200), find).await, Serials::new());
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(begun.load(Ordering::SeqCst), LOOKUPS);
    }
}

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
//! Invariants: questions are asked side by side, at most [`AT_ONCE`] of them; those that a publication waits for take
//! [`PATIENCE`] together, whoever is silent; what is heard is only told to the keeper, which believes it within bounds.
//!
//! Cost: a round trip or two for each server of each region.
//!
//! RFCs: 1035 section 3.3.13 (SOA), 1982 (serials).

use super::restore::Remains;
use super::sources::Sources;
use crate::config::Config;
use crate::exchange::{self, Role};
use crate::keeper;
use crate::merge::{NsPolicy, RegionPlan};
use crate::publish::{Published, Publisher};
use crate::source::{Wake, WakeKind};
use crate::state::Store;
use crate::zone::Zone;
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{RData, RecordType};
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

/// Serials of regions.
type Serials = HashMap<Name, Vec<Serial>>;

/// Answers that nobody waits for.
pub struct Later {
    answers: JoinHandle<Serials>,
    members: HashMap<Name, Vec<Name>>,
}

/// Asks for all regions at a start. Returns what the first publication must know, and what may come after it.
pub async fn ask_at_start(config: &Config, store: Option<&Store>, remains: &Remains) -> (Serials, Later) {
    let remembered = store.filter(|store| store.was_writable()).map(Store::regions).unwrap_or_default();
    let zone = |member: &Name| remains.zones.get(member).map(|restored| restored.zone.clone());
    let questions = |later: bool| {
        let regions = config.regions.iter().filter(|plan| remembered.contains_key(&plan.origin) == later);
        Questions::new(config, regions, zone, &config.listen.dns)
    };
    let answers = tokio::spawn(questions(true).ask(LONG_PATIENCE));
    let members = config.regions.iter().map(|plan| (plan.origin.clone(), plan.members.clone())).collect();
    let heard = questions(false).ask(PATIENCE).await;
    log(&heard);
    (heard, Later { answers, members })
}

/// Asks for regions that come by a reload, and of which nothing is remembered.
pub async fn ask(config: &Config, store: Option<&Store>, published: &Published) -> Serials {
    let remembered = store.map(Store::regions).unwrap_or_default();
    let is_new = |plan: &&RegionPlan| published.get(&plan.origin).is_none() && !remembered.contains_key(&plan.origin);
    let zone = |member: &Name| published.get(member).and_then(|served| served.zone.clone());
    // At our own addresses we would hear ourselves.
    let heard = Questions::new(config, config.regions.iter().filter(is_new), zone, &[]).ask(PATIENCE).await;
    log(&heard);
    heard
}

/// Tells what was heard before a publication.
fn log(heard: &Serials) {
    for (region, serials) in heard {
        tracing::info!(%region, ?serials, "nothing certain is remembered of the region; other servers have these serials");
    }
}

impl Later {
    /// Tells the keeper of regions that others have under newer serials than ours, and wakes the sources of their members:
    /// newer members may be all there is to it.
    pub fn tell(self, keeper: &keeper::Handle, publisher: Arc<Publisher>, sources: Sources) {
        // The keeper ends when nobody can tell it anything any more.
        let commands = keeper.commands.downgrade();
        tokio::spawn(async move {
            let Ok(mut heard) = self.answers.await else { return };
            let at = Instant::now();
            let published = publisher.load();
            heard.retain(|region, serials| {
                let ours = published.get(region).and_then(|served| Some(served.zone.as_ref()?.soa.serial));
                ours.is_none_or(|ours| serials.iter().any(|theirs| theirs.newer_than(ours)))
            });
            for (region, serials) in &heard {
                tracing::info!(%region, ?serials, "other servers have newer serials; asking the members' sources");
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

/// Whom to ask for which regions.
#[derive(Debug, Default, PartialEq)]
struct Questions {
    regions: Vec<Name>,
    /// Our own addresses, where another server may be.
    own: Vec<SocketAddr>,
    known: HashSet<(Name, SocketAddr)>,
    /// Name servers whose addresses have to be found.
    named: HashSet<(Name, Name)>,
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
                    None => _ = questions.named.insert((region.clone(), server)),
                }
            }
        }
        questions
    }

    /// The answers that come in time.
    async fn ask(self, patience: Duration) -> Serials {
        let mut heard = Serials::new();
        if self.regions.is_empty() {
            return heard;
        }
        let mut tasks = JoinSet::new();
        let places = Arc::new(Semaphore::new(AT_ONCE));
        for (region, server) in self.known {
            tasks.spawn(ask_one(places.clone(), region, server));
        }
        for (region, server) in self.named {
            tasks.spawn(ask_named(places.clone(), region, server, self.port));
        }
        for address in self.own {
            tasks.spawn(ask_own(places.clone(), self.regions.clone(), address));
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

/// Asks another server at one of our own addresses, if there is one.
async fn ask_own(places: Arc<Semaphore>, regions: Vec<Name>, address: SocketAddr) -> Vec<(Name, Serial)> {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let address = SocketAddr::new(ip, address.port());
    if !matches!(timeout(PATIENCE, TcpStream::connect(address)).await, Ok(Ok(_))) {
        return Vec::new();
    }
    let questions: JoinSet<_> = regions.into_iter().map(|region| ask_one(places.clone(), region, address)).collect();
    questions.join_all().await.into_iter().flatten().collect()
}

/// Asks a name server that is known by name.
async fn ask_named(places: Arc<Semaphore>, region: Name, server: Name, port: u16) -> Vec<(Name, Serial)> {
    let mut serials = Vec::new();
    for address in lookup_host((server.to_string(), port)).await.into_iter().flatten() {
        serials.extend(ask_one(places.clone(), region.clone(), address).await);
    }
    serials
}

/// Asks a server for the serial of a region.
async fn ask_one(places: Arc<Semaphore>, region: Name, server: SocketAddr) -> Vec<(Name, Serial)> {
    // Nobody closes it.
    let _place = places.acquire().await;
    let answer = exchange::ask(server, &region, RecordType::SOA, Role::Authority, PATIENCE).await;
    let answer = answer
        .ok()
        .filter(|answer| answer.metadata.authoritative && answer.metadata.response_code == ResponseCode::NoError);
    let serials = answer.iter().flat_map(|answer| &answer.answers).filter_map(|record| match &record.data {
        RData::SOA(soa) if exchange::from_library(&record.name) == region => Some((region.clone(), Serial(soa.serial))),
        _ => None,
    });
    serials.collect()
}

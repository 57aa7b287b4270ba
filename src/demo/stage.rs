//! The stage: plays the script, asks the aggregator all the time, and keeps the ledger.
//!
//! Every few hundredths of a second it asks over UDP for the service name, for that name again as a client in each
//! datacenter, and for the serial of every zone, and compares the answers with the model. A change comes only when the one before was followed or given up, so that each
//! has a latency of its own.
//!
//! Invariant: nothing is read from the aggregator's memory. Cost: a handful of queries for each tick.

use super::client::{AskError, Client};
use super::frame::{ClientRow, Picture, SiteRow, without_root};
use super::ledger::{ClientAnswer, Expected, Judgement, Ledger, Observed, describe_missing};
use super::script::{Script, ScriptedChange};
use super::site::{Site, first_label, service_name};
use super::steering::{LocalClient, Steering};
use super::view::View;
use std::io;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use wire::name::{Name, NameError};

/// Time between two rounds of questions.
const TICK: Duration = Duration::from_millis(50);
/// Longest time that the first transfers may take.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Longest time until a change is answered: the region is polled every second, the rest is reserve for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Time without contact after which a datacenter serves its clients no more; it is polled every second.
pub const STALE_AFTER: Duration = Duration::from_secs(2);
/// Time in which the clients of a datacenter that goes are usually served by the next one.
const USUAL_MOVE: Duration = Duration::from_secs(3);
/// Time from the first complete answer to the first change, for the eye.
const FIRST_CHANGE: Duration = Duration::from_millis(500);
/// Time between two changes in a run without a limit.
const USUAL_PACE: Duration = Duration::from_secs(3);
/// Shortest time between two changes, which is more than a change usually takes to be followed.
const LEAST_PACE: Duration = Duration::from_millis(1200);
/// Time before the end in which no change is made, since it would make the run last longer than it should.
const MARGIN: Duration = Duration::from_millis(1500);

/// Error: the play ended early.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    #[error("the region was not complete within {START_PATIENCE:?} of the start: {0}")]
    NotReady(String),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// The stage.
pub struct Stage {
    sites: Vec<Site>,
    region: Name,
    service: Name,
    client: Client,
    script: Script,
    limit: Option<Duration>,
    patience: Duration,
    began: Instant,
    /// All that has happened so far.
    pub ledger: Ledger,
}

impl Stage {
    /// Sets the stage; `patience` is how long a change may take to be followed.
    pub fn new(
        sites: Vec<Site>,
        region: Name,
        client: Client,
        limit: Option<Duration>,
        patience: Duration,
    ) -> Result<Stage, NameError> {
        let service = service_name(&region)?;
        let (script, began, ledger) =
            (Script::default(), Instant::now(), Ledger::new(patience, None, Steering::default()));
        Ok(Stage { sites, region, service, client, script, limit, patience, began, ledger })
    }

    /// Plays until the time is over; forever without a limit.
    pub async fn play(&mut self, view: &mut View) -> Result<(), StageError> {
        self.began = Instant::now();
        self.ledger = self.wait_for_region(view).await?;
        let mut due = self.began.elapsed() + FIRST_CHANGE;
        loop {
            let now = self.began.elapsed();
            if now >= due && !self.ledger.is_open() && self.change(view)? {
                due = now + self.pace();
                // CNS repeats its announcements; here the poll of every second stands in for one that gets lost.
                for site in &self.sites {
                    site.announce(self.client.server()).await?;
                }
            }
            // A run too short for a change has to show one all the same.
            let is_over = self.limit.is_some_and(|limit| now >= limit) && self.ledger.counts().0 > 0;
            if is_over && !self.ledger.is_open() && !self.sites.iter().any(Site::is_away) {
                return Ok(());
            }
            let observed = self.observe().await;
            let now = self.began.elapsed();
            let expected = self.expected();
            for outcome in self.ledger.judge(now, &expected, &observed) {
                view.tell(now, &self.describe_outcome(&outcome, &observed))?;
            }
            self.draw(&observed, view)?;
            sleep(TICK).await;
        }
    }

    /// Waits until everything that was published at the beginning is answered.
    async fn wait_for_region(&mut self, view: &mut View) -> Result<Ledger, StageError> {
        loop {
            let observed = self.observe().await;
            let now = self.began.elapsed();
            let missing = describe_missing(&self.expected(), &observed);
            match missing {
                None if observed.region.is_some() => {
                    let (region, serial) = (first_label(&self.region), describe_serial(&observed));
                    let text = format!("{region} answers for all datacenters{serial}, {}", describe_answer(&observed));
                    view.tell(now, &text)?;
                    let steering = Steering::new(self.sites.iter().map(Site::label), now);
                    return Ok(Ledger::new(self.patience, observed.region, steering));
                }
                missing if now > START_PATIENCE => {
                    return Err(StageError::NotReady(missing.unwrap_or_else(|| "it has no serial".into())));
                }
                _ => sleep(TICK).await,
            }
        }
    }

    /// Time from one change to the next: a run with a limit shows most of a round.
    fn pace(&self) -> Duration {
        self.limit.map_or(USUAL_PACE, |limit| (limit / 8).clamp(LEAST_PACE, USUAL_PACE))
    }

    /// Makes the next change of the script, if there is time left for it.
    fn change(&mut self, view: &mut View) -> io::Result<bool> {
        let left = self.limit.map_or(Duration::MAX, |limit| limit.saturating_sub(self.began.elapsed()));
        // An outage should be over before the run is.
        if left < self.pace().max(USUAL_MOVE) + self.pace() + LEAST_PACE {
            self.script.skip_outage();
        }
        if left < MARGIN && self.sites.iter().any(Site::is_away) {
            self.script.skip_to_return();
        }
        let step = self.script.next();
        let is_first = self.ledger.counts().0 == 0;
        if left < MARGIN && !is_first && step.change != ScriptedChange::Return {
            return Ok(false);
        }
        self.script.advance();
        let site = &mut self.sites[step.site];
        let what = format!("{}: {}", site.label(), site.apply(step.change));
        let now = self.began.elapsed();
        match step.change {
            ScriptedChange::Leave(_) => {
                self.ledger.begin_outage(site.label(), site.expected().answer.clone(), now);
                self.ledger.steering.begin_outage(step.site, now, STALE_AFTER + self.patience);
            }
            ScriptedChange::Return => {
                self.ledger.end_outage(now);
                self.ledger.steering.end_outage(step.site, now, self.patience);
                self.ledger.begin_change(what.clone(), now);
            }
            _ => self.ledger.begin_change(what.clone(), now),
        }
        let serial = site.serial();
        view.tell(now, &format!("{what}, serial {serial}"))?;
        Ok(true)
    }

    /// Returns the answer that the aggregator should give now.
    fn expected(&self) -> Expected {
        let mut expected = Expected::default();
        for contribution in self.sites.iter().map(Site::expected) {
            expected.answer.extend(&contribution.answer);
            expected.served.push(contribution.serial);
            expected.clients.push(contribution.answer.ipv4());
        }
        expected
    }

    /// Asks for everything once; a question that fails ends the round, since a server that is silent costs time.
    async fn observe(&mut self) -> Observed {
        let mut observed = Observed::default();
        let before = self.client.asked;
        if let Err((name, error)) = self.ask_all(&mut observed).await {
            observed.failed.push(format!("{}: {error}", without_root(&name.to_string())));
        }
        observed.asked = self.client.asked - before;
        observed
    }

    /// Asks one question after the other, up to the first that fails.
    async fn ask_all(&mut self, observed: &mut Observed) -> Result<(), (Name, AskError)> {
        observed.served = vec![None; self.sites.len()];
        observed.clients = vec![None; self.sites.len()];
        let client = &mut self.client;
        let fail = |name: &Name| {
            let name = name.clone();
            move |error| (name, error)
        };
        let answer = client.ask_service(&self.service).await.map_err(fail(&self.service))?;
        observed.region = client.ask_serial(&self.region).await.map_err(fail(&self.region))?;
        for (site, served) in self.sites.iter().zip(&mut observed.served) {
            *served = client.ask_serial(site.origin()).await.map_err(fail(site.origin()))?;
        }
        for (site, seen) in self.sites.iter().zip(&mut observed.clients) {
            let answer = client.ask_for_client(&self.service, site.client()).await.map_err(fail(&self.service))?;
            let gave = |other: &Site| answer.addresses.iter().any(|address| other.gave(address));
            let by = (0..self.sites.len()).filter(|number| gave(&self.sites[*number])).collect();
            *seen = Some(ClientAnswer { answer, by });
        }
        // Last, so that what is incomplete never passes for an answer.
        observed.answer = Some(answer);
        Ok(())
    }

    /// Hands the view a picture of this moment.
    fn draw(&self, observed: &Observed, view: &mut View) -> io::Result<()> {
        let elapsed = self.began.elapsed();
        let row = |(site, served): (&Site, &Option<_>)| SiteRow {
            label: site.label(),
            address: site.address(),
            is_away: site.is_away(),
            serial: site.serial(),
            served: *served,
        };
        view.draw(&Picture {
            elapsed,
            limit: self.limit,
            sites: self.sites.iter().zip(&observed.served).map(row).collect(),
            region: first_label(&self.region),
            region_serial: observed.region,
            clients: self.client_rows(),
            counts: self.ledger.counts(),
            waiting: self.ledger.open_since().map(|since| elapsed.saturating_sub(since)),
            is_clean: self.ledger.is_clean(),
            service: &self.service,
            answer: observed.answer.as_ref(),
        })
    }

    /// The clients as they are drawn.
    fn client_rows(&self) -> Vec<ClientRow> {
        let steering = &self.ledger.steering;
        let row = |(site, client): (&Site, &LocalClient)| {
            let (address, length) = site.client();
            ClientRow {
                label: site.label(),
                subnet: format!("{address}/{length}"),
                served: steering.labels(&client.served),
                place: client.place,
            }
        };
        self.sites.iter().zip(steering.clients()).map(row).collect()
    }

    /// An outcome in words.
    fn describe_outcome(&self, outcome: &Judgement, observed: &Observed) -> String {
        match outcome {
            Judgement::Followed { latency } => {
                let (region, serial) = (first_label(&self.region), describe_serial(observed));
                format!("{region} followed in {} ms{serial}, {}", latency.as_millis(), describe_answer(observed))
            }
            Judgement::Steered(text) => text.clone(),
            Judgement::Fault(why) => format!("FAULT {why}"),
        }
    }
}

/// The serial of the region in words, with a comma in front.
fn describe_serial(observed: &Observed) -> String {
    observed.region.map(|serial| format!(", serial {serial}")).unwrap_or_default()
}

/// The size of the answer in words.
fn describe_answer(observed: &Observed) -> String {
    let Some(answer) = &observed.answer else { return "no answer".into() };
    let v4 = answer.addresses.iter().filter(|address| address.is_ipv4()).count();
    format!("{v4} A, {} AAAA, {} SRV", answer.addresses.len() - v4, answer.targets.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::primary::Primary;
    use sim::zone::{Apex, Data, Zone};
    use std::net::{IpAddr, SocketAddr};

    /// A region that is right at the beginning and never changes again, served like the aggregator would.
    async fn freeze(sites: &[Site], region: &Name) -> Primary {
        let primary = Primary::start(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let apex = Apex { mname: region.clone(), rname: region.clone(), name_servers: vec![region.clone()] };
        let mut records = Vec::new();
        for site in sites {
            let contribution = site.expected();
            for address in &contribution.answer.addresses {
                let data = match address {
                    IpAddr::V4(v4) => Data::A(*v4),
                    IpAddr::V6(v6) => Data::Aaaa(*v6),
                };
                records.push((service_name(region).unwrap(), data));
            }
            for (host, port) in &contribution.answer.targets {
                let target = Name::parse(host).unwrap();
                let data = Data::Srv { priority: 0, weight: 10, port: *port, target };
                records.push((service_name(region).unwrap(), data));
            }
            primary.publish(Zone::new(site.origin().clone(), apex.clone(), contribution.serial, []));
        }
        primary.publish(Zone::new(region.clone(), apex, wire::serial::Serial(1), records));
        primary
    }

    async fn stage(patience: Duration) -> (Stage, Primary) {
        let region = Name::parse("us-west.cns.example.com").unwrap();
        let mut sites = Vec::new();
        for number in 0..3 {
            let origin = Name::parse(&format!("us-west-{}.cns.example.com", number + 1)).unwrap();
            sites.push(Site::start(origin, number, "127.0.0.1:0".parse().unwrap()).await.unwrap());
        }
        let frozen = freeze(&sites, &region).await;
        let client = Client::new(frozen.address());
        (Stage::new(sites, region, client, Some(Duration::from_millis(100)), patience).unwrap(), frozen)
    }

    #[tokio::test]
    async fn a_region_that_does_not_follow_fails_the_run() {
        let (mut stage, _frozen) = stage(Duration::from_millis(300)).await;
        stage.play(&mut View::open()).await.unwrap();
        let ledger = &stage.ledger;
        assert_eq!(ledger.counts(), (1, 0), "even the shortest run makes a change");
        // Clients of all datacenters get everything.
        let [strays @ .., last] = &ledger.faults[..] else { panic!("there are faults") };
        let everyone = "us-west-1 and us-west-2 and us-west-3";
        for (number, fault) in (1..).zip(strays) {
            let wanted = format!("us-west-{number}: its client was not served by us-west-{number} within 1 s");
            assert_eq!(*fault, format!("{wanted}: it was served by {everyone}"));
        }
        assert_eq!(strays.len(), 3, "{strays:?}");
        let fault = "us-west-1: scale up by 2: not followed within 0.3 s: the answer lacks 192.0.2.9, ";
        assert!(last.starts_with(fault), "{last}");
    }

    #[tokio::test]
    async fn a_region_that_answers_nothing_is_noticed() {
        let (mut stage, frozen) = stage(Duration::from_secs(60)).await;
        let ledger = stage.wait_for_region(&mut View::open()).await.unwrap();
        assert!(ledger.is_clean());
        frozen.set_away(true);
        let observed = stage.observe().await;
        assert_eq!(observed.failed, ["web.svc.acme.us-west.cns.example.com: no answer"]);
        assert_eq!((observed.asked, &observed.answer), (1, &None));
        let outcomes = stage.ledger.judge(Duration::ZERO, &stage.expected(), &observed);
        assert!(matches!(&outcomes[..], [Judgement::Fault(why)] if why.starts_with("a query failed: web.svc.")));
    }
}

//! Status page and API: all that is known, read-only, for browsers and programs.
//!
//! Pages are written on the server, work without scripts, and are kept current by server-sent events (`live`). The
//! API gives the same as JSON; `openapi` describes it. Whoever wants to change something needs the control socket.
//!
//! Invariants: nothing here changes anything; a page loads nothing from elsewhere and runs no script but its own
//! (Content Security Policy, Level 3); each response is of one moment, and none waits longer than the client's
//! connection would; who asks for a name that is not ours gets nothing (`hosts`).
//!
//! Cost: a page is O(zones), of which it shows a part, a zone's page O(its members and listed versions), and what all open
//! views of a page cost together is the page twice a second, less often where that would take long (`live`). Differences are O(changes), a look at an inventory
//! O(its instances), no more than two of these at a time. The threads
//! that answer queries know nothing of it.

pub mod api;
mod chart;
mod datacenters;
mod explain;
pub mod hosts;
mod instances;
mod list;
mod live;
pub mod openapi;
mod overview;
pub mod parts;
mod picture;
pub mod rows;
mod zone;

use super::Handle;
use super::diff::{self, Changes};
use super::lookup::{Lookup, Question, explain_now};
use super::rates::Range;
use super::report::Report;
use super::text::unix_now;
use crate::config::Config;
use crate::daemon::sources::Source;
use crate::publish::Served;
use crate::serve::http::{Answer, Asked, Content, Site};
use crate::source::inventory::Survey;
use crate::timestamp::format_timestamp;
use arc_swap::ArcSwap;
use askama::Template;
use datacenters::{DatacenterList, DatacenterPage};
use explain::{DiffPage, LookupPage};
use hosts::Hosts;
use instances::InstancesPage;
use list::{Filter, ZoneList};
use live::Views;
use overview::Overview;
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use strum::IntoEnumIterator;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::form_urlencoded;
use wire::name::Name;
use wire::serial::Serial;
use zone::ZonePage;

const STYLE: &str = include_str!("../../templates/page.css");
const SCRIPT: &str = include_str!("../../templates/page.js");
const ICON: &str = include_str!("../../templates/icon.svg");

/// The media type of pages.
const HTML: &str = "text/html; charset=utf-8";
/// Header fields of a page. Browsers may do nothing with it that it does not need.
const PAGE_FIELDS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
];
/// Assets have their version in their address.
const ASSET_FIELDS: &[(&str, &str)] =
    &[("cache-control", "max-age=86400, immutable"), ("cross-origin-resource-policy", "same-origin")];

/// Longest wait for what is computed in a thread of its own, which is less than the patience of a connection.
const PATIENCE: Duration = Duration::from_secs(4);
/// Largest number of differences, histories and looks at inventories at the same time: each needs memory for all that it
/// shows.
const MAX_COMPARISONS: usize = 2;

/// The status page.
#[derive(Clone)]
pub struct Page {
    view: Handle,
    /// Host names under which the page is served; none if the configuration switches it off.
    hosts: Arc<ArcSwap<Option<Hosts>>>,
    comparisons: Arc<Semaphore>,
    /// Event streams that browsers keep open.
    views: Views,
    /// Version of the assets, which is part of their addresses.
    version: String,
}

/// Data that all pages show.
#[derive(Default)]
struct Shell {
    title: String,
    /// This server's name.
    server: String,
    /// Version of the program.
    version: &'static str,
    /// Version of the assets.
    assets: String,
    /// Unix seconds.
    now: i64,
    /// Present time as text.
    moment: String,
    /// The page that events are wanted for; none are if it is empty.
    events: String,
    /// Text in the search box.
    asked: String,
    rtype: String,
    client: String,
}

/// The types that the search box offers beside all.
const TYPES: [&str; 9] = ["A", "AAAA", "SRV", "TXT", "PTR", "CNAME", "NS", "SOA", "MX"];

impl Site for Page {
    fn respond(&self, asked: Asked) -> Answer {
        let page = self.clone();
        Box::pin(async move {
            let refused = (**page.hosts.load()).as_ref()?.refuse(asked.host.as_deref());
            Some(match refused {
                // RFC 9110 section 15.5.20: this server does not speak for that name.
                Some(why) => page.refuse(&asked.path, 421, &why),
                None => page.route(&asked.path, &asked.query).await,
            })
        })
    }

    fn refuse(&self, path: &str, status: u16, why: &str) -> Content {
        if path.starts_with("/api/") {
            return api::failure(status, why);
        }
        Content::Whole { status, media_type: "text/plain; charset=utf-8", fields: &[], body: format!("{why}\n") }
    }
}

impl Page {
    /// A page that is not shown yet.
    pub fn new(view: Handle) -> Page {
        let version = format!("{:08x}", crc32fast::hash(format!("{STYLE}{SCRIPT}").as_bytes()));
        let comparisons = Arc::new(Semaphore::new(MAX_COMPARISONS));
        Page { view, hosts: Arc::default(), comparisons, views: Views::default(), version }
    }

    /// Shows the page as a configuration wants it, or no more.
    pub fn configure(&self, config: &Config) {
        let hosts = || Hosts::new([&config.server_name].into_iter().chain(&config.metrics.names));
        self.hosts.store(Arc::new(config.metrics.page.then(hosts)));
    }

    /// Returns the content at a path.
    pub async fn route(&self, path: &str, query: &str) -> Content {
        let query = fields(query);
        let segments = segments(path);
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments[..] {
            ["page.css"] => asset("text/css; charset=utf-8", STYLE),
            ["page.js"] => asset("text/javascript; charset=utf-8", SCRIPT),
            ["icon.svg"] => asset("image/svg+xml", ICON),
            ["events"] => self.events(query.get("of").map_or("/", String::as_str)),
            ["api", "v1", "openapi.json"] => api::whole(200, openapi::DESCRIPTION.clone()),
            ["api", "v1", ref rest @ ..] => self.api(rest, &query).await,
            ["api", ..] => api::failure(404, api::NO_PATH),
            ["lookup"] => self.or_problem(self.lookup_page(&query).await),
            ["zone", zone, "instances"] => self.or_problem(self.instances_page(zone, &query).await),
            ["zone", zone, "diff"] => self.or_problem(self.diff_page(zone, &query).await),
            _ => self.live_page(&segments, &query).await,
        }
    }

    /// A page that has events: the first one, the list, and those of datacenters and zones.
    async fn live_page(&self, segments: &[&str], query: &HashMap<String, String>) -> Content {
        let page = match segments {
            [""] => self.overview().await,
            ["zones"] => self.list_page(query).await,
            ["datacenters"] => self.datacenters_page().await,
            ["datacenter", label] => self.datacenter_page(label).await,
            ["zone", zone] => self.zone_page(zone).await,
            _ => Err((404, "There is no such page.".to_owned())),
        };
        self.or_problem(page)
    }

    /// Writes the overview, which is the first page.
    async fn overview(&self) -> Result<Content, Refused> {
        let (view, shell) = (self.view.clone(), self.shell("Status", "/"));
        in_thread(move || {
            let queries = Range::iter().map(|range| view.rates.read(range)).collect::<Vec<_>>();
            write_page(200, &Overview::new(shell, &Report::collect(&view, None), &queries))
        })
        .await
    }

    /// Writes a part of the list of zones.
    async fn list_page(&self, query: &HashMap<String, String>) -> Result<Content, Refused> {
        let [name, show, datacenter] = ["name", "show", "datacenter"].map(|key| text_of(query, key).to_owned());
        let filter = Filter { name, show, datacenter, page: number_of(query, "page")?.unwrap_or(0) };
        let (view, shell) = (self.view.clone(), self.shell("Zones", &filter.address(filter.page)));
        in_thread(move || write_page(200, &ZoneList::new(shell, &view, filter))).await
    }

    /// Writes the page of all datacenters.
    async fn datacenters_page(&self) -> Result<Content, Refused> {
        let (view, shell) = (self.view.clone(), self.shell("Datacenters", "/datacenters"));
        in_thread(move || write_page(200, &DatacenterList::new(shell, &Report::collect(&view, None)))).await
    }

    /// Writes the page of one datacenter.
    async fn datacenter_page(&self, label: &str) -> Result<Content, Refused> {
        let (view, wanted) = (self.view.clone(), label.to_owned());
        let shell = self.shell(label, &format!("/datacenter/{}", parts::encode(label)));
        let page = in_thread(move || DatacenterPage::new(shell, &Report::collect(&view, None), &wanted)).await?;
        let page = page.map(|page| write_page(200, &page));
        page.ok_or_else(|| {
            (404, format!("There is no datacenter {label}: no member of a region has that first label."))
        })
    }

    /// The page of a zone.
    async fn zone_page(&self, zone: &str) -> Result<Content, Refused> {
        let (view, served) = (self.view.clone(), self.served(zone)?);
        let shell = self.shell(&parts::short(&served.origin), &parts::zone_href(&served.origin));
        let page = self.compute(move || ZonePage::new(shell, &Report::collect(&view, None), &served)).await?;
        page.map(|page| write_page(200, &page)).ok_or_else(|| (404, "The zone has just gone.".to_owned()))
    }

    /// Writes the page that explains a name's answer.
    async fn lookup_page(&self, query: &HashMap<String, String>) -> Result<Content, Refused> {
        let [name, rtype, client] = ["name", "type", "client"].map(|key| text_of(query, key).to_owned());
        let title = if name.is_empty() { "Lookup".to_owned() } else { format!("Lookup of {name}") };
        let shell = Shell { asked: name.clone(), rtype, client, ..self.shell(&title, "") };
        if name.is_empty() {
            return Ok(write_page(200, &LookupPage::new(shell, None)));
        }
        let (status, explained) = match self.lookup(query).await {
            Err((400, error)) => (400, Err(error)),
            explained => (200, Ok(explained?)),
        };
        Ok(write_page(status, &LookupPage::new(shell, Some(explained))))
    }

    /// Writes the page with the changes between two versions.
    async fn diff_page(&self, zone: &str, query: &HashMap<String, String>) -> Result<Content, Refused> {
        let served = self.served(zone)?;
        let shell = self.shell(&format!("Changes of {}", parts::short(&served.origin)), "");
        let origin = served.origin.clone();
        let (status, compared) = match self.compare(served, query).await {
            Err((status, error)) if status != 503 => (status, Err(error)),
            compared => (200, Ok(compared?)),
        };
        Ok(write_page(status, &DiffPage::new(shell, &origin, compared)))
    }

    /// Writes the page with the instances that a zone is made of.
    async fn instances_page(&self, zone: &str, query: &HashMap<String, String>) -> Result<Content, Refused> {
        let (served, wanted) = (self.served(zone)?, text_of(query, "name"));
        let shell = self.shell(&format!("Instances of {}", parts::short(&served.origin)), "");
        let found = self.survey(&served, wanted, instances::LISTED).await?;
        Ok(write_page(200, &InstancesPage::new(shell, &served, wanted, &found)))
    }

    //--- What pages are made of ---

    /// A zone as it is published.
    fn served(&self, zone: &str) -> Result<Arc<Served>, Refused> {
        let name = Name::parse(zone).map_err(|error| (400, format!("{zone} is no zone name: {error}")))?;
        let served = self.view.publisher.load().get(&name).cloned();
        served.ok_or_else(|| (404, format!("There is no zone {}.", parts::short(&name))))
    }

    /// Explains a name's answer; fails if the question is malformed.
    async fn lookup(&self, query: &HashMap<String, String>) -> Result<Lookup, Refused> {
        let (view, texts) = (self.view.clone(), ["name", "type", "client"].map(|key| text_of(query, key).to_owned()));
        let explain = move || {
            let [name, rtype, client] = &texts;
            let [rtype, client] = [rtype, client].map(|text| Some(&**text).filter(|text| !text.is_empty()));
            explain_now(&view, &Question { name, rtype, client })
        };
        in_thread(explain).await?.map_err(|error| (400, error))
    }

    /// Runs work that takes memory, too, in a thread of its own when there is a place for it.
    async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refused> {
        let places = self.comparisons.clone();
        let worked = async {
            let place = places.acquire_owned().await.expect("nobody closes the semaphore");
            // The place is taken until the work is done, whoever still waits for it.
            tokio::task::spawn_blocking(move || (work(), place).0).await
        };
        timeout(PATIENCE, worked).await.map_err(|_| busy())?.map_err(|error| (500, error.to_string()))
    }

    /// Surveys the inventory that a zone is made of for what has a part in its name.
    async fn survey(&self, served: &Served, part: &str, limit: usize) -> Result<Survey, Refused> {
        let source = self.view.sources.lock().get(&served.origin).cloned();
        let Some(Source::Inventory(inventory)) = source else {
            return Err((404, format!("{} is not made of an inventory.", parts::short(&served.origin))));
        };
        let (part, surveyor) = (part.to_owned(), inventory.surveyor());
        // A reload ends the source, and must not wait for whoever looks at it.
        drop(inventory);
        let found = self.compute(move || surveyor.survey(&part, limit)).await?;
        found.ok_or_else(|| (503, "Nothing is known of the inventory yet; try again in a moment.".to_owned()))
    }

    /// Compares the versions that a query names.
    async fn compare(&self, served: Arc<Served>, query: &HashMap<String, String>) -> Result<Changes, Refused> {
        let serial = |key: &str| Ok(number_of(query, key)?.map(Serial));
        let (from, to) = (serial("from")?, serial("to")?);
        let compared = self.compute(move || diff::compare(&served, from, to)).await?;
        compared.map_err(|error| (404, error.to_string()))
    }

    /// Returns the data that a page shows around its own contents.
    fn shell(&self, title: &str, events: &str) -> Shell {
        Shell {
            title: title.to_owned(),
            server: self.view.publisher.load().identity.name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            assets: self.version.clone(),
            now: unix_now(),
            moment: format_timestamp(SystemTime::now()),
            events: events.to_owned(),
            ..Shell::default()
        }
    }

    /// A page, or the one that describes why there is none.
    fn or_problem(&self, page: Result<Content, Refused>) -> Content {
        page.unwrap_or_else(|(status, why)| self.problem(status, &why))
    }

    /// Returns the page that describes an error.
    fn problem(&self, status: u16, text: &str) -> Content {
        let title = match status {
            400 => "That makes no sense",
            404 => "Not found",
            _ => "Not now",
        };
        write_page(status, &Problem { shell: self.shell(title, ""), text: text.to_owned() })
    }
}

/// Page that describes an error.
#[derive(Template)]
#[template(path = "problem.html")]
struct Problem {
    shell: Shell,
    text: String,
}

/// A page with its header fields.
fn write_page(status: u16, page: &impl Template) -> Content {
    let body = page.render().expect("a page is written into a string");
    Content::Whole { status, media_type: HTML, fields: PAGE_FIELDS, body }
}

/// Returns a style sheet, script or picture of the pages.
fn asset(media_type: &'static str, body: &str) -> Content {
    Content::Whole { status: 200, media_type, fields: ASSET_FIELDS, body: body.to_owned() }
}

/// The parts of a path as text.
fn segments(path: &str) -> Vec<String> {
    path.split('/').skip(1).map(decode).collect()
}

/// The fields of a query.
fn fields(query: &str) -> HashMap<String, String> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// A part of a path as text.
pub fn decode(segment: &str) -> String {
    // A plus sign stands for itself in paths, and for a blank in what the decoder expects.
    let field = format!("={}", segment.replace('+', "%2B").replace('&', "%26"));
    form_urlencoded::parse(field.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// Refusal of a request: the status code, and the reason in words.
type Refused = (u16, String);

/// Runs work that takes a while with many zones in a thread of its own.
async fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refused> {
    let done = timeout(PATIENCE, tokio::task::spawn_blocking(work)).await.map_err(|_| busy())?;
    done.map_err(|error| (500, error.to_string()))
}

/// Returns the refusal for a request that found the server busy.
fn busy() -> Refused {
    (503, "The server is busy; try again in a moment.".to_owned())
}

/// A text of a query; empty if it has none.
fn text_of<'q>(query: &'q HashMap<String, String>, key: &str) -> &'q str {
    query.get(key).map(|text| text.trim()).unwrap_or_default()
}

/// A number of a query, if it has one.
fn number_of<T: FromStr>(query: &HashMap<String, String>, key: &str) -> Result<Option<T>, Refused> {
    let text = Some(text_of(query, key)).filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(|_| (400, format!("\"{key}\" is no number")))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_as_browsers_encode_them() {
        assert_eq!(decode("a%2Fb+c&d%20e"), "a/b+c&d e");
        assert_eq!(decode(""), "");
    }
}

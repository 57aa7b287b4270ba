//! The status page and its API: what the daemon knows, for browsers and programs, read-only.
//!
//! Pages are written on the server, work without scripts, and are kept current by server-sent events ([`live`]). The API
//! gives the same as JSON; `openapi.json` describes it. Whoever wants to change something needs the control socket.
//!
//! Invariants: nothing here changes anything; a page loads nothing from elsewhere and runs no script but its own (Content
//! Security Policy, Level 3); each response is of one moment.
//!
//! Cost: a page or an event is O(zones), a zone's page O(its members and listed versions); the threads that answer queries know
//! nothing of it.

mod api;
mod explain;
mod live;
mod notes;
mod overview;
mod parts;
mod rows;
mod zone;

use super::Daemon;
use super::diff;
use super::lookup::Lookup;
use super::rates::Rates;
use super::status::Report;
use crate::moment::format_moment;
use crate::name::Name;
use crate::publish::{Publisher, Served};
use crate::serial::Serial;
use crate::serve::http::{Answer, Content, Site};
use askama::Template;
use explain::{DiffPage, LookupPage};
use overview::Overview;
use parts::unix_now;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use tokio::sync::{mpsc, oneshot};
use url::form_urlencoded;
use zone::ZonePage;

const STYLE: &str = include_str!("../../templates/page.css");
const SCRIPT: &str = include_str!("../../templates/page.js");
const ICON: &str = include_str!("../../templates/icon.svg");

/// The media type of pages.
const HTML: &str = "text/html; charset=utf-8";
/// What browsers may do with a page: nothing that it does not need.
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

/// What the page asks the daemon.
pub enum Inquiry {
    /// How everything is.
    Report(oneshot::Sender<Report>),
    /// Why a name answers as it does.
    Lookup { name: String, rtype: Option<String>, reply: oneshot::Sender<Result<Lookup, String>> },
}

/// The status page.
#[derive(Clone)]
pub struct Page {
    publisher: Arc<Publisher>,
    inquiries: mpsc::Sender<Inquiry>,
    rates: Arc<Rates>,
    /// Whether the configuration has it.
    on: Arc<AtomicBool>,
    /// Of the assets.
    version: String,
}

/// What all pages have.
struct Shell {
    title: String,
    /// This server's name.
    server: String,
    /// The program's.
    version: &'static str,
    /// Of the assets.
    assets: String,
    /// Unix seconds.
    now: i64,
    /// The same as text.
    moment: String,
    /// The page that events are wanted for; none are if it is empty.
    events: String,
    /// What the search box holds.
    asked: String,
    rtype: String,
}

/// The types that the search box offers beside all.
const TYPES: [&str; 9] = ["A", "AAAA", "SRV", "TXT", "PTR", "CNAME", "NS", "SOA", "MX"];

impl Daemon {
    /// Answers the page, in a task of its own.
    pub(super) fn inform(&self, inquiry: Inquiry) {
        // Who has gone away does not need to know.
        match inquiry {
            Inquiry::Report(reply) => {
                let report = self.report(None);
                tokio::spawn(async move {
                    if let Some(report) = report.await {
                        _ = reply.send(report);
                    }
                });
            }
            Inquiry::Lookup { name, rtype, reply } => {
                let explained = self.explain(name, rtype);
                tokio::spawn(async move { reply.send(explained.await) });
            }
        }
    }
}

impl Site for Page {
    fn respond(&self, path: String, query: String) -> Answer {
        let page = self.clone();
        Box::pin(async move { if page.on.load(Ordering::Relaxed) { page.route(&path, &query).await } else { None } })
    }
}

impl Page {
    /// A page whose inquiries arrive at the other end.
    pub fn new(publisher: Arc<Publisher>, rates: Arc<Rates>) -> (Page, mpsc::Receiver<Inquiry>) {
        let (inquiries, arriving) = mpsc::channel(64);
        let version = format!("{:08x}", crc32fast::hash(format!("{STYLE}{SCRIPT}").as_bytes()));
        (Page { publisher, inquiries, rates, on: Arc::default(), version }, arriving)
    }

    /// Shows the page, or no more.
    pub fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// What there is at a path.
    async fn route(&self, path: &str, query: &str) -> Option<Content> {
        let query: HashMap<String, String> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let segments: Vec<String> = path.split('/').skip(1).map(decode).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments[..] {
            ["page.css"] => Some(asset("text/css; charset=utf-8", STYLE)),
            ["page.js"] => Some(asset("text/javascript; charset=utf-8", SCRIPT)),
            ["icon.svg"] => Some(asset("image/svg+xml", ICON)),
            ["events"] => self.events(query.get("of").map_or("/", String::as_str)),
            ["api", "v1", ref rest @ ..] => Some(self.api(rest, &query).await),
            ["lookup"] => Some(self.lookup_page(&query).await),
            ["zone", zone, "diff"] => Some(self.diff_page(zone, &query)),
            _ => self.live_page(&segments).await,
        }
    }

    /// A page that has events: the first one, and those of zones.
    async fn live_page(&self, segments: &[&str]) -> Option<Content> {
        match segments {
            [""] => {
                let Some(report) = self.report().await else { return Some(self.stopping()) };
                let shell = self.shell("Status", "/");
                Some(write_page(200, &Overview::new(shell, &report, &self.rates.read())))
            }
            ["zone", zone] => {
                let published = self.publisher.load();
                let Some(served) = Name::parse(zone).ok().and_then(|name| published.get(&name)) else {
                    return Some(self.problem(404, &format!("There is no zone {zone}.")));
                };
                let Some(report) = self.report().await else { return Some(self.stopping()) };
                let shell = self.shell(&parts::short(&served.origin), &parts::zone_href(&served.origin));
                let page = ZonePage::new(shell, &report, served);
                Some(page.map_or_else(|| self.problem(404, "The zone has just gone."), |page| write_page(200, &page)))
            }
            _ => None,
        }
    }

    /// Why a name answers as it does.
    async fn lookup_page(&self, query: &HashMap<String, String>) -> Content {
        let text = |key: &str| query.get(key).map(|text| text.trim().to_owned()).unwrap_or_default();
        let (name, rtype) = (text("name"), text("type"));
        let title = if name.is_empty() { "Lookup".to_owned() } else { format!("Lookup of {name}") };
        let shell = Shell { asked: name.clone(), rtype: rtype.clone(), ..self.shell(&title, "") };
        if name.is_empty() {
            return write_page(200, &LookupPage::empty(shell));
        }
        match self.lookup(name, rtype).await {
            Some(explained) => {
                let status = if explained.is_ok() { 200 } else { 400 };
                write_page(status, &LookupPage::new(shell, explained))
            }
            None => self.stopping(),
        }
    }

    /// What changed between two versions.
    fn diff_page(&self, zone: &str, query: &HashMap<String, String>) -> Content {
        let published = self.publisher.load();
        let Some(served) = Name::parse(zone).ok().and_then(|name| published.get(&name)) else {
            return self.problem(404, &format!("There is no zone {zone}."));
        };
        let changes = compare(served, query);
        let status = changes.as_ref().map_or_else(|(status, _)| *status, |_| 200);
        let changes = changes.map_err(|(_, error)| error);
        let shell = self.shell(&format!("Changes of {}", parts::short(&served.origin)), "");
        write_page(status, &DiffPage::new(shell, &served.origin, changes))
    }

    //--- What pages are made of ---

    /// How everything is; nothing while the server is stopping.
    async fn report(&self) -> Option<Report> {
        let (reply, report) = oneshot::channel();
        self.inquiries.send(Inquiry::Report(reply)).await.ok()?;
        report.await.ok()
    }

    /// Why a name answers as it does, or what is wrong with the question; nothing while the server is stopping.
    async fn lookup(&self, name: String, rtype: String) -> Option<Result<Lookup, String>> {
        let rtype = Some(rtype).filter(|rtype| !rtype.is_empty());
        let (reply, explained) = oneshot::channel();
        self.inquiries.send(Inquiry::Lookup { name, rtype, reply }).await.ok()?;
        explained.await.ok()
    }

    /// What a page has around it.
    fn shell(&self, title: &str, events: &str) -> Shell {
        Shell {
            title: title.to_owned(),
            server: self.publisher.load().identity.name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            assets: self.version.clone(),
            now: unix_now(),
            moment: format_moment(SystemTime::now()),
            events: events.to_owned(),
            asked: String::new(),
            rtype: String::new(),
        }
    }

    /// A page that says what is wrong.
    fn problem(&self, status: u16, text: &str) -> Content {
        write_page(status, &Problem { shell: self.shell("Not found", ""), text: text.to_owned() })
    }

    /// A page for the last moments.
    fn stopping(&self) -> Content {
        self.problem(503, "The server is stopping.")
    }
}

/// A page that says what is wrong.
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

/// What pages need beside themselves.
fn asset(media_type: &'static str, body: &str) -> Content {
    Content::Whole { status: 200, media_type, fields: ASSET_FIELDS, body: body.to_owned() }
}

/// A part of a path as text.
fn decode(segment: &str) -> String {
    // A plus sign stands for itself in paths, and for a blank in what the decoder expects.
    let field = format!("={}", segment.replace('+', "%2B").replace('&', "%26"));
    form_urlencoded::parse(field.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// Why there is no answer: the status, and the reason in words.
type Refused = (u16, String);

/// Compares the versions that a query names.
fn compare(served: &Served, query: &HashMap<String, String>) -> Result<diff::Changes, Refused> {
    let serial = |key: &str| match query.get(key).map(|text| text.trim()).filter(|text| !text.is_empty()) {
        Some(text) => {
            text.parse().map(|number| Some(Serial(number))).map_err(|_| (400, format!("\"{key}\" is no serial")))
        }
        None => Ok(None),
    };
    diff::compare(served, serial("from")?, serial("to")?).map_err(|error| (404, error.to_string()))
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

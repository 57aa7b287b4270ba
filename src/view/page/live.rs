//! Pages that keep themselves current: server-sent events with the parts of a page that have changed (HTML Living
//! Standard, section 9.2).
//!
//! A page marks its parts in the template, `<!--live ID-->` and `<!--/live-->` around an element that has the id. For
//! each page that is open anywhere a task writes it anew when something was published, at least every five seconds; to
//! each browser goes what is not as it was there; when parts have come, gone or moved, the whole. Ages do not count:
//! scripts let them grow.
//!
//! Invariants: a client that takes nothing gets nothing more, and its task waits for it; a task ends with its client,
//! and that of a page with the last of them, or when the page is switched off.
//!
//! Cost: O(page) at most twice a second for a page, and a twentieth of the time, however many look at it, and O(parts that changed) for each of
//! them.

use super::{Page, fields, segments};
use crate::serve::http::Content;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

/// Longest time without an event, so that both ends know that the other is there.
const PULSE: Duration = Duration::from_secs(5);
/// Shortest time between events, and how many times longer than the writing of the page it is at least.
const PAUSE: Duration = Duration::from_millis(500);
const REST: u32 = 20;

/// The pages that are open somewhere, by their paths with their queries.
#[derive(Clone, Default)]
pub struct Views(Arc<Mutex<HashMap<String, Arc<View>>>>);

/// A page that is open somewhere.
#[derive(Default)]
struct View {
    /// Last version of the page; none before it is written for the first time.
    latest: watch::Sender<Option<Arc<Version>>>,
    /// Notified when a browser has joined.
    joined: Notify,
}

/// A page at a moment.
struct Version {
    generation: u64,
    main: String,
    parts: Parts,
}

impl Views {
    /// Subscribes to a page, from the next time that it is written. The first subscriber also gets the view, and has to
    /// keep it current.
    fn join(&self, address: &str) -> (watch::Receiver<Option<Arc<Version>>>, Option<Arc<View>>) {
        let mut views = self.0.lock();
        if let Some(view) = views.get(address) {
            view.joined.notify_one();
            return (view.latest.subscribe(), None);
        }
        let view = Arc::new(View::default());
        views.insert(address.to_owned(), view.clone());
        (view.latest.subscribe(), Some(view))
    }

    /// Ends a view that has no subscriber any more, or in any case if so asked. Returns true if it has ended.
    fn end(&self, address: &str, in_any_case: bool) -> bool {
        let mut views = self.0.lock();
        let ends = in_any_case || views.get(address).is_none_or(|view| view.latest.receiver_count() == 0);
        if ends {
            views.remove(address);
        }
        ends
    }
}

impl Page {
    /// The events of a page.
    pub(super) fn events(&self, of: &str) -> Content {
        let (path, _) = of.split_once('?').unwrap_or((of, ""));
        if !matches!(
            segments(path).iter().map(String::as_str).collect::<Vec<_>>()[..],
            [""] | ["zones"] | ["datacenters"] | ["datacenter" | "zone", _]
        ) {
            return self.problem(404, "There is no such page.");
        }
        let (events, sent) = mpsc::channel(1);
        let (latest, own) = self.views.join(of);
        if let Some(view) = own {
            tokio::spawn(self.clone().keep_current(of.to_owned(), view));
        }
        tokio::spawn(tell(latest, events));
        Content::Events(sent)
    }

    /// Writes a page again and again while it has subscribers.
    async fn keep_current(self, address: String, view: Arc<View>) {
        let (path, query) = address.split_once('?').unwrap_or((&address, ""));
        let (path, query) = (segments(path), fields(query));
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let mut published = self.view.publisher.changes();
        let mut ends = false;
        while !self.views.end(&address, ends) {
            let generation = *published.borrow_and_update();
            // What is told while the server is too busy for a page must not take the place of the last one.
            let begun = Instant::now();
            let page = self.live_page(&path, &query).await;
            let pause = (begun.elapsed() * REST).clamp(PAUSE, PULSE);
            if let Content::Whole { body, status: 200 | 404, .. } = page {
                let (parts, main) = (Parts::read(&body), main_of(&body).to_owned());
                view.latest.send_replace(Some(Arc::new(Version { generation, main, parts })));
            }
            sleep(pause).await;
            let changed = async {
                tokio::select! {
                    changed = published.changed() => changed.is_ok(),
                    () = view.joined.notified() => true,
                    () = view.latest.closed() => true,
                }
            };
            let goes_on = timeout(PULSE.saturating_sub(pause), changed).await.unwrap_or(true);
            ends = !goes_on || self.hosts.load().is_none();
        }
    }
}

/// Sends the changes of a page to one browser, until the browser has gone or the view has ended.
async fn tell(mut latest: watch::Receiver<Option<Arc<Version>>>, events: mpsc::Sender<String>) {
    let mut known: Option<Arc<Version>> = None;
    loop {
        tokio::select! {
            changed = latest.changed() => if changed.is_err() { return },
            () = events.closed() => return,
        }
        let Some(version) = latest.borrow_and_update().clone() else { continue };
        let data = match version.parts.changed_since(known.as_ref().map(|known| &known.parts)) {
            Some(changed) => json!({ "generation": version.generation, "parts": changed }),
            None => json!({ "generation": version.generation, "page": version.main }),
        };
        known = Some(version);
        // JSON has no line feeds, which would end the field.
        if events.send(format!("data: {data}\n\n")).await.is_err() {
            return;
        }
    }
}

/// The parts of a page, in order.
struct Parts(Vec<Part>);

/// A part of a page.
struct Part {
    id: String,
    /// Hash of the HTML, ages left out.
    hash: u64,
    html: String,
}

impl Parts {
    /// Finds the parts of a page.
    fn read(page: &str) -> Parts {
        let part = |piece: &str| {
            let (id, rest) = piece.split_once("-->")?;
            let (html, _) = rest.split_once("<!--/live-->")?;
            Some(Part { id: id.to_owned(), hash: hash_without_ages(html), html: html.trim().to_owned() })
        };
        Parts(page.split("<!--live ").skip(1).filter_map(part).collect())
    }

    /// The parts that are not as they were; none when there are others than before.
    fn changed_since(&self, before: Option<&Parts>) -> Option<HashMap<&str, &str>> {
        let (parts, before) = (&self.0, &before?.0);
        if !parts.iter().map(|part| &part.id).eq(before.iter().map(|part| &part.id)) {
            return None;
        }
        let changed = parts.iter().zip(before).filter(|(part, before)| part.hash != before.hash);
        Some(changed.map(|(part, _)| (&*part.id, &*part.html)).collect())
    }
}

/// Hashes a part without the ages in it, which the browser updates itself.
fn hash_without_ages(html: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for piece in html.split("<time ") {
        // The moment itself counts, the text of the element does not.
        let (start, rest) = piece.split_once('>').unwrap_or((piece, ""));
        start.hash(&mut hasher);
        rest.split_once("</time>").map_or(rest, |(_, rest)| rest).hash(&mut hasher);
    }
    hasher.finish()
}

/// The page's main element.
fn main_of(page: &str) -> &str {
    let start = page.find("<main").unwrap_or(0);
    let end = page.find("</main>").map_or(page.len(), |end| end + "</main>".len());
    &page[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with parts.
    fn page(parts: &[(&str, &str)]) -> Parts {
        let parts: String = parts.iter().map(|(id, html)| format!("<!--live {id}-->\n{html}\n<!--/live-->")).collect();
        Parts::read(&format!("<main>{parts}</main>"))
    }

    #[test]
    fn only_parts_that_changed_are_sent() {
        let before = page(&[("a", "<b>1</b> <time datetime=\"x\">1s ago</time>!"), ("b", "2")]);
        let same = page(&[("a", "<b>1</b> <time datetime=\"x\">9s ago</time>!"), ("b", "2")]);
        assert_eq!(same.changed_since(Some(&before)), Some(HashMap::new()), "ages do not count");
        for changed in ["<b>1</b> <time datetime=\"y\">1s ago</time>!", "<b>1</b> <time datetime=\"x\">1s ago</time>?"]
        {
            let after = page(&[("a", changed), ("b", "2")]);
            assert_eq!(after.changed_since(Some(&before)), Some(HashMap::from([("a", changed)])));
        }
        assert_eq!(same.changed_since(None), None);
        assert_eq!(page(&[("b", "2"), ("a", "1")]).changed_since(Some(&before)), None, "moved");
        assert_eq!(page(&[("a", "1")]).changed_since(Some(&before)), None, "gone");
    }

    #[test]
    fn the_main_element_is_cut_out() {
        assert_eq!(main_of("<body><main id=\"m\">x</main></body>"), "<main id=\"m\">x</main>");
    }
}

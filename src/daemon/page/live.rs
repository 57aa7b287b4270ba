//! Pages that keep themselves current: server-sent events with the parts of a page that have changed (HTML Living
//! Standard, section 9.2).
//!
//! A page marks its parts in the template, `<!--live ID-->` and `<!--/live-->` around an element that has the id. For each
//! page that is open a task writes the page anew when something was published, at least every five seconds, and sends what
//! is not as it was; when parts have come, gone or moved, the whole. Ages do not count: scripts let them grow.
//!
//! Invariants: a client that takes nothing gets nothing more, and its task waits for it; the task ends with its client.
//!
//! Cost: O(page) each time, at most twice a second for a client.

use super::Page;
use crate::serve::http::Content;
use serde_json::json;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Longest time without an event, so that both ends know that the other is there.
const PULSE: Duration = Duration::from_secs(5);
/// Shortest time between events.
const PAUSE: Duration = Duration::from_millis(500);

impl Page {
    /// The events of a page; nothing if it has none.
    pub(super) fn events(&self, of: &str) -> Option<Content> {
        let segments: Vec<String> = of.split('/').skip(1).map(super::decode).collect();
        if !matches!(segments.iter().map(String::as_str).collect::<Vec<_>>()[..], [""] | ["zone", _]) {
            return None;
        }
        let (events, sent) = mpsc::channel(1);
        tokio::spawn(self.clone().keep_current(segments, events));
        Some(Content::Events(sent))
    }

    /// Sends what changes until the client has gone.
    async fn keep_current(self, segments: Vec<String>, events: mpsc::Sender<String>) {
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let mut published = self.publisher.changes();
        let mut known: Option<Parts> = None;
        loop {
            let generation = *published.borrow_and_update();
            let Some(Content::Whole { body, .. }) = self.live_page(&segments).await else { return };
            let parts = Parts::read(&body);
            let changed = parts.changed_since(known.as_ref());
            let data = match changed {
                Some(changed) => json!({ "generation": generation, "parts": changed }),
                None => json!({ "generation": generation, "page": main_of(&body) }),
            };
            known = Some(parts);
            // JSON has no line feeds, which would end the field.
            if events.send(format!("data: {data}\n\n")).await.is_err() {
                return;
            }
            sleep(PAUSE).await;
            if let Ok(Err(_)) = timeout(PULSE.saturating_sub(PAUSE), published.changed()).await {
                return;
            }
            if events.is_closed() {
                return;
            }
        }
    }
}

/// The parts of a page, in order.
struct Parts {
    ids: Vec<String>,
    /// What they are, without ages.
    hashes: HashMap<String, u64>,
    html: HashMap<String, String>,
}

impl Parts {
    /// Finds the parts of a page.
    fn read(page: &str) -> Parts {
        let mut parts = Parts { ids: Vec::new(), hashes: HashMap::new(), html: HashMap::new() };
        for piece in page.split("<!--live ").skip(1) {
            let Some((id, rest)) = piece.split_once("-->") else { continue };
            let Some((html, _)) = rest.split_once("<!--/live-->") else { continue };
            parts.ids.push(id.to_owned());
            parts.hashes.insert(id.to_owned(), hash_without_ages(html));
            parts.html.insert(id.to_owned(), html.trim().to_owned());
        }
        parts
    }

    /// The parts that are not as they were; none when there are others than before.
    fn changed_since(&self, before: Option<&Parts>) -> Option<HashMap<&str, &str>> {
        let before = before?;
        if before.ids != self.ids {
            return None;
        }
        let changed = self.ids.iter().filter(|id| before.hashes.get(*id) != self.hashes.get(*id));
        Some(changed.map(|id| (id.as_str(), self.html[id].as_str())).collect())
    }
}

/// What a part says beside ages, which the browser reckons itself.
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

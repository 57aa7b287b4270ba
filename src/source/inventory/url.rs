//! The feeder that fetches a document.
//!
//! The document is asked for every ten seconds, with the tag of the one that was read (If-None-Match), so that one which
//! has not changed costs a few octets. After a failure the pause grows from a second to thirty.
//!
//! Invariants: an answer is the complete document or none, and no other status than 200 and 304 is one; an answer "not
//! modified" counts only for a document that was good; when an operator or the guard wants to see the document, it is
//! fetched whatever its tag.
//!
//! Cost: a request every ten seconds; O(document) for each version of it.
//!
//! RFCs: 9110 sections 8.8.3, 13.1.2 (ETag, If-None-Match), 15.4.5 (not modified).

use super::document::{self, MAX_BYTES};
use super::feeder::{Event, Failure, Feed, Feeder};
use super::plan::UrlPlan;
use crate::client::http::{Endpoint, Get, HttpClient};
use hyper::StatusCode;
use std::path::PathBuf;
use std::time::Duration;

/// Time between two requests.
const EVERY: Duration = Duration::from_secs(10);
/// The pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Time for one request and its answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fetches a document.
pub struct UrlFeeder {
    pub plan: UrlPlan,
    /// Name of the inventory.
    pub name: String,
}

impl Feeder for UrlFeeder {
    async fn run(self, mut feed: Feed) {
        let client = match Endpoint::new(&self.plan.url, self.plan.ca.as_ref().map(|(_, text)| &text[..])) {
            Ok(endpoint) => HttpClient::new(endpoint),
            Err(error) => {
                // Nothing but another configuration helps.
                let failure = Failure::new("request", format!("{}: {error}", self.plan.url));
                loop {
                    feed.begin();
                    if !feed.tell(document::failed(failure.clone())).await || !feed.pause(LONGEST_PAUSE).await {
                        return;
                    }
                }
            }
        };
        let (mut tag, mut failures) = (None, 0);
        loop {
            if feed.begin() {
                tag = None;
            }
            let mut event = self.fetch(&client, &mut tag).await;
            let pause = if let Event::Failed { again, .. } = &mut event {
                tag = None;
                let pause = FIRST_PAUSE.saturating_mul(1 << failures).min(LONGEST_PAUSE);
                failures = (failures + 1).min(10);
                *again = Some(pause);
                pause
            } else {
                failures = 0;
                EVERY
            };
            if !feed.tell(event).await || !feed.pause(pause).await {
                return;
            }
        }
    }
}

impl UrlFeeder {
    /// Asks for the document; `tag` is that of the one that was read last.
    async fn fetch(&self, client: &HttpClient, tag: &mut Option<String>) -> Event {
        let token = self.plan.token.as_ref().map(|(_, token)| &token[..]);
        let get = Get { path: "", etag: tag.as_deref(), token, time: PATIENCE, octets: MAX_BYTES };
        let url = &self.plan.url;
        let failed = |label, text: String| document::failed(Failure::new(label, format!("{url}: {text}")));
        let answer = match client.get(get).await {
            Err(error) => return failed(error.label(), error.to_string()),
            Ok(answer) => answer,
        };
        match answer.status {
            StatusCode::NOT_MODIFIED if tag.is_some() => Event::Current,
            StatusCode::OK => {
                *tag = answer.etag;
                document::read(PathBuf::from(url.as_str()), answer.body, self.name.clone()).await
            }
            status => failed("status", format!("answered {}", status.as_u16())),
        }
    }
}

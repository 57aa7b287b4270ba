//! The way of traces to their collector: what the OpenTelemetry library writes, sent by our HTTP client.
//!
//! The library's thread has no runtime of its own, so that a task of ours sends and the thread waits for it.
//!
//! Invariants: a collector that does not answer costs its thread and nobody else; whether it does is logged when it changes.
//! Cost: a request for each batch of spans, every five seconds at most often unless 512 wait.

use super::TracesPlan;
use crate::client::http::{Endpoint, HttpClient, Post};
use crate::metrics::Metrics;
use opentelemetry_http::{Bytes, HttpError, Request, Response};
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;

/// Path of traces at a collector whose URL has none.
const PATH: &str = "/v1/traces";
/// Time for one request.
const TIME: Duration = Duration::from_secs(10);
/// Longest answer that is read; it says little more than that the spans were taken.
const LONGEST_ANSWER: u64 = 64 << 10;

/// Reasons for which traces cannot go to a collector.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("{collector}: {error}")]
    Endpoint { collector: String, error: String },
    #[error("traces cannot be written: {0}")]
    Library(#[from] ExporterBuildError),
}

/// A collector.
pub(super) struct Collector {
    url: String,
    client: Arc<HttpClient>,
    runtime: Handle,
    metrics: Arc<Metrics>,
    /// True if the last request failed.
    is_failing: AtomicBool,
}

impl Collector {
    /// The collector of a plan.
    pub fn new(plan: &TracesPlan, metrics: &Arc<Metrics>) -> Result<Collector, TraceError> {
        let mut url = plan.collector.clone();
        if matches!(url.path(), "" | "/") {
            url.set_path(PATH);
        }
        let endpoint = Endpoint::new(&url, plan.ca.as_ref().map(|(_, text)| &text[..]));
        let failed = |error| TraceError::Endpoint { collector: url.to_string(), error };
        let client = Arc::new(HttpClient::new(endpoint.map_err(failed)?));
        let (runtime, metrics) = (Handle::current(), metrics.clone());
        Ok(Collector { url: url.to_string(), client, runtime, metrics, is_failing: AtomicBool::new(false) })
    }

    /// What the library writes spans with.
    pub fn exporter(self) -> Result<SpanExporter, TraceError> {
        let url = self.url.clone();
        let builder = SpanExporter::builder().with_http().with_http_client(self);
        Ok(builder.with_endpoint(url).with_protocol(Protocol::HttpJson).with_timeout(TIME).build()?)
    }

    /// Counts the end of a request, and logs it if the one before ended otherwise.
    fn note(&self, failure: Option<&str>) {
        let result = if failure.is_some() { "failed" } else { "sent" };
        self.metrics.trace_requests.with_label_values(&[result]).inc();
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_failing => {
                tracing::warn!(collector = %self.url, %error, "the collector of traces takes none; they are dropped meanwhile");
            }
            None if was_failing => tracing::info!(collector = %self.url, "the collector of traces takes them again"),
            _ => {}
        }
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collector({})", self.url)
    }
}

#[async_trait::async_trait]
impl opentelemetry_http::HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, json) = (self.client.clone(), request.into_body().to_vec());
        let sent = self
            .runtime
            .spawn(async move { client.post(Post { path: "", json, time: TIME, octets: LONGEST_ANSWER }).await });
        let answer =
            sent.await.map_err(|error| error.to_string()).and_then(|sent| sent.map_err(|error| error.to_string()));
        match answer {
            Ok(answer) => {
                let status = answer.status;
                self.note((!status.is_success()).then(|| format!("answered {status}")).as_deref());
                let mut response = Response::new(Bytes::from(answer.body));
                *response.status_mut() = status;
                Ok(response)
            }
            Err(error) => {
                self.note(Some(&error));
                Err(error.into())
            }
        }
    }
}

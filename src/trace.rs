//! Traces of changes, for a collector of OpenTelemetry: what became of a change from the first word of it until each
//! secondary has acknowledged it.
//!
//! ```text
//! change us-west-1.cns.example.com.   NOTIFY ─────────────────────────────────► published
//! ├─ SOA                                    ───
//! ├─ IXFR                                      ─────
//! ├─ merge us-west.cns.example.com.                  ──
//! └─ acknowledged by 192.0.2.53:53                       ─────────
//! ```
//!
//! A source begins a trace when it has a new version ([`begin`]), with the steps that it took until then. The keeper adds a
//! span for each region that it merges because of it ([`merged`]), and ends the trace's first span when all of it is
//! published ([`published`]). Whoever announces zones adds one for each secondary and zone ([`acknowledged`]), which may be later than that end.
//!
//! There is one for the whole process, as of the log: those who have something to tell are everywhere, and none of them
//! needs to know whether anybody listens.
//!
//! Invariants: nobody waits for the collector; what it does not take in time is dropped; what is remembered of traces is
//! bounded in number and time. Cost: a look at a flag for each change where nobody listens; else O(members that changed ×
//! regions) spans.
//!
//! References: OpenTelemetry Protocol 1.x, OTLP/HTTP with JSON.

mod exporter;

pub use exporter::TraceError;

use crate::metrics::Metrics;
use exporter::Collector;
use opentelemetry::trace::{
    Span as _, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use url::Url;
use wire::name::Name;
use wire::serial::Serial;

/// Longest wait for acknowledgements; what comes later belongs to no trace.
const PATIENCE: Duration = Duration::from_secs(60);
/// Versions of one zone whose acknowledgements are waited for.
const MOST_VERSIONS: usize = 8;
/// Zones whose acknowledgements are waited for.
const MOST_ZONES: usize = 4096;
/// Changes that are not published yet.
const MOST_OPEN: usize = 4096;
/// Time that the end of the process, or of a configuration, leaves the collector.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// Where traces go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracesPlan {
    /// The collector; its path is `/v1/traces` if it has none.
    pub collector: Url,
    /// File with the authorities that sign its certificate, and what it holds.
    pub ca: Option<(PathBuf, String)>,
}

/// A step on the way of a change.
#[derive(Clone, Debug)]
pub struct Step {
    pub name: &'static str,
    pub began: Instant,
    pub ended: Instant,
}

/// A change as its source knows it.
#[derive(Clone, Debug)]
pub struct Change {
    /// When the first word of it came.
    pub since: Instant,
    /// The primary that it came from.
    pub primary: Option<String>,
    /// Serial before.
    pub from: Option<Serial>,
    pub serial: Serial,
    /// Names that it touches.
    pub names: usize,
    pub steps: Vec<Step>,
}

/// True while somebody listens.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// All that is under way.
static TRACES: Mutex<Option<Traces>> = Mutex::new(None);

/// Traces that are under way, and where they go.
struct Traces {
    plan: TracesPlan,
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    /// Changes that are not published yet, by their zone.
    open: HashMap<Name, Open>,
    /// Versions that secondaries may still acknowledge, by their zone.
    waiting: HashMap<Name, VecDeque<Version>>,
}

/// A change that is not published yet.
struct Open {
    span: Span,
    began: Instant,
    /// Regions with their serials that were merged because of it.
    regions: Vec<(Name, Serial)>,
}

/// A version that is published.
struct Version {
    serial: Serial,
    trace: SpanContext,
    published: Instant,
    acknowledged: Vec<SocketAddr>,
}

/// Has traces go where a plan says, or nowhere. Blocks for a second at most, while the collector of before gets what is left.
pub fn follow(plan: Option<&TracesPlan>, server: &str, metrics: &Arc<Metrics>) -> Result<(), TraceError> {
    if TRACES.lock().as_ref().map(|traces| &traces.plan) == plan {
        return Ok(());
    }
    // First the new one: if there is none, the old one stays.
    let traces = plan.map(|plan| Traces::start(plan, server, metrics)).transpose()?;
    IS_ON.store(traces.is_some(), Ordering::Relaxed);
    let before = std::mem::replace(&mut *TRACES.lock(), traces);
    if let Some(Traces { provider, open, .. }) = before {
        drop(open);
        // What the collector does not take in that time is lost, which it has logged.
        let _ = provider.shutdown_with_timeout(END_PATIENCE);
    }
    Ok(())
}

/// Gives the collector what is left, and ends. Blocks as [`follow`] does.
pub fn end() {
    IS_ON.store(false, Ordering::Relaxed);
    if let Some(traces) = TRACES.lock().take() {
        let _ = traces.provider.shutdown_with_timeout(END_PATIENCE);
    }
}

/// True while somebody listens.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Begins the trace of a change, which its source is about to send to the keeper; one of the same zone that was never
/// published ends.
pub fn begin(zone: &Name, change: &Change) {
    with(|traces| traces.begin(zone, change));
}

/// Begins one, unless the source has begun it with more to tell.
pub fn begin_if_new(zone: &Name, change: &Change) {
    with(|traces| {
        if !traces.open.contains_key(zone) {
            traces.begin(zone, change);
        }
    });
}

/// Adds that a region has a version because of members that changed.
pub fn merged<'n>(region: &Name, serial: Serial, members: impl Iterator<Item = &'n Name>, began: Instant) {
    let now = Instant::now();
    with(|traces| {
        for member in members {
            let Some(open) = traces.open.get_mut(member) else { continue };
            let step = Step { name: "merge", began, ended: now };
            let about = [text("zone", region), KeyValue::new("serial", i64::from(serial.0))];
            tell(&traces.tracer, open.span.span_context(), &step, SpanKind::Internal, about.to_vec());
            open.regions.push((region.clone(), serial));
        }
    });
}

/// Ends the first span of the changes of some zones: all who ask see them. `serial` tells what is served of a zone.
pub fn published<'n>(zones: impl Iterator<Item = &'n Name>, serial: impl Fn(&Name) -> Option<Serial>) {
    let now = Instant::now();
    with(|traces| {
        for zone in zones {
            let Some(Open { mut span, regions, .. }) = traces.open.remove(zone) else { continue };
            span.end_with_timestamp(time_of(now));
            let own = serial(zone).map(|serial| (zone.clone(), serial));
            for (zone, serial) in regions.into_iter().chain(own) {
                traces.wait_for(zone, serial, span.span_context().clone(), now);
            }
        }
    });
}

/// Adds that a secondary has acknowledged a version.
pub fn acknowledged(zone: &Name, secondary: SocketAddr, serial: Serial) {
    let now = Instant::now();
    with(|traces| {
        let Some(versions) = traces.waiting.get_mut(zone) else { return };
        versions.retain(|version| now.saturating_duration_since(version.published) < PATIENCE);
        for version in versions.iter_mut() {
            // Who acknowledges a version knows of those before it.
            let has_it = version.serial == serial || serial.newer_than(version.serial);
            if !has_it || version.acknowledged.contains(&secondary) {
                continue;
            }
            version.acknowledged.push(secondary);
            let step = Step { name: "acknowledged", began: version.published, ended: now };
            let about = vec![
                text("zone", zone),
                text("secondary", &secondary),
                KeyValue::new("serial", i64::from(version.serial.0)),
            ];
            tell(&traces.tracer, &version.trace, &step, SpanKind::Client, about);
        }
    });
}

/// Does something with the traces, if somebody listens.
fn with(work: impl FnOnce(&mut Traces)) {
    if is_on()
        && let Some(traces) = &mut *TRACES.lock()
    {
        work(traces);
    }
}

impl Traces {
    /// Starts to send traces to a collector.
    fn start(plan: &TracesPlan, server: &str, metrics: &Arc<Metrics>) -> Result<Traces, TraceError> {
        let exporter = Collector::new(plan, metrics)?.exporter()?;
        let about = [
            text("service.name", &"aggregator"),
            text("service.version", &env!("CARGO_PKG_VERSION")),
            text("service.instance.id", &server),
        ];
        let resource = Resource::builder().with_attributes(about).build();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        let tracer = provider.tracer("aggregator");
        Ok(Traces { plan: plan.clone(), provider, tracer, open: HashMap::new(), waiting: HashMap::new() })
    }

    /// Begins the trace of a change.
    fn begin(&mut self, zone: &Name, change: &Change) {
        if self.open.len() >= MOST_OPEN {
            self.open.retain(|_, open| open.began.elapsed() < PATIENCE);
            if self.open.len() >= MOST_OPEN {
                return;
            }
        }
        let Change { since, primary, from, serial, names, steps } = change;
        let mut about = vec![
            text("zone", zone),
            KeyValue::new("serial", i64::from(serial.0)),
            KeyValue::new("names", i64::try_from(*names).unwrap_or(i64::MAX)),
        ];
        about.extend(from.map(|from| KeyValue::new("from", i64::from(from.0))));
        about.extend(primary.as_ref().map(|primary| text("primary", primary)));
        let name = format!("change {zone}");
        let span = self.tracer.span_builder(name).with_kind(SpanKind::Consumer).with_start_time(time_of(*since));
        let span = span.with_attributes(about).start_with_context(&self.tracer, &Context::new());
        for step in steps {
            tell(&self.tracer, span.span_context(), step, SpanKind::Client, vec![text("zone", zone)]);
        }
        let open = Open { span, began: Instant::now(), regions: Vec::new() };
        if let Some(mut before) = self.open.insert(zone.clone(), open) {
            before.span.set_status(Status::error("it was not published"));
        }
    }

    /// Waits for those who acknowledge a version of a zone.
    fn wait_for(&mut self, zone: Name, serial: Serial, trace: SpanContext, published: Instant) {
        if self.waiting.len() >= MOST_ZONES && !self.waiting.contains_key(&zone) {
            let is_recent = |version: &Version| published.saturating_duration_since(version.published) < PATIENCE;
            self.waiting.retain(|_, versions| versions.iter().any(is_recent));
            if self.waiting.len() >= MOST_ZONES {
                return;
            }
        }
        let versions = self.waiting.entry(zone).or_default();
        if versions.len() == MOST_VERSIONS {
            versions.pop_front();
        }
        versions.push_back(Version { serial, trace, published, acknowledged: Vec::new() });
    }
}

/// Writes a step as a span below another.
fn tell(tracer: &SdkTracer, parent: &SpanContext, step: &Step, kind: SpanKind, about: Vec<KeyValue>) {
    let parent = Context::new().with_remote_span_context(parent.clone());
    let span = tracer.span_builder(step.name).with_kind(kind).with_start_time(time_of(step.began));
    let mut span = span.with_attributes(about).start_with_context(tracer, &parent);
    span.end_with_timestamp(time_of(step.ended));
}

/// A fact as text.
fn text(key: &'static str, value: &impl ToString) -> KeyValue {
    KeyValue::new(key, value.to_string())
}

/// A moment by the clock that others have.
fn time_of(moment: Instant) -> SystemTime {
    SystemTime::now().checked_sub(moment.elapsed()).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Traces that go nowhere.
    fn traces() -> Traces {
        let provider = SdkTracerProvider::builder().build();
        let tracer = provider.tracer("test");
        let plan = TracesPlan { collector: Url::parse("http://127.0.0.1").unwrap(), ca: None };
        Traces { plan, provider, tracer, open: HashMap::new(), waiting: HashMap::new() }
    }

    fn zone(number: usize) -> Name {
        Name::parse(&format!("z{number}.x")).unwrap()
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut traces, now) = (traces(), Instant::now());
        let change = Change { since: now, primary: None, from: None, serial: Serial(1), names: 1, steps: Vec::new() };
        (0..MOST_OPEN + 9).for_each(|number| traces.begin(&zone(number), &change));
        assert_eq!(traces.open.len(), MOST_OPEN);
        let trace = SpanContext::empty_context();
        (0..20).for_each(|serial| traces.wait_for(zone(0), Serial(serial), trace.clone(), now));
        let serials: Vec<u32> = traces.waiting[&zone(0)].iter().map(|version| version.serial.0).collect();
        assert_eq!(serials, (20 - MOST_VERSIONS as u32..20).collect::<Vec<_>>());
        (1..MOST_ZONES + 9).for_each(|number| traces.wait_for(zone(number), Serial(1), trace.clone(), now));
        assert_eq!(traces.waiting.len(), MOST_ZONES);
        // What is old makes room.
        let later = now + PATIENCE;
        traces.wait_for(zone(MOST_ZONES + 9), Serial(1), trace, later);
        assert_eq!(traces.waiting.len(), 1);
    }
}

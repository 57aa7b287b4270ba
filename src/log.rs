//! The log: where lines go, how they look, and what is left out.
//!
//! Lines go to standard error or into a file, one fact each, for people or as JSON objects. The filter can change while
//! the program runs; the format cannot. Libraries that would write a line for every query are held back to warnings,
//! unless the filter names them.
//!
//! `docs/log.md` has the fields of all lines: a name means one thing, has one type, and is none that JSON lines have of
//! themselves. Serials are numbers, lists are written by [`list`] (`tests/logging.rs`).
//!
//! Where standard error is journald's, lines for people are entries of the journal with all their fields (`journal`); where journald
//! takes none, and with JSON lines, each has its priority in front, and those for people no time (`journald`).
//!
//! Where bars are drawn beside the lines, these go between them whole. Standard error may hang: the queue that it is
//! written through is the process' own, and takes what a process says of its end and of its defects, too.
//!
//! Cost: a line that is filtered out costs one comparison.

mod journal;
mod journald;
mod notice;
mod queue;

use crate::restart::note_panic;
use crate::terminal::{self, Bars, Stream};
use journal::{Journal, SOCKET};
use journald::ToJournald;
use notice::Form;
use prometheus::IntCounter;
use queue::Queue;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tracing::Subscriber;
use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layered, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// Libraries whose ordinary lines no operator wants, and what is left of them. That of ZooKeeper warns of what we tell
/// in our own words, and so does that of LDAP, with all that a server has sent.
const QUIET: [(&str, &str); 5] = [
    ("hickory_server", "warn"),
    ("hickory_net", "warn"),
    ("tokio_cron_scheduler", "warn"),
    ("zookeeper_client", "error"),
    ("ldap3_proto", "off"),
];

/// Time for which the end of a process waits for whoever reads its log.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// Messages that go to standard error once there is a log.
static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();

/// Error in setting up or changing the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("{0:?} is no log filter: {1}")]
    Filter(String, ParseError),
    #[error("logging is set up already, or is over")]
    Taken,
    #[error("cannot start the thread that writes the log: {0}")]
    Thread(io::Error),
}

/// Changes the filter of the running log.
#[derive(Clone)]
pub struct LogHandle(reload::Handle<EnvFilter, Registry>);

impl LogHandle {
    /// Uses another level or filter from now on.
    pub fn set_filter(&self, filter: &str) -> Result<(), LogError> {
        self.0.reload(parse_filter(filter)?).map_err(|_| LogError::Taken)
    }
}

/// Starts logging for the whole process, between the lines of bars where there are any.
pub fn start(filter: &str, json: bool, bars: Option<&Bars>) -> Result<LogHandle, LogError> {
    let to_journald = bars.is_none() && journald::is_journald();
    let is_native = to_journald && !json && journald::is_stream() && !journald::wants_lines();
    let journal = is_native.then(|| Journal::connect(Path::new(SOCKET)).ok()).flatten();
    let form = match json {
        _ if journal.is_some() => Form::Entries,
        true if to_journald => Form::JsonJournald,
        true => Form::Json,
        false if to_journald => Form::Journald,
        false if terminal::is_colored(Stream::Errors) => Form::Colored,
        false => Form::Plain,
    };
    let queue = match (bars.cloned(), journal) {
        (Some(bars), _) => Queue::start(bars, form),
        (None, Some(journal)) => Queue::start(journal, form),
        (None, None) => Queue::start(io::stderr(), form),
    };
    let queue = queue.map_err(LogError::Thread)?;
    let has_priority = matches!(form, Form::Journald | Form::JsonJournald);
    let lines = if has_priority { lines(form, ToJournald(queue.clone())) } else { lines(form, queue.clone()) };
    let handle = install(filter, lines)?;
    // A log that is the first of its process has the first queue.
    let _ = QUEUE.set(queue);
    Ok(handle)
}

/// Writes text to standard error, behind the lines of the log if there is one.
pub fn print(text: &str) {
    let line = format!("{}\n", text.trim_end());
    match QUEUE.get() {
        Some(queue) if queue.is_journald() => queue.push(journald::mark(&line).as_bytes()),
        Some(queue) => queue.push(line.as_bytes()),
        // There is nowhere left to complain about a closed standard error.
        None => drop(io::stderr().lock().write_all(line.as_bytes())),
    }
}

/// Waits until the log has been written, unless nobody reads it: the last thing that a process does.
pub fn finish() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(END_PATIENCE);
    }
}

/// Writes a list as the value of a field: its elements, parted by commas.
pub fn list<T: Display>(elements: impl IntoIterator<Item = T>) -> String {
    elements.into_iter().map(|element| element.to_string()).collect::<Vec<_>>().join(",")
}

/// Counts the lines that are lost because nobody reads the log.
pub fn count_lost(counter: &IntCounter) {
    if let Some(queue) = QUEUE.get() {
        queue.count_lost(counter.clone());
    }
}

/// Tells of a defect as Rust does, but through the log: its thread may be needed for more than to wait for a reader.
pub fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| {
        note_panic();
        let thread = std::thread::current();
        let text = format!("thread '{}' {panic}", thread.name().unwrap_or("<unnamed>"));
        let trace = Backtrace::capture();
        print(&if trace.status() == BacktraceStatus::Captured { format!("{text}\n{trace}") } else { text });
    }));
}

/// Starts logging into a file for the whole process, for people; standard error stays as it is.
pub fn start_in_file(filter: &str, file: File) -> Result<LogHandle, LogError> {
    install(filter, lines(Form::Plain, Mutex::new(file)))
}

/// Makes lines of events. A log that nobody reads any more must not end the program by complaining about it.
fn lines<S, W>(form: Form, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = fmt::layer().with_writer(writer).log_internal_errors(false);
    match form {
        Form::Json | Form::JsonJournald | Form::Entries => lines.json().flatten_event(true).boxed(),
        // journald notes the time itself.
        Form::Journald => lines.with_ansi(false).without_time().boxed(),
        Form::Plain | Form::Colored => lines.with_ansi(form == Form::Colored).boxed(),
    }
}

/// Layer that makes lines of events that passed the filter.
type Lines = Box<dyn Layer<Filtered> + Send + Sync>;
/// The registry behind a filter that can change.
type Filtered = Layered<reload::Layer<EnvFilter, Registry>, Registry>;

/// Makes a log the one of the process.
fn install(filter: &str, lines: Lines) -> Result<LogHandle, LogError> {
    let (filter, handle) = reload::Layer::new(parse_filter(filter)?);
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    subscriber.try_init().map_err(|_| LogError::Taken)?;
    Ok(LogHandle(handle))
}

/// Puts the quiet libraries in front of a filter, whose own directives win.
fn parse_filter(filter: &str) -> Result<EnvFilter, LogError> {
    let mut text = String::new();
    // A level below warnings already says less of most.
    let is_less = matches!(filter, "off" | "error");
    for (library, level) in QUIET.iter().filter(|(_, level)| !is_less || *level == "off") {
        text.push_str(&format!("{library}={level},"));
    }
    text.push_str(filter);
    EnvFilter::builder().parse(text).map_err(|error| LogError::Filter(filter.to_string(), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// The messages that pass a filter.
    fn passed(filter: &str) -> Vec<String> {
        struct Collect(Arc<Mutex<Vec<String>>>);
        impl<S: tracing::Subscriber> Layer<S> for Collect {
            fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
                let metadata = event.metadata();
                self.0.lock().unwrap().push(format!("{} {}", metadata.target(), metadata.level()));
            }
        }
        let seen = Arc::new(Mutex::new(Vec::new()));
        let subscriber = tracing_subscriber::registry().with(parse_filter(filter).unwrap()).with(Collect(seen.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "hickory_server::server", "x");
            tracing::info!(target: "hickory_server::server", "x");
            tracing::error!(target: "ldap3_proto", "x");
            tracing::info!(target: "aggregator::daemon", "x");
            tracing::debug!(target: "aggregator::daemon", "x");
        });
        let seen = seen.lock().unwrap();
        seen.clone()
    }

    #[test]
    fn libraries_are_quiet_unless_named() {
        assert_eq!(passed("info"), ["hickory_server::server WARN", "aggregator::daemon INFO"]);
        assert_eq!(passed("error"), [""; 0]);
        assert_eq!(passed("off"), [""; 0]);
        assert_eq!(passed("off,ldap3_proto=error"), ["hickory_server::server WARN", "ldap3_proto ERROR"]);
        let named = passed("warn,hickory_server=info,aggregator=debug");
        assert_eq!(
            named,
            [
                "hickory_server::server WARN",
                "hickory_server::server INFO",
                "aggregator::daemon INFO",
                "aggregator::daemon DEBUG"
            ]
        );
    }

    #[test]
    fn the_filter_of_the_running_log_can_change() {
        let handle = start("error", false, None).unwrap();
        assert!(!tracing::enabled!(target: "aggregator::daemon", tracing::Level::INFO));
        handle.set_filter("info").unwrap();
        assert!(tracing::enabled!(target: "aggregator::daemon", tracing::Level::INFO));
        assert!(handle.set_filter("a=loud").is_err());
        assert!(tracing::enabled!(target: "aggregator::daemon", tracing::Level::INFO));
        assert!(matches!(start("info", true, None), Err(LogError::Taken)));
        handle.set_filter("off").unwrap();
    }

    #[test]
    fn a_wrong_filter_is_refused() {
        assert!(parse_filter("a=loud").err().unwrap().to_string().starts_with("\"a=loud\" is no log filter"));
    }
}

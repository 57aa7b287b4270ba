//! The line about lines that are lost: made as the log makes its lines, but beside it.
//!
//! Through the log it could be lost itself, stand behind lines that came later, or be kept out by the filter.
//!
//! Cost: one line for each loss.

use std::fmt::{self, Write};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// The module that the line names.
const TARGET: &str = "aggregator::log";
/// The priority that the line has for journald, as in syslog(3).
pub const ERROR: &str = "<3>";
const TEXT: &str = "log lines lost: nobody read the log";

/// Layout of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Plain,
    Colored,
    Json,
    /// As [`Form::Plain`], with priorities and without times.
    Journald,
    /// As [`Form::Json`], with priorities.
    JsonJournald,
    /// As [`Form::Json`], for entries of the journal.
    Entries,
}

/// Makes the line about a number of lost ones, with its end.
pub fn notice(form: Form, lost: u64) -> String {
    let mut line = String::new();
    // A text takes all that is written to it.
    let _ = write_notice(&mut line, form, lost);
    line
}

fn write_notice(line: &mut String, form: Form, lost: u64) -> fmt::Result {
    let priority = if form == Form::JsonJournald { ERROR } else { "" };
    let mut time = String::new();
    SystemTime.format_time(&mut Writer::new(&mut time))?;
    match form {
        Form::Plain => writeln!(line, "{time} ERROR {TARGET}: {TEXT} lines={lost}"),
        Form::Journald => writeln!(line, "{ERROR}ERROR {TARGET}: {TEXT} lines={lost}"),
        // Red, dimmed and italic, where the library has them.
        Form::Colored => writeln!(
            line,
            "\x1b[2m{time}\x1b[0m \x1b[31mERROR\x1b[0m \x1b[2m{TARGET}\x1b[0m\x1b[2m:\x1b[0m {TEXT} \
             \x1b[3mlines\x1b[0m\x1b[2m=\x1b[0m{lost}"
        ),
        Form::Json | Form::JsonJournald | Form::Entries => writeln!(
            line,
            r#"{priority}{{"timestamp":"{time}","level":"ERROR","message":"{TEXT}","lines":{lost},"target":"{TARGET}"}}"#
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::layer::SubscriberExt;

    /// Lines that the log makes.
    #[derive(Clone, Default)]
    struct Made(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Made {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A line without its time, of which there is one of the right length, or none.
    fn timeless(line: &str) -> String {
        let Some(at) = line.find("20") else { return line.to_owned() };
        let (time, rest) = line[at..].split_at("2026-11-21T06:00:00.000000Z".len());
        assert!(time.ends_with('Z') && time.as_bytes()[10] == b'T', "{line}");
        format!("{}{rest}", &line[..at])
    }

    #[test]
    fn the_line_is_as_the_log_would_make_it() {
        for form in [Form::Plain, Form::Colored, Form::Json, Form::Journald, Form::JsonJournald, Form::Entries] {
            let made = Made::default();
            let writer = made.clone();
            let lines = super::super::lines(form, move || writer.clone());
            let log = tracing_subscriber::registry().with(lines);
            tracing::subscriber::with_default(log, || tracing::error!(target: "aggregator::log", lines = 17, "{TEXT}"));
            let made = String::from_utf8(made.0.lock().unwrap().clone()).unwrap();
            // The priority is the writer's.
            let told = notice(form, 17);
            let has_priority = matches!(form, Form::Journald | Form::JsonJournald);
            let told = if has_priority { told.strip_prefix(ERROR).expect("a priority") } else { &told };
            assert_eq!(timeless(told), timeless(&made), "{form:?}");
        }
    }
}

//! The queue between those who log and a thread that writes: a reader of the log that hangs holds up nobody.
//!
//! A pipe that nobody reads, a stopped journal and a file on a disk that does not answer block whoever writes to them,
//! for ever. Here that is a thread that does nothing else.
//!
//! Invariants:
//! - Lines stay whole and in their order. Those that find no room are lost and counted, and where they are missing
//!   stands one line with their number, which is never lost and which no filter keeps out.
//! - Who logs goes on when the line has been written, as if there were no queue: what a crash leaves is complete, and a
//!   burst takes the time that its reader needs. It waits for that no longer than [`PATIENCE`], and not at all while
//!   the reader is known to hang.
//! - At most twice [`ROOM`] octets wait, or one line that is longer, and the line about a loss.
//!
//! tracing-appender does not fit: at the end it tells a full queue on standard output, in a service the same socket
//! that hangs; it counts lines, not octets; and it never waits, so that a burst loses lines while its reader is only
//! slower.
//!
//! Cost: two changes of thread for a line; lines that come at once share them.

use super::notice::{Form, notice};
use prometheus::IntCounter;
use std::io::{self, ErrorKind, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Octets that wait at most while others are written.
const ROOM: usize = 1 << 20;
/// Time for which a line is waited for.
const PATIENCE: Duration = Duration::from_millis(50);
/// Pause before a stream that takes nothing without blocking is tried again.
const PAUSE: Duration = Duration::from_millis(10);

/// Lines on their way.
pub struct Queue {
    state: Mutex<State>,
    /// For the thread that writes: there is something.
    filled: Condvar,
    /// For all others: something was written, or they need not wait.
    moved: Condvar,
    form: Form,
    patience: Duration,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    /// The number of times that what waited was taken, and of times that it was written.
    taken: u64,
    written: u64,
    /// A line was waited for in vain, and nothing has been written since.
    hangs: bool,
    /// Lines lost since that was last told.
    lost: u64,
    /// Lines lost before there was a counter.
    uncounted: u64,
    counter: Option<IntCounter>,
}

impl State {
    /// Counts a lost line.
    fn lose(&mut self) {
        self.lost += 1;
        match &self.counter {
            Some(counter) => counter.inc(),
            None => self.uncounted += 1,
        }
    }

    /// Returns true if there is room for a line. After a loss there is none until that can be told in its place.
    fn takes(&self, line: &[u8]) -> bool {
        self.waiting.is_empty() || (self.lost == 0 && self.waiting.len() + line.len() <= ROOM)
    }
}

impl Queue {
    /// A queue of lines that look so, with its thread, which writes to `output`.
    pub fn start(output: impl Write + Send + 'static, form: Form) -> io::Result<Arc<Queue>> {
        Queue::start_with(output, form, PATIENCE)
    }

    fn start_with(output: impl Write + Send + 'static, form: Form, patience: Duration) -> io::Result<Arc<Queue>> {
        let (state, filled, moved) = (Mutex::default(), Condvar::new(), Condvar::new());
        let queue = Arc::new(Queue { state, filled, moved, form, patience });
        let worker = queue.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || worker.write_all(output))?;
        Ok(queue)
    }

    /// Adds lines that are lost to a counter, from the first one on.
    pub fn count_lost(&self, counter: IntCounter) {
        let mut state = self.lock();
        counter.inc_by(mem::take(&mut state.uncounted));
        state.counter = Some(counter);
    }

    /// Returns true if lines go to journald.
    pub fn is_journald(&self) -> bool {
        matches!(self.form, Form::Journald | Form::JsonJournald | Form::Entries)
    }

    /// Takes a line, with its end.
    pub fn push(&self, line: &[u8]) {
        let mut state = self.wait_while(self.lock(), self.patience, |state| !state.takes(line));
        if !state.takes(line) {
            state.lose();
            return;
        }
        state.waiting.extend_from_slice(line);
        let turn = state.taken + 1;
        self.filled.notify_one();
        drop(self.wait_while(state, self.patience, |state| state.written < turn));
    }

    /// Waits until everything has been written, at most for a while.
    pub fn flush(&self, patience: Duration) {
        let mut state = self.lock();
        // The reader may have come back.
        state.hangs = false;
        drop(self.wait_while(state, patience, |state| !state.waiting.is_empty() || state.written < state.taken));
    }

    /// Waits while a condition holds, unless the reader hangs; who waits in vain finds that it does.
    fn wait_while<'a>(
        &self,
        state: MutexGuard<'a, State>,
        patience: Duration,
        holds: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let waited = self.moved.wait_timeout_while(state, patience, |state| !state.hangs && holds(state));
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            state.hangs = true;
            self.moved.notify_all();
        }
        state
    }

    /// Writes what comes, for ever.
    fn write_all(&self, mut output: impl Write) {
        loop {
            let waited = self.filled.wait_while(self.lock(), |state| state.waiting.is_empty());
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            let (lines, lost) = (mem::take(&mut state.waiting), mem::take(&mut state.lost));
            state.taken += 1;
            if lost > 0 {
                // Everything taken came before the loss, and what comes stands behind this.
                state.waiting = notice(self.form, lost).into_bytes();
            }
            drop(state);
            put(&mut output, &lines);
            let mut state = self.lock();
            state.written += 1;
            state.hangs = false;
            drop(state);
            self.moved.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for &Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes all there is. A log that nobody reads any more is no reason to end.
fn put(output: &mut impl Write, mut lines: &[u8]) {
    while !lines.is_empty() {
        match output.write(lines) {
            Ok(count) if count > 0 => lines = &lines[count..],
            // Whoever shares the stream may have made it one that does not block.
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return,
        }
    }
    let _ = output.flush();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    /// Longer than any machine is busy.
    const LONG: Duration = Duration::from_secs(20);

    /// A queue whose reader is the other end.
    fn piped() -> (Arc<Queue>, UnixStream) {
        let (output, reader) = UnixStream::pair().unwrap();
        reader.set_read_timeout(Some(LONG)).unwrap();
        (Queue::start(output, Form::Json).unwrap(), reader)
    }

    /// Takes its time for so many octets, and keeps them.
    #[derive(Clone)]
    struct Slow(usize, Arc<Mutex<Vec<u8>>>);

    impl Slow {
        fn start(step: usize) -> (Arc<Queue>, Arc<Mutex<Vec<u8>>>) {
            let text = Arc::default();
            (Queue::start_with(Slow(step, Arc::clone(&text)), Form::Plain, LONG).unwrap(), text)
        }
    }

    impl Write for Slow {
        fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_millis(5));
            let count = lines.len().min(self.0);
            self.1.lock().unwrap().extend_from_slice(&lines[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_has_been_written_when_its_writer_goes_on() {
        let (queue, text) = Slow::start(usize::MAX);
        for count in 1..=10 {
            queue.push(b"line\n");
            assert_eq!(text.lock().unwrap().len(), 5 * count);
        }
    }

    #[test]
    fn a_burst_for_a_slow_reader_loses_nothing() {
        let (queue, text) = Slow::start(65_536);
        let (writers, length) = (15, ROOM / 5);
        let line = |writer: u8| [vec![b'a' + writer; length - 1], vec![b'\n']].concat();
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let (queue, line) = (&queue, line(writer));
                scope.spawn(move || queue.push(&line));
            }
        });
        let state = queue.lock();
        assert_eq!((state.lost, state.uncounted), (0, 0));
        let text = text.lock().unwrap();
        let mut lines: Vec<&[u8]> = text.split_inclusive(|octet| *octet == b'\n').collect();
        lines.sort_unstable();
        assert!(lines == (0..writers).map(line).collect::<Vec<_>>(), "{} whole lines", lines.len());
    }

    #[test]
    fn a_reader_that_hangs_costs_one_wait_and_the_lines_that_find_no_room() {
        let (queue, mut reader) = piped();
        let early = IntCounter::new("early", "before there was a counter").unwrap();
        let line = |number: usize| format!("{number:>99}\n");
        let fitting = 2 * ROOM / 100;
        let since = Instant::now();
        (0..2 * fitting).for_each(|number| queue.push(line(number).as_bytes()));
        assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
        queue.count_lost(early.clone());
        let lost = early.get();
        assert!(lost > 0, "{fitting} lines fit, twice as many came");
        queue.push(b"lost as well\n");
        assert_eq!(early.get(), lost + 1);
        // Somebody reads again: everything is there up to the loss, and what comes afterwards is.
        let kept = 2 * fitting - usize::try_from(lost).unwrap();
        let mut text = vec![0; kept * 100];
        reader.read_exact(&mut text).unwrap();
        let expected: String = (0..kept).map(line).collect();
        assert!(text == expected.as_bytes(), "the first lines, in their order");
        // The loss is told in its place, whatever the filter, and as often as it was counted.
        queue.push(b"after it\n");
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let told: serde_json::Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        assert_eq!(told["lines"], early.get());
        assert_eq!(lines.next().unwrap(), "after it");
        assert_eq!((queue.lock().lost, early.get()), (0, lost + 1));
    }

    #[test]
    fn an_end_waits_for_a_reader_only_for_a_while() {
        let (queue, mut reader) = piped();
        (0..20_000).for_each(|_| queue.push(&[b'x'; 100]));
        let since = Instant::now();
        queue.flush(Duration::from_millis(100));
        assert!(since.elapsed() < Duration::from_secs(10));
        let reading =
            std::thread::spawn(move || std::iter::from_fn(|| reader.read(&mut [0; 65_536]).ok()).sum::<usize>());
        queue.flush(Duration::from_secs(20));
        let state = queue.lock();
        assert!(state.waiting.is_empty() && state.written == state.taken);
        drop((state, reading));
    }

    #[test]
    fn a_log_without_a_reader_goes_nowhere() {
        let (queue, reader) = piped();
        drop(reader);
        (0..100).for_each(|_| queue.push(b"x\n"));
        queue.flush(Duration::from_secs(20));
        assert!(queue.lock().written > 0 && !queue.lock().hangs);
    }
}

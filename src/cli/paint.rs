//! Colours for people: differences, and states that are good, worth a look, or bad.
//!
//! Invariants: colours only repeat what the words say; where the reader wants none, text is as it came.
//!
//! Cost: O(text).

use crate::terminal::{self, Stream, Style};
use std::borrow::Cow;

/// Kinds of text, which decide how its lines are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Lines of a difference: a removed record begins with a minus, an added one with a plus.
    Difference,
    /// Tables with a column of states, and paragraphs with lines that tell one.
    States,
}

/// Colours a text where its reader wants that.
pub fn paint(text: &str, look: Look, stream: Stream) -> Cow<'_, str> {
    match (terminal::is_colored(stream), look) {
        (false, _) => text.into(),
        (true, Look::Difference) => color_difference(text).into(),
        (true, Look::States) => color_states(text).into(),
    }
}

/// Colours the lines of a difference, and what an order would lose.
fn color_difference(text: &str) -> String {
    let line = |line: &str| match line.as_bytes().first() {
        Some(b'-') => Style::Bad.paint(line) + "\n",
        Some(b'+') => Style::Good.paint(line) + "\n",
        Some(b'r') if line.starts_with("refused: ") => Style::Bad.paint(line) + "\n",
        _ if line.trim_start().starts_with(LOSS) && !line.ends_with(": 0") => Style::Warning.paint(line) + "\n",
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Beginning of the preview's line that counts the names which would lose their last address.
const LOSS: &str = "names that lose their last address: ";
/// Columns that show a state: a word, or a fault up to the end of the line.
const COLUMNS: [&str; 2] = ["STATE", "RESULT"];

/// Colours states: in the columns of tables, and where a line of details has one.
fn color_states(text: &str) -> String {
    let (mut painted, mut column) = (String::new(), None);
    for line in text.lines() {
        if let Some(found) = COLUMNS.iter().find_map(|head| find_column(line, head)) {
            (column, painted) = (Some(found), painted + line + "\n");
            continue;
        }
        let place = column.or_else(|| find_state(line).map(|at| (at, false)));
        // Names may have letters of several octets before the column, but columns are counted in letters.
        let place = place.and_then(|(at, to_end)| Some((line.char_indices().nth(at)?.0, to_end)));
        let Some((at, to_end)) = place else {
            painted = painted + line + "\n";
            continue;
        };
        let (before, rest) = line.split_at(at);
        let end = if to_end { rest.len() } else { rest.find([' ', ',']).unwrap_or(rest.len()) };
        let (state, after) = rest.split_at(end);
        let style = if before.is_empty() || before.ends_with(' ') { style_of(state) } else { Style::Plain };
        painted = painted + before + &style.paint(state) + after + "\n";
    }
    painted
}

/// Returns the position of a table's column if the line is the table's head, and true if the column is the last.
fn find_column(line: &str, head: &str) -> Option<(usize, bool)> {
    let at = line.starts_with("ZONE ").then(|| line.find(head))??;
    Some((at, line.len() == at + head.len()))
}

/// Returns the position of the state in a line of details, if the line has one.
fn find_state(line: &str) -> Option<usize> {
    match line.strip_prefix("  ")?.split_once(' ')? {
        ("state", _) => Some("  state ".len()),
        ("member", rest) => rest.find(": ").map(|at| "  member ".len() + at + ": ".len()),
        _ => None,
    }
}

/// Returns the colour of a state.
pub fn style_of(state: &str) -> Style {
    match state {
        "ok" => Style::Good,
        "stale" | "drained" => Style::Warning,
        "not-ready" | "expired" | "missing" => Style::Bad,
        // What the check of name servers could not do, and what it found.
        _ if state.starts_with("not asked") || state.starts_with("unknown") => Style::Warning,
        _ if state.contains(": ") => Style::Bad,
        _ => Style::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_and_came_is_told_apart() {
        let difference =
            "a\n-b\n+c\n    names that lose their last address: 0\n    names that lose their last address: 2\n";
        let expected = "a\n\x1b[31m-b\x1b[0m\n\x1b[32m+c\x1b[0m\n    names that lose their last address: 0\n\
                        \x1b[33m    names that lose their last address: 2\x1b[0m\n";
        assert_eq!(color_difference(difference), expected);
        assert_eq!(color_difference("refused: x\n"), "\x1b[31mrefused: x\x1b[0m\n");
    }

    #[test]
    fn states_have_colours_in_tables_and_in_details() {
        let table = "aggregator 1\nZONE   STATE      SERIAL\nok.x.  ok         7\nb.x.   not-ready  -\ndrained: ok\n";
        let expected = "aggregator 1\nZONE   STATE      SERIAL\nok.x.  \x1b[32mok\x1b[0m         7\n\
                        b.x.   \x1b[31mnot-ready\x1b[0m  -\ndrained: ok\n";
        assert_eq!(color_states(table), expected);
        let details = "region r.x.\n  state ok, serial 7\n  member a.x.: stale, serial 7\n  7 records\n";
        let expected = "region r.x.\n  state \x1b[32mok\x1b[0m, serial 7\n  member a.x.: \x1b[33mstale\x1b[0m, serial 7\n  \
                        7 records\n";
        assert_eq!(color_states(details), expected);
        let live = "ZONE  SERVER  RESULT\nx.    é.x.    ok\nx.    n.x.    lame: says REFUSED\nx.    m.x.    not asked: no way\n";
        let expected = "ZONE  SERVER  RESULT\nx.    é.x.    \x1b[32mok\x1b[0m\nx.    n.x.    \x1b[31mlame: says REFUSED\x1b[0m\n\
                        x.    m.x.    \x1b[33mnot asked: no way\x1b[0m\n";
        assert_eq!(color_states(live), expected);
    }

    #[test]
    fn a_file_gets_no_colours() {
        // Tests have no terminal.
        assert_eq!(paint("-b\n", Look::Difference, Stream::Output), "-b\n");
    }
}

//! What whoever looks at `top` has chosen by keys: a row, a filter, what is folded, the details of one zone, the help.
//!
//! Invariant: a choice holds over pictures; a row that is chosen stays chosen where it moves to, and the nearest is where
//! it has gone.
//!
//! Cost: O(octets + rows) for what is pressed.

use super::rows::{Kind, Row, Wanted};

/// The keys and what they do, for the help.
pub const HELP: [(&str, &str); 9] = [
    ("↑ ↓  j k", "choose a row"),
    ("PgUp PgDn  Space", "a page up or down"),
    ("Home End  g G", "the first or the last row"),
    ("Enter", "the details of the chosen row; again or Esc: back"),
    ("← →", "fold the members of a region, and unfold them"),
    ("/", "only names with what is written then; Esc: all again"),
    ("p", "only what has problems; again: everything"),
    ("? h", "this help"),
    ("q  Ctrl-C", "end"),
];

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Letter(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Interrupt,
}

/// Reads the keys that were pressed from the octets that a terminal sends for them (ECMA-48, and xterm's cursor keys).
pub fn decode(mut octets: &[u8]) -> Vec<Key> {
    const SEQUENCES: [(&[u8], Key); 18] = [
        (b"\x1b[A", Key::Up),
        (b"\x1bOA", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1bOB", Key::Down),
        (b"\x1b[C", Key::Right),
        (b"\x1bOC", Key::Right),
        (b"\x1b[D", Key::Left),
        (b"\x1bOD", Key::Left),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
        (b"\x1b[H", Key::Home),
        (b"\x1bOH", Key::Home),
        (b"\x1b[1~", Key::Home),
        (b"\x1b[F", Key::End),
        (b"\x1bOF", Key::End),
        (b"\x1b[4~", Key::End),
        (b"\r", Key::Enter),
        (b"\n", Key::Enter),
    ];
    let mut keys = Vec::new();
    while let Some((first, rest)) = octets.split_first() {
        if let Some((sequence, key)) = SEQUENCES.iter().find(|(sequence, _)| octets.starts_with(sequence)) {
            keys.push(*key);
            octets = &octets[sequence.len()..];
            continue;
        }
        octets = rest;
        match first {
            // A key that means nothing here: its sequence goes up to the first letter or tilde.
            0x1b if matches!(rest.first(), Some(b'[' | b'O')) => {
                let end = rest[1..].iter().position(|octet| octet.is_ascii_alphabetic() || *octet == b'~');
                octets = end.map_or(&[][..], |end| &rest[end + 2..]);
            }
            0x1b => keys.push(Key::Escape),
            3 => keys.push(Key::Interrupt),
            8 | 0x7f => keys.push(Key::Backspace),
            b' '..=b'~' => keys.push(Key::Letter(char::from(*first))),
            _ => {}
        }
    }
    keys
}

/// What has been chosen.
#[derive(Default)]
pub struct Choice {
    /// Key of the chosen row, and its place when it was there last.
    selected: (String, usize),
    /// Which rows there are.
    pub wanted: Wanted,
    /// True while the filter is being written.
    pub types: bool,
    /// Name of the zone or region whose details are shown.
    pub detail: Option<String>,
    /// Lines of the details that are skipped.
    pub skipped: usize,
    pub helps: bool,
}

impl Choice {
    /// The place of the chosen row among those that are shown.
    pub fn place(&self, rows: &[Row]) -> usize {
        let (key, place) = &self.selected;
        let found = rows.iter().position(|row| row.key == *key);
        found.unwrap_or(*place).min(rows.len().saturating_sub(1))
    }

    /// Remembers which row is at the chosen place, so that it stays chosen.
    pub fn keep(&mut self, rows: &[Row]) {
        self.select(self.place(rows), rows);
    }

    /// Chooses the row at a place, or the last one.
    fn select(&mut self, place: usize, rows: &[Row]) {
        let place = place.min(rows.len().saturating_sub(1));
        let key = rows.get(place).map(|row| row.key.clone()).unwrap_or_default();
        self.selected = (key, place);
    }

    /// Follows a key; `page` is the number of rows that a page has. Returns false if it ends `top`.
    pub fn press(&mut self, key: Key, rows: &[Row], page: usize) -> bool {
        if key == Key::Interrupt {
            return false;
        }
        if self.types {
            self.write(key);
            return true;
        }
        if self.helps {
            // Whatever is pressed, the help has been read.
            self.helps = false;
            return key != Key::Letter('q');
        }
        if key == Key::Letter('q') || key == Key::Letter('Q') {
            return false;
        }
        if matches!(key, Key::Letter('?' | 'h')) {
            self.helps = true;
            return true;
        }
        let step: isize = match key {
            Key::Down | Key::Letter('j') => 1,
            Key::Up | Key::Letter('k') => -1,
            Key::PageDown | Key::Letter(' ') => page.max(1).cast_signed(),
            Key::PageUp => -page.max(1).cast_signed(),
            Key::Home | Key::Letter('g') => isize::MIN,
            Key::End | Key::Letter('G') => isize::MAX,
            _ => 0,
        };
        if self.detail.is_some() {
            self.skipped = self.skipped.saturating_add_signed(step);
            if matches!(key, Key::Enter | Key::Escape | Key::Backspace | Key::Left) {
                self.detail = None;
            }
            return true;
        }
        if step != 0 {
            self.select(self.place(rows).saturating_add_signed(step), rows);
        }
        let row = rows.get(self.place(rows));
        match (key, row) {
            (Key::Letter('/'), _) => self.types = true,
            (Key::Letter('p'), _) => self.wanted.only_problems = !self.wanted.only_problems,
            (Key::Escape, _) => self.wanted.filter.clear(),
            (Key::Enter, Some(row)) => (self.detail, self.skipped) = (Some(row.name.clone()), 0),
            (Key::Left, Some(row)) if row.kind != Kind::Zone => {
                self.wanted.folded.insert(row.region.clone());
                self.selected.0.clone_from(&row.region);
            }
            (Key::Right, Some(row)) => _ = self.wanted.folded.remove(&row.region),
            _ => {}
        }
        true
    }

    /// Follows a key while the filter is being written.
    fn write(&mut self, key: Key) {
        match key {
            Key::Letter(letter) => self.wanted.filter.push(letter.to_ascii_lowercase()),
            Key::Backspace => _ = self.wanted.filter.pop(),
            Key::Escape => (self.types, self.wanted.filter) = (false, String::new()),
            Key::Enter => self.types = false,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_decoded() {
        for (pressed, wanted) in [
            (&b"q"[..], &[Key::Letter('q')][..]),
            (b"\x03", &[Key::Interrupt]),
            (b"\x1b[B\x1bOAjj", &[Key::Down, Key::Up, Key::Letter('j'), Key::Letter('j')]),
            (b"\x1b[6~\x1b[5~\x1b[H\x1b[4~", &[Key::PageDown, Key::PageUp, Key::Home, Key::End]),
            (b"\x1b", &[Key::Escape]),
            (b"\x1b[1;5Cx\x1b[2~", &[Key::Letter('x')]),
            (b"\x1b[", &[]),
            (b"\r\x7f", &[Key::Enter, Key::Backspace]),
            (b"\xc3\xa4\x00", &[]),
        ] {
            assert_eq!(decode(pressed), wanted, "{pressed:?}");
        }
    }

    /// A region with two members, and a zone.
    fn rows() -> Vec<Row> {
        let row = |kind, region: &str, name: &str| Row::empty(kind, region, name);
        vec![
            row(Kind::Region, "r.x", "r.x"),
            row(Kind::Member, "r.x", "a.x"),
            row(Kind::Member, "r.x", "b.x"),
            row(Kind::Zone, "", "c.x"),
        ]
    }

    #[test]
    fn a_row_stays_chosen_and_its_details_are_shown() {
        let (rows, mut choice) = (rows(), Choice::default());
        assert!(choice.press(Key::Down, &rows, 10) && choice.press(Key::Down, &rows, 10));
        assert_eq!(choice.place(&rows), 2);
        choice.keep(&rows);
        assert_eq!(choice.place(&rows[1..]), 1, "b has moved up");
        assert_eq!(choice.place(&rows[..2]), 1, "b has gone");
        choice.press(Key::End, &rows, 10);
        assert_eq!(choice.place(&rows), 3);
        choice.press(Key::Home, &rows, 10);
        choice.press(Key::Enter, &rows, 10);
        assert_eq!(choice.detail.as_deref(), Some("r.x"));
        choice.press(Key::PageDown, &rows, 10);
        assert_eq!((choice.skipped, choice.place(&rows)), (10, 0), "the details scroll, not the rows");
        choice.press(Key::Escape, &rows, 10);
        assert_eq!(choice.detail, None);
        assert!(!choice.press(Key::Letter('q'), &rows, 10) && !choice.press(Key::Interrupt, &rows, 10));
    }

    #[test]
    fn regions_fold_and_names_are_filtered() {
        let (rows, mut choice) = (rows(), Choice::default());
        choice.press(Key::Down, &rows, 1);
        choice.press(Key::Left, &rows, 1);
        assert!(choice.wanted.folded.contains("r.x") && choice.place(&rows) == 0, "the region is chosen now");
        choice.press(Key::Right, &rows, 1);
        assert!(choice.wanted.folded.is_empty());
        for key in [Key::Letter('/'), Key::Letter('Q'), Key::Letter('b'), Key::Backspace, Key::Enter] {
            assert!(choice.press(key, &rows, 1), "letters are letters of the filter");
        }
        assert_eq!((&*choice.wanted.filter, choice.types), ("q", false));
        choice.press(Key::Escape, &rows, 1);
        assert_eq!(choice.wanted.filter, "");
        choice.press(Key::Letter('p'), &rows, 1);
        choice.press(Key::Letter('?'), &rows, 1);
        assert!(choice.wanted.only_problems && choice.helps);
        choice.press(Key::Letter('x'), &rows, 1);
        assert!(!choice.helps);
        assert_eq!((choice.place(&[]), choice.press(Key::Enter, &[], 1)), (0, true));
    }
}

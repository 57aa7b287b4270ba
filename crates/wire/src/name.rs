//! Domain names in wire form.
//!
//! Two types. [`Name`] is the key of every table: uncompressed, ASCII-lowercase, shared by reference
//! count, compared and hashed as bytes (RFC 4343: two names are equal when their lowercase wire forms
//! are). [`NameBuf`] lives on the stack, keeps the case in which the name arrived, and is what messages
//! are read into.
//!
//! Invariants: at most 255 octets with the root label, labels of 1 to 63 octets, exactly one root label at the
//! end (RFC 1035 section 2.3.4). A label may hold any octet, NUL, dot and 0xff included (RFC 2181 section 11).
//!
//! Cost: O(octets) for everything; cloning a `Name` is one reference count.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The longest name in wire form, root label included (RFC 1035 section 2.3.4).
pub const MAX_NAME_BYTES: usize = 255;
/// The longest label (RFC 1035 section 2.3.4).
pub const MAX_LABEL_BYTES: usize = 63;

/// The most pointers one name may lead through: one for each label that fits into 255 octets, and the root.
const MAX_POINTERS: usize = 128;

/// Octets of a [`NameBuf`]: those of the longest name, up to whole [`STEP`]s.
const ROOM: usize = 256;
/// Octets that are made lowercase at once, with the instructions that every processor has.
const STEP: usize = 16;

/// Error: bytes or text are not a domain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("name is longer than 255 octets")]
    TooLong,
    #[error("label is longer than 63 octets")]
    LabelTooLong,
    #[error("empty label")]
    EmptyLabel,
    #[error("name ends in the middle of a label")]
    Truncated,
    #[error("compression pointer does not point backwards")]
    BadPointer,
    #[error("label of a reserved type")]
    BadLabelType,
    #[error("escape is not \\DDD or a backslash before one character")]
    BadEscape,
}

//--- Name ---

/// A domain name as a key: wire form, uncompressed, lowercase.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Name(Arc<[u8]>);

impl Name {
    /// The root name.
    pub fn root() -> Name {
        Name(Arc::from([0u8].as_slice()))
    }

    /// Reads presentation format (RFC 1035 section 5.1); a missing final dot is added.
    pub fn parse(text: &str) -> Result<Name, NameError> {
        NameBuf::parse(text).map(|buf| buf.to_name())
    }

    /// The wire form, lowercase, root label included.
    pub fn as_wire(&self) -> &[u8] {
        &self.0
    }

    /// Number of labels without the root.
    pub fn label_count(&self) -> usize {
        labels(&self.0).count()
    }

    /// The name without its first label; the root has no parent.
    pub fn parent(&self) -> Option<Name> {
        parent(&self.0).map(|wire| Name(Arc::from(wire)))
    }

    /// Returns true if the name equals `origin` or lies below it, by whole labels.
    pub fn is_within(&self, origin: &Name) -> bool {
        suffix_offset(&self.0, &origin.0).is_some()
    }

    /// The labels in front of an origin, which the name must be within.
    pub fn owner_in(&self, origin: &Name) -> &[u8] {
        debug_assert!(self.is_within(origin));
        &self.0[..self.0.len() - origin.0.len()]
    }

    /// Replaces the trailing labels `from` by `to`. `None` when the name is not within `from`.
    pub fn replace_suffix(&self, from: &Name, to: &Name) -> Option<Result<Name, NameError>> {
        let cut = suffix_offset(&self.0, &from.0)?;
        if cut + to.0.len() > MAX_NAME_BYTES {
            return Some(Err(NameError::TooLong));
        }
        Some(Ok(Name(concat(&self.0[..cut], &to.0))))
    }

    /// Puts one label in front.
    pub fn prepend(&self, label: &[u8]) -> Result<Name, NameError> {
        if label.is_empty() {
            return Err(NameError::EmptyLabel);
        }
        if label.len() > MAX_LABEL_BYTES {
            return Err(NameError::LabelTooLong);
        }
        if label.len() + 1 + self.0.len() > MAX_NAME_BYTES {
            return Err(NameError::TooLong);
        }
        let mut head = [0u8; MAX_LABEL_BYTES + 1];
        head[0] = label.len() as u8;
        head[1..=label.len()].copy_from_slice(label);
        head[1..=label.len()].make_ascii_lowercase();
        Ok(Name(concat(&head[..=label.len()], &self.0)))
    }

    /// A number that is the same in every process (FNV-1a), for spreading work over time; not for tables, whose hasher
    /// must not be foreseeable.
    pub fn stable_hash(&self) -> u32 {
        self.0.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619))
    }

    /// Canonical order of names (RFC 4034 section 6.1): by labels from the right.
    pub fn canonical_cmp(&self, other: &Name) -> Ordering {
        let (ours, theirs) = (label_starts(&self.0), label_starts(&other.0));
        let labels = ours.iter().rev().map(|start| label_at(&self.0, *start));
        labels.cmp(theirs.iter().rev().map(|start| label_at(&other.0, *start)))
    }

    /// Puts labels in front of a name; their sum is known to fit, as that of a node's owner and its zone's origin.
    pub fn join(labels: &[u8], origin: &Name) -> Name {
        Name(concat(labels, &origin.0))
    }
}

/// Puts two parts together whose sum is known to fit.
fn concat(head: &[u8], tail: &[u8]) -> Arc<[u8]> {
    let mut bytes = [0u8; MAX_NAME_BYTES];
    let length = head.len() + tail.len();
    bytes[..head.len()].copy_from_slice(head);
    bytes[head.len()..length].copy_from_slice(tail);
    Arc::from(&bytes[..length])
}

impl Default for Name {
    /// The root.
    fn default() -> Name {
        Name::root()
    }
}

impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_wire(&self.0, f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_wire(&self.0, f)
    }
}

impl serde::Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Name {
    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let description = "A domain name with its dot at the end, in the form of zone files.";
        json_schema!({ "type": "string", "description": description })
    }
}

//--- NameBuf ---

/// A domain name on the stack, in the case in which it was received.
#[derive(Clone, Copy)]
pub struct NameBuf {
    /// Wire form of the name; octets behind its end have no meaning.
    bytes: [u8; ROOM],
    length: u8,
}

impl NameBuf {
    /// The root name.
    pub fn root() -> NameBuf {
        NameBuf { bytes: [0; ROOM], length: 1 }
    }

    /// Copies a valid uncompressed wire form.
    pub fn from_wire(wire: &[u8]) -> Result<NameBuf, NameError> {
        let (name, end) = NameBuf::read_plain(wire, 0)?;
        if end == wire.len() { Ok(name) } else { Err(NameError::Truncated) }
    }

    /// Reads a name from a message, following compression pointers (RFC 1035 section 4.1.4).
    ///
    /// Returns the name and the position after it. Every pointer must point before the place where the name part that
    /// holds it began, so a loop is impossible; and there may be only as many as a name can have labels, since only a
    /// message made to cost time strings more together. So the cost is below 255 octets and 128 pointers.
    pub fn read(message: &[u8], start: usize) -> Result<(NameBuf, usize), NameError> {
        let mut name = NameBuf::root();
        let mut length = 0;
        let mut position = start;
        let mut barrier = start;
        let mut pointers = 0;
        let mut end = None;
        loop {
            let octet = *message.get(position).ok_or(NameError::Truncated)?;
            match octet {
                0 => {
                    name.bytes[length] = 0;
                    name.length = (length + 1) as u8;
                    return Ok((name, end.unwrap_or(position + 1)));
                }
                1..=63 => {
                    let label = position..position + 1 + usize::from(octet);
                    let next = length + label.len();
                    // One octet must remain for the root label.
                    if next >= MAX_NAME_BYTES {
                        return Err(NameError::TooLong);
                    }
                    let label = message.get(label.clone()).ok_or(NameError::Truncated)?;
                    name.bytes[length..next].copy_from_slice(label);
                    length = next;
                    position += label.len();
                }
                0xc0..=0xff => {
                    let low = *message.get(position + 1).ok_or(NameError::Truncated)?;
                    let target = usize::from(octet & 0x3f) << 8 | usize::from(low);
                    pointers += 1;
                    if target >= barrier || pointers > MAX_POINTERS {
                        return Err(NameError::BadPointer);
                    }
                    end.get_or_insert(position + 2);
                    position = target;
                    barrier = target;
                }
                _ => return Err(NameError::BadLabelType),
            }
        }
    }

    /// Reads a name that must not be compressed, as in a question or in stored RDATA.
    pub fn read_plain(bytes: &[u8], start: usize) -> Result<(NameBuf, usize), NameError> {
        let mut name = NameBuf::root();
        let end = name.fill_plain(bytes, start)?;
        Ok((name, end))
    }

    /// Reads a name as [`NameBuf::read_plain`] does, in place; returns the position after the name.
    pub fn fill_plain(&mut self, bytes: &[u8], start: usize) -> Result<usize, NameError> {
        let name = bytes.get(start..).ok_or(NameError::Truncated)?;
        let mut position = 0;
        loop {
            match *name.get(position).ok_or(NameError::Truncated)? {
                0 => break,
                octet @ 1..=63 => position += 1 + usize::from(octet),
                0xc0..=0xff => return Err(NameError::BadPointer),
                _ => return Err(NameError::BadLabelType),
            }
            // One octet must remain for the root label.
            if position >= MAX_NAME_BYTES {
                return Err(NameError::TooLong);
            }
        }
        self.bytes[..=position].copy_from_slice(&name[..=position]);
        self.length = (position + 1) as u8;
        Ok(start + position + 1)
    }

    /// Reads presentation format, keeping the case.
    pub fn parse(text: &str) -> Result<NameBuf, NameError> {
        let mut name = NameBuf::root();
        if text == "." {
            return Ok(name);
        }
        let mut length = 0;
        let mut label = Vec::with_capacity(MAX_LABEL_BYTES);
        let mut bytes = text.bytes().peekable();
        let mut finish = |label: &mut Vec<u8>| -> Result<(), NameError> {
            if label.is_empty() {
                return Err(NameError::EmptyLabel);
            }
            if label.len() > MAX_LABEL_BYTES {
                return Err(NameError::LabelTooLong);
            }
            let next = length + 1 + label.len();
            if next >= MAX_NAME_BYTES {
                return Err(NameError::TooLong);
            }
            name.bytes[length] = label.len() as u8;
            name.bytes[length + 1..next].copy_from_slice(label);
            name.bytes[next] = 0;
            name.length = (next + 1) as u8;
            length = next;
            label.clear();
            Ok(())
        };
        let mut ended = false;
        while let Some(byte) = bytes.next() {
            ended = false;
            match byte {
                b'.' => {
                    finish(&mut label)?;
                    ended = true;
                }
                b'\\' => label.push(unescape(&mut bytes)?),
                other => label.push(other),
            }
        }
        if !ended {
            finish(&mut label)?;
        }
        Ok(name)
    }

    /// The wire form in received case.
    pub fn as_wire(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The same name in lowercase.
    pub fn to_lowercase(&self) -> NameBuf {
        let mut lower = NameBuf::root();
        lower.fill_lowercase(self);
        lower
    }

    /// Becomes another name in lowercase.
    pub fn fill_lowercase(&mut self, other: &NameBuf) {
        self.length = other.length;
        let steps = usize::from(other.length).div_ceil(STEP);
        let (theirs, ours) = (other.bytes.as_chunks::<STEP>().0, self.bytes.as_chunks_mut::<STEP>().0);
        for (ours, theirs) in ours[..steps].iter_mut().zip(&theirs[..steps]) {
            *ours = *theirs;
            // Length octets are below 64 and so never an ASCII capital.
            ours.make_ascii_lowercase();
        }
    }

    /// Becomes lowercase.
    pub fn make_lowercase(&mut self) {
        let steps = usize::from(self.length).div_ceil(STEP);
        self.bytes.as_chunks_mut::<STEP>().0[..steps].iter_mut().for_each(|step| step.make_ascii_lowercase());
    }

    /// The name as a key.
    pub fn to_name(&self) -> Name {
        Name(Arc::from(self.to_lowercase().as_wire()))
    }

    /// Replaces everything from octet `cut` on by `tail`, for example a suffix or a DNAME target.
    pub fn splice(&self, cut: usize, tail: &[u8]) -> Result<NameBuf, NameError> {
        let length = cut + tail.len();
        if length > MAX_NAME_BYTES {
            return Err(NameError::TooLong);
        }
        let mut result = *self;
        result.bytes[cut..length].copy_from_slice(tail);
        result.length = length as u8;
        Ok(result)
    }
}

impl Default for NameBuf {
    fn default() -> NameBuf {
        NameBuf::root()
    }
}

impl PartialEq for NameBuf {
    /// Returns true if both names are spelled alike.
    fn eq(&self, other: &NameBuf) -> bool {
        self.as_wire() == other.as_wire()
    }
}

impl Eq for NameBuf {}

impl fmt::Display for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_wire(self.as_wire(), f)
    }
}

impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_wire(self.as_wire(), f)
    }
}

/// Reads what follows a backslash in presentation format: three digits or any one character.
pub fn unescape(bytes: &mut impl Iterator<Item = u8>) -> Result<u8, NameError> {
    let first = bytes.next().ok_or(NameError::BadEscape)?;
    if !first.is_ascii_digit() {
        return Ok(first);
    }
    let mut value = u32::from(first - b'0');
    for _ in 0..2 {
        let digit = bytes.next().filter(u8::is_ascii_digit).ok_or(NameError::BadEscape)?;
        value = value * 10 + u32::from(digit - b'0');
    }
    u8::try_from(value).map_err(|_| NameError::BadEscape)
}

//--- Functions on wire forms ---

/// The position after a possibly compressed name, without reading it.
pub fn skip(message: &[u8], start: usize) -> Option<usize> {
    let mut position = start;
    loop {
        match *message.get(position)? {
            0 => return Some(position + 1),
            length @ 1..=63 => position += 1 + usize::from(length),
            0xc0..=0xff => return (position + 2 <= message.len()).then_some(position + 2),
            _ => return None,
        }
    }
}

/// The octet at which `suffix` begins in `name`, when it is a suffix by whole labels. Both lowercase.
pub fn suffix_offset(name: &[u8], suffix: &[u8]) -> Option<usize> {
    let cut = name.len().checked_sub(suffix.len())?;
    (&name[cut..] == suffix && is_label_start(name, cut)).then_some(cut)
}

/// Returns true if a label, or the root, begins at an octet of a name.
pub fn is_label_start(name: &[u8], start: usize) -> bool {
    let mut position = 0;
    while position < start {
        position += 1 + usize::from(name[position]);
    }
    position == start
}

/// The wire form without its first label.
pub fn parent(wire: &[u8]) -> Option<&[u8]> {
    match wire[0] {
        0 => None,
        length => Some(&wire[1 + usize::from(length)..]),
    }
}

/// Positions at which the labels begin, first label first, without the root.
pub fn label_starts(wire: &[u8]) -> LabelStarts {
    let mut starts = LabelStarts { offsets: [0; 128], count: 0 };
    let mut position = 0;
    while wire[position] != 0 {
        starts.offsets[starts.count] = position as u8;
        starts.count += 1;
        position += 1 + usize::from(wire[position]);
    }
    starts
}

/// The beginnings of the labels of one name; at most 127 (255 octets, two for the shortest label).
pub struct LabelStarts {
    offsets: [u8; 128],
    count: usize,
}

impl std::ops::Deref for LabelStarts {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.offsets[..self.count]
    }
}

/// The label that begins at an octet.
fn label_at(wire: &[u8], start: u8) -> &[u8] {
    let start = usize::from(start);
    &wire[start + 1..start + 1 + usize::from(wire[start])]
}

/// Iterates over the labels of a name, first label first, without the root.
pub fn labels(wire: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut position = 0;
    std::iter::from_fn(move || {
        let length = usize::from(wire[position]);
        if length == 0 {
            return None;
        }
        let label = &wire[position + 1..position + 1 + length];
        position += 1 + length;
        Some(label)
    })
}

/// Returns true if a name reads `instance._service._tcp…` or `…_udp…` (RFC 6763 section 4.1).
pub fn is_instance_name(wire: &[u8]) -> bool {
    let mut labels = labels(wire);
    let shape = [labels.next(), labels.next(), labels.next()];
    matches!(shape, [Some(_), Some(service), Some(protocol)]
        if service.starts_with(b"_")
            && (protocol.eq_ignore_ascii_case(b"_tcp") || protocol.eq_ignore_ascii_case(b"_udp")))
}

/// Writes presentation format with a final dot; every octet that zone files give a meaning is escaped.
pub fn fmt_wire(wire: &[u8], f: &mut impl fmt::Write) -> fmt::Result {
    if wire[0] == 0 {
        return f.write_char('.');
    }
    for label in labels(wire) {
        for &byte in label {
            match byte {
                b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => {
                    f.write_char('\\')?;
                    f.write_char(char::from(byte))?;
                }
                0x21..=0x7e => f.write_char(char::from(byte))?,
                other => write!(f, "\\{other:03}")?,
            }
        }
        f.write_char('.')?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn suffixes_are_compared_by_whole_labels() {
        let zone = name("us-west-1.cns.example.com");
        assert!(name("web.svc.acme.US-West-1.cns.example.com.").is_within(&zone));
        assert!(zone.is_within(&zone));
        assert!(!name("xus-west-1.cns.example.com").is_within(&zone));
        assert!(!name("cns.example.com").is_within(&zone));
        // The suffix's octets also end this name, but inside a label.
        let tail = name("b.c");
        assert!(!NameBuf::from_wire(b"\x05a\x01b\x01c\x00").unwrap().to_name().is_within(&tail));
    }

    #[test]
    fn only_the_suffix_is_replaced() {
        let (dc, region) = (name("us-west-1.cns.example.com"), name("us-west.cns.example.com"));
        let owner = name("web.us-west-1.cns.example.com.svc.acme.us-west-1.cns.example.com");
        let moved = owner.replace_suffix(&dc, &region).unwrap().unwrap();
        assert_eq!(moved, name("web.us-west-1.cns.example.com.svc.acme.us-west.cns.example.com"));
        assert!(name("www.example.com").replace_suffix(&dc, &region).is_none());
    }

    #[test]
    fn a_name_that_grows_over_255_octets_is_an_error() {
        let label = "a".repeat(61);
        let owner = name(&format!("{label}.{label}.{label}.{label}.x"));
        let longer = name("a-longer-origin");
        assert_eq!(owner.replace_suffix(&name("x"), &longer), Some(Err(NameError::TooLong)));
    }

    #[test]
    fn presentation_format_round_trips_any_octet() {
        let wire = [4, 0, b'.', 0xff, b' ', 2, b'\\', b'a', 0];
        let buf = NameBuf::from_wire(&wire).unwrap();
        let text = buf.to_string();
        assert_eq!(text, "\\000\\.\\255\\032.\\\\a.");
        assert_eq!(NameBuf::parse(&text).unwrap().as_wire(), wire);
    }

    #[test]
    fn bad_text_is_refused() {
        for (text, error) in [
            ("", NameError::EmptyLabel),
            ("a..b", NameError::EmptyLabel),
            (".a", NameError::EmptyLabel),
            ("a\\", NameError::BadEscape),
            ("a\\25", NameError::BadEscape),
            ("a\\256", NameError::BadEscape),
        ] {
            assert_eq!(Name::parse(text), Err(error), "{text}");
        }
        assert_eq!(Name::parse(&"a".repeat(64)), Err(NameError::LabelTooLong));
        assert_eq!(Name::parse(&"a.".repeat(128)), Err(NameError::TooLong));
        assert!(Name::parse(&"a.".repeat(127)).is_ok());
    }

    #[test]
    fn pointers_must_point_backwards() {
        let message = [0xc0, 0x00, 1, b'a', 0xc0, 0x02, 1, b'b', 0xc0, 0x0c, 1, b'c', 0];
        assert_eq!(NameBuf::read(&message, 0).unwrap_err(), NameError::BadPointer);
        assert_eq!(NameBuf::read(&message, 2).unwrap_err(), NameError::BadPointer);
        assert_eq!(NameBuf::read(&message, 6).unwrap_err(), NameError::BadPointer);
        let to_pointer = [1, b'a', 0, 0xc0, 0, 1, b'b', 0xc0, 3];
        assert_eq!(NameBuf::read(&to_pointer, 5).unwrap().0.to_string(), "b.a.");
        let mut chain = vec![0];
        for at in 0..200u16 {
            chain.extend_from_slice(&(0xc000 | (at.saturating_sub(1) * 2 + at.min(1))).to_be_bytes());
        }
        assert!(NameBuf::read(&chain, 1 + 2 * 127).is_ok());
        assert_eq!(NameBuf::read(&chain, 1 + 2 * 128).unwrap_err(), NameError::BadPointer);
        let good = [1, b'c', 0, 1, b'B', 0xc0, 0];
        let (name, end) = NameBuf::read(&good, 3).unwrap();
        assert_eq!((name.as_wire(), end), ([1, b'B', 1, b'c', 0].as_slice(), 7));
        assert_eq!(NameBuf::read_plain(&good, 3).unwrap_err(), NameError::BadPointer);
        assert_eq!(skip(&good, 3), Some(7));
    }

    #[test]
    fn canonical_order_sorts_from_the_right() {
        let mut names: Vec<Name> = [
            "example",
            "a.example",
            "yljkjljk.a.example",
            "Z.a.example",
            "zABC.a.EXAMPLE",
            "z.example",
            "\\001.z.example",
        ]
        .map(name)
        .to_vec();
        let sorted = names.clone();
        names.reverse();
        names.sort_by(Name::canonical_cmp);
        assert_eq!(names, sorted);
    }
}

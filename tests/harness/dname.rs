//! Domain names of the tests: wire form in received case.

use std::fmt;

/// A name in uncompressed wire form with the root label.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dname(pub Vec<u8>);

impl Dname {
    /// The root.
    pub fn root() -> Dname {
        Dname(vec![0])
    }

    /// Reads presentation format; a final dot may be missing.
    pub fn parse(text: &str) -> Dname {
        let mut wire = Vec::new();
        let mut label = Vec::new();
        let bytes = text.as_bytes();
        let mut position = 0;
        let finish = |wire: &mut Vec<u8>, label: &mut Vec<u8>| {
            if !label.is_empty() {
                wire.push(label.len() as u8);
                wire.append(label);
            }
        };
        while position < bytes.len() {
            match bytes[position] {
                b'.' => finish(&mut wire, &mut label),
                b'\\' if bytes[position + 1].is_ascii_digit() => {
                    label.push(text[position + 1..position + 4].parse().expect("octet after a backslash"));
                    position += 3;
                }
                b'\\' => {
                    position += 1;
                    label.push(bytes[position]);
                }
                other => label.push(other),
            }
            position += 1;
        }
        finish(&mut wire, &mut label);
        wire.push(0);
        assert!(wire.len() <= 255, "{text} is too long");
        Dname(wire)
    }

    /// Makes a name from labels, first label first; `None` above 255 octets.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = &'a [u8]>) -> Option<Dname> {
        let mut wire = Vec::new();
        for label in labels {
            assert!((1..64).contains(&label.len()), "label of {} octets", label.len());
            wire.push(label.len() as u8);
            wire.extend_from_slice(label);
        }
        wire.push(0);
        (wire.len() <= 255).then_some(Dname(wire))
    }

    /// The labels, first label first, without the root.
    pub fn labels(&self) -> Vec<&[u8]> {
        let mut labels = Vec::new();
        let mut position = 0;
        while self.0[position] != 0 {
            let length = usize::from(self.0[position]);
            labels.push(&self.0[position + 1..position + 1 + length]);
            position += 1 + length;
        }
        labels
    }

    /// The name with one label in front; `None` above 255 octets.
    pub fn child(&self, label: &[u8]) -> Option<Dname> {
        Dname::from_labels(std::iter::once(label).chain(self.labels()))
    }

    /// The name without its first label.
    pub fn parent(&self) -> Option<Dname> {
        (self.0[0] != 0).then(|| Dname(self.0[usize::from(self.0[0]) + 1..].to_vec()))
    }

    /// Returns the name in lowercase.
    pub fn lower(&self) -> Dname {
        // Octets of length are below 64 and so no capital letters.
        Dname(self.0.to_ascii_lowercase())
    }

    /// Returns true if the name is `other` or lies below it.
    pub fn is_within(&self, other: &Dname) -> bool {
        let (ours, theirs) = (self.lower(), other.lower());
        let (ours, theirs) = (ours.labels(), theirs.labels());
        ours.len() >= theirs.len() && ours[ours.len() - theirs.len()..] == theirs[..]
    }

    /// Replaces the trailing labels `from` by `to`; `None` above 255 octets.
    pub fn with_suffix(&self, from: &Dname, to: &Dname) -> Option<Dname> {
        let labels = self.labels();
        let kept = labels.len() - from.labels().len();
        Dname::from_labels(labels[..kept].iter().copied().chain(to.labels()))
    }

    /// Returns true if the first label is an asterisk alone.
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with(b"\x01*")
    }
}

impl fmt::Display for Dname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0[0] == 0 {
            return f.write_str(".");
        }
        for label in self.labels() {
            for octet in label {
                match octet {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'*' => write!(f, "{}", *octet as char)?,
                    other => write!(f, "\\{other:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Dname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

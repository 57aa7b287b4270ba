//! Records from zone-file text, as people write them into a configuration.
//!
//! The reader accepts names relative to the origin, `@`, comments, parentheses, quoted strings, lines that begin with a
//! space and so belong to the name before, `$ORIGIN` and `$TTL`. It includes no other files. It tells every fault with
//! its place and goes on reading behind it.
//!
//! Parts: `service` SVCB and HTTPS records.
//!
//! Cost: O(text). RFC 1035 section 5, RFC 2308 section 4 (`$TTL`), RFC 9460.

mod service;

use hickory_proto::serialize::txt::parse_ttl;
use wire::name::{Name, NameBuf, NameError};
use wire::rr::{TypeName, Word, is_data_type, parse_rdata};

/// A record and where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRecord {
    /// Owner name as it is spelled.
    pub owner: NameBuf,
    pub rtype: u16,
    /// Seconds.
    pub ttl: u32,
    pub rdata: Vec<u8>,
    /// The place of its first word in the text.
    pub at: usize,
}

/// A fault in a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TextFault {
    /// The place in the text.
    pub at: usize,
    pub message: String,
}

/// Reads all records of a text; those whose TTL is not written have `ttl`.
pub fn read_text(text: &str, origin: &Name, ttl: u32) -> (Vec<TextRecord>, Vec<TextFault>) {
    let origin = NameBuf::from_wire(origin.as_wire()).expect("a name has a valid wire form");
    let mut reader = TextReader { origin, zone: origin, owner: None, ttl };
    let (mut records, mut faults) = (Vec::new(), Vec::new());
    let mut splitter = Splitter { text, position: 0 };
    while let Some(entry) = splitter.next_entry() {
        match entry.and_then(|entry| reader.read(&entry)) {
            Ok(record) => records.extend(record),
            Err(fault) => faults.push(fault),
        }
    }
    (records, faults)
}

//--- Words ---

/// Entry of the file: one line, or several with parentheses.
struct Entry<'t> {
    words: Vec<Word<'t>>,
    /// True if the line begins with a space.
    indented: bool,
}

/// The text as far as it has been split into words.
struct Splitter<'t> {
    text: &'t str,
    position: usize,
}

impl<'t> Splitter<'t> {
    /// The next line that has words; behind a fault the rest of its line is left out.
    fn next_entry(&mut self) -> Option<Result<Entry<'t>, TextFault>> {
        while self.position < self.text.len() {
            let indented = self.text[self.position..].starts_with([' ', '\t']);
            match self.split_line() {
                Ok(words) if words.is_empty() => {}
                Ok(words) => return Some(Ok(Entry { words, indented })),
                Err(fault) => {
                    self.position = self.end_of_line(self.position) + 1;
                    return Some(Err(fault));
                }
            }
        }
        None
    }

    /// End of the line that a place is in.
    fn end_of_line(&self, from: usize) -> usize {
        self.text[from..].find('\n').map_or(self.text.len(), |length| from + length)
    }

    /// Splits a line and those that parentheses add to it.
    fn split_line(&mut self) -> Result<Vec<Word<'t>>, TextFault> {
        let mut words = Vec::new();
        let mut opened = None;
        while let Some(byte) = self.text.as_bytes().get(self.position) {
            let at = self.position;
            self.position += 1;
            match byte {
                b'\n' if opened.is_none() => break,
                b'\n' | b'\r' | b' ' | b'\t' => {}
                b';' => self.position = self.end_of_line(at),
                b'(' if opened.is_none() => opened = Some(at),
                b'(' => return Err(fault(at, "parenthesis within parentheses; close the first one")),
                b')' if opened.take().is_some() => {}
                b')' => return Err(fault(at, "parenthesis that was not opened; remove it")),
                b'"' => {
                    let end = self.end_of_word(at + 1, |byte| matches!(byte, b'"' | b'\n'));
                    if self.text.as_bytes().get(end) != Some(&b'"') {
                        return Err(fault(at, "string without an end; write a quotation mark behind it"));
                    }
                    words.push(Word { raw: &self.text[at + 1..end], quoted: true, at });
                    self.position = end + 1;
                }
                _ => {
                    let ends = |byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' | b'"');
                    let end = self.end_of_word(at, ends);
                    words.push(Word { raw: &self.text[at..end], quoted: false, at });
                    self.position = end;
                }
            }
        }
        match opened {
            Some(at) => Err(fault(at, "parenthesis that is not closed; write the other one")),
            None => Ok(words),
        }
    }

    /// End of a word: the first of some octets that no backslash stands before.
    fn end_of_word(&self, from: usize, ends: impl Fn(u8) -> bool) -> usize {
        let mut escaped = false;
        let end = self.text.as_bytes()[from..].iter().position(|byte| {
            let ended = !escaped && ends(*byte) || *byte == b'\n';
            escaped = !escaped && *byte == b'\\';
            ended
        });
        end.map_or(self.text.len(), |length| from + length)
    }
}

/// A fault at a place.
fn fault(at: usize, message: impl Into<String>) -> TextFault {
    TextFault { at, message: message.into() }
}

//--- Records ---

/// State that earlier lines leave to later ones.
struct TextReader {
    /// Origin, with which relative names end.
    origin: NameBuf,
    /// The zone, which has all records.
    zone: NameBuf,
    owner: Option<NameBuf>,
    ttl: u32,
}

impl TextReader {
    /// Reads one entry; a directive is no record.
    fn read(&mut self, entry: &Entry<'_>) -> Result<Option<TextRecord>, TextFault> {
        let mut words = &entry.words[..];
        let first = words[0];
        if first.raw.starts_with('$') && !entry.indented {
            return self.obey(words).map(|()| None);
        }
        if !entry.indented {
            let owner = self.name(first.raw).map_err(|error| not_a_name(&first, error))?;
            let lower = owner.to_lowercase();
            if wire::name::suffix_offset(lower.as_wire(), self.zone.as_wire()).is_none() {
                let message = format!("{owner} is not within {}; write names without a final dot", self.zone);
                return Err(fault(first.at, message));
            }
            self.owner = Some(owner);
            words = &words[1..];
        }
        let Some(owner) = self.owner else {
            return Err(fault(
                first.at,
                "a line that begins with a space belongs to the name before, and there is none",
            ));
        };
        let mut ttl = self.ttl;
        // TTL and class stand in any order, and both may be left out.
        while let Some((word, rest)) = words.split_first() {
            if word.quoted {
                break;
            } else if word.raw.starts_with(|first: char| first.is_ascii_digit()) {
                ttl = read_ttl(word)?;
            } else if ["CH", "HS", "CS"].iter().any(|class| class.eq_ignore_ascii_case(word.raw)) {
                return Err(fault(word.at, "class of another kind of network; leave it out"));
            } else if !word.raw.eq_ignore_ascii_case("IN") {
                break;
            }
            words = rest;
        }
        let Some((word, data)) = words.split_first() else {
            return Err(fault(first.at, "record without a type; write for example \"A 192.0.2.1\" behind the name"));
        };
        let TypeName(rtype) = word.raw.parse().map_err(|error| fault(word.at, format!("{error}")))?;
        if !is_data_type(rtype) {
            return Err(fault(word.at, format!("{} is no type of records", TypeName(rtype))));
        }
        let at = |index: usize| data.get(index).unwrap_or(word).at;
        let is_generic = data.first().is_some_and(|first| first.raw == "\\#");
        let rdata = if service::TYPES.contains(&rtype) && !is_generic {
            service::parse(data, |raw| self.name(raw)).map_err(|(index, error)| fault(at(index), error))?
        } else {
            let rdata = parse_rdata(rtype, data, |raw| self.name(raw));
            rdata.map_err(|(index, error)| fault(at(index), error.to_string()))?
        };
        Ok(Some(TextRecord { owner, rtype, ttl, rdata, at: first.at }))
    }

    /// Obeys a directive.
    fn obey(&mut self, words: &[Word<'_>]) -> Result<(), TextFault> {
        match words {
            [directive, word] if directive.raw.eq_ignore_ascii_case("$ORIGIN") => {
                self.origin = self.name(word.raw).map_err(|error| not_a_name(word, error))?;
            }
            [directive, word] if directive.raw.eq_ignore_ascii_case("$TTL") => self.ttl = read_ttl(word)?,
            _ => {
                return Err(fault(words[0].at, "directive that is not known here; write $ORIGIN NAME or $TTL SECONDS"));
            }
        }
        Ok(())
    }

    /// Reads a name: absolute with a dot at its end, else relative to the origin, which `@` stands for.
    fn name(&self, raw: &str) -> Result<NameBuf, NameError> {
        if raw == "@" {
            return Ok(self.origin);
        }
        let name = NameBuf::parse(raw)?;
        let backslashes = |text: &str| text.bytes().rev().take_while(|byte| *byte == b'\\').count();
        match raw.strip_suffix('.') {
            Some(before) if backslashes(before) % 2 == 0 => Ok(name),
            _ => name.splice(name.as_wire().len() - 1, self.origin.as_wire()),
        }
    }
}

/// Reads a TTL: seconds, or numbers with the units that name servers know.
fn read_ttl(word: &Word<'_>) -> Result<u32, TextFault> {
    let ttl = parse_ttl(word.raw).ok().filter(|ttl| *ttl <= i32::MAX.unsigned_abs());
    // RFC 2181 section 8: 31 bits.
    ttl.ok_or_else(|| fault(word.at, format!("\"{}\" is no TTL; write seconds", word.raw)))
}

/// A fault of a name.
fn not_a_name(word: &Word<'_>, error: NameError) -> TextFault {
    fault(word.at, format!("\"{}\" is no domain name ({error})", word.raw))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::rr::RdataText;

    fn read(text: &str) -> (Vec<String>, Vec<String>) {
        let (records, faults) = read_text(text, &Name::parse("z.example").unwrap(), 30);
        let shown = |record: TextRecord| {
            let (rtype, rdata) = (TypeName(record.rtype), RdataText(record.rtype, &record.rdata));
            format!("{} {} {rtype} {rdata}", record.owner, record.ttl)
        };
        let faults = faults.into_iter().map(|fault| format!("{}: {fault}", fault.at));
        (records.into_iter().map(shown).collect(), faults.collect())
    }

    #[test]
    fn a_text_is_read_as_name_servers_read_it() {
        let (records, faults) = read(concat!(
            "; a comment\n\n",
            "@ IN A 192.0.2.1\n",
            "  60 A 192.0.2.2 ; the same name\n",
            "Www 1h IN CNAME @\r\n",
            "a\\.b IN 5 PTR c.other.\n",
            "$TTL 2m\n$ORIGIN sub\n",
            "x TXT ( \"one;\" ; within\n  \"tw o\"\"\" three\n) \n",
            "y.z.example. SRV 0 0 443 x\n",
            "$ORIGIN .\nw.z.example TYPE65280 \\# 1 ff",
        ));
        assert_eq!(faults, Vec::<String>::new());
        let expected = [
            "z.example. 30 A 192.0.2.1",
            "z.example. 60 A 192.0.2.2",
            "Www.z.example. 3600 CNAME z.example.",
            "a\\.b.z.example. 5 PTR c.other.",
            "x.sub.z.example. 120 TXT \"one;\" \"tw o\" \"\" \"three\"",
            "y.z.example. 120 SRV 0 0 443 x.sub.z.example.",
            "w.z.example. 120 TYPE65280 \\# 1 ff",
        ];
        assert_eq!(records, expected);
    }

    #[test]
    fn services_are_read_with_their_parameters_in_any_order() {
        let (records, faults) = read(concat!(
            "_dns.ns1 SVCB 1 ns1 port=8853 alpn=dot\n",
            "_dns.ns2 SVCB 2 ns2.other. alpn=\"dot,h2\" key7=\"/q{?dns}\"\n",
            "www HTTPS 0 ns1\n",
            "old SVCB \\# 3 000100\n",
        ));
        assert_eq!(faults, Vec::<String>::new());
        let hexadecimal = |octets: &[u8]| octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
        let generic = |octets: &[u8]| format!("\\# {} {}", octets.len(), hexadecimal(octets));
        let target = b"\x03ns1\x01z\x07example\0";
        let first = [b"\0\x01", &target[..], b"\0\x01\0\x04\x03dot\0\x03\0\x02\x22\x95"].concat();
        let parameters = b"\0\x01\0\x07\x03dot\x02h2\0\x07\0\x08/q{?dns}";
        let second = [b"\0\x02\x03ns2\x05other\0", &parameters[..]].concat();
        let expected = [
            format!("_dns.ns1.z.example. 30 SVCB {}", generic(&first)),
            format!("_dns.ns2.z.example. 30 SVCB {}", generic(&second)),
            format!("www.z.example. 30 HTTPS {}", generic(&[b"\0\0", &target[..]].concat())),
            "old.z.example. 30 SVCB \\# 3 000100".to_owned(),
        ];
        assert_eq!(records, expected);
    }

    #[test]
    fn each_fault_has_its_place_and_reading_goes_on() {
        for (text, expected) in [
            (" A 192.0.2.1", "1: a line that begins with a space belongs to the name before, and there is none"),
            ("a.other. A 192.0.2.1", "0: a.other. is not within z.example.; write names without a final dot"),
            ("a\\999 A 192.0.2.1", "0: \"a\\999\" is no domain name (escape is not"),
            ("a", "0: record without a type; write"),
            ("a 30 IN", "0: record without a type; write"),
            ("a CH TXT x", "2: class of another kind of network"),
            ("a B 1", "2: no record type: B"),
            ("a AXFR 1", "2: AXFR is no type of records"),
            ("a A 1.2.3", "4: \"1.2.3\" is no IPv4 address"),
            ("a A", "2: A ends too early; it lacks IPv4 address"),
            ("a 99999999999 A 192.0.2.1", "2: \"99999999999\" is no TTL; write seconds"),
            ("a 4294967295 A 192.0.2.1", "2: \"4294967295\" is no TTL; write seconds"),
            ("a TXT \"x", "6: string without an end"),
            ("a TXT ( x", "6: parenthesis that is not closed"),
            ("a TXT ((x", "7: parenthesis within parentheses"),
            ("a TXT x)", "7: parenthesis that was not opened"),
            ("a SVCB 1", "7: priority and target are missing"),
            ("a SVCB x ns1", "7: \"x\" is no priority"),
            ("a SVCB 1 a..b", "9: \"a..b\" is no domain name"),
            ("a SVCB 1 ns1 wonder=1", "13: the parameters cannot be read"),
            ("a SVCB 1 ns1 port=1 port=2", "13: the parameters cannot be read"),
            ("a SVCB 0 ns1 port=1", "13: an alias (priority 0) has no parameters"),
            ("a SVCB 1 ns1 \"port\"", "13: \"port\" is no parameter"),
            ("$INCLUDE /etc/passwd", "0: directive that is not known here"),
            ("$TTL x", "5: \"x\" is no TTL"),
            ("$ORIGIN a..b", "8: \"a..b\" is no domain name (empty label)"),
        ] {
            let (records, faults) = read(&format!("{text}\nlast A 192.0.2.9\n"));
            assert!(faults.len() == 1 && faults[0].starts_with(expected), "{text}: {faults:?}");
            let is_closed = !expected.contains("not closed");
            assert_eq!(records.len(), usize::from(is_closed), "{text}: {records:?}");
        }
    }

    #[test]
    fn odd_text_ends() {
        for text in ["", "\n\n", ";", "\"", "(", "\\", "a\\", "$", "é A 192.0.2.1", "a TXT \\"] {
            read(text);
        }
        assert_eq!(read("é A 192.0.2.1").0, ["\\195\\169.z.example. 30 A 192.0.2.1"]);
    }
}

//! Zone text in and out: output of dig, zone files of the golden data, dumps of the daemon.
//!
//! Reads what these sources contain and panics at anything else: directives `$ORIGIN` and `$TTL`, comments,
//! parentheses, `@`, relative names, quoted strings, and the generic RDATA of RFC 3597.

use super::{Dname, Record, rtype};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Reads the answer of an AXFR as dig prints it: without the closing SOA, duplicates left out.
pub fn read_capture(text: &str) -> Vec<Record> {
    let mut records = read_zone(text);
    let closing = records.pop().expect("records");
    assert_eq!(closing, records[0], "a capture ends with the SOA it begins with");
    let mut seen = std::collections::HashSet::new();
    records.retain(|record| seen.insert(record.canonical()));
    records
}

/// Reads zone text.
pub fn read_zone(text: &str) -> Vec<Record> {
    let mut records = Vec::new();
    let mut origin = Dname::root();
    let mut last_owner = Dname::root();
    let mut default_ttl = 0;
    let mut words: Vec<String> = Vec::new();
    let mut depth = 0;
    let mut starts_blank = false;
    for line in text.lines() {
        if depth == 0 {
            words.clear();
            starts_blank = line.starts_with([' ', '\t']);
        }
        split_line(line, &mut words, &mut depth);
        if depth > 0 || words.is_empty() {
            continue;
        }
        match words[0].as_str() {
            "$ORIGIN" => origin = Dname::parse(&words[1]),
            "$TTL" => default_ttl = words[1].parse().expect("TTL"),
            _ => {
                if !starts_blank {
                    last_owner = absolute(&words.remove(0), &origin);
                }
                records.push(read_record(&words, &last_owner, &origin, default_ttl));
            }
        }
    }
    records
}

/// Splits a line into words, keeping escapes and quotation marks; counts open parentheses.
fn split_line(line: &str, words: &mut Vec<String>, depth: &mut i32) {
    let mut word = String::new();
    let mut quoted = false;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                word.push('\\');
                word.extend(characters.next());
            }
            '"' => {
                quoted = !quoted;
                word.push('"');
            }
            other if quoted => word.push(other),
            ';' => break,
            '(' | ')' | ' ' | '\t' => {
                *depth += i32::from(character == '(') - i32::from(character == ')');
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            other => word.push(other),
        }
    }
    assert!(!quoted, "string without end: {line}");
    if !word.is_empty() {
        words.push(word);
    }
}

/// Reads what follows the owner: TTL and class in any order, type, RDATA.
fn read_record(words: &[String], owner: &Dname, origin: &Dname, default_ttl: u32) -> Record {
    let mut ttl = default_ttl;
    let mut index = 0;
    loop {
        let word = words.get(index).unwrap_or_else(|| panic!("no type at {owner}")).as_str();
        if let Ok(number) = word.parse() {
            ttl = number;
        } else if word != "IN" {
            break;
        }
        index += 1;
    }
    let number = read_type(&words[index]);
    Record { owner: owner.clone(), rtype: number, ttl, rdata: read_rdata(number, &words[index + 1..], origin) }
}

/// Number of a type, `TYPE12345` included.
fn read_type(word: &str) -> u16 {
    match rtype::NAMES.iter().find(|(_, name)| *name == word) {
        Some((number, _)) => *number,
        None => word.strip_prefix("TYPE").and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("type {word}?")),
    }
}

/// A name, relative to the origin without a final dot.
fn absolute(word: &str, origin: &Dname) -> Dname {
    let dots_escaped = word.ends_with("\\.");
    if word == "@" {
        origin.clone()
    } else if word.ends_with('.') && !dots_escaped {
        Dname::parse(word)
    } else {
        let relative = Dname::parse(word);
        Dname::from_labels(relative.labels().into_iter().chain(origin.labels())).expect("name fits")
    }
}

/// RDATA of one type from its words.
fn read_rdata(number: u16, words: &[String], origin: &Dname) -> Vec<u8> {
    if words[0] == "\\#" {
        let hex = words[2..].concat();
        let rdata: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect();
        assert_eq!(rdata.len().to_string(), words[1]);
        return rdata;
    }
    let name = |index: usize| absolute(&words[index], origin).0;
    let short = |index: usize| words[index].parse::<u16>().expect("number").to_be_bytes();
    match number {
        rtype::A => words[0].parse::<Ipv4Addr>().expect("address").octets().to_vec(),
        rtype::AAAA => words[0].parse::<Ipv6Addr>().expect("address").octets().to_vec(),
        rtype::NS | rtype::CNAME | rtype::PTR | rtype::DNAME => name(0),
        rtype::MX => [&short(0)[..], &name(1)].concat(),
        rtype::SRV => [&short(0)[..], &short(1), &short(2), &name(3)].concat(),
        rtype::TXT => words.iter().flat_map(|word| read_string(word)).collect(),
        rtype::SOA => {
            let numbers = words[2..7].iter().flat_map(|n| n.parse::<u32>().expect("number").to_be_bytes());
            [name(0), name(1), numbers.collect()].concat()
        }
        other => panic!("no text form of type {other} is read here"),
    }
}

/// A character string, in quotation marks or not.
fn read_string(word: &str) -> Vec<u8> {
    let bare = word.strip_prefix('"').and_then(|w| w.strip_suffix('"')).unwrap_or(word).as_bytes();
    let mut string = vec![0];
    let mut position = 0;
    while position < bare.len() {
        if bare[position] != b'\\' {
            string.push(bare[position]);
        } else if bare[position + 1].is_ascii_digit() {
            let digits = std::str::from_utf8(&bare[position + 1..position + 4]).expect("digits");
            string.push(digits.parse().expect("octet"));
            position += 3;
        } else {
            position += 1;
            string.push(bare[position]);
        }
        position += 1;
    }
    string[0] = u8::try_from(string.len() - 1).expect("string of at most 255 octets");
    string
}

/// Writes zone text, one full record a line.
pub fn write_zone(records: &[Record]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

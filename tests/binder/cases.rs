//! Questions to Binder and its answers, out of the captures, in a form in which answers can be compared.

use super::harness::{Dname, Message, Query, rtype, type_text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// The nodes of a tree with their data.
pub type Nodes = BTreeMap<String, Vec<u8>>;

/// One question with Binder's answer.
#[derive(Clone)]
pub struct Case {
    /// Place of the case, and its own name.
    pub id: String,
    pub request: Vec<u8>,
    pub tcp: bool,
    /// True if the question has an OPT record.
    pub edns: bool,
    /// Name in lowercase, with a final dot; empty where the request is not a single question.
    pub name: String,
    pub rtype: String,
    pub outcome: Outcome,
    /// Records in the answer, where not all are listed.
    pub listed_of: Option<usize>,
}

/// Result of a question.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    Reply(Reply),
    NoReply,
    /// Binder's process ended.
    Exit,
}

/// An answer as far as it is compared: sections are sets of records in text form, owners in lowercase, targets not.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Reply {
    pub rcode: String,
    pub flags: BTreeSet<String>,
    pub answer: BTreeSet<Line>,
    pub authority: BTreeSet<Line>,
    pub additional: BTreeSet<Line>,
    /// True if the answer has an OPT record.
    pub edns: bool,
    /// True if the OPT record has options.
    pub options: bool,
}

/// A record in text form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    pub owner: String,
    pub rtype: String,
    pub rdata: String,
    pub ttl: u32,
}

impl Line {
    /// A record of a zone's apex, whatever it says.
    pub fn of_zone(owner: &str, rtype: &str) -> Line {
        Line { owner: owner.to_string(), rtype: rtype.to_string(), rdata: "*".to_string(), ttl: 0 }
    }

    /// Reads a record in text form: owner, TTL, type, data.
    pub fn parse(text: &str) -> Line {
        let parts: Vec<&str> = text.splitn(4, ' ').collect();
        let [owner, ttl, rtype, rdata] = parts[..] else { panic!("a record: {text}") };
        Line {
            owner: owner.to_string(),
            rtype: rtype.to_string(),
            rdata: rdata.to_string(),
            ttl: ttl.parse().expect("a TTL"),
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.owner, self.ttl, self.rtype, self.rdata)
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome::Reply(reply) = self else {
            return f.write_str(if *self == Outcome::NoReply { "no reply" } else { "the process ends" });
        };
        let flags: Vec<&str> = reply.flags.iter().map(String::as_str).collect();
        let opt = if reply.edns { " OPT" } else { "" };
        write!(f, "{} [{}]{opt}", reply.rcode, flags.join(" "))?;
        let sections = [("answer", &reply.answer), ("authority", &reply.authority), ("additional", &reply.additional)];
        for (name, lines) in sections {
            lines.iter().try_for_each(|line| write!(f, "\n      {name} {line:?}"))?;
        }
        Ok(())
    }
}

/// One step of a sequence.
#[derive(Clone)]
pub enum Step {
    Ask(Case),
    Set {
        path: String,
        data: Vec<u8>,
    },
    Delete {
        path: String,
    },
    /// Gone and there again at once.
    Replace {
        path: String,
        data: Vec<u8>,
    },
    StopZooKeeper,
    StartZooKeeper,
    /// The DNS server's own process.
    StopServer,
    StartServer,
    /// Wait without ZooKeeper for as long as in the capture.
    Wait,
}

//--- Files ---

/// Reads a JSON file of the captures.
pub fn read_json(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/binder").join(name);
    serde_json::from_slice(&std::fs::read(path).expect("a capture")).expect("JSON")
}

/// Reads the nodes of a captured tree, and its domain.
pub fn read_tree(name: &str) -> (String, Nodes) {
    let json = read_json(name);
    if let Some(domain) = json["dnsDomain"].as_str() {
        let nodes = json["nodes"].as_object().expect("nodes").iter();
        let data = |node: &Value| match node.get("raw") {
            Some(raw) => raw.as_str().expect("text").as_bytes().to_vec(),
            None => node["data"].to_string().into_bytes(),
        };
        return (domain.to_string(), nodes.map(|(path, node)| (path.clone(), data(node))).collect());
    }
    let nodes = json["nodes"].as_array().expect("nodes").iter();
    let nodes = nodes.map(|node| (text(node, "path"), text(node, "data").into_bytes()));
    (text(&json, "domain"), nodes.collect())
}

/// Reads captured questions.
pub fn read_cases(name: &str, prefix: &str) -> Vec<Case> {
    read_json(name).as_array().expect("cases").iter().map(|case| read_case(case, prefix)).collect()
}

/// Reads the sequences of changes.
pub fn read_sequences() -> Vec<(String, Vec<Step>)> {
    let json = read_json("binder-changes.json");
    let steps = |name: &str, steps: &Value| {
        let prefix = format!("{name}/");
        steps.as_array().expect("steps").iter().map(|step| read_step(step, &prefix)).collect()
    };
    json.as_object().expect("sequences").iter().map(|(name, value)| (name.clone(), steps(name, value))).collect()
}

/// Reads the recorded questions.
pub fn read_fixture() -> Vec<Case> {
    let json = read_json("queries.json");
    let cases = json["queries"].as_array().expect("queries").iter();
    let case = |query: &Value| {
        let (name, kind) = (text(query, "qname"), text(query, "qtype"));
        let mut question = Query::new(&Dname::parse(&name), type_number(&kind));
        question.recursion_desired = true;
        let expected = &query["expect"];
        let lines = |key: &str| expected[key].as_array().expect("records").iter().map(|line| read_line(line, "data"));
        let mut flags = BTreeSet::from(["qr".to_string(), "rd".to_string()]);
        flags.extend(expected["aa"].as_bool().expect("aa").then(|| "aa".to_string()));
        let reply = Reply {
            rcode: text(expected, "rcode"),
            flags,
            answer: lines("answers").collect(),
            authority: lines("authority").collect(),
            additional: lines("additionals").collect(),
            edns: false,
            options: false,
        };
        Case {
            id: format!("fixture/{}", text(query, "id")),
            request: question.encode(7),
            tcp: false,
            edns: false,
            name: name.to_lowercase(),
            rtype: kind,
            outcome: Outcome::Reply(reply),
            listed_of: None,
        }
    };
    cases.map(case).collect()
}

/// The text at a key.
fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}")).to_string()
}

/// The number of a type by its name.
fn type_number(name: &str) -> u16 {
    let known = rtype::NAMES.iter().find(|(_, text)| *text == name);
    known.unwrap_or_else(|| panic!("type {name}")).0
}

/// Reads one question with its answer.
fn read_case(value: &Value, prefix: &str) -> Case {
    let query = &value["query"];
    let outcome = match value["outcome"].as_str().expect("an outcome") {
        "reply" => Outcome::Reply(read_reply(&value["response"])),
        "no-reply" => Outcome::NoReply,
        "server-exits" => Outcome::Exit,
        other => panic!("outcome {other}"),
    };
    let count = value["response"]["counts"]["answer"].as_u64().map(|count| count as usize);
    let listed = value["response"]["answer"].as_array().map(Vec::len);
    Case {
        id: format!("{prefix}{}", text(value, "id")),
        request: read_hex(query["wire"].as_str().expect("wire")),
        tcp: query["transport"] == "tcp",
        edns: !query["edns"].is_null(),
        name: query["name"].as_str().unwrap_or_default().to_lowercase(),
        rtype: query["type"].as_str().unwrap_or_default().to_string(),
        outcome,
        listed_of: count.filter(|count| listed.is_some_and(|listed| listed < *count)),
    }
}

/// Reads one of Binder's answers.
fn read_reply(value: &Value) -> Reply {
    let lines = |key: &str| {
        let records = value[key].as_array().map(Vec::as_slice).unwrap_or_default();
        records.iter().map(|line| read_line(line, "rdata")).collect()
    };
    let flags = value["flags"].as_array().expect("flags").iter();
    Reply {
        rcode: text(value, "rcode"),
        flags: flags.map(|flag| flag.as_str().expect("a flag").to_string()).collect(),
        answer: lines("answer"),
        authority: lines("authority"),
        additional: lines("additional"),
        edns: !value["edns"].is_null(),
        options: value["edns"]["options"].as_u64().unwrap_or(0) > 0,
    }
}

/// Reads one record.
fn read_line(value: &Value, rdata: &str) -> Line {
    let ttl = value["ttl"].as_u64().expect("a TTL") as u32;
    Line { owner: text(value, "name").to_lowercase(), rtype: text(value, "type"), rdata: text(value, rdata), ttl }
}

/// Reads one step of a sequence.
fn read_step(value: &Value, prefix: &str) -> Step {
    let Some(action) = value["do"].as_str() else { return Step::Ask(read_case(&value["query"], prefix)) };
    let path = || text(value, "path");
    let data = || text(value, "data").into_bytes();
    match action {
        "create" | "set" => Step::Set { path: path(), data: data() },
        "delete" | "delete-recursive" => Step::Delete { path: path() },
        "replace" => Step::Replace { path: path(), data: data() },
        "zookeeper-stop" => Step::StopZooKeeper,
        "zookeeper-start" => Step::StartZooKeeper,
        "binder-stop" => Step::StopServer,
        "binder-start" => Step::StartServer,
        "wait" => Step::Wait,
        other => panic!("step {other}"),
    }
}

/// Reads hexadecimal digits.
fn read_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex")).collect()
}

//--- Our answers ---

/// Octets of an answer over TCP that ends only because its message does.
const FULL_BYTES: usize = 65_000;

/// Our answer to a case. Where one is due that says that a set fits no message, and ours has over TCP as much of it as fits,
/// ours becomes that answer: the table can say no more of it. That the records are of the set, `tests/large_sets.rs` shows.
pub fn our_outcome(case: &Case, answer: Option<&[u8]>, due: &Outcome) -> Outcome {
    let is_due = matches!(due, Outcome::Reply(due) if due.flags.contains("tc"));
    let is_full = case.tcp && answer.is_some_and(|answer| answer.len() > FULL_BYTES);
    match outcome_of(answer) {
        Outcome::Reply(mut reply) if is_due && is_full => {
            assert!(reply.answer.iter().all(|line| line.rtype == case.rtype), "{}", case.id);
            reply.flags.insert("tc".to_owned());
            [&mut reply.answer, &mut reply.additional].into_iter().for_each(|set| set.clear());
            Outcome::Reply(reply)
        }
        outcome => outcome,
    }
}

/// Our answer in the same form; what SOA and NS records of a zone say is left open.
pub fn outcome_of(answer: Option<&[u8]>) -> Outcome {
    let Some(bytes) = answer else { return Outcome::NoReply };
    let message = Message::decode(bytes).unwrap_or_else(|error| panic!("{error}: {bytes:02x?}"));
    let rcode =
        u16::from(message.rcode()) | message.edns.as_ref().map_or(0, |edns| u16::from(edns.extended_rcode) << 4);
    let flags = [(0x8000, "qr"), (0x0400, "aa"), (0x0200, "tc"), (0x0100, "rd"), (0x0080, "ra"), (0x0040, "z")];
    let flags = flags.into_iter().chain([(0x0020, "ad"), (0x0010, "cd")]);
    let lines = |records: &[super::harness::Record]| {
        let line = |record: &super::harness::Record| {
            let owner = record.owner.lower().to_string();
            match record.rtype {
                rtype::SOA | rtype::NS => Line::of_zone(&owner, &type_text(record.rtype)),
                _ => Line { owner, rtype: type_text(record.rtype), rdata: record.rdata_text(), ttl: record.ttl },
            }
        };
        records.iter().map(line).collect()
    };
    Outcome::Reply(Reply {
        rcode: rcode_text(rcode),
        flags: flags.filter(|(bit, _)| message.flags & bit != 0).map(|(_, name)| name.to_string()).collect(),
        answer: lines(&message.answer),
        authority: lines(&message.authority),
        additional: lines(&message.additional),
        edns: message.edns.is_some(),
        options: message.edns.is_some_and(|edns| !edns.options.is_empty()),
    })
}

/// The name of a response code.
fn rcode_text(rcode: u16) -> String {
    let names = [
        (0, "NOERROR"),
        (1, "FORMERR"),
        (2, "SERVFAIL"),
        (3, "NXDOMAIN"),
        (4, "NOTIMP"),
        (5, "REFUSED"),
        (16, "BADVERS"),
    ];
    names.iter().find(|(code, _)| *code == rcode).map_or_else(|| rcode.to_string(), |(_, name)| name.to_string())
}

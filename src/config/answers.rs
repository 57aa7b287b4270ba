//! The section `[answers]`, and what zones and regions say instead: how many records of a large set one answer has, and
//! which (`docs/answers.md`).
//!
//! Invariant: a region has the laws of `[answers]` unless it says otherwise; a zone is answered with whole sets unless it
//! says otherwise itself.
//!
//! Cost: O(zones + exceptions).

use crate::config::drains::parse_pattern;
use crate::config::steering::read_own;
use crate::merge::{AnswersPlan, NamePattern};
use crate::select::{Law, Pick, Treatment};
use settings::fields::{Fields, put};
use settings::read::{Reader, shorten};
use settings::schema::{Key, Kind, Table, key};
use settings::tree::{Node, Value};
use std::collections::HashMap;
use std::num::NonZeroU32;
use wire::name::Name;

/// `[answers]`
pub static ANSWERS: Table<Law> = Table {
    path: "[answers]",
    help: "How much of a large set one answer from a region has, unless the region says otherwise",
    keys: &[&[
        max("100", "records of a set that one answer has"),
        pick(r#""rotate""#, "which they are: others each time, or the same for a client while the set stays"),
    ]],
};

/// `answers` of a zone, a region, or names of it
pub static OWN: Table<Law> = Table {
    path: "answers",
    help: "How much of a large set one answer has",
    keys: &[&[
        max("", "records of a set that one answer has; default: that of [answers] in regions, \"all\" in zones"),
        pick("", "which they are: others each time, or the same for a client while the set stays"),
    ]],
};

/// Exceptions by name
pub static NAMES: Table<()> = Table {
    path: "[[aggregations.\"NAME\".names]]",
    help: "Names of a region that are answered in another way; the first that matches counts",
    keys: &[&[
        key("match", "", "owner names, relative to the region").bound("owner pattern"),
        key("answers", "", "how much of a large set one answer has; default: as the region").bound("table"),
        key("steering", "", "to which members clients are led; default: as the region").bound("table"),
    ]],
};

/// The key `max`.
const fn max(default: &'static str, help: &'static str) -> Key<Law> {
    key("max", default, help)
        .takes(Kind::Own("count, or \"all\"", |r, key, node, law| put(&mut law.max, read_max(r, key, node))))
}

/// The key `pick`.
const fn pick(default: &'static str, help: &'static str) -> Key<Law> {
    key("pick", default, help)
        .takes(Kind::Word(&[("rotate", |law| law.pick = Pick::Rotate), ("client", |law| law.pick = Pick::Client)]))
}

/// The laws of answers, as the file has them.
pub struct Answers {
    /// That of regions which say nothing.
    section: Law,
    pub plans: HashMap<Name, AnswersPlan>,
    /// Position of the first `pick = "client"`.
    by_client: Option<usize>,
}

impl Answers {
    /// Reads `[answers]`; absent keys give defaults.
    pub fn read(reader: &mut Reader<'_>, root: &Fields<'_>) -> Answers {
        let mut section = Law::ALL;
        let fields = ANSWERS.read_section(reader, root, &mut section);
        Answers { section, plans: HashMap::new(), by_client: client_at(section, &fields) }
    }

    /// Takes in a region, whose table may say more.
    pub fn admit_region(&mut self, region: &Name) {
        self.plans.insert(region.clone(), AnswersPlan::new(self.section));
    }

    /// Takes in what the table of a zone or region says.
    pub fn admit(&mut self, reader: &mut Reader<'_>, zone: &Name, fields: &Fields<'_>, place: &str) {
        let base = self.plans.get(zone).map_or(Law::ALL, |plan| plan.usual.law);
        let law = fields.read(reader, "answers", |r, _, node| self.read_law(r, node, base, place));
        if let (Some(Law { max: None, pick: Pick::Client }), Some(entry)) = (law, fields.entry("answers")) {
            let message =
                format!("\"answers\" of {place} gives every client the whole set; write max, or leave pick out");
            reader.warn(entry.node.at, message);
        }
        if let Some(law) = law.filter(|law| *law != base) {
            self.plans.entry(zone.clone()).or_insert_with(|| AnswersPlan::new(law)).usual.law = law;
        }
    }

    /// Takes in the exceptions of a region.
    pub fn admit_names(&mut self, reader: &mut Reader<'_>, region: &Name, fields: &Fields<'_>, place: &str) {
        let Some(base) = self.plans.get(region).map(|plan| plan.usual) else { return };
        let wanted = "tables such as [[aggregations.\"NAME\".names]] with match = \"seeds.svc.*\"";
        let mut one = |r: &mut Reader<'_>, _: &str, node: &Node| self.read_exception(r, node, base, place, region);
        let names = fields.read(reader, "names", |r, key, node| r.list(key, node, wanted, &mut one));
        if let (Some(names), Some(plan)) = (names, self.plans.get_mut(region)) {
            plan.names = names;
        }
    }

    /// Warns of answers by client where every resolver is one client.
    pub fn expect_subnets(&self, reader: &mut Reader<'_>) {
        let is_by_client = |plan: &AnswersPlan| {
            plan.treatments().any(|Treatment { law, .. }| law.pick == Pick::Client && law.max.is_some())
        };
        if let Some(at) = self.by_client.filter(|_| self.plans.values().any(is_by_client)) {
            let message = "all clients of one resolver get the same records, because [server] has no \"client_subnet_from\"; \
                           list the resolvers that send EDNS Client Subnet, or write pick = \"rotate\"";
            reader.warn(at, message.to_owned());
        }
    }

    /// Reads a law over that which holds without it.
    fn read_law(&mut self, reader: &mut Reader<'_>, node: &Node, base: Law, place: &str) -> Option<Law> {
        let mut law = base;
        let fields = OWN.read(reader, node, &format!("\"answers\" of {place}"), &mut law)?;
        self.by_client = self.by_client.or(client_at(law, &fields));
        Some(law)
    }

    /// Reads one exception.
    fn read_exception(
        &mut self,
        reader: &mut Reader<'_>,
        node: &Node,
        base: Treatment,
        place: &str,
        region: &Name,
    ) -> Option<(NamePattern, Treatment)> {
        let place = format!("an entry of \"names\" of {place}");
        let fields = NAMES.read(reader, node, &place, &mut ())?;
        if fields.lacks("match") {
            reader.error(node.at, format!("{place} has no match; write match = \"web.svc.*\""));
        }
        let law = fields.read(reader, "answers", |r, _, node| self.read_law(r, node, base.law, &place));
        let steering = fields.read(reader, "steering", |r, _, node| read_own(r, node, base.steering, &place));
        let pattern = fields.read(reader, "match", |r, key, node| {
            let text = r.text(key, node, "an owner name such as \"web.svc.*\"")?;
            if matches!(text, "" | "." | "@") {
                let message = format!(
                    "\"{key}\" cannot be \"{text}\", which means the region itself; write a name such as \"web.svc.*\""
                );
                return r.refuse(node.at, message);
            }
            parse_pattern(text, Some(region)).map_err(|problem| r.error(node.at, problem)).ok()
        });
        let (law, steering) = (law.unwrap_or(base.law), steering.unwrap_or(base.steering));
        Some((pattern?, Treatment { law, steering }))
    }
}

/// Position at which a table asks for answers by client.
fn client_at(law: Law, fields: &Fields<'_>) -> Option<usize> {
    fields.landed("pick").filter(|_| law.pick == Pick::Client && law.max.is_some()).map(|entry| entry.node.at)
}

/// Reads `max`.
fn read_max(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Option<NonZeroU32>> {
    match &node.value {
        Value::Text(text) if text == "all" => Some(None),
        Value::Integer(_) => {
            let most: u32 = reader.integer(key, node, 1..=u16::MAX.into())?;
            Some(NonZeroU32::new(most))
        }
        Value::Text(text) => {
            let message = format!("\"{key}\" cannot be \"{}\"; write a number of records, or \"all\"", shorten(text));
            reader.refuse(node.at, message)
        }
        _ => reader.wrong_type(key, node, "a number of records, or \"all\""),
    }
}

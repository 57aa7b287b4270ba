//! Answers of the oracle, in the order of Binder's code.

use super::cases::{Line, Outcome, Reply};
use super::oracle::{HOSTS, Implied, Node, Oracle, Switch, Told, Way, ipv4};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::Ipv6Addr;

/// The process ends instead of answering.
struct Crash;

/// Records by type, before they are a message.
#[derive(Clone, Default)]
struct Said {
    rcode: &'static str,
    answer: Vec<Line>,
    additional: Vec<Line>,
    authority: Vec<Line>,
}

impl Said {
    fn code(rcode: &'static str) -> Said {
        Said { rcode, ..Said::default() }
    }
}

const MEMBERS: [&str; 5] = ["load_balancer", "moray_host", "ops_host", "redis_host", "rr_host"];

impl Oracle {
    //--- Answers ---

    /// The answer to a question, whose name has no final dot.
    pub fn ask(&self, name: &str, rtype: &str, way: Way) -> Told {
        let said = self.say(name, rtype);
        match said {
            Err(Crash) => Told { outcome: Outcome::Exit, loose: false },
            Ok(said) => self.pack(name, said, way),
        }
    }

    /// As a message: what fits into it.
    fn pack(&self, name: &str, mut said: Said, way: Way) -> Told {
        if self.on(Switch::SetTtl) {
            for lines in [&mut said.answer, &mut said.additional] {
                let mut least: HashMap<(String, String), u32> = HashMap::new();
                for line in lines.iter() {
                    let ttl = least.entry((line.owner.clone(), line.rtype.clone())).or_insert(line.ttl);
                    *ttl = line.ttl.min(*ttl);
                }
                lines.iter_mut().for_each(|line| line.ttl = least[&(line.owner.clone(), line.rtype.clone())]);
            }
        }
        if said.rcode == "SERVFAIL" {
            said = Said::code("SERVFAIL");
        }
        let most = if self.on(Switch::LargeDatagrams) { 1232 } else { 1470 };
        let limit = match (way.tcp, way.edns) {
            (true, _) if self.on(Switch::TooLarge) => 65_535,
            (true, _) => 65_530,
            (false, Some(payload)) if self.on(Switch::SmallSizes) => usize::from(payload).clamp(512, most),
            (false, Some(payload)) => usize::from(payload).min(most),
            (false, None) => 512,
        };
        let compressed = !self.on(Switch::Compression) || self.refuses;
        let size = |said: &Said| size_of(name, said, compressed) + if way.edns.is_some() { 11 } else { 0 };
        let mut flags = BTreeSet::from(["qr".to_string()]);
        let bare = Said { additional: Vec::new(), ..said.clone() };
        let (mut fits, mut loose) = (size(&said) <= limit, false);
        if !fits && self.on(Switch::LeftOut) && size(&bare) <= limit {
            (fits, loose) = (true, true);
        }
        let question = size(&Said::default()) - if way.edns.is_some() { 11 } else { 0 };
        if !fits && (way.tcp && !self.on(Switch::TooLarge) || limit < question) {
            return Told { outcome: Outcome::Exit, loose: false };
        }
        if !fits {
            flags.insert("tc".to_string());
            said = Said::code(said.rcode);
        }
        flags.extend((!said.authority.is_empty()).then(|| "aa".to_string()));
        let [answer, additional, authority] =
            [said.answer, said.additional, said.authority].map(|lines| lines.into_iter().collect());
        let edns = way.edns.is_some() && fits;
        let rcode = said.rcode.to_string();
        Told {
            outcome: Outcome::Reply(Reply { rcode, flags, answer, authority, additional, edns, options: false }),
            loose,
        }
    }

    fn say(&self, name: &str, rtype: &str) -> Result<Said, Crash> {
        match rtype {
            "A" => Ok(self.only("A", self.addresses_of(name)?)),
            "SRV" => self.services(name),
            "PTR" => self.pointer(name),
            _ if !self.on(Switch::Types) => Ok(Said::code("NOTIMP")),
            _ => self.other(name, rtype),
        }
    }

    /// Of both families those of one.
    fn only(&self, rtype: &str, mut said: Said) -> Said {
        said.answer.retain(|line| line.rtype == rtype);
        said
    }

    /// Types that Binder does not have.
    fn other(&self, name: &str, rtype: &str) -> Result<Said, Crash> {
        let lower = name.to_lowercase();
        let apex = [self.domain.as_str(), "in-addr.arpa", "ip6.arpa"].contains(&lower.as_str());
        let own = |rtype: &str| Said {
            rcode: "NOERROR",
            answer: vec![Line::of_zone(&format!("{lower}."), rtype)],
            ..Said::default()
        };
        match rtype {
            "AXFR" => return Ok(Said::code("REFUSED")),
            "SOA" | "NS" if apex => return Ok(own(rtype)),
            "ANY" if apex => {
                let here = if lower == self.domain { self.addresses_of(name)? } else { Said::default() };
                let here = self.only("A", here);
                return Ok(if here.answer.is_empty() { own("NS") } else { here });
            }
            _ => {}
        }
        let is_reverse = lower.ends_with(".in-addr.arpa") || lower.ends_with(".ip6.arpa");
        if is_reverse {
            let found = self.pointer(name)?;
            let said = |found: Said| if rtype == "ANY" { found } else { Said::code(found.rcode) };
            return Ok(said(found));
        }
        let found = self.addresses_of(name)?;
        match rtype {
            "AAAA" => Ok(self.only("AAAA", found)),
            "ANY" if found.rcode != "REFUSED" => {
                for family in ["A", "AAAA"] {
                    let some = self.only(family, found.clone());
                    if !some.answer.is_empty() {
                        return Ok(some);
                    }
                }
                // The name of a service is one whatever a node of that name holds.
                let services = self.services(name)?;
                Ok(if services.answer.is_empty() { Said::code(found.rcode) } else { services })
            }
            _ => Ok(Said::code(found.rcode)),
        }
    }

    /// The name below the domain in lowercase; none if Binder would not look for it.
    fn lookup_name(&self, name: &str) -> Option<String> {
        let (name, whole) = match self.on(Switch::Case) {
            true => (name.to_lowercase(), name.to_lowercase()),
            false => (name.to_string(), name.to_lowercase()),
        };
        let below = name.ends_with(&format!(".{}", self.domain)) || self.on(Switch::OwnNode) && name == self.domain;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'.' | b'-');
        (below && whole.bytes().all(plain)).then_some(whole)
    }

    /// The node of a name that Binder would look for, if our name for it is one.
    fn find(&self, name: &str) -> Option<&Node> {
        let id = *self.names.get(name)?;
        Some(&self.nodes[id])
    }

    /// Type and inner object of a record that is one.
    fn usable(node: &Node) -> Option<(&Value, &str, &Value)> {
        let record = node.data.as_ref()?;
        let kind = record.get("type")?.as_str()?;
        let inner = record.get(kind).filter(|inner| inner.is_object() || inner.is_array())?;
        Some((record, kind, inner))
    }

    /// Answers for a name that Binder does not know and that exists here.
    fn unknown(&self, name: &str) -> Said {
        let lower = name.to_lowercase();
        let inside = |zone: &str| lower == zone || lower.ends_with(&format!(".{zone}"));
        let apex = [self.domain.as_str(), "in-addr.arpa", "ip6.arpa"].contains(&lower.as_str());
        if !inside(&self.domain) && !inside("in-addr.arpa") && !inside("ip6.arpa") {
            return Said::code("REFUSED");
        }
        let implied = self.implied.get_or_init(|| self.imply());
        let by_records = self.on(Switch::NoSuchType) && (apex || implied.by_records.contains(&lower));
        let known = by_records || self.on(Switch::Dots) && implied.by_dots.contains(&lower);
        Said::code(if known { "NOERROR" } else { "REFUSED" })
    }

    /// Names that are there though no node has them.
    fn imply(&self) -> Implied {
        fn note(names: &mut HashSet<String>, mut name: &str) {
            while names.insert(name.to_string())
                && let Some((_, above)) = name.split_once('.')
            {
                name = above;
            }
        }
        let (mut by_records, mut by_dots) = (HashSet::new(), HashSet::new());
        for node in self.nodes.iter().filter(|node| node.alive && self.has_name(node)) {
            if let Some((srvce, proto)) = self.labels(node).filter(|_| self.is_first(node)) {
                by_records.insert(format!("{srvce}.{proto}.{}", node.domain).to_lowercase());
                by_records.insert(format!("{proto}.{}", node.domain).to_lowercase());
            }
            if node.name.contains('.') {
                note(&mut by_dots, node.domain.split_once('.').map_or("", |(_, above)| above));
            }
        }
        self.reverse_names().for_each(|name| note(&mut by_records, &name));
        Implied { by_records, by_dots }
    }

    /// The names of all PTR records.
    fn reverse_names(&self) -> impl Iterator<Item = String> {
        self.nodes.iter().filter(|node| node.alive && self.has_pointer(node)).filter_map(|node| {
            let address = node.address.as_deref()?;
            match ipv4(address) {
                Some(four) => {
                    let [a, b, c, d] = four.octets();
                    Some(format!("{d}.{c}.{b}.{a}.in-addr.arpa"))
                }
                None => address.parse::<Ipv6Addr>().ok().map(reverse6),
            }
        })
    }

    /// Returns true if a node has a name of its own in DNS.
    fn has_name(&self, node: &Node) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        let labels = node.name.split('.').all(|label| (1..64).contains(&label.len()));
        node.name.bytes().all(plain)
            && labels
            && node
                .parent
                .is_none_or(|parent| self.nodes[parent].parent.is_none() || self.has_name(&self.nodes[parent]))
    }

    /// Returns true if no node before it has the name.
    fn is_first(&self, node: &Node) -> bool {
        self.names.get(&node.domain).is_some_and(|id| std::ptr::eq(&self.nodes[*id], node))
    }

    /// Service and protocol of a service, if one can ask for them.
    fn labels(&self, node: &Node) -> Option<(String, String)> {
        let (_, kind, outer) = Oracle::usable(node)?;
        let inner = self.innermost(outer)?;
        let label = |key: &str| {
            let text = inner.get(key)?.as_str()?;
            let rest = text.strip_prefix('_')?;
            (!rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic()) && !rest.contains(['_', '.']))
                .then(|| text.to_string())
        };
        (kind == "service").then(|| label("srvce").zip(label("proto")))?
    }

    /// The object of a service that counts; none if it is `null`, for which the process ends.
    fn innermost<'v>(&self, outer: &'v Value) -> Option<&'v Value> {
        match outer.get("service") {
            Some(inner @ (Value::Object(_) | Value::Array(_))) => Some(inner),
            Some(Value::Null) if !self.on(Switch::Nonsense) => None,
            _ => Some(outer),
        }
    }

    /// The deepest TTL that objects name, the innermost object last.
    fn ttl(&self, values: &[&Value]) -> Result<Option<f64>, Crash> {
        for value in values.iter().rev().filter_map(|value| value.get("ttl")) {
            match value {
                Value::Null if self.on(Switch::NullTtl) => {}
                Value::Null => return Ok(Some(0.0)),
                Value::Number(number) => {
                    let seconds = number.as_f64().expect("a number");
                    if (0.0..4_294_967_296.0).contains(&seconds) {
                        return Ok(Some(seconds));
                    }
                    if !self.on(Switch::Nonsense) {
                        return Err(Crash);
                    }
                }
                _ if self.on(Switch::Nonsense) => {}
                _ => return Err(Crash),
            }
        }
        Ok(None)
    }

    /// A TTL as it is sent.
    fn sent(&self, ttl: f64) -> u32 {
        match ttl {
            0.0 if !self.on(Switch::ZeroTtl) => 5,
            ttl if ttl >= 2_147_483_648.0 && self.on(Switch::LargeTtl) => 0,
            ttl => ttl as u32,
        }
    }

    /// As it counts beside others: what is too large is 0 to us.
    fn counted(&self, ttl: Option<f64>) -> Option<f64> {
        ttl.map(|ttl| if ttl >= 2_147_483_648.0 && self.on(Switch::LargeTtl) { 0.0 } else { ttl })
    }

    fn service_ttl(&self, record: &Value, outer: &Value) -> Result<f64, Crash> {
        let inner = self.innermost(outer).ok_or(Crash)?;
        let values: Vec<&Value> =
            if std::ptr::eq(inner, outer) { vec![record, outer] } else { vec![record, outer, inner] };
        Ok(self.counted(self.ttl(&values)?).unwrap_or(30.0))
    }

    /// The TTL of a host when it is asked for itself.
    fn host_ttl(&self, node: &Node, kind: &str, record: &Value, inner: &Value) -> Result<f64, Crash> {
        if let Some(ttl) = self.counted(self.ttl(&[record, inner])?) {
            return Ok(ttl);
        }
        // With one TTL for a set it is also the one that it has beside SRV records.
        let above = node
            .parent
            .map(|parent| &self.nodes[parent])
            .filter(|_| self.on(Switch::SetTtl) && MEMBERS.contains(&kind));
        let above = above.filter(|above| self.is_first(above));
        match above.and_then(Oracle::usable) {
            Some((record, "service", outer)) => Ok(self.service_ttl(record, outer)?.min(30.0)),
            _ => Ok(30.0),
        }
    }

    /// The addresses of a name, of both families.
    fn addresses_of(&self, name: &str) -> Result<Said, Crash> {
        let said = self.addresses_below(name)?;
        // The domain has an SOA record in any case.
        let is_own = self.on(Switch::OwnNode) && name.eq_ignore_ascii_case(&self.domain) && self.ready;
        Ok(if is_own && said.rcode == "SERVFAIL" { Said::code("NOERROR") } else { said })
    }

    /// The same, whatever the domain's own node holds.
    fn addresses_below(&self, name: &str) -> Result<Said, Crash> {
        let Some(domain) = self.lookup_name(name) else {
            return Ok(self.unknown_or_late(name));
        };
        if !self.ready {
            return Ok(Said::code("SERVFAIL"));
        }
        let Some(node) = self.find(&domain).filter(|node| !self.on(Switch::NoLabel) || self.has_name(node)) else {
            return Ok(self.unknown(name));
        };
        let Some((record, kind, inner)) = Oracle::usable(node) else {
            return Ok(Said::code(if node.hollow && self.on(Switch::PathParts) { "NOERROR" } else { "SERVFAIL" }));
        };
        let owner = format!("{domain}.");
        match kind {
            "service" => self.members(node, record, inner, None, &owner),
            "database" => {
                let ttl = self.host_ttl(node, kind, record, inner);
                self.host(&owner, inner.get("primary").and_then(Value::as_str).map(host_of), ttl)
            }
            kind if HOSTS.contains(&kind) => {
                let ttl = self.host_ttl(node, kind, record, inner);
                self.host(&owner, inner.get("address").and_then(Value::as_str).map(str::to_string), ttl)
            }
            _ => Ok(Said::code(if self.on(Switch::Unusable) { "SERVFAIL" } else { "NOTIMP" })),
        }
    }

    /// Without a cache names of the domain fail, the others are foreign.
    fn unknown_or_late(&self, name: &str) -> Said {
        let lower = name.to_lowercase();
        if !self.ready && name.ends_with(&format!(".{}", self.domain)) {
            return Said::code("SERVFAIL");
        }
        let ours = [self.domain.as_str(), "in-addr.arpa", "ip6.arpa"];
        let inside = ours.iter().any(|zone| lower == *zone || lower.ends_with(&format!(".{zone}")));
        if !self.ready && inside && self.on(Switch::NoSuchType) {
            return Said::code("SERVFAIL");
        }
        self.unknown(name)
    }

    /// One host's address.
    fn host(&self, owner: &str, address: Option<String>, ttl: Result<f64, Crash>) -> Result<Said, Crash> {
        match address.and_then(|address| self.address_line(owner, &address)) {
            Some(line) => {
                let line = Line { ttl: self.sent(ttl?), ..line };
                Ok(Said { rcode: "NOERROR", answer: vec![line], ..Said::default() })
            }
            None if self.on(Switch::Unusable) => Ok(Said::code("SERVFAIL")),
            None => Err(Crash),
        }
    }

    /// The record of an address, without its TTL; none of what is no address.
    fn address_line(&self, owner: &str, address: &str) -> Option<Line> {
        let (rtype, rdata) = match (ipv4(address), address.parse::<Ipv6Addr>()) {
            (Some(four), _) => ("A", four.to_string()),
            (None, Ok(six)) if self.on(Switch::Ip6) => ("AAAA", six.to_string()),
            _ => return None,
        };
        Some(Line { owner: owner.to_string(), rtype: rtype.to_string(), rdata, ttl: 0 })
    }

    /// Returns the records of a service: addresses, or SRV records with addresses if the lookup name is asked for with
    /// service and protocol.
    fn members(
        &self,
        node: &Node,
        record: &Value,
        outer: &Value,
        lookup: Option<&str>,
        owner: &str,
    ) -> Result<Said, Crash> {
        let service = self.innermost(outer).ok_or(Crash)?;
        let ttl = self.service_ttl(record, outer)?;
        let mut said = Said::code("NOERROR");
        for child in node.children.iter().map(|child| &self.nodes[*child]) {
            let kind = child.data.as_ref().and_then(|data| data["type"].as_str()).unwrap_or_default();
            if !MEMBERS.contains(&kind) || self.on(Switch::OneName) && !self.is_first(child) {
                continue;
            }
            let Some((data, _, inner)) = Oracle::usable(child) else {
                if self.on(Switch::BrokenChild) {
                    continue;
                }
                return Ok(Said::code("SERVFAIL"));
            };
            let address = inner.get("address");
            if address.is_some_and(Value::is_null) {
                continue;
            }
            let ports = match inner.get("ports") {
                None => None,
                Some(Value::Array(ports)) if ports.is_empty() => None,
                Some(Value::Array(ports)) => Some(ports.clone()),
                Some(Value::String(text)) if text.is_empty() => None,
                Some(_) if self.on(Switch::Nonsense) => None,
                Some(Value::Null) => return Err(Crash),
                Some(_) if lookup.is_some() => return Err(Crash),
                Some(_) => None,
            };
            let own = self.counted(self.ttl(&[data, inner])?);
            let beside = own.unwrap_or(ttl);
            let target = format!("{}.{}.", child.name, lookup.unwrap_or_default());
            let at = if lookup.is_some() { target.to_lowercase() } else { owner.to_string() };
            let line = address.and_then(Value::as_str).and_then(|address| self.address_line(&at, address));
            let Some(line) = line else {
                if self.on(Switch::BrokenChild) {
                    continue;
                }
                return Err(Crash);
            };
            if lookup.is_none() {
                said.answer.push(Line { ttl: self.sent(beside.min(ttl)), ..line });
                continue;
            }
            if !self.has_name(child) && self.on(Switch::NoLabel) {
                continue;
            }
            if child.name.split('.').any(|label| label.len() > 63) {
                return Err(Crash);
            }
            let ports = ports.unwrap_or_else(|| vec![service.get("port").cloned().unwrap_or_default()]);
            let before = said.answer.len();
            for port in ports {
                let number = port.as_f64().filter(|port| (0.0..=65_535.0).contains(port) && port.fract() == 0.0);
                let Some(number) = number else {
                    if self.on(Switch::Nonsense) {
                        continue;
                    }
                    return Err(Crash);
                };
                let rdata = format!("0 10 {number} {target}");
                said.answer.push(Line { owner: owner.to_string(), rtype: "SRV".into(), rdata, ttl: self.sent(ttl) });
            }
            if said.answer.len() > before || !self.on(Switch::Nonsense) {
                // With one TTL for a set it is the one that the host has when it is asked for.
                let beside = if self.on(Switch::SetTtl) { self.host_ttl(child, kind, data, inner)? } else { beside };
                said.additional.push(Line { ttl: self.sent(beside), ..line });
            }
        }
        Ok(said)
    }

    /// An SRV question.
    fn services(&self, name: &str) -> Result<Said, Crash> {
        let parts: Vec<&str> = name.splitn(3, '.').collect();
        let is_label = |label: &str| label.strip_prefix('_').is_some_and(|rest| !rest.contains('_'));
        let [srvce, proto, rest] = parts[..] else { return self.no_service(name) };
        if !is_label(srvce) || !is_label(proto) || rest.is_empty() {
            return self.no_service(name);
        }
        let Some(domain) = self.lookup_name(rest) else { return self.no_service(name) };
        if !self.ready {
            return Ok(Said::code("SERVFAIL"));
        }
        let denied = |binder: &'static str| match (self.on(Switch::NoSuchService), self.refuses) {
            (false, _) => Said::code(binder),
            (true, true) => Said::code("NOERROR"),
            // It may be the end of another service's name, or that of a node.
            (true, false) if self.on(Switch::NoSuchType) && self.unknown(name).rcode == "NOERROR" => {
                Said::code("NOERROR")
            }
            (true, false) if self.find(&name.to_lowercase()).is_some_and(|node| self.has_name(node)) => {
                Said::code("NOERROR")
            }
            (true, false) => Said::code("NXDOMAIN"),
        };
        let Some(node) = self.find(&domain).filter(|node| !self.on(Switch::NoLabel) || self.has_name(node)) else {
            // The name of a service is no host.
            let is_part = domain.starts_with('_');
            let there = self.unknown(&domain).rcode == "NOERROR" && !is_part;
            return if there { Ok(denied("NOERROR")) } else { self.no_service(name) };
        };
        if node.parent.is_none() {
            let is_service = |(srvce_here, proto_here): (String, String)| {
                srvce_here.eq_ignore_ascii_case(srvce) && proto_here.eq_ignore_ascii_case(proto)
            };
            if !self.labels(node).is_some_and(is_service) {
                return self.no_service(name);
            }
        }
        let Some((record, kind, inner)) = Oracle::usable(node) else {
            let hollow = node.hollow && self.on(Switch::PathParts);
            return Ok(if hollow { denied("NOERROR") } else { Said::code("SERVFAIL") });
        };
        if kind != "service" {
            let known = kind == "database" || HOSTS.contains(&kind);
            let address = match kind {
                "database" => inner.get("primary").and_then(Value::as_str).map(host_of),
                _ => inner.get("address").and_then(Value::as_str).map(str::to_string),
            };
            let usable = known && address.is_some_and(|address| self.address_line("", &address).is_some());
            if !usable && self.on(Switch::Unusable) {
                return Ok(Said::code("SERVFAIL"));
            }
            let minimum = self.ttl(&[record, inner])?.unwrap_or(30.0);
            let (minimum, ttl) = (minimum as u32, self.sent(minimum));
            let rdata = format!("{0}. hostmaster.{0}. 0 86400 7200 1209600 {minimum}", self.domain);
            let mut said = denied("NOERROR");
            if !self.on(Switch::NoSuchService) {
                said.authority = vec![Line { owner: format!("{domain}."), rtype: "SOA".into(), rdata, ttl }];
            }
            return Ok(said);
        }
        let service = self.innermost(inner).ok_or(Crash)?;
        let is = |key: &str, label: &str| match service.get(key).and_then(Value::as_str) {
            Some(text) if self.on(Switch::Case) => text.eq_ignore_ascii_case(label),
            Some(text) => text == label,
            None => false,
        };
        if !is("srvce", srvce) || !is("proto", proto) {
            return Ok(denied("NXDOMAIN"));
        }
        self.members(node, record, inner, Some(&domain), &format!("{}.", name.to_lowercase()))
    }

    /// An SRV question that Binder refuses; the name may be there nevertheless.
    fn no_service(&self, name: &str) -> Result<Said, Crash> {
        match self.on(Switch::NoSuchType) {
            true => Ok(Said::code(self.addresses_of(name)?.rcode)),
            false => Ok(Said::code("REFUSED")),
        }
    }

    //--- PTR ---

    fn pointer(&self, name: &str) -> Result<Said, Crash> {
        let lower = name.to_lowercase();
        let name_here = if self.on(Switch::Case) { lower.clone() } else { name.to_string() };
        let four = name_here.strip_suffix(".in-addr.arpa").map(|own| {
            let mut labels: Vec<&str> = own.split('.').collect();
            labels.reverse();
            labels.join(".")
        });
        let is_six = |address: &&String| address.parse().is_ok_and(|six| reverse6(six) == lower);
        let address = match four {
            Some(address) => address,
            None if name_here.ends_with(".ip6.arpa") && self.on(Switch::Ip6) => {
                match self.addresses.keys().find(is_six) {
                    _ if !self.ready => return Ok(Said::code("SERVFAIL")),
                    Some(address) => address.clone(),
                    None => return Ok(self.unknown(name)),
                }
            }
            None if self.on(Switch::NoSuchType) => return Ok(Said::code(self.addresses_of(name)?.rcode)),
            None => return Ok(Said::code("REFUSED")),
        };
        if !self.ready {
            return Ok(Said::code("SERVFAIL"));
        }
        let found = match self.on(Switch::SharedAddress) {
            false => self.addresses.get(&address).map(|id| &self.nodes[*id]),
            true => self.best(&address),
        };
        let Some(node) = found.filter(|node| !self.on(Switch::NoLabel) || self.has_pointer(node)) else {
            return Ok(self.unknown(name));
        };
        let Some((record, _, inner)) = Oracle::usable(node) else { return Err(Crash) };
        let ttl = self.sent(self.counted(self.ttl(&[record, inner])?).unwrap_or(30.0));
        let rdata = format!("{}.", node.domain.replace(' ', "\\032"));
        let line = Line { owner: format!("{lower}."), rtype: "PTR".into(), rdata, ttl };
        Ok(Said { rcode: "NOERROR", answer: vec![line], ..Said::default() })
    }

    /// Returns true if a PTR record of ours can name a node.
    fn has_pointer(&self, node: &Node) -> bool {
        self.has_name(node) && (!self.on(Switch::OneName) || self.is_first(node)) && node.address.is_some()
    }

    /// The node that the PTR record of an address names.
    fn best(&self, address: &str) -> Option<&Node> {
        let all = self.nodes.iter().filter(|node| node.alive && node.address.as_deref() == Some(address));
        let rank = |node: &&Node| {
            let above = node.parent.map(|parent| &self.nodes[parent]);
            let member = above.is_some_and(|above| {
                self.is_first(above) && Oracle::usable(above).is_some_and(|(_, kind, _)| kind == "service")
            });
            (!member, format!("{}.", node.domain))
        };
        all.filter(|node| self.has_pointer(node) || !self.on(Switch::NoLabel)).min_by_key(rank)
    }
}

/// The name of an IPv6 address's PTR record.
fn reverse6(address: Ipv6Addr) -> String {
    let digits = format!("{:032x}", address.to_bits());
    digits.chars().rev().map(|digit| format!("{digit}.")).collect::<String>() + "ip6.arpa"
}

/// The host of a URL.
fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split('/').next().unwrap_or_default();
    let rest = rest.rsplit('@').next().unwrap_or_default();
    rest.split(':').next().unwrap_or_default().to_string()
}

/// Octets of a message: every name is compressed but, if need be, those in RDATA.
fn size_of(name: &str, said: &Said, compressed: bool) -> usize {
    let mut message = Size { octets: 12, known: BTreeSet::new(), spelled: HashMap::new() };
    message.add(name, true);
    message.octets += 4;
    for line in said.answer.iter().chain(&said.authority).chain(&said.additional) {
        // Owners stand in the message before: in the question in whatever case, or as a target.
        message.add_owner(&line.owner);
        message.octets += 10;
        let words: Vec<&str> = line.rdata.split(' ').collect();
        match &*line.rtype {
            "A" => message.octets += 4,
            "AAAA" => message.octets += 16,
            "SRV" => {
                message.octets += 6;
                message.add(words[3], compressed);
            }
            "SOA" if words.len() > 2 => {
                message.add(words[0], true);
                message.add(words[1], true);
                message.octets += 20;
            }
            _ => message.add(words[0], compressed),
        }
    }
    message.octets
}

/// A message while it is counted.
struct Size {
    octets: usize,
    /// Names and their ends that can be pointed to.
    known: BTreeSet<String>,
    /// The same by their lowercase form.
    spelled: HashMap<String, String>,
}

impl Size {
    /// Counts a name, and notes where it and its ends can be pointed to.
    fn add(&mut self, name: &str, compressed: bool) {
        let mut rest = name.trim_end_matches('.');
        while !rest.is_empty() {
            if compressed && self.known.contains(rest) {
                self.octets += 2;
                return;
            }
            if self.octets < 0x4000 {
                self.known.insert(rest.to_string());
                self.spelled.entry(rest.to_lowercase()).or_insert_with(|| rest.to_string());
            }
            let (label, above) = rest.split_once('.').unwrap_or((rest, ""));
            self.octets += 1 + label.len();
            rest = above;
        }
        self.octets += 1;
    }

    /// Counts an owner name.
    fn add_owner(&mut self, name: &str) {
        let there = self.spelled.get(&name.trim_end_matches('.').to_lowercase()).cloned();
        self.add(there.as_deref().unwrap_or(name), true);
    }
}

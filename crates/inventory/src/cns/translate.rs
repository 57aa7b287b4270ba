//! A configuration of Triton's CNS as sections of our own configuration file.
//!
//! Invariant: what the text cannot say is in it as a comment: name servers of the reverse zones, which are those of the first zone
//! here.
//!
//! Cost: O(zones × peers).

use super::{Cns, Servers};
use std::fmt::Write;
use std::net::IpAddr;
use wire::name::Name;

impl Cns {
    /// Writes the sections for an inventory of this name.
    pub fn to_toml(&self, inventory: &str) -> String {
        let mut text = format!("[inventories.{}]\n", quoted(inventory));
        let file = quoted(&format!("{inventory}.json"));
        add(&mut text, &format!("file = {file}  # or url; the instances"));
        add(&mut text, &format!("use_login = {}", self.config.use_login));
        add(&mut text, &format!("use_alias = {}", self.config.use_alias));
        add(&mut text, &format!("cmon = {}", self.config.cmon));
        add(&mut text, "reverse = \"auto\"");
        if !self.reverse.peers.is_empty() {
            add(&mut text, &format!("# Name servers of the reverse zones: {}", names(&self.reverse.peers)));
        }
        for (zone, servers) in self.config.forward.iter().zip(&self.forward) {
            let networks: Vec<String> = zone.networks.iter().map(|network| quoted(network)).collect();
            add(&mut text, &format!("\n[zones.{}]", quoted(&bare(&zone.origin))));
            add(&mut text, &format!("inventory = {}", quoted(inventory)));
            add(&mut text, &format!("networks = [{}]", networks.join(", ")));
            self.add_servers(&mut text, servers);
        }
        text
    }

    /// Writes the name servers of a zone, and who may transfer it.
    fn add_servers(&self, text: &mut String, servers: &Servers) {
        let itself = self.my_name.as_ref().filter(|_| !servers.is_hidden);
        let others = servers.peers.iter().filter(|peer| itself != Some(peer));
        let all: Vec<Name> = itself.into_iter().chain(others).cloned().collect();
        if !all.is_empty() {
            add(text, &format!("ns = [{}]", names(&all)));
            add(text, &format!("mname = {}", quoted(&bare(&all[0]))));
        }
        if let Some(hostmaster) = &self.hostmaster {
            add(text, &format!("rname = {}", quoted(&bare(hostmaster))));
        }
        let mut rules: Vec<String> = self.allow_transfer.iter().map(|prefix| quoted(&written(*prefix))).collect();
        if rules.is_empty() {
            // What CNS allows where nothing is said.
            rules.push(quoted("127.0.0.1"));
        }
        rules.extend(servers.peers.iter().map(|peer| format!("{{ host = {} }}", quoted(&bare(peer)))));
        add(text, &format!("allow_transfer = [{}]", rules.join(", ")));
    }
}

/// Adds a line.
fn add(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes all");
}

/// Names of name servers as strings.
fn names(names: &[Name]) -> String {
    names.iter().map(|name| quoted(&bare(name))).collect::<Vec<_>>().join(", ")
}

/// A name without its last dot.
fn bare(name: &Name) -> String {
    let text = name.to_string();
    text.strip_suffix('.').unwrap_or(&text).to_string()
}

/// A prefix, or an address where that is all of it.
fn written((address, length): (IpAddr, u8)) -> String {
    match (address, length) {
        (IpAddr::V4(_), 32) | (IpAddr::V6(_), 128) => address.to_string(),
        _ => format!("{address}/{length}"),
    }
}

/// A text as a TOML string.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() => quoted.extend(format!("\\u{:04x}", u32::from(character)).chars()),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn zones_of_cns_become_sections() {
        let cns = super::super::read(
            Path::new("config.json"),
            r#"{"my_name": "cns.dc1.example.com", "hostmaster": "hostmaster@example.com",
            "forward_zones": {
                "z.example.com": {"networks": ["*"], "peers": ["ns1.example.com", "ns2.example.com"], "hidden_primary": true},
                "a.example.com": {"networks": ["e0000000-0000-4000-8000-000000000001"]}},
            "reverse_zones": {"peers": ["ns1.example.com"]}, "allow_transfer": ["10.0.0.0/8", "2001:db8::1"]}"#,
        );
        let wanted = "\
[inventories.\"dc1\"]
file = \"dc1.json\"  # or url; the instances
use_login = false
use_alias = true
cmon = true
reverse = \"auto\"
# Name servers of the reverse zones: \"ns1.example.com\"

[zones.\"z.example.com\"]
inventory = \"dc1\"
networks = [\"*\"]
ns = [\"ns1.example.com\", \"ns2.example.com\"]
mname = \"ns1.example.com\"
rname = \"hostmaster.example.com\"
allow_transfer = [\"10.0.0.0/8\", \"2001:db8::1\", { host = \"ns1.example.com\" }, { host = \"ns2.example.com\" }]

[zones.\"a.example.com\"]
inventory = \"dc1\"
networks = [\"e0000000-0000-4000-8000-000000000001\"]
ns = [\"cns.dc1.example.com\"]
mname = \"cns.dc1.example.com\"
rname = \"hostmaster.example.com\"
allow_transfer = [\"10.0.0.0/8\", \"2001:db8::1\"]
";
        assert_eq!(cns.unwrap().to_toml("dc1"), wanted);
    }
}

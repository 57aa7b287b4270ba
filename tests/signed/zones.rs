//! Zones for the tests of DNSSEC: generated, and signed by BIND's `dnssec-signzone`.

use crate::harness::{Dname, Random, ZoneText};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// How a zone denies names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    Nsec,
    Nsec3,
    /// NSEC3 without records for unsigned delegations.
    OptOut,
}

/// A zone above others, signed, with secure delegations to them.
pub fn above(origin: &Dname, home: &Path, below: &[(Dname, &Path)]) -> ZoneText {
    let mut text = String::from("$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 60\n@ NS ns1\nns1 A 127.0.0.1\n");
    for (zone, home) in below {
        writeln!(text, "{zone} NS ns1.{zone}\nns1.{zone} A 127.0.0.1").expect("string");
        let digests = std::fs::read_to_string(home.join(format!("dsset-{zone}"))).expect("DS records");
        text.push_str(&digests);
    }
    Plan { origin: origin.clone(), denial: Denial::Nsec, text, names: Vec::new() }.sign(home)
}

/// The key that signed a zone in a folder, as a record.
pub fn key(home: &Path) -> String {
    let mut files = std::fs::read_dir(home).expect("the folder").map(|file| file.expect("a file").path());
    let key = files.find(|file| file.extension().is_some_and(|extension| extension == "key")).expect("a key");
    std::fs::read_to_string(key).expect("the key")
}

/// A zone in the making, and the names that are worth a question.
pub struct Plan {
    pub origin: Dname,
    pub denial: Denial,
    pub text: String,
    pub names: Vec<Dname>,
}

impl Plan {
    /// Generates a zone.
    pub fn generate(seed: u64, number: usize) -> Plan {
        let denial = [Denial::Nsec, Denial::Nsec3, Denial::OptOut][number % 3];
        let mut random = Random::new(seed, number as u64);
        let origin = Dname::parse(&format!("z{number}.test."));
        let mut plan = Plan {
            origin: origin.clone(),
            denial,
            text: "$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 60\n@ NS ns1\n@ NS ns.elsewhere.\nns1 A 192.0.2.1\n"
                .into(),
            names: vec![origin],
        };
        plan.note("ns1");
        let names = random.between(2, 12);
        for index in 0..names {
            let depth = random.between(1, 3);
            let labels = (0..depth).map(|_| random.pick(&["a", "b", "cc", "m", "x-1", "zz"]).to_string());
            let name = format!("{}{index}", labels.collect::<Vec<_>>().join("."));
            plan.add(&name, &mut random);
        }
        plan
    }

    /// Adds a name with records of some kind.
    fn add(&mut self, name: &str, random: &mut Random) {
        let mut line = |text: String| writeln!(self.text, "{text}").expect("string");
        match random.below(12) {
            0 => {
                line(format!("*.{name} {} A 192.0.2.{}", 60 + random.below(3), random.below(250)));
                line(format!("*.{name} TXT \"wild\""));
            }
            1 => line(format!("*.{name} CNAME ns1")),
            2 => line(format!("{name} CNAME {}", random.pick(&["ns1", "gone", "a.b.gone", "www.elsewhere."]))),
            3 => line(format!("{name} CNAME {name}.a.b0")),
            4 => line(format!("{name} DNAME {}", random.pick(&["ns1", "elsewhere."]))),
            // Delegations: unsigned with glue, signed, unsigned below an empty non-terminal.
            5 => {
                line(format!("{name} NS ns.{name}\n{name} NS ns1\nns.{name} A 192.0.2.9"));
            }
            6 => {
                let digest = "2BB183AF5F22588179A53B0A98631FAD1A292118DBF2B0D0A2B1A4E3D8A5C7E1";
                line(format!("{name} NS ns.elsewhere.\n{name} DS 12345 13 2 {digest}"));
            }
            7 => line(format!("deep.{name} NS ns.elsewhere.")),
            8 => line(format!("{name} MX 10 ns1\n{name} MX 20 mail.{name}\nmail.{name} AAAA 2001:db8::1")),
            9 => line(format!("_s._tcp.{name} SRV 0 0 80 ns1\n_s._tcp.{name} SRV 1 0 80 gone")),
            _ => {
                for host in 0..random.between(1, 3) {
                    line(format!("{name} {} A 198.51.100.{host}", 90));
                }
                line(format!("{name} TXT \"{name}\""));
            }
        }
        for prefix in ["", "deep.", "*.", "new.", "a.b.new.", "_s._tcp.", "mail.", "ns."] {
            self.note(&format!("{prefix}{name}"));
        }
        // Next to it in canonical order, and above it.
        self.note(&format!("{name}0"));
        self.note(&format!("{}-", &name[..name.len() - 1]));
        let mut rest = name;
        while let Some((_, above)) = rest.split_once('.') {
            self.note(above);
            self.note(&format!("*.{above}"));
            self.note(&format!("q.{above}"));
            rest = above;
        }
    }

    fn note(&mut self, name: &str) {
        self.names.push(Dname::parse(&format!("{name}.{}", self.origin)));
    }

    /// Signs the zone in a folder; returns its text.
    pub fn sign(&self, home: &Path) -> ZoneText {
        let file = home.join("zone");
        std::fs::write(&file, &self.text).expect("the zone is written");
        let origin = self.origin.to_string();
        let origin = origin.trim_end_matches('.');
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).current_dir(home).output();
            let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} {arguments:?}: {errors}\n{}", self.text);
        };
        // A key for itself serves for both: one signature a set.
        run("dnssec-keygen", &["-q", "-a", "ECDSAP256SHA256", "-f", "KSK", origin]);
        let mut arguments = vec!["-S", "-z", "-P", "-o", origin, "-O", "full", "-f", "signed"];
        if self.denial != Denial::Nsec {
            arguments.extend(["-3", "aabbcc", "-H", "2"]);
        }
        if self.denial == Denial::OptOut {
            arguments.push("-A");
        }
        arguments.push("zone");
        run("dnssec-signzone", &arguments);
        let text = std::fs::read_to_string(home.join("signed")).expect("the signed zone");
        (self.origin.clone(), text)
    }
}

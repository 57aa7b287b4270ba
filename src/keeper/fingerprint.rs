//! Fingerprint of a region's plan, to compare with what an earlier run of the program has kept on disk.
//!
//! Where it is the same, the same versions of the members make the same contents, so that the serial under which they
//! were served may come again. It is the checksum of a text that is written here word by word, so that no change to the
//! types of a plan, nor to how they are shown, alters it: an upgrade must raise no serial.
//!
//! Encodings: 0, the only one. It looks as the plan's types were shown when it began. A field that is added to a plan
//! is written only where it is not its default, as `damping` is; whatever cannot be had in that way is encoding 1,
//! written beside this one, and states on disk are compared by both. The checksums in the tests were taken when
//! encoding 0 began and are never changed.
//!
//! Cost: O(plan).

use crate::merge::{
    AddressPlan, AddressRules, DampingPlan, NsPolicy, OnExpire, OwnerPattern, RegionPlan, Scope, SoaPlan,
};
use crate::rewrite::RdataNames;
use std::fmt::{Display, Write as _};
use std::time::Duration;

/// The fingerprint of no plan: the members may hold other contents under the serials that made up the region.
pub const NO_PLAN: u32 = 0;

/// The fingerprint of a plan, of what is not taken of its members, and of the version of the rules by which members
/// merge.
pub fn fingerprint(merge_version: u32, plan: &RegionPlan, scopes: &[Scope]) -> u32 {
    crc32fast::hash(encode(merge_version, plan, scopes).as_bytes()).max(1)
}

/// Encoding 0.
fn encode(merge_version: u32, plan: &RegionPlan, scopes: &[Scope]) -> String {
    // Every field is named, so that one that is added asks to be thought of. What the drift makes up for, and how long
    // things last, changes no record; the text has had it always the same.
    let RegionPlan {
        origin,
        members,
        // The names of such members are those of no zone.
        is_united: _,
        ns,
        ns_ttl,
        soa,
        mname,
        rname,
        server_name,
        serial_offset: _,
        rdata_names,
        exclude,
        addresses,
        max_set,
        partial_after: _,
        on_expire,
        expire_after: _,
        damping,
    } = plan;
    let ns = match ns {
        NsPolicy::Intersection => "Intersection".to_owned(),
        NsPolicy::Union => "Union".to_owned(),
        NsPolicy::Listed(names) => format!("Listed({})", list(names)),
    };
    let SoaPlan { ttl, refresh, retry, expire, minimum } = soa;
    let [ttl, refresh, retry, expire, minimum] = [ttl, refresh, retry, expire, minimum].map(option);
    let (mname, rname) = (option(mname), option(rname));
    let rdata_names = match rdata_names {
        RdataNames::Keep => "Keep",
        RdataNames::Rewrite => "Rewrite",
    };
    let on_expire = match on_expire {
        OnExpire::Withdraw => "Withdraw",
        OnExpire::Keep => "Keep",
    };
    let exclude =
        exclude.iter().map(|OwnerPattern { name, below }| format!("OwnerPattern {{ name: {name}, below: {below} }}"));
    let mut text = format!(
        "{merge_version} RegionPlan {{ origin: {origin}, members: {}, ns: {ns}, ns_ttl: {ns_ttl}, soa: SoaPlan {{ ttl: {ttl}, \
         refresh: {refresh}, retry: {retry}, expire: {expire}, minimum: {minimum} }}, mname: {mname}, rname: {rname}, \
         server_name: {server_name}, serial_offset: 0, rdata_names: {rdata_names}, exclude: {}, partial_after: 0ns, \
         on_expire: {on_expire}, expire_after: None",
        list(members),
        list(exclude)
    );
    if let Some(DampingPlan { max_removed: (some, of), window, last }) = damping {
        let (window, last) = (seconds(*window), seconds(*last));
        // Writing into a String cannot fail, here and below.
        let _ = write!(
            text,
            ", damping: Some(DampingPlan {{ max_removed: ({some}, {of}), window: {window}, last: {last} }})"
        );
    }
    if let Some(most) = max_set {
        let _ = write!(text, ", max_set: {most}");
    }
    if !addresses.is_empty() {
        let AddressPlan { all, members } = addresses;
        let members = members.iter().map(|(member, rules)| format!("{member}: {}", encode_rules(rules)));
        let _ = write!(text, ", addresses: {}, members: {}", encode_rules(all), list(members));
    }
    text.push_str(" }");
    if scopes.iter().any(|scope| !scope.is_empty()) {
        let scopes = scopes.iter().map(|Scope { whole, patterns }| {
            let patterns = patterns.iter().map(|pattern| format!("NamePattern({})", pattern.as_name()));
            format!("Scope {{ whole: {whole}, patterns: {} }}", list(patterns))
        });
        let _ = write!(text, " {}", list(scopes));
    }
    text
}

/// Rules for addresses.
fn encode_rules(AddressRules { only, exclude }: &AddressRules) -> String {
    format!("{{ only: {}, exclude: {} }}", list(only), list(exclude))
}

/// Items between brackets.
fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(", "))
}

/// Writes an optional value.
fn option(value: &Option<impl Display>) -> String {
    value.as_ref().map_or("None".to_owned(), |value| format!("Some({value})"))
}

/// A time in the largest unit of which there is one, with as many digits behind the point as it needs.
fn seconds(time: Duration) -> String {
    let nanoseconds = time.as_nanos();
    let units = [("s", 9), ("ms", 6), ("µs", 3)];
    let (unit, digits) = units.into_iter().find(|(_, digits)| nanoseconds >= 10u128.pow(*digits)).unwrap_or(("ns", 0));
    let one = 10u128.pow(digits);
    let fraction = format!("{:0width$}", nanoseconds % one, width = digits as usize);
    let fraction = if digits == 0 { "" } else { fraction.trim_end_matches('0') };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction}{unit}", nanoseconds / one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::{DrainTarget, NamePattern};
    use wire::name::Name;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    /// A plan as the shortest configuration makes it.
    fn plain() -> RegionPlan {
        RegionPlan {
            is_united: false,
            origin: name("us-west.cns.example.com"),
            members: vec![name("us-west-1.cns.example.com"), name("us-west-2.cns.example.com")],
            ns: NsPolicy::Intersection,
            ns_ttl: 3600,
            soa: SoaPlan::default(),
            mname: None,
            rname: None,
            server_name: name("ns1.example.com"),
            serial_offset: 7,
            rdata_names: RdataNames::Keep,
            exclude: Vec::new(),
            addresses: AddressPlan::default(),
            max_set: None,
            partial_after: Duration::from_secs(60),
            on_expire: OnExpire::Withdraw,
            expire_after: Some(Duration::from_secs(9)),
            damping: None,
        }
    }

    /// Returns a plan that sets every optional field.
    fn full() -> RegionPlan {
        RegionPlan {
            ns: NsPolicy::Listed(vec![name("a.ns.example"), name("b\\.c.example")]),
            soa: SoaPlan { ttl: Some(1), refresh: Some(2), retry: Some(3), expire: Some(4), minimum: Some(5) },
            mname: Some(name("m.example")),
            rname: Some(name("host\\.master.example")),
            rdata_names: RdataNames::Rewrite,
            exclude: vec![
                OwnerPattern { name: name("cmon"), below: true },
                OwnerPattern { name: name("x\\255.y"), below: false },
            ],
            on_expire: OnExpire::Keep,
            damping: Some(DampingPlan {
                max_removed: (1, 3),
                window: Duration::from_millis(1500),
                last: Duration::from_secs(600),
            }),
            ..plain()
        }
    }

    fn scope(names: &[Option<&str>]) -> Scope {
        let mut scope = Scope::default();
        for names in names {
            let names = names.map(|names| NamePattern::parse(names).unwrap());
            scope.add(&DrainTarget { member: name("w1.x"), region: None, names });
        }
        scope
    }

    /// Whoever changes one of these numbers raises the serial of every region of such a kind at the upgrade.
    #[test]
    fn encoding_0_is_what_it_was() {
        let union = RegionPlan { ns: NsPolicy::Union, ..plain() };
        let capped = RegionPlan { max_set: Some(100), ..plain() };
        assert_ne!(fingerprint(2, &capped, &[]), fingerprint(2, &plain(), &[]));
        let rules = AddressRules { only: Vec::new(), exclude: vec!["10.0.0.0/8".parse().unwrap()] };
        let turned = AddressRules { only: rules.exclude.clone(), exclude: Vec::new() };
        let of = |all: &AddressRules, members: &[(&str, &AddressRules)]| {
            let members = members.iter().map(|(member, rules)| (name(member), (*rules).clone())).collect();
            let addresses = AddressPlan { all: all.clone(), members };
            fingerprint(2, &RegionPlan { addresses, ..plain() }, &[])
        };
        let none = AddressRules::default();
        let member = "us-west-1.cns.example.com";
        let filtered = [
            of(&none, &[]),
            of(&rules, &[]),
            of(&turned, &[]),
            of(&none, &[(member, &rules)]),
            of(&none, &[("us-west-2.cns.example.com", &rules)]),
            of(&rules, &[(member, &rules)]),
        ];
        assert_eq!(filtered[0], fingerprint(2, &plain(), &[]));
        assert_eq!(std::collections::HashSet::from(filtered).len(), filtered.len(), "each filter is another plan");
        let drained = [scope(&[None]), Scope::default()];
        let patterns = [scope(&[Some("web.svc.*"), Some("*.inst.acme")]), scope(&[Some("a")])];
        for (plan, scopes, expected) in [
            (plain(), &[][..], 0x510e_4b56),
            (plain(), &[Scope::default(), Scope::default()][..], 0x510e_4b56),
            (union, &[][..], 0x1a57_8696),
            (plain(), &drained[..], 0x5399_f345),
            (plain(), &patterns[..], 0x461e_3ef0),
            (full(), &[][..], 0x9a0e_a0bf),
            (full(), &patterns[..], 0xa163_81c0),
        ] {
            assert_eq!(fingerprint(2, &plan, scopes), expected, "{}", encode(2, &plan, scopes));
        }
    }

    #[test]
    fn times_are_written_in_one_way() {
        for (nanoseconds, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (5_000_000, "5ms"),
            (5_250_000, "5.25ms"),
            (1_000, "1µs"),
            (1_500_000_000, "1.5s"),
            (600_000_000_000, "600s"),
            (60_000_000_001, "60.000000001s"),
        ] {
            assert_eq!(seconds(Duration::from_nanos(nanoseconds)), text);
        }
    }
}

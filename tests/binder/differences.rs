//! Table of all differences between our answers and Binder's, with the reasons.
//!
//! Each entry turns Binder's answer into the one that we must give; they are applied in order. What no entry changes
//! must be as Binder says. `docs/binder.md` shows the table to operators, and the test compares.

use super::cases::{Case, Line, Outcome, Reply};
use super::world::World;
use Instead::*;

/// One deliberate difference.
pub struct Difference {
    /// Subject of the entry, and the behaviour of each side.
    pub what: &'static str,
    pub binder: &'static str,
    pub ours: &'static str,
    pub why: &'static str,
    pub rule: Rule,
}

/// Answers that an entry changes, and the change.
pub enum Rule {
    /// Captured answers by the ids of their cases; a star at the end stands for any rest.
    Cases(&'static [(&'static str, Instead)]),
    /// All answers that the function recognises.
    All(fn(&World, &Case, &mut Reply)),
    /// No captured answer; random trees show it.
    Random,
    /// No captured answer; this test shows it, here or in `zookeeper_resets.rs`.
    Shown(&'static str),
}

/// Answer that replaces Binder's.
pub enum Instead {
    /// A response code without records.
    Rcode(&'static str),
    /// No data: the name is there.
    NoData,
    /// The records of another captured answer.
    Like(&'static str),
    /// Records in the answer and beside it; `@` stands for the domain.
    Records(&'static [&'static str], &'static [&'static str]),
    /// Same records with another TTL.
    Ttl(u32),
    NoReply,
}

impl Instead {
    /// Changes an answer.
    pub fn apply(&self, world: &World, case: &Case, outcome: &mut Outcome) {
        let flags = ["qr".to_string()].into_iter().collect();
        let mut reply = match std::mem::replace(outcome, Outcome::NoReply) {
            Outcome::Reply(reply) => reply,
            Outcome::NoReply | Outcome::Exit => Reply { flags, edns: case.edns, ..Reply::default() },
        };
        let clear = |reply: &mut Reply, rcode: &str| {
            reply.rcode = rcode.to_string();
            [&mut reply.answer, &mut reply.authority, &mut reply.additional].into_iter().for_each(|set| set.clear());
            reply.flags.remove("aa");
            reply.edns = case.edns;
        };
        match self {
            NoReply => return,
            Rcode(rcode) => clear(&mut reply, rcode),
            NoData => clear(&mut reply, "NOERROR"),
            Ttl(ttl) => {
                let lines = std::mem::take(&mut reply.answer);
                reply.answer = lines.into_iter().map(|line| Line { ttl: *ttl, ..line }).collect();
            }
            Like(id) => {
                clear(&mut reply, "NOERROR");
                reply.flags.remove("tc");
                let other = world.captured(id);
                reply.answer.extend(other.answer.iter().cloned());
                reply.additional.extend(other.additional.iter().cloned());
            }
            Records(answer, additional) => {
                clear(&mut reply, "NOERROR");
                let read = |text: &&str| match text.split_once(" * ") {
                    Some((owner, rtype)) => Line::of_zone(&world.name(owner), rtype),
                    None => Line::parse(&world.name(text)),
                };
                reply.answer.extend(answer.iter().map(read));
                reply.additional.extend(additional.iter().map(read));
            }
        }
        *outcome = Outcome::Reply(reply);
    }
}

/// The table.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "types other than A, SRV and PTR",
        binder: "NOTIMP, for any name",
        ours: "the records of that type, or no data",
        why: "a resolver that gets NOTIMP for AAAA may stop using the server",
        rule: Rule::Cases(&[
            ("type-AAAA-unknown", Rcode("REFUSED")),
            ("type-TXT-unknown", Rcode("REFUSED")),
            ("type-ANY-unknown", Rcode("REFUSED")),
            ("type-SOA-unknown", Rcode("REFUSED")),
            ("type-NS-unknown", Rcode("REFUSED")),
            ("type-AAAA-out", Rcode("REFUSED")),
            ("type-AXFR-service", Rcode("REFUSED")),
            ("type-ANY-service", Like("a-authcache")),
            ("type-ANY-host", Like("a-h-host")),
            ("type-ANY-apex", Records(&["@ * NS"], &[])),
            ("type-ANY-rev", Like("ptr-172.27.10.62")),
            ("type-SOA-apex", Records(&["@ * SOA"], &[])),
            ("type-NS-apex", Records(&["@ * NS"], &[])),
            ("type-any-srvname", Like("srv-_http._tcp-example")),
            ("type-*", NoData),
            ("edns-notimp-none", NoData),
            ("tcp-authcache-AAAA-edns1232", NoData),
            ("fixture/type-any", Like("fixture/host-a")),
            ("fixture/type-any-srv", Like("fixture/srv-ports")),
            ("fixture/type-soa-apex", Records(&["@ * SOA"], &[])),
            ("fixture/type-*", NoData),
            ("start-without-zookeeper/aaaa", Rcode("SERVFAIL")),
        ]),
    },
    Difference {
        what: "questions of types that a name does not have, and for the zones' own names",
        binder: "REFUSED: SRV without two labels in front, PTR in the domain, A in reverse zones, the domain, parts of reverse names",
        ours: "no data",
        why: "the name exists, and a secondary could not answer otherwise",
        rule: Rule::Cases(&[
            ("srv-plain-example", NoData),
            ("ptr-forward", NoData),
            ("ptr-short", NoData),
            ("ptr-apex", NoData),
            ("a-ptrname", NoData),
            ("a-srvname", NoData),
            ("out-emy-10.joyent.us", NoData),
            ("fixture/srv-no-prefix", NoData),
            ("fixture/apex-a", NoData),
            ("fixture/ptr-short", NoData),
            ("fixture/ptr-not-reverse", NoData),
            ("start-without-zookeeper/srv-plain", Rcode("SERVFAIL")),
        ]),
    },
    Difference {
        what: "records at the domain's own node",
        binder: "REFUSED, like the domain itself; a PTR names it",
        ours: "answered like those of any other node; records that cannot be used are left out",
        why: "the domain is a name like any other, but always has an SOA record",
        rule: Rule::Random,
    },
    Difference {
        what: "names below `ip6.arpa`",
        binder: "REFUSED, though AAAA records do not exist either",
        ours: "a reverse zone like that of IPv4, so SERVFAIL before the tree has been read",
        why: "IPv6 addresses have AAAA and PTR records",
        rule: Rule::Cases(&[
            ("start-without-zookeeper/ptr6", Rcode("SERVFAIL")),
            ("fatal/a-p-v6addr", NoData),
            ("fatal/a-kid-v6", Records(&["kid-v6.@ 60 A 172.27.81.200"], &[])),
            (
                "fatal/srv-kid-v6",
                Records(
                    &[
                        "_http._tcp.kid-v6.@ 60 SRV 0 10 80 good.kid-v6.@",
                        "_http._tcp.kid-v6.@ 60 SRV 0 10 80 k.kid-v6.@",
                    ],
                    &["good.kid-v6.@ 30 A 172.27.81.200", "k.kid-v6.@ 30 AAAA fd00::8"],
                ),
            ),
        ]),
    },
    Difference {
        what: "path components: nodes without data, `{}` or `null`",
        binder: "SERVFAIL",
        ours: "no data",
        why: "they are empty non-terminals, made with the node below",
        rule: Rule::Cases(&[
            ("a-moray", NoData),
            ("a-m-dir.members", NoData),
            ("a-test", NoData),
            ("a-y.z.deep", NoData),
            ("a-z.deep", NoData),
            ("a-deep", NoData),
            ("a-nest", NoData),
            ("a-nulldir", NoData),
            ("a-emptydir", NoData),
            ("a-empty.badkids", NoData),
            ("a-null.badkids", NoData),
            ("a-r-empty", NoData),
            ("a-r-null", NoData),
            ("a-r-object", NoData),
            ("tcp-r-object-A-edns1232", NoData),
            ("srv-_http._tcp-r-object", NoData),
            ("srv-_http._tcp-test", NoData),
            ("data-changes/object-replaces-host", NoData),
            ("null-after-address/null", NoData),
            ("null-after-address/after", NoData),
            ("fixture/empty-nonterminal", NoData),
            ("fixture/bad-null", NoData),
        ]),
    },
    Difference {
        what: "records of a type that is not known, or without a usable address",
        binder: "NOTIMP for A, no data for SRV, or the process ends",
        ours: "SERVFAIL",
        why: "something is registered that cannot be read, as with any other broken record",
        rule: Rule::Cases(&[
            ("a-r-unknown", Rcode("SERVFAIL")),
            ("a-m-zone.members", Rcode("SERVFAIL")),
            ("srv-_http._tcp-r-unknown", Rcode("SERVFAIL")),
            ("fixture/bad-type", Rcode("SERVFAIL")),
            ("fatal/a-p-noaddr", Rcode("SERVFAIL")),
            ("fatal/a-p-nulladdr", Rcode("SERVFAIL")),
            ("fatal/a-p-numaddr", Rcode("SERVFAIL")),
            ("fatal/a-p-emptyaddr", Rcode("SERVFAIL")),
            ("fatal/a-p-nameaddr", Rcode("SERVFAIL")),
            ("fatal/a-p-short", Rcode("SERVFAIL")),
            ("fatal/a-p-range", Rcode("SERVFAIL")),
            ("fatal/a-p-dbname", Rcode("SERVFAIL")),
            ("fatal/a-p-dbnone", Rcode("SERVFAIL")),
            ("fatal/srv-p-noaddr", Rcode("SERVFAIL")),
            ("fatal/srv-p-dbnone", Rcode("SERVFAIL")),
        ]),
    },
    Difference {
        what: "a service with a broken child",
        binder: "SERVFAIL with a random part of the members, or the process ends",
        ours: "the other members",
        why: "one bad registration must not take the service away",
        rule: Rule::Cases(&[
            (
                "a-partial",
                Records(
                    &["partial.@ 60 A 172.27.44.1", "partial.@ 60 A 172.27.44.2", "partial.@ 60 A 172.27.44.3"],
                    &[],
                ),
            ),
            (
                "srv-partial",
                Records(
                    &[
                        "_http._tcp.partial.@ 60 SRV 0 10 80 ok1.partial.@",
                        "_http._tcp.partial.@ 60 SRV 0 10 80 ok2.partial.@",
                        "_http._tcp.partial.@ 60 SRV 0 10 80 ok3.partial.@",
                    ],
                    &[
                        "ok1.partial.@ 30 A 172.27.44.1",
                        "ok2.partial.@ 30 A 172.27.44.2",
                        "ok3.partial.@ 30 A 172.27.44.3",
                    ],
                ),
            ),
            ("fixture/poisoned", NoData),
            ("fatal/a-kid-noaddr", Records(&["kid-noaddr.@ 60 A 172.27.81.200"], &[])),
            (
                "fatal/srv-kid-noaddr",
                Records(
                    &["_http._tcp.kid-noaddr.@ 60 SRV 0 10 80 good.kid-noaddr.@"],
                    &["good.kid-noaddr.@ 30 A 172.27.81.200"],
                ),
            ),
        ]),
    },
    Difference {
        what: "TTLs and ports that make no sense",
        binder: "the process ends",
        ours: "ignored: the next TTL or 30 counts; an invalid port, and `ports` that is not a list, give no SRV record",
        why: "the address is worth more than its TTL",
        rule: Rule::Cases(&[
            ("fatal/a-p-strttl", Records(&["p-strttl.@ 30 A 172.27.80.1"], &[])),
            ("fatal/a-p-negttl", Records(&["p-negttl.@ 30 A 172.27.80.2"], &[])),
            ("fatal/a-p-hugettl", Records(&["p-hugettl.@ 30 A 172.27.80.3"], &[])),
            ("fatal/srv-p-strttl", NoData),
            ("fatal/srv-p-negttl", NoData),
            ("fatal/a-p-nullsvc", NoData),
            ("fatal/srv-p-nullsvc", NoData),
            (
                "fatal/srv-kid-strport",
                Records(
                    &["_http._tcp.kid-strport.@ 60 SRV 0 10 80 good.kid-strport.@"],
                    &["good.kid-strport.@ 30 A 172.27.81.200"],
                ),
            ),
            (
                "fatal/srv-kid-numports",
                Records(
                    &[
                        "_http._tcp.kid-numports.@ 60 SRV 0 10 80 good.kid-numports.@",
                        "_http._tcp.kid-numports.@ 60 SRV 0 10 80 k.kid-numports.@",
                    ],
                    &["good.kid-numports.@ 30 A 172.27.81.200", "k.kid-numports.@ 30 A 172.27.81.2"],
                ),
            ),
            (
                "fatal/a-kid-nullports",
                Records(&["kid-nullports.@ 60 A 172.27.81.200", "kid-nullports.@ 60 A 172.27.81.3"], &[]),
            ),
            (
                "fatal/srv-kid-nullports",
                Records(
                    &[
                        "_http._tcp.kid-nullports.@ 60 SRV 0 10 80 good.kid-nullports.@",
                        "_http._tcp.kid-nullports.@ 60 SRV 0 10 80 k.kid-nullports.@",
                    ],
                    &["good.kid-nullports.@ 30 A 172.27.81.200", "k.kid-nullports.@ 30 A 172.27.81.3"],
                ),
            ),
            (
                "fatal/srv-kid-bigport",
                Records(
                    &["_http._tcp.kid-bigport.@ 60 SRV 0 10 80 good.kid-bigport.@"],
                    &["good.kid-bigport.@ 30 A 172.27.81.200"],
                ),
            ),
            (
                "fatal/srv-kid-negport",
                Records(
                    &["_http._tcp.kid-negport.@ 60 SRV 0 10 80 good.kid-negport.@"],
                    &["good.kid-negport.@ 30 A 172.27.81.200"],
                ),
            ),
            ("fatal/a-kid-strttl", Records(&["kid-strttl.@ 60 A 172.27.81.200", "kid-strttl.@ 60 A 172.27.81.6"], &[])),
            (
                "fatal/srv-kid-strttl",
                Records(
                    &[
                        "_http._tcp.kid-strttl.@ 60 SRV 0 10 80 good.kid-strttl.@",
                        "_http._tcp.kid-strttl.@ 60 SRV 0 10 80 k.kid-strttl.@",
                    ],
                    &["good.kid-strttl.@ 30 A 172.27.81.200", "k.kid-strttl.@ 30 A 172.27.81.6"],
                ),
            ),
            ("fatal/srv-noport", NoData),
            ("fatal/a-strsvcttl", Records(&["strsvcttl.@ 30 A 172.27.82.4"], &[])),
            (
                "fatal/srv-strsvcttl",
                Records(&["_http._tcp.strsvcttl.@ 30 SRV 0 10 80 k.strsvcttl.@"], &["k.strsvcttl.@ 30 A 172.27.82.4"]),
            ),
            ("fatal/ptr-strttl", Records(&["1.80.27.172.in-addr.arpa. 30 PTR p-strttl.@"], &[])),
            ("fatal/ptr-negttl", Records(&["2.80.27.172.in-addr.arpa. 30 PTR p-negttl.@"], &[])),
        ]),
    },
    Difference {
        what: "a member whose name is no label of DNS, or has a character that Binder refuses",
        binder: "SRV and PTR name it, which nobody can look up; for a label too long the process ends",
        ours: "its address is the service's, but no SRV or PTR names it",
        why: "no name can be written for it",
        rule: Rule::Cases(&[("fatal/srv-longkid", NoData), ("ptr-172.27.50.5", Rcode("REFUSED"))]),
    },
    Difference {
        what: "case of letters",
        binder: "the domain, `in-addr.arpa`, service and protocol must be spelled as configured or registered",
        ours: "case makes no difference",
        why: "RFC 4343",
        rule: Rule::Cases(&[
            ("a-upper-domain", Like("a-authcache")),
            ("a-mixed-domain", Like("a-authcache")),
            ("srv-upper-domain", Like("srv-_redis._tcp-authcache")),
            ("ptr-upper", Like("ptr-172.27.10.62")),
            ("srv-_http._tcp-svccase", Like("srv-_Http._TCP-svccase")),
            ("srv-_HTTP._TCP-example", Like("srv-_http._tcp-example")),
            ("srv-_Http._tcp-example", Like("srv-_http._tcp-example")),
            ("fixture/srv-service-case", Like("fixture/srv-ports")),
            ("fixture/case-suffix", Like("fixture/host-a")),
            ("fixture/ptr-case", Like("fixture/ptr-host")),
        ]),
    },
    Difference {
        what: "children of nodes with capitals",
        binder: "never read",
        ours: "like any others",
        why: "the same",
        rule: Rule::Cases(&[
            ("a-uppersvc", Records(&["uppersvc.@ 60 A 172.27.50.2"], &[])),
            ("a-k0.uppersvc", Records(&["k0.uppersvc.@ 30 A 172.27.50.2"], &[])),
            (
                "srv-_http._tcp-uppersvc",
                Records(&["_http._tcp.uppersvc.@ 60 SRV 0 10 80 k0.uppersvc.@"], &["k0.uppersvc.@ 30 A 172.27.50.2"]),
            ),
            ("ptr-172.27.50.2", Records(&["2.50.27.172.in-addr.arpa. 30 PTR k0.uppersvc.@"], &[])),
        ]),
    },
    Difference {
        what: "nodes whose names hold dots",
        binder: "SERVFAIL, and no members",
        ours: "the dots part labels",
        why: "Registrar names a node by the system's host name, which may be a whole domain name",
        rule: Rule::Cases(&[
            ("a-dotted.name", Records(&["dotted.name.@ 30 A 172.27.50.7"], &[])),
            ("a-name", NoData),
            ("ptr-172.27.50.7", Records(&["7.50.27.172.in-addr.arpa. 30 PTR dotted.name.@"], &[])),
            ("a-dottedkid", Records(&["dottedkid.@ 60 A 172.27.50.8", "dottedkid.@ 60 A 172.27.50.9"], &[])),
            ("a-host.with.dots.dottedkid", Records(&["host.with.dots.dottedkid.@ 30 A 172.27.50.8"], &[])),
            (
                "srv-_http._tcp-dottedkid",
                Records(
                    &[
                        "_http._tcp.dottedkid.@ 60 SRV 0 10 80 host.with.dots.dottedkid.@",
                        "_http._tcp.dottedkid.@ 60 SRV 0 10 80 plain.dottedkid.@",
                    ],
                    &["host.with.dots.dottedkid.@ 30 A 172.27.50.8", "plain.dottedkid.@ 30 A 172.27.50.9"],
                ),
            ),
        ]),
    },
    Difference {
        what: "nodes that have one name in DNS, since they differ in case only",
        binder: "all are members of their service; the name is that of the one read last",
        ours: "the one whose path comes first has the name, and is the member",
        why: "the answer does not depend on the order of registrations",
        rule: Rule::Random,
    },
    Difference {
        what: "JSON with half of a surrogate pair, a number beyond 1e308, or more than 127 levels",
        binder: "read as JavaScript reads it",
        ours: "no JSON",
        why: "such strings are not valid text, such numbers of no use",
        rule: Rule::Random,
    },
    Difference {
        what: "an address on several nodes",
        binder: "the PTR names the one that was read last",
        ours: "a member of a service before others, then the first in alphabetical order",
        why: "the answer does not depend on the order of registrations",
        rule: Rule::Cases(&[
            ("ptr-172.27.41.5", Records(&["5.41.27.172.in-addr.arpa. 35 PTR alias-1.test.@"], &[])),
            ("ptr-172.27.45.1", Records(&["1.45.27.172.in-addr.arpa. 30 PTR d1.dup.@"], &[])),
            ("shared-address/last-one-wins", Records(&["1.72.27.172.in-addr.arpa. 30 PTR dyn-one.@"], &[])),
            ("shared-address/other-node-moved", Records(&["1.72.27.172.in-addr.arpa. 30 PTR dyn-two.@"], &[])),
        ]),
    },
    Difference {
        what: "the PTR of a node that is gone or has another address",
        binder: "stays until the address is registered anew; the process may end when asked",
        ours: "goes with the node",
        why: "a name that is gone has no address",
        rule: Rule::Cases(&[
            ("members-come-and-go/a-gone-ptr", Rcode("REFUSED")),
            ("members-come-and-go/a-back-ptr-old", Rcode("REFUSED")),
            ("data-changes/host-becomes-service-ptr", Rcode("REFUSED")),
            ("null-after-address/null-ptr", Rcode("REFUSED")),
            ("shared-address/stale-ptr", Rcode("REFUSED")),
        ]),
    },
    Difference {
        what: "the PTR of an address that is written loosely, as `172.27.49.1/24`",
        binder: "REFUSED: the text is looked up",
        ours: "the PTR of the address that A gives",
        why: "both directions say the same",
        rule: Rule::Cases(&[("ptr-172.27.49.1", Records(&["1.49.27.172.in-addr.arpa. 30 PTR a-mask.@"], &[]))]),
    },
    Difference {
        what: "a TTL of 0",
        binder: "sent as 5",
        ours: "sent as 0",
        why: "0 means that the answer must not be cached",
        rule: Rule::Cases(&[
            ("a-t-zero", Ttl(0)),
            ("a-t-topzero", Ttl(0)),
            ("ptr-172.27.48.1", Ttl(0)),
            ("fixture/zero-ttl", Ttl(0)),
        ]),
    },
    Difference {
        what: "a TTL of `null`",
        binder: "counts as 0 and is sent as 5",
        ours: "no TTL: the next one counts",
        why: "that is what `null` says",
        rule: Rule::Cases(&[("a-t-null", Ttl(99)), ("ptr-172.27.48.3", Ttl(99))]),
    },
    Difference {
        what: "a TTL above 2147483647",
        binder: "sent as it is",
        ours: "sent as 0",
        why: "receivers must treat it as 0; RFC 2181 section 8",
        rule: Rule::Cases(&[("a-t-big", Ttl(0))]),
    },
    Difference {
        what: "EDNS sizes below 512",
        binder: "obeyed; 0 ends the process",
        ours: "512",
        why: "RFC 6891 section 6.2.3",
        rule: Rule::Cases(&[
            ("edns-0-authcache", Like("edns-511-authcache")),
            ("edns-0-midsize", Like("edns-511-midsize")),
            ("edns-100-midsize", Like("edns-511-midsize")),
            ("edns-200-midsize", Like("edns-511-midsize")),
        ]),
    },
    Difference {
        what: "EDNS versions above 0",
        binder: "ignored",
        ours: "BADVERS",
        why: "RFC 6891 section 6.1.3",
        rule: Rule::Cases(&[("edns-v1", Rcode("BADVERS"))]),
    },
    Difference {
        what: "a set that fits into no message at all",
        binder: "the process ends",
        ours: "TC over UDP, over TCP as much of it as fits",
        why: "no complete answer is possible, and clients know no other way to get any",
        rule: Rule::Cases(&[("fatal/srv-huge-tcp", Like("fatal/srv-huge-udp"))]),
    },
    Difference {
        what: "targets of SRV records",
        binder: "compressed",
        ours: "compressed with `binder_compat`, otherwise written out, so that fewer fit over UDP; never compressed in regions and transfers",
        why: "RFC 2782 forbids it; RFC 3597 section 4 requires receivers to accept it, so Binder's clients can keep it",
        rule: Rule::Random,
    },
    Difference {
        what: "answers of 1233 to 1470 octets over UDP",
        binder: "sent, if the client takes as much",
        ours: "TC",
        why: "larger datagrams get lost in too many networks; RFC 9715 appendix A",
        rule: Rule::Random,
    },
    Difference {
        what: "SRV records that fit without the addresses of their targets",
        binder: "TC and nothing else",
        ours: "the SRV records, and the addresses that there is room for",
        why: "the addresses are optional; RFC 2181 section 9",
        rule: Rule::Random,
    },
    Difference {
        what: "names of other datacenters, queried with RD",
        binder: "asks that datacenter's Binder, and gives its records without the addresses beside SRV; REFUSED for a datacenter that it does not know",
        ours: "as that datacenter's zone has it, with RD or without, if the zone is served here; otherwise like any unknown name",
        why: "an authoritative server does not recurse; the trees of the other datacenters are zones of their own, see above",
        rule: Rule::Shown("names_of_other_datacenters_are_answered_from_their_zones"),
    },
    Difference {
        what: "a tree that after a restart or a lost session has less than half of its nodes, or none where nothing was served",
        binder: "is followed at once",
        ours: "is held back, and what was served goes on being served, until a second reading after `confirm_after` agrees, or it is accepted",
        why: "an ensemble that lost its data looks like one from which all was removed; `shrink_share` decides",
        rule: Rule::Shown("a_tree_that_has_shrunk_over_a_restart_is_held_back"),
    },
    Difference {
        what: "a tree that was reset: the domain's node is gone or made anew, within a session, too, or its newest change is older than one served",
        binder: "is followed at once",
        ours: "is held back, until it has had half of the served nodes for `regress_after`, has waited for half of `serve_stale`, or is accepted; restarts do not end that",
        why: "the same; while a session lasts, the removal of any other node counts at once",
        rule: Rule::Shown("a_domain_that_was_deleted_and_made_anew_is_told_from_the_one_before"),
    },
    Difference {
        what: "operation codes other than QUERY",
        binder: "answered like questions, or not at all",
        ours: "NOTIMP",
        why: "RFC 8906 section 3.1.4",
        rule: Rule::Cases(&[("opcode-*", Rcode("NOTIMP"))]),
    },
    Difference {
        what: "classes other than IN",
        binder: "answered with records of class IN",
        ours: "REFUSED",
        why: "there are no zones of these classes",
        rule: Rule::Cases(&[("class-*", Rcode("REFUSED"))]),
    },
    Difference {
        what: "malformed queries",
        binder: "no answer, or the answer to what can be read",
        ours: "FORMERR; no answer to an answer; unknown additional records are no fault",
        why: "RFC 8906, RFC 9619",
        rule: Rule::Cases(&[
            ("raw-qr", NoReply),
            ("raw-qd0", Rcode("FORMERR")),
            ("raw-qd2", Rcode("FORMERR")),
            ("raw-opt-twice", Rcode("FORMERR")),
            ("raw-additional-sig", Like("raw-trailing")),
        ]),
    },
    Difference {
        what: "flags of the question",
        binder: "all are echoed",
        ours: "only RD is",
        why: "the others describe the answer; RFC 1035 section 4.1.1",
        rule: Rule::All(|_, case, reply| {
            ["ad", "cd", "z", "ra"].into_iter().for_each(|flag| _ = reply.flags.remove(flag));
            if case.id == "flags-TC" {
                reply.flags.remove("tc");
            }
        }),
    },
    Difference {
        what: "answers that do not fit",
        binder: "TC without the OPT record",
        ours: "TC with it",
        why: "RFC 6891 section 7",
        rule: Rule::All(|_, case, reply| {
            if reply.flags.contains("tc") && case.edns {
                (reply.edns, reply.rcode) = (true, "NOERROR".to_string());
            }
            if case.id == "fatal/srv-huge-tcp" {
                reply.flags.insert("tc".to_string());
            }
        }),
    },
    Difference {
        what: "TTLs of one set",
        binder: "each record its own; a member without a TTL has 30 when asked for and the service's beside SRV records",
        ours: "the smallest of them",
        why: "RFC 2181 section 5.2",
        rule: Rule::All(|world, _, reply| {
            for set in [&mut reply.answer, &mut reply.additional] {
                let lines: Vec<Line> = set.iter().cloned().collect();
                let ttl = |line: &Line| {
                    let same = lines.iter().filter(|other| (&other.owner, &other.rtype) == (&line.owner, &line.rtype));
                    same.map(|line| line.ttl.min(world.member_ttl(line))).min().expect("the line itself")
                };
                *set = lines.iter().map(|line| Line { ttl: ttl(line), ..line.clone() }).collect();
            }
        }),
    },
    Difference {
        what: "SRV questions below a name that has no such service",
        binder: "no data for a host, NXDOMAIN for a service",
        ours: "with `binder_compat` no data, otherwise NXDOMAIN, or no data where a node has the name of the service, in both cases",
        why: "the name in front of the host does not exist; with `binder_compat` it must not send clients elsewhere",
        rule: Rule::All(|world, case, reply| {
            let denied = case.rtype == "SRV" && (!reply.authority.is_empty() || reply.rcode == "NXDOMAIN");
            let missing = case.name.starts_with('_') && world.lacks_service(&case.name);
            let inside = world.zone_of(&case.name).is_some() && case.rtype == "SRV";
            if denied || inside && missing && reply.rcode == "NOERROR" && !world.refuses {
                reply.rcode = if world.refuses { "NOERROR" } else { "NXDOMAIN" }.to_string();
                reply.authority.clear();
            }
        }),
    },
    Difference {
        what: "unknown names",
        binder: "REFUSED",
        ours: "the same with `binder_compat`, otherwise NXDOMAIN",
        why: "other resolvers than Binder's clients need to be told that there is no such name",
        rule: Rule::All(|world, case, reply| {
            let inside = world.zone_of(&case.name).is_some() && !matches!(&*case.rtype, "AXFR");
            if reply.rcode == "REFUSED" && inside && !world.refuses && !case.id.starts_with("class-") {
                reply.rcode = "NXDOMAIN".to_string();
            }
        }),
    },
    Difference {
        what: "options of EDNS",
        binder: "none",
        ours: "NSID when asked for, cookies for a client with one; an extended error with SERVFAIL and for foreign names",
        why: "RFC 5001, RFC 7873, RFC 8914",
        rule: Rule::All(|world, case, reply| {
            let foreign = reply.rcode == "REFUSED" && (world.zone_of(&case.name).is_none() || case.rtype == "AXFR");
            let told = reply.rcode == "SERVFAIL" || foreign && case.rtype != "AXFR";
            let asked = case.id == "edns-nsid" || case.id == "edns-cookie" && world.has_cookies;
            reply.options = reply.edns && (told || asked);
        }),
    },
    Difference {
        what: "the SOA of negative answers",
        binder: "none, or one that the name asked for owns",
        ours: "the zone's",
        why: "RFC 2308 section 3: without it the answer cannot be cached",
        rule: Rule::All(|world, case, reply| {
            reply.authority.clear();
            let empty = reply.rcode == "NXDOMAIN" || reply.rcode == "NOERROR" && reply.answer.is_empty();
            if empty && !reply.flags.contains("tc") {
                reply.authority.extend(world.zone_of(&case.name).map(|zone| Line::of_zone(&zone, "SOA")));
            }
        }),
    },
    Difference {
        what: "AA",
        binder: "only with an SOA",
        ours: "on all answers from the tree",
        why: "the server has authority",
        rule: Rule::All(|_, _, reply| {
            reply.flags.remove("aa");
            if matches!(&*reply.rcode, "NOERROR" | "NXDOMAIN") {
                reply.flags.insert("aa".to_string());
            }
        }),
    },
];

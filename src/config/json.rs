//! The plan as JSON: what `aggregator check --json` prints.
//!
//! Durations are seconds, names end with a dot, addresses have ports.
//!
//! Cost: O(zones + regions).

use crate::acl::{Channel, Prefix, Rule};
use crate::client::Server;
use crate::config::catalogs::{CatalogSource, MemberWay};
use crate::config::plan::describe_pattern;
use crate::config::problem::Problem;
use crate::config::steering_plan::{add_steering, describe_clients, describe_steering};
use crate::config::{Config, LogFormat};
use crate::merge::{AddressPlan, AddressRules, AnswersPlan, Drain, NsPolicy, RegionPlan};
use crate::publish::Outgoing;
use crate::security::Sandbox;
use crate::select::Law;
use crate::source::inventory::InventoryPlan;
use crate::source::inventory::plan::ReverseZone;
use crate::source::zookeeper::TreePlan;
use crate::static_zone::StaticZonePlan;
use crate::timestamp::format_timestamp;
use crate::transfer::ZonePlan;
use serde_json::{Value, json};
use std::time::Duration;
use wire::name::Name;

/// Describes the whole plan.
pub fn describe_plan(config: &Config) -> Value {
    let listen = &config.listen;
    json!({
        "file": config.path,
        "server_name": config.server_name,
        "listen": {
            "dns": listen.dns,
            "udp_threads": listen.udp_threads,
            "tcp_connections": listen.tcp_connections,
            "tcp_connections_per_client": listen.tcp_connections_per_client,
            "tcp_idle_timeout": seconds(listen.tcp_idle_timeout),
            "tls": listen.tls.as_ref().map(|tls| json!({
                "listen": tls.listen,
                "certificate": tls.certificate,
                "client_ca": tls.client_ca,
                "key": tls.key,
            })),
        },
        "client_subnet_from": config.client_subnet_from.iter().map(|prefix| prefix.to_string()).collect::<Vec<_>>(),
        "rate_limit": {
            "mode": <&str>::from(config.rate_limit.mode),
            "responses_per_second": config.rate_limit.responses_per_second,
            "ipv4_prefix": config.rate_limit.ipv4_prefix,
            "ipv6_prefix": config.rate_limit.ipv6_prefix,
            "exempt": config.rate_limit.exempt.iter().map(|prefix| prefix.to_string()).collect::<Vec<_>>(),
        },
        "cookies": { "answer": config.cookies.answer, "secret_file": config.cookies.file },
        "dnstap": config.tap.dnstap.as_ref().map(|dnstap| json!({
            "collector": dnstap.collector.to_string(),
            "messages": <&str>::from(dnstap.messages),
            "one_in": dnstap.one_in,
        })),
        "query_log": config.tap.query_log.as_ref().map(|log| json!({
            "one_in": log.one_in,
            "clients": log.clients.iter().map(|prefix| prefix.to_string()).collect::<Vec<_>>(),
            "lines_per_second": log.lines_per_second,
        })),
        "traces": config.traces.as_ref().map(|traces| json!({
            "collector": traces.collector.as_str(),
            "ca": traces.ca.as_ref().map(|(file, _)| file),
        })),
        "hold_down": seconds(config.hold_down),
        "memory": config.memory,
        "keys": config.secret_files.iter().map(|(name, file)| json!({
            "key": name, "algorithm": config.keys[name].algorithm.to_string(), "secret_file": file,
        })).collect::<Vec<_>>(),
        "metrics": config.metrics.listen,
        "page": config.metrics.page,
        "page_names": config.metrics.names,
        "control": config.control.socket,
        "control_https": config.control.https.as_ref().map(|https| json!({
            "listen": https.tls.listen,
            "certificate": https.tls.certificate,
            "client_ca": https.tls.client_ca,
            "key": https.tls.key,
            "operators": https.operators,
        })),
        "security": {
            "user": config.security.user,
            "group": config.security.group,
            "sandbox": match config.security.sandbox {
                Sandbox::On => "on",
                Sandbox::Log => "log",
                Sandbox::Off => "off",
            },
        },
        "log": {
            "level": config.log.level,
            "format": match config.log.format {
                LogFormat::Human => "human",
                LogFormat::Json => "json",
            },
        },
        "zones": config.zones.iter().map(|zone| describe_zone(config, zone)).collect::<Vec<_>>(),
        "catalogs": config.catalogs.iter().map(|source| describe_catalog(config, source)).collect::<Vec<_>>(),
        "trees": config.trees.iter().map(|tree| describe_tree(config, tree)).collect::<Vec<_>>(),
        "inventories": config.inventories.iter().map(|plan| describe_inventory(config, plan)).collect::<Vec<_>>(),
        "services": config.services.iter().map(|own| describe_services(config, own)).collect::<Vec<_>>(),
        "aggregations": config.regions.iter().map(|region| describe_region(config, region)).collect::<Vec<_>>(),
        "clients": describe_clients(config),
        "drains": config.drains.iter().map(describe_drain).collect::<Vec<_>>(),
        "catalog": config.catalog.as_ref().map(|catalog| json!({
            "zone": catalog.origin,
            "secondaries": describe_secondaries(config, &catalog.origin),
        })),
        "history": { "versions": config.history.versions, "bytes": config.history.bytes, "total_bytes": config.history.total },
        "probe": {
            "every": config.probe.every.map(seconds),
            "resolvers": config.probe.resolvers,
            "stale_after": config.probe.stale_after.map(seconds),
            "timeout": seconds(config.probe.timeout),
            "zones": config.probe.zones,
        },
        "state": config.state,
        "audit": config.audit,
        "warnings": config.warnings.iter().map(Problem::doubtful).collect::<Vec<_>>(),
    })
}

/// Describes one catalog of primaries.
fn describe_catalog(config: &Config, source: &CatalogSource) -> Value {
    let member = |way: &MemberWay| {
        let mut zones = describe_zone(config, &way.plan);
        // Which they are is not in the file.
        zones.as_object_mut().map(|zones| zones.remove("zone"));
        zones["answers"] = describe_laws(way.out.answers.as_ref());
        zones["secondaries"] = describe_ways_out(Some(&way.out.outgoing), &way.out.targets);
        zones
    };
    let groups: Vec<Value> =
        source.groups.iter().map(|(group, way)| json!({ "group": group, "zones": member(way) })).collect();
    json!({
        "catalog": describe_zone(config, &source.way),
        "match": source.patterns,
        "max_members": source.way.catalog.map(|limits| limits.max_members),
        "hold_share": source.way.catalog.map(|limits| limits.hold_share),
        "zones": member(&source.member),
        "groups": groups,
    })
}

/// Describes one zone.
fn describe_zone(config: &Config, zone: &ZonePlan) -> Value {
    let primaries = zone.primaries.iter();
    let primaries = primaries.map(describe_peer);
    let (timers, limits) = (&zone.timers, &zone.limits);
    json!({
        "zone": zone.zone,
        "primaries": primaries.collect::<Vec<_>>(),
        "notify_from": zone.notify_from,
        "ixfr": zone.ixfr,
        "answers": describe_answers(config, &zone.zone),
        "secondaries": describe_secondaries(config, &zone.zone),
        "refresh_min": seconds(timers.refresh_min),
        "refresh_max": seconds(timers.refresh_max),
        "retry_min": seconds(timers.retry_min),
        "retry_max": seconds(timers.retry_max),
        "expire_min": seconds(timers.expire_min),
        "expire_max": seconds(timers.expire_max),
        "regress_after": seconds(timers.regress_after),
        "regress_after_silence": seconds(timers.regress_after_silence),
        "connect_timeout": seconds(limits.connect_timeout),
        "message_timeout": seconds(limits.message_timeout),
        "total_timeout": seconds(limits.total_timeout),
        "min_rate_bytes": limits.min_rate_bytes,
        "max_bytes": limits.max_bytes,
        "max_records": limits.max_records,
        "max_messages": limits.max_messages,
        "shrink_share": limits.shrink_share,
        "confirm_after": seconds(limits.confirm_after),
        "transfers_per_primary": limits.per_primary,
    })
}

/// Describes one tree.
fn describe_tree(config: &Config, tree: &TreePlan) -> Value {
    let (zones, soa) = (&tree.zones, &tree.zones.soa);
    json!({
        "zone": tree.zone(),
        "zookeeper": tree.members.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "domain": tree.domain,
        "path": tree.path,
        "session_timeout": seconds(tree.session_timeout),
        "connect_timeout": seconds(tree.connect_timeout),
        "serve_stale": seconds(tree.serve_stale),
        "reverse": zones.reverse,
        "binder_compat": tree.binder_compat,
        "watches": tree.watches,
        "digest": tree.digest.as_ref().map(|digest| &digest.file),
        "tls": tree.tls.as_ref().map(|tls| json!({
            "ca": tls.ca_file,
            "certificate": tls.identity.as_ref().map(|own| &own.certificate_file),
            "key": tls.identity.as_ref().map(|own| &own.key_file),
        })),
        "ns": zones.ns,
        "ns_ttl": zones.ns_ttl,
        "mname": soa.mname,
        "rname": soa.rname,
        "soa_ttl": soa.ttl,
        "serial_offset": zones.serial_offset,
        "max_reply": tree.max_reply,
        "regress_after": seconds(tree.regress_after),
        "shrink_share": tree.shrink_share,
        "confirm_after": seconds(tree.confirm_after),
        "answers": describe_answers(config, tree.zone()),
        "secondaries": describe_secondaries(config, tree.zone()),
    })
}

/// Describes a reverse zone that the file names.
fn describe_reverse(zone: &ReverseZone) -> Value {
    json!({ "prefix": zone.prefix.to_string(), "zone": zone.origin })
}

/// Describes one inventory and its zones.
fn describe_inventory(config: &Config, plan: &InventoryPlan) -> Value {
    let rules = &plan.rules;
    let zones = plan.forward.iter().map(|zone| {
        let (apex, soa) = (&zone.apex, &zone.apex.soa);
        json!({
            "zone": zone.origin,
            "networks": zone.networks,
            "ns": apex.ns,
            "ns_ttl": apex.ns_ttl,
            "mname": soa.mname,
            "rname": soa.rname,
            "soa_ttl": soa.ttl,
            "answers": describe_answers(config, &zone.origin),
            "secondaries": describe_secondaries(config, &zone.origin),
        })
    });
    let (some, of) = rules.damping.max_removed;
    json!({
        "inventory": plan.name,
        "api": config.apis.iter().find(|api| api.inventory == plan.name).map(|api| json!({
            "listen": api.listen, "tokens": api.tokens.len(),
        })),
        plan.feeder.kind(): plan.feeder.to_string(),
        "use_login": rules.use_login,
        "use_alias": rules.use_alias,
        "missing_status": if rules.missing_is_up { "up" } else { "down" },
        "cn_down_after": seconds(rules.cn_down_after),
        "damping": {
            "max_removed": format!("{some}/{of}"),
            "window": seconds(rules.damping.window),
            "last": seconds(rules.damping.last),
        },
        "cmon": rules.cmon,
        "operator_logins": rules.operator_logins,
        "srv_weights": rules.srv_weights,
        "ttl": rules.ttl,
        "reverse": match &plan.automatic {
            Some(_) => json!("auto"),
            None => plan.reverse.iter().map(describe_reverse).collect(),
        },
        "serve_stale": seconds(plan.serve_stale),
        "shrink_share": plan.shrink_share,
        "confirm_after": seconds(plan.confirm_after),
        "accounting": plan.accounting,
        "zones": zones.collect::<Vec<_>>(),
    })
}

/// Describes one zone of our own.
fn describe_services(config: &Config, own: &StaticZonePlan) -> Value {
    let openstack = own.offers.iter().map(|offer| {
        let (kind, url) = (offer.kind.as_str(), offer.endpoint.to_string());
        json!({ "type": kind, "url": url, "priority": offer.priority, "weight": offer.weight })
    });
    json!({
        "zone": own.zone,
        "records": own.records.len(),
        "openstack": openstack.collect::<Vec<_>>(),
        "ns": own.ns,
        "ns_ttl": own.ns_ttl,
        "mname": own.soa.mname,
        "rname": own.soa.rname,
        "soa_ttl": own.soa.ttl,
        "serial": own.serial,
        "answers": describe_answers(config, &own.zone),
        "secondaries": describe_secondaries(config, &own.zone),
    })
}

/// Describes one region.
fn describe_region(config: &Config, region: &RegionPlan) -> Value {
    let mut described = json!({
        "region": region.origin,
        "members": region.members,
        "ns": match &region.ns {
            NsPolicy::Intersection => json!("intersection"),
            NsPolicy::Union => json!("union"),
            NsPolicy::Listed(names) => json!(names),
        },
        "ns_ttl": region.ns_ttl,
        "soa_ttl": region.soa.ttl,
        "soa_refresh": region.soa.refresh,
        "soa_retry": region.soa.retry,
        "soa_expire": region.soa.expire,
        "soa_minimum": region.soa.minimum,
        "mname": region.mname,
        "rname": region.rname,
        "serial_offset": region.serial_offset,
        "rdata_names": region.rdata_names,
        "exclude": region.exclude.iter().map(describe_pattern).collect::<Vec<_>>(),
        "addresses": describe_addresses(&region.addresses),
        "max_set": region.max_set,
        "partial_after": seconds(region.partial_after),
        "on_expire": region.on_expire,
        "expire_after": region.expire_after.map(seconds),
        "damping": region.damping.map(|damping| json!({
            "max_removed": format!("{}/{}", damping.max_removed.0, damping.max_removed.1),
            "window": seconds(damping.window),
            "last": seconds(damping.last),
        })),
        "answers": describe_answers(config, &region.origin),
        "secondaries": describe_secondaries(config, &region.origin),
    });
    // Zones with members have no steering.
    if let Some(plan) = config.answers.get(&region.origin).filter(|_| !region.is_united) {
        add_steering(plan, &mut described);
    }
    described
}

/// Describes which addresses a region takes of its members.
fn describe_addresses(AddressPlan { all, members }: &AddressPlan) -> Value {
    let list = |prefixes: &[Prefix]| prefixes.iter().map(Prefix::to_string).collect::<Vec<_>>();
    let only = |rules: &AddressRules| (!rules.only.is_empty()).then(|| list(&rules.only));
    let rules = |rules: &AddressRules| json!({ "only": only(rules), "exclude": list(&rules.exclude) });
    let own = members.iter().map(|(member, own)| (member.to_string(), rules(own)));
    let mut described = rules(all);
    described["members"] = own.collect::<serde_json::Map<_, _>>().into();
    described
}

/// Describes one drain.
fn describe_drain(drain: &Drain) -> Value {
    json!({
        "member": drain.target.member,
        "region": drain.target.region,
        "names": drain.target.names,
        "share_percent": drain.share,
        "until": drain.until.map(format_timestamp),
        "reason": drain.reason,
    })
}

/// Describes what a zone's answers have of large sets.
fn describe_answers(config: &Config, zone: &Name) -> Value {
    describe_laws(config.answers.get(zone))
}

/// Describes laws of answers.
fn describe_laws(plan: Option<&AnswersPlan>) -> Value {
    let law = |law: Law| json!({ "max": law.max.map_or(json!("all"), |max| json!(max)), "pick": law.pick });
    let names = plan.iter().flat_map(|plan| &plan.names);
    let names = names.map(|(pattern, exception)| {
        json!({ "match": pattern, "answers": law(exception.law), "steering": describe_steering(exception.steering) })
    });
    let mut described = law(plan.map_or(Law::ALL, |plan| plan.usual.law));
    described["names"] = names.collect();
    described
}

/// Describes the access rules and the secondaries of a zone.
fn describe_secondaries(config: &Config, zone: &Name) -> Value {
    describe_ways_out(config.outgoing.get(zone), config.targets.get(zone).map_or(&[], Vec::as_slice))
}

/// Describes who may have a zone, and who is told of its changes.
fn describe_ways_out(outgoing: Option<&Outgoing>, targets: &[Server]) -> Value {
    let outgoing = outgoing.map(|outgoing| {
        let rules = outgoing.access.rules.iter();
        let prefix = |rule: &Rule| rule.prefix.map(|prefix| prefix.to_string());
        let channel = |rule: &Rule| match &rule.channel {
            None => json!(false),
            Some(Channel::Tls) => json!(true),
            Some(Channel::Named(name)) => json!(name),
        };
        let rules = rules.map(|rule| {
            let host = rule.host.as_ref().map(|host| &host.name);
            json!({ "prefix": prefix(rule), "host": host, "key": rule.key, "tls": channel(rule) })
        });
        (rules.collect::<Vec<_>>(), outgoing.ixfr)
    });
    let (rules, ixfr) = outgoing.unwrap_or_default();
    let targets = targets.iter().map(describe_peer);
    json!({ "allow_transfer": rules, "ixfr_out": ixfr, "notify": targets.collect::<Vec<_>>() })
}

/// Describes another server.
fn describe_peer(server: &Server) -> Value {
    let mut peer = json!({
        "address": server.address,
        "source_address": server.source,
        "key": server.key.as_ref().map(|key| &key.name),
    });
    if let Some(tls) = &server.tls {
        let files = &tls.files;
        peer["tls"] = json!({
            "name": files.name,
            "verify": files.is_verified,
            "ca": files.ca.as_ref().map(|(path, _)| path),
            "certificate": files.identity.as_ref().map(|own| &own.certificate_file),
            "key": files.identity.as_ref().map(|own| &own.key_file),
        });
    }
    peer
}

/// A duration in seconds.
fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

//! The plan as JSON: what `aggregator check --json` prints.
//!
//! Durations are seconds, names end with a dot, addresses have ports.
//!
//! Cost: O(zones + regions).

use crate::config::plan::describe_pattern;
use crate::config::{Config, LogFormat};
use crate::merge::{NsPolicy, RegionPlan};
use crate::transfer::ZonePlan;
use serde_json::{Value, json};
use std::time::Duration;

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
                "key": tls.key,
            })),
        },
        "metrics": config.metrics.listen,
        "control": config.control.socket,
        "log": {
            "level": config.log.level,
            "format": match config.log.format {
                LogFormat::Human => "human",
                LogFormat::Json => "json",
            },
        },
        "zones": config.zones.iter().map(describe_zone).collect::<Vec<_>>(),
        "aggregations": config.regions.iter().map(describe_region).collect::<Vec<_>>(),
        "audit": config.audit,
        "warnings": config.warnings,
    })
}

/// Describes one zone.
fn describe_zone(zone: &ZonePlan) -> Value {
    let primaries = zone.primaries.iter();
    let primaries = primaries.map(|primary| json!({ "address": primary.address, "source_address": primary.source }));
    let (timers, limits) = (&zone.timers, &zone.limits);
    json!({
        "zone": zone.zone,
        "primaries": primaries.collect::<Vec<_>>(),
        "notify_from": zone.notify_from,
        "refresh_min": seconds(timers.refresh_min),
        "refresh_max": seconds(timers.refresh_max),
        "retry_min": seconds(timers.retry_min),
        "retry_max": seconds(timers.retry_max),
        "expire_min": seconds(timers.expire_min),
        "expire_max": seconds(timers.expire_max),
        "connect_timeout": seconds(limits.connect_timeout),
        "message_timeout": seconds(limits.message_timeout),
        "total_timeout": seconds(limits.total_timeout),
        "min_rate_bytes": limits.min_rate_bytes,
        "max_bytes": limits.max_bytes,
        "max_records": limits.max_records,
        "max_messages": limits.max_messages,
        "shrink_share": limits.shrink_share,
        "confirm_after": seconds(limits.confirm_after),
    })
}

/// Describes one region.
fn describe_region(region: &RegionPlan) -> Value {
    json!({
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
        "partial_after": seconds(region.partial_after),
        "on_expire": region.on_expire,
        "expire_after": region.expire_after.map(seconds),
    })
}

/// A duration in seconds.
fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

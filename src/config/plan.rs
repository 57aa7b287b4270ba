//! The plan as text: what `aggregator check` prints.
//!
//! Cost: O(zones + regions).

use crate::acl::{Channel, Prefix, Rule};
use crate::client::Server;
use crate::config::catalogs::CatalogSource;
use crate::config::member_rules::{Meant, MemberRule};
use crate::config::server::TLS_PORT;
use crate::config::steering_plan::{write_clients, write_steering};
use crate::config::{Config, CookiesPlan};
use crate::merge::{
    AddressPlan, AddressRules, DampingPlan, Drain, NsPolicy, OnExpire, OwnerPattern, RdataNames, RegionPlan,
};
use crate::rate_limit::{Mode, RateLimitPlan};
use crate::security::{Sandbox, SecurityPlan};
use crate::select::{Law, Pick, Treatment};
use crate::source::inventory::plan::{InventoryPlan, MadeZone};
use crate::source::zookeeper::TreePlan;
use crate::static_zone::StaticZonePlan;
use crate::tap::{DnstapPlan, Messages, QueryLogPlan, TapPlan};
use crate::timestamp::format_timestamp;
use crate::transfer::{CatalogLimits, TimerBounds, ZonePlan};
use settings::error::on_one_line;
use settings::units::{format_duration, format_size};
use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;
use wire::name::Name;

/// Writes the whole plan.
pub fn write_plan(config: &Config, out: &mut impl Write) -> fmt::Result {
    writeln!(out, "{}: plan of {}", config.path.display(), config.server_name)?;
    write_listeners(config, out)?;
    write_section(out, "keys", &config.secret_files, |out, (name, file)| {
        writeln!(out, "  {name} {}, secret in {}", config.keys[name].algorithm, file.display())
    })?;
    writeln!(out, "\nzones")?;
    for zone in &config.zones {
        write_zone(zone, out)?;
        write_service(config, &zone.zone, out)?;
    }
    for source in &config.catalogs {
        write_catalog(config, source, out)?;
    }
    for tree in &config.trees {
        write_tree(tree, out)?;
        write_service(config, tree.zone(), out)?;
    }
    for inventory in &config.inventories {
        write_inventory(inventory, out)?;
        for api in config.apis.iter().filter(|api| api.inventory == inventory.name) {
            let tokens = counted(api.tokens.len(), "token");
            writeln!(out, "    REST interface over HTTP: {}, {tokens}", join(&api.listen))?;
        }
        for zone in &inventory.forward {
            write_made(zone, out)?;
            write_service(config, &zone.origin, out)?;
        }
    }
    for own in &config.services {
        write_services(own, out)?;
        write_service(config, &own.zone, out)?;
    }
    write_section(out, "aggregations", &config.regions, |out, region| {
        write_region(region, out)?;
        write_service(config, &region.origin, out)
    })?;
    write_clients(config, out)?;
    write_section(out, "drains", &config.drains, |out, drain| writeln!(out, "  {}", describe_drain(drain)))?;
    if let Some(catalog) = &config.catalog {
        writeln!(out, "\ncatalog\n  {}", catalog.origin)?;
        write_service(config, &catalog.origin, out)?;
    }
    let size = |bytes: usize| format_size(u64::try_from(bytes).unwrap_or(u64::MAX));
    let [each, total] = [config.history.bytes, config.history.total].map(size);
    writeln!(out, "\nmemory and disk")?;
    match config.memory {
        Some(octets) => writeln!(out, "  zones, histories and transfers in progress: {}", format_size(octets))?,
        None => writeln!(out, "  zones, histories and transfers in progress: half of what this process may have")?,
    }
    writeln!(
        out,
        "  differences of each zone: {} versions, {each}; of all together: {total}",
        config.history.versions
    )?;
    match &config.state {
        Some(folder) => writeln!(out, "  state folder: {}", folder.display())?,
        None => writeln!(out, "  state folder: off, a restart begins without zones")?,
    }
    writeln!(out, "\nschedule")?;
    match config.hold_down {
        Duration::ZERO => writeln!(out, "  publications: at every change")?,
        pause => writeln!(out, "  publications: at least {} apart", format_duration(pause))?,
    }
    match &config.audit {
        Some(cron) => writeln!(out, "  full transfer of all zones: {cron} (UTC)")?,
        None => writeln!(out, "  full transfer of all zones: never")?,
    }
    if let Some(every) = config.probe.every {
        let (every, zones) = (format_duration(every), config.probe.zones.len());
        writeln!(out, "  look at the name servers of {zones} zones and regions: every {every}")?;
    }
    write_section(out, "warnings", &config.warning_lines(), |out, warning| writeln!(out, "  {warning}"))?;
    writeln!(out, "\n{}", totals(config))
}

/// Writes a section, if there is anything to be written in it.
fn write_section<T, W: Write>(
    out: &mut W,
    title: &str,
    items: &[T],
    write: impl Fn(&mut W, &T) -> fmt::Result,
) -> fmt::Result {
    if !items.is_empty() {
        writeln!(out, "\n{title}")?;
    }
    items.iter().try_for_each(|item| write(out, item))
}

/// A number of things.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns the last line of the plan, with all totals.
fn totals(config: &Config) -> String {
    let trees = config.trees.iter().flat_map(TreePlan::all_zones).count();
    let made = config.inventories.iter().flat_map(InventoryPlan::zones).count();
    let (zones, own, regions) = (config.zones.len(), config.services.len(), config.regions.len());
    let mut line = counted(zones, "DC zone");
    if !config.catalogs.is_empty() {
        line += &format!(", those of {}", counted(config.catalogs.len(), "catalog"));
    }
    if trees > 0 {
        line += &format!(", {} from ZooKeeper", counted(trees, "zone"));
    }
    if made > 0 {
        line += &format!(", {} of inventories", counted(made, "zone"));
    }
    if own > 0 {
        line += &format!(", {} of our own", counted(own, "zone"));
    }
    line += &format!(", {}", counted(regions, "region"));
    line += if config.catalog.is_some() { ", 1 catalog" } else { "" };
    let all = zones + trees + made + own + regions + usize::from(config.catalog.is_some());
    line += &format!(", {}", counted(all, "zone"));
    if !config.warnings.is_empty() {
        line += &format!(", {}", counted(config.warnings.len(), "warning"));
    }
    line
}

/// Writes where the server can be reached.
fn write_listeners(config: &Config, out: &mut impl Write) -> fmt::Result {
    let listen = &config.listen;
    let idle = format_duration(listen.tcp_idle_timeout);
    writeln!(out, "\nlisteners")?;
    writeln!(out, "  DNS over UDP and TCP: {}", join(&listen.dns))?;
    if let Some(tls) = &listen.tls {
        writeln!(out, "  DNS over TLS: {}, certificate {}", join(&tls.listen), tls.certificate.display())?;
        // RFC 9461: by this record in the zone of its name resolvers find that a server speaks it.
        let port = tls.listen.first().map_or(TLS_PORT, SocketAddr::port);
        let port = if port == TLS_PORT { String::new() } else { format!(" port={port}") };
        let name = &config.server_name;
        writeln!(out, "    record that tells of it: _dns.{name} SVCB 1 {name} alpn=dot{port}")?;
    }
    if !config.client_subnet_from.is_empty() {
        writeln!(out, "  EDNS Client Subnet believed of {}", join(&config.client_subnet_from))?;
    }
    writeln!(out, "  {}", describe_rate_limit(&config.rate_limit))?;
    if !config.rate_limit.exempt.is_empty() {
        writeln!(out, "  without a limit: {}", join(&config.rate_limit.exempt))?;
    }
    writeln!(out, "  {}", describe_cookies(&config.cookies))?;
    writeln!(
        out,
        "  UDP threads for each address: {}; TCP connections: {}, {} a client, closed after {idle} of silence",
        listen.udp_threads, listen.tcp_connections, listen.tcp_connections_per_client
    )?;
    match config.metrics.listen.as_slice() {
        [] => writeln!(out, "  metrics: off")?,
        addresses if config.metrics.page => writeln!(out, "  metrics and status page over HTTP: {}", join(addresses))?,
        addresses => writeln!(out, "  metrics over HTTP: {}", join(addresses))?,
    }
    if config.tap != TapPlan::default() {
        writeln!(out, "  {}", describe_tap(&config.tap))?;
    }
    if let Some(traces) = &config.traces {
        writeln!(out, "  traces of changes: {}", traces.collector)?;
    }
    writeln!(out, "  control socket: {}", config.control.socket.display())?;
    if let Some(https) = &config.control.https {
        let (addresses, operators) = (join(&https.tls.listen), join(&https.operators));
        writeln!(
            out,
            "  orders over HTTPS: {addresses}, by {operators}, certificate {}",
            https.tls.certificate.display()
        )?;
    }
    writeln!(out, "  {}", describe_security(&config.security))
}

/// Describes the rights that the server gives up.
pub fn describe_security(plan: &SecurityPlan) -> String {
    let group = plan.group.as_ref().map(|group| format!(" with group {group}")).unwrap_or_default();
    let user = plan.user.as_ref().map_or("the user that starts it".to_owned(), |user| format!("user {user}{group}"));
    let sandbox = match plan.sandbox {
        Sandbox::On => "what it does not need is refused",
        Sandbox::Log => "system calls that it does not need are logged",
        Sandbox::Off => "without a sandbox",
    };
    format!("runs as {user}; {sandbox}")
}

/// Describes the limit on responses.
pub fn describe_rate_limit(plan: &RateLimitPlan) -> String {
    let RateLimitPlan { mode, responses_per_second: rate, ipv4_prefix: v4, ipv6_prefix: v6, .. } = plan;
    let each = format!("{rate} a second of each class for an IPv4 /{v4} or an IPv6 /{v6}");
    match mode {
        Mode::On => format!("full responses over UDP: {each}"),
        Mode::Log => format!("responses over UDP: without a limit, but told if more than {each}"),
        Mode::Off => "responses over UDP: without a limit".to_owned(),
    }
}

/// Describes whether cookies are answered, and with which secret.
pub fn describe_cookies(plan: &CookiesPlan) -> String {
    match (&plan.file, plan.answer) {
        (_, false) => "DNS Cookies: off".to_owned(),
        (Some(file), true) => format!("DNS Cookies: secret in {}", file.display()),
        (None, true) => "DNS Cookies: a secret of this process".to_owned(),
    }
}

/// Describes who gets copies of queries and responses.
pub fn describe_tap(plan: &TapPlan) -> String {
    let share = |one_in: u32| if one_in == 1 { "all".to_owned() } else { format!("one in {one_in}") };
    let dnstap = plan.dnstap.as_ref().map(|DnstapPlan { collector, messages, one_in }| {
        let what = match messages {
            Messages::All => "queries, with their responses",
            Messages::Queries => "queries",
            Messages::Responses => "responses",
        };
        format!("{} {what} to {collector} by dnstap", share(*one_in))
    });
    let log = plan.query_log.as_ref().map(|QueryLogPlan { one_in, clients, lines_per_second: most }| {
        let whose = if clients.is_empty() { String::new() } else { format!(" of {}", join(clients)) };
        format!("{} queries{whose} in the log, {most} a second at most", share(*one_in))
    });
    match (dnstap, log) {
        (None, None) => "no copies of queries".to_owned(),
        (dnstap, log) => format!("copies: {}", dnstap.into_iter().chain(log).collect::<Vec<_>>().join("; ")),
    }
}

/// Writes one zone.
fn write_zone(zone: &ZonePlan, out: &mut impl Write) -> fmt::Result {
    writeln!(out, "  {}", zone.zone)?;
    for primary in &zone.primaries {
        let peer = describe_peer(primary);
        writeln!(out, "    primary {peer}")?;
    }
    if !zone.ixfr {
        writeln!(out, "    primaries are asked for full transfers only")?;
    }
    if !zone.notify_from.is_empty() {
        writeln!(out, "    NOTIFY also from {}", join(&zone.notify_from))?;
    }
    writeln!(out, "    {}", describe_timers(&zone.timers))
}

/// Writes one catalog of primaries, and how its zones are transferred.
fn write_catalog(config: &Config, source: &CatalogSource, out: &mut impl Write) -> fmt::Result {
    write_zone(&source.way, out)?;
    if let Some(CatalogLimits { max_members, hold_share }) = source.way.catalog {
        let share = hold_share * 100.0;
        writeln!(out, "    catalog of at most {max_members} zones; {share}% of them or all leave only when accepted")?;
    }
    if !source.patterns.is_empty() {
        writeln!(out, "    may list {}", join(&source.patterns))?;
    }
    let ways = source.groups.iter().map(|(group, way)| (format!("zones of group \"{group}\""), way));
    for (which, way) in [("its zones".to_owned(), &source.member)].into_iter().chain(ways) {
        let peer = describe_peer;
        let primaries: Vec<String> = way.plan.primaries.iter().map(peer).collect();
        writeln!(out, "    {which} from {}, {}", join(&primaries), describe_timers(&way.plan.timers))?;
    }
    let may_list = |rule: &&MemberRule| match &rule.meant {
        Meant::Named { zone, .. } => source.may_list(zone),
        Meant::Like(_) => true,
    };
    for rule in config.member_rules.iter().filter(may_list) {
        match &rule.meant {
            Meant::Like(pattern) => writeln!(out, "    those that match {pattern} are members of {}", rule.region)?,
            Meant::Named { zone, .. } => writeln!(out, "    {zone} is a member of {} if it is listed", rule.region)?,
        }
    }
    Ok(())
}

/// Writes one tree and its zones.
fn write_tree(tree: &TreePlan, out: &mut impl Write) -> fmt::Result {
    writeln!(out, "  {}", tree.zone())?;
    let (members, timeout) = (join(&tree.members), format_duration(tree.session_timeout));
    writeln!(out, "    ZooKeeper {members}, sessions of {timeout}, watches {}", tree.watches.label())?;
    writeln!(out, "    tree {} of domain {}", tree.path, tree.domain)?;
    if let Some(tls) = &tree.tls {
        let own = tls.identity.as_ref().map(|own| format!(", our certificate {}", own.certificate_file.display()));
        writeln!(out, "    TLS, certificates signed with {}{}", tls.ca_file.display(), own.unwrap_or_default())?;
    }
    if let Some(digest) = &tree.digest {
        writeln!(out, "    user and password in {}", digest.file.display())?;
    }
    if !tree.zones.reverse.is_empty() {
        writeln!(out, "    reverse zones {}", join(&tree.zones.reverse))?;
    }
    let (zones, soa) = (&tree.zones, &tree.zones.soa);
    writeln!(out, "    name servers {}, TTL {}", join(&zones.ns), zones.ns_ttl)?;
    writeln!(out, "    SOA primary {}, contact {}, TTL {}", soa.mname, soa.rname, soa.ttl)?;
    if zones.serial_offset != 0 {
        writeln!(out, "    serial offset {}", zones.serial_offset)?;
    }
    if tree.binder_compat {
        writeln!(out, "    unknown names are refused, as Binder does")?;
    }
    writeln!(out, "    served for {} without a session", format_duration(tree.serve_stale))
}

/// Writes one inventory, whose zones follow.
fn write_inventory(plan: &InventoryPlan, out: &mut impl Write) -> fmt::Result {
    let (feeder, rules) = (&plan.feeder, &plan.rules);
    writeln!(out, "  inventory {}: {} {feeder}", plan.name, feeder.kind())?;
    let names = |is_used: bool, what: &str| format!("{what} {}", if is_used { "in names" } else { "in no name" });
    let up = if rules.missing_is_up { "up" } else { "down" };
    let (logins, aliases) = (names(rules.use_login, "logins"), names(rules.use_alias, "aliases"));
    writeln!(out, "    {logins}, {aliases}, without a status {up}")?;
    let (some, of) = rules.damping.max_removed;
    let [window, last] = [rules.damping.window, rules.damping.last].map(format_duration);
    writeln!(out, "    damping: {some}/{of} within {window}, the last after {last}")?;
    if !plan.reverse.is_empty() {
        let prefixes: Vec<_> = plan.reverse.iter().map(|zone| zone.prefix).collect();
        writeln!(out, "    reverse zones of {}", join(&prefixes))?;
    }
    if plan.automatic.is_some() {
        writeln!(out, "    a reverse zone for each /24 and /64 with an address")?;
    }
    writeln!(out, "    served for {} without a good reading", format_duration(plan.serve_stale))
}

/// Writes one zone that is made of an inventory.
fn write_made(zone: &MadeZone, out: &mut impl Write) -> fmt::Result {
    let apex = &zone.apex;
    writeln!(out, "  {}", zone.origin)?;
    writeln!(out, "    networks {}", join(&zone.networks))?;
    writeln!(out, "    name servers {}, TTL {}", join(&apex.ns), apex.ns_ttl)?;
    writeln!(out, "    SOA primary {}, contact {}, TTL {}", apex.soa.mname, apex.soa.rname, apex.soa.ttl)
}

/// Writes one zone of our own.
fn write_services(own: &StaticZonePlan, out: &mut impl Write) -> fmt::Result {
    writeln!(out, "  {}", own.zone)?;
    writeln!(out, "    {} records of this file", own.records.len())?;
    for offer in &own.offers {
        let (kind, endpoint) = (&offer.kind, &offer.endpoint);
        writeln!(out, "    openstack {kind} at {endpoint}, priority {}, weight {}", offer.priority, offer.weight)?;
    }
    writeln!(out, "    name servers {}, TTL {}", join(&own.ns), own.ns_ttl)?;
    writeln!(out, "    SOA primary {}, contact {}, TTL {}", own.soa.mname, own.soa.rname, own.soa.ttl)?;
    match own.serial {
        Some(serial) => writeln!(out, "    serial {serial}, or the next where the records change without it"),
        None => writeln!(out, "    serial counted with each change"),
    }
}

/// Describes another server: its address, the source address and the key used with it, and TLS.
fn describe_peer(server: &Server) -> String {
    let Server { address, source, key, tls } = server;
    let source = source.map(|source| format!(" from {source}")).unwrap_or_default();
    let key = key.as_ref().map(|key| format!(" with key {}", key.name)).unwrap_or_default();
    let tls = tls.as_ref().map(|tls| match &tls.files {
        files if files.is_verified => format!(" over TLS as {}", files.name),
        _ => " over TLS as anybody".to_owned(),
    });
    format!("{address}{source}{key}{}", tls.unwrap_or_default())
}

/// Writes what a zone's answers have of large sets, and who copies it.
fn write_service(config: &Config, zone: &Name, out: &mut impl Write) -> fmt::Result {
    if let Some(plan) = config.answers.get(zone) {
        writeln!(out, "    answers have {}", describe_law(plan.usual.law))?;
        for (pattern, Treatment { law, .. }) in &plan.names {
            writeln!(out, "    answers for {pattern} have {}", describe_law(*law))?;
        }
        write_steering(plan, out)?;
    }
    write_secondaries(config, zone, out)
}

/// Describes how much of a large set an answer has.
fn describe_law(law: Law) -> String {
    match (law.max, law.pick) {
        (None, _) => "whole sets".to_owned(),
        (Some(max), Pick::Rotate) => format!("at most {max} records of a set, others each time"),
        (Some(max), Pick::Client) => format!("at most {max} records of a set, the same for a client"),
    }
}

/// Writes the access rules and the secondaries of a zone, if there are any.
fn write_secondaries(config: &Config, zone: &Name, out: &mut impl Write) -> fmt::Result {
    let rules = config.outgoing.get(zone).map_or(&[][..], |outgoing| &outgoing.access.rules);
    if !rules.is_empty() {
        let ixfr = config.history.versions > 0 && config.outgoing.get(zone).is_some_and(|outgoing| outgoing.ixfr);
        let how = if ixfr { "in full or by difference" } else { "in full" };
        let rules: Vec<String> = rules.iter().map(describe_rule).collect();
        writeln!(out, "    may be transferred by {}, {how}", join(&rules))?;
    }
    let targets = config.targets.get(zone).map_or(&[][..], Vec::as_slice);
    if targets.is_empty() {
        return Ok(());
    }
    let peer = describe_peer;
    writeln!(out, "    NOTIFY to {}", join(&targets.iter().map(peer).collect::<Vec<_>>()))
}

/// Describes the clients that an access rule allows.
fn describe_rule(rule: &Rule) -> String {
    let prefix = rule.prefix.map(|prefix| prefix.to_string());
    let host = rule.host.as_ref().map(|host| format!("host {}", host.name));
    let who = match (prefix, host) {
        (Some(prefix), Some(host)) => format!("{host} in {prefix}"),
        (prefix, host) => host.or(prefix).unwrap_or_else(|| "anyone".to_owned()),
    };
    let key = rule.key.as_ref().map(|key| format!(" with key {key}")).unwrap_or_default();
    let channel = match &rule.channel {
        None => String::new(),
        Some(Channel::Tls) => " over TLS".to_owned(),
        Some(Channel::Named(name)) => format!(" over TLS as {name}"),
    };
    format!("{who}{key}{channel}")
}

/// The bounds of all three timers.
fn describe_timers(timers: &TimerBounds) -> String {
    let bounds = |low, high| format!("{} to {}", format_duration(low), format_duration(high));
    format!(
        "refresh {}, retry {}, expire {}",
        bounds(timers.refresh_min, timers.refresh_max),
        bounds(timers.retry_min, timers.retry_max),
        bounds(timers.expire_min, timers.expire_max)
    )
}

/// Writes one region.
fn write_region(region: &RegionPlan, out: &mut impl Write) -> fmt::Result {
    writeln!(out, "  {}", region.origin)?;
    for member in &region.members {
        writeln!(out, "    member {member}")?;
    }
    let own = &region.server_name;
    match &region.ns {
        NsPolicy::Listed(names) => writeln!(out, "    name servers {}, TTL {}", join(names), region.ns_ttl)?,
        NsPolicy::Intersection => {
            writeln!(out, "    name servers that all members list, else {own}, TTL {}", region.ns_ttl)?
        }
        NsPolicy::Union => writeln!(out, "    name servers that any member lists, TTL {}", region.ns_ttl)?,
    }
    let soa = &region.soa;
    let fields = [
        ("TTL", soa.ttl),
        ("refresh", soa.refresh),
        ("retry", soa.retry),
        ("expire", soa.expire),
        ("minimum", soa.minimum),
    ];
    let set: Vec<String> = fields.iter().filter_map(|(field, value)| Some(format!("{field} {}", (*value)?))).collect();
    if !set.is_empty() {
        writeln!(out, "    SOA {}", join(&set))?;
    }
    if let Some(mname) = &region.mname {
        writeln!(out, "    SOA primary {mname}")?;
    }
    if let Some(rname) = &region.rname {
        writeln!(out, "    SOA contact {rname}")?;
    }
    if region.serial_offset != 0 {
        writeln!(out, "    serial offset {}", region.serial_offset)?;
    }
    if !region.exclude.is_empty() {
        let patterns: Vec<String> = region.exclude.iter().map(describe_pattern).collect();
        writeln!(out, "    without {}", join(&patterns))?;
    }
    for line in describe_addresses(&region.addresses) {
        writeln!(out, "    {line}")?;
    }
    if let Some(most) = region.max_set {
        writeln!(out, "    at most {most} records in a set")?;
    }
    let names = match region.rdata_names {
        RdataNames::Keep => "kept",
        RdataNames::Rewrite => "rewritten",
    };
    let expired = match region.on_expire {
        OnExpire::Withdraw => "withdrawn",
        OnExpire::Keep => "kept",
    };
    if let Some(DampingPlan { max_removed: (some, of), window, last }) = &region.damping {
        let (window, last) = (format_duration(*window), format_duration(*last));
        writeln!(
            out,
            "    services lose at most {some}/{of} of their addresses within {window}, the last after {last}"
        )?;
    }
    let wait = format_duration(region.partial_after);
    writeln!(out, "    names in RDATA {names}, expired members {expired}, missing members awaited for {wait}")?;
    match region.expire_after {
        Some(after) => writeln!(out, "    members withdrawn after {} without contact", format_duration(after)),
        None => Ok(()),
    }
}

/// Describes rules for addresses, a line each.
fn describe_addresses(AddressPlan { all, members }: &AddressPlan) -> Vec<String> {
    let own = members.iter().map(|(member, rules)| (format!("addresses of {member}"), rules));
    let every = [("addresses".to_owned(), all)].into_iter().filter(|(_, rules)| !rules.is_empty());
    let list = |prefixes: &[Prefix]| prefixes.iter().map(Prefix::to_string).collect::<Vec<_>>().join(", ");
    let describe = |(mut text, rules): (String, &AddressRules)| {
        if !rules.only.is_empty() {
            _ = write!(text, " only in {}", list(&rules.only));
        }
        if !rules.exclude.is_empty() {
            _ = write!(text, " without {}", list(&rules.exclude));
        }
        text
    };
    every.chain(own).map(describe).collect()
}

/// Describes a drain: the member, the region, the names, the share, the end and the reason.
pub fn describe_drain(drain: &Drain) -> String {
    let Drain { target, share, until, reason, .. } = drain;
    let names = target.names.as_ref().map_or("all names".to_string(), |names| format!("\"{names}\""));
    let from = target.region.as_ref().map_or("all its regions".to_string(), Name::to_string);
    let until = until.map_or("until undrained".to_string(), |until| format!("until {}", format_timestamp(until)));
    let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let clients = share.map(|percent| format!(" for {percent}% of clients")).unwrap_or_default();
    format!("{} {names}{clients} from {from} {until}{}", target.member, on_one_line(reason))
}

/// A pattern as it is written in the file.
pub fn describe_pattern(pattern: &OwnerPattern) -> String {
    let name = pattern.name.to_string();
    format!("{}{}", if pattern.below { "*." } else { "" }, name.trim_end_matches('.'))
}

/// Elements with commas.
fn join<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::error::Source;
    use std::path::Path;

    #[test]
    fn totals_agree_in_number() {
        let text = "[zones]\n\"a.test\" = \"192.0.2.1\"\n\"t.test\" = { zookeeper = \"192.0.2.1\", reverse = \"10.0.0.0/8\" }\n\
                    \"own.test\" = { services = \"@ A 192.0.2.1\" }\n[aggregations]\n\"r.test\" = [\"a.test\"]\n\
                    [secondaries]\ncatalog = \"catalog.test\"\n";
        let full = Config::parse(Path::new("c"), text).unwrap();
        let with = |zones: usize, trees, own, regions: usize, catalog: bool, warnings: usize| {
            let mut config = full.clone();
            config.zones = vec![full.zones[0].clone(); zones];
            config.trees.truncate(trees);
            config.services.truncate(own);
            config.regions = vec![full.regions[0].clone(); regions];
            config.catalog = config.catalog.filter(|_| catalog);
            let warning = Source::new(Path::new("c"), "").error(0, String::new());
            config.warnings = vec![warning; warnings];
            totals(&config)
        };
        assert_eq!(with(6, 0, 0, 3, false, 0), "6 DC zones, 3 regions, 9 zones");
        assert_eq!(with(1, 0, 0, 1, false, 1), "1 DC zone, 1 region, 2 zones, 1 warning");
        assert_eq!(with(1, 0, 0, 0, false, 2), "1 DC zone, 0 regions, 1 zone, 2 warnings");
        assert_eq!(with(1, 0, 0, 1, true, 0), "1 DC zone, 1 region, 1 catalog, 3 zones");
        assert_eq!(with(0, 1, 0, 0, false, 0), "0 DC zones, 2 zones from ZooKeeper, 0 regions, 2 zones");
        assert_eq!(with(0, 0, 1, 0, false, 0), "0 DC zones, 1 zone of our own, 0 regions, 1 zone");
    }
}

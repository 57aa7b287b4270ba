//! Changes that a reload has made, for the reply to the operator.
//!
//! Cost: O(configuration).

use crate::config::{Config, describe_cookies, describe_drain, describe_rate_limit, describe_tap, format_duration};
use crate::keeper::PlanChanges;
use crate::probe::ProbePlan;
use crate::rate_limit::RateLimitPlan;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use wire::name::Name;

/// Changes that a reload has made.
#[derive(Debug, Default, serde::Serialize)]
pub struct ReloadChanges {
    #[serde(flatten)]
    pub plan: PlanChanges,
    /// Zones that come from elsewhere, or in another way.
    pub primaries_changed: Vec<Name>,
    /// Drains of the configuration that are new, or have changed.
    drained: Vec<String>,
    /// Drains of the configuration that are gone, or had another form before.
    undrained: Vec<String>,
    /// Zones whose access rules for transfers have changed; new and removed zones are listed elsewhere.
    access_changed: Vec<Name>,
    /// Zones whose changes are announced to others than before.
    secondaries_changed: Vec<Name>,
    /// Keys that are new, gone, or have another secret.
    keys_changed: Vec<Name>,
    listeners_added: Vec<SocketAddr>,
    listeners_removed: Vec<SocketAddr>,
    /// The new control socket.
    pub control: Option<PathBuf>,
    /// The new schedule of audits, "never" for none.
    audit: Option<String>,
    /// New interval of the check of name servers, "never" for none; also given when another setting of the check has
    /// changed.
    probe: Option<String>,
    /// The new log level.
    log_level: Option<String>,
    /// Zones and regions whose sets are answered in another way than before, by size or by client; those that came or went, too.
    answers_changed: Vec<Name>,
    /// Resolvers whose EDNS Client Subnet is believed, where they are others than before.
    client_subnet_from: Option<String>,
    /// The limit on responses, where it has changed.
    rate_limit: Option<String>,
    /// Clients that the limit exempts, where they are others than before.
    rate_limit_exempt: Option<String>,
    /// Whether cookies are answered, and with which secret, where that has changed.
    cookies: Option<String>,
    /// Who gets copies of queries and responses, where that has changed.
    tap: Option<String>,
    /// Whose clients are whose, where that has changed.
    clients: Option<ClientChanges>,
    /// Certificates are read at every reload.
    certificate_read: bool,
    /// True if the log's format has changed, which takes effect only at the next start.
    log_format: bool,
    /// True if the state folder has changed, which takes effect only at the next start.
    state_folder: bool,
    /// True if the user or the sandbox has changed, which takes effect only at the next start.
    security: bool,
}

/// Changes of the table of clients.
#[derive(Debug, PartialEq, serde::Serialize)]
struct ClientChanges {
    /// Zones with clients that they did not have before, or have no more.
    homes: usize,
    prefixes_before: usize,
    prefixes: usize,
}

impl ReloadChanges {
    /// Compares two configurations. The caller adds the changes of the sources and of the control socket.
    pub fn between(old: &Config, new: &Config, plan: PlanChanges) -> ReloadChanges {
        let (before, after) = (listen_addresses(old), listen_addresses(new));
        let drains = |of: &Config, others: &Config| -> Vec<String> {
            of.drains.iter().filter(|drain| !others.drains.contains(drain)).map(describe_drain).collect()
        };
        ReloadChanges {
            plan,
            drained: drains(new, old),
            undrained: drains(old, new),
            answers_changed: differing(&old.answers, &new.answers, true),
            client_subnet_from: (new.client_subnet_from != old.client_subnet_from).then(|| {
                let resolvers: Vec<String> = new.client_subnet_from.iter().map(|prefix| prefix.to_string()).collect();
                if resolvers.is_empty() { "nobody".to_owned() } else { resolvers.join(", ") }
            }),
            rate_limit: (without_exempt(new) != without_exempt(old)).then(|| describe_rate_limit(&new.rate_limit)),
            rate_limit_exempt: (new.rate_limit.exempt != old.rate_limit.exempt).then(|| {
                let exempt = names(&new.rate_limit.exempt);
                if exempt.is_empty() { "nobody".to_owned() } else { exempt }
            }),
            cookies: (new.cookies != old.cookies).then(|| describe_cookies(&new.cookies)),
            tap: (new.tap != old.tap).then(|| describe_tap(&new.tap)),
            clients: (new.clients != old.clients).then(|| ClientChanges {
                homes: old.clients.count_changed(&new.clients),
                prefixes_before: old.clients.prefixes(),
                prefixes: new.clients.prefixes(),
            }),
            access_changed: differing(&old.outgoing, &new.outgoing, false),
            secondaries_changed: differing(&old.targets, &new.targets, false),
            keys_changed: differing(&old.keys, &new.keys, true),
            listeners_added: missing_from(&before, &after),
            listeners_removed: missing_from(&after, &before),
            audit: (new.audit != old.audit).then(|| new.audit.clone().unwrap_or_else(|| "never".to_owned())),
            probe: (without_zones(new) != without_zones(old)).then(|| {
                new.probe.every.map_or("never".to_owned(), |every| format!("every {}", format_duration(every)))
            }),
            log_level: (new.log.level != old.log.level).then(|| new.log.level.clone()),
            certificate_read: new.listen.tls.is_some() || new.control.https.is_some(),
            log_format: new.log.format != old.log.format,
            state_folder: new.state != old.state,
            security: new.security != old.security,
            ..ReloadChanges::default()
        }
    }

    /// The changes in words, one fact a line.
    pub fn describe(&self) -> String {
        let lines = self.lines();
        if lines.is_empty() { "reloaded; zones, regions and listeners are the same\n".into() } else { lines }
    }

    /// The changes that a reload would make, in the words that it would use.
    pub fn describe_ahead(&self) -> String {
        let lines = self.lines();
        if lines.is_empty() { "zones, regions and listeners stay the same\n".into() } else { lines }
    }

    /// One fact a line; nothing without changes.
    fn lines(&self) -> String {
        let happened = |happened: bool| if happened { " ".to_owned() } else { String::new() };
        let lists = [
            ("added", names(&self.plan.added)),
            ("removed", names(&self.plan.removed)),
            ("rebuilt", names(&self.plan.rebuilt)),
            ("pinned as before, which ends with \"aggregator rollback REGION --release\":", names(&self.plan.pinned)),
            ("no longer pinned, because they were removed:", names(&self.plan.unpinned)),
            ("no longer drained", self.undrained.join(", ")),
            ("drained", self.drained.join(", ")),
            ("transfers changed", names(&self.primaries_changed)),
            ("answers changed", names(&self.answers_changed)),
            ("EDNS Client Subnet is now believed of", self.client_subnet_from.clone().unwrap_or_default()),
            ("now", self.rate_limit.clone().unwrap_or_default()),
            ("the rate limit now exempts", self.rate_limit_exempt.clone().unwrap_or_default()),
            ("now", self.cookies.clone().unwrap_or_default()),
            ("now", self.tap.clone().unwrap_or_default()),
            ("clients changed of", self.clients.as_ref().map(ClientChanges::describe).unwrap_or_default()),
            ("who may transfer changed", names(&self.access_changed)),
            ("secondaries changed", names(&self.secondaries_changed)),
            ("keys changed", names(&self.keys_changed)),
            ("listening on", names(&self.listeners_added)),
            ("no longer listening on", names(&self.listeners_removed)),
            ("control socket is now", self.control.iter().map(|path| path.display().to_string()).collect()),
            ("audits are now", self.audit.clone().unwrap_or_default()),
            ("name servers are now looked at", self.probe.clone().unwrap_or_default()),
            ("the log level is now", self.log_level.clone().unwrap_or_default()),
            ("the certificate has been read again", happened(self.certificate_read)),
            ("the log keeps its format until the next start", happened(self.log_format)),
            ("the state folder stays what it is until the next start", happened(self.state_folder)),
            ("user and sandbox stay what they are until the next start", happened(self.security)),
        ];
        let told = lists.iter().filter(|(_, list)| !list.is_empty());
        told.map(|(what, list)| format!("{what} {list}").trim_end().to_owned() + "\n").collect()
    }
}

impl ClientChanges {
    /// The changes in words.
    fn describe(&self) -> String {
        let plural = if self.homes == 1 { "" } else { "s" };
        format!("{} home{plural}, prefixes {} -> {}", self.homes, self.prefixes_before, self.prefixes)
    }
}

/// The names whose values differ, in canonical order; those of one side only if asked for.
fn differing<V: PartialEq>(old: &HashMap<Name, V>, new: &HashMap<Name, V>, with_single: bool) -> Vec<Name> {
    let is_different = |name: &&Name| match (old.get(*name), new.get(*name)) {
        (Some(before), Some(after)) => before != after,
        _ => with_single,
    };
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    let mut names: Vec<Name> = new.keys().chain(gone).filter(is_different).cloned().collect();
    names.sort_by(Name::canonical_cmp);
    names
}

/// The probe's plan without its zones, which are listed elsewhere.
fn without_zones(config: &Config) -> ProbePlan {
    ProbePlan { zones: Vec::new(), ..config.probe.clone() }
}

/// The limit on responses without the clients that it exempts, which are listed elsewhere.
fn without_exempt(config: &Config) -> RateLimitPlan {
    RateLimitPlan { exempt: Vec::new(), ..config.rate_limit.clone() }
}

/// All addresses that a configuration listens on, for whatever.
fn listen_addresses(config: &Config) -> Vec<SocketAddr> {
    let tls = config.listen.tls.iter().flat_map(|tls| &tls.listen);
    let apis = config.apis.iter().flat_map(|api| &api.listen);
    config
        .listen
        .dns
        .iter()
        .chain(tls)
        .chain(&config.metrics.listen)
        .chain(apis)
        .chain(config.control.https_addresses())
        .copied()
        .collect()
}

/// The addresses of the second list that the first does not have.
fn missing_from(list: &[SocketAddr], addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    addresses.iter().copied().filter(|address| !list.contains(address)).collect()
}

/// Items in a row.
fn names<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_concerns_secondaries_is_told() {
        let parse = |text: &str| Config::parse(Path::new("c"), text).unwrap();
        let zones = "[server]\nname = \"ns.example\"\n[zones]\n\"a.example\" = \"192.0.2.1\"\n";
        let key = |name: &str| format!("[keys.\"{name}.example\"]\nsecret_file = \"k\"\n");
        let old = parse(&format!("{zones}{}", key("k")));
        let changed = format!(
            "{zones}\"b.example\" = \"192.0.2.1\"\n{}[secondaries]\nallow_transfer = [\"192.0.2.9\"]\n\
             notify = [{{ address = \"192.0.2.9\", key = \"l.example\" }}]\n[state]\nfolder = false\n",
            key("l")
        );
        let changes = ReloadChanges::between(&old, &parse(&changed), PlanChanges::default()).describe();
        let expected = "who may transfer changed a.example.\nsecondaries changed a.example.\n\
                        keys changed k.example., l.example.\nthe state folder stays what it is until the next start\n";
        assert_eq!(changes, expected);
        let same = ReloadChanges::between(&old, &old, PlanChanges::default()).describe();
        assert_eq!(same, "reloaded; zones, regions and listeners are the same\n");
    }
}

//! Which instances have names, and which are in service.
//!
//! Rules stand in five groups, of which later ones override earlier ones: what the instance reports and how it is, its
//! account, a name for its PTR records, the operator's own accounts, and the ends: disabled, or destroyed. Within a
//! group the first match is the reason.
//!
//! Invariants: pure; an instance that is in service has names; `soft` is true only where nothing but the instance's own
//! report keeps it out.
//!
//! Cost: O(octets of its tags).

use crate::config::Config;
use crate::model::{Account, Health, Metadata, Moment, Server, ServerStatus, State, Tag, TagValue, Vm};
use crate::tag::{self, Service};
use std::time::Duration;

/// Time after a start of a compute node for which its instances are not in service.
const SETTLING: Duration = Duration::from_secs(120);

/// Why an instance is as it is, in the order in which rules are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::EnumIter, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum Reason {
    UnknownOwner,
    UnknownServer,
    UnknownNetwork,
    NicMismatch,
    InvalidTag,
    InstEnFlag,
    CnDown,
    VmDown,
    UserEnFlag,
    UserNotApproved,
    Ptr,
    Admin,
    Poseidon,
    InstEnTag,
    Destroyed,
    InvalidName,
    InvalidPort,
    TooMany,
    LoginConflict,
    AliasConflict,
}

impl Reason {
    /// The word of an operator and of metrics.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A set of reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons(u32);

impl Reasons {
    /// Adds a reason.
    pub fn add(&mut self, reason: Reason) {
        self.0 |= 1 << reason as u8;
    }

    /// Adds a reason or takes it out.
    pub fn set(&mut self, reason: Reason, is_in: bool) {
        self.0 &= !(1 << reason as u8);
        if is_in {
            self.add(reason);
        }
    }

    /// Returns true if a reason is in the set.
    pub fn has(self, reason: Reason) -> bool {
        self.0 & (1 << reason as u8) != 0
    }

    /// The reasons in the order of the rules.
    pub fn iter(self) -> impl Iterator<Item = Reason> {
        use strum::IntoEnumIterator;
        Reason::iter().filter(move |reason| self.has(*reason))
    }

    /// Their words.
    pub fn words(self) -> Vec<&'static str> {
        self.iter().map(Reason::word).collect()
    }
}

/// What the rules say of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// It has names of its own.
    pub instance: bool,
    /// It is in service.
    pub service: bool,
    /// Only its own report keeps it out of service.
    pub soft: bool,
    /// The first reason of each group.
    pub first: Reasons,
    pub all: Reasons,
    /// Services that it declares; a role of the operator may repeat one.
    pub services: Vec<Service>,
    /// The target of its PTR records, if it has chosen one.
    pub ptr: Option<Box<str>>,
}

/// Judges an instance whose account, compute node and networks are known.
pub fn verdict(config: &Config, vm: &Vm, account: &Account, cn_down: bool, report: Option<Health>) -> Verdict {
    let mut said = Verdict { instance: true, service: true, ..Verdict::default() };
    let (services, faults) = services(config, vm, &account.login);
    (said.services, said.first, said.all) = (services, faults, faults);
    let operator = config.operator_logins.then_some(&*account.login);
    let status = vm.metadata.iter().find(|(key, _)| *key == Metadata::Status).map(|(_, value)| &**value);
    let is_out = match (report, status) {
        (Some(report), _) => report == Health::Down,
        (None, Some(status)) => status != "up",
        (None, None) => !config.missing_is_up,
    };
    let is_gone = is_destroyed(vm);
    let is_disabled = is_disabled(vm);
    let stopped = vm.state != State::Running;
    said.group(&[(is_out, Reason::InstEnFlag), (cn_down, Reason::CnDown), (stopped, Reason::VmDown)], |said| {
        said.service = false;
    });
    let (unwanted, unapproved) = (!account.cns_enabled, !account.approved);
    said.group(&[(unwanted, Reason::UserEnFlag), (unapproved, Reason::UserNotApproved)], |said| {
        (said.instance, said.service) = (false, false);
    });
    said.ptr = [Tag::ReversePtr, Tag::DockerReversePtr]
        .into_iter()
        .filter_map(|key| text(vm, key))
        .find(|name| tag::is_reverse_name(name))
        .map(Box::from);
    let has_ptr = said.ptr.is_some();
    said.group(&[(has_ptr, Reason::Ptr)], |said| said.instance = true);
    let serves = |login| operator == Some(login);
    let has_services = !said.services.is_empty();
    let forced =
        [(has_services && serves("admin"), Reason::Admin), (has_services && serves("poseidon"), Reason::Poseidon)];
    said.group(&forced, |said| (said.instance, said.service) = (true, true));
    said.group(&[(is_disabled, Reason::InstEnTag), (is_gone, Reason::Destroyed)], |said| {
        (said.instance, said.service) = (false, false);
    });
    let hard = cn_down || stopped || unwanted || unapproved || is_disabled || is_gone;
    said.soft = !said.service && is_out && !hard;
    said
}

/// The services that an instance declares, the role of an operator's one last, and the reasons why others are left out.
pub fn services(config: &Config, vm: &Vm, login: &str) -> (Vec<Service>, Reasons) {
    let (mut services, mut faults) = (Vec::new(), Reasons::default());
    let declared =
        text(vm, Tag::Services).or_else(|| absent(vm, Tag::Services).then(|| text(vm, Tag::DockerServices))?);
    match declared.map(tag::parse) {
        None => {}
        Some(Ok(parsed)) => {
            faults.set(Reason::InvalidName, parsed.invalid_name);
            faults.set(Reason::InvalidPort, parsed.invalid_port);
            faults.set(Reason::TooMany, parsed.too_many);
            services = parsed.services;
        }
        Some(Err(_)) => faults.add(Reason::InvalidTag),
    }
    let role = match config.operator_logins.then_some(login) {
        Some("admin") => text(vm, Tag::SmartdcRole).filter(|role| *role != "nat"),
        Some("poseidon") => text(vm, Tag::MantaRole).filter(|role| *role == "loadbalancer"),
        _ => None,
    };
    match role.map(tag::service_name) {
        None => {}
        Some(Some(name)) if services.len() <= tag::MOST_SERVICES => services.push(Service { name, ports: Vec::new() }),
        Some(Some(_)) => faults.add(Reason::TooMany),
        Some(None) => faults.add(Reason::InvalidName),
    }
    (services, faults)
}

impl Verdict {
    /// Takes one group of rules: the first match is its reason, any match has its effect.
    fn group(&mut self, rules: &[(bool, Reason)], effect: impl FnOnce(&mut Verdict)) {
        let mut matches = rules.iter().filter(|(matches, _)| *matches).map(|(_, reason)| *reason).peekable();
        if let Some(first) = matches.peek() {
            self.first.add(*first);
            matches.for_each(|reason| self.all.add(reason));
            effect(self);
        }
    }
}

/// Returns true if an instance has come to its end.
pub fn is_destroyed(vm: &Vm) -> bool {
    vm.destroyed || matches!(vm.state, State::Destroyed | State::Failed)
}

/// The moment at which a compute node was last known to run, and whether it is down now; with the moment at which that
/// changes by itself.
pub fn server_down(config: &Config, server: &Server, seen: Moment, now: Moment) -> (bool, Option<Moment>) {
    if !server.setup {
        return (true, None);
    }
    if config.upstream_cn_rules && server.last_heartbeat.is_none() {
        return (true, None);
    }
    if !config.upstream_cn_rules && server.status == ServerStatus::Rebooting {
        return (true, None);
    }
    // A start in the far future is that of a wrong clock.
    let settled = server.last_boot.filter(|boot| boot.since(now) < SETTLING).map(|boot| boot.plus(SETTLING));
    if let Some(settled) = settled.filter(|settled| *settled > now) {
        return (true, Some(settled));
    }
    if server.status == ServerStatus::Running {
        return (false, None);
    }
    let heard = match (server.last_heartbeat, config.upstream_cn_rules) {
        (Some(heartbeat), true) => heartbeat,
        (Some(heartbeat), false) if heartbeat <= now => heartbeat.max(seen),
        _ => seen,
    };
    let fails = heard.plus(config.cn_down_after);
    let is_down = now > fails || config.cn_down_after.is_zero();
    (is_down, (!is_down).then(|| fails.plus(Duration::from_millis(1))))
}

/// The text of a tag; none if it is absent or no text.
fn text(vm: &Vm, key: Tag) -> Option<&str> {
    vm.tags.iter().find(|(known, _)| *known == key).and_then(|(_, value)| match value {
        TagValue::Text(text) => Some(&**text),
        TagValue::Flag(_) | TagValue::Other => None,
    })
}

fn absent(vm: &Vm, key: Tag) -> bool {
    !vm.tags.iter().any(|(known, _)| *known == key)
}

fn is_disabled(vm: &Vm) -> bool {
    vm.tags.iter().any(|(key, value)| match key {
        Tag::Disable => *value != TagValue::Flag(false),
        Tag::DockerDisable => *value != TagValue::Flag(false) && *value != TagValue::Text("false".into()),
        _ => false,
    })
}

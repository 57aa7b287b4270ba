//! Page of an inventory: its accounts and services with their instances, what is held or undecided, and why.
//!
//! Invariant: whatever an inventory says of itself is text from strangers: it is escaped, and cut where it is long.
//!
//! Cost: as the inventory's survey; O(listed) to write.

use super::Shell;
use super::parts::{Cell, Grade, Mark, count, encode, short, time, when};
use crate::publish::Served;
use crate::source::inventory::{Membership, Survey, SurveyedAccount, SurveyedInstance, SurveyedService};
use crate::view::columns::{Column, Table, Value, table};
use crate::view::text::printable;
use askama::Template;

/// Accounts, services and instances on a page, each.
pub const LISTED: usize = 100;
/// Characters of a text that are shown.
const LONGEST_TEXT: usize = 100;

/// The page.
#[derive(Template)]
#[template(path = "instances.html")]
pub struct InstancesPage {
    shell: Shell,
    /// Name of the zone, and as part of an address.
    zone: String,
    encoded: String,
    inventory: String,
    /// Part of the names that are listed.
    wanted: String,
    instances: Table,
    instances_title: String,
    services: Table,
    services_title: String,
    accounts: Table,
    accounts_title: String,
}

/// A line of the page, with the zone as part of an address, and the present time.
struct Line<'r, T> {
    of: &'r T,
    zone: &'r str,
    now: i64,
}

impl InstancesPage {
    /// Shows what was found of the inventory of a zone by a part of a name.
    pub fn new(shell: Shell, served: &Served, wanted: &str, found: &Survey) -> InstancesPage {
        let (zone, now) = (short(&served.origin), shell.now);
        let encoded = encode(&zone);
        let kind = if wanted.is_empty() { "Held and undecided: " } else { "" };
        let instances = count(found.instances_found, "instance", "instances");
        InstancesPage {
            instances: instance_table(&found.instances, &encoded, now),
            instances_title: format!("{kind}{instances}{}", listed(found.instances.len(), found.instances_found)),
            services: service_table(&found.services, &encoded, now),
            services_title: title(found.services.len(), found.services_found, "service", "services"),
            accounts: account_table(&found.accounts, &encoded, now),
            accounts_title: title(found.accounts.len(), found.accounts_found, "account", "accounts"),
            inventory: text(&found.inventory),
            wanted: wanted.to_owned(),
            zone,
            encoded,
            shell,
        }
    }
}

/// Says how many there are of something.
fn title(shown: usize, found: u64, one: &str, many: &str) -> String {
    format!("{}{}", count(found, one, many), listed(shown, found))
}

/// Says how many of them are shown; nothing where these are all.
fn listed(shown: usize, found: u64) -> String {
    if (shown as u64) < found { format!(", the first {shown} of them") } else { String::new() }
}

/// Text of the inventory, with nothing in it but what can be shown.
fn text(text: &str) -> String {
    let mut characters = text.chars();
    let mut cut: String = characters.by_ref().take(LONGEST_TEXT).collect();
    if characters.next().is_some() {
        cut.push('…');
    }
    printable(&cut)
}

/// A link that finds what has a text in its name.
fn finds(zone: &str, wanted: &str) -> Value {
    let (query, told) = (encode(wanted), Cell::text(&text(wanted)));
    Value::Html(Cell(format!("<a href=\"/zone/{zone}/instances?name={query}\">{told}</a>")))
}

/// The name of an account: its login, or its UUID where that is all there is.
fn account(login: Option<&String>, uuid: Option<&String>, zone: &str) -> Value {
    login.or(uuid).map_or_else(Value::none, |name| finds(zone, name))
}

/// Writes accounts as a table.
fn account_table(accounts: &[SurveyedAccount], zone: &str, now: i64) -> Table {
    let columns: [Column<Line<'_, SurveyedAccount>>; 8] = [
        Column::page("Account", "", |line| account(line.of.login.as_ref(), Some(&line.of.uuid), line.zone)),
        Column::page("State", "", |line| {
            Value::Mark(match (&line.of.login, line.of.enabled) {
                (None, _) => Mark::new(Grade::Warn, "unknown"),
                (Some(_), true) => Mark::new(Grade::Good, "enabled"),
                (Some(_), false) => Mark::new(Grade::Told, "not enabled"),
            })
        }),
        Column::page("Instances", "number", |line| Value::Number(line.of.instances)),
        Column::page("With names", "number wide", |line| Value::Number(line.of.listed)),
        Column::page("In service", "number", |line| Value::Number(line.of.in_service)),
        Column::page("Held", "number", |line| Value::Number(line.of.held)),
        Column::page("Undecided", "number", |line| Value::Number(line.of.undecided)),
        Column::page("UUID", "wide", |line| Value::Text(line.of.uuid.clone())),
    ];
    table(&columns, accounts.iter().map(|of| Line { of, zone, now }), now)
}

/// Writes services as a table.
fn service_table(services: &[SurveyedService], zone: &str, now: i64) -> Table {
    let columns: [Column<Line<'_, SurveyedService>>; 5] = [
        Column::page("Service", "", |line| finds(line.zone, &line.of.service)),
        Column::page("Account", "", |line| account(line.of.login.as_ref(), Some(&line.of.account), line.zone)),
        Column::page("In service", "number", |line| Value::Number(line.of.in_service)),
        Column::page("Held", "number", |line| Value::Number(line.of.held)),
        Column::page("Out", "number", |line| Value::Number(line.of.out)),
    ];
    table(&columns, services.iter().map(|of| Line { of, zone, now }), now)
}

/// Writes instances as a table.
fn instance_table(instances: &[SurveyedInstance], zone: &str, now: i64) -> Table {
    let columns: [Column<Line<'_, SurveyedInstance>>; 6] = [
        Column::page("Instance", "", |line| {
            let instance = &line.of.instance;
            Value::Text(instance.alias.as_ref().map_or_else(|| instance.uuid.clone(), |alias| text(alias)))
        }),
        Column::page("Account", "", |line| account(line.of.login.as_ref(), line.of.account.as_ref(), line.zone)),
        Column::page("State", "", |line| Value::Html(state(line.of, line.now))),
        Column::page("Reasons", "", |line| Value::Text(line.of.instance.reasons.join(", "))),
        Column::page("Services", "", |line| {
            let services = line.of.instance.services.iter().take(LISTED).map(|one| membership(one, line.now).0);
            Value::Html(Cell(services.collect::<Vec<_>>().join("<br>")))
        }),
        Column::page("UUID", "wide", |line| Value::Text(line.of.instance.uuid.clone())),
    ];
    table(&columns, instances.iter().map(|of| Line { of, zone, now }), now)
}

/// The state of an instance, with the time since which it is undecided.
fn state(found: &SurveyedInstance, now: i64) -> Cell {
    let is_held = found.instance.services.iter().any(|service| service.state == "held");
    let (grade, word) = match found.instance.state {
        "undecided" => (Grade::Warn, "undecided"),
        _ if is_held => (Grade::Warn, "held"),
        "in service" => (Grade::Good, "in service"),
        word => (Grade::Told, word),
    };
    let since = found.undecided_since.map(|since| format!(" {}", time(since, now))).unwrap_or_default();
    Cell(format!("{}{since}", Mark::new(grade, word)))
}

/// An instance's part in a service.
fn membership(found: &Membership, now: i64) -> Cell {
    let Membership { service, state, since, until } = found;
    let mut told = format!("{} {state}", Cell::text(&text(service)));
    if since.is_some() {
        told += &format!(", reported down {}", when(*since, now));
    }
    if until.is_some() {
        told += &format!(", leaves {}", when(*until, now));
    }
    Cell(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::State;
    use crate::source::inventory::Instance;
    use wire::name::Name;

    #[test]
    fn what_an_inventory_says_is_escaped_and_cut() {
        let hostile = "<script>alert(1)</script>\u{1b}[2J\"'&";
        let membership = Membership { service: hostile.to_owned(), state: "held", since: Some(100), until: Some(300) };
        let found = Survey {
            inventory: hostile.to_owned(),
            accounts_found: 101,
            accounts: vec![SurveyedAccount {
                uuid: "u".to_owned(),
                login: Some(hostile.to_owned()),
                enabled: true,
                instances: 1,
                listed: 1,
                in_service: 1,
                held: 1,
                undecided: 0,
            }],
            services_found: 1,
            services: vec![SurveyedService {
                service: hostile.to_owned(),
                account: "u".to_owned(),
                login: Some(hostile.to_owned()),
                in_service: 0,
                held: 1,
                out: 0,
            }],
            instances_found: 1,
            instances: vec![SurveyedInstance {
                instance: Instance {
                    uuid: "v".to_owned(),
                    alias: Some(hostile.repeat(50)),
                    state: "listed",
                    reasons: vec!["inst_en_flag"],
                    services: vec![membership],
                },
                account: Some("u".to_owned()),
                login: Some(hostile.to_owned()),
                undecided_since: None,
            }],
        };
        let served = Served::new(Name::parse("dc1.test").unwrap(), State::Ok, None);
        let page = InstancesPage::new(Shell { now: 160, ..Shell::default() }, &served, "<script>alert(1)", &found);
        let page = page.render().unwrap();
        assert!(!page.contains("<script>alert") && !page.contains('\u{1b}'), "{page}");
        assert!(page.contains("101 accounts, the first 1 of them") && page.contains("1 instance<"), "{page}");
        assert!(page.contains("reported down <time") && page.contains(", leaves <time"), "{page}");
        assert!(page.contains('…') && page.contains("inst_en_flag"), "{page}");
    }
}

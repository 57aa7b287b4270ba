//! List of all zones and regions, a part at a time, and the search in it: where there are many, the overview has but the
//! first.
//!
//! Cost: O(zones) to choose, O(listed) to write.

use super::Shell;
use super::parts::{Cell, Mark, short};
use crate::publish::{Published, Served};
use crate::view::columns::{Column, Table, Value, table};
use askama::Template;
use std::sync::Arc;
use url::form_urlencoded::Serializer;

/// Zones on a page of the list.
const LISTED: usize = 100;

/// Part of the list.
#[derive(Template)]
#[template(path = "zones.html")]
pub struct ZoneList {
    shell: Shell,
    /// Part of the names that are listed.
    wanted: String,
    found: usize,
    zones: Table,
    before: Option<String>,
    after: Option<String>,
}

impl ZoneList {
    /// Lists the zones whose names have this part, from the page with this number.
    pub fn new(shell: Shell, published: &Published, wanted: &str, page: usize) -> ZoneList {
        let part = wanted.to_ascii_lowercase();
        let mut found: Vec<&Arc<Served>> =
            published.iter().filter(|served| short(&served.origin).to_ascii_lowercase().contains(&part)).collect();
        found.sort_unstable_by(|a, b| a.origin.canonical_cmp(&b.origin));
        let last = found.len().saturating_sub(1) / LISTED;
        let page = page.min(last);
        let columns: [Column<&Arc<Served>>; 4] = [
            Column::page("Zone", "", |served| Value::Name(served.origin.clone())),
            Column::page("State", "", |served| Value::Mark(Mark::of_state(served.state))),
            Column::page("Serial", "number", |served| Value::Serial(served.zone.as_ref().map(|zone| zone.soa.serial))),
            Column::page("Records", "number", |served| {
                Value::Number(served.zone.as_ref().map_or(0, |zone| zone.records))
            }),
        ];
        let listed = found.iter().copied().skip(page * LISTED).take(LISTED);
        let zones = table(&columns, listed, shell.now);
        let address = |page: usize| address(wanted, page);
        ZoneList {
            zones,
            found: found.len(),
            before: page.checked_sub(1).map(address),
            after: (page < last).then(|| address(page + 1)),
            wanted: wanted.to_owned(),
            shell,
        }
    }

    /// Says how many zones there are.
    fn count(&self) -> Cell {
        Cell::text(&super::parts::count(self.found, "zone", "zones"))
    }
}

/// The address of a page of the list.
fn address(wanted: &str, page: usize) -> String {
    let mut query = Serializer::new(String::new());
    if !wanted.is_empty() {
        query.append_pair("name", wanted);
    }
    format!("/zones?{}", query.append_pair("page", &page.to_string()).finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::{Identity, State};
    use wire::name::Name;

    #[test]
    fn all_zones_are_listed_a_part_at_a_time_and_found_by_name() {
        let zone = |number: usize| {
            let origin = Name::parse(&format!("Z{number:04}.dc-{}.x", number % 50)).unwrap();
            Arc::new(Served::new(origin, State::NotReady, None))
        };
        let published = Published::new(Identity::default(), (0..250).map(zone), 1);
        let list = |wanted: &str, page: usize| {
            let list = ZoneList::new(Shell::default(), &published, wanted, page);
            let rows = list.zones.to_string().matches("scope=\"row\"").count();
            (list.found, rows, list.before.is_some(), list.after.is_some())
        };
        assert_eq!(list("", 0), (250, 100, false, true));
        assert_eq!(list("", 2), (250, 50, true, false));
        assert_eq!(list("", 99), (250, 50, true, false), "the last page instead");
        assert_eq!(list("DC-7.x", 0), (5, 5, false, false));
        assert_eq!(list("none", 0), (0, 0, false, false));
        let page = ZoneList::new(Shell::default(), &published, "<b>", 0).render().unwrap();
        assert!(page.contains("0 zones") && !page.contains("<b>"), "{page}");
    }

    #[test]
    fn addresses_carry_the_search() {
        assert_eq!(address("", 2), "/zones?page=2");
        assert_eq!(address("a b&c", 0), "/zones?name=a+b%26c&page=0");
    }
}

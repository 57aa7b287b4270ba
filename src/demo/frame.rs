//! Picture of the demonstration at one moment, as lines of text.
//!
//! Invariants: no line is longer than the width that was asked for; without colour there is no escape sequence in it.
//! Pure. Cost: O(addresses).

use super::client::Answer;
use super::steering::Place;
use crate::terminal::{Style, render};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use wire::name::Name;
use wire::serial::Serial;

/// Columns that a picture never exceeds.
pub const WIDTH: usize = 100;
/// Columns in front of what an answer holds.
const INDENT: usize = 6;

/// One datacenter in the picture.
pub struct SiteRow {
    pub label: String,
    pub address: SocketAddr,
    pub is_away: bool,
    /// Serial at the primary.
    pub serial: Serial,
    /// Serial at the aggregator.
    pub served: Option<Serial>,
}

/// The client of one datacenter in the picture.
pub struct ClientRow {
    /// The label of its datacenter.
    pub label: String,
    pub subnet: String,
    /// The datacenter that serves it.
    pub served: String,
    pub place: Place,
}

/// State of the demonstration at one moment, ready to be drawn.
pub struct Picture<'a> {
    pub elapsed: Duration,
    pub limit: Option<Duration>,
    pub sites: Vec<SiteRow>,
    pub region: String,
    pub region_serial: Option<Serial>,
    pub clients: Vec<ClientRow>,
    /// Changes made and followed.
    pub counts: (usize, usize),
    /// Time for which the newest change has been waiting; none if no change waits.
    pub waiting: Option<Duration>,
    pub is_clean: bool,
    pub service: &'a Name,
    pub answer: Option<&'a Answer>,
}

impl Picture<'_> {
    /// Draws at most `height` lines with the events last; those give way first, the oldest before the newer.
    pub fn draw(&self, events: &[String], width: usize, height: usize, color: bool) -> Vec<String> {
        let width = width.min(WIDTH);
        let mut lines = vec![self.title()];
        lines.push(vec![(Style::Dim, row(["DATACENTER", "PRIMARY", "AT PRIMARY", "SERVED"]))]);
        lines.extend(self.sites.iter().map(draw_site));
        lines.push(self.draw_region());
        lines.push(vec![(Style::Dim, client_row(["CLIENT OF", "SUBNET", "SERVED BY"]))]);
        lines.extend(self.clients.iter().map(|client| self.draw_client(client)));
        lines.push(vec![(Style::Bold, without_root(&self.service.to_string()))]);
        self.draw_answer(width, &mut lines);
        let room = height.saturating_sub(lines.len());
        let skipped = events.len().saturating_sub(room);
        lines.extend(events[skipped..].iter().map(|event| vec![(Style::Plain, event.clone())]));
        lines.truncate(height);
        lines.iter().map(|line| render(line, width, color)).collect()
    }

    /// The head of the picture.
    fn title(&self) -> Vec<(Style, String)> {
        let time = match self.limit {
            Some(limit) => format!("{} s of {} s", self.elapsed.as_secs(), limit.as_secs_f64()),
            None => format!("{} s, Ctrl-C ends", self.elapsed.as_secs()),
        };
        vec![(Style::Bold, "aggregator demo".to_string()), (Style::Plain, format!("  {time}"))]
    }

    /// The lines of the region and its service.
    fn draw_region(&self) -> Vec<(Style, String)> {
        let serial = self.region_serial.map_or("-".to_string(), |serial| serial.to_string());
        let (made, followed) = self.counts;
        let (style, state) = match self.waiting {
            Some(waiting) => (Style::Warning, format!("change under way for {:.1} s", waiting.as_secs_f64())),
            None if self.is_clean => (Style::Good, format!("{followed} of {made} changes followed")),
            None => (Style::Warning, format!("only {followed} of {made} changes followed, or answers were wrong")),
        };
        vec![(Style::Bold, row([&self.region, "region", "", &serial])), (style, state)]
    }

    /// The line of one client.
    fn draw_client(&self, client: &ClientRow) -> Vec<(Style, String)> {
        let ago = |since: Duration| self.elapsed.saturating_sub(since);
        let verb = if client.served == client.label { "home" } else { "moved" };
        let (style, remark) = match client.place {
            Place::Right { since, took: None } => (Style::Good, format!("for {} s", ago(since).as_secs())),
            Place::Right { since, took: Some(took) } => {
                let (seconds, took) = (ago(since).as_secs(), took.as_secs_f64());
                (Style::Good, format!("for {seconds} s, {verb} in {took:.1} s"))
            }
            Place::Moving { since, .. } => (Style::Warning, format!("moving for {:.1} s", ago(since).as_secs_f64())),
            Place::Lost => (Style::Bad, "wrong".to_string()),
        };
        vec![(Style::Plain, client_row([&client.label, &client.subnet, &client.served])), (style, remark)]
    }

    /// Adds what the service name answers with.
    fn draw_answer(&self, width: usize, lines: &mut Vec<Vec<(Style, String)>>) {
        let Some(answer) = self.answer else {
            lines.push(vec![(Style::Warning, "  no answer".to_string())]);
            return;
        };
        for (kind, is_v4) in [("A", true), ("AAAA", false)] {
            let addresses = answer.addresses.iter().filter(|address| address.is_ipv4() == is_v4);
            wrap(kind, addresses.map(|address| address.to_string()), width, lines);
        }
        // Targets of one datacenter have everything but their first label in common.
        let mut groups: BTreeMap<(&str, u16), Vec<&str>> = BTreeMap::new();
        for (host, port) in &answer.targets {
            let (first, rest) = host.split_once('.').unwrap_or((host, ""));
            groups.entry((rest, *port)).or_default().push(first);
        }
        let groups = groups
            .into_iter()
            .map(|((rest, port), firsts)| format!("{port} {{{}}}.{}", firsts.join(","), without_root(rest)));
        for (index, group) in groups.enumerate() {
            wrap(if index == 0 { "SRV" } else { "" }, [group].into_iter(), width, lines);
        }
    }
}

/// The line of one datacenter.
fn draw_site(site: &SiteRow) -> Vec<(Style, String)> {
    let served = site.served.map_or("-".to_string(), |serial| serial.to_string());
    let cells = row([&site.label, &site.address.to_string(), &site.serial.to_string(), &served]);
    let (style, remark) = match (site.is_away, site.served == Some(site.serial)) {
        (true, _) => (Style::Warning, "AWAY, last good copy"),
        (false, true) => (Style::Good, "in step"),
        (false, false) => (Style::Warning, "behind"),
    };
    vec![(Style::Plain, cells), (style, remark.to_string())]
}

/// Sets cells in columns: a datacenter, its primary, and the two serials.
fn row(cells: [&str; 4]) -> String {
    let [name, address, there, here] = cells;
    format!("{name:<12}{address:<18}{there:<12}{here:<12}")
}

/// Sets cells in columns: a datacenter, its client, and who serves it.
fn client_row(cells: [&str; 3]) -> String {
    let [home, subnet, served] = cells;
    format!("{home:<12}{subnet:<18}{served:<12}")
}

/// Sets words in as many lines as they need.
fn wrap(kind: &str, words: impl Iterator<Item = String>, width: usize, lines: &mut Vec<Vec<(Style, String)>>) {
    let (mut head, mut text) = (kind, String::new());
    let mut flush = |text: &mut String| {
        let head = std::mem::take(&mut head);
        lines.push(vec![(Style::Dim, format!("  {head:<INDENT$}")), (Style::Plain, std::mem::take(text))]);
    };
    for word in words {
        if !text.is_empty() && 2 + INDENT + text.len() + 1 + word.len() > width {
            flush(&mut text);
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&word);
    }
    if !text.is_empty() {
        flush(&mut text);
    }
}

/// A name without its final dot.
pub fn without_root(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(width: usize, height: usize, color: bool) -> Vec<String> {
        let site = |number: u8| SiteRow {
            label: format!("us-west-{number}"),
            address: SocketAddr::from(([127, 0, 0, 1], 65_000)),
            is_away: number == 2,
            serial: Serial(u32::MAX),
            served: Some(Serial(u32::MAX - 1)),
        };
        let client = |(number, served, place): (u8, &str, Place)| ClientRow {
            label: format!("us-west-{number}"),
            subnet: format!("10.{number}.0.0/24"),
            served: served.to_string(),
            place,
        };
        let millis = Duration::from_millis;
        let first = Place::Right { since: millis(100), took: None };
        let moved = Place::Right { since: millis(6_100), took: Some(millis(2_140)) };
        let back = Place::Right { since: millis(5_000), took: Some(millis(160)) };
        let mut answer = Answer::default();
        for host in 100..116_u8 {
            answer.addresses.insert([198, 51, 100, host].into());
            let target = format!("web-{host}.inst.acme.us-west-{}.cns.example.com.", host % 3);
            answer.targets.insert((target, 8080));
        }
        answer.addresses.insert("2001:db8::1".parse().unwrap());
        let service = Name::parse("web.svc.acme.us-west.cns.example.com").unwrap();
        let picture = Picture {
            elapsed: Duration::from_millis(7_900),
            limit: Some(Duration::from_secs(20)),
            sites: (1..=3).map(site).collect(),
            region: "us-west".into(),
            region_serial: Some(Serial(7)),
            clients: [(1, "us-west-1", first), (2, "us-west-1", moved), (3, "us-west-3", back)].map(client).into(),
            counts: (3, 2),
            waiting: Some(Duration::from_millis(340)),
            is_clean: true,
            service: &service,
            answer: Some(&answer),
        };
        picture.draw(&["first".into(), "x".repeat(200), "last".into()], width, height, color)
    }

    #[test]
    fn everything_is_in_the_picture() {
        let lines = draw(500, 50, false);
        let text = lines.join("\n");
        assert!(lines[0] == "aggregator demo  7 s of 20 s", "{text}");
        let away = "us-west-2   127.0.0.1:65000   4294967295  4294967294  AWAY, last good copy";
        assert!(lines.contains(&format!("{:<42}{:<12}change under way for 0.3 s", "us-west     region", 7)), "{text}");
        assert!(lines.contains(&away.to_string()), "{text}");
        let clients = "CLIENT OF   SUBNET            SERVED BY\n\
                       us-west-1   10.1.0.0/24       us-west-1   for 7 s\n\
                       us-west-2   10.2.0.0/24       us-west-1   for 1 s, moved in 2.1 s\n\
                       us-west-3   10.3.0.0/24       us-west-3   for 2 s, home in 0.2 s\n";
        assert!(text.contains(clients), "{text}");
        assert!(text.contains("\n  A     198.51.100.100 198.51.100.101 "), "{text}");
        assert!(text.contains("\n  AAAA  2001:db8::1\n"), "{text}");
        assert!(text.contains("\n  SRV   8080 {web-102,web-105,"), "{text}");
        assert!(text.ends_with("\nlast"), "{text}");
        assert_eq!(text.matches("198.51.100.").count(), 16);
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn no_line_is_too_long_and_no_picture_too_high() {
        for width in [10, 40, 80, 100, 300] {
            assert!(draw(width, 50, false).iter().all(|line| line.chars().count() <= width.min(WIDTH)));
        }
        let full = draw(100, 50, false).len();
        let lines = draw(100, full - 2, false);
        assert_eq!((lines.len(), lines.last().unwrap().as_str()), (full - 2, "last"), "older events give way");
        assert_eq!(draw(100, 3, false).len(), 3);
        assert!(draw(100, 50, true).join("").contains("\x1b[33mAWAY"));
    }
}

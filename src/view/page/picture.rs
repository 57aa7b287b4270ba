//! Picture of what leads where: datacenters, the regions that they are members of, and the servers that have copies of
//! those, with how far each is behind at the line that leads there.
//!
//! It is SVG, laid out here; its nodes are links. Where there are more nodes than a picture can show, the worst are in
//! it, and the sentence below tells how many are not.
//!
//! Invariants: a line that is as it should be has its label only where there are few lines; states are told by words and
//! by the form of lines as well as by colours.
//!
//! Cost: O(datacenters + members of all regions + secondaries).

use super::parts::{Cell, Grade, count, number, short, zone_href};
use crate::view::datacenters::{Datacenter, datacenters};
use crate::view::outward::{behind, newest};
use crate::view::report::{RegionReport, Report};
use crate::view::secondaries::SecondaryReport;
use crate::view::text::time_since;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::net::SocketAddr;
use wire::name::Name;
use wire::serial::Serial;

/// Nodes of a column.
const MOST: usize = 24;
/// Lines that all have labels.
const FEW: usize = 30;
/// Size of a node, and distances, in units of the picture.
const WIDTH: usize = 210;
const HEIGHT: usize = 30;
const GAP: usize = 10;
const BETWEEN: usize = 185;
/// Characters of a node's title, and of the head of a column, that have room.
const ROOM: usize = 27;
const HEAD_ROOM: usize = 50;
/// Height of the heads of the columns.
const HEAD: usize = 24;

/// A node of the picture.
struct Node {
    title: String,
    /// Its page, if it has one.
    href: Option<String>,
    grade: Grade,
}

/// A line to a node of the next column, by their numbers in their columns.
struct Edge {
    from: usize,
    to: usize,
    grade: Grade,
    label: String,
}

/// A server that has copies: its title, and how it stands with each region.
#[derive(Default)]
struct Server<'r> {
    title: String,
    regions: Vec<(&'r Name, Grade, String)>,
}

/// The picture of all regions, or of one, on a server with a name.
pub fn picture(report: &Report, server_name: &str, only: Option<&Name>) -> Cell {
    let wanted = |region: &Name| only.is_none_or(|only| only == region);
    let centers: Vec<(String, Datacenter<'_>)> = datacenters(report)
        .into_iter()
        .filter(|(_, center)| center.memberships.iter().any(|one| wanted(&one.region.kept.region)))
        .collect();
    let regions: Vec<&RegionReport> = report.regions.iter().filter(|region| wanted(&region.kept.region)).collect();
    if regions.is_empty() {
        return Cell::default();
    }
    let servers = servers(report, &regions);
    let (centers, hidden_centers) = worst(centers, |(_, center)| center.mark().grade);
    let (regions, hidden_regions) = worst(regions, |region| region_grade(region));
    let (servers, hidden_servers) = worst(servers, Server::grade);
    let numbers: HashMap<&Name, usize> =
        regions.iter().enumerate().map(|(number, region)| (&region.kept.region, number)).collect();
    let center = |(label, center): &(String, Datacenter<'_>)| Node {
        title: label.clone(),
        href: Some(format!("/datacenter/{}", super::parts::encode(label))),
        grade: center.mark().grade,
    };
    let region = |region: &&RegionReport| Node {
        title: short(&region.kept.region),
        href: Some(zone_href(&region.kept.region)),
        grade: region_grade(region),
    };
    let server = |server: &Server<'_>| Node { title: server.title.clone(), href: None, grade: server.grade() };
    let columns: [Vec<Node>; 3] = [
        centers.iter().map(center).collect(),
        regions.iter().map(region).collect(),
        servers.iter().map(server).collect(),
    ];
    let mut edges: [Vec<Edge>; 2] = Default::default();
    for (from, (_, center)) in centers.iter().enumerate() {
        for one in &center.memberships {
            let Some(to) = numbers.get(&one.region.kept.region) else { continue };
            let (mark, there) = (one.mark(), one.zone.and_then(|zone| zone.newest_at_primary()));
            let label = match behind(one.member.serial, there) {
                Some(serials) => format!("{} behind", number(serials)),
                None if mark.grade == Grade::Good => "current".to_owned(),
                None => mark.text,
            };
            edges[0].push(Edge { from, to: *to, grade: mark.grade, label });
        }
    }
    for (to, server) in servers.iter().enumerate() {
        for (region, grade, label) in &server.regions {
            let Some(from) = numbers.get(*region) else { continue };
            edges[1].push(Edge { from: *from, to, grade: *grade, label: label.clone() });
        }
    }
    let hidden = [
        (hidden_centers, "datacenter", "datacenters"),
        (hidden_regions, "region", "regions"),
        (hidden_servers, "server with copies", "servers with copies"),
    ];
    draw(server_name, &columns, &edges, &hidden)
}

/// The nodes of a column, the worst first where there are too many, and the number of those left out.
fn worst<T>(mut nodes: Vec<T>, grade: impl Fn(&T) -> Grade) -> (Vec<T>, usize) {
    let hidden = nodes.len().saturating_sub(MOST);
    if hidden > 0 {
        nodes.sort_by_key(|node| Reverse(grade(node)));
        nodes.truncate(MOST);
    }
    (nodes, hidden)
}

/// The grade of a region without its members', whose lines tell that.
fn region_grade(region: &RegionReport) -> Grade {
    super::parts::Mark::of_state(region.kept.state).grade
}

impl Server<'_> {
    fn grade(&self) -> Grade {
        self.regions.iter().map(|(_, grade, _)| *grade).max().unwrap_or_default()
    }
}

/// Secondaries that are told of changes, and the name servers that were found, each once.
fn servers<'r>(report: &'r Report, regions: &[&'r RegionReport]) -> Vec<Server<'r>> {
    let mut found = BTreeMap::<SocketAddr, Server<'_>>::new();
    for region in regions {
        let (name, here) = (&region.kept.region, region.kept.serial);
        for secondary in &region.outward.secondaries {
            let address = secondary.status.address;
            let server =
                found.entry(address).or_insert_with(|| Server { title: address.to_string(), ..Server::default() });
            let (grade, label) = follows(secondary, here);
            server.regions.push((name, grade, label));
        }
        let Some(probed) = report.name_servers.iter().find(|probed| probed.check.zone == *name) else { continue };
        for checked in &probed.check.servers {
            let (Some(address), Some(host)) = (checked.address, &checked.name) else { continue };
            let server = found.entry(address).or_default();
            server.title = format!("{} {}", short(host), address.ip());
            // What a secondary has said itself is newer than the last look at it.
            if server.regions.last().is_some_and(|(known, ..)| *known == name) {
                continue;
            }
            let fault = checked.findings.first().map(|finding| (Grade::Warn, finding.problem.label().to_owned()));
            let late = behind(checked.serial, here).map(|serials| (Grade::Good, format!("{} behind", number(serials))));
            let (grade, label) = fault.or(late).unwrap_or_else(|| (Grade::Good, "current".to_owned()));
            server.regions.push((name, grade, label));
        }
    }
    found.into_values().collect()
}

/// How a secondary follows a region.
fn follows(secondary: &SecondaryReport, here: Option<Serial>) -> (Grade, String) {
    let Some(since) = secondary.behind_since else { return (Grade::Good, "current".to_owned()) };
    let grade = if secondary.is_late() { Grade::Warn } else { Grade::Good };
    let has = newest([secondary.status.acknowledged, secondary.status.fetched].into_iter().flatten());
    let serials = behind(has, here).map_or_else(String::new, |serials| format!("{} ", number(serials)));
    (grade, format!("{serials}behind for {}", time_since(since)))
}

/// Draws columns of nodes, and lines between neighbours.
fn draw(server_name: &str, columns: &[Vec<Node>; 3], edges: &[Vec<Edge>; 2], hidden: &[(usize, &str, &str)]) -> Cell {
    let most = columns.iter().map(Vec::len).max().unwrap_or_default().max(1);
    let (width, height) = (3 * WIDTH + 2 * BETWEEN, HEAD + most * (HEIGHT + GAP) + GAP);
    // Columns that are shorter stand in the middle.
    let top = |column: usize, row: usize| {
        let room = (most - columns[column].len()) * (HEIGHT + GAP) / 2;
        HEAD + GAP + room + row * (HEIGHT + GAP)
    };
    let left = |column: usize| column * (WIDTH + BETWEEN);
    let lines: usize = edges.iter().map(Vec::len).sum();
    let sentence = format!(
        "{}, {}, {}",
        count(columns[0].len(), "datacenter", "datacenters"),
        count(columns[1].len(), "region", "regions"),
        count(columns[2].len(), "server with copies", "servers with copies")
    );
    let mut svg =
        format!("<svg class=\"picture\" viewBox=\"0 0 {width} {height}\" role=\"group\" aria-label=\"{sentence}\">");
    let mut labels = String::new();
    let few = if lines <= FEW { " few" } else { "" };
    for (column, edges) in edges.iter().enumerate() {
        // The worst lie above the others.
        let mut edges: Vec<&Edge> = edges.iter().collect();
        edges.sort_by_key(|edge| edge.grade);
        for edge in edges {
            let (x, to_x) = (left(column) + WIDTH, left(column + 1));
            let (y, to_y) = (top(column, edge.from) + HEIGHT / 2, top(column + 1, edge.to) + HEIGHT / 2);
            let (bend, class) = (BETWEEN / 2, edge.grade.class());
            let label = Cell::text(&edge.label);
            let title = format!(
                "{} to {}: {}",
                columns[column][edge.from].title,
                columns[column + 1][edge.to].title,
                edge.label
            );
            let title = Cell::text(&title);
            // Writing into a String cannot fail.
            _ = write!(
                svg,
                "<path class=\"line {class}{few}\" d=\"M{x} {y}C{} {y} {} {to_y} {to_x} {to_y}\"><title>{title}</title></path>",
                x + bend,
                to_x - bend
            );
            if lines <= FEW || edge.grade != Grade::Good {
                let (x, y) = middle(x, y, to_x, to_y);
                _ = write!(labels, "<text class=\"label {class}\" x=\"{x}\" y=\"{y}\">{label}</text>");
            }
        }
    }
    svg.push_str(&labels);
    let heads = ["Datacenters".to_owned(), format!("Regions on {server_name}"), "Servers with copies".to_owned()];
    for (column, head) in heads.iter().enumerate().filter(|(column, _)| !columns[*column].is_empty()) {
        let (x, head) = (left(column) + WIDTH / 2, Cell::text(&cut(head, HEAD_ROOM)));
        _ = write!(svg, "<text class=\"head\" x=\"{x}\" y=\"{}\">{head}</text>", HEAD - GAP / 2);
    }
    for (column, nodes) in columns.iter().enumerate() {
        for (row, node) in nodes.iter().enumerate() {
            let (x, y) = (left(column), top(column, row));
            draw_node(&mut svg, node, x, y);
        }
    }
    svg.push_str("</svg>");
    let hidden: Vec<String> =
        hidden.iter().filter(|(hidden, ..)| *hidden > 0).map(|(hidden, one, many)| count(*hidden, one, many)).collect();
    if !hidden.is_empty() {
        _ = write!(svg, "<p class=\"muted\">And {} more; the worst are shown.</p>", hidden.join(", "));
    }
    Cell(svg)
}

/// The place of a line's label: before its middle, where lines from one node have parted and those to one have not met.
fn middle(x: usize, y: usize, to_x: usize, to_y: usize) -> (usize, usize) {
    const SHARE: f64 = 0.42;
    // The line is a cubic curve with level ends: its height goes as 3t² − 2t³.
    let risen = SHARE * SHARE * (3.0 - 2.0 * SHARE);
    let height = y as f64 + (to_y as f64 - y as f64) * risen;
    (x + ((to_x - x) as f64 * SHARE) as usize, height.round() as usize + 4)
}

/// A title, cut where it has more characters than there is room for.
fn cut(whole: &str, room: usize) -> String {
    let mut title: String = whole.chars().take(room).collect();
    if title.len() < whole.len() {
        title.pop();
        title.push('…');
    }
    title
}

/// Draws a node: a box with a mark of its state and its title, cut where it has no room.
fn draw_node(svg: &mut String, node: &Node, x: usize, y: usize) {
    let (title, whole, class) = (Cell::text(&cut(&node.title, ROOM)), Cell::text(&node.title), node.grade.class());
    let (open, close) = match &node.href {
        Some(href) => (format!("<a href=\"{href}\">"), "</a>"),
        None => ("<g>".to_owned(), "</g>"),
    };
    // Writing into a String cannot fail.
    _ = write!(
        svg,
        "{open}<title>{whole}</title><rect class=\"node {class}\" x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\"/>\
         <svg class=\"{class}\" x=\"{}\" y=\"{}\" width=\"13\" height=\"13\" viewBox=\"0 0 16 16\" aria-hidden=\"true\">{}</svg>\
         <text x=\"{}\" y=\"{}\">{title}</text>{close}",
        x + 8,
        y + 9,
        node.grade.shape(),
        x + 26,
        y + 20
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_cut_escaped_and_linked() {
        let node = |title: &str, href: Option<&str>| Node {
            title: title.to_owned(),
            href: href.map(str::to_owned),
            grade: Grade::Warn,
        };
        let mut svg = String::new();
        draw_node(&mut svg, &node("a-very-long-name-of-a-region.example.com", Some("/zone/a")), 0, 0);
        assert!(svg.contains("<a href=\"/zone/a\">") && svg.contains(">a-very-long-name-of-a-regi…<"), "{svg}");
        svg.clear();
        draw_node(&mut svg, &node("<b>", None), 0, 0);
        assert!(svg.starts_with("<g>") && svg.contains("&#60;b&#62;") && !svg.contains("<b>"), "{svg}");
    }

    #[test]
    fn the_worst_are_shown() {
        let grades: Vec<Grade> = (0..40).map(|number| if number == 39 { Grade::Bad } else { Grade::Good }).collect();
        let (shown, hidden) = worst(grades, |grade| *grade);
        assert_eq!((shown.len(), shown[0], hidden), (MOST, Grade::Bad, 16));
        assert_eq!(worst(vec![Grade::Good, Grade::Bad], |grade| *grade), (vec![Grade::Good, Grade::Bad], 0));
    }
}

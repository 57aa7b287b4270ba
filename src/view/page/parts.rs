//! The small parts that pages are made of: marks, times, links, numbers and sparklines, each as HTML.
//!
//! Invariants: text from elsewhere is escaped; a state is told by a word and a shape, never by colour alone; a picture
//! says in words what it shows.
//!
//! Cost: O(text).

use crate::publish::State;
use crate::view::text;
use askama::filters::{Escaper, Html, HtmlSafe};
use indicatif::{BinaryBytes, HumanCount};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::{self, Display, Formatter, Write};
use url::form_urlencoded::byte_serialize;
use wire::name::Name;
use wire::serial::Serial;

//--- Marks ---

/// Severity of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// State as it should be.
    #[default]
    Good,
    /// State that somebody has ordered.
    Told,
    /// Worth a look.
    Warn,
    /// Clients notice it, or soon will.
    Bad,
}

impl Grade {
    /// The class of the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            Grade::Good => "good",
            Grade::Told => "told",
            Grade::Warn => "warn",
            Grade::Bad => "bad",
        }
    }

    /// A shape of its own for each, for those who do not see the colour.
    pub fn shape(self) -> &'static str {
        match self {
            Grade::Good => "<circle cx='8' cy='8' r='5'/>",
            Grade::Told => "<path d='M3 3h10v10H3zM6 5v6h1.5V5zM8.5 5v6H10V5z' fill-rule='evenodd'/>",
            Grade::Warn => "<path d='M8 2l6.5 12h-13zM7.2 6v4h1.6V6zm0 5v1.6h1.6V11z' fill-rule='evenodd'/>",
            Grade::Bad => {
                "<path d='M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2l-3.7-3.7V5.2zm.5 3.1L4.6 5.7 6.9 8l-2.3 2.3 1.1 1.1L8 9.1l2.3 2.3 1.1-1.1L9.1 8l2.3-2.3-1.1-1.1L8 6.9z' fill-rule='evenodd'/>"
            }
        }
    }
}

/// A state: a word with its shape and colour.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    pub grade: Grade,
    pub text: String,
}

impl Mark {
    /// A word with a grade.
    pub fn new(grade: Grade, text: impl Into<String>) -> Mark {
        Mark { grade, text: text.into() }
    }

    /// The state of a zone or region.
    pub fn of_state(state: State) -> Mark {
        let grade = if state == State::Ok { Grade::Good } else { Grade::Bad };
        Mark::new(grade, state.label())
    }

    /// The state of a member, as [`MemberStatus::STATES`](crate::keeper::MemberStatus::STATES) has it.
    pub fn of_member(state: &'static str) -> Mark {
        let grade = match state {
            "ok" => Grade::Good,
            "drained" => Grade::Told,
            "stale" => Grade::Warn,
            _ => Grade::Bad,
        };
        Mark::new(grade, state)
    }
}

impl Display for Mark {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (class, shape) = (self.grade.class(), self.grade.shape());
        write!(f, "<span class=\"mark {class}\"><svg viewBox=\"0 0 16 16\" aria-hidden=\"true\">{shape}</svg>")?;
        write!(f, "{}</span>", Cell::text(&self.text))
    }
}

impl HtmlSafe for Mark {}

//--- Times ---

/// A moment, seen from the present one, which scripts keep current.
pub fn time(at: i64, now: i64) -> Cell {
    let (moment, distance) = (text::moment(Some(at)), Some(at.abs_diff(now)));
    let (past, told) = if at > now { ("", text::ahead(distance)) } else { (" data-ago", text::ago(distance)) };
    Cell(format!("<time datetime=\"{moment}\" title=\"{moment}\"{past}>{told}</time>"))
}

/// Describes a moment so many seconds ago, in words.
pub fn ago_text(seconds: Option<u64>) -> String {
    seconds.map_or("never".to_owned(), |seconds| text::ago(Some(seconds)))
}

/// A moment, or a dash.
pub fn when(at: Option<i64>, now: i64) -> Cell {
    at.map_or_else(Cell::none, |at| time(at, now))
}

/// Returns the moment so many seconds ago as a cell.
pub fn ago(seconds: Option<u64>, now: i64) -> Cell {
    when(seconds.map(|seconds| now.saturating_sub_unsigned(seconds)), now)
}

/// Returns the moment so many seconds ahead as a cell; a dash stands for never.
pub fn ahead(seconds: Option<u64>, now: i64) -> Cell {
    const FOREVER: u64 = 100 * 365 * 86_400;
    when(seconds.filter(|seconds| *seconds < FOREVER).map(|seconds| now.saturating_add_unsigned(seconds)), now)
}

/// HTML that is finished.
#[derive(Clone, Debug, Default)]
pub struct Cell(pub String);

impl Cell {
    /// Returns the cell that stands for no value.
    pub fn none() -> Cell {
        Cell("<span class=\"none\">–</span>".to_owned())
    }

    /// Text, escaped as templates do it.
    pub fn text(text: &str) -> Cell {
        let mut html = String::new();
        // Writing into a String cannot fail.
        _ = Html.write_escaped_str(&mut html, text);
        Cell(html)
    }
}

impl Display for Cell {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Cell {}

//--- Numbers, names ---

/// A number with its thousands apart.
pub fn number(number: u64) -> String {
    HumanCount(number).to_string()
}

/// A noun with how many there are of it.
pub fn count(count: impl TryInto<u64>, one: &str, many: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

/// A serial, or a dash.
pub fn serial(serial: Option<Serial>) -> Cell {
    serial.map_or_else(Cell::none, |serial| Cell(serial.to_string()))
}

/// An amount of octets, in the unit that suits it.
pub fn size(bytes: u64) -> String {
    BinaryBytes(bytes).to_string()
}

/// A rate with one decimal as long as that says something.
pub fn rate(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.1}") } else { number(rate.round() as u64) }
}

/// A name without the dot at its end, for reading.
pub fn short(name: &Name) -> String {
    let text = name.to_string();
    text.strip_suffix('.').filter(|text| !text.is_empty() && !text.ends_with('\\')).unwrap_or(&text).to_owned()
}

/// Text as a part of an address.
pub fn encode(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

/// The page of a zone.
pub fn zone_href(name: &Name) -> String {
    format!("/zone/{}", encode(&short(name)))
}

/// A link to a zone's page.
pub fn zone_link(name: &Name) -> Cell {
    Cell(format!("<a href=\"{}\">{}</a>", zone_href(name), Cell::text(&short(name))))
}

/// Returns the HTML id of an element for a name.
pub fn id_of(kind: &str, name: &Name) -> String {
    let mut id = format!("{kind}-");
    for byte in short(name).bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' => id.push(byte.into()),
            // Writing into a String cannot fail.
            _ => _ = write!(id, "_{byte:02x}"),
        }
    }
    id
}

//--- Sparklines ---

/// A line through values, as high as the largest.
pub fn spark_line(values: &[f64], label: &str) -> Cell {
    const WIDTH: f64 = 240.0;
    const HEIGHT: f64 = 36.0;
    let label = Cell::text(label);
    let mut svg = format!(
        "<svg class=\"spark\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\">"
    );
    let largest = values.iter().copied().fold(0.0, f64::max);
    if values.len() > 1 && largest > 0.0 {
        let step = WIDTH / (values.len() - 1) as f64;
        let point = |(index, value): (usize, &f64)| {
            format!("{:.1},{:.1}", index as f64 * step, HEIGHT - 1.5 - value / largest * (HEIGHT - 4.0))
        };
        let points = values.iter().enumerate().map(point).collect::<Vec<_>>().join(" ");
        // Writing into a String cannot fail.
        _ = write!(svg, "<polygon points=\"0,{HEIGHT} {points} {WIDTH},{HEIGHT}\"/><polyline points=\"{points}\"/>");
    } else {
        _ = write!(svg, "<polyline points=\"0,{y} {WIDTH},{y}\"/>", y = HEIGHT - 1.5);
    }
    svg.push_str("</svg>");
    Cell(svg)
}

/// A bar of a spark chart.
pub struct Bar {
    /// 0 to 1.
    pub height: f64,
    pub failed: bool,
    pub title: String,
}

/// Bars side by side; those of failures reach to the top and are hollow.
pub fn spark_bars(bars: &[Bar], places: usize, label: &str) -> Cell {
    const STEP: usize = 5;
    const HEIGHT: f64 = 20.0;
    /// Room that the highest bar takes.
    const ROOM: f64 = HEIGHT - 3.0;
    let (width, label) = (places * STEP, Cell::text(label));
    let mut svg = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {width} {HEIGHT}\" role=\"img\" aria-label=\"{label}\"><path class=\"base\" d=\"M0 {HEIGHT}h{width}\"/>"
    );
    let start = places.saturating_sub(bars.len());
    for (index, bar) in bars.iter().enumerate() {
        let x = (start + index) * STEP;
        let title = Cell::text(&bar.title);
        // Writing into a String cannot fail.
        _ = if bar.failed {
            let x = x + 1;
            write!(svg, "<path class=\"failed\" d=\"M{x} 2v{ROOM}h2v-{ROOM}z\">")
        } else {
            let height = (bar.height.clamp(0.0, 1.0) * ROOM).max(1.5);
            let y = HEIGHT - height;
            write!(svg, "<rect x=\"{x}\" y=\"{y:.1}\" width=\"3.5\" height=\"{height:.1}\">")
        };
        _ = write!(svg, "<title>{title}</title></{}>", if bar.failed { "path" } else { "rect" });
    }
    svg.push_str("</svg>");
    Cell(svg)
}

/// A share of a whole as a bar.
pub fn share(part: f64, whole: f64) -> Cell {
    let percent = if whole > 0.0 { (part / whole * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    Cell(format!(
        "<svg class=\"share\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"100\" height=\"8\" rx=\"1\"/><rect class=\"part\" width=\"{percent:.1}\" height=\"8\" rx=\"1\"/></svg><span class=\"percent\">{percent:.1}%</span>"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_read_well_and_are_escaped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([count(1, "name", "names"), count(2, "name", "names")], ["1 name", "2 names"]);
        assert_eq!([0, 1023, 1536, 3 << 20].map(size), ["0 B", "1023 B", "1.50 KiB", "3.00 MiB"]);
        assert_eq!([rate(0.25), rate(1234.4)], ["0.2", "1,234"]);
        let name = Name::parse("a/<b.example").unwrap();
        assert_eq!(zone_href(&name), "/zone/a%2F%3Cb.example");
        assert_eq!(id_of("zone", &name), "zone-a_2f_3cb.example");
        assert_eq!(zone_link(&name).0, "<a href=\"/zone/a%2F%3Cb.example\">a/&#60;b.example</a>");
        assert_eq!([short(&name), short(&Name::root())], ["a/<b.example", "."]);
        assert!(Mark::new(Grade::Bad, "<x>").to_string().contains("&#60;x&#62;"));
        let Cell(past) = time(100, 165);
        assert!(past.contains("datetime=\"1970-01-01T00:01:40Z\"") && past.contains(">1m05s ago<"), "{past}");
        assert!(time(165, 100).0.contains(">in 1m05s<"));
    }

    #[test]
    fn charts_stay_in_their_frame() {
        let line = spark_line(&[0.0, 5.0, 10.0], "a \"b\"").0;
        assert!(line.contains("0.0,34.5 120.0,18.5 240.0,2.5") && line.contains("a &#34;b&#34;"), "{line}");
        assert!(spark_line(&[], "none").0.contains("0,34.5 240,34.5"));
        let bars = [
            Bar { height: 9.0, failed: false, title: "x".into() },
            Bar { height: 0.0, failed: true, title: "y".into() },
        ];
        let bars = spark_bars(&bars, 4, "two").0;
        assert!(bars.contains("<rect x=\"10\" y=\"3.0\"") && bars.contains("class=\"failed\" d=\"M16 2"), "{bars}");
        assert!(share(1.0, 4.0).0.contains(">25.0%<") && share(1.0, 0.0).0.contains(">0.0%<"));
    }
}

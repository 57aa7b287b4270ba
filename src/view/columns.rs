//! Tables that are shown, column by column: what `status` prints of a thing and what pages have of it is written once.
//!
//! Cost: O(rows × columns).

use super::page::parts::{Cell, Mark, ago, ahead, number, serial, when, zone_link};
use super::text::{self, moment, or_dash, write_table};
use askama::filters::HtmlSafe;
use std::fmt::{self, Display, Formatter, Write};
use wire::name::Name;
use wire::serial::Serial;

/// A value in a column, which text and pages write each in their way.
pub enum Value {
    Name(Name),
    Mark(Mark),
    Serial(Option<Serial>),
    Number(u64),
    /// A moment, Unix seconds.
    At(Option<i64>),
    /// Seconds since something happened; none if it never did.
    Ago(Option<u64>),
    /// Seconds until something happens; none if it never does.
    Ahead(Option<u64>),
    Text(String),
    /// Finished HTML, for pages only.
    Html(Cell),
}

impl Value {
    /// Returns the value where a thing cannot have one.
    pub fn empty() -> Value {
        Value::Text(String::new())
    }

    /// Returns the value where a thing has none.
    pub fn none() -> Value {
        Value::Html(Cell::none())
    }

    /// The value as text.
    fn text(self) -> String {
        match self {
            Value::Name(name) => name.to_string(),
            Value::Mark(mark) => mark.text,
            Value::Serial(serial) => or_dash(serial),
            Value::Number(number) => number.to_string(),
            Value::At(at) => moment(at),
            Value::Ago(seconds) => text::ago(seconds),
            Value::Ahead(seconds) => text::ahead(seconds),
            Value::Text(text) => text,
            Value::Html(_) => String::new(),
        }
    }

    /// The value as HTML, seen from a moment.
    pub fn cell(self, now: i64) -> Cell {
        match self {
            Value::Name(name) => zone_link(&name),
            Value::Mark(mark) => Cell(mark.to_string()),
            Value::Serial(number) => serial(number),
            Value::Number(count) => Cell(number(count)),
            Value::At(at) => when(at, now),
            Value::Ago(seconds) => ago(seconds, now),
            Value::Ahead(seconds) => ahead(seconds, now),
            Value::Text(text) => Cell::text(&text),
            Value::Html(cell) => cell,
        }
    }
}

/// A column of a table of things of one kind.
pub struct Column<T> {
    title: &'static str,
    /// Class on pages; none if only `status` has the column.
    class: Option<&'static str>,
    /// Further class of the cells on pages.
    cells: &'static str,
    /// True if it names the thing where it is the first.
    is_name: bool,
    in_text: bool,
    value: fn(&T) -> Value,
}

impl<T> Column<T> {
    /// A column that `status` and pages have.
    pub fn both(title: &'static str, class: &'static str, value: fn(&T) -> Value) -> Column<T> {
        Column { in_text: true, ..Column::page(title, class, value) }
    }

    /// A column of `status` alone.
    pub fn text(title: &'static str, value: fn(&T) -> Value) -> Column<T> {
        Column { title, class: None, cells: "", is_name: true, in_text: true, value }
    }

    /// A column of pages alone.
    pub fn page(title: &'static str, class: &'static str, value: fn(&T) -> Value) -> Column<T> {
        Column { title, class: Some(class), cells: "", is_name: true, in_text: false, value }
    }

    /// A column of pages alone that does not name the thing.
    pub fn unnamed(title: &'static str, class: &'static str, value: fn(&T) -> Value) -> Column<T> {
        Column { is_name: false, ..Column::page(title, class, value) }
    }

    /// A column of pages alone, of text that may be long.
    pub fn remark(title: &'static str, class: &'static str, value: fn(&T) -> Value) -> Column<T> {
        Column { cells: "remark", ..Column::page(title, class, value) }
    }

    /// A column of pages alone, of RDATA.
    pub fn data(title: &'static str, value: fn(&T) -> Value) -> Column<T> {
        Column { cells: "data", ..Column::page(title, "", value) }
    }
}

/// A table on a page.
#[derive(Default)]
pub struct Table {
    html: String,
    rows: usize,
}

impl Table {
    /// Returns true if it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.html)
    }
}

impl HtmlSafe for Table {}

/// Writes a table as text.
pub fn write_columns<T>(text: &mut String, columns: &[Column<T>], things: &[T]) {
    let shown = || columns.iter().filter(|column| column.in_text);
    let mut rows: Vec<Vec<String>> = vec![shown().map(|column| column.title.to_uppercase()).collect()];
    rows.extend(things.iter().map(|thing| shown().map(|column| (column.value)(thing).text()).collect()));
    write_table(text, &rows);
}

/// The heads of a table on a page.
pub fn heads<T>(columns: &[Column<T>]) -> Cell {
    let mut html = "<tr>".to_owned();
    for (column, class) in columns.iter().filter_map(|column| Some((column, column.class?))) {
        _ = write!(html, "<th scope=\"col\"{}>{}</th>", class_of(class, ""), column.title);
    }
    Cell(html + "</tr>")
}

/// The cells of a thing on a page; the first one names the thing.
pub fn cells<T>(columns: &[Column<T>], thing: &T, now: i64) -> Cell {
    let mut html = String::new();
    for (column, class) in columns.iter().filter_map(|column| Some((column, column.class?))) {
        let (class, cell) = (class_of(class, column.cells), (column.value)(thing).cell(now));
        // On small screens a row has no head above it: each cell brings its own.
        _ = match html.is_empty() && column.is_name {
            true => write!(html, "<th scope=\"row\"{class}>{cell}</th>"),
            false => write!(html, "<td{class} data-head=\"{}\">{cell}</td>", column.title),
        };
    }
    Cell(html)
}

/// Writes a table for a page.
pub fn table<T>(columns: &[Column<T>], things: impl IntoIterator<Item = T>, now: i64) -> Table {
    let mut html = format!("<table>\n<thead>{}</thead>\n<tbody>", heads(columns));
    let mut rows = 0;
    for thing in things {
        rows += 1;
        _ = write!(html, "\n<tr>{}</tr>", cells(columns, &thing, now));
    }
    Table { html: html + "\n</tbody>\n</table>", rows }
}

/// The attribute for classes; none where there are none.
fn class_of(class: &str, further: &str) -> String {
    match (class, further) {
        ("", "") => String::new(),
        (class, "") | ("", class) => format!(" class=\"{class}\""),
        (class, further) => format!(" class=\"{class} {further}\""),
    }
}

//! Charts of what was counted over a time: a line with axes, the values in words, and each value for who points at it.
//!
//! The frame is HTML, the line SVG that is stretched to the room there is; a script shows the value at the pointer or, by
//! arrow keys, at the place that was chosen. Without it the axes and the sentence below are there all the same.
//!
//! Invariants: the newest value is at the right edge, and what was not there yet is left free, so that a place means the
//! same time at any age of the server; the picture has its values in words.
//!
//! Cost: O(values).

use super::parts::{Cell, rate};
use crate::view::rates::Range;
use crate::view::text::format_seconds;
use std::fmt::Write;

/// Size of the picture, in units of its own.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;
/// Room above the largest value of the axis, and below zero, for the line's own width.
const EDGE: f64 = 2.0;

/// A chart of the values of a range, the newest last; `unit` tells of what they are.
pub fn chart(values: &[f64], range: Range, unit: &str) -> Cell {
    let most = values.iter().copied().fold(0.0, f64::max);
    let (top, unit) = (round_up(most), Cell::text(unit));
    let step = WIDTH / (range.numbers() - 1) as f64;
    let place = |(index, value): (usize, &f64)| {
        let x = WIDTH - step * (values.len() - 1 - index) as f64;
        let y = EDGE + (1.0 - value / top) * (HEIGHT - 2.0 * EDGE);
        format!("{},{}", x.round(), (y * 10.0).round() / 10.0)
    };
    let points = values.iter().enumerate().map(place).collect::<Vec<_>>().join(" ");
    let sentence = describe(values, most);
    let seconds = range.interval().as_secs();
    let whole = format_seconds(seconds * range.numbers() as u64);
    let half = format_seconds(seconds * range.numbers() as u64 / 2);
    let shown = values.iter().map(|value| rate(*value)).collect::<Vec<_>>().join(" ");
    let mut html = format!(
        "<figure class=\"plot\" tabindex=\"0\" data-step=\"{seconds}\" \
         data-places=\"{}\" data-values=\"{shown}\"><figcaption><b>{unit}</b> <span>{sentence}</span> <output></output></figcaption>",
        range.numbers()
    );
    let level = |share: f64| axis(top * share);
    // Writing into a String cannot fail.
    _ = write!(html, "<div class=\"up\"><span>{}</span><span>{}</span><span>0</span></div>", level(1.0), level(0.5));
    _ = write!(
        html,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <path class=\"grid\" d=\"M0 {EDGE}h{WIDTH}M0 {middle}h{WIDTH}M0 {bottom}h{WIDTH}\"/>",
        middle = HEIGHT / 2.0,
        bottom = HEIGHT - EDGE
    );
    if !values.is_empty() {
        let first = WIDTH - step * (values.len() - 1) as f64;
        let first = first.round();
        let bottom = HEIGHT - EDGE;
        _ = write!(
            html,
            "<polygon points=\"{first},{bottom} {points} {WIDTH},{bottom}\"/><polyline points=\"{points}\"/>"
        );
    }
    _ = write!(
        html,
        "<path class=\"cursor\"/></svg><div class=\"along\"><span>{whole} ago</span><span>{half}</span><span>now</span></div></figure>"
    );
    Cell(html)
}

/// The values in words.
fn describe(values: &[f64], most: f64) -> String {
    let Some(last) = values.last() else { return "nothing counted yet".to_owned() };
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    format!("now {}, mean {}, at most {}", rate(*last), rate(mean), rate(most))
}

/// The least of 1, 2 and 5 times a power of ten that is no less than a value, so that an axis has a round end.
fn round_up(value: f64) -> f64 {
    let value = value.max(1.0);
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|round| *round >= value).unwrap_or(value)
}

/// A number at an axis, as short as it can be.
fn axis(value: f64) -> String {
    let (value, unit) = match value {
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    format!("{value}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(
            [0.0, 0.3, 1.0, 1.1, 23.0, 50.0, 51.0, 99_999.0].map(round_up),
            [1.0, 1.0, 1.0, 2.0, 50.0, 50.0, 100.0, 100_000.0]
        );
        assert_eq!([0.5, 1.0, 500.0, 2500.0, 1e5, 2e6].map(axis), ["0.5", "1", "500", "2.5k", "100k", "2M"]);
    }

    #[test]
    fn a_chart_has_its_newest_value_at_the_right_and_its_values_in_words() {
        let Cell(html) = chart(&[0.0, 4.0, 10.0], Range::Hour, "queries <a second>");
        assert!(html.contains("polyline points=\"590,118 595,71.6 600,2\""), "{html}");
        assert!(
            html.contains("now 10.0, mean 4.7, at most 10.0") && html.contains("data-values=\"0.0 4.0 10.0\""),
            "{html}"
        );
        assert!(
            html.contains("<span>1h00m ago</span><span>30m00s</span>") && html.contains("<span>5</span>"),
            "{html}"
        );
        assert!(html.contains("queries &#60;a second&#62;") && !html.contains("<a second"), "{html}");
        let Cell(html) = chart(&[], Range::Day, "x");
        assert!(html.contains("nothing counted yet") && !html.contains("polyline"), "{html}");
        let day = vec![1234.5; Range::Day.numbers()];
        let Cell(html) = chart(&day, Range::Day, "x");
        assert!(html.contains("points=\"0,") && html.contains("<span>2k</span>"), "{html}");
    }
}

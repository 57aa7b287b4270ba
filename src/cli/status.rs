//! `aggregator status`: how everything is, or with `--problems` only what needs attention.
//!
//! The problems are the server's own judgement, so that they are those of its page. Exceptions that somebody has ordered,
//! such as drains, are listed with them and are none.
//!
//! Cost: O(notes).

use super::{FAILED, Outcome, call, fail, print, print_json, send, show_reply};
use crate::control::Request;
use crate::control::server::Server;
use clap::Args;
use serde_json::Value;
use std::fmt::Write;
use std::process::ExitCode;

/// The options of `status`.
#[derive(Debug, Args)]
pub struct StatusOptions {
    /// A zone or region [default: all]
    #[arg(add = super::complete::zones())]
    zone: Option<String>,
    /// Only list what needs attention; exit with 1 if anything does
    #[arg(long)]
    problems: bool,
}

/// Shows how everything is.
pub fn status(server: &Server, options: StatusOptions, json: bool) -> Outcome {
    let request = Request::Status { zone: options.zone };
    if !options.problems {
        return send(server, &request, json);
    }
    let reply = call(server, &request)?;
    if !reply.ok {
        return show_reply(&request, reply, json);
    }
    let judgement = &reply.data["judgement"];
    if judgement.is_null() {
        return Err(fail("the server is older than this program and judges nothing; restart it"));
    }
    let printed = if json { print_json(judgement) } else { print(&describe(judgement)) };
    let is_well = matches!(judgement["grade"].as_str(), Some("good" | "told"));
    if is_well { printed } else { printed.and(Ok(ExitCode::from(FAILED))) }
}

/// The judgement as text: its sentence, and a line a note.
fn describe(judgement: &Value) -> String {
    let text_of = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut text = format!("{}\n", text_of(judgement, "verdict"));
    for note in judgement["notes"].as_array().into_iter().flatten() {
        let [grade, kind, about, what] = ["grade", "kind", "about", "text"].map(|key| text_of(note, key));
        let grade = match &*grade {
            "bad" => "broken",
            "warn" => "look",
            _ => "ordered",
        };
        _ = writeln!(text, "{grade:7}  {kind}: {}: {what}", about.trim_end_matches('.'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_judgement_is_a_sentence_and_a_line_for_each_note() {
        let note = |grade: &str, about: &str| json!({ "grade": grade, "kind": "stale", "about": about, "text": "old" });
        let judgement = json!({
            "grade": "bad", "verdict": "2 things broken", "notes": [note("bad", "a.example."), note("told", "192.0.2.1:53")],
        });
        let expected = "2 things broken\nbroken   stale: a.example: old\nordered  stale: 192.0.2.1:53: old\n";
        assert_eq!(describe(&judgement), expected);
    }
}

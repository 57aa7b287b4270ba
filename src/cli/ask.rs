//! Orders that need a confirmation: a preview of the effect, a question, then the order.
//!
//! Without a terminal nobody can answer, so `--yes` is needed there; `--dry-run` ends after the preview.

use super::paint::{self, Look};
use super::{Outcome, call, fail, misuse, send, show_reply};
use crate::control::Request;
use crate::control::server::Server;
use crate::terminal::Stream;
use clap::Args;
use serde_json::Value;
use std::io::{self, BufRead, IsTerminal, Write};

/// Options of verbs that show what they would change and ask before they do it.
#[derive(Debug, Args)]
pub struct Asking {
    /// Do not ask
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Only tell what would change
    #[arg(long)]
    dry_run: bool,
}

/// Carries out an order after a preview. `request` makes the order, or the question what it would do; `more` is what the
/// text of the preview is to have beside what the server says; `verb` is what is asked, and `nothing` says that it was not
/// done.
pub fn carry_out(
    server: &Server,
    asking: &Asking,
    json: bool,
    request: impl Fn(bool) -> Request,
    more: impl Fn(&Value) -> String,
    (verb, nothing): (&str, &str),
) -> Outcome {
    if !asking.yes {
        let question = request(true);
        let mut preview = call(server, &question)?;
        preview.text += &more(&preview.data);
        if asking.dry_run || !preview.ok {
            return show_reply(&question, preview, json);
        }
        if !io::stdin().is_terminal() || json {
            // What was found out is of use all the same.
            let _ = io::stderr().lock().write_all(preview.text.as_bytes());
            return Err(misuse(format!("{nothing}: there is nobody to ask here; write --yes or --dry-run")));
        }
        if !confirm(&preview.text, verb).map_err(|error| fail(format!("{nothing}: {error}")))? {
            return Err(fail(nothing));
        }
    }
    send(server, &request(false), json)
}

/// Shows a preview and asks; only a clear yes is one.
fn confirm(preview: &str, verb: &str) -> io::Result<bool> {
    let mut output = io::stderr().lock();
    write!(output, "{}{verb}? [y/N] ", paint::paint(preview, Look::Difference, Stream::Errors))?;
    output.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

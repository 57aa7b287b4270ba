//! What operators and machines see, whole, against files in `tests/data/golden`: configuration errors, `check`, all verbs as
//! text and JSON, pages, the names of metrics, log lines that documents quote, and a state folder as 0.1.0 wrote it.
//!
//! They hold behaviour while the house is rebuilt. Whoever changes a text on purpose writes the files anew and reads the
//! difference: `AGGREGATOR_WRITE_GOLDEN=1 cargo test --locked --test golden`.
//!
//! What differs from run to run is replaced by fixed words in one place, `golden/compare.rs`.

mod harness;

#[path = "golden/check.rs"]
mod check;
#[path = "golden/compare.rs"]
mod compare;
#[path = "golden/config.rs"]
mod config;
#[path = "golden/literals.rs"]
mod literals;
#[path = "golden/primary.rs"]
mod primary;
#[path = "golden/quotes.rs"]
mod quotes;
#[path = "golden/scene.rs"]
mod scene;
#[path = "golden/state.rs"]
mod state;
#[path = "golden/verbs.rs"]
mod verbs;

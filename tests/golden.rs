//! Golden tests: whole outputs against files in `tests/data/golden`. Covers configuration errors, `check`, all verbs as text
//! and JSON, pages, the API, the names of metrics, texts that documents quote, and a state folder that 0.1.0 wrote.
//!
//! The files pin behaviour while the code is restructured. After an intended change,
//! `AGGREGATOR_WRITE_GOLDEN=1 cargo test --locked --test golden` writes them anew; read the difference before you commit it.
//!
//! `golden/compare.rs` replaces everything that differs from run to run by fixed words.

mod harness;

#[path = "golden/check.rs"]
mod check;
#[path = "golden/cns.rs"]
mod cns;
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

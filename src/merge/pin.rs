//! Regions that an operator has taken back to the contents of an earlier version.
//!
//! A pin says which version, and under which serial its contents are published until the pin is released. The contents
//! themselves stand beside it, in the keeper and on disk.

use std::time::SystemTime;
use wire::name::Name;
use wire::serial::Serial;

/// One pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    pub region: Name,
    /// The version that has the contents.
    pub to: Serial,
    /// The serial under which they are published.
    pub serial: Serial,
    pub since: SystemTime,
    pub reason: Option<String>,
}

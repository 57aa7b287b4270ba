//! Steering: which members' records the clients of a home get, and in which order.
//!
//! These are the parts of a region's plan that a selection needs; which member is how near to which home is in
//! `orders`.
//!
//! Cost: O(1).

use super::Law;

/// Way in which clients are steered to members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Prefer {
    /// Not at all.
    #[default]
    Off,
    /// To all members, the nearest first.
    Order,
    /// To the nearest alone, and to others only where it has too little.
    Nearest,
}

/// Way in which clients of services (SRV) are steered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Services {
    /// As for addresses.
    #[default]
    Select,
    /// By priorities (RFC 2782): all members' records, with those of the nearest in front.
    Priority,
}

/// How the clients of a name are steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Steering {
    pub prefer: Prefer,
    /// Records that an answer has at least, under [`Prefer::Nearest`], if the set has as many.
    pub at_least: u16,
    pub services: Services,
}

impl Steering {
    /// No steering.
    pub const OFF: Steering = Steering { prefer: Prefer::Off, at_least: 1, services: Services::Select };
}

/// How the sets of a name are answered: how much of a large one, and of which members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Treatment {
    pub law: Law,
    pub steering: Steering,
}

impl Treatment {
    /// Whole sets, the same for all clients.
    pub const PLAIN: Treatment = Treatment { law: Law::ALL, steering: Steering::OFF };
}

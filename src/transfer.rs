pub mod axfr;
pub mod error;
pub mod plan;
pub mod poll;
pub mod wire;
pub use error::{Phase, TransferError};
pub use plan::{Limits, PrimaryPlan, TimerBounds, ZonePlan};

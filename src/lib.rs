pub mod demo;
pub mod merge;
pub mod name;
pub mod serial;
pub mod serve;
pub mod transfer;

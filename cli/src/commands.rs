//! One file per command.

pub mod bench;
pub mod cache;
pub mod check;
pub mod compile;
pub mod completions;
pub mod doctor;
pub mod explain;
pub mod fmt;
pub mod run;
pub mod setup;
pub mod verify;
pub mod version;

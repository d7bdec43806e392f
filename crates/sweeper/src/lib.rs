//! The sweeper of Earmark.

pub mod report;

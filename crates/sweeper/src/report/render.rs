//! Forms of the report.

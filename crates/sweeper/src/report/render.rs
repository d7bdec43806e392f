//! Forms of the report. All show the same [`Report`], so that they show the same numbers.

mod html;
mod json;
mod page;
mod sections;
mod text;

use super::model::Report;

/// How many claims or rows one list shows on a page; the rest is counted there and stands in the JSON. A page of a
/// hundred thousand cards opens in no browser, and a storm is read by its causes.
pub const LIST_SHOWN_MAX: usize = 500;

/// For machines: every field of [`Report`], in full. Characters that cannot be seen are written as escapes, so that
/// the text is safe to print; parsed, it is exact.
///
/// # Errors
/// None that a report could cause; serde's signature has one.
pub fn json(report: &Report) -> Result<String, serde_json::Error> {
    json::json(report)
}

/// For terminals, mail and pipes: at most 100 columns, no colour.
pub fn text(report: &Report) -> String {
    text::text(&sections::page(report))
}

/// One self-contained HTML file without script, for the screen and for paper.
pub fn html(report: &Report) -> String {
    html::html(report, &sections::page(report))
}

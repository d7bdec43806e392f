//! The three forms, compared byte for byte with what was looked at and found good.
//!
//! `UPDATE_GOLDEN=1 cargo test -p earmark-sweeper --lib` writes them anew; look at the difference before it is committed.

use super::*;
use crate::report::{model, render};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

fn report() -> Report {
    crate::report::build(&adversarial::data(), &Options::default())
}

fn compare(name: &str, found: &str) {
    let path = format!("{GOLDEN}/{name}");
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|v| v == "1") {
        std::fs::create_dir_all(GOLDEN).unwrap();
        std::fs::write(&path, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    for (at, (wanted, found)) in wanted.lines().zip(found.lines()).enumerate() {
        assert_eq!(found, wanted, "{name}, line {}; UPDATE_GOLDEN=1 accepts it", at + 1);
    }
    assert_eq!(found.len(), wanted.len(), "{name}: one is a part of the other; UPDATE_GOLDEN=1 accepts it");
}

#[test]
fn golden_text() {
    compare("report.txt", &render::text(&report()));
}

#[test]
fn golden_json() {
    compare("report.json", &render::json(&report()).unwrap());
}

#[test]
fn golden_html() {
    compare("report.html", &render::html(&report()));
}

#[test]
fn an_empty_report_has_all_forms() {
    let report = built(vec![], vec![]);
    compare("empty.txt", &render::text(&report));
    assert!(render::html(&report).contains("No claim of 0 needs a person"));
}

#[test]
fn text_fits_a_terminal_and_drives_none() {
    let text = render::text(&report());
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        assert!(!line.chars().any(|c| c.is_control()), "{line:?}");
    }
}

#[test]
fn no_form_holds_a_character_that_cannot_be_seen() {
    let report = report();
    for form in [render::text(&report), render::html(&report), render::json(&report).unwrap()] {
        let unseen = form.chars().find(|c| *c != '\n' && crate::report::untrusted::is_unseen(*c));
        assert_eq!(unseen, None);
    }
}

#[test]
fn html_holds_no_markup_but_ours() {
    let html = render::html(&report());
    for foreign in ["<script", "<img", "<b>", "<i>", "javascript:", "<a ", "http://evil.example/?\"", "src="]
    {
        let at = html.find(foreign).map(|at| &html[at.saturating_sub(40)..at + 20]);
        // As escaped text `src=` may stand; as an attribute of a tag it may not.
        let escaped = at.is_some_and(|near| near.contains("&lt;"));
        assert!(at.is_none() || escaped, "{foreign}: {at:?}");
    }
    assert!(html.contains("default-src 'none'") || html.contains("default-src &#39;none&#39;"));
    let opened = html.matches("<td").count();
    assert_eq!(opened, html.matches("</td>").count());
}

#[test]
fn all_forms_show_the_same_digits() {
    let report = report();
    let (text, html) = (render::text(&report), render::html(&report));
    let json = render::json(&report).unwrap();
    for (shown, minor) in [
        ("EUR 90,071,992,547,409.93", "9007199254740993"),
        ("JPY 5,800", "5800"),
        ("KWD 1.255", "1255"),
        ("USD 2,557.68", "255768"),
        ("XQX 5800 minor units (unknown currency)", "5800"),
        ("EUR 49.00", "4900"),
    ] {
        assert!(html.replace('\u{a0}', " ").contains(shown), "{shown} in HTML");
        assert!(text.contains(shown) || text.replace("\n", " ").contains(&shown[..8]), "{shown} in text");
        assert!(json.contains(&format!("\"minor_units\": \"{minor}\"")), "{minor} in JSON");
    }
    assert!(text.contains(&report.verdict.sentence[..24]) && html.contains(&report.verdict.sentence[..24]));
}

#[test]
fn json_gives_back_every_text_as_it_was() {
    let report = report();
    let json: serde_json::Value = serde_json::from_str(&render::json(&report).unwrap()).unwrap();
    assert_eq!(json["schema"], model::SCHEMA);
    let items = json["needs_a_person"].as_array().unwrap();
    assert_eq!(items.len(), report.needs_a_person.len());
    for (item, parsed) in report.needs_a_person.iter().zip(items) {
        assert_eq!(parsed["name"]["message_id"], item.name.message_id.raw());
        assert!(parsed["fence"].is_string() && parsed["revision"].is_string());
        assert!(parsed["age_from"].as_str().unwrap().ends_with('Z'));
    }
}

#[test]
fn a_long_list_is_cut_on_the_page_and_whole_in_the_json() {
    let n = render::LIST_SHOWN_MAX + 7;
    let report = built((0..n).map(|n| row(&format!("m-{n:04}"))).collect(), vec![]);
    assert!(render::text(&report).contains("… and 7 more"));
    let html = render::html(&report);
    assert_eq!(html.matches("<article").count(), render::LIST_SHOWN_MAX);
    assert!(html.contains("… and 7 more"));
    assert_eq!(render::json(&report).unwrap().matches("\"idempotency_key\"").count(), n);
}

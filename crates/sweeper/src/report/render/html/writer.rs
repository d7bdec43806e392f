//! Writes HTML. Text can only get in escaped; tags, classes and the like are constants of this program.

use crate::report::untrusted::is_unseen;

/// A document being written.
pub(super) struct Html(String);

impl Html {
    pub(super) fn document() -> Self {
        Self("<!doctype html>\n".into())
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push('\n');
        self.0
    }

    /// An attribute without value is left out.
    pub(super) fn open(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) {
        if on_its_own_line(tag) && !self.0.ends_with('\n') {
            self.0.push('\n');
        }
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attributes.iter().filter(|(_, value)| !value.is_empty()) {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            self.text(value);
            self.0.push('"');
        }
        self.0.push('>');
    }

    pub(super) fn close(&mut self, tag: &'static str) {
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
    }

    /// A tag that is never closed: `br`, `meta`.
    pub(super) fn void(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) {
        self.open(tag, attributes);
    }

    pub(super) fn element(&mut self, tag: &'static str, attributes: &[(&'static str, &str)], text: &str) {
        self.open(tag, attributes);
        self.text(text);
        self.close(tag);
    }

    /// Text, escaped for content and attributes alike. What cannot be seen should not have come this far; it is made
    /// visible here once more.
    pub(super) fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c if is_unseen(c) => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
    }

    /// A style sheet of our own. `<` would be the only way out of it.
    pub(super) fn style(&mut self, css: &str) {
        self.0.push_str("\n<style>");
        self.0.extend(css.chars().filter(|c| *c != '<'));
        self.0.push_str("</style>");
    }
}

/// So that the file can be read, and a golden file compared, line by line.
fn on_its_own_line(tag: &str) -> bool {
    !matches!(tag, "span" | "bdi" | "strong" | "code" | "time" | "br" | "td" | "th" | "dd" | "tspan")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let mut h = Html::document();
        h.element("p", &[("title", "\" onload=\"x")], "<script>alert('1')</script> & \u{202e}");
        assert_eq!(
            h.finish(),
            "<!doctype html>\n<p title=\"&quot; onload=&quot;x\">&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; \u{fffd}</p>\n"
        );
    }

    #[test]
    fn a_style_sheet_cannot_be_left() {
        let mut h = Html::document();
        h.style("p { color: black } </style><script>");
        assert!(!h.finish().contains("<script"));
    }
}

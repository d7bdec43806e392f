//! Text that somebody else wrote: producers, providers, people.

use serde::Serialize;
use std::fmt;
use std::fmt::Write as _;

/// Text that somebody else wrote, kept exactly.
///
/// It has no `Display`, so that it cannot reach a page by accident: whoever shows it chooses between [`exact`] and
/// [`prose`]. Neither makes it safe for HTML; that is the page writer's part. In JSON it stands as it is.
///
/// [`exact`]: Untrusted::exact
/// [`prose`]: Untrusted::prose
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Untrusted(String);

impl Untrusted {
    /// Takes it as it is.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// As it is: to compare, never to show.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For ids: two different ids never look alike. Combining marks, invisible characters and spaces at either end are
    /// shown by their code.
    pub fn exact(&self) -> String {
        let mut out = String::with_capacity(self.0.len());
        push_exact(&mut out, &self.0, None);
        out
    }

    /// For sentences: readable in every script; what is invisible or reorders its neighbours is shown by its code.
    pub fn prose(&self) -> String {
        let mut out = String::with_capacity(self.0.len());
        for c in self.0.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if is_unseen(c) => push_code(&mut out, c),
                c => out.push(c),
            }
        }
        out
    }
}

impl fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Untrusted({:?})", self.0)
    }
}

impl From<&str> for Untrusted {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// `tenant/consumer/message id`, each part as [`Untrusted::exact`] and its own slashes escaped: the way the claim crate shows
/// a key, also for a row that its constructors would refuse.
pub(crate) fn shown_key(tenant: &str, consumer: &str, message_id: &str) -> String {
    let mut out = String::new();
    if !tenant.is_empty() {
        push_exact(&mut out, tenant, Some('/'));
        out.push('/');
    }
    push_exact(&mut out, consumer, Some('/'));
    out.push('/');
    push_exact(&mut out, message_id, Some('/'));
    out
}

fn push_exact(out: &mut String, text: &str, also: Option<char>) {
    let last = text.chars().count().saturating_sub(1);
    for (at, c) in text.chars().enumerate() {
        match c {
            ' ' if at == 0 || at == last => push_code(out, c),
            '\'' | '"' => out.push(c),
            c if Some(c) == also => {
                out.push('\\');
                out.push(c);
            }
            c if is_unseen(c) && !matches!(c, '\t' | '\r' | '\n' | '\0') => push_code(out, c),
            c => out.extend(c.escape_debug()),
        }
    }
}

fn push_code(out: &mut String, c: char) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
}

/// Control and format characters (Unicode Cc, Cf), line and paragraph separators, and the letters that are blank: whatever
/// cannot be seen, breaks a line or reorders its neighbours.
pub(crate) fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            u32::from(c),
            0x00AD
                | 0x034F
                | 0x0600..=0x0605
                | 0x061C
                | 0x06DD
                | 0x070F
                | 0x0890..=0x0891
                | 0x08E2
                | 0x115F..=0x1160
                | 0x17B4..=0x17B5
                | 0x180B..=0x180F
                | 0x200B..=0x200F
                | 0x2028..=0x202E
                | 0x2060..=0x206F
                | 0x3164
                | 0xFEFF
                | 0xFFA0
                | 0xFFF0..=0xFFFB
                | 0x110BD
                | 0x110CD
                | 0x13430..=0x1343F
                | 0x1BCA0..=0x1BCA3
                | 0x1D173..=0x1D17A
                | 0xE0000..=0xE007F
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use earmark_claim::ClaimKey;

    #[test]
    fn what_cannot_be_seen_is_shown_by_its_code() {
        let cases = [
            ("a\u{202e}gpj.exe", "a\\u{202e}gpj.exe", "a\\u{202e}gpj.exe"),
            ("zero\u{200b}width", "zero\\u{200b}width", "zero\\u{200b}width"),
            ("line\nbreak\u{2028}", "line\\nbreak\\u{2028}", "line\\u{a}break\\u{2028}"),
            (" edge ", "\\u{20}edge\\u{20}", " edge "),
            ("e\u{301}", "e\\u{301}", "e\u{301}"),
            ("\u{5e9}\u{5dc}\u{5d5}\u{5dd}", "\u{5e9}\u{5dc}\u{5d5}\u{5dd}", "\u{5e9}\u{5dc}\u{5d5}\u{5dd}"),
            ("C:\\n", "C:\\\\n", "C:\\\\n"),
            ("<b>\"'&", "<b>\"'&", "<b>\"'&"),
        ];
        for (text, exact, prose) in cases {
            assert_eq!(Untrusted::from(text).exact(), exact, "{text:?}");
            assert_eq!(Untrusted::from(text).prose(), prose, "{text:?}");
        }
    }

    #[test]
    fn ids_that_differ_look_different() {
        let ids =
            ["aB1", "Ab1", "x", "x ", "\u{e9}", "e\u{301}", "ss", "\u{df}", "1", "\u{ff11}", "a/b", "a\\/b"];
        let mut shown: Vec<_> = ids.iter().map(|id| shown_key("", "c", id)).collect();
        shown.sort();
        shown.dedup();
        assert_eq!(shown.len(), ids.len());
    }

    #[test]
    fn a_key_is_shown_as_the_claim_crate_shows_it() {
        for (tenant, consumer, id) in
            [("", "billing", "m-1"), ("t/1", "c", " a/b "), ("t", "c", "\u{202e}e\u{301}'\"\\")]
        {
            let key = ClaimKey::in_tenant(tenant, consumer, id).expect("a legal key");
            assert_eq!(shown_key(tenant, consumer, id), key.to_string());
        }
    }
}

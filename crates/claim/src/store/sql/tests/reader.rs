//! Reads as much SQL as the store's own statements need: words, groups in parentheses, and the conditions that hold for a table.

use std::collections::BTreeSet;

/// A word, a sign, or what stands between two parentheses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// Lower case; `c.tenant` is one. A text is `'…'`.
    Word(String),
    /// In parentheses.
    Group(Group),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group(Vec<Node>);

/// A table of ours in a FROM or UPDATE, with the name by which its columns are called.
struct Table {
    name: String,
    alias: String,
}

/// What ends a condition.
const CLAUSES: [&str; 16] = [
    "where",
    "on",
    "set",
    "group",
    "order",
    "limit",
    "offset",
    "for",
    "returning",
    "lock",
    "from",
    "join",
    "left",
    "inner",
    "union",
    "having",
];

/// All words of a statement, in order.
pub(super) fn words(text: &str) -> Vec<String> {
    tokens(text)
        .into_iter()
        .filter(|t| t.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
        .collect()
}

fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let mut token = String::from(c);
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '?');
        if c == '\'' {
            token.extend(rest.by_ref().take_while(|c| *c != '\''));
        } else if is_word(c) {
            while let Some(more) = rest.next_if(|c| is_word(*c)) {
                token.push(more);
            }
        } else if matches!(c, '<' | '>' | '!' | '=' | ':' | '|') {
            while let Some(more) = rest.next_if(|c| matches!(c, '<' | '>' | '=' | ':' | '|')) {
                token.push(more);
            }
        } else if c.is_whitespace() {
            continue;
        }
        tokens.push(if c == '\'' { token } else { token.to_lowercase() });
    }
    tokens
}

impl Node {
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(w) if w == word)
    }

    fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Group(_) => None,
        }
    }

    /// Of one column or value, as against a sign.
    fn is_operand(&self) -> bool {
        self.word().is_some_and(|w| {
            w.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '?'))
        })
    }
}

impl Group {
    /// Of a whole statement.
    pub(super) fn read(text: &str) -> Self {
        let mut open = vec![Self::default()];
        for token in tokens(text) {
            match token.as_str() {
                "(" => open.push(Self::default()),
                ")" => {
                    let closed = open.pop().expect("a group");
                    open.last_mut().expect("no ) without a (").0.push(Node::Group(closed));
                }
                _ => open.last_mut().expect("a group").0.push(Node::Word(token)),
            }
        }
        assert_eq!(open.len(), 1, "a ( is not closed: {text}");
        open.remove(0)
    }

    /// Every place where a table of ours is touched without all columns of `key` being given.
    pub(super) fn unrouted(&self, key: &[&str]) -> Vec<String> {
        let mut faults = Vec::new();
        for query in self.0.split(|node| node.is("union")) {
            let bound = bound(query);
            let tables = tables(query);
            for Table { name, alias } in &tables {
                // Of several tables, a column without a table is nobody's.
                let plain = tables.len() == 1;
                let given = |column: &str| {
                    bound.contains(&format!("{alias}.{column}")) || (plain && bound.contains(column))
                };
                let missing: Vec<_> = key.iter().filter(|column| !given(column)).collect();
                if !missing.is_empty() {
                    faults.push(format!("{name} {alias} is not told its {missing:?}"));
                }
            }
            faults.extend(inserted(query, key));
        }
        for node in &self.0 {
            if let Node::Group(group) = node {
                faults.extend(group.unrouted(key));
            }
        }
        faults
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().filter_map(Node::word).collect()
    }
}

/// The tables of ours that a query reads or updates.
fn tables(query: &[Node]) -> Vec<Table> {
    let mut tables = Vec::new();
    let mut listing = false;
    for (n, node) in query.iter().enumerate() {
        let after = |word: &str| n > 0 && query[n - 1].is(word);
        let is_joined = after("join") || after("straight_join");
        let is_read = |listed: bool| after("from") || is_joined || after("update") || (listed && after(","));
        match node.word() {
            Some("from") => listing = true,
            Some(word) if CLAUSES.contains(&word) => listing = false,
            Some(name) if name.starts_with("earmark_") && !name.contains('.') && is_read(listing) => {
                let mut next = query[n + 1..].iter().skip_while(|node| node.is("as"));
                let alias = next.next().filter(|node| node.is_operand()).and_then(Node::word);
                let alias = alias.filter(|word| !CLAUSES.contains(word)).unwrap_or(name);
                tables.push(Table { name: name.to_owned(), alias: alias.to_owned() });
            }
            _ => {}
        }
    }
    tables
}

/// The columns that the conditions of a query bind to a value or to a column of another table, each by `=` alone and all of them at once.
fn bound(query: &[Node]) -> BTreeSet<String> {
    let mut bound = BTreeSet::new();
    for (n, node) in query.iter().enumerate() {
        let conflict = query.get(n + 1).is_some_and(|next| next.is("conflict") || next.is("duplicate"));
        if !(node.is("where") || (node.is("on") && !conflict)) {
            continue;
        }
        let ends = |node: &Node| node.word().is_some_and(|word| CLAUSES.contains(&word));
        let condition: Vec<Node> = query[n + 1..].iter().take_while(|node| !ends(node)).cloned().collect();
        if condition.iter().any(|node| node.is("or")) {
            continue;
        }
        for one in condition.split(|node| node.is("and")) {
            match one {
                [left, sign, right]
                    if sign.is("=") && left.is_operand() && right.is_operand() && left != right =>
                {
                    bound.extend([left, right].iter().filter_map(|node| node.word().map(str::to_owned)));
                }
                [Node::Group(columns), sign, Node::Group(_)] if sign.is("in") || sign.is("=") => {
                    bound.extend(columns.names().into_iter().map(str::to_owned));
                }
                _ => {}
            }
        }
    }
    bound
}

/// What is wrong with the query's insert, if it is one.
fn inserted(query: &[Node], key: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    for (n, node) in query.iter().enumerate() {
        let target = match node.word() {
            Some("into") => query.get(n + 2),
            Some("conflict") => query.get(n + 1),
            _ => continue,
        };
        let named = match target {
            Some(Node::Group(columns)) => columns.names(),
            _ => Vec::new(),
        };
        if key.iter().any(|column| !named.contains(column)) {
            faults.push(format!("{} does not name the whole key", node.word().unwrap_or_default()));
        }
    }
    faults
}

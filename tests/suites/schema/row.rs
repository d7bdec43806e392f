//! Rows typed by hand: one that fits each state, and changes to it.

use earmark_migrations::Dialect;

/// Some time in 2026.
pub const TIME: Value = Value::Int(1_790_000_000_000_000);

/// The states in the order of a claim's life.
pub const STATES: [&str; 7] =
    ["held", "in_flight", "retryable", "in_doubt", "escalated", "confirmed", "abandoned"];

/// A value, before it is spelled for a database.
#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Int(i64),
    Bool(bool),
    Text(String),
    Bytes(Vec<u8>),
    /// So many zero bytes, made by the database.
    Zeros(usize),
}

pub fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// A text of so many bytes, two to a character: a width counted in characters would let it through.
pub fn wide(bytes: usize) -> Value {
    Value::Text("é".repeat(bytes.div_ceil(2)))
}

impl Value {
    fn literal(&self, dialect: Dialect) -> String {
        match (self, dialect) {
            (Self::Null, _) => "NULL".to_owned(),
            (Self::Int(number), _) => number.to_string(),
            (Self::Bool(truth), Dialect::Postgres) => truth.to_string(),
            (Self::Bool(truth), _) => u8::from(*truth).to_string(),
            (Self::Text(text), _) => format!("'{text}'"),
            (Self::Bytes(bytes), dialect) => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                if dialect == Dialect::Postgres { format!("'\\x{hex}'") } else { format!("X'{hex}'") }
            }
            (Self::Zeros(count), Dialect::Postgres) => format!("decode(repeat('00', {count}), 'hex')"),
            (Self::Zeros(count), Dialect::MySql) => format!("REPEAT(X'00', {count})"),
            (Self::Zeros(count), Dialect::Sqlite) => format!("zeroblob({count})"),
        }
    }
}

/// A row of one table.
#[derive(Clone, Debug)]
pub struct Row {
    table: &'static str,
    columns: Vec<(&'static str, Value)>,
}

impl Row {
    /// A claim that fits the state: every state-bound column is set for it, whatever the row held before.
    pub fn claim(state: &'static str) -> Self {
        let sent = !matches!(state, "held");
        let closed = matches!(state, "confirmed" | "abandoned");
        let confirmed = state == "confirmed";
        let when = |condition: bool, value: Value| if condition { value } else { Value::Null };
        let columns = vec![
            ("tenant", text("t")),
            ("consumer", text("c")),
            ("message_id", text("m")),
            ("kind", text("mail.welcome")),
            ("form", text("http/1")),
            ("downstream", text("stripe")),
            ("summary", text("a line for a person")),
            ("business_ref", Value::Null),
            ("amount_minor", Value::Null),
            ("currency", Value::Null),
            ("state", text(state)),
            ("doubt", Value::Bool(state == "escalated")),
            ("contradicted", Value::Bool(false)),
            ("fence", Value::Int(i64::from(sent))),
            ("token", Value::Bytes(vec![7; 16])),
            ("revision", Value::Int(1)),
            ("due_at", when(!closed && state != "escalated", TIME)),
            ("not_before", Value::Null),
            ("send_by", Value::Null),
            ("created_at", TIME),
            ("window_from", when(sent, TIME)),
            ("last_end_at", when(sent && state != "in_flight", TIME)),
            ("attempts", Value::Int(i64::from(sent))),
            ("repeats_granted", Value::Int(0)),
            ("ruled_at", Value::Null),
            ("looks", Value::Int(0)),
            ("closed_at", when(closed, TIME)),
            ("closed_by", when(closed, text(if confirmed { "answer" } else { "refused" }))),
            ("error_class", Value::Null),
            ("provider_ref", when(confirmed, text("ch_1"))),
            ("fingerprint", Value::Bytes(vec![1; 32])),
            ("idempotency_key", text("em1-0123456789abcdef")),
            ("reference", text("4F7K2M9QX3TB8RW5")),
            ("request", Value::Bytes(b"{}".to_vec())),
            ("request_type", text("application/json")),
            ("credential", Value::Null),
            ("repeat_safety", text("keyed")),
            ("key_window", Value::Int(86_400_000_000)),
            ("landing_horizon", Value::Null),
            ("probe_lag", Value::Null),
            ("probe_proof", Value::Bool(false)),
            ("looks_max", Value::Int(0)),
            ("call_timeout", Value::Int(10_000_000)),
            ("attempts_max", Value::Int(5)),
            ("age_max", Value::Int(86_400_000_000)),
            ("receipt", when(confirmed, Value::Bytes(b"{\"id\":\"ch_1\"}".to_vec()))),
            ("receipt_type", when(confirmed, text("application/json"))),
            ("receipt_len", when(confirmed, Value::Int(13))),
            ("receipt_digest", when(confirmed, Value::Bytes(vec![2; 32]))),
            ("traceparent", Value::Null),
            ("supersedes", Value::Null),
            ("purged_at", Value::Null),
        ];
        Self { table: "earmark_claim", columns }
    }

    /// An event of the claim's row.
    pub fn event() -> Self {
        let columns = vec![
            ("tenant", text("t")),
            ("consumer", text("c")),
            ("message_id", text("m")),
            ("seq", Value::Int(1)),
            ("at", TIME),
            ("fence", Value::Int(1)),
            ("revision", Value::Int(2)),
            ("name", text("escalate")),
            ("actor", Value::Null),
            ("from_state", text("in_doubt")),
            ("to_state", text("escalated")),
            ("provider_ref", Value::Null),
            ("detail", text("{}")),
            ("bytes", Value::Null),
            ("bytes_type", Value::Null),
        ];
        Self { table: "earmark_event", columns }
    }

    /// Evidence that names nothing.
    pub fn orphan() -> Self {
        let columns = vec![
            ("id", text("0123456789abcdef0123456789abcdef")),
            ("at", TIME),
            ("source", text("webhook")),
            ("tenant", Value::Null),
            ("consumer", Value::Null),
            ("message_id", Value::Null),
            ("reference", Value::Null),
            ("idempotency_key", Value::Null),
            ("provider_ref", Value::Null),
            ("finding", text("done")),
            ("detail", Value::Null),
            ("bytes", Value::Null),
            ("bytes_type", Value::Null),
            ("adopted_at", Value::Null),
        ];
        Self { table: "earmark_orphan", columns }
    }

    /// A sweeper that has not come through yet.
    pub fn sweeper() -> Self {
        let columns = vec![
            ("name", text("host-1")),
            ("started_at", TIME),
            ("last_success_at", Value::Null),
            ("passes", Value::Int(0)),
            ("version", text("0.1.0")),
        ];
        Self { table: "earmark_sweeper", columns }
    }

    /// A pause that is over.
    pub fn pause() -> Self {
        let columns = vec![
            ("downstream", text("stripe")),
            ("seq", Value::Int(1)),
            ("at", TIME),
            ("actor", text("K. Lang")),
            ("reason", text("an outage")),
            ("resumed_at", TIME),
            ("resumed_by", text("K. Lang")),
            ("resume_reason", text("it is over")),
        ];
        Self { table: "earmark_pause", columns }
    }

    /// Some fact.
    pub fn meta() -> Self {
        Self {
            table: "earmark_meta",
            columns: vec![("name", text("n")), ("value", text("v")), ("written_at", TIME)],
        }
    }

    /// The same row with another value in one column.
    #[must_use]
    pub fn with(mut self, column: &str, value: Value) -> Self {
        let table = self.table;
        let found = self.columns.iter_mut().find(|(name, _)| *name == column);
        found.unwrap_or_else(|| panic!("{table} has no column {column}")).1 = value;
        self
    }

    pub fn insert(&self, dialect: Dialect) -> String {
        let names: Vec<_> = self.columns.iter().map(|(name, _)| *name).collect();
        let values: Vec<_> = self.columns.iter().map(|(_, value)| value.literal(dialect)).collect();
        format!("INSERT INTO {} ({}) VALUES ({})", self.table, names.join(", "), values.join(", "))
    }

    /// Makes the claim of this message id into this row.
    pub fn update(&self, dialect: Dialect, message_id: &str) -> String {
        let key = ["tenant", "consumer", "message_id"];
        let set: Vec<_> = self
            .columns
            .iter()
            .filter(|(name, _)| !key.contains(name))
            .map(|(name, value)| format!("{name} = {}", value.literal(dialect)))
            .collect();
        format!("UPDATE {} SET {} WHERE message_id = '{message_id}'", self.table, set.join(", "))
    }
}

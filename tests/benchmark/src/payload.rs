//! What every system stores of an effect: the same bytes.

use serde::{Deserialize, Serialize};

/// Bytes of the stored request, as JSON.
pub const REQUEST_BYTES: usize = 331;
/// Bytes of the stored outcome, as JSON.
pub const RECEIPT_BYTES: usize = 212;

/// What is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The task that asks: where the effect writes down when it was reached.
    pub slot: usize,
    /// Fills the request up to its size.
    pub body: String,
}

/// What proves that it happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Receipt {
    /// Fills the receipt up to its size.
    pub body: String,
}

/// A request of that task, [`REQUEST_BYTES`] long.
pub fn request(slot: usize) -> Request {
    let around = r#"{"slot":,"body":""}"#.len() + slot.to_string().len();
    Request { slot, body: "q".repeat(REQUEST_BYTES - around) }
}

/// A receipt, [`RECEIPT_BYTES`] long.
pub fn receipt() -> Receipt {
    Receipt { body: "r".repeat(RECEIPT_BYTES - r#"{"body":""}"#.len()) }
}

#[cfg(test)]
mod tests {
    use super::{RECEIPT_BYTES, REQUEST_BYTES, receipt, request};

    #[test]
    fn they_have_the_size_that_is_promised() {
        for slot in [0, 9, 10, 1023] {
            assert_eq!(serde_json::to_vec(&request(slot)).expect("JSON").len(), REQUEST_BYTES);
        }
        assert_eq!(serde_json::to_vec(&receipt()).expect("JSON").len(), RECEIPT_BYTES);
    }
}

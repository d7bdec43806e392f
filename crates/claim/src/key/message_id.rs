//! Constructors for message ids that are stable across redeliveries.

use super::KeyError;

/// The id of a message: the same at every delivery, different for every business effect.
///
/// What qualifies: a producer's own id; CloudEvents `source` + `id`; a Kafka topic, partition and offset; an Azure
/// Service Bus `MessageId` that the sender set. What must **not** be used: a correlation id (shared by many
/// messages), a delivery or lock token, a delivery count, a receive time, an id that the consumer makes up, or an SQS
/// message id where the producer may send twice.
///
/// ```
/// use earmark_claim::MessageId;
/// let plain = MessageId::from("order-88123:charge");
/// let event = MessageId::cloud_events("/shop/orders", "A-1")?;
/// let record = MessageId::kafka("payments", 3, 4217)?;
/// # Ok::<(), earmark_claim::KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageId(String);

impl MessageId {
    /// CloudEvents: `source` + `id` identify an event (CloudEvents 1.0, "id" and "source" attributes); the id
    /// alone does not. The length of the source stands in front, so that no two pairs share a message id.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] when either is empty, which the specification forbids.
    pub fn cloud_events(source: &str, id: &str) -> Result<Self, KeyError> {
        if source.is_empty() || id.is_empty() {
            return Err(KeyError::Malformed {
                what: "a CloudEvents message needs a source and an id".into(),
                fix: "take both from the event's attributes (ce-source and ce-id)",
            });
        }
        Ok(Self(format!("ce:{}:{source}:{id}", source.len())))
    }

    /// Kafka: topic, partition and offset identify a record for as long as the topic is not re-created. Where the
    /// producer may write a record twice, use the producer's own id instead.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] for a topic name that Kafka does not allow (1..249 characters of
    /// `[A-Za-z0-9._-]`) or a negative partition or offset.
    pub fn kafka(topic: &str, partition: i32, offset: i64) -> Result<Self, KeyError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if topic.is_empty() || topic.len() > 249 || !topic.chars().all(legal) {
            return Err(KeyError::Malformed {
                what: format!("{topic:?} is not a Kafka topic name"),
                fix: "a topic has 1 to 249 characters of A-Z a-z 0-9 . _ -",
            });
        }
        if partition < 0 || offset < 0 {
            return Err(KeyError::Malformed {
                what: format!("partition {partition}, offset {offset} is not the position of a record"),
                fix: "take both from the consumed record",
            });
        }
        Ok(Self(format!("kafka:{topic}:{partition}:{offset}")))
    }

    /// Azure Service Bus: the `MessageId` that the **sender** set (the property that the broker's own duplicate
    /// detection uses). A sequence number or lock token is not it.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] when it is empty or longer than the 128 characters that the broker allows.
    pub fn service_bus(message_id: &str) -> Result<Self, KeyError> {
        if message_id.is_empty() || message_id.chars().count() > 128 {
            return Err(KeyError::Malformed {
                what: "a Service Bus MessageId has 1 to 128 characters".into(),
                fix: "set MessageId at the sender",
            });
        }
        Ok(Self(format!("asb:{message_id}")))
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// A producer's own id, taken as it is.
impl From<&str> for MessageId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

/// A producer's own id, taken as it is.
impl From<String> for MessageId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

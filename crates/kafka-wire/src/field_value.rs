//! What a message says, field by field under the names of the schema: for those who show messages or compare them.

use std::borrow::Cow;

use mainstem_types::TopicId;

use crate::Records;

/// One value of a message. Texts and bytes are borrowed from it.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue<'v> {
    /// Of a field that may be null.
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Id(TopicId),
    Text(&'v str),
    /// Of a field of type `bytes`, and records that are here.
    Bytes(&'v [u8]),
    /// Records that are elsewhere, by their length.
    Hole(u32),
    List(Vec<FieldValue<'v>>),
    /// Names and values in the order of the schema, without the fields of versions that Kafka 4.4 does not speak.
    Struct(Vec<(&'static str, FieldValue<'v>)>),
}

/// What can stand in a message.
pub trait AsFieldValue {
    fn field_value(&self) -> FieldValue<'_>;
}

macro_rules! integers {
    ($($kind:ty)*) => { $(
        impl AsFieldValue for $kind {
            fn field_value(&self) -> FieldValue<'_> {
                FieldValue::Integer(i64::from(*self))
            }
        }
    )* };
}

integers! { i8 i16 i32 i64 u16 u32 }

impl AsFieldValue for bool {
    fn field_value(&self) -> FieldValue<'_> {
        FieldValue::Bool(*self)
    }
}

impl AsFieldValue for f64 {
    fn field_value(&self) -> FieldValue<'_> {
        FieldValue::Float(*self)
    }
}

impl AsFieldValue for TopicId {
    fn field_value(&self) -> FieldValue<'_> {
        FieldValue::Id(*self)
    }
}

impl AsFieldValue for Cow<'_, str> {
    fn field_value(&self) -> FieldValue<'_> {
        FieldValue::Text(self)
    }
}

impl AsFieldValue for Cow<'_, [u8]> {
    fn field_value(&self) -> FieldValue<'_> {
        FieldValue::Bytes(self)
    }
}

impl AsFieldValue for Records<'_> {
    fn field_value(&self) -> FieldValue<'_> {
        match self {
            Records::Null => FieldValue::Null,
            Records::Bytes(bytes) => FieldValue::Bytes(bytes),
            Records::Hole(length) => FieldValue::Hole(*length),
        }
    }
}

impl<T: AsFieldValue> AsFieldValue for Option<T> {
    fn field_value(&self) -> FieldValue<'_> {
        self.as_ref().map_or(FieldValue::Null, AsFieldValue::field_value)
    }
}

impl<T: AsFieldValue> AsFieldValue for Vec<T> {
    fn field_value(&self) -> FieldValue<'_> {
        FieldValue::List(self.iter().map(AsFieldValue::field_value).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{ProduceRequest, produce_request};

    #[test]
    fn a_message_tells_its_fields_under_their_names() {
        let partition = produce_request::PartitionProduceData { index: 3, records: Records::borrowed(b"ab") };
        let topic = produce_request::TopicProduceData { partition_data: vec![partition], ..Default::default() };
        let request = ProduceRequest { acks: -1, topic_data: vec![topic], ..Default::default() };
        let FieldValue::Struct(fields) = request.field_value() else { panic!("a message is a struct") };
        let of = |name: &str| fields.iter().find(|field| field.0 == name).map(|field| field.1.clone()).unwrap();
        assert_eq!((of("transactional_id"), of("acks")), (FieldValue::Null, FieldValue::Integer(-1)));
        let partition = vec![("index", FieldValue::Integer(3)), ("records", FieldValue::Bytes(b"ab"))];
        let topics = vec![
            ("name", FieldValue::Text("")),
            ("topic_id", FieldValue::Id(TopicId::ZERO)),
            ("partition_data", FieldValue::List(vec![FieldValue::Struct(partition)])),
        ];
        assert_eq!(of("topic_data"), FieldValue::List(vec![FieldValue::Struct(topics)]));
    }
}

//! A decoded message as JSON, under the names of the schema.

use mainstem_kafka_wire::{AsFieldValue, FieldValue};
use serde_json::{Map, Number, Value, json};

/// Structs become objects, ids and texts strings, bytes a list of numbers.
pub(crate) fn of(message: &impl AsFieldValue) -> Value {
    json_of(message.field_value())
}

fn json_of(value: FieldValue<'_>) -> Value {
    match value {
        FieldValue::Null => Value::Null,
        FieldValue::Bool(value) => Value::Bool(value),
        FieldValue::Integer(value) => Value::from(value),
        // JSON has no number for infinity and the like.
        FieldValue::Float(value) => Number::from_f64(value).map_or_else(|| json!(value.to_string()), Value::Number),
        FieldValue::Id(id) => Value::String(id.to_string()),
        FieldValue::Text(text) => Value::from(text),
        FieldValue::Bytes(bytes) => Value::from(bytes),
        FieldValue::Hole(bytes) => Value::from(bytes),
        FieldValue::List(values) => values.into_iter().map(json_of).collect(),
        FieldValue::Struct(fields) => Value::Object(
            fields.into_iter().map(|(name, value)| (name.to_owned(), json_of(value))).collect::<Map<_, _>>(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstem_kafka_wire::metadata_records::{ClientQuotaRecord, MetadataRecord, PartitionRecord, TopicRecord};
    use mainstem_types::TopicId;

    #[test]
    fn a_message_becomes_an_object_with_the_names_of_its_fields() {
        let topic = TopicRecord { name: "a \"b\"\n\u{7f}ü".into(), topic_id: TopicId([0xff; 16]) };
        let expected = json!({"name": "a \"b\"\n\u{7f}ü", "topic_id": "_____________________w"});
        assert_eq!(of(&MetadataRecord::Topic(topic)), expected);
        let partition = PartitionRecord { replicas: vec![1, 2], partition_epoch: -1, ..Default::default() };
        let value = of(&partition);
        assert_eq!(value["replicas"], json!([1, 2]));
        assert_eq!(value["partition_epoch"], -1);
    }

    #[test]
    fn floats_bytes_and_nothing() {
        let quota = |value| of(&ClientQuotaRecord { value, ..Default::default() });
        assert_eq!(quota(1.5), json!({"entity": [], "key": "", "value": 1.5, "remove": false}));
        assert_eq!(quota(f64::INFINITY)["value"], "inf");
        assert_eq!(json_of(FieldValue::List(vec![FieldValue::Null, FieldValue::Bytes(b"a")])), json!([null, [97]]));
    }
}

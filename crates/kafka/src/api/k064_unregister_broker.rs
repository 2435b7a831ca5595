//! UnregisterBroker (64), version 0: the cluster forgets a node that will not come back. This one, which answers,
//! stays.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_door::Handled;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::{UnregisterBrokerRequest, UnregisterBrokerResponse};
use mainstem_metadata::controller::UnregisterBrokerError;

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::errors::controller_error_code;
use crate::request::Request;

pub const API: Api = Api::new(64, "UnregisterBroker", 0..=0, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: UnregisterBrokerRequest = request.decode()?;
    let broker = Arc::clone(&door.broker);
    Ok(Handled::working(async move {
        let (error, text) = match broker.unregister_broker(message.broker_id).await {
            Ok(Ok(())) => (ErrorCode::NONE, None),
            Ok(Err(error)) => (error_code(&error), Some(error.to_string())),
            Err(error) => (controller_error_code(&error), Some(error.to_string())),
        };
        let error_message = text.map(Cow::Owned);
        request.reply(&UnregisterBrokerResponse { error_code: error.0, error_message, ..Default::default() })
    }))
}

fn error_code(error: &UnregisterBrokerError) -> ErrorCode {
    match error {
        UnregisterBrokerError::NotRegistered(_) => ErrorCode::BROKER_ID_NOT_REGISTERED,
        UnregisterBrokerError::ThisNode(_) => ErrorCode::INVALID_REQUEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::TestDoor;

    fn unregister(kafka: &TestDoor, broker_id: i32) -> ErrorCode {
        let response: UnregisterBrokerResponse<'static> = kafka.call(0, &UnregisterBrokerRequest { broker_id });
        assert_eq!(response.error_message.is_some(), response.error_code != 0, "{response:?}");
        ErrorCode(response.error_code)
    }

    #[test]
    fn a_broker_that_is_not_registered_cannot_be_forgotten() {
        let kafka = TestDoor::any();
        assert_eq!(unregister(&kafka, 77), ErrorCode::BROKER_ID_NOT_REGISTERED);
        assert_eq!(unregister(&kafka, -1), ErrorCode::BROKER_ID_NOT_REGISTERED);
    }

    #[test]
    fn the_node_that_answers_stays() {
        let kafka = TestDoor::start(&[]);
        assert_eq!(unregister(&kafka, 1), ErrorCode::INVALID_REQUEST);
        assert!(kafka.broker().image().broker(1).is_some());
    }
}

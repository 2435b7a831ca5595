//! InitProducerId (22), versions 0-5: a producer id for an idempotent producer. v2: flexible. v3: an expected id and
//! epoch (KIP-360). v4: PRODUCER_FENCED. v5: as v4 without transactions.
//!
//! - Without a transactional id: a fresh id, epoch 0. What a producer names of an earlier life does not matter: its
//!   next batches begin anew.
//! - With one: INVALID_REQUEST, because this broker has no transactions.

use std::sync::Arc;

use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::{InitProducerIdRequest, InitProducerIdResponse};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::request::Request;

pub const API: Api = Api::new(22, "InitProducerId", 0..=5, handle);

fn handle(door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: InitProducerIdRequest<'_> = request.decode()?;
    let half_named = (message.producer_id == -1) != (message.producer_epoch == -1);
    if message.transactional_id.is_some() || half_named {
        return Ok(Handled::Ready(refused(&request, ErrorCode::INVALID_REQUEST)));
    }
    // Most ids come from the block at hand; a new block is a record of the metadata log.
    if let Some(id) = door.broker.producer_ids().next_at_hand() {
        return Ok(Handled::Ready(granted(&request, id.0)));
    }
    let broker = Arc::clone(&door.broker);
    Ok(Handled::working(async move {
        match broker.allocate_producer_id().await {
            Ok(id) => granted(&request, id.0),
            Err(error) => {
                tracing::warn!("cannot assign a producer id: {error}");
                refused(&request, ErrorCode::COORDINATOR_NOT_AVAILABLE)
            }
        }
    }))
}

fn granted(request: &Request, producer_id: i64) -> Reply {
    request.reply(&InitProducerIdResponse { producer_id, producer_epoch: 0, ..Default::default() })
}

fn refused(request: &Request, error: ErrorCode) -> Reply {
    request.reply(&InitProducerIdResponse {
        error_code: error.0,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    })
}

//! Produce (0), versions 3-13: appends one batch to each partition named.
//!
//! - v3: record batches of magic 2 only. v7: zstd. v8: record errors. v9: flexible. v10: leader hints (one node has
//!   none). v12: as v11 for producers without transactions. v13: topics by id.
//! - acks: 0 (no answer; an error ends the connection), 1 and -1 (answered when the records are committed as the
//!   topic's durability asks).
//! - Never creates a topic.

use std::sync::Arc;
use std::time::Duration;

use mainstem_broker::{CommitWaits, NotCommitted};
use mainstem_door::{Handled, Reply};
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::ProduceRequest;
use mainstem_kafka_wire::messages::produce_response::ProduceResponse;
use mainstem_waits::WaitTimer;

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::produce::{Answers, Batches, Place, Terms, failure};
use crate::request::Request;

/// Versions 0-2 are advertised and refused, see [`Api::advertised_min_version`].
pub const API: Api = Api::new(0, "Produce", 3..=13, handle).advertised_from(0);

fn handle(door: &Door, connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: ProduceRequest<'_> = request.decode()?;
    let terms = Terms::of(&door.broker, &request, &message);
    let (timeout_ms, connection) = (message.timeout_ms, Arc::clone(connection));
    let mut batches = Batches::start(&door.broker, &request, &message, terms);
    drop(message);
    if batches.is_done() {
        return Ok(finish(request, batches, timeout_ms, connection));
    }
    Ok(Handled::working_towards(async move {
        while !batches.is_done() {
            let pool = Arc::clone(batches.threads());
            batches = match pool.run(move || batches.go_on()).await {
                Ok(batches) => batches,
                Err(stopped) => return Handled::close(stopped),
            };
        }
        finish(request, batches, timeout_ms, connection)
    }))
}

/// Answers when the appended batches are committed.
fn finish(request: Request, batches: Batches, timeout_ms: i32, connection: Arc<Connection>) -> Handled {
    let Batches { answers: Answers { response, waits, .. }, terms, .. } = batches;
    if terms.acks == 0 {
        return Handled::Ready(fire_and_forget(&response));
    }
    if waits.is_empty() {
        return Handled::Ready(request.reply(&response));
    }
    Handled::confirming(async move {
        let response = wait_for_commits(response, waits, timeout_ms, &connection.wait_timer).await;
        request.reply(&response)
    })
}

/// acks=0 has no answer; what went wrong can only be told by ending the connection.
fn fire_and_forget(response: &ProduceResponse<'_>) -> Reply {
    let failed =
        response.responses.iter().flat_map(|topic| topic.partition_responses.iter()).find(|p| p.error_code != 0);
    match failed {
        None => Reply::Nothing,
        Some(partition) => {
            let code = ErrorCode(partition.error_code);
            let detail = partition.error_message.as_deref().unwrap_or_default();
            Reply::close(CloseReason::FireAndForgetFailed(format!("{} {detail}", code.name())))
        }
    }
}

async fn wait_for_commits(
    mut response: ProduceResponse<'static>,
    waits: CommitWaits<Place>,
    timeout_ms: i32,
    timer: &WaitTimer,
) -> ProduceResponse<'static> {
    let deadline = tokio::time::Instant::now() + Duration::from_millis(timeout_ms.max(0) as u64);
    let missed = |(topic, partition): Place, why| {
        let error = match why {
            NotCommitted::Failed => ErrorCode::KAFKA_STORAGE_ERROR,
            NotCommitted::NotLeader => ErrorCode::NOT_LEADER_OR_FOLLOWER,
            NotCommitted::TimeOver => ErrorCode::REQUEST_TIMED_OUT,
        };
        let partition = &mut response.responses[topic].partition_responses[partition];
        *partition = failure(partition.index, error, Some(error.message().to_owned()));
    };
    waits.wait(deadline, timer, missed).await;
    response
}

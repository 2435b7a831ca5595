//! Heartbeats in the background, while the program works on its records.

use std::sync::Arc;

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::{HeartbeatRequest, HeartbeatResponse};
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::coordinator::CoordinatorLink;
use super::{Identity, MembershipChange, MembershipConfig, is_lost};
use crate::error::ClientError;

/// Ends with the value.
pub(super) struct Heartbeats {
    change: Arc<Mutex<Option<MembershipChange>>>,
    task: AbortHandle,
}

impl Heartbeats {
    pub fn start(link: CoordinatorLink, config: MembershipConfig, identity: Identity) -> Heartbeats {
        let change = Arc::new(Mutex::new(None));
        let task = tokio::spawn(beat(link, config, identity, Arc::clone(&change))).abort_handle();
        Heartbeats { change, task }
    }

    pub fn change(&self) -> Option<MembershipChange> {
        *self.change.lock()
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn beat(
    link: CoordinatorLink,
    config: MembershipConfig,
    identity: Identity,
    change: Arc<Mutex<Option<MembershipChange>>>,
) {
    let mut heard = Instant::now();
    loop {
        sleep(config.heartbeat_interval).await;
        match beat_once(&link, &config, &identity).await {
            Ok(()) => heard = Instant::now(),
            Err(error) if error.code() == Some(ErrorCode::REBALANCE_IN_PROGRESS) => {
                heard = Instant::now();
                // The session goes on until the program joins again.
                *change.lock() = Some(MembershipChange::Rebalance);
            }
            Err(error) if error.code() == Some(ErrorCode::FENCED_INSTANCE_ID) => {
                *change.lock() = Some(MembershipChange::Fenced);
                return;
            }
            Err(error) => {
                let passes = !is_lost(&error) && link.doubt(&error).await;
                if !passes || heard.elapsed() > config.session_timeout {
                    *change.lock() = Some(MembershipChange::Lost);
                    return;
                }
            }
        }
    }
}

async fn beat_once(link: &CoordinatorLink, config: &MembershipConfig, identity: &Identity) -> Result<(), ClientError> {
    let request = HeartbeatRequest {
        group_id: config.group.as_str().into(),
        generation_id: identity.generation,
        member_id: identity.member_id.as_str().into(),
        group_instance_id: config.instance_id.as_deref().map(Into::into),
    };
    let response = link.connection().await?.call(&request).await?;
    let answer: HeartbeatResponse = response.decode()?;
    match ErrorCode(answer.error_code) {
        ErrorCode::NONE => Ok(()),
        code => Err(ClientError::of_broker("Heartbeat", format!("group {}", config.group), code, None)),
    }
}

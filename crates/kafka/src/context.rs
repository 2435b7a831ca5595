//! What each api needs: the door, the connection, and how an api is described.

use std::sync::Arc;

use mainstem_broker::Broker;
use mainstem_door::{ConnectionInfo, Handled, Reply};
use mainstem_waits::WaitTimer;
use parking_lot::Mutex;

use crate::close::CloseReason;
use crate::fetch::session::SessionCache;
use crate::loggers::Loggers;
use crate::request::Request;

/// Shared by all reactors; clones share everything.
#[derive(Clone)]
pub struct Door {
    pub broker: Arc<Broker>,
    pub(crate) fetch_sessions: Arc<SessionCache>,
    pub(crate) loggers: Arc<Loggers>,
    pub(crate) apis: AllApis,
    /// `socket.request.max.bytes`.
    pub(crate) request_bytes_max: usize,
}

/// The state of a connection that the door keeps between its requests. All threads that handle requests of the
/// connection share it.
#[derive(Debug)]
pub struct Connection {
    pub info: ConnectionInfo,
    /// From ApiVersions 3+: name and version of the client's software.
    pub client_software: Mutex<Option<(Box<str>, Box<str>)>>,
    pub(crate) wait_timer: WaitTimer,
}

/// The lists of `registry`, for the api that advertises them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllApis {
    pub(crate) of_kafka: &'static [&'static Api],
    pub(crate) own: &'static [&'static Api],
}

impl Connection {
    /// The client's host as Kafka writes it: Java's form of an address, `/127.0.0.1`.
    pub fn client_host(&self) -> String {
        format!("/{}", self.info.peer.ip())
    }
}

/// One api: its key, the versions that are accepted, and the function that answers.
#[derive(Debug)]
pub struct Api {
    pub key: i16,
    pub name: &'static str,
    /// The least version that is accepted.
    pub min_version: i16,
    pub max_version: i16,
    /// The least version that is *advertised*. It differs for Produce alone: librdkafka up to 2.11.0 takes a range
    /// without version 0 for a broker without compression (KAFKA-18659).
    pub advertised_min_version: i16,
    pub handle: Handler,
}

/// Answers one request. An error ends the connection.
pub type Handler = fn(&Door, &Arc<Connection>, Request) -> Result<Handled, CloseReason>;

impl Api {
    pub const fn new(key: i16, name: &'static str, versions: std::ops::RangeInclusive<i16>, handle: Handler) -> Api {
        Api {
            key,
            name,
            min_version: *versions.start(),
            max_version: *versions.end(),
            advertised_min_version: *versions.start(),
            handle,
        }
    }

    pub const fn advertised_from(mut self, version: i16) -> Api {
        self.advertised_min_version = version;
        self
    }

    pub fn supports(&self, version: i16) -> bool {
        (self.min_version..=self.max_version).contains(&version)
    }
}

/// Answers on a thread of the broker that may wait for the disk, which a reactor may not.
pub(crate) fn on_pool(
    broker: &Arc<Broker>,
    answer: impl FnOnce(&Broker) -> Result<Reply, CloseReason> + Send + 'static,
) -> Handled {
    let answering = Arc::clone(broker);
    Handled::on_pool(broker.blocking(), move || answer(&answering).unwrap_or_else(Reply::close))
}

//! The door: takes request frames, finds the api, hands back replies.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use mainstem_broker::Broker;
use mainstem_door::{Close, ConnectionInfo, Frame, Handled, Outbox, Protocol, handle_elsewhere};
use mainstem_waits::WaitTimer;
use parking_lot::Mutex;

use crate::close::CloseReason;
use crate::context::{AllApis, Connection, Door};
use crate::fetch::session::SessionCache;
use crate::framing::{next_frame, put_length};
use crate::loggers::Loggers;
use crate::registry;
use crate::request::Request;

/// Produce: the one api whose requests may be handled while earlier ones of the same connection wait for their replies.
const PRODUCE_KEY: i16 = 0;
const API_VERSIONS_KEY: i16 = 18;
/// Longer requests are handled on the threads for heavy work.
const REACTOR_FRAME_BYTES_MAX: usize = 64 << 10;

impl Door {
    pub fn new(broker: Arc<Broker>) -> Door {
        let slots = broker.config().fetch.session_slots.max(0) as usize;
        let loggers = Loggers::new(&[], BTreeMap::new(), Box::new(|_| ()));
        let request_bytes_max = usize::try_from(broker.config().connections.request_max_bytes).unwrap_or(0);
        let fetch_sessions = Arc::new(SessionCache::new(slots));
        let apis = AllApis { of_kafka: registry::APIS, own: registry::OWN_APIS };
        Door { broker, fetch_sessions, loggers: Arc::new(loggers), apis, request_bytes_max }
    }

    /// With the loggers of the process, whose levels clients may see and change.
    pub fn with_loggers(self, loggers: Loggers) -> Door {
        Door { loggers: Arc::new(loggers), ..self }
    }

    pub fn connection(&self, info: ConnectionInfo) -> Connection {
        Connection { info, client_software: Mutex::default(), wait_timer: WaitTimer::default() }
    }

    /// The node is about to stop: fetches that wait are answered with what there is.
    pub fn drain(&self) {
        self.broker.end_long_polls();
    }

    /// Handles one request frame (without its four bytes of length). Never blocks for long.
    pub fn handle(&self, connection: &Arc<Connection>, frame: Bytes) -> Handled {
        let frame_len = frame.len();
        let api_key = frame.first_chunk::<2>().map_or(-1, |key| i16::from_be_bytes(*key));
        let request = match Request::parse(frame) {
            Ok(Some(request)) => request,
            Ok(None) => return close(CloseReason::UnknownApi(api_key)),
            Err(error) => return close(CloseReason::Malformed(error.to_string())),
        };
        let Some(api) = registry::find(request.api_key) else {
            return close(CloseReason::UnknownApi(request.api_key));
        };
        // An unknown version of ApiVersions is answered, in version 0 (KIP-511); of any other api it ends the
        // connection.
        if !api.supports(request.version) && api.key != API_VERSIONS_KEY {
            return close(CloseReason::UnsupportedVersion { api: api.name, version: request.version });
        }
        // A request that names thousands of things takes its time: other connections of the reactor do not wait for it.
        if frame_len > REACTOR_FRAME_BYTES_MAX && !is_light(api.key) {
            let (door, connection) = (self.clone(), Arc::clone(connection));
            let handle = move || (api.handle)(&door, &connection, request).unwrap_or_else(close);
            return handle_elsewhere(Arc::clone(self.broker.heavy()), handle);
        }
        (api.handle)(self, connection, request).unwrap_or_else(close)
    }
}

/// Apis whose long requests are no more work than short ones, or that see to it themselves.
fn is_light(api_key: i16) -> bool {
    matches!(api_key, PRODUCE_KEY | API_VERSIONS_KEY)
}

fn close(reason: CloseReason) -> Handled {
    Handled::close(reason)
}

impl Protocol for Door {
    type Connection = Connection;

    fn connect(&self, info: ConnectionInfo, _outbox: Outbox) -> Connection {
        self.connection(info)
    }

    fn frame(&self, _connection: &Connection, received: &[u8]) -> Result<Option<Frame>, Close> {
        next_frame(received, self.request_bytes_max).map_err(|error| error.close())
    }

    fn put_head(&self, response_bytes: u64, head: &mut BytesMut) -> Result<(), Close> {
        Ok(put_length(response_bytes, head)?)
    }

    fn handle(&self, connection: &Arc<Connection>, frame: Bytes) -> Handled {
        Door::handle(self, connection, frame)
    }

    fn may_pipeline(&self, frame: &[u8]) -> bool {
        may_pipeline(frame)
    }

    fn drain(&self) {
        Door::drain(self);
    }
}

/// Whether the request in `frame` may be handled before the replies to earlier requests of its connection have left.
pub fn may_pipeline(frame: &[u8]) -> bool {
    frame.first_chunk::<2>().is_some_and(|key| i16::from_be_bytes(*key) == PRODUCE_KEY)
}

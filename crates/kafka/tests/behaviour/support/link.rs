//! One connection: to a door in this process, or to a broker on a port.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstem_door::{Chunk, Handled, Reply};
use mainstem_kafka::{Connection, Door};
use mainstem_kafka_wire::messages::{ApiVersionsRequest, ResponseHeader};
use mainstem_kafka_wire::{Message, Reader, encode_request, response_header_version};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::node::Node;

/// `client.id` of all requests that do not say another.
pub const CLIENT_ID: &str = "client";

const READ_LIMIT: Duration = Duration::from_secs(60);

pub struct Link {
    end: End,
    next_correlation: i32,
    pub client_id: Option<&'static str>,
}

enum End {
    Door { door: Arc<Door>, runtime: Arc<Runtime>, connection: Arc<Connection>, closed: bool },
    Socket(TcpStream),
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestOutcome<R> {
    Answer(R),
    /// It wants no answer, and the connection goes on.
    Nothing,
    /// The connection is closed.
    Closed,
}

impl<R: std::fmt::Debug> RequestOutcome<R> {
    pub fn answer(self) -> R {
        match self {
            RequestOutcome::Answer(answer) => answer,
            other => panic!("an answer was expected: {other:?}"),
        }
    }
}

/// A request that was sent.
pub struct Sent {
    correlation: i32,
    state: RequestState,
}

enum RequestState {
    Ended(RequestOutcome<Vec<u8>>),
    Waiting(JoinHandle<Reply>),
    OnTheSocket,
}

impl Sent {
    pub fn correlation(&self) -> i32 {
        self.correlation
    }

    /// Drops it, as the end of its connection does.
    pub fn abort(self) {
        if let RequestState::Waiting(handle) = self.state {
            handle.abort();
        }
    }

    /// Whether its answer is there already. Known for a door alone.
    pub fn is_ended(&self) -> bool {
        match &self.state {
            RequestState::Ended(_) => true,
            RequestState::Waiting(handle) => handle.is_finished(),
            RequestState::OnTheSocket => false,
        }
    }
}

impl Link {
    pub fn door(node: &Node) -> Link {
        let (door, runtime) = (Arc::clone(&node.door), Arc::clone(&node.runtime));
        let end = End::Door { door, runtime, connection: node.connection(), closed: false };
        Link { end, next_correlation: 1, client_id: Some(CLIENT_ID) }
    }

    pub fn socket(address: &str) -> Link {
        let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        stream.set_read_timeout(Some(READ_LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Link { end: End::Socket(stream), next_correlation: 1, client_id: Some(CLIENT_ID) }
    }

    /// Sends a request and gives the answer.
    pub fn call<'q, Q: Message<'q>, R: Message<'static>>(&mut self, version: i16, request: &Q) -> R {
        match self.outcome(version, request) {
            RequestOutcome::Answer(answer) => answer,
            RequestOutcome::Nothing => panic!("{} {version}: no answer", Q::NAME),
            RequestOutcome::Closed => panic!("{} {version}: the connection was closed", Q::NAME),
        }
    }

    pub fn outcome<'q, Q: Message<'q>, R: Message<'static>>(&mut self, version: i16, request: &Q) -> RequestOutcome<R> {
        let sent = self.send(version, request);
        self.end::<Q, R>(version, sent)
    }

    /// Sends a request and does not wait.
    pub fn send<'q, Q: Message<'q>>(&mut self, version: i16, request: &Q) -> Sent {
        let correlation = self.next_correlation;
        self.next_correlation += 1;
        let frame = encode_request(version, correlation, self.client_id, request);
        let frame = frame.unwrap_or_else(|error| panic!("{} {version}: {error}", Q::NAME)).bytes.slice(4..);
        Sent { correlation, state: self.send_frame(frame) }
    }

    /// Waits for the end of a request that was sent on this connection.
    pub fn end<'q, Q: Message<'q>, R: Message<'static>>(&mut self, version: i16, sent: Sent) -> RequestOutcome<R> {
        let correlation = sent.correlation;
        match self.end_raw(sent) {
            RequestOutcome::Answer(frame) => {
                RequestOutcome::Answer(decode_answer::<Q, R>(version, correlation, &frame))
            }
            RequestOutcome::Nothing => RequestOutcome::Nothing,
            RequestOutcome::Closed => RequestOutcome::Closed,
        }
    }

    /// As [`end`](Self::end), for the frame without its length.
    pub fn end_raw(&mut self, sent: Sent) -> RequestOutcome<Vec<u8>> {
        match (sent.state, &mut self.end) {
            (RequestState::Ended(outcome), _) => outcome,
            (RequestState::Waiting(handle), End::Door { runtime, closed, .. }) => {
                let outcome = ended(runtime.block_on(handle).unwrap());
                *closed |= outcome == RequestOutcome::Closed;
                outcome
            }
            (RequestState::OnTheSocket, End::Socket(stream)) => {
                receive(stream).unwrap_or_else(|error| panic!("no answer to request {}: {error}", sent.correlation))
            }
            _ => panic!("the request was sent on another connection"),
        }
    }

    /// Sends a request that wants no answer, and finds out whether the connection goes on.
    pub fn tell<'q, Q: Message<'q>>(&mut self, version: i16, request: &Q) -> RequestOutcome<Vec<u8>> {
        let sent = self.send(version, request);
        if matches!(self.end, End::Door { .. }) {
            return self.end_raw(sent);
        }
        let probe = self.send(0, &ApiVersionsRequest::default());
        match self.end_raw(probe) {
            RequestOutcome::Answer(_) => RequestOutcome::Nothing,
            other => other,
        }
    }

    /// Sends a frame without its length, whatever it is.
    pub fn raw(&mut self, frame: Bytes) -> RequestOutcome<Vec<u8>> {
        let state = self.send_frame(frame);
        self.end_raw(Sent { correlation: 0, state })
    }

    fn send_frame(&mut self, frame: Bytes) -> RequestState {
        match &mut self.end {
            End::Door { closed: true, .. } => RequestState::Ended(RequestOutcome::Closed),
            End::Door { door, runtime, connection, closed } => {
                let _entered = runtime.enter();
                match door.handle(connection, frame) {
                    Handled::Ready(reply) => {
                        let outcome = ended(reply);
                        *closed = outcome == RequestOutcome::Closed;
                        RequestState::Ended(outcome)
                    }
                    promised => {
                        let handle = runtime.spawn(promised.reply());
                        settle(runtime);
                        RequestState::Waiting(handle)
                    }
                }
            }
            End::Socket(stream) => {
                let mut bytes = (frame.len() as u32).to_be_bytes().to_vec();
                bytes.extend_from_slice(&frame);
                // One that was closed meanwhile shows when its answer is read.
                let _ = stream.write_all(&bytes);
                RequestState::OnTheSocket
            }
        }
    }
}

/// Lets the tasks of a runtime run as far as they can.
pub fn settle(runtime: &Runtime) {
    runtime.block_on(async {
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    });
}

/// Reads the header and the whole body: bytes left over are an error.
pub fn decode_answer<'q, Q: Message<'q>, R: Message<'static>>(version: i16, correlation: i32, frame: &[u8]) -> R {
    // Leaked, so that what is decoded may borrow from it: tests are short.
    let bytes: &'static [u8] = Box::leak(frame.to_vec().into_boxed_slice());
    let mut reader = Reader::new(bytes);
    let header_version = response_header_version(Q::API_KEY.unwrap(), version).unwrap();
    let header = ResponseHeader::decode(&mut reader, header_version).unwrap();
    assert_eq!(header.correlation_id, correlation, "{} {version}: the answer to another request", Q::NAME);
    let message = R::decode(&mut reader, version);
    let message = message.unwrap_or_else(|error| panic!("{} {version}: {error}: {frame:02x?}", R::NAME));
    reader.finish(R::NAME).unwrap_or_else(|error| panic!("{} {version}: {error}", R::NAME));
    message
}

fn ended(reply: Reply) -> RequestOutcome<Vec<u8>> {
    match reply {
        Reply::Nothing => RequestOutcome::Nothing,
        Reply::Close(_) => RequestOutcome::Closed,
        Reply::Send(response) => RequestOutcome::Answer(flatten(response.chunks)),
    }
}

/// All chunks in a row, with the bytes of the files.
fn flatten(chunks: Vec<Chunk>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in chunks {
        match chunk {
            Chunk::Bytes(part) => bytes.extend_from_slice(&part),
            Chunk::File(slice) => {
                let start = bytes.len();
                bytes.resize(start + slice.len as usize, 0);
                slice.file.read_exact_at(&mut bytes[start..], slice.position).unwrap();
            }
        }
    }
    bytes
}

fn receive(stream: &mut TcpStream) -> std::io::Result<RequestOutcome<Vec<u8>>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
            return Ok(RequestOutcome::Closed);
        }
        read => read?,
    }
    let mut response = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut response)?;
    Ok(RequestOutcome::Answer(response))
}

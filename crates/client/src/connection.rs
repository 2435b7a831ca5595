//! One TCP connection to one broker: requests go out without waiting for earlier answers, and answers find their
//! request by correlation id.
//!
//! A writer task owns the sending half, so that a caller that gives up never leaves half a frame behind. When a request
//! times out, the client closes the connection, because a late answer cannot be distinguished from a stall.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mainstem_kafka_wire::messages::{ApiVersionsRequest, ApiVersionsResponse, ResponseHeader};
use mainstem_kafka_wire::{ApiKey, ErrorCode, Message, Reader, encode_request, response_header_version};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::config::ClientConfig;
use crate::error::ClientError;
use crate::versions::Versions;

/// Frames that wait for the writer; more make their senders wait.
const QUEUED_FRAMES_MAX: usize = 64;
/// Bytes that are reserved for an answer before it arrives.
const READ_AHEAD_SIZE: usize = 1 << 20;
const WRITE_BUFFER_SIZE: usize = 64 * 1024;

pub(crate) struct Connection {
    address: Arc<str>,
    client_id: String,
    request_timeout: Duration,
    frames: mpsc::Sender<Vec<Bytes>>,
    waiting: Arc<Mutex<Waiting>>,
    next_correlation_id: AtomicI32,
    versions: Versions,
    tasks: [AbortHandle; 2],
}

/// The waiters for answers, or the reason why no answer will come any more.
#[derive(Default)]
struct Waiting {
    closed: Option<String>,
    answers: HashMap<i32, oneshot::Sender<Bytes>>,
}

/// The body of an answer, not decoded yet.
pub(crate) struct Response {
    address: Arc<str>,
    api: &'static str,
    version: i16,
    body: Bytes,
}

impl Response {
    /// Decodes the body; strings and records borrow from it.
    pub(crate) fn decode<'a, M: Message<'a>>(&'a self) -> Result<M, ClientError> {
        let failed = |error| ClientError::Decode { address: self.address.to_string(), api: self.api, error };
        M::decode(&mut Reader::new(&self.body), self.version).map_err(failed)
    }

    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    /// The answer lacks the requested part.
    pub(crate) fn missing(&self, subject: impl Into<String>) -> ClientError {
        ClientError::Missing { address: self.address.to_string(), api: self.api, subject: subject.into() }
    }
}

impl Connection {
    /// Connects and asks the broker which versions it speaks.
    pub(crate) async fn open(address: &str, config: &ClientConfig) -> Result<Connection, ClientError> {
        let failed = |detail: String| ClientError::Connect { address: address.to_owned(), detail };
        let stream = timeout(config.connect_timeout, TcpStream::connect(address))
            .await
            .map_err(|_| failed(format!("no connection within {} ms", config.connect_timeout.as_millis())))?
            .map_err(|error| failed(error.to_string()))?;
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let mut connection = Connection::over(stream, address, config);
        connection.versions = connection.ask_versions().await?;
        Ok(connection)
    }

    fn over(stream: TcpStream, address: &str, config: &ClientConfig) -> Connection {
        let (read_half, write_half) = stream.into_split();
        let (frames, queue) = mpsc::channel(QUEUED_FRAMES_MAX);
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let reader = tokio::spawn(read_answers(read_half, waiting.clone(), config.response_size_max));
        let writer = tokio::spawn(write_frames(write_half, queue, waiting.clone()));
        Connection {
            address: address.into(),
            client_id: config.client_id.clone(),
            request_timeout: config.request_timeout,
            frames,
            waiting,
            next_correlation_id: AtomicI32::new(0),
            versions: Versions::default(),
            tasks: [reader.abort_handle(), writer.abort_handle()],
        }
    }

    /// Version 3 first; a broker that is older answers error 35 in version 0, and is asked again in that.
    async fn ask_versions(&self) -> Result<Versions, ClientError> {
        let request = ApiVersionsRequest {
            client_software_name: "mainstem-client".into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
            ..Default::default()
        };
        let mut response = self.exchange(&request, 3, Vec::new(), self.request_timeout).await?;
        if response.body.first_chunk() == Some(&ErrorCode::UNSUPPORTED_VERSION.0.to_be_bytes()) {
            response = self.exchange(&ApiVersionsRequest::default(), 0, Vec::new(), self.request_timeout).await?;
        }
        let answer: ApiVersionsResponse<'_> = response.decode()?;
        match ErrorCode(answer.error_code) {
            ErrorCode::NONE => Ok(Versions::new(&answer)),
            code => Err(ClientError::of_broker(response.api, &*self.address, code, None)),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.waiting.lock().closed.is_none()
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The version in which `api` is spoken here.
    pub(crate) fn version(&self, api: ApiKey) -> Result<i16, ClientError> {
        self.versions.pick(api).map_err(|none| ClientError::Unsupported {
            address: self.address.to_string(),
            api: api.name(),
            ours: none.ours,
            theirs: none.theirs,
        })
    }

    /// Sends a request and waits for the answer.
    pub(crate) async fn call<'r, M: Message<'r>>(&self, request: &M) -> Result<Response, ClientError> {
        self.call_with_records(request, Vec::new()).await
    }

    /// The same for a request with holes, which `records` fill in order.
    pub(crate) async fn call_with_records<'r, M: Message<'r>>(
        &self,
        request: &M,
        records: Vec<Bytes>,
    ) -> Result<Response, ClientError> {
        let version = self.version(api_key::<M>())?;
        self.exchange(request, version, records, self.request_timeout).await
    }

    /// The same for a request whose answer may take longer than others: the broker waits for other clients.
    pub(crate) async fn call_within<'r, M: Message<'r>>(
        &self,
        request: &M,
        time: Duration,
    ) -> Result<Response, ClientError> {
        let version = self.version(api_key::<M>())?;
        self.exchange(request, version, Vec::new(), time).await
    }

    /// Sends a request that gets no answer (Produce with acks=0): done when it is queued for sending.
    pub(crate) async fn send<'r, M: Message<'r>>(&self, request: &M, records: Vec<Bytes>) -> Result<(), ClientError> {
        let version = self.version(api_key::<M>())?;
        let frame = self.encode(request, version, self.correlation_id(), records)?;
        self.queue(frame).await
    }

    async fn exchange<'r, M: Message<'r>>(
        &self,
        request: &M,
        version: i16,
        records: Vec<Bytes>,
        time: Duration,
    ) -> Result<Response, ClientError> {
        let api = api_key::<M>();
        let id = self.correlation_id();
        let frame = self.encode(request, version, id, records)?;
        let (sender, receiver) = oneshot::channel();
        self.wait_for(id, sender)?;
        let _forget = Forget { waiting: &self.waiting, id };
        let answer = timeout(time, async {
            self.queue(frame).await?;
            receiver.await.map_err(|_| self.lost())
        });
        let Ok(answer) = answer.await else {
            let wait_ms = time.as_millis() as u64;
            close(&self.waiting, format!("{} was not answered within {wait_ms} ms", api.name()));
            return Err(ClientError::Timeout { address: self.address.to_string(), api: api.name(), wait_ms });
        };
        self.strip_header(api, version, answer?)
    }

    fn strip_header(&self, api: ApiKey, version: i16, frame: Bytes) -> Result<Response, ClientError> {
        let mut reader = Reader::new(&frame);
        let header_version = response_header_version(api.0, version).unwrap_or(0);
        ResponseHeader::decode(&mut reader, header_version).map_err(|error| ClientError::Decode {
            address: self.address.to_string(),
            api: api.name(),
            error,
        })?;
        let body = frame.slice(reader.position()..);
        Ok(Response { address: self.address.clone(), api: api.name(), version, body })
    }

    fn encode<'r, M: Message<'r>>(
        &self,
        request: &M,
        version: i16,
        correlation_id: i32,
        records: Vec<Bytes>,
    ) -> Result<Vec<Bytes>, ClientError> {
        let encoded = encode_request(version, correlation_id, Some(&self.client_id), request)
            .map_err(|error| ClientError::Encode { api: api_key::<M>().name(), error })?;
        let mut chunks = Vec::with_capacity(2 * records.len() + 1);
        let mut rest = encoded.bytes;
        let mut taken = 0;
        for ((position, _), records) in encoded.holes.into_iter().zip(records) {
            chunks.push(rest.split_to(position - taken));
            chunks.push(records);
            taken = position;
        }
        chunks.push(rest);
        Ok(chunks)
    }

    /// Looks at `closed` under the lock that closing takes: an answer that can no longer come is never waited for.
    fn wait_for(&self, id: i32, sender: oneshot::Sender<Bytes>) -> Result<(), ClientError> {
        let mut waiting = self.waiting.lock();
        if waiting.closed.is_none() {
            waiting.answers.insert(id, sender);
            return Ok(());
        }
        drop(waiting);
        Err(self.lost())
    }

    async fn queue(&self, frame: Vec<Bytes>) -> Result<(), ClientError> {
        self.frames.send(frame).await.map_err(|_| self.lost())
    }

    fn correlation_id(&self) -> i32 {
        self.next_correlation_id.fetch_add(1, Ordering::Relaxed)
    }

    fn lost(&self) -> ClientError {
        let reason = self.waiting.lock().closed.clone().unwrap_or_else(|| "it was given up".to_owned());
        ClientError::ConnectionLost { address: self.address.to_string(), reason }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Takes a request off the list when its caller has gone.
struct Forget<'a> {
    waiting: &'a Mutex<Waiting>,
    id: i32,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.waiting.lock().answers.remove(&self.id);
    }
}

fn api_key<'r, M: Message<'r>>() -> ApiKey {
    ApiKey(M::API_KEY.unwrap_or(-1))
}

fn close(waiting: &Mutex<Waiting>, reason: String) {
    let mut waiting = waiting.lock();
    waiting.closed.get_or_insert(reason);
    waiting.answers.clear();
}

async fn write_frames(half: OwnedWriteHalf, mut queue: mpsc::Receiver<Vec<Bytes>>, waiting: Arc<Mutex<Waiting>>) {
    let mut half = BufWriter::with_capacity(WRITE_BUFFER_SIZE, half);
    while let Some(frame) = queue.recv().await {
        if waiting.lock().closed.is_some() {
            return;
        }
        let mut written = Ok(());
        for chunk in frame {
            written = written.and(half.write_all(&chunk).await);
        }
        // What waits in the queue shares the next write.
        if queue.is_empty() {
            written = written.and(half.flush().await);
        }
        if let Err(error) = written {
            return close(&waiting, format!("sending failed: {error}"));
        }
    }
}

async fn read_answers(mut half: OwnedReadHalf, waiting: Arc<Mutex<Waiting>>, size_max: usize) {
    loop {
        match read_frame(&mut half, size_max).await {
            Ok(frame) => {
                let id = frame.first_chunk().map_or(-1, |id| i32::from_be_bytes(*id));
                let receiver = waiting.lock().answers.remove(&id);
                // Nobody waits when the caller gave up; the answer just goes.
                let _ = receiver.map(|receiver| receiver.send(frame));
            }
            Err(reason) => return close(&waiting, reason),
        }
    }
}

async fn read_frame(half: &mut OwnedReadHalf, size_max: usize) -> Result<Bytes, String> {
    let length = half.read_i32().await.map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "the broker closed it".to_owned(),
        _ => format!("receiving failed: {error}"),
    })?;
    let size = usize::try_from(length).ok().filter(|size| (4..=size_max).contains(size));
    let size = size.ok_or_else(|| format!("an answer of {length} bytes was announced; is this a Kafka port?"))?;
    let mut frame = BytesMut::with_capacity(size.min(READ_AHEAD_SIZE));
    let mut rest = half.take(size as u64);
    while frame.len() < size {
        let read = rest.read_buf(&mut frame).await.map_err(|error| format!("receiving failed: {error}"))?;
        if read == 0 {
            return Err("the broker closed it within an answer".to_owned());
        }
    }
    Ok(frame.freeze())
}

//! A scripted door, a blocking client, and files that behave badly.
#![allow(dead_code)] // each test file uses a part of it

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use mainstem_door::{Chunk, Close, ConnectionInfo, Frame, Handled, Outbox, Protocol, Reply, Response};
use mainstem_env::{Advice, File, FileSlice, Residency};
use mainstem_server::{BoundFront, FrontConfig, Listen, RunningFront};
use tokio::sync::oneshot;

/// Nothing in these tests takes this long, unless it is broken.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A held request that may be pipelined.
pub const PRODUCE: i16 = 0;
/// A held request that may not.
pub const LONG_POLL: i16 = 1;
/// Answers its payload.
pub const ECHO: i16 = 2;
/// Answers as many zero bytes as the payload (8 bytes) says.
pub const ZEROS: i16 = 3;
/// Answers the file slices of the door.
pub const SLICES: i16 = 4;
/// Is not answered.
pub const SILENT: i16 = 5;
/// Ends the connection.
pub const CLOSE: i16 = 6;
/// A held request that is work under way.
pub const WORK: i16 = 7;

/// What is said to who sends no frame.
pub const LAST_WORDS: &[u8] = b"no frame";

/// Four bytes of length, as Kafka's frames have, and replies in order.
pub struct FakeDoor {
    /// Correlation ids in the order in which they were handled.
    pub handled: Mutex<Vec<i32>>,
    pub held: Mutex<HashMap<i32, oneshot::Sender<()>>>,
    pub waits: Arc<AtomicUsize>,
    pub slices: Mutex<Vec<FileSlice>>,
    pub drained: AtomicUsize,
    /// The end of the server answers all that is held.
    pub release_on_drain: bool,
    pub frame_bytes_max: usize,
}

impl Default for FakeDoor {
    fn default() -> Self {
        FakeDoor {
            handled: Mutex::default(),
            held: Mutex::default(),
            waits: Arc::default(),
            slices: Mutex::default(),
            drained: AtomicUsize::new(0),
            release_on_drain: false,
            frame_bytes_max: 100 << 20,
        }
    }
}

pub struct Wait {
    receiver: oneshot::Receiver<()>,
    reply: Option<Reply>,
    waits: Arc<AtomicUsize>,
}

impl Future for Wait {
    type Output = Reply;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        Pin::new(&mut self.receiver).poll(cx).map(|_| self.reply.take().unwrap())
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.waits.fetch_sub(1, SeqCst);
    }
}

fn answer(correlation: i32, body: Vec<Chunk>) -> Reply {
    let mut chunks = vec![Chunk::Bytes(Bytes::copy_from_slice(&correlation.to_be_bytes()))];
    chunks.extend(body);
    Reply::Send(Response { chunks })
}

impl FakeDoor {
    pub fn handled(&self) -> Vec<i32> {
        self.handled.lock().unwrap().clone()
    }

    pub fn release(&self, correlation: i32) {
        let sender = self.held.lock().unwrap().remove(&correlation).expect("not held");
        let _ = sender.send(());
    }

    pub fn waits(&self) -> usize {
        self.waits.load(SeqCst)
    }

    fn hold(&self, correlation: i32) -> Pin<Box<Wait>> {
        let (sender, receiver) = oneshot::channel();
        self.held.lock().unwrap().insert(correlation, sender);
        self.waits.fetch_add(1, SeqCst);
        let reply = Some(answer(correlation, Vec::new()));
        Box::pin(Wait { receiver, reply, waits: Arc::clone(&self.waits) })
    }
}

impl Protocol for FakeDoor {
    type Connection = ConnectionInfo;

    fn connect(&self, info: ConnectionInfo, _outbox: Outbox) -> ConnectionInfo {
        info
    }

    fn frame(&self, _connection: &ConnectionInfo, received: &[u8]) -> Result<Option<Frame>, Close> {
        let Some(length) = received.first_chunk::<4>() else { return Ok(None) };
        match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(body) if (8..=self.frame_bytes_max).contains(&body) => Ok(Some(Frame { head: 4, body })),
            _ => Err(Close::with_last_words("no frame", Bytes::from_static(LAST_WORDS))),
        }
    }

    fn put_head(&self, response_bytes: u64, head: &mut BytesMut) -> Result<(), Close> {
        head.put_i32(i32::try_from(response_bytes)?);
        Ok(())
    }

    fn handle(&self, _connection: &Arc<ConnectionInfo>, frame: Bytes) -> Handled {
        let key = i16::from_be_bytes(frame[0..2].try_into().unwrap());
        let correlation = i32::from_be_bytes(frame[4..8].try_into().unwrap());
        let payload = frame.slice(8..);
        self.handled.lock().unwrap().push(correlation);
        Handled::Ready(match key {
            PRODUCE => return Handled::Confirming(self.hold(correlation)),
            LONG_POLL => return Handled::Polling(self.hold(correlation)),
            WORK => {
                let work = self.hold(correlation);
                return Handled::working(work);
            }
            ECHO => answer(correlation, vec![Chunk::Bytes(payload)]),
            ZEROS => answer(
                correlation,
                vec![Chunk::Bytes(vec![0; u64::from_be_bytes(payload[..8].try_into().unwrap()) as usize].into())],
            ),
            SLICES => {
                let slices = self.slices.lock().unwrap();
                // Bytes between the slices, as a response has them.
                answer(
                    correlation,
                    slices
                        .iter()
                        .flat_map(|slice| [Chunk::File(slice.clone()), Chunk::Bytes(Bytes::from_static(b"|"))])
                        .collect(),
                )
            }
            SILENT => Reply::Nothing,
            _ => Reply::close(Close::new("an unknown request")),
        })
    }

    fn may_pipeline(&self, frame: &[u8]) -> bool {
        frame[..2] == PRODUCE.to_be_bytes()
    }

    fn drain(&self) {
        self.drained.fetch_add(1, SeqCst);
        if self.release_on_drain {
            self.held.lock().unwrap().clear();
        }
    }
}

pub fn config() -> FrontConfig {
    let mut config = FrontConfig::new(vec![Listen { name: "PLAINTEXT".into(), host: "127.0.0.1".into(), port: 0 }]);
    config.reactors = 1;
    config
}

pub fn start(config: FrontConfig) -> (RunningFront, Arc<FakeDoor>) {
    start_door(config, FakeDoor::default())
}

pub fn start_door(config: FrontConfig, door: FakeDoor) -> (RunningFront, Arc<FakeDoor>) {
    let door = Arc::new(door);
    (BoundFront::bind(config).unwrap().serve(Arc::clone(&door)), door)
}

pub fn frame(key: i16, correlation: i32, payload: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_i32(8 + payload.len() as i32);
    frame.put_i16(key);
    frame.put_i16(0);
    frame.put_i32(correlation);
    frame.put_slice(payload);
    frame.freeze()
}

pub struct Client {
    pub socket: TcpStream,
}

impl Client {
    pub fn connect(server: &RunningFront) -> Client {
        Client::connect_to(server.addresses()[0].1)
    }

    pub fn connect_to(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Client { socket }
    }

    pub fn send(&mut self, key: i16, correlation: i32, payload: &[u8]) {
        self.send_raw(&frame(key, correlation, payload));
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Correlation id and body of the next reply.
    pub fn receive(&mut self) -> (i32, Vec<u8>) {
        let mut word = [0; 4];
        self.socket.read_exact(&mut word).unwrap();
        let mut body = vec![0; u32::from_be_bytes(word) as usize];
        self.socket.read_exact(&mut body).unwrap();
        let rest = body.split_off(4);
        (i32::from_be_bytes(body.try_into().unwrap()), rest)
    }

    /// Waits for the end of the connection; no byte may come before it.
    pub fn expect_end(&mut self) {
        let mut byte = [0];
        match self.socket.read(&mut byte) {
            Ok(0) => {}
            Ok(_) => panic!("a byte instead of the end"),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("no end of the connection: {error}"),
        }
    }

    /// All that comes before the end of the connection.
    pub fn receive_until_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.socket.read_to_end(&mut bytes).unwrap();
        bytes
    }

    pub fn echo(&mut self, correlation: i32) {
        self.send(ECHO, correlation, b"echo");
        assert_eq!(self.receive(), (correlation, b"echo".to_vec()));
    }
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A gate that blocks threads until it is opened.
#[derive(Debug, Default)]
pub struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    pub arrived: AtomicUsize,
}

impl Gate {
    pub fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    pub fn pass(&self) {
        self.arrived.fetch_add(1, SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
    }
}

/// A file whose pages are never in memory before a read has gone through the gate.
#[derive(Debug)]
pub struct ColdFile {
    pub content: Vec<u8>,
    pub gate: Gate,
    pub fail: bool,
}

impl ColdFile {
    pub fn new(content: Vec<u8>) -> Arc<ColdFile> {
        Arc::new(ColdFile { content, gate: Gate::default(), fail: false })
    }

    fn read(&self, buffer: &mut [u8], position: u64) -> usize {
        let rest = self.content.get(position as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    }
}

impl File for ColdFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.gate.pass();
        if self.fail {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(self.read(buffer, position))
    }

    fn try_read_at_nowait(&self, _buffer: &mut [u8], _position: u64) -> io::Result<Option<usize>> {
        Ok(None)
    }

    fn residency(&self, _position: u64, _len: u64) -> io::Result<Residency> {
        Ok(Residency::Partial)
    }

    fn send_to(&self, socket: BorrowedFd<'_>, position: u64, len: usize) -> io::Result<usize> {
        assert!(self.gate.arrived.load(SeqCst) > 0, "sent before it was read");
        let mut bytes = vec![0; len.min(100_000)];
        let length = self.read(&mut bytes, position);
        let socket = socket2::SockRef::from(&socket);
        socket.send(&bytes[..length])
    }

    fn write_vectored_at(&self, _parts: &[IoSlice<'_>], _position: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }
    fn set_len(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.content.len() as u64)
    }
    fn allocate_keep_size(&self, _position: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn advise(&self, _position: u64, _len: u64, _advice: Advice) -> io::Result<()> {
        Ok(())
    }
    fn start_writeback(&self, _position: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Bytes that differ from position to position.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index ^ (index >> 8) ^ (index >> 16)) as u8).collect()
}

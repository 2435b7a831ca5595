//! A second protocol beside Kafka's in one process: another framing, replies as they are ready, pushes, a limit of
//! frames that authentication raises; and one budget, one set of limits for both.

mod support;

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use bytes::{BufMut, Bytes, BytesMut};
use mainstem_broker::Broker;
use mainstem_door::{
    Chunk, Close, ConnectionInfo, Frame, Handled, Order, Outbox, OutboxLimits, Protocol, PushError, Reply, Response,
};
use mainstem_env::{MemFs, RealClock, SeededRng};
use mainstem_kafka::Door;
use mainstem_kafka_wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use mainstem_kafka_wire::{Message, Reader, encode_request};
use mainstem_metadata::config::BrokerConfig;
use mainstem_server::{BoundFront, Drained, FrontConfig, Listen, RunningFront, Served};
use mainstem_store::StoreEnv;
use support::{PATIENCE, eventually, pattern};
use tokio::sync::oneshot;

/// The largest request before a client said who it is, and after.
const STRANGER_BYTES_MAX: usize = 100;
const FRIEND_BYTES_MAX: usize = 4 << 20;
const REQUESTS_MAX: usize = 10;
const OUTBOX: OutboxLimits = OutboxLimits { frames: 1000, bytes: 256 << 10 };

/// Lines: `<number> <verb> <bytes that follow the line>`, then those bytes. Answers have the same form.
#[derive(Default)]
struct Lines {
    /// Requests that wait, by number.
    held: Mutex<HashMap<u32, oneshot::Sender<()>>>,
    waits: Arc<AtomicUsize>,
    handled: AtomicUsize,
    outboxes: Mutex<Vec<Outbox>>,
    drained: AtomicUsize,
}

#[derive(Default)]
struct Speaker {
    is_friend: AtomicBool,
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

fn line(number: u32, verb: &str, body: &[u8]) -> Bytes {
    let mut bytes = BytesMut::from(format!("{number} {verb} {}\n", body.len()).as_bytes());
    bytes.put_slice(body);
    bytes.freeze()
}

impl Lines {
    async fn hold(number: u32, released: oneshot::Receiver<()>, counted: Counted) -> Reply {
        let _ = released.await;
        drop(counted);
        Reply::Send(Response::from_bytes(line(number, "released", b"")))
    }

    fn held(&self, number: u32) -> impl Future<Output = Reply> + Send + 'static {
        let (release, released) = oneshot::channel();
        self.held.lock().unwrap().insert(number, release);
        self.waits.fetch_add(1, SeqCst);
        Lines::hold(number, released, Counted(Arc::clone(&self.waits)))
    }

    fn release(&self, number: u32) {
        let _ = self.held.lock().unwrap().remove(&number).expect("not held").send(());
    }

    fn waits(&self) -> usize {
        self.waits.load(SeqCst)
    }

    fn outbox(&self) -> Outbox {
        self.outboxes.lock().unwrap().last().unwrap().clone()
    }
}

impl Protocol for Lines {
    type Connection = Speaker;

    fn connect(&self, _info: ConnectionInfo, outbox: Outbox) -> Speaker {
        self.outboxes.lock().unwrap().push(outbox);
        Speaker::default()
    }

    fn order(&self) -> Order {
        Order::AsReady { requests_max: REQUESTS_MAX }
    }

    fn outbox_limits(&self) -> OutboxLimits {
        OUTBOX
    }

    fn frame(&self, connection: &Speaker, received: &[u8]) -> Result<Option<Frame>, Close> {
        let Some(end) = received.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let text = std::str::from_utf8(&received[..end])?;
        let length: usize = text.rsplit(' ').next().unwrap_or_default().parse()?;
        let max = if connection.is_friend.load(SeqCst) { FRIEND_BYTES_MAX } else { STRANGER_BYTES_MAX };
        if length > max {
            return Err(Close::with_last_words("too long", line(0, "too-long", b"")));
        }
        // The line is handed on, too: there is no head.
        Ok(Some(Frame { head: 0, body: end + 1 + length }))
    }

    fn put_head(&self, _response_bytes: u64, _head: &mut BytesMut) -> Result<(), Close> {
        Ok(())
    }

    fn handle(&self, connection: &Arc<Speaker>, frame: Bytes) -> Handled {
        self.handled.fetch_add(1, SeqCst);
        let end = frame.iter().position(|byte| *byte == b'\n').unwrap();
        let text = std::str::from_utf8(&frame[..end]).unwrap();
        let mut words = text.split(' ');
        let number: u32 = words.next().unwrap().parse().unwrap();
        let body = frame.slice(end + 1..);
        match words.next().unwrap() {
            "echo" => {
                let head = Bytes::from(format!("{number} echo {}\n", body.len()));
                Handled::Ready(Reply::Send(Response { chunks: vec![Chunk::Bytes(head), Chunk::Bytes(body)] }))
            }
            "friend" => {
                // On another thread, as a check of a password would be: the state is that of the connection all the
                // same.
                let connection = Arc::clone(connection);
                Handled::working(async move {
                    let checked = tokio::task::spawn_blocking(move || connection.is_friend.store(true, SeqCst)).await;
                    checked
                        .map_or_else(Reply::close, |()| Reply::Send(Response::from_bytes(line(number, "welcome", b""))))
                })
            }
            "poll" => Handled::polling(self.held(number)),
            "confirm" => Handled::confirming(self.held(number)),
            "work" => Handled::working(self.held(number)),
            "nothing" => Handled::Ready(Reply::Nothing),
            verb => Handled::close(Close::new(verb.to_owned())),
        }
    }

    fn drain(&self) {
        self.drained.fetch_add(1, SeqCst);
    }
}

struct Client(std::net::TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Client {
        Client(support::Client::connect_to(address).socket)
    }

    fn send(&mut self, number: u32, verb: &str, body: &[u8]) {
        self.0.write_all(&line(number, verb, body)).unwrap();
    }

    /// Number, verb and body of the next answer or push; `None`: the end.
    fn receive(&mut self) -> Option<(u32, String, Vec<u8>)> {
        let mut text = Vec::new();
        loop {
            let mut byte = [0];
            match self.0.read(&mut byte) {
                Ok(0) => return None,
                Ok(_) if byte[0] == b'\n' => break,
                Ok(_) => text.push(byte[0]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
        let text = String::from_utf8(text).unwrap();
        let words: Vec<&str> = text.split(' ').collect();
        let mut body = vec![0; words[2].parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        Some((words[0].parse().unwrap(), words[1].to_owned(), body))
    }

    fn expect(&mut self, number: u32, verb: &str) {
        let (got, said, _) = self.receive().expect("an answer");
        assert_eq!((got, said.as_str()), (number, verb));
    }

    fn befriend(&mut self) {
        self.send(0, "friend", b"");
        self.expect(0, "welcome");
    }
}

/// Kafka's protocol on the first listener, lines on the second.
struct Both {
    front: RunningFront,
    lines: Arc<Lines>,
    broker: Arc<Broker>,
}

impl Both {
    fn start(change: impl FnOnce(&mut FrontConfig)) -> Both {
        let properties = [("node.id", "1"), ("listeners", "PLAINTEXT://127.0.0.1:19092")];
        let properties: BTreeMap<String, String> = properties.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let config = BrokerConfig::parse(&properties).unwrap();
        let env =
            StoreEnv::new(Arc::new(MemFs::new()), Arc::new(RealClock::new()), Arc::new(SeededRng::new(1)), 1 << 20, 1);
        let (broker, _) = Broker::start(env.unwrap(), Path::new("/data"), config).unwrap();
        let mut config = support::config();
        config.listeners.push(Listen { name: "LINES".into(), host: "127.0.0.1".into(), port: 0 });
        config.listeners.push(Listen { name: "MORE_LINES".into(), host: "127.0.0.1".into(), port: 0 });
        change(&mut config);
        let lines = Arc::new(Lines::default());
        let (kafka, second) = (Served::new(Arc::new(Door::new(Arc::clone(&broker)))), Arc::clone(&lines));
        let front = BoundFront::bind(config).unwrap().serve_each(move |listener| match listener {
            "PLAINTEXT" => kafka.clone(),
            _ => Served::new(Arc::clone(&second)),
        });
        Both { front, lines, broker }
    }

    fn lines(&self) -> Client {
        let opened = self.lines.outboxes.lock().unwrap().len();
        let client = Client::connect(self.front.addresses()[1].1);
        eventually("it is connected", || self.lines.outboxes.lock().unwrap().len() > opened);
        client
    }

    fn kafka(&self) -> support::Client {
        support::Client::connect_to(self.front.addresses()[0].1)
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        self.broker.shutdown();
    }
}

fn api_versions(client: &mut support::Client) {
    let request = encode_request(0, 9, None, &ApiVersionsRequest::default()).unwrap();
    client.send_raw(&request.bytes);
    let (correlation, body) = client.receive();
    let answer = ApiVersionsResponse::decode(&mut Reader::new(&body), 0).unwrap();
    assert_eq!((correlation, answer.error_code), (9, 0));
}

#[test]
fn replies_leave_as_they_are_ready_and_polls_hold_up_nothing() {
    let both = Both::start(|_| ());
    let mut client = both.lines();
    client.send(1, "poll", b"");
    client.send(2, "work", b"");
    client.send(3, "confirm", b"");
    client.send(4, "echo", b"now");
    assert_eq!(client.receive(), Some((4, "echo".into(), b"now".to_vec())));
    client.send(5, "nothing", b"");
    both.lines.release(3);
    client.expect(3, "released");
    both.lines.release(1);
    client.expect(1, "released");
    both.lines.release(2);
    client.expect(2, "released");
    api_versions(&mut both.kafka());
}

#[test]
fn requests_that_wait_are_bounded_by_the_protocol() {
    let both = Both::start(|_| ());
    let mut client = both.lines();
    for number in 0..REQUESTS_MAX as u32 + 3 {
        client.send(number, "poll", b"");
    }
    eventually("as many wait as may", || both.lines.waits() == REQUESTS_MAX);
    let mut other = both.lines();
    other.send(50, "echo", b"");
    other.expect(50, "echo");
    assert_eq!(both.lines.handled.load(SeqCst), REQUESTS_MAX + 1, "of the first client no more are handled");
    both.lines.release(7);
    client.expect(7, "released");
    eventually("one more is", || both.lines.handled.load(SeqCst) == REQUESTS_MAX + 2);
    drop(client);
    eventually("all are dropped with their client", || both.lines.waits() == 0);
}

#[test]
fn what_was_answered_leaves_before_the_long_polls_of_a_client_that_left_end_the_connection() {
    let both = Both::start(|_| ());
    let mut client = both.lines();
    client.befriend();
    client.send(1, "poll", b"");
    let body = pattern(FRIEND_BYTES_MAX);
    client.send(2, "echo", &body);
    client.0.shutdown(std::net::Shutdown::Write).unwrap();
    eventually("it is answered", || both.lines.handled.load(SeqCst) == 3);
    let mut other = both.lines();
    other.send(3, "echo", b"");
    other.expect(3, "echo");
    let (number, _, echoed) = client.receive().unwrap();
    assert!(number == 2 && echoed == body);
    assert_eq!((client.receive(), both.lines.waits()), (None, 0));
}

#[test]
fn the_largest_frame_is_the_protocols_and_authentication_raises_it() {
    let both = Both::start(|_| ());
    let mut client = both.lines();
    client.send(1, "echo", &pattern(STRANGER_BYTES_MAX));
    client.expect(1, "echo");
    client.befriend();
    let body = pattern(FRIEND_BYTES_MAX);
    let mut writer = client.0.try_clone().unwrap();
    let sent = body.clone();
    let thread = std::thread::spawn(move || writer.write_all(&line(2, "echo", &sent)).unwrap());
    let (number, _, echoed) = client.receive().unwrap();
    assert!(number == 2 && echoed == body);
    thread.join().unwrap();
    let mut stranger = both.lines();
    stranger.0.write_all(format!("3 echo {}\n", STRANGER_BYTES_MAX + 1).as_bytes()).unwrap();
    stranger.expect(0, "too-long");
    assert_eq!(stranger.receive(), None);
    let mut endless = both.lines();
    let _ = endless.0.write_all(&[b'x'; 80 << 10]);
    assert_eq!(endless.receive(), None, "no frame begins in 64 KiB");
    eventually("both are counted", || both.front.totals().malformed == 2);
}

#[test]
fn pushes_go_out_between_replies_and_a_slow_reader_fills_its_own_outbox_alone() {
    let both = Both::start(|_| ());
    let mut client = both.lines();
    let outbox = both.lines.outbox();
    client.send(1, "poll", b"");
    eventually("it waits", || both.lines.waits() == 1);
    let push = |outbox: &Outbox, number: u32, bytes: usize| {
        outbox.push(Response::from_bytes(line(number, "push", &vec![7; bytes])))
    };
    assert_eq!(push(&outbox, 100, 10), Ok(()));
    client.expect(100, "push");

    // The client takes nothing from here on: at some time its socket and its outbox are full.
    let mut accepted = 0;
    eventually("it is full", || match push(&outbox, 1000 + accepted, 30 << 10) {
        Ok(()) => {
            accepted += 1;
            false
        }
        Err(error) => error == PushError::Full && both.front.totals().held_bytes > OUTBOX.bytes as u64 / 2,
    });
    let held = both.front.totals().held_bytes;
    let bound = OUTBOX.bytes + (64 << 10) + (32 << 10) + (64 << 10);
    assert!(held <= bound as u64, "{held} bytes are held for one slow reader");
    let mut other = both.lines();
    assert_eq!(push(&both.lines.outbox(), 7, 10), Ok(()), "others have their own");
    other.expect(7, "push");
    api_versions(&mut both.kafka());

    // What was accepted comes, in order, and nothing of what was refused.
    both.lines.release(1);
    let mut expected = 1000;
    let mut released = false;
    while expected < 1000 + accepted || !released {
        match client.receive().unwrap() {
            (1, _, _) => released = true,
            (number, _, body) => {
                assert_eq!((number, body.len()), (expected, 30 << 10));
                expected += 1;
            }
        }
    }
    assert_eq!(push(&outbox, 1, 10), Ok(()), "there is room again");
    client.expect(1, "push");
    drop(client);
    eventually("a client that left is pushed nothing", || push(&outbox, 2, 10) == Err(PushError::Closed));
}

#[test]
fn clients_that_take_no_pushes_go_when_replies_are_crowded() {
    let both = Both::start(|config| config.all_output_bytes_max = 100 << 10);
    let idler = both.lines();
    let outbox = both.lines.outbox();
    eventually("its outbox is closed with its connection", || {
        outbox.push(Response::from_bytes(line(1, "push", &[7; 30 << 10]))) == Err(PushError::Closed)
    });
    drop(idler);
}

#[test]
fn both_protocols_share_one_budget_and_one_set_of_limits() {
    let both = Both::start(|config| {
        config.requests_in_flight_bytes_max = 1 << 20;
        config.connections_max = 3;
    });
    let mut lines = both.lines();
    lines.befriend();
    lines.send(1, "confirm", &pattern(900 << 10));
    eventually("it has the budget", || both.lines.waits() == 1);
    let mut kafka = both.kafka();
    api_versions(&mut kafka);
    // A request of Kafka's protocol, whose end is padded: it is read when the budget has room.
    let before = both.front.totals().received_bytes;
    let request = encode_request(0, 9, None, &ApiVersionsRequest::default()).unwrap().bytes;
    let mut large = BytesMut::new();
    large.put_i32(800 << 10);
    large.put_slice(&request[4..]);
    large.put_bytes(0, (800 << 10) + 4 - large.len());
    let mut writer = kafka.socket.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&large).unwrap());
    eventually("a bit of it is read ahead", || both.front.totals().received_bytes > before);
    let mut third = both.lines();
    third.send(3, "echo", b"");
    third.expect(3, "echo");
    let ahead = both.front.totals().received_bytes - before;
    assert!(ahead < 100 << 10, "{ahead} bytes were read without budget");
    Client::connect(both.front.addresses()[2].1).receive().ok_or(()).expect_err("three are open");
    both.lines.release(1);
    lines.expect(1, "released");
    assert_eq!(kafka.receive().0, 9);
    thread.join().unwrap();
}

#[test]
fn a_stop_drains_each_protocol_once_and_gives_work_its_grace() {
    let both = Both::start(|_| ());
    let mut client = both.lines();
    client.send(1, "poll", b"");
    let mut worker = both.lines();
    worker.send(2, "work", b"");
    worker.send(3, "poll", b"");
    eventually("all wait", || both.lines.waits() == 3);
    let outbox = both.lines.outbox();
    let drained = std::thread::scope(|scope| {
        let draining = scope.spawn(|| both.front.drain(PATIENCE));
        assert_eq!(client.receive(), None, "long polls alone end after a second");
        // The socket is closed before the wait is dropped.
        eventually("work goes on, and nothing else", || both.lines.waits() == 2);
        assert_eq!(outbox.push(Response::default()), Err(PushError::Closed));
        both.lines.release(2);
        worker.expect(2, "released");
        assert_eq!(worker.receive(), None);
        draining.join().unwrap()
    });
    assert_eq!(drained, Drained { connections: 2, cut: 0 });
    assert_eq!(both.lines.drained.load(SeqCst), 1, "two listeners, one protocol");
    assert_eq!(both.lines.waits(), 0);
}

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Mutex;

use bytes::{Bytes, BytesMut};
use mainstem_door::{Close, ConnectionInfo, Frame, Handled, Outbox, Protocol};

use super::*;

/// Answers nothing.
struct Refusing;

impl Protocol for Refusing {
    type Connection = ();
    fn connect(&self, _info: ConnectionInfo, _outbox: Outbox) {}
    fn frame(&self, _connection: &(), _received: &[u8]) -> Result<Option<Frame>, Close> {
        Err(Close::new("nothing is understood"))
    }
    fn put_head(&self, _response_bytes: u64, _head: &mut BytesMut) -> Result<(), Close> {
        Ok(())
    }
    fn handle(&self, _connection: &std::sync::Arc<()>, _frame: Bytes) -> Handled {
        Handled::close(Close::new("nothing is understood"))
    }
}

fn refusing(report: Vec<String>, shutdown: Box<dyn FnOnce() + Send>) -> Opened {
    let refusing = Served::new(Arc::new(Refusing));
    Opened { protocol_of: Box::new(move |_| refusing.clone()), watch_config: Box::new(drop), report, shutdown }
}

fn config(pairs: &[(&str, &str)]) -> BrokerConfig {
    let properties: BTreeMap<String, String> =
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    BrokerConfig::parse(&properties).unwrap()
}

#[test]
fn what_is_advertised_is_complete_when_the_broker_opens_and_the_logs_close_last() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let pairs = [
        ("listeners", "PLAINTEXT://127.0.0.1:0,OUTSIDE://:0"),
        ("advertised.listeners", "PLAINTEXT://broker.example:0"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT"),
    ];
    let server = Server::start_with(config(&pairs), move |config, _runtime| {
        // As it is after a change made while running.
        let config = config.with_dynamic(&BTreeMap::new(), &BTreeMap::new()).unwrap();
        let listeners: Vec<_> = config.advertised_listeners.iter().map(ToString::to_string).collect();
        seen.lock().unwrap().push(listeners.join(" "));
        let at_end = Arc::clone(&seen);
        let shutdown = Box::new(move || at_end.lock().unwrap().push("closed".into()));
        Ok(refusing(vec!["nothing to recover".into()], shutdown))
    })
    .unwrap();
    let ports: Vec<u16> = server.addresses().iter().map(|(_, address)| address.port()).collect();
    assert!(ports.iter().all(|port| *port > 0));
    let expected = format!("PLAINTEXT://broker.example:{} OUTSIDE://{}:{}", ports[0], host_name().unwrap(), ports[1]);
    assert_eq!(*events.lock().unwrap(), std::slice::from_ref(&expected));
    assert!(std::net::TcpStream::connect(("127.0.0.1", ports[1])).is_ok(), "every interface includes IPv4");
    let report = server.report().join("\n");
    let lines = [
        format!("listening on 127.0.0.1:{0} (PLAINTEXT), clients are told broker.example:{0}\n", ports[0]),
        "durability os".into(),
    ];
    assert!(lines.iter().all(|line| report.contains(line)) && report.ends_with("\nnothing to recover"), "{report}");
    server.stop();
    assert_eq!(*events.lock().unwrap(), [expected, "closed".into()]);
}

#[test]
fn an_error_of_the_broker_stops_the_start() {
    let error = Server::start_with(config(&[("listeners", "PLAINTEXT://127.0.0.1:0")]), |_, _| {
        Err::<Opened, _>("the folder is locked".into())
    });
    assert_eq!(error.unwrap_err().to_string(), "the folder is locked");
}

#[test]
fn limits_and_threads_that_change_hold_for_new_connections() {
    let listener = ("listeners", "PLAINTEXT://127.0.0.1:0");
    let watcher: Arc<Mutex<Option<ConfigWatcher>>> = Arc::default();
    let watching = Arc::clone(&watcher);
    let start = config(&[listener, ("max.connections", "1"), ("num.network.threads", "1")]);
    let server = Server::start_with(start, move |_, _| {
        let watch_config = Box::new(move |watcher| *watching.lock().unwrap() = Some(watcher));
        Ok(Opened { watch_config, ..refusing(Vec::new(), Box::new(|| ())) })
    })
    .unwrap();
    let change = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = [listener].into_iter().chain(pairs.iter().copied()).collect();
        watcher.lock().unwrap().as_ref().unwrap()(&config(&pairs));
    };
    let address = server.addresses()[0].1;
    let mut open = Vec::new();
    let mut connect_until = |count: u64| {
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while server.totals().connections < count {
            assert!(std::time::Instant::now() < end, "{count} connections");
            open.push(std::net::TcpStream::connect(address).unwrap());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let is_refused = || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        !matches!(std::io::Read::read(&mut stream, &mut [0]), Ok(1..))
    };
    connect_until(1);
    assert!(is_refused());
    change(&[("max.connections", "4"), ("num.network.threads", "3")]);
    connect_until(4);
    assert!(is_refused());
    let threads = || server.reactors_with_connections();
    assert_eq!(threads(), 3, "new reactors serve connections, too");
    change(&[("max.connections", "8"), ("num.network.threads", "1")]);
    connect_until(8);
    assert_eq!(threads(), 3, "connections stay where they are");
    change(&[("max.connections", "1000"), ("max.connections.per.ip", "8")]);
    assert!(is_refused());
    drop(open);
    server.stop();
}

#[test]
fn the_front_takes_its_limits_from_the_configuration() {
    let front = front_config(
        &config(&[
            ("max.connections", "5"),
            ("max.connections.per.ip", "4"),
            ("max.connections.per.ip.overrides", "127.0.0.9:3"),
            ("connections.max.idle.ms", "-1"),
            ("queued.max.request.bytes", "3000000"),
            ("num.network.threads", "7"),
            ("socket.send.buffer.bytes", "200000"),
        ]),
        &HostLimits::default(),
    );
    assert_eq!((front.connections_max, front.connections_per_ip_max), (5, 4));
    assert_eq!(front.connections_per_ip_overrides.get(&IpAddr::from([127, 0, 0, 9])), Some(&3));
    assert_eq!((front.idle, front.requests_in_flight_bytes_max), (None, 3_000_000));
    assert_eq!((front.reactors, front.sockets.send_buffer_bytes, front.sockets.backlog), (7, Some(200_000), 1024));
    let plain = front_config(&config(&[]), &HostLimits::default());
    assert_eq!(plain.idle, Some(Duration::from_secs(600)));
    assert_eq!((plain.sockets.send_buffer_bytes, plain.requests_in_flight_bytes_max), (None, 256 << 20));
}

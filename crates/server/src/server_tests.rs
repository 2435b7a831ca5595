use std::collections::BTreeMap;
use std::sync::Mutex;

use bytes::Bytes;

use super::*;
use crate::protocol::{CloseReason, ConnectionInfo, Handled, Reply};

struct Refusing;

impl Protocol for Refusing {
    type Connection = ();
    fn connect(&self, _info: ConnectionInfo) {}
    fn handle(&self, _connection: &mut (), _frame: Bytes) -> Handled {
        Handled::Ready(Reply::Close(CloseReason::UnknownApi(0)))
    }
    fn may_pipeline(&self, _frame: &[u8]) -> bool {
        false
    }
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
        Ok(Opened {
            protocol: Arc::new(Refusing),
            report: vec!["nothing to recover".into()],
            shutdown: Box::new(move || at_end.lock().unwrap().push("closed".into())),
        })
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
        Err::<Opened<Refusing>, _>("the folder is locked".into())
    });
    assert_eq!(error.unwrap_err().to_string(), "the folder is locked");
}

#[test]
fn the_front_takes_its_limits_from_the_configuration() {
    let front = front_config(&config(&[
        ("max.connections", "5"),
        ("max.connections.per.ip", "4"),
        ("max.connections.per.ip.overrides", "127.0.0.9:3"),
        ("connections.max.idle.ms", "-1"),
        ("socket.request.max.bytes", "2000000"),
        ("queued.max.request.bytes", "3000000"),
        ("num.network.threads", "7"),
        ("socket.send.buffer.bytes", "200000"),
    ]));
    assert_eq!((front.connections_max, front.connections_per_ip_max), (5, 4));
    assert_eq!(front.connections_per_ip_overrides.get(&IpAddr::from([127, 0, 0, 9])), Some(&3));
    assert_eq!((front.idle, front.request_bytes_max, front.requests_in_flight_bytes_max), (None, 2_000_000, 3_000_000));
    assert_eq!((front.reactors, front.sockets.send_buffer_bytes, front.sockets.backlog), (7, Some(200_000), 1024));
    let plain = front_config(&config(&[]));
    assert_eq!(plain.idle, Some(Duration::from_secs(600)));
    assert_eq!((plain.sockets.send_buffer_bytes, plain.requests_in_flight_bytes_max), (None, 256 << 20));
}

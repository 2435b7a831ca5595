//! The life of connections: limits, idleness, peers that leave, and the stop.

mod support;

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use mainstem_server::{BoundFront, Drained, Listen};
use support::*;

#[test]
fn connections_without_requests_are_closed_after_the_idle_time() {
    let mut config = config();
    config.idle = Some(Duration::from_millis(300));
    let (server, _door) = start(config);
    let mut silent = Client::connect(&server);
    let mut trickling = Client::connect(&server);
    let mut busy = Client::connect(&server);
    let started = Instant::now();
    let thread = std::thread::spawn(move || {
        // A frame that never becomes complete is no sign of life.
        let bytes = frame(ECHO, 1, &[0; 60_000]);
        let mut rest = bytes[..60_000].iter();
        eventually("the trickling connection is closed", || {
            std::io::Write::write(&mut trickling.socket, &[*rest.next().unwrap()]).is_err()
        });
    });
    let mut ids = 0..;
    eventually("the two others are closed", || {
        busy.echo(ids.next().unwrap());
        server.totals().connections == 1
    });
    silent.expect_end();
    assert!(started.elapsed() >= Duration::from_millis(300));
    thread.join().unwrap();
    eventually("all are gone", || server.totals().connections == 0);
}

#[test]
fn a_connection_that_waits_for_the_broker_is_not_idle() {
    let mut config = config();
    config.idle = Some(Duration::from_millis(100));
    let (server, door) = start(config);
    let mut client = Client::connect(&server);
    client.send(WORK, 1, b"");
    eventually("it is held", || door.handled() == [1]);
    // Others that came later are closed for their idleness, one after the other.
    for _ in 0..3 {
        Client::connect(&server).expect_end();
    }
    door.release(1);
    assert_eq!(client.receive().0, 1);
}

#[test]
fn a_long_poll_counts_as_idleness() {
    let mut config = config();
    config.idle = Some(Duration::from_millis(300));
    let (server, door) = start(config);
    let mut client = Client::connect(&server);
    client.echo(1);
    std::thread::sleep(Duration::from_millis(200));
    client.send(LONG_POLL, 2, b"");
    let sent = Instant::now();
    eventually("it is held", || door.waits() == 1);
    client.expect_end();
    assert!(sent.elapsed() >= Duration::from_millis(300), "the idle time begins with the request");
    eventually("the wait is dropped", || door.waits() == 0);
}

#[test]
fn a_long_poll_with_more_requests_behind_it_than_are_read_ends_after_the_idle_time() {
    let mut config = config();
    config.idle = Some(Duration::from_millis(300));
    let (server, door) = start(config);
    let mut client = Client::connect(&server);
    client.send(LONG_POLL, 1, b"");
    eventually("it is held", || door.waits() == 1);
    client.send_raw(&(2..100).flat_map(|id| frame(ECHO, id, &[0; 1000])).collect::<Vec<u8>>());
    eventually("no more is read", || server.totals().received_bytes >= 64 << 10);
    drop(client);
    eventually("the connection is gone", || server.totals().connections == 0);
    eventually("the wait is dropped", || door.waits() == 0);
    assert_eq!(door.handled(), [1]);
}

#[test]
fn a_large_frame_that_trickles_ends_its_connection_even_while_a_reply_is_awaited() {
    let mut config = config();
    config.large_frame_grace = Duration::from_millis(100);
    let (server, door) = start(config);
    let mut client = Client::connect(&server);
    client.send(PRODUCE, 1, b"");
    let large = frame(PRODUCE, 2, &[0; 65 << 10]);
    client.send_raw(&large[..1000]);
    eventually("the first is held", || door.waits() == 1);
    let mut rest = large[1000..].iter();
    eventually("the connection is gone", || {
        // Single bytes are progress, and do not move the deadline.
        let _ = std::io::Write::write(&mut client.socket, &[*rest.next().unwrap()]);
        server.totals().connections == 0
    });
    assert_eq!(door.handled(), [1]);
    eventually("the wait is dropped", || door.waits() == 0);
}

#[test]
fn clients_that_take_nothing_go_when_replies_are_crowded() {
    let mut config = config();
    config.all_output_bytes_max = 80 << 20;
    let (server, _door) = start(config);
    let mut idler = Client::connect(&server);
    idler.send(ZEROS, 1, &(64u64 << 20).to_be_bytes());
    eventually("its reply is held", || server.totals().held_bytes > 48 << 20);
    assert_eq!(server.totals().connections, 1, "there is room for it");
    let mut reader = Client::connect(&server);
    reader.send(ZEROS, 9, &(64u64 << 20).to_be_bytes());
    // Slowly, so that there is a crowd until the other one is gone.
    let mut reply = vec![0; 8 + (64 << 20)];
    for part in reply.chunks_mut(1 << 20) {
        reader.socket.read_exact(part).unwrap();
        if server.totals().connections > 1 {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    assert_eq!(server.totals().connections, 1, "the one that takes nothing is gone");
    assert_eq!(reply[..8], [4, 0, 0, 4, 0, 0, 0, 9], "who takes his reply gets it");
    reader.echo(10);
}

#[test]
fn a_client_that_does_not_take_its_reply_is_closed_after_the_idle_time() {
    let mut config = config();
    config.idle = Some(Duration::from_millis(300));
    let (server, _door) = start(config);
    let mut client = Client::connect(&server);
    client.send(ZEROS, 1, &(64u64 << 20).to_be_bytes());
    eventually("it is closed", || server.totals().requests == 1 && server.totals().connections == 0);
    assert_eq!(server.totals().held_bytes, 0);
}

#[test]
fn connections_beyond_the_limits_are_closed_at_once() {
    let mut config = config();
    config.connections_max = 3;
    config.connections_per_ip_max = 2;
    config.listeners.push(Listen { name: "SECOND".into(), host: "127.0.0.1".into(), port: 0 });
    let (server, _door) = start(config);
    let mut first = Client::connect(&server);
    first.echo(1);
    let mut second = Client::connect_to(server.addresses()[1].1);
    second.echo(2);
    Client::connect(&server).expect_end();
    drop(first);
    eventually("the place is free", || server.totals().connections == 1);
    Client::connect(&server).echo(3);
    second.echo(4);
}

#[test]
fn the_total_limit_counts_all_addresses() {
    let mut config = config();
    config.connections_max = 1;
    let (server, _door) = start(config);
    let mut first = Client::connect(&server);
    first.echo(1);
    let address = server.addresses()[0].1;
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&address.into()).unwrap();
    let socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    Client { socket }.expect_end();
}

#[test]
fn a_peer_that_leaves_ends_its_long_poll() {
    let (server, door) = start(config());
    let mut client = Client::connect(&server);
    client.send(LONG_POLL, 1, b"");
    // Something that waits behind the poll does not hide the end.
    client.send(ECHO, 2, b"later");
    eventually("it is held", || door.waits() == 1);
    drop(client);
    eventually("the wait is dropped", || door.waits() == 0);
    eventually("the connection is gone", || server.totals().connections == 0);
    assert_eq!(door.handled(), [1]);
    assert_eq!(server.totals().held_bytes, 0);
}

#[test]
fn what_is_no_frame_ends_the_long_poll_before_it() {
    let (server, door) = start(config());
    let mut client = Client::connect(&server);
    client.send(LONG_POLL, 1, b"");
    eventually("it is held", || door.waits() == 1);
    client.send_raw(&[0xff; 4]);
    assert_eq!(client.receive_until_end(), LAST_WORDS);
    eventually("the connection is gone", || server.totals().connections == 0);
    eventually("the wait is dropped", || door.waits() == 0);
    assert_eq!(server.totals().malformed, 1);
}

#[test]
fn work_under_way_goes_on_when_its_peer_leaves() {
    let (server, door) = start(config());
    let mut client = Client::connect(&server);
    client.send(WORK, 1, b"");
    let mut poller = Client::connect(&server);
    poller.send(LONG_POLL, 2, b"");
    eventually("both are held", || door.waits() == 2);
    client.socket.shutdown(std::net::Shutdown::Write).unwrap();
    poller.socket.shutdown(std::net::Shutdown::Write).unwrap();
    poller.expect_end();
    eventually("the poll is dropped", || door.waits() == 1);
    door.release(1);
    assert_eq!(client.receive().0, 1);
    client.expect_end();
}

#[test]
fn a_peer_that_resets_ends_everything() {
    let (server, door) = start(config());
    let mut client = Client::connect(&server);
    client.send(PRODUCE, 1, b"");
    eventually("it is held", || door.waits() == 1);
    socket2::SockRef::from(&client.socket).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    eventually("the wait is dropped", || door.waits() == 0);
    eventually("the connection is gone", || server.totals().connections == 0);
}

#[test]
fn a_stop_answers_what_was_taken_and_ends_long_polls() {
    let (server, door) = start(config());
    let address = server.addresses()[0].1;
    let mut idle = Client::connect(&server);
    idle.echo(1);
    let mut producer = Client::connect(&server);
    producer.send(PRODUCE, 2, b"");
    let mut poller = Client::connect(&server);
    poller.send(LONG_POLL, 3, b"");
    let mut worker = Client::connect(&server);
    worker.send(WORK, 4, b"");
    eventually("all are held", || door.waits() == 3);
    let thread = std::thread::spawn(move || (server.drain(PATIENCE), server));
    idle.expect_end();
    poller.expect_end();
    eventually("the long poll alone is dropped, after a second", || door.waits() == 2);
    door.release(4);
    assert_eq!(worker.receive().0, 4, "work under way has the grace of the stop");
    worker.expect_end();
    door.release(2);
    assert_eq!(producer.receive().0, 2);
    producer.expect_end();
    let (drained, server) = thread.join().unwrap();
    assert_eq!(drained, Drained { connections: 4, cut: 0 });
    assert_eq!(door.drained.load(SeqCst), 1);
    assert_eq!(server.totals().connections, 0);
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn a_door_can_answer_its_long_polls_at_the_stop() {
    let (server, door) = start_door(config(), FakeDoor { release_on_drain: true, ..FakeDoor::default() });
    let mut poller = Client::connect(&server);
    poller.send(LONG_POLL, 3, b"");
    eventually("it is held", || door.waits() == 1);
    let thread = std::thread::spawn(move || server.stop(PATIENCE));
    assert_eq!(poller.receive().0, 3);
    poller.expect_end();
    assert_eq!(thread.join().unwrap(), Drained { connections: 1, cut: 0 });
}

#[test]
fn connections_that_are_not_done_within_the_grace_are_cut() {
    let (server, door) = start(config());
    let mut producer = Client::connect(&server);
    producer.send(PRODUCE, 1, b"");
    let mut stuck = Client::connect(&server);
    stuck.send(ZEROS, 2, &(64u64 << 20).to_be_bytes());
    eventually("both are handled", || door.handled().len() == 2);
    assert_eq!(server.stop(Duration::from_millis(200)), Drained { connections: 2, cut: 2 });
    producer.expect_end();
    assert_eq!(door.waits(), 0);
}

#[test]
fn dropping_the_server_ends_its_connections() {
    let (server, door) = start(config());
    let mut client = Client::connect(&server);
    client.send(LONG_POLL, 1, b"");
    eventually("it is held", || door.waits() == 1);
    drop(server);
    client.expect_end();
    assert_eq!(door.waits(), 0);
}

#[test]
fn several_reactors_share_the_connections() {
    let mut config = config();
    config.reactors = 3;
    let (server, _door) = start(config);
    let mut clients: Vec<Client> = (0..12).map(|_| Client::connect(&server)).collect();
    for (id, client) in clients.iter_mut().enumerate() {
        client.echo(id as i32);
    }
    assert_eq!(server.totals().connections, 12);
    assert_eq!(server.totals().requests, 12);
}

#[test]
fn ipv6_and_all_addresses_work() {
    if TcpStream::connect("[::1]:1").is_err_and(|error| error.kind() != std::io::ErrorKind::ConnectionRefused) {
        eprintln!("this machine has no IPv6");
        return;
    }
    let mut config = config();
    config.listeners = vec![Listen { name: "SIX".into(), host: "::1".into(), port: 0 }];
    let (server, _door) = start(config);
    assert!(server.addresses()[0].1.is_ipv6());
    Client::connect(&server).echo(1);
}

#[test]
fn a_port_that_is_taken_is_an_error_that_names_it() {
    let (server, _door) = start(config());
    let port = server.addresses()[0].1.port();
    let mut config = config();
    config.listeners[0].port = port;
    let message = BoundFront::bind(config).unwrap_err().to_string();
    assert!(message.contains("PLAINTEXT") && message.contains(&format!("127.0.0.1:{port}")), "{message}");
}

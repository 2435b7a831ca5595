//! Frames, order, pipelining, and bounds on what is held.

mod support;

use std::io::{Read, Write};
use std::time::Duration;

use support::*;

#[test]
fn replies_come_in_the_order_of_requests() {
    let (server, _door) = start(config());
    let mut client = Client::connect(&server);
    let burst: Vec<u8> = (0..500).flat_map(|id| frame(ECHO, id, &pattern(id as usize * 7))).collect();
    let mut writer = client.socket.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&burst).unwrap());
    for id in 0..500 {
        assert_eq!(client.receive(), (id, pattern(id as usize * 7)));
    }
    thread.join().unwrap();
    assert_eq!(server.totals().requests, 500);
}

#[test]
fn a_client_that_sends_byte_by_byte_is_served() {
    let (server, _door) = start(config());
    let mut client = Client::connect(&server);
    for byte in frame(ECHO, 9, b"slowly") {
        client.send_raw(&[byte]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.receive(), (9, b"slowly".to_vec()));
}

#[test]
fn frames_of_all_sizes_arrive_whole() {
    let (server, _door) = start(config());
    let mut client = Client::connect(&server);
    let sizes = [0, 1, 4083, 4084, 4085, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 5 << 20, 3, 200_000];
    let mut writer = client.socket.try_clone().unwrap();
    let thread = std::thread::spawn(move || {
        for (id, size) in sizes.into_iter().enumerate() {
            writer.write_all(&frame(ECHO, id as i32, &pattern(size))).unwrap();
        }
    });
    for (id, size) in sizes.into_iter().enumerate() {
        let (correlation, body) = client.receive();
        assert_eq!(correlation, id as i32);
        assert!(body == pattern(size), "the body of {size} bytes");
    }
    thread.join().unwrap();
}

#[test]
fn produce_requests_are_handled_while_earlier_ones_wait_and_answered_in_order() {
    let (server, door) = start(config());
    let mut client = Client::connect(&server);
    for id in 1..=3 {
        client.send(PRODUCE, id, b"x");
    }
    eventually("all are handled", || door.handled() == [1, 2, 3]);
    for id in [3, 2, 1] {
        door.release(id);
    }
    for id in 1..=3 {
        assert_eq!(client.receive().0, id);
    }
    eventually("nothing is held", || server.totals().held_bytes == 0);
}

#[test]
fn other_requests_are_handled_when_all_earlier_replies_left() {
    let (server, door) = start(config());
    let mut client = Client::connect(&server);
    client.send(PRODUCE, 1, b"");
    client.send(LONG_POLL, 2, b"");
    client.send(PRODUCE, 3, b"");
    eventually("the first is handled", || door.handled() == [1]);
    Client::connect(&server).echo(100);
    assert_eq!(door.handled(), [1, 100], "the long poll must not overtake the produce request");
    door.release(1);
    assert_eq!(client.receive().0, 1);
    eventually("the long poll is handled", || door.handled() == [1, 100, 2]);
    Client::connect(&server).echo(101);
    assert_eq!(door.handled(), [1, 100, 2, 101], "nothing may overtake the long poll");
    door.release(2);
    assert_eq!(client.receive().0, 2);
    eventually("the last is handled", || door.handled().len() == 5);
    door.release(3);
    assert_eq!(client.receive().0, 3);
}

#[test]
fn at_most_64_produce_requests_wait_at_once() {
    let (server, door) = start(config());
    let mut client = Client::connect(&server);
    for id in 0..100 {
        client.send(PRODUCE, id, b"");
    }
    eventually("64 are handled", || door.handled().len() == 64);
    Client::connect(&server).echo(1000);
    assert_eq!(door.handled().len(), 65, "the echo of the other client alone came in");
    for id in 0..100 {
        eventually("it is held", || door.handled().contains(&id));
        door.release(id);
        assert_eq!(client.receive().0, id);
    }
}

#[test]
fn a_request_without_an_answer_is_not_answered() {
    let (server, _door) = start(config());
    let mut client = Client::connect(&server);
    client.send(SILENT, 1, b"");
    client.echo(2);
}

#[test]
fn a_client_that_does_not_read_is_not_read_and_costs_bounded_memory() {
    let (server, door) = start(config());
    let mut client = Client::connect(&server);
    let mut writer = client.socket.try_clone().unwrap();
    let total = 2_000;
    let payload = pattern(32 << 10);
    let thread = std::thread::spawn({
        let payload = payload.clone();
        move || {
            for id in 0..total {
                writer.write_all(&frame(ECHO, id, &payload)).unwrap();
            }
        }
    });
    let mut last = 0;
    eventually("the server stops reading", || {
        std::thread::sleep(Duration::from_millis(100));
        std::mem::replace(&mut last, server.totals().received_bytes) == server.totals().received_bytes && last > 0
    });
    let held = server.totals().held_bytes;
    assert!(held > 0 && held < 512 << 10, "{held} bytes are held for a client that is stuck");
    assert!(door.handled().len() < total as usize, "the sockets alone took everything: send more");
    Client::connect(&server).echo(1);
    for id in 0..total {
        let (correlation, body) = client.receive();
        assert_eq!(correlation, id);
        assert!(body == payload);
    }
    thread.join().unwrap();
    eventually("nothing is held", || server.totals().held_bytes == 0);
}

#[test]
fn a_frame_too_long_too_short_or_negative_ends_the_connection_alone() {
    let (server, door) = start_door(config(), FakeDoor { frame_bytes_max: 1000, ..FakeDoor::default() });
    let mut bystander = Client::connect(&server);
    bystander.echo(1);
    for (count, length) in [i32::MAX, 1001, 7, 0, -1, i32::MIN].into_iter().enumerate() {
        let mut client = Client::connect(&server);
        client.send_raw(&length.to_be_bytes());
        assert_eq!(client.receive_until_end(), LAST_WORDS);
        eventually("it is counted", || server.totals().malformed == count as u64 + 1);
        bystander.echo(2 + count as i32);
    }
    let mut client = Client::connect(&server);
    client.send(ECHO, 50, &pattern(1000 - 8));
    assert_eq!(client.receive(), (50, pattern(1000 - 8)), "exactly the limit is allowed");
    assert_eq!(door.handled().len(), 8);
}

#[test]
fn a_long_frame_that_was_only_announced_costs_little_memory() {
    let (server, _door) = start(config());
    let mut clients: Vec<Client> = (0..50).map(|_| Client::connect(&server)).collect();
    for client in &mut clients {
        client.send_raw(&(2i32 << 20).to_be_bytes());
    }
    eventually("all were received", || server.totals().received_bytes == 200);
    assert!(server.totals().held_bytes <= 50 * ((1 << 20) + 4096), "{}", server.totals().held_bytes);
}

#[test]
fn earlier_replies_leave_before_garbage_or_the_door_ends_the_connection() {
    let (server, door) = start(config());
    let mut client = Client::connect(&server);
    client.send(ECHO, 1, b"good");
    client.send_raw(&[0xff; 100]);
    assert_eq!(client.receive(), (1, b"good".to_vec()));
    assert_eq!(client.receive_until_end(), LAST_WORDS);

    let mut client = Client::connect(&server);
    client.send(PRODUCE, 2, b"");
    eventually("it is held", || door.handled() == [1, 2]);
    client.send(CLOSE, 3, b"");
    client.send(ECHO, 4, b"never");
    door.release(2);
    assert_eq!(client.receive().0, 2);
    client.expect_end();
    assert_eq!(door.handled(), [1, 2, 3]);
}

#[test]
fn a_large_frame_waits_until_the_budget_of_the_broker_has_room() {
    let mut config = config();
    config.requests_in_flight_bytes_max = 1 << 20;
    let (server, door) = start(config);
    let mut first = Client::connect(&server);
    let mut second = Client::connect(&server);
    first.send(PRODUCE, 1, &pattern(900 << 10));
    eventually("the first is held", || door.handled() == [1]);
    let before = server.totals().received_bytes;
    let mut writer = second.socket.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&frame(ECHO, 2, &pattern(8 << 20))).unwrap());
    eventually("a bit of the second is read ahead", || server.totals().received_bytes > before);
    Client::connect(&server).echo(3);
    first.send(PRODUCE, 4, b"small frames need no budget");
    eventually("the small one is held", || door.handled() == [1, 3, 4]);
    assert!(server.totals().received_bytes - before < 80 << 10, "no more than the read-ahead was read");
    door.release(1);
    assert_eq!(second.receive().0, 2, "larger than the budget, and admitted when nothing else is in flight");
    thread.join().unwrap();
    door.release(4);
    assert_eq!((first.receive().0, first.receive().0), (1, 4));
}

#[test]
fn requests_of_a_client_that_closed_its_sending_side_are_answered() {
    let (server, door) = start(config());
    let mut client = Client::connect(&server);
    for id in 0..20 {
        client.send(ECHO, id, b"x");
    }
    client.send(PRODUCE, 20, b"");
    client.send(ECHO, 21, b"x");
    client.socket.shutdown(std::net::Shutdown::Write).unwrap();
    eventually("the produce request is held", || door.handled().len() == 21);
    door.release(20);
    for id in 0..=21 {
        assert_eq!(client.receive().0, id);
    }
    client.expect_end();
}

#[test]
fn a_stuck_reader_of_a_huge_reply_does_not_delay_others() {
    let (server, _door) = start(config());
    let mut stuck = Client::connect(&server);
    stuck.send(ZEROS, 1, &(64u64 << 20).to_be_bytes());
    let mut client = Client::connect(&server);
    for id in 0..100 {
        client.echo(id);
    }
    let mut count = 0;
    let mut buffer = vec![0; 1 << 20];
    while count < (64 << 20) + 8 {
        count += stuck.socket.read(&mut buffer).unwrap();
    }
    stuck.echo(2);
}

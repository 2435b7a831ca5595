//! What a connection receives, cut anywhere: the frames are those that the bytes hold, or the reader refuses, and
//! memory follows what was received.
//!
//! Two bytes give the greatest length of a frame. Then each byte below 128 is followed by so many bytes that are
//! received as they stand; each one above receives 1 KiB more for every unit, all zeros.

use mainstem_kafka::{FRAME_BYTES_MIN, LENGTH_BYTES, next_frame};
use mainstem_server::frames::Inbound;

/// What one input may receive.
const RECEIVED_BYTES_MAX: usize = 1 << 20;
/// What is held beside twice the bytes that are there: the step in which a long frame is received.
const AHEAD_BYTES_MAX: usize = (1 << 20) + LENGTH_BYTES;

pub fn run(data: &[u8]) {
    let Some((limit, orders)) = data.split_first_chunk::<2>() else { return };
    let frame_bytes_max = FRAME_BYTES_MIN + usize::from(u16::from_be_bytes(*limit)) * 16;
    let pieces = pieces(orders);
    let expected = cut(&pieces.concat(), frame_bytes_max);
    let mut inbound = Inbound::default();
    let mut next = None;
    let mut found = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            assert!(inbound.take_from(&mut rest, next, (usize::MAX, number % 2 == 0)) > 0, "there is always room");
            assert!(inbound.held_bytes() <= 2 * inbound.received().len() + AHEAD_BYTES_MAX, "{inbound:?}");
            next = loop {
                match next_frame(inbound.received(), frame_bytes_max) {
                    Ok(Some(frame)) if inbound.has(frame) => found.push(inbound.take(frame).to_vec()),
                    Ok(next) => break next,
                    Err(_) => return assert_eq!(expected, (found, true)),
                }
            };
        }
        inbound.release_if_empty();
    }
    assert_eq!(expected, (found, false));
}

fn pieces(mut orders: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut received = 0;
    while let Some((order, rest)) = orders.split_first() {
        orders = rest;
        let piece = match usize::from(*order) {
            literal @ 0..128 => {
                let (piece, rest) = orders.split_at(literal.min(orders.len()));
                orders = rest;
                piece.to_vec()
            }
            zeros => vec![0; (zeros - 127) << 10],
        };
        received += piece.len();
        if received > RECEIVED_BYTES_MAX {
            break;
        }
        pieces.push(piece);
    }
    pieces
}

/// The frames of a stream, and whether it ends with something that is none.
fn cut(mut stream: &[u8], frame_bytes_max: usize) -> (Vec<Vec<u8>>, bool) {
    let mut frames = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk::<LENGTH_BYTES>() {
        let length = i32::from_be_bytes(*length);
        if length < FRAME_BYTES_MIN as i32 || length as usize > frame_bytes_max {
            return (frames, true);
        }
        let Some((frame, rest)) = rest.split_at_checked(length as usize) else { break };
        frames.push(frame.to_vec());
        stream = rest;
    }
    (frames, false)
}

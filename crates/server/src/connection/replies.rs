//! The replies that one connection owes, in the order that its protocol wants.

use std::task::{Context, Poll};

use mainstem_door::{Handled, Order, Reply};

use super::as_ready::AsReady;
use super::held::Held;
use super::in_order::InOrder;

/// Replies that are ready or promised.
pub(super) enum Replies {
    InOrder(InOrder),
    AsReady(AsReady),
}

impl Replies {
    /// `pipelined_max`: requests that may be pipelined and wait for their replies, where replies have an order.
    pub fn new(order: Order, pipelined_max: usize) -> Replies {
        match order {
            Order::OfRequests => Replies::InOrder(InOrder::new(pipelined_max)),
            Order::AsReady { requests_max } => Replies::AsReady(AsReady::new(requests_max)),
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Replies::InOrder(replies) => replies.is_empty(),
            Replies::AsReady(replies) => replies.is_empty(),
        }
    }

    /// Bytes of the requests whose replies are awaited.
    pub fn request_bytes(&self) -> usize {
        match self {
            Replies::InOrder(replies) => replies.request_bytes(),
            Replies::AsReady(replies) => replies.request_bytes(),
        }
    }

    /// Whether one request more may wait, if it may do so beside others.
    pub fn has_room(&self) -> bool {
        match self {
            Replies::InOrder(replies) => replies.has_room(),
            Replies::AsReady(replies) => replies.has_room(),
        }
    }

    /// Whether every request may be handled while earlier ones wait for their replies.
    pub fn need_no_order(&self) -> bool {
        matches!(self, Replies::AsReady(_))
    }

    /// Whether all that is owed are long polls, on which nothing depends but their replies.
    pub fn are_polls(&self) -> bool {
        match self {
            Replies::InOrder(replies) => replies.are_polls(),
            Replies::AsReady(replies) => replies.are_polls(),
        }
    }

    /// Takes what a request led to. `pipelined`: others like it may be handled before its reply has left.
    pub fn push(&mut self, handled: Handled, pipelined: bool, held: Held, cx: &mut Context<'_>) {
        match self {
            Replies::InOrder(replies) => replies.push(handled, pipelined, held, cx),
            Replies::AsReady(replies) => replies.push(handled, held),
        }
    }

    /// The next reply that is due; `Pending` too when there is none.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        match self {
            Replies::InOrder(replies) => replies.poll_next(cx),
            Replies::AsReady(replies) => replies.poll_next(cx),
        }
    }

    /// Drops everything, the waits of the promises included.
    pub fn clear(&mut self) {
        match self {
            Replies::InOrder(replies) => replies.clear(),
            Replies::AsReady(replies) => replies.clear(),
        }
    }
}

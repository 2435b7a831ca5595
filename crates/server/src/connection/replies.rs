//! The replies of one connection, in the order of its requests.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::limits::Claim;
use crate::protocol::{Handled, Reply};

/// Bytes of requests that may wait for their replies at once, past which no further one is handled.
pub(crate) const PIPELINED_BYTES_MAX: usize = 8 << 20;

enum State {
    Ready(Reply),
    Waiting(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

struct Slot {
    state: State,
    request_bytes: usize,
    /// Given back with the slot.
    _claim: Option<Claim>,
}

/// A queue of replies that are ready or promised.
#[derive(Default)]
pub(crate) struct Replies {
    slots: VecDeque<Slot>,
    request_bytes: usize,
    /// The newest request is one that others may not overtake.
    exclusive: bool,
    /// The newest request is being worked at: it is no mere wait.
    working: bool,
}

impl Replies {
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes of the requests whose replies are awaited.
    pub fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Whether a request that may be pipelined can join those that wait (or whose replies are being sent).
    pub fn has_room(&self, requests_max: usize) -> bool {
        !self.exclusive && self.slots.len() < requests_max && self.request_bytes < PIPELINED_BYTES_MAX
    }

    /// Whether the reply that is due is a wait of which nothing but the reply depends (a long poll).
    pub fn in_long_wait(&self) -> bool {
        self.exclusive && !self.working && matches!(self.slots.front(), Some(Slot { state: State::Waiting(_), .. }))
    }

    /// Queues what a request led to. A promise is polled once here, so that all of them run; later the one in front alone is.
    pub fn push(
        &mut self,
        handled: Handled,
        pipelined: bool,
        request_bytes: usize,
        claim: Option<Claim>,
        cx: &mut Context<'_>,
    ) {
        self.working = matches!(handled, Handled::Working(_));
        let state = match handled {
            Handled::Ready(reply) => State::Ready(reply),
            Handled::Waiting(mut future) | Handled::Working(mut future) => match future.as_mut().poll(cx) {
                Poll::Ready(reply) => State::Ready(reply),
                Poll::Pending => State::Waiting(future),
            },
        };
        self.exclusive = !pipelined || self.working && matches!(state, State::Waiting(_));
        // A reply that is ready needs the bytes of its request no more.
        let (request_bytes, claim) = match state {
            State::Ready(_) => (0, None),
            State::Waiting(_) => (request_bytes, claim),
        };
        self.request_bytes += request_bytes;
        self.slots.push_back(Slot { state, request_bytes, _claim: claim });
    }

    /// The next reply in order; `Pending` too when there is none.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        let Some(slot) = self.slots.front_mut() else { return Poll::Pending };
        if let State::Waiting(future) = &mut slot.state {
            let reply = std::task::ready!(future.as_mut().poll(cx));
            slot.state = State::Ready(reply);
        }
        match self.slots.pop_front() {
            Some(Slot { state: State::Ready(reply), request_bytes, .. }) => {
                self.request_bytes -= request_bytes;
                Poll::Ready(reply)
            }
            _ => Poll::Pending,
        }
    }

    /// Drops everything, and with it what the promises wait for.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.request_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn push(replies: &mut Replies, handled: Handled) {
        replies.push(handled, true, 100, None, &mut Context::from_waker(Waker::noop()));
    }

    #[test]
    fn nothing_overtakes_a_request_that_is_being_worked_at_and_no_leaving_peer_ends_it() {
        let mut replies = Replies::default();
        push(&mut replies, Handled::waiting(std::future::pending()));
        assert!(replies.has_room(64));
        replies.clear();
        let (done, is_done) = tokio::sync::oneshot::channel();
        push(
            &mut replies,
            Handled::working(async {
                let _ = is_done.await;
                Reply::Nothing
            }),
        );
        assert!(!replies.has_room(64) && !replies.in_long_wait());
        done.send(()).unwrap();
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(matches!(replies.poll_next(cx), Poll::Ready(Reply::Nothing)));
        push(&mut replies, Handled::working(std::future::ready(Reply::Nothing)));
        assert!(replies.has_room(64), "it was done at once");
    }

    #[test]
    fn a_wait_that_is_not_pipelined_ends_with_its_peer() {
        let mut replies = Replies::default();
        let cx = &mut Context::from_waker(Waker::noop());
        replies.push(Handled::waiting(std::future::pending()), false, 100, None, cx);
        assert!(!replies.has_room(64) && replies.in_long_wait());
    }
}

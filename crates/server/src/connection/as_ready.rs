//! Replies as they become ready, in any order of their requests.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::stream::{FuturesUnordered, Stream};
use mainstem_door::{Handled, Promise, Reply};

use super::held::{Held, WAITING_BYTES_MAX};

/// A promise on its way, which is polled only when it was woken.
struct Waiting {
    promise: Kind,
    held: Held,
}

enum Kind {
    Polling(Promise<Reply>),
    Confirming(Promise<Reply>),
    Working(Promise<Handled>),
}

/// What a promise led to, of what it held, and whether it was a long poll.
struct Done {
    handled: Handled,
    held: Held,
    was_poll: bool,
}

impl Future for Waiting {
    type Output = Done;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Done> {
        let (handled, was_poll) = match &mut self.promise {
            Kind::Polling(promise) => (Handled::Ready(ready!(promise.as_mut().poll(cx))), true),
            Kind::Confirming(promise) => (Handled::Ready(ready!(promise.as_mut().poll(cx))), false),
            Kind::Working(promise) => (ready!(promise.as_mut().poll(cx)), false),
        };
        Poll::Ready(Done { handled, held: std::mem::replace(&mut self.held, Held::NOTHING), was_poll })
    }
}

/// A set of replies.
pub(super) struct AsReady {
    ready: VecDeque<Reply>,
    waiting: FuturesUnordered<Waiting>,
    requests_max: usize,
    request_bytes: usize,
    /// Of `waiting`, those that are long polls.
    polls: usize,
}

impl AsReady {
    pub fn new(requests_max: usize) -> AsReady {
        let (ready, waiting) = (VecDeque::new(), FuturesUnordered::new());
        AsReady { ready, waiting, requests_max: requests_max.max(1), request_bytes: 0, polls: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.waiting.is_empty()
    }

    pub fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    pub fn has_room(&self) -> bool {
        self.ready.len() + self.waiting.len() < self.requests_max && self.request_bytes < WAITING_BYTES_MAX
    }

    pub fn are_polls(&self) -> bool {
        self.ready.is_empty() && self.polls > 0 && self.polls == self.waiting.len()
    }

    /// A promise is polled for the first time by [`poll_next`](Self::poll_next).
    pub fn push(&mut self, handled: Handled, held: Held) {
        let promise = match handled {
            Handled::Ready(reply) => return self.ready.push_back(reply),
            Handled::Polling(promise) => {
                self.polls += 1;
                Kind::Polling(promise)
            }
            Handled::Confirming(promise) => Kind::Confirming(promise),
            Handled::Working(promise) => Kind::Working(promise),
        };
        self.request_bytes += held.bytes;
        self.waiting.push(Waiting { promise, held });
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        loop {
            if let Some(reply) = self.ready.pop_front() {
                return Poll::Ready(reply);
            }
            let Some(done) = ready!(Pin::new(&mut self.waiting).poll_next(cx)) else { return Poll::Pending };
            self.polls -= usize::from(done.was_poll);
            self.request_bytes -= done.held.bytes;
            self.push(done.handled, done.held);
        }
    }

    pub fn clear(&mut self) {
        self.ready.clear();
        self.waiting.clear();
        (self.request_bytes, self.polls) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;
    use tokio::sync::oneshot;

    fn cx() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    fn push(replies: &mut AsReady, handled: Handled) {
        replies.push(handled, Held { bytes: 10, _claim: None });
    }

    #[test]
    fn work_that_leads_to_a_poll_is_counted_as_what_it_is() {
        let mut replies = AsReady::new(2);
        let (done, is_done) = oneshot::channel();
        push(
            &mut replies,
            Handled::working_towards(async {
                let _ = is_done.await;
                Handled::polling(std::future::pending())
            }),
        );
        assert!(replies.has_room() && replies.poll_next(&mut cx()).is_pending() && !replies.are_polls());
        done.send(()).unwrap();
        assert!(replies.poll_next(&mut cx()).is_pending() && replies.are_polls());
        push(&mut replies, Handled::confirming(std::future::ready(Reply::Nothing)));
        assert!(!replies.has_room() && !replies.are_polls());
        assert_eq!(replies.request_bytes(), 20);
        assert!(replies.poll_next(&mut cx()).is_ready());
        assert_eq!(replies.request_bytes(), 10);
        assert!(replies.has_room() && replies.are_polls() && !replies.is_empty());
        replies.clear();
        assert!(replies.is_empty() && !replies.are_polls() && replies.request_bytes() == 0);
    }
}

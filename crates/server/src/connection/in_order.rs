//! Replies in the order of their requests.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use mainstem_door::{Handled, Reply};

use super::held::{Held, WAITING_BYTES_MAX};

struct Slot {
    handled: Handled,
    held: Held,
}

impl Slot {
    /// Goes on as far as it can; then it is `Ready`, or waits.
    fn poll(&mut self, cx: &mut Context<'_>) {
        loop {
            let next = match &mut self.handled {
                Handled::Ready(_) => return,
                Handled::Polling(promise) | Handled::Confirming(promise) => {
                    promise.as_mut().poll(cx).map(Handled::Ready)
                }
                Handled::Working(promise) => promise.as_mut().poll(cx),
            };
            match next {
                Poll::Ready(handled) => self.handled = handled,
                Poll::Pending => return,
            }
        }
    }

    fn is_ready(&self) -> bool {
        matches!(self.handled, Handled::Ready(_))
    }
}

/// A queue of replies. The promise in front is polled, and a newest one that is work under way.
pub(super) struct InOrder {
    slots: VecDeque<Slot>,
    pipelined_max: usize,
    request_bytes: usize,
    /// The newest request is one that others may not overtake.
    exclusive: bool,
}

impl InOrder {
    pub fn new(pipelined_max: usize) -> InOrder {
        InOrder { slots: VecDeque::new(), pipelined_max, request_bytes: 0, exclusive: false }
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    pub fn has_room(&self) -> bool {
        !self.exclusive
            && !self.is_working()
            && self.slots.len() < self.pipelined_max
            && self.request_bytes < WAITING_BYTES_MAX
    }

    fn is_working(&self) -> bool {
        matches!(self.slots.back(), Some(Slot { handled: Handled::Working(_), .. }))
    }

    pub fn are_polls(&self) -> bool {
        !self.slots.is_empty() && self.slots.iter().all(|slot| matches!(slot.handled, Handled::Polling(_)))
    }

    /// A promise is polled once here, so that all of them run.
    pub fn push(&mut self, handled: Handled, pipelined: bool, held: Held, cx: &mut Context<'_>) {
        let mut slot = Slot { handled, held };
        slot.poll(cx);
        if slot.is_ready() {
            // A reply that is ready needs the bytes of its request no more.
            slot.held = Held::NOTHING;
        }
        self.exclusive = !pipelined;
        self.request_bytes += slot.held.bytes;
        self.slots.push_back(slot);
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        if self.slots.len() > 1
            && self.is_working()
            && let Some(newest) = self.slots.back_mut()
        {
            // Its end lets further requests be handled before it is in front.
            newest.poll(cx);
        }
        let Some(front) = self.slots.front_mut() else { return Poll::Pending };
        front.poll(cx);
        if !front.is_ready() {
            return Poll::Pending;
        }
        match self.slots.pop_front() {
            Some(Slot { handled: Handled::Ready(reply), held }) => {
                self.request_bytes -= held.bytes;
                Poll::Ready(reply)
            }
            _ => Poll::Pending,
        }
    }

    pub fn clear(&mut self) {
        self.slots.clear();
        self.request_bytes = 0;
        self.exclusive = false;
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

    fn push(replies: &mut InOrder, handled: Handled) {
        replies.push(handled, true, Held { bytes: 100, _claim: None }, &mut cx());
    }

    fn working(done: oneshot::Receiver<()>, handled: Handled) -> Handled {
        Handled::working_towards(async {
            let _ = done.await;
            handled
        })
    }

    #[test]
    fn nothing_overtakes_work_under_way_and_no_leaving_peer_ends_it() {
        let mut replies = InOrder::new(64);
        push(&mut replies, Handled::confirming(std::future::pending()));
        assert!(replies.has_room() && !replies.are_polls());
        replies.clear();
        let (done, is_done) = oneshot::channel();
        push(&mut replies, working(is_done, Handled::Ready(Reply::Nothing)));
        assert!(!replies.has_room() && !replies.are_polls());
        done.send(()).unwrap();
        assert!(matches!(replies.poll_next(&mut cx()), Poll::Ready(Reply::Nothing)));
        push(&mut replies, Handled::working(std::future::ready(Reply::Nothing)));
        assert!(replies.has_room(), "it was done at once");
    }

    #[test]
    fn requests_go_on_when_work_ends_that_is_not_in_front() {
        let mut replies = InOrder::new(64);
        let (confirmed, is_confirmed) = oneshot::channel::<()>();
        push(
            &mut replies,
            Handled::confirming(async {
                let _ = is_confirmed.await;
                Reply::Nothing
            }),
        );
        let (done, is_done) = oneshot::channel();
        push(&mut replies, working(is_done, Handled::confirming(std::future::pending())));
        assert!(replies.poll_next(&mut cx()).is_pending() && !replies.has_room());
        done.send(()).unwrap();
        assert!(replies.poll_next(&mut cx()).is_pending() && replies.has_room());
        drop(confirmed);
        assert!(replies.poll_next(&mut cx()).is_ready(), "the first");
        assert!(replies.poll_next(&mut cx()).is_pending(), "the second waits to be confirmed");
        assert_eq!(replies.request_bytes(), 100);
    }

    #[test]
    fn work_that_ends_in_a_long_poll_is_one_from_then_on() {
        let mut replies = InOrder::new(64);
        let (done, is_done) = oneshot::channel();
        let handled = working(is_done, Handled::polling(std::future::pending()));
        replies.push(handled, false, Held { bytes: 100, _claim: None }, &mut cx());
        assert!(!replies.has_room() && !replies.are_polls());
        done.send(()).unwrap();
        assert!(replies.poll_next(&mut cx()).is_pending() && replies.are_polls());
        assert!(!replies.has_room(), "nothing overtakes it");
    }
}

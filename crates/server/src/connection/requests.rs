//! The receiving side of a connection: takes frames, and has them handled.

use std::task::{Context, Poll};

use mainstem_door::{Frame, Protocol};

use super::end::{End, HEAD_BYTES_MAX};
use super::held::Held;
use super::{Connection, FrameClaim, TURN_BYTES};
use crate::counters::count;

/// A frame longer than this is counted against the broker's budget.
const LARGE_FRAME_BYTES: usize = 64 << 10;
/// Bytes to receive ahead while no further request may be handled: enough to notice that the peer left.
const READ_AHEAD_BYTES: usize = 64 << 10;
/// Requests handled before their replies are sent.
const TURN_REQUESTS: usize = 16;

impl<P: Protocol> Connection<P> {
    /// The frame at the front of what was received, once it is known where it lies. What is none closes the connection.
    fn next_frame(&mut self) -> Option<Frame> {
        if self.next.is_none() && !self.inbound.received().is_empty() && self.closing.is_none() {
            match self.protocol.frame(&self.state, self.inbound.received()) {
                Ok(None) if self.inbound.received().len() < HEAD_BYTES_MAX => {}
                Ok(None) => self.refuse(End::NoFrame),
                // It would never end.
                Ok(Some(frame)) if frame.total() == 0 => self.refuse(End::NoFrame),
                Ok(next) => self.next = next,
                Err(close) => self.refuse(End::Protocol(close)),
            }
        }
        self.next
    }

    /// Nothing more is received. Earlier replies still leave, except replies of long polls.
    fn refuse(&mut self, end: End) {
        self.close(end);
        self.inbound.clear();
    }

    /// Handles the complete frames that may be handled now. Says whether there were any.
    pub(super) fn handle_frames(&mut self, quota: &mut u64, cx: &mut Context<'_>) -> bool {
        let mut handled = 0;
        while self.closing.is_none() && self.drain_deadline.is_none() && *quota > 0 && handled < TURN_REQUESTS {
            let Some(next) = self.next_frame().filter(|frame| self.inbound.has(*frame)) else { break };
            let pipelined = self.protocol.may_pipeline(&self.inbound.received()[next.head..next.total()]);
            if !self.may_handle(pipelined) || self.poll_claim(next.body, cx).is_pending() {
                break;
            }
            let claim = match std::mem::replace(&mut self.claim, FrameClaim::None) {
                FrameClaim::Held(claim) => Some(claim),
                _ => None,
            };
            self.timer.end_frame();
            let frame = self.inbound.take(next);
            self.next = None;
            count(&self.reactor.counters.requests, 1);
            let outcome = self.protocol.handle(&self.state, frame);
            self.replies.push(outcome, pipelined, Held { bytes: next.body, _claim: claim }, cx);
            *quota = quota.saturating_sub(next.total() as u64);
            handled += 1;
        }
        self.active |= handled > 0;
        handled > 0
    }

    fn may_handle(&self, pipelined: bool) -> bool {
        if self.replies.is_empty() && self.outbound.is_empty() {
            return true;
        }
        (pipelined || self.replies.need_no_order()) && self.may_receive_more()
    }

    /// Whether it makes sense to receive further requests.
    fn may_receive_more(&self) -> bool {
        if self.replies.is_empty() && self.outbound.is_empty() {
            return true;
        }
        self.replies.has_room() && self.outbound.held_bytes() < self.shared.output_bytes_max
    }

    /// Whether the rest of the frame at the front may arrive now.
    pub(super) fn receives_frame(&self) -> bool {
        self.next.is_some_and(|frame| !self.inbound.has(frame)) && self.may_receive_more()
    }

    /// `Ready` when the next frame, of `frame_len` bytes, is covered by the budget.
    fn poll_claim(&mut self, frame_len: usize, cx: &mut Context<'_>) -> Poll<()> {
        if frame_len <= LARGE_FRAME_BYTES {
            return Poll::Ready(());
        }
        loop {
            match &mut self.claim {
                FrameClaim::Held(_) => return Poll::Ready(()),
                FrameClaim::None => {
                    self.claim = match self.shared.budget.try_claim(frame_len) {
                        Some(claim) => FrameClaim::Held(claim),
                        None => FrameClaim::Waiting(Box::pin(self.shared.budget.claim(frame_len))),
                    };
                }
                FrameClaim::Waiting(future) => match std::task::ready!(future.as_mut().poll(cx)) {
                    Some(claim) => self.claim = FrameClaim::Held(claim),
                    // The budget is never closed while connections run.
                    None => return Poll::Pending,
                },
            }
            if matches!(self.claim, FrameClaim::Held(_)) {
                self.timer.start_frame(frame_len, self.shared.large_frame_grace);
            }
        }
    }

    /// Receives what may be received now. Says whether anything was.
    pub(super) fn receive(&mut self, quota: &mut u64, cx: &mut Context<'_>) -> Result<bool, End> {
        if self.peer_closed || self.closing.is_some() || self.drain_deadline.is_some() {
            return Ok(false);
        }
        let next = self.next_frame();
        if self.closing.is_some() {
            return Ok(true);
        }
        let free = self.may_receive_more()
            && match next {
                None => true,
                Some(frame) => !self.inbound.has(frame) && self.poll_claim(frame.body, cx).is_ready(),
            };
        let limit = if free { usize::MAX } else { READ_AHEAD_BYTES };
        if self.inbound.received().len() >= limit {
            return Ok(false);
        }
        let guess_long = self.shared.budget.free_bytes() >= TURN_BYTES;
        match self.inbound.poll_fill(&mut self.stream, next, (limit, guess_long), cx) {
            Poll::Pending => {
                self.inbound.release_if_empty();
                Ok(false)
            }
            Poll::Ready(Ok(0)) => {
                self.peer_closed = true;
                Ok(true)
            }
            Poll::Ready(Ok(received)) => {
                count(&self.reactor.counters.received_bytes, received as u64);
                *quota = quota.saturating_sub(received as u64);
                self.active |= matches!(self.claim, FrameClaim::Held(_));
                Ok(true)
            }
            Poll::Ready(Err(error)) => Err(End::Receive(error)),
        }
    }
}

//! One connection: a single task that receives frames, has them handled, and sends the replies in order.
//!
//! Guarantees and limits:
//! - Replies leave in the order of the requests. A request is handled when all earlier replies have left; only requests for
//!   which [`Protocol::may_pipeline`] holds are handled while earlier ones of their kind wait: at most
//!   `mainstem.connection.requests.max` (64) of them and (save for the last) 8 MiB.
//! - Past these bounds, and while a reply is being sent or awaited, at most 64 KiB are received ahead; the rest stays in the socket.
//! - While the replies that all connections hold in memory take more than the broker's bound, those connections end whose clients take
//!   less than 256 KiB of theirs a second and are not waiting for the disk.
//! - A frame above 64 KiB is received only after its bytes were claimed from the broker's budget.
//! - One turn moves about 1 MiB, then other connections of the reactor have theirs.
//! - A peer that leaves while a long poll waits ends the poll at once.

mod cold;
mod crowding;
mod end;
mod inbound;
mod outbound;
mod replies;
mod socket;
mod stranger;
mod timer;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

pub(crate) use self::crowding::ReplyBytes;
use self::crowding::Share;
use self::end::End;
pub use self::inbound::{FRAME_BYTES_MIN, FrameError, Inbound, LENGTH_BYTES};
use self::outbound::{Outbound, SendError, Sent};
use self::replies::Replies;
use self::timer::Timer;
use crate::counters::count;
use crate::limits::{Budget, Claim, Place};
use crate::log_limit::LogLimit;
use crate::protocol::{ConnectionInfo, Protocol, Reply};
use crate::stop::{Phase, ReactorState};

/// A frame longer than this is counted against the broker's budget.
const LARGE_FRAME_BYTES: usize = 64 << 10;
/// What is received ahead while nothing more may be handled: enough to notice that the peer left.
const READ_AHEAD_BYTES: usize = 64 << 10;
/// What one turn of a connection may receive and send.
const TURN_BYTES: u64 = 1 << 20;
/// Requests handled before their replies are sent.
const TURN_REQUESTS: usize = 16;
/// A stop waits this long for a long poll to end by itself (Kafka's default `fetch.max.wait.ms` is 500 ms).
const DRAIN_WAIT: Duration = Duration::from_secs(1);

/// What all connections of a server share.
pub(crate) struct Shared<P> {
    pub protocol: Arc<P>,
    pub frame_bytes_max: usize,
    pub idle: Option<Duration>,
    pub pipelined_requests_max: usize,
    pub output_bytes_max: usize,
    pub budget: Budget,
    pub reply_bytes: ReplyBytes,
    pub log_limit: LogLimit,
}

/// The claim of the frame that is being received.
enum FrameClaim {
    None,
    Waiting(Pin<Box<dyn Future<Output = Option<Claim>> + Send>>),
    Held(Claim),
}

pub(crate) struct Connection<P: Protocol> {
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared<P>>,
    reactor: Arc<ReactorState>,
    state: P::Connection,
    inbound: Inbound,
    outbound: Outbound,
    replies: Replies,
    claim: FrameClaim,
    timer: Timer,
    peer_closed: bool,
    /// No further request is handled; the connection ends for this reason when the earlier replies have left.
    closing: Option<End>,
    drain_deadline: Option<Instant>,
    /// Progress was made in this turn.
    active: bool,
    held_reported: u64,
    share: Share,
    _place: Place,
}

impl<P: Protocol> Connection<P> {
    pub fn new(
        stream: TcpStream,
        peer: SocketAddr,
        listener: Arc<str>,
        shared: Arc<Shared<P>>,
        reactor: Arc<ReactorState>,
        place: Place,
    ) -> Self {
        count(&reactor.counters.connections, 1);
        Connection {
            stream,
            peer,
            state: shared.protocol.connect(ConnectionInfo { peer, listener }),
            inbound: Inbound::new(shared.frame_bytes_max),
            outbound: Outbound::default(),
            replies: Replies::default(),
            claim: FrameClaim::None,
            timer: Timer::new(shared.idle),
            peer_closed: false,
            closing: None,
            drain_deadline: None,
            active: false,
            held_reported: 0,
            share: Share::default(),
            shared,
            reactor,
            _place: place,
        }
    }

    /// Serves the connection until it ends.
    pub async fn run(mut self) {
        let reactor = Arc::clone(&self.reactor);
        let mut stop = std::pin::pin!(reactor.watch());
        let mut registered = None;
        let end = std::future::poll_fn(|cx| {
            // The waker of a task never changes, so the stop is registered once for each phase, not in each turn.
            let mut phase = reactor.phase();
            while registered != Some(phase) {
                stop.set(reactor.watch());
                let _ = stop.as_mut().poll(cx);
                registered = Some(phase);
                phase = reactor.phase();
            }
            self.poll(phase, cx)
        })
        .await;
        if let End::Frame(FrameError::Stranger(stranger)) = end {
            stranger.answer(&self.stream);
        }
        self.log(&end);
    }

    fn log(&self, end: &End) {
        let peer = self.peer;
        match end {
            End::Frame(_) | End::Door(_) | End::Crowded => {
                count(&self.reactor.counters.malformed, 1);
                if let Some(suppressed) = self.shared.log_limit.admit() {
                    tracing::warn!(%peer, suppressed, "connection closed: {end}");
                }
            }
            End::Send(SendError::File { .. } | SendError::FileTooShort { .. } | SendError::TooLong(_)) => {
                if let Some(suppressed) = self.shared.log_limit.admit() {
                    tracing::error!(%peer, suppressed, "connection closed: {end}");
                }
            }
            _ => tracing::debug!(%peer, "connection closed: {end}"),
        }
    }

    /// One turn.
    fn poll(&mut self, phase: Phase, cx: &mut Context<'_>) -> Poll<End> {
        match phase {
            Phase::Serving => {}
            Phase::Draining => {
                self.drain_deadline.get_or_insert_with(|| Instant::now() + DRAIN_WAIT);
            }
            Phase::Ended => return Poll::Ready(End::Stopped),
        }
        let mut quota = TURN_BYTES;
        let progress = self.advance(&mut quota, cx);
        if self.active {
            self.active = false;
            self.timer.touch();
        }
        self.report_held();
        match progress {
            Ok(true) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Ok(false) => {}
            Err(end) => return Poll::Ready(end),
        }
        if let Some(end) = self.finished() {
            return Poll::Ready(end);
        }
        if self.outbound.waits_for_disk() {
            self.share.waits_for_disk();
        } else if self.share.is_in_the_way(&self.shared.reply_bytes, cx) {
            return Poll::Ready(End::Crowded);
        }
        let waits_for_broker =
            !self.replies.is_empty() && self.outbound.is_empty() || matches!(self.claim, FrameClaim::Waiting(_));
        let wait_deadline = self.drain_deadline.filter(|_| self.replies.in_long_wait());
        self.timer
            .poll_expired(waits_for_broker, wait_deadline, cx)
            .map(|()| if wait_deadline.is_some() { End::Stopped } else { End::Idle })
    }

    /// Does what can be done now. `Ok(true)`: the quota of the turn is used up and there may be more to do.
    fn advance(&mut self, quota: &mut u64, cx: &mut Context<'_>) -> Result<bool, End> {
        loop {
            self.collect_replies(cx)?;
            if !self.outbound.is_empty() {
                let before = *quota;
                let sent = self.outbound.poll_send(&self.stream, quota, &self.reactor.counters, cx);
                self.active |= *quota < before;
                self.share.took(before - *quota);
                if let Poll::Ready(Sent::Quota) = sent? {
                    return Ok(true);
                }
            }
            let handled = self.handle_frames(quota, cx);
            let received = self.receive(quota, cx)?;
            if *quota == 0 {
                return Ok(true);
            }
            if !handled && !received {
                return Ok(false);
            }
        }
    }

    /// Moves the replies that are due into the output.
    fn collect_replies(&mut self, cx: &mut Context<'_>) -> Result<(), End> {
        while let Poll::Ready(reply) = self.replies.poll_next(cx) {
            self.active = true;
            match reply {
                Reply::Nothing => {}
                Reply::Send(response) => self.outbound.push(response)?,
                Reply::Close(reason) => {
                    self.replies.clear();
                    self.closing = Some(End::Door(reason));
                }
            }
        }
        Ok(())
    }

    /// Handles the complete frames that may be handled now. Says whether there were any.
    fn handle_frames(&mut self, quota: &mut u64, cx: &mut Context<'_>) -> bool {
        let mut handled = 0;
        while self.closing.is_none() && self.drain_deadline.is_none() && *quota > 0 && handled < TURN_REQUESTS {
            let frame_len = match self.inbound.frame_len() {
                Ok(Some(len)) if self.inbound.has_frame(len) => len,
                Ok(_) => break,
                Err(error) => {
                    self.closing = Some(error.into());
                    self.inbound.clear();
                    break;
                }
            };
            let pipelined = self.shared.protocol.may_pipeline(&self.inbound.frame_so_far()[..frame_len]);
            if !self.may_handle(pipelined) || self.poll_claim(frame_len, cx).is_pending() {
                break;
            }
            let claim = match std::mem::replace(&mut self.claim, FrameClaim::None) {
                FrameClaim::Held(claim) => Some(claim),
                _ => None,
            };
            self.timer.end_frame();
            let frame = self.inbound.take_frame(frame_len);
            count(&self.reactor.counters.requests, 1);
            let outcome = self.shared.protocol.handle(&mut self.state, frame);
            self.replies.push(outcome, pipelined, frame_len, claim, cx);
            *quota = quota.saturating_sub(frame_len as u64);
            handled += 1;
        }
        self.active |= handled > 0;
        handled > 0
    }

    fn may_handle(&self, pipelined: bool) -> bool {
        if self.replies.is_empty() && self.outbound.is_empty() {
            return true;
        }
        pipelined && self.may_receive_more()
    }

    /// Whether it makes sense to receive further requests.
    fn may_receive_more(&self) -> bool {
        if self.replies.is_empty() && self.outbound.is_empty() {
            return true;
        }
        self.replies.has_room(self.shared.pipelined_requests_max)
            && self.outbound.held_bytes() < self.shared.output_bytes_max
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
                self.timer.start_frame(frame_len);
            }
        }
    }

    /// Receives what may be received now. Says whether anything was.
    fn receive(&mut self, quota: &mut u64, cx: &mut Context<'_>) -> Result<bool, End> {
        if self.peer_closed || self.closing.is_some() || self.drain_deadline.is_some() {
            return Ok(false);
        }
        // A length that is wrong is met, and reported, by the handling of frames.
        let Ok(frame_len) = self.inbound.frame_len() else { return Ok(true) };
        let free = self.may_receive_more()
            && match frame_len {
                None => true,
                Some(len) => !self.inbound.has_frame(len) && self.poll_claim(len, cx).is_ready(),
            };
        let limit = if free { usize::MAX } else { READ_AHEAD_BYTES };
        if self.inbound.len() >= limit {
            return Ok(false);
        }
        let guess_long = self.shared.budget.free_bytes() >= TURN_BYTES;
        match self.inbound.poll_fill(&mut self.stream, limit, guess_long, cx) {
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

    /// Why the connection is at its end, if it is. Called when nothing more can be done in this turn.
    fn finished(&mut self) -> Option<End> {
        if self.peer_closed && self.replies.in_long_wait() {
            return Some(End::PeerClosed);
        }
        if !self.replies.is_empty() || !self.outbound.is_empty() {
            return None;
        }
        if let Some(end) = self.closing.take() {
            return Some(end);
        }
        if self.drain_deadline.is_some() {
            return Some(End::Stopped);
        }
        // With a claim that waits, a complete frame may still be handled.
        let complete = matches!(self.inbound.frame_len(), Ok(Some(len)) if self.inbound.has_frame(len));
        (self.peer_closed && !complete).then_some(End::PeerClosed)
    }

    fn report_held(&mut self) {
        self.share.report(self.outbound.held_bytes(), &self.shared.reply_bytes);
        let held = (self.inbound.held_bytes() + self.outbound.held_bytes() + self.replies.request_bytes()) as u64;
        if held != self.held_reported {
            // Wraps where it shrinks: the sum is right.
            count(&self.reactor.counters.held_bytes, held.wrapping_sub(self.held_reported));
            self.held_reported = held;
        }
    }
}

impl<P: Protocol> Drop for Connection<P> {
    fn drop(&mut self) {
        self.share.report(0, &self.shared.reply_bytes);
        count(&self.reactor.counters.held_bytes, 0u64.wrapping_sub(self.held_reported));
        count(&self.reactor.counters.connections, u64::MAX);
    }
}

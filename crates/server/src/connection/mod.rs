//! One connection: a single task that receives frames, has them handled, and sends the replies.
//!
//! Guarantees and limits:
//! - Replies leave in the order that the protocol wants ([`Order`](mainstem_door::Order)): in that of the requests,
//!   where a request is handled when all earlier replies have left, and only requests for which
//!   [`Protocol::may_pipeline`] holds are handled while earlier ones of their kind wait, at most
//!   `mainstem.connection.requests.max` (64) of them; or as they are ready. Of requests that wait, 8 MiB (and the last
//!   one).
//! - Past these bounds, and while a reply is being sent or awaited in order, at most 64 KiB are received ahead; the
//!   rest stays in the socket.
//! - Responses without a request wait in the outbox while 64 KiB wait for the client to take them.
//! - While the replies that all connections hold in memory take more than the broker's bound, those connections end
//!   whose clients take less than 256 KiB of theirs a second and are not waiting for the disk.
//! - A frame above 64 KiB is received only after its bytes were claimed from the broker's budget.
//! - One turn moves about 1 MiB, then other connections of the reactor have theirs.
//! - A peer that leaves, or sends what is no frame, while it has nothing but long polls under way ends them at once.
//! - The idle time counts while only long polls are under way, and not while the client waits for other replies.

mod as_ready;
mod cold;
mod crowding;
mod end;
mod held;
mod in_order;
mod inbound;
mod outbound;
mod replies;
mod requests;
mod sending;
mod socket;
mod timer;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use mainstem_door::{ConnectionInfo, Frame, OutboxReader, Protocol, Reply, Response, outbox};
use tokio::net::TcpStream;
use tokio::time::Instant;

pub(crate) use self::crowding::ReplyBytes;
use self::crowding::Share;
use self::end::End;
pub use self::inbound::Inbound;
use self::outbound::{Outbound, Sent};
use self::replies::Replies;
use self::sending::SendError;
use self::timer::{Counts, Timer};
use crate::counters::count;
use crate::limits::{Budget, Claim, Place};
use crate::log_limit::LogLimit;
use crate::stop::{Phase, ReactorState};

/// While so many bytes wait for the client to take them, the outbox keeps its responses.
const PUSH_AHEAD_BYTES: usize = 64 << 10;
/// What one turn of a connection may receive and send.
const TURN_BYTES: u64 = 1 << 20;
/// A stop waits this long for long polls to end by themselves.
const DRAIN_WAIT: Duration = Duration::from_secs(1);

/// The parts that all connections of a server share, with any protocol.
pub(crate) struct SharedByConnections {
    pub idle: Option<Duration>,
    pub large_frame_grace: Duration,
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
    protocol: Arc<P>,
    shared: Arc<SharedByConnections>,
    reactor: Arc<ReactorState>,
    state: Arc<P::Connection>,
    inbound: Inbound,
    /// The frame at the front of `inbound`, once it is known where it lies.
    next: Option<Frame>,
    outbound: Outbound,
    outbox: OutboxReader,
    replies: Replies,
    claim: FrameClaim,
    timer: Timer,
    peer_closed: bool,
    /// No further request is handled; the connection ends for this reason when the earlier replies have left, except
    /// those of long polls.
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
        (peer, listener): (SocketAddr, Arc<str>),
        protocol: Arc<P>,
        shared: Arc<SharedByConnections>,
        reactor: Arc<ReactorState>,
        place: Place,
    ) -> Self {
        count(&reactor.counters.connections, 1);
        let (pushes, outbox) = outbox(protocol.outbox_limits());
        Connection {
            stream,
            peer,
            state: Arc::new(protocol.connect(ConnectionInfo { peer, listener }, pushes)),
            inbound: Inbound::default(),
            next: None,
            outbound: Outbound::default(),
            outbox,
            replies: Replies::new(protocol.order(), shared.pipelined_requests_max),
            protocol,
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
            // The waker of a task never changes: it is registered once, for the stop once in each phase, not in each
            // turn.
            let mut phase = reactor.phase();
            if registered.is_none() {
                self.outbox.watch(cx.waker());
            }
            while registered != Some(phase) {
                stop.set(reactor.watch());
                let _ = stop.as_mut().poll(cx);
                registered = Some(phase);
                phase = reactor.phase();
            }
            self.poll(phase, cx)
        })
        .await;
        if let End::Protocol(close) = &end
            && !close.last_words().is_empty()
        {
            // A client that does not take them does not get them.
            let _ = self.stream.try_write(close.last_words());
        }
        self.log(&end);
    }

    fn log(&self, end: &End) {
        let peer = self.peer;
        match end {
            End::NoFrame | End::Protocol(_) | End::Crowded => {
                count(&self.reactor.counters.malformed, 1);
                if let Some(suppressed) = self.shared.log_limit.admit() {
                    tracing::warn!(%peer, suppressed, "connection closed: {end}");
                }
            }
            End::Send(SendError::File { .. } | SendError::FileTooShort { .. }) => {
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
                if self.drain_deadline.is_none() {
                    self.drain_deadline = Some(Instant::now() + DRAIN_WAIT);
                    self.outbox.close();
                }
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
        let wait_deadline = self.drain_deadline.filter(|_| self.owes_polls_alone());
        let counts = self.counts();
        self.timer
            .poll_expired(counts, wait_deadline, cx)
            .map(|()| if wait_deadline.is_some() { End::Stopped } else { End::Idle })
    }

    /// Which limits hold now. Time in which the client waits for the broker's work does not count. Long polls count,
    /// as in Kafka: the client chose how long they last.
    fn counts(&self) -> Counts {
        let awaits_reply = !self.replies.is_empty() && self.outbound.is_empty();
        let awaits_budget = matches!(self.claim, FrameClaim::Waiting(_));
        let idle = !awaits_budget && (!awaits_reply || self.replies.are_polls());
        Counts { idle, frame: !awaits_reply || self.receives_frame() }
    }

    /// Does what can be done now. `Ok(true)`: the quota of the turn is used up and there may be more to do.
    fn advance(&mut self, quota: &mut u64, cx: &mut Context<'_>) -> Result<bool, End> {
        loop {
            self.collect_replies(cx)?;
            self.collect_pushes()?;
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
            if !handled && !received && !self.has_pushes() {
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
                Reply::Send(response) => self.send(response)?,
                Reply::Close(close) => {
                    self.replies.clear();
                    self.close(End::Protocol(close));
                }
            }
        }
        Ok(())
    }

    /// No further request is handled, and no push is accepted. Owed replies still leave, except replies of long polls.
    fn close(&mut self, end: End) {
        self.closing = Some(end);
        self.outbox.close();
    }

    /// Moves pushes into the output, as far as the client reads them.
    fn collect_pushes(&mut self) -> Result<(), End> {
        while self.has_pushes()
            && let Some(response) = self.outbox.take()
        {
            self.send(response)?;
        }
        Ok(())
    }

    fn has_pushes(&self) -> bool {
        !self.outbox.is_empty() && self.outbound.held_bytes() < PUSH_AHEAD_BYTES
    }

    fn send(&mut self, response: Response) -> Result<(), End> {
        let (protocol, bytes) = (&self.protocol, response.len());
        self.outbound.push(response, |head| protocol.put_head(bytes, head)).map_err(End::Protocol)
    }

    /// Why the connection is at its end, if it is. Called when nothing more can be done in this turn.
    fn finished(&mut self) -> Option<End> {
        if self.owes_polls_alone() && (self.peer_closed || self.closing.is_some()) {
            return Some(self.closing.take().unwrap_or(End::PeerClosed));
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
        let complete = self.next.is_some_and(|frame| self.inbound.has(frame));
        (self.peer_closed && !complete).then_some(End::PeerClosed)
    }

    /// Whether everything that was answered has left, and all that is still owed are long polls.
    fn owes_polls_alone(&self) -> bool {
        self.replies.are_polls() && self.outbound.is_empty()
    }

    fn report_held(&mut self) {
        let output = self.outbound.held_bytes() + self.outbox.held_bytes();
        self.share.report(output, &self.shared.reply_bytes);
        let held = (self.inbound.held_bytes() + output + self.replies.request_bytes()) as u64;
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

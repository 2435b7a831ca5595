//! SIGINT (Ctrl-C) and SIGTERM, for commands that end in order.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupt {
    /// From now on the signals end nothing by themselves.
    pub fn watch() -> anyhow::Result<Self> {
        Ok(Interrupt {
            interrupt: signal(SignalKind::interrupt()).context("cannot handle SIGINT")?,
            terminate: signal(SignalKind::terminate()).context("cannot handle SIGTERM")?,
        })
    }

    /// Waits for one of them. May be dropped and called again: no signal is lost.
    pub async fn came(&mut self) {
        let _name = self.next().await;
    }

    /// As [`Interrupt::came`]; gives the signal's name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

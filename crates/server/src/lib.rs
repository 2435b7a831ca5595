//! Listeners, reactors, configuration, wiring, shutdown.

//! Consumer groups and offsets as a state machine, without IO.

//! The domain: produce, fetch, commit, create topics; executes the state machines' commands.

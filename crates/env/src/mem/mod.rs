//! An in-memory file system that can crash and fail on demand.

//! Segmented append-only byte journals with group commit.

//! Files, clocks and random numbers behind traits: the real ones, and in-memory ones with crash images and fault plans.

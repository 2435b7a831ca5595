//! The scripts, one file an api or a group of apis.

mod cluster;
mod committed;
mod fetch;
mod groups;
mod members;
mod offsets;
mod produce;
mod removal;
mod settings;
mod topics;

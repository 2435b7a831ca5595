//! The scripts, one file an api or a group of apis.

mod borders;
mod cluster;
mod committed;
mod fetch;
mod groups;
mod members;
mod node;
mod offsets;
mod produce;
mod removal;
mod settings;
mod topics;

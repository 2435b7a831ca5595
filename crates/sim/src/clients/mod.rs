//! Clients: what they know, they know from answers, and from the metadata of any broker that is up.

mod member;
mod reader;
mod writer;

pub use member::Member;
pub use reader::Reader;
pub use writer::Writer;

use mainstem_types::TopicPartition;

use crate::broker::Out;
use crate::message::{Address, Message};
use crate::scenario::Action;
use crate::stored::Checked;

/// Which broker leads a partition, as some broker that is up says; asked anew for each request.
pub trait Routes {
    fn leader(&self, partition: &TopicPartition) -> Option<i32>;
}

#[derive(Debug)]
pub enum Client {
    Writer(Writer),
    Reader(Reader),
    Member(Member),
}

impl Client {
    pub fn address(&self) -> Address {
        Address::Client(match self {
            Client::Writer(writer) => writer.id,
            Client::Reader(reader) => reader.id,
            Client::Member(member) => member.id,
        })
    }

    pub fn tick(&mut self, now_ms: u64, routes: &dyn Routes, out: &mut Out) -> Checked {
        match self {
            Client::Writer(writer) => writer.tick(now_ms, routes, out),
            Client::Reader(reader) => {
                reader.tick(now_ms, routes, out);
                Ok(())
            }
            Client::Member(member) => {
                member.tick(now_ms, routes, out);
                Ok(())
            }
        }
    }

    pub fn receive(&mut self, message: Message, now_ms: u64, routes: &dyn Routes, out: &mut Out) -> Checked {
        match (self, message) {
            (Client::Writer(writer), Message::ProduceReply { request, result }) => {
                writer.answered(request, result, now_ms, routes, out)
            }
            (Client::Reader(reader), Message::ReadReply { request, epoch, latest, result }) => {
                reader.answered(request, epoch, latest, result, out)
            }
            (Client::Member(member), Message::GroupReply { request, answer }) => {
                member.answered(request, answer, out);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub fn act(&mut self, action: Action, now_ms: u64) {
        match (self, action) {
            (Client::Writer(writer), Action::Produce { partition, .. }) => writer.queue(partition),
            (Client::Member(member), Action::PauseMember { for_ms, .. }) => member.pause(now_ms + for_ms),
            (Client::Member(member), Action::LeaveGroup { .. }) => member.leave(),
            _ => {}
        }
    }

    /// Nothing new is begun from now on.
    pub fn rest(&mut self) {
        if let Client::Member(member) = self {
            member.rest();
        }
    }

    /// What is not done although the cluster has been whole for long; `None`: nothing.
    pub fn unfinished(&self) -> Option<String> {
        match self {
            Client::Writer(writer) => writer.unfinished(),
            Client::Reader(_) => None,
            Client::Member(member) => member.unfinished(),
        }
    }
}

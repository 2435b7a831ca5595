//! A connection on which the order of requests, and what is sent twice, is ours to choose.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use mainstem_kafka_wire::messages::ResponseHeader;
use mainstem_kafka_wire::{Message, Reader, encode_request, response_header_version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// No answer takes that long, unless something is stuck.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

pub struct Connection {
    stream: TcpStream,
    correlation_id: i32,
    /// Of the answers that are due.
    due: VecDeque<i32>,
}

impl Connection {
    pub async fn open(address: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, correlation_id: 0, due: VecDeque::new() })
    }

    pub async fn send<'q, Q: Message<'q>>(&mut self, version: i16, request: &Q) -> io::Result<()> {
        self.correlation_id += 1;
        let frame = encode_request(version, self.correlation_id, Some("chaos"), request).map_err(io::Error::other)?;
        self.due.push_back(self.correlation_id);
        self.stream.write_all(&frame.bytes).await
    }

    /// The next answer that is due, without its length.
    pub async fn receive(&mut self) -> io::Result<Vec<u8>> {
        let answer = timeout(ANSWER_LIMIT, async {
            let length = self.stream.read_u32().await?;
            let mut answer = vec![0; length as usize];
            self.stream.read_exact(&mut answer).await?;
            io::Result::Ok(answer)
        });
        let answer = answer.await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)))?;
        let expected = self.due.pop_front().unwrap_or_default();
        match answer.first_chunk().map(|bytes| i32::from_be_bytes(*bytes)) {
            Some(found) if found == expected => Ok(answer),
            found => Err(io::Error::other(format!("the answer to {found:?} comes instead of that to {expected}"))),
        }
    }

    pub async fn ask<'q, Q: Message<'q>>(&mut self, version: i16, request: &Q) -> io::Result<Vec<u8>> {
        self.send(version, request).await?;
        self.receive().await
    }
}

/// Reads an answer to `Q`.
pub fn decode<'a, 'q, Q: Message<'q>, R: Message<'a>>(version: i16, answer: &'a [u8]) -> R {
    let mut reader = Reader::new(answer);
    let header_version = response_header_version(Q::API_KEY.unwrap(), version).unwrap();
    ResponseHeader::decode(&mut reader, header_version).unwrap();
    R::decode(&mut reader, version).unwrap()
}

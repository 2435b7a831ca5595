//! A script: requests that are sent to one broker, and its answers, recorded or compared.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use bytes::Bytes;
use mainstem_kafka_wire::messages::ApiVersionsRequest;
use mainstem_kafka_wire::{AsFieldValue, Message, Reader, Writer};
use mainstem_types::TopicId;

use super::canonical::Names;
use super::prose;
use super::recording::{self, Step};
use crate::support::link::{Sent, decode_answer};
use crate::support::requests::{Topic, create_topic};
use crate::support::{Link, Node, RequestOutcome};

/// Names a broker (`host:port`) whose answers are to be recorded instead of compared.
const RECORD_FROM: &str = "MAINSTEM_RECORD_FROM";

pub struct Script {
    name: &'static str,
    peer: Peer,
    links: Vec<Link>,
    ours: Names,
    theirs: Names,
    differences: Vec<String>,
    /// For the next answer.
    excused: Vec<Excuse>,
    /// Every excuse of the script, and whether it was needed.
    excuses: BTreeMap<Excuse, bool>,
    done: bool,
}

enum Peer {
    /// Compares the node's answers with these.
    Compared(Node, VecDeque<Step>),
    /// Records the answers of the broker at this address.
    Recorded(String, Vec<Step>),
}

/// A field that differs for a reason, and the line of the script that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Excuse {
    line: u32,
    field: &'static str,
    reason: &'static str,
}

impl Excuse {
    /// Whether the line of a message is about the field, or about a part of it. The field is named by the end of its
    /// path: the index of a list is left out where it does not matter.
    fn is_for(&self, line: &str) -> bool {
        let path: Vec<&str> = line.split(" = ").next().unwrap_or_default().split('.').collect();
        let wanted: Vec<&str> = self.field.split('.').collect();
        let is_same = |(part, wanted): (&&str, &&str)| part == wanted || part.split('[').next() == Some(wanted);
        path.windows(wanted.len()).any(|parts| parts.iter().zip(&wanted).all(is_same))
    }
}

/// A request that was sent and whose answer is still to be looked at.
pub struct Asked {
    name: String,
    version: i16,
    link: usize,
    correlation: i32,
    request: Vec<u8>,
    sent: Sent,
}

impl Script {
    /// Starts a broker in memory, or connects to the one that is to be recorded.
    pub fn start(name: &'static str) -> Script {
        let peer = match std::env::var(RECORD_FROM) {
            Ok(address) => Peer::Recorded(address, Vec::new()),
            Err(_) => Peer::Compared(Node::start_in_real_time(&[]), recording::load(name).into()),
        };
        let (ours, theirs) = (Names::default(), Names::default());
        let (links, differences, excused, excuses) = (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
        let mut script = Script { name, peer, links, ours, theirs, differences, excused, excuses, done: false };
        script.connect();
        script
    }

    /// A further connection; gives its number.
    pub fn connect(&mut self) -> usize {
        self.links.push(match &self.peer {
            Peer::Compared(node, _) => node.connect(),
            Peer::Recorded(address, _) => Link::socket(address),
        });
        self.links.len() - 1
    }

    /// Whether the answers are Kafka's, to be recorded.
    pub fn records(&self) -> bool {
        matches!(self.peer, Peer::Recorded(..))
    }

    /// Requests on several connections reach a Kafka in the order in which they were sent.
    fn settle_briefly(&self) {
        if self.records() && self.links.len() > 1 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Lets requests that were sent arrive before others that are sent on other connections.
    pub fn settle(&self) {
        if self.records() {
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    }

    /// Connection 0, for requests that are no part of the comparison.
    pub fn link(&mut self) -> &mut Link {
        &mut self.links[0]
    }

    pub fn create(&mut self, name: &'static str, partitions: i32, configs: &[(&str, &str)]) -> Topic {
        let id: TopicId = create_topic(self.link(), name, partitions, configs);
        Topic { name, id }
    }

    /// The next answer differs in the fields whose path ends so, for a reason. A script fails when it excuses in one
    /// place what never differs.
    #[track_caller]
    pub fn except(&mut self, fields: &[&'static str], reason: &'static str) -> &mut Script {
        let line = std::panic::Location::caller().line();
        for field in fields {
            let excuse = Excuse { line, field, reason };
            self.excused.push(excuse);
            self.excuses.entry(excuse).or_insert(false);
        }
        self
    }

    /// Sends a request on connection 0 and compares its answer.
    pub fn ask<'q, Q, R>(&mut self, name: &str, version: i16, request: &Q) -> R
    where
        Q: Message<'q>,
        R: Message<'static> + Debug,
    {
        self.ask_shaped(name, version, request, |_, _| ())
    }

    /// As [`ask`](Self::ask); `shape` puts both answers in a form that can be compared.
    pub fn ask_shaped<'q, Q, R>(
        &mut self,
        name: &str,
        version: i16,
        request: &Q,
        shape: impl Fn(&mut R, &mut Names),
    ) -> R
    where
        Q: Message<'q>,
        R: Message<'static> + Debug,
    {
        let asked = self.send(0, name, version, request);
        self.answer_with::<Q, R>(asked, shape).answer()
    }

    /// Sends a frame of ApiVersions (without its length) that is to be answered in `version`.
    pub fn ask_raw<R>(&mut self, name: &str, version: i16, frame: &[u8], shape: impl Fn(&mut R, &mut Names))
    where
        R: Message<'static> + Debug,
    {
        let correlation = i32::from_be_bytes(*frame[4..].first_chunk::<4>().unwrap());
        let outcome = self.links[0].raw(Bytes::copy_from_slice(frame));
        self.replace_if_closed(0, &outcome);
        // The body is none that could be shown.
        let step = Step::new(format!("{name} {}", frame[3]), version, Vec::new(), outcome);
        self.judge::<ApiVersionsRequest<'_>, R>(step, correlation, shape);
    }

    /// Sends a request and does not wait.
    pub fn send<'q, Q: Message<'q>>(&mut self, link: usize, name: &str, version: i16, request: &Q) -> Asked {
        let mut writer = Writer::new();
        request.encode(&mut writer, version).unwrap();
        let sent = self.links[link].send(version, request);
        self.settle_briefly();
        let correlation = sent.correlation();
        Asked { name: name.to_owned(), version, link, correlation, request: writer.as_bytes().to_vec(), sent }
    }

    /// Waits for the answer to a request and compares it.
    pub fn answer<'q, Q, R>(&mut self, asked: Asked) -> RequestOutcome<R>
    where
        Q: Message<'q>,
        R: Message<'static> + Debug,
    {
        self.answer_with::<Q, R>(asked, |_, _| ())
    }

    /// As [`answer`](Self::answer); `shape` puts both answers in a form that can be compared.
    pub fn answer_with<'q, Q, R>(&mut self, asked: Asked, shape: impl Fn(&mut R, &mut Names)) -> RequestOutcome<R>
    where
        Q: Message<'q>,
        R: Message<'static> + Debug,
    {
        let outcome = self.links[asked.link].end_raw(asked.sent);
        self.replace_if_closed(asked.link, &outcome);
        let step = Step::new(asked.name, asked.version, asked.request, outcome);
        self.judge::<Q, R>(step, asked.correlation, shape)
    }

    /// Sends a request that wants no answer and compares whether the connection goes on. A closed one is replaced.
    pub fn tell<'q, Q: Message<'q>>(&mut self, name: &str, version: i16, request: &Q) {
        let mut writer = Writer::new();
        request.encode(&mut writer, version).unwrap();
        let outcome = self.links[0].tell(version, request);
        self.replace_if_closed(0, &outcome);
        let step = Step::new(name.to_owned(), version, writer.as_bytes().to_vec(), outcome);
        self.judge::<Q, mainstem_kafka_wire::messages::ProduceResponse<'static>>(step, 0, |_, _| ());
    }

    fn replace_if_closed(&mut self, link: usize, outcome: &RequestOutcome<Vec<u8>>) {
        if *outcome == RequestOutcome::Closed {
            self.connect();
            self.links.swap_remove(link);
        }
    }

    fn judge<'q, Q, R>(&mut self, step: Step, correlation: i32, shape: impl Fn(&mut R, &mut Names)) -> RequestOutcome<R>
    where
        Q: Message<'q>,
        R: Message<'static> + Debug,
    {
        let decode = |outcome: &RequestOutcome<Vec<u8>>, correlation: i32| match outcome {
            RequestOutcome::Answer(frame) => {
                RequestOutcome::Answer(decode_answer::<Q, R>(step.version, correlation, frame))
            }
            RequestOutcome::Nothing => RequestOutcome::Nothing,
            RequestOutcome::Closed => RequestOutcome::Closed,
        };
        let answer = decode(&step.outcome, correlation);
        let excused = std::mem::take(&mut self.excused);
        let recorded = match &mut self.peer {
            Peer::Recorded(_, steps) => {
                steps.push(prose::left_out(Q::API_KEY, step));
                return answer;
            }
            Peer::Compared(_, steps) => steps.pop_front(),
        };
        let again = "record again with tests/oracle/record.sh";
        let recorded = recorded.unwrap_or_else(|| panic!("{}: `{}` was not recorded: {again}", self.name, step.name));
        let is_same = (&recorded.name, recorded.version) == (&step.name, step.version);
        assert!(is_same, "{}: `{}` was recorded, not `{}`: {again}", self.name, recorded.name, step.name);
        let quoted = recorded != prose::left_out(Q::API_KEY, recorded.clone());
        assert!(!quoted, "{}: the recording of `{}` holds Kafka's prose: {again}", self.name, step.name);
        let (ours, theirs) = (self.ours.request::<Q>(&step), self.theirs.request::<Q>(&recorded));
        if ours != theirs {
            let what = format!("  {} v{}: another request was recorded: {again}", step.name, step.version);
            self.differences.push(what);
        }
        let their_correlation = recorded.correlation().unwrap_or(0);
        let theirs = self.theirs.outcome(decode(&recorded.outcome, their_correlation), &shape);
        let ours = self.ours.outcome(decode(&step.outcome, correlation), &shape);
        self.compare(&step, &ours, &theirs, &excused);
        answer
    }

    fn compare(&mut self, step: &Step, ours: &[String], theirs: &[String], excused: &[Excuse]) {
        let mut lines = Vec::new();
        for (these, those, mark) in [(theirs, ours, "Kafka:"), (ours, theirs, "ours: ")] {
            for line in these.iter().filter(|line| !those.contains(line)) {
                match excused.iter().find(|excuse| excuse.is_for(line)) {
                    Some(excuse) => _ = self.excuses.insert(*excuse, true),
                    None => lines.push(format!("    {mark} {line}")),
                }
            }
        }
        if !lines.is_empty() {
            self.differences.push(format!("  {} v{}\n{}", step.name, step.version, lines.join("\n")));
        }
    }

    /// Saves the recording, or fails with all differences.
    pub fn finish(mut self) {
        self.done = true;
        match &self.peer {
            Peer::Recorded(_, steps) => recording::save(self.name, steps),
            Peer::Compared(_, rest) => {
                let count = self.differences.len();
                assert!(count == 0, "{}: {count} answers differ:\n{}", self.name, self.differences.join("\n"));
                let stale: Vec<&Excuse> =
                    self.excuses.iter().filter(|(_, needed)| !**needed).map(|(excuse, _)| excuse).collect();
                assert!(stale.is_empty(), "{}: excuses that nothing needs any more: {stale:#?}", self.name);
                assert!(rest.is_empty(), "{}: {} recorded steps were not asked", self.name, rest.len());
            }
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        assert!(self.done || std::thread::panicking(), "{}: finish() was not called", self.name);
    }
}

impl Step {
    fn correlation(&self) -> Option<i32> {
        match &self.outcome {
            RequestOutcome::Answer(frame) => frame.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes)),
            _ => None,
        }
    }
}

impl Names {
    fn request<'q, Q: Message<'q>>(&mut self, step: &Step) -> Vec<String> {
        let Some(request) = step.request.clone() else { return Vec::new() };
        let bytes: &'static [u8] = Box::leak(request.into_boxed_slice());
        self.lines(&Q::decode(&mut Reader::new(bytes), step.version).unwrap())
    }

    fn outcome<R: AsFieldValue>(
        &mut self,
        outcome: RequestOutcome<R>,
        shape: &impl Fn(&mut R, &mut Names),
    ) -> Vec<String> {
        match outcome {
            RequestOutcome::Answer(mut answer) => {
                shape(&mut answer, self);
                self.lines(&answer)
            }
            RequestOutcome::Nothing => vec!["outcome = nothing".to_owned()],
            RequestOutcome::Closed => vec!["outcome = closed".to_owned()],
        }
    }
}

#[test]
fn an_excuse_is_for_a_field_and_its_parts_and_for_nothing_that_ends_alike() {
    let is_for = |field, line: &str| Excuse { line: 1, field, reason: "" }.is_for(line);
    assert!(is_for("error_message", "responses[0].error_message = text"));
    assert!(is_for("error_message", "error_message = Null"));
    assert!(!is_for("error_message", "batch_index_error_message = Null"));
    assert!(!is_for("error_message", "name = error_message"));
    assert!(is_for("record_errors", "responses[0].record_errors[1].index = 0"));
    assert!(is_for("record_errors", "responses[0].record_errors = []"));
    assert!(is_for("listeners[0].name", "nodes[2].listeners[0].name = \"a\""));
    assert!(!is_for("listeners[0].name", "nodes[2].listeners[1].name = \"a\""));
}

//! Random operations against a simple model, in which a restart is an operation like any other.
//!
//! The model is the ledger of what clients were told. `MAINSTEM_SEED=<n>` runs one seed alone.

mod support;

use std::sync::Arc;

use mainstem_env::{CrashPolicy, ManualClock, MemFs, SeededRng};
use support::check::{check, check_live, note};
use support::client::Producer;
use support::scenarios::TOPICS;
use support::{Client, Ledger, Node, Settings, broker_panics, clock, settings};

const SEEDS: u64 = 60;
const OPERATIONS: usize = 60;

/// A producer, where it sends, and its last batch: first sequence and values.
struct Sender {
    producer: Producer,
    topic: &'static str,
    last: Option<(i32, Vec<String>)>,
}

struct Run {
    rng: SeededRng,
    settings: Settings,
    clock: Arc<ManualClock>,
    fs: MemFs,
    senders: Vec<Sender>,
    next_offset: i64,
    next_value: u64,
    /// For a person who looks at a failure.
    done: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let rng = SeededRng::new(seed);
        let durability = ["os", "disk"][rng.below(2) as usize];
        let settings = settings(&[("mainstem.durability", durability)]);
        let (clock, fs) = (clock(), MemFs::new());
        Run { rng, settings, clock, fs, senders: Vec::new(), next_offset: 1, next_value: 1, done: Vec::new() }
    }

    fn start(&mut self) -> Node {
        let seed = self.rng.number();
        Node::start(&self.fs, &self.clock, &self.settings, seed).expect("a disk that works")
    }

    fn step(&mut self, client: &mut Client<'_>) -> Result<(), String> {
        let topic = TOPICS[self.rng.below(TOPICS.len() as u64) as usize];
        let records = 1 + self.rng.below(3) as usize;
        let name = match self.rng.below(20) {
            0 | 1 => self.create(client, topic),
            2 => self.delete(client, topic),
            3..=5 => self.produce(client, topic, records),
            6..=8 => self.produce_idempotent(client, topic, records),
            9 | 10 => self.retry(client),
            11 => self.commit(client, topic),
            12 => {
                client.retention();
                "retention"
            }
            13 => {
                client.node.broker.write_checkpoints().map_err(|error| error.to_string())?;
                "checkpoints"
            }
            14 => {
                client.node.wait(client.node.broker.snapshot_metadata()).map_err(|error| error.to_string())?;
                "snapshot"
            }
            15 => {
                client.advance(self.rng.below(3_000));
                "time"
            }
            16 => self.alter(client, topic),
            17 => self.delete_records(client, topic),
            18 => {
                client.join("members");
                "join"
            }
            _ => {
                check_live(client.node, &client.ledger)?;
                "fetch"
            }
        };
        self.done.push(format!("{name} {topic}"));
        Ok(())
    }

    fn create(&mut self, client: &mut Client<'_>, topic: &'static str) -> &'static str {
        if client.ledger.topic_named(topic).is_none() {
            let configs = [("segment.ms", "2000"), ("retention.ms", "9000")];
            assert!(client.create(&[(topic, 1 + self.rng.below(2) as i32, &configs)]), "{topic} is created");
        }
        "create"
    }

    fn delete(&mut self, client: &mut Client<'_>, topic: &'static str) -> &'static str {
        client.delete(&[topic]);
        self.senders.retain(|sender| sender.topic != topic);
        "delete"
    }

    fn produce(&mut self, client: &mut Client<'_>, topic: &str, records: usize) -> &'static str {
        if client.ledger.topic_named(topic).is_some() {
            assert!(client.produce(topic, 0, records), "{topic} is written");
        }
        "produce"
    }

    fn produce_idempotent(&mut self, client: &mut Client<'_>, topic: &'static str, records: usize) -> &'static str {
        if client.ledger.topic_named(topic).is_none() {
            return "nothing";
        }
        if self.senders.len() < 4 {
            let producer = client.producer().expect("a producer id");
            self.senders.push(Sender { producer, topic, last: None });
        }
        let place = self.rng.below(self.senders.len() as u64) as usize;
        let sender = &mut self.senders[place];
        let sequence = sender.producer.sequence;
        let values = client.produce_as(&mut sender.producer, sender.topic, 0, records);
        sender.last = Some((sequence, values));
        "produce with a sequence"
    }

    /// As a client does that was not answered. The records are there once, whether or not they were before.
    fn retry(&mut self, client: &mut Client<'_>) -> &'static str {
        let again = |sender: &Sender| match &sender.last {
            Some((sequence, values)) => client.send(sender.topic, 0, Some((sender.producer.id, 0, *sequence)), values),
            None => true,
        };
        let place = self.rng.below(self.senders.len().max(1) as u64) as usize;
        let refused = self.senders.get(place).map(again) == Some(false);
        if refused {
            // What came before was lost with a power cut: the client begins anew.
            self.senders.remove(place);
        }
        "retry"
    }

    fn commit(&mut self, client: &mut Client<'_>, topic: &str) -> &'static str {
        if client.ledger.topic_named(topic).is_none() {
            return "nothing";
        }
        if !client.node.broker.consumer_groups().is_available() {
            assert!(client.create_offsets_topic(), "groups are served");
        }
        let group = ["g1", "g2"][self.rng.below(2) as usize];
        assert!(client.commit(group, topic, 0, self.next_offset), "an offset is committed");
        self.next_offset += 1;
        "commit"
    }

    fn alter(&mut self, client: &mut Client<'_>, topic: &str) -> &'static str {
        let durability = ["os", "disk"][self.rng.below(2) as usize];
        client.alter(topic, "mainstem.durability", durability);
        "alter"
    }

    fn delete_records(&mut self, client: &mut Client<'_>, topic: &str) -> &'static str {
        let end = client.ledger.topic_named(topic).and_then(|id| client.node.partition(id, 0));
        if let Some(end) = end.map(|partition| partition.high_watermark().0) {
            client.delete_records(topic, 0, self.rng.below(end as u64 + 1) as i64);
        }
        "delete records"
    }

    /// Stops, cleanly or not, and starts again.
    fn reopen(&mut self, node: Node, ledger: Ledger) -> (Node, Ledger) {
        let policy = match self.rng.below(4) {
            0 => None,
            1 => Some(CrashPolicy::Nothing),
            2 => Some(CrashPolicy::Everything),
            _ => Some(CrashPolicy::Torn(self.rng.number())),
        };
        self.done.push(format!("reopen {policy:?}"));
        let ledger = match policy {
            None => {
                drop(node);
                ledger
            }
            Some(policy) => {
                self.fs = node.fs.crash(policy);
                drop(node);
                ledger.after(policy)
            }
        };
        (self.start(), ledger)
    }
}

fn run(seed: u64) -> Result<(), String> {
    let mut run = Run::new(seed);
    let outcome = rounds(&mut run);
    outcome.map_err(|error| format!("{error}\nafter: {:#?}\nMAINSTEM_SEED={seed}", run.done))
}

fn rounds(run: &mut Run) -> Result<(), String> {
    let mut node = run.start();
    let mut ledger = Ledger::default();
    note(&node, &mut ledger);
    for _ in 0..5 {
        let mut client = Client::new(&node, ledger);
        client.next_value = run.next_value;
        for _ in 0..OPERATIONS / 5 {
            run.step(&mut client)?;
        }
        check_live(client.node, &client.ledger)?;
        run.next_value = client.next_value;
        let known = client.ledger;
        (node, ledger) = run.reopen(node, known);
        check(&node, &mut ledger)?;
    }
    Ok(())
}

fn seeds(part: u64) {
    let chosen = std::env::var("MAINSTEM_SEED").ok().and_then(|text| text.parse().ok());
    let seeds: Vec<u64> = match chosen {
        Some(seed) => vec![seed],
        None => (0..SEEDS).filter(|seed| seed % 2 == part).collect(),
    };
    for seed in seeds {
        run(seed).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(broker_panics(), 0, "a thread of the broker panicked, MAINSTEM_SEED={seed}");
    }
}

#[test]
fn clients_find_what_they_were_promised_even_seeds() {
    seeds(0);
}

#[test]
fn clients_find_what_they_were_promised_odd_seeds() {
    seeds(1);
}

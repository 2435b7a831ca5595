//! The client: connections to brokers, and the known metadata of the cluster.

use std::collections::HashMap;
use std::sync::Arc;

use mainstem_kafka_wire::messages::metadata_request::MetadataRequestTopic;
use mainstem_kafka_wire::messages::{MetadataRequest, MetadataResponse};
use mainstem_kafka_wire::{ErrorCode, Message};
use mainstem_types::{NodeId, PartitionIndex};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::ClientConfig;
use crate::connection::{Connection, Response};
use crate::error::ClientError;
use crate::metadata::{Broker, Known, Topic};
use crate::retry::Attempts;

/// A client of one cluster. Clones share connections and metadata; all methods take `&self`.
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientState>,
}

struct ClientState {
    config: ClientConfig,
    known: Mutex<Known>,
    slots: Mutex<HashMap<Target, Arc<Slot>>>,
}

/// The lock is held while connecting, so that many requests at once make one connection.
type Slot = tokio::sync::Mutex<Option<Arc<Connection>>>;

/// The target of a connection. A bootstrap address may turn out to be a node's, too: it then has two connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Target {
    Bootstrap(usize),
    Node(i32),
}

impl Client {
    /// Asks one of the bootstrap brokers for the cluster. Needs a tokio runtime, as everything here.
    pub async fn connect(config: ClientConfig) -> Result<Client, ClientError> {
        if config.bootstrap.is_empty() {
            return Err(ClientError::NoBootstrap);
        }
        let inner = ClientState { config, known: Mutex::default(), slots: Mutex::default() };
        let client = Client { inner: Arc::new(inner) };
        client.ask_metadata(&MetadataRequest { topics: Some(Vec::new()), ..Default::default() }).await?;
        Ok(client)
    }

    pub fn config(&self) -> &ClientConfig {
        &self.inner.config
    }

    /// The topic and its partitions, from what is known when that is fresh enough and every partition has a leader.
    ///
    /// A topic that does not exist is asked for again for `unknown_topic_wait` (it may have been created just now).
    /// This never creates topics.
    pub async fn topic(&self, name: &str) -> Result<Arc<Topic>, ClientError> {
        let fresh_since = Instant::now().checked_sub(self.config().metadata_max_age);
        if let Some(topic) = self.inner.known.lock().led_topic(name, fresh_since) {
            return Ok(topic);
        }
        self.refresh_topic(name).await
    }

    /// Asks the brokers for a topic, even if its metadata is known.
    pub async fn refresh_topic(&self, name: &str) -> Result<Arc<Topic>, ClientError> {
        let mut attempts = Attempts::new(self.config());
        loop {
            let error = match self.fetch_topics(&[name]).await {
                Ok(mut topics) if !topics.is_empty() => match topics.swap_remove(0).1 {
                    Ok(topic) => return Ok(topic),
                    Err(error) => error,
                },
                Ok(_) => ClientError::of_broker("Metadata", name, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, None),
                Err(error) => error,
            };
            if !attempts.pause(&error).await {
                return Err(error);
            }
        }
    }

    /// Asks once for several topics.
    pub(crate) async fn fetch_topics(
        &self,
        names: &[&str],
    ) -> Result<Vec<(String, Result<Arc<Topic>, ClientError>)>, ClientError> {
        let topics = names.iter().map(|name| MetadataRequestTopic { name: Some((*name).into()), ..Default::default() });
        // Asked for in Kafka's default way, brokers create what they do not know.
        let request =
            MetadataRequest { topics: Some(topics.collect()), allow_auto_topic_creation: false, ..Default::default() };
        self.ask_metadata(&request).await
    }

    /// Asks once for all topics.
    pub(crate) async fn fetch_all_topics(&self) -> Result<Vec<(String, Result<Arc<Topic>, ClientError>)>, ClientError> {
        self.ask_metadata(&MetadataRequest { topics: None, ..Default::default() }).await
    }

    async fn ask_metadata(
        &self,
        request: &MetadataRequest<'_>,
    ) -> Result<Vec<(String, Result<Arc<Topic>, ClientError>)>, ClientError> {
        let response = self.any_broker().await?.call(request).await?;
        let answer: MetadataResponse<'_> = response.decode()?;
        match ErrorCode(answer.error_code) {
            ErrorCode::NONE => self.inner.known.lock().learn(&answer, Instant::now()),
            code => return Err(ClientError::of_broker("Metadata", "the cluster", code, None)),
        }
        let topics = answer.topics.iter().map(|topic| {
            let name = topic.name.as_deref().unwrap_or_default().to_owned();
            let result = match ErrorCode(topic.error_code) {
                ErrorCode::NONE => Ok(Arc::new(Topic::read(topic))),
                code => Err(ClientError::of_broker("Metadata", format!("topic {name}"), code, None)),
            };
            (name, result)
        });
        Ok(topics.collect())
    }

    /// The leader of a partition, as far as is known.
    pub(crate) async fn leader(&self, topic: &str, partition: PartitionIndex) -> Result<NodeId, ClientError> {
        let subject = || format!("partition {topic}-{partition}");
        let known = self.topic(topic).await?;
        let Some(found) = known.partition(partition) else {
            let there = format!("the topic has {} partitions", known.partitions.len());
            let code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            return Err(ClientError::of_broker("Metadata", subject(), code, Some(&there)));
        };
        found.leader.ok_or_else(|| ClientError::of_broker("Metadata", subject(), ErrorCode::LEADER_NOT_AVAILABLE, None))
    }

    /// Makes the next request for the topic ask the brokers first, when the error says that what is known may be old.
    pub(crate) fn doubt_topic(&self, topic: &str, error: &ClientError) {
        if error.wants_metadata() {
            self.inner.known.lock().forget_topic(topic);
        }
    }

    /// A connection to a node.
    pub(crate) async fn node(&self, node: NodeId) -> Result<Arc<Connection>, ClientError> {
        let address = self.inner.known.lock().brokers.get(&node.0).map(|broker| broker.address());
        let address = address.ok_or(ClientError::UnknownBroker { node: node.0 })?;
        self.connection(Target::Node(node.0), &address).await
    }

    /// A connection to the node that administers the cluster; any broker, when none is named.
    pub(crate) async fn controller(&self) -> Result<Arc<Connection>, ClientError> {
        let controller = self.inner.known.lock().controller;
        match controller {
            Some(node) => self.node(node).await,
            None => self.any_broker().await,
        }
    }

    /// A connection to any broker that answers: first open ones, then known brokers, then the bootstrap addresses.
    pub(crate) async fn any_broker(&self) -> Result<Arc<Connection>, ClientError> {
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        let mut failure = None;
        for (target, address) in self.candidates() {
            match self.connection(target, &address).await {
                Ok(connection) => return Ok(connection),
                Err(error) => failure = Some(error),
            }
        }
        let detail = failure.map(|error| error.to_string()).unwrap_or_default();
        Err(ClientError::NoBroker { addresses: self.config().bootstrap.join(", "), detail })
    }

    fn open_connection(&self) -> Option<Arc<Connection>> {
        let slots: Vec<_> = self.inner.slots.lock().values().cloned().collect();
        slots.into_iter().find_map(|slot| slot.try_lock().ok()?.clone().filter(|one| one.is_open()))
    }

    fn candidates(&self) -> Vec<(Target, String)> {
        let known = self.inner.known.lock();
        let nodes = known.brokers.iter().map(|(node, broker)| (Target::Node(*node), broker.address()));
        let bootstrap = self.config().bootstrap.iter().enumerate();
        nodes.chain(bootstrap.map(|(i, address)| (Target::Bootstrap(i), address.clone()))).collect()
    }

    async fn connection(&self, target: Target, address: &str) -> Result<Arc<Connection>, ClientError> {
        let slot = self.inner.slots.lock().entry(target).or_default().clone();
        let mut slot = slot.lock().await;
        if let Some(open) = slot.as_ref().filter(|one| one.is_open() && one.address() == address) {
            return Ok(open.clone());
        }
        let opened = Arc::new(Connection::open(address, self.config()).await?);
        *slot = Some(opened.clone());
        Ok(opened)
    }

    /// Sends a request to the controller, again while that fails for reasons that pass. `check` looks at the answer as
    /// a whole; its retriable errors are reasons too.
    pub(crate) async fn ask_controller<'r, M: Message<'r>, T>(
        &self,
        request: &M,
        check: impl Fn(&Response) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut attempts = Attempts::new(self.config());
        loop {
            let answer = async { check(&self.controller().await?.call(request).await?) }.await;
            match answer {
                Err(error) if self.try_again(&mut attempts, &error).await => {}
                other => return other,
            }
        }
    }

    /// Pauses before another attempt; `false` when the error is the last word. Asks for the metadata where that may
    /// help.
    pub(crate) async fn try_again(&self, attempts: &mut Attempts, error: &ClientError) -> bool {
        let again = attempts.pause(error).await;
        if again && error.wants_metadata() {
            // The next attempt reports errors that remain; here only names and addresses may change.
            let _ = self.fetch_topics(&[]).await;
        }
        again
    }

    /// The brokers that are alive, as of now.
    pub(crate) async fn live_brokers(&self) -> Result<Vec<Broker>, ClientError> {
        self.fetch_topics(&[]).await?;
        Ok(self.inner.known.lock().brokers.values().cloned().collect())
    }

    /// A connection to a broker whose address somebody told, known or not.
    pub(crate) async fn broker(&self, broker: &Broker) -> Result<Arc<Connection>, ClientError> {
        self.connection(Target::Node(broker.node.0), &broker.address()).await
    }

    /// The id of the cluster, as the last answer of a broker said. `None` from brokers that have none.
    pub fn cluster_id(&self) -> Option<Arc<str>> {
        self.inner.known.lock().cluster_id.clone()
    }

    pub(crate) fn forget_topic(&self, topic: &str) {
        self.inner.known.lock().forget_topic(topic);
    }
}

//! Changes of the metadata that the broker makes of its own accord: topics that are used before they exist, producer ids.

use mainstem_metadata::controller::{Decision, NewTopic, offsets_topic};
use mainstem_types::ProducerId;

use crate::broker::Broker;
use crate::controller_thread::ControllerError;
use crate::start::random_id;

impl Broker {
    /// Creates topics that clients asked for by name (`auto.create.topics.enable`). What cannot be created is logged: the
    /// client that asks again learns that the topic does not exist.
    pub async fn auto_create_topics(&self, names: Vec<String>) {
        let topics: Vec<NewTopic> = names.into_iter().map(NewTopic::named).collect();
        let created = self.change_metadata(move |controller, config, rng| {
            controller.create_topics(&topics, false, config, &mut || random_id(rng))
        });
        match created.await {
            Ok(results) => {
                for error in results.into_iter().filter_map(Result::err) {
                    tracing::debug!("a topic was not created on demand: {error}");
                }
            }
            Err(error) => tracing::warn!("topics cannot be created on demand: {error}"),
        }
    }

    /// Creates `__consumer_offsets`, unless it is there by now.
    pub async fn create_offsets_topic(&self) -> Result<(), ControllerError> {
        let created = self.change_metadata(|controller, config, rng| {
            let brokers = controller.image().active_brokers().count();
            controller.create_topics(&[offsets_topic(config, brokers)], false, config, &mut || random_id(rng))
        });
        created.await.map(drop)
    }

    /// Takes the next block of producer ids. Two callers at once take two blocks; ids left of the first are not given out.
    pub(crate) async fn refill_producer_ids(&self) -> Result<(), ControllerError> {
        let node = self.state.node;
        let broker_epoch = *self.state.broker_epoch.lock();
        let block =
            self.change_metadata(move |controller, _, _| match controller.allocate_producer_ids(node, broker_epoch) {
                Ok(Decision { records, reply }) => Decision { records, reply: Ok(reply) },
                Err(error) => Decision { records: Vec::new(), reply: Err(error) },
            });
        match block.await? {
            Ok(block) => {
                let ProducerId(first) = block.first;
                self.state.producer_ids.refill(first..first + block.length);
                Ok(())
            }
            Err(error) => {
                tracing::error!("no producer ids: {error}");
                Err(ControllerError::Failed)
            }
        }
    }
}

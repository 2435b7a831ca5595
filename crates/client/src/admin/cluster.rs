//! The cluster and its brokers.

use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::{DescribeClusterRequest, DescribeClusterResponse};
use mainstem_types::NodeId;

use crate::client::Client;
use crate::error::ClientError;
use crate::metadata::Broker;

/// A cluster as its brokers describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDescription {
    pub cluster_id: String,
    /// The node that takes administrative requests.
    pub controller: Option<NodeId>,
    /// Ascending by node id.
    pub brokers: Vec<Broker>,
}

impl Client {
    /// The cluster id and the brokers that are alive.
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, ClientError> {
        self.ask_controller(&DescribeClusterRequest::default(), |response| {
            let answer: DescribeClusterResponse<'_> = response.decode()?;
            let code = ErrorCode(answer.error_code);
            if code.is_error() {
                let message = answer.error_message.as_deref();
                return Err(ClientError::of_broker("DescribeCluster", "the cluster", code, message));
            }
            let brokers = answer.brokers.iter().map(|broker| Broker {
                node: NodeId(broker.broker_id),
                host: broker.host.to_string(),
                port: broker.port,
                rack: broker.rack.as_deref().map(str::to_owned),
            });
            let mut brokers: Vec<_> = brokers.collect();
            brokers.sort_by_key(|broker| broker.node);
            Ok(ClusterDescription {
                cluster_id: answer.cluster_id.to_string(),
                controller: (answer.controller_id >= 0).then_some(NodeId(answer.controller_id)),
                brokers,
            })
        })
        .await
    }
}

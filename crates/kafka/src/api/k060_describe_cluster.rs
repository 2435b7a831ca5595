//! DescribeCluster (60), versions 0-2: the brokers of the cluster. v1: endpoint type. v2: fenced brokers.

use std::borrow::Cow;
use std::sync::Arc;

use mainstem_door::Handled;
use mainstem_kafka_wire::ErrorCode;
use mainstem_kafka_wire::messages::DescribeClusterRequest;
use mainstem_kafka_wire::messages::describe_cluster_response::{DescribeClusterBroker, DescribeClusterResponse};

use crate::authorized::{self, operations};
use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::request::Request;

pub const API: Api = Api::new(60, "DescribeCluster", 0..=2, handle);

/// The kinds of endpoints that a request may ask for.
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

fn handle(door: &Door, connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let message: DescribeClusterRequest = request.decode()?;
    let endpoint = door.broker.endpoint(&connection.info.listener);
    let error = match message.endpoint_type {
        BROKERS => None,
        CONTROLLERS => Some((ErrorCode::MISMATCHED_ENDPOINT_TYPE, "The request was sent to an endpoint of brokers.")),
        _ => Some((ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, "There is no such endpoint type.")),
    };
    if let Some((error, text)) = error {
        let response = DescribeClusterResponse {
            error_code: error.0,
            error_message: Some(Cow::Borrowed(text)),
            ..Default::default()
        };
        return Ok(Handled::Ready(request.reply(&response)));
    }
    let response = DescribeClusterResponse {
        endpoint_type: BROKERS,
        cluster_id: Cow::Borrowed(door.broker.cluster_id()),
        controller_id: endpoint.node.0,
        brokers: vec![DescribeClusterBroker {
            broker_id: endpoint.node.0,
            host: Cow::Borrowed(&endpoint.host),
            port: i32::from(endpoint.port),
            rack: endpoint.rack.as_deref().map(Cow::Borrowed),
            ..Default::default()
        }],
        cluster_authorized_operations: operations(message.include_cluster_authorized_operations, authorized::CLUSTER),
        ..Default::default()
    };
    Ok(Handled::Ready(request.reply(&response)))
}

#[cfg(test)]
#[path = "k060_describe_cluster_tests.rs"]
mod tests;

//! ListPartitionReassignments (46), version 0: which partitions are moving to other nodes. On one node, none.

use std::sync::Arc;

use mainstem_door::Handled;
use mainstem_kafka_wire::messages::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

use crate::close::CloseReason;
use crate::context::{Api, Connection, Door};
use crate::request::Request;

pub const API: Api = Api::new(46, "ListPartitionReassignments", 0..=0, handle);

fn handle(_door: &Door, _connection: &Arc<Connection>, request: Request) -> Result<Handled, CloseReason> {
    let _: ListPartitionReassignmentsRequest<'_> = request.decode()?;
    let response = ListPartitionReassignmentsResponse { error_message: None, ..Default::default() };
    Ok(Handled::Ready(request.reply(&response)))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use mainstem_kafka_wire::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;

    use super::*;
    use crate::test_support::TestDoor;

    #[test]
    fn nothing_is_on_its_way() {
        let kafka = TestDoor::any();
        let (name, absent) = (kafka.fresh("reassign-list"), kafka.fresh("reassign-list-absent"));
        kafka.create(&name, 2);
        let topic =
            |name| ListPartitionReassignmentsTopics { name: Cow::Borrowed(name), partition_indexes: vec![0, 5] };
        for topics in [None, Some(vec![]), Some(vec![topic(name.as_str()), topic(absent.as_str())])] {
            let request = ListPartitionReassignmentsRequest { topics, timeout_ms: 30_000 };
            let response: ListPartitionReassignmentsResponse<'static> = kafka.call(0, &request);
            assert_eq!((response.error_code, response.error_message, response.topics), (0, None, vec![]));
        }
    }
}

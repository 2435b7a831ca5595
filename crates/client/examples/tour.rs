//! Goes once through everything the client can do, against any broker, and checks what comes back:
//! `cargo run -p mainstem-client --example tour -- 127.0.0.1:9092`

use std::time::Duration;

use mainstem_client::*;

type Failure = Box<dyn std::error::Error>;

const RECORDS: usize = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let client = Client::connect(ClientConfig::new(&bootstrap).client_id("tour")).await?;
    let cluster = client.describe_cluster().await?;
    println!("cluster {} with {} brokers", cluster.cluster_id, cluster.brokers.len());
    for codec in Codec::ALL {
        let topic = format!("tour-{codec}-{}", std::process::id());
        create(&client, &topic).await?;
        produce(&client, &topic, codec).await?;
        consume(&client, &topic).await?;
        delete(&client, &topic).await?;
        println!("{topic}: {RECORDS} records written and read");
    }
    Ok(())
}

async fn create(client: &Client, topic: &str) -> Result<(), Failure> {
    let wanted = NewTopic::new(topic).partitions(2).config("retention.ms", "3600000");
    client.create_topics(std::slice::from_ref(&wanted), true).await?.remove(0).1?;
    client.create_topics(&[wanted], false).await?.remove(0).1?;
    client.create_partitions(topic, 3, false).await?;
    let resource = ConfigResource::Topic(topic.to_owned());
    client.alter_configs(&resource, &[ConfigChange::set("max.message.bytes", "2000000")], false).await?;
    let configs = client.describe_configs(&resource).await?;
    let value = |name: &str| configs.iter().find(|one| one.name == name).and_then(|one| one.value.as_deref());
    assert_eq!((value("retention.ms"), value("max.message.bytes")), (Some("3600000"), Some("2000000")));
    assert!(client.list_topics(false).await?.iter().any(|one| &*one.name == topic));
    Ok(())
}

async fn produce(client: &Client, topic: &str, codec: Codec) -> Result<(), Failure> {
    let producer = client.producer(ProducerConfig { codec, idempotent: true, ..Default::default() });
    let mut deliveries = Vec::with_capacity(RECORDS);
    for i in 0..RECORDS {
        let key = format!("key-{}", i % 100);
        let record = NewRecord::new(topic, Some(key.as_bytes()), Some(format!("value {i}").as_bytes()));
        deliveries.push(producer.send(record).await?);
    }
    for delivery in deliveries {
        delivery.await?;
    }
    Ok(())
}

async fn consume(client: &Client, topic: &str) -> Result<(), Failure> {
    let partitions = client.topic(topic).await?.partitions.len() as i32;
    assert_eq!(partitions, 3);
    let partitions: Vec<_> = (0..partitions).map(|one| TopicPartition::new(topic, PartitionIndex(one))).collect();
    let mut fetcher = client.fetcher(FetcherConfig { isolation: Isolation::ReadCommitted, ..Default::default() });
    fetcher.assign_at(&partitions, OffsetSpec::Earliest).await?;
    let mut seen = vec![false; RECORDS];
    while !fetcher.is_at_end() {
        for record in fetcher.poll(Duration::from_secs(5)).await? {
            let value = String::from_utf8(record.value.unwrap_or_default().to_vec())?;
            let number: usize = value.trim_start_matches("value ").parse()?;
            assert!(!std::mem::replace(&mut seen[number], true), "{value} came twice");
        }
    }
    assert!(seen.iter().all(|seen| *seen), "every record was read");
    let future: Vec<_> =
        partitions.iter().map(|one| (one.clone(), OffsetSpec::Timestamp(TimestampMs(i64::MAX)))).collect();
    let found = client.list_offsets(&future, Isolation::ReadUncommitted).await?;
    assert!(found.iter().all(|(_, listed)| listed.offset.is_none()));
    Ok(())
}

async fn delete(client: &Client, topic: &str) -> Result<(), Failure> {
    client.delete_topics(&[topic]).await?.remove(0).1?;
    Ok(())
}

//! The commands that administer a cluster: topics, groups, settings; as processes against a real broker.

mod support;

use serde_json::{Value, json};
use support::commands::{Broker, run_with, stdout};
use support::{last_line, mainstem};

/// `offsets` of one topic, as (partition, earliest, latest).
fn ranges(broker: &Broker, topic: &str) -> Vec<(i64, i64, i64)> {
    let ranges = broker.json(&["topic", "offsets", topic]);
    let number = |range: &Value, name: &str| range[name].as_i64().unwrap();
    let ranges = ranges.as_array().unwrap().iter();
    ranges.map(|range| (number(range, "partition"), number(range, "earliest"), number(range, "latest"))).collect()
}

/// A topic with two partitions of ten and five records.
fn orders() -> Broker {
    let broker = Broker::start();
    broker.run(&["topic", "create", "orders", "--partitions", "2"]);
    let lines = |count: i32| (0..count).map(|i| format!("{i}\n")).collect::<String>();
    broker.produce(lines(10), &["orders", "--partition", "0"]);
    broker.produce(lines(5), &["orders", "--partition", "1"]);
    broker
}

/// What a reset plans or has done: (partition, current, new, moved, result).
fn reset(broker: &Broker, arguments: &[&str]) -> Vec<(i64, Option<i64>, i64, bool, String)> {
    let told = broker.json(&[&["group", "reset-offsets", "billing"], arguments].concat());
    let offsets = told["offsets"].as_array().unwrap().iter();
    offsets
        .map(|one| {
            let result = one["result"].as_str().unwrap().to_owned();
            let new = one["new"].as_i64().unwrap();
            (one["partition"].as_i64().unwrap(), one["current"].as_i64(), new, one["moved"] == true, result)
        })
        .collect()
}

/// The new offsets of a plan.
fn planned(broker: &Broker, arguments: &[&str]) -> Vec<i64> {
    reset(broker, arguments).into_iter().map(|(.., new, _, _)| new).collect()
}

#[test]
fn settings_of_a_topic_are_set_shown_and_unset() {
    let broker = orders();
    let set = ["topic", "config", "set", "orders", "retention.ms=86400000", "cleanup.policy=compact"];
    assert_eq!(broker.run(&[&set[..], &["--dry-run"]].concat()), "would be changed: 2 settings of topic orders\n");
    let shown = |name: &str| {
        let shown = broker.json(&["topic", "config", "show", "orders"]);
        let settings = shown["settings"].as_array().unwrap();
        settings.iter().find(|setting| setting["name"] == name).map(|setting| setting["value"].clone())
    };
    assert_eq!(shown("retention.ms"), None);
    let told = broker.json(&set);
    assert_eq!((&told["kind"], &told["name"], &told["result"]), (&json!("topic"), &json!("orders"), &json!("changed")));
    let change = json!({ "operation": "set", "setting": "retention.ms", "value": "86400000" });
    assert_eq!(told["changes"][0], change);
    assert_eq!((shown("retention.ms"), shown("cleanup.policy")), (Some(json!("86400000")), Some(json!("compact"))));
    assert_eq!(shown("max.message.bytes"), None);

    let all = broker.run(&["topic", "config", "show", "orders", "--all"]);
    let words: Vec<Vec<_>> = all.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(words.contains(&vec!["retention.ms", "86400000", "topic"]), "{all}");
    assert!(words.iter().any(|row| row[0] == "max.message.bytes" && row[2] == "default"), "{all}");

    broker.run(&["topic", "config", "unset", "orders", "retention.ms"]);
    assert_eq!((shown("retention.ms"), shown("cleanup.policy")), (None, Some(json!("compact"))));
    let line = broker.failure(&["topic", "config", "set", "orders", "cleanup.policy=delete", "retention.ms=soon"]);
    assert!(["topic orders", "retention.ms", "soon"].iter().all(|part| line.contains(part)), "{line}");
    assert_eq!(shown("cleanup.policy"), Some(json!("compact")), "all of the changes or none");
    let line = broker.failure(&["topic", "config", "show", "absent"]);
    assert!(line.contains("there is no topic absent"), "{line}");
}

#[test]
fn a_topic_gets_more_partitions_and_never_fewer() {
    let broker = orders();
    let dry = ["topic", "add-partitions", "orders", "--by", "1", "--dry-run"];
    assert_eq!(broker.run(&dry), "orders would have 3 partitions, 1 more\n");
    assert_eq!(ranges(&broker, "orders").len(), 2);
    let told = broker.json(&["topic", "add-partitions", "orders", "--to", "4"]);
    assert_eq!(told, json!({ "topic": "orders", "result": "changed", "partitions_before": 2, "partitions": 4 }));
    assert_eq!(ranges(&broker, "orders"), [(0, 0, 10), (1, 0, 5), (2, 0, 0), (3, 0, 0)]);
    let line = broker.failure(&["topic", "add-partitions", "orders", "--to", "4"]);
    assert!(line.contains("INVALID_PARTITIONS"), "{line}");
}

#[test]
fn offsets_are_those_of_the_ends_and_of_times() {
    let broker = orders();
    let text = broker.run(&["topic", "offsets", "orders"]);
    let words: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[1..], [vec!["orders", "0", "0", "10"], vec!["orders", "1", "0", "5"]], "{text}");
    let found =
        |arguments: &[&str]| broker.json(&[&["topic", "offsets", "orders"], arguments].concat())[0]["found"].clone();
    assert_eq!(found(&["--at", "-1h"])["offset"], 0);
    assert_eq!(found(&["--at", "2100-01-01T00:00:00Z"]), Value::Null);
    assert!(found(&["--max-timestamp"])["timestamp"].as_i64().unwrap() > 1_700_000_000_000);
    assert!(broker.json(&["topic", "offsets", "orders"])[0].get("found").is_none());
    assert_eq!(broker.json(&["topic", "offsets"]).as_array().unwrap().len(), 2, "all topics");
}

#[test]
fn records_are_deleted_from_the_beginning() {
    let broker = orders();
    let delete = |arguments: &[&str]| broker.run(&[&["topic", "delete-records", "orders"], arguments].concat());
    assert_eq!(
        delete(&["--before", "3", "--dry-run"]),
        "orders-0: offsets 0 to 2 would be deleted\norders-1: offsets 0 to 2 would be deleted\n"
    );
    assert_eq!(ranges(&broker, "orders"), [(0, 0, 10), (1, 0, 5)]);
    assert_eq!(delete(&["--before", "1", "--partition", "0"]), "orders-0: offset 0 deleted\n");
    assert_eq!(ranges(&broker, "orders"), [(0, 1, 10), (1, 0, 5)]);
    assert_eq!(delete(&["--before", "1", "--partition", "0"]), "orders-0: nothing to delete, it begins at 1\n");

    // Said before anything is deleted, also where it could be.
    let line = broker.failure(&["topic", "delete-records", "orders", "--before", "7"]);
    assert!(line.contains("orders-1 has no offset 7: it ends at 5"), "{line}");
    assert_eq!(ranges(&broker, "orders"), [(0, 1, 10), (1, 0, 5)]);

    delete(&["--before", "-1h"]);
    assert_eq!(ranges(&broker, "orders"), [(0, 1, 10), (1, 0, 5)], "nothing is that old");
    let told = broker.json(&["topic", "delete-records", "orders", "--before", "end"]);
    let one = json!({ "topic": "orders", "partition": 0, "result": "deleted", "earliest_before": 1, "earliest": 10 });
    assert_eq!(told[0], one);
    assert_eq!(ranges(&broker, "orders"), [(0, 10, 10), (1, 5, 5)]);
}

#[test]
fn offsets_of_a_group_are_planned_and_then_reset() {
    let broker = orders();
    let plan = reset(&broker, &["--topic", "orders", "--to-earliest"]);
    let row = |partition, current, new, result: &str| (partition, current, new, false, result.to_owned());
    assert_eq!(plan, [row(0, None, 0, "planned"), row(1, None, 0, "planned")]);
    assert_eq!(broker.json(&["group", "list"]), json!([]), "a plan changes nothing");

    let done = reset(&broker, &["--topic", "orders", "--to-offset", "4", "--execute"]);
    assert_eq!(done, [row(0, None, 4, "changed"), row(1, None, 4, "changed")]);
    for (arguments, offsets) in [
        (&["--to-earliest"][..], [0, 0]),
        (&["--to-latest"], [10, 5]),
        (&["--to-current"], [4, 4]),
        (&["--shift-by", "1"], [5, 5]),
        (&["--shift-by", "-3"], [1, 1]),
        (&["--shift-by", "-9"], [0, 0]),
        (&["--to-offset", "7"], [7, 5]),
        (&["--by-duration", "PT1H"], [0, 0]),
        (&["--by-duration", "PT0S"], [10, 5]),
        (&["--to-datetime", "2001-01-01T00:00:00"], [0, 0]),
        (&["--to-datetime", "2100-01-01T00:00:00.000+02:00"], [10, 5]),
    ] {
        assert_eq!(planned(&broker, &[arguments, &["--all-topics"]].concat()), offsets, "{arguments:?}");
        assert_eq!(planned(&broker, &[arguments, &["--topic", "orders:1"]].concat()), offsets[1..], "{arguments:?}");
    }
    let moved = reset(&broker, &["--all-topics", "--to-offset", "7"]);
    assert_eq!((moved[0].3, moved[1].3), (false, true), "the nearest is said to be it");

    let text =
        broker.run(&["group", "reset-offsets", "billing", "--topic", "orders:0", "--shift-by", "2", "--execute"]);
    let words: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[1], ["orders", "0", "4", "6", "0", "10"], "{text}");
    assert_eq!(planned(&broker, &["--all-topics", "--to-current"]), [6, 4]);
}

#[test]
fn a_plan_can_be_kept_in_a_file_and_carried_out_later() {
    let broker = orders();
    reset(&broker, &["--topic", "orders", "--to-offset", "2", "--execute"]);
    let plan = broker.run(&["group", "reset-offsets", "billing", "--all-topics", "--shift-by", "1", "--export"]);
    assert_eq!(plan, "orders,0,3\norders,1,3\n");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.csv");
    let path = file.to_str().unwrap();
    std::fs::write(&file, &plan).unwrap();
    assert_eq!(planned(&broker, &["--from-file", path]), [3, 3]);
    // As Kafka's tool exports several groups.
    std::fs::write(&file, "billing,orders,1,4\n\"shipping\",orders,0,1\n").unwrap();
    assert_eq!(planned(&broker, &["--from-file", path, "--execute"]), [4]);
    assert_eq!(planned(&broker, &["--all-topics", "--to-current"]), [2, 4]);

    for (content, part) in [
        ("orders,0\n", "line 1 of "),
        ("orders,9,1\n", "orders has no partition 9"),
        ("absent,0,1\n", "there is no topic absent"),
        ("shipping,orders,0,1\n", "has no offset for group billing"),
    ] {
        std::fs::write(&file, content).unwrap();
        let line = broker.failure(&["group", "reset-offsets", "billing", "--from-file", path]);
        assert!(line.contains(part), "{content}: {line}");
    }
    let line = broker.failure(&["group", "reset-offsets", "new", "--topic", "orders", "--shift-by", "1"]);
    assert!(line.contains("orders-0 cannot be shifted: the group has no offset of it"), "{line}");
}

#[test]
fn groups_are_listed_described_and_deleted_with_their_offsets() {
    let broker = orders();
    reset(&broker, &["--topic", "orders", "--to-offset", "4", "--execute"]);
    let listed = broker.json(&["group", "list"]);
    let one = json!({ "group": "billing", "kind": "classic", "state": "Empty", "protocol_type": "", "coordinator": 1 });
    assert_eq!(listed, json!([one]));
    assert_eq!(broker.json(&["group", "list", "--state", "stable"]), json!([]));
    assert_eq!(broker.json(&["group", "list", "--state", "EMPTY", "--kind", "classic"]), json!([one]));

    let described = broker.json(&["group", "describe", "billing"]);
    assert_eq!((&described[0]["state"], &described[0]["lag"]), (&json!("Empty"), &json!(7)));
    let row = json!({ "topic": "orders", "partition": 1, "committed": 4, "metadata": null, "end": 5, "lag": 1, "member_id": null });
    assert_eq!(described[0]["offsets"][1], row);
    assert_eq!(broker.json(&["group", "describe", "--all"]), described);
    let text = broker.run(&["group", "describe", "billing"]);
    assert!(text.lines().any(|line| line.split_whitespace().eq(["orders", "1", "4", "5", "1", "-"])), "{text}");

    let line = broker.failure(&["group", "delete-offsets", "billing", "--topic", "bills"]);
    assert!(line.contains("has no offsets of bills"), "{line}");
    for command in [&["describe", "absent"][..], &["delete", "absent"], &["delete-offsets", "absent", "--topic", "t"]] {
        let line = broker.failure(&[&["group"], command].concat());
        assert!(line.starts_with("mainstem: group absent does not exist: "), "{command:?}: {line}");
    }
    assert_eq!(
        broker.run(&["group", "delete", "billing", "absent", "--if-exists"]),
        "deleted billing\nabsent does not exist\n"
    );
    assert_eq!(broker.json(&["group", "list"]), json!([]));
}

#[test]
fn offsets_of_some_partitions_are_deleted() {
    let broker = orders();
    reset(&broker, &["--topic", "orders", "--to-offset", "4", "--execute"]);
    let delete = ["group", "delete-offsets", "billing", "--topic", "orders:1"];
    assert_eq!(broker.json(&delete), json!([{ "topic": "orders", "partition": 1, "result": "deleted" }]));
    assert_eq!(reset(&broker, &["--all-topics", "--to-current"]).len(), 1);
}

#[test]
fn settings_of_brokers_show_every_place_that_has_a_value() {
    let broker = Broker::start();
    let alter = |arguments: &[&str]| broker.run(&[&["config", "alter"], arguments].concat());
    assert_eq!(
        alter(&["--broker-defaults", "--set", "log.retention.ms=5000000"]),
        "changed: 1 setting of the brokers' defaults\n"
    );
    alter(&["--broker", "1", "--set", "log.retention.ms=6000000"]);
    let of = |whose: &[&str], name: &str| {
        let described = broker.json(&[&["config", "describe"], whose].concat());
        let settings = described["settings"].as_array().unwrap();
        settings.iter().find(|setting| setting["name"] == name).cloned()
    };
    let setting = of(&["--broker", "1"], "log.retention.ms").unwrap();
    assert_eq!((&setting["value"], &setting["source"]), (&json!("6000000"), &json!("broker")));
    let synonyms = setting["synonyms"].as_array().unwrap();
    let place = |value: &str, source: &str| json!({ "name": "log.retention.ms", "value": value, "source": source });
    assert_eq!(synonyms[..2], [place("6000000", "broker"), place("5000000", "broker-defaults")]);
    let text = broker.run(&["config", "describe", "--broker", "1", "--synonyms"]);
    assert!(
        text.lines().any(|line| line.trim_start().starts_with("log.retention.ms  ") && line.contains("5000000")),
        "{text}"
    );
    assert!(of(&["--broker", "1"], "node.id").is_none_or(|setting| setting["read_only"] == true));

    alter(&["--broker", "1", "--unset", "log.retention.ms"]);
    assert_eq!(of(&["--broker", "1"], "log.retention.ms").unwrap()["value"], "5000000");
    broker.run(&["topic", "create", "orders"]);
    alter(&["--topic", "orders", "--append", "cleanup.policy=compact"]);
    assert_eq!(of(&["--topic", "orders"], "cleanup.policy").unwrap()["value"], "delete,compact");
    alter(&["--topic", "orders", "--subtract", "cleanup.policy=delete"]);
    assert_eq!(of(&["--topic", "orders"], "cleanup.policy").unwrap()["value"], "compact");

    for (arguments, part) in [
        (
            &["--broker", "77", "--set", "log.retention.ms=1"][..],
            "broker 77: the cluster has no such broker at the moment",
        ),
        (&["--topic", "absent", "--set", "retention.ms=1"], "there is no topic absent"),
        (&["--broker", "1", "--set", "node.id=5"], "node.id"),
    ] {
        let line = broker.failure(&[&["config", "alter"], arguments].concat());
        assert!(line.contains(part), "{arguments:?}: {line}");
    }
}

#[test]
fn a_profile_says_which_cluster() {
    let broker = Broker::start();
    broker.run(&["topic", "create", "orders"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let text = format!(
        "profile = \"dev\"\n[profiles.dev]\nbootstrap-server = \"{}\"\n[profiles.dead]\nbootstrap-server = \"127.0.0.1:1\"\n\
         timeout = \"2s\"\n[profiles.wrong]\ntimeout = \"soon\"\n",
        broker.server.address()
    );
    std::fs::write(&file, text).unwrap();
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = mainstem(&[&["topic", "list", "--output", "json"], arguments].concat());
        command.env("MAINSTEM_CONFIG", &file).envs(variables.iter().copied()).output().unwrap()
    };
    assert!(stdout(&run(&[], &[])).contains("orders"));
    assert!(stdout(&run(&["--profile", "dev"], &[("MAINSTEM_BOOTSTRAP", "127.0.0.1:1")])).contains("orders"));
    let address = broker.server.address();
    let given = ["--bootstrap-server", address.as_str()];
    assert!(stdout(&run(&given, &[("MAINSTEM_PROFILE", "dead")])).contains("orders"));
    for (arguments, variables, code, part) in [
        (&["--profile", "dead"][..], &[][..], 1, "no broker at 127.0.0.1:1"),
        (&[], &[("MAINSTEM_PROFILE", "dead")], 1, "no broker at 127.0.0.1:1"),
        (&["--profile", "absent"], &[], 1, "has no profile absent; it has: dead, dev, wrong"),
        (&["--profile", "wrong"], &[], 1, "timeout in profile wrong of "),
        (&[], &[("MAINSTEM_BOOTSTRAP", "nowhere")], 2, "nowhere is not HOST:PORT"),
    ] {
        let output = run(arguments, variables);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(last_line(&output).contains(part), "{output:?}");
    }
}

#[test]
fn colours_are_for_those_who_want_them() {
    let broker = Broker::start();
    broker.run(&["topic", "create", "orders"]);
    assert!(!broker.run(&["topic", "list"]).contains('\x1b'), "a pipe has none");
    assert!(broker.run(&["topic", "list", "--color", "always"]).starts_with("\x1b[1mTOPIC"));
    let output = run_with("127.0.0.1:1", "", &["topic", "list", "--color", "always"]);
    assert!(last_line(&output).starts_with("\x1b[1;31mmainstem:\x1b[0m no broker"), "{output:?}");
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    for (shell, part) in [("bash", "_mainstem()"), ("zsh", "#compdef mainstem"), ("fish", "complete -c mainstem")] {
        let script = stdout(&mainstem(&["completions", shell]).output().unwrap());
        assert!(script.contains(part) && script.contains("reset-offsets"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man");
    stdout(&mainstem(&["man", pages.to_str().unwrap()]).output().unwrap());
    for name in
        ["mainstem", "mainstem-serve", "mainstem-topic-config-set", "mainstem-group-reset-offsets", "mainstem-cp"]
    {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH NAME"), "{name}");
    }
}

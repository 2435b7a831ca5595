//! `mainstem serve` as a process: settings, start, stop.

mod support;

use std::io::{Read, Write};

use support::{PATIENCE, Server, failure, mainstem};

/// ApiVersions version 0, correlation id 7.
const API_VERSIONS: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];

fn ask_api_versions(address: &str) -> std::net::TcpStream {
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(&API_VERSIONS).unwrap();
    let mut start = [0; 10];
    socket.read_exact(&mut start).unwrap();
    assert_eq!(start[4..], [0, 0, 0, 7, 0, 0]);
    socket
}

#[test]
fn an_unknown_key_or_a_bad_value_stops_the_start_and_is_named_in_the_last_line() {
    let line = failure(&mut mainstem(&["serve", "--set", "log.segment.byte=1"]));
    assert!(line.contains("log.segment.byte") && line.contains("--set"), "{line}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.toml");
    std::fs::write(&path, "node.id = 3\n\n[log]\nsegment.bytes = \"much\"\n").unwrap();
    let line = failure(mainstem(&["serve", "--config"]).arg(&path));
    assert!(["log.segment.bytes", "much", "server.toml line 4"].iter().all(|part| line.contains(part)), "{line}");
    let line = failure(mainstem(&["serve"]).env("MAINSTEM_NUM_PARTITIONS", "0"));
    assert!(["num.partitions", "0", "MAINSTEM_NUM_PARTITIONS"].iter().all(|part| line.contains(part)), "{line}");
    let line = failure(mainstem(&["serve"]).env("MAINSTEM_NUM_PARTITION", "1"));
    assert!(line.contains("MAINSTEM_NUM_PARTITION "), "{line}");
    let line = failure(&mut mainstem(&["serve", "--config", "absent.toml"]));
    assert!(line.contains("absent.toml"), "{line}");
    let line = failure(mainstem(&["serve"]).env("MAINSTEM_LOG", "=what="));
    assert!(line.contains("MAINSTEM_LOG"), "{line}");
}

#[test]
fn a_port_that_is_taken_is_named_in_the_last_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let line = failure(mainstem(&["serve", "--listen", &address, "--data-dir"]).arg(folder.path()));
    assert!(line.contains(&address), "{line}");
}

#[test]
fn the_start_says_where_it_listens_and_what_is_promised_and_sigterm_ends_it_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.lines[0], format!("mainstem {}", env!("CARGO_PKG_VERSION")));
    for start in ["listening on 127.0.0.1:", "data folder /", "durability os "] {
        assert!(server.lines.iter().any(|line| line.starts_with(start)), "{start} in {:?}", server.lines);
    }
    let mut client = ask_api_versions(&server.address());
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    let server = Server::start(folder.path(), &["--set", "mainstem.durability=disk"]);
    assert!(server.lines.iter().any(|line| line.starts_with("durability disk ")), "{:?}", server.lines);
    server.signal("INT");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_second_signal_ends_a_stop_that_waits_and_the_next_start_finds_everything() {
    let (folder, output) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let mut command = mainstem(&["serve", "--listen", "127.0.0.1:0", "--grace", "3600", "--data-dir"]);
    command.arg(folder.path()).stderr(output.reopen().unwrap());
    let server = Server::start_saying(command);
    let address = server.address();
    for (arguments, input) in [(["topic", "create", "a"].as_slice(), ""), (&["produce", "a"], "value\n")] {
        let output = support::commands::run_with(&address, input, arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    let mut stuck = ask_api_versions(&address);
    // It reads no more answers, so the stop has something to wait for.
    stuck.set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    while stuck.write_all(&API_VERSIONS.repeat(1000)).is_ok() {}
    server.signal("TERM");
    let said = |part: &str| std::fs::read_to_string(output.path()).unwrap().contains(part);
    support::eventually("the stop begins", || said("stopping"));
    server.signal("INT");
    assert_eq!(server.exit_code(), Some(1));
    assert!(said("second signal"), "{:?}", std::fs::read_to_string(output.path()));
    let server = Server::start(folder.path(), &[]);
    assert!(server.says("recovered from an unclean stop"), "{:?}", server.lines);
    let consumed = support::commands::run_with(&server.address(), "", &["consume", "a", "--from", "beginning"]);
    assert_eq!(support::commands::stdout(&consumed), "value\n");
}

/// A folder whose broker was killed with so many logs to recover.
fn killed(logs: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let run = |arguments: &[&str], input: &str| {
        let output = support::commands::run_with(&server.address(), input, arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    };
    run(&["topic", "create", "slow", "--partitions", &logs.to_string()], "");
    let lines: String = (0..logs).map(|number| format!("{number}:value\n")).collect();
    run(&["produce", "slow", "--key-separator", ":"], &lines);
    server.kill();
    folder
}

/// The number of records in all partitions of the topic.
fn records(server: &Server) -> usize {
    let arguments = ["consume", "slow", "--from", "beginning", "--format", "%o\n"];
    let output = support::commands::run_with(&server.address(), "", &arguments);
    support::commands::stdout(&output).lines().count()
}

/// Starts a broker by a command, and has a signal sent as soon as it says its version; gives the exit code, and what
/// else it said.
fn stop_at_once(mut command: std::process::Command, send: impl FnOnce(&std::process::Child)) -> (Option<i32>, String) {
    command.args(["--set", "num.recovery.threads.per.data.dir=1"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::inherit());
    let mut child = command.spawn().unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let version = support::commands::read_line(&mut output);
    assert!(version.starts_with("mainstem "), "{version}");
    send(&child);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    (support::exit_code(&mut child), rest)
}

#[test]
fn a_stop_during_the_start_ends_it_in_order_and_the_next_start_finds_everything() {
    const LOGS: usize = 300;
    let folder = killed(LOGS);
    for _ in 0..2 {
        let mut command = mainstem(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(folder.path());
        let (code, said) = stop_at_once(command, |child| support::signal(child, "TERM"));
        assert_eq!((code, said.contains("ready")), (Some(0), false), "{said}");
        assert!(folder.path().join("abort").exists(), "the next start checks the logs that this one did not");
    }
    let server = Server::start(folder.path(), &[]);
    assert!(server.says("recovered from an unclean stop"), "{:?}", server.lines);
    assert_eq!(records(&server), LOGS);
}

#[test]
fn the_first_process_of_a_container_hears_a_stop_during_its_start() {
    let folder = killed(300);
    let mut command = std::process::Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", env!("CARGO_BIN_EXE_mainstem")]);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path());
    let (code, said) = stop_at_once(command, |child| {
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let broker = std::fs::read_to_string(children).unwrap();
        let status = std::process::Command::new("kill").args(["-s", "TERM", broker.trim()]).status().unwrap();
        assert!(status.success(), "this test needs root, or namespaces of users");
    });
    assert_eq!((code, said.contains("ready")), (Some(0), false), "{said}");
}

#[test]
fn a_folder_has_one_broker() {
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::start(folder.path(), &[]);
    let line = failure(mainstem(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path()));
    assert!(line.contains(&*folder.path().to_string_lossy()), "{line}");
}

#[test]
fn the_file_of_a_kafka_is_understood_and_the_command_line_beats_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.properties");
    let text = "# a Kafka\nprocess.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\nlisteners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2\n\
        controller.listener.names=CONTROLLER\nlog.dirs=/does/not/exist\nadvertised.listeners=PLAINTEXT://broker.example:\\\n   1234\n";
    std::fs::write(&path, text).unwrap();
    let server = Server::start(&folder.path().join("data"), &["--config", path.to_str().unwrap()]);
    assert!(
        server.lines.iter().any(|line| line.ends_with("clients are told broker.example:1234")),
        "{:?}",
        server.lines
    );
}

#[test]
fn help_names_every_option() {
    let output = mainstem(&["serve", "--help"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in
        ["--config", "--data-dir", "--listen", "--set", "--grace", "MAINSTEM_LOG", "127.0.0.1:9092", "./mainstem-data"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(mainstem(&["serve", "--nonsense"]).output().unwrap().status.code(), Some(2));
}

//! The broker of one suite: the release binary, or a real Kafka, on a free port with an empty data folder.

use super::Places;
use super::options::{Against, Options};
use super::process::{end_group, spawn_logged, wait};
use super::suites::{Brokers, Suite};
use anyhow::{Context, Result, bail};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(120);
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// Server properties of every broker under test: groups form at once, as the suites form many.
const SETTINGS: [&str; 2] = ["group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=8"];

pub struct Broker {
    process: Option<Running>,
    /// What the suite's runner must know.
    pub environment: Vec<(String, String)>,
}

struct Running {
    child: Child,
    folder: PathBuf,
    is_kafka: bool,
}

impl Broker {
    pub fn start(places: &Places, options: &Options, suite: &Suite) -> Result<Self> {
        if suite.brokers != Brokers::Given {
            let environment = match options.against {
                Against::Kafka => ("MAINSTEM_PEER", "kafka".to_owned()),
                _ => ("MAINSTEM_BINARY", places.binary.to_string_lossy().into_owned()),
            };
            return Ok(Self { process: None, environment: vec![(environment.0.to_owned(), environment.1)] });
        }
        if let Against::Running(address) = &options.against {
            return Ok(Self { process: None, environment: bootstrap(address) });
        }
        let folder = places.clients.join("run").join(suite.name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder).with_context(|| format!("cannot delete {}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let (port, is_kafka) = (free_port()?, options.against == Against::Kafka);
        let command = if is_kafka {
            kafka(places, &folder, port)?
        } else {
            let settings = suite.settings.iter().copied().chain(options.settings.iter().map(String::as_str));
            mainstem(places, &folder, port, settings)
        };
        let log = places.log(&format!("{}-broker", suite.full_name()));
        let mut child = spawn_logged(command, &log)?;
        if let Err(error) = wait_for_port(&mut child, port, &log) {
            end_group(&child, "KILL");
            child.wait()?;
            return Err(error);
        }
        let process = Some(Running { child, folder, is_kafka });
        Ok(Self { process, environment: bootstrap(&format!("127.0.0.1:{port}")) })
    }

    /// An orderly stop; an error when the broker had ended by itself, or does not end well.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut running) = self.process.take() else { return Ok(()) };
        if let Some(status) = running.child.try_wait()? {
            bail!("it had ended before the suite did, with {status}");
        }
        end_group(&running.child, "TERM");
        let Some(status) = wait(&mut running.child, STOP_LIMIT)? else {
            end_group(&running.child, "KILL");
            running.child.wait()?;
            bail!("it did not stop within {} s", STOP_LIMIT.as_secs());
        };
        std::fs::remove_dir_all(&running.folder)?;
        // A JVM that is told to end reports the signal.
        if !status.success() && !running.is_kafka {
            bail!("it stopped with {status}");
        }
        Ok(())
    }
}

fn bootstrap(address: &str) -> Vec<(String, String)> {
    vec![("MAINSTEM_BOOTSTRAP".to_owned(), address.to_owned())]
}

pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn mainstem<'s>(places: &Places, folder: &Path, port: u16, settings: impl Iterator<Item = &'s str>) -> Command {
    let mut command = Command::new(&places.binary);
    command.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"]).arg(folder.join("data"));
    command.args(SETTINGS.into_iter().chain(settings).map(|setting| format!("--set={setting}")));
    command
}

fn kafka(places: &Places, folder: &Path, port: u16) -> Result<Command> {
    let mut command = Command::new(places.root.join("tests/peers/kafka.sh"));
    command.arg("serve").arg(folder.join("data")).arg(port.to_string()).args(SETTINGS);
    command.env("CONTROLLER_PORT", free_port()?.to_string()).env("MAINSTEM_CLIENTS_DIR", &places.clients);
    Ok(command)
}

fn wait_for_port(child: &mut Child, port: u16, log: &Path) -> Result<()> {
    let end = Instant::now() + START_LIMIT;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        let ended = child.try_wait()?;
        if ended.is_some() || Instant::now() > end {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            let how = ended.map_or("its port did not open".to_owned(), |status| format!("it ended with {status}"));
            bail!("it did not start: {how}: {}", text.lines().last().unwrap_or_default());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

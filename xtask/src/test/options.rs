//! The arguments of `cargo xtask test`.

use super::suites::{Brokers, SUITES, Suite};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// Which broker the client suites speak to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Against {
    Mainstem,
    Kafka,
    Running(String),
}

impl Against {
    /// A broker that runs already is never killed, and the turns of Mainstem and Kafka need Mainstem.
    fn allows(&self, brokers: Brokers) -> bool {
        match self {
            Self::Mainstem => true,
            Self::Kafka => brokers != Brokers::BothBySuite,
            Self::Running(_) => brokers == Brokers::Given,
        }
    }
}

#[derive(Debug)]
pub struct Options {
    pub rust: bool,
    pub fuzz: bool,
    pub suites: Vec<&'static Suite>,
    pub against: Against,
    /// A binary that is ready, instead of a release build.
    pub binary: Option<PathBuf>,
    /// Settings of the brokers that are started for suites, beside their own; `KEY=VALUE`.
    pub settings: Vec<String>,
    /// Further arguments for `cargo test`.
    pub cargo: Vec<String>,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<Self> {
        let (ours, cargo) = match arguments.iter().position(|argument| argument == "--") {
            Some(at) => (&arguments[..at], arguments[at + 1..].to_vec()),
            None => (arguments, Vec::new()),
        };
        let mut options = Self {
            rust: false,
            fuzz: false,
            suites: Vec::new(),
            against: Against::Mainstem,
            binary: None,
            settings: Vec::new(),
            cargo,
        };
        let mut words = ours.iter().map(String::as_str).peekable();
        let mut chose = false;
        while let Some(word) = words.next() {
            match word {
                "--against" => options.against = against(words.next())?,
                "--binary" => options.binary = Some(binary(words.next())?),
                "--set" => options.settings.push(setting(words.next())?),
                "rust" => options.rust = true,
                "fuzz" => options.fuzz = true,
                "clients" => {
                    let named: Vec<_> =
                        std::iter::from_fn(|| words.next_if(|word| Suite::named(word).is_some())).collect();
                    options.suites = SUITES.iter().filter(|s| named.is_empty() || named.contains(&s.name)).collect();
                }
                other => {
                    let names: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
                    bail!("`{other}` is no suite: rust, fuzz, clients, or after `clients` one of {}", names.join(", "));
                }
            }
            chose |= !word.starts_with("--");
        }
        if !chose {
            (options.rust, options.fuzz, options.suites) = (true, true, SUITES.iter().collect());
        }
        options.suites.retain(|suite| options.against.allows(suite.brokers));
        Ok(options)
    }

    pub fn needs_binary(&self) -> bool {
        self.against == Against::Mainstem && self.binary.is_none() && !self.suites.is_empty()
    }
}

/// Suites start the binary from folders of their own, so its path has to be whole.
fn binary(word: Option<&str>) -> Result<PathBuf> {
    let path = word.context("--binary takes the path of a `mainstem` binary")?;
    std::fs::canonicalize(path).with_context(|| format!("--binary {path}: no such file"))
}

fn setting(word: Option<&str>) -> Result<String> {
    let setting = word.filter(|word| word.contains('=')).context("--set takes KEY=VALUE, a setting of the broker")?;
    Ok(setting.to_owned())
}

fn against(word: Option<&str>) -> Result<Against> {
    match word {
        Some("mainstem") => Ok(Against::Mainstem),
        Some("kafka") => Ok(Against::Kafka),
        Some(address) if address.contains(':') => Ok(Against::Running(address.to_owned())),
        _ => bail!("--against takes `mainstem`, `kafka`, or HOST:PORT"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn names(options: &Options) -> Vec<&str> {
        options.suites.iter().map(|suite| suite.name).collect()
    }

    #[test]
    fn no_argument_means_everything() {
        let options = parse("").unwrap();
        assert!(options.rust && options.fuzz);
        assert_eq!(options.suites.len(), SUITES.len());
    }

    #[test]
    fn suites_can_be_chosen() {
        let options = parse("clients java kcat --against 127.0.0.1:5").unwrap();
        assert_eq!((options.rust, options.fuzz, names(&options)), (false, false, vec!["java", "kcat"]));
        assert_eq!(options.against, Against::Running("127.0.0.1:5".into()));
        let options = parse("clients rust -- -p mainstem-store").unwrap();
        assert_eq!((options.rust, names(&options).len()), (true, SUITES.len()));
        assert_eq!(options.cargo, ["-p", "mainstem-store"]);
    }

    #[test]
    fn a_running_broker_is_never_killed_and_the_journey_needs_mainstem() {
        let kafka = parse("--against kafka clients").unwrap();
        assert_eq!((names(&kafka).contains(&"process"), names(&kafka).contains(&"journey")), (true, false));
        let running = parse("--against 127.0.0.1:5 clients").unwrap();
        assert_eq!((names(&running).contains(&"process"), names(&running).contains(&"journey")), (false, false));
    }

    #[test]
    fn a_ready_binary_is_not_built_again() {
        assert!(parse("clients kcat").unwrap().needs_binary());
        let ready = std::env::current_exe().unwrap();
        let options = parse(&format!("--binary {} clients kcat", ready.display())).unwrap();
        assert_eq!((options.needs_binary(), names(&options)), (false, vec!["kcat"]));
        assert!(parse("--binary /no/such/file clients").unwrap_err().to_string().contains("/no/such/file"));
    }

    #[test]
    fn settings_are_collected_in_their_order() {
        let options = parse("--set a=1 clients kcat --set b=").unwrap();
        assert_eq!((&options.settings[..], names(&options)), (&["a=1".to_owned(), "b=".to_owned()][..], vec!["kcat"]));
        assert!(parse("clients --set kcat").unwrap_err().to_string().contains("KEY=VALUE"));
    }

    #[test]
    fn an_unknown_word_is_refused() {
        assert!(parse("jva").unwrap_err().to_string().contains("`jva` is no suite"));
        assert!(parse("--against nothing").is_err());
    }
}

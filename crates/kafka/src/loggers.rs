//! The levels of the process's log, as clients see and change them: one logger for each crate, and `root`, from which
//! those without a level of their own take theirs.
//!
//! Levels last until the process ends, as in Kafka.

use std::collections::BTreeMap;

use mainstem_kafka_wire::ErrorCode;
use mainstem_metadata::controller::{AlterConfigOp, AlterConfigOperation};
use parking_lot::Mutex;

/// The logger that all others belong to.
pub const ROOT: &str = "root";
/// Kafka's names of levels. The broker has no fatal lines: `FATAL` silences a logger.
pub const LEVELS: [&str; 6] = ["DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN"];
/// Loggers that may get a level of their own, in all.
const OWN_LEVELS_MAX: usize = 1_000;

/// Takes levels over into the log of the process: every logger and the level that holds for it, `root` among them.
pub type Apply = Box<dyn Fn(&BTreeMap<String, &'static str>) + Send + Sync>;

/// The loggers of a process.
pub struct Loggers {
    /// Names that exist, and all below them (`name::…`).
    names: &'static [&'static str],
    /// What has a level of its own; `root` always.
    own: Mutex<BTreeMap<String, &'static str>>,
    apply: Apply,
}

/// Why a level is not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoggerError {
    #[error("Logger {0} does not exist!")]
    Unknown(String),
    #[error("Cannot set the log level of {logger} to {level} as it is not a supported log level. Valid log levels are {}", LEVELS.join(", "))]
    Level { logger: String, level: String },
    #[error("Removing the log level of the root logger is not allowed")]
    RootIsNeeded,
    #[error("{0} operation is not allowed for the BROKER_LOGGER resource")]
    Operation(&'static str),
    #[error("{OWN_LEVELS_MAX} loggers have levels of their own: remove some first")]
    TooMany,
}

impl LoggerError {
    pub fn code(&self) -> ErrorCode {
        match self {
            LoggerError::Unknown(_) | LoggerError::Level { .. } | LoggerError::TooMany => ErrorCode::INVALID_CONFIG,
            LoggerError::RootIsNeeded | LoggerError::Operation(_) => ErrorCode::INVALID_REQUEST,
        }
    }
}

impl Loggers {
    /// `own`: levels that the process began with. Without `root` that is `INFO`.
    pub fn new(names: &'static [&'static str], own: BTreeMap<String, &'static str>, apply: Apply) -> Loggers {
        let mut own = own;
        own.entry(ROOT.to_owned()).or_insert("INFO");
        Loggers { names, own: Mutex::new(own), apply }
    }

    /// Every logger with the level that holds for it.
    pub fn levels(&self) -> BTreeMap<String, &'static str> {
        self.all(&self.own.lock())
    }

    fn all(&self, own: &BTreeMap<String, &'static str>) -> BTreeMap<String, &'static str> {
        let named = self.names.iter().map(|name| ((*name).to_owned(), level_of(own, name)));
        named.chain(own.iter().map(|(name, level)| (name.clone(), *level))).collect()
    }

    /// All changes or none.
    pub fn change(&self, operations: &[AlterConfigOp], validate_only: bool) -> Result<(), LoggerError> {
        let mut own = self.own.lock();
        let mut changed = own.clone();
        for operation in operations {
            let name = operation.key.as_str();
            match operation.operation {
                AlterConfigOperation::Append => return Err(LoggerError::Operation("APPEND")),
                AlterConfigOperation::Subtract => return Err(LoggerError::Operation("SUBTRACT")),
                _ if !self.exists(name) => return Err(LoggerError::Unknown(name.to_owned())),
                AlterConfigOperation::Set => {
                    let level = operation.value.as_deref().unwrap_or("null");
                    let Some(known) = LEVELS.into_iter().find(|known| *known == level) else {
                        return Err(LoggerError::Level { logger: name.to_owned(), level: level.to_owned() });
                    };
                    changed.insert(name.to_owned(), known);
                }
                AlterConfigOperation::Delete if name == ROOT => return Err(LoggerError::RootIsNeeded),
                AlterConfigOperation::Delete => {
                    changed.remove(name);
                }
            }
        }
        if changed.len() > OWN_LEVELS_MAX {
            return Err(LoggerError::TooMany);
        }
        if !validate_only && changed != *own {
            (self.apply)(&self.all(&changed));
            *own = changed;
        }
        Ok(())
    }

    fn exists(&self, name: &str) -> bool {
        let is_below = |known: &&str| name.strip_prefix(*known).is_some_and(|rest| rest.starts_with("::"));
        name == ROOT || self.names.iter().any(|known| *known == name || is_below(known))
    }
}

/// The level of the longest name above, else the level of `root`.
fn level_of(own: &BTreeMap<String, &'static str>, name: &str) -> &'static str {
    let mut part = name;
    loop {
        if let Some(level) = own.get(part) {
            return level;
        }
        match part.rsplit_once("::") {
            Some((above, _)) => part = above,
            None => return own.get(ROOT).copied().unwrap_or("INFO"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn op(name: &str, operation: AlterConfigOperation, value: Option<&str>) -> AlterConfigOp {
        AlterConfigOp { key: name.to_owned(), operation, value: value.map(str::to_owned) }
    }

    fn set(name: &str, level: &str) -> AlterConfigOp {
        op(name, AlterConfigOperation::Set, Some(level))
    }

    fn delete(name: &str) -> AlterConfigOp {
        op(name, AlterConfigOperation::Delete, None)
    }

    fn loggers() -> (Loggers, Arc<Mutex<Vec<String>>>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        let apply = move |own: &BTreeMap<String, &'static str>| tell.lock().push(format!("{own:?}"));
        (Loggers::new(&["alpha", "beta"], BTreeMap::new(), Box::new(apply)), told)
    }

    #[test]
    fn a_logger_has_its_own_level_or_that_of_the_next_above() {
        let (loggers, told) = loggers();
        let level = |name: &str| loggers.levels().get(name).copied();
        assert_eq!((level("root"), level("alpha"), level("alpha::io")), (Some("INFO"), Some("INFO"), None));
        loggers.change(&[set("root", "WARN"), set("alpha::io", "TRACE")], false).unwrap();
        assert_eq!((level("root"), level("alpha"), level("alpha::io")), (Some("WARN"), Some("WARN"), Some("TRACE")));
        loggers.change(&[set("alpha", "DEBUG"), delete("alpha::io"), delete("beta")], false).unwrap();
        assert_eq!((level("alpha"), level("alpha::io"), level("beta")), (Some("DEBUG"), None, Some("WARN")));
        let told = told.lock();
        assert_eq!(told.last().map(String::as_str), Some(r#"{"alpha": "DEBUG", "beta": "WARN", "root": "WARN"}"#));
        assert_eq!(told.len(), 2);
    }

    #[test]
    fn a_wrong_change_changes_nothing() {
        let (loggers, told) = loggers();
        let before = loggers.levels();
        for (wrong, code) in [
            (set("gamma", "INFO"), ErrorCode::INVALID_CONFIG),
            (set("alphabet", "INFO"), ErrorCode::INVALID_CONFIG),
            (set("", "INFO"), ErrorCode::INVALID_CONFIG),
            (set("alpha", "info"), ErrorCode::INVALID_CONFIG),
            (set("alpha", "OFF"), ErrorCode::INVALID_CONFIG),
            (op("alpha", AlterConfigOperation::Set, None), ErrorCode::INVALID_CONFIG),
            (delete("root"), ErrorCode::INVALID_REQUEST),
            (delete("gamma"), ErrorCode::INVALID_CONFIG),
            (op("alpha", AlterConfigOperation::Append, Some("INFO")), ErrorCode::INVALID_REQUEST),
            (op("gamma", AlterConfigOperation::Subtract, Some("INFO")), ErrorCode::INVALID_REQUEST),
        ] {
            let error = loggers.change(&[set("beta", "TRACE"), wrong.clone()], false).unwrap_err();
            assert_eq!(error.code(), code, "{wrong:?}");
        }
        loggers.change(&[set("beta", "TRACE")], true).unwrap();
        let many: Vec<_> = (0..OWN_LEVELS_MAX).map(|number| set(&format!("alpha::{number}"), "INFO")).collect();
        assert_eq!(loggers.change(&many, false), Err(LoggerError::TooMany));
        assert_eq!(loggers.levels(), before);
        assert!(told.lock().is_empty());
    }
}

//! What is known of a copy when it is taken up again: a small JSON file, replaced as a whole.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// The form of the file; another one is refused.
const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyState {
    version: u32,
    pub source: Side,
    pub destination: Side,
    /// By index: all partitions of the source.
    pub partitions: Vec<PartitionState>,
}

/// One end of the copy. A topic that was created anew is another one, where brokers tell ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    pub cluster_id: Option<String>,
    pub topic: String,
    pub topic_id: Option<String>,
}

/// Every record of the source before `source_next` is in the destination before `destination_next`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionState {
    pub partition: i32,
    pub source_next: i64,
    pub destination_next: i64,
}

impl CopyState {
    pub fn new(source: Side, destination: Side, partitions: Vec<PartitionState>) -> Self {
        CopyState { version: VERSION, source, destination, partitions }
    }

    /// `None` when there is no file: nothing has been copied.
    pub fn load(path: &Path) -> anyhow::Result<Option<CopyState>> {
        let shown = path.display();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read the state file {shown}")),
        };
        let state: CopyState =
            serde_json::from_str(&text).with_context(|| format!("{shown} is not a state file of `mainstem cp`"))?;
        if state.version != VERSION {
            bail!("{shown} is a state file of version {}; this program needs version {VERSION}", state.version);
        }
        Ok(Some(state))
    }

    /// Whether it is of this very copy.
    pub fn check(&self, path: &Path, source: &Side, destination: &Side) -> anyhow::Result<()> {
        for (was, is, what) in [(&self.source, source, "source"), (&self.destination, destination, "destination")] {
            if was != is {
                bail!(
                    "{} is the state of another copy: its {what} was topic {} (id {}) of cluster {}, not {} (id {}) of \
                     {}; name another file with --state",
                    path.display(),
                    was.topic,
                    or_unknown(&was.topic_id),
                    or_unknown(&was.cluster_id),
                    is.topic,
                    or_unknown(&is.topic_id),
                    or_unknown(&is.cluster_id),
                );
            }
        }
        Ok(())
    }

    /// Replaces the file; a crash leaves the old one or the new one.
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        let replace = || {
            let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other)?;
            let beside = beside(path);
            let mut file = std::fs::File::create(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&beside, path)
        };
        replace().with_context(|| format!("cannot write the state file {}", path.display()))
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

fn or_unknown(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(topic: &str, id: &str) -> Side {
        Side { cluster_id: Some("c".to_owned()), topic: topic.to_owned(), topic_id: Some(id.to_owned()) }
    }

    #[test]
    fn a_state_comes_back_as_it_was_saved_and_is_that_of_one_copy_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("orders.json");
        assert_eq!(CopyState::load(&path).unwrap(), None);
        let partitions = vec![PartitionState { partition: 0, source_next: 7, destination_next: 5 }];
        let state = CopyState::new(side("a", "1"), side("b", "2"), partitions);
        state.save(&path).unwrap();
        state.save(&path).unwrap();
        assert_eq!(CopyState::load(&path).unwrap().as_ref(), Some(&state));
        state.check(&path, &side("a", "1"), &side("b", "2")).unwrap();
        let error = state.check(&path, &side("a", "9"), &side("b", "2")).unwrap_err().to_string();
        assert!(error.contains("source was topic a (id 1)") && error.contains("not a (id 9)"), "{error}");
    }

    #[test]
    fn another_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("orders.json");
        for text in ["{}", "nonsense"] {
            std::fs::write(&path, text).unwrap();
            assert!(
                CopyState::load(&path).unwrap_err().to_string().contains("is not a state file of `mainstem cp`"),
                "{text}"
            );
        }
    }
}

//! The file of profiles: names for clusters, so that their addresses need not be typed.
//!
//! ```toml
//! profile = "dev"                       # the one that counts when --profile does not say
//!
//! [profiles.dev]
//! bootstrap-server = "127.0.0.1:9092"
//!
//! [profiles.live]
//! bootstrap-server = "kafka-1:9092,kafka-2:9092"
//! timeout = "10s"
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Deserialize;

/// Names another file.
pub const FILE_VARIABLE: &str = "MAINSTEM_CONFIG";

/// What a profile says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Profile {
    pub bootstrap_server: Option<String>,
    pub timeout: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    profile: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

/// The profile of that name, or else the one that the file says counts, or else none. `where_from` is for messages.
pub struct Chosen {
    pub profile: Profile,
    pub where_from: String,
}

/// Finds a profile. Without a name it need not be there, nor the file.
pub fn find(name: Option<&str>) -> anyhow::Result<Option<Chosen>> {
    let named = std::env::var_os(FILE_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let Some(path) = named.clone().or_else(usual_path) else {
        return match name {
            Some(name) => bail!(
                "profile {name} cannot be found: neither {FILE_VARIABLE} nor HOME is set, so the file of profiles is unknown"
            ),
            None => Ok(None),
        };
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() && name.is_none() => {
            return Ok(None);
        }
        Err(error) => {
            let why = name.map_or_else(|| format!("named by {FILE_VARIABLE}"), |name| format!("for --profile {name}"));
            return Err(error).with_context(|| format!("cannot read {} ({why})", path.display()));
        }
    };
    choose(&text, &path, name)
}

fn usual_path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(folder.join("mainstem").join("config.toml"))
}

fn choose(text: &str, path: &Path, name: Option<&str>) -> anyhow::Result<Option<Chosen>> {
    let file: File =
        toml::from_str(text).with_context(|| format!("{} is not a valid file of profiles", path.display()))?;
    let Some(name) = name.or(file.profile.as_deref()) else { return Ok(None) };
    let Some(profile) = file.profiles.get(name) else {
        let known: Vec<_> = file.profiles.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        bail!("{} has no profile {name}; it has: {known}", path.display());
    };
    let where_from = format!("profile {name} of {}", path.display());
    Ok(Some(Chosen { profile: profile.clone(), where_from }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "profile = \"dev\"\n[profiles.dev]\nbootstrap-server = \"a:1\"\n[profiles.live]\ntimeout = \"9s\"\n";

    fn chosen(text: &str, name: Option<&str>) -> anyhow::Result<Option<Profile>> {
        Ok(choose(text, Path::new("config.toml"), name)?.map(|chosen| chosen.profile))
    }

    #[test]
    fn the_named_profile_counts_and_else_the_one_the_file_names() {
        let dev = chosen(TEXT, None).unwrap().unwrap();
        assert_eq!(dev.bootstrap_server.as_deref(), Some("a:1"));
        assert_eq!(chosen(TEXT, Some("live")).unwrap().unwrap().timeout.as_deref(), Some("9s"));
        assert_eq!(chosen("[profiles.x]\n", None).unwrap(), None);
    }

    #[test]
    fn what_is_wrong_is_named_with_the_file() {
        let error = |text, name| format!("{:#}", chosen(text, name).unwrap_err());
        assert_eq!(error(TEXT, Some("love")), "config.toml has no profile love; it has: dev, live");
        let unknown = error("[profiles.dev]\nbootstrap = \"a:1\"\n", None);
        assert!(
            unknown.starts_with("config.toml is not a valid file of profiles") && unknown.contains("bootstrap"),
            "{unknown}"
        );
    }
}

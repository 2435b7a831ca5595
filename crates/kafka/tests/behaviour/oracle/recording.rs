//! Recorded answers: one file a script, two lines a step.
//!
//! ```text
//! > <step> v<version> <request body in hex> | large
//! < <response frame without its length in hex> | nothing | closed
//! ```
//! The request is there to notice that the script was changed and its recording was not; one of more than
//! [`REQUEST_BYTES_MAX`] is left out.

use std::fmt::Write;
use std::path::PathBuf;

use crate::support::RequestOutcome;

/// Longer requests are not recorded.
const REQUEST_BYTES_MAX: usize = 4_096;

#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub name: String,
    pub version: i16,
    /// Nothing when it is too large to be recorded.
    pub request: Option<Vec<u8>>,
    pub outcome: RequestOutcome<Vec<u8>>,
}

impl Step {
    pub fn new(name: String, version: i16, request: Vec<u8>, outcome: RequestOutcome<Vec<u8>>) -> Step {
        Step { name, version, request: Some(request).filter(|request| request.len() <= REQUEST_BYTES_MAX), outcome }
    }
}

fn path(script: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/recordings").join(format!("{script}.txt"))
}

pub fn load(script: &str) -> Vec<Step> {
    let path = path(script);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.chunks(2).map(|pair| parse(pair).unwrap_or_else(|| panic!("{}: {pair:?}", path.display()))).collect()
}

pub fn save(script: &str, steps: &[Step]) {
    let mut text = format!("# Answers of a real Kafka to `{script}`; made by tests/oracle/record.sh\n");
    for step in steps {
        let outcome = match &step.outcome {
            RequestOutcome::Answer(frame) => to_hex(frame),
            RequestOutcome::Nothing => "nothing".to_owned(),
            RequestOutcome::Closed => "closed".to_owned(),
        };
        let request = step.request.as_deref().map_or("large".to_owned(), to_hex);
        writeln!(text, "> {} v{} {request}\n< {outcome}", step.name, step.version).unwrap();
    }
    let path = path(script);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn parse(pair: &[&str]) -> Option<Step> {
    let [head, tail] = pair else { return None };
    let (head, tail) = (head.strip_prefix("> ")?, tail.strip_prefix("< ")?);
    let (head, request) = head.rsplit_once(' ')?;
    let (name, version) = head.rsplit_once(" v")?;
    let outcome = match tail {
        "nothing" => RequestOutcome::Nothing,
        "closed" => RequestOutcome::Closed,
        hex => RequestOutcome::Answer(from_hex(hex)?),
    };
    let request = if request == "large" { None } else { Some(from_hex(request)?) };
    Some(Step { name: name.to_owned(), version: version.parse().ok()?, request, outcome })
}

fn to_hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".to_owned();
    }
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text == "-" {
        return Some(Vec::new());
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

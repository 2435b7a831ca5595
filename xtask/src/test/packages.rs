//! The programs that the tests call. Debian's packages of missing ones are installed as root, else named in one line.

use super::options::Options;
use super::suites::Need;
use anyhow::{Result, bail};
use std::process::{Command, Stdio};

/// A command that succeeds when the program is there, and where it comes from.
struct Program {
    check: &'static [&'static str],
    package: &'static str,
}

const PYTHON: Program = Program { check: &["python3", "-c", "import ensurepip, venv"], package: "python3-venv" };
const KCAT: Program = Program { check: &["kcat", "-V"], package: "kcat" };
const NODE: Program = Program { check: &["node", "--version"], package: "nodejs" };
const NPM: Program = Program { check: &["npm", "--version"], package: "npm" };
const GO: Program = Program { check: &["go", "version"], package: "golang-go" };
const JAVA: Program = Program { check: &["javac", "-version"], package: "openjdk-17-jdk-headless" };
const MAVEN: Program = Program { check: &["mvn", "-version"], package: "maven" };
const COMPILER: Program = Program { check: &["c++", "--version"], package: "g++" };

/// Makes sure that everything the chosen suites call is there.
pub fn ensure(options: &Options) -> Result<()> {
    let missing: Vec<&str> = wanted(options).into_iter().filter(|p| !is_there(p.check)).map(|p| p.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !crate::command::output(".".as_ref(), "id", &["-u"]).is_ok_and(|id| id.trim() == "0") {
        bail!("these Debian packages are missing: {}; run `sudo apt-get install {0}`", missing.join(" "));
    }
    println!("installing {}", missing.join(" "));
    crate::command::output(".".as_ref(), "apt-get", &["update", "-q"])?;
    let arguments: Vec<&str> = ["install", "-q", "-y", "--no-install-recommends"].into_iter().chain(missing).collect();
    crate::command::output(".".as_ref(), "apt-get", &arguments)?;
    Ok(())
}

fn wanted(options: &Options) -> Vec<Program> {
    let needs = |need| options.suites.iter().any(|suite| suite.needs.contains(&need));
    let mut wanted = Vec::new();
    if needs(Need::Venv) {
        wanted.push(PYTHON);
    }
    if options.suites.iter().any(|suite| suite.name == "kcat") {
        wanted.push(KCAT);
    }
    if needs(Need::Node) {
        wanted.extend([NODE, NPM]);
    }
    if needs(Need::Go) {
        wanted.push(GO);
    }
    if needs(Need::Java) || needs(Need::KafkaJars) {
        wanted.extend([JAVA, MAVEN]);
    }
    if options.fuzz {
        wanted.push(COMPILER);
    }
    wanted
}

fn is_there(check: &[&str]) -> bool {
    let mut command = Command::new(check[0]);
    command.args(&check[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

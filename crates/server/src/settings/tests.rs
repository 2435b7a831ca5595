use super::*;

const KEYS: [&str; 4] = ["log.dirs", "num.io.threads", "listeners", "mainstem.durability"];

fn collect(arguments: Arguments, environment: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::collect(&arguments, environment, KEYS)
}

fn entries(parsed: Result<Vec<Entry>, FileError>) -> Vec<(String, String, usize)> {
    let mut entries: Vec<_> = parsed.unwrap().into_iter().map(|entry| (entry.key, entry.value, entry.line)).collect();
    entries.sort_by_key(|entry| entry.2);
    entries
}

fn expect(expected: &[(&str, &str, usize)]) -> Vec<(String, String, usize)> {
    expected.iter().map(|(key, value, line)| ((*key).to_owned(), (*value).to_owned(), *line)).collect()
}

#[test]
fn toml_keys_are_flat_quoted_dotted_or_tables() {
    let text = "node.id = 7\n\"log.segment.bytes\" = 0x1_000\nlisteners = [\"A://h:1\", \"B://[::1]:2\"]\n\n[log.retention]\nhours = -1\nx.y = 'text'\n[log]\ncleaner.ratio = 0.5\npreallocate = true\n";
    let expected = [
        ("node.id", "7", 1),
        ("log.segment.bytes", "4096", 2),
        ("listeners", "A://h:1,B://[::1]:2", 3),
        ("log.retention.hours", "-1", 6),
        ("log.retention.x.y", "text", 7),
        ("log.cleaner.ratio", "0.5", 9),
        ("log.preallocate", "true", 10),
    ];
    assert_eq!(entries(toml_file::parse(text)), expect(&expected));
}

#[test]
fn errors_in_toml_name_the_line() {
    let line_of = |text: &str| match toml_file::parse(text).unwrap_err() {
        FileError::Syntax { line, .. } => line,
        FileError::Twice { .. } => panic!("twice"),
    };
    assert_eq!(line_of("a = 1\nb = \n"), 2);
    assert_eq!(line_of("a = 1\n\nb = 1979-05-27\n"), 3);
    assert_eq!(line_of("a = [1,\n [2]]\n"), 1);
    assert_eq!(line_of("a = 99999999999999999999\n"), 1);
    let twice = toml_file::parse("a.b = 1\nc = 2\n\"a.b\" = 3\n").unwrap_err();
    assert_eq!(twice, FileError::Twice { key: "a.b".to_owned(), line: 3, first: 1 });
}

#[test]
fn properties_are_read_as_java_reads_them() {
    let text = "# comment\n! comment\n\nnode.id=1\n  log.dirs = /var/data  \nlisteners:PLAINTEXT://h:1,\\\n   B://h:2\nempty=\nblank value\nkey\\ with\\=signs=a\\tb\\u0041\npath=C:\\\\\nlast";
    let expected = [
        ("node.id", "1", 4),
        ("log.dirs", "/var/data", 5),
        ("listeners", "PLAINTEXT://h:1,B://h:2", 6),
        ("empty", "", 8),
        ("blank", "value", 9),
        ("key with=signs", "a\tbA", 10),
        ("path", "C:\\", 11),
        ("last", "", 12),
    ];
    assert_eq!(entries(properties_file::parse(text)), expect(&expected));
    assert!(matches!(properties_file::parse("a=1\nb=\\u12"), Err(FileError::Syntax { line: 2, .. })));
}

#[test]
fn the_command_line_beats_the_environment_and_that_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.toml");
    std::fs::write(&path, "\"log.dirs\" = \"file\"\n\"num.io.threads\" = 1\n\"mainstem.durability\" = \"os\"\n")
        .unwrap();
    let arguments = Arguments {
        config: Some(path.clone()),
        data_dir: Some("line".to_owned()),
        listen: Some("[::1]:9".to_owned()),
        set: vec!["log.dirs=set".to_owned(), "x.y = 1=2".to_owned()],
    };
    let environment = [
        ("MAINSTEM_LOG_DIRS", "variable"),
        ("MAINSTEM_NUM_IO_THREADS", "2"),
        ("PATH", "/bin"),
        ("MAINSTEM_LOG", "debug"),
    ];
    let settings = collect(arguments, &environment).unwrap();
    let value = |key: &str| settings.get(key).map(|setting| (setting.value.as_str(), setting.source.to_string()));
    assert_eq!(value("log.dirs"), Some(("line", "command line, --data-dir".to_owned())));
    assert_eq!(value("num.io.threads"), Some(("2", "environment variable MAINSTEM_NUM_IO_THREADS".to_owned())));
    assert_eq!(value("mainstem.durability"), Some(("os", format!("{} line 3", path.display()))));
    assert_eq!(value("listeners"), Some(("PLAINTEXT://[::1]:9", "command line, --listen".to_owned())));
    assert_eq!(value("x.y"), Some(("1=2", "command line, --set".to_owned())));
    assert_eq!(settings.properties().len(), 5);
}

#[test]
fn variables_that_name_no_setting_are_refused_save_for_those_of_kubernetes() {
    let links = [
        ("MAINSTEM_SERVICE_HOST", "10.0.0.1"),
        ("MAINSTEM_PORT", "tcp://10.0.0.1:9092"),
        ("MAINSTEM_PORT_9092_TCP", "x"),
    ];
    assert_eq!(collect(Arguments::default(), &links).unwrap(), Settings::default());
    let short = collect(Arguments::default(), &[("MAINSTEM_DURABILITY", "disk")]).unwrap();
    let long = collect(Arguments::default(), &[("MAINSTEM_MAINSTEM_DURABILITY", "disk")]).unwrap();
    assert_eq!(short.properties(), long.properties());
    let error = collect(Arguments::default(), &[("MAINSTEM_LOG_DIR_S", "x")]).unwrap_err();
    assert!(error.to_string().starts_with("MAINSTEM_LOG_DIR_S "), "{error}");
}

#[test]
fn what_is_wrong_with_arguments_is_said() {
    let set = collect(Arguments { set: vec!["novalue".to_owned()], ..Arguments::default() }, &[]).unwrap_err();
    assert_eq!(set.to_string(), "--set novalue: it must be --set key=value");
    let kind = collect(Arguments { config: Some("a.yaml".into()), ..Arguments::default() }, &[]).unwrap_err();
    assert!(matches!(kind, SettingsError::Read { .. }));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.properties");
    std::fs::write(&path, "a=1\na=2\n").unwrap();
    let settings = collect(Arguments { config: Some(path), ..Arguments::default() }, &[]).unwrap();
    assert_eq!(settings.get("a").unwrap().value, "2");
}

#[test]
fn a_refusal_says_where_the_value_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.toml");
    std::fs::write(&path, "\n\"num.partitions\" = 0\n").unwrap();
    let settings = collect(Arguments { config: Some(path.clone()), ..Arguments::default() }, &[]).unwrap();
    let message = read_config(&settings).unwrap_err().to_string();
    let place = format!("({} line 2)", path.display());
    assert!(message.contains("num.partitions") && message.ends_with(&place), "{message}");
    let settings =
        collect(Arguments { set: vec!["log.segment.byte=1".to_owned()], ..Arguments::default() }, &[]).unwrap();
    let message = read_config(&settings).unwrap_err().to_string();
    assert!(message.contains("log.segment.byte") && message.ends_with("(command line, --set)"), "{message}");
}

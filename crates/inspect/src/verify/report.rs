//! The findings of a check, reported while it runs.

use std::path::Path;

use mainstem_types::TopicPartition;

use crate::line::Line;

/// What a check tells while it works.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// Something was found.
    Found(&'a Line),
    /// So many bytes were looked at.
    Read(u64),
}

/// Takes what a check tells.
pub type Sink<'a> = dyn FnMut(Event<'_>) + 'a;

/// What a check saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    pub partitions: u64,
    pub files: u64,
    pub batches: u64,
    pub bytes: u64,
    /// Things that are not as they should be.
    pub findings: u64,
    /// Things that a start of the broker sets right without a loss, or that somebody may want to know.
    pub notes: u64,
}

pub(super) struct Report<'a, 'b> {
    sink: &'a mut Sink<'b>,
    pub(super) summary: Summary,
    /// Of batches.
    read: u64,
}

/// What a line is about.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct About<'a> {
    pub(super) partition: Option<&'a TopicPartition>,
    pub(super) path: Option<&'a Path>,
    /// First and last offset.
    pub(super) offsets: Option<(i64, i64)>,
}

impl<'a> About<'a> {
    pub(super) fn file(path: &'a Path) -> Self {
        About { path: Some(path), ..About::default() }
    }

    pub(super) fn partition(partition: &'a TopicPartition) -> Self {
        About { partition: Some(partition), ..About::default() }
    }

    pub(super) fn at(self, path: &'a Path) -> Self {
        About { path: Some(path), ..self }
    }

    pub(super) fn offsets(self, first: i64, last: i64) -> Self {
        About { offsets: Some((first, last)), ..self }
    }
}

impl<'a, 'b> Report<'a, 'b> {
    pub(super) fn new(sink: &'a mut Sink<'b>) -> Self {
        Report { sink, summary: Summary::default(), read: 0 }
    }

    /// A batch was looked at.
    pub(super) fn batch(&mut self, bytes: usize) {
        self.summary.batches += 1;
        self.read += bytes as u64;
        (self.sink)(Event::Read(self.read));
    }

    /// Something that is not as it should be. `problem` is a word for programs, `detail` a sentence for people.
    pub(super) fn finding(&mut self, problem: &'static str, about: About<'_>, detail: impl Into<String>) {
        self.summary.findings += 1;
        self.say("finding", problem, about, detail.into());
    }

    /// Something that costs nothing: a start of the broker sets it right, or it is as somebody left it.
    pub(super) fn note(&mut self, problem: &'static str, about: About<'_>, detail: impl Into<String>) {
        self.summary.notes += 1;
        self.say("note", problem, about, detail.into());
    }

    fn say(&mut self, kind: &'static str, problem: &'static str, about: About<'_>, detail: String) {
        let line = Line::new(kind).with("problem", problem);
        let line = line.with_some("topic", about.partition.map(|partition| partition.topic.to_string()));
        let line = line.with_some("partition", about.partition.map(|partition| partition.partition.0));
        let line = line.with_some("first_offset", about.offsets.map(|(first, _)| first));
        let line = line.with_some("last_offset", about.offsets.map(|(_, last)| last));
        let line = line.with_some("path", about.path.map(|path| path.display().to_string()));
        (self.sink)(Event::Found(&line.with("detail", detail)));
    }
}

//! The event whose lines are just coming in: whether it is wanted, and if so its name and data.

use memchr::memchr;

use super::{Event, Interest, Sink};

/// The most data of one event that is collected; larger ones are passed over and counted.
pub const DATA_MAX: usize = 256 * 1024;
/// The longest `type` that is looked for at the beginning of data.
const KIND_MAX: usize = 128;
/// The name by which the standard calls an event that has none.
const DEFAULT_NAME: &[u8] = b"message";

/// What is known of the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing.
    #[default]
    Open,
    /// Data that does not say what it is, and no name so far: collected, since a name may follow.
    Nameless,
    /// Wanted; data is collected.
    Wanted,
    /// Its lines are shown, and not collected.
    Glanced,
    /// Not wanted; data is passed over.
    Unwanted,
    /// Data was passed over because there was too much of it.
    Lost,
}

/// The event whose lines are just coming in.
#[derive(Debug, Default)]
pub(super) struct Pending {
    stage: Stage,
    has_data: bool,
    name: Vec<u8>,
    data: Vec<u8>,
    oversized: u64,
}

impl Pending {
    /// An `event:` line. An empty or default name is none.
    #[inline]
    pub(super) fn name(&mut self, name: &[u8], sink: &impl Sink) {
        if name.is_empty() || name == DEFAULT_NAME {
            return;
        }
        match sink.wants(name) {
            Interest::Skip => self.turn_to(Stage::Unwanted),
            Interest::Glance => self.turn_to(Stage::Glanced),
            Interest::Take => self.want(name),
        }
    }

    fn turn_to(&mut self, stage: Stage) {
        if self.stage != Stage::Lost {
            self.stage = stage;
        }
    }

    /// A `data:` line.
    #[inline]
    pub(super) fn data(&mut self, line: &[u8], sink: &mut impl Sink) {
        if self.stage == Stage::Open {
            self.classify(line, sink);
        }
        match self.stage {
            Stage::Unwanted | Stage::Lost => {}
            Stage::Glanced => sink.line(line),
            Stage::Open | Stage::Nameless | Stage::Wanted => self.collect(line),
        }
        self.has_data = true;
    }

    /// Whether a `data:` line that begins so need not be kept.
    pub(super) fn passes_over(&mut self, begun: &[u8], sink: &impl Sink) -> bool {
        if self.stage == Stage::Open && kind_of(begun).is_some() {
            self.classify(begun, sink);
        }
        let passes = matches!(self.stage, Stage::Unwanted | Stage::Lost);
        self.has_data |= passes;
        passes
    }

    /// A line of it was too long to be kept.
    #[cold]
    pub(super) fn lose(&mut self) {
        self.data = Vec::new();
        self.has_data = true;
        self.stage = Stage::Lost;
        self.oversized += 1;
    }

    /// The event is complete: the sink is told if it wants it. Without any data it is no event.
    #[inline]
    pub(super) fn dispatch(&mut self, end: usize, sink: &mut impl Sink) {
        match self.stage {
            Stage::Open | Stage::Unwanted | Stage::Glanced | Stage::Lost => {}
            Stage::Nameless => self.dispatch_nameless(end, sink),
            Stage::Wanted => self.tell(&self.name, end, sink),
        }
        self.stage = Stage::Open;
        self.has_data = false;
        self.name.clear();
        self.data.clear();
    }

    pub(super) fn oversized(&self) -> u64 {
        self.oversized
    }

    fn want(&mut self, name: &[u8]) {
        let dropped = self.has_data && matches!(self.stage, Stage::Unwanted | Stage::Glanced | Stage::Lost);
        if !dropped {
            self.stage = Stage::Wanted;
            self.name.clear();
            self.name.extend_from_slice(name);
        }
    }

    fn classify(&mut self, data: &[u8], sink: &impl Sink) {
        match kind_of(data) {
            None => self.stage = Stage::Nameless,
            Some(kind) => match sink.wants(kind) {
                Interest::Take => self.want(kind),
                Interest::Glance => self.stage = Stage::Glanced,
                Interest::Skip => self.stage = Stage::Unwanted,
            },
        }
    }

    fn collect(&mut self, line: &[u8]) {
        if self.data.len() + line.len() >= DATA_MAX {
            return self.lose();
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(line);
    }

    fn dispatch_nameless(&self, end: usize, sink: &mut impl Sink) {
        let name = kind_of(&self.data).unwrap_or_default();
        if sink.wants(name) == Interest::Take {
            self.tell(name, end, sink);
        }
    }

    fn tell(&self, name: &[u8], end: usize, sink: &mut impl Sink) {
        if self.has_data {
            sink.event(Event { name: std::str::from_utf8(name).unwrap_or_default(), data: &self.data, end });
        }
    }
}

/// The `type` of a JSON object that begins with it.
fn kind_of(data: &[u8]) -> Option<&[u8]> {
    let rest = token(data, b"{")?;
    let rest = token(rest, b"\"type\"")?;
    let rest = token(rest, b":")?;
    let rest = token(rest, b"\"")?;
    let kind = &rest[..memchr(b'"', &rest[..rest.len().min(KIND_MAX)])?];
    (!kind.contains(&b'\\')).then_some(kind)
}

fn token<'a>(text: &'a [u8], token: &[u8]) -> Option<&'a [u8]> {
    text.trim_ascii_start().strip_prefix(token)
}

//! Reading the daemon's stream of events.

use crate::admin::EventView;
use serde_json::Value;

/// One piece of the stream.
#[derive(Debug)]
pub(super) enum Frame {
    /// An event.
    Event(Box<EventView>),
    /// Some before the next are missing; why.
    Gap(String),
}

/// A stream that is read piece by piece.
pub(super) struct Frames {
    answer: reqwest::Response,
    text: Vec<u8>,
}

impl Frames {
    pub(super) fn of(answer: reqwest::Response) -> Self {
        Self { answer, text: Vec::new() }
    }

    /// The next piece; none when the stream has ended or broken.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        loop {
            while let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.text.drain(..end + 2).collect();
                if let Some(frame) = frame(&String::from_utf8_lossy(&block)) {
                    return Some(frame);
                }
            }
            self.text.extend_from_slice(&self.answer.chunk().await.ok()??);
        }
    }
}

/// What a block says; comments say nothing.
fn frame(block: &str) -> Option<Frame> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    let data = field("data: ")?;
    if field("event: ") == Some("gap") {
        let why = serde_json::from_str::<Value>(data).ok()?["why"].as_str()?.to_owned();
        return Some(Frame::Gap(why));
    }
    serde_json::from_str(data).ok().map(|event| Frame::Event(Box::new(event)))
}

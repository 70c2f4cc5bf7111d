//! Streams of many small frames, one at a time on one connection: the time to the first frame, and whether anything
//! waits for the 40 ms timer of delayed acknowledgements, which a leg that gathers small packets would show.

use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use serde::{Deserialize, Serialize};

use super::reader::{Piece, Reader};
use super::{Plan, request};
use crate::script::Script;
use crate::{clock, net};

/// How many frames a burst has.
const BURST: u64 = 55;

/// Between two pairs: longer than the timer, so that pairs do not hide each other.
const BEAT: Duration = Duration::from_millis(60);

/// What to ask.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Stalls {
    /// How many streams written as fast as they are taken.
    pub(crate) bursts: u64,
    /// How many pairs of frames in one paced stream: the second of a pair comes while the first is not acknowledged.
    pub(crate) pairs: u64,
}

/// What was seen, in microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stalled {
    /// From a request to the first piece of its answer.
    pub(crate) first: Vec<f64>,
    /// From a request to the end of its answer, for bursts.
    pub(crate) whole: Vec<f64>,
    /// From the writing of a frame to its reading, for the paced stream.
    pub(crate) delay: Vec<f64>,
    /// The first thing that was lost or changed, which ends the work.
    pub(crate) wrong: Option<String>,
}

impl Stalls {
    pub(crate) async fn run(&self, plan: &Plan) -> Result<Stalled> {
        let mut sender = net::connect(plan.target).await?;
        let mut stalled = Stalled::default();
        stalled.wrong = self.read_all(plan, &mut sender, &mut stalled).await.err().map(|error| format!("{error:#}"));
        Ok(stalled)
    }

    async fn read_all(&self, plan: &Plan, sender: &mut Sender, stalled: &mut Stalled) -> Result<()> {
        for seed in 0..self.bursts {
            let script = Script { seed, frames: BURST, interval: Duration::ZERO, per_beat: 1 };
            let began = clock::now();
            let stream = read(sender, plan, script).await?;
            stalled.first.push(micros(stream.first - began));
            stalled.whole.push(micros(clock::now() - began));
        }
        let paced = Script { seed: self.bursts, frames: self.pairs * 2, interval: BEAT, per_beat: 2 };
        stalled.delay = read(sender, plan, paced).await?.delays;
        Ok(())
    }
}

type Sender = SendRequest<Full<Bytes>>;

struct Stream {
    first: u64,
    delays: Vec<f64>,
}

async fn read(sender: &mut Sender, plan: &Plan, script: Script) -> Result<Stream> {
    sender.ready().await?;
    let request = request::post(&plan.target.to_string(), 0, script.request())?;
    let response = sender.send_request(request).await?;
    ensure!(response.status() == 200, "status {}", response.status());
    let mut body = response.into_body();
    let mut reader = Reader::new(script);
    let mut stream = Stream { first: 0, delays: Vec::new() };
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        let Some(bytes) = frame.data_ref() else { continue };
        reader.take(bytes, |piece| stream.arrived(piece)).map_err(|how| anyhow!("a stream was changed: {how}"))?;
    }
    ensure!(reader.missing() == 0, "a stream ended {} pieces early", reader.missing());
    Ok(stream)
}

impl Stream {
    fn arrived(&mut self, piece: Piece) {
        match piece {
            Piece::Opening => self.first = clock::now(),
            Piece::Delta { written, read } => self.delays.push(micros(read.saturating_sub(written))),
            Piece::Closing => {}
        }
    }
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

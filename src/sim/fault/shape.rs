//! What happens to an answer on its way: lateness, cuts, stalls, other framing, compression, other packets.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::Fault;
use super::canned::error_text;
use crate::sim::answer::{Answer, Break, Step};
use crate::sim::reply::{error_event, ping};

type Pass = fn(Answer, &Fault) -> Answer;

/// The answer after all this happened to it. Events are counted before the body is compressed or cut into packets.
pub(in crate::sim) fn shaped(answer: Answer, faults: &[Fault]) -> Answer {
    const PASSES: [Pass; 5] = [more, broken_off, reframed, encoded, in_packets];
    PASSES.iter().fold(answer, |answer, pass| faults.iter().fold(answer, pass))
}

/// Lateness, and events that the model did not send.
fn more(mut answer: Answer, fault: &Fault) -> Answer {
    if let Fault::DelayHead { millis } = fault {
        return answer.after(Duration::from_millis(*millis));
    }
    if let (Fault::Pings { count, every_millis }, None) = (fault, answer.length) {
        add_pings(&mut answer.steps, *count, Duration::from_millis(*every_millis));
    }
    if let Fault::SlowTrickle { millis } = fault {
        trickle(&mut answer.steps, Duration::from_millis(*millis));
    }
    answer
}

/// An end before the end.
fn broken_off(mut answer: Answer, fault: &Fault) -> Answer {
    if let Fault::CutAfter { events } = fault {
        cut(&mut answer.steps, *events, Step::Break(Break::Close));
    }
    if let Fault::ResetAfter { events } = fault {
        cut(&mut answer.steps, *events, Step::Break(Break::Reset));
    }
    if let Fault::StallAfter { events } = fault {
        cut(&mut answer.steps, *events, Step::Stall);
    }
    if let (Fault::ErrorEventAfter { events, kind }, None) = (fault, answer.length) {
        cut(&mut answer.steps, *events, Step::Send(error_event(kind, error_text(kind))));
    }
    answer
}

fn reframed(mut answer: Answer, fault: &Fault) -> Answer {
    if *fault == Fault::OddFraming && answer.length.is_none() {
        reframe(&mut answer.steps);
    }
    answer
}

fn encoded(answer: Answer, fault: &Fault) -> Answer {
    if *fault == Fault::Gzip {
        return gzipped(answer);
    }
    if *fault == Fault::FalseGzip {
        return answer.with("content-encoding", "gzip");
    }
    answer
}

fn in_packets(mut answer: Answer, fault: &Fault) -> Answer {
    if let Fault::Split { sizes, pause_millis } = fault {
        split(&mut answer.steps, sizes, Duration::from_millis(*pause_millis));
    }
    answer
}

/// The place after so many events.
fn after_events(steps: &[Step], events: usize) -> usize {
    let sends = steps.iter().enumerate().filter(|(_, step)| matches!(step, Step::Send(_)));
    events.checked_sub(1).map_or(0, |last| sends.map(|(at, _)| at + 1).nth(last).unwrap_or(steps.len()))
}

fn cut(steps: &mut Vec<Step>, events: usize, end: Step) {
    steps.truncate(after_events(steps, events));
    steps.push(end);
}

fn add_pings(steps: &mut Vec<Step>, count: usize, every: Duration) {
    let at = after_events(steps, 1);
    let pings = (0..count).flat_map(|_| [Step::Wait(every), Step::Send(ping())]);
    steps.splice(at..at, pings.collect::<Vec<_>>());
}

fn trickle(steps: &mut Vec<Step>, pause: Duration) {
    let slow = |step: Step| match step {
        Step::Send(bytes) => vec![Step::Wait(pause), Step::Send(bytes)],
        Step::Wait(_) | Step::Stall | Step::Break(_) => vec![step],
    };
    *steps = std::mem::take(steps).into_iter().flat_map(slow).collect();
}

/// Bytes between two waits or ends are cut anew; what comes of them keeps its place.
fn split(steps: &mut Vec<Step>, sizes: &[usize], pause: Duration) {
    let mut sizes = sizes.iter().copied().filter(|size| *size > 0).cycle();
    let mut pieces = Vec::new();
    let mut waiting = Vec::new();
    for step in std::mem::take(steps) {
        match step {
            Step::Send(bytes) => waiting.extend_from_slice(&bytes),
            Step::Wait(_) | Step::Stall | Step::Break(_) => {
                cut_up(std::mem::take(&mut waiting), &mut sizes, pause, &mut pieces);
                pieces.push(step);
            }
        }
    }
    cut_up(waiting, &mut sizes, pause, &mut pieces);
    *steps = pieces;
}

fn cut_up(bytes: Vec<u8>, sizes: &mut impl Iterator<Item = usize>, pause: Duration, pieces: &mut Vec<Step>) {
    let mut bytes = Bytes::from(bytes);
    while !bytes.is_empty() {
        let size = sizes.next().unwrap_or(bytes.len()).min(bytes.len());
        if !pause.is_zero() {
            pieces.push(Step::Wait(pause));
        }
        pieces.push(Step::Send(bytes.split_to(size)));
    }
}

fn gzipped(mut answer: Answer) -> Answer {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let broken = answer.steps.iter().any(|step| matches!(step, Step::Stall | Step::Break(_)));
    for step in &mut answer.steps {
        if let Step::Send(bytes) = step {
            let written = encoder.write_all(bytes).and_then(|()| encoder.flush());
            written.expect("writing to memory does not fail");
            *bytes = Bytes::from(std::mem::take(encoder.get_mut()));
        }
    }
    let tail = encoder.finish().expect("writing to memory does not fail");
    if !broken {
        answer.steps.push(Step::Send(Bytes::from(tail)));
    }
    answer.length = answer.length.map(|_| sent_bytes(&answer.steps));
    answer.with("content-encoding", "gzip")
}

fn sent_bytes(steps: &[Step]) -> usize {
    steps.iter().map(|step| if let Step::Send(bytes) = step { bytes.len() } else { 0 }).sum()
}

fn reframe(steps: &mut [Step]) {
    let mut first = true;
    for step in steps.iter_mut() {
        if let Step::Send(bytes) = step {
            let text = tight(&String::from_utf8_lossy(bytes)).replace('\n', "\r\n");
            let mark = if first { "\u{feff}" } else { "" };
            *bytes = Bytes::from(format!("{mark}: keep-alive\r\n\r\n{text}"));
            first = false;
        }
    }
}

/// Without the space after the field name.
fn tight(frame: &str) -> String {
    frame.replacen("event: ", "event:", 1).replacen("\ndata: ", "\ndata:", 1)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn stream(events: &[&'static str]) -> Answer {
        Answer::stream(events.iter().map(|event| Step::Send(Bytes::from_static(event.as_bytes()))).collect())
    }

    fn sent(answer: &Answer) -> Vec<Bytes> {
        let sends = answer
            .steps
            .iter()
            .filter_map(|step| if let Step::Send(bytes) = step { Some(bytes.clone()) } else { None });
        sends.collect()
    }

    #[test]
    fn a_cut_comes_after_so_many_events_even_none() {
        for events in 0..=3 {
            let cut = shaped(stream(&["a", "b", "c"]), &[Fault::CutAfter { events }]);
            assert_eq!(cut.steps.len(), events + 1);
            assert_eq!(cut.steps.last(), Some(&Step::Break(Break::Close)));
        }
    }

    #[test]
    fn events_are_counted_before_they_are_split() {
        let faults = [Fault::Split { sizes: vec![1], pause_millis: 0 }, Fault::StallAfter { events: 2 }];
        let answer = shaped(stream(&["ab", "cd", "ef"]), &faults);
        assert_eq!(sent(&answer), ["a", "b", "c", "d"]);
        assert_eq!(answer.steps.last(), Some(&Step::Stall));
    }

    #[test]
    fn packets_have_the_sizes_asked_for_whatever_the_events() {
        let answer = shaped(stream(&["abc", "def", "gh"]), &[Fault::Split { sizes: vec![2, 3], pause_millis: 0 }]);
        assert_eq!(sent(&answer), ["ab", "cde", "fg", "h"]);
    }

    #[test]
    fn a_compressed_stream_can_be_read_event_by_event() {
        let answer = shaped(stream(&["abc", "def"]), &[Fault::Gzip]);
        let mut first = vec![0; 3];
        let packets = sent(&answer);
        flate2::read::GzDecoder::new(&packets[0][..]).read_exact(&mut first).expect("the first event alone");
        assert_eq!(first, b"abc");
        let mut all = String::new();
        flate2::read::GzDecoder::new(&packets.concat()[..]).read_to_string(&mut all).expect("a whole gzip body");
        assert_eq!(all, "abcdef");
    }

    #[test]
    fn odd_framing_changes_no_event() {
        let answer = shaped(stream(&["event: a\ndata: {\"x\": 1}\n\n"]), &[Fault::OddFraming]);
        assert_eq!(sent(&answer), ["\u{feff}: keep-alive\r\n\r\nevent:a\r\ndata:{\"x\": 1}\r\n\r\n"]);
    }

    #[test]
    fn pings_come_between_the_first_event_and_the_next() {
        let answer = shaped(stream(&["a", "b"]), &[Fault::Pings { count: 2, every_millis: 5 }]);
        assert_eq!(sent(&answer), [Bytes::from("a"), ping(), ping(), Bytes::from("b")]);
    }
}

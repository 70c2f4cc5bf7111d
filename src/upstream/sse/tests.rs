use proptest::prelude::*;

use super::*;

/// Name and data of an event.
type Told = (String, Vec<u8>);

/// Notes every event it wants, with the packet and the place where it ended.
#[derive(Debug, Default)]
struct Notes {
    only: Option<&'static [&'static str]>,
    glances: &'static [&'static str],
    events: Vec<Told>,
    ends: Vec<usize>,
    lines: Vec<String>,
}

impl Sink for Notes {
    fn wants(&self, name: &[u8]) -> Interest {
        match Interest::among(self.glances, name) {
            Interest::Take => Interest::Glance,
            Interest::Skip | Interest::Glance => self.only.map_or(Interest::Take, |names| Interest::among(names, name)),
        }
    }

    fn line(&mut self, data: &[u8]) {
        self.lines.push(String::from_utf8(data.to_vec()).unwrap());
    }

    fn event(&mut self, event: Event<'_>) {
        self.events.push((event.name.to_owned(), event.data.to_vec()));
        self.ends.push(event.end);
    }
}

const USAGE: &[&str] = &["message_start", "message_delta", "error"];

fn frame<'a>(only: Option<&'static [&'static str]>, packets: impl IntoIterator<Item = &'a [u8]>) -> Notes {
    let (mut framer, mut notes) = (Framer::new(), Notes { only, ..Notes::default() });
    packets.into_iter().for_each(|packet| framer.push(packet, &mut notes));
    framer.finish(&mut notes);
    notes
}

fn events(stream: &[u8]) -> Vec<Told> {
    frame(None, [stream]).events
}

fn event(name: &str, data: &str) -> Told {
    (name.to_owned(), data.as_bytes().to_vec())
}

/// The rules of the standard on the whole text, written for plainness: what the framer must agree with.
fn by_the_book(stream: &[u8]) -> Vec<Told> {
    let text = String::from_utf8(stream.to_vec()).unwrap();
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut name, mut data) = (Vec::new(), String::new(), Vec::new());
    for line in text.split('\n').chain([""]) {
        if line.is_empty() {
            if !data.is_empty() {
                events.push((std::mem::take(&mut name), data.join("\n").into_bytes()));
            }
            (name, data) = (String::new(), Vec::new());
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => data.push(value.to_owned()),
            "event" if !value.is_empty() && value != "message" => value.clone_into(&mut name),
            _ => {}
        }
    }
    for (name, data) in &mut events {
        let kind = data
            .trim_ascii_start()
            .strip_prefix(b"{\"type\":\"")
            .and_then(|rest| rest.split(|byte| *byte == b'"').next());
        if let (true, Some(kind)) = (name.is_empty(), kind) {
            *name = String::from_utf8(kind.to_vec()).unwrap();
        }
    }
    events
}

/// Streams as they are seen, and as the standard permits them: C59, C60, C64 and their kind.
fn corpus() -> Vec<(&'static str, Vec<Told>)> {
    let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":27}}}"#;
    let delta = r#"{"type":"content_block_delta","delta":{"text":"北京😀"}}"#;
    let usage = r#"{"type":"message_delta","usage":{"output_tokens":15}}"#;
    vec![
        (
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":27}}}\n\n\
             event: ping\ndata: {\"type\":\"ping\"}\n\n\
             event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"北京😀\"}}\n\n\
             event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\n\n",
            vec![
                event("message_start", start),
                event("ping", r#"{"type":"ping"}"#),
                event("content_block_delta", delta),
                event("message_delta", usage),
            ],
        ),
        (
            "\u{feff}: keep-alive\r\n\r\nevent:message_delta\r\n\
             data:{\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\r\n\r\n: keep-alive\r\n\r\n",
            vec![event("message_delta", usage)],
        ),
        ("data: {\"delta\":{\"text\":\"北京😀\"}}\n\n", vec![event("", "{\"delta\":{\"text\":\"北京😀\"}}")]),
        ("event: a\rdata: 1\r\rdata: 2\r\r", vec![event("a", "1"), event("", "2")]),
        ("data: one\ndata:two\ndata\ndata:  three\n\n", vec![event("", "one\ntwo\n\n three")]),
        ("data: x\n\ndata: [DONE]", vec![event("", "x"), event("", "[DONE]")]),
        ("event: error\r\ndata: {}\r", vec![event("error", "{}")]),
        ("id: 7\nretry: 10\ndatax: no\nevent: b\ndata: 1\n\n", vec![event("b", "1")]),
        ("data: {\"a\":1}\nevent: error\n\n", vec![event("error", "{\"a\":1}")]),
        ("event: empty\n\nevent: e\ndata:\n\n", vec![event("e", "")]),
        ("event: message\ndata: {\"type\":\"error\"}\n\n", vec![event("error", "{\"type\":\"error\"}")]),
        ("\u{feff}\u{feff}data: 1\n\ndata: 2\n\n", vec![event("", "2")]),
        ("\n\n\r\n\r\rdata: 1\n\n\n\n", vec![event("", "1")]),
        ("", vec![]),
    ]
}

#[test]
fn streams_yield_their_events_whole_and_in_single_bytes() {
    for (stream, expected) in corpus() {
        assert_eq!(by_the_book(stream.as_bytes()), expected, "{stream:?} by the book");
        assert_eq!(events(stream.as_bytes()), expected, "{stream:?} whole");
        assert_eq!(frame(None, stream.as_bytes().chunks(1)).events, expected, "{stream:?} in single bytes");
    }
}

#[test]
fn streams_yield_their_events_wherever_they_are_cut_in_two_or_three() {
    for (stream, expected) in corpus() {
        let stream = stream.as_bytes();
        for first in 0..=stream.len() {
            for second in [first, (first + 1).min(stream.len()), (first + 7).min(stream.len())] {
                let packets = [&stream[..first], &stream[first..second], &stream[second..]];
                assert_eq!(frame(None, packets).events, expected, "cut at {first} and {second}");
            }
        }
    }
}

/// C81 needs exactly these: what is not wanted is never told, wherever the cuts are.
#[test]
fn only_wanted_events_are_told_wherever_the_cut_is() {
    for (stream, all) in corpus() {
        let expected: Vec<_> = all.into_iter().filter(|(name, _)| USAGE.contains(&name.as_str())).collect();
        for cut in 0..=stream.len() {
            let (head, tail) = stream.as_bytes().split_at(cut);
            assert_eq!(frame(Some(USAGE), [head, tail]).events, expected, "{stream:?} cut at {cut}");
        }
    }
}

/// What is shown of a stream to somebody who glances at deltas and takes the events of usage.
fn glance<'a>(packets: impl IntoIterator<Item = &'a [u8]>) -> Notes {
    let mut notes = Notes { only: Some(USAGE), glances: &["content_block_delta"], ..Notes::default() };
    let mut framer = Framer::new();
    packets.into_iter().for_each(|packet| framer.push(packet, &mut notes));
    framer.finish(&mut notes);
    notes
}

#[test]
fn lines_that_are_only_glanced_at_are_shown_once_wherever_the_cut_is_and_are_no_event() {
    let delta = r#"{"type":"content_block_delta","delta":{"text":"北京"}}"#;
    let stream = format!(
        "event: content_block_delta\ndata: {delta}\n\ndata: {delta}\n\nevent: ping\ndata: {{}}\n\n\
         event: content_block_delta\ndata: one\ndata: two\n\nevent: error\ndata: 1\n\n"
    );
    for first in 0..=stream.len() {
        let (one, two) = stream.as_bytes().split_at(first);
        let notes = glance([one, two]);
        assert_eq!(notes.lines, [delta, delta, "one", "two"], "cut at {first}");
        assert_eq!(notes.events, [event("error", "1")], "cut at {first}");
    }
    assert_eq!(glance(stream.as_bytes().chunks(1)).lines.len(), 4);
}

#[test]
fn the_name_is_taken_from_the_data_where_no_line_gives_it() {
    let named = |data: &str| events(format!("data: {data}\n\n").as_bytes())[0].0.clone();
    assert_eq!(named(r#"{"type":"error","error":{}}"#), "error");
    assert_eq!(named(r#" { "type" : "error" }"#), "error");
    assert_eq!(named("{\ndata: \"type\": \"error\"}"), "error");
    assert_eq!(named(r#"{"id":1,"type":"error"}"#), "");
    assert_eq!(named(r#"{"type":"er\u0072or"}"#), "");
    assert_eq!(named(r#"{"type":5}"#), "");
}

#[test]
fn a_name_line_overrides_what_the_data_says() {
    assert_eq!(events(b"event: x\ndata: {\"type\":\"y\"}\n\n"), [event("x", "{\"type\":\"y\"}")]);
    let notes = frame(Some(USAGE), [b"event: x\ndata: {\"type\":\"error\"}\n\n".as_slice()]);
    assert_eq!(notes.events, []);
}

#[test]
fn an_event_ends_just_behind_its_blank_line() {
    assert_eq!(frame(None, [b"data: 1\n\ndata: 2\r\n\r\nrest".as_slice()]).ends, [9, 20]);
    assert_eq!(frame(None, [b"data: 1\r\n\r".as_slice(), b"\ndata: 2\n", b"\n"]).ends, [10, 1]);
}

#[test]
fn data_up_to_the_bound_is_told_and_beyond_it_counted() {
    for (over, told) in [(0, 1), (1, 0)] {
        let data = "x".repeat(DATA_MAX - 1 + over);
        let stream = format!("event: error\ndata: {data}\n\nevent: error\ndata: 2\n\n");
        for size in [1000, stream.len()] {
            let (mut framer, mut notes) = (Framer::new(), Notes::default());
            stream.as_bytes().chunks(size).for_each(|packet| framer.push(packet, &mut notes));
            assert_eq!(notes.events.len(), told + 1);
            assert_eq!(notes.events.last().unwrap(), &event("error", "2"));
            assert_eq!(framer.oversized(), over as u64);
        }
    }
}

#[test]
fn many_lines_of_data_are_bounded_together() {
    let stream = format!("event: error\n{}\n", format!("data: {}\n", "x".repeat(60_000)).repeat(5));
    let (mut framer, mut notes) = (Framer::new(), Notes::default());
    framer.push(stream.as_bytes(), &mut notes);
    assert_eq!(notes.events, []);
    assert_eq!(framer.oversized(), 1);
}

#[test]
fn nothing_is_kept_of_a_long_line_that_is_not_wanted() {
    let (mut framer, mut notes) = (Framer::new(), Notes { only: Some(USAGE), ..Notes::default() });
    for begin in ["event: content_block_delta\ndata: ", ": comment ", "data: {\"type\":\"ping\",", "id: "] {
        framer.push(begin.as_bytes(), &mut notes);
        (0..64).for_each(|_| framer.push(&[b'x'; 16 * 1024], &mut notes));
        assert_eq!(framer.kept.capacity().min(64), framer.kept.capacity(), "{begin}");
        framer.push(b"\n\n", &mut notes);
        assert!(framer.at_boundary());
    }
    assert_eq!((notes.events, framer.oversized()), (vec![], 0));
}

/// C64: a ping of ours goes between two events, never into one, nor into a line end.
#[test]
fn a_stream_stands_at_a_boundary_exactly_behind_a_blank_line() {
    let boundaries = |stream: &str| {
        let (mut framer, mut notes) = (Framer::new(), Notes::default());
        let after = |byte: &u8| {
            framer.push(&[*byte], &mut notes);
            if framer.at_boundary() { '|' } else { '.' }
        };
        stream.as_bytes().iter().map(after).collect::<String>()
    };
    assert!(!Framer::new().at_boundary());
    assert_eq!(boundaries("data:1\n\nid:1\n\n"), ".......|.....|");
    assert_eq!(boundaries("data:1\r\n\r\nx"), ".........|.");
    assert_eq!(boundaries("data:1\r\rx"), ".......|.");
    assert_eq!(boundaries(": c\n\n"), "....|");
    for (packet, boundary) in
        [("data:1\r\r", true), ("data:1\r\n\r", false), ("data:1\r\n\r\n", true), ("\n\nx", false)]
    {
        let mut framer = Framer::new();
        framer.push(packet.as_bytes(), &mut Notes::default());
        assert_eq!(framer.at_boundary(), boundary, "{packet:?}");
    }
}

#[test]
fn what_is_put_in_at_a_boundary_leaves_the_events_as_they_are() {
    let ping = b"event: ping\ndata: {\"type\": \"ping\"}\n\n";
    for (stream, _) in corpus() {
        let (mut framer, mut notes, mut sent) = (Framer::new(), Notes::default(), Vec::new());
        for byte in stream.as_bytes() {
            framer.push(&[*byte], &mut notes);
            sent.push(*byte);
            if framer.at_boundary() {
                sent.extend_from_slice(ping);
            }
        }
        let not_ping = |events: Vec<Told>| events.into_iter().filter(|(name, _)| name != "ping");
        assert!(not_ping(events(&sent)).eq(not_ping(events(stream.as_bytes()))), "{stream:?}");
    }
}

/// Cuts a stream at arbitrary places.
fn cut<'a>(stream: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let (mut packets, mut rest) = (Vec::new(), stream);
    for size in sizes {
        let (packet, behind) = rest.split_at((*size).min(rest.len()));
        packets.push(packet);
        rest = behind;
    }
    packets.push(rest);
    packets
}

fn pieces() -> impl Strategy<Value = String> {
    let pieces = [
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "\r\n\r\n",
        "data:",
        "data: ",
        "data",
        "event:",
        "event: ",
        "error",
        "ping",
        "message",
        "message_delta",
        ": c",
        "id: 1",
        "x",
        " ",
        "\u{feff}",
        "{\"type\":\"error\"}",
        "{\"type\":\"ping\"",
        "content_block_delta",
        "{\"type\":\"content_block_delta\"}",
        "北京😀",
        "d",
        "e",
    ];
    proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn any_stream_in_any_packets_reads_as_by_the_book(stream in pieces(), sizes in proptest::collection::vec(0usize..20, 0..20)) {
        let expected = by_the_book(stream.as_bytes());
        prop_assert_eq!(&events(stream.as_bytes()), &expected);
        prop_assert_eq!(&frame(None, cut(stream.as_bytes(), &sizes)).events, &expected);
    }

    #[test]
    fn what_is_wanted_is_the_same_in_any_packets(stream in pieces(), sizes in proptest::collection::vec(0usize..20, 0..20)) {
        let whole = frame(Some(USAGE), [stream.as_bytes()]);
        let packets = frame(Some(USAGE), cut(stream.as_bytes(), &sizes));
        prop_assert!(whole.events.iter().all(|(name, _)| USAGE.contains(&name.as_str())));
        prop_assert_eq!(whole.events, packets.events);
    }

    #[test]
    fn what_is_glanced_at_is_the_same_in_any_packets(stream in pieces(), sizes in proptest::collection::vec(0usize..20, 0..20)) {
        let (whole, cut) = (glance([stream.as_bytes()]), glance(cut(stream.as_bytes(), &sizes)));
        prop_assert_eq!(whole.lines, cut.lines);
        prop_assert_eq!(whole.events, cut.events);
    }

    #[test]
    fn any_bytes_are_a_stream(stream in proptest::collection::vec(any::<u8>(), 0..400), sizes in proptest::collection::vec(0usize..30, 0..20)) {
        let whole = frame(None, [stream.as_slice()]).events;
        prop_assert_eq!(whole, frame(None, cut(&stream, &sizes)).events);
    }
}

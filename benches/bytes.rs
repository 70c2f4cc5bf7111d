//! How long the work on bytes takes that every request and every relayed packet pays. Run with
//! `cargo bench --bench bytes --profile ci`; each figure is the best of several rounds.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot run should stop")]

use std::hint::black_box;
use std::io::Write as _;
use std::time::{Duration, Instant};

use duduclaw::gateway::fields::{self, estimate};
use duduclaw::upstream::coding::{Coding, Decoder};
use duduclaw::upstream::sse::{Event, Framer, Interest, Sink};

/// Wants what the usage of a Messages stream needs.
struct Usage(usize);

impl Sink for Usage {
    fn wants(&self, name: &[u8]) -> Interest {
        Interest::among(&["message_start", "message_delta", "error"], name)
    }

    fn event(&mut self, event: Event<'_>) {
        self.0 += event.data.len();
    }
}

fn main() {
    frames();
    bodies();
    packets();
}

/// The best time of one run.
fn best(mut run: impl FnMut()) -> Duration {
    (0..40).map(|_| timed(&mut run)).min().unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn timed(run: &mut impl FnMut()) -> Duration {
    let begun = Instant::now();
    run();
    begun.elapsed()
}

fn frames() {
    let delta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
                 \"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n";
    let nameless = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hello\",\"item_id\":\"msg_1\"}\n\n";
    let ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
    for (what, frame, size) in [
        ("delta, a frame a packet", delta, delta.len()),
        ("delta, packets of 1 KiB", delta, 1024),
        ("delta, packets of 16 KiB", delta, 16 * 1024),
        ("delta without event line, packets of 1 KiB", nameless, 1024),
        ("ping, a frame a packet", ping, ping.len()),
    ] {
        let count = 10_000;
        let stream = frame.repeat(count);
        let time = best(|| {
            let (mut framer, mut usage) = (Framer::new(), Usage(0));
            stream.as_bytes().chunks(size).for_each(|packet| framer.push(black_box(packet), &mut usage));
            black_box(usage.0);
        });
        println!(
            "{what}: {:.1} ns a frame",
            time.as_secs_f64() * 1e9 / f64::from(u32::try_from(count).expect("small"))
        );
    }
}

fn bodies() {
    let english = "The quick brown fox jumps over the lazy dog, said \\\"nobody\\\" ever.\\n";
    let image = "iVBORw0KGgoAAAANSUhEUg".repeat(140_000);
    for (what, body) in [
        ("100 KB of text", body(&english.repeat(1_400), "")),
        ("100 KB of Chinese", body(&"敏捷的棕色狐狸跳过懒狗。".repeat(2_800), "")),
        ("100 KB of escapes", body(&"\\u654f\\u6377".repeat(8_500), "")),
        ("3 MB of text", body(&english.repeat(42_000), "")),
        ("3 MB of image", body("hi", &image)),
    ] {
        let read = best(|| _ = black_box(fields::read(black_box(body.as_bytes())).expect("it is JSON")));
        let count = best(|| _ = black_box(estimate::input_tokens(black_box(body.as_bytes()))));
        let tokens = estimate::input_tokens(body.as_bytes());
        println!("{what} ({} bytes): fields {read:?}, estimate {count:?} ({tokens} tokens)", body.len());
    }
}

fn body(text: &str, image: &str) -> String {
    let tool = r#"{"name":"Bash","description":"runs","input_schema":{"type":"object","properties":{"command":{}}}}"#;
    format!(
        r#"{{"model":"claude-opus-5-5","messages":[{{"role":"user","content":[{{"type":"text","text":"{text}"}},
        {{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{image}"}}}}]}}],
        "tools":[{}],"metadata":{{"user_id":"{{\"device_id\":\"0\",\"account_uuid\":\"\"}}"}},"stream":true}}"#,
        [tool; 30].join(",")
    )
}

fn packets() {
    for size in [4 * 1024, 16 * 1024, 64 * 1024] {
        let text =
            (0..size * 6 / 60).map(|n| format!("{{\"id\":\"msg_{n:08}\",\"text\":\"word {} of many\"}}\n", n * n));
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.collect::<String>().as_bytes()).expect("memory takes all");
        let packed = encoder.finish().expect("memory takes all");
        let mut length = 0;
        let time = best(|| {
            length = 0;
            Decoder::new(Coding::Gzip).read(black_box(&packed), |text| length += text.len());
        });
        println!("gzip packet of {} bytes ({length} decoded): {time:?}", packed.len());
    }
}

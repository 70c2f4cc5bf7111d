//! A Messages request as the provider reads it: its blocks in the order tools, system, messages; their tokens; where
//! it is marked to be cached; which thinking it carries. And what makes a request invalid.
//!
//! Nothing is typed over the body beyond that: unknown keys, roles and block types are content like any other.

use serde_json::{Map, Value};
use xxhash_rust::xxh3::Xxh3;

use super::cache::{Lifetime, MAX_MARKS, Prefix};

const IMAGE_TOKENS: u64 = 1600;

/// Which part of the prompt a block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Tools,
    System,
    Message { message: usize, content: usize },
}

#[derive(Debug)]
struct Block {
    part: Part,
    digest: u128,
    tokens: u64,
    mark: Option<Lifetime>,
    signature: Option<String>,
}

/// A request's model, wishes and blocks.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) max_tokens: Option<u64>,
    blocks: Vec<Block>,
    turn: u128,
}

/// What is wrong with a request, in the provider's words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid(pub(super) String);

impl Prompt {
    /// Reads a request body.
    pub(super) fn read(body: &Value) -> Result<Self, Invalid> {
        let body = body.as_object().ok_or_else(|| Invalid("Input should be an object".to_owned()))?;
        let model = body.get("model").and_then(Value::as_str).ok_or_else(|| required("model"))?;
        let messages = body.get("messages").and_then(Value::as_array).ok_or_else(|| required("messages"))?;
        if messages.is_empty() {
            return Err(Invalid("messages: at least one message is required".to_owned()));
        }
        let mut prompt = Self {
            model: model.to_owned(),
            stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
            max_tokens: body.get("max_tokens").and_then(Value::as_u64),
            blocks: Vec::new(),
            turn: turn_settings(body),
        };
        prompt.read_tools(body);
        prompt.read_system(body);
        prompt.read_messages(messages);
        prompt.mark_automatically(body);
        prompt.check_marks()?;
        Ok(prompt)
    }

    /// The thinking blocks: number of the block, signature, and where it stands in the body.
    pub(super) fn thinking(&self) -> impl Iterator<Item = (usize, &str, String)> {
        self.blocks.iter().enumerate().filter_map(|(at, block)| {
            let signature = block.signature.as_deref()?;
            Some((at, signature, block.part.path()))
        })
    }

    /// Leaves these blocks out, as if they had never been sent.
    pub(super) fn leave_out(&mut self, dropped: &[usize]) {
        let mut at = 0;
        self.blocks.retain(|_| {
            at += 1;
            !dropped.contains(&(at - 1))
        });
    }

    /// The whole prompt as a chain of prefixes.
    pub(super) fn prefixes(&self) -> Vec<Prefix> {
        let mut hash = digest_of(&[self.model.as_bytes()]);
        let mut tokens = 0;
        let mut in_messages = false;
        let link = |block: &Block| {
            if matches!(block.part, Part::Message { .. }) && !in_messages {
                in_messages = true;
                hash = chained(hash, self.turn);
            }
            hash = chained(hash, block.digest);
            tokens += block.tokens;
            Prefix { hash, tokens, mark: block.mark }
        };
        self.blocks.iter().map(link).collect()
    }

    /// All tokens of the prompt.
    pub(super) fn tokens(&self) -> u64 {
        self.blocks.iter().map(|block| block.tokens).sum()
    }

    fn read_tools(&mut self, body: &Map<String, Value>) {
        for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
            self.blocks.push(Block::read(Part::Tools, "", tool));
        }
    }

    fn read_system(&mut self, body: &Map<String, Value>) {
        for block in parts_of(body.get("system")) {
            self.blocks.push(Block::read(Part::System, "system", block));
        }
    }

    fn read_messages(&mut self, messages: &[Value]) {
        for (message, entry) in messages.iter().enumerate() {
            let role = entry.get("role").and_then(Value::as_str).unwrap_or_default();
            for (content, block) in parts_of(entry.get("content")).into_iter().enumerate() {
                self.blocks.push(Block::read(Part::Message { message, content }, role, block));
            }
        }
    }

    /// A `cache_control` on the request itself marks its last block.
    fn mark_automatically(&mut self, body: &Map<String, Value>) {
        let mark = body.get("cache_control").and_then(lifetime);
        if let (Some(mark), Some(last)) = (mark, self.blocks.last_mut()) {
            last.mark = last.mark.or(Some(mark));
        }
    }

    fn check_marks(&self) -> Result<(), Invalid> {
        let marks: Vec<Lifetime> = self.blocks.iter().filter_map(|block| block.mark).collect();
        if marks.len() > MAX_MARKS {
            let found = marks.len();
            return Err(Invalid(format!(
                "A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {found}."
            )));
        }
        if !marks.is_sorted_by_key(|mark| *mark == Lifetime::FiveMinutes) {
            return Err(Invalid(
                "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. \
                 Note that blocks are processed in the following order: `tools`, `system`, `messages`."
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

impl Part {
    fn path(self) -> String {
        match self {
            Self::Tools => "tools".to_owned(),
            Self::System => "system".to_owned(),
            Self::Message { message, content } => format!("messages.{message}.content.{content}"),
        }
    }
}

impl Block {
    fn read(part: Part, role: &str, value: &Value) -> Self {
        let bare = without_marks(value);
        let text = plain_text(&bare).map_or_else(|| bare.to_string(), str::to_owned);
        Self {
            part,
            digest: digest_of(&[role.as_bytes(), text.as_bytes()]),
            tokens: block_tokens(&bare, &text),
            mark: mark_of(value),
            signature: signature_of(value),
        }
    }
}

/// A string counts as one block.
fn parts_of(content: Option<&Value>) -> Vec<&Value> {
    match content {
        Some(Value::Array(parts)) => parts.iter().collect(),
        Some(Value::Null) | None => Vec::new(),
        Some(other) => vec![other],
    }
}

/// What, when changed, loses the messages from the cache but keeps tools and system.
fn turn_settings(body: &Map<String, Value>) -> u128 {
    let thinking = body.get("thinking");
    let field = |name: &str| thinking.and_then(|value| value.get(name)).map(ToString::to_string).unwrap_or_default();
    let choice = body.get("tool_choice").map(ToString::to_string).unwrap_or_default();
    digest_of(&[field("type").as_bytes(), field("budget_tokens").as_bytes(), choice.as_bytes()])
}

fn mark_of(block: &Value) -> Option<Lifetime> {
    let nested = parts_of(block.get("content")).into_iter().filter_map(|part| part.get("cache_control")).next_back();
    block.get("cache_control").or(nested).and_then(lifetime)
}

fn lifetime(control: &Value) -> Option<Lifetime> {
    control.as_object().map(|control| match control.get("ttl").and_then(Value::as_str) {
        Some("1h") => Lifetime::OneHour,
        Some(_) | None => Lifetime::FiveMinutes,
    })
}

/// The block without what is no content of it: marks may move without changing the prompt.
fn without_marks(block: &Value) -> Value {
    let mut bare = block.clone();
    if let Some(fields) = bare.as_object_mut() {
        fields.shift_remove("cache_control");
        let nested = fields.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten();
        for part in nested.filter_map(Value::as_object_mut) {
            part.shift_remove("cache_control");
        }
    }
    bare
}

fn signature_of(block: &Value) -> Option<String> {
    let field = match block.get("type").and_then(Value::as_str)? {
        "thinking" => "signature",
        "redacted_thinking" => "data",
        _other => return None,
    };
    Some(block.get(field).and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// A string, or the text of a block that has nothing else: the two mean the same.
fn plain_text(block: &Value) -> Option<&str> {
    let whole = block.as_object().filter(|fields| fields.len() == 2 && fields.get("type") == Some(&"text".into()));
    block.as_str().or_else(|| whole?.get("text")?.as_str())
}

fn block_tokens(block: &Value, text: &str) -> u64 {
    if block.is_string() {
        return tokens_of(text);
    }
    match block.get("type").and_then(Value::as_str) {
        Some("text") => tokens_of(block.get("text").and_then(Value::as_str).unwrap_or_default()),
        Some("image" | "document") => IMAGE_TOKENS,
        Some(_) | None => tokens_of(text),
    }
}

/// A plausible count: a token for every four characters begun.
pub(super) fn tokens_of(text: &str) -> u64 {
    (bytecount::num_chars(text.as_bytes()) as u64).div_ceil(4)
}

fn digest_of(parts: &[&[u8]]) -> u128 {
    let mut hash = Xxh3::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.digest128()
}

fn chained(before: u128, next: u128) -> u128 {
    digest_of(&[&before.to_be_bytes(), &next.to_be_bytes()])
}

fn required(field: &str) -> Invalid {
    Invalid(format!("{field}: Field required"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Prompt {
        Prompt::read(body).expect("a valid request")
    }

    fn request(system: Value, content: Value) -> Value {
        json!({"model": "claude-sonnet-5", "max_tokens": 10, "tools": [{"name": "Bash"}], "system": system,
               "messages": [{"role": "user", "content": content}]})
    }

    #[test]
    fn blocks_come_in_the_order_tools_system_messages_whatever_the_body_says() {
        let shuffled = json!({"messages": [{"role": "user", "content": "hi"}], "system": "be terse",
                              "tools": [{"name": "Bash"}], "model": "claude-sonnet-5"});
        let usual = request(json!("be terse"), json!("hi"));
        assert_eq!(read(&shuffled).prefixes(), read(&usual).prefixes());
        let parts: Vec<Part> = read(&shuffled).blocks.iter().map(|block| block.part).collect();
        assert_eq!(parts, [Part::Tools, Part::System, Part::Message { message: 0, content: 0 }]);
    }

    #[test]
    fn a_mark_that_moves_does_not_change_the_prompt() {
        let mark = json!({"type": "ephemeral"});
        let first = request(
            json!([{"type": "text", "text": "a", "cache_control": mark}]),
            json!([{"type": "text", "text": "b"}]),
        );
        let second = request(
            json!([{"type": "text", "text": "a"}]),
            json!([{"type": "text", "text": "b", "cache_control": mark}]),
        );
        let hashes = |body: &Value| read(body).prefixes().iter().map(|prefix| prefix.hash).collect::<Vec<_>>();
        assert_eq!(hashes(&first), hashes(&second));
        assert_eq!(read(&first).prefixes()[1].mark, Some(Lifetime::FiveMinutes));
        assert_eq!(read(&second).prefixes()[2].mark, Some(Lifetime::FiveMinutes));
    }

    #[test]
    fn a_string_means_the_same_as_one_text_block() {
        let string = read(&request(json!("s"), json!("hi")));
        let block = read(&request(json!([{"type": "text", "text": "s"}]), json!([{"type": "text", "text": "hi"}])));
        assert_eq!(string.prefixes(), block.prefixes());
    }

    #[test]
    fn other_thinking_settings_lose_the_messages_and_keep_tools_and_system() {
        let mut with = request(json!("s"), json!("hi"));
        with["thinking"] = json!({"type": "enabled", "budget_tokens": 2000});
        let (with, without) = (read(&with).prefixes(), read(&request(json!("s"), json!("hi"))).prefixes());
        assert_eq!(with[..2], without[..2]);
        assert_ne!(with[2], without[2]);
    }

    #[test]
    fn a_fifth_mark_and_an_hour_after_minutes_are_refused() {
        let marked =
            |ttl: &str| json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": ttl}});
        let five: Vec<Value> = (0..5).map(|_| marked("5m")).collect();
        let text = Prompt::read(&request(json!("s"), json!(five))).expect_err("too many").0;
        assert_eq!(text, "A maximum of 4 blocks with cache_control may be provided. Found 5.");
        assert!(Prompt::read(&request(json!([marked("5m")]), json!([marked("1h")]))).is_err());
        assert!(Prompt::read(&request(json!([marked("1h")]), json!([marked("5m")]))).is_ok());
    }

    #[test]
    fn the_whole_request_can_be_marked_at_once() {
        let mut body = request(json!("s"), json!("hi"));
        body["cache_control"] = json!({"type": "ephemeral", "ttl": "1h"});
        assert_eq!(read(&body).prefixes()[2].mark, Some(Lifetime::OneHour));
    }

    #[test]
    fn thinking_is_found_with_its_place_and_can_be_left_out() {
        let body = json!({"model": "m", "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "sig"}, {"type": "text", "text": "a"}]},
        ]});
        let mut prompt = read(&body);
        let found: Vec<_> = prompt.thinking().map(|(at, sig, path)| (at, sig.to_owned(), path)).collect();
        assert_eq!(found, [(1, "sig".to_owned(), "messages.1.content.0".to_owned())]);
        let before = prompt.tokens();
        prompt.leave_out(&[1]);
        assert!(prompt.tokens() < before);
        assert_eq!(prompt.thinking().count(), 0);
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(Prompt::read(&json!({"messages": []})).expect_err("no model").0, "model: Field required");
        assert_eq!(Prompt::read(&json!({"model": "m"})).expect_err("no messages").0, "messages: Field required");
        assert!(Prompt::read(&json!([1])).is_err());
    }

    #[test]
    fn an_image_costs_the_same_whatever_its_bytes() {
        let image = json!([{"type": "image", "source": {"type": "base64", "data": "A".repeat(100_000)}}]);
        let body = json!({"model": "m", "messages": [{"role": "user", "content": image}]});
        assert_eq!(read(&body).tokens(), IMAGE_TOKENS);
    }
}

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
mod tests;

"""The Anthropic SDK, its own retries off, told on the command line what to do. Writes one JSON object per call."""

import json
import sys

import anthropic

MODEL = "claude-sonnet-5"


def asked(prompt):
    return {"model": MODEL, "max_tokens": 256, "messages": [{"role": "user", "content": prompt}]}


def create(client, prompt):
    return {"text": client.messages.create(**asked(prompt)).content[0].text}


def stream(client, prompt):
    with client.messages.stream(**asked(prompt)) as events:
        text = "".join(events.text_stream)
        final = events.get_final_message()
    return {"text": text, "stop": final.stop_reason, "output": final.usage.output_tokens}


def count(client, prompt):
    body = asked(prompt)
    return {"tokens": client.messages.count_tokens(model=MODEL, messages=body["messages"]).input_tokens}


def models(client, _prompt):
    return {"models": [model.id for model in client.models.list()]}


def attempt(call, client, prompt):
    try:
        return call(client, prompt)
    except anthropic.APIStatusError as error:
        return {"error": type(error).__name__, "status": error.status_code, "body": error.body}
    except Exception as error:  # whatever it is, the test is to see it
        return {"error": type(error).__name__, "message": str(error)}


def main():
    calls = {"create": create, "stream": stream, "count": count, "models": models}
    client = anthropic.Anthropic(max_retries=0, default_headers={"x-claude-code-session-id": "a person at Python"})
    for line in sys.argv[1:]:
        name, _, prompt = line.partition(" ")
        print(json.dumps(attempt(calls[name], client, prompt)), flush=True)


main()

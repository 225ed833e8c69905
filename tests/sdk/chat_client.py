"""Whoever asks a model in Python: OpenAI's own client, with the payments of PyPI's x402.

usage: chat_client.py <base URL> <key>

Prints READY, then takes an order on each line:
  { "ask": "models" | "chat" | "stream" | "tools", "by": "unpaid" | "sync" | "async", "text", "header"? }
`by` says who pays: nobody, the client of requests that wait, or the other one. `header` are headers of the request.
`tools` lets the model call a tool, and sends its message back with the result. It also takes
  { "stream": true | false, "returned": "object" | "dict" }
and `returned` says in which form the message goes back: as the library returned it, or converted by `model_dump`.
Prints each piece of a stream as it comes, as { "piece" }, and at the end one line with what came of it:
  { "over": true, "signed", "sent", ... }: how many payments were signed, and how many requests went out.
"""

import asyncio
import json
import sys

import httpx
import httpx2
import openai
from eth_account import Account
from openai.lib.streaming.chat import ChatCompletionStreamState
from x402 import x402Client, x402ClientSync
from x402.http.clients import x402_httpx_transport
from x402.http.utils import decode_payment_response_header
from x402.http.x402_http_client import x402HTTPClientSync
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact import register_exact_evm_client

BASE, KEY = sys.argv[1:]
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}
COUNT = {"signed": 0, "sent": 0}


def say(told):
    print(json.dumps(told), flush=True)


def signed(_context):
    COUNT["signed"] += 1


def wallet(kind):
    client = register_exact_evm_client(kind(), EthAccountSigner(Account.from_key(KEY)))
    return client.on_after_payment_creation(signed)


class Counting(httpx2.HTTPTransport):
    def handle_request(self, request):
        COUNT["sent"] += 1
        return super().handle_request(request)


class CountingAsync(httpx.AsyncHTTPTransport):
    async def handle_async_request(self, request):
        COUNT["sent"] += 1
        return await super().handle_async_request(request)


class Paying(Counting):
    """Pays what is asked for. Shows the same payment again until it has bought an answer."""

    def __init__(self):
        super().__init__()
        self.x402 = x402HTTPClientSync(wallet(x402ClientSync))
        self.kept = {}

    def handle_request(self, request):
        body = request.read()
        headers = self.kept.get(body)
        if headers is None:
            asked = super().handle_request(request)
            if asked.status_code != 402:
                return asked
            headers, _payment = self.x402.handle_402_response(
                dict(asked.headers), asked.read(), str(request.url)
            )
            asked.close()
            self.kept[body] = headers
        request.headers.update(headers)
        answer = super().handle_request(request)
        if answer.is_success:
            del self.kept[body]
        return answer


def client(by):
    # A model's key is what this client always sends: here nobody looks at it.
    known = {"base_url": BASE, "api_key": "unused"}
    if by == "async":
        transport = x402_httpx_transport(wallet(x402Client), CountingAsync())
        return openai.AsyncOpenAI(**known, http_client=httpx.AsyncClient(transport=transport))
    transport = Paying() if by == "sync" else Counting()
    return openai.OpenAI(**known, http_client=httpx2.Client(transport=transport))


def receipt(headers):
    text = headers.get("payment-response")
    return decode_payment_response_header(text).model_dump(mode="json", by_alias=True) if text else None


def request(order):
    return {
        "model": "toy",
        "messages": [{"role": "user", "content": order["text"]}],
        "max_tokens": 100,
        "extra_headers": order.get("header"),
    }


def told(raw, answer):
    return {
        "type": type(answer).__name__,
        "content": answer.choices[0].message.content,
        "tokens": answer.usage and answer.usage.total_tokens,
        "receipt": receipt(raw.headers),
        "price": raw.headers.get("x-price-usd"),
    }


def piece(chunk):
    say({"type": type(chunk).__name__, "piece": chunk.choices[0].delta.content})


async def tools(order, create):
    """Asks with a tool, and again with the model's message and the tool's result. `create` sends a request."""
    asked = {**request(order), "tools": [CLOCK], "stream": order["stream"]}
    raw, called = await create(asked)
    message = called.choices[0].message
    returned = message if order["returned"] == "object" else message.model_dump()
    results = [{"role": "tool", "tool_call_id": call.id, "content": "noon"} for call in message.tool_calls]
    asked["messages"] = [*asked["messages"], returned, *results]
    return {"first": told(raw, called), **told(*await create(asked))}


def ask(order):
    with client(order["by"]) as openai_client:
        if order["ask"] == "models":
            models = openai_client.models.list()
            return {"type": type(models.data[0]).__name__, "models": [model.id for model in models]}
        chats = openai_client.chat.completions
        if order["ask"] == "tools":

            async def create(asked):
                raw = chats.with_raw_response.create(**asked)
                if not asked["stream"]:
                    return raw, raw.parse()
                state = ChatCompletionStreamState()
                for chunk in raw.parse():
                    state.handle_chunk(chunk)
                return raw, state.get_final_completion()

            return asyncio.run(tools(order, create))
        raw = chats.with_raw_response.create(**request(order), stream=order["ask"] == "stream")
        if order["ask"] == "chat":
            return told(raw, raw.parse())
        for chunk in raw.parse():
            piece(chunk)
        return {"receipt": receipt(raw.headers)}


async def ask_async(order):
    async with client("async") as openai_client:
        if order["ask"] == "models":
            models = await openai_client.models.list()
            return {"type": type(models.data[0]).__name__, "models": [model.id for model in models.data]}
        chats = openai_client.chat.completions
        if order["ask"] == "tools":

            async def create(asked):
                raw = await chats.with_raw_response.create(**asked)
                if not asked["stream"]:
                    return raw, raw.parse()
                state = ChatCompletionStreamState()
                async for chunk in raw.parse():
                    state.handle_chunk(chunk)
                return raw, state.get_final_completion()

            return await tools(order, create)
        raw = await chats.with_raw_response.create(**request(order), stream=order["ask"] == "stream")
        if order["ask"] == "chat":
            return told(raw, raw.parse())
        async for chunk in raw.parse():
            piece(chunk)
        return {"receipt": receipt(raw.headers)}


def failure(error):
    told = {
        "error": [kind.__name__ for kind in type(error).__mro__],
        "message": str(error),
        "code": getattr(error, "code", None),
    }
    if isinstance(error, openai.APIStatusError):
        told["status"] = error.status_code
        told["body"] = error.response.json()
        told["receipt"] = receipt(error.response.headers)
    return told


def answer(order):
    COUNT.update(signed=0, sent=0)
    try:
        came = asyncio.run(ask_async(order)) if order["by"] == "async" else ask(order)
    except Exception as error:
        came = failure(error)
    return {"over": True, **COUNT, **came}


print("READY", flush=True)
for line in sys.stdin:
    say(answer(json.loads(line)))

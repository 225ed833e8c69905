#!/usr/bin/env python3
"""An agent that makes one purchase, trade or loan and obeys docs/agents.md to the letter.

It was written from that page alone. It never invents a second request: it repeats the same bytes for as long
as the page says so, polls once it has a request_id, and asks anew only where the page says "ask again".

usage: obedient.py sign --payment-required OFFER --request-url URL [options]
       obedient.py trade|position --object JSON [options]

environment: WALLET_URL, WALLET_AGENT_ID, WALLET_AGENT_TOKEN, WALLET_AUTH_MODE (hmac or bearer)
prints one line of JSON with every answer; exit code 0 for an end that the page knows, 3 otherwise
"""

import argparse
import hashlib
import hmac
import http.client
import itertools
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

# Section "Repeat a request, or buy again": the pauses after no answer. The last one goes on.
PAUSES_S = (0.5, 1, 2, 4)
# Repeating ends then, in each mode: an hmac proof is no longer accepted.
REPEAT_FOR_S = 300
POLL_EVERY_S = 2
REPEATED_ONCE = (408, 500)
REPEATED = ("RATE_LIMIT_EXCEEDED", "BUSY", "CHAIN_UNAVAILABLE", "WALLET_LOCKED", "DISK_FULL", "JOURNAL_FAILED")
# Final answers after which the page says "ask again if you still want it".
ASK_AGAIN = ("PRICE_MOVED", "PLAN_EXPIRED", "DEADLINE_PASSED", "REQUEST_EXPIRED", "LEDGER_DISCONNECTED", "REQUEST_NO_LONGER_VALID")
UNDECIDED = ("pending", "executing")
NAMED = ("status", "code", "reason_code", "request_id", "transaction_id", "identity", "recorded", "retry_after", "tx_hash", "reason", "error")

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Agent:
    def __init__(self, options):
        self.options = options
        self.wallet = os.environ["WALLET_URL"].rstrip("/")
        self.agent_id = os.environ["WALLET_AGENT_ID"]
        self.token = os.environ["WALLET_AGENT_TOKEN"]
        self.mode = os.environ.get("WALLET_AUTH_MODE", "hmac")
        self.begun = time.monotonic()
        self.answers = []
        self.problems = []
        self.headers = []

    def content(self):
        """Returns the fields that say what is wanted; in hmac mode they are signed."""
        if self.options.lane == "sign":
            return {"payment_required": self.options.payment_required, "request_url": self.options.request_url}
        return {self.options.lane: json.loads(self.options.object)}

    def body(self):
        """Returns the bytes of one ask. They are made once and repeated unchanged."""
        message = {"agent_id": self.agent_id, **self.content()}
        if self.mode == "bearer":
            key = {"idempotency_key": str(uuid.uuid4())} if self.options.key else {}
            return json.dumps({**message, **key, "signature": self.token}).encode()
        timestamp = int(time.time())
        canonical = json.dumps({**message, "timestamp": timestamp}, sort_keys=True, separators=(",", ":"))
        digest = hmac.new(bytes.fromhex(self.token[3:]), canonical.encode(), hashlib.sha256).hexdigest()
        return json.dumps({**message, "signature": f"SIG:{timestamp}:{digest}"}).encode()

    def call(self, path, body, timeout):
        """Makes one call and returns status and body, or (None, {}) without a complete answer in the time."""
        started = time.monotonic()
        request = urllib.request.Request(self.wallet + path, data=body)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        status, answer = None, {}
        try:
            try:
                reply = OPENER.open(request, timeout=timeout)
            except urllib.error.HTTPError as refused:
                reply = refused
            with reply:
                parsed = json.loads(reply.read())
            if isinstance(parsed, dict):
                status, answer = reply.status, parsed
        except (OSError, ValueError, http.client.HTTPException) as error:
            answer = {"error": str(error)}
        self.note("post" if body is not None else "poll", started, status, answer)
        return (None, {}) if status is None else (status, answer)

    def note(self, kind, started, status, answer):
        now = time.monotonic()
        noted = {name: answer[name] for name in NAMED if answer.get(name) not in (None, "")}
        spans = {"at": round(started - self.begun, 1), "took": round(now - started, 1)}
        self.answers.append({"call": kind, **spans, "http": status, **noted})
        header = answer.get("header_value")
        if header and header not in self.headers:
            self.headers.append(header)

    def problem(self, sentence):
        if sentence not in self.problems:
            self.problems.append(sentence)

    def check(self, status, answer):
        """Notes what contradicts the section "Repeat a trade or a loan"."""
        if self.options.lane == "sign" or status is None:
            return
        code = answer.get("code")
        if code in ("BUSY", "CHAIN_UNAVAILABLE", "DISK_FULL") and answer.get("recorded") is not False:
            self.problem(f"{code} without recorded: false")
        if answer.get("status") in UNDECIDED and not answer.get("request_id"):
            self.problem(f"{answer.get('status')} without a request_id")
        if answer.get("request_id"):
            expected = "signature" if self.mode != "bearer" else "idempotency_key" if self.options.key else "content"
            if not str(answer.get("identity")).startswith(expected + ":"):
                self.problem(f"the identity is {answer.get('identity')!r}, not one of {expected}")

    def ask(self):
        """Sends one body until there is an answer that the page calls an end, and polls for it if need be."""
        body, asked = self.body(), time.monotonic()
        timeouts = itertools.chain(self.options.timeout, itertools.repeat(self.options.timeout[-1]))
        silent, once_more = 0, False
        while True:
            status, answer = self.call("/" + self.options.lane, body, next(timeouts))
            self.check(status, answer)
            if status is None:
                pause = PAUSES_S[min(silent, len(PAUSES_S) - 1)]
                silent += 1
            elif answer.get("code") in REPEATED and answer.get("status") in ("error", None):
                silent, pause = 0, self.pause_in(answer)
            elif answer.get("status") in UNDECIDED and answer.get("request_id"):
                return self.poll(answer["request_id"])
            elif status in REPEATED_ONCE and answer.get("status") != "failed" and not once_more:
                silent, pause, once_more = 0, 0, True
            else:
                return status, answer
            if time.monotonic() + pause - asked > self.options.repeat_for:
                return status, answer
            time.sleep(pause)

    def pause_in(self, answer):
        pause = answer.get("retry_after")
        if not isinstance(pause, int) or isinstance(pause, bool):
            self.problem(f"{answer.get('code')} without retry_after")
            return PAUSES_S[-1]
        return pause

    def poll(self, request_id):
        path = f"/{self.options.lane}/status/{request_id}"
        end = time.monotonic() + self.options.wait
        while True:
            time.sleep(POLL_EVERY_S)
            status, answer = self.call(path, None, self.options.timeout[-1])
            going_on = status is None or status == 202 or answer.get("status") in UNDECIDED
            is_busy = "retry_after" in answer and answer.get("status") in ("error", None)
            if time.monotonic() > end or not (going_on or is_busy):
                return status, answer
            time.sleep(max(0, answer.get("retry_after", 0) - POLL_EVERY_S))

    def run(self):
        """Asks, and asks anew after an end that allows it. Returns what the agent now knows."""
        for asks in itertools.count(1):
            status, answer = self.ask()
            ended = answer.get("reason_code") or answer.get("code")
            again = answer.get("status") == "rejected" and ended in ASK_AGAIN
            if not again or asks > self.options.ask_again:
                break
            if self.mode != "bearer":
                time.sleep(1)  # a new timestamp
        word = answer.get("status") if status is not None else None
        return {
            "lane": self.options.lane,
            "mode": self.mode,
            "key": self.options.key,
            "outcome": word or "unknown",
            "http": status,
            "code": ended,
            "reason": answer.get("reason") or answer.get("error"),
            "asks": asks,
            "request_ids": sorted({a["request_id"] for a in self.answers if "request_id" in a}),
            "identities": sorted({a["identity"] for a in self.answers if "identity" in a}),
            "headers": self.headers,
            "problems": self.problems,
            "answers": self.answers,
        }


def seconds(text):
    values = [float(part) for part in text.split(",")]
    if not all(0 < value <= 3600 for value in values):
        raise argparse.ArgumentTypeError("each number of seconds must be from above 0 to 3600")
    return values


def options():
    parser = argparse.ArgumentParser(description="Make one purchase, trade or loan as docs/agents.md says.")
    parser.add_argument("lane", choices=("sign", "trade", "position"))
    parser.add_argument("--object", help="JSON of the trade or position object")
    parser.add_argument("--payment-required", help="the offer, as the shop's header has it")
    parser.add_argument("--request-url", default="https://shop.example/")
    parser.add_argument("--key", action="store_true", help="send an idempotency_key (bearer mode)")
    parser.add_argument("--timeout", type=seconds, default=[35.0], help="give up each call after this; 2,35: the first after 2 s")
    parser.add_argument("--repeat-for", type=float, default=REPEAT_FOR_S, help="stop repeating a body after so many seconds")
    parser.add_argument("--wait", type=float, default=960.0, help="longest polling in seconds")
    parser.add_argument("--ask-again", type=int, default=1, help="new requests where the page allows them")
    return parser.parse_args()


def main():
    told = Agent(options()).run()
    print(json.dumps(told))
    known = told["outcome"] in ("success", "executed", "rejected", "failed", "error")
    return 0 if known and not told["problems"] else 3


if __name__ == "__main__":
    sys.exit(main())

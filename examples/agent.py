#!/usr/bin/env python3
"""Pays for a URL as an HMAC agent, in both versions of x402 (Python 3.9 or newer, standard library only).

    eval "$(bursar agent instructions NAME)"        # four variables; the wallet must be open
    python3 examples/agent.py https://shop.example/report

The answer goes to standard output, everything else to standard error. Exit code 0: the answer has status 2xx.
1: it has another status, or nothing was paid. 2: wrong usage.
"""

import atexit
import base64
import hashlib
import hmac
import http.client
import json
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

LOST = (OSError, http.client.HTTPException)  # no whole answer
DECISION_S = 16 * 60  # the wallet itself gives up after 15 minutes


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None  # a payment is for one merchant only


MERCHANT = urllib.request.build_opener(NoRedirects)
WALLET = urllib.request.build_opener(NoRedirects, urllib.request.ProxyHandler({}))  # never through a proxy


def say(text):
    print("agent.py:", text, file=sys.stderr, flush=True)


def fail(text, exit_code=1):
    say(text)
    sys.exit(exit_code)


def call(opener, url, headers, data=None, timeout=120):
    """Returns status, headers and bytes. Any status is an answer; raises one of LOST if there is no answer."""
    request = urllib.request.Request(url, data=data, headers=headers)
    try:
        answer = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return answer.status, answer.headers, answer.read()


def parsed(data):
    """Returns the JSON object in the data, or an empty one."""
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class Wallet:
    def __init__(self, environment):
        names = ("WALLET_URL", "WALLET_AGENT_ID", "WALLET_AGENT_TOKEN", "WALLET_AUTH_MODE")
        missing = [name for name in names if not environment.get(name)]
        if missing:
            fail(f"{', '.join(missing)} not set: see bursar agent instructions", 2)
        url, self.agent_id, token, mode = (environment[name] for name in names)
        if mode != "hmac" or not re.fullmatch("AT_[0-9a-f]{64}", token):
            fail("this needs WALLET_AUTH_MODE=hmac and a token of AT_ and 64 hex digits", 2)
        self.url, self.key = url.rstrip("/"), bytes.fromhex(token[3:])

    def proof(self, content):
        """Returns the members that identify the agent. `content` is what the HMAC covers besides them."""
        timestamp = int(time.time())
        # Two equal requests in the same second are one payment, so the next run must start in another second.
        atexit.register(lambda: time.sleep(max(0.0, timestamp + 1 - time.time())))
        message = {**content, "agent_id": self.agent_id, "timestamp": timestamp}
        text = json.dumps(message, sort_keys=True, separators=(",", ":"))
        digest = hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()
        return {"agent_id": self.agent_id, "signature": f"SIG:{timestamp}:{digest}"}

    def ask(self, path, body=None):
        """Returns status and answer; status 0 if there is no whole answer."""
        data = None if body is None else json.dumps(body).encode()
        try:
            headers = {"Content-Type": "application/json"}
            status, _, answer = call(WALLET, self.url + path, headers, data, timeout=30)
        except LOST as error:
            return 0, {"code": "NO_ANSWER", "error": str(error)}
        return status, parsed(answer)

    def sign(self, url, offer):
        """Returns the signed payment, after the operator's decision if there is one to make."""
        content = {"request_url": url, **offer}
        # In hmac mode the signature is the idempotency key: the same body again is the same payment.
        body = {**content, **self.proof(content)}
        status, answer = self.ask("/sign", body)
        for _ in range(3):
            if status in (0, 503):
                time.sleep(answer.get("retry_after", 2))
                status, answer = self.ask("/sign", body)
        if status == 202:
            request, end = answer["request_id"], time.monotonic() + DECISION_S
            say(f"held: the operator decides about request {request}")
            while status in (0, 202, 429, 503):
                if time.monotonic() > end:
                    fail(f"no decision about request {request}")
                time.sleep(answer.get("retry_after", 2))
                status, answer = self.ask("/sign/status/" + request)
        if status != 200 or not answer.get("header_value"):
            text = answer.get("error") or answer.get("reason") or answer.get("message")
            fail(f"not paid: {answer.get('code')}: {text}")
        return answer

    def report(self, transaction_id, tx_hash):
        content = {"transaction_id": transaction_id, "event": "settled", "tx_hash": tx_hash}
        # The HMAC covers the three members as one object; the body has them at its top level.
        status, answer = self.ask("/callback", {**content, **self.proof({"callback": content})})
        say(f"settled: {tx_hash}" if status == 200 else f"settled, but the report failed: {answer.get('code')}")


def main():
    if len(sys.argv) != 2 or not sys.argv[1].startswith(("http://", "https://")):
        fail("usage: agent.py URL", 2)
    url = urllib.parse.quote(sys.argv[1], safe="%/:?&=#+~!$,;'()*@[]")
    wallet = Wallet(os.environ)
    try:
        status, headers, goods = call(MERCHANT, url, {})
    except LOST as error:
        fail(f"{url} gives no whole answer: {error}")
    id = None
    if status == 402:
        header, body = headers.get("PAYMENT-REQUIRED"), parsed(goods)
        if not header and body.get("x402Version") != 1:
            fail("the 402 answer is not an offer of x402")
        payment = wallet.sign(url, {"payment_required": header} if header else {"x402_data": body})
        id = payment["transaction_id"]
        say(f"signed: transaction {id}")
        try:
            status, headers, goods = call(MERCHANT, url, {payment["header_name"]: payment["header_value"]})
        except LOST as error:
            fail(f"no whole answer to payment {id}: {error}")
        receipt = headers.get("PAYMENT-RESPONSE") or headers.get("X-PAYMENT-RESPONSE") or ""
        try:
            receipt = parsed(base64.b64decode(receipt, validate=True))
        except ValueError:
            receipt = {}
        tx_hash = str(receipt.get("transaction"))
        if receipt.get("success") is True and re.fullmatch("0x[0-9a-fA-F]{64}", tx_hash):
            wallet.report(id, tx_hash)
    sys.stdout.buffer.write(goods)
    if not 200 <= status < 300:
        fail(f"HTTP {status} after payment {id}" if id else f"HTTP {status} without an offer: nothing was paid")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Pays for a URL as an HMAC agent (x402 version 2; Python 3.9 or newer, standard library only).

    eval "$(bursar agent instructions NAME)"        # four variables; the wallet must be open
    examples/agent.py https://shop.example/report

The answer goes to standard output, everything else to standard error. Exit code 0: the answer has status 2xx.
1: it has another status, or nothing was paid. 2: wrong usage."""

import base64
import hashlib
import hmac
import http.client
import json
import os
import re
import sys
import time
import urllib.request


class NoRedirects(urllib.request.HTTPRedirectHandler):
    redirect_request = lambda *_: None  # a payment is for one merchant only


names = ("URL", "AGENT_ID", "AGENT_TOKEN", "AUTH_MODE")
URL, AGENT, TOKEN, MODE = (os.environ.get(f"WALLET_{name}", "") for name in names)
LOST = (OSError, http.client.HTTPException)  # no whole answer
MERCHANT = urllib.request.build_opener(NoRedirects)
WALLET = urllib.request.build_opener(NoRedirects, urllib.request.ProxyHandler({}))  # never through a proxy


def say(text):
    print("agent.py:", text, file=sys.stderr, flush=True)


def stop(text, exit_code=1):
    sys.exit(say(text) or exit_code)


def call(opener, url, headers, data=None, timeout=120):
    """Returns status, headers and bytes of any answer. Raises one of LOST if there is no whole answer."""
    try:
        answer = opener.open(urllib.request.Request(url, data, headers), timeout=timeout)
    except urllib.request.HTTPError as error:
        answer = error
    with answer:
        return answer.status, answer.headers, answer.read()


def ask(path, body):
    """Returns the wallet's status and JSON object; status 0 if there is no whole answer."""
    url, data = URL.rstrip("/") + path, body and json.dumps(body).encode()
    try:
        status, _, answer = call(WALLET, url, {"Content-Type": "application/json"}, data, 30)
        return status, json.loads(answer)
    except LOST + (ValueError,) as error:
        return 0, {"code": "NO_ANSWER", "error": str(error)}


def proven(body, covered):
    """Returns the body with its signature: an HMAC over `covered`, the agent and the time."""
    timestamp = int(time.time())
    message = {**covered, "agent_id": AGENT, "timestamp": timestamp}
    text = json.dumps(message, sort_keys=True, separators=(",", ":"))
    digest = hmac.new(bytes.fromhex(TOKEN[3:]), text.encode(), hashlib.sha256).hexdigest()
    return {**body, "agent_id": AGENT, "signature": f"SIG:{timestamp}:{digest}"}


def sign(url, offer):
    """Returns the signed payment, after the operator's decision if the wallet holds the request."""
    time.sleep(1.02 - time.time() % 1)  # equal requests of two runs in one second would be one payment
    content = {"payment_required": offer, "request_url": url}
    # The signature is the idempotency key: after a lost answer exactly this body is sent again.
    path, body, end = "/sign", proven(content, content), time.monotonic() + 30
    while True:
        status, answer = ask(path, body)
        if status == 202 and body:
            say(f"held: request {answer['request_id']} waits for the operator")
            # The wallet itself gives up after 15 minutes.
            path, body, end = f"/sign/status/{answer['request_id']}", None, time.monotonic() + 960
        if (status not in (0, 202) and "retry_after" not in answer) or time.monotonic() > end:
            break
        time.sleep(answer.get("retry_after", 2))
    if status == 200 and answer.get("header_value"):
        return answer
    stop(f"not paid: {answer.get('code')}: {answer.get('error') or answer.get('reason') or answer.get('message')}")


def report(transaction, headers):
    """Reports the settlement that the merchant's receipt names."""
    try:
        receipt = json.loads(base64.b64decode(headers.get("PAYMENT-RESPONSE") or ""))
        tx_hash = receipt["transaction"] if receipt["success"] is True else ""
    except (ValueError, KeyError, TypeError):
        return
    if re.fullmatch("0x[0-9a-fA-F]{64}", str(tx_hash)):
        content = {"transaction_id": transaction, "event": "settled", "tx_hash": tx_hash}
        status, answer = ask("/callback", proven(content, {"callback": content}))
        say(f"settled by {tx_hash}; the wallet's answer to the report: {answer.get('code') or status}")


if not (URL and AGENT and MODE == "hmac" and re.fullmatch("AT_[0-9a-f]{64}", TOKEN)):
    stop("set the four variables of an HMAC agent: bursar agent instructions NAME", 2)
if len(sys.argv) != 2 or not re.fullmatch("https?://[!-~]+", sys.argv[1]):
    stop("usage: agent.py URL (in ASCII)", 2)
url, paid = sys.argv[1], "nothing was paid"
try:
    status, headers, goods = call(MERCHANT, url, {})
    if status == 402 and headers.get("PAYMENT-REQUIRED"):
        payment = sign(url, headers["PAYMENT-REQUIRED"])
        paid = f"the wallet signed payment {payment['transaction_id']}"
        status, headers, goods = call(MERCHANT, url, {payment["header_name"]: payment["header_value"]})
        report(payment["transaction_id"], headers)
except LOST as error:
    stop(f"{url} gives no whole answer: {error}; {paid}")
sys.stdout.buffer.write(goods)
if not 200 <= status < 300:
    stop(f"{url} answers with status {status}; {paid}")

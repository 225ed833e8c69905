#!/usr/bin/env python3
"""Lends a network's stablecoin as an HMAC agent (Python 3.9 or newer, standard library only).

    eval "$(bursar agent instructions NAME)"           # four variables; the wallet must be open
    examples/lend.py 8453                              # the venues of Base, and what the agent has there
    examples/lend.py 8453 supply 0xbeeF... 25.5
    examples/lend.py 8453 withdraw 0xbeeF... all       # or an amount

The wallet's answer goes to standard output as JSON, everything else to standard error. Exit code 0: the venues were
listed, or the money has moved. 1: it has not. 2: wrong usage."""

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
    redirect_request = lambda *_: None  # a proof is for the wallet only


names = ("URL", "AGENT_ID", "AGENT_TOKEN", "AUTH_MODE")
URL, AGENT, TOKEN, MODE = (os.environ.get(f"WALLET_{name}", "") for name in names)
WALLET = urllib.request.build_opener(NoRedirects, urllib.request.ProxyHandler({}))  # never through a proxy


def stop(text, exit_code=1):
    print("lend.py:", text, file=sys.stderr, flush=True)
    sys.exit(exit_code)


def ask(path, body):
    """Returns the wallet's status and JSON object; status 0 if there is no whole answer."""
    data, headers = body and json.dumps(body).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(URL.rstrip("/") + path, data, headers)
    try:
        try:
            answer = WALLET.open(request, timeout=60)
        except urllib.request.HTTPError as error:
            answer = error
        with answer:
            return answer.status, json.load(answer)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return 0, {"code": "NO_ANSWER", "error": str(error)}


def proven(position):
    """Returns the body with its signature: an HMAC over the position, the agent and the time."""
    message = {"agent_id": AGENT, "position": position, "timestamp": int(time.time())}
    text = json.dumps(message, sort_keys=True, separators=(",", ":"))
    digest = hmac.new(bytes.fromhex(TOKEN[3:]), text.encode(), hashlib.sha256).hexdigest()
    signature = f"SIG:{message['timestamp']}:{digest}"
    return {"agent_id": AGENT, "position": position, "signature": signature}


def settle(position):
    """Returns the end of a supply or withdrawal, after the operator's decision if the wallet holds the request."""
    time.sleep(1.02 - time.time() % 1)  # equal requests of two runs in one second would be one
    # The signature is the idempotency key: after a lost answer exactly this body is sent again.
    path, body, end = "/position", proven(position), time.monotonic() + 240
    while True:
        status, answer = ask(path, body)
        if body and answer.get("status") in ("pending", "executing"):
            print(f"lend.py: {answer['status']}: request {answer['request_id']}", file=sys.stderr, flush=True)
            # The operator has 15 minutes, and the transactions take a few more.
            path, body, end = f"/position/status/{answer['request_id']}", None, time.monotonic() + 1500
        is_open = answer.get("status") in ("pending", "executing")
        is_soon = status == 0 or answer.get("code") in ("BUSY", "RATE_LIMIT_EXCEEDED")
        if not (is_open or is_soon) or time.monotonic() > end:
            return answer
        time.sleep(answer.get("retry_after", 2))


if not (URL and AGENT and MODE == "hmac" and re.fullmatch("AT_[0-9a-f]{64}", TOKEN)):
    stop("set the four variables of an HMAC agent: bursar agent instructions NAME", 2)
if len(sys.argv) not in (2, 5) or not sys.argv[1].isdecimal() or sys.argv[2:3] not in ([], ["supply"], ["withdraw"]):
    stop("usage: lend.py CHAIN_ID [supply VENUE AMOUNT | withdraw VENUE AMOUNT | withdraw VENUE all]", 2)
position = {"chain_id": int(sys.argv[1])}
if len(sys.argv) == 2:
    answer = ask("/venues", proven(position))[1]
else:
    action, venue, amount = sys.argv[2:]
    # A market's id is longer than a vault's address.
    position.update(action=action, venue=venue, venue_kind="vault" if len(venue) == 42 else "market")
    # Only by all shares nothing is left: the position grows with each block.
    position.update({"withdraw_all": True} if amount == "all" else {"amount": amount})
    answer = settle(position)
print(json.dumps(answer, indent=1))
if answer.get("status") not in ("ok", "executed"):
    code = answer.get("reason_code") or answer.get("code") or answer.get("status")
    stop(f"not done: {code}: {answer.get('error') or answer.get('reason')}")

#!/usr/bin/env python3
"""Swaps tokens as a bearer agent (Python 3.9 or newer, standard library only).

    eval "$(bursar agent instructions NAME --regenerate)"   # four variables; the wallet must be open
    examples/trade.py 8453 ETH 0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913 0.001          # 0.001 ETH for USDC on Base
    examples/trade.py 8453 ETH 0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913 0.001 lunch    # the trade named "lunch"

The name is the idempotency key: another run with the same name is the same trade. Without one, each run draws a key of its
own. The wallet's answer goes to standard output as JSON, everything else to standard error. Exit code 0: the swap is final.
1: it is not. 2: wrong usage."""

import http.client
import json
import os
import re
import sys
import time
import urllib.request
import uuid


class NoRedirects(urllib.request.HTTPRedirectHandler):
    redirect_request = lambda *_: None  # the token is for the wallet only


names = ("URL", "AGENT_ID", "AGENT_TOKEN", "AUTH_MODE")
URL, AGENT, TOKEN, MODE = (os.environ.get(f"WALLET_{name}", "") for name in names)
WALLET = urllib.request.build_opener(NoRedirects, urllib.request.ProxyHandler({}))  # never through a proxy


def stop(text, exit_code=1):
    print("trade.py:", text, file=sys.stderr, flush=True)
    sys.exit(exit_code)


def ask(path, body):
    """Returns the wallet's status and JSON object; status 0 if there is no whole answer."""
    data, headers = body and json.dumps(body).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(URL.rstrip("/") + path, data, headers)
    try:
        try:
            answer = WALLET.open(request, timeout=35)  # the wallet answers within 25 seconds
        except urllib.request.HTTPError as error:
            answer = error
        with answer:
            return answer.status, json.load(answer)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return 0, {"code": "NO_ANSWER", "error": str(error)}


def settle(trade, key):
    """Returns the end of a trade, after the operator's decision if the wallet holds it."""
    # After a lost answer exactly this body is sent again. With its key it can never be a second trade.
    body = {"agent_id": AGENT, "signature": TOKEN, "trade": trade, "idempotency_key": key}
    path, end = "/trade", time.monotonic() + 600
    while True:
        status, answer = ask(path, body)
        if body and answer.get("status") in ("pending", "executing"):
            print(f"trade.py: {answer['status']}: request {answer['request_id']}", file=sys.stderr, flush=True)
            # The operator has 15 minutes, and the transactions take a few more.
            path, body, end = f"/trade/status/{answer['request_id']}", None, time.monotonic() + 1500
        is_open = answer.get("status") in ("pending", "executing")
        is_soon = status == 0 or answer.get("code") in ("BUSY", "CHAIN_UNAVAILABLE", "RATE_LIMIT_EXCEEDED")
        if not (is_open or is_soon) or time.monotonic() > end:
            return answer
        time.sleep(answer.get("retry_after", 2))


if not (URL and AGENT and MODE == "bearer" and re.fullmatch("AT_[0-9a-f]{64}", TOKEN)):
    stop("set the four variables of a bearer agent: bursar agent instructions NAME --regenerate", 2)
if len(sys.argv) not in (5, 6) or not sys.argv[1].isdecimal():
    stop("usage: trade.py CHAIN_ID TOKEN_IN TOKEN_OUT AMOUNT_IN [NAME]", 2)
chain, token_in, token_out, amount = sys.argv[1:5]
key = sys.argv[5] if len(sys.argv) == 6 else str(uuid.uuid4())
print(f"trade.py: the name of this trade is {key}", file=sys.stderr, flush=True)
answer = settle({"chain_id": int(chain), "token_in": token_in, "token_out": token_out, "amount_in": amount, "route": "best"}, key)
print(json.dumps(answer, indent=1))
if answer.get("status") != "executed":
    code = answer.get("reason_code") or answer.get("code") or answer.get("status")
    stop(f"not done: {code}: {answer.get('error') or answer.get('reason')}")

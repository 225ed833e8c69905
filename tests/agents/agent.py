#!/usr/bin/env python3
"""An agent that fetches a paywalled resource and lets a wallet sign the payment (x402).

Only the standard library. The agent holds no key: it asks the wallet, waits if the operator must
approve, and sends the signed header to the merchant.

usage: agent.py [--poll SECONDS] [--timeout SECONDS] <resource url>

environment: WALLET_URL, WALLET_AGENT_ID, WALLET_AGENT_TOKEN, WALLET_AUTH_MODE (hmac or bearer),
             WALLET_AGENT_FIELD (agent_id or agent_code)
prints one line of JSON; exit code 0 if paid, 3 otherwise
"""

import argparse
import atexit
import base64
import hashlib
import hmac
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

PAID, NOT_PAID = 0, 3
HTTP_TIMEOUT_S = 30


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A payment header is for one merchant only: never follow a redirect to another."""

    def redirect_request(self, *_):
        return None


# No proxy from the environment: wallet and demo merchant are on this machine.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirects)


def call(url, headers=None, body=None):
    """Sends one HTTP request: GET, or POST of a JSON body. Any status is an answer."""
    data = None if body is None else json.dumps(body).encode()
    url = urllib.parse.quote(url, safe="%/:?&=#+~!$,;'()*@[]")  # letters beyond ASCII
    request = urllib.request.Request(url, data=data, headers=headers or {})
    if data is not None:
        request.add_header("Content-Type", "application/json")
    try:
        answer = OPENER.open(request, timeout=HTTP_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return answer.status, answer.headers, answer.read().decode("utf-8", "replace")


def parsed(text):
    """Returns the parsed JSON, or the text if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def unpacked(header):
    """Returns the object in a base64 JSON header, or None."""
    try:
        return json.loads(base64.b64decode(header or "", validate=True))
    except ValueError:
        return None


def signed(token, message):
    """Returns `SIG:<timestamp>:<digest>`, an HMAC over the canonical message.

    Identical requests in the same second count as one payment. A later process cannot know about this one,
    so this process does not exit before the second has ended.
    """
    timestamp = int(time.time())
    atexit.register(lambda: time.sleep(max(0, timestamp + 1 - time.time())))
    canonical = json.dumps(
        {**message, "timestamp": timestamp}, separators=(",", ":"), sort_keys=True
    )
    key = bytes.fromhex(token[3:])  # after "AT_"
    digest = hmac.new(key, canonical.encode(), hashlib.sha256).hexdigest()
    return f"SIG:{timestamp}:{digest}"


def proven(message):
    """Returns the request body: the message with its proof, an HMAC or the token itself."""
    token = os.environ["WALLET_AGENT_TOKEN"]
    if os.environ.get("WALLET_AUTH_MODE", "hmac") != "bearer":
        return {**message, "signature": signed(token, message)}
    # Every run is a separate purchase, even of the same resource.
    return {**message, "signature": token, "idempotency_key": str(uuid.uuid4())}


def offer_in(headers, text):
    """Returns the offer of a 402 answer as the wallet expects it: version 2 in a header, version 1 in the body."""
    header = headers.get("PAYMENT-REQUIRED")
    if header:
        return {"payment_required": header}
    body = parsed(text)
    is_offer = isinstance(body, dict) and body.get("x402Version") == 1
    return {"x402_data": body} if is_offer else None


def ask_wallet(wallet, resource, offer, options):
    """Returns the wallet's final answer, after the operator's decision if one is needed."""
    field = os.environ.get("WALLET_AGENT_FIELD", "agent_id")
    message = {field: os.environ["WALLET_AGENT_ID"], "request_url": resource, **offer}
    code, _, text = call(f"{wallet}/sign", body=proven(message))
    answer = parsed(text)
    give_up = time.monotonic() + options.timeout
    while code == 202 and isinstance(answer, dict) and answer.get("request_id"):
        if time.monotonic() >= give_up:
            return code, {**answer, "status": "timeout", "reason": "nobody approved in time"}
        time.sleep(options.poll)
        try:
            code, _, text = call(f"{wallet}/sign/status/{answer['request_id']}")
        except (OSError, http.client.HTTPException):
            continue  # the wallet is restarting; it keeps the request
        # Later answers may omit the id.
        later = parsed(text)
        answer = {"request_id": answer["request_id"], **later} if isinstance(later, dict) else later
    return code, answer if isinstance(answer, dict) else {"error": answer}


def result(outcome, code, wallet=None, body=None, receipt=None):
    wallet = wallet or {}
    return {
        "outcome": outcome,
        "http": code,
        "request_id": wallet.get("request_id"),
        "transaction_id": wallet.get("transaction_id"),
        "code": wallet.get("code"),
        "reason": wallet.get("reason") or wallet.get("error"),
        "body": body,
        "payment_response": receipt,
    }


def fetch(resource, options):
    """Fetches the resource and pays for it if the server requires payment."""
    code, headers, text = call(resource)
    if code != 402:
        outcome = "free" if 200 <= code < 300 else "unavailable"
        return result(outcome, code, body=parsed(text))
    offer = offer_in(headers, text)
    if offer is None:
        return result("unavailable", code, {"reason": "the 402 answer is no x402 offer"})
    wallet = os.environ["WALLET_URL"].rstrip("/")
    code, answer = ask_wallet(wallet, resource, offer, options)
    status = answer.get("status")
    if status in ("rejected", "timeout"):
        return result(status, code, answer)
    if status != "success" or not answer.get("header_value"):
        return result("refused", code, answer)
    payment = {answer["header_name"]: answer["header_value"]}
    code, headers, text = call(resource, headers=payment)
    receipt = unpacked(headers.get("PAYMENT-RESPONSE") or headers.get("X-PAYMENT-RESPONSE"))
    outcome = "paid" if 200 <= code < 300 else "unpaid"
    return result(outcome, code, answer, parsed(text), receipt)


def main():
    options = argparse.ArgumentParser(description="Fetch a resource and pay for it.")
    options.add_argument("resource")
    options.add_argument("--poll", type=float, default=1.0, help="seconds between two questions")
    options.add_argument("--timeout", type=float, default=900.0, help="seconds to wait for approval")
    options = options.parse_args()
    try:
        told = fetch(options.resource, options)
    except KeyError as missing:
        told = result("error", None, {"reason": f"{missing.args[0]} is not there"})
    except (OSError, ValueError, http.client.HTTPException) as error:
        told = result("error", None, {"reason": str(error)})
    print(json.dumps(told))
    return PAID if told["outcome"] == "paid" else NOT_PAID


if __name__ == "__main__":
    sys.exit(main())

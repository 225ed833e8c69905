#!/usr/bin/env python3
"""Pays with a wallet that signs for you (x402). Python 3.8 or newer, standard library only.

As a program, which prints one JSON object (exit code 0: done, 1: not done, 2: wrong usage):

    python3 wallet_helper.py pay https://shop.example/report
    python3 wallet_helper.py sign --payment-required VALUE --request-url URL
    python3 wallet_helper.py wait REQUEST_ID
    python3 wallet_helper.py callback TRANSACTION_ID settled --tx-hash 0x...
[[trades and loans]]
    python3 wallet_helper.py trade USDC_ADDRESS ETH 25 --chain-id 8453 --route best
    python3 wallet_helper.py venues --chain-id 8453
    python3 wallet_helper.py position supply VENUE 25 --chain-id 8453
    python3 wallet_helper.py position withdraw VENUE --all --chain-id 8453
    python3 wallet_helper.py balances
[[end]]
    python3 wallet_helper.py mandate | status | ping
    python3 wallet_helper.py receipt TRANSACTION_ID

As a module:

    from wallet_helper import Wallet, WalletError
    paid = Wallet.from_env().pay("https://shop.example/report")
    print(paid.status, paid.transaction_id, paid.text)

Environment: WALLET_URL, WALLET_AGENT_ID, WALLET_AGENT_TOKEN, WALLET_AUTH_MODE (hmac or bearer), or the same
as PRIMER_VAULT_URL, PRIMER_VAULT_AGENT_ID, PRIMER_VAULT_AGENT_TOKEN, PRIMER_VAULT_AUTH_MODE.
"""

import argparse
import atexit
import base64
import decimal
import hashlib
import hmac
import http.client
import ipaddress
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

TIMEOUT_S = 30  # one call to the wallet
RESOURCE_TIMEOUT_S = 120  # one call to a merchant, which may settle before it answers
APPROVAL_S = 16 * 60  # the wallet ends a pending request after 15 minutes
# [[trades and loans]]
PLAN_S = 25 * 60  # then it sends transactions for 5 minutes at most, and waits until they are final
# [[end]]
POLL_S = 2
RETRY_WAITS_S = (0.5, 1, 2, 4)  # all tries end well within 300 s, the default validity of a proof
STAMPS_AHEAD_S = 5  # how far the timestamps of equal purchases may run ahead of the clock
REDIRECTS = 5
LOST = (OSError, http.client.HTTPException)  # there is no complete answer


class WalletError(Exception):
    """A failed call: `code` is a stable word, `message` a sentence, and `answer` the answer's object, if any.

    The wallet's codes, and those of this helper: NO_ANSWER (no complete answer of the wallet), TIMEOUT (the
    request is still open: wait again), UNEXPECTED_ANSWER (an answer without a code), NOT_X402 (the 402 answer is
    not a valid offer), UNDELIVERED (signed, but the merchant gave no complete answer: `answer` has the
    header, which may be sent to the merchant again).
    """

    def __init__(self, code, message, http_status=None, answer=None):
        super().__init__("%s: %s" % (code, message))
        self.code = code
        self.message = message
        self.http_status = http_status
        self.answer = answer if isinstance(answer, dict) else {}
        self.transaction_id = self.answer.get("transaction_id")
        self.request_id = self.answer.get("request_id")
        self.retry_after = self.answer.get("retry_after")


class Response:
    """A merchant's answer, with its payment if there was one."""

    def __init__(self, url, status, headers, body, transaction_id=None):
        self.url = url
        self.status = status
        self.headers = headers
        self.body = body
        self.transaction_id = transaction_id
        receipt = headers.get("PAYMENT-RESPONSE") or headers.get("X-PAYMENT-RESPONSE")
        self.receipt = unpacked(receipt)
        self.reported = None

    @property
    def ok(self):
        return 200 <= self.status < 300

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.body)

    @property
    def tx_hash(self):
        """The transaction that moved the money, if the merchant named one that succeeded."""
        receipt = self.receipt or {}
        named = receipt.get("transaction")
        return named if receipt.get("success") is True and is_tx_hash(named) else None


# --- proofs ---


def canonical(obj):
    """The text that the HMAC covers: sorted keys, no spaces, ASCII only. NaN and infinity are refused."""
    return json.dumps(obj, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sign_message(token, message):
    """The proof `SIG:<timestamp>:<digest>` of a message, which contains its `timestamp`."""
    if not is_token(token):
        raise ValueError("the agent token must be AT_ and 64 hex digits")
    key = bytes.fromhex(token[3:])
    digest = hmac.new(key, canonical(message).encode("ascii"), hashlib.sha256).hexdigest()
    return "SIG:%d:%s" % (message["timestamp"], digest)


_STAMPS = {}  # the last timestamp of each purchase
_STAMPS_LOCK = threading.Lock()


def unused_second(purchase):
    """A timestamp with which this process has not signed this purchase: equal proofs would be one payment. At
    exit the process waits until its last timestamp is over, so that the next process cannot use it again."""
    content = hashlib.sha256(canonical(purchase).encode("ascii")).digest()
    while True:
        with _STAMPS_LOCK:
            now = int(time.time())
            stamp = max(now, _STAMPS.get(content, 0) + 1)
            if stamp - now <= STAMPS_AHEAD_S:
                for old in [known for known, at in _STAMPS.items() if at < now]:
                    del _STAMPS[old]
                _STAMPS[content] = stamp
                return stamp
        time.sleep(1)


@atexit.register
def _outlast_stamps():
    left = max(_STAMPS.values(), default=0) + 1 - time.time()
    time.sleep(min(max(left, 0), STAMPS_AHEAD_S + 1))


def is_hex(text, digits):
    return isinstance(text, str) and len(text) == digits and not set(text) - set("0123456789abcdefABCDEF")


def is_token(text):
    return isinstance(text, str) and text.startswith("AT_") and is_hex(text[3:], 64)


def is_tx_hash(text):
    return isinstance(text, str) and text.startswith("0x") and is_hex(text[2:], 64)


# --- HTTP ---


class _Still(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: what is sent to one address is meant for that address."""

    def redirect_request(self, *_):
        return None


_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Still)
_AS_CONFIGURED = urllib.request.build_opener(_Still)  # through the proxy of the environment, if there is one


def web_address(url):
    """The address as it is sent: http or https, no fragment, no user name, non-ASCII characters encoded."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not an http or https address: %s" % url)
    if "@" in parts.netloc:
        raise ValueError("an address must not contain a user name or password")
    host = parts.netloc.encode("idna").decode("ascii") if not parts.netloc.isascii() else parts.netloc
    path = urllib.parse.quote(parts.path or "/", safe="%/:=&+~!$,;'()*@")
    query = urllib.parse.quote(parts.query, safe="%/:?=&+~!$,;'()*[]@")
    return urllib.parse.urlunsplit((parts.scheme, host, path, query, ""))


def origin(url):
    parts = urllib.parse.urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return parts.scheme, parts.hostname, port


def is_loopback(url):
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def call(url, method="GET", body=None, headers=None, timeout=TIMEOUT_S, direct=False):
    """One exchange. Any status is an answer; `LOST` is raised if there is none."""
    request = urllib.request.Request(url, data=body, headers=headers or {}, method=method)
    opener = _DIRECT if direct or is_loopback(url) else _AS_CONFIGURED
    try:
        answer = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as status:
        answer = status
    with answer:
        return answer.getcode(), answer.headers, answer.read()


def refuse_constant(name):
    raise ValueError("%s is not JSON" % name)


def parsed(body, parse_float=None):
    """The object in a body, or None."""
    try:
        value = json.loads(body, parse_float=parse_float, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def unpacked(header):
    """The object in a header of base64 JSON, or None."""
    try:
        return parsed(base64.b64decode(header or "", validate=True))
    except ValueError:
        return None


def offer_in(headers, body):
    """The arguments for `Wallet.sign` that a 402 answer asks for."""
    header = headers.get("PAYMENT-REQUIRED")
    if header:
        return {"payment_required": header}
    data = parsed(body)
    if data is not None and data.get("x402Version") in (1, 2) and isinstance(data.get("accepts"), list):
        return {"x402_data": data}
    raise WalletError("NOT_X402", "the 402 answer has no PAYMENT-REQUIRED header and no x402 body", 402)


# --- the wallet ---


class Wallet:
    """The client with which one agent calls its wallet."""

    def __init__(self, url, agent_id, token, auth_mode="hmac"):
        if auth_mode not in ("hmac", "bearer"):
            raise ValueError("the auth mode must be hmac or bearer")
        if not agent_id or not is_token(token):
            raise ValueError("an agent needs an id, and a token of AT_ and 64 hex digits")
        self.url = web_address(url).rstrip("/")
        self.agent_id = agent_id
        self.auth_mode = auth_mode
        self._token = token

    @classmethod
    def from_env(cls, environ=None):
        environ = os.environ if environ is None else environ

        def read(name, default=None):
            value = environ.get("WALLET_" + name) or environ.get("PRIMER_VAULT_" + name) or default
            if not value:
                raise ValueError("the environment variable WALLET_%s is not set" % name)
            return value

        mode = read("AUTH_MODE", "hmac").lower()
        return cls(read("URL"), read("AGENT_ID"), read("AGENT_TOKEN"), mode)

    def __repr__(self):
        return "Wallet(%r, %r, auth_mode=%r)" % (self.url, self.agent_id, self.auth_mode)

    # Builders: the body to post, with its proof.

    def sign_body(self, payment_required=None, x402_data=None, request_url=None, idempotency_key=None,
                  timestamp=None):
        """The body of `POST /sign`. In hmac mode each body is a separate purchase."""
        if (payment_required is None) == (x402_data is None):
            raise ValueError("give exactly one of payment_required and x402_data")
        content = {}
        if payment_required is not None:
            content["payment_required"] = payment_required
        else:
            content["x402_data"] = x402_data
        if request_url:
            content["request_url"] = request_url
        if timestamp is None and self.auth_mode == "hmac":
            timestamp = unused_second(dict(content, agent_id=self.agent_id))
        body = self._proven(content, content, timestamp)
        if idempotency_key:
            body["idempotency_key"] = idempotency_key
        return body

    def callback_body(self, transaction_id, event, tx_hash=None, error=None, timestamp=None):
        """The body of `POST /callback`: flat, while its signed message nests the three fields."""
        content = {"transaction_id": transaction_id, "event": event, "tx_hash": tx_hash}
        body = self._proven({"callback": content}, content, timestamp)
        if error:
            body["error"] = error
        return body

    # [[trades and loans]]
    def venues_body(self, chain_id=None, timestamp=None):
        """The body of `POST /venues`. Without a position the signed message contains an empty one."""
        position = {} if chain_id is None else {"chain_id": chain_id}
        return self._proven({"position": position}, {"position": position} if position else {}, timestamp)

    def trade_body(self, trade, idempotency_key=None, timestamp=None):
        """The body of `POST /trade`. In hmac mode each body is a separate trade."""
        return self._plan_body({"trade": trade}, idempotency_key, timestamp)

    def position_body(self, position, idempotency_key=None, timestamp=None):
        """The body of `POST /position`. In hmac mode each body is a separate request."""
        return self._plan_body({"position": position}, idempotency_key, timestamp)

    def _plan_body(self, content, idempotency_key, timestamp):
        if timestamp is None and self.auth_mode == "hmac":
            timestamp = unused_second(dict(content, agent_id=self.agent_id))
        body = self._proven(content, content, timestamp)
        if idempotency_key:
            body["idempotency_key"] = idempotency_key
        return body

    # [[end]]
    def read_body(self, timestamp=None):
        """The body of `POST /mandate` and of the other calls that only read."""
        return self._proven({"action": "agent_read"}, {}, timestamp)

    def _proven(self, signed, sent, timestamp):
        body = dict(sent, agent_id=self.agent_id)
        if self.auth_mode == "bearer":
            body["signature"] = self._token
            return body
        if timestamp is None:
            timestamp = int(time.time())
        message = dict(signed, agent_id=self.agent_id, timestamp=timestamp)
        body["signature"] = sign_message(self._token, message)
        return body

    # Calls.

    def sign(self, payment_required=None, x402_data=None, request_url=None, idempotency_key=None):
        """Asks for a payment. Returns the wallet's object: `status` is success, or pending or executing
        with a `request_id` for `wait`. Raises WalletError on every refusal."""
        body = self.sign_body(payment_required, x402_data, request_url, idempotency_key)
        return self._settled(*self._post("/sign", body))

    def wait(self, request_id, timeout=APPROVAL_S, poll=POLL_S):
        """Waits for the operator and returns the signed payment. Raises WalletError on a refusal or timeout."""
        return self._wait("/sign/status/", request_id, timeout, poll, self._settled, "success")

    def _wait(self, path, request_id, timeout, poll, judge, wanted):
        """Polls until the request has the wanted status. `judge` raises on every other end."""
        path += urllib.parse.quote(request_id, safe="")
        end = time.monotonic() + timeout
        answer = {}
        while True:
            try:
                status, answer = self._get(path)
                pause = poll if status != 429 else max(poll, float(answer.get("retry_after") or 60))
                if status not in (429, 503):
                    told = judge(status, answer)
                    if told["status"] == wanted:
                        return told
            except LOST:
                pause = poll  # the wallet may be restarting: it keeps the request
            left = end - time.monotonic()
            if left <= 0:
                kept = dict(answer, request_id=request_id)
                raise WalletError("TIMEOUT", "the request is still open: wait again", None, kept)
            time.sleep(min(pause, left))

    def pay(self, url, method="GET", body=None, headers=None, idempotency_key=None, timeout=APPROVAL_S,
            poll=POLL_S, report=True):
        """Calls `url`, and pays if it requires a payment. Returns a Response; `transaction_id` is None if
        nothing was paid.

        Every call is a separate purchase. With the same `idempotency_key` (bearer mode), repeated calls are
        one purchase while its header is valid. With `report`, the wallet receives the transaction that the
        merchant names.
        """
        if idempotency_key is None and self.auth_mode == "bearer":
            idempotency_key = str(uuid.uuid4())
        sent = body.encode("utf-8") if isinstance(body, str) else body
        headers = dict(headers or {})
        url, status, told, got = self._unpaid(web_address(url), method, sent, headers)
        if status != 402:
            return Response(url, status, told, got)
        answer = self.sign(request_url=url, idempotency_key=idempotency_key, **offer_in(told, got))
        if answer["status"] != "success":
            answer = self.wait(answer["request_id"], timeout, poll)
        # Sends the payment once, and only to the address that required it.
        headers[answer["header_name"]] = answer["header_value"]
        try:
            status, told, got = call(url, method, sent, headers, RESOURCE_TIMEOUT_S)
        except LOST as lost:
            said = "signed, but the merchant gave no complete answer (%s)" % type(lost).__name__
            raise WalletError("UNDELIVERED", said, None, answer) from lost
        response = Response(url, status, told, got, answer.get("transaction_id"))
        if report and response.tx_hash:
            response.reported = self._report(response)
        return response

    def _unpaid(self, url, method, body, headers):
        """The answer before a payment, with the address that gave it. Follows redirects of GET and HEAD within
        the same origin, because the caller's headers are meant for it; any other redirect is the answer."""
        for _ in range(REDIRECTS):
            status, told, got = call(url, method, body, headers, RESOURCE_TIMEOUT_S)
            named = told.get("Location")
            if status not in (301, 302, 303, 307, 308) or method not in ("GET", "HEAD") or not named:
                break
            target = urllib.parse.urljoin(url, named)
            try:
                target = web_address(target)
            except ValueError:
                break
            if origin(target) != origin(url):
                break
            url = target
        return url, status, told, got

    def _report(self, response):
        """Reports a settlement. If this fails, returns the code, so that the caller still gets the goods."""
        try:
            self.callback(response.transaction_id, "settled", response.tx_hash)
            return "settled"
        except WalletError as error:
            return error.code

    def callback(self, transaction_id, event, tx_hash=None, error=None):
        """Reports the result of a payment: submitted, settled (with its tx_hash) or failed."""
        return self._good(*self._post("/callback", self.callback_body(transaction_id, event, tx_hash, error)))

    # [[trades and loans]]
    def trade(self, token_in, token_out, amount_in, chain_id=None, idempotency_key=None, timeout=PLAN_S, poll=POLL_S,
              **fields):
        """Swaps tokens, waits for the end and returns the executed result.

        Tokens are addresses or ETH; `amount_in` is text in whole coins. `fields` are the optional ones of the
        wallet's `trade`, such as route="best" or fee_tier=500. Raises WalletError if the trade is rejected, has
        failed, or is still open after `timeout` seconds (TIMEOUT: wait_trade).

        Every call is a separate trade. With the same `idempotency_key` (bearer mode), repeated calls are one.
        """
        trade = dict(fields, token_in=token_in, token_out=token_out, amount_in=str(amount_in))
        if chain_id is not None:
            trade["chain_id"] = chain_id
        if idempotency_key is None and self.auth_mode == "bearer":
            idempotency_key = str(uuid.uuid4())
        answer = self._executed(*self._post("/trade", self.trade_body(trade, idempotency_key)))
        if answer["status"] == "executed":
            return answer
        return self.wait_trade(answer["request_id"], timeout, poll)

    def wait_trade(self, request_id, timeout=PLAN_S, poll=POLL_S):
        """Waits for the end of a trade and returns the executed result. Raises WalletError as `trade` does."""
        return self._wait("/trade/status/", request_id, timeout, poll, self._executed, "executed")

    def venues(self, chain_id=None):
        """Where the stablecoin of a network can be lent, and what the agent's address has there."""
        return self._good(*self._post("/venues", self.venues_body(chain_id)))

    def position(self, action, venue, amount=None, withdraw_all=False, shares=False, chain_id=None, deadline=None,
                 idempotency_key=None, timeout=PLAN_S, poll=POLL_S):
        """Supplies to a venue or withdraws from it, waits for the end and returns the executed result.

        `amount` is text in whole coins; `withdraw_all` withdraws everything. Raises WalletError if the request
        is rejected, has failed, or is still open after `timeout` seconds (TIMEOUT: wait_position).

        Every call is a separate request. With the same `idempotency_key` (bearer mode), repeated calls are one.
        """
        if withdraw_all == (amount is not None):
            raise ValueError("give either an amount or withdraw_all")
        position = {"action": action, "venue": venue, "venue_kind": "market" if len(venue) > 42 else "vault"}
        if withdraw_all:
            position["withdraw_all"] = True
        else:
            position["amount"] = str(amount)
        if shares:
            position["denomination"] = "shares"
        if chain_id is not None:
            position["chain_id"] = chain_id
        if deadline is not None:
            position["deadline"] = deadline
        if idempotency_key is None and self.auth_mode == "bearer":
            idempotency_key = str(uuid.uuid4())
        answer = self._executed(*self._post("/position", self.position_body(position, idempotency_key)))
        if answer["status"] == "executed":
            return answer
        return self.wait_position(answer["request_id"], timeout, poll)

    def wait_position(self, request_id, timeout=PLAN_S, poll=POLL_S):
        """Waits for the end of a position and returns the executed result. Raises WalletError as `position` does."""
        return self._wait("/position/status/", request_id, timeout, poll, self._executed, "executed")

    # [[end]]
    def mandate(self):
        """Address, limits, and what is left of them today."""
        return self._good(*self._post("/mandate", self.read_body()))

    # [[trades and loans]]
    def balances(self):
        """The balances of the agent's address."""
        return self._good(*self._post("/balances", self.read_body()))

    # [[end]]
    def status(self):
        """The counters of the server, and this agent's status and limits."""
        return self._good(*self._post("/status", self.read_body()))

    def ping(self):
        """Checks that this agent is known, commissioned and not suspended. Sends no proof."""
        return self._good(*self._post("/ping", {"agent_id": self.agent_id}))

    def receipt(self, transaction_id):
        try:
            return self._good(*self._get("/receipt/" + urllib.parse.quote(transaction_id, safe="")))
        except LOST as lost:
            raise no_answer(lost) from lost

    def _get(self, path):
        return wallet_answer(*call(self.url + path, direct=True))

    def _post(self, path, body):
        """Posts the same bytes, up to five times, until there is an answer other than BUSY: an equal ask gets
        an equal answer."""
        data = json.dumps(body, allow_nan=False).encode("ascii")
        headers = {"Content-Type": "application/json"}
        for wait in RETRY_WAITS_S + (None,):
            try:
                status, answer = wallet_answer(*call(self.url + path, "POST", data, headers, direct=True))
            except LOST as lost:
                if wait is None:
                    raise no_answer(lost) from lost
            else:
                if wait is None or answer.get("code") != "BUSY":
                    return status, answer
            time.sleep(wait)

    @staticmethod
    def _good(status, answer):
        if 200 <= status < 300:
            return answer
        raise refused(status, answer)

    @staticmethod
    def _settled(status, answer):
        """An answer to a payment: signed or still open. Everything else is raised."""
        told = answer.get("status")
        if status == 200 and told == "success" and answer.get("header_value"):
            return answer
        if status == 202 and answer.get("request_id") and told in ("pending", "executing"):
            return answer
        raise refused(status, answer)

    # [[trades and loans]]
    @staticmethod
    def _executed(status, answer):
        """An answer about a trade or position: executed or still open. Everything else is raised."""
        told = answer.get("status")
        if status == 200 and told == "executed":
            return answer
        if status in (200, 202) and answer.get("request_id") and told in ("pending", "executing"):
            return answer
        raise refused(status, answer)
    # [[end]]


def wallet_answer(status, _headers, body):
    """The wallet's object. Numbers with a decimal point stay exact."""
    answer = parsed(body, parse_float=decimal.Decimal)
    return status, answer if answer is not None else {"error": "HTTP %d without a JSON object" % status}


def refused(status, answer):
    rejected = answer.get("status") == "rejected"
    # [[trades and loans]]
    # A trade or position names its reason in `reason_code`; its `code` has the original wallet's fewer words.
    # [[end]]
    code = answer.get("reason_code") or answer.get("code")
    code = code or ("REQUEST_DENIED" if rejected else "UNEXPECTED_ANSWER")
    message = answer.get("error") or answer.get("reason") or answer.get("message") or "HTTP %d" % status
    return WalletError(code, message, status, answer)


def no_answer(lost):
    return WalletError("NO_ANSWER", "the wallet gave no complete answer (%s)" % (lost or type(lost).__name__))


# --- the program ---


def readable(body):
    """A body for a JSON object: JSON, else text, else base64."""
    try:
        return {"body": json.loads(body, parse_float=decimal.Decimal, parse_constant=refuse_constant)}
    except (ValueError, RecursionError):
        pass
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode("ascii")}


def run_pay(wallet, given):
    headers = {}
    for line in given.header:
        name, _, value = line.partition(":")
        headers[name.strip()] = value.strip()
    body = given.data
    if body is not None:
        headers.setdefault("Content-Type", "application/json")
    paid = wallet.pay(given.url, given.method or ("GET" if body is None else "POST"), body, headers,
                      given.idempotency_key, given.timeout, given.poll)
    told = {
        "status": "success" if paid.ok else "error",
        "http": paid.status,
        "transaction_id": paid.transaction_id,
        "tx_hash": paid.tx_hash,
        "reported": paid.reported,
    }
    if not paid.ok:
        told["error"] = "the merchant answered HTTP %d" % paid.status
        told["reason"] = (paid.receipt or {}).get("errorReason")
        told["location"] = paid.headers.get("Location")
    if given.out:
        with open(given.out, "wb") as file:
            file.write(paid.body)
        told["out"] = given.out
    else:
        told.update(readable(paid.body))
    return told


def run_sign(wallet, given):
    data = None
    if given.x402_data is not None:
        data = parsed(sys.stdin.read() if given.x402_data == "-" else given.x402_data)
        if data is None:
            raise ValueError("--x402-data must be a JSON object")
    answer = wallet.sign(given.payment_required, data, given.request_url, given.idempotency_key)
    if given.wait and answer["status"] != "success":
        answer = wallet.wait(answer["request_id"], given.timeout, given.poll)
    return answer


# [[trades and loans]]
def run_trade(wallet, given):
    wanted = ("route", "fee_tier", "tick_spacing", "hooks", "max_slippage_bps", "deadline")
    fields = {name: getattr(given, name) for name in wanted if getattr(given, name) is not None}
    return wallet.trade(given.token_in, given.token_out, given.amount, given.chain_id, given.idempotency_key,
                        given.timeout, given.poll, **fields)


def run_position(wallet, given):
    return wallet.position(given.action, given.venue, given.amount, given.all, given.shares, given.chain_id,
                           given.deadline, given.idempotency_key, given.timeout, given.poll)


def add_trades_and_loans(commands):
    commands.add_parser("balances", help="the balances of the agent's address")
    trade = commands.add_parser("trade", help="swap tokens, and wait for the end")
    trade.add_argument("token_in", help="a token's address, or ETH")
    trade.add_argument("token_out", help="a token's address, or ETH")
    trade.add_argument("amount", help="of token_in in whole coins, such as 1.5")
    trade.add_argument("--route", choices=("best",), help="take the route that pays most after gas")
    trade.add_argument("--fee-tier", type=int, help="the pool's; 3000 without it")
    trade.add_argument("--tick-spacing", type=int, help="of a v4 pool, with --hooks")
    trade.add_argument("--hooks", help="address of a v4 pool's hooks")
    trade.add_argument("--max-slippage-bps", type=int)
    trade.add_argument("--deadline", type=int, help="Unix seconds")
    wait_trade = commands.add_parser("wait-trade", help="wait for the end of a trade")
    wait_trade.add_argument("request_id")
    venues = commands.add_parser("venues", help="where the stablecoin can be lent, and what is lent there")
    position = commands.add_parser("position", help="supply to a venue or withdraw from it, and wait for the end")
    position.add_argument("action", choices=("supply", "withdraw"))
    position.add_argument("venue", help="a vault's address or a market's id, as venues lists it")
    position.add_argument("amount", nargs="?", help="in whole coins, such as 25.5")
    position.add_argument("--all", action="store_true", help="withdraw everything, instead of an amount")
    position.add_argument("--shares", action="store_true", help="the amount is a number of shares to withdraw")
    position.add_argument("--deadline", type=int, help="Unix seconds")
    for command in (trade, venues, position):
        command.add_argument("--chain-id", type=int, help="8453 for Base; without it Robinhood Chain")
    wait_position = commands.add_parser("wait-position", help="wait for the end of a position")
    wait_position.add_argument("request_id")
    for command in (trade, position):
        command.add_argument("--idempotency-key", help="bearer mode: the name of this request")
    for command in (trade, wait_trade, position, wait_position):
        command.add_argument("--timeout", type=float, default=PLAN_S, help="seconds to wait for the end")
        command.add_argument("--poll", type=float, default=POLL_S, help="seconds between two polls")


# [[end]]
def arguments():
    about = "Pay with a wallet that signs for you (x402)."
    parser = argparse.ArgumentParser(description=about)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True

    pay = commands.add_parser("pay", help="call an address, pay if it requires a payment, print the answer")
    pay.add_argument("url")
    pay.add_argument("--method")
    pay.add_argument("--data", help="the body")
    pay.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'")
    pay.add_argument("--out", help="write the body to this file")
    sign = commands.add_parser("sign", help="ask for the payment header only")
    what = sign.add_mutually_exclusive_group(required=True)
    what.add_argument("--payment-required", help="the value of the PAYMENT-REQUIRED header")
    what.add_argument("--x402-data", help="the 402 answer's JSON body; - reads it from standard input")
    sign.add_argument("--request-url")
    sign.add_argument("--wait", action="store_true", help="wait for the operator")
    wait = commands.add_parser("wait", help="wait for the operator")
    wait.add_argument("request_id")
    for command in (pay, sign):
        command.add_argument("--idempotency-key", help="bearer mode: the name of this request")
    for command in (pay, sign, wait):
        command.add_argument("--timeout", type=float, default=APPROVAL_S, help="seconds to wait for the operator")
    for command in (pay, sign, wait):
        command.add_argument("--poll", type=float, default=POLL_S, help="seconds between two polls")
    callback = commands.add_parser("callback", help="report the outcome of a payment")
    callback.add_argument("transaction_id")
    callback.add_argument("event", choices=("submitted", "settled", "failed"))
    callback.add_argument("--tx-hash")
    callback.add_argument("--error")
    receipt = commands.add_parser("receipt", help="the receipt of a payment")
    receipt.add_argument("transaction_id")
    for name, about in (
        ("mandate", "limits, and what is left of them today"),
        ("status", "the server and this agent"),
        ("ping", "whether this agent is known, commissioned and not suspended"),
    ):
        commands.add_parser(name, help=about)
    # [[trades and loans]]
    add_trades_and_loans(commands)
    # [[end]]
    return parser


def run(given):
    wallet = Wallet.from_env()
    if given.command == "pay":
        return run_pay(wallet, given)
    if given.command == "sign":
        return run_sign(wallet, given)
    if given.command == "wait":
        return wallet.wait(given.request_id, given.timeout, given.poll)
    # [[trades and loans]]
    if given.command == "trade":
        return run_trade(wallet, given)
    if given.command == "wait-trade":
        return wallet.wait_trade(given.request_id, given.timeout, given.poll)
    if given.command == "venues":
        return wallet.venues(given.chain_id)
    if given.command == "position":
        return run_position(wallet, given)
    if given.command == "wait-position":
        return wallet.wait_position(given.request_id, given.timeout, given.poll)
    # [[end]]
    if given.command == "callback":
        return wallet.callback(given.transaction_id, given.event, given.tx_hash, given.error)
    if given.command == "receipt":
        return wallet.receipt(given.transaction_id)
    return getattr(wallet, given.command)()


def main():
    given = arguments().parse_args()
    try:
        told = run(given)
    except WalletError as error:
        told = {"status": "error", "code": error.code, "error": error.message, "http": error.http_status}
        told.update({key: value for key, value in error.answer.items() if key not in told})
    except LOST as lost:
        told = {"status": "error", "code": "UNREACHABLE", "error": "there is no complete answer: %s" % lost}
    except ValueError as wrong:
        told = {"status": "error", "code": "WRONG_INPUT", "error": str(wrong)}
    print(json.dumps(told, default=str), flush=True)
    return 1 if told.get("status") in ("error", "rejected") else 0


if __name__ == "__main__":
    sys.exit(main())

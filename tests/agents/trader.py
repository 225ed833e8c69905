#!/usr/bin/env python3
"""Trading client for a local agent wallet, written from the published wire format only.

Usage: trader.py '<json of the trade object>' [--repeat] [--wait SECONDS]
Environment: WALLET_URL, WALLET_AGENT_ID, WALLET_AGENT_TOKEN, WALLET_AUTH_MODE (hmac|bearer)
Prints one JSON line {"first", "final", "problems"}. Exit: 0 no problems, 1 problems, 2 usage error.
"""
import argparse, hashlib, hmac, http.client, json, os, re, sys, time, urllib.parse, urllib.request
from collections import namedtuple

EXPIRED = "Expired: not approved within 15 minutes"
Reply = namedtuple("Reply", "http headers body")  # http is None when no answer came
PROBLEMS = []

# Section 1.1: codes by HTTP status. Left out, and so reported, are the codes of other endpoints and
# those a well-formed signed POST /trade cannot earn (AGENT_NOT_FOUND, LIMIT_REACHED, INVALID_JSON, ...).
TABLE = """
400 BAD_REQUEST FIELD_NOT_PERMITTED MISSING_TRADE INVALID_REQUEST ERROR LEDGER_UNWRITABLE NO_POLICY
400 UNSUPPORTED_NETWORK DEFI_DISABLED DEFI_NOT_CONFIGURED POLICY_INCOMPLETE
401 AUTH_FAILED
403 AGENT_SUSPENDED AGENT_NOT_COMMISSIONED ADDRESS_NOT_COMMISSIONED UNAUTHORIZED NETWORK_DISABLED GUI_ONLY_MODE
403 NETWORK_NOT_ALLOWED_BY_POLICY POLICY_REJECTED FOREIGN_HOST_REJECTED LEDGER_REJECTED EXCEEDS_PER_REQUEST_MAX
404 UNKNOWN_AGENT POLICY_NOT_FOUND ADDRESS_NOT_FOUND AGENT_OR_POLICY_MISSING
409 REQUEST_ALREADY_PROCESSED REQUEST_EXPIRED PRICE_MOVED TRADE_NO_LONGER_VALID
429 EXCEEDS_DAILY_LIMIT TOO_MANY_PENDING TOO_MANY_ATTEMPTS
500 NO_WALLET_PROVIDER NO_WALLET NO_WALLET_ADDRESS SIGNING_ERROR INTERNAL_ERROR EXECUTION_ERROR
500 REQUOTE_FAILED LEDGER_ERROR LEDGER_NO_SIGNATURE
503 SERVICE_NOT_READY WALLET_LOCKED WALLET_ADDRESS_NOT_FOUND LEDGER_DISCONNECTED LEDGER_SIGN_NOT_AVAILABLE"""
CODE_HTTP = {code: int(row[:3]) for row in TABLE.split("\n")[1:] for code in row[4:].split()}
CODE_HTTP["RPC_REJECTED"] = None  # section 1.10 lists it, 1.1 gives it no HTTP status
# Section 1.2 fixes the HTTP status of these codes, whatever the status word is.
GATE = "UNKNOWN_AGENT AGENT_NOT_COMMISSIONED AGENT_SUSPENDED AUTH_FAILED WALLET_LOCKED WALLET_ADDRESS_NOT_FOUND".split()
STATUS_HTTP = {"executed": 200, "simulated": 200, "pending": 202, "rejected": 400, "failed": 500}

# ---- Types. In JSON, true and 1.0 are not integers. ----
def shape(pattern):
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value, re.DOTALL) is not None
def or_null(test):
    return lambda value: value is None or test(value)

is_object = lambda value: isinstance(value, dict)
is_int = lambda value: isinstance(value, int) and not isinstance(value, bool)
is_amount = lambda value: is_int(value) and value >= 0
is_number = lambda value: is_int(value) or isinstance(value, float)
is_text = shape(".+")
is_hash = shape("(0x)?[0-9a-fA-F]{64}")  # 64 hex digits, may lack 0x
is_pool = shape("WRAP|UNWRAP|0x[0-9a-fA-F]{40}|(V4:)?(0x)?[0-9a-fA-F]{64}")  # wrap, v3 address, v4 pool id
is_uuid = shape("[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")  # the exact form is not shown

# Types and keys of section 1.10. Where it leaves the type open, null is accepted too.
RESULT = [(or_null(is_text), "request_id reason code"), (is_text, "status"),
          (or_null(is_hash), "tx_hash approval_tx_hash"),
          (or_null(is_amount), "amount_out amount_out_quoted"), (or_null(is_object), "quote")]
QUOTE = [(is_text, "token_in token_out"), (is_int, "fee_tier"), (is_pool, "pool"),
         (is_amount, "amount_in_atomic amount_out_expected amount_out_min token_in_decimals token_out_decimals"),
         (or_null(is_number), "effective_slippage_bps gas_estimate notional_usdg price_impact_pct"),
         (or_null(shape(".*")), "symbol_in symbol_out dex_version hooks"), (or_null(is_int), "tick_spacing")]

# ---- Request: sections 1.10 and 2 ----
def parse_object(text):
    """The JSON object in the text, or None. NaN and numbers too large for a double are refused."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None

def signature_for(mode, agent_id, token, trade, timestamp):
    if mode == "bearer":
        return token
    message = {"agent_id": agent_id, "timestamp": timestamp, "trade": trade}
    text = json.dumps(message, separators=(",", ":"), sort_keys=True).encode("utf-8")
    return f"SIG:{timestamp}:{hmac.new(bytes.fromhex(token[3:]), text, hashlib.sha256).hexdigest()}"

class KeepEveryStatus(urllib.request.HTTPErrorProcessor):
    """Hand back every answer as it is: no exception for 4xx and 5xx, no redirect followed."""
    http_response = https_response = lambda self, request, response: response
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), KeepEveryStatus)

def call(url, data, timeout, where):
    """One HTTP exchange. A body that is no JSON object is kept as text, and reported."""
    try:
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})
        with OPENER.open(request, timeout=timeout) as response:
            status, headers, text = response.status, response.headers, response.read().decode("utf-8", "replace")
    except (OSError, ValueError, http.client.HTTPException) as error:
        need(False, f"{where}: no complete HTTP answer ({error}).")
        return Reply(None, {}, None)
    body = parse_object(text)
    need(is_object(body), f"{where}: the body (HTTP {status}) is not a JSON object.")
    return Reply(status, headers, text if body is None else body)

# ---- Checks ----
def need(condition, sentence):
    """Record the sentence, once, when the condition does not hold."""
    if not condition and sentence not in PROBLEMS:
        PROBLEMS.append(sentence)
    return condition

def check_keys(body, table, where):
    for test, key in [(test, key) for test, keys in table for key in keys.split()]:
        if need(key in body, f"{where}: key '{key}' is missing."):
            need(test(body[key]), f"{where}: '{key}' has a value the page does not allow: {body[key]!r:.80}.")

def check_result(body, where):
    """The full result object: every key, its type, and what its status says about it."""
    check_keys(body, RESULT, where)
    if is_object(body.get("quote")):
        check_keys(body["quote"], QUOTE, where + " quote")
    status, code = body.get("status"), body.get("code")
    if status == "pending":
        need(is_uuid(body.get("request_id")), f"{where}: pending, but request_id is no UUID.")
        need(is_object(body.get("quote")), f"{where}: pending must show its quote.")
        need(body.get("tx_hash") is None, f"{where}: pending, yet tx_hash is not null.")
        need(code in (None, "APPROVAL_REQUIRED"), f"{where}: pending with code {code!r}.")
    else:
        need(code in [None, *CODE_HTTP], f"{where}: {code!r} is no code the pages give for a trade.")
    need(status != "executed" or is_text(body.get("request_id")), f"{where}: executed without a request_id.")
    need(status != "executed" or is_hash(body.get("tx_hash")), f"{where}: executed without a tx_hash.")
    need(status not in ("pending", "rejected") or body.get("amount_out") is None, f"{where}: amount_out in {status}.")
    need(status not in ("rejected", "failed") or is_text(body.get("reason")), f"{where}: {status} without a reason.")
    need(status != "error" or is_text(code), f"{where}: error without a code.")

def check_retry(reply, seconds, where):
    shown = [reply.headers.get("Retry-After"), reply.body.get("retry_after")]
    need(shown == [str(seconds), seconds],
         f"{where}: Retry-After and retry_after in the body must be {seconds}, they are {shown}.")

def rate_limited(reply, where):
    """True for the 429 answer of section 1.0, which has no status key."""
    limited = reply.body.get("code") == "RATE_LIMIT_EXCEEDED"
    if limited:
        need(reply.http == 429, f"{where}: RATE_LIMIT_EXCEEDED with HTTP {reply.http}.")
        check_retry(reply, 60, where)
    return limited

def check_post(reply, where, mode):
    """An answer to POST /trade, with the HTTP status that belongs to it."""
    if not is_object(reply.body) or rate_limited(reply, where):
        return
    body, status, code = reply.body, reply.body.get("status"), reply.body.get("code")
    if status == "error" and not set(body) & {"request_id", "tx_hash", "amount_out", "quote"}:
        # The short error body of 1.0. An error may also come as the full result object.
        need(is_text(body.get("error")), f"{where}: an error body must carry the text 'error'.")
        need(code in list(CODE_HTTP), f"{where}: {code!r} is no code the pages give for a trade.")
    elif need(status in [*STATUS_HTTP, "error"], f"{where}: POST /trade never answers status {status!r}."):
        check_result(body, where)
    need(status != "rejected" or code not in ("REQUOTE_FAILED", "POLICY_REJECTED", "PRICE_MOVED"),
         f"{where}: {code} belongs to approval time; a refusal at intake has code null.")
    table, word = (CODE_HTTP, code) if status == "error" or code in GATE else (STATUS_HTTP, status)
    expected = table.get(word) if isinstance(word, str) else None
    need(expected in (None, reply.http),
         f"{where}: HTTP {reply.http}, but status {status!r} with code {code!r} means {expected}.")
    if code == "WALLET_LOCKED":
        need(mode == "bearer", f"{where}: a locked wallet must answer an HMAC agent AUTH_FAILED.")
        check_retry(reply, 5, where)

def check_waiting(reply, request_id):
    """Section 1.11, pending or executing: HTTP status and keys of that state."""
    body, status = reply.body, reply.body["status"]
    where, expected = f"Poll ({status})", 202 if status == "pending" else 200
    need(reply.http == expected, f"{where}: HTTP {reply.http} instead of {expected}.")
    need(body.get("request_id") == request_id, f"{where}: request_id is not the one asked for.")
    quote, left = body.get("quote"), body.get("expires_in_seconds")
    need(is_object(quote) or (status == "executing" and "quote" in body and quote is None), f"{where}: no quote.")
    if is_object(quote):
        check_keys(quote, QUOTE, where + " quote")
    need(status != "pending" or is_number(left) and 0 <= left <= 900,
         f"{where}: expires_in_seconds is {left!r}, not 0 to 900.")

def check_finished(reply, request_id):
    """What ends the polling: only HTTP 200 with the full result object is right."""
    body, where = reply.body, "Final result"
    if reply.http == 404:
        return need(False, f"Poll: HTTP 404, code {body.get('code')!r}, for a request that was just queued.")
    need(reply.http == 200, f"{where}: polled with HTTP {reply.http} instead of 200.")
    check_result(body, where)
    status, reason = body.get("status"), body.get("reason")
    need(status in [*STATUS_HTTP, "error"], f"{where}: status {status!r} is unknown.")
    need(body.get("request_id") == request_id, f"{where}: request_id is not the one asked for.")
    need(not str(reason).startswith("Expired") or [status, body.get("code"), reason] == ["rejected", None, EXPIRED],
         f"{where}: expiry must be status rejected, code null, reason '{EXPIRED}'.")

def check_repeat(first, again, mode):
    """The same signed bytes must stand for the same request (HMAC only)."""
    check_post(again, "Repeated POST", mode)
    if mode == "hmac" and is_object(first.body) and is_object(again.body):
        ids = [reply.body.get("request_id") for reply in (first, again)]
        need(ids[0] == ids[1], f"Repeated POST: request_id {ids[1]!r}, the first one was {ids[0]!r}.")
        need(first.body.get("tx_hash") in (None, again.body.get("tx_hash")), "Repeated POST: another tx_hash.")

# ---- The whole run ----
def poll(url, request_id, wait):
    """Ask every 0.2 s until a final status; after a rate-limit answer wait as it says."""
    end = time.monotonic() + wait
    while True:
        reply = call(url, None, 30, "Poll")
        if not is_object(reply.body):
            return reply
        limited = rate_limited(reply, "Poll")
        if reply.body.get("status") in ("pending", "executing"):
            check_waiting(reply, request_id)
        elif not limited:
            check_finished(reply, request_id)
            return reply
        left = end - time.monotonic()
        if not need(left > 0, f"Poll: no final status within {wait:g} s (last answer HTTP {reply.http})."):
            return reply
        time.sleep(min(60 if limited else 0.2, left))

def run(base, agent_id, token, mode, trade, repeat, wait):
    signature = signature_for(mode, agent_id, token, trade, int(time.time()))
    data = json.dumps({"agent_id": agent_id, "signature": signature, "trade": trade}).encode("utf-8")
    timeout = max(60, wait)  # a trade that executes at once may keep the POST open
    first = final = call(base + "/trade", data, timeout, "First POST")
    check_post(first, "First POST", mode)
    if repeat:
        check_repeat(first, call(base + "/trade", data, timeout, "Repeated POST"), mode)
    if is_object(first.body) and first.body.get("status") in ("pending", "executing"):
        request_id = first.body.get("request_id")
        if need(is_text(request_id), "First POST: there is no request_id to poll."):
            final = poll(f"{base}/trade/status/{urllib.parse.quote(request_id, safe='')}", request_id, wait)
    shown = [{"http": reply.http, "body": reply.body} for reply in (first, final)]
    print(json.dumps({"first": shown[0], "final": shown[1], "problems": PROBLEMS}))

def read_environment(fail):
    names = ("WALLET_URL", "WALLET_AGENT_ID", "WALLET_AGENT_TOKEN", "WALLET_AUTH_MODE")
    url, agent_id, token, mode = (os.environ.get(name) or fail(f"{name} is not set") for name in names)
    if mode != "bearer" and (mode != "hmac" or not re.fullmatch("AT_[0-9a-f]{64}", token)):
        fail("WALLET_AUTH_MODE must be hmac or bearer; an hmac token is AT_ and 64 lower-case hex digits")
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", url):
        fail("WALLET_URL must be an http or https address")
    return url.rstrip("/"), agent_id, token, mode

def main():
    parser = argparse.ArgumentParser(prog="trader.py", allow_abbrev=False)
    parser.add_argument("trade", help="JSON of the trade object")
    parser.add_argument("--repeat", action="store_true", help="post the same bytes twice")
    parser.add_argument("--wait", type=float, default=60.0, help="longest polling time in seconds")
    options = parser.parse_args()
    trade = parse_object(options.trade)
    if not is_object(trade) or not 0 <= options.wait <= 86400:
        parser.error("the trade must be a JSON object, and --wait from 0 to 86400")
    run(*read_environment(parser.error), trade, options.repeat, options.wait)

if __name__ == "__main__":
    main()
    sys.exit(1 if PROBLEMS else 0)

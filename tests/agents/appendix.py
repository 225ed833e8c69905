#!/usr/bin/env python3
"""A client of the payments-only wallet, written from its specification alone, and the checks that it runs.

environment: WALLET_URL (an open wallet with an address `second`), OPERATOR_PROGRAM, OPERATOR_PASSWORD_FILE
prints one line for each failed check, then `N checks, M failed`; exit code 0 if none failed
"""

import base64
import hmac
import http.client
import itertools
import json
import os
import re
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

SKALE_NAME = "Bridged USDC (SKALE Bridge)"
# Chain id: its name in x402 version 1, the token, and the name of the token's domain. Two are on at first.
NETWORKS = {
    8453: ("base", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin"),
    1187947933: ("skale-base", "0x85889c8c714505E0c94b30fcfcF64fE3Ac8FCb20", SKALE_NAME),
    84532: ("base-sepolia", "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC"),
    324705682: ("skale-base-sepolia", "0x2e08028E3C4c2356572E096d8EF835cD5C6030bD", SKALE_NAME),
    1: ("ethereum", "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "USD Coin"),
    11155111: ("sepolia", "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238", "USDC"),
}
# A section with a policy's name has an agent of that policy, the others of `loose`.
POLICIES = {
    "loose": "--day 1000 --txn 100 --auto 50",
    "waiting": "--day 10 --txn 5",
    "limits": "--day 1 --txn 0.6 --auto 0.5",
    "walled": "--auto 5 --allow-domains shop.test --block-domains evil.shop.test",
}
URL, PAYEE = "https://shop.test/report", "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
PATHS = ["/agent", "/callback", "/health", "/mandate", "/openapi.json", "/ping", "/receipt/{id}"]
PATHS += ["/sign", "/sign/helper", "/sign/status/{id}", "/status"]
OTHER_PATHS = "/ /trade /trade/status/1 /venues /position /balances /v1/sign /sign/ /../health /receipt"
WRONG_METHODS = "GET/sign PUT/sign GET/mandate GET/callback GET/ping POST/health POST/agent DELETE/receipt/1"
WEB_PAGES = "Origin=https://a.test Origin=null Referer=https://a.test/ Sec-Fetch-Site=cross-site Host=a.test"
SHOPS = "shop.test api.shop.test SHOP.test:8443"
OTHER_SHOPS = "test notshop.test shop.test.example evil.shop.test a.evil.shop.test shop.test@a.example"
HASHES = ["0x" + digit * 64 for digit in "abcd"]
PRICES = itertools.count(10001)  # no price is asked twice, so that no two offers are the same
P, N = 2**256 - 2**32 - 977, 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
GX = 0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798
GY = 0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8


def rotated(lane, by):
    return (lane << by | lane >> (64 - by)) & (2**64 - 1)


def keccak_round(lanes):
    """Returns the lanes after one round, without the round's constant."""
    sums = [lanes[x, 0] ^ lanes[x, 1] ^ lanes[x, 2] ^ lanes[x, 3] ^ lanes[x, 4] for x in range(5)]
    mixed = [sums[(x - 1) % 5] ^ rotated(sums[(x + 1) % 5], 1) for x in range(5)]
    moved, x, y = {(0, 0): lanes[0, 0] ^ mixed[0]}, 1, 0
    for step in range(24):
        lane, by = lanes[x, y] ^ mixed[x], (step + 1) * (step + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
        moved[x, y] = rotated(lane, by)
    return {(x, y): lane ^ (~moved[(x + 1) % 5, y] & moved[(x + 2) % 5, y]) for (x, y), lane in moved.items()}


def keccak(data):
    padded = bytearray(data + b"\x01" + bytes(-(len(data) + 1) % 136))
    padded[-1] |= 0x80
    lanes = dict.fromkeys(itertools.product(range(5), range(5)), 0)
    for start in range(0, len(padded), 136):
        for i in range(17):
            lanes[i % 5, i // 5] ^= int.from_bytes(padded[start + 8 * i : start + 8 * i + 8], "little")
        register = 1
        for step in range(24 * 7):
            lanes = keccak_round(lanes) if step % 7 == 0 else lanes
            lanes[0, 0] ^= (register & 1) << (2 ** (step % 7) - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
    return b"".join(lanes[x, 0].to_bytes(8, "little") for x in range(4))


def added(a, b):
    """Returns the sum of two points of secp256k1 that are not opposite. None is the neutral point."""
    if a is None or b is None:
        return a or b
    rise, run = (3 * a[0] ** 2, 2 * a[1]) if a == b else (b[1] - a[1], b[0] - a[0])
    slope = rise * pow(run, -1, P)
    x = (slope**2 - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def times(factor, point):
    rest = times(factor // 2, added(point, point)) if factor > 1 else None
    return added(rest, point) if factor % 2 else rest


def recovered(digest, signature):
    """Returns the address that made the 65 bytes of a signature."""
    r, s, z = (int.from_bytes(part, "big") for part in (signature[:32], signature[32:64], digest))
    y = pow(r**3 + 7, (P + 1) // 4, P)
    y = y if y % 2 == (signature[64] - 27) % 2 else P - y
    inverse = pow(r, -1, N)
    x, y = added(times(s * inverse % N, (r, y)), times(-z * inverse % N, (GX, GY)))
    return "0x" + keccak(x.to_bytes(32, "big") + y.to_bytes(32, "big"))[-20:].hex()


def hashed(kind, *fields):
    """Returns the EIP-712 hash of a structure. A field is a number, the text of one, or 32 bytes."""
    encoded = [f if isinstance(f, bytes) else int(str(f), 0).to_bytes(32, "big") for f in fields]
    return keccak(keccak(kind.encode()) + b"".join(encoded))


def signer(payload, chain):
    """Returns the address that signed the EIP-3009 authorization of a payment."""
    _, token, name = NETWORKS[chain]
    kinds = "string name,string version,uint256 chainId,address verifyingContract"
    domain = hashed(f"EIP712Domain({kinds})", keccak(name.encode()), keccak(b"2"), chain, token)
    kinds = "address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce"
    values = [payload["authorization"][kind.split()[1]] for kind in kinds.split(",")]
    message = hashed(f"TransferWithAuthorization({kinds})", *values)
    return recovered(keccak(b"\x19\x01" + domain + message), bytes.fromhex(payload["signature"][2:]))


def offer(chain=8453, version=2, url=URL, atoms=None, **changes):
    """Returns an offer that was not made before. The changes replace fields of its terms."""
    short, token, name = NETWORKS.get(chain, NETWORKS[8453])
    price = str(next(PRICES) if atoms is None else atoms)
    terms = {"scheme": "exact", "asset": token, "payTo": PAYEE, "maxTimeoutSeconds": 60}
    terms["extra"] = {"name": name, "version": "2"}
    if version == 1:
        terms.update(network=short, maxAmountRequired=price, resource=url, description="", mimeType="")
        return {"x402Version": 1, "accepts": [{**terms, **changes}]}
    terms.update(network=f"eip155:{chain}", amount=price)
    return {"x402Version": version, "resource": {"url": url}, "accepts": [{**terms, **changes}]}


class Answer(dict):
    def __init__(self, reply):
        self.status, self.headers, self.text = reply.status, reply.headers, reply.read().decode()
        super().__init__(json.loads(self.text) if self.text.startswith("{") else {})


class Client:
    def __init__(self, code, token, mode):
        self.code, self.token, self.mode = code, token, mode

    def call(self, path, body=None, method=None, headers=None):
        """Makes one call: GET without a body, else POST."""
        connection = http.client.HTTPConnection(os.environ["WALLET_URL"].split("/")[2], timeout=60)
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **(headers or {})}
        connection.request(method or ("GET" if body is None else "POST"), path, sent, headers)
        return Answer(connection.getresponse())

    def proof(self, message, seconds=0, field="agent_code", key=None):
        """Returns the token, or in hmac mode a digest of the canonical message."""
        if self.mode == "bearer":
            return self.token
        timestamp = int(time.time()) + seconds
        message = {**message, field: self.code, "timestamp": timestamp}
        canonical = json.dumps(message, sort_keys=True, separators=(",", ":"))
        digest = hmac.new(key or bytes.fromhex(self.token[3:]), canonical.encode(), "sha256")
        return f"SIG:{timestamp}:{digest.hexdigest()}"

    def proven(self, content, message=None, **how):
        """Returns a body with a proof of the message, by default of the content."""
        signature = self.proof(content if message is None else message, **how)
        return {**content, "agent_code": self.code, "signature": signature}

    def wish(self, offered, url=URL, **how):
        encoded = base64.b64encode(json.dumps(offered).encode()).decode()
        content = {"x402_data": offered} if offered["x402Version"] == 1 else {"payment_required": encoded}
        return self.proven({**content, **({"request_url": url} if url else {})}, **how)

    def sign(self, offered, url=URL, **more):
        return self.call("/sign", {**self.wish(offered, url), **more})

    def read(self, path="/mandate", action="agent_read"):
        return self.call(path, self.proven({}, {"action": action}))

    def report(self, payment, event, tx_hash=None, proof=True, **more):
        told = {"transaction_id": payment, "event": event, "tx_hash": tx_hash}
        body = self.proven(told, {"callback": told}) if proof else {**told, "agent_code": self.code}
        return self.call("/callback", {**body, **more})


class Checks:
    count = failed = agents = 0

    def check(self, holds, sentence, answer):
        self.count += 1
        if not holds:
            self.failed += 1
            print(sentence, "->", " ".join(str(answer).split())[:500], flush=True)

    def says(self, answer, status, sentence, /, **fields):
        """Checks the status and some fields of an answer, and that a refusal has a text."""
        told = answer.status == status and fields.items() <= answer.items()
        told = told and (status < 400 or isinstance(answer.get("error"), str))
        self.check(told, f"{sentence}, {status} {fields}", f"{answer.status} {answer.text}")

    def operate(self, command, *more):
        words = [os.environ["OPERATOR_PROGRAM"], "--no-input", *command.split(), *more]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        self.check(done.returncode == 0, f"the operator's command {command}", done.stderr)
        return done.stdout

    def agent(self, policy="loose", mode="hmac"):
        self.agents += 1
        printed = self.operate(f"agent register agent{self.agents} --auth {mode}")
        code, token = (re.search(rf"WALLET_AGENT_{name}=(\S+)", printed)[1] for name in ("ID", "TOKEN"))
        self.operate(f"agent commission {code} {policy} second --yes")
        return Client(code, token, mode)

    def pages(self, agent):
        self.says(agent.call("/health"), 200, "GET /health", status="ok")
        self.says(agent.call("/status"), 200, "GET /status", status="ready")
        self.says(agent.call("/ping", {"agent_code": agent.code}), 200, "/ping", agent_status="active")
        for path in ("/agent", "/sign/helper", "/openapi.json"):
            page = agent.call(path)
            self.check("agent_code" in page.text and "agent_id" not in page.text, f"{path}: agent_code", page)
            found = re.findall("/trade|/venues|/position|/balances", page.text)
            self.check(not found, f"{path} names no endpoint of the other edition", found)
        self.check(sorted(page["paths"]) == PATHS, "/openapi.json lists the endpoints", list(page["paths"]))
        for path in OTHER_PATHS.split():
            self.says(agent.call(path), 404, f"GET {path}")
            self.says(agent.read(path), 404, f"POST {path}")
        for method, path in (call.split("/", 1) for call in WRONG_METHODS.split()):
            answer = agent.call(f"/{path}", method=method)
            self.says(answer, 405, f"{method} /{path}", code="METHOD_NOT_ALLOWED")
            self.check(answer.headers["allow"], f"the header Allow for {method} /{path}", answer)
        for header in WEB_PAGES.split():
            answer = agent.call("/sign", agent.wish(offer()), headers=dict([header.split("=")]))
            self.says(answer, 403, f"a web page with {header}")

    def proofs(self, agent):
        bearer, body = self.agent(mode="bearer"), agent.wish(offer())
        digest, asked = body["signature"], {"payment_required": body["payment_required"], "request_url": URL}
        wrong = {"wrong": digest[:-1] + ("1" if digest[-1] == "0" else "0"), "upper case": digest.upper()}
        wrong.update({"another offer": agent.wish(offer())["signature"], "none": None, "token": agent.token})
        wrong.update({"too old": agent.proof(asked, -310), "too new": agent.proof(asked, 330)})
        wrong.update({"agent_id signed": agent.proof(asked, field="agent_id")})
        for more in ({"agent_id": agent.code}, {"action": "sign"}):
            wrong[f"{list(more)} signed as well"] = agent.proof({**asked, **more})
        wrong["the token's text as key"] = agent.proof(asked, key=agent.token.encode())
        for sentence, signature in wrong.items():
            answer = agent.call("/sign", {**body, "signature": signature})
            self.says(answer, 401, f"proof, {sentence}", code="AUTH_FAILED")
        for more in ({"agent_code": "ZZZ999"}, {"agent_code": bearer.code}, {"request_url": URL}):
            self.says(agent.sign(offer(), url=None, **more), 401, f"not signed: {more}", code="AUTH_FAILED")
        for token in ("AT_" + "0" * 64, bearer.token[3:], "AT_" + bearer.token[3:].upper()):
            self.says(bearer.sign(offer(), signature=token), 401, "a wrong token", code="AUTH_FAILED")
        odd = offer(version=1, description='ß € \U0001f600 / " \\ \x7f \t', more=[10.50, 1e16, 1e-7, 10**29])
        paid = [agent.sign(odd), agent.sign(offer(), url=None)]
        paid += [agent.call("/sign", agent.wish(offer(), seconds=seconds)) for seconds in (-290, 290)]
        paid += [bearer.sign(offer()), bearer.sign(offer(), signature=f"Bearer {bearer.token}")]
        for number, answer in enumerate(paid, 1):
            self.says(answer, 200, f"correct proof {number}", status="success")

    def mandate(self, agent):
        bearer, limits = self.agent(mode="bearer"), {"daily_limit_micro": 10**9, "name": "loose"}
        for reader, action in ((agent, "agent_read"), (agent, "get_mandate"), (bearer, "agent_read")):
            answer = reader.read(action=action)
            self.says(answer, 200, f"/mandate {action}", agent_code=reader.code, wallet_id="second")
            self.check(limits.items() <= answer["policy"].items(), "/mandate has the limits", answer)
        for action in ("agent_write", "", None):
            self.says(agent.read(action=action), 401, f"/mandate {action}", code="AUTH_FAILED")
        by_id = {"agent_id": agent.code, "signature": agent.proof({"action": "agent_read"}, field="agent_id")}
        for path in ("/sign", "/mandate", "/callback", "/ping"):
            for body in (by_id, {**by_id, "agent_code": ""}):
                self.says(agent.call(path, body), 400, path, code="MISSING_AGENT_CODE")
        good = agent.proven({}, {"action": "agent_read"})
        self.says(agent.call("/mandate", {**good, "agent_id": "ZZZ999"}), 200, "both", agent_code=agent.code)
        for wrong in (by_id, {"agent_code": bearer.code, "agent_id": agent.code}):
            self.says(agent.call("/mandate", {**good, **wrong}), 401, "both, wrong", code="AUTH_FAILED")

    def networks(self, agent):
        for chain in list(NETWORKS)[2:]:
            for version in (1, 2):
                self.says(agent.sign(offer(chain, version)), 403, f"network {chain}", code="NETWORK_DISABLED")
            self.operate(f"network enable {chain} --yes")
        for chain in (4663, 46630, 137):
            self.says(agent.sign(offer(chain)), 400, f"network {chain}", code="UNKNOWN_NETWORK")
        for chain, version in itertools.product(NETWORKS, (1, 2)):
            self.payment(agent, chain, version)

    def payment(self, agent, chain, version):
        offered, name = offer(chain, version), f"network {chain}, version {version}"
        answer, terms, now = agent.sign(offered), offered["accepts"][0], time.time()
        fields = {"header_name", "header_value", "status", "transaction_id"}
        self.check(set(answer) == fields and uuid.UUID(answer["transaction_id"]), f"{name}: fields", answer)
        header, repeated = "PAYMENT-SIGNATURE", {"accepted": terms, "resource": offered.get("resource")}
        if version == 1:
            header, repeated = "X-PAYMENT", {"scheme": "exact", "network": terms["network"]}
        self.says(answer, 200, name, status="success", header_name=header)
        payment = json.loads(base64.b64decode(answer["header_value"], validate=True))
        payload = payment.pop("payload")
        self.check(payment == {**repeated, "x402Version": version}, f"{name}: the offer is repeated", payment)
        paid, price = payload["authorization"], terms.get("amount") or terms["maxAmountRequired"]
        address, found = agent.read()["wallet_address"], (paid["from"], paid["to"], paid["value"])
        self.check(found == (address, PAYEE, price), f"{name}: payer, payee and amount", paid)
        since, until = int(paid["validAfter"]), int(paid["validBefore"])
        self.check(since <= now < until <= now + 61, f"{name}: valid now and not for long", paid)
        self.check(signer(payload, chain) == address.lower(), f"{name}: the signer", payload)

    def waiting(self, agent):
        approved, denied = (agent.sign(offer(atoms=atoms))["request_id"] for atoms in (100, 101))
        path, deadline = f"/sign/status/{approved}", time.monotonic() + 30
        seen = [agent.call(path)]
        self.says(seen[0], 202, "a manual policy", status="pending", agent_code=agent.code)
        self.says(agent.read(), 200, "what waits is reserved", reserved_micro=201)
        self.says(agent.report(approved, "failed"), 400, "a report of what is not signed")
        with ThreadPoolExecutor() as pool:
            pool.submit(self.operate, f"approve {approved} --yes")
            while seen[-1].get("status") != "success" and time.monotonic() < deadline:
                time.sleep(0.1)
                seen.append(agent.call(path))
        states = {answer.get("status") for answer in seen}
        self.check(states <= {"pending", "executing", "success"}, "the states of an approval", seen)
        self.says(seen[-1], 200, "approved", transaction_id=approved, header_name="PAYMENT-SIGNATURE")
        self.check(agent.call(path).text == seen[-1].text, "a further poll has the same payment", seen)
        self.operate(f"deny {denied} no thanks")
        answer = agent.call(f"/sign/status/{denied}")
        self.says(answer, 200, "denied", status="rejected", reason="no thanks", code="REQUEST_DENIED")
        self.says(agent.read(), 200, "what is denied is not reserved", reserved_micro=0)

    def limits(self, agent):
        held = agent.sign(offer(atoms=500000))
        self.says(held, 202, "at the threshold", status="pending")
        self.says(agent.sign(offer(atoms=600001)), 403, "too much", code="EXCEEDS_PER_REQUEST_MAX")
        self.says(agent.sign(offer(atoms=499999)), 200, "below the threshold", status="success")
        self.says(agent.sign(offer(atoms=2)), 429, "what waits counts", code="EXCEEDS_DAILY_LIMIT")
        self.operate(f"deny {held['request_id']} no")
        self.says(agent.sign(offer(atoms=490000)), 200, "what is denied does not count", status="success")
        self.says(agent.sign(offer(atoms=10001)), 200, "exactly the daily limit", status="success")
        self.says(agent.sign(offer(atoms=1)), 429, "the daily limit is used up", code="LIMIT_REACHED")
        self.says(agent.read(), 200, "/mandate", remaining_today_micro=0, spent_today_micro=10**6)
        walled = self.agent("walled")
        for hosts, status in ((SHOPS, 200), (OTHER_SHOPS, 403)):
            for url in (f"https://{host}/x" for host in hosts.split()):
                self.says(walled.sign(offer(url=url), url), status, url)

    def repeats(self, agent):
        body, bearer, same = agent.wish(offer(atoms=5000)), self.agent(mode="bearer"), offer()
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: agent.call("/sign", body), range(8)))
        answers += [agent.call("/sign", {**body, **more}) for more in ({}, {"idempotency_key": "one"})]
        paid = {answer.text for answer in answers if answer.get("header_value")}
        self.check(len(paid) == 1 and answers[-1].text in paid, "copies of a body are one payment", answers)
        self.says(agent.read(), 200, "copies are charged once", spent_today_micro=5000)
        answers = [bearer.sign(same, idempotency_key=key) for key in (None, None, "one", "one", "two")]
        ids = [answer["transaction_id"] for answer in answers]
        self.check(ids[0] == ids[1] and ids[2] == ids[3], "the same key is the same payment", ids)
        self.check(len(set(ids)) == 3, "each key is a payment of its own", ids)
        self.says(bearer.sign(offer(), idempotency_key="one"), 409, "used key", code="IDEMPOTENCY_CONFLICT")

    def reports(self, agent):
        body, bearer = agent.wish(offer()), self.agent(mode="bearer")
        paid, copy = agent.call("/sign", body)["transaction_id"], agent.sign(offer())["transaction_id"]
        steps = [("submitted", 0, "submitted"), ("settled", 0, "submitted"), ("settled", 1, "settled")]
        steps += [(event, proof, "settled") for event in ("submitted", "failed") for proof in (0, 1)]
        for event, proof, status in steps:
            answer = agent.report(paid, event, HASHES[proof], proof)
            self.says(answer, 200, f"{event}, proof {proof}", transaction_id=paid, new_status=status)
        told = {"code": "PAYMENT_ALREADY_SETTLED", "previous_transaction_id": paid}
        self.says(agent.call("/sign", body), 409, "a settled payment is not repeated", **told)
        self.says(agent.report(copy, "failed", proof=False), 200, "failed", new_status="failed")
        self.says(agent.report(copy, "settled", HASHES[2]), 200, "settled after it", new_status="settled")
        for proof, status in ((True, 403), (False, 401)):
            self.says(bearer.report(paid, "settled", HASHES[1], proof), status, "another agent's payment")
        self.says(agent.report(paid, "failed", signature="SIG:1:0"), 401, "a wrong proof", code="AUTH_FAILED")
        wrong = {"MISSING_TRANSACTION_ID": (None, "failed"), "INVALID_TRANSACTION_ID": ("x", "failed")}
        wrong.update(MISSING_EVENT=(copy, None), INVALID_EVENT=(copy, "paid"))
        wrong.update(MISSING_TX_HASH=(copy, "settled"), INVALID_TX_HASH=(copy, "settled", "0x12"))
        for code, report in wrong.items():
            self.says(agent.report(*report, proof=False), 400, "a report", code=code)

    def receipts(self, agent):
        first, second = (agent.sign(offer())["transaction_id"] for _ in range(2))
        for payment in (first, second):
            agent.report(payment, "settled", HASHES[3])
        for name in (first, first.upper(), HASHES[3], "0x" + HASHES[3][2:].upper()):
            receipt = agent.call(f"/receipt/{name}")
            self.says(receipt, 200, f"the receipt {name}", type="AP2Receipt", transactionId=first)
        self.check(HASHES[3] in receipt.text and agent.code in receipt.text, "hash and agent", receipt)
        for name, status in (("0x" + "9" * 64, 404), (uuid.uuid4(), 404), ("x", 400), ("0x12", 400)):
            self.says(agent.call(f"/receipt/{name}"), status, f"the receipt {name}")

    def stops(self, agent):
        password = ("--password-file", os.environ["OPERATOR_PASSWORD_FILE"])
        body, bearer = agent.wish(offer()), self.agent(mode="bearer")
        first = agent.call("/sign", body)
        self.operate("wallet lock")
        for answer in (agent.sign(offer()), agent.read(), agent.read("/status")):
            self.says(answer, 401, "locked", code="AUTH_FAILED")
        self.says(bearer.sign(offer()), 503, "locked", code="WALLET_LOCKED")
        self.says(agent.call("/health"), 200, "locked", status="ok")
        self.operate("wallet open", *password)
        self.says(agent.call("/sign", body), 200, "open again", header_value=first["header_value"])
        self.operate("freeze --yes")
        self.says(agent.sign(offer()), 403, "frozen", code="AGENTS_FROZEN")
        self.operate("thaw --yes", *password)
        self.says(agent.sign(offer()), 200, "thawed", status="success")


def main():
    checks = Checks()
    for name, limits in POLICIES.items():
        checks.operate(f"policy create {name} {limits}")
    try:
        for section in "pages proofs mandate networks waiting limits repeats reports receipts stops".split():
            getattr(checks, section)(checks.agent(section if section in POLICIES else "loose"))
    finally:
        print(f"{checks.count} checks, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

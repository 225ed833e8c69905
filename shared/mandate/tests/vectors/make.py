"""Writes mandates.jsonl: mandates signed by eth-account over the canonical text of CPython.

Usage: python make.py > mandates.jsonl, with eth-account 0.14 installed. The same output every time.
"""

import json
import random

from eth_account import Account
from eth_account.messages import encode_defunct

draw = random.Random(20261130)
HOSTILE = ["", "\u202eevil", "=1+1", "\x1b[31m", "\x7f", "\U0001f600", "é\u0301", "a\"b\\c\n\t", "<script>", "\ue000"]


def word(length):
    return "".join(draw.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(length))


def uuid():
    digits = f"{draw.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def canonical(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def mandate(account, code):
    agent = "".join(draw.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(3)) + f"{draw.randrange(1000):03d}"
    limit = lambda: draw.choice([0, 1, 10_000_000, 10**15, draw.randrange(10**9)])
    made = {
        "type": "IntentMandate",
        "version": "ap2.primer/v0.1",
        "id": uuid(),
        "issuedAt": f"2026-11-{draw.randrange(1, 31):02d}T06:00:00.{draw.randrange(1000):03d}Z",
        "agent": {("code" if code else "id"): agent, "authKeyFingerprint": f"{draw.getrandbits(64):016x}"},
        "authorization": {
            "policyId": uuid(),
            "limits": {
                "currency": draw.choice(["USDC", "USDG", "USD", "=USD" + draw.choice(HOSTILE)]),
                "decimals": 6,
                "dailyLimit": limit(),
                "perRequestMax": draw.choice([None, limit()]),
                "autoApproveBelow": draw.choice([None, limit()]),
            },
            "networks": draw.sample(["eip155:4663", "eip155:8453", "eip155:1187947933", "base"], draw.randrange(1, 5)),
        },
        "wallet": {"address": account.address},
        "issuer": {"type": draw.choice(["Vault", "PrimerDesktop", "Bursar"]), "version": "1.0" + draw.choice(HOSTILE)},
    }
    # Members that the form does not name are signed too.
    for _ in range(draw.randrange(3)):
        made[draw.choice(HOSTILE) + word(4)] = draw.choice([True, -1.5e300, 1e16, 5e-324, [], {}, draw.choice(HOSTILE)])
    members = list(made.items())
    draw.shuffle(members)
    return dict(members)


for number in range(200):
    account = Account.from_key(f"0x{draw.getrandbits(252) + 1:064x}")
    made = mandate(account, code=number % 4 == 0)
    text = canonical(made)
    signed = account.sign_message(encode_defunct(text=text))
    assert Account.recover_message(encode_defunct(text=text), signature=signed.signature) == account.address
    made["signature"] = {"type": "EIP191", "signer": account.address, "value": "0x" + signed.signature.hex()}
    if number % 5 == 0:
        made["registryId"] = word(12)
        made["registryUrl"] = "https://registry.example/" + draw.choice(HOSTILE)
    print(json.dumps({"mandate": made, "text": text, "signer": account.address}, ensure_ascii=number % 2 == 0))

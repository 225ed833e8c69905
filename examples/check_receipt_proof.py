"""Check a `bursar-receipt-proof/1` file without the wallet and without a network: check_receipt_proof.py FILE [--head HEX]

Exit status: 0 the proof is good, 1 it is not good, 2 the file is not a proof (or wrong usage).

It does checks 1 to 7 of docs/receipt-proof.md. Of check 8 it does only what needs no event: the leaf contains the
request id of the statement, so the anchor ties these entries to that id. It does NOT read the events:
not amount, payee or outcome, and not that the first entry names the statement's address.
Without a signature, the statement's agent and address are not proven.
With one, compare the address with the one you know. Needs: pip install eth-account
"""
import argparse
import hashlib
import json
import re
import sys
import uuid
from datetime import datetime, timedelta
from pathlib import Path
from eth_account import Account
from eth_account.messages import encode_defunct
from eth_keys.exceptions import BadSignature
from eth_utils import to_checksum_address

CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
HEX, HASH, TEXT = r"([0-9a-f]{2})+", r"[0-9a-f]{64}", r"(?s:.*)"
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# The shape of a proof: str is a pattern, int a number of 64 bits, [x] a list of x, (x, y) is x or y; else itself.
STATEMENT = {"type": "BursarReceiptProof", "version": 1, "request": UUID, "head": HASH, "entries": [int],
             "agent": ({"id": TEXT, "name": (TEXT, None)}, {"code": TEXT, "name": (TEXT, None)}),
             "mandateId": (UUID, None), "wallet": {"address": r"0x[0-9a-fA-F]{40}"}}
PROOF = {"format": "bursar-receipt-proof/1", "entries": [HEX], "anchor": HEX, "leaf": int, "path": [HASH],
         "statement": STATEMENT, "signature": (r"0x[0-9a-f]{130}", None)}

class NotAProof(Exception): """The file cannot be read as a proof."""
class NotGood(Exception): """The file is a proof, but a check fails."""

def need(condition: bool, reason: str, error: type[Exception] = NotGood) -> None:
    if not condition:
        raise error(reason)

def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()

def has_shape(value: object, shape: object) -> bool:
    if isinstance(shape, tuple):
        return any(has_shape(value, s) for s in shape)
    if isinstance(shape, dict):
        same = isinstance(value, dict) and list(value) == list(shape)
        return same and all(has_shape(value[k], shape[k]) for k in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(has_shape(v, shape[0]) for v in value)
    if isinstance(shape, str):
        return isinstance(value, str) and re.fullmatch(shape, value) is not None
    if shape is int:
        return type(value) is int and 0 <= value < 2**64  # type(), because True is an int for isinstance()
    return type(value) is type(shape) and value == shape

def read_proof(data: bytes) -> dict:
    """Check 1."""
    try:
        proof = json.loads(data.decode("utf-8"))
        same = json.dumps(proof, ensure_ascii=False, separators=(",", ":")).encode("utf-8") + b"\n" == data
    except (ValueError, RecursionError) as error:
        raise NotAProof(f"no JSON in UTF-8: {error}") from None
    need(has_shape(proof, PROOF), "a member is missing, too many, at another place or of another form", NotAProof)
    need(same, "white space, escapes or numbers are written differently, or a member is there twice", NotAProof)
    need(to_checksum_address(a := proof["statement"]["wallet"]["address"]) == a, "not EIP-55", NotAProof)
    return proof

def read_entry(raw: bytes) -> dict:
    need(len(raw) > 49, "an entry is too short")
    return {"number": int.from_bytes(raw[1:9], "big"), "time": int.from_bytes(raw[9:17], "big", signed=True),
            "before": raw[17:49], "event": raw[49:], "hash": sha256(raw)}

def check_entries(entries: list[dict], numbers: list[int]) -> None:
    """Check 2."""
    need([e["number"] for e in entries] == numbers, "the entries are not those of the statement")
    need(len(numbers) > 0 and numbers[0] > 0, "there is no entry, or one with number 0")
    for a, b in zip(entries, entries[1:]):
        need(a["number"] < b["number"], "the entries are not ascending")
        need(a["number"] + 1 < b["number"] or a["hash"] == b["before"], f"entry {b['number']} is not linked")

def take(event: bytearray, length: int) -> bytes:
    """Cut the next bytes off the event."""
    need(len(event) >= length, "the anchor is too short")
    part = bytes(event[:length])
    del event[:length]
    return part

def take_varint(event: bytearray) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = take(event, 1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            need(value < 2**64 and (byte > 0 or shift == 0), "a varint is too large or padded")
            return value
    raise NotGood("a varint is too long")

def take_option(event: bytearray) -> int | None:
    tag = take(event, 1)[0]
    need(tag < 2, "the anchor cannot be read")
    return take_varint(event) if tag else None

def read_anchor(raw: bytes) -> dict:
    """Check 3, first sentence."""
    entry = read_entry(raw)
    event = bytearray(entry["event"])
    need((take_varint(event), take_varint(event)) == (65, 0), "the anchor's entry is not an anchor")
    anchor = entry | {"through": take_varint(event), "head": take(event, 32), "requests": take_varint(event),
                      "root": take(event, 32), "accepted": take_option(event), "restored": take_option(event)}
    need(not event, "there are bytes after the anchor's event")
    return anchor

def check_anchor(anchor: dict, last: dict) -> None:
    """Check 4, and the links to the anchor."""
    need(last["number"] <= anchor["through"] < anchor["number"], "the numbers of entries and anchor do not fit")
    need(anchor["number"] > anchor["through"] + 1 or anchor["before"] == anchor["head"], "the anchor is not linked")
    need(last["number"] < anchor["through"] or last["hash"] == anchor["head"], "the last entry is not the head")

def leaf_of(request: str, entries: list[dict]) -> bytes:
    chain = bytes(32)
    for entry in entries:
        chain = sha256(chain + entry["number"].to_bytes(8, "big") + entry["hash"])
    return uuid.UUID(request).bytes + chain

def root_of(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """Check 5: the algorithm of RFC 9162, section 2.1.3.2."""
    need(index < size, "there is no such leaf")
    last, node = size - 1, sha256(b"\0" + leaf)
    for other in path:
        need(last > 0, "the path is too long")
        if index & 1 or index == last:
            node = sha256(b"\1" + other + node)
            while index > 0 and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            node = sha256(b"\1" + node + other)
        index, last = index >> 1, last >> 1
    need(last == 0, "the path is too short")
    return node

def signer_of(statement: dict, signature: str) -> str:
    """Check 6."""
    text = json.dumps(statement, sort_keys=True, separators=(",", ":"))
    raw = bytes.fromhex(signature[2:])
    r, s, v = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:64], "big"), raw[64]
    need(0 < r < CURVE_ORDER and 0 < s <= CURVE_ORDER // 2 and v in (27, 28), "the signature is out of range")
    try:
        return Account.recover_message(encode_defunct(text=text), vrs=(v, r, s))
    except BadSignature:
        raise NotGood("the signature is of no key") from None

def check(data: bytes, head: str | None = None) -> tuple[dict, dict]:
    """The proof and its anchor if all is good; otherwise NotAProof or NotGood."""
    proof = read_proof(data)
    statement, signature = proof["statement"], proof["signature"]
    entries = [read_entry(bytes.fromhex(e)) for e in proof["entries"]]
    check_entries(entries, statement["entries"])
    anchor = read_anchor(bytes.fromhex(proof["anchor"]))
    need(anchor["hash"].hex() == statement["head"], "the anchor is not the head of the statement")
    need(head in (None, statement["head"]), "the proof rests on another head than the given one")
    check_anchor(anchor, entries[-1])
    path = [bytes.fromhex(h) for h in proof["path"]]
    root = root_of(leaf_of(statement["request"], entries), proof["leaf"], anchor["requests"], path)
    need(root == anchor["root"], "leaf and path do not give the root")
    need(signature is not None or head is not None, "no signature and no --head: this shows nothing")
    named = (statement["agent"]["name"], statement["mandateId"]) != (None, None)
    need(signature is not None or not named, "names of agent and mandate without a signature")
    need(signature is None or signer_of(statement, signature) == statement["wallet"]["address"],
         "the signature is not of the address")
    return proof, anchor

def when(milliseconds: int) -> str:
    year_1_to_9999 = -62135596800000 <= milliseconds < 253402300800000
    time = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds * year_1_to_9999)
    return f"{time.isoformat()}Z" if year_1_to_9999 else f"{milliseconds} ms"

def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--head", help="the head you noted earlier, 64 hex digits")
    args = parser.parse_args()
    try:
        proof, anchor = check(args.file.read_bytes(), args.head)
    except (NotAProof, OSError) as error:
        print(f"not a proof: {error}")
        return 2
    except NotGood as error:
        print(f"not good: {error}")
        return 1
    print("signer:   ", proof["statement"]["wallet"]["address"] if proof["signature"] else "none")
    print("head:     ", anchor["hash"].hex(), "(not compared)" if args.head is None else "(as given)")
    print("entries:  ", *proof["statement"]["entries"])
    print("anchor:   ", anchor["number"], "of", when(anchor["time"]), "through", anchor["through"],
          "accepted", anchor["accepted"], "restored", anchor["restored"])
    print("statement:", json.dumps(proof["statement"]))
    return 0

if __name__ == "__main__":
    sys.exit(main())

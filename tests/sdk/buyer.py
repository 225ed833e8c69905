"""A customer in Python: the clients of PyPI's x402 around httpx and requests, with a key of eth-account.

usage: buyer.py

Prints READY, then takes an order on each line and prints its outcome on one:
  { client: "httpx" | "requests", url, key, rpc?, allowed?, refund? }
    ->  { status, body, receipt, challenge, header: { name, value } } or { error }
`allowed` are assets in addition to those that a client knows. `challenge` is the header of a refusal.
With `refund`, which is `{ amount? }`, the customer asks for money back from its payment channel, and only `receipt`
comes back. Channels are remembered between orders; the clients look up allowances, nonces and channels at the endpoint `rpc`.
"""

import asyncio
import json
import sys

import httpx
import requests
from eth_account import Account
from x402 import x402Client, x402ClientSync
from x402.http.clients import x402_http_adapter, x402_httpx_transport
from x402.http.utils import decode_payment_response_header
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.batch_settlement.client import (
    BatchSettlementEvmScheme,
    InMemoryClientChannelStorage,
    RefundOptions,
)
from x402.mechanisms.evm.batch_settlement.client.config import BatchSettlementEvmSchemeOptions
from x402.mechanisms.evm.exact import register_exact_evm_client
from x402.mechanisms.evm.signers import EthAccountSignerWithRPC
from x402.mechanisms.evm.upto import UptoEvmClientScheme

HEADER = "PAYMENT-SIGNATURE"
OPTIONS = BatchSettlementEvmSchemeOptions(storage=InMemoryClientChannelStorage())


def signer_of(order):
    account = Account.from_key(order["key"])
    rpc = order.get("rpc")
    return EthAccountSignerWithRPC(account, rpc) if rpc else EthAccountSigner(account)


def channel_scheme(order):
    return BatchSettlementEvmScheme(signer_of(order), OPTIONS)


def wallet(kind, order):
    signer = signer_of(order)
    client = register_exact_evm_client(kind(), signer)
    client.register("eip155:*", UptoEvmClientScheme(signer))
    client.register("eip155:*", channel_scheme(order))
    if order.get("allowed"):
        client.set_spend_controls({"allowed_assets": order["allowed"]})
    return client


class Recording(httpx.AsyncHTTPTransport):
    """Keeps the payment of the last request. httpx's answer shows only the request without it."""

    payment = None

    async def handle_async_request(self, request):
        self.payment = request.headers.get(HEADER)
        return await super().handle_async_request(request)


async def with_httpx(order):
    sent = Recording()
    transport = x402_httpx_transport(wallet(x402Client, order), sent)
    async with httpx.AsyncClient(transport=transport) as client:
        return await client.get(order["url"]), sent.payment


def with_requests(order):
    with requests.Session() as session:
        session.mount("http://", x402_http_adapter(wallet(x402ClientSync, order)))
        answer = session.get(order["url"])
        return answer, answer.request.headers.get(HEADER)


def buy(order):
    buy_async = order["client"] == "httpx"
    answer, payment = asyncio.run(with_httpx(order)) if buy_async else with_requests(order)
    receipt = answer.headers.get("PAYMENT-RESPONSE")
    if receipt:
        receipt = decode_payment_response_header(receipt).model_dump(mode="json", by_alias=True)
    return {
        "status": answer.status_code,
        "body": answer.json(),
        "receipt": receipt,
        "challenge": answer.headers.get("PAYMENT-REQUIRED"),
        "header": {"name": HEADER, "value": payment},
    }


def refund(order):
    receipt = channel_scheme(order).refund(order["url"], RefundOptions(**order["refund"]))
    return {"receipt": receipt.model_dump(mode="json", by_alias=True)}


def outcome(order):
    try:
        return buy(order) if order.get("refund") is None else refund(order)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


print("READY", flush=True)
for line in sys.stdin:
    print(json.dumps(outcome(json.loads(line))), flush=True)

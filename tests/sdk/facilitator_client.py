"""Whoever asks a facilitator in Python: the clients of PyPI's x402, with nothing of ours in them.

usage: facilitator_client.py <facilitator>

Prints READY, then takes an order on each line and prints what the client made of the answer on one:
  { "ask": "supported" | "verify" | "settle", "by": "sync" | "async", "body": a request }  ->  its model, or { "error" }
"""

import asyncio
import json
import sys

from x402.http import FacilitatorConfig, HTTPFacilitatorClient, HTTPFacilitatorClientSync
from x402.schemas import PaymentPayload, PaymentRequirements
from x402.schemas.v1 import PaymentPayloadV1, PaymentRequirementsV1

MODELS = {1: (PaymentPayloadV1, PaymentRequirementsV1), 2: (PaymentPayload, PaymentRequirements)}
CONFIG = FacilitatorConfig(url=sys.argv[1])


def models(body):
    payload, requirements = MODELS[body["x402Version"]]
    return (
        payload.model_validate(body["paymentPayload"]),
        requirements.model_validate(body["paymentRequirements"]),
    )


def ask(order):
    with HTTPFacilitatorClientSync(CONFIG) as client:
        if order["ask"] == "supported":
            return client.get_supported()
        return getattr(client, order["ask"])(*models(order["body"]))


async def ask_async(order):
    async with HTTPFacilitatorClient(CONFIG) as client:
        if order["ask"] == "supported":
            return client.get_supported()
        return await getattr(client, order["ask"])(*models(order["body"]))


def answer(order):
    try:
        told = ask(order) if order["by"] == "sync" else asyncio.run(ask_async(order))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return told.model_dump(mode="json", by_alias=True, exclude_none=True)


print("READY", flush=True)
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)

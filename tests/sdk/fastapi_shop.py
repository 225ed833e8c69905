"""A shop built with FastAPI on uvicorn and the official middleware of PyPI's x402.

It verifies and settles at the facilitator whose URL it is given, and has no code specific to ours.

usage: fastapi_shop.py '{ "facilitator": URL, "payTo": address, "v2": routes, "channels": settings, "apiKey": key }'

`channels` is `{ key, network, asset }`: the key authorizes claims and refunds of payment channels; without one the
facilitator does. With `channels`, each line
of input calls a method of the channel manager, `claim`, `settle` or `refund`; the result or error goes on one line.

A route is an entry of `accepts` without receiver; its scheme is `exact` unless it names another. A visit with
`?used=AMOUNT` settles that amount of the price. `GET /served` is free and returns how often a paid handler ran.
Prints READY and the shop's address.
"""

import asyncio
import dataclasses
import json
import socket
import sys

import uvicorn
from fastapi import FastAPI, Response
from x402 import x402ResourceServer
from x402.http import HTTPFacilitatorClient
from x402.http.middleware.fastapi import payment_middleware, set_settlement_overrides
from x402.mechanisms.evm.batch_settlement.authorizer_signer import LocalAuthorizerSigner
from x402.mechanisms.evm.batch_settlement.server import (
    BatchSettlementChannelManager,
    BatchSettlementEvmScheme,
    BatchSettlementEvmSchemeServerConfig,
    ChannelManagerConfig,
)
from x402.mechanisms.evm.exact import register_exact_evm_server
from x402.mechanisms.evm.upto import UptoEvmServerScheme

SETTINGS = json.loads(sys.argv[1])
shop = FastAPI()
sold = 0


def routes():
    known = {"scheme": "exact", "payTo": SETTINGS["payTo"], "maxTimeoutSeconds": 60}
    extensions = {path: route.pop("extensions", None) for path, route in SETTINGS["v2"].items()}
    return {
        f"GET {path}": {
            "accepts": {**known, **route},
            "description": "a test",
            "mimeType": "application/json",
            "extensions": extensions.get(path),
        }
        for path, route in SETTINGS["v2"].items()
    }


def auth_headers():
    key = SETTINGS.get("apiKey")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return {"verify": headers, "settle": headers, "supported": headers}


client = HTTPFacilitatorClient({"url": SETTINGS["facilitator"], "create_headers": auth_headers})
server = x402ResourceServer(client)
register_exact_evm_server(server).register("eip155:*", UptoEvmServerScheme())


def channel_manager(channels):
    # Without a cache of the channels' state, the facilitator verifies each voucher.
    key = channels.get("key")
    config = BatchSettlementEvmSchemeServerConfig(
        receiver_authorizer_signer=LocalAuthorizerSigner(key) if key else None,
        onchain_state_ttl_ms=-1,
    )
    scheme = BatchSettlementEvmScheme(SETTINGS["payTo"], config)
    server.register("eip155:*", scheme)
    return BatchSettlementChannelManager(
        ChannelManagerConfig(
            scheme=scheme,
            facilitator=client,
            receiver=SETTINGS["payTo"],
            token=channels["asset"],
            network=channels["network"],
        )
    )


manager = channel_manager(SETTINGS["channels"]) if "channels" in SETTINGS else None
shop.middleware("http")(payment_middleware(routes(), server))


@shop.get("/served")
async def served():
    return {"served": sold}


async def sell(response: Response, used: str | None = None):
    global sold
    sold += 1
    if used:
        set_settlement_overrides(response, {"amount": used})
    return {"content": "what was paid for", "sold": sold}


for path in SETTINGS["v2"]:
    shop.get(path)(sell)


async def managed(job):
    try:
        done = await getattr(manager, job)()
    except Exception as error:
        return {"error": str(error)}
    return [*map(dataclasses.asdict, done)] if isinstance(done, list) else dataclasses.asdict(done)


async def manage():
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await managed(json.loads(line))), flush=True)


async def main():
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"READY http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    serving = uvicorn.Server(uvicorn.Config(shop, log_level="warning")).serve(sockets=[listening])
    await asyncio.gather(serving, *([manage()] if manager else []))


asyncio.run(main())

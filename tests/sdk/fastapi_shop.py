"""A shop built with FastAPI on uvicorn and the official middleware of PyPI's x402.

It verifies and settles at the facilitator whose URL it is given, and has no code specific to ours.

usage: fastapi_shop.py '{ "facilitator": URL, "payTo": address, "v2": routes }'

A route is an entry of `accepts` without receiver; its scheme is `exact` unless it names another. A visit with
`?used=AMOUNT` settles that amount of the price. `GET /served` is free and returns how often a paid handler ran.
Prints READY and the shop's address.
"""

import asyncio
import json
import socket
import sys

import uvicorn
from fastapi import FastAPI, Response
from x402 import x402ResourceServer
from x402.http import FacilitatorConfig, HTTPFacilitatorClient
from x402.http.middleware.fastapi import payment_middleware, set_settlement_overrides
from x402.mechanisms.evm.exact import register_exact_evm_server
from x402.mechanisms.evm.upto import UptoEvmServerScheme

SETTINGS = json.loads(sys.argv[1])
shop = FastAPI()
sold = 0


def routes():
    known = {"scheme": "exact", "payTo": SETTINGS["payTo"], "maxTimeoutSeconds": 60}
    return {
        f"GET {path}": {
            "accepts": {**known, **route},
            "description": "a test",
            "mimeType": "application/json",
        }
        for path, route in SETTINGS["v2"].items()
    }


server = x402ResourceServer(HTTPFacilitatorClient(FacilitatorConfig(url=SETTINGS["facilitator"])))
register_exact_evm_server(server).register("eip155:*", UptoEvmServerScheme())
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


async def main():
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"READY http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    await uvicorn.Server(uvicorn.Config(shop, log_level="warning")).serve(sockets=[listening])


asyncio.run(main())

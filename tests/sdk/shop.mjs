// A shop as others build theirs: express, the protocol's own middlewares of both versions, and a facilitator
// at a URL, which is ours. No line here knows anything of it.
//
// usage: shop.mjs '{ "facilitator": URL, "payTo": address, "v1": routes, "v2": routes }'
//
// A route is what the middlewares take: version 1 `{ network, price }`, version 2 an entry of `accepts`
// without receiver; its scheme is `exact` unless it names another. A visit with `?used=AMOUNT` settles that amount
// of the price. `GET /served` is free and returns how often a paid handler ran. Prints READY and the shop's address.

import "./local.mjs";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { UptoEvmScheme } from "@x402/evm/upto/server";
import { paymentMiddleware, setSettlementOverrides, x402ResourceServer } from "@x402/express";
import express from "express";
import { paymentMiddleware as paymentMiddlewareV1 } from "x402-express";

const { facilitator, payTo, v1, v2 } = JSON.parse(process.argv[2]);
const each = (routes, make) =>
  Object.fromEntries(Object.entries(routes).map(([path, route]) => [`GET ${path}`, make(route)]));

const shop = express();
if (v2) {
  const server = new x402ResourceServer(new HTTPFacilitatorClient({ url: facilitator }));
  server.register("eip155:*", new ExactEvmScheme()).register("eip155:*", new UptoEvmScheme());
  const routes = each(v2, (route) => ({
    accepts: { scheme: "exact", payTo, maxTimeoutSeconds: 60, ...route },
    description: "a test",
    mimeType: "application/json",
  }));
  shop.use(paymentMiddleware(routes, server));
}
if (v1) {
  shop.use(paymentMiddlewareV1(payTo, each(v1, (route) => route), { url: facilitator }));
}

let sold = 0;
shop.get("/served", (_request, response) => response.json({ served: sold }));
for (const path of Object.keys({ ...v1, ...v2 })) {
  shop.get(path, (request, response) => {
    sold += 1;
    const { used } = request.query;
    if (used) setSettlementOverrides(response, { amount: used });
    response.json({ content: "what was paid for", sold });
  });
}
const listening = shop.listen(0, "127.0.0.1", () => {
  console.log(`READY http://127.0.0.1:${listening.address().port}`);
});

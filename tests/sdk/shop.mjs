// A shop as others build theirs: express, the protocol's own middlewares of both versions, and a facilitator
// at a URL, which is ours. No line here knows anything of it.
//
// usage: shop.mjs '{ "facilitator": URL, "payTo": address, "v1": routes, "v2": routes, "channels": settings, "apiKey": key }'
//
// `channels` is `{ key, network, asset }`: the key authorizes claims and refunds of payment channels; without one the
// facilitator does. With `channels`, each line
// of input calls a method of the channel manager, `claim`, `settle` or `refund`; the result or error goes on one line.
//
// A route is what the middlewares take: version 1 `{ network, price }`, version 2 an entry of `accepts`
// without receiver; its scheme is `exact` unless it names another. A visit with `?used=AMOUNT` settles that amount
// of the price. `GET /served` is free and returns how often a paid handler ran. Prints READY and the shop's address.

import "./local.mjs";
import { createInterface } from "node:readline";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { BatchSettlementEvmScheme } from "@x402/evm/batch-settlement/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { UptoEvmScheme } from "@x402/evm/upto/server";
import { paymentMiddleware, setSettlementOverrides, x402ResourceServer } from "@x402/express";
import express from "express";
import { privateKeyToAccount } from "viem/accounts";
import { paymentMiddleware as paymentMiddlewareV1 } from "x402-express";

const { facilitator, payTo, v1, v2, channels, apiKey } = JSON.parse(process.argv[2]);
const each = (routes, make) =>
  Object.fromEntries(Object.entries(routes).map(([path, route]) => [`GET ${path}`, make(route)]));

const shop = express();
let channelManager;
if (v2) {
  const headers = apiKey ? { Authorization: `Bearer ${apiKey}` } : {};
  const createAuthHeaders = async () => ({ verify: headers, settle: headers, supported: headers });
  const client = new HTTPFacilitatorClient({ url: facilitator, createAuthHeaders });
  const server = new x402ResourceServer(client);
  server.register("eip155:*", new ExactEvmScheme()).register("eip155:*", new UptoEvmScheme());
  if (channels) {
    const receiverAuthorizerSigner = channels.key && privateKeyToAccount(channels.key);
    // Without a cache of the channels' state, the facilitator verifies each voucher.
    const options = { receiverAuthorizerSigner, onchainStateTtlMs: -1 };
    const scheme = new BatchSettlementEvmScheme(payTo, options);
    server.register("eip155:*", scheme);
    channelManager = scheme.createChannelManager(client, channels.network, channels.asset);
  }
  const routes = each(v2, ({ extensions, ...route }) => ({
    accepts: { scheme: "exact", payTo, maxTimeoutSeconds: 60, ...route },
    extensions,
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
if (channelManager) {
  for await (const line of createInterface({ input: process.stdin })) {
    const outcome = await channelManager[JSON.parse(line)]().catch((error) => ({ error: error.message }));
    console.log(JSON.stringify(outcome));
  }
}

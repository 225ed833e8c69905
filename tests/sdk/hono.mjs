// A shop built with Hono on node and the official middleware. It verifies and settles at the facilitator whose
// URL it is given, and has no code specific to ours.
//
// usage: hono.mjs '{ "facilitator": URL, "payTo": address, "v2": routes }'
//
// A route is an entry of `accepts` without receiver; its scheme is `exact` unless it names another. A visit with
// `?used=AMOUNT` settles that amount of the price. `GET /served` is free and returns how often a paid handler ran.
// Prints READY and the shop's address.

import "./local.mjs";
import { serve } from "@hono/node-server";
import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { UptoEvmScheme } from "@x402/evm/upto/server";
import { paymentMiddleware, setSettlementOverrides, x402ResourceServer } from "@x402/hono";
import { Hono } from "hono";

const { facilitator, payTo, v2 } = JSON.parse(process.argv[2]);
const server = new x402ResourceServer(new HTTPFacilitatorClient({ url: facilitator }));
server.register("eip155:*", new ExactEvmScheme()).register("eip155:*", new UptoEvmScheme());
const routes = Object.fromEntries(
  Object.entries(v2).map(([path, route]) => [
    `GET ${path}`,
    {
      accepts: { scheme: "exact", payTo, maxTimeoutSeconds: 60, ...route },
      description: "a test",
      mimeType: "application/json",
    },
  ]),
);

const shop = new Hono();
let sold = 0;
shop.get("/served", (context) => context.json({ served: sold }));
shop.use(paymentMiddleware(routes, server));
for (const path of Object.keys(v2)) {
  shop.get(path, (context) => {
    sold += 1;
    const used = context.req.query("used");
    if (used) setSettlementOverrides(context, { amount: used });
    return context.json({ content: "what was paid for", sold });
  });
}
serve({ fetch: shop.fetch, hostname: "127.0.0.1", port: 0 }, ({ port }) => {
  console.log(`READY http://127.0.0.1:${port}`);
});

// A shop that sells a text by the character (scheme upto), and ticks that are too cheap for a transaction each (scheme
// batch-settlement).
import { HTTPFacilitatorClient } from "@x402/core/server";
import { BatchSettlementEvmScheme } from "@x402/evm/batch-settlement/server";
import { UptoEvmScheme } from "@x402/evm/upto/server";
import { paymentMiddleware, setSettlementOverrides, x402ResourceServer } from "@x402/express";
import express from "express";
import { NETWORK, TOKEN, facilitatorUrl, merchant, shopUrl } from "./accounts.mjs";

const CHARACTER = 100; // millionths of a dollar

// With api_keys in the facilitator's settings, add createAuthHeaders here: it returns the headers of verify, settle and
// supported, each { Authorization: `Bearer ${key}` }.
const facilitator = new HTTPFacilitatorClient({ url: facilitatorUrl });
// The merchant's key signs claims and refunds of its channels.
const channels = new BatchSettlementEvmScheme(merchant.address, {
  receiverAuthorizerSigner: merchant,
});
const server = new x402ResourceServer(facilitator)
  .register(NETWORK, new UptoEvmScheme())
  .register(NETWORK, channels);

const sold = (scheme, price) => ({
  accepts: { scheme, price, network: NETWORK, payTo: merchant.address, maxTimeoutSeconds: 300 },
});
const shop = express();
shop.use(
  paymentMiddleware(
    { "GET /text": sold("upto", "$0.05"), "GET /tick": sold("batch-settlement", "$0.01") },
    server,
  ),
);
shop.get("/text", (request, response) => {
  const length = Number(request.query.length ?? 100);
  // At most what the buyer has authorized: the facilitator refuses more.
  setSettlementOverrides(response, { amount: String(length * CHARACTER) });
  response.json({ text: "x".repeat(length) });
});
shop.get("/tick", (_request, response) => response.json({ tick: new Date().toISOString() }));
const { port } = new URL(shopUrl);
shop.listen(Number(port), "127.0.0.1", () => console.log(`the shop: ${shopUrl}`));

// The shop keeps the newest voucher of each channel. These two record what the vouchers have earned, and pay it out;
// manager.start() does both regularly.
const manager = channels.createChannelManager(facilitator, NETWORK, TOKEN);
const office = express();
const answer = (work) => async (_request, response) => {
  try {
    response.json(await work());
  } catch (error) {
    response.status(500).json({ error: String(error) });
  }
};
office.post("/claim", answer(() => manager.claim()));
office.post("/payout", answer(() => manager.settle()));
office.listen(Number(port) + 1, "127.0.0.1");

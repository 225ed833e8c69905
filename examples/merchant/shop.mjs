// A shop that sells a text by the character (scheme upto), and ticks that are too cheap for a transaction each (scheme
// batch-settlement).
import { HTTPFacilitatorClient } from "@x402/core/server";
import { BatchSettlementEvmScheme } from "@x402/evm/batch-settlement/server";
import { FileChannelStorage } from "@x402/evm/batch-settlement/server/file-storage";
import { UptoEvmScheme } from "@x402/evm/upto/server";
import { paymentMiddleware, setSettlementOverrides, x402ResourceServer } from "@x402/express";
import express from "express";
import { NETWORK, TOKEN, facilitatorUrl, merchant, shopUrl } from "./accounts.mjs";

// The prices. A text costs CHARACTER for each character, and its buyer authorizes at most TEXT_MAX beforehand.
const CHARACTER = 100; // millionths of a dollar
const TEXT_MAX = "$0.05";
const TICK = "$0.01";
const FIRST_DEPOSIT = "$0.10"; // the least that a buyer deposits into a new channel

// With api_keys in the facilitator's settings, add createAuthHeaders here: it returns the headers of verify, settle and
// supported, each { Authorization: `Bearer ${key}` }.
const facilitator = new HTTPFacilitatorClient({ url: facilitatorUrl });
// The merchant's key signs claims and refunds of its channels. A voucher that is lost before it is claimed is lost money,
// so the shop keeps the newest one of each channel on disk.
const channels = new BatchSettlementEvmScheme(merchant.address, {
  receiverAuthorizerSigner: merchant,
  storage: new FileChannelStorage({ directory: process.env.CHANNELS ?? "channels" }),
});
const server = new x402ResourceServer(facilitator)
  .register(NETWORK, new UptoEvmScheme())
  .register(NETWORK, channels);

const sold = (scheme, price, extra = {}) => ({
  accepts: { scheme, price, network: NETWORK, payTo: merchant.address, maxTimeoutSeconds: 300, extra },
});
const shop = express();
shop.use(
  paymentMiddleware(
    {
      "GET /text": sold("upto", TEXT_MAX),
      "GET /tick": sold("batch-settlement", TICK, { minDeposit: FIRST_DEPOSIT }),
    },
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

// These two record what the vouchers have earned, and pay it out. manager.start() does both regularly, and
// manager.refundIdleChannels() returns what buyers have left in channels that they no longer use.
const manager = channels.createChannelManager(facilitator, NETWORK, TOKEN);
const office = express();
const answer = (work) => async (_request, response) => {
  try {
    response.json(await work());
  } catch (error) {
    // A code of the facilitator, such as duplicate_settlement: there is nothing new to pay out.
    response.status(502).json({ code: error.errorReason, error: error.errorMessage ?? String(error) });
  }
};
office.post("/claim", answer(() => manager.claim()));
office.post("/payout", answer(() => manager.settle()));
office.listen(Number(port) + 1, "127.0.0.1");

// A resource server with its facilitator, of the protocol's own packages: the offers, the checks and the
// settlements are theirs. Ours is only what carries HTTP to them, which every server has to bring along.
//
// usage: peer.mjs <JSON-RPC endpoint of the local chain> <receiving address>
//
// Prints READY and its address. Three paths sell the same:
//   /x402      version 1, by npm x402
//   /evm-v1    version 1, offered by npm x402, checked and settled by @x402/evm
//   /evm-v2    version 2, by @x402/core and @x402/evm
// POST /ahead takes the seconds by which its clock is ahead from then on.

import "./local.mjs";
import { createServer } from "node:http";
import { x402Facilitator } from "@x402/core/facilitator";
import { x402HTTPResourceServer } from "@x402/core/http";
import { x402ResourceServer } from "@x402/core/server";
import { ExactEvmScheme as ExactEvmFacilitator } from "@x402/evm/exact/facilitator";
import { ExactEvmScheme as ExactEvmServer } from "@x402/evm/exact/server";
import { ExactEvmSchemeV1 as ExactEvmFacilitatorV1 } from "@x402/evm/exact/v1/facilitator";
import { getAddress } from "viem";
import { generatePrivateKey } from "viem/accounts";
import { base } from "viem/chains";
import { settle, verify } from "x402/facilitator";
import { exact } from "x402/schemes";
import { findMatchingPaymentRequirements, processPriceToAtomicAmount, toJsonSafe } from "x402/shared";
import { PaymentRequirementsSchema, settleResponseHeader } from "x402/types";
import { facilitatorSigner } from "./facilitator_signer.mjs";

const [, , rpc, payTo] = process.argv;
const PRICE = "$0.012";
const GOODS = { content: "what was paid for" };
// What has to come back, or be signed over, as it is: other letters, quotes, numbers, order of names.
const DETAILS = { zeta: "für \"dich\" – 100 %", alpha: [1, 2.5, null, true, { b: 1, a: 2 }], 10: "x", 9: "y" };

// A clock that the test moves, for payments that have run out.
const realNow = Date.now;
let ahead = 0;
Date.now = () => realNow() + ahead * 1000;

const { wallet, signer } = await facilitatorSigner(rpc, base, generatePrivateKey());

const facilitator = new x402Facilitator();
facilitator.register("eip155:8453", new ExactEvmFacilitator(signer));
facilitator.registerV1("base", new ExactEvmFacilitatorV1(signer));

/** Who checks and settles, by path, for what is offered in version 1. */
const VERSION_1 = {
  "/x402": {
    verify: (payment, offer) => verify(wallet, payment, offer),
    settle: (payment, offer) => settle(wallet, payment, offer),
  },
  "/evm-v1": {
    verify: (payment, offer) => facilitator.verify(payment, offer),
    settle: (payment, offer) => facilitator.settle(payment, offer),
  },
};

function offerV1(url) {
  const { maxAmountRequired, asset } = processPriceToAtomicAmount(PRICE, "base");
  return PaymentRequirementsSchema.parse({
    scheme: "exact",
    network: "base",
    maxAmountRequired,
    resource: url,
    description: "a test",
    mimeType: "application/json",
    payTo: getAddress(payTo),
    maxTimeoutSeconds: 60,
    asset: getAddress(asset.address),
    outputSchema: { input: { type: "http", method: "GET", discoverable: true }, output: DETAILS },
    extra: { ...asset.eip712, details: DETAILS },
  });
}

/** The steps of npm x402-express 1.2. */
async function sellV1(by, request, url) {
  const offers = [offerV1(url)];
  const refuse = (error, more) => ({
    status: 402,
    body: { x402Version: 1, error, accepts: toJsonSafe(offers), ...more },
  });
  const header = request.headers["x-payment"];
  if (header === undefined) return refuse("X-PAYMENT header is required");
  let payment;
  try {
    payment = exact.evm.decodePayment(header);
  } catch (error) {
    return refuse(`Invalid or malformed payment header: ${error.message}`);
  }
  const offer = findMatchingPaymentRequirements(offers, payment);
  if (!offer) return refuse("Unable to find matching payment requirements");
  try {
    const verdict = await by.verify(payment, offer);
    if (!verdict.isValid) return refuse(verdict.invalidReason, { payer: verdict.payer });
    const settled = await by.settle(payment, offer);
    if (!settled.success) return refuse(settled.errorReason);
    return { status: 200, body: GOODS, headers: { "X-PAYMENT-RESPONSE": settleResponseHeader(settled) } };
  } catch (error) {
    return refuse(error.shortMessage ?? error.message);
  }
}

const resourceServer = new x402ResourceServer({
  verify: (payment, offer) => facilitator.verify(payment, offer),
  settle: (payment, offer) => facilitator.settle(payment, offer),
  getSupported: async () => facilitator.getSupported(),
});
resourceServer.register("eip155:8453", new ExactEvmServer());
const version2 = new x402HTTPResourceServer(resourceServer, {
  "GET /evm-v2": {
    accepts: {
      scheme: "exact",
      network: "eip155:8453",
      price: PRICE,
      payTo,
      maxTimeoutSeconds: 60,
      extra: { details: DETAILS },
    },
    extensions: { note: { info: DETAILS, schema: { type: "object" } } },
    description: "a test",
    mimeType: "application/json",
  },
});
await version2.initialize();

/** The steps of npm @x402/express 2.27. */
async function sellV2(request, url, path) {
  const adapter = {
    getHeader: (name) => request.headers[name.toLowerCase()],
    getMethod: () => request.method,
    getPath: () => path,
    getUrl: () => url,
    getAcceptHeader: () => request.headers.accept ?? "",
    getUserAgent: () => request.headers["user-agent"] ?? "",
  };
  const paymentHeader = adapter.getHeader("payment-signature");
  const context = { adapter, path, method: request.method, paymentHeader };
  const found = await version2.processHTTPRequest(context);
  if (found.type === "payment-error") return found.response;
  if (found.type !== "payment-verified") throw new Error(found.type);
  const { paymentPayload, paymentRequirements, declaredExtensions } = found;
  const settled = await version2.processSettlement(
    paymentPayload,
    paymentRequirements,
    declaredExtensions,
    { request: context },
  );
  if (!settled.success) return settled.response;
  return { status: 200, headers: settled.headers, body: GOODS };
}

async function answer(request) {
  const url = new URL(request.url, `http://${request.headers.host}`);
  if (url.pathname === "/ahead") {
    let text = "";
    for await (const part of request) text += part;
    ahead = Number(text);
    return { status: 200, body: { ahead } };
  }
  const by = VERSION_1[url.pathname];
  return by ? sellV1(by, request, url.href) : sellV2(request, url.href, url.pathname);
}

const server = createServer(async (request, response) => {
  const broken = (error) => ({ status: 500, body: { error: error.stack } });
  const { status, headers, body } = await answer(request).catch(broken);
  response.writeHead(status, { "Content-Type": "application/json", ...headers });
  response.end(typeof body === "string" ? body : JSON.stringify(body ?? {}));
});
server.listen(0, "127.0.0.1", () => {
  console.log(`READY http://127.0.0.1:${server.address().port}`);
});

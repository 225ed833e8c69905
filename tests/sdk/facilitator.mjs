// A facilitator for the schemes exact, upto and batch-settlement, made of the protocol's own packages: the checks and the
// settlements are theirs. Ours are the HTTP server, with the statuses of their example, and the account that sends signed
// approvals, which no package contains.
//
// usage: facilitator.mjs <JSON-RPC endpoint of a local chain> <network, such as eip155:8453> <key that pays gas>
//
// Prints READY and its address.

import "./local.mjs";
import { createServer } from "node:http";
import { x402Facilitator } from "@x402/core/facilitator";
import { BatchSettlementEvmScheme } from "@x402/evm/batch-settlement/facilitator";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { UptoEvmScheme } from "@x402/evm/upto/facilitator";
import { facilitatorSigner } from "./facilitator_signer.mjs";

const [, , rpc, network, key] = process.argv;
const chain = {
  id: Number(network.split(":")[1]),
  name: network,
  nativeCurrency: { name: "coin", symbol: "ETH", decimals: 18 },
};
const { wallet, signer } = await facilitatorSigner(rpc, chain, key);

/** Sends transactions one after the other, those that are signed and those of the facilitator's account. */
async function sendTransactions(transactions) {
  const hashes = [];
  for (const transaction of transactions) {
    const hash =
      typeof transaction === "string"
        ? await wallet.sendRawTransaction({ serializedTransaction: transaction })
        : await wallet.sendTransaction(transaction);
    await wallet.waitForTransactionReceipt({ hash });
    hashes.push(hash);
  }
  return hashes;
}

const facilitator = new x402Facilitator()
  .registerExtension({ key: "eip2612GasSponsoring" })
  .registerExtension({ key: "erc20ApprovalGasSponsoring", signer: { ...signer, sendTransactions } })
  .register(network, new ExactEvmScheme(signer))
  .register(network, new UptoEvmScheme(signer))
  .register(network, new BatchSettlementEvmScheme(signer));

async function answer(request) {
  if (request.url === "/supported") return facilitator.getSupported();
  let text = "";
  for await (const part of request) text += part;
  const { paymentPayload, paymentRequirements } = JSON.parse(text);
  return request.url === "/verify"
    ? facilitator.verify(paymentPayload, paymentRequirements)
    : facilitator.settle(paymentPayload, paymentRequirements);
}

const server = createServer(async (request, response) => {
  const send = (status, body) => {
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(body));
  };
  await answer(request).then(
    (body) => send(200, body),
    (error) => send(500, { error: error.message }),
  );
});
server.listen(0, "127.0.0.1", () => {
  console.log(`READY http://127.0.0.1:${server.address().port}`);
});

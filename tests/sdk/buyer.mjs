// A customer as others build theirs: the protocol's own clients around fetch, with a key of viem.
//
// usage: buyer.mjs
//
// Prints READY, then takes an order on each line and prints what came of it on one:
//   { client, url, key, rpc?, allowed?, wallet?, refund? }
//     ->  { status, body, receipt, challenge, header: { name, value } } or { error }
// `rpc` is the endpoint at which the clients look up allowances, nonces and channels. `allowed` are the assets beside those that a client knows, `wallet` is the contract that the key owns, with
// `factory` and `calldata` if it has yet to be made. `challenge` is the header of a refusal.

import "./local.mjs";
import { createInterface } from "node:readline";
import { BatchSettlementEvmScheme, InMemoryClientChannelStorage } from "@x402/evm/batch-settlement/client";
import { registerExactEvmScheme } from "@x402/evm/exact/client";
import { UptoEvmScheme } from "@x402/evm/upto/client";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { createPublicClient, http, serializeErc6492Signature } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { decodeXPaymentResponse, wrapFetchWithPayment as wrapFetchWithPaymentV1 } from "x402-fetch";

const storage = new InMemoryClientChannelStorage();

function channelScheme(signer, rpc) {
  const { readContract, getTransactionCount, estimateFeesPerGas } = rpc
    ? createPublicClient({ transport: http(rpc) })
    : {};
  const reader = { readContract, getTransactionCount, estimateFeesPerGas };
  return new BatchSettlementEvmScheme({ ...signer, ...reader }, { storage });
}

const CLIENTS = {
  "@x402/fetch": (send, signer, { allowed, rpc }) => {
    const client = new x402Client();
    const options = rpc && { rpcUrl: rpc };
    registerExactEvmScheme(client, { signer, schemeOptions: options })
      .register("eip155:*", new UptoEvmScheme(signer, options))
      .register("eip155:*", channelScheme(signer, rpc));
    if (allowed) client.setSpendControls({ allowedAssets: allowed });
    return wrapFetchWithPayment(send, client);
  },
  "x402-fetch": (send, signer) => wrapFetchWithPaymentV1(send, signer),
};

function signerOf({ key, wallet }) {
  const owner = privateKeyToAccount(key);
  if (!wallet) return owner;
  const { address, factory, calldata } = wallet;
  const signTypedData = async (data) => {
    const signature = await owner.signTypedData(data);
    return factory ? serializeErc6492Signature({ address: factory, data: calldata, signature }) : signature;
  };
  // The older client asks for an account with every method, and calls this one.
  return { ...owner, address, signTypedData };
}

async function refund(order) {
  return { receipt: await channelScheme(signerOf(order), order.rpc).refund(order.url, order.refund) };
}

async function buy(order) {
  let header = null;
  const send = (input, init) => {
    const request = new Request(input, init);
    for (const name of ["PAYMENT-SIGNATURE", "X-PAYMENT"]) {
      const value = request.headers.get(name);
      if (value) header = { name, value };
    }
    return fetch(request);
  };
  const response = await CLIENTS[order.client](send, signerOf(order), order)(order.url);
  const v2 = response.headers.get("PAYMENT-RESPONSE");
  const v1 = response.headers.get("X-PAYMENT-RESPONSE");
  const receipt = v2 ? decodePaymentResponseHeader(v2) : v1 ? decodeXPaymentResponse(v1) : null;
  const challenge = response.headers.get("PAYMENT-REQUIRED");
  return { status: response.status, body: await response.json(), receipt, challenge, header };
}

console.log("READY");
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  const told = await (order.refund ? refund(order) : buy(order)).catch((error) => ({ error: error.message }));
  console.log(JSON.stringify(told));
}

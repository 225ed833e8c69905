// Buys from the shop: node buyer.mjs text [LENGTH] | tick [TIMES] | refund | balances
import { toClientEvmSigner } from "@x402/evm";
import { BatchSettlementEvmScheme } from "@x402/evm/batch-settlement/client";
import { FileClientChannelStorage } from "@x402/evm/batch-settlement/client/file-storage";
import { UptoEvmScheme } from "@x402/evm/upto/client";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import {
  ESCROW, NETWORK, balance, buyer, facilitatorUrl, merchant, node, shopUrl,
} from "./accounts.mjs";

const signer = toClientEvmSigner(buyer, node);
// The newest voucher of a channel is money: keep it over restarts.
const storage = new FileClientChannelStorage({ directory: process.env.CHANNELS ?? "channels" });
// A deposit is five times the price, but at least what the shop demands as the first one.
const channels = new BatchSettlementEvmScheme(signer, {
  storage,
  depositPolicy: { depositMultiplier: 5 },
});
const client = new x402Client()
  .register(NETWORK, new UptoEvmScheme(signer))
  .register(NETWORK, channels);
const pay = wrapFetchWithPayment(fetch, client);

async function buy(path) {
  const response = await pay(`${shopUrl}${path}`);
  console.log(response.status, await response.text());
  const receipt = response.headers.get("PAYMENT-RESPONSE");
  if (receipt) console.log("receipt", JSON.stringify(decodePaymentResponseHeader(receipt)));
  if (response.ok) return;
  // Why the payment was refused before it was settled.
  const required = response.headers.get("PAYMENT-REQUIRED");
  if (required) console.log("refused", JSON.parse(atob(required)).error);
  process.exitCode = 1;
}

async function refund() {
  try {
    console.log(JSON.stringify(await channels.refund(`${shopUrl}/tick`)));
  } catch (error) {
    console.log("refused", error.message);
    process.exitCode = 1;
  }
}

async function balances() {
  const { signers } = await (await fetch(`${facilitatorUrl}/supported`)).json();
  const [account] = signers[NETWORK];
  const accounts = { buyer: buyer.address, merchant: merchant.address, escrow: ESCROW };
  let sum = 0n;
  for (const [name, address] of Object.entries(accounts)) {
    const units = await balance(address);
    sum += units;
    console.log(name, String(units));
  }
  console.log("all", String(sum), "millionths of a dollar");
  const coin = await node.getBalance({ address: account });
  console.log("facilitator", String(await balance(account)), "and", String(coin), "wei for gas");
}

const [command, argument] = process.argv.slice(2);
if (command === "text") {
  await buy(`/text?length=${argument ?? 100}`);
} else if (command === "tick") {
  for (let times = Number(argument ?? 1); times > 0; times -= 1) await buy("/tick");
} else if (command === "refund") {
  await refund();
} else if (command === "balances") {
  await balances();
} else {
  console.error("usage: node buyer.mjs text [LENGTH] | tick [TIMES] | refund | balances");
  process.exitCode = 2;
}

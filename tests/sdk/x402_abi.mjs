// What the official package knows of the contracts of x402: addresses, interfaces, and the types that are signed.
// `tests/devnet/tests/kit/x402_abi.json` is its answer, written down.
//
// usage: node x402_abi.mjs     prints READY, and the answer for each line of input
import "./local.mjs";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import * as evm from "@x402/evm";
import { computeChannelId } from "@x402/evm/batch-settlement/client";

// The package exports neither the interface of the channels nor all of their types, so they are taken from
// the file that defines them.
const folder = dirname(fileURLToPath(import.meta.resolve("@x402/evm")));
async function inner(name) {
  const files = readdirSync(folder).filter((file) => file.endsWith(".mjs"));
  const defines = (file) => readFileSync(join(folder, file), "utf8").includes(`\nvar ${name} = `);
  return (await import(pathToFileURL(join(folder, files.find(defines))).href))[name];
}

function typeOf({ type, components, indexed }) {
  const name = type.replace("tuple", () => `(${components.map(typeOf)})`);
  return indexed ? `${name} indexed` : name;
}
function describe({ type, name, inputs, outputs, stateMutability }) {
  const head = `${type} ${name}(${inputs.map(typeOf)})`;
  return type === "function" ? `${head} ${stateMutability} (${outputs.map(typeOf)})` : head;
}

// The type of an EIP-712 struct: the struct itself, then those that it uses by name.
function encode(types, primary) {
  const one = (name) => `${name}(${types[name].map(({ type, name }) => `${type} ${name}`)})`;
  const others = Object.keys(types).filter((name) => name !== primary);
  return [primary, ...others.sort()].map(one).join("");
}

const contracts = {
  ExactPermit2Proxy: [evm.x402ExactPermit2ProxyAddress, evm.x402ExactPermit2ProxyABI],
  UptoPermit2Proxy: [evm.x402UptoPermit2ProxyAddress, evm.x402UptoPermit2ProxyABI],
  BatchSettlement: [evm.BATCH_SETTLEMENT_ADDRESS, await inner("batchSettlementABI")],
  Erc3009DepositCollector: [evm.ERC3009_DEPOSIT_COLLECTOR_ADDRESS, []],
  Permit2DepositCollector: [await inner("PERMIT2_DEPOSIT_COLLECTOR_ADDRESS"), []],
};
const address = (byte) => `0x${byte.repeat(20)}`;
const config = {
  payer: address("11"),
  payerAuthorizer: address("22"),
  receiver: address("33"),
  receiverAuthorizer: address("44"),
  token: address("55"),
  withdrawDelay: 86_400,
  salt: `0x${"66".repeat(32)}`,
};
const answer = {
  contracts: Object.fromEntries(
    Object.entries(contracts).map(([name, [address, abi]]) => [
      name,
      { address, interface: abi.map(describe).sort() },
    ]),
  ),
  types: {
    exact: encode(evm.permit2WitnessTypes, "PermitWitnessTransferFrom"),
    upto: encode(evm.uptoPermit2WitnessTypes, "PermitWitnessTransferFrom"),
    permit2_deposit: encode(await inner("batchPermit2WitnessTypes"), "PermitWitnessTransferFrom"),
    authorized_deposit: encode(await inner("receiveAuthorizationTypes"), "ReceiveWithAuthorization"),
    voucher: encode(evm.voucherTypes, "Voucher"),
    refund: encode(evm.refundTypes, "Refund"),
    claim_batch: encode(evm.claimBatchTypes, "ClaimBatch"),
    permit: encode(await inner("eip2612PermitTypes"), "Permit"),
  },
  channel: { chain: 8453, config, id: computeChannelId(config, 8453) },
  channel_domain: evm.BATCH_SETTLEMENT_DOMAIN,
  withdraw_delay: [await inner("MIN_WITHDRAW_DELAY"), await inner("MAX_WITHDRAW_DELAY")],
};

console.log("READY");
createInterface({ input: process.stdin }).on("line", () => console.log(JSON.stringify(answer)));

// What the shop and the buyer share: the chain, the token, and their accounts.
import { createPublicClient, http, parseAbi } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { base } from "viem/chains";

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is missing: the sandbox prints it, see README.md`);
  return value;
}

export const NETWORK = "eip155:8453";
export const TOKEN = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
export const ESCROW = "0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003";
export const facilitatorUrl = required("FACILITATOR_URL");
export const shopUrl = process.env.SHOP_URL ?? "http://127.0.0.1:4021";
export const buyer = privateKeyToAccount(required("BUYER_KEY"));
export const merchant = privateKeyToAccount(required("MERCHANT_KEY"));
export const node = createPublicClient({ chain: base, transport: http(required("NODE_URL")) });

const erc20 = parseAbi(["function balanceOf(address) view returns (uint256)"]);

// The balance of an account in millionths of a dollar.
export function balance(account) {
  const call = { abi: erc20, functionName: "balanceOf", args: [account] };
  return node.readContract({ address: TOKEN, ...call });
}

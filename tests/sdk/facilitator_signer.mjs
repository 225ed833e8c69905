// The account of a facilitator that is made of the packages: it pays gas on a local chain.

import { toFacilitatorEvmSigner } from "@x402/evm";
import { createWalletClient, http, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";

/** Gives the account a coin; returns it as a client of viem and as a signer of the schemes. */
export async function facilitatorSigner(rpc, chain, key) {
  const account = privateKeyToAccount(key);
  const wallet = createWalletClient({
    account,
    chain: { ...chain, rpcUrls: { default: { http: [rpc] } } },
    transport: http(rpc),
    pollingInterval: 20,
  }).extend(publicActions);
  await wallet.request({ method: "anvil_setBalance", params: [account.address, "0xde0b6b3a7640000"] });
  return { wallet, signer: toFacilitatorEvmSigner({ ...wallet, address: account.address }) };
}

#!/usr/bin/env node
// Pays for a URL as an HMAC agent (x402 version 2; Node 18 or newer, no packages).
//
//   eval "$(bursar agent instructions NAME)"        # four variables; the wallet must be open
//   examples/agent.mjs https://shop.example/report
//
// The answer goes to standard output, everything else to standard error. Exit code 0: the answer has status 2xx.
// 1: it has another status, or nothing was paid. 2: wrong usage.

import { createHmac } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const { WALLET_URL, WALLET_AGENT_ID, WALLET_AGENT_TOKEN, WALLET_AUTH_MODE } = process.env;

const say = (text) => console.error(`agent.mjs: ${text}`);

function stop(text, exitCode = 1) {
  say(text);
  process.exit(exitCode);
}

const why = (error) => error.cause?.code ?? error.cause?.message ?? error.message;

/** Returns any answer with its body. Rejects if there is no whole answer. */
async function call(url, options = {}, timeoutMs = 120_000) {
  const signal = AbortSignal.timeout(timeoutMs);
  // A payment is for one merchant only, so redirects are not followed.
  const answer = await fetch(url, { ...options, redirect: "manual", signal });
  return { status: answer.status, headers: answer.headers, body: Buffer.from(await answer.arrayBuffer()) };
}

/** Returns the wallet's status and JSON object; status 0 if there is no whole answer. */
async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  const post = body && { method: "POST", headers, body: JSON.stringify(body) };
  try {
    const answer = await call(WALLET_URL.replace(/\/+$/, "") + path, post, 30_000);
    return [answer.status, JSON.parse(answer.body)];
  } catch (error) {
    return [0, { code: "NO_ANSWER", error: why(error) }];
  }
}

/** Returns JSON with sorted keys. JSON.stringify adds no spaces, and all text here is ASCII. */
function canonical(message) {
  const sorted = (_key, value) =>
    value !== null && typeof value === "object" ? Object.fromEntries(Object.entries(value).sort()) : value;
  return JSON.stringify(message, sorted);
}

/** Returns the body with its signature: an HMAC over `covered`, the agent and the time. */
function proven(body, covered) {
  const timestamp = Math.floor(Date.now() / 1000);
  const key = Buffer.from(WALLET_AGENT_TOKEN.slice(3), "hex"); // after AT_
  const message = canonical({ ...covered, agent_id: WALLET_AGENT_ID, timestamp });
  const digest = createHmac("sha256", key).update(message).digest("hex");
  return { ...body, agent_id: WALLET_AGENT_ID, signature: `SIG:${timestamp}:${digest}` };
}

/** Returns the signed payment, after the operator's decision if the wallet holds the request. */
async function sign(url, offer) {
  await sleep(1020 - (Date.now() % 1000)); // equal requests of two runs in one second would be one payment
  const content = { payment_required: offer, request_url: url };
  // The signature is the idempotency key: after a lost answer exactly this body is sent again.
  let body = proven(content, content);
  let [path, end, status, answer] = ["/sign", performance.now() + 30_000];
  for (;;) {
    [status, answer] = await ask(path, body);
    if (status === 202 && body) {
      say(`held: request ${answer.request_id} waits for the operator`);
      // The wallet itself gives up after 15 minutes.
      [path, body, end] = [`/sign/status/${answer.request_id}`, undefined, performance.now() + 960_000];
    }
    const later = [0, 202].includes(status) || answer.retry_after !== undefined;
    if (!later || performance.now() > end) break;
    await sleep(1000 * (answer.retry_after ?? 2));
  }
  if (status === 200 && answer.header_value) return answer;
  return stop(`not paid: ${answer.code}: ${answer.error ?? answer.reason ?? answer.message}`);
}

/** Reports the settlement that the merchant's receipt names. */
async function report(transaction, headers) {
  let receipt;
  try {
    receipt = JSON.parse(Buffer.from(headers.get("PAYMENT-RESPONSE") ?? "", "base64"));
  } catch {
    return;
  }
  if (receipt?.success !== true || !/^0x[0-9a-f]{64}$/i.test(receipt.transaction)) return;
  const content = { transaction_id: transaction, event: "settled", tx_hash: receipt.transaction };
  const [status, answer] = await ask("/callback", proven(content, { callback: content }));
  say(`settled by ${receipt.transaction}; the wallet's answer to the report: ${answer.code ?? status}`);
}

const complete = WALLET_URL && WALLET_AGENT_ID && /^AT_[0-9a-f]{64}$/.test(WALLET_AGENT_TOKEN);
if (!complete || WALLET_AUTH_MODE !== "hmac") {
  stop("set the four variables of an HMAC agent: bursar agent instructions NAME", 2);
}
const [url, ...rest] = process.argv.slice(2);
if (!/^https?:\/\/[!-~]+$/.test(url) || rest.length) stop("usage: agent.mjs URL (in ASCII)", 2);
let paid = "nothing was paid";
const buy = (headers) =>
  call(url, { headers }).catch((error) => stop(`${url} gives no whole answer: ${why(error)}; ${paid}`));

let goods = await buy({});
const offer = goods.headers.get("PAYMENT-REQUIRED");
if (goods.status === 402 && offer) {
  const payment = await sign(url, offer);
  paid = `the wallet signed payment ${payment.transaction_id}`;
  goods = await buy({ [payment.header_name]: payment.header_value });
  await report(payment.transaction_id, goods.headers);
}
process.stdout.write(goods.body);
if (goods.status < 200 || goods.status > 299) {
  say(`${url} answers with status ${goods.status}; ${paid}`);
  process.exitCode = 1;
}

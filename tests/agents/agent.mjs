#!/usr/bin/env node
// An agent that fetches a paywalled resource and lets a wallet sign the payment (x402).
//
// Plain Node 18 or newer, no packages. The agent holds no key: it asks the wallet, waits if the operator
// must approve, and sends the signed header to the merchant.
//
// usage: agent.mjs [--poll SECONDS] [--timeout SECONDS] <resource url>
//
// environment: WALLET_URL, WALLET_AGENT_ID, WALLET_AGENT_TOKEN, WALLET_AUTH_MODE (hmac or bearer),
//              WALLET_AGENT_FIELD (agent_id or agent_code)
// prints one line of JSON; exit code 0 if paid, 3 otherwise

import { createHmac, randomUUID } from "node:crypto";
import { parseArgs } from "node:util";

const PAID = 0;
const NOT_PAID = 3;
const HTTP_TIMEOUT_MS = 30_000;

/** Sends one HTTP request: GET, or POST of a JSON body. Any status is an answer. */
async function call(url, headers = {}, body = undefined) {
  const post = body && {
    method: "POST",
    body: JSON.stringify(body),
    headers: { ...headers, "Content-Type": "application/json" },
  };
  const answer = await fetch(url, {
    headers,
    ...post,
    // A payment header is for one merchant only: never follow a redirect to another.
    redirect: "manual",
    signal: AbortSignal.timeout(HTTP_TIMEOUT_MS),
  });
  return { code: answer.status, headers: answer.headers, text: await answer.text() };
}

/** Returns the parsed JSON, or the text if it is not JSON. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Returns the object in a base64 JSON header, or null. */
function unpacked(header) {
  const value = parsed(Buffer.from(header ?? "", "base64").toString("utf8"));
  return value !== null && typeof value === "object" ? value : null;
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function variable(name) {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not there`);
  return value;
}

/** Encodes like CPython's json.dumps(..., sort_keys=True, separators=(",", ":")), except for fractions below a
 *  millionth, which no offer has. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (isObject(value)) {
    const member = (key) => `${canonical(key)}:${canonical(value[key])}`;
    return `{${Object.keys(value).sort().map(member).join(",")}}`;
  }
  const escaped = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, escaped);
}

/** The end of the last HMAC's second. */
let secondOver = 0;

/** Returns `SIG:<timestamp>:<digest>`, an HMAC over the canonical message. */
function signed(token, message) {
  const timestamp = Math.floor(Date.now() / 1000);
  secondOver = (timestamp + 1) * 1000;
  const key = Buffer.from(token.slice(3), "hex"); // after "AT_"
  const digest = createHmac("sha256", key).update(canonical({ ...message, timestamp })).digest("hex");
  return `SIG:${timestamp}:${digest}`;
}

/** Identical requests in the same second count as one payment. A later process cannot know about this one, so
 *  this process does not exit before the second has ended. */
async function outlastSecond() {
  while (Date.now() < secondOver) {
    await new Promise((wake) => setTimeout(wake, secondOver - Date.now()));
  }
}

/** Returns the request body: the message with its proof, an HMAC or the token itself. */
function proven(message) {
  const token = variable("WALLET_AGENT_TOKEN");
  if ((process.env.WALLET_AUTH_MODE ?? "hmac") !== "bearer") {
    return { ...message, signature: signed(token, message) };
  }
  // Every run is a separate purchase, even of the same resource.
  return { ...message, signature: token, idempotency_key: randomUUID() };
}

/** Returns the offer of a 402 answer as the wallet expects it: version 2 in a header, version 1 in the body. */
function offerIn(headers, text) {
  const header = headers.get("PAYMENT-REQUIRED");
  if (header) return { payment_required: header };
  const body = parsed(text);
  return isObject(body) && body.x402Version === 1 ? { x402_data: body } : null;
}

/** Returns the wallet's final answer, after the operator's decision if one is needed. */
async function askWallet(wallet, resource, offer, options) {
  const field = process.env.WALLET_AGENT_FIELD ?? "agent_id";
  const message = { [field]: variable("WALLET_AGENT_ID"), request_url: resource, ...offer };
  let { code, text } = await call(`${wallet}/sign`, {}, proven(message));
  let answer = parsed(text);
  const giveUp = performance.now() + options.timeout * 1000;
  while (code === 202 && isObject(answer) && answer.request_id) {
    if (performance.now() >= giveUp) {
      return { code, answer: { ...answer, status: "timeout", reason: "nobody approved in time" } };
    }
    await new Promise((wake) => setTimeout(wake, options.poll * 1000));
    try {
      ({ code, text } = await call(`${wallet}/sign/status/${answer.request_id}`));
    } catch {
      continue; // the wallet is restarting; it keeps the request
    }
    // Later answers may omit the id.
    const later = parsed(text);
    answer = isObject(later) ? { request_id: answer.request_id, ...later } : later;
  }
  return { code, answer: isObject(answer) ? answer : { error: answer } };
}

function result(outcome, http, wallet = {}, body = null, receipt = null) {
  return {
    outcome,
    http,
    request_id: wallet.request_id ?? null,
    transaction_id: wallet.transaction_id ?? null,
    code: wallet.code ?? null,
    reason: wallet.reason ?? wallet.error ?? null,
    body,
    payment_response: receipt,
  };
}

const isSuccess = (code) => code >= 200 && code < 300;

/** Fetches the resource and pays for it if the server requires payment. */
async function run(resource, options) {
  const first = await call(resource);
  if (first.code !== 402) {
    const outcome = isSuccess(first.code) ? "free" : "unavailable";
    return result(outcome, first.code, {}, parsed(first.text));
  }
  const offer = offerIn(first.headers, first.text);
  if (offer === null) {
    return result("unavailable", first.code, { reason: "the 402 answer is no x402 offer" });
  }
  const wallet = variable("WALLET_URL").replace(/\/+$/, "");
  const { code, answer } = await askWallet(wallet, resource, offer, options);
  if (["rejected", "timeout"].includes(answer.status)) return result(answer.status, code, answer);
  if (answer.status !== "success" || !answer.header_value) return result("refused", code, answer);
  const paid = await call(resource, { [answer.header_name]: answer.header_value });
  const receipt = paid.headers.get("PAYMENT-RESPONSE") ?? paid.headers.get("X-PAYMENT-RESPONSE");
  const outcome = isSuccess(paid.code) ? "paid" : "unpaid";
  return result(outcome, paid.code, answer, parsed(paid.text), unpacked(receipt));
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { poll: { type: "string", default: "1" }, timeout: { type: "string", default: "900" } },
});
if (positionals.length !== 1) {
  console.error("usage: agent.mjs [--poll SECONDS] [--timeout SECONDS] <resource url>");
  process.exit(2);
}
let told;
try {
  const options = { poll: Number(values.poll), timeout: Number(values.timeout) };
  told = await run(positionals[0], options);
} catch (error) {
  told = result("error", null, { reason: error.cause?.message ?? error.message });
}
await outlastSecond();
console.log(JSON.stringify(told));
process.exitCode = told.outcome === "paid" ? PAID : NOT_PAID;

#!/usr/bin/env node
// Pays for a URL as an HMAC agent, in both versions of x402 (Node 18 or newer, no packages).
//
//   eval "$(bursar agent instructions NAME)"        # four variables; the wallet must be open
//   node examples/agent.mjs https://shop.example/report
//
// The answer goes to standard output, everything else to standard error. Exit code 0: the answer has status 2xx.
// 1: it has another status, or nothing was paid. 2: wrong usage.

import { createHmac } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const DECISION_MS = 16 * 60 * 1000; // the wallet itself gives up after 15 minutes

class Failure extends Error {
  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

const say = (text) => console.error(`agent.mjs: ${text}`);
const why = (error) => error.cause?.code ?? error.cause?.message ?? error.message;

/** Any status is an answer; rejects if there is no whole answer. */
async function call(url, options = {}, timeoutMs = 120_000) {
  // A payment is for one merchant only, so redirects are not followed.
  const signal = AbortSignal.timeout(timeoutMs);
  const answer = await fetch(url, { ...options, redirect: "manual", signal });
  const body = Buffer.from(await answer.arrayBuffer());
  return { status: answer.status, headers: answer.headers, body };
}

/** Returns the JSON object in the text, or an empty one. */
function parsed(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}

/** Sorted keys, no spaces, ASCII only: the text that the wallet computes its HMAC from. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const members = Object.keys(value).sort().map((key) => `${canonical(key)}:${canonical(value[key])}`);
    return `{${members.join(",")}}`;
  }
  const escaped = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, escaped);
}

class Wallet {
  #key;
  /** The end of the second of the last HMAC, in Unix milliseconds. */
  secondOver = 0;

  constructor(env) {
    const names = ["WALLET_URL", "WALLET_AGENT_ID", "WALLET_AGENT_TOKEN", "WALLET_AUTH_MODE"];
    const missing = names.filter((name) => !env[name]);
    if (missing.length) throw new Failure(`${missing} not set: see bursar agent instructions`, 2);
    if (env.WALLET_AUTH_MODE !== "hmac" || !/^AT_[0-9a-f]{64}$/.test(env.WALLET_AGENT_TOKEN)) {
      throw new Failure("this needs WALLET_AUTH_MODE=hmac and a token of AT_ and 64 hex digits", 2);
    }
    this.url = env.WALLET_URL.replace(/\/+$/, "");
    this.agentId = env.WALLET_AGENT_ID;
    this.#key = Buffer.from(env.WALLET_AGENT_TOKEN.slice(3), "hex");
  }

  /** Returns the members that identify the agent. `content` is what the HMAC covers besides them. */
  proof(content) {
    const timestamp = Math.floor(Date.now() / 1000);
    this.secondOver = (timestamp + 1) * 1000;
    const message = canonical({ ...content, agent_id: this.agentId, timestamp });
    const digest = createHmac("sha256", this.#key).update(message).digest("hex");
    return { agent_id: this.agentId, signature: `SIG:${timestamp}:${digest}` };
  }

  /** Returns status and answer; status 0 if there is no whole answer. */
  async ask(path, body) {
    const headers = { "Content-Type": "application/json" };
    const post = body && { method: "POST", headers, body: JSON.stringify(body) };
    try {
      const answer = await call(this.url + path, post, 30_000);
      return [answer.status, parsed(answer.body)];
    } catch (error) {
      return [0, { code: "NO_ANSWER", error: why(error) }];
    }
  }

  /** Returns the signed payment, after the operator's decision if there is one to make. */
  async sign(url, offer) {
    const content = { request_url: url, ...offer };
    // In hmac mode the signature is the idempotency key: the same body again is the same payment.
    const body = { ...content, ...this.proof(content) };
    let [status, answer] = await this.ask("/sign", body);
    for (let tries = 0; tries < 3 && [0, 503].includes(status); tries += 1) {
      await sleep(1000 * (answer.retry_after ?? 2));
      [status, answer] = await this.ask("/sign", body);
    }
    if (status === 202) {
      const [request, end] = [answer.request_id, performance.now() + DECISION_MS];
      say(`held: the operator decides about request ${request}`);
      while ([0, 202, 429, 503].includes(status)) {
        if (performance.now() > end) throw new Failure(`no decision about request ${request}`);
        await sleep(1000 * (answer.retry_after ?? 2));
        [status, answer] = await this.ask(`/sign/status/${request}`);
      }
    }
    if (status === 200 && answer.header_value) return answer;
    throw new Failure(`not paid: ${answer.code}: ${answer.error ?? answer.reason ?? answer.message}`);
  }

  async report(transactionId, txHash) {
    const content = { transaction_id: transactionId, event: "settled", tx_hash: txHash };
    // The HMAC covers the three members as one object; the body has them at its top level.
    const body = { ...content, ...this.proof({ callback: content }) };
    const [status, answer] = await this.ask("/callback", body);
    say(status === 200 ? `settled: ${txHash}` : `settled, but the report failed: ${answer.code}`);
  }
}

// Whoever asks a model in JavaScript: OpenAI's own client or fetch alone, with the protocol's own payments.
//
// usage: chat_client.mjs <base URL> <key>
//
// Prints READY, then takes an order on each line:
//   { by: "openai" | "fetch", pays: "@x402/fetch" | "x402-fetch" | null, stream, text, allowed?, tools? }
// `allowed` are the assets beside those that a client knows. With `tools` the model may call a tool: its message goes
// back as the library returned it, with the result. Prints each piece of a stream as it comes, as
// { piece }, and at the end one line with what came of it, { over: true, sent, ... }: how many requests went out.

import "./local.mjs";
import { createInterface } from "node:readline";
import { registerExactEvmScheme } from "@x402/evm/exact/client";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import OpenAI from "openai";
import { ChatCompletionStream } from "openai/lib/ChatCompletionStream";
import { privateKeyToAccount } from "viem/accounts";
import { decodeXPaymentResponse, wrapFetchWithPayment as wrapFetchWithPaymentV1 } from "x402-fetch";

const [base, key] = process.argv.slice(2);
const signer = privateKeyToAccount(key);
const say = (told) => console.log(JSON.stringify(told));
let sent = 0;

const counted = (input, init) => {
  sent += 1;
  return fetch(input, init);
};

const WAYS = {
  "@x402/fetch": (allowed) => {
    const client = new x402Client();
    registerExactEvmScheme(client, { signer });
    if (allowed) client.setSpendControls({ allowedAssets: allowed });
    return wrapFetchWithPayment(counted, client);
  },
  "x402-fetch": () => wrapFetchWithPaymentV1(counted, signer),
  null: () => counted,
};

function receipt(headers) {
  const v1 = headers?.get("X-PAYMENT-RESPONSE");
  const v2 = headers?.get("PAYMENT-RESPONSE");
  return v1 ? decodeXPaymentResponse(v1) : v2 ? decodePaymentResponseHeader(v2) : null;
}

const question = ({ text, stream }) => ({
  model: "toy",
  messages: [{ role: "user", content: text }],
  max_tokens: 100,
  stream,
});

const CLOCK = { type: "function", function: { name: "clock", parameters: { type: "object" } } };

// Asks with a tool, and again with the model's message and the tool's result.
async function withTools(order, chats) {
  const asked = { ...question(order), tools: [CLOCK] };
  const create = async () => {
    const { data, response } = await chats.create(asked).withResponse();
    const message = order.stream
      ? await ChatCompletionStream.fromReadableStream(data.toReadableStream()).finalMessage()
      : data.choices[0].message;
    return { message, price: response.headers.get("x-price-usd"), receipt: receipt(response.headers) };
  };
  const first = await create();
  const results = first.message.tool_calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: "noon" }));
  asked.messages.push(first.message, ...results);
  const { message, ...known } = await create();
  return { first, content: message.content, ...known };
}

async function byOpenai(order, send) {
  const client = new OpenAI({ baseURL: base, apiKey: "unused", fetch: send });
  const models = await client.models.list();
  if (order.tools) return withTools(order, client.chat.completions);
  const { data, response } = await client.chat.completions.create(question(order)).withResponse();
  const known = { models: models.data.map((model) => model.id), receipt: receipt(response.headers) };
  if (!order.stream) return { ...known, content: data.choices[0].message.content };
  for await (const chunk of data) say({ piece: chunk.choices[0].delta.content ?? null });
  return known;
}

async function byFetch(order, send) {
  const response = await send(`${base}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(question(order)),
  });
  const known = { status: response.status, receipt: receipt(response.headers) };
  if (!order.stream) return { ...known, body: await response.json() };
  for await (const bytes of response.body) say({ piece: new TextDecoder().decode(bytes) });
  return known;
}

function failure(error) {
  const { status, code, message } = error;
  const classes = [];
  for (let kind = error.constructor; kind?.name; kind = Object.getPrototypeOf(kind)) classes.push(kind.name);
  return { error: classes, status, code, message, receipt: receipt(error.headers) };
}

console.log("READY");
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  sent = 0;
  const ask = order.by === "openai" ? byOpenai : byFetch;
  const came = await ask(order, WAYS[order.pays](order.allowed)).catch(failure);
  say({ over: true, sent, ...came });
}

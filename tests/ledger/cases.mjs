// Runs the recorded cases again: Ledger's own host library against a device behind the socket of the emulator.
// usage: node cases.mjs RECORDINGS COMMANDS CONTROL     (the addresses as HOST:PORT)
import { readFileSync } from "node:fs";
import { createConnection } from "node:net";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const Transport = require("@ledgerhq/hw-transport").default;
const Eth = require("@ledgerhq/hw-app-eth").default;

const [recordings, commands, control] = process.argv.slice(2);
const { cases } = JSON.parse(readFileSync(recordings, "utf8"));
const connect = (address) => {
  const [host, port] = address.split(":");
  return createConnection(Number(port), host);
};

// An answer is the length of its data, the data, and the status word.
class SocketTransport extends Transport {
  log = [];
  #socket = connect(commands);
  #bytes = Buffer.alloc(0);
  #wake = () => {};
  constructor() {
    super();
    this.#socket.on("data", (bytes) => {
      this.#bytes = Buffer.concat([this.#bytes, bytes]);
      this.#wake();
    });
  }
  async #read(length) {
    while (this.#bytes.length < length) await new Promise((wake) => (this.#wake = wake));
    const read = this.#bytes.subarray(0, length);
    this.#bytes = this.#bytes.subarray(length);
    return read;
  }
  async exchange(apdu) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(apdu.length);
    this.#socket.write(Buffer.concat([length, apdu]));
    const answer = await this.#read((await this.#read(4)).readUInt32BE() + 2);
    this.log.push(`=> ${apdu.toString("hex")}`, `<= ${answer.toString("hex")}`);
    return answer;
  }
  setScrambleKey() {}
}

const orders = connect(control);
const lines = createInterface({ input: orders })[Symbol.asyncIterator]();
async function order(text) {
  orders.write(`${text}\n`);
  const { value } = await lines.next();
  if (value !== "ok") throw new Error(`${text}: ${value}`);
}

const transport = new SocketTransport();
const offline = { calServiceURL: null, cryptoassetsBaseURL: null, nftExplorerBaseURL: null, pluginBaseURL: null };
const eth = new Eth(transport, "w0w", offline);
const PATH = "44'/60'/0'/0/0";
const payment = cases.find(({ message }) => message).message;

async function run({ name, path, unsigned }) {
  if (name === "get app name") return (await transport.send(0xb0, 0x01, 0, 0)).toString("hex");
  if (name.startsWith("configuration")) return eth.getAppConfiguration();
  if (name === "address root m") return (await transport.send(0xe0, 0x02, 0, 0, Buffer.from([0]))).toString("hex");
  if (name === "address 44 outside") return eth.getAddress("0'/1/2");
  if (name.startsWith("address")) return eth.getAddress(path.slice(2));
  if (name.startsWith("712 hashed")) return eth.signEIP712HashedMessage(PATH, "11".repeat(32), "22".repeat(32));
  if (name.startsWith("712 full")) return eth.signEIP712Message(PATH, payment);
  if (name === "personal message") return eth.signPersonalMessage(PATH, Buffer.from('{"a":1}').toString("hex"));
  return eth.signTransaction(PATH, unsigned, null);
}

for (const one of cases) {
  if (one.name === "configuration, blind signing on") await order("blind on");
  await order(one.name.includes("rejected") ? "auto refuse" : "auto press");
  transport.log = [];
  let result;
  try {
    result = await run(one);
  } catch (error) {
    if (error.statusCode === undefined) throw error;
    result = { sw: error.statusCode.toString(16) };
  }
  console.log(JSON.stringify({ name: one.name, result, apdus: transport.log }));
}
process.exit(0);

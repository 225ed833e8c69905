// Compiles one Solidity file with the npm `solc` of this folder and writes its creation bytecode.
// usage: node compile.mjs <source.sol> <ContractName> <out.json> <evmVersion>   (cwd: a folder with node_modules)
//
// The metadata appendix is left out: the bytecode depends on the code alone, never on paths or comments.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";

const [sourcePath, contract, outPath, evmVersion] = process.argv.slice(2);
const solc = createRequire(join(process.cwd(), "package.json"))("solc");
const source = readFileSync(sourcePath);
const file = basename(sourcePath);

// A source may import others of its folder.
const imported = new Map();
function read(name) {
  imported.set(name, readFileSync(join(dirname(sourcePath), name)));
  return { contents: imported.get(name).toString("utf8") };
}

const output = JSON.parse(
  solc.compile(
    JSON.stringify({
      language: "Solidity",
      sources: { [file]: { content: source.toString("utf8") } },
      settings: {
        optimizer: { enabled: true, runs: 200 },
        evmVersion,
        metadata: { appendCBOR: false, bytecodeHash: "none" },
        outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } },
      },
    }),
    { import: read },
  ),
);
const messages = output.errors ?? [];
for (const message of messages) console.error(message.formattedMessage);
if (messages.length > 0) process.exit(1);

// The interface as text, so that a test can compare it with that of the real contract.
function typeOf({ type, components, indexed }) {
  const name = type.replace("tuple", () => `(${components.map(typeOf)})`);
  return indexed ? `${name} indexed` : name;
}
function describe({ type, name, inputs, outputs, stateMutability }) {
  const head = `${type} ${name}(${inputs.map(typeOf)})`;
  return type === "function" ? `${head} ${stateMutability} (${outputs.map(typeOf)})` : head;
}
const { abi, evm } = output.contracts[file][contract];
const named = abi.filter(({ type }) => ["function", "event", "error"].includes(type));

// Of the source and, in the order of their names, of what it imports.
const hash = createHash("sha256").update(source);
for (const name of [...imported.keys()].sort()) hash.update(imported.get(name));

const compiled = {
  compiler: `npm solc ${solc.version()}`,
  settings: `optimizer 200 runs, evmVersion ${evmVersion}, no metadata`,
  source_sha256: hash.digest("hex"),
  interface: named.map(describe).sort(),
  bytecode: `0x${evm.bytecode.object}`,
};
writeFileSync(outPath, `${JSON.stringify(compiled, null, 2)}\n`);

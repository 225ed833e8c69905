// Compiles Morpho Blue from the sources in the npm package: it ships no bytecode. The compiler and its settings
// are those of the deployed contract.
// usage: node morpho.mjs <out.json>     (cwd: a folder with node_modules)
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [outPath] = process.argv.slice(2);
const solc = createRequire(join(process.cwd(), "package.json"))("solc");
const read = (path) => readFileSync(join(process.cwd(), "node_modules", path), "utf8");
const wanted = {
  Morpho: "@morpho-org/morpho-blue/src/Morpho.sol",
};

const input = {
  language: "Solidity",
  sources: Object.fromEntries(Object.values(wanted).map((path) => [path, { content: read(path) }])),
  settings: {
    optimizer: { enabled: true, runs: 999999 },
    viaIR: true,
    evmVersion: "paris",
    outputSelection: { "*": { "*": ["evm.bytecode.object"] } },
  },
};
const output = JSON.parse(
  solc.compile(JSON.stringify(input), { import: (path) => ({ contents: read(path) }) }),
);
const errors = (output.errors ?? []).filter((message) => message.severity === "error");
for (const message of errors) console.error(message.formattedMessage);
if (errors.length > 0) process.exit(1);

const code = (name) => `0x${output.contracts[wanted[name]][name].evm.bytecode.object}`;
const compiled = Object.fromEntries(Object.keys(wanted).map((name) => [name, code(name)]));
writeFileSync(outPath, JSON.stringify(compiled));

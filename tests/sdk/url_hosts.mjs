// Which host Node takes from a URL: its WHATWG parser, and the older one, which some libraries still use.
//
// usage: node url_hosts.mjs
//
// Prints READY, then for each line, a list of URLs, a line with a list for each URL: the host of each parser, or null where
// it refuses the URL.
import { createInterface } from "node:readline";
import legacy from "node:url";

process.removeAllListeners("warning");
const parsers = [(url) => new URL(url).hostname, (url) => legacy.parse(url).hostname];
function host(parser, url) {
  try {
    return parser(url) || null;
  } catch {
    return null;
  }
}

console.log("READY");
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(JSON.parse(line).map((url) => parsers.map((parser) => host(parser, url)))));
}

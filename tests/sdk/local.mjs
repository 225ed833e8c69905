// The packages know public endpoints. None of them is to be asked by a test.
const onThisMachine = fetch;
globalThis.fetch = (input, init) => {
  const { hostname } = new URL(input.url ?? input);
  if (hostname !== "127.0.0.1") throw new Error(`${hostname} is not this machine`);
  return onThisMachine(input, init);
};

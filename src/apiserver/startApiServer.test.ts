import { createServer } from "node:net";
import { expect, test } from "vitest";
import { partly } from "../../testing/partly.ts";
import { systemClock } from "../adapters/systemClock.ts";
import { systemRandom } from "../adapters/systemRandom.ts";
import { UserError } from "../model/userError.ts";
import type { Store } from "../ports/store.ts";
import { startApiServer } from "./startApiServer.ts";

/** Listens and lets go again; rejects when somebody else has the port. */
function listenOnce(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => {
      const { port: got } = server.address() as { port: number };
      server.close(() => resolve(got));
    });
  });
}

const ports = { clock: systemClock(), random: systemRandom() };

test("a start that fails lets its port go, so that the process can end", async () => {
  const port = await listenOnce(0);
  const locked = new UserError("store-locked", "the data folder is in use", "stop that process");
  // Nothing else of the store is asked for.
  const store = partly<Store>({ open: () => Promise.reject(locked) });
  await expect(startApiServer({ ...ports, store, listen: { port } })).rejects.toBe(locked);
  expect(await listenOnce(port)).toBe(port);
});

test("a port in use and an address of another machine are errors with a cure", async () => {
  const server = await startApiServer(ports);
  const port = Number(new URL(server.url).port);
  await expect(startApiServer({ ...ports, listen: { port } })).rejects.toMatchObject({ code: "port-in-use" });
  // 192.0.2.0/24 is set aside for documentation: no machine has it.
  const elsewhere = startApiServer({ ...ports, listen: { host: "192.0.2.1" } });
  await expect(elsewhere).rejects.toMatchObject({ code: "host-unusable" });
  await server.stop();
});

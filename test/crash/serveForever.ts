// The child of the whole-server crash test: the server on a data folder, over plain HTTP, until it is killed.
// Snapshots come early and often, so that kills hit them too.
import { FileStore } from "../../src/adapters/disk/fileStore.ts";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { startApiServer } from "../../src/apiserver/startApiServer.ts";

const [directory = "", tokenFile = ""] = process.argv.slice(2);
const clock = systemClock();
const server = await startApiServer({
  clock,
  random: systemRandom(),
  store: new FileStore({ directory, clock, snapshotLogBytesMin: 400_000 }),
  tls: false,
  tokenFile,
});
const { url, opened } = server;
process.stdout.write(`${JSON.stringify({ url, ...opened })}\n`);

/**
 * Answers the health check by which envtest waits for etcd. Muster's API server keeps its objects itself, so there is
 * no etcd: nothing else is served.
 */
import { createServer } from "node:http";
import { parseFlags } from "./flags.mjs";

const words = process.argv.slice(2);
if (words.includes("--help") || words.includes("-h")) {
  process.stdout.write("etcd of Muster, for envtest\n\n      --listen-client-urls string\n");
  process.exit(0);
}
const [urls = "http://127.0.0.1:2379"] = parseFlags(words).get("listen-client-urls") ?? [];
const server = createServer((request, response) => {
  const isHealth = request.url === "/health" || request.url === "/readyz" || request.url === "/livez";
  response.writeHead(isHealth ? 200 : 404, { "Content-Type": "application/json" });
  response.end(
    isHealth ? '{"health":"true","reason":""}' : '{"error":"this is no etcd: Muster keeps its objects itself"}',
  );
});
server.on("error", (error) => {
  process.stderr.write(`etcd: ${error.message}\n`);
  process.exit(1);
});
const { hostname, port } = new URL(urls.split(",")[0]);
server.listen(Number(port), hostname.replace(/^\[|\]$/g, ""));
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => process.exit(0));

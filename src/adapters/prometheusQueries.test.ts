import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { prometheusQueries } from "./prometheusQueries.ts";

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

async function serve(status: number, answer: string): Promise<{ url: string; asked: URLSearchParams[] }> {
  const asked: URLSearchParams[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      asked.push(new URLSearchParams(body));
      response.writeHead(status).end(answer);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stops.push(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, asked };
}

const span = { fromMs: 1_000_000, toMs: 2_000_000, stepMs: 60_000 };

test("range queries use seconds and return milliseconds", async () => {
  const result = [
    {
      metric: { queue_name: "a" },
      values: [
        [1000, "4"],
        [1060.5, "NaN"],
      ],
    },
  ];
  const { url, asked } = await serve(
    200,
    JSON.stringify({ status: "success", data: { resultType: "matrix", result } }),
  );
  expect(await prometheusQueries(url).range("up", span)).toEqual({
    ok: true,
    value: [{ labels: { queue_name: "a" }, samples: [{ ms: 1_000_000, value: 4 }] }],
  });
  expect(Object.fromEntries(asked[0] ?? [])).toEqual({ query: "up", start: "1000", end: "2000", step: "60" });
});

test.each([
  ["an error", 422, '{"status":"error","error":"bad query"}', "answered 422"],
  ["text", 200, "<html>", "not JSON"],
  ["a result other than a matrix", 200, '{"status":"success","data":{"resultType":"scalar"}}', "no matrix"],
])("%s is a refusal that says so", async (_, status, answer, message) => {
  const { url } = await serve(status, answer);
  const outcome = await prometheusQueries(url).range("up", span);
  expect(outcome).toMatchObject({ ok: false, reason: "Unavailable" });
  expect(outcome.ok ? "" : outcome.message).toContain(message);
});

test("a server that is not there is a refusal", async () => {
  expect(await prometheusQueries("http://127.0.0.1:1").range("up", span)).toMatchObject({
    ok: false,
    reason: "Unavailable",
  });
});

/** Pods with more containers than any machine runs: they must not stop the node that plays them, nor the server. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { BoundedUp } from "./boundedUp.ts";

const up = new BoundedUp();
beforeAll(() => up.start());
afterAll(() => up.end());

const pods = "/api/v1/namespaces/default/pods";

function podWith(name: string, count: number): object {
  const containers = Array.from({ length: count }, (_, at) => ({ name: `c${at}`, image: "i" }));
  // Without the token volume, which would be mounted into each of them and make the pod too large to store.
  return { metadata: { name }, spec: { automountServiceAccountToken: false, containers } };
}

async function runs(name: string): Promise<void> {
  await up.until(async () => (await up.call("GET", `${pods}/${name}`)).body.status?.phase === "Running");
}

async function isGone(name: string): Promise<void> {
  await up.until(async () => (await up.call("GET", `${pods}/${name}`)).code === 404);
}

test("a pod with 20,000 containers is refused: it would be larger than an object may be", async () => {
  const { code, body } = await up.call("POST", pods, podWith("absurd", 20_000));
  expect(code).toBe(413);
  expect(body).toMatchObject({ reason: "RequestEntityTooLarge" });
  await up.stillReady();
});

test("a pod with 2,000 containers runs, and all of them become ready", async () => {
  expect((await up.call("POST", pods, podWith("many", 2000))).code).toBe(201);
  await runs("many");
  await up.until(async () => {
    const { body } = await up.call("GET", `${pods}/many`);
    return body.status.containerStatuses.every(({ ready }: { ready: boolean }) => ready);
  });
});

test("a pod that is stored and whose status is too large to store does no harm, gets an Event, and can be deleted", async () => {
  expect((await up.call("POST", pods, podWith("large", 5000))).code).toBe(201);
  expect((await up.call("POST", pods, podWith("before", 1))).code).toBe(201);
  await runs("before");
  await up.until(async () => {
    const { body } = await up.call(
      "GET",
      "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dlarge",
    );
    return body.items.some(({ reason }: { reason: string }) => reason === "FailedSync");
  });
  await up.stillReady();
});

test("a start on the same folder succeeds, and all of them can be deleted", async () => {
  await up.stop("SIGKILL");
  await up.start();
  await up.stillReady();
  expect((await up.call("POST", pods, podWith("after", 1))).code).toBe(201);
  await runs("after");
  for (const name of ["many", "large"]) expect((await up.call("DELETE", `${pods}/${name}`)).code).toBe(200);
  await isGone("many");
  await isGone("large");
  await up.stillReady();
});

import { PassThrough } from "node:stream";
import {
  AuthorizationV1Api,
  CoreV1Api,
  Exec,
  KubeConfig,
  Log,
  Metrics,
  PortForward,
  VersionApi,
} from "@kubernetes/client-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sampleOf } from "../validObjects.ts";
import { refusalOf, type ServerForClients, serverForClients } from "./serverForClients.ts";

/* What a server without node agents and metrics has to say no to, in a way that clients understand. */

let running: ServerForClients;

beforeAll(async () => {
  running = await serverForClients();
  const core = running.config.makeApiClient(CoreV1Api);
  await core.createNamespacedPod({ namespace: "default", body: sampleOf("pods").object("p") });
});
afterAll(() => running.server.stop());

test("exec into a pod without a node agent fails with an error and does not hang", async () => {
  const exec = new Exec(running.config).exec("default", "p", "c", ["ls"], new PassThrough(), null, null, false);
  await expect(exec).rejects.toMatchObject({
    message: expect.stringMatching(/Unexpected server response: [45]0/) as string,
  });
});

test("port forwarding to a pod without a node agent ends with an error", async () => {
  const forward = new PortForward(running.config).portForward(
    "default",
    "p",
    [80],
    new PassThrough(),
    null,
    new PassThrough(),
  );
  await expect(forward).rejects.toMatchObject({
    message: expect.stringMatching(/Unexpected server response: [45]0/) as string,
  });
});

test("logs of a pod without a node agent are refused, and those of an unknown pod are not found", async () => {
  const log = new Log(running.config);
  const of = (name: string) => log.log("default", name, "c", new PassThrough());
  await expect(of("p")).rejects.toMatchObject({
    code: expect.toSatisfy((code: number) => code >= 400 && code <= 501) as number,
  });
  await expect(of("nobody")).rejects.toMatchObject({ code: 404 });
});

test("metrics are absent as they are in a cluster without a metrics server", async () => {
  await expect(new Metrics(running.config).getNodeMetrics()).rejects.toMatchObject({ code: 404 });
  await expect(new Metrics(running.config).getPodMetrics("default")).rejects.toMatchObject({ code: 404 });
});

test("a user without rights gets the reason of the refusal", async () => {
  const config = new KubeConfig();
  config.loadFromString(running.server.kubeconfigFor("nobody", ["guests"]));
  const refused = await refusalOf(config.makeApiClient(CoreV1Api).listNamespacedPod({ namespace: "default" }));
  expect(refused).toMatchObject({ code: 403, reason: "Forbidden" });
  expect(refused.message).toBe(
    'pods is forbidden: User "nobody" cannot list resource "pods" in API group "" in the namespace "default"',
  );
  const reviews = config.makeApiClient(AuthorizationV1Api);
  const review = await reviews.createSelfSubjectAccessReview({
    body: { spec: { resourceAttributes: { verb: "list", resource: "pods", namespace: "default" } } },
  });
  expect(review.status?.allowed).toBe(false);
});

test("a client sends nothing to an untrusted server", async () => {
  const other = await serverForClients();
  const config = new KubeConfig();
  config.loadFromString(running.server.kubeconfig.replace(running.server.url, other.server.url));
  await expect(config.makeApiClient(VersionApi).getCode()).rejects.toThrow();
  await other.server.stop();
});

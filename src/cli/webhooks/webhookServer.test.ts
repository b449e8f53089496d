import { Agent, request } from "node:https";
import { expect, test } from "vitest";
import { KeptLog } from "../../../testing/control/keptLog.ts";
import { systemRandom } from "../../adapters/systemRandom.ts";
import { issueCertificate } from "../../apiserver/auth/certificate.ts";
import { pathOf } from "../../control/webhooks/webhookConfigurations.ts";
import type { AdmissionHook } from "../../model/objects/admissionHook.ts";
import { builtin } from "../../model/resources.generated.ts";
import { startWebhookServer } from "./webhookServer.ts";

/** Of client-go, with which kube-apiserver calls webhooks. */
const idleOfApiServersSeconds = 90;

test("an idle connection is kept for longer than an API server keeps it: the one that sends also closes", async () => {
  const nowMs = Date.now();
  const keys = issueCertificate({
    ...{ commonName: "webhooks", use: "authority" as const, random: systemRandom() },
    ...{ notBeforeMs: nowMs - 60_000, notAfterMs: nowMs + 3_600_000 },
  });
  const lookup = { get: () => undefined, list: () => [] };
  const hook: AdmissionHook = {
    ...{ name: "pods.validate.example.com", type: "validating", resource: builtin.Pod, operations: ["CREATE"] },
    review: () => ({ allowed: true }),
  };
  const review = {
    ...{ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview" },
    request: {
      uid: "1",
      operation: "CREATE",
      kind: { kind: "Pod" },
      resource: {},
      userInfo: {},
      object: { metadata: {} },
    },
  };
  const server = await startWebhookServer(
    { hooks: [hook], lookup, log: new KeptLog() },
    { host: "127.0.0.1", port: 0 },
    keys,
  );
  const agent = new Agent({ keepAlive: true, rejectUnauthorized: false });
  try {
    const header = await new Promise((resolve, reject) => {
      const asked = request(
        { host: "127.0.0.1", port: server.port, path: pathOf(hook), method: "POST", agent },
        (answer) => {
          answer.resume();
          resolve(answer.headers["keep-alive"]);
        },
      );
      asked.on("error", reject);
      asked.end(JSON.stringify(review));
    });
    const [, seconds] = /timeout=(\d+)/.exec(String(header)) ?? [];
    expect(Number(seconds)).toBeGreaterThan(idleOfApiServersSeconds);
  } finally {
    agent.destroy();
    await server.stop();
  }
});

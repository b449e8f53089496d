/** Bootstrap tokens: what authenticates, what the user of one may do, and that expired ones are deleted. */
import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSigningRequest } from "../../testing/apiserver/createSigningRequest.ts";
import { ManualClock } from "../../testing/apiserver/manualClock.ts";
import { type ServedApi, serveApi } from "./servedApi.ts";

const secrets = "/api/v1/namespaces/kube-system/secrets";
const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const hourMs = 3_600_000;

let served: ServedApi;
const clock = new ManualClock(Date.parse("2026-01-01T00:00:00Z"));
beforeAll(async () => {
  served = await serveApi({ clock });
});
afterAll(() => served.stop());

/** Stores a token and returns it. */
async function token(id: string, changes: Record<string, string | undefined> = {}, type?: string): Promise<string> {
  const secret = "0123456789abcdef";
  const stringData = {
    "token-id": id,
    "token-secret": secret,
    "usage-bootstrap-authentication": "true",
    expiration: new Date(clock.nowMs() + hourMs).toISOString(),
    ...changes,
  };
  const metadata = { name: `bootstrap-token-${id}` };
  const answer = await served.api.post(secrets, {
    metadata,
    type: type ?? "bootstrap.kubernetes.io/token",
    stringData,
  });
  if (answer.code !== 201) throw new Error(answer.text);
  return `${id}.${secret}`;
}

/** The user of a token, or the status code of the refusal. */
async function whoIs(bearer: string): Promise<unknown> {
  const body = JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" });
  const { code, json } = await call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", bearer, body);
  return code === 201 ? (json["status"] as { userInfo: unknown }).userInfo : code;
}

function call(
  method: string,
  path: string,
  bearer: string,
  body?: string,
): Promise<{ code: number; json: Record<string, unknown> }> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${bearer}`, "content-type": "application/json" };
    const sent = request(`${served.server.url}${path}`, { method, headers }, async (response) => {
      let text = "";
      for await (const part of response) text += part;
      resolve({ code: response.statusCode ?? 0, json: JSON.parse(text) as Record<string, unknown> });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

describe("a bootstrap token", () => {
  test("authenticates, with the groups of its Secret", async () => {
    const bearer = await token("aaaaaa", { "auth-extra-groups": "system:bootstrappers:racks:a1" });
    expect(await whoIs(bearer)).toMatchObject({
      username: "system:bootstrap:aaaaaa",
      groups: ["system:bootstrappers", "system:bootstrappers:racks:a1", "system:authenticated"],
    });
    expect(await whoIs("aaaaaa.0123456789abcdeX")).toBe(401);
    expect(await whoIs("aaaaaa.0123456789abcdee")).toBe(401);
  });

  test.each([
    ["bbbbb1", { expiration: "2025-12-31T23:59:59Z" }, undefined],
    ["bbbbb2", { "usage-bootstrap-authentication": "false" }, undefined],
    ["bbbbb3", { "token-id": "other1" }, undefined],
    ["bbbbb4", {}, "Opaque"],
  ])("%s does not authenticate: %j %s", async (id, changes, type) => {
    // The API refuses to store some of these.
    const bearer = await token(id, changes, type).catch(() => undefined);
    if (bearer !== undefined) expect(await whoIs(bearer)).toBe(401);
  });

  test("gets a kubelet its certificate, and may read nothing else", async () => {
    const bearer = await token("cccccc");
    const subject = { commonName: "system:node:n7", organizations: ["system:nodes"] };
    const spec = {
      request: createSigningRequest(subject).request,
      signerName: "kubernetes.io/kube-apiserver-client-kubelet",
      usages: ["digital signature", "client auth"],
    };
    const name = "node-csr-ecOCb2xHY8cVg_";
    const made = await call("POST", requests, bearer, JSON.stringify({ metadata: { name }, spec }));
    expect(made.code).toBe(201);
    await clock.advance(1000);
    const { status } = (await call("GET", `${requests}/${name}`, bearer)).json as { status: { certificate?: string } };
    expect(status.certificate).toBeDefined();
    expect((await call("GET", secrets, bearer)).code).toBe(403);
    expect((await call("GET", "/api/v1/nodes", bearer)).code).toBe(403);
  });

  test("is deleted when it has expired, and not when it was extended", async () => {
    await token("dddddd");
    await token("eeeeee");
    const later = Buffer.from(new Date(clock.nowMs() + 3 * hourMs).toISOString()).toString("base64");
    await served.api.patch(`${secrets}/bootstrap-token-eeeeee`, "merge", { data: { expiration: later } });
    await clock.advance(hourMs + 1000);
    expect((await served.api.get(`${secrets}/bootstrap-token-dddddd`)).code).toBe(404);
    expect((await served.api.get(`${secrets}/bootstrap-token-eeeeee`)).code).toBe(200);
  });
});

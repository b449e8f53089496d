import { createPrivateKey, X509Certificate } from "node:crypto";
import { request as httpsRequest } from "node:https";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSigningRequest, type SigningRequestSubject } from "../../testing/apiserver/createSigningRequest.ts";
import type { Answer, HttpCaller } from "../httpCaller.ts";
import { type ServedApi, serveApi } from "./servedApi.ts";

/** CertificateSigningRequests: approval, signing, and the rights that both require. */
const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const rbac = "/apis/rbac.authorization.k8s.io/v1";
const clientSigner = "kubernetes.io/kube-apiserver-client";
const kubeletSigner = "kubernetes.io/kube-apiserver-client-kubelet";
const nodeSubject = { commonName: "system:node:n1", organizations: ["system:nodes"] };
const approvedByHand = { type: "Approved", status: "True", reason: "Test", message: "" };

let served: ServedApi;
beforeAll(async () => {
  served = await serveApi();
});
afterAll(() => served.stop());

const as = (user: string, ...groups: string[]): { headers: Record<string, string> } => ({
  headers: { "impersonate-user": user, ...(groups[0] === undefined ? {} : { "impersonate-group": groups[0] }) },
});

interface Wanted {
  readonly signerName?: string;
  readonly usages?: readonly string[];
  readonly expirationSeconds?: number;
}

async function submit(
  name: string,
  subject: SigningRequestSubject,
  { signerName = clientSigner, usages = ["client auth", "digital signature"], expirationSeconds }: Wanted = {},
  caller: { headers: Record<string, string> } | undefined = undefined,
): Promise<{ key: string; answer: Answer }> {
  const { request, key } = createSigningRequest(subject);
  const spec = { request, signerName, usages, expirationSeconds };
  return { key, answer: await served.api.call("POST", requests, { metadata: { name }, spec }, caller ?? {}) };
}

async function approve(
  name: string,
  caller: { headers: Record<string, string> } | undefined = undefined,
): Promise<Answer> {
  const { json } = await served.api.get(`${requests}/${name}`);
  const body = { ...json, status: { conditions: [approvedByHand] } };
  const answer = await served.api.call("PUT", `${requests}/${name}/approval`, body, caller ?? {});
  await served.server.controllers.idle();
  return answer;
}

async function statusOf(api: HttpCaller, name: string): Promise<{ certificate?: string; conditions?: unknown[] }> {
  await served.server.controllers.idle();
  return ((await api.get(`${requests}/${name}`)).json["status"] ?? {}) as { certificate?: string };
}

const pemOf = (certificate: string | undefined): string => Buffer.from(certificate ?? "", "base64").toString();

describe("an approved request of the client signer", () => {
  test("gets a certificate of its key and subject", async () => {
    const { key } = await submit("ann", { commonName: "ann", organizations: ["staff"] });
    expect((await approve("ann")).code).toBe(200);
    const certificate = new X509Certificate(pemOf((await statusOf(served.api, "ann")).certificate));
    expect(certificate.subject).toBe("O=staff\nCN=ann");
    expect(certificate.checkIssued(new X509Certificate(served.server.pki.authority))).toBe(true);
    expect(certificate.checkPrivateKey(createPrivateKey(key))).toBe(true);
    expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.2"]);
    expect(certificate.ca).toBe(false);
  });

  test("is valid for as long as it requests, at most a year", async () => {
    await submit("short", { commonName: "short" }, { expirationSeconds: 3600 });
    await submit("long", { commonName: "long" }, { expirationSeconds: 2 * 365 * 24 * 3600 });
    const minutes = async (name: string): Promise<number> => {
      await approve(name);
      const { validFrom, validTo } = new X509Certificate(pemOf((await statusOf(served.api, name)).certificate));
      return (Date.parse(validTo) - Date.parse(validFrom)) / 60_000;
    };
    expect(await minutes("short")).toBe(65);
    expect(await minutes("long")).toBe(365 * 24 * 60);
  });

  test("fails with usages of another kind of certificate", async () => {
    await submit("server-like", { commonName: "x" }, { usages: ["server auth"] });
    await approve("server-like");
    const { certificate, conditions } = await statusOf(served.api, "server-like");
    expect(certificate).toBeUndefined();
    expect(conditions).toMatchObject([
      { type: "Approved" },
      {
        type: "Failed",
        status: "True",
        reason: "SignerValidationFailure",
        message: "invalid usage for client certificate: server auth",
      },
    ]);
  });

  test("cannot be for system:masters", async () => {
    const { answer } = await submit("root", { commonName: "root", organizations: ["system:masters"] });
    expect([answer.code, answer.json.message]).toEqual([
      403,
      'certificatesigningrequests.certificates.k8s.io "root" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed',
    ]);
  });
});

test("a certificate from a request authenticates its user over TLS", async () => {
  const secure = await serveApi({ tls: true });
  try {
    const admin = secure.server.pki.admin;
    const over = (credential: { certificate: string; key: string }, method: string, path: string, body?: object) =>
      new Promise<{ status?: Record<string, unknown>; metadata?: object }>((resolve, reject) => {
        const outgoing = httpsRequest(
          `${secure.server.url}${path}`,
          {
            method,
            ca: secure.server.pki.authority,
            cert: credential.certificate,
            key: credential.key,
            agent: false,
            headers: { "content-type": "application/json" },
          },
          (response) => {
            const parts: Buffer[] = [];
            response.on("data", (part: Buffer) => parts.push(part));
            response.on("end", () => resolve(JSON.parse(Buffer.concat(parts).toString())));
          },
        );
        outgoing.on("error", reject);
        outgoing.end(body === undefined ? undefined : JSON.stringify(body));
      });
    const { request, key } = createSigningRequest({ commonName: "ann", organizations: ["staff"] });
    const spec = { request, signerName: clientSigner, usages: ["client auth"] };
    const made = await over(admin, "POST", requests, { metadata: { name: "ann" }, spec });
    await over(admin, "PUT", `${requests}/ann/approval`, { ...made, status: { conditions: [approvedByHand] } });
    await secure.server.controllers.idle();
    const { status } = await over(admin, "GET", `${requests}/ann`);
    const credential = { certificate: pemOf(String(status?.["certificate"])), key };
    const review = await over(credential, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {});
    expect(review.status).toMatchObject({ userInfo: { username: "ann", groups: ["staff", "system:authenticated"] } });
  } finally {
    await secure.stop();
  }
});

describe("a kubelet's request for its own client certificate", () => {
  const kubelet = as("system:node:n1", "system:nodes");
  const rights = { signerName: kubeletSigner };

  test("stays pending without the right, is approved with it, and is signed", async () => {
    const joiner = as("joiner", "joiners");
    const bind = (role: string): Promise<Answer> =>
      served.api.post(`${rbac}/clusterrolebindings`, {
        metadata: { generateName: "joiners-" },
        roleRef: { kind: "ClusterRole", name: role, apiGroup: "rbac.authorization.k8s.io" },
        subjects: [{ kind: "Group", name: "joiners", apiGroup: "rbac.authorization.k8s.io" }],
      });
    await bind("system:node-bootstrapper");
    expect((await submit("n1-a", nodeSubject, rights, joiner)).answer.code).toBe(201);
    expect(await statusOf(served.api, "n1-a")).toEqual({});
    await bind("system:certificates.k8s.io:certificatesigningrequests:nodeclient");
    await submit("n1-b", nodeSubject, rights, joiner);
    const status = await statusOf(served.api, "n1-b");
    expect(status.conditions).toMatchObject([
      {
        type: "Approved",
        reason: "AutoApproved",
        message: "Auto approving kubelet client certificate after SubjectAccessReview.",
      },
    ]);
    expect(new X509Certificate(pemOf(status.certificate)).subject).toBe("O=system:nodes\nCN=system:node:n1");
  });

  test("of a node that renews its certificate is approved", async () => {
    await submit("n1-c", nodeSubject, rights, kubelet);
    const { conditions } = await statusOf(served.api, "n1-c");
    const message = "Auto approving self kubelet client certificate after SubjectAccessReview.";
    expect(conditions).toMatchObject([{ type: "Approved", reason: "AutoApproved", message }]);
  });

  test("is not approved for another node", async () => {
    await submit("n2", { ...nodeSubject, commonName: "system:node:n2" }, rights, kubelet);
    expect(await statusOf(served.api, "n2")).toEqual({});
  });
});

describe("approval", () => {
  const clerk = as("clerk");

  test("requires the verb approve on the signer", async () => {
    await served.api.post(`${rbac}/clusterroles`, {
      metadata: { name: "clerk" },
      rules: [
        { verbs: ["update"], apiGroups: ["certificates.k8s.io"], resources: ["certificatesigningrequests/approval"] },
        {
          verbs: ["approve"],
          apiGroups: ["certificates.k8s.io"],
          resources: ["signers"],
          resourceNames: ["example.com/*"],
        },
      ],
    });
    await served.api.post(`${rbac}/clusterrolebindings`, {
      metadata: { name: "clerk" },
      roleRef: { kind: "ClusterRole", name: "clerk", apiGroup: "rbac.authorization.k8s.io" },
      subjects: [{ kind: "User", name: "clerk", apiGroup: "rbac.authorization.k8s.io" }],
    });
    await submit("theirs", { commonName: "x" });
    await submit("ours", { commonName: "x" }, { signerName: "example.com/mine" });
    const refused = await approve("theirs", clerk);
    expect([refused.code, refused.json.message]).toEqual([
      403,
      'certificatesigningrequests.certificates.k8s.io "theirs" is forbidden: user not permitted to approve requests with signerName "kubernetes.io/kube-apiserver-client"',
    ]);
    expect((await approve("ours", clerk)).code).toBe(200);
    const { certificate, conditions } = await statusOf(served.api, "ours");
    expect(certificate).toBeUndefined();
    expect(conditions).toMatchObject([{ type: "Approved", lastUpdateTime: expect.any(String) }]);
  });

  test("cannot be taken back, nor be together with a denial", async () => {
    const { json } = await served.api.get(`${requests}/ours`);
    const put = (conditions: object[]): Promise<Answer> =>
      served.api.call("PUT", `${requests}/ours/approval`, { ...json, status: { conditions } });
    const removed = await put([]);
    expect([removed.code, removed.json.message]).toEqual([
      422,
      expect.stringContaining('updates may not remove a condition of type "Approved"'),
    ]);
    const both = await put([approvedByHand, { ...approvedByHand, type: "Denied" }]);
    expect([both.code, both.json.message]).toEqual([
      422,
      expect.stringContaining("Approved and Denied conditions are mutually exclusive"),
    ]);
  });

  test("is not written through the status", async () => {
    await submit("sneaky", { commonName: "x" });
    const { json } = await served.api.get(`${requests}/sneaky`);
    await served.api.call("PUT", `${requests}/sneaky/status`, { ...json, status: { conditions: [approvedByHand] } });
    expect(await statusOf(served.api, "sneaky")).toEqual({});
  });
});

test("a request that is no PKCS#10 is rejected", async () => {
  const request = Buffer.from("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n");
  const spec = { request: request.toString("base64"), signerName: clientSigner, usages: ["client auth"] };
  const { code, json } = await served.api.post(requests, { metadata: { name: "broken" }, spec });
  expect([code, json.message]).toEqual([422, expect.stringContaining("spec.request: Invalid value")]);
});

import { Buffer } from "node:buffer";
import { X509Certificate } from "node:crypto";
import type {
  CertificateSigningRequest,
  CertificateSigningRequestCondition,
} from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { formatTime } from "../../model/values/time.ts";
import { type Authorizer, resourceAccess } from "../auth/access.ts";
import type { CertificateSigner } from "../auth/pki.ts";
import { approvalRights, isBuiltinSigner, signerProblem } from "../certificates/signers.ts";
import { parseSigningRequest, type SigningRequest } from "../certificates/signingRequest.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import { systemCall } from "../systemCall.ts";
import type { Core } from "../verbs/core.ts";
import { deleteObject } from "../verbs/delete.ts";
import { subresourceStrategyOf } from "../verbs/subresourceStrategy.ts";
import { updateObject } from "../verbs/update.ts";
import { type Controller, targetAt, unlessRefused, updateOptions, writeStatus } from "./controller.ts";
import type { Turns, WorkQueue } from "./workQueue.ts";

const requestsKey = "certificates.k8s.io/certificatesigningrequests";
const approver = "csr-approving-controller";
const signer = "csr-signing-controller";
const cleaner = "csr-cleaner-controller";
const hourMs = 3600 * 1000;
/** Upstream deletes requests that were decided an hour ago, and pending ones after a day. */
const decidedMs = hourMs;
const pendingMs = 24 * hourMs;
/** A request of a kubelet without the right to automatic approval is checked again this often. */
const approvalRetryMs = 30_000;

/**
 * Approves, signs and deletes CertificateSigningRequests, as upstream's controllers: requests of kubelets for their own
 * client certificate are approved if the user may create `certificatesigningrequests/selfnodeclient` or `/nodeclient`;
 * approved requests of the built-in signers are signed by the cluster's CA.
 */
export class CertificateController implements Controller {
  private readonly core: Core;
  private readonly authorizer: Authorizer;
  private readonly sign: CertificateSigner;
  private readonly queue: WorkQueue<string>;

  constructor(
    core: Core,
    turns: Turns,
    by: { readonly authorizer: Authorizer; readonly sign: CertificateSigner },
    failed: (what: string, error: unknown) => void,
  ) {
    this.core = core;
    this.authorizer = by.authorizer;
    this.sign = by.sign;
    this.queue = turns.queue<string>({
      work: (name) => this.work(name),
      failed: (name, error) => failed(`CertificateSigningRequest ${name}`, error),
    });
  }

  start(): void {
    for (const version of this.core.store.collection(requestsKey).all()) this.queue.add(version.name);
  }

  observe({ current }: StoreEvent): void {
    if (current.resource === requestsKey && !current.deleted) this.queue.add(current.name);
  }

  stop(): void {
    this.queue.stop();
  }

  private work(name: string): Promise<void> | undefined {
    const version = this.core.store.get(requestsKey, "", name);
    if (version === undefined) return undefined;
    const request = version.object() as CertificateSigningRequest;
    if (request.metadata.deletionTimestamp !== undefined) return undefined;
    const nowMs = this.core.clock.nowMs();
    const leftMs = expiryMs(request) - nowMs;
    if (leftMs <= 0) return this.delete(request);
    this.queue.addAfter(name, leftMs);
    if (request.status?.certificate || hasCondition(request, "Denied") || hasCondition(request, "Failed"))
      return undefined;
    const parsed = parse(request);
    if (parsed === undefined) return undefined;
    return hasCondition(request, "Approved") ? this.issue(request, parsed) : this.approve(request, parsed);
  }

  private approve(request: CertificateSigningRequest, parsed: SigningRequest): Promise<void> | undefined {
    const { username = "", groups = [], uid, extra } = request.spec;
    const user = { username, groups, ...(uid === undefined ? {} : { uid }), ...(extra === undefined ? {} : { extra }) };
    const rights = approvalRights(request.spec, parsed);
    const right = rights.find(
      (subresource) =>
        this.authorizer.authorize(
          user,
          resourceAccess({
            verb: "create",
            group: "certificates.k8s.io",
            resource: "certificatesigningrequests",
            subresource,
          }),
        ).allowed,
    );
    if (right === undefined) {
      if (rights.length > 0) this.queue.addAfter(request.metadata.name, approvalRetryMs);
      return undefined;
    }
    const what = right === "selfnodeclient" ? "self kubelet client certificate" : "kubelet client certificate";
    const message = `Auto approving ${what} after SubjectAccessReview.`;
    const target = targetAt(
      this.core,
      { resource: requestsKey, namespace: "", name: request.metadata.name },
      "approval",
    );
    if (target === undefined) return undefined;
    const { uid: objectUid, resourceVersion } = request.metadata;
    const conditions = [
      ...(request.status?.conditions ?? []),
      { type: "Approved", status: "True", reason: "AutoApproved", message },
    ];
    const change = {
      ...subresourceStrategyOf(target),
      options: updateOptions(approver),
      build: (current: KubeObject): KubeObject => ({
        ...current,
        metadata: { ...current.metadata, uid: objectUid, resourceVersion },
        status: { ...request.status, conditions },
      }),
    };
    return unlessRefused(updateObject(this.core, target, change, systemCall(approver)), "NotFound", "Conflict");
  }

  private issue(request: CertificateSigningRequest, parsed: SigningRequest): Promise<void> | undefined {
    const { signerName, usages = [], expirationSeconds } = request.spec;
    if (!isBuiltinSigner(signerName)) return undefined;
    const nowMs = this.core.clock.nowMs();
    const problem = signerProblem(signerName, parsed, usages);
    const expiry = expirationSeconds === undefined ? {} : { expirationSeconds };
    const status =
      problem === undefined
        ? {
            ...request.status,
            certificate: Buffer.from(this.sign(parsed, { usages, nowMs, ...expiry })).toString("base64"),
          }
        : { ...request.status, conditions: [...(request.status?.conditions ?? []), failure(problem, nowMs)] };
    const place = { resource: requestsKey, namespace: "", name: request.metadata.name };
    return unlessRefused(writeStatus(this.core, place, signer, request, status), "NotFound", "Conflict");
  }

  private delete({ metadata: { name, uid } }: CertificateSigningRequest): Promise<void> | undefined {
    const target = targetAt(this.core, { resource: requestsKey, namespace: "", name });
    if (target === undefined) return undefined;
    const preconditions = { uid };
    return unlessRefused(
      deleteObject(this.core, target, { preconditions }, systemCall(cleaner)),
      "NotFound",
      "Conflict",
    );
  }
}

function failure(message: string, nowMs: number): CertificateSigningRequestCondition {
  const time = formatTime(nowMs);
  const reason = "SignerValidationFailure";
  return { type: "Failed", status: "True", reason, message, lastUpdateTime: time, lastTransitionTime: time };
}

/** When the request is deleted: an hour after a decision, a day after a create without one, or with its certificate. */
function expiryMs({ metadata, status }: CertificateSigningRequest): number {
  const decided = (status?.conditions ?? []).filter(({ type }) => ["Approved", "Denied", "Failed"].includes(type));
  const times = decided.map(({ lastUpdateTime }) => Date.parse(lastUpdateTime ?? "") + decidedMs);
  if (decided.length === 0) times.push(Date.parse(metadata.creationTimestamp) + pendingMs);
  if (status?.certificate) times.push(certificateEndMs(status.certificate));
  return Math.min(...times.filter((time) => !Number.isNaN(time)));
}

function certificateEndMs(base64: string): number {
  try {
    return Date.parse(new X509Certificate(Buffer.from(base64, "base64")).validTo);
  } catch {
    return Number.NaN;
  }
}

function parse({ spec }: CertificateSigningRequest): SigningRequest | undefined {
  try {
    return parseSigningRequest(Buffer.from(spec.request, "base64").toString("latin1"));
  } catch {
    return undefined;
  }
}

function hasCondition({ status }: CertificateSigningRequest, type: string): boolean {
  return (status?.conditions ?? []).some((condition) => condition.type === type && condition.status === "True");
}

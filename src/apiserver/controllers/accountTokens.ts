import { Buffer } from "node:buffer";
import type { Secret } from "../../model/kubernetes.generated.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import type { TokenIssuer } from "../auth/serviceAccountToken.ts";
import type { StoreEvent } from "../storage/storeEvent.ts";
import { systemCall } from "../systemCall.ts";
import type { Core } from "../verbs/core.ts";
import { deleteObject } from "../verbs/delete.ts";
import { updateObject } from "../verbs/update.ts";
import { type Controller, targetAt, unlessRefused, updateOptions } from "./controller.ts";
import type { Turns, WorkQueue } from "./workQueue.ts";

const manager = "serviceaccount-token-controller";
const nameAnnotation = "kubernetes.io/service-account.name";
const uidAnnotation = "kubernetes.io/service-account.uid";
const tokenType = "kubernetes.io/service-account-token";
/** Upstream's tokens of this type never expire; ten years outlast the keys of this server. */
const lifetimeSeconds = 10 * 365 * 24 * 3600;

/**
 * Fills Secrets of type service-account-token with a token of their account, the CA certificate and the namespace, and
 * deletes those whose account is gone. The token is valid as long as its Secret and its account exist.
 */
export class AccountTokens implements Controller {
  private readonly core: Core;
  private readonly issuer: TokenIssuer;
  private readonly authority: string;
  private readonly queue: WorkQueue<string>;

  constructor(
    core: Core,
    turns: Turns,
    by: { readonly issuer: TokenIssuer; readonly authority: string },
    failed: (what: string, error: unknown) => void,
  ) {
    this.core = core;
    this.issuer = by.issuer;
    this.authority = by.authority;
    this.queue = turns.queue<string>({
      work: (key) => this.work(key),
      failed: (key, error) => failed(`token of Secret ${key}`, error),
    });
  }

  start(): void {
    for (const version of this.core.store.collection("/secrets").all()) {
      if (version.side.fields[0] === tokenType) this.queue.add(version.key);
    }
  }

  observe({ current }: StoreEvent): void {
    if (current.resource === "/secrets") {
      if (!current.deleted && current.side.fields[0] === tokenType) this.queue.add(current.key);
    } else if (current.resource === "/serviceaccounts" && current.deleted) {
      for (const version of this.core.store.collection("/secrets").at(this.core.store.revision, current.namespace)) {
        if (version.side.fields[0] === tokenType) this.queue.add(version.key);
      }
    }
  }

  private work(key: string): Promise<void> | undefined {
    const [namespace = "", name = ""] = key.split("/");
    const found = this.core.store.get("/secrets", namespace, name);
    if (found === undefined) return undefined;
    const secret = found.object() as Secret;
    if (secret.type !== tokenType || secret.metadata.deletionTimestamp !== undefined) return undefined;
    const target = targetAt(this.core, { resource: "/secrets", namespace, name });
    if (target === undefined) return undefined;
    const account = secret.metadata.annotations?.[nameAnnotation] ?? "";
    const owner = this.core.store.get("/serviceaccounts", namespace, account);
    const uid = secret.metadata.annotations?.[uidAnnotation];
    const preconditions = { uid: found.side.uid };
    if (owner === undefined || (uid !== undefined && uid !== owner.side.uid)) {
      const call = systemCall(manager);
      return unlessRefused(deleteObject(this.core, target, { preconditions }, call), "NotFound", "Conflict");
    }
    const { data } = secret;
    if (data?.["token"] && data["ca.crt"] && data["namespace"] && uid === owner.side.uid) return undefined;
    const issued = this.issuer.issue(
      {
        audiences: [this.issuer.issuer],
        namespace,
        serviceAccount: { name: account, uid: owner.side.uid },
        secret: { name, uid: found.side.uid },
      },
      { nowMs: this.core.clock.nowMs(), lifetimeSeconds, random: this.core.random },
    );
    const filled = {
      "ca.crt": base64(this.authority),
      namespace: base64(namespace),
      token: base64(issued.token),
    };
    const change = {
      options: updateOptions(manager),
      build: (current: KubeObject): KubeObject => ({
        ...current,
        metadata: {
          ...current.metadata,
          uid: found.side.uid,
          annotations: { ...current.metadata.annotations, [uidAnnotation]: owner.side.uid },
        },
        data: { ...filled, ...(current["data"] as object | undefined) },
      }),
    };
    return unlessRefused(updateObject(this.core, target, change, systemCall(manager)), "NotFound", "Conflict");
  }
}

function base64(text: string): string {
  return Buffer.from(text, "utf8").toString("base64");
}

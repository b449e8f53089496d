import { type Api, type ApiOptions, createApi } from "../../src/apiserver/createApi.ts";
import { sentByUs } from "../../src/apiserver/resource.ts";
import type { UserInfo } from "../../src/apiserver/strategy.ts";
import type { Call, Target } from "../../src/apiserver/verbs/core.ts";
import { createObject } from "../../src/apiserver/verbs/create.ts";
import { type DeleteOptions, deleteObject } from "../../src/apiserver/verbs/delete.ts";
import { replaceObject, updateObject } from "../../src/apiserver/verbs/update.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";
import { ManualClock } from "./manualClock.ts";
import { seededRandom } from "./seededRandom.ts";

/** An API in memory with short methods, and a clock that a test moves. Resources are named `group/plural`. */
export class TestApi {
  readonly api: Api;
  readonly clock: ManualClock;
  readonly warnings: string[] = [];

  private constructor(api: Api, clock: ManualClock) {
    this.api = api;
    this.clock = clock;
  }

  static async start(options: Partial<ApiOptions> = {}): Promise<TestApi> {
    const clock = new ManualClock();
    const api = await createApi({ clock, random: seededRandom(1), freeze: true, authority: "PEM", ...options });
    const test = new TestApi(api, clock);
    await test.settle();
    return test;
  }

  get core(): Api["core"] {
    return this.api.core;
  }

  /** Lets the controllers finish. The clock advances by a few milliseconds, for retries. */
  async settle(): Promise<void> {
    for (let round = 0; round < 20; round++) await this.clock.advance(1);
  }

  call(fields: { dryRun?: boolean; user?: UserInfo } = {}): Call {
    return {
      user: fields.user ?? { username: "tester", groups: ["system:masters"] },
      dryRun: fields.dryRun ?? false,
      fieldManager: "test",
      fieldValidation: "Strict",
      warn: (text) => this.warnings.push(text),
    };
  }

  target(resource: string, path: string, subresource = ""): Target {
    const found = this.core.registry.stored(resource);
    if (found === undefined) throw new Error(`${resource} is not served`);
    const [namespace, name] = path.includes("/") ? path.split("/") : ["", path];
    return { resource: found, namespace: namespace as string, name: name as string, subresource };
  }

  async create(resource: string, object: object, call = this.call()): Promise<KubeObject> {
    const { namespace = "", name = "" } = (object as KubeObject).metadata;
    const target = { ...this.target(resource, name), namespace, name: "" };
    return (await createObject(this.core, target, sentByUs(object), call)).version.object();
  }

  get(resource: string, path: string): KubeObject | undefined {
    const { namespace, name } = this.target(resource, path);
    return this.core.store.get(resource, namespace, name)?.object();
  }

  names(resource: string): string[] {
    return [...this.core.store.collection(resource).all()].map((version) => version.key);
  }

  async replace(resource: string, object: KubeObject, call = this.call()): Promise<KubeObject> {
    const { namespace, name } = object.metadata;
    const path = namespace === undefined ? name : `${namespace}/${name}`;
    return (await replaceObject(this.core, this.target(resource, path), sentByUs(object), call)).version.object();
  }

  async edit(resource: string, path: string, change: (object: KubeObject) => void, subresource = ""): Promise<void> {
    const build = (current: KubeObject): KubeObject => {
      const copy = JSON.parse(JSON.stringify(current)) as KubeObject;
      change(copy);
      return copy;
    };
    await updateObject(this.core, this.target(resource, path, subresource), { build, options: {} }, this.call());
  }

  async delete(resource: string, path: string, options: DeleteOptions = {}, call = this.call()): Promise<void> {
    await deleteObject(this.core, this.target(resource, path), options, call);
  }
}

/** A pod without requests. */
export function podNamed(path: string, fields: { metadata?: object; spec?: object } = {}): object {
  const [namespace, name] = path.split("/");
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace, ...fields.metadata },
    spec: { containers: [{ name: "main", image: "registry/app:1" }], ...fields.spec },
  };
}

export function configMapNamed(path: string, metadata: object = {}): object {
  const [namespace, name] = path.split("/");
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace, ...metadata } };
}

export function namespaceNamed(name: string, metadata: object = {}): object {
  return { apiVersion: "v1", kind: "Namespace", metadata: { name, ...metadata } };
}

/** The message and code of a refusal. */
export async function refusal(work: Promise<unknown>): Promise<{ code: number; reason: string; message: string }> {
  try {
    await work;
  } catch (error) {
    const { status } = error as { status?: { code: number; reason: string; message: string } };
    if (status === undefined) throw error;
    return { code: status.code, reason: status.reason, message: status.message };
  }
  throw new Error("was not refused");
}

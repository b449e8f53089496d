/**
 * Changes a cluster as controllers, kubelets and other users would, through the verbs of the server and without a request.
 */

import { sentByUs } from "../../src/apiserver/resource.ts";
import type { ApiServer } from "../../src/apiserver/startApiServer.ts";
import { systemCall } from "../../src/apiserver/systemCall.ts";
import type { Core, Target } from "../../src/apiserver/verbs/core.ts";
import { createObject } from "../../src/apiserver/verbs/create.ts";
import { deleteObject } from "../../src/apiserver/verbs/delete.ts";
import { patchObject } from "../../src/apiserver/verbs/patch.ts";
import type { KubeObject } from "../../src/model/objects/object.ts";

/**
 * An object of a test; strings like `$uid(apps/deployments/web)` are replaced by values that the server has set.
 */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; [field: string]: unknown };
  [field: string]: unknown;
}

/** One change of the cluster by a test. It is recorded in a file and replayed. */
export type Deed = { given: Manifest } | { patched: Manifest; subresource?: string } | { removed: Manifest };

const call = { ...systemCall("world"), force: false };

export async function act(server: ApiServer, deed: Deed): Promise<void> {
  const { core } = server;
  if ("given" in deed) {
    const object = resolve(core, deed.given);
    await createObject(core, targetOf(core, object, ""), sentByUs(object), call);
    // Status is written through its subresource.
    const { status, apiVersion, kind, metadata } = object;
    if (status !== undefined && kind !== "Node") {
      const patch = { status };
      await patchObject(core, targetOf(core, { apiVersion, kind, metadata }, "status"), "merge", sentByUs(patch), call);
    }
  } else if ("patched" in deed) {
    const { apiVersion, kind, metadata, ...rest } = resolve(core, deed.patched);
    const { name: _, namespace: __, ...meta } = metadata;
    const patch = { ...rest, ...(Object.keys(meta).length > 0 ? { metadata: meta } : {}) };
    const target = targetOf(core, { apiVersion, kind, metadata }, deed.subresource ?? "");
    await patchObject(core, target, "merge", sentByUs(patch), call);
  } else {
    const target = targetOf(core, deed.removed, "");
    await deleteObject(core, target, { gracePeriodSeconds: 0, propagationPolicy: "Background" }, call);
  }
}

/** The stored object by `group/plural`, `/plural` for the core group. */
export function stored(server: ApiServer, key: string, namespace: string, name: string): KubeObject | undefined {
  return server.core.store.get(key, namespace, name)?.object();
}

function targetOf(core: Core, object: Manifest, subresource: string): Target {
  const resource = core.registry.kind(object.apiVersion, object.kind);
  if (resource === undefined) throw new Error(`${object.apiVersion} ${object.kind} is not served`);
  const namespace = resource.type.namespaced ? (object.metadata.namespace ?? "") : "";
  return { resource, namespace, name: object.metadata.name, subresource };
}

/** Replaces `$uid(group/plural/name)` by the uid of that object, looked up in the namespace of the manifest. */
function resolve(core: Core, manifest: Manifest): Manifest {
  const namespace = manifest.metadata.namespace ?? "";
  const text = JSON.stringify(manifest).replace(/\$uid\(([^)]*)\/([^/)]+)\)/g, (_, key: string, name: string) => {
    const found = core.store.get(key, namespace, name) ?? core.store.get(key, "", name);
    if (found === undefined) throw new Error(`no ${key} ${name} in ${namespace}`);
    return found.side.uid;
  });
  return JSON.parse(text) as Manifest;
}

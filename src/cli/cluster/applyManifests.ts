import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import type { Registry } from "../../apiserver/registry.ts";
import { type KubeObject, splitApiVersion } from "../../model/objects/object.ts";
import { UserError } from "../../model/userError.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";

/** Applies every YAML file of a folder, ordered by name, to the cluster of this process. */
export async function applyManifests(kube: KubeApi, registry: Registry, folder: string): Promise<number> {
  const files = (await readdir(folder)).filter((name) => /\.ya?ml$/.test(name)).sort();
  let count = 0;
  for (const file of files) count += await applyManifest(kube, registry, join(folder, file));
  return count;
}

/** Applies the documents of one file. Returns their number. */
export async function applyManifest(kube: KubeApi, registry: Registry, file: string): Promise<number> {
  let count = 0;
  for (const document of parseAllDocuments(await readFile(file, "utf8"))) {
    const object = document.toJS() as KubeObject | null;
    if (object === null) continue;
    const problem = await applyOne(kube, registry, object);
    if (problem !== undefined) {
      const what = `${object.kind} ${JSON.stringify(object.metadata.name)} of ${file}`;
      throw new UserError("manifest-refused", `${what} was refused: ${problem}`, "correct the file, or leave it out");
    }
    count++;
  }
  return count;
}

async function applyOne(kube: KubeApi, registry: Registry, object: KubeObject): Promise<string | undefined> {
  const resource = registry.kind(object.apiVersion, object.kind);
  if (resource === undefined) return `${object.apiVersion} ${object.kind} is not served`;
  const { plural, namespaced } = resource.type;
  const { name, namespace = namespaced ? "default" : "" } = object.metadata;
  const ref = { ...splitApiVersion(object.apiVersion), plural, namespace, name };
  const patch = { type: "apply", body: object, force: true } as const;
  const outcome = await kube.patch(ref, patch, { fieldManager: "muster-demo" });
  return outcome.ok ? undefined : outcome.message;
}

import { type Outcome, succeeded } from "../../model/outcome.ts";
import { builtin } from "../../model/resources.generated.ts";
import { firstRevision } from "../../model/revision.ts";
import { localFolderClass, localStorageClass } from "../../model/storage/localFolder.ts";
import { defaultClassOf } from "../../model/storage/volumes.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { Writer } from "../runtime/writer.ts";

/**
 * Creates the StorageClass of local folders where it is missing. It is the default class unless there is another one;
 * an existing class is left as it is.
 */
export async function ensureLocalStorage(kube: KubeApi): Promise<Outcome<undefined>> {
  const classes = await kube.list(builtin.StorageClass);
  if (!classes.ok) return classes;
  const { items } = classes.value;
  if (items.some(({ metadata }) => metadata.name === localFolderClass)) return succeeded(undefined);
  const object = localStorageClass({ isDefault: defaultClassOf(items) === undefined });
  const target = { ...builtin.StorageClass, namespace: "", name: localFolderClass };
  const why = "claims without another StorageClass get a folder of their pod's node";
  const created = await new Writer(kube).apply({
    type: "create",
    target,
    absentAtRevision: firstRevision,
    object,
    why,
  });
  return created.ok || created.reason === "AlreadyExists" ? succeeded(undefined) : created;
}

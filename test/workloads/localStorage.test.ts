import { expect, test } from "vitest";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { ensureLocalStorage } from "../../src/control/assembly/ensureLocalStorage.ts";
import type { StorageClass } from "../../src/model/kubernetes.generated.ts";
import { TestApi } from "../../testing/apiserver/testApi.ts";
import { storageClass } from "./volumeObjects.ts";

const classes = "storage.k8s.io/storageclasses";
const isDefault = "storageclass.kubernetes.io/is-default-class";

async function classAfter(others: readonly object[]): Promise<StorageClass> {
  const api = await TestApi.start();
  for (const other of others) await api.create(classes, other);
  const kube = inProcessKube(api.core, { user: { username: "muster", groups: ["system:masters"] }, fieldManager: "m" });
  for (let at = 0; at < 2; at++) expect(await ensureLocalStorage(kube)).toMatchObject({ ok: true });
  return api.get(classes, "muster-local") as StorageClass;
}

test("the class of local folders is the default one, unless there is another", async () => {
  expect((await classAfter([])).metadata.annotations).toEqual({ [isDefault]: "true" });
  expect((await classAfter([storageClass("disk")])).metadata.annotations).toEqual({ [isDefault]: "true" });
  const other = storageClass("disk", { metadata: { name: "disk", annotations: { [isDefault]: "true" } } });
  expect((await classAfter([other])).metadata.annotations).toBeUndefined();
});

test("it waits for the first pod, and volumes go with their claims", async () => {
  expect(await classAfter([])).toMatchObject({
    provisioner: "muster.dev/local-folder",
    volumeBindingMode: "WaitForFirstConsumer",
    reclaimPolicy: "Delete",
  });
});

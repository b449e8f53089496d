import { expect, test } from "vitest";
import { partly } from "../../../testing/partly.ts";
import type { BindIntent } from "../../model/intent.ts";
import { builtin } from "../../model/resources.generated.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import { KindTable } from "../../snapshot/kindTable.ts";
import { Picture } from "../../snapshot/picture.ts";
import { commit } from "./commit.ts";
import { Writer } from "./writer.ts";

const pods = builtin.Pod;

test("a write whose call threw may have been sent, and counts until the object has changed", async () => {
  const picture = new Picture<string>({ "/pods": { table: new KindTable() } });
  const metadata = { name: "p", namespace: "a", uid: "u1", creationTimestamp: "2026-01-01T00:00:00Z" };
  const pod = (resourceVersion: string) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...metadata, resourceVersion },
  });
  picture.applyEvent("/pods", { type: "relistBegins" });
  picture.applyEvent("/pods", { type: "put", object: pod("5") });
  picture.applyEvent("/pods", { type: "relistDone", revision: "5" });
  // Nothing else of the API is called.
  const kube = partly<KubeApi>({
    bind: async () => {
      throw new Error("a client that throws");
    },
  });
  const intent: BindIntent = {
    type: "bind",
    target: { ...pods, namespace: "a", name: "p" },
    expected: { uid: "u1", resourceVersion: "5" },
    node: "n1",
    why: "it fits",
  };
  const decision = { intent, effects: [{ key: "pod/u1", value: "n1" }] };
  await expect(commit(picture, new Writer(kube), [decision])).rejects.toThrow("a client that throws");
  expect(picture.stateOf(intent)).toBe("unknown");
  expect(picture.snapshot().values("pod/u1")).toEqual(["n1"]);
  picture.applyEvent("/pods", { type: "put", object: pod("6") });
  expect(picture.snapshot().values("pod/u1")).toEqual([]);
});

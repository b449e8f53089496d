import { expect, test } from "vitest";
import { succeeded } from "../../model/outcome.ts";
import type { KubeReads } from "../../ports/kubeApi.ts";
import { FreshClaims } from "./freshClaims.ts";

test("calls that arrive while a list is in flight share the next list, and never get one that began before them", async () => {
  const begun: (() => void)[] = [];
  const list: KubeReads["list"] = () =>
    new Promise((resolve) => {
      const revision = String(begun.length + 1);
      begun.push(() => resolve(succeeded({ revision, items: [] })));
    });
  const claims = new FreshClaims({ list } as KubeReads);
  const revisionOf = async (outcomes: ReturnType<FreshClaims["list"]>): Promise<string> => {
    const outcome = await outcomes;
    return outcome.ok ? outcome.value.revision : outcome.message;
  };
  const first = revisionOf(claims.list());
  await new Promise(setImmediate);
  const later = Array.from({ length: 20 }, () => revisionOf(claims.list()));
  await new Promise(setImmediate);
  expect(begun).toHaveLength(1);
  begun[0]?.();
  expect(await first).toBe("1");
  await new Promise(setImmediate);
  begun[1]?.();
  expect(new Set(await Promise.all(later))).toEqual(new Set(["2"]));
  expect(begun).toHaveLength(2);
});

import { expect, test } from "vitest";
import { succeeded } from "../../model/outcome.ts";
import type { KubeReads } from "../../ports/kubeApi.ts";
import { FreshClaims } from "./freshClaims.ts";

test("questions that come while a list is under way share the next one, and never have one that began before", async () => {
  const begun: (() => void)[] = [];
  const list: KubeReads["list"] = () =>
    new Promise((resolve) => {
      const revision = String(begun.length + 1);
      begun.push(() => resolve(succeeded({ revision, items: [] })));
    });
  const claims = new FreshClaims({ list } as KubeReads);
  const revisionOf = async (look: ReturnType<FreshClaims["look"]>): Promise<string> => {
    const outcome = await look;
    return outcome.ok ? outcome.value.revision : outcome.message;
  };
  const first = revisionOf(claims.look());
  await new Promise(setImmediate);
  const later = Array.from({ length: 20 }, () => revisionOf(claims.look()));
  await new Promise(setImmediate);
  expect(begun).toHaveLength(1);
  begun[0]?.();
  expect(await first).toBe("1");
  await new Promise(setImmediate);
  begun[1]?.();
  expect(new Set(await Promise.all(later))).toEqual(new Set(["2"]));
  expect(begun).toHaveLength(2);
});

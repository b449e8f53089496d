import { describe, expect, test } from "vitest";
import { userPod } from "../../../testing/decide/bindCluster.ts";
import { partly } from "../../../testing/partly.ts";
import type { Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import { findRival, isOfAnother, mayClaimAtMs } from "./rivalClaims.ts";

type Result = { device: string; pool?: string; adminAccess?: boolean; shareID?: string };

function claim(name: string, ...results: Result[]): ResourceClaim {
  const all = results.map((result) => ({ request: "gpu", driver: "gpu.example.com", pool: "n1", ...result }));
  const status = results.length === 0 ? {} : { status: { allocation: { devices: { results: all } } } };
  return partly<ResourceClaim>({ metadata: { name, namespace: "default", uid: name }, spec: {}, ...status });
}

describe("a rival", () => {
  const own = claim("own", { device: "gpu-0" });

  test.each<[string, ResourceClaim[], string | undefined]>([
    ["has the same device", [claim("other", { device: "gpu-0" })], "other"],
    ["has it among others", [claim("other", { device: "gpu-7" }, { device: "gpu-0" })], "other"],
    ["is not a claim with another device", [claim("other", { device: "gpu-1" })], undefined],
    [
      "is no claim with a device of that name in another pool",
      [claim("other", { device: "gpu-0", pool: "n2" })],
      undefined,
    ],
    ["is no claim without devices", [claim("other")], undefined],
    ["is not the claim itself", [own], undefined],
    [
      "is no administrator that looks at the device",
      [claim("other", { device: "gpu-0", adminAccess: true })],
      undefined,
    ],
    ["is no user of another share of the device", [claim("other", { device: "gpu-0", shareID: "x" })], undefined],
  ])("%s", (_, all, rival) => {
    expect(findRival([own], [own, ...all])?.other.metadata.name).toBe(rival);
  });

  test("of an own claim is not another own claim of the same pod", () => {
    const second = claim("second", { device: "gpu-0" });
    expect(findRival([own, second], [own, second])).toBeUndefined();
  });
});

describe("a bind beside another scheduler may claim its devices", () => {
  test.each<[string, { lastMs: number; areWaiting: boolean }, number]>([
    ["almost at once, where the other scheduler has no pods with claims", { lastMs: 0, areWaiting: false }, 10_250],
    ["when the other scheduler was quiet for two seconds", { lastMs: 11_000, areWaiting: false }, 13_000],
    [
      "two seconds later while pods of the other scheduler are pending: a device that became free is theirs",
      { lastMs: 0, areWaiting: true },
      12_000,
    ],
    ["after fifteen seconds however busy the other scheduler is", { lastMs: 24_900, areWaiting: true }, 25_000],
  ])("%s", (_, others, atMs) => {
    expect(mayClaimAtMs(10_000, others)).toBe(atMs);
  });

  const served = new Set(["kai-scheduler"]);
  const pod = (spec: object): Pod => userPod({ name: "p", groups: [], spec });
  const resourceClaims = [{ name: "gpu", resourceClaimTemplateName: "one" }];

  test("which has pods with claims of other schedulers", () => {
    expect(isOfAnother(pod({ schedulerName: "default-scheduler", resourceClaims }), served)).toBe(true);
    expect(isOfAnother(pod({ schedulerName: "kai-scheduler", resourceClaims }), served)).toBe(false);
    expect(isOfAnother(pod({ schedulerName: "default-scheduler" }), served)).toBe(false);
  });
});

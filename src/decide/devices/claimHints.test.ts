import { describe, expect, test } from "vitest";
import type { Pod, ResourceClaim } from "../../model/kubernetes.generated.ts";
import { concernedBy, hintOfClaim, hintOfPod } from "./claimHints.ts";

const claim = (
  name: string,
  more: { isAllocated?: boolean; version?: string; finalizers?: string[] } = {},
): ResourceClaim =>
  ({
    metadata: {
      name,
      namespace: "default",
      uid: `uid-${name}`,
      resourceVersion: more.version ?? "1",
      finalizers: more.finalizers,
    },
    spec: {},
    status: more.isAllocated === true ? { allocation: {} } : {},
  }) as unknown as ResourceClaim;
const pod = (made?: string): Pod =>
  ({
    metadata: { name: "p", namespace: "default", uid: "uid-p" },
    spec: {
      resourceClaims: [
        { name: "gpu", ...(made === undefined ? { resourceClaimName: "c" } : { resourceClaimTemplateName: "t" }) },
      ],
    },
    status:
      made === undefined || made === "" ? {} : { resourceClaimStatuses: [{ name: "gpu", resourceClaimName: made }] },
  }) as unknown as Pod;
const has =
  (...claims: ResourceClaim[]) =>
  (_namespace: string, name: string) =>
    claims.find(({ metadata }) => metadata.name === name);

describe("a claim's event", () => {
  test.each([
    { name: "skip-deletes", event: { before: claim("c"), after: undefined }, hint: "skip" },
    {
      name: "queue-on-delete-with-allocation",
      event: { before: claim("x", { isAllocated: true }), after: undefined },
      hint: "queue",
    },
    {
      // backoff-wrong-new-object and backoff-wrong-old-object cannot happen: the types allow nothing but claims.
      name: "queue-on-delete-final-state-unknown",
      event: { before: claim("x"), after: undefined, isFinalStateUnknown: true },
      hint: "queue",
    },
    {
      name: "skip-unrelated-claim",
      event: { before: claim("x"), after: claim("x", { isAllocated: true }) },
      hint: "skip",
    },
    { name: "queue-on-add", event: { before: undefined, after: claim("c") }, hint: "queue" },
    {
      name: "skip-adding-finalizer",
      event: { before: claim("c"), after: claim("c", { finalizers: ["f"] }) },
      hint: "skip",
    },
    {
      name: "queue-on-status-change",
      event: { before: claim("c"), after: claim("c", { isAllocated: true }) },
      hint: "queue",
    },
    {
      name: "claim-deallocate",
      event: { before: claim("x", { isAllocated: true }), after: claim("x") },
      hint: "queue",
    },
  ])("$name", ({ event, hint }) => {
    expect(hintOfClaim(pod(), event, has(claim("c")))).toBe(hint);
  });

  test("skip-wrong-claim: the pod's own claims are not all there", () => {
    expect(hintOfClaim(pod(), { before: undefined, after: claim("x") }, has())).toBe("skip");
  });
});

describe("a pod's event", () => {
  const owned = {
    ...claim("made"),
    metadata: { ...claim("made").metadata, ownerReferences: [{ uid: "uid-p", controller: true }] },
  } as unknown as ResourceClaim;
  test.each([
    { name: "complete", claims: [owned], made: "made", hint: "queue" },
    { name: "missing-claim", claims: [], made: "made", hint: "skip" },
    { name: "incomplete", claims: [owned], made: "", hint: "skip" },
  ])("$name", ({ claims, made, hint }) => {
    expect(hintOfPod(pod(""), pod(made), has(...claims))).toBe(hint);
  });
});

describe("the pods that a claim's event concerns", () => {
  const users = (key: string) => (key === "default/c" ? ["default/a", "default/b"] : []);
  test.each([
    { name: "no pod in index", event: { before: claim("x"), after: claim("x") }, pods: [] },
    { name: "shared claim", event: { before: claim("c"), after: claim("c") }, pods: ["default/a", "default/b"] },
    {
      name: "delete uses old object",
      event: { before: claim("c"), after: undefined },
      pods: ["default/a", "default/b"],
    },
    {
      name: "delete of allocated",
      event: { before: claim("x", { isAllocated: true }), after: undefined },
      pods: "all",
    },
    { name: "deallocation", event: { before: claim("x", { isAllocated: true }), after: claim("x") }, pods: "all" },
    { name: "pod not yet indexed", event: { before: undefined, after: claim("made") }, pods: [] },
  ])("$name", ({ event, pods }) => {
    expect(concernedBy(event, users)).toEqual(pods);
  });
});

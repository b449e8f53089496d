import { describe, expect, test } from "vitest";
import type { ResourceClaim } from "../../../model/kubernetes.generated.ts";
import { concernedBy } from "./claimHints.ts";

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

/** Kubernetes asks each pod that waits; here the pods that name the claim are woken, or all. What it skips may be woken for a look. */
describe("a claim's event, for a pod that has claim c", () => {
  const usersOf = (key: string) => (key === "default/c" ? ["default/p"] : []);
  test.each([
    { name: "skip-deletes, woken for a look", event: { before: claim("c"), after: undefined }, isWoken: true },
    {
      name: "queue-on-delete-with-allocation",
      event: { before: claim("x", { isAllocated: true }), after: undefined },
      isWoken: true,
    },
    {
      // backoff-wrong-new-object and backoff-wrong-old-object cannot happen: the types allow nothing but claims.
      name: "queue-on-delete-final-state-unknown",
      event: { before: claim("x"), after: undefined, isFinalStateUnknown: true },
      isWoken: true,
    },
    { name: "skip-wrong-claim", event: { before: undefined, after: claim("x") }, isWoken: false },
    {
      name: "skip-unrelated-claim",
      event: { before: claim("x"), after: claim("x", { isAllocated: true }) },
      isWoken: false,
    },
    { name: "queue-on-add", event: { before: undefined, after: claim("c") }, isWoken: true },
    {
      // Our own finalizer: the allocation is written when it is seen.
      name: "skip-adding-finalizer, woken for the next step",
      event: { before: claim("c"), after: claim("c", { finalizers: ["f"] }) },
      isWoken: true,
    },
    {
      name: "queue-on-status-change",
      event: { before: claim("c"), after: claim("c", { isAllocated: true }) },
      isWoken: true,
    },
    {
      name: "claim-deallocate",
      event: { before: claim("x", { isAllocated: true }), after: claim("x") },
      isWoken: true,
    },
  ])("$name", ({ event, isWoken }) => {
    const concerned = concernedBy(event, usersOf);
    expect(concerned === "all" || concerned.includes("default/p")).toBe(isWoken);
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

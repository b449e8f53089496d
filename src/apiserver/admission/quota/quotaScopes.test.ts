import { expect, test } from "vitest";
import type { KubeObject } from "../../../model/objects/object.ts";
import { quotaCounts } from "./quotaScopes.ts";
import { quotaShare } from "./quotaShare.ts";

function counts(operator: string, values: string[], claim: object): boolean {
  const requirement = { scopeName: "VolumeAttributesClass", operator, ...(values.length > 0 && { values }) };
  const { scopes } = quotaShare("/persistentvolumeclaims", claim as KubeObject);
  return quotaCounts({ scopeSelector: { matchExpressions: [requirement] } }, scopes);
}

test("a scope by VolumeAttributesClass counts claims that ask for the class, have it or get it", () => {
  const asks = { spec: { volumeAttributesClassName: "gold" } };
  const has = { spec: {}, status: { currentVolumeAttributesClassName: "gold" } };
  const gets = {
    spec: {},
    status: { modifyVolumeStatus: { status: "Pending", targetVolumeAttributesClassName: "gold" } },
  };
  for (const claim of [asks, has, gets]) {
    expect(counts("In", ["gold"], claim)).toBe(true);
    expect(counts("NotIn", ["gold"], claim)).toBe(false);
    expect(counts("Exists", [], claim)).toBe(true);
  }
  expect(counts("In", ["gold"], { spec: {} })).toBe(false);
  expect(counts("DoesNotExist", [], { spec: {} })).toBe(true);
});

test("a scope about pods counts no claim", () => {
  const claim: object = { spec: {} };
  const { scopes } = quotaShare("/persistentvolumeclaims", claim as KubeObject);
  expect(quotaCounts({ scopes: ["NotTerminating"] }, scopes)).toBe(false);
});

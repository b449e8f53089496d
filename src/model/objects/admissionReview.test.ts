import { describe, expect, test } from "vitest";
import type { AdmissionHook, AdmissionLookup, AdmissionVerdict } from "./admissionHook.ts";
import { patchBetween, reviewResponse } from "./admissionReview.ts";
import { required } from "./fieldError.ts";
import type { KubeObject } from "./object.ts";

const lookup: AdmissionLookup = { get: () => undefined, list: () => [] };
const things = { group: "g", version: "v1", plural: "things" };

function hook(review: AdmissionHook["review"]): AdmissionHook {
  return { name: "things.test", type: "mutating", resource: things, operations: ["CREATE"], review };
}

function question(more: object = {}): unknown {
  const request = {
    uid: "u1",
    operation: "CREATE",
    namespace: "ns",
    name: "a",
    userInfo: { username: "ada", groups: ["users"] },
    object: { metadata: { name: "a", labels: { "x/y": "1" } }, spec: { size: 1, list: [1, 2] } },
    oldObject: null,
    dryRun: true,
    ...more,
  };
  return { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request };
}

describe("a question by webhook", () => {
  test("reaches the hook with everything that a call in process has", () => {
    let seen: unknown;
    reviewResponse(
      hook((request) => {
        seen = request;
        return { allowed: true };
      }),
      question(),
      lookup,
    );
    expect(seen).toMatchObject({
      operation: "CREATE",
      namespace: "ns",
      name: "a",
      user: { username: "ada", groups: ["users"] },
      oldObject: undefined,
      dryRun: true,
    });
  });

  const verdicts: [string, AdmissionVerdict, object][] = [
    ["a yes is a yes and nothing else", { allowed: true }, { uid: "u1", allowed: true }],
    ["warnings go along", { allowed: true, warnings: ["old"] }, { uid: "u1", allowed: true, warnings: ["old"] }],
    [
      "a no is 403 with its message",
      { allowed: false, message: "not today" },
      { uid: "u1", allowed: false, status: { code: 403, reason: "Forbidden", message: "not today" } },
    ],
    [
      "field errors are 422 with a cause for each",
      { allowed: false, message: "spec.size: Required value", errors: [required("spec.size")] },
      {
        uid: "u1",
        allowed: false,
        status: {
          code: 422,
          reason: "Invalid",
          message: "spec.size: Required value",
          details: { name: "a", causes: [{ reason: "FieldValueRequired", field: "spec.size" }] },
        },
      },
    ],
  ];
  test.each(verdicts)("%s", (_, verdict, answer) => {
    expect(
      reviewResponse(
        hook(() => verdict),
        question(),
        lookup,
      ),
    ).toMatchObject(answer);
  });

  test("an object that the hook left as it was needs no patch", () => {
    const same = hook(({ object }) => ({ allowed: true, object: structuredClone(object) as KubeObject }));
    expect(reviewResponse(same, question(), lookup)).toEqual({ uid: "u1", allowed: true });
  });

  test.each([
    ["no review", { kind: "Pod" }],
    ["no request", { kind: "AdmissionReview" }],
    ["another operation", question({ operation: "CONNECT" })],
    ["a creation without an object", question({ object: null })],
    ["an update without the old object", question({ operation: "UPDATE" })],
    ["a number", 7],
  ])("%s is no question", (_, body) => {
    const neverAsked = hook(() => {
      throw new Error("asked");
    });
    expect(reviewResponse(neverAsked, body, lookup)).toBeUndefined();
  });
});

describe("the patch between two objects", () => {
  test.each([
    ["nothing between equals", { a: { b: [1] } }, { a: { b: [1] } }, []],
    ["adds what is new", { a: {} }, { a: { b: 1 } }, [{ op: "add", path: "/a/b", value: 1 }]],
    ["removes what is gone", { a: { b: 1, c: 2 } }, { a: { c: 2 } }, [{ op: "remove", path: "/a/b" }]],
    ["replaces a list whole", { a: [1, 2] }, { a: [1, 3] }, [{ op: "replace", path: "/a", value: [1, 3] }]],
    ["escapes slashes and tildes", { "x/~": 1 }, { "x/~": 2 }, [{ op: "replace", path: "/x~1~0", value: 2 }]],
    ["replaces a value by an object", { a: 1 }, { a: { b: 1 } }, [{ op: "replace", path: "/a", value: { b: 1 } }]],
  ])("%s", (_, before, after, steps) => {
    expect(patchBetween(before, after)).toEqual(steps);
  });
});

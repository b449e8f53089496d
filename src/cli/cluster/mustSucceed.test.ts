import { describe, expect, test } from "vitest";
import { type RefusalReason, refused } from "../../model/outcome.ts";
import { UserError } from "../../model/userError.ts";
import { mustSucceed } from "./mustSucceed.ts";

function errorOf(reason: RefusalReason, message = "no"): UserError {
  try {
    mustSucceed(refused(reason, message), "the definitions could not be installed");
  } catch (error) {
    if (error instanceof UserError) return error;
  }
  throw new Error("it succeeded");
}

describe("a write that the API server rejects", () => {
  test("is an error with what was attempted, the server's words and its reason", () => {
    expect(errorOf("Invalid", "the rule is too expensive").message).toBe(
      "the definitions could not be installed: the rule is too expensive (Invalid)",
    );
  });

  test.each([
    ["Invalid", /check that Muster supports the server's version/],
    ["Forbidden", /grant these credentials the permission/],
    ["Unauthorized", /has not expired/],
    ["Conflict", /another program writes the same objects/],
    ["NotFound", /points at a Kubernetes API server/],
    ["Unavailable", /is reachable/],
  ] as const)("as %s has the cure for that reason", (reason, cure) => {
    expect(errorOf(reason).cure).toMatch(cure);
  });

  test("by a webhook that does not answer has the cure for the webhook, whatever the reason", () => {
    const message = 'failed calling webhook "queues.validate.scheduling.muster.dev": connection refused';
    expect(errorOf("Unknown", message).cure).toMatch(/start the program that serves it/);
  });
});

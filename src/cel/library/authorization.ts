import { type CelFunction, define } from "../functions.ts";
import { fail } from "../values.ts";

/** The authorizer functions of admission policies. They compile, but evaluating them fails on this server. */
const unanswered = () => fail("the authorizer is not supported in expressions on this server");

export const authorizationLibrary: readonly CelFunction[] = [
  "<Authorizer>.path(string): PathCheck",
  "<Authorizer>.group(string): GroupCheck",
  "<Authorizer>.serviceAccount(string, string): Authorizer",
  "<GroupCheck>.resource(string): ResourceCheck",
  "<ResourceCheck>.subresource(string): ResourceCheck",
  "<ResourceCheck>.namespace(string): ResourceCheck",
  "<ResourceCheck>.name(string): ResourceCheck",
  "<ResourceCheck>.fieldSelector(string): ResourceCheck",
  "<ResourceCheck>.labelSelector(string): ResourceCheck",
  "<ResourceCheck>.check(string): Decision",
  "<PathCheck>.check(string): Decision",
  "<Decision>.allowed(): bool",
  "<Decision>.errored(): bool",
  "<Decision>.error(): string",
  "<Decision>.reason(): string",
].map((signature) => define([signature], unanswered));

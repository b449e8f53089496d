import { describe, expect, test } from "vitest";
import {
  cIdentifierErrors,
  configMapKeyErrors,
  dns1035LabelErrors,
  dnsLabelErrors,
  dnsSubdomainErrors,
  envVarNameErrors,
  generateNameErrors,
  httpHeaderNameErrors,
  labelValueErrors,
  nameErrors,
  pathSegmentErrors,
  percentErrors,
  portNameErrors,
  portNumberErrors,
  qualifiedNameErrors,
  relaxedEnvVarNameErrors,
  wildcardSubdomainErrors,
} from "./names.ts";

const long = (n: number) => "a".repeat(n);

describe("good names draw no complaint", () => {
  test.each([
    ["subdomain", dnsSubdomainErrors, ["a", "web-0", "a.b.c", "1", long(253), "0.1"]],
    ["label", dnsLabelErrors, ["a", "1-a", long(63)]],
    ["1035 label", dns1035LabelErrors, ["a", "a-1", long(63)]],
    ["wildcard", wildcardSubdomainErrors, ["*.example.com"]],
    ["path segment", pathSegmentErrors, ["system:node", "a b", "...", "A"]],
    ["qualified name", qualifiedNameErrors, ["a", "A.b_c-d", "example.com/name", `${long(253)}/${long(63)}`]],
    ["label value", labelValueErrors, ["", "a", "A_b.c-1", long(63)]],
    ["C identifier", cIdentifierErrors, ["_a1", "A"]],
    ["environment variable", envVarNameErrors, ["MY_VAR", "my.env-name", "_"]],
    ["relaxed environment variable", relaxedEnvVarNameErrors, ["1 a:b", "a"]],
    ["config key", configMapKeyErrors, ["a.conf", "_x", ".hidden"]],
    ["port name", portNameErrors, ["http", "metrics-2", "1a"]],
    ["percent", percentErrors, ["0%", "100%"]],
    ["header", httpHeaderNameErrors, ["X-Header"]],
  ])("%s", (_rule, check, values) => {
    for (const value of values) expect(check(value), value).toEqual([]);
  });
});

describe("invalid names are refused with the reason", () => {
  test("a subdomain in capitals gets Kubernetes' own sentence", () => {
    expect(dnsSubdomainErrors("Web")).toEqual([
      "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    ]);
  });
  test("a label with two examples joins them with or", () => {
    expect(dnsLabelErrors("A")[0]).toContain("(e.g. 'my-name',  or '123-abc', regex used for validation is");
  });
  test.each([
    ["a name of 254 characters", dnsSubdomainErrors, long(254), /^must be no more than 253 characters$/],
    ["an empty subdomain", dnsSubdomainErrors, "", /RFC 1123 subdomain/],
    ["a subdomain with a double dot", dnsSubdomainErrors, "a..b", /RFC 1123 subdomain/],
    ["a subdomain with a newline at its end", dnsSubdomainErrors, "a\n", /RFC 1123 subdomain/],
    ["a label with dots", dnsLabelErrors, "a.b", /^must not contain dots$/],
    ["a label of 64", dnsLabelErrors, long(64), /^must be no more than 63 characters$/],
    ["a service that starts with a digit", dns1035LabelErrors, "1a", /DNS-1035 label/],
    ["a dot as a path segment", pathSegmentErrors, ".", /^may not be '\.'$/],
    ["two dots as a path segment", pathSegmentErrors, "..", /^may not be '\.\.'$/],
    ["a slash in a path segment", pathSegmentErrors, "a/b", /^may not contain '\/'$/],
    ["a percent sign in a path segment", pathSegmentErrors, "a%b", /^may not contain '%'$/],
    ["two slashes in a key", qualifiedNameErrors, "a/b/c", /^a valid label key must consist of/],
    ["an empty prefix", qualifiedNameErrors, "/b", /^prefix part must be non-empty$/],
    ["a bad prefix", qualifiedNameErrors, "A_/b", /^prefix part a lowercase RFC 1123/],
    ["an empty name", qualifiedNameErrors, "a/", /^name part must be non-empty$/],
    ["a key of 64", qualifiedNameErrors, long(64), /^name part must be no more than 63 bytes$/],
    ["a label value of 64", labelValueErrors, long(64), /^must be no more than 63 bytes$/],
    ["a label value of 40 characters that are 80 bytes", labelValueErrors, "ü".repeat(40), /no more than 63/],
    ["a label value that ends with a dash", labelValueErrors, "a-", /^a valid label must be an empty string/],
    ["a C identifier with a dash", cIdentifierErrors, "a-b", /C identifier/],
    ["a variable that starts with a digit", envVarNameErrors, "1a", /must not start with a digit/],
    ["a variable with two dots first", envVarNameErrors, "..a", /^must not start with '\.\.'$/],
    ["a variable with an equals sign", relaxedEnvVarNameErrors, "a=b", /printable ASCII/],
    ["an empty variable", relaxedEnvVarNameErrors, "", /must be non-empty/],
    ["a config key with a slash", configMapKeyErrors, "a/b", /a valid config key/],
    ["the config key ..", configMapKeyErrors, "..", /^must not be '\.\.'$/],
    ["a port name in capitals", portNameErrors, "HTTP", /only alpha-numeric/],
    ["a port name of digits", portNameErrors, "80", /at least one letter/],
    ["a port name with two hyphens", portNameErrors, "a--b", /consecutive hyphens/],
    ["a port name that starts with a hyphen", portNameErrors, "-a", /begin or end with a hyphen/],
    ["a port name of 16", portNameErrors, long(16), /^must be no more than 15 characters$/],
    ["a percent without a sign", percentErrors, "5", /ending '%'/],
  ])("%s", (_what, check, value, message) => {
    expect(
      check(value).some((text) => message.test(text)),
      check(value).join(),
    ).toBe(true);
  });
});

test("a generateName may end with a dash, a name may not", () => {
  expect(generateNameErrors("dnsSubdomain", "web-")).toEqual([]);
  expect(generateNameErrors("dnsLabel", "web-")).toEqual([]);
  expect(nameErrors("dnsLabel", "web-")).toHaveLength(1);
  expect(generateNameErrors("dnsSubdomain", "Web-")).toHaveLength(1);
  expect(generateNameErrors("pathSegment", ".")).toEqual([]);
});

test("ports run from 1 to 65535", () => {
  expect(portNumberErrors(0)).toEqual(["must be between 1 and 65535, inclusive"]);
  expect(portNumberErrors(65535)).toEqual([]);
});

test("a name of a million letters is refused", () => {
  expect(dnsSubdomainErrors(`${"a-.".repeat(300_000)}!`).length).toBeGreaterThan(0);
  expect(qualifiedNameErrors(`${"a".repeat(1_000_000)}!`).length).toBeGreaterThan(0);
});

import { describe, expect, test } from "vitest";
import { parseSigningRequest } from "./signingRequest.ts";

/** Requests by OpenSSL 3: P-256 with DNS and IP names, RSA with email and URI names, Ed25519 without names. */
const ecdsa = `-----BEGIN CERTIFICATE REQUEST-----
MIIBLzCB1gIBADAwMRUwEwYDVQQKDAxzeXN0ZW06bm9kZXMxFzAVBgNVBAMMDnN5
c3RlbTpub2RlOm4xMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEMusNRU1WBxJS
EK4Te3xuFNZehK5tgWnxCDEmghLcZlgSx8bgCfPp4EzwC6bxS35CTMLjSL9KCfhC
1SPspzL/hqBEMEIGCSqGSIb3DQEJDjE1MDMwMQYDVR0RBCowKIIObjEuZXhhbXBs
ZS5jb22HBAoAAAGHEP0AAAAAAAAAAAAAAAAAAAEwCgYIKoZIzj0EAwIDSAAwRQIh
AOaUa7DCZSiZnkZXyoxjkjHMJxGhu0dNx8jm10HrGjqwAiB3pzYKVt3BnOInSIn/
uL0dmM0yns505a9vk0x9wwSuJw==
-----END CERTIFICATE REQUEST-----`;
const rsa = `-----BEGIN CERTIFICATE REQUEST-----
MIICpjCCAY4CAQAwJjEKMAgGA1UECgwBYTEKMAgGA1UECgwBYjEMMAoGA1UEAwwD
YW5uMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAut14bwiuMHWGfHWu
Z/PMLr7KtM4IKDMbYrZTFbGN6aWMv5MaqHDjxCbZE+pUZZgBA/8N1nlMTtQMAsSv
emwM6dtgURJ8CmUcQglHnxh2R2TM//uN7+9VVjMMNmME8x6FK70x1GvxC6jweyHi
2cxL3Na0G3LdBjyXXpeiy8JWRNjUfZw+JFCjE7iAIwaP2IQig5a4f495d94B7+WQ
9RLx1rJCfShd+yNR8vdqzqYedqLQHE1M2fftLiOT4efXBm2G4gU3h2o9dbJI7e6d
C3k145Ub0BCoBOd/3GJZ5udKNousQ2D4syxInpWo9rtYhvLZAGKIlWAqxrVZqZdF
ten37wIDAQABoDswOQYJKoZIhvcNAQkOMSwwKjAoBgNVHREEITAfgQ9hbm5AZXhh
bXBsZS5jb22GDHNwaWZmZTovL3gveTANBgkqhkiG9w0BAQsFAAOCAQEAmKbNikgN
nMh4xGcAf+gWq9vU/IuJSrRN7rSx2rxxF/QGIcddKIgZPV4Wf/mu7hH7/TSK0PAt
xPZgWBDQCGyAb5YrJHrRyAhiUiGgpNBLZn2JuQByCHPSyb4ev78iavZZ7+P/Ouw4
4xnEcOGLbjRUS5rTF6pwX2qhAQP/T6A4zAzlW5ojK15JIk3/xoeLmWQh7lZ+oU9j
ZTfEmJni2Xn93oBlfT6vp0ccvEcKfygglsrg+BoRe8jfJHjSNuho0iKp1bNZQyMO
d8vXgKNOAZksTJ6vmIxbuDBqZCSVLp/k5NHYujG7AcvtEN+Dx25zUgT0DYGmbPut
qIf+QkLkIacetQ==
-----END CERTIFICATE REQUEST-----`;
const ed25519 = `-----BEGIN CERTIFICATE REQUEST-----
MIGMMEACAQAwDTELMAkGA1UEAwwCZWQwKjAFBgMrZXADIQBIyOOKhur5SzIVyrea
KIGBK3CLtUJ3EwfoFNIdMbZFB6AAMAUGAytlcANBAJ/vKEnx/j/8T4Xodm0SinUi
Nm5tuBy7R8KjqEcIc+AnglB02gjiikq8yEMrrTioAE79qLZytLQsFNhtjn3eNgU=
-----END CERTIFICATE REQUEST-----`;

const namesIn = (pem: string): Record<string, string[]> =>
  Object.fromEntries(
    Object.entries(parseSigningRequest(pem).names).map(([type, names]) => [
      type,
      names.map((name) => name.subarray(2).toString("latin1")),
    ]),
  );

describe("a certificate signing request of OpenSSL", () => {
  test.each([
    ["P-256", ecdsa, "system:node:n1", ["system:nodes"]],
    ["RSA", rsa, "ann", ["a", "b"]],
    ["Ed25519", ed25519, "ed", []],
  ])("%s has its subject", (_, pem, commonName, organizations) => {
    expect(parseSigningRequest(pem)).toMatchObject({ commonName, organizations });
  });

  test("has its alternative names by type", () => {
    const v6 = Buffer.from("fd000000000000000000000000000001", "hex").toString("latin1");
    expect(namesIn(ecdsa)).toEqual({ dns: ["n1.example.com"], ip: ["\n\0\0\x01", v6], email: [], uri: [] });
    expect(namesIn(rsa)).toEqual({ dns: [], ip: [], email: ["ann@example.com"], uri: ["spiffe://x/y"] });
    expect(namesIn(ed25519)).toEqual({ dns: [], ip: [], email: [], uri: [] });
  });
});

describe("rejected are", () => {
  const der = Buffer.from(ecdsa.replace(/-----[^-]+-----|\s/g, ""), "base64");
  const pemOf = (bytes: Buffer): string =>
    `-----BEGIN CERTIFICATE REQUEST-----\n${bytes.toString("base64")}\n-----END CERTIFICATE REQUEST-----`;

  test("other PEM blocks", () => {
    expect(() => parseSigningRequest(ecdsa.replaceAll("CERTIFICATE REQUEST", "CERTIFICATE"))).toThrow(
      "PEM block type must be CERTIFICATE REQUEST",
    );
  });

  test("requests whose content was changed after the signature", () => {
    const changed = Buffer.from(der);
    const at = changed.indexOf("system:node:n1") + "system:node:n".length;
    changed.write("2", at);
    expect(() => parseSigningRequest(pemOf(changed))).toThrow("unable to verify certificate request signature");
  });

  test("every truncation", () => {
    for (let length = 0; length < der.length; length++) {
      expect(() => parseSigningRequest(pemOf(der.subarray(0, length)))).toThrow();
    }
  });
});

import { expect, test } from "vitest";
import { proxyFromEnv } from "./proxyFromEnv.ts";

const proxy = "http://proxy:3128";

test.each<[string, string, Record<string, string>, string | undefined]>([
  ["nothing is set", "https://api.example.com", {}, undefined],
  ["a proxy for TLS", "https://api.example.com", { HTTPS_PROXY: proxy }, proxy],
  ["in small letters", "https://api.example.com", { https_proxy: proxy }, proxy],
  ["a proxy for plain HTTP is another", "https://api.example.com", { HTTP_PROXY: proxy }, undefined],
  ["a proxy for plain HTTP", "http://api.example.com", { HTTP_PROXY: proxy }, proxy],
  ["without a scheme", "https://api.example.com", { HTTPS_PROXY: "proxy:3128" }, proxy],
  ["this machine", "https://127.0.0.1:6443", { HTTPS_PROXY: proxy }, undefined],
  ["this machine by name", "https://localhost:6443", { HTTPS_PROXY: proxy }, undefined],
  ["this machine by IPv6", "https://[::1]:6443", { HTTPS_PROXY: proxy }, undefined],
  ["everything excepted", "https://api.example.com", { HTTPS_PROXY: proxy, NO_PROXY: "*" }, undefined],
  ["a domain excepted", "https://api.example.com", { HTTPS_PROXY: proxy, NO_PROXY: "a.b, example.com" }, undefined],
  ["a domain is itself", "https://example.com", { HTTPS_PROXY: proxy, NO_PROXY: "example.com" }, undefined],
  ["what is below a dot is not itself", "https://example.com", { HTTPS_PROXY: proxy, NO_PROXY: ".example.com" }, proxy],
  ["half a name is no domain", "https://badexample.com", { HTTPS_PROXY: proxy, NO_PROXY: "example.com" }, proxy],
  ["an address excepted", "https://10.0.0.1:6443", { HTTPS_PROXY: proxy, NO_PROXY: "10.0.0.1" }, undefined],
  ["a range excepted", "https://10.1.2.3:6443", { HTTPS_PROXY: proxy, NO_PROXY: "10.0.0.0/8" }, undefined],
  ["another range", "https://11.1.2.3:6443", { HTTPS_PROXY: proxy, NO_PROXY: "10.0.0.0/8" }, proxy],
  ["an IPv6 range", "https://[fd00::1]:6443", { HTTPS_PROXY: proxy, NO_PROXY: "fd00::/8" }, undefined],
  ["another port", "https://api.example.com:6443", { HTTPS_PROXY: proxy, NO_PROXY: "api.example.com:443" }, proxy],
  ["that port", "https://api.example.com", { HTTPS_PROXY: proxy, NO_PROXY: "api.example.com:443" }, undefined],
])("%s", (_, server, env, expected) => {
  expect(proxyFromEnv(server, env)).toBe(expected);
});

import { expect, test } from "vitest";
import { parse } from "yaml";
import { partly } from "../../../testing/partly.ts";
import type { Node, Secret } from "../../model/kubernetes.generated.ts";
import { takenNetworks } from "./join.ts";
import { type JoinSettings, joinFiles, joinScript } from "./joinFiles.ts";

const settings: JoinSettings = {
  server: "https://192.0.2.10:6443",
  authority: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
  token: "abcdef.0123456789abcdef",
  expires: "2026-01-02T00:00:00Z",
  name: "gpu-1",
  podCidr: "10.244.3.0/24",
  clusterDns: "10.96.0.10",
};

const fileOf = (name: string, given = settings): string =>
  joinFiles(given).find(({ path }) => path.endsWith(name))?.content ?? "";

test("the kubelet authenticates its clients by the cluster, and asks it for their rights", () => {
  expect(parse(fileOf("config.yaml"))).toMatchObject({
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: "/etc/kubernetes/pki/ca.crt" },
    },
    authorization: { mode: "Webhook" },
    rotateCertificates: true,
  });
  expect(fileOf("ca.crt")).toBe(`${settings.authority}\n`);
});

test("the token is in a file that only root reads", () => {
  const withToken = joinFiles(settings).filter(({ content }) => content.includes(settings.token));
  expect(withToken.map(({ path, mode }) => [path, mode])).toEqual([["/etc/kubernetes/bootstrap-kubelet.conf", "0600"]]);
});

test("name and pod network are the node's; without them the machine and a network plugin decide", () => {
  expect(fileOf("kubelet.service")).toContain("--hostname-override=gpu-1 ");
  expect(fileOf("kubelet.service")).toContain("--node-labels=muster.dev/pod-network=10.244.3.0-24\n");
  expect(fileOf("10-muster.conflist")).toContain('"subnet": "10.244.3.0/24"');
  const bare = { ...settings, name: undefined, podCidr: undefined };
  expect(fileOf("kubelet.service", bare)).not.toMatch(/hostname-override|node-labels/);
  expect(fileOf("10-muster.conflist", bare)).toBe("");
});

test("the script writes each file before it starts the kubelet", () => {
  const script = joinScript(settings);
  for (const { path, mode, content } of joinFiles(settings))
    expect(script).toContain(`put ${path} ${mode} <<'END-OF-FILE'\n${content}END-OF-FILE\n`);
  expect(script.lastIndexOf("END-OF-FILE")).toBeLessThan(script.indexOf("systemctl restart kubelet"));
});

test("networks of nodes and of tokens that were not used yet are taken", () => {
  const nodes = [
    { metadata: { name: "a", labels: { "muster.dev/pod-network": "10.244.1.0-24" } } },
    { metadata: { name: "b" }, spec: { podCIDR: "10.244.2.0/24", podCIDRs: ["10.244.2.0/24", "fd00::/64"] } },
  ];
  const secrets = [{ metadata: { name: "t", annotations: { "muster.dev/pod-network": "10.244.3.0/24" } } }];
  const taken = takenNetworks(nodes.map(partly<Node>), secrets.map(partly<Secret>));
  expect([...taken]).toEqual(expect.arrayContaining(["10.244.1.0/24", "10.244.2.0/24", "10.244.3.0/24"]));
});

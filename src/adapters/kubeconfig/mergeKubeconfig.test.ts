import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { mergeKubeconfig } from "./mergeKubeconfig.ts";

const own = kubeconfig("https://127.0.0.1:6443", "OURS");

function kubeconfig(server: string, authority: string): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "muster", cluster: { server, "certificate-authority-data": authority } }],
    users: [{ name: "muster-admin", user: { "client-key-data": `key of ${authority}` } }],
    contexts: [{ name: "muster", context: { cluster: "muster", user: "muster-admin", namespace: "default" } }],
    "current-context": "muster",
  });
}

const production = `# my clusters
apiVersion: v1
kind: Config
clusters:
  - name: prod # do not touch
    cluster: { server: https://prod }
users:
  - name: me
    user: { token: secret }
contexts:
  - name: prod
    context: { cluster: prod, user: me }
current-context: prod
`;

interface Parsed {
  clusters: { name: string; cluster: { server: string } }[];
  users: { name: string }[];
  contexts: { name: string; context: { cluster: string; user: string; namespace: string } }[];
  "current-context": string;
}
const parsed = (text: string): Parsed => parse(text) as Parsed;

describe("a kubeconfig that is merged into a file", () => {
  test("keeps every other cluster, user, context and comment, and becomes the current context", () => {
    const { text, context } = mergeKubeconfig(production, own, "mine");
    const { clusters, users, contexts, "current-context": current } = parsed(text);
    expect(clusters.map(({ name }) => name)).toEqual(["prod", "muster"]);
    expect(users.map(({ name }) => name)).toEqual(["me", "muster-admin"]);
    expect(contexts.map(({ name }) => name)).toEqual(["prod", "muster"]);
    expect([context, current]).toEqual(["muster", "muster"]);
    expect(text).toContain("# my clusters");
    expect(text).toContain("# do not touch");
  });

  test("of the same cluster again replaces its entry, and keeps the namespace and the current context", () => {
    const first = mergeKubeconfig(production, own, "mine").text;
    const changed = first
      .replace("namespace: default", "namespace: research")
      .replace("current-context: muster", "current-context: prod");
    const {
      clusters,
      contexts,
      "current-context": current,
    } = parsed(mergeKubeconfig(changed, kubeconfig("https://127.0.0.1:7777", "OURS"), "mine").text);
    expect(clusters.map(({ cluster }) => cluster.server)).toEqual(["https://prod", "https://127.0.0.1:7777"]);
    expect(contexts[1]?.context.namespace).toBe("research");
    expect(current).toBe("prod");
  });

  test("does not replace a context of the same name of another cluster", () => {
    const other = kubeconfig("https://127.0.0.1:9999", "THEIRS");
    const { text, context } = mergeKubeconfig(other, own, "mine");
    expect(context).toBe("muster-2");
    expect(parsed(text).contexts.map((each) => [each.name, each.context.cluster, each.context.user])).toEqual([
      ["muster", "muster", "muster-admin"],
      ["muster-2", "muster-2", "muster-2-admin"],
    ]);
  });

  test("is written as it is into an empty file", () => {
    expect(mergeKubeconfig("\n", own, "mine").text).toBe(own);
  });

  test("creates the lists that the file lacks", () => {
    expect(parsed(mergeKubeconfig("kind: Config\nclusters: []\n", own, "mine").text).contexts[0]?.name).toBe("muster");
  });

  test.each(["{", "- a\n- b\n", "text"])("is refused where the file is no kubeconfig: %j", (text) => {
    expect(() => mergeKubeconfig(text, own, "mine")).toThrow(/^the kubeconfig mine is not/);
  });
});

/** Discovery, OpenAPI and the paths beside the API. */
import type { Loose } from "../apiUnderTest.ts";
import type { Probe } from "../probe.ts";

const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

export async function discovery(probe: Probe): Promise<void> {
  for (const path of ["/version", "/api"]) await probe.compare(`path ${path}`, "GET", path);
  await probe.compare("groups", "GET", "/apis", undefined, { keep: byName });
  await probe.compare("order of groups", "GET", "/apis", undefined, {
    keep: (body) => body.groups.map(({ name }: Loose) => name),
  });
  for (const path of ["/api", "/apis"]) {
    const headers = { Accept: aggregated };
    await probe.compare(`aggregated ${path}`, "GET", path, undefined, { headers, keep: byName });
  }
  await probe.compare("core", "GET", "/api/v1", undefined, { keep: byName });
  const { real, ours } = await probe.both("GET", "/apis");
  const served = new Set(ours.json.groups.map(({ name }: Loose) => name));
  for (const group of real.json.groups.filter(({ name }: Loose) => served.has(name))) {
    await probe.compare(`group ${group.name}`, "GET", `/apis/${group.name}`, undefined, { keep: byName });
    for (const { groupVersion } of group.versions) {
      await probe.compare(`version ${groupVersion}`, "GET", `/apis/${groupVersion}`, undefined, { keep: byName });
    }
  }
  const index = await probe.compare("openapi index", "GET", "/openapi/v3", undefined, {
    keep: (body) => Object.keys(body.paths).sort(),
  });
  await probe.compare("openapi v2", "GET", "/openapi/v2", undefined, {
    keep: ({ definitions }) => Object.keys(definitions).sort(),
  });
  const documents = Object.keys(index.real.json.paths).filter((path) => path in index.ours.json.paths);
  for (const path of documents) {
    const operations = (item: object) =>
      Object.keys(item)
        .filter((method) => method !== "parameters")
        .sort();
    await probe.compare(`openapi paths of ${path}`, "GET", `/openapi/v3/${path}`, undefined, {
      keep: ({ paths }) =>
        Object.fromEntries(Object.entries<object>(paths).map(([at, item]) => [at, operations(item)])),
    });
    await probe.compare(`openapi schemas of ${path}`, "GET", `/openapi/v3/${path}`, undefined, {
      keep: ({ components }) => components.schemas,
    });
  }
  const plain =
    "/ /healthz /livez /readyz /healthz/ping /healthz/etcd /readyz?exclude=etcd /logs /openapi /api/ /apis/ /apis/apps/ /.well-known/openid-configuration";
  for (const path of plain.split(" ")) await probe.compare(`path ${path}`, "GET", path);
}

/** Lists of a discovery document as maps, so that one missing entry is one difference. */
function byName(value: Loose): Loose {
  if (Array.isArray(value)) return value.map(byName);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries<Loose>(value).map(([key, inner]) => {
      if (!Array.isArray(inner)) return [key, byName(inner)];
      if (key === "verbs" || key === "shortNames" || key === "categories") return [key, [...inner].sort()];
      if (key === "groups" || key === "resources" || key === "subresources" || key === "items" || key === "versions") {
        return [key, Object.fromEntries(inner.map((item) => [nameOf(item), byName(item)]))];
      }
      return [key, byName(inner)];
    }),
  );
}

function nameOf(item: Loose): string {
  return item.name ?? item.resource ?? item.subresource ?? item.metadata?.name ?? item.version ?? "";
}

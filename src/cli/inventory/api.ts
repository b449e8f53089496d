/**
 * The inventory over HTTP, as a function from a request to a response, so that tests need no port. Everything except
 * `/health` requires the token. All numbers of a response come from one statement, with their age.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { type Context, Hono } from "hono";
import type { RunReport } from "../../control/inventory/runInventory.ts";
import type { InventorySnapshot } from "../../decide/inventory/inventorySnapshot.ts";
import { ClusterIndex } from "../../decide/inventory/nodeUse.ts";
import type { Read } from "../../decide/inventory/planAvailability.ts";
import { nodeRulesDefault, unschedulableText } from "../../decide/inventory/schedulableNode.ts";
import { heartbeatClockMs } from "../../decide/inventory/trustNodes.ts";
import { isObject, type JsonObject } from "../../model/objects/json.ts";
import type { Answer, DiskView, DriftView, InventoryReader, RunView } from "../../ports/database.ts";
import { schemas } from "./schemas.ts";
import { availabilityRows, diskState } from "./show.ts";

export interface ApiPorts {
  readonly reader: InventoryReader;
  readonly token: string;
  /** Starts a run; undefined where this process may only read. */
  readonly run?: (options: { readonly dryRun: boolean; readonly phase: string }) => Promise<RunReport>;
  readonly cluster?: () => Promise<Read<InventorySnapshot>>;
  readonly nowMs: () => number;
}

type Status = 200 | 202 | 400 | 401 | 403 | 404 | 409 | 503;

export function inventoryApi(ports: ApiPorts): Hono {
  const { reader } = ports;
  const app = new Hono();
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  const wanted = digest(ports.token);
  const fail = (context: Context, status: Status, code: string, message: string) =>
    context.json({ error: { code, message } }, status);
  const answer = async <T>(context: Context, asked: Promise<Answer<T>>, shape: (value: T) => object | undefined) => {
    const found = await asked;
    if (!found.ok) return fail(context, 503, "database-unavailable", found.why);
    const body = shape(found.value);
    return body === undefined ? fail(context, 404, "not-found", "there is no object of this name") : context.json(body);
  };
  app.use("*", async (context, next) => {
    context.header("cache-control", "no-store");
    context.header("x-content-type-options", "nosniff");
    const { path, url } = context.req;
    if (/%00/.test(url))
      return fail(context, 400, "bad-request", "the path contains a zero byte, which no name may have");
    if (path === "/health" || path === "/") return next();
    const given = /^Bearer (.+)$/.exec(context.req.header("authorization") ?? "")?.[1] ?? "";
    if (!timingSafeEqual(digest(given), wanted)) {
      context.header("www-authenticate", "Bearer");
      return fail(context, 401, "token-refused", "send the token as `Authorization: Bearer <token>`");
    }
    return next();
  });
  app.get("/health", (context) => context.json({ status: "ok" }));
  app.get("/", (context) => context.json({ name: "muster inventory", schemas: "/v1/schemas" }));
  app.get("/v1/schemas", (context) => context.json(schemas));
  app.get("/v1/gpu/availability", (context) =>
    answer(context, reader.availability(), (view) => ({
      read_at: isoOf(view.readMs),
      types: availabilityRows(view),
    })),
  );
  app.get("/v1/cluster/status", (context) =>
    answer(context, reader.availability(), (view) => {
      const types = availabilityRows(view);
      // MIG slices are already counted with their parent type.
      const whole = types.filter(({ parent, max_per_node }) => parent === null && max_per_node > 0);
      const sum = (of: "total" | "free" | "in_use" | "queued"): number => whole.reduce((all, row) => all + row[of], 0);
      const stale = types.some((row) => row.stale);
      return {
        read_at: isoOf(view.readMs),
        total: sum("total"),
        free: sum("free"),
        in_use: sum("in_use"),
        queued: sum("queued"),
        stale,
        types,
      };
    }),
  );
  app.get("/v1/disks", (context) => {
    const { user, deleted } = context.req.query();
    const filter = { ...(user === undefined ? {} : { user }), deleted: deleted === "true" };
    return answer(context, reader.disks(filter), (disks) => ({ disks: disks.map(diskShape) }));
  });
  app.get("/v1/disks/:name", (context) => {
    const { user } = context.req.query();
    const name = context.req.param("name");
    return answer(context, reader.disks(user === undefined ? {} : { user }), (disks) => {
      const found = disks.find(({ diskName }) => diskName === name);
      return found === undefined ? undefined : diskShape(found);
    });
  });
  app.get("/v1/inventory/runs", async (context) => {
    const limit = limitOf(context.req.query("limit"));
    if (limit === undefined) return fail(context, 400, "bad-number", "limit must be a number from 1 to 1000");
    const paused = await reader.paused();
    return answer(context, reader.runs(limit), (runs) => ({
      runs: runs.map(runShape),
      paused: paused.ok && paused.value !== undefined,
    }));
  });
  app.get("/v1/inventory/runs/:id", (context) =>
    answer(context, reader.run(context.req.param("id")), (run) => (run === undefined ? undefined : runShape(run))),
  );
  const driftOf = async (context: Context, open: boolean) => {
    const { entity, entity_id, run_id, limit: text } = context.req.query();
    const limit = limitOf(text);
    if (limit === undefined) return fail(context, 400, "bad-number", "limit must be a number from 1 to 1000");
    const filter = {
      limit,
      open,
      ...(entity === undefined ? {} : { entity }),
      ...(entity_id === undefined ? {} : { entityId: entity_id }),
      ...(run_id === undefined ? {} : { runId: run_id }),
    };
    return answer(context, reader.drift(filter), (drift) => ({ drift: drift.map(driftShape) }));
  };
  app.get("/v1/inventory/drift", (context) => driftOf(context, context.req.query("open") === "true"));
  app.get("/v1/inventory/conflicts", (context) => driftOf(context, true));
  app.get("/v1/inventory/nodes", async (context) => {
    const read = (await ports.cluster?.()) ?? { ok: false as const, why: "this process is not connected to a cluster" };
    if (!read.ok) return fail(context, 503, "cluster-unavailable", read.why);
    const index = new ClusterIndex(read.value, "GpuType");
    const clockMs = heartbeatClockMs(read.value.nodes, ports.nowMs());
    const nodes = index.nodes.flatMap((node) => {
      const type = node.metadata.labels?.["GpuType"];
      if (type === undefined) return [];
      const use = index.use(node, "nvidia.com/gpu", nodeRulesDefault, clockMs);
      const problem = use.unknown ?? (use.unschedulable === undefined ? null : unschedulableText(use.unschedulable));
      return [
        {
          name: use.name,
          type,
          instance: use.instanceId ?? "",
          gpus: use.allocatable,
          used: use.used,
          free: use.free,
          problem,
        },
      ];
    });
    return context.json({ revision: read.value.revision, nodes });
  });
  app.post("/v1/inventory/runs", async (context) => {
    if (ports.run === undefined) return fail(context, 403, "read-only", "this process starts no runs");
    const body = bodyIn(await context.req.text());
    const { dryRun = false, phase = "all" } = body ?? {};
    if (
      body === undefined ||
      typeof dryRun !== "boolean" ||
      typeof phase !== "string" ||
      !["all", "gpu", "disks"].includes(phase)
    ) {
      return fail(context, 400, "bad-request", "send { dryRun: boolean, phase: all, gpu or disks }");
    }
    const report = await ports.run({ dryRun, phase });
    return context.json(report, report.status === "skipped" ? 409 : 200);
  });
  // Streams availability: an event for every change, and periodic comments so that proxies keep the connection open.
  app.get("/v1/gpu/availability/events", (context) => {
    const { signal } = context.req.raw;
    let last = "";
    const encoder = new TextEncoder();
    const stream = new ReadableStream<Uint8Array>({
      start: async (controller) => {
        while (!signal.aborted) {
          const found = await reader.availability();
          const text = found.ok
            ? JSON.stringify(availabilityRows(found.value).map(({ age_seconds: _, ...row }) => row))
            : last;
          controller.enqueue(encoder.encode(text === last ? ": still\n\n" : `event: availability\ndata: ${text}\n\n`));
          last = text;
          await new Promise((done) => setTimeout(done, 2_000).unref());
        }
        controller.close();
      },
    });
    context.header("content-type", "text/event-stream");
    return context.body(stream);
  });
  // Registered after `events`, which is not a GPU type.
  app.get("/v1/gpu/availability/:type", (context) => {
    const wanted = context.req.param("type").toLowerCase();
    return answer(context, reader.availability(), (view) => {
      const found = availabilityRows(view).find(({ type }) => type.toLowerCase() === wanted);
      return found === undefined ? undefined : { read_at: isoOf(view.readMs), ...found };
    });
  });
  app.notFound((context) => fail(context, 404, "not-found", `there is no ${context.req.method} ${context.req.path}`));
  app.onError((error, context) => fail(context, 503, "failed", error.message));
  return app;
}

/** An empty body means no options. A body that is not an object is a bad request. */
function bodyIn(text: string): JsonObject | undefined {
  try {
    const value: unknown = text === "" ? {} : JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function limitOf(text: string | undefined): number | undefined {
  if (text === undefined) return 50;
  const limit = Number(text);
  return Number.isInteger(limit) && limit >= 1 && limit <= 1000 ? limit : undefined;
}

function diskShape(disk: DiskView): object {
  return {
    user: disk.userId,
    name: disk.diskName,
    size_gb: disk.sizeGb,
    disk_size: disk.diskSize,
    state: diskState(disk),
    in_use: disk.inUse,
    reservation_id: disk.reservationId,
    is_backing_up: disk.isBackingUp,
    is_deleted: disk.isDeleted,
    delete_date: disk.deleteDate,
    snapshot_count: disk.snapshotCount,
    last_snapshot_at: isoOrNull(disk.lastSnapshotMs),
    created_at: isoOf(disk.createdMs),
    last_used: isoOrNull(disk.lastUsedMs),
    volume_id: disk.volumeId,
    volume_state: disk.volumeState,
    conflicts: disk.conflicts,
  };
}

function runShape(run: RunView): object {
  return {
    run_id: run.runId,
    kind: run.kind,
    status: run.status,
    started_at: isoOf(run.startedMs),
    finished_at: isoOrNull(run.finishedMs),
    fence: run.fence,
    account: run.identity?.account ?? null,
    region: run.identity?.region ?? null,
    counters: run.counters,
    error: run.error,
  };
}

function driftShape(event: DriftView): object {
  return {
    id: event.id,
    run_id: event.runId,
    at: isoOf(event.atMs),
    closed_at: isoOrNull(event.closedMs),
    entity: event.entity,
    entity_id: event.entityId,
    field: event.field,
    old: event.old,
    new: event.new,
    action: event.action,
    reason: event.reason,
  };
}

function isoOf(atMs: number): string {
  return new Date(atMs).toISOString();
}

function isoOrNull(atMs: number | null): string | null {
  return atMs === null ? null : isoOf(atMs);
}

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { UsageError, UserError } from "../../model/userError.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ModelSource } from "../../window/feed.ts";
import { isLoopback, startWindow, type WindowServer, type WindowServerOptions } from "../../window/startWindow.ts";
import { readStaticFiles, type StaticFiles } from "../../window/staticFiles.ts";
import type { QueryResult } from "../../window/windowApp.ts";
import { parsePort } from "../cluster/parsePort.ts";

/** Where the window is served. */
export interface WindowFlags {
  /** False with `--no-dashboard`. */
  readonly dashboard?: boolean;
  readonly dashboardPort?: string;
  readonly dashboardHost?: string;
  readonly dashboardTlsCert?: string;
  readonly dashboardTlsKey?: string;
  /** The name by which a proxy that ends TLS is reached. */
  readonly behindProxy?: string;
}

export const usualWindowPort = 6480;

export type WindowContent = Pick<WindowServerOptions, "questions" | "actions" | "mode" | "isDemo"> & {
  readonly source: ModelSource;
  readonly clock: Clock;
};

/** Where findings of a job come from. */
interface WhySource {
  why(name: string): object | undefined;
}

export function whyAnswer(source: WhySource, name: string): QueryResult {
  const value = source.why(name);
  if (value !== undefined) return { ok: true, value };
  return { ok: false, status: 404, code: "window-not-waiting", message: "no job of that name has pods to place" };
}

/** Checks the flags without starting anything. */
export function windowListen(flags: WindowFlags): WindowServerOptions["listen"] & { readonly isUsual: boolean } {
  const { dashboardHost: host = "127.0.0.1", dashboardPort, dashboardTlsCert, dashboardTlsKey, behindProxy } = flags;
  const isSafe = isLoopback(host) || dashboardTlsCert !== undefined || behindProxy !== undefined;
  if (!isSafe) {
    throw new UsageError(
      "dashboard-host-unsafe",
      `--dashboard-host ${host} would send the token in the clear`,
      "pass --dashboard-tls-cert and --dashboard-tls-key, or --behind-proxy with the name of a proxy that ends TLS",
    );
  }
  if ((dashboardTlsCert === undefined) !== (dashboardTlsKey === undefined)) {
    throw new UsageError(
      "dashboard-tls-incomplete",
      "--dashboard-tls-cert and --dashboard-tls-key belong together",
      "pass both, each with a PEM file",
    );
  }
  const tls =
    dashboardTlsCert === undefined || dashboardTlsKey === undefined
      ? undefined
      : { cert: pemOf(dashboardTlsCert), key: pemOf(dashboardTlsKey) };
  return {
    host,
    port: dashboardPort === undefined ? usualWindowPort : parsePort(dashboardPort),
    isUsual: dashboardPort === undefined,
    ...(tls !== undefined && { tls }),
    ...(behindProxy !== undefined && { names: [behindProxy], isBehindProxy: true }),
  };
}

/** Serves the window. The usual port may be taken; one that was asked for must not be. */
export async function serveWindow(flags: WindowFlags, content: WindowContent): Promise<WindowServer> {
  const { isUsual, ...listen } = windowListen(flags);
  const options: WindowServerOptions = {
    ...content,
    files: builtFiles(),
    token: randomBytes(32).toString("base64url"),
    epoch: randomBytes(4).toString("hex"),
    version: process.env["npm_package_version"] ?? "0.1.0",
    listen,
  };
  try {
    return await startWindow(options);
  } catch (error) {
    if (!isUsual || !(error instanceof UserError) || error.code !== "port-in-use") throw error;
    return startWindow({ ...options, listen: { ...listen, port: 0 } });
  }
}

/** Three folders deep, as the bundled program is, so that one path fits both. */
const filesFolder = fileURLToPath(new URL("../../../dist/dashboard/", import.meta.url));

function builtFiles(): StaticFiles {
  try {
    return readStaticFiles(filesFolder);
  } catch (cause) {
    throw new UserError(
      "dashboard-missing",
      "the page of the window was not built",
      "run `npm run build`; `muster up --no-dashboard` starts without it",
      { cause },
    );
  }
}

function pemOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new UsageError("dashboard-tls-unreadable", `cannot read ${file}: ${why}`, "name a PEM file", { cause });
  }
}

import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { isObject, type JsonObject } from "../../model/objects/json.ts";
import { UserError } from "../../model/userError.ts";
import type { CredentialSource, Credentials } from "../kubeHttp/connection.ts";
import { type Entry, invalidKubeconfig } from "./document.ts";

/** Credentials are refreshed this long before they expire, so that none expires in flight. */
const earlyMs = 10_000;

/** A plug-in that waits for input must not block the process forever. */
const runMsMax = 60_000;

const outputBytesMax = 1024 * 1024;

export interface ExecContext {
  readonly where: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly nowMs: () => number;
  /** The cluster information for the plug-in, if its entry has provideClusterInfo. */
  readonly cluster: JsonObject;
}

/**
 * Credentials from an exec plug-in, as cloud providers use them. It is run when credentials are first needed, when they
 * expire, and when the server rejects them.
 */
export function execPlugin(user: Entry, exec: JsonObject, context: ExecContext): CredentialSource {
  const plan = planOf(user, exec, context);
  return async () => {
    const output = await run(plan, context);
    return credentialsIn(plan, output, context.nowMs());
  };
}

interface PluginCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly apiVersion: string;
  readonly hint: string;
}

function planOf(user: Entry, exec: JsonObject, { where, cluster }: ExecContext): PluginCommand {
  const refuse = (problem: string): UserError =>
    invalidKubeconfig(where, `has an exec plug-in of user ${JSON.stringify(user.name)} ${problem}`);
  const { command, apiVersion, installHint, interactiveMode } = exec;
  if (typeof command !== "string" || command === "") throw refuse("without a command");
  if (typeof apiVersion !== "string" || !/^client\.authentication\.k8s\.io\/v1(beta1)?$/.test(apiVersion)) {
    throw refuse(`with an unsupported apiVersion: ${JSON.stringify(apiVersion ?? "")}`);
  }
  if (interactiveMode === "Always") throw refuse("that requires an interactive terminal");
  const args = exec["args"] ?? [];
  if (!Array.isArray(args) || !args.every((arg) => typeof arg === "string")) throw refuse("whose args are not strings");
  const env: Record<string, string> = {};
  for (const pair of Array.isArray(exec["env"]) ? exec["env"] : []) {
    if (!isObject(pair) || typeof pair["name"] !== "string") throw refuse("whose env has an entry without a name");
    env[pair["name"]] = String(pair["value"] ?? "");
  }
  const spec = { interactive: false, ...(exec["provideClusterInfo"] === true ? { cluster } : {}) };
  env["KUBERNETES_EXEC_INFO"] = JSON.stringify({ apiVersion, kind: "ExecCredential", spec });
  // A bare name is looked up in PATH; a path is relative to the kubeconfig that has it.
  const found = command.includes("/") || command.includes("\\") ? resolve(user.folder, command) : command;
  const hint = typeof installHint === "string" ? installHint.trim() : "";
  return { command: found, args, env, apiVersion, hint };
}

function run({ command, args, env, hint }: PluginCommand, context: ExecContext): Promise<string> {
  return new Promise((settle, reject) => {
    const fail = (problem: string, cause?: unknown): void => {
      const cure = hint === "" ? `run ${[command, ...args].join(" ")} by hand and read its output` : hint;
      const message = `the credential plug-in ${command} ${problem}`;
      reject(new UserError("credential-plugin-failed", message, cure, { cause }));
    };
    const child = spawn(command, args, {
      env: { ...context.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: runMsMax,
      killSignal: "SIGKILL",
    });
    const output: Buffer[] = [];
    const stderr: Buffer[] = [];
    let bytes = 0;
    const startedMs = context.nowMs();
    const keep = (chunks: Buffer[]) => (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= outputBytesMax) chunks.push(chunk);
      else child.kill("SIGKILL");
    };
    child.stdout.on("data", keep(output));
    child.stderr.on("data", keep(stderr));
    child.on("error", (error) => fail(`cannot be run: ${error.message}`, error));
    child.on("close", (code, signal) => {
      if (code === 0) return settle(Buffer.concat(output).toString("utf8"));
      const said = Buffer.concat(stderr).toString("utf8").trim().slice(0, 500);
      const how =
        bytes > outputBytesMax
          ? `wrote more than ${outputBytesMax / 1_048_576} MiB`
          : signal === null
            ? `exited with code ${code}`
            : child.killed && context.nowMs() - startedMs >= runMsMax
              ? `did not end within ${runMsMax / 1000} s`
              : `was killed by ${signal}`;
      fail(`${how}${said === "" ? "" : `: ${said}`}`);
    });
  });
}

function credentialsIn({ command, apiVersion }: PluginCommand, output: string, nowMs: number): Credentials {
  const refuse = (problem: string, cause?: unknown): UserError => {
    const message = `the credential plug-in ${command} ${problem}`;
    return new UserError("credential-plugin-failed", message, `run ${command} by hand and read its output`, {
      cause,
    });
  };
  let answer: unknown;
  try {
    answer = JSON.parse(output);
  } catch (error) {
    throw refuse("returned no JSON", error);
  }
  const status = isObject(answer) && answer["kind"] === "ExecCredential" ? answer["status"] : undefined;
  if (!isObject(status)) throw refuse("returned no credentials");
  if (isObject(answer) && answer["apiVersion"] !== apiVersion) {
    throw refuse(`returned version ${String(answer["apiVersion"])} where ${apiVersion} was requested`);
  }
  const { token, clientCertificateData: certificate, clientKeyData: key, expirationTimestamp } = status;
  const hasToken = typeof token === "string" && token !== "";
  const hasPair = typeof certificate === "string" && typeof key === "string";
  if (!hasToken && !hasPair) throw refuse("returned neither a token nor a certificate with its key");
  const endsMs = typeof expirationTimestamp === "string" ? Date.parse(expirationTimestamp) : Number.NaN;
  return {
    ...(hasToken ? { authorization: `Bearer ${token.trim()}` } : {}),
    ...(hasPair ? { certificate, key } : {}),
    // Without an expiry they are used until the server rejects them.
    ...(Number.isNaN(endsMs) ? {} : { goodForMs: Math.max(0, endsMs - nowMs - earlyMs) }),
  };
}

import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { isObject, type JsonObject } from "../../model/objects/json.ts";
import { UserError } from "../../model/userError.ts";
import type { CredentialSource, Credentials } from "../kubeHttp/connection.ts";
import { type Entry, invalidKubeconfig } from "./document.ts";

/** Credentials are refreshed this long before they expire, so that none expires in flight. */
const earlyMs = 10_000;

/** A plug-in that waits for input that never comes must not hold the process for ever. */
const runMsMax = 60_000;

const outputBytesMax = 1024 * 1024;

export interface ExecContext {
  readonly where: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly nowMs: () => number;
  /** What the plug-in receives about the cluster, if its entry asks for that. */
  readonly cluster: JsonObject;
}

/**
 * Credentials from a program that the kubeconfig names, as clouds give them. It is run when they are needed first, when
 * they end, and when the server refuses them.
 */
export function execPlugin(user: Entry, exec: JsonObject, world: ExecContext): CredentialSource {
  const plan = planOf(user, exec, world);
  return async () => {
    const output = await run(plan, world);
    return credentialsIn(plan, output, world.nowMs());
  };
}

interface Plan {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly apiVersion: string;
  readonly hint: string;
}

function planOf(user: Entry, exec: JsonObject, { where, cluster }: ExecContext): Plan {
  const refuse = (problem: string): UserError =>
    invalidKubeconfig(where, `has an exec plug-in of user ${JSON.stringify(user.name)} ${problem}`);
  const { command, apiVersion, installHint, interactiveMode } = exec;
  if (typeof command !== "string" || command === "") throw refuse("without a command");
  if (typeof apiVersion !== "string" || !/^client\.authentication\.k8s\.io\/v1(beta1)?$/.test(apiVersion)) {
    throw refuse(`of a version that is not known: ${JSON.stringify(apiVersion ?? "")}`);
  }
  if (interactiveMode === "Always") throw refuse("that needs a person at a terminal");
  const args = exec["args"] ?? [];
  if (!Array.isArray(args) || !args.every((arg) => typeof arg === "string")) throw refuse("whose args are no texts");
  const env: Record<string, string> = {};
  for (const pair of Array.isArray(exec["env"]) ? exec["env"] : []) {
    if (!isObject(pair) || typeof pair["name"] !== "string") throw refuse("whose env has an entry without a name");
    env[pair["name"]] = String(pair["value"] ?? "");
  }
  const spec = { interactive: false, ...(exec["provideClusterInfo"] === true ? { cluster } : {}) };
  env["KUBERNETES_EXEC_INFO"] = JSON.stringify({ apiVersion, kind: "ExecCredential", spec });
  // A bare name is looked up in PATH; a path belongs to the kubeconfig that says it.
  const found = command.includes("/") || command.includes("\\") ? resolve(user.folder, command) : command;
  const hint = typeof installHint === "string" ? installHint.trim() : "";
  return { command: found, args, env, apiVersion, hint };
}

function run({ command, args, env, hint }: Plan, world: ExecContext): Promise<string> {
  return new Promise((settle, reject) => {
    const fail = (problem: string, cause?: unknown): void => {
      const cure = hint === "" ? `run ${[command, ...args].join(" ")} by hand and look at what it says` : hint;
      const message = `the credential plug-in ${command} ${problem}`;
      reject(new UserError("credential-plugin-failed", message, cure, { cause }));
    };
    const child = spawn(command, args, {
      env: { ...world.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: runMsMax,
      killSignal: "SIGKILL",
    });
    const output: Buffer[] = [];
    const complaints: Buffer[] = [];
    let bytes = 0;
    const keep = (chunks: Buffer[]) => (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= outputBytesMax) chunks.push(chunk);
      else child.kill("SIGKILL");
    };
    child.stdout.on("data", keep(output));
    child.stderr.on("data", keep(complaints));
    child.on("error", (error) => fail(`cannot be run: ${error.message}`, error));
    child.on("close", (code, signal) => {
      if (code === 0) return settle(Buffer.concat(output).toString("utf8"));
      const said = Buffer.concat(complaints).toString("utf8").trim().slice(0, 500);
      const how = signal === null ? `ended with code ${code}` : `was ended by ${signal}`;
      fail(`${how}${said === "" ? "" : `: ${said}`}`);
    });
  });
}

function credentialsIn({ command, apiVersion }: Plan, output: string, nowMs: number): Credentials {
  const refuse = (problem: string, cause?: unknown): UserError => {
    const message = `the credential plug-in ${command} ${problem}`;
    return new UserError("credential-plugin-failed", message, `run ${command} by hand and look at its output`, {
      cause,
    });
  };
  let answer: unknown;
  try {
    answer = JSON.parse(output);
  } catch (error) {
    throw refuse("answers with something that is no JSON", error);
  }
  const status = isObject(answer) && answer["kind"] === "ExecCredential" ? answer["status"] : undefined;
  if (!isObject(status)) throw refuse("answers without credentials");
  if (isObject(answer) && answer["apiVersion"] !== apiVersion) {
    throw refuse(`answers in version ${String(answer["apiVersion"])} where ${apiVersion} was asked for`);
  }
  const { token, clientCertificateData: certificate, clientKeyData: key, expirationTimestamp } = status;
  const hasToken = typeof token === "string" && token !== "";
  const hasPair = typeof certificate === "string" && typeof key === "string";
  if (!hasToken && !hasPair) throw refuse("answers with neither a token nor a certificate with its key");
  const endsMs = typeof expirationTimestamp === "string" ? Date.parse(expirationTimestamp) : Number.NaN;
  return {
    ...(hasToken ? { authorization: `Bearer ${token.trim()}` } : {}),
    ...(hasPair ? { certificate, key } : {}),
    // Without an end they are good until the server says otherwise.
    ...(Number.isNaN(endsMs) ? {} : { goodForMs: Math.max(0, endsMs - nowMs - earlyMs) }),
  };
}

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { parse } from "yaml";
import { isObject, type Json, type JsonObject } from "../../model/objects/json.ts";
import { UserError } from "../../model/userError.ts";

/** One entry of a kubeconfig, and the folder that its relative paths are relative to. */
export interface Entry {
  readonly name: string;
  readonly fields: JsonObject;
  readonly folder: string;
}

/** One kubeconfig, merged from one file or several. */
export interface KubeconfigDocument {
  /** The names of the files, for messages. */
  readonly where: string;
  readonly currentContext: string;
  readonly clusters: ReadonlyMap<string, Entry>;
  readonly users: ReadonlyMap<string, Entry>;
  readonly contexts: ReadonlyMap<string, Entry>;
}

const wayOut = "pass --kubeconfig <file> or set KUBECONFIG; `muster apiserver` starts a cluster and writes one";

/**
 * Reads a kubeconfig as kubectl does: the given file, else all files of KUBECONFIG, else `~/.kube/config`. Of several
 * files the first that defines an entry is used; some files of KUBECONFIG may be missing.
 */
export async function readKubeconfig(
  path: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Promise<KubeconfigDocument> {
  const { files, mayMiss } = filesToRead(path, env);
  const clusters = new Map<string, Entry>();
  const users = new Map<string, Entry>();
  const contexts = new Map<string, Entry>();
  let currentContext = "";
  let found = 0;
  for (const file of files) {
    const text = await readText(file, mayMiss);
    if (text === undefined) continue;
    found++;
    const document = parseDocument(file, text);
    const folder = dirname(resolve(file));
    addEntries(clusters, document["clusters"], "cluster", { file, folder });
    addEntries(users, document["users"], "user", { file, folder });
    addEntries(contexts, document["contexts"], "context", { file, folder });
    const current = document["current-context"];
    if (currentContext === "" && typeof current === "string") currentContext = current;
  }
  const where = files.join(delimiter);
  if (found === 0) throw new UserError("kubeconfig-missing", `no kubeconfig at ${where}`, wayOut);
  return { where, currentContext, clusters, users, contexts };
}

export function invalidKubeconfig(where: string, problem: string, cause?: unknown): UserError {
  const cure = "correct the file, or compare it with `kubectl config view`";
  return new UserError("kubeconfig-invalid", `the kubeconfig ${where} ${problem}`, cure, { cause });
}

/** A field of type string, or undefined when it is absent. */
export function textIn(entry: Entry, field: string, where: string): string | undefined {
  const value = entry.fields[field];
  if (value === undefined || value === null || value === "") return undefined;
  if (typeof value === "string") return value;
  throw invalidKubeconfig(where, `has a ${field} of ${JSON.stringify(entry.name)} that is not a string`);
}

function filesToRead(
  path: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): { files: string[]; mayMiss: boolean } {
  if (path !== undefined && path !== "") return { files: [path], mayMiss: false };
  const listed = (env["KUBECONFIG"] ?? "").split(delimiter).filter((file) => file !== "");
  if (listed.length > 0) return { files: listed, mayMiss: true };
  return { files: [join(env["HOME"] ?? homedir(), ".kube", "config")], mayMiss: true };
}

async function readText(file: string, mayMiss: boolean): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" && mayMiss) return undefined;
    if (code === "ENOENT") {
      throw new UserError("kubeconfig-missing", `no kubeconfig at ${file}`, wayOut, { cause: error });
    }
    const cure = "check the path and its permissions, or pass --kubeconfig <file>";
    throw new UserError("kubeconfig-unreadable", `the kubeconfig ${file} cannot be read: ${message}`, cure, {
      cause: error,
    });
  }
}

function parseDocument(file: string, text: string): JsonObject {
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    const [line = ""] = (error as Error).message.split("\n", 1);
    throw invalidKubeconfig(file, `is not YAML: ${line}`, error);
  }
  // Some tools create an empty file first.
  if (value === null || value === undefined) return {};
  if (!isObject(value)) throw invalidKubeconfig(file, "is not a mapping");
  return value;
}

function addEntries(
  entries: Map<string, Entry>,
  list: Json | undefined,
  word: "cluster" | "user" | "context",
  from: { file: string; folder: string },
): void {
  if (list === undefined || list === null) return;
  if (!Array.isArray(list)) throw invalidKubeconfig(from.file, `has ${word}s that are not a list`);
  for (const item of list) {
    const name = isObject(item) ? item["name"] : undefined;
    if (!isObject(item) || typeof name !== "string") {
      throw invalidKubeconfig(from.file, `has an entry without a name among its ${word}s`);
    }
    const fields = item[word] ?? {};
    if (!isObject(fields)) throw invalidKubeconfig(from.file, `has a ${word} ${JSON.stringify(name)} without fields`);
    if (!entries.has(name)) entries.set(name, { name, fields, folder: from.folder });
  }
}

import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs";

/** A request that the API server has answered. */
export interface AuditLine {
  readonly user: { readonly username: string };
  readonly verb: string;
  readonly requestURI: string;
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
  readonly objectRef?: { readonly name?: string; readonly subresource?: string; readonly resource?: string };
  readonly requestObject?: {
    readonly target?: { readonly name?: string };
    readonly metadata?: { readonly resourceVersion?: string };
  };
  readonly responseObject?: {
    readonly metadata?: {
      readonly uid?: string;
      readonly resourceVersion?: string;
      readonly deletionTimestamp?: string;
      readonly finalizers?: readonly string[];
    };
  };
  readonly responseStatus?: { readonly code?: number };
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A pod that the API server has bound. */
export interface Bound {
  readonly pod: string;
  readonly node: string;
  readonly atMs: number;
  /** The field manager, which names the process that leads and its epoch. */
  readonly by: string;
}

/** The API server's audit log, read from where the last read ended. */
export class AuditLog {
  private readonly file: string;
  private offset = 0;

  constructor(file: string) {
    this.file = file;
  }

  /** Whole lines since the last read; only those that mention a text. */
  read(mentioned = ""): AuditLine[] {
    if (!existsSync(this.file)) return [];
    const length = statSync(this.file).size - this.offset;
    const bytes = Buffer.alloc(length);
    const file = openSync(this.file, "r");
    try {
      readSync(file, bytes, 0, length, this.offset);
    } finally {
      closeSync(file);
    }
    const end = bytes.lastIndexOf("\n") + 1;
    this.offset += end;
    // A server that was killed may leave half a line, to which the next one appends.
    const lines = bytes.toString("utf8", 0, end).split("\n").filter(isWhole);
    return lines.filter((line) => line.includes(mentioned)).map((line) => JSON.parse(line) as AuditLine);
  }
}

function isWhole(line: string): boolean {
  return line.startsWith("{") && line.endsWith("}") && !line.slice(1).includes('{"kind":"Event","apiVersion":"audit');
}

/**
 * Updates and patches that changed nothing: the server answered with the version that the request named, or that an
 * earlier answer to the same account had shown.
 */
export function unchangedIn(lines: readonly AuditLine[]): string[] {
  const known = new Map<string, string>();
  const found: string[] = [];
  for (const { user, verb, requestURI, requestObject, responseObject, responseStatus } of lines) {
    const { uid, resourceVersion, deletionTimestamp, finalizers = [] } = responseObject?.metadata ?? {};
    // The write that removes the last finalizer deletes the object, and is answered with its last version.
    if (deletionTimestamp !== undefined && finalizers.length === 0) continue;
    if (uid === undefined || resourceVersion === undefined || responseStatus?.code !== 200) continue;
    const key = `${user.username} ${uid}`;
    const named = requestObject?.metadata?.resourceVersion;
    if (verb === "update" || verb === "patch") {
      if (resourceVersion === named || resourceVersion === known.get(key)) {
        found.push(`${user.username} sent ${verb} ${requestURI}: ${JSON.stringify(requestObject).slice(0, 300)}`);
      }
    }
    known.set(key, resourceVersion);
  }
  return found;
}

export function bindsIn(lines: readonly AuditLine[]): Bound[] {
  return lines
    .filter(({ objectRef, verb }) => verb === "create" && objectRef?.subresource === "binding")
    .filter(({ responseStatus }) => responseStatus?.code === 201)
    .map(({ objectRef, requestObject, requestReceivedTimestamp, requestURI }) => ({
      pod: objectRef?.name ?? "",
      node: requestObject?.target?.name ?? "",
      atMs: Date.parse(requestReceivedTimestamp),
      by: new URL(requestURI, "http://server").searchParams.get("fieldManager") ?? "",
    }));
}

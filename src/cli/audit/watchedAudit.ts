/** `muster audit --watch`: one line for each finding that persists, and one when it is gone. */
import type { AuditResult } from "../../decide/audit/auditResult.ts";

interface Shown {
  readonly check: string;
  readonly object: string;
  readonly problem: string;
}

export class WatchedAudit {
  private readonly out: (text: string) => void;
  private readonly output: "text" | "json";
  private shown = new Map<string, Shown>();
  private unknown = new Map<string, string>();

  constructor(out: (text: string) => void, output: "text" | "json") {
    this.out = out;
    this.output = output;
  }

  show({ checks, snapshot }: AuditResult): void {
    const at = snapshot?.takenAt ?? "";
    const now = new Map<string, Shown>();
    const unknown = new Map<string, string>();
    for (const { name, status, message, findings } of checks) {
      if (status === "unknown") {
        unknown.set(name, message);
        if (!this.unknown.has(name)) this.say({ event: "unknown", at, check: name, problem: message });
        // What the check had found is neither gone nor confirmed.
        for (const [key, each] of this.shown) if (each.check === name) now.set(key, each);
      }
      for (const { object, problem } of findings) {
        const key = `${name} ${object} ${problem.replace(/\d+/g, "#")}`;
        now.set(key, { check: name, object, problem });
        if (!this.shown.has(key)) this.say({ event: "found", at, check: name, object, problem });
      }
    }
    for (const [key, each] of this.shown) if (!now.has(key)) this.say({ event: "resolved", at, ...each });
    this.shown = now;
    this.unknown = unknown;
  }

  private say(line: { event: "found" | "resolved" | "unknown"; at: string } & Partial<Shown>): void {
    if (this.output === "json") {
      this.out(`${JSON.stringify(line)}\n`);
      return;
    }
    const level = { found: "ERROR", resolved: "INFO", unknown: "WARN" }[line.event];
    const what = [line.check, line.object, line.problem].filter((text) => text !== undefined).join(": ");
    this.out(`[${level}] ${line.at} ${line.event}: ${what.replace(/\p{Cc}+/gu, " ")}\n`);
  }
}

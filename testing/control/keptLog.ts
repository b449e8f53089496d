import type { Log, LogFields } from "../../src/ports/log.ts";

/** A log whose lines a test can read. */
export class KeptLog implements Log {
  readonly lines: { readonly level: string; readonly message: string; readonly fields: LogFields }[] = [];

  debug(fields: LogFields, message: string): void {
    this.lines.push({ level: "debug", message, fields });
  }

  info(fields: LogFields, message: string): void {
    this.lines.push({ level: "info", message, fields });
  }

  warn(fields: LogFields, message: string): void {
    this.lines.push({ level: "warn", message, fields });
  }

  error(fields: LogFields, message: string): void {
    this.lines.push({ level: "error", message, fields });
  }

  /** Messages at level error. */
  get errors(): string[] {
    return this.lines.flatMap(({ level, message }) => (level === "error" ? [message] : []));
  }
}

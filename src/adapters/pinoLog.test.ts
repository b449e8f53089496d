import { describe, expect, test } from "vitest";
import { type PinoLogOptions, pinoLog } from "./pinoLog.ts";

function capture(options: PinoLogOptions = {}): { log: ReturnType<typeof pinoLog>; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (text: string) => void lines.push(JSON.parse(text) as Record<string, unknown>) };
  return { log: pinoLog({ destination, ...options }), lines };
}

describe("a log line", () => {
  test("has its level as a word, a readable time, the fields and the message", () => {
    const { log, lines } = capture();
    log.info({ pod: "a", gpuMilli: 500 }, "bound");
    expect(lines).toMatchObject([{ level: "info", pod: "a", gpuMilli: 500, message: "bound" }]);
    expect(lines[0]?.["time"]).toMatch(/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$/);
  });

  test("is one line, whatever the fields hold", () => {
    const { log, lines } = capture();
    log.warn({ text: "two\nlines" }, "odd");
    expect(lines).toMatchObject([{ text: "two\nlines" }]);
  });

  test("shows the message and the stack of what caused it", () => {
    const { log, lines } = capture();
    log.error({ cause: new Error("disk full", { cause: new Error("ENOSPC") }) }, "the store failed");
    const cause = lines[0]?.["cause"] as Record<string, unknown>;
    expect(cause["message"]).toBe("disk full: ENOSPC");
    expect(cause["stack"]).toContain("pinoLog.test");
  });

  test("leaves out objects that a library attaches to its errors", () => {
    const { log, lines } = capture();
    const error = Object.assign(new Error("gone"), { code: "57P01", client: { password: "secret" } });
    log.warn({ error }, "an idle database connection broke");
    expect(lines).toMatchObject([{ error: { type: "Error", message: "gone", code: "57P01" } }]);
    expect(JSON.stringify(lines)).not.toContain("secret");
  });

  test("shows a cause that is no error as it is", () => {
    const { log, lines } = capture();
    log.warn({ cause: "because" }, "odd");
    expect(lines).toMatchObject([{ cause: "because" }]);
  });

  test("below the level is not written", () => {
    const { log, lines } = capture({ level: "warn" });
    log.debug({}, "a");
    log.info({}, "b");
    log.warn({}, "c");
    log.error({}, "d");
    expect(lines.map((line) => line["message"])).toEqual(["c", "d"]);
  });

  test("carries the fields of its program, and nothing about the machine", () => {
    const { log, lines } = capture({ fields: { program: "scheduler" } });
    log.info({ pod: "a" }, "bound");
    expect(Object.keys(lines[0] ?? {}).sort()).toEqual(["level", "message", "pod", "program", "time"]);
  });
});

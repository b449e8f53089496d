import { type DestinationStream, destination, type Logger, pino, stdSerializers, stdTimeFunctions } from "pino";
import type { Log, LogFields } from "../ports/log.ts";

export interface PinoLogOptions {
  /** Lines below this level are not written; `info` by default. */
  readonly level?: "debug" | "info" | "warn" | "error";
  /** Fields of every line: program, replica. */
  readonly fields?: LogFields;
  /** The case of the level in a line; `upper` writes `"level":"ERROR"`. `lower` by default. */
  readonly levelCase?: "lower" | "upper";
  /** Where lines are written; standard error by default. */
  readonly destination?: DestinationStream;
}

/**
 * Log lines as JSON: `{"level":"info","time":"2026-01-01T00:00:00.000Z","node":"n1","message":"bound"}`. Lines are
 * written synchronously, so that none is lost in a crash.
 */
export function pinoLog(options: PinoLogOptions = {}): Log {
  const logger = pino(
    {
      level: options.level ?? "info",
      base: options.fields ?? null,
      messageKey: "message",
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: options.levelCase === "upper" ? label.toUpperCase() : label }) },
      // Errors have no enumerable fields: as plain JSON they would read `{}`.
      serializers: { cause: readableError, error: readableError },
    },
    options.destination ?? destination({ fd: 2, sync: true }),
  );
  return {
    debug: write(logger, "debug"),
    info: write(logger, "info"),
    warn: write(logger, "warn"),
    error: write(logger, "error"),
  };
}

/**
 * The message and the stack of an error. Objects that libraries attach to their errors (a database client, with its
 * keys) are left out.
 */
function readableError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { type, message, stack, ...rest } = stdSerializers.err(error);
  const plain = Object.entries(rest).filter(
    ([, value]) => value !== null && !["object", "function"].includes(typeof value),
  );
  return { type, message, stack, ...Object.fromEntries(plain) };
}

function write(logger: Logger, level: "debug" | "info" | "warn" | "error"): Log["info"] {
  return (fields, message) => logger[level](fields, message);
}

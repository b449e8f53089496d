/** Structured log lines in JSON. The message is constant; variable values are fields. */
export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  /** To be investigated tomorrow. */
  warn(fields: LogFields, message: string): void;
  /** To be investigated now. */
  error(fields: LogFields, message: string): void;
}

export type LogFields = Readonly<Record<string, unknown>>;

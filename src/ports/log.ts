/** One JSON line per thing an operator would want to know. The message is constant; what varies is in the fields. */
export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  /** To be investigated tomorrow. */
  warn(fields: LogFields, message: string): void;
  /** To be investigated now. */
  error(fields: LogFields, message: string): void;
}

export type LogFields = Readonly<Record<string, unknown>>;

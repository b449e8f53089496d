/** What a report is told besides the result: times and the program's version, which a result does not carry. */
export interface ReportContext {
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly version: string;
}

/** `gpu-3: 12 pods` and its like. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

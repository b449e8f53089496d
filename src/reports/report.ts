/** What a report gets besides the result: times and the program's version, which a result does not carry. */
export interface ReportContext {
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly version: string;
}

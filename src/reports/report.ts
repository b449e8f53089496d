/** The input of a report besides the result: times and Muster's version. */
export interface ReportContext {
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly version: string;
}

import { badRequest } from "../../model/objects/status.ts";

/** The query of a request, parsed as Go does. Unknown parameters are ignored. */
export class Query {
  private readonly params: URLSearchParams;

  constructor(search: string) {
    this.params = new URLSearchParams(search);
  }

  text(name: string): string | undefined {
    return this.params.get(name) ?? undefined;
  }

  all(name: string): string[] {
    return this.params.getAll(name);
  }

  /** Absent is false; present and empty is true; `0` and `false` are false. */
  flag(name: string): boolean {
    const value = this.params.get(name);
    return value !== null && value !== "0" && value.toLowerCase() !== "false";
  }

  optionalFlag(name: string): boolean | undefined {
    return this.params.has(name) ? this.flag(name) : undefined;
  }

  integer(name: string): number | undefined {
    const value = this.params.get(name);
    if (value === null || value === "") return undefined;
    if (!/^[+-]?[0-9]+$/.test(value) || !Number.isSafeInteger(Number(value))) {
      throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(value)}: invalid syntax (parameter ${name})`);
    }
    return Number(value);
  }
}

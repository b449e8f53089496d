/** What is wrong with an object, and what its author should know though it is accepted. */
import type { FieldError } from "../objects/fieldError.ts";

export class Findings {
  readonly errors: FieldError[] = [];
  readonly warnings: string[] = [];

  add(...errors: readonly FieldError[]): void {
    this.errors.push(...errors);
  }

  warn(text: string): void {
    this.warnings.push(text);
  }
}

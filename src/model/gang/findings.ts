/** The errors and warnings of a validation. */
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

import type { Cancel } from "./cancel.ts";

/** The source of a Cancel: its holder cancels it. Callbacks run in the order in which they were added. */
export class CancelSource implements Cancel {
  private callbacks: (() => void)[] = [];
  private isCancelled = false;

  get cancelled(): boolean {
    return this.isCancelled;
  }

  onCancel(run: () => void): () => void {
    if (this.isCancelled) {
      run();
      return () => {};
    }
    // Wrapped, so that the same function given twice is two callbacks.
    const callback = (): void => run();
    this.callbacks.push(callback);
    return () => {
      this.callbacks = this.callbacks.filter((other) => other !== callback);
    };
  }

  cancel(): void {
    if (this.isCancelled) return;
    this.isCancelled = true;
    const callbacks = this.callbacks;
    this.callbacks = [];
    for (const callback of callbacks) callback();
  }
}

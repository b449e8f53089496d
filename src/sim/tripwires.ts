/**
 * While seeds run, nothing may reach for real time or real chance: such a call throws, and the seed fails even if
 * somebody swallows the exception. Seeds run one after another in one thread, so the globals are ours meanwhile.
 * Arming costs the compiler its optimised code, so it is done around a batch of seeds and not around each.
 */
export class Tripwires {
  private tripped: ((what: string) => void) | undefined;
  private undo: (() => void)[] = [];

  /** Whoever runs a seed is told. */
  report(tripped: ((what: string) => void) | undefined): void {
    this.tripped = tripped;
  }

  arm(): void {
    const trip = (what: string) => (): never => {
      this.tripped?.(what);
      throw new Error(`${what} was called while a seed ran: take the Clock or the Random that the simulator hands out`);
    };
    const realDate = globalThis.Date;
    this.replace(
      globalThis,
      "Date",
      new Proxy(realDate, {
        construct: (date, args) => (args.length === 0 ? trip("new Date()")() : Reflect.construct(date, args)),
        apply: trip("Date()"),
        get: (date, name) => (name === "now" ? trip("Date.now") : Reflect.get(date, name)),
      }),
    );
    this.replace(Math, "random", trip("Math.random"));
    for (const name of ["setTimeout", "setInterval", "setImmediate"]) this.replace(globalThis, name, trip(name));
    this.replace(performance, "now", trip("performance.now"));
    this.replace(globalThis.crypto, "randomUUID", trip("crypto.randomUUID"));
    this.replace(globalThis.crypto, "getRandomValues", trip("crypto.getRandomValues"));
  }

  disarm(): void {
    for (const restore of this.undo.reverse()) restore();
    this.undo = [];
  }

  private replace(holder: object, name: string, value: unknown): void {
    const own = Object.getOwnPropertyDescriptor(holder, name);
    Object.defineProperty(holder, name, { configurable: true, writable: true, enumerable: true, value });
    this.undo.push(() => {
      // What was inherited before is inherited again.
      if (own === undefined) Reflect.deleteProperty(holder, name);
      else Object.defineProperty(holder, name, own);
    });
  }
}

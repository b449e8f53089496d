import nodeCrypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import timers from "node:timers";
import timerPromises from "node:timers/promises";

/** Modules with real randomness. */
const cryptoNames = [
  "randomBytes",
  "randomFill",
  "randomFillSync",
  "randomInt",
  "randomUUID",
  "generateKeyPairSync",
  "generateKeySync",
];

/**
 * While seeds run, real time and real randomness are forbidden: such a call throws, and the seed fails even if the
 * exception is caught. Seeds run one after another in one thread, so globals can be replaced meanwhile. Replacing them
 * deoptimises compiled code, so it is done once for a batch of seeds.
 */
export class Tripwires {
  private tripped: ((what: string) => void) | undefined;
  private undo: (() => void)[] = [];

  /** Sets the callback of the seed that runs. */
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
    const timerNames = ["setTimeout", "setInterval", "setImmediate"];
    for (const name of timerNames) {
      this.replace(globalThis, name, trip(name));
      this.replace(timers, name, trip(`node:timers ${name}`));
      this.replace(timerPromises, name, trip(`node:timers/promises ${name}`));
    }
    this.replace(timerPromises.scheduler, "wait", trip("scheduler.wait"));
    this.replace(AbortSignal, "timeout", trip("AbortSignal.timeout"));
    this.replace(performance, "now", trip("performance.now"));
    this.replace(process, "hrtime", Object.assign(trip("process.hrtime"), { bigint: trip("process.hrtime.bigint") }));
    this.replace(process, "uptime", trip("process.uptime"));
    for (const name of ["randomUUID", "getRandomValues"]) this.replace(globalThis.crypto, name, trip(`crypto.${name}`));
    for (const name of cryptoNames) this.replace(nodeCrypto, name, trip(`node:crypto ${name}`));
    // Names that are imported from a built-in module are replaced too.
    syncBuiltinESMExports();
  }

  disarm(): void {
    for (const restore of this.undo.reverse()) restore();
    this.undo = [];
    syncBuiltinESMExports();
  }

  private replace(holder: object, name: string, value: unknown): void {
    const own = Object.getOwnPropertyDescriptor(holder, name);
    Object.defineProperty(holder, name, { configurable: true, writable: true, enumerable: true, value });
    this.undo.push(() => {
      // An inherited property is restored by deleting the own one.
      if (own === undefined) Reflect.deleteProperty(holder, name);
      else Object.defineProperty(holder, name, own);
    });
  }
}

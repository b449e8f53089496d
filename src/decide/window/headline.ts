/**
 * The dominant reason in a few words: a head sentence of at most 70 characters and a line for a list. Both are made of
 * the reason's code and of the numbers in the scheduler's own sentence, which always stands beside them.
 */
import type { ReportedReason } from "./waiting.ts";

export interface Headline {
  readonly head: string;
  readonly short: string;
}

const numbers = [
  "No",
  "One",
  "Two",
  "Three",
  "Four",
  "Five",
  "Six",
  "Seven",
  "Eight",
  "Nine",
  "Ten",
  "Eleven",
  "Twelve",
  "Thirteen",
  "Fourteen",
  "Fifteen",
  "Sixteen",
];

/** `Three`; digits from seventeen on. */
export function numberWord(count: number): string {
  return numbers[count] ?? String(count);
}

const lower = (word: string): string => word.toLowerCase();

export function headline({ reason, message }: ReportedReason, isNominated: boolean): Headline {
  if (isNominated)
    return { head: "It has its places. Pods are still leaving them.", short: "nominated, waits for a release" };
  switch (reason) {
    case "PodSchedulingErrors":
      return schedulingErrors(message);
    case "OverLimit": {
      const found = /queue (\S+) has reached its limit of (\S+): the limit is ([\d.]+\S*), ([\d.]+\S*) are in use/.exec(
        message,
      );
      if (found === null) return plain("Its queue has reached its limit.", "its queue is at its limit");
      const [, queue = "", resource = "", limit = "", used = ""] = found;
      const what = resource === "gpu" ? "GPUs" : `of ${resource}`;
      return plain(`Its queue may hold ${limit} ${what}, and has ${used}.`, `${queue} is at its limit of ${limit}`);
    }
    case "NonPreemptibleOverQuota": {
      const quota = /the quota is ([\d.]+\S*),/.exec(message)?.[1];
      return plain(
        "It cannot be evicted, so it must fit the quota.",
        `not evictable, beyond quota${quota === undefined ? "" : ` ${quota}`}`,
      );
    }
    case "NotReady": {
      const found = /waits for (\d+) pods, (\d+) exist(?:, (\d+) of them gated)?/.exec(message);
      if (found === null) return plain("It waits for a pod that does not exist yet.", "not all of its pods exist");
      const [, wanted = "", exist = "", gated] = found;
      if (gated !== undefined && wanted === exist)
        return plain(
          "Its pods have scheduling gates.",
          `${exist} of ${wanted} pods exist, ${gated} with scheduling gates`,
        );
      return plain(
        "It waits for a pod that does not exist yet.",
        `${exist} of ${wanted} pods exist${gated === undefined ? "" : `, ${gated} with scheduling gates`}`,
      );
    }
    case "SchedulingGated":
      return plain("It has scheduling gates.", "it has scheduling gates");
    case "NoGpuWithRoom":
      return plain("No GPU has that much of itself left.", "no GPU has room for its share");
    case "NodeFull":
      return plain("A GPU has room, and its node has not.", "the GPU has room, the node has not");
    case "PreemptionDelayNotElapsed": {
      const until = /before (\d{4}-\d\d-\d\dT(\d\d:\d\d))/.exec(message)?.[2];
      return plain(
        until === undefined ? "It may not evict others yet." : `It may evict others from ${until} UTC on.`,
        "may not evict others yet",
      );
    }
    case "BindingRefused":
      return plain("A place was found, and the bind was refused.", "its bind was refused");
    case "QueueDoesNotExist":
      return plain("Its queue does not exist.", "its queue does not exist");
    case "QueueTakesNoPods":
      return plain("Its queue takes no workloads.", "its queue takes no workloads");
    case "NoScheduler":
      return plain("No scheduler serves its node pool.", "no scheduler serves its pool");
    case "NoGroup":
      return plain("Its PodGroup does not exist yet.", "its PodGroup does not exist yet");
    case "":
      return plain("No scheduling cycle has tried it yet.", "not tried yet");
    default:
      return plain("It waits.", reason);
  }
}

function schedulingErrors(message: string): Headline {
  const larger =
    /requests (?:shares of )?(\S+) (\S+?)(?: of one node)?, and (?:the largest node has (\d+)|no node has any)/.exec(
      message,
    );
  if (larger !== null) {
    const [, wanted = "", what = "", most] = larger;
    const unit = /^gpus?$/i.test(what) ? "GPUs" : what;
    const count = /^\d+$/.test(wanted) ? lower(numberWord(Number(wanted))) : wanted;
    return plain(
      `No node will ever have ${count} ${unit}.`,
      `requests ${wanted} ${unit}, ${most === undefined ? "no node has any" : `a node has ${most}`}`,
    );
  }
  const domain = /not enough resources for the workload in one (\S+?): .* has resources for (\d+) of (\d+) pods/.exec(
    message,
  );
  if (domain !== null) {
    const [, level = "", found = "0", wanted = "0"] = domain;
    const short = level.slice(level.lastIndexOf("/") + 1);
    return plain(
      `${numberWord(Number(found))} of ${lower(numberWord(Number(wanted)))} places in one ${short}. It asked for one ${short}.`,
      `no ${short} has room for ${wanted} pods`,
    );
  }
  const gang = /needs places for (\d+) pods at once and (\d+) were found/.exec(message);
  if (gang !== null) {
    const [, wanted = "0", found = "0"] = gang;
    return plain(
      `${numberWord(Number(found))} of ${lower(numberWord(Number(wanted)))} places found. A gang starts whole or not at all.`,
      `${found} of ${wanted} places, needs all at once`,
    );
  }
  const fits = /fits 0 of (\d+) nodes/.exec(message);
  if (fits !== null) return plain("No node has a place for it.", `fits none of ${fits[1]} nodes`);
  if (/PodGroup \S+ does not exist/.test(message))
    return plain("Its PodGroup does not exist.", "its PodGroup does not exist");
  return plain("No place was found for it.", "no place was found");
}

function plain(head: string, short: string): Headline {
  return { head, short };
}

import type { BigTool } from '../upstream/answers.ts';

/** The job of the load generator, as JSON in its one argument. */
export interface Job {
  readonly kind: 'calls' | 'list' | 'sessions' | 'open';
  readonly url: string;
  /** Further URLs, which get the same load at the same time; sessions and connections are counted at each. */
  readonly alsoUrls: readonly string[];
  readonly era: 'stateful' | 'stateless';
  readonly connections: number;
  /** Limit of the sessions that the connections share; some peers start one process for each. */
  readonly maxSessions: number;
  /** The tool to call: `echo` answers with its argument, a big one with one mebibyte of text. */
  readonly tool: 'echo' | BigTool;
  /** What the target puts in front of a tool's name. */
  readonly toolPrefix: string;
  /** Number of tools in a whole list. */
  readonly tools: number;
  /** The measured time begins after this time at the earliest, */
  readonly warmUpMs: number;
  /** and after this many correct operations at all URLs together, unless that takes a minute. */
  readonly warmUpOperations: number;
  readonly measureMs: number;
  /** Above 0: measures in turns, one for each line on standard input; the load of a turn begins this long before. */
  readonly leadMs: number;
  /** Processes whose CPU time is read at the start and at the end of the measured time. */
  readonly pids: readonly number[];
  /** Processes whose CPU time is read separately. */
  readonly besidePids: readonly number[];
  /** For `open`: sessions held open meanwhile, and whether each holds a stream. */
  readonly openSessions: number;
  readonly streams: boolean;
  /** Collects garbage before memory is read, and also reports the memory held then. */
  readonly collects: boolean;
}

/** What the generator found, as one line of JSON on its standard output; in turns, a line for the warm-up and for each. */
export interface Finding {
  /** Whether `warmUpOperations` operations went right before the measured time. */
  readonly warm: boolean;
  /** Operations (calls, lists, whole sessions) completed in the measured time. */
  readonly operations: number;
  readonly wallMs: number;
  /** CPU time of the target's processes in the measured time. */
  readonly cpuUs: number;
  readonly besideCpuUs: number;
  /** The generator's own, to see when it is the bottleneck. */
  readonly clientCpuUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly rssKiB: number;
  /** Resident memory before any session was opened and with all of them open. */
  readonly rssBeforeKiB: number;
  readonly rssOpenKiB: number;
  /** Heap and buffers after a collection, likewise; 0 where nothing was collected. */
  readonly heldBeforeKiB: number;
  readonly heldOpenKiB: number;
  readonly wrong: number;
  readonly firstWrong: string;
}

import { groupAlive, signalGroup, terminateGroup } from './process-group.ts';

type StopReason = 'remove' | 'shutdown' | 'interrupt';

interface StopTimes {
  /** From closing the input to SIGTERM. */
  readonly closeMs: number;
  /** From SIGTERM to SIGKILL. */
  readonly terminateMs: number;
}

export interface LadderTimes {
  readonly reasons: Readonly<Record<StopReason, StopTimes>>;
  /** For processes that outlive the group's leader: from its exit (and their SIGTERM) to SIGKILL. */
  readonly orphanMs: number;
  /** After SIGKILL: how long to wait for a process that the kernel does not end. */
  readonly giveUpMs: number;
}

export const LADDER_TIMES: LadderTimes = {
  reasons: {
    remove: { closeMs: 2000, terminateMs: 5000 },
    shutdown: { closeMs: 1000, terminateMs: 4000 },
    interrupt: { closeMs: 0, terminateMs: 2000 },
  },
  orphanMs: 1000,
  giveUpMs: 5000,
};

const POLL_MS = 20;

/**
 * Stops a process group: closes its input, then SIGTERM, then SIGKILL, each to the whole group. It is done when no process of
 * the group is left, not when its leader has exited: `sh -c` and `npx` run the server as a child. After the last process no
 * signal is sent, so a reused group number is never hit.
 */
export class StopLadder {
  readonly #group: number;
  readonly #closeInput: () => void;
  readonly #times: LadderTimes;
  readonly #done = Promise.withResolvers<boolean>();
  #inputClosed = false;
  #leaderGone = false;
  #terminated = false;
  #killed = false;
  #ended = false;
  #terminateAt = Number.POSITIVE_INFINITY;
  #killAt = Number.POSITIVE_INFINITY;
  #giveUpAt = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  constructor(group: number, closeInput: () => void, times: LadderTimes = LADDER_TIMES) {
    this.#group = group;
    this.#closeInput = closeInput;
    this.#times = times;
  }

  /** Resolves with true when no process of the group is left, with false if one survived SIGKILL. */
  get done(): Promise<boolean> {
    return this.#done.promise;
  }

  /** Starts the ladder, or speeds it up if it was started for a less urgent reason. */
  stop(reason: StopReason): void {
    if (this.#ended) return;
    const { closeMs, terminateMs } = this.#times.reasons[reason];
    this.#schedule(closeMs, terminateMs);
    if (!this.#inputClosed) {
      this.#inputClosed = true;
      this.#closeInput();
    }
    this.#step();
  }

  /** The group's leader has exited, requested or not: stops the processes that it left. */
  leaderExited(): void {
    this.#leaderGone = true;
    this.#schedule(0, this.#times.orphanMs);
    this.#step();
  }

  #schedule(terminateMs: number, killMs: number): void {
    const now = performance.now();
    this.#terminateAt = Math.min(this.#terminateAt, now + terminateMs);
    this.#killAt = Math.min(this.#killAt, now + terminateMs + killMs);
  }

  #step(): void {
    if (this.#ended) return;
    clearTimeout(this.#timer);
    const now = performance.now();
    if (this.#leaderGone && !groupAlive(this.#group)) {
      this.#end(true);
      return;
    }
    if (now >= this.#terminateAt && !this.#terminated) {
      this.#terminated = true;
      terminateGroup(this.#group);
    }
    if (now >= this.#killAt && !this.#killed) {
      this.#killed = true;
      this.#giveUpAt = now + this.#times.giveUpMs;
      signalGroup(this.#group, 'SIGKILL');
    }
    if (now >= this.#giveUpAt) {
      this.#end(false);
      return;
    }
    const deadline = this.#killed ? this.#giveUpAt : this.#terminated ? this.#killAt : this.#terminateAt;
    const next = this.#leaderGone ? Math.min(deadline, now + POLL_MS) : deadline;
    // This timer keeps the gateway's process alive on purpose: exiting before the ladder ends would orphan the group.
    this.#timer = setTimeout(() => this.#step(), Math.max(1, next - now));
  }

  #end(clean: boolean): void {
    this.#ended = true;
    this.#done.resolve(clean);
  }
}

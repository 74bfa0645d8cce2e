import type { Clock } from '../../model/clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import { isTerminal } from '../../model/task-status.ts';
import { finalOutcome, isSettled } from './task-answers.ts';
import type { TaskCalls } from './task-calls.ts';
import type { TaskInputs } from './task-inputs.ts';
import { heardIn } from './task-news.ts';
import type { TaskTable } from './task-table.ts';

/** Polls in a row that may fail before the waiting caller gets an error; meanwhile the server may be restarted. */
const MAX_FAILURES = 6;

interface TaskPollingDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly table: TaskTable;
  readonly calls: TaskCalls;
  readonly inputs: TaskInputs;
}

/** Between two polls of a task whose server names no interval. */
const DEFAULT_MS = 1_000;
/** A server may ask for any interval; this is what is believed. */
const MIN_MS = 50;
const MAX_MS = 60_000;
/** Without a change the pauses grow up to so many times the first. */
const MAX_GROWTH = 8;
const GROWTH = 1.5;
const JITTER = 0.2;

/** What is waited for on behalf of a client. */
interface TaskWait {
  readonly record: TaskRecord;
  readonly exchange: Exchange;
  /** The task's id as the client knows it, so that questions and the answer name it; null where it knows no task. */
  readonly related: string | null;
  /** Clock time after which the wait is given up. */
  readonly until: number;
}

/**
 * Waits for a stateless server's task as `tasks/result` of 2025-11-25 does: polls `tasks/get` until the task has
 * ended, and brings what the server wants to know to the client on the way (decision 017). The client
 * may give up the wait; the task goes on.
 */
export class TaskPolling {
  readonly #deps: TaskPollingDeps;

  constructor(deps: TaskPollingDeps) {
    this.#deps = deps;
  }

  async wait(waiting: TaskWait): Promise<Outcome> {
    const outcome = await this.#wait(waiting);
    // It may have expired meanwhile; then no client asks for it again.
    if (this.#deps.table.get(waiting.record.key) === null) this.#deps.inputs.forget(waiting.record);
    return outcome;
  }

  async #wait(waiting: TaskWait): Promise<Outcome> {
    const { clock, random, table, calls, inputs } = this.#deps;
    const { exchange, related, until } = waiting;
    const pace = new PollPace(() => random.unit());
    let { record } = waiting;
    let failures = 0;
    for (let changed = true; ; ) {
      if (isSettled(record)) return finalOutcome(record, related);
      if (exchange.cancelled !== null) return cancelled(record, exchange.cancelled);
      if (clock.now() >= until) return overdue(record);
      const outcome = await calls.poll(record, exchange);
      if (exchange.cancelled !== null) return cancelled(record, exchange.cancelled);
      const heard = heardIn(outcome);
      if (outcome.kind === 'answer' && outcome.message.kind === 'error') return outcome;
      if (heard === null) {
        if (++failures >= MAX_FAILURES) return outcome.kind === 'failure' ? outcome : nonsense(record);
      } else {
        failures = 0;
        const before = record;
        record = table.update(record, heard.news);
        changed = record.status !== before.status;
        if (isTerminal(record.status) && !isSettled(record)) return nonsense(record);
        if (isSettled(record)) continue;
        const asked = inputs.open(record, (outcome as { readonly message: Message }).message, waiting);
        if (asked !== null) {
          const refused = await this.#whileRunning(waiting, asked);
          if (refused !== null) return refused;
          record = table.get(record.key) ?? record;
          if (isSettled(record) || exchange.cancelled !== null) continue;
          changed = true;
        }
      }
      await this.#pause(pace.next(record.pollIntervalMs, changed && failures === 0), record, exchange);
      record = table.get(record.key) ?? record;
      changed = false;
    }
  }

  /** What the client says, or null as soon as the task, or the wait, has ended without it: the answer is not needed. */
  #whileRunning({ record, exchange, until }: TaskWait, asked: Promise<Outcome | null>): Promise<Outcome | null> {
    const { clock, table } = this.#deps;
    return new Promise((resolve) => {
      let over = false;
      const end = (outcome: Outcome | null) => {
        if (over) return;
        over = true;
        disarm();
        unwatch();
        exchange.onCancel = null;
        resolve(outcome);
      };
      const disarm = clock.after(Math.max(0, until - clock.now()), () => end(null));
      const unwatch = table.watch(record.key, ({ status }) => {
        if (isTerminal(status)) end(null);
      });
      exchange.onCancel = () => end(null);
      void asked.then(end);
    });
  }

  /** Ends early when something else is heard of the task, or the client gives up. */
  #pause(ms: number, record: TaskRecord, exchange: Exchange): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        disarm();
        unwatch();
        exchange.onCancel = null;
        resolve();
      };
      const disarm = this.#deps.clock.after(ms, end);
      const unwatch = this.#deps.table.watch(record.key, end);
      exchange.onCancel = end;
    });
  }
}

/**
 * How long to wait before a task is polled again: never less than its server asks for, longer while nothing changes or
 * the server cannot be reached, and never for many tasks at one instant (proto:C7).
 */
export class PollPace {
  readonly #unit: () => number;
  #growth = 1;

  /** `unit` gives numbers in [0, 1). */
  constructor(unit: () => number) {
    this.#unit = unit;
  }

  next(askedMs: number | null, changed: boolean): number {
    if (changed) this.#growth = 1;
    const base = Math.min(Math.max(askedMs ?? DEFAULT_MS, MIN_MS), MAX_MS);
    const pause = Math.min(base * this.#growth, Math.max(base, MAX_MS));
    this.#growth = Math.min(this.#growth * GROWTH, MAX_GROWTH);
    return Math.round(pause * (1 + JITTER * this.#unit()));
  }
}

export function cancelled({ server }: TaskRecord, reason: string): Outcome {
  return failure(new GatewayError('CANCELLED', reason, { server }));
}

function overdue({ server }: TaskRecord): Outcome {
  return failure(new GatewayError('TIMEOUT', `${server} did not bring the task to its end in time`, { server }));
}

function nonsense({ server }: TaskRecord): Outcome {
  const text = `${server} answered tasks/get with something that is no task, or has no answer in it`;
  return failure(new GatewayError('UPSTREAM_PROTOCOL', text, { server }));
}

import type { Clock } from '../../model/clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import { isTerminal } from '../../model/task-status.ts';
import { withRelatedTask } from '../../protocol/body.ts';
import { isUrlMode } from '../../protocol/client-capabilities.ts';
import { request } from '../../protocol/compose.ts';
import { editObject } from '../../protocol/splice.ts';
import { type InputRequest, readInputRequired, refusedInput } from '../../protocol/stateless/input-required.ts';
import { isResult } from '../own-results.ts';
import type { TaskCalls } from './task-calls.ts';
import type { TaskTable } from './task-table.ts';
import { finalOutcome, isSettled, taskReportIn } from './task-views.ts';

/** Polls in a row that may fail before the waiting caller gets an error, so that the server may be restarted. */
const MAX_FAILURES = 6;
/** Input requests of one task in its life, and the length of their keys. */
const MAX_KEYS = 1_000;
const MAX_KEY_BYTES = 1_024;

interface TaskWaitsDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly table: TaskTable;
  readonly calls: TaskCalls;
}

/** One wait for a task on behalf of a client. */
interface TaskWait {
  readonly record: TaskRecord;
  readonly exchange: Exchange;
  /** The task's id as the client knows it, for input requests and the answer; null if the client knows no task. */
  readonly related: string | null;
  /** Clock time at which the wait ends. */
  readonly until: number;
}

/**
 * Waits for a stateless server's task as `tasks/result` of 2025-11-25 does: polls `tasks/get` until the task has ended
 * (decision 017). The client may stop waiting; the task continues.
 *
 * The gateway sends the server's input requests to the client, all open ones at once and each once in the life of the task, and
 * returns the answers with `tasks/update`. The server may list an answered key for a while; it is not sent again.
 * `tasks/update` cannot carry an error, so an error of the client ends the wait, except for an elicitation.
 */
export class TaskWaits {
  readonly #deps: TaskWaitsDeps;
  /** Keys of input requests that were answered or are in flight, by task. */
  readonly #asked = new Map<string, Set<string>>();

  constructor(deps: TaskWaitsDeps) {
    this.#deps = deps;
  }

  async wait(waiting: TaskWait): Promise<Outcome> {
    const outcome = await this.#poll(waiting);
    // The task may have expired meanwhile.
    if (this.#deps.table.get(waiting.record.key) === null) this.forget(waiting.record);
    return outcome;
  }

  /** The number of tasks with recorded input requests. */
  get size(): number {
    return this.#asked.size;
  }

  /** Drops the recorded input requests of the task. */
  forget({ key }: TaskRecord): void {
    this.#asked.delete(key);
  }

  async #poll(waiting: TaskWait): Promise<Outcome> {
    const { clock, random, table, calls } = this.#deps;
    const { exchange, related, until } = waiting;
    const pace = new PollPace(() => random.unit());
    let { record } = waiting;
    let failures = 0;
    for (let changed = true; ; ) {
      if (isSettled(record)) return finalOutcome(record, related);
      if (exchange.cancelled !== null) return cancelled(record, exchange.cancelled);
      if (clock.now() >= until) return overdue(record);
      const outcome = await calls.own(record, exchange.client.principal, 'tasks/get', exchange);
      if (exchange.cancelled !== null) return cancelled(record, exchange.cancelled);
      if (outcome.kind === 'answer' && outcome.message.kind === 'error') return outcome;
      const report = taskReportIn(outcome);
      if (report === null) {
        if (++failures >= MAX_FAILURES) return outcome.kind === 'failure' ? outcome : invalidTask(record);
      } else {
        failures = 0;
        const before = record;
        record = table.update(record, report.update);
        changed = record.status !== before.status;
        if (isTerminal(record.status) && !isSettled(record)) return invalidTask(record);
        if (isSettled(record)) continue;
        const asked = this.#ask(record, (outcome as { readonly message: Message }).message, waiting);
        if (asked !== null) {
          const left = Math.max(0, until - clock.now());
          const refused = await this.#within(left, waiting, ({ status }) => isTerminal(status), asked);
          if (refused !== null) return refused;
          record = table.get(record.key) ?? record;
          if (isSettled(record) || exchange.cancelled !== null) continue;
          changed = true;
        }
      }
      const pause = pace.next(record.pollIntervalMs, changed && failures === 0);
      await this.#within(Math.max(0, Math.min(pause, until - clock.now())), waiting, () => true);
      record = table.get(record.key) ?? record;
      changed = false;
    }
  }

  /** Resolves with the result of the work; with null after `ms`, on cancellation, or at an update that `ends` accepts. */
  #within<T>(
    ms: number,
    { record, exchange }: TaskWait,
    ends: (news: TaskRecord) => boolean,
    work: Promise<T> | null = null,
  ): Promise<T | null> {
    const { promise, resolve } = Promise.withResolvers<T | null>();
    const disarm = this.#deps.clock.after(ms, () => resolve(null));
    const unwatch = this.#deps.table.watch(record.key, (news) => {
      if (ends(news)) resolve(null);
    });
    exchange.onCancel = () => resolve(null);
    void work?.then(resolve);
    return promise.finally(() => {
      disarm();
      unwatch();
      exchange.onCancel = null;
    });
  }

  /**
   * Returns null if the server asks nothing new. Otherwise resolves when the client has answered: with null, or with the
   * outcome that ends the wait because the client could not be asked or the server not answered.
   */
  #ask(record: TaskRecord, message: Message, waiting: TaskWait): Promise<Outcome | null> | null {
    if (record.status !== 'input_required') return null;
    const required = readInputRequired(message);
    if (typeof required === 'string') return null;
    const keys = this.#asked.get(record.key) ?? new Set<string>();
    const fresh = required.requests.filter(({ key }) => !keys.has(key.toString()));
    if (fresh.length === 0) return null;
    const exceeds = excess(record, keys, fresh);
    if (exceeds !== null) return Promise.resolve(exceeds);
    const refused = refusedInput(record.server, waiting.exchange.client, message, fresh);
    if (refused !== null) return Promise.resolve(answer(refused));
    this.#asked.set(record.key, keys);
    for (const { key } of fresh) keys.add(key.toString());
    return this.#askAll(record, message.bytes, fresh, waiting).then(({ ended, delivered }) => {
      // What was not answered or not delivered is asked again of the next waiting caller.
      if (!delivered) for (const { key } of fresh) keys.delete(key.toString());
      return ended;
    });
  }

  async #askAll(
    record: TaskRecord,
    bytes: Buffer,
    fresh: readonly InputRequest[],
    { exchange, related }: TaskWait,
  ): Promise<{ readonly ended: Outcome | null; readonly delivered: boolean }> {
    let answers: readonly Message[];
    try {
      answers = await Promise.all(fresh.map((question) => exchange.ask(this.#question(bytes, question, related))));
    } catch (cause) {
      const error = cause instanceof GatewayError ? cause : new GatewayError('INTERNAL', String(cause), { cause });
      return { ended: failure(error), delivered: false };
    }
    const refused = answers.find((given, i) => given.kind === 'error' && fresh[i]!.method !== 'elicitation/create');
    if (refused !== undefined) return { ended: answer(refused), delivered: false };
    const responses = Buffer.concat(
      fresh.flatMap(({ key }, i) => [Buffer.from(i === 0 ? '' : ','), key, COLON, responseOf(answers[i]!)]),
    );
    const more = `,"inputResponses":{${responses.toString()}}`;
    const outcome = await this.#deps.calls.own(record, exchange.client.principal, 'tasks/update', null, more);
    return { ended: isResult(outcome) ? null : outcome, delivered: outcome.kind === 'answer' };
  }

  /** The input request in the stateful format, where a URL elicitation has an id. */
  #question(bytes: Buffer, { method, params }: InputRequest, related: string | null): Message {
    const opens = method === 'elicitation/create' && isUrlMode(bytes, params);
    const changes = opens ? [['elicitationId', `"${this.#deps.random.hex(16)}"`] as const] : [];
    const body = params === null ? '{}' : editObject(bytes, params, changes);
    return withRelatedTask(request(method, `"${this.#deps.random.hex(8)}"`, body, 'stateful'), related);
  }
}

/** The pause between two polls if the server names no interval. */
const DEFAULT_MS = 1_000;
/** The shortest pause, whatever a server asks for. */
const MIN_MS = 50;
/** A pause that no server asked for is not longer. */
const MAX_MS = 60_000;
/** Without a change the pauses grow up to this multiple of the first. */
const MAX_GROWTH = 8;
const GROWTH = 1.5;
const JITTER = 0.2;

/**
 * How long to wait before a task is polled again: at least as long as its server asks for, which may refuse earlier polls;
 * longer while nothing changes or the server cannot be reached; and never for many tasks at one instant (proto:C7).
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
    const base = Math.max(askedMs ?? DEFAULT_MS, MIN_MS);
    const pause = Math.min(base * this.#growth, Math.max(base, MAX_MS));
    this.#growth = Math.min(this.#growth * GROWTH, MAX_GROWTH);
    return Math.round(pause * (1 + JITTER * this.#unit()));
  }
}

/** `tasks/update` has results only: an elicitation that the client answers with an error counts as cancelled. */
function responseOf(given: Message): Buffer {
  return given.kind === 'error' ? DECLINED : withRelatedTask(given, null).body;
}

/** The failure if the server asks more than the gateway records; null otherwise. */
function excess({ server }: TaskRecord, keys: ReadonlySet<string>, fresh: readonly InputRequest[]): Outcome | null {
  if (keys.size + fresh.length <= MAX_KEYS && fresh.every(({ key }) => key.length <= MAX_KEY_BYTES)) return null;
  const text = `${server} asks more than ${MAX_KEYS} questions in a task, or under keys of more than ${MAX_KEY_BYTES} bytes`;
  return failure(new GatewayError('UPSTREAM_PROTOCOL', text, { server }));
}

export function cancelled({ server }: TaskRecord, reason: string): Outcome {
  return failure(new GatewayError('CANCELLED', reason, { server }));
}

function overdue({ server }: TaskRecord): Outcome {
  return failure(new GatewayError('TIMEOUT', `${server} did not bring the task to its end in time`, { server }));
}

function invalidTask({ server }: TaskRecord): Outcome {
  const text = `${server} answered tasks/get with an invalid task, or with a finished task without a result`;
  return failure(new GatewayError('UPSTREAM_PROTOCOL', text, { server }));
}

const COLON = Buffer.from(':');
const DECLINED = Buffer.from('{"action":"cancel"}');

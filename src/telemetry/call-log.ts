import type { CallAttempt, CallRecord } from '../model/call-record.ts';
import { CALL_OUTCOMES } from '../model/call-record.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import { printable } from '../model/printable.ts';
import { cursorOf, positionOf } from './journal.ts';
import type { Logger } from './logger.ts';
import { sessionLabel } from './session-label.ts';

/** The data of a call at its end; for the meaning of each member see `CallRecord`. */
export interface EndedCall
  extends Omit<CallRecord, 'id' | 'time' | 'client' | 'principal' | 'session' | 'revision' | 'node' | 'attempts'> {
  /** Wall clock. */
  readonly startedAt: number;
  readonly client: ClientProfile;
  readonly attempts: readonly CallAttempt[] | null;
}

/** The calls after a position in the log, oldest first. */
interface CallsPart {
  readonly calls: readonly CallRecord[];
  /** Whether calls after the position were dropped from the log. */
  readonly lost: boolean;
}

/** 2.5 MB with usual texts, 20 MB with the longest ones that clients can choose; attempts add up to 2 kB per call. */
const MAX_CALLS = 10_000;
const MAX_TEXT = 256;
const MAX_INFO = 1_024;
/** Only the beginning of a longer text is searched for secrets. */
const MAX_REDACTED = 64 * 1024;
const TEXTS = 14;
const NUMBERS = 7;
/** The positions at which `push` puts what `visit` reads. */
const AT = { info: 3, revision: 6, server: 7, error: 10, ms: 1 };

type CallVisitor = (server: string | null, info: string | null, revision: string, ms: number, failed: boolean) => void;

/**
 * The last calls of clients, in memory. The tables are allocated once and overwritten: logging a call makes no garbage that
 * outlives it, and records are made only for readers. Readers keep a position, as those of a `Journal` do.
 */
export class CallLog {
  readonly #run: string;
  /** The node's name in the cluster; null for a lone gateway. */
  readonly node: string | null;
  readonly #kept: number;
  readonly #logger: Logger;
  readonly #texts: (string | null)[];
  readonly #numbers: Float64Array;
  readonly #attempts: (readonly CallAttempt[] | null)[];
  #end = 0;

  /** `run` identifies this process among all nodes. `logger` knows the secrets. */
  constructor(run: string, node: string | null, logger: Logger, kept = MAX_CALLS) {
    this.#run = run;
    this.node = node;
    this.#kept = kept;
    this.#logger = logger;
    this.#texts = new Array<string | null>(kept * TEXTS).fill(null);
    this.#numbers = new Float64Array(kept * NUMBERS);
    this.#attempts = new Array<readonly CallAttempt[] | null>(kept).fill(null);
  }

  /** The position after the last call. */
  get end(): number {
    return this.#end;
  }

  push(call: EndedCall): void {
    const slot = this.#end++ % this.#kept;
    const texts = this.#texts;
    const { client } = call;
    let at = slot * TEXTS;
    texts[at++] = call.request;
    texts[at++] = this.#bounded(call.method);
    texts[at++] = call.endpoint;
    texts[at++] = (client.info?.length ?? 0) > MAX_INFO ? null : client.info;
    texts[at++] = client.principal.id;
    texts[at++] = client.sessionId;
    texts[at++] = client.revision;
    texts[at++] = call.server;
    texts[at++] = this.#bounded(call.name);
    texts[at++] = this.#bounded(call.asked ?? null);
    texts[at++] = call.error;
    texts[at++] = this.#bounded(call.reason);
    texts[at++] = call.servedBy;
    texts[at] = call.trace;
    const { attempts } = call;
    this.#attempts[slot] = attempts?.map((attempt) => ({ ...attempt, reason: this.#bounded(attempt.reason) })) ?? null;
    const numbers = this.#numbers;
    at = slot * NUMBERS;
    numbers[at++] = call.startedAt;
    numbers[at++] = call.ms;
    numbers[at++] = call.waitedMs ?? -1;
    numbers[at++] = call.requestBytes;
    numbers[at++] = call.answerBytes;
    numbers[at++] = CALL_OUTCOMES.indexOf(call.outcome);
    numbers[at] = call.tries;
  }

  /** The call with this id; null if it was dropped or belongs to another node. */
  get(id: string): CallRecord | null {
    const position = positionOf(id, this.#run, this.#end);
    return position === null || position <= this.#first ? null : this.#record(position);
  }

  /** At most `max` calls after the position that `wanted` accepts. */
  after(position: number, max: number, wanted: (call: CallRecord) => boolean = () => true): CallsPart {
    const first = this.#first;
    const calls: CallRecord[] = [];
    let at = Math.max(position, first);
    while (at < this.#end && calls.length < max) {
      const call = this.#record(++at);
      if (wanted(call)) calls.push(call);
    }
    return { calls, lost: position < first };
  }

  /** Calls `visitor` for each logged call after the position, without building records; returns the new position. */
  visit(position: number, visitor: CallVisitor): number {
    const texts = this.#texts;
    for (let at = Math.max(position, this.#first); at < this.#end; at++) {
      const slot = at % this.#kept;
      const from = slot * TEXTS;
      const ms = this.#numbers[slot * NUMBERS + AT.ms]!;
      const failed = texts[from + AT.error] !== null;
      visitor(texts[from + AT.server]!, texts[from + AT.info]!, texts[from + AT.revision]!, ms, failed);
    }
    return this.#end;
  }

  /** The last calls that `wanted` accepts, oldest first. */
  last(max: number, wanted: (call: CallRecord) => boolean = () => true): readonly CallRecord[] {
    const calls: CallRecord[] = [];
    for (let at = this.#end; at > this.#first && calls.length < max; at--) {
      const call = this.#record(at);
      if (wanted(call)) calls.push(call);
    }
    return calls.reverse();
  }

  /** A client's name and version for itself; null if it sends none, or too much. */
  clientName(info: string | null): string | null {
    if (info === null || info.length > MAX_INFO) return null;
    try {
      const { name, version } = JSON.parse(info) as { name?: unknown; version?: unknown };
      const words = [name, version].filter((word) => typeof word === 'string' && word !== '');
      return words.length === 0 ? null : this.shown(words.join(' '), MAX_TEXT);
    } catch {
      return null;
    }
  }

  /** Text chosen by a client, for display: without secrets and control characters, with at most `max` characters. */
  shown(text: string, max: number): string {
    const redacted = printable(this.#logger.redact(text.slice(0, MAX_REDACTED)));
    return redacted.length > max ? `${redacted.slice(0, max)}…` : redacted;
  }

  /** Shortens a long text. Redacts it first: the scrubber would not recognise a part of a secret. */
  #bounded(text: string | null): string | null {
    if (text === null || text.length <= MAX_TEXT) return text;
    // A copy: a substring would keep the whole string in memory.
    return Buffer.from(this.shown(text, MAX_TEXT)).toString();
  }

  #attempt({ atMs, ms, node, reason, ...attempt }: CallAttempt): CallAttempt {
    return {
      atMs: rounded(atMs),
      ms: rounded(ms),
      node: node ?? this.node,
      ...attempt,
      reason: reason === null ? null : this.shown(reason, 2 * MAX_TEXT),
    };
  }

  /** Calls at this position or before it were dropped. */
  get #first(): number {
    return Math.max(0, this.#end - this.#kept);
  }

  #record(position: number): CallRecord {
    const slot = (position - 1) % this.#kept;
    const from = slot * TEXTS;
    const [
      request,
      method,
      endpoint,
      info,
      principal,
      session,
      revision,
      server,
      name,
      asked,
      error,
      reason,
      servedBy,
      trace,
    ] = this.#texts.slice(from, from + TEXTS);
    const attempts = this.#attempts[slot] ?? null;
    const at = slot * NUMBERS;
    const [startedAt, ms, waitedMs, requestBytes, answerBytes, outcome, tries] = this.#numbers.subarray(
      at,
      at + NUMBERS,
    );
    return {
      id: cursorOf(this.#run, position),
      request: request!,
      time: new Date(startedAt!).toISOString(),
      ms: rounded(ms!),
      waitedMs: waitedMs! < 0 ? null : rounded(waitedMs!),
      method: printable(method!),
      endpoint: endpoint!,
      client: this.clientName(info ?? null),
      principal: principal!,
      session: session == null ? null : sessionLabel(session),
      revision: revision!,
      server: server ?? null,
      name: name == null ? null : this.shown(name, 2 * MAX_TEXT),
      ...(asked == null ? {} : { asked: this.shown(asked, 2 * MAX_TEXT) }),
      outcome: CALL_OUTCOMES[outcome!]!,
      error: error ?? null,
      reason: reason == null ? null : this.shown(reason, 2 * MAX_TEXT),
      requestBytes: requestBytes!,
      answerBytes: answerBytes!,
      node: this.node,
      servedBy: servedBy ?? null,
      tries: tries!,
      ...(attempts === null ? {} : { attempts: attempts.map((attempt) => this.#attempt(attempt)) }),
      trace: trace ?? null,
    };
  }
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100;
}

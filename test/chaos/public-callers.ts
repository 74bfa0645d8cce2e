import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import type { Attempt, Ending, History } from '../faults/ledger/history.ts';
import type { Seeded } from './seeded.ts';
import type { Span } from './standstills.ts';

export interface PublicCallersOptions {
  readonly nats: string;
  readonly history: History;
  readonly servers: readonly string[];
  readonly tools: readonly string[];
  readonly slowMs: number;
  readonly pauseMs: number;
  readonly timeoutMs: number;
  /** How much later than the time limit an answer may come. */
  readonly lateMs: number;
}

interface Reply {
  readonly outcome: Exclude<Ending, 'LOST'>;
  readonly result?: unknown;
  readonly error?: string;
}

/** The node that took a call, and would end it at its deadline, may be gone: another one ends it (S0.18), as soon as NATS is back. */
const GONE_MS = 2_000;

/** Programs that call tools by the public subjects, each in conversations of its own. They never repeat a call. */
export class PublicCallers {
  readonly #options: PublicCallersOptions;
  readonly #random: Seeded;
  readonly #attempts: Attempt[] = [];
  #connection: NatsConnection | null = null;
  #loops: Promise<void>[] = [];
  #running = false;
  #second = 0;

  constructor(random: Seeded, options: PublicCallersOptions) {
    this.#random = random;
    this.#options = options;
  }

  async begin(callers: number): Promise<void> {
    const servers = this.#options.nats;
    this.#connection = await connect({ servers, maxReconnectAttempts: -1, reconnectTimeWait: 250 });
    this.#running = true;
    this.#loops = Array.from({ length: callers }, (_, i) => this.#live(`program-${i}`));
  }

  async stop(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#loops);
    await this.#connection?.close();
    this.#connection = null;
  }

  /** Extends each deadline that fell into a time without NATS until NATS was back. */
  allowFor(natsAway: readonly Span[]): void {
    for (const attempt of this.#attempts)
      attempt.lateMs! += awayMs(attempt.startedAt + this.#options.timeoutMs, natsAway);
  }

  /** Calls that were never answered, except those during which NATS, which carries the answers, was away. */
  unanswered(natsAway: readonly Span[]): string[] {
    const dueMs = this.#options.timeoutMs + 2_000;
    const away = ({ startedAt }: Attempt) =>
      natsAway.some(({ from, to }) => from <= startedAt + dueMs && to + 2_000 >= startedAt);
    return this.#attempts
      .filter((attempt) => attempt.ending === 'LOST' && !away(attempt))
      .map(({ call, server, reason }) => `${call} (${server}) by the public subjects: ${reason}`);
  }

  /** How many calls ended in each way, and how many replies came after a first one. */
  endings(): Record<string, number> {
    const counts: Record<string, number> = { second: this.#second };
    for (const { ending } of this.#attempts) if (ending !== null) counts[ending] = (counts[ending] ?? 0) + 1;
    return counts;
  }

  async #live(name: string): Promise<void> {
    let conversation = 0;
    for (let n = 1; this.#running; n++) {
      await sleep(2 * this.#options.pauseMs * this.#random.unit());
      if (!this.#running) return;
      await this.#call(name, `${name}-${n}`, `${name}/${conversation}`);
      if (this.#random.unit() < 0.05) conversation++;
    }
  }

  async #call(client: string, call: string, session: string): Promise<void> {
    const { history, servers, tools, slowMs, timeoutMs, lateMs } = this.#options;
    const server = servers[this.#random.below(servers.length)]!;
    const tool = tools[this.#random.below(tools.length)]!;
    const attempt = history.begin(client, call, tool, `"${call}"`);
    const latestMs = Math.max(lateMs, GONE_MS);
    Object.assign(attempt, { server, via: 'public subjects', lateMs: latestMs });
    this.#attempts.push(attempt);
    const request = {
      session_id: session,
      tool,
      args: { call, session, ms: this.#random.below(slowMs), bytes: 200_000 },
      timeout_ms: timeoutMs,
    };
    const replied = Promise.withResolvers<Reply | null>();
    const reply = `_INBOX.${call}.${this.#random.below(2 ** 31)}`;
    let first = true;
    const subscription = this.#connection!.subscribe(reply, {
      callback: (_error, message) => {
        if (!first) this.#second++;
        first = false;
        replied.resolve(message.headers?.code === 503 ? { outcome: 'NOT_SENT' } : message.json<Reply>());
      },
    });
    this.#connection!.publish(`mcp.${server}.execute`, JSON.stringify(request), { reply });
    const late = setTimeout(() => replied.resolve(null), timeoutMs + latestMs + 500);
    const answer = await replied.promise;
    clearTimeout(late);
    judge(attempt, answer);
    setTimeout(() => subscription.unsubscribe(), 5_000).unref();
  }
}

/** How long after `at` NATS was back; 0 if it was not away. */
export function awayMs(at: number, natsAway: readonly Span[]): number {
  return Math.max(0, ...natsAway.filter(({ from }) => from <= at).map(({ to }) => to - at));
}

function judge(attempt: Attempt, reply: Reply | null): void {
  attempt.endedAt = performance.now();
  attempt.ending = reply?.outcome ?? 'LOST';
  attempt.reason = JSON.stringify(reply ?? 'no reply').slice(0, 1_000);
  if (reply === null) return;
  attempt.answeredId = attempt.rpcId;
  if (reply.outcome !== 'RESULT') return;
  attempt.answeredCall = /^done (\S+)/.exec(String(reply.result ?? reply.error))?.[1] ?? null;
}

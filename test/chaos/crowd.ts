import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Attempt, type Ending, History } from '../faults/ledger/history.ts';
import type { LedgerClient } from '../faults/ledger/ledger-client.ts';
import type { NpmServer } from './npm-servers.ts';
import type { Seeded } from './seeded.ts';

const TOOLS = [
  'safe',
  'safe',
  'safe_slow',
  'unsafe',
  'unsafe',
  'unsafe',
  'slow',
  'big',
  'hang',
  'crash_after',
] as const;
/** Share of the calls of troublesome tools that become calls of `unsafe` instead. */
const MUST_SUCCEED = 0.95;
/** Share of all calls that go to servers without a ledger. */
const TO_NPM = 0.3;

/** What a crowd calls: one gateway, or several. */
export interface CrowdGround {
  readonly history: History;
  client(name: string, era: 'stateful' | 'stateless'): LedgerClient;
}

export interface CrowdOptions {
  readonly tools?: readonly string[];
  /** The longest time that a slow tool takes. */
  readonly slowMs?: number;
  /** Mean time a client takes between two calls. */
  readonly pauseMs?: number;
  /** Servers that a client uses; all of them otherwise. */
  readonly serversOf?: (client: number) => readonly string[];
  /**
   * There are several nodes: a client whose call was not answered goes on with its session at another one, and makes
   * another attempt at what was NOT_SENT.
   */
  readonly roams?: boolean;
}

/** Clients of both eras that call without a pause, open sessions and drop them, vanish in mid-call and stall. */
export class Crowd {
  /** The calls of servers that keep no ledger. */
  readonly npmHistory = new History();
  readonly #ground: CrowdGround;
  readonly #options: CrowdOptions;
  readonly #random: Seeded;
  readonly #ledgers: readonly string[];
  readonly #npm: readonly NpmServer[];
  readonly #stalled: Socket[] = [];
  #loops: Promise<void>[] = [];
  #running = false;
  #made = 0;

  constructor(
    ground: CrowdGround,
    random: Seeded,
    ledgers: readonly string[],
    npm: readonly NpmServer[] = [],
    options: CrowdOptions = {},
  ) {
    this.#ground = ground;
    this.#options = options;
    this.#random = random;
    this.#ledgers = ledgers;
    this.#npm = npm;
  }

  begin(clients: number): void {
    this.#running = true;
    this.#loops = Array.from({ length: clients }, (_, i) =>
      this.#live(i % 3 === 0 ? 'stateless' : 'stateful', this.#options.serversOf?.(i) ?? this.#ledgers),
    );
  }

  async stop(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#loops);
    this.#loops = [];
    for (const socket of this.#stalled.splice(0)) socket.destroy();
  }

  /** Calls a tool with a long answer stream and reads nothing of it. */
  async stall(): Promise<void> {
    const client = await this.#client('stateful');
    if (client === null) return;
    const url = new URL(client.url);
    const socket = connect(Number(url.port), url.hostname).on('error', () => {});
    socket.pause();
    this.#stalled.push(socket);
    if (this.#stalled.length > 10) this.#stalled.shift()!.destroy();
    const attempt = this.#ground.history.begin(client.name, `${client.name}-stall`, 'chatter', '1');
    attempt.abandoned = true;
    const args = { call: attempt.call, times: 64, bytes: 64 * 1024 };
    const params = { name: 'shared__chatter', arguments: args, _meta: { progressToken: attempt.call } };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
    socket.write(
      `POST /mcp HTTP/1.1\r\nhost: ${url.host}\r\naccept: application/json, text/event-stream\r\n` +
        `content-type: application/json\r\nmcp-session-id: ${client.sessionId}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
  }

  async abandonSessions(count: number): Promise<void> {
    for (let i = 0; i < count; i++) (await this.#client('stateful'))?.close();
  }

  /** A client of its own calls the same tool so many times at once; resolves when every call has ended. */
  async burst(tool: string, args: Record<string, unknown>, times: number): Promise<void> {
    const client = await this.#client(this.#random.below(2) === 0 ? 'stateful' : 'stateless');
    if (client === null) return;
    await Promise.all(Array.from({ length: times }, () => client.call(tool, args)));
    await client.end();
  }

  /** One call of a fresh client. */
  async probe(server: string): Promise<Ending | null> {
    const client = await this.#client('stateful');
    if (client === null) return null;
    const npm = this.#npm.find(({ name }) => name === server);
    const { ending } = await (npm === undefined ? client.call(`${server}__unsafe`) : this.#callNpm(client, npm, {}));
    await client.end();
    return ending;
  }

  async #live(era: 'stateful' | 'stateless', servers: readonly string[]): Promise<void> {
    const { roams = false, pauseMs = 0 } = this.#options;
    let client = await this.#client(era);
    while (this.#running) {
      if (client === null) {
        await sleep(100);
        client = await this.#client(era);
        continue;
      }
      if (pauseMs > 0) await sleep(2 * pauseMs * this.#random.unit());
      const attempt = await this.#call(client, servers);
      // A new client replaces one that leaves, and one whose session is gone.
      const leaves = this.#random.unit() < 0.02;
      if (leaves) await client.end();
      if (attempt === 'LOST') await sleep(100);
      if (leaves || (attempt === 'LOST' && !roams) || attempt === 'GONE') {
        client.close();
        client = await this.#client(era);
      } else if (attempt === 'NOT_SENT' || attempt === 'REFUSED') await sleep(50);
    }
    client?.close();
  }

  async #call(client: LedgerClient, servers: readonly string[]): Promise<Ending | 'GONE' | null> {
    const { tools = TOOLS, slowMs = 60, roams = false } = this.#options;
    const abandon = this.#random.unit() < 0.02 ? { abandonAfterMs: 5 } : {};
    if (this.#npm.length > 0 && this.#random.unit() < TO_NPM) {
      return endingOf(await this.#callNpm(client, this.#random.pick(this.#npm), abandon));
    }
    let tool = this.#random.pick(tools);
    if (/hang|crash|big/.test(tool) && this.#random.unit() < MUST_SUCCEED) tool = 'unsafe';
    const server = this.#random.pick(servers);
    // The gateway cannot restart a crashed server behind a URL.
    if (tool === 'crash_after' && (server === 'old' || server === 'modern')) tool = 'safe';
    const args = { ms: this.#random.below(slowMs), bytes: 200_000 };
    const first = await client.call(`${server}__${tool}`, args, abandon);
    if (!roams || first.ending !== 'NOT_SENT') return endingOf(first);
    await sleep(50);
    return endingOf(await client.call(`${server}__${tool}`, args, { call: first.call }));
  }

  #callNpm(client: LedgerClient, server: NpmServer, abandon: { abandonAfterMs?: number }): Promise<Attempt> {
    const call = `${client.name}-npm${++this.#made}`;
    const { tool, args, answers } = server.call(call, this.#random.below(1_000_000));
    return client.call(`${server.name}__${tool}`, args, {
      ...abandon,
      call,
      history: this.npmHistory,
      callOf: (text) => (answers(text) ? call : null),
    });
  }

  async #client(era: 'stateful' | 'stateless'): Promise<LedgerClient | null> {
    const client = this.#ground.client(`c${++this.#made}`, era);
    try {
      await client.open();
      return client;
    } catch {
      client.close();
      return null;
    }
  }
}

function endingOf(attempt: Attempt): Ending | 'GONE' | null {
  return /Session not found/.test(attempt.reason) ? 'GONE' : attempt.ending;
}

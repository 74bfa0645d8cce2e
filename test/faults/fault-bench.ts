import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { ServerStatus } from '../../src/model/server-state.ts';
import { MARK, survivors } from '../support/processes.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { checkLedger, type Evidence, type Violation } from './ledger/check-ledger.ts';
import { History } from './ledger/history.ts';
import { LedgerClient } from './ledger/ledger-client.ts';
import { readLedger } from './ledger/ledger-entry.ts';
import { ledgerStdio } from './ledger/ledger-process.ts';
import type { LedgerEra } from './ledger/ledger-server.ts';

export type Servers = Record<string, Record<string, unknown>>;

/**
 * A real gateway process in front of ledger servers, for one test. Children carry a mark in their environment, and
 * when the test ends none of them may be left.
 */
export class FaultBench {
  readonly folder = mkdtempSync(join(tmpdir(), 'trunkline-faults-'));
  readonly mark = randomUUID();
  readonly history = new History();
  readonly #clients: LedgerClient[] = [];
  #gateway: RunningGateway | null = null;

  constructor(t: TestContext | null) {
    t?.after(() => this.dispose());
  }

  get gateway(): RunningGateway {
    if (this.#gateway === null) throw new Error('the gateway was not started');
    return this.#gateway;
  }

  ledger(name = 'ledger'): string {
    return join(this.folder, `${name}.jsonl`);
  }

  /** A ledger server of the configuration; its ledger has its name. */
  stdio(name: string, era: LedgerEra = 'stateful', more: Record<string, unknown> = {}): Record<string, unknown> {
    const { env = {}, ...rest } = more as { env?: Record<string, string> };
    return ledgerStdio(this.ledger(name), era, { env: { [MARK]: this.mark, ...env }, ...rest });
  }

  async start(
    servers: Servers,
    settings: Record<string, unknown> = {},
    env: Record<string, string> = {},
    under: readonly string[] = [],
  ): Promise<void> {
    const folder = this.#gateway?.folder;
    this.#gateway = await RunningGateway.start({
      config: { ...settings, mcpServers: servers },
      env,
      under,
      ...(folder === undefined ? {} : { folder }),
    });
    for (const client of this.#clients) client.url = this.gateway.mcpUrl;
  }

  client(name: string, era: 'stateful' | 'stateless' = 'stateful', server?: string): LedgerClient {
    const url = server === undefined ? this.gateway.mcpUrl : this.gateway.serverUrl(server);
    const client = new LedgerClient({ url, era, name, history: this.history });
    this.#clients.push(client);
    return client;
  }

  async opened(name: string, era: 'stateful' | 'stateless' = 'stateful', server?: string): Promise<LedgerClient> {
    const client = this.client(name, era, server);
    await client.open();
    return client;
  }

  status(name: string): Promise<ServerStatus> {
    return this.gateway.control<ServerStatus>(`/api/v1/servers/${name}`);
  }

  async pids(name: string): Promise<number[]> {
    const { connections } = await this.status(name);
    return connections.flatMap(({ pid }) => (pid === null ? [] : [pid]));
  }

  violations(ledgers: readonly string[], more: Partial<Evidence> = {}): Violation[] {
    return checkLedger({
      attempts: this.history.attempts,
      ledger: ledgers.flatMap((name) => readLedger(this.ledger(name))),
      repeatable: new Set(),
      deadlineMs: 60_000,
      ...more,
    });
  }

  async dispose(): Promise<void> {
    for (const client of this.#clients) client.close();
    await this.#gateway?.dispose();
    const left = await survivors(this.mark, 10_000);
    rmSync(this.folder, { recursive: true, force: true });
    assert.deepEqual(left, [], 'processes that outlived the gateway');
  }
}

/** Polls the condition for at most `withinMs`. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  withinMs = 30_000,
): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await condition())) {
    assert.ok(performance.now() < end, `${what}: not within ${withinMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

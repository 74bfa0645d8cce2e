import { rmSync } from 'node:fs';
import { Seeded } from '../chaos/seeded.ts';
import type { Json } from '../support/raw-http.ts';
import { RunTimeClient } from '../support/run-time-client.ts';
import { RunningGateway } from '../support/running-gateway.ts';

/** The state of one name; null if there is no such server. */
interface Server {
  readonly description: string;
  readonly suspended: boolean;
}

interface Name {
  /** The state that was acknowledged last. */
  known: Server | null;
  /** The state after a change that was not answered; undefined without such a change. */
  under: Server | null | undefined;
}

const NAMES = 12;
const WRITERS = 4;
const LONGEST_MS = 400;
/** No server is started: only the stored state is tested. */
const FILE = { mcpServers: { base: { url: 'http://127.0.0.1:9/mcp', start: 'lazy' } } };

export interface ConfigKillsState {
  readonly folder: string;
  readonly names: Readonly<Record<string, Name>>;
}

/**
 * A gateway that is killed with -9 while four clients change its servers, again and again on one data folder.
 * Acknowledged changes must be there at the next start; a change in progress is made completely or not at all.
 */
export class ConfigKills {
  readonly violations: string[] = [];
  acknowledged = 0;
  /** Changes that a kill interrupted before their answer, and how many of them had been made. */
  cut = 0;
  cutAndMade = 0;
  readonly #random: Seeded;
  readonly #names = new Map<string, Name>();
  #folder: string | null = null;

  constructor(seed: number, before: ConfigKillsState | null = null) {
    this.#random = new Seeded(seed);
    for (let i = 0; i < NAMES; i++)
      this.#names.set(`s${i}`, before?.names[`s${i}`] ?? { known: null, under: undefined });
    this.#folder = before?.folder ?? null;
  }

  get state(): ConfigKillsState {
    return { folder: this.#folder!, names: Object.fromEntries(this.#names) };
  }

  /** Starts the gateway, compares, and changes servers until the kill. */
  async round(): Promise<void> {
    const gateway = await this.#start();
    const client = new RunTimeClient(gateway);
    await this.#compare(client);
    let over = false;
    const writers = Array.from({ length: WRITERS }, (_, i) => this.#write(client, i, () => over));
    // At least one change is acknowledged before the kill, even on a slow machine.
    while (this.acknowledged === 0) await new Promise((done) => setTimeout(done, 5));
    await new Promise((done) => setTimeout(done, this.#random.unit() * LONGEST_MS));
    over = true;
    await gateway.stop('SIGKILL');
    await Promise.all(writers);
  }

  /** Starts the gateway, compares once more, and stops it. */
  async finish(): Promise<void> {
    const gateway = await this.#start();
    await this.#compare(new RunTimeClient(gateway));
    await gateway.dispose();
  }

  dispose(): void {
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true });
  }

  async #start(): Promise<RunningGateway> {
    const gateway = await RunningGateway.start({
      config: FILE,
      ...(this.#folder === null ? {} : { folder: this.#folder }),
    });
    this.#folder = gateway.folder;
    return gateway;
  }

  /** One writer has names of its own, so that the order of its changes is known. */
  async #write(client: RunTimeClient, writer: number, over: () => boolean): Promise<void> {
    const own = [...this.#names].filter((_, i) => i % WRITERS === writer);
    while (!over()) {
      const [name, state] = this.#random.pick(own);
      const { wanted, send } = this.#change(client, name, state.known);
      state.under = wanted;
      try {
        const { status, text } = await send();
        if (status !== 200 && status !== 201) this.violations.push(`${name}: a change was answered ${status} ${text}`);
        else state.known = wanted;
        state.under = undefined;
        this.acknowledged++;
      } catch {
        // The kill came first.
        this.cut++;
        return;
      }
    }
  }

  #change(client: RunTimeClient, name: string, known: Server | null) {
    const description = `of ${Math.floor(this.#random.unit() * 1e9)}`;
    const definition = { url: 'http://127.0.0.1:9/mcp', start: 'lazy', description };
    if (known === null) return { wanted: { description, suspended: false }, send: () => client.add(name, definition) };
    const choice = this.#random.below(4);
    if (choice === 0) return { wanted: null, send: () => client.remove(name) };
    if (choice === 1) return { wanted: { ...known, suspended: true }, send: () => client.suspend(name) };
    if (choice === 2) return { wanted: { ...known, suspended: false }, send: () => client.resume(name) };
    return { wanted: { ...known, description }, send: () => client.change(name, definition) };
  }

  async #compare(client: RunTimeClient): Promise<void> {
    const { servers } = (await client.ask('GET', '/api/v1/servers')).json;
    for (const [name, state] of this.#names) {
      const found = servers.find((server: Json) => server.name === name);
      const now = found === undefined ? null : { description: found.description, suspended: found.desired.suspended };
      const made = state.under !== undefined && same(now, state.under);
      if (made && !same(now, state.known)) this.cutAndMade++;
      if (!made && !same(now, state.known)) {
        const may = state.under === undefined ? '' : ` or ${JSON.stringify(state.under)}`;
        this.violations.push(`${name} is ${JSON.stringify(now)}, and was ${JSON.stringify(state.known)}${may}`);
      }
      state.known = now;
      state.under = undefined;
    }
  }
}

function same(a: Server | null, b: Server | null): boolean {
  return a?.description === b?.description && a?.suspended === b?.suspended;
}

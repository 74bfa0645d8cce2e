import { setTimeout as sleep } from 'node:timers/promises';
import type { NodeProcess } from '../support/cluster-processes.ts';
import type { Reply } from '../support/raw-http.ts';
import { RunTimeClient } from '../support/run-time-client.ts';
import type { ClusterWorld } from './cluster-world.ts';
import type { Seeded } from './seeded.ts';

/** What a write requests: the description that the server has afterwards, or null if it is removed. */
type Wanted = string | null;

export interface Write {
  readonly node: string;
  readonly name: string;
  readonly wanted: Wanted;
  readonly at: number;
  /** `made`: acknowledged. `refused`: nothing was changed. `unsure`: no answer gave the result. */
  readonly end: 'made' | 'refused' | 'unsure';
  readonly answer: string;
}

const PAUSE_MS = 700;
/** The number of names in use at a time. */
const NAMES = 6;
const PATIENCE_MS = 10_000;

/** A client that adds, changes and removes servers by the control API of any node, and remembers what was acknowledged. */
export class ConfigWriter {
  readonly writes: Write[] = [];
  readonly #world: ClusterWorld;
  readonly #random: Seeded;
  readonly #definition: object;
  /** The expected state of each name. A name whose state has become uncertain is replaced by another. */
  readonly #known = new Map<string, Wanted>();
  #running = false;
  #loop: Promise<void> = Promise.resolve();
  #versions = 0;
  #names = 0;

  constructor(world: ClusterWorld, random: Seeded, definition: object) {
    this.#world = world;
    this.#random = random;
    this.#definition = definition;
    for (let i = 0; i < NAMES; i++) this.#another();
  }

  begin(): void {
    this.#running = true;
    this.#loop = this.#write();
  }

  async stop(): Promise<void> {
    this.#running = false;
    await this.#loop;
  }

  /** What every node has to show, one text for each name. */
  get acknowledged(): string[] {
    return [...this.#known].map(([name, wanted]) => shown(name, wanted));
  }

  /** The same as this node sees it. */
  async present(node: NodeProcess): Promise<string[]> {
    const client = new RunTimeClient(node.gateway);
    return Promise.all(
      [...this.#known.keys()].map(async (name) => {
        const { status, json } = await client.ask('GET', `/api/v1/servers/${name}`);
        return shown(name, status === 404 ? null : String(json.description));
      }),
    );
  }

  async #write(): Promise<void> {
    while (this.#running) {
      await sleep(2 * PAUSE_MS * this.#random.unit());
      const { running } = this.#world;
      if (running.length === 0) continue;
      await this.#once(this.#random.pick(running), this.#random.pick([...this.#known.keys()]));
    }
  }

  async #once(node: NodeProcess, name: string): Promise<void> {
    const client = new RunTimeClient(node.gateway);
    const add = this.#known.get(name) === null;
    const remove = !add && this.#random.below(3) === 0;
    const wanted: Wanted = remove ? null : `version ${++this.#versions}`;
    const definition = { ...this.#definition, description: wanted };
    const at = performance.now();
    let end: Write['end'] = 'unsure';
    let answer = '';
    try {
      const asked = remove ? client.remove(name) : add ? client.add(name, definition) : client.change(name, definition);
      const reply = await Promise.race([asked, sleep(PATIENCE_MS, null, { ref: false })]);
      if (reply !== null) {
        end = endOf(reply);
        answer = `${reply.status} ${reply.text.slice(0, 300)}`;
      }
    } catch (error) {
      answer = String(error);
      // A node that does not listen received nothing.
      if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') end = 'refused';
    }
    this.writes.push({ node: node.name, name, wanted, at, end, answer });
    if (end === 'made') this.#known.set(name, wanted);
    else if (end === 'unsure') {
      this.#known.delete(name);
      this.#another();
    }
  }

  #another(): void {
    this.#known.set(`added${++this.#names}`, null);
  }
}

function endOf({ status, text }: Reply): Write['end'] {
  if (status < 300) return 'made';
  return text.includes('outcome_unknown') ? 'unsure' : 'refused';
}

function shown(name: string, wanted: Wanted): string {
  return wanted === null ? `${name} is gone` : `${name} is ${wanted}`;
}

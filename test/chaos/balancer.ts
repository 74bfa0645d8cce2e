import type { Route } from '../faults/ledger/ledger-client.ts';
import type { NodeProcess } from '../support/cluster-processes.ts';
import type { Seeded } from './seeded.ts';

const ASK_EVERY_MS = 200;
/** A node that has not answered by then counts as gone. */
const PATIENCE_MS = 1_000;

/**
 * Acts as a plain proxy in front of nodes, without stickiness: each request goes to a random node whose `/readyz`
 * succeeded, and a share of the requests (`blind`) to any known node, ready or not.
 */
export class Balancer {
  readonly #nodes: () => readonly NodeProcess[];
  readonly #random: Seeded;
  readonly #blind: number;
  #ready: readonly NodeProcess[] = [];
  #timer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(nodes: () => readonly NodeProcess[], random: Seeded, blind = 0) {
    this.#nodes = nodes;
    this.#random = random;
    this.#blind = blind;
  }

  /** Resolves when every node has been asked once. */
  async look(): Promise<void> {
    const nodes = this.#nodes();
    const answers = await Promise.all(nodes.map((node) => ready(node)));
    this.#ready = nodes.filter((_, i) => answers[i]);
    if (!this.#closed) this.#timer ??= setTimeout(() => this.#lookAgain(), ASK_EVERY_MS);
  }

  get route(): () => Route {
    return () => this.choose();
  }

  choose(): Route {
    const known = this.#nodes();
    const ready = known.filter((node) => this.#ready.includes(node));
    const among = ready.length === 0 || this.#random.unit() < this.#blind ? known : ready;
    // Without a node, the address refuses connections, like that of a proxy without a backend.
    if (among.length === 0) return { node: 'none', url: 'http://127.0.0.1:9/mcp' };
    const node = this.#random.pick(among);
    return { node: node.name, url: node.mcpUrl };
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer ?? undefined);
  }

  #lookAgain(): void {
    this.#timer = null;
    void this.look();
  }
}

async function ready(node: NodeProcess): Promise<boolean> {
  try {
    const response = await fetch(new URL('/readyz', node.mcpUrl), { signal: AbortSignal.timeout(PATIENCE_MS) });
    await response.body?.cancel();
    return response.status === 200;
  } catch {
    return false;
  }
}

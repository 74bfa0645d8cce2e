import { type Guard, guardedCatalog } from '../../catalog/drift/guarded-catalog.ts';
import { type DriftPolicy, type PinnedList, type Pins, pinKey } from '../../model/drift.ts';
import type { Server } from '../../model/server.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import type { KnownServers } from '../known-servers.ts';

interface Seen {
  readonly generation: number;
  readonly guard: Guard;
  readonly view: ServerCatalog;
}

/**
 * The catalogues of servers as they are offered. An unchanged one costs one look-up per call; after a decision it is made
 * again, and is the same object where nothing differs.
 */
export class Guards {
  readonly #pins: Pins;
  readonly #upstreams: Pick<KnownServers, 'servers'>;
  #policies: ReadonlyMap<string, DriftPolicy> = new Map();
  #policiesOf: readonly Server[] | null = null;
  #generation = 0;
  readonly #views = new WeakMap<ServerCatalog, Seen>();
  readonly #raw = new WeakMap<ServerCatalog, ServerCatalog>();

  constructor(pins: Pins, upstreams: Pick<KnownServers, 'servers'>) {
    this.#pins = pins;
    this.#upstreams = upstreams;
  }

  /** Something was approved, blocked or trusted, or a policy is another. */
  invalidate(): void {
    this.#generation++;
  }

  of(server: string): Guard {
    return { policy: this.policy(server), pins: this.#pins.of(server) };
  }

  policy(server: string): DriftPolicy {
    const servers = this.#upstreams.servers();
    if (servers !== this.#policiesOf) {
      this.#policiesOf = servers;
      this.#policies = new Map(servers.map(({ name, drift }) => [name, drift ?? 'off']));
    }
    return this.#policies.get(server) ?? 'off';
  }

  /** Whether only what was approved may be used. */
  isClosed(server: string): boolean {
    return offersApprovedOnly(this.policy(server));
  }

  /** Whether the operator blocked a name, listed or not. */
  isBlocked(server: string, list: PinnedList, key: string): boolean {
    return this.policy(server) !== 'off' && this.#pins.of(server).pins.get(pinKey({ list, key }))?.blocked != null;
  }

  view(raw: ServerCatalog): ServerCatalog {
    const seen = this.#views.get(raw);
    if (seen !== undefined && seen.generation === this.#generation) return seen.view;
    const guard = this.of(raw.server);
    const generation = this.#generation;
    const same = seen !== undefined && seen.guard.policy === guard.policy && seen.guard.pins === guard.pins;
    const next = same ? seen.view : guardedCatalog(raw, beforeTrust(guard));
    // A client with the view before has this one too, where nothing differs.
    const view = seen !== undefined && (same || isSame(seen.view, next)) ? seen.view : next;
    this.#views.set(raw, { generation, guard, view });
    if (view !== raw) this.#raw.set(view, raw);
    return view;
  }

  /** What the server said, of what is offered of it. */
  raw(view: ServerCatalog): ServerCatalog {
    return this.#raw.get(view) ?? view;
  }
}

/** Whether only what was approved may be offered. */
export function offersApprovedOnly(policy: DriftPolicy): boolean {
  return policy === 'hold' || policy === 'block';
}

/**
 * Nothing of the server was trusted yet, so this was remembered or learnt from elsewhere, and is being looked at: where
 * only what was approved may be offered, nothing is until that is done. What a server lists here is trusted before.
 */
function beforeTrust({ policy, pins }: Guard): Guard {
  return offersApprovedOnly(policy) && pins.trustedAt === null
    ? { policy, pins: { ...pins, trustedAt: 0 } }
    : { policy, pins };
}

function isSame(a: ServerCatalog, b: ServerCatalog): boolean {
  if (a.digest !== b.digest || (a.withheld?.only == null) !== (b.withheld?.only == null)) return false;
  const why = ({ withheld }: ServerCatalog) =>
    JSON.stringify([...(withheld?.tools ?? []), ...(withheld?.prompts ?? []), ...(withheld?.resourceTemplates ?? [])]);
  return why(a) === why(b);
}

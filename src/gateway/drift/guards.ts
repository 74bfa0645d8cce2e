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
 * The catalogs as they are offered. An unchanged catalog costs one look-up per call. After a decision it is computed again, and
 * stays the same object if nothing differs.
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

  /** Called after an approval, a block, a first use or a changed policy. */
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

  /** Whether only approved definitions may be used. */
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
    // If nothing differs, the view stays the same object.
    const view = seen !== undefined && (same || isSame(seen.view, next)) ? seen.view : next;
    this.#views.set(raw, { generation, guard, view });
    if (view !== raw) this.#raw.set(view, raw);
    return view;
  }

  /** The catalog as the server wrote it, of an offered view. */
  raw(view: ServerCatalog): ServerCatalog {
    return this.#raw.get(view) ?? view;
  }
}

/** Whether only approved definitions may be offered. */
export function offersApprovedOnly(policy: DriftPolicy): boolean {
  return policy === 'hold' || policy === 'block';
}

/**
 * Before first use, `hold` and `block` offer nothing. Only a stored catalog, or one of another node, gets here, while it is
 * inspected: a catalog that this node lists is trusted first.
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

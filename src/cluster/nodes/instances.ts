import { type ClientProfile, isolationOf } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Era } from '../../model/message.ts';
import { DOWN, type ServerStatus, STARTED, UP } from '../../model/server-state.ts';
import type { LocalUpstreams } from '../cluster-deps.ts';
import { LruMap } from '../lru-map.ts';
import { statusOfLost } from './lost-instances.ts';
import { type Place, type RemoteInstance, runsOnce } from './routing-table.ts';

const MAX_REMEMBERED = 65_536;

interface KnownInstance {
  readonly instance: RemoteInstance;
  readonly epoch: string | null;
}

interface Remembered {
  readonly peer: string;
  readonly epoch: string | null;
}

/** Remembers which node the calls of a key go to, per server, so that a client returns to its state. */
export class Instances {
  readonly #instances = new LruMap<Map<string, Remembered>>(MAX_REMEMBERED);

  remember(server: string, key: string, peer: string, epoch: string | null): void {
    const known = this.#instances.get(key);
    const before = known?.get(server);
    if (before !== undefined && before.peer === peer && before.epoch === epoch) return;
    if (known === undefined) this.#instances.set(key, new Map([[server, { peer, epoch }]]));
    else known.set(server, { peer, epoch });
  }

  peerOf(server: string, key: string): string | null {
    return this.#instances.get(key)?.get(server)?.peer ?? null;
  }

  /** Null if there is none, or if that node no longer has the server. */
  known(place: Place, key: string): KnownInstance | null {
    const { name } = place.server;
    const known = this.#instances.get(key)?.get(name);
    if (known === undefined) return null;
    const instance = place.otherInstances.find(({ node }) => node.peer === known.peer);
    if (instance === undefined) this.forget(name, key);
    return instance === undefined ? null : { instance, epoch: known.epoch };
  }

  forget(server: string, key: string): void {
    const known = this.#instances.peek(key);
    if (known?.delete(server) === true && known.size === 0) this.#instances.delete(key);
  }

  /** Returns the peers that the session's calls went to. */
  forgetSession(sessionId: string): ReadonlySet<string> {
    const known = this.#instances.peek(sessionId);
    this.#instances.delete(sessionId);
    return new Set([...(known?.values() ?? [])].map(({ peer }) => peer));
  }
}

/**
 * The instances that serve instead of this node. While it cannot start the server: those that run. While it is full: those with
 * room. If there are none, and all its processes are in use: those that can end an idle process.
 */
export function fallbackInstances(
  place: Place,
  local: Pick<LocalUpstreams, 'failing' | 'capacity'>,
  client: ClientProfile | null = null,
): readonly RemoteInstance[] {
  const { here, otherInstances, server } = place;
  if (!here || otherInstances.length === 0) return [];
  const ready = (): readonly RemoteInstance[] => otherInstances.filter(({ node }) => node.state === 'ready');
  const capacity = client === null || !place.process ? 'free' : local.capacity(server.name);
  if (capacity !== 'free') {
    const able = ready().filter((instance) => !cannotStart(instance));
    const withCapacity = able.filter((instance) => hasCapacity(instance, server.name));
    return withCapacity.length > 0 || capacity === 'idle'
      ? withCapacity
      : able.filter((instance) => canFreeCapacity(instance, server.name));
  }
  return local.failing(server.name, client) ? ready().filter(runs) : [];
}

export function runs({ advertised }: RemoteInstance): boolean {
  return UP.has(advertised.status?.state ?? 'unknown');
}

export function hasCapacity({ node }: RemoteInstance, server: string): boolean {
  return node.full?.includes(server) !== true;
}

export function canFreeCapacity({ node }: RemoteInstance, server: string): boolean {
  return node.inUse?.includes(server) !== true;
}

export function cannotStart({ advertised }: RemoteInstance): boolean {
  return DOWN.has(advertised.status?.state ?? 'unknown');
}

export function isStarted({ advertised }: RemoteInstance): boolean {
  return STARTED.has(advertised.status?.state ?? 'unknown');
}

/** Prefers a started instance: only the node that runs a singleton has its status. */
export function instanceToRead({ otherInstances: instances }: Place): RemoteInstance | null {
  const staying = instances.filter(({ node }) => node.state !== 'draining');
  return staying.find(isStarted) ?? staying[0] ?? instances[0] ?? null;
}

/** `reached`: this node is connected to the bus. */
export function statusElsewhere({ otherInstances: instances, lost }: Place, reached: boolean): ServerStatus | null {
  if (lost !== null) return statusOfLost(lost, reached);
  const statuses = instances.map(({ advertised }) => advertised.status).filter((status) => status !== null);
  return statuses.find(({ state }) => STARTED.has(state)) ?? statuses[0] ?? null;
}

export interface Restart {
  readonly at: string;
  readonly done: Promise<void>;
}

/** Only the node that runs a singleton has its status. */
export function runningElsewhere(place: Place): readonly RemoteInstance[] {
  if (!runsOnce(place)) return place.otherInstances;
  return place.otherInstances.filter(({ advertised }) => advertised.status !== null);
}

/** Whether a node needs a lease to start the server, so that it stays down once stopped without one. `era`: from its status. */
export function needsLease(place: Place, era: Era | null): boolean {
  return place.process && (runsOnce(place) || isolationOf(place.server, era) !== 'shared');
}

/** Waits for all; rejects with GatewayError if one failed. */
export async function allRestarted(server: string, restarts: readonly Restart[]): Promise<void> {
  const settled = await Promise.allSettled(restarts.map(({ done }) => done));
  const failures = settled.flatMap((one, i) =>
    one.status === 'rejected' ? [{ at: restarts[i]!.at, error: one.reason as Error }] : [],
  );
  if (failures.length === 0) return;
  const unsure = failures.some(({ error }) => error instanceof GatewayError && error.outcome === 'UNKNOWN');
  const text = failures.map(({ at, error }) => `at ${at}: ${error.message}`).join('; ');
  const done = restarts.filter((_, i) => settled[i]!.status === 'fulfilled').map(({ at }) => at);
  const rest = done.length === 0 ? '' : `; restarted at ${done.join(', ')}`;
  throw new GatewayError(unsure ? 'UNKNOWN' : 'NOT_SENT', `${server} ${text}${rest}`, { server });
}

import type { ClientProfile } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { DOWN, type ServerStatus, STARTED, UP } from '../../model/server-state.ts';
import type { LocalUpstreams } from '../cluster-deps.ts';
import { LruMap } from '../lru-map.ts';
import { statusOfLost } from './lost-instances.ts';
import { type Place, type RemoteInstance, runsOnce } from './routing-table.ts';

/** Keys of which it is remembered to which instance their calls go. */
const MAX_REMEMBERED = 65_536;

/** An instance that a client's calls go to, with the epoch of its claim where that is known. */
interface KnownInstance {
  readonly instance: RemoteInstance;
  readonly epoch: string | null;
}

interface Remembered {
  readonly peer: string;
  readonly epoch: string | null;
}

/** Which other node the calls of a key go to, server by server: a client comes back to its state. */
export class Instances {
  readonly #instances = new LruMap<Map<string, Remembered>>(MAX_REMEMBERED);

  remember(server: string, key: string, peer: string, epoch: string | null): void {
    const known = this.#instances.get(key);
    const before = known?.get(server);
    if (before !== undefined && before.peer === peer && before.epoch === epoch) return;
    if (known === undefined) this.#instances.set(key, new Map([[server, { peer, epoch }]]));
    else known.set(server, { peer, epoch });
  }

  /** Null also when that node no longer has the server; then it is forgotten. */
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

  /** The nodes that its calls went to. */
  forgetSession(sessionId: string): ReadonlySet<string> {
    const known = this.#instances.peek(sessionId);
    this.#instances.delete(sessionId);
    return new Set([...(known?.values() ?? [])].map(({ peer }) => peer));
  }
}

/**
 * The other instances that run, while it cannot be started at this node: what needs no owner is served there, and what is to
 * have an owner is this client's there, where a process of its own could not be started here. The same of those that have
 * room for a process more, while this node has none; of those that would end an idle one, while all are in use here.
 */
export function instancesInstead(
  place: Place,
  local: Pick<LocalUpstreams, 'failing' | 'room'>,
  client: ClientProfile | null = null,
): readonly RemoteInstance[] {
  const { here, otherInstances, server } = place;
  if (!here || otherInstances.length === 0) return [];
  const ready = (): readonly RemoteInstance[] => otherInstances.filter(({ node }) => node.state === 'ready');
  const room = client === null || !place.process ? 'free' : local.room(server.name);
  if (room !== 'free') {
    const able = ready().filter((instance) => !cannotStart(instance));
    const roomy = able.filter((instance) => hasRoom(instance, server.name));
    return roomy.length > 0 || room === 'idle' ? roomy : able.filter((instance) => makesRoom(instance, server.name));
  }
  return local.failing(server.name, client) ? ready().filter(runs) : [];
}

/** As far as its node has said, like those below. */
export function runs({ advertised }: RemoteInstance): boolean {
  return UP.has(advertised.status?.state ?? 'unknown');
}

/** By its last heartbeat. */
export function hasRoom({ node }: RemoteInstance, server: string): boolean {
  return node.full?.includes(server) !== true;
}

/** It has room, or would end an idle process for another. */
export function makesRoom({ node }: RemoteInstance, server: string): boolean {
  return node.inUse?.includes(server) !== true;
}

export function cannotStart({ advertised }: RemoteInstance): boolean {
  return DOWN.has(advertised.status?.state ?? 'unknown');
}

function isStarted({ advertised }: RemoteInstance): boolean {
  return STARTED.has(advertised.status?.state ?? 'unknown');
}

/** The instance that a server's lists are read from. Of a singleton only the node where it runs has a status. */
export function instanceToRead({ otherInstances: instances }: Place): RemoteInstance | null {
  const staying = instances.filter(({ node }) => node.state !== 'draining');
  return staying.find(isStarted) ?? staying[0] ?? instances[0] ?? null;
}

/** The best status that its instances advertise. `reached`: this node has its connection to the bus. */
export function statusElsewhere({ otherInstances: instances, lost }: Place, reached: boolean): ServerStatus | null {
  if (lost !== null) return statusOfLost(lost, reached);
  const statuses = instances.map(({ advertised }) => advertised.status).filter((status) => status !== null);
  return statuses.find(({ state }) => STARTED.has(state)) ?? statuses[0] ?? null;
}

/** The restart of one instance, under way. */
export interface Restart {
  /** As an operator knows it. */
  readonly at: string;
  readonly done: Promise<void>;
}

/** The other instances of which something runs. Of a singleton only the node where it runs has a status. */
export function runningElsewhere(place: Place): readonly RemoteInstance[] {
  if (!runsOnce(place)) return place.otherInstances;
  return place.otherInstances.filter(({ advertised }) => advertised.status !== null);
}

/** Rejects with GatewayError when one has failed, once all have ended: those that could are restarted. */
export async function allRestarted(server: string, restarts: readonly Restart[]): Promise<void> {
  const settled = await Promise.allSettled(restarts.map(({ done }) => done));
  const failures = settled.flatMap((one, i) =>
    one.status === 'rejected' ? [{ at: restarts[i]!.at, error: one.reason as Error }] : [],
  );
  if (failures.length === 0) return;
  const unsure = failures.some(({ error }) => error instanceof GatewayError && error.outcome === 'UNKNOWN');
  const text = failures.map(({ at, error }) => `at ${at}: ${error.message}`).join('; ');
  throw new GatewayError(unsure ? 'UNKNOWN' : 'NOT_SENT', `${server} ${text}`, { server });
}

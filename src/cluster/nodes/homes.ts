import type { ClientProfile } from '../../model/client-profile.ts';
import { DOWN, type ServerStatus, STARTED, UP } from '../../model/server-state.ts';
import type { LocalUpstreams } from '../cluster-deps.ts';
import { Recent } from '../recent.ts';
import type { ForeignHome, Place } from './directory.ts';
import { statusOfLost } from './lost-homes.ts';

/** Keys whose calls to servers of other nodes are remembered to go to one of their homes. */
const MAX_REMEMBERED = 65_536;

/** A home that a client's calls go to, with the epoch of its claim where that is known. */
export interface KnownHome {
  readonly home: ForeignHome;
  readonly epoch: string | null;
}

interface Remembered {
  readonly peer: string;
  readonly epoch: string | null;
}

/** Which other node the calls of a key go to, server by server: whoever has state there comes back to it. */
export class Homes {
  readonly #homes = new Recent<Map<string, Remembered>>(MAX_REMEMBERED);

  remember(server: string, key: string, peer: string, epoch: string | null): void {
    const known = this.#homes.get(key);
    const before = known?.get(server);
    if (before !== undefined && before.peer === peer && before.epoch === epoch) return;
    if (known === undefined) this.#homes.set(key, new Map([[server, { peer, epoch }]]));
    else known.set(server, { peer, epoch });
  }

  /** Null also when that node no longer has the server; then it is forgotten. */
  known(place: Place, key: string): KnownHome | null {
    const { name } = place.server;
    const known = this.#homes.get(key)?.get(name);
    if (known === undefined) return null;
    const home = place.otherHomes.find(({ node }) => node.peer === known.peer);
    if (home === undefined) this.forget(name, key);
    return home === undefined ? null : { home, epoch: known.epoch };
  }

  forget(server: string, key: string): void {
    const known = this.#homes.peek(key);
    if (known?.delete(server) === true && known.size === 0) this.#homes.delete(key);
  }

  /** The nodes that its calls went to. */
  forgetSession(sessionId: string): ReadonlySet<string> {
    const known = this.#homes.peek(sessionId);
    this.#homes.delete(sessionId);
    return new Set([...(known?.values() ?? [])].map(({ peer }) => peer));
  }
}

/**
 * The other homes where it runs, while it cannot be started at this node: what needs no owner is served there, and what is to
 * have an owner is this client's there, where a process of its own could not be started here. The same of those that have
 * room for a process more, while this node has none; of those that would end an idle one, while all are in use here.
 */
export function homesInstead(
  place: Place,
  local: Pick<LocalUpstreams, 'failing' | 'room'>,
  client: ClientProfile | null = null,
): readonly ForeignHome[] {
  const { here, otherHomes, server } = place;
  if (!here || otherHomes.length === 0) return [];
  const ready = (): readonly ForeignHome[] => otherHomes.filter(({ node }) => node.state === 'ready');
  const room = client === null || !place.process ? 'free' : local.room(server.name);
  if (room !== 'free') {
    const able = ready().filter((home) => !cannotStart(home));
    const roomy = able.filter((home) => hasRoom(home, server.name));
    return roomy.length > 0 || room === 'idle' ? roomy : able.filter((home) => makesRoom(home, server.name));
  }
  return local.failing(server.name, client) ? ready().filter(runs) : [];
}

/** As far as its node has said, like those below. */
export function runs({ offered }: ForeignHome): boolean {
  return UP.has(offered.status?.state ?? 'unknown');
}

/** By its last heartbeat. */
export function hasRoom({ node }: ForeignHome, server: string): boolean {
  return node.full?.includes(server) !== true;
}

/** It has room, or would end an idle process for another. */
export function makesRoom({ node }: ForeignHome, server: string): boolean {
  return node.inUse?.includes(server) !== true;
}

export function cannotStart({ offered }: ForeignHome): boolean {
  return DOWN.has(offered.status?.state ?? 'unknown');
}

function isStarted({ offered }: ForeignHome): boolean {
  return STARTED.has(offered.status?.state ?? 'unknown');
}

/** The home that a server's lists are read from. Of a singleton only the node where it runs has a status. */
export function homeToRead({ otherHomes: homes }: Place): ForeignHome | null {
  const staying = homes.filter(({ node }) => node.state !== 'draining');
  return staying.find(isStarted) ?? staying[0] ?? homes[0] ?? null;
}

/** What its homes say of it: the best of it. `reached`: this node has its connection to the bus. */
export function statusElsewhere({ otherHomes: homes, lost }: Place, reached: boolean): ServerStatus | null {
  if (lost !== null) return statusOfLost(lost, reached);
  const statuses = homes.map(({ offered }) => offered.status).filter((status) => status !== null);
  return statuses.find(({ state }) => STARTED.has(state)) ?? statuses[0] ?? null;
}

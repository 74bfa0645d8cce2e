import type { ClientProfile } from '../../model/client-profile.ts';
import type { Era } from '../../model/message.ts';
import type { Attempt } from '../connection/attempt.ts';
import type { Connection } from '../connection/connection.ts';
import { isExclusive, isReplica, sessionOf, type WantedConnection } from '../connection/session-key.ts';
import type { ServerContext } from '../server-context.ts';

/** A connection in the pool, from the start of its opening. */
export interface Slot extends WantedConnection {
  connection: Connection | null;
  opening: Promise<Connection> | null;
  readonly attempt: Attempt;
}

/** Whether the slot's connection fits, or may fit once it is open, a client with these capabilities in this era. */
export function mayFit(slot: Slot, profile: ClientProfile, era: Era | null): boolean {
  if (slot.profile.fingerprint !== profile.fingerprint) return false;
  const has = slot.connection?.era ?? slot.era;
  return has === null || era === null || has === era;
}

/** A connection without requests that is younger than this was opened for a call that is about to be sent. */
const EXPECTED_MS = 1_000;

/** A connection that may be closed for another one. The lowest rank is closed first, then the longest unused. */
export interface EvictionCandidate {
  readonly slot: Slot;
  readonly rank: number;
  /** Monotonic time. */
  readonly usedAt: number;
}

/** The warm connection: it serves no session. */
const WARM_RANK = 0;
/** The client is gone, or the connection is one caller's in the stateless era and holds no state. */
const GONE_RANK = 1;
/** The client may return. Also a shared stateless connection: it holds no state, but restarting it takes time. */
const LIVE_RANK = 2;
/** The client is gone but subscribed to a resource; if it returns, it is subscribed again. */
const GONE_WATCHER_RANK = 3;

/**
 * The connection to close for another one. Among several sessions or principals: one of the principal with the most unused
 * connections. Never one with a call, server request or task in progress, nor one over which a present client watches a
 * resource; null if there is no other.
 */
export function longestUnused(slots: Iterable<Slot>, context: ServerContext): EvictionCandidate | null {
  const unused = Array.from(slots, (slot) => unusedOf(slot, context)).filter((one) => one !== null);
  const rank = Math.min(...unused.map((one) => one.rank));
  const candidates = unused.filter((one) => one.rank === rank);
  const counts = new Map<string, number>();
  for (const { slot } of candidates) counts.set(ownerOf(slot), (counts.get(ownerOf(slot)) ?? 0) + 1);
  let found: EvictionCandidate | null = null;
  for (const one of candidates) {
    const more = found === null ? 1 : counts.get(ownerOf(one.slot))! - counts.get(ownerOf(found.slot))!;
    if (found === null || more > 0 || (more === 0 && one.usedAt < found.usedAt)) found = one;
  }
  return found;
}

function ownerOf({ profile }: Slot): string {
  return profile.principal.id;
}

function unusedOf(slot: Slot, context: ServerContext): EvictionCandidate | null {
  const now = context.deps.clock.now();
  const { sleepAfterMs } = context.limits.pool;
  const { connection, tenancy } = slot;
  if (connection?.ready !== true || isReplica(tenancy)) return null;
  const sessionId = sessionOf(tenancy);
  const isGone = sessionId !== null && context.clientGone(sessionId);
  // A process is listed when it starts; a client that is gone does not need that.
  if (isGone ? connection.serving : connection.occupied) return null;
  const { requests, lastUsedAt: usedAt, watching } = connection.use;
  if (tenancy.kind === 'spare') return { slot, rank: WARM_RANK, usedAt };
  if (requests === 0 && now - usedAt < EXPECTED_MS) return null;
  const own = isExclusive(tenancy);
  if (connection.era === 'stateless') return watching ? null : { slot, rank: own ? GONE_RANK : LIVE_RANK, usedAt };
  if (!own) return null;
  if (isGone) return { slot, rank: watching ? GONE_WATCHER_RANK : GONE_RANK, usedAt };
  return watching || now - usedAt < sleepAfterMs ? null : { slot, rank: LIVE_RANK, usedAt };
}

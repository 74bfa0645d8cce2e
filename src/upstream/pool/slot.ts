import type { ClientProfile } from '../../model/client-profile.ts';
import type { Era } from '../../model/message.ts';
import type { Attempt } from '../connection/attempt.ts';
import type { Connection } from '../connection/connection.ts';
import { isExclusive, isReplica, sessionOf, type WantedConnection } from '../connection/session-key.ts';
import type { ServerContext } from '../server-context.ts';

/** The place of such a connection in the pool, from when it begins to be opened. */
export interface Slot extends WantedConnection {
  connection: Connection | null;
  opening: Promise<Connection> | null;
  readonly attempt: Attempt;
}

/** Whether the slot has, or may turn out to have, what a client of these capabilities needs in this era. */
export function mayFit(slot: Slot, profile: ClientProfile, era: Era | null): boolean {
  if (slot.profile.fingerprint !== profile.fingerprint) return false;
  const has = slot.connection?.era ?? slot.era;
  return has === null || era === null || has === era;
}

/** A connection that was opened so short a time ago and has had no request yet was opened for a call that is about to be sent. */
const EXPECTED_MS = 1_000;

/** A connection that may be ended for another, and how good a choice that is: the lowest rank first, then the longest unused. */
export interface Unused {
  readonly slot: Slot;
  readonly rank: number;
  /** Monotonic. */
  readonly usedAt: number;
}

/** Opened to list the server; it serves no session. */
const WARM_RANK = 0;
/** Its client is gone, or it is one caller's in the stateless era and holds nothing. */
const GONE_RANK = 1;
/** A client may come back to it. Also what all share in the stateless era: that holds nothing, but starting it anew takes time. */
const LIVE_RANK = 2;
/** Its client is gone and still subscribed to a resource; should it come back, it is subscribed again. */
const GONE_WATCHER_RANK = 3;

/**
 * The connection that makes room for another. Of several sessions or principals: one of the principal that has most unused
 * connections. Never one with a call, a question or a task in hand, nor one over which a client that is still there watches
 * a resource; null where there is no other.
 */
export function longestUnused(slots: Iterable<Slot>, context: ServerContext): Unused | null {
  const unused = Array.from(slots, (slot) => unusedOf(slot, context)).filter((one) => one !== null);
  const rank = Math.min(...unused.map((one) => one.rank));
  const candidates = unused.filter((one) => one.rank === rank);
  const counts = new Map<string, number>();
  for (const { slot } of candidates) counts.set(ownerOf(slot), (counts.get(ownerOf(slot)) ?? 0) + 1);
  let found: Unused | null = null;
  for (const one of candidates) {
    const more = found === null ? 1 : counts.get(ownerOf(one.slot))! - counts.get(ownerOf(found.slot))!;
    if (found === null || more > 0 || (more === 0 && one.usedAt < found.usedAt)) found = one;
  }
  return found;
}

function ownerOf({ profile }: Slot): string {
  return profile.principal.id;
}

function unusedOf(slot: Slot, context: ServerContext): Unused | null {
  const now = context.deps.clock.now();
  const { sleepAfterMs } = context.limits.pool;
  const { connection, tenancy } = slot;
  if (connection?.ready !== true || isReplica(tenancy)) return null;
  const sessionId = sessionOf(tenancy);
  const isGone = sessionId !== null && context.clientGone(sessionId);
  // A process is listed when it begins: that is of no use to a client that is gone.
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

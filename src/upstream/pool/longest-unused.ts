import { isExclusive } from '../connection/tenancy.ts';
import type { Slot } from './pool-slot.ts';

/**
 * Which connection of one session or principal should make room for another: of the principal that has most of those
 * that were not used since then, the one that was not used for longest. Nothing that is busy; null where there is none.
 */
export function longestUnused(slots: Iterable<Slot>, since: number): Slot | null {
  const unused = new Map<string, { oldest: Slot; usedAt: number; count: number }>();
  for (const slot of slots) {
    const { connection, tenancy, profile } = slot;
    if (connection?.ready !== true || connection.busy || !isExclusive(tenancy)) continue;
    const usedAt = connection.use.lastUsedAt;
    if (usedAt > since) continue;
    const known = unused.get(profile.principal.id);
    if (known === undefined) unused.set(profile.principal.id, { oldest: slot, usedAt, count: 1 });
    else {
      known.count++;
      if (usedAt < known.usedAt) Object.assign(known, { oldest: slot, usedAt });
    }
  }
  let found: { oldest: Slot; usedAt: number; count: number } | null = null;
  for (const one of unused.values()) {
    const better =
      found === null || one.count > found.count || (one.count === found.count && one.usedAt < found.usedAt);
    if (better) found = one;
  }
  return found?.oldest ?? null;
}

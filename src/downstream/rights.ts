import type { Principal } from '../model/principal.ts';

/** Whether the caller may still do exactly what it might before; null stands for a caller that is none any more. */
export function sameRights(before: Principal, now: Principal | null): boolean {
  if (now === null) return false;
  const [had, has] = [before.servers, now.servers];
  if (had === null || has === null) return had === has;
  return had.size === has.size && [...had].every((server) => has.has(server));
}

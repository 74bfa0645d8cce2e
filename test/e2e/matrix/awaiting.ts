import type { Feature } from './compatibility.ts';
import { isStateless, type MatrixRevision } from './revisions.ts';

/** Cells that somebody is still building: by whom, or null. */
export function awaiting(feature: Feature, client: MatrixRevision, server: MatrixRevision): string | null {
  if (feature === 'log' && isStateless(client) && !isStateless(server)) return 'N';
  return null;
}

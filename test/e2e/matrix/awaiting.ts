import type { Feature } from './compatibility.ts';
import type { MatrixRevision } from './revisions.ts';

/** Cells that somebody is still building: by whom, or null. */
export function awaiting(_feature: Feature, _client: MatrixRevision, _server: MatrixRevision): string | null {
  return null;
}

import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import type { DataFolder } from '../../store/data-folder.ts';
import type { StateFile } from '../../store/state-file.ts';

/**
 * The peer that this node was before, in the same data folder of the same running system: the lock of the folder shows that it has
 * ended. Null where that is not certain. Keeps `peer` for the next start.
 */
export function formerPeer(state: StateFile, folder: DataFolder | null, peer: string): string | null {
  const system = runningSystem();
  if (folder === null || system === null) return null;
  const place = `${system} ${folder.path}`;
  const kept = state.get('node', 'peer')?.toString() ?? '';
  state.put('node', 'peer', Buffer.from(`${peer} ${place}`));
  const former = kept.slice(0, kept.indexOf(' '));
  return kept === `${former} ${place}` && former !== '' ? former : null;
}

/** Another one after each boot, and on each machine and in each container. */
function runningSystem(): string | null {
  try {
    return `${hostname()} ${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}`;
  } catch {
    return null;
  }
}

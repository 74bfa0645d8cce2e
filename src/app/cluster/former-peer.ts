import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import type { DataFolder } from '../../store/data-folder.ts';
import type { StateFile } from '../../store/state-file.ts';

/**
 * Returns the peer id of the previous process that used this data folder on the same running system: the lock of the folder shows
 * that it has ended. Null if that is not certain. Stores `peer` for the next start.
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

/** Identifies the running system: differs after each boot, on each machine and in each container. Null if unknown. */
function runningSystem(): string | null {
  try {
    return `${hostname()} ${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}`;
  } catch {
    return null;
  }
}

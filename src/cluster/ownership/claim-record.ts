import { createHash } from 'node:crypto';
import type { StateRecord } from '../../bus/shared-state.ts';

/** What is written of a claim. Without a peer it is free, and says only which epochs are used up. */
export interface Claimed {
  readonly node: string;
  /** Empty: free. */
  readonly peer: string;
  /** Revision in which the present owner began; null: in this very one. */
  readonly since: number | null;
}

export function claimText(claimed: Claimed): Buffer {
  return Buffer.from(JSON.stringify(claimed));
}

/** What cannot be read is as good as free: the write that follows stands on its revision. */
export function readClaim({ value }: StateRecord): Claimed {
  try {
    const { node, peer, since } = JSON.parse(value.toString()) as Claimed;
    return { node: String(node), peer: String(peer), since: typeof since === 'number' ? since : null };
  } catch {
    return { node: '', peer: '', since: null };
  }
}

export function recordKey({ server, key }: { readonly server: string; readonly key: string }): string {
  const digest = createHash('sha256').update(`${server}\n${key}`).digest('hex').slice(0, 40);
  return `own.${digest}`;
}

export const LEASES = 'trunkline_leases';
/** TTL of the bucket; then other nodes may take over what the lease covered. Elections of nats-server 2.9 took up to 30 s. */
export const LEASE_MS = 45_000;
/** The longest that heartbeats prolong a lease, from the sending of the last acknowledged renewal. */
export const LONGEST_MS = LEASE_MS - 2_000;
/** The holder stops this long after it sent the last acknowledged renewal, or the last heartbeat that a majority confirmed. */
export const STOP_MS = 2_000;
/** Other nodes can end the lease of a node that has done neither for this long. */
export const TAKEOVER_MS = 2_500;
export const RENEW_MS = 500;

export interface LeaseRecord {
  readonly node: string;
  readonly peer: string;
  /** Grows with each write. Absent, like `witnesses`, from nodes of earlier versions. */
  readonly renewal?: number;
  /** Peer ids. */
  readonly witnesses?: readonly string[];
}

export function leaseKey(peer: string): string {
  return `lease.${peer}`;
}

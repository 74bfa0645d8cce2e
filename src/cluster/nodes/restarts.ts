import { GatewayError } from '../../model/gateway-error.ts';
import { type Place, type RemoteInstance, runsOnce } from './routing-table.ts';

/** A server's restart at one of its homes, under way. */
export interface Restart {
  /** As an operator knows it. */
  readonly at: string;
  readonly done: Promise<void>;
}

/** The other homes that something of it runs at. Of a singleton only the node where it runs has a status. */
export function runningElsewhere(place: Place): readonly RemoteInstance[] {
  if (!runsOnce(place)) return place.otherInstances;
  return place.otherInstances.filter(({ offered }) => offered.status !== null);
}

/** Rejects with GatewayError when one has failed, once all have ended: those that could are restarted. */
export async function allRestarted(server: string, restarts: readonly Restart[]): Promise<void> {
  const settled = await Promise.allSettled(restarts.map(({ done }) => done));
  const failures = settled.flatMap((one, i) =>
    one.status === 'rejected' ? [{ at: restarts[i]!.at, error: one.reason as Error }] : [],
  );
  if (failures.length === 0) return;
  const unsure = failures.some(({ error }) => error instanceof GatewayError && error.outcome === 'UNKNOWN');
  const text = failures.map(({ at, error }) => `at ${at}: ${error.message}`).join('; ');
  throw new GatewayError(unsure ? 'UNKNOWN' : 'NOT_SENT', `${server} ${text}`, { server });
}

import type { JetStreamManager } from '@nats-io/jetstream';

const OFF =
  'JetStream is off, so that nodes can share neither leases nor sessions: start nats-server with -js, of several at least three';
const NOT_FOR_ACCOUNT =
  'JetStream is off for the account of these credentials, so that nodes can share neither leases nor sessions: ' +
  'set jetstream: enabled for it, or give it limits (nsc edit account --js-disk-storage -1 --js-streams -1 --js-consumer -1)';

/**
 * What keeps a node from JetStream, by what came of asking it, for operators; null for what says nothing of that. What the
 * server it is connected to says of itself decides nothing: another one of its cluster may have JetStream, and an account none.
 */
export function jetStreamLack(error: unknown): string | null {
  const cause = error instanceof Error ? error.cause : undefined;
  if (nameOf(error) === 'JetStreamNotEnabled') {
    if (nameOf(cause) === 'JetStreamApiError') return NOT_FOR_ACCOUNT;
    // A stream that has no leader at the moment has nobody who takes what is written to it, either.
    return cause instanceof Error && cause.message.includes('$JS.API') ? OFF : null;
  }
  const refused = [error, cause].find((one) => nameOf(one) === 'PermissionViolationError');
  if (refused === undefined) return null;
  const { operation, subject } = refused as { readonly operation: string; readonly subject: string };
  const act = operation === 'publish' ? 'publish to' : 'subscribe to';
  return `these credentials may not ${act} ${subject}: docs/cluster.md says what a node has to be permitted`;
}

/** Asks JetStream. null: it is there, or nobody can tell; who may do all but ask that is not kept from anything. */
export async function askForLack(manager: JetStreamManager): Promise<string | null> {
  try {
    await manager.getAccountInfo();
    return null;
  } catch (error) {
    const lack = jetStreamLack(error);
    return lack?.includes('$JS.API.INFO') === true ? null : lack;
  }
}

/** The classes of the client are not asked for: it is loaded only by whoever joins a cluster. */
function nameOf(error: unknown): string {
  return error instanceof Error ? error.constructor.name : '';
}

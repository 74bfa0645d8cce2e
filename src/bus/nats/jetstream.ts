import type { JetStreamClient, JetStreamManager, StreamConfig, StreamInfo } from '@nats-io/jetstream';
import type { NatsConnection } from '@nats-io/transport-node';
import { type Clock, pause } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { BucketOptions } from '../shared-state.ts';
import type { NatsCore, NatsJetStream, NatsWire } from './nats-wire.ts';

/** Servers of a NATS cluster that have a stream each. */
export const REPLICAS = 3;

export interface NatsStateDeps {
  readonly wire: NatsWire;
  readonly core: NatsCore;
  readonly jetStream: NatsJetStream;
  readonly clock: Clock;
  /** Logs when NATS keeps what is shared at fewer servers than it should. */
  readonly logger?: Logger;
}

/** Looks after streams that fewer servers have than should. */
interface SeenStreams {
  /** To be called with each stream that was just read. */
  look(reach: Reach, stream: StreamInfo): void;
}

/** JetStream on the connection that there is now. */
export interface Reach {
  readonly connection: NatsConnection;
  readonly client: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly replicas: SeenStreams;
  readonly clock: Clock;
}

/** What buckets are kept in. */
export interface StreamMaker {
  readonly deps: NatsStateDeps;
  /** Rejects with GatewayError NOT_SENT when nothing can be asked. */
  reach(): Promise<Reach>;
  /** Makes the stream behind a bucket, or brings its settings in line. Returns which making of it this is. */
  makeStream(name: string, options: BucketOptions): Promise<string>;
}

/** Codes of JetStream's answers. */
export const WRONG_REVISION: readonly number[] = [10_071, 10_164];
export const NO_STREAM = 10_059;
export const NO_MESSAGE = 10_037;
/** Nothing has that number any more. */
export const NOT_DELETED = 10_057;
/** A server that is none of several knows no replicas, whatever it calls its cluster. */
export const NO_REPLICAS = 10_074;

/** JetStream's own code of an error; 0 where it is no answer of JetStream's. */
export function apiCode(error: unknown): number {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return typeof code === 'number' ? code : 0;
}

/** An answer of JetStream says that nothing was done; without one, a write may have been. */
export function stateFailure(error: unknown, doing: 'read' | 'write'): GatewayError {
  if (error instanceof GatewayError) return error;
  const lack = jetStreamLack(error);
  const text = lack ?? (error instanceof Error ? error.message : String(error));
  // What cannot be answered may have been done.
  const unheard = lack?.includes('may not subscribe') === true;
  const answered = (lack !== null && !unheard) || apiCode(error) !== 0 || /not enabled|no responders|503/i.test(text);
  const outcome = doing === 'read' || answered ? 'NOT_SENT' : 'UNKNOWN';
  return new GatewayError(outcome, `the shared state could not be ${doing === 'read' ? 'read' : 'written'}: ${text}`, {
    cause: error,
  });
}

const OFF =
  'JetStream is off, so that nodes can share neither leases nor sessions: start nats-server with -js, of several at least three';
const NOT_FOR_ACCOUNT =
  'JetStream is off for the account of these credentials, so that nodes can share neither leases nor sessions: ' +
  'set jetstream: enabled for it, or give it limits (nsc edit account --js-disk-storage -1 --js-streams -1 --js-consumer -1)';

/**
 * What keeps a node from JetStream, by what came of asking it, for operators; null for what says nothing of that. What the
 * server it is connected to says of itself decides nothing: another one of its cluster may have JetStream, and an account none.
 */
function jetStreamLack(error: unknown): string | null {
  const cause = error instanceof Error ? error.cause : undefined;
  if (nameOf(error) === 'JetStreamNotEnabled') {
    if (nameOf(cause) === 'JetStreamApiError') return NOT_FOR_ACCOUNT;
    // A stream that has no leader at the moment takes no writes, either.
    return cause instanceof Error && cause.message.includes('$JS.API') ? OFF : null;
  }
  const refused = [error, cause].find((one) => nameOf(one) === 'PermissionViolationError');
  if (refused === undefined) return null;
  const { operation, subject } = refused as { readonly operation: string; readonly subject: string };
  const act = operation === 'publish' ? 'publish to' : 'subscribe to';
  return `these credentials may not ${act} ${subject}: docs/cluster.md says what a node has to be permitted`;
}

/** Asks JetStream. null: it is there, or that is not known; credentials that may do all but ask that are sufficient. */
export async function askForLack(manager: JetStreamManager): Promise<string | null> {
  try {
    await manager.getAccountInfo();
    return null;
  } catch (error) {
    const lack = jetStreamLack(error);
    return lack?.includes('$JS.API.INFO') === true ? null : lack;
  }
}

/** The classes of the client are not asked for: it is loaded only to join a cluster. */
function nameOf(error: unknown): string {
  return error instanceof Error ? error.constructor.name : '';
}

/** When it was made, as nats-server 2.9 says of a stream that is being made in this instant. */
const NOT_YET = '0001-01-01T00:00:00Z';
const AGAIN_MS = 10;
const ATTEMPTS = 100;

/** The stream as it is once it has been made: when that was tells one making of it from another. */
export async function onceMade(
  { manager, clock }: Pick<Reach, 'manager' | 'clock'>,
  seen: StreamInfo,
): Promise<StreamInfo> {
  let stream = seen;
  for (let attempt = 0; stream.created === NOT_YET; attempt++) {
    if (attempt === ATTEMPTS) throw new Error(`nats-server does not say when ${seen.config.name} was made`);
    await pause(clock, AGAIN_MS);
    stream = await manager.streams.info(seen.config.name);
  }
  return stream;
}

/**
 * Makes a stream, or brings the settings of one that is there in line with what is wanted. Several nodes may do so at once.
 * Resolves with when it was made; rejects with GatewayError.
 */
export async function makeStream(
  reach: Reach,
  name: string,
  wanted: Partial<StreamConfig>,
  same: (config: StreamConfig) => boolean,
): Promise<string> {
  const seen = (await found(reach, name, wanted, same)) ?? (await made(reach, name, wanted));
  const stream = await onceMade(reach, seen).catch((error: unknown) => {
    throw stateFailure(error, 'read');
  });
  reach.replicas.look(reach, stream);
  return stream.created;
}

/** Null when there is none. */
async function found(
  { manager }: Reach,
  name: string,
  wanted: Partial<StreamConfig>,
  same: (config: StreamConfig) => boolean,
): Promise<StreamInfo | null> {
  try {
    const stream = await manager.streams.info(name);
    if (!same(stream.config)) await manager.streams.update(name, { ...stream.config, ...wanted });
    return stream;
  } catch (error) {
    if (apiCode(error) === NO_STREAM) return null;
    throw stateFailure(error, 'read');
  }
}

async function made({ manager, connection }: Reach, name: string, wanted: Partial<StreamConfig>): Promise<StreamInfo> {
  if (connection.info?.cluster !== undefined) {
    try {
      return await manager.streams.add({ ...wanted, name, num_replicas: REPLICAS });
    } catch (error) {
      // Without an answer it may have been made, or the servers have not found each other yet: the caller asks again.
      if (apiCode(error) === 0) throw stateFailure(error, 'read');
    }
  }
  // Fewer servers than replicas; or another node has just made it.
  try {
    return await manager.streams.add({ ...wanted, name, num_replicas: 1 });
  } catch (error) {
    const there = await manager.streams.info(name).catch(() => null);
    if (there === null) throw stateFailure(error, 'read');
    return there;
  }
}

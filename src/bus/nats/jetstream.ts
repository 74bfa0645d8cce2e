import type { JetStreamClient, JetStreamManager, StreamConfig, StreamInfo } from '@nats-io/jetstream';
import type { NatsConnection } from '@nats-io/transport-node';
import { type Clock, pause } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { messageOf } from '../../model/thrown.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { NatsCore, NatsJetStream, NatsWire } from './nats-wire.ts';

const REPLICAS = 3;

export interface NatsStateDeps {
  readonly wire: NatsWire;
  readonly core: NatsCore;
  readonly jetStream: NatsJetStream;
  readonly clock: Clock;
  readonly logger?: Logger;
}

export interface JetStreamContext {
  readonly connection: NatsConnection;
  readonly client: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly replicas: StreamReplicas;
  readonly clock: Clock;
}

export const WRONG_REVISION: readonly number[] = [10_071, 10_164];
export const NO_STREAM = 10_059;
export const NO_MESSAGE = 10_037;
export const NOT_DELETED = 10_057;
export const NO_SEQUENCE = 10_043;
/** A single server supports no replicas, even if it has a cluster name. */
const NO_REPLICAS = 10_074;

/** Returns 0 if the error is not an answer of the JetStream API. */
export function apiCode(error: unknown): number {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return typeof code === 'number' ? code : 0;
}

/** An error answer means that JetStream did nothing; without an answer, it may have done a write. */
export function stateFailure(error: unknown, doing: 'read' | 'write'): GatewayError {
  if (error instanceof GatewayError) return error;
  const problem = jetStreamProblem(error);
  const text = problem ?? messageOf(error);
  // If the node may not subscribe to the answer, JetStream may still have done the operation.
  const answerBlocked = problem?.includes('may not subscribe') === true;
  const answered =
    (problem !== null && !answerBlocked) || apiCode(error) !== 0 || /not enabled|no responders|503/i.test(text);
  const outcome = doing === 'read' || answered ? 'NOT_SENT' : 'UNKNOWN';
  return new GatewayError(outcome, `the shared state could not be ${doing === 'read' ? 'read' : 'written'}: ${text}`, {
    cause: error,
  });
}

const OFF =
  'JetStream is off, so that nodes can share neither leases nor sessions: start nats-server with -js, of several at least three';
const NOT_FOR_ACCOUNT =
  'JetStream is off for the account of these credentials, so that nodes can share neither leases nor sessions: ' +
  'set jetstream: enabled for it, or give it limits (nsc edit account --js-disk-storage -1 --js-mem-storage -1 --js-streams -1 --js-consumer -1)';

/**
 * Returns why JetStream refused, for operators; null if the error does not show it. Ignores the INFO of the connected server:
 * another server of its cluster may have JetStream, and the account may have none.
 */
function jetStreamProblem(error: unknown): string | null {
  const cause = error instanceof Error ? error.cause : undefined;
  if (nameOf(error) === 'JetStreamNotEnabled') {
    if (nameOf(cause) === 'JetStreamApiError') return NOT_FOR_ACCOUNT;
    // A write to a stream without a leader fails in the same way.
    return cause instanceof Error && cause.message.includes('$JS.API') ? OFF : null;
  }
  const refused = [error, cause].find((one) => nameOf(one) === 'PermissionViolationError');
  if (refused === undefined) return null;
  const { operation, subject } = refused as { readonly operation: string; readonly subject: string };
  const act = operation === 'publish' ? 'publish to' : 'subscribe to';
  return `these credentials may not ${act} ${subject}: docs/cluster.md says what a node has to be permitted`;
}

/** Returns null if JetStream is available or the answer unknown. Credentials that lack only this request are sufficient. */
export async function checkJetStream(manager: JetStreamManager): Promise<string | null> {
  try {
    await manager.getAccountInfo();
    return null;
  } catch (error) {
    const problem = jetStreamProblem(error);
    return problem?.includes('$JS.API.INFO') === true ? null : problem;
  }
}

/** Returns the class name, because the classes of the client are loaded only in a cluster. */
function nameOf(error: unknown): string {
  return error instanceof Error ? error.constructor.name : '';
}

/** Creation time that nats-server 2.9 reports for a stream that is being created. */
const NOT_YET = '0001-01-01T00:00:00Z';
const RETRY_MS = 10;
const ATTEMPTS = 100;

/** Waits until the stream has a creation time, which is its incarnation. */
export async function waitUntilCreated(
  { manager, clock }: Pick<JetStreamContext, 'manager' | 'clock'>,
  seen: StreamInfo,
): Promise<StreamInfo> {
  let stream = seen;
  for (let attempt = 0; stream.created === NOT_YET; attempt++) {
    if (attempt === ATTEMPTS) throw new Error(`nats-server does not say when ${seen.config.name} was made`);
    await pause(clock, RETRY_MS);
    stream = await manager.streams.info(seen.config.name);
  }
  return stream;
}

/**
 * Creates a stream, or updates its settings if one in `compared` differs; several nodes may do so concurrently. Resolves with its
 * creation time; rejects with GatewayError.
 */
export async function makeStream(
  context: JetStreamContext,
  name: string,
  wanted: Partial<StreamConfig>,
  compared: readonly (keyof StreamConfig)[],
): Promise<string> {
  const seen =
    (await updateExistingStream(context, name, wanted, compared)) ?? (await createStream(context, name, wanted));
  const stream = await waitUntilCreated(context, seen).catch((error: unknown) => {
    throw stateFailure(error, 'read');
  });
  context.replicas.look(context, stream);
  return stream.created;
}

async function updateExistingStream(
  { manager }: JetStreamContext,
  name: string,
  wanted: Partial<StreamConfig>,
  compared: readonly (keyof StreamConfig)[],
): Promise<StreamInfo | null> {
  try {
    const stream = await manager.streams.info(name);
    const differs = compared.some((setting) => stream.config[setting] !== wanted[setting]);
    if (differs) await manager.streams.update(name, { ...stream.config, ...wanted });
    return stream;
  } catch (error) {
    if (apiCode(error) === NO_STREAM) return null;
    throw stateFailure(error, 'read');
  }
}

async function createStream(
  { manager, connection }: JetStreamContext,
  name: string,
  wanted: Partial<StreamConfig>,
): Promise<StreamInfo> {
  if (connection.info?.cluster !== undefined) {
    try {
      return await manager.streams.add({ ...wanted, name, num_replicas: REPLICAS });
    } catch (error) {
      // It may have been created, or the servers have not formed a cluster yet: the caller tries again.
      if (apiCode(error) === 0) throw stateFailure(error, 'read');
    }
  }
  // Fewer servers than replicas, or another node was first.
  try {
    return await manager.streams.add({ ...wanted, name, num_replicas: 1 });
  } catch (error) {
    const there = await manager.streams.info(name).catch(() => null);
    if (there === null) throw stateFailure(error, 'read');
    return there;
  }
}

const RAISE_RETRY_MS = 60_000;

/**
 * Raises the replicas of streams with fewer than intended: at the start, JetStream may not know all servers yet. Tries again on
 * each connection and every minute.
 */
export class StreamReplicas {
  readonly #deps: Pick<NatsStateDeps, 'wire' | 'clock' | 'logger'>;
  readonly #context: () => Promise<JetStreamContext>;
  readonly #few = new Set<string>();
  readonly #warned = new Set<string>();
  #raising = false;
  #stopRetry: () => void = () => {};

  constructor(deps: Pick<NatsStateDeps, 'wire' | 'clock' | 'logger'>, context: () => Promise<JetStreamContext>) {
    this.#deps = deps;
    this.#context = context;
    deps.wire.onChange(({ type }) => {
      if (type === 'connected') void this.#raiseAll();
    });
  }

  /** Raises the replicas of a stream in the background if it has too few. */
  look({ connection }: JetStreamContext, { config }: StreamInfo): void {
    if (config.num_replicas >= REPLICAS || connection.info?.cluster === undefined) {
      this.#few.delete(config.name);
      return;
    }
    // Of known ones the retry is pending.
    if (this.#few.has(config.name)) return;
    this.#few.add(config.name);
    void this.#raiseAll();
  }

  /** Raises one stream at a time, because it has no leader for a moment. */
  async #raiseAll(): Promise<void> {
    const { wire, clock } = this.#deps;
    if (this.#raising) return;
    this.#raising = true;
    this.#stopRetry();
    for (const name of this.#few) await this.#raise(name);
    this.#raising = false;
    if (this.#few.size > 0 && wire.status.state !== 'closed') {
      this.#stopRetry = clock.after(RAISE_RETRY_MS, () => void this.#raiseAll());
    }
  }

  async #raise(name: string): Promise<void> {
    const { wire, logger } = this.#deps;
    if (!wire.connected) return;
    let replicas = 0;
    try {
      const { manager } = await this.#context();
      const { config } = await manager.streams.info(name);
      replicas = config.num_replicas;
      if (replicas < REPLICAS) await manager.streams.update(name, { ...config, num_replicas: REPLICAS });
      this.#few.delete(name);
      if (replicas < REPLICAS || this.#warned.has(name)) logger?.info('stream_replicas_raised', { stream: name });
      this.#warned.delete(name);
    } catch (error) {
      if ([NO_STREAM, NO_REPLICAS].includes(apiCode(error))) this.#few.delete(name);
      else if (replicas > 0 && wire.connected) this.#warn(name, replicas, error);
    }
  }

  #warn(stream: string, replicas: number, error: unknown): void {
    if (this.#warned.has(stream)) return;
    this.#warned.add(stream);
    this.#deps.logger?.warn('stream_replicas_few', {
      stream,
      replicas,
      wanted: REPLICAS,
      reason: messageOf(error),
      advice: `let ${REPLICAS} servers with JetStream run in the NATS cluster; until then one of them is a single point of failure`,
    });
  }
}

import type { ClientProfile } from '../../model/client-profile.ts';
import { withTimeout } from '../../model/clock.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import {
  eraOf,
  isRevision,
  LATEST_STATEFUL,
  LATEST_STATELESS,
  type Message,
  STATEFUL_REVISIONS,
} from '../../model/message.ts';
import type { UpstreamSessionRecord } from '../../model/ports.ts';
import { baseConnectionDigest, type Server, WITHOUT_DISCOVERY } from '../../model/server.ts';
import type { HandshakeResult } from '../../model/server-catalog.ts';
import { bodyField, bodyString, errorCode } from '../../protocol/body.ts';
import { PING, result } from '../../protocol/compose.ts';
import { elements, field, stringValue } from '../../protocol/fields.ts';
import {
  discoverRequest,
  handshakeFromDiscover,
  handshakeFromInitialize,
  initializeRequest,
} from '../../protocol/handshake-results.ts';
import type { ServerContext } from '../server-context.ts';
import { refusalOf } from '../transport/http-refusal.ts';
import type { Transport } from '../transport/transport.ts';
import type { Attempt } from './attempt.ts';
import type { Connection } from './connection.ts';
import { asGatewayError, closedError, EraUnsupported, shortened } from './failures.ts';
import type { SupportedEras } from './supported-eras.ts';

/** Errors that only a server of 2026-07-28 returns (versioning §Backward Compatibility). */
const MODERN_ERRORS: ReadonlySet<number> = new Set([
  CATALOGUE.HEADER_MISMATCH.rpc,
  CATALOGUE.MISSING_CAPABILITY.rpc,
  CATALOGUE.UNSUPPORTED_VERSION.rpc,
]);
/** How long the answer to the second of two requests may arrive after that to the first. */
const OTHER_ANSWER_MS = 200;
const MAX_TRANSPORTS = 4;
const PROBE_HEADERS = ['MCP-Protocol-Version', LATEST_STATELESS, 'Mcp-Method', 'server/discover'] as const;

/** Result of a handshake request. */
type FirstReply = Message | GatewayError | 'silence';

type FirstMethod = 'discover' | 'initialize';

/** A negotiated connection, or what to try next on a new transport. */
type Step = Connection | { readonly first: FirstMethod; readonly wire: Transport['kind']; readonly why: GatewayError };

/**
 * Negotiates a connection and detects the server's era: first `server/discover`, then `initialize`. Servers before 2026-07-28
 * answer the unknown first message with any error, with silence, or by exiting; over HTTP with any status. A remembered result
 * is tried first the next time; if that fails, the era is probed again.
 */
export class Handshake {
  readonly #context: ServerContext;
  readonly #server: Server;
  readonly #eras: SupportedEras;
  readonly #make: (kind: Transport['kind']) => Connection;
  readonly #profile: ClientProfile;
  readonly #attempt: Attempt;
  /** Methods that this handshake has tried, so that it terminates. */
  readonly #tried = new Set<FirstMethod>();
  #refusedInitialize = false;
  /** The server answered `server/discover` before: on a pipe it gets only that request, with the whole start timeout. */
  #discovers = false;

  /** `make`: creates a connection over a new transport that is not open yet. */
  constructor(
    context: ServerContext,
    eras: SupportedEras,
    make: (kind: Transport['kind']) => Connection,
    profile: ClientProfile,
    attempt: Attempt,
  ) {
    this.#context = context;
    this.#server = context.server;
    this.#eras = eras;
    this.#make = make;
    this.#profile = profile;
    this.#attempt = attempt;
  }

  /** Rejects with GatewayError and leaves nothing behind. */
  async run(wire: Transport['kind']): Promise<Connection> {
    const { server, deps } = this.#context;
    const { eraVerdicts } = deps;
    const digest = baseConnectionDigest(server);
    let remembered = eraVerdicts.get(digest);
    this.#discovers = remembered?.era === 'stateless';
    const stateful = remembered?.era === 'stateful' || WITHOUT_DISCOVERY.has(wire);
    let next: { first: FirstMethod; wire: Transport['kind'] } = { first: stateful ? 'initialize' : 'discover', wire };
    for (let i = 0; ; i++) {
      const step = await this.#step(next.first, next.wire);
      if (!('why' in step)) {
        const { era, revision } = step.handshake!;
        if (remembered?.era !== era || remembered.revision !== revision) {
          const refused = era === 'stateless' && this.#refusedInitialize;
          eraVerdicts.set(digest, refused ? { era, revision, also: 'none' } : { era, revision });
        }
        return step;
      }
      eraVerdicts.forget(digest);
      remembered = null;
      if (i === MAX_TRANSPORTS - 1) throw step.why;
      next = step;
    }
  }

  /** Returns null if the server no longer knows the session. Rejects if it cannot be asked; the session then stays open. */
  async resume(wire: Transport['kind'], record: UpstreamSessionRecord): Promise<Connection | null> {
    const connection = await this.#open(wire);
    resumeSession(connection, record);
    try {
      await connection.ask(PING, this.#context.times.probeSilenceMs);
    } catch (cause) {
      const gone = connection.closedReason?.kind === 'session_lost';
      const error = this.#endedOr(connection, asGatewayError(cause, this.#server.name));
      await connection.close('shutdown');
      if (gone) return null;
      throw error;
    }
    this.#attempt.setUndo(null);
    return connection;
  }

  /** Ends a session of an earlier connection at the server. Rejects with GatewayError. */
  async discard(wire: Transport['kind'], record: UpstreamSessionRecord): Promise<void> {
    const connection = await this.#open(wire);
    connection.transport.silence?.();
    resumeSession(connection, record);
    await connection.close('remove');
  }

  /** Rejects with EraUnsupported if a server of the stateless era does not accept `initialize`; leaves nothing behind. */
  async initialized(wire: Transport['kind']): Promise<Connection> {
    const connection = await this.#open(wire);
    try {
      const { pending } = connection.post(initializeRequest('0', this.#profile, LATEST_STATEFUL));
      const { probeSilenceMs, startupMs } = this.#context.times;
      let answer = await this.#within(pending.answer, probeSilenceMs, connection);
      if (answer === 'silence') {
        // The server may be starting: once started it answers `server/discover`, even if it ignores `initialize`.
        const started = this.#probe(connection);
        const late = () => this.#within(pending.answer, OTHER_ANSWER_MS, connection);
        answer = await this.#within(Promise.race([pending.answer, started.then(late, late)]), startupMs, connection);
      }
      return this.#done(connection, this.#parseInitializeAnswer(connection, answer));
    } catch (error) {
      await connection.close('remove');
      throw error;
    }
  }

  /** The handshake result from an answer to `initialize`. Only an explicit refusal is remembered. */
  #parseInitializeAnswer(connection: Connection, answer: FirstReply): HandshakeResult {
    const { name } = this.#server;
    if (answer === 'silence') throw new EraUnsupported(name, 'it did not answer', false);
    if (answer instanceof GatewayError) {
      const closed = connection.closedReason?.kind;
      const there = closed === 'exited' || closed === 'auth_required' || refusalOf(answer) !== null;
      if (there || answer.outcome !== 'NOT_SENT') throw new EraUnsupported(name, answer.message, false);
      throw this.#endedOr(connection, answer);
    }
    if (answer.kind === 'error') throw new EraUnsupported(name, reasonIn(answer), true);
    const handshake = handshakeFromInitialize(answer);
    if (isRevision(handshake.revision) && eraOf(handshake.revision) === 'stateful') return handshake;
    throw new EraUnsupported(name, `it answered with the protocol revision ${shortened(handshake.revision)}`, true);
  }

  async #step(first: FirstMethod, wire: Transport['kind']): Promise<Step> {
    const connection = await this.#open(wire);
    try {
      const step = first === 'discover' ? await this.#discover(connection) : await this.#initialize(connection, null);
      if ('why' in step) await connection.close('remove');
      return step;
    } catch (error) {
      this.#context.events.abandoned(connection);
      await connection.close('remove');
      throw error;
    }
  }

  async #open(wire: Transport['kind']): Promise<Connection> {
    if (this.#attempt.cancelled) throw this.#failed('the start was cancelled');
    const connection = this.#make(wire);
    this.#attempt.setUndo((how) => void connection.close(how));
    await connection.open();
    if (this.#attempt.cancelled) {
      await connection.close(this.#attempt.closeReason);
      throw this.#failed('the start was cancelled');
    }
    return connection;
  }

  async #discover(connection: Connection, again = true): Promise<Step> {
    const first = !this.#tried.has('discover');
    this.#tried.add('discover');
    const probe = this.#probe(connection);
    const eras = this.#eras;
    const { startupMs, probeSilenceMs } = this.#context.times;
    const { ignoresInitialize } = eras;
    const alone = ignoresInitialize || (this.#discovers && !connection.transport.streamPerRequest);
    // The program may have been replaced: after a start without an answer, the next start sends both requests.
    if (alone && first) eras.ignoresInitialize = false;
    const answer = await this.#within(probe, alone ? startupMs : probeSilenceMs, connection);
    if (answer === 'silence') {
      if (alone) {
        this.#context.deps.eraVerdicts.forget(baseConnectionDigest(this.#server));
        throw this.#failed('it did not answer server/discover');
      }
      return this.#initialize(connection, probe);
    }
    if (isMessage(answer) && speaksStateless(answer)) eras.ignoresInitialize = ignoresInitialize;
    if (answer instanceof GatewayError) return this.#probeLost(connection, answer);
    return this.#discovered(connection, answer, again);
  }

  #probe(connection: Connection): Promise<Message> {
    const headers = connection.transport.streamPerRequest ? PROBE_HEADERS : null;
    return connection.post(discoverRequest('0', this.#profile), headers).pending.answer;
  }

  async #discovered(connection: Connection, answer: Message, again: boolean): Promise<Step> {
    if (answer.kind === 'result') {
      const offered = supports(answer, 'supportedVersions');
      if (offered.includes(LATEST_STATELESS)) return this.#done(connection, handshakeFromDiscover(answer));
      // Some old servers answer unknown methods with an empty result.
      return offered.length === 0 ? this.#initialize(connection, null) : this.#orInitialize(connection, offered);
    }
    if (!MODERN_ERRORS.has(errorCode(answer))) return this.#initialize(connection, null);
    const offered = supports(answer, 'data', 'supported');
    // It refused a revision that it lists as supported: ask once more (2026-07-28 versioning §Protocol Version Negotiation).
    if (again && offered.includes(LATEST_STATELESS)) return this.#discover(connection, false);
    return this.#orInitialize(connection, offered);
  }

  /** The server knows 2026-07-28 but refused it: `initialize` is correct only if it lists a stateful revision. */
  #orInitialize(connection: Connection, offered: readonly string[]): Promise<Step> {
    if (offered.some((revision) => (STATEFUL_REVISIONS as readonly string[]).includes(revision))) {
      return this.#initialize(connection, null);
    }
    const list = offered.length === 0 ? 'it names none' : shortened(offered.join(', '));
    throw this.#failed(`it speaks none of our protocol revisions (${list})`, 'UPSTREAM_PROTOCOL');
  }

  async #probeLost(connection: Connection, error: GatewayError): Promise<Step> {
    const closed = connection.closedReason;
    if (closed?.kind === 'auth_required' || error.code === 'AUTH_REQUIRED') throw this.#unauthorized(connection, error);
    if (closed?.kind === 'exited' && !this.#tried.has('initialize')) {
      const why = closedError(this.#server.name, closed, connection.transport.stderrTail());
      return { first: 'initialize', wire: connection.transport.kind, why };
    }
    if (connection.live && (error.outcome !== 'NOT_SENT' || refusalOf(error) !== null)) {
      return this.#initialize(connection, null);
    }
    throw this.#endedOr(connection, error);
  }

  /**
   * `late`: the outstanding answer to `server/discover`. A server that starts slowly looks like an old one; once started it
   * answers both requests, in any order, and any stateless answer to `server/discover` is used.
   */
  async #initialize(connection: Connection, late: Promise<Message> | null): Promise<Step> {
    this.#tried.add('initialize');
    const { pending } = connection.post(initializeRequest('0', this.#profile, LATEST_STATEFUL));
    const { times, deps } = this.#context;
    const { startupMs, probeSilenceMs } = times;
    const stateless = (said: Message) => (speaksStateless(said) ? said : null);
    const discovered = late?.then(stateless, () => null) ?? Promise.resolve(null);
    const either = Promise.race([pending.answer, discovered.then((said) => said ?? pending.answer)]);
    const answer = await this.#within(either, startupMs, connection);
    const ended = connection.closedReason !== null;
    if (late !== null && (isMessage(answer) || ended)) {
      // Over HTTP the result has opened a session, which is used.
      const afterResultMs = connection.transport.streamPerRequest ? 0 : OTHER_ANSWER_MS;
      const waitMs = isMessage(answer) && answer.kind === 'result' ? afterResultMs : probeSilenceMs;
      const said = await withTimeout(deps.clock, waitMs, discovered, () => null);
      if (said !== null) return this.#discoveredLate(connection, said, pending.answer);
    }
    if (answer === 'silence') throw this.#failed('it did not answer initialize');
    if (answer instanceof GatewayError) return this.#initializeLost(connection, answer, late !== null);
    if (answer.kind === 'error') return this.#refused(connection, answer);
    const handshake = handshakeFromInitialize(answer);
    if (isRevision(handshake.revision)) return this.#done(connection, handshake);
    const revision = shortened(handshake.revision);
    throw this.#failed(`it answered with the unknown protocol revision ${revision}`, 'UPSTREAM_PROTOCOL');
  }

  /**
   * A slow server of 2026-07-28 also has `initialize` in its pipe. It may exit because of it, at once or later; one that
   * accepts it may answer in the other era from then on, as the TypeScript SDK 2 does: it is restarted without `initialize`.
   */
  async #discoveredLate(connection: Connection, discovered: Message, initialized: Promise<Message>): Promise<Step> {
    const { transport } = connection;
    if (!transport.streamPerRequest) {
      const answer = await this.#within(initialized, this.#context.times.probeSilenceMs, connection);
      this.#eras.ignoresInitialize = !isMessage(answer);
      if (answer instanceof GatewayError && connection.closedReason?.kind === 'exited')
        return { first: 'discover', wire: transport.kind, why: this.#endedOr(connection, answer) };
      if (isMessage(answer) && answer.kind === 'result') {
        this.#discovers = true;
        const why = this.#failed('it answered server/discover only after initialize was sent, too');
        return { first: 'discover', wire: transport.kind, why };
      }
    }
    return this.#done(connection, handshakeFromDiscover(discovered));
  }

  /** `afterProbe`: `server/discover` was sent before and not answered. */
  async #initializeLost(connection: Connection, error: GatewayError, afterProbe: boolean): Promise<Step> {
    if (connection.closedReason?.kind === 'auth_required' || error.code === 'AUTH_REQUIRED')
      throw this.#unauthorized(connection, error);
    // 2024-11-05 servers accept no POST on their configured URL (2025-11-25 basic/transports §Backwards Compatibility).
    const status = refusalOf(error)?.status ?? 0;
    const why = this.#endedOr(connection, error);
    const { kind } = connection.transport;
    // It may have started by now and exited because of the unknown `server/discover`.
    if (afterProbe && connection.closedReason?.kind === 'exited') return { first: 'initialize', wire: kind, why };
    if (kind !== 'http' || status < 400 || status >= 500) throw why;
    const { transport } = this.#server;
    const fallback = transport.type === 'http' && transport.sseFallback === true;
    if (fallback) return { first: 'initialize', wire: 'sse', why };
    const advice = 'if it speaks HTTP+SSE of 2024-11-05, set its "type" to "sse"';
    throw this.#failed(`it does not take MCP over Streamable HTTP (${error.message}); ${advice}`, why.code, error);
  }

  #refused(connection: Connection, answer: Message): Step {
    const why = this.#failed(`it refused initialize: ${reasonIn(answer)}`, 'UPSTREAM_PROTOCOL');
    const wire = connection.transport.kind;
    this.#refusedInitialize = true;
    if (this.#tried.has('discover') || WITHOUT_DISCOVERY.has(wire)) throw why;
    return { first: 'discover', wire, why };
  }

  #done(connection: Connection, handshake: HandshakeResult): Connection {
    if (this.#attempt.cancelled) throw this.#failed('the start was cancelled');
    this.#attempt.setUndo(null);
    connection.negotiated(handshake);
    return connection;
  }

  async #within(answer: Promise<FirstReply>, ms: number, connection: Connection): Promise<FirstReply> {
    try {
      return await withTimeout(this.#context.deps.clock, ms, answer, () => 'silence' as const);
    } catch (error) {
      if (error instanceof GatewayError) return error;
      return this.#endedOr(connection, this.#failed(String(error)));
    }
  }

  #endedOr(connection: Connection, error: GatewayError): GatewayError {
    const { closedReason, transport } = connection;
    if (closedReason !== null) return closedError(this.#server.name, closedReason, transport.stderrTail());
    return this.#failed(error.message, error.code, error);
  }

  #unauthorized({ closedReason }: Connection, error: GatewayError): GatewayError {
    const { name } = this.#server;
    const cause = closedReason?.kind === 'auth_required' ? closedError(name, closedReason) : error;
    const words = closedReason?.kind === 'auth_required' ? cause.message : `${name} asks for credentials`;
    return new GatewayError('AUTH_REQUIRED', words, { server: name, cause });
  }

  /** NOT_SENT: the calls that wait for the connection were not sent. */
  #failed(text: string, code: GatewayError['code'] = 'NOT_SENT', cause?: GatewayError): GatewayError {
    const { name } = this.#server;
    const data = { server: name, outcome: 'NOT_SENT', cause } as const;
    return new GatewayError(code, `${name} could not be started: ${text}`, data);
  }
}

/** Resumes the session of an earlier connection. */
function resumeSession(connection: Connection, record: UpstreamSessionRecord): void {
  connection.resumed(handshakeFromInitialize(result('1', record.hello, 'stateful')), record);
}

function isMessage(said: FirstReply): said is Message {
  return said !== 'silence' && !(said instanceof GatewayError);
}

function reasonIn(answer: Message): string {
  return shortened(bodyString(answer, 'message') ?? 'no reason given');
}

function speaksStateless(answer: Message): boolean {
  return answer.kind === 'result' && supports(answer, 'supportedVersions').includes(LATEST_STATELESS);
}

/** The strings of an array in the message body. */
function supports(answer: Message, key: string, inner?: string): string[] {
  let range = bodyField(answer, key);
  if (range !== null && inner !== undefined) range = field(answer.bytes, range.start, range.end, inner);
  if (range === null) return [];
  const items = Array.from(elements(answer.bytes, range.start, range.end), (item) => stringValue(answer.bytes, item));
  return items.filter((item) => item !== null);
}

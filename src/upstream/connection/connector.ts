import type { PhaseTimes } from '../../http/client/phase-times.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type {
  SessionLock,
  SharedUpstreamSessions,
  UpstreamSessionRecord,
  UpstreamSessionRef,
} from '../../model/ports.ts';
import { isOwnProcess, type Server } from '../../model/server.ts';
import type { HandshakeResult } from '../../model/server-catalog.ts';
import { PING } from '../../protocol/compose.ts';
import { withEpoch } from '../process/environment.ts';
import type { ServerContext } from '../server-context.ts';
import { OwnedTransport } from '../transport/owned-transport.ts';
import type { OpenTransportOptions, Transport } from '../transport/transport.ts';
import { Attempt } from './attempt.ts';
import { Connection } from './connection.ts';
import { Handshake } from './handshake.ts';
import { JoinedSession } from './joined-session.ts';
import { digestOfKey, labelOf, type WantedConnection } from './session-key.ts';
import { type SupportedEras, sameHandshake } from './supported-eras.ts';

/** Recorded as session id when the session is a process. */
const NO_MCP_SESSION = '';
/** Attempts to join or open a shared session, in case the server disowns one after the other. */
const MAX_SESSIONS = 4;
/** Maximum of disowned sessions that are remembered; dropped ones are detected again. */
const MAX_DISOWNED = 10_000;

/**
 * Opens connections to one server, in the wanted era if the server speaks it: resumes the recorded HTTP session if there is
 * one, else runs the handshake. In a cluster all nodes share one session per session key, which one node opens. Remembers
 * whether an `http` server speaks only HTTP+SSE.
 */
export class Connector {
  readonly #context: ServerContext;
  readonly #eras: SupportedEras;
  readonly #phases: PhaseTimes | null;
  /** Sessions shared by all nodes; undefined on a node without a cluster. */
  readonly #sessions: SharedUpstreamSessions | undefined;
  /** Generations of sessions that the server disowned, by key digest, until a new session is open. */
  readonly #disownedGenerations = new Map<string, string>();
  /** The server issued no session the last time, so there is nothing to share. */
  #sessionless = false;
  /** The server's last handshake result. */
  #lastHandshake: HandshakeResult | null = null;
  #fallback: Transport['kind'] | null = null;
  /** Toggled by each failed start: on a pipe, the next connection then uses ids that fit into 32 bits, or longer ones again. */
  #shortIds = false;

  constructor(context: ServerContext, eras: SupportedEras, phases: PhaseTimes | null) {
    this.#context = context;
    this.#eras = eras;
    this.#phases = phases;
    this.#sessions = context.deps.sharedUpstreamSessions;
  }

  get #server(): Server {
    return this.#context.server;
  }

  /** `warm`: takes the warm connection if it fits. Rejects with GatewayError and leaves nothing behind. */
  async connect(want: WantedConnection, attempt: Attempt, warm: () => Connection | null): Promise<Connection> {
    const handshake = this.#handshake(want, attempt);
    const connection = this.usesSharedSession(want)
      ? await this.#joined(want, attempt, handshake, warm)
      : ((await this.#resume(want, handshake)) ?? (await this.#open(want, handshake)));
    const said = connection.handshake!;
    // Connections share one result: thousands of them would otherwise each keep the buffer that theirs was read into.
    if (this.#lastHandshake !== null && sameHandshake(this.#lastHandshake, said))
      connection.handshake = this.#lastHandshake;
    else this.#lastHandshake = said;
    return connection;
  }

  /** Whether all nodes of a cluster share their sessions. */
  get sharing(): boolean {
    return this.#sessions !== undefined;
  }

  /** Whether the server may have HTTP sessions that outlive a connection. */
  get #keepsSessions(): boolean {
    const { transport, temporary } = this.#server;
    return transport.type === 'http' && this.#fallback === null && temporary !== true;
  }

  /** Whether its session is one that all nodes share. */
  usesSharedSession(want: WantedConnection): boolean {
    if (!this.sharing || this.#sessionless || !this.#keepsSessions) return false;
    return want.tenancy.kind !== 'spare' && want.era !== 'stateless';
  }

  /** Whether any node has opened that session. */
  async opened(want: WantedConnection): Promise<boolean> {
    return this.usesSharedSession(want) && this.#sessions!.isOpen(this.#placeOf(want.key));
  }

  /** The server disowned the session of the connection under this key. */
  disowned(key: string, { joined }: Connection): void {
    if (joined === null) {
      this.forget(key);
      return;
    }
    if (this.#disownedGenerations.size >= MAX_DISOWNED) this.#disownedGenerations.clear();
    this.#disownedGenerations.set(digestOfKey(key), joined.generation);
  }

  /** Ends the server's session for a client session that has ended and has no connection on this node. */
  async end(key: string, profile: ClientProfile): Promise<void> {
    if (!this.#keepsSessions) return;
    const place = this.#placeOf(key);
    this.#disownedGenerations.delete(place.key);
    const record = this.#sessions === undefined ? this.#kept(key) : await this.#sessions.end(place, null, false);
    if (record === null || record.mcpSessionId === NO_MCP_SESSION) return;
    const want: WantedConnection = { era: 'stateful', key, tenancy: { kind: 'shared' }, profile };
    await this.#handshake(want, new Attempt())
      .discard('http', record)
      .catch(() => {});
  }

  /** Joins the session that all nodes share, or opens it; one node opens at a time. */
  async #joined(
    want: WantedConnection,
    attempt: Attempt,
    handshake: Handshake,
    warm: () => Connection | null,
  ): Promise<Connection> {
    const sessions = this.#sessions!;
    const place = this.#placeOf(want.key);
    for (let i = 0; i < MAX_SESSIONS; i++) {
      const entered = await sessions.acquire(
        place,
        this.#disownedGenerations.get(place.key) ?? null,
        () => !attempt.cancelled,
      );
      if (entered.kind === 'lock') {
        const connection = await this.#openJoined(want, entered, handshake, warm);
        if (connection === null) continue;
        this.#disownedGenerations.delete(place.key);
        if (entered.replaces) this.#context.events.stateLost(want);
        return connection;
      }
      const { record, generation } = entered;
      const fits = record.fingerprint === want.profile.fingerprint;
      const connection = fits ? await handshake.resume('http', record) : null;
      if (connection === null) {
        this.#disownedGenerations.set(place.key, generation);
        continue;
      }
      this.#disownedGenerations.delete(place.key);
      this.#join(place, generation, connection, false);
      return this.#noteResumed(want, connection);
    }
    const { name: server } = this.#server;
    throw new GatewayError('NOT_SENT', `${server} ended every new session at once`, { server });
  }

  /** Returns null if another node took over. A session that replaces another one does not use the warm connection. */
  async #openJoined(
    want: WantedConnection,
    lock: SessionLock,
    handshake: Handshake,
    warm: () => Connection | null,
  ): Promise<Connection | null> {
    let connection: Connection;
    try {
      connection = (lock.replaces ? null : warm()) ?? (await this.#settled(await this.#open(want, handshake)));
    } catch (error) {
      await lock.failed();
      throw error;
    }
    this.#noteSession(connection);
    const record = recordOf(this.#server, want, connection);
    // Listens from the start: no other node knows the session yet. A node that takes over the stream later silences this one.
    connection.transport.listen?.(null, false);
    if (record === null) {
      await lock.failed();
      return connection;
    }
    try {
      this.#join(this.#placeOf(want.key), await lock.opened(record), connection, true);
      return connection;
    } catch {
      await connection.close('remove');
      return null;
    }
  }

  #join(place: UpstreamSessionRef, generation: string, connection: Connection, listens: boolean): void {
    const superseded = () => this.#context.events.superseded(connection);
    const { transport } = connection;
    connection.joined = new JoinedSession(place, generation, this.#sessions!, transport, listens, superseded);
  }

  #noteSession(connection: Connection): void {
    if (connection.era === 'stateful') this.#sessionless = connection.mcpSessionId === null;
  }

  /** Waits for a ping: servers may refuse requests, also of other nodes, that arrive before `notifications/initialized`. */
  async #settled(connection: Connection): Promise<Connection> {
    if (connection.mcpSessionId === null) return connection;
    try {
      await connection.ask(PING, this.#context.times.probeSilenceMs);
    } catch (error) {
      // A server that ignores pings may still answer calls.
      if (!connection.ready) throw error;
    }
    return connection;
  }

  #noteResumed(want: WantedConnection, resumed: Connection): Connection {
    if (want.era === 'stateful' && this.#eras.newest === 'stateless') this.#eras.initializeAccepted();
    else this.#eras.found('stateful');
    return resumed;
  }

  async #open(want: WantedConnection, handshake: Handshake): Promise<Connection> {
    const { type } = this.#server.transport;
    const wire = this.#fallback ?? type;
    if (want.era === 'stateful' && this.#eras.newest === 'stateless') {
      const connection = await handshake.initialized(wire);
      this.#eras.initializeAccepted();
      return connection;
    }
    this.#fallback = null;
    const connection = await handshake.run(wire).catch((error) => {
      this.#shortIds = !this.#shortIds;
      throw error;
    });
    const { kind } = connection.transport;
    if (kind !== type) this.#fallback = kind;
    this.#eras.found(connection.era);
    this.#noteSession(connection);
    return connection;
  }

  /**
   * Records the server's HTTP session, for the gateway's next process to resume, or that a process with state existed. Reports
   * state that an earlier session lost.
   */
  remember(want: WantedConnection, connection: Connection): void {
    if (connection.handshake?.era !== 'stateful' || want.tenancy.kind === 'spare' || connection.joined !== null) return;
    const server = this.#server;
    const mcpSessionId = connection.mcpSessionId ?? NO_MCP_SESSION;
    const before = this.#record(want.key);
    if (before !== null && (mcpSessionId === NO_MCP_SESSION || before.mcpSessionId !== mcpSessionId))
      this.#context.events.stateLost(want);
    if (mcpSessionId === NO_MCP_SESSION && ('url' in server.transport || want.tenancy.kind !== 'session')) {
      if (before !== null) this.forget(want.key);
      return;
    }
    if (server.temporary === true) return;
    const record = recordOf(server, want, connection) ?? processOf(server, want, connection.handshake);
    this.#context.deps.upstreamSessions.put(server.name, digestOfKey(want.key), record);
  }

  forget(key: string): void {
    this.#context.deps.upstreamSessions.delete(this.#server.name, digestOfKey(key));
  }

  #record(key: string): UpstreamSessionRecord | null {
    return this.#context.deps.upstreamSessions.get(this.#server.name, digestOfKey(key));
  }

  /** The recorded session that fits what is wanted; null if there is none. */
  #resumed(want: WantedConnection): UpstreamSessionRecord | null {
    const { transport, connectionDigest } = this.#server;
    if (transport.type !== 'http' || want.tenancy.kind === 'spare') return null;
    const record = this.#record(want.key);
    if (record === null || record.mcpSessionId === NO_MCP_SESSION) return null;
    const fits = record.identity === connectionDigest && record.fingerprint === want.profile.fingerprint;
    return fits ? record : null;
  }

  resumable(want: WantedConnection): boolean {
    return this.#resumed(want) !== null;
  }

  /** Whether the client needs a connection of its own instead of the warm connection. */
  needsOwn(want: WantedConnection): boolean {
    const { ownership } = this.#context.deps;
    if (this.resumable(want) || this.usesSharedSession(want)) return true;
    return ownership !== undefined && isOwnProcess(this.#server) && !ownership.mayAdopt(this.#server, want.profile);
  }

  async #resume(want: WantedConnection, handshake: Handshake): Promise<Connection | null> {
    const record = this.#resumed(want);
    if (record === null) return null;
    const resumed = await handshake.resume('http', record);
    if (resumed !== null) return this.#noteResumed(want, resumed);
    this.forget(want.key);
    this.#context.events.stateLost(want);
    return null;
  }

  /** Removes and returns the record of a node without a cluster; null if the definition has changed. */
  #kept(key: string): UpstreamSessionRecord | null {
    const record = this.#record(key);
    this.forget(key);
    return record?.identity === this.#server.connectionDigest ? record : null;
  }

  #transport({ profile, tenancy }: WantedConnection, options: OpenTransportOptions): Transport {
    const { openTransport, ownership } = this.#context.deps;
    const server = this.#server;
    if (ownership === undefined || !isOwnProcess(server)) return openTransport(server, options);
    return new OwnedTransport({
      server: server.name,
      kind: options.kind,
      own: () => ownership.acquire(server, profile, tenancy.kind),
      make: (owned) => openTransport(withEpoch(server, owned.epoch), { ...options, owned }),
    });
  }

  #handshake(want: WantedConnection, attempt: Attempt): Handshake {
    const { name: server, events: owner } = this.#context;
    const { clock, random, tracer, wires, metrics } = this.#context.deps;
    const { profile, tenancy } = want;
    const silent = this.usesSharedSession(want);
    const help = 'Sessions with servers that ended here, in seconds.';
    const labels = ['mcp_protocol_version', 'error_type', 'server'];
    const durations = metrics.histogram('mcp_client_session_duration_seconds', help, labels);
    const make = (kind: Transport['kind']): Connection => {
      const transport = this.#transport(want, { kind, label: labelOf(tenancy), phases: this.#phases });
      this.#context.newestTransport = transport;
      const shortIds = this.#shortIds && !transport.streamPerRequest;
      return new Connection(transport, {
        server,
        profile,
        clock,
        owner,
        silent,
        random,
        tracer,
        wires,
        shortIds,
        durations,
      });
    };
    return new Handshake(this.#context, this.#eras, make, profile, attempt);
  }

  #placeOf(key: string): UpstreamSessionRef {
    const { name, connectionDigest } = this.#server;
    return { server: name, identity: connectionDigest, key: digestOfKey(key) };
  }
}

/** The record of the session; null if the server issued none. */
function recordOf(
  server: Server,
  want: WantedConnection,
  { handshake, mcpSessionId }: Connection,
): UpstreamSessionRecord | null {
  if (handshake?.era !== 'stateful' || mcpSessionId === null) return null;
  const { logLevel } = want.profile;
  const level = want.tenancy.kind === 'session' && logLevel !== null ? { logLevel } : {};
  return { ...processOf(server, want, handshake), mcpSessionId, ...level };
}

function processOf(server: Server, want: WantedConnection, handshake: HandshakeResult): UpstreamSessionRecord {
  return {
    identity: server.connectionDigest,
    mcpSessionId: NO_MCP_SESSION,
    hello: handshake.result.toString(),
    revision: handshake.revision,
    fingerprint: want.profile.fingerprint,
  };
}

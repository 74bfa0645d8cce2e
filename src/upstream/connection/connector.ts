import type { PhaseTimes } from '../../http/client/phase-times.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { SessionLock, SessionPlace, SharedUpstreamSessions, UpstreamSessionRecord } from '../../model/ports.ts';
import { isOwnProcess, type Server } from '../../model/server.ts';
import type { HandshakeResult } from '../../model/server-catalog.ts';
import { request } from '../../protocol/compose.ts';
import { withEpoch } from '../process/environment.ts';
import type { ServerContext } from '../server-context.ts';
import { OwnedTransport } from '../transport/owned-transport.ts';
import type { OpenTransportOptions, Transport } from '../transport/transport.ts';
import { Attempt } from './attempt.ts';
import { Connection } from './connection.ts';
import { Handshake } from './handshake.ts';
import { JoinedSession } from './joined-session.ts';
import { digestOfKey, labelOf, type WantedConnection } from './session-key.ts';
import { type SpokenEras, sameHandshake } from './spoken-eras.ts';

/** Used in place of the session id where a process is the session. */
const NO_MCP_SESSION = '';
/** Sessions that the server disowns one after the other. */
const MAX_SESSIONS = 4;
/** Disowned, and not opened anew since. What is forgotten of them is found out again. */
const MAX_GONE = 10_000;

/**
 * Makes connections to one server, in the era that is wanted where it speaks that: resumes the HTTP session of an
 * earlier connection of ours where there is one, else shakes hands. In a cluster all nodes use one session for a session
 * key, which one of them opens. Remembers when an `http` server speaks HTTP+SSE only.
 */
export class Connector {
  readonly #context: ServerContext;
  readonly #eras: SpokenEras;
  readonly #phases: PhaseTimes | null;
  /** Those of all nodes; absent on a lone node. */
  readonly #sessions: SharedUpstreamSessions | undefined;
  /** The generation of those that the server disowned last, by session key, until there is another one. */
  readonly #gone = new Map<string, string>();
  /** The server gave no session when it was asked last, so there is nothing to share. */
  #sessionless = false;
  /** What the server said of itself last. */
  #said: HandshakeResult | null = null;
  #fallback: Transport['kind'] | null = null;
  /** Of a server on a pipe that did not start: it may take no ids of more than 32 bits. The next start tries the other kind. */
  #shortIds = false;

  constructor(context: ServerContext, eras: SpokenEras, phases: PhaseTimes | null) {
    this.#context = context;
    this.#eras = eras;
    this.#phases = phases;
    this.#sessions = context.deps.sharedUpstreamSessions;
  }

  get #server(): Server {
    return this.#context.server;
  }

  /** `warm`: takes the warm connection, where it fits. Rejects with GatewayError, nothing left behind. */
  async connect(want: WantedConnection, attempt: Attempt, warm: () => Connection | null): Promise<Connection> {
    const handshake = this.#handshake(want, attempt);
    const connection = this.joins(want)
      ? await this.#joined(want, attempt, handshake, warm)
      : ((await this.#resume(want, handshake)) ?? (await this.#open(want, handshake)));
    const said = connection.handshake!;
    // Thousands of connections would each keep the memory that theirs was read into.
    if (this.#said !== null && sameHandshake(this.#said, said)) connection.handshake = this.#said;
    else this.#said = said;
    return connection;
  }

  /** Sessions are those of all nodes of a cluster. */
  get sharing(): boolean {
    return this.#sessions !== undefined;
  }

  /** Whether the server has HTTP sessions that outlive a connection. */
  get #keepsSessions(): boolean {
    const { transport, temporary } = this.#server;
    return transport.type === 'http' && this.#fallback === null && temporary !== true;
  }

  /** Whether its session is one that all nodes use. */
  joins(want: WantedConnection): boolean {
    if (!this.sharing || this.#sessionless || !this.#keepsSessions) return false;
    return want.tenancy.kind !== 'spare' && want.era !== 'stateless';
  }

  /** Whether some node has opened that session. */
  async opened(want: WantedConnection): Promise<boolean> {
    return this.joins(want) && this.#sessions!.known(this.#placeOf(want.key));
  }

  /** The server disowned the session of the connection under this key. */
  disowned(key: string, { joined }: Connection): void {
    if (joined === null) {
      this.forget(key);
      return;
    }
    if (this.#gone.size >= MAX_GONE) this.#gone.clear();
    this.#gone.set(digestOfKey(key), joined.generation);
  }

  /** The client's session is over, and this node has no connection of its own for it: the server may have to be notified. */
  async end(key: string, profile: ClientProfile): Promise<void> {
    if (!this.#keepsSessions) return;
    const place = this.#placeOf(key);
    this.#gone.delete(place.key);
    const record = this.#sessions === undefined ? this.#kept(key) : await this.#sessions.end(place, null, false);
    if (record === null || record.mcpSessionId === NO_MCP_SESSION) return;
    const want: WantedConnection = { era: 'stateful', key, tenancy: { kind: 'shared' }, profile };
    await this.#handshake(want, new Attempt())
      .discard('http', record)
      .catch(() => {});
  }

  /** Goes on with the session that all nodes use, or opens it, one node at a time. */
  async #joined(
    want: WantedConnection,
    attempt: Attempt,
    handshake: Handshake,
    warm: () => Connection | null,
  ): Promise<Connection> {
    const sessions = this.#sessions!;
    const place = this.#placeOf(want.key);
    for (let i = 0; i < MAX_SESSIONS; i++) {
      const entered = await sessions.enter(place, this.#gone.get(place.key) ?? null, () => !attempt.cancelled);
      if (entered.kind === 'lock') {
        const connection = await this.#openJoined(want, entered, handshake, warm);
        if (connection === null) continue;
        this.#gone.delete(place.key);
        if (entered.replaces) this.#context.events.stateLost(want);
        return connection;
      }
      const { record, generation } = entered;
      const fits = record.fingerprint === want.profile.fingerprint;
      const connection = fits ? await handshake.resume('http', record) : null;
      if (connection === null) {
        this.#gone.set(place.key, generation);
        continue;
      }
      this.#gone.delete(place.key);
      this.#join(place, generation, connection, false);
      return this.#again(want, connection);
    }
    const { name: server } = this.#server;
    throw new GatewayError('NOT_SENT', `${server} disowns its sessions, one after the other`, { server });
  }

  /** null when another node has had to take over. A session that replaces another one is not the warm connection's. */
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
    this.#met(connection);
    const record = recordOf(this.#server, want, connection);
    // No other node knows the session yet; one that claims the stream later finds it here, or this one goes silent.
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

  #join(place: SessionPlace, generation: string, connection: Connection, listens: boolean): void {
    const { events } = this.#context;
    connection.joined = new JoinedSession(place, generation, this.#sessions!, events, connection, listens);
  }

  #met(connection: Connection): void {
    if (connection.era === 'stateful') this.#sessionless = connection.mcpSessionId === null;
  }

  /** Servers may refuse what comes before `notifications/initialized`, also what another node sends. */
  async #settled(connection: Connection): Promise<Connection> {
    if (connection.mcpSessionId === null) return connection;
    try {
      await connection.ask(request('ping', '0', null, 'stateful'), this.#context.times.probeSilenceMs);
    } catch (error) {
      // A server that does not answer pings may answer calls.
      if (!connection.ready) throw error;
    }
    return connection;
  }

  #again(want: WantedConnection, resumed: Connection): Connection {
    if (want.era === 'stateful' && this.#eras.newest === 'stateless') this.#eras.tookInitialize();
    else this.#eras.found('stateful');
    return resumed;
  }

  async #open(want: WantedConnection, handshake: Handshake): Promise<Connection> {
    const { type } = this.#server.transport;
    const wire = this.#fallback ?? type;
    if (want.era === 'stateful' && this.#eras.newest === 'stateless') {
      const connection = await handshake.initialized(wire);
      this.#eras.tookInitialize();
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
    this.#met(connection);
    return connection;
  }

  /**
   * Remembers the server's HTTP session, to be resumed by the next process of ours, or that there was a process with
   * state. Reports what an earlier one lost.
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

  /** The session of an earlier connection that is known for what is wanted. */
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

  /** Whether the client must have a connection that was opened for it, and not the warm connection. */
  needsOwn(want: WantedConnection): boolean {
    const { ownership } = this.#context.deps;
    if (this.resumable(want) || this.joins(want)) return true;
    return ownership !== undefined && isOwnProcess(this.#server) && !ownership.mayAdopt(this.#server, want.profile);
  }

  async #resume(want: WantedConnection, handshake: Handshake): Promise<Connection | null> {
    const record = this.#resumed(want);
    if (record === null) return null;
    const resumed = await handshake.resume('http', record);
    if (resumed !== null) return this.#again(want, resumed);
    this.forget(want.key);
    this.#context.events.stateLost(want);
    return null;
  }

  /** What is kept of it on a lone node; it is not to be used any more. */
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
      own: () => ownership.own(server, profile, tenancy.kind),
      make: (epoch) => openTransport(withEpoch(server, epoch), options),
    });
  }

  #handshake(want: WantedConnection, attempt: Attempt): Handshake {
    const { name: server, events: owner } = this.#context;
    const { clock, random, tracer, wires, metrics } = this.#context.deps;
    const { profile, tenancy } = want;
    const silent = this.joins(want);
    const help = 'Sessions with servers that ended here, in seconds.';
    const labels = ['mcp_protocol_version', 'error_type', 'server'];
    const durations = metrics.histogram('mcp_client_session_duration_seconds', help, labels);
    const make = (kind: Transport['kind']): Connection => {
      const transport = this.#transport(want, { kind, label: labelOf(tenancy), phases: this.#phases });
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

  #placeOf(key: string): SessionPlace {
    const { name, connectionDigest } = this.#server;
    return { server: name, identity: connectionDigest, key: digestOfKey(key) };
  }
}

/** null where the server gave no session. */
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

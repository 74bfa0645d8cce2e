import type { PhaseTimes } from '../../http/client/phase-times.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { UpstreamSessionRecord } from '../../model/ports.ts';
import { isOwnProcess, type Server } from '../../model/server.ts';
import type { HandshakeResult } from '../../model/server-catalog.ts';
import type { SessionPlace } from '../../model/shared-upstream-sessions.ts';
import { request } from '../../protocol/compose.ts';
import { withEpoch } from '../process/environment.ts';
import type { ServerContext } from '../server-context.ts';
import { OwnedTransport } from '../transport/owned-transport.ts';
import type { OpenTransportOptions, Transport } from '../transport/transport.ts';
import { Attempt } from './attempt.ts';
import { Connection } from './connection.ts';
import { Handshake } from './handshake.ts';
import type { ConnectionsOwner } from './server-messages.ts';
import { SessionJoiner } from './session-joiner.ts';
import { digestOfKey, labelOf, type WantedConnection } from './session-key.ts';
import { LastHandshake, type SpokenEras } from './spoken-eras.ts';

/** Used in place of the session id where a process is the session. */
const NO_SESSION = '';

/**
 * Makes connections to one server, in the era that is wanted where it speaks that: resumes the HTTP session of an
 * earlier connection of ours where there is one, else shakes hands. Tells what it finds out of the server's eras, and
 * remembers when an `http` server turned out to speak HTTP+SSE only.
 */
export class Connector {
  readonly #context: ServerContext;
  readonly #eras: SpokenEras;
  readonly #phases: PhaseTimes | null;
  readonly #owner: ConnectionsOwner<Connection>;
  /** null on a lone node. */
  readonly #joiner: SessionJoiner | null;
  readonly #handshakes = new LastHandshake();
  #fallback: Transport['kind'] | null = null;
  /** Of a server on a pipe that did not start: it may take no ids of more than 32 bits. The next start tries the other kind. */
  #shortIds = false;

  constructor(
    context: ServerContext,
    eras: SpokenEras,
    phases: PhaseTimes | null,
    owner: ConnectionsOwner<Connection>,
  ) {
    this.#context = context;
    this.#eras = eras;
    this.#phases = phases;
    this.#owner = owner;
    const { sharedUpstreamSessions: sessions } = context.deps;
    this.#joiner = sessions === undefined ? null : new SessionJoiner(sessions, owner);
  }

  /** `spare`: takes the warm connection, where it fits. Rejects with GatewayError, nothing left behind. */
  async connect(
    server: Server,
    want: WantedConnection,
    attempt: Attempt,
    warm: () => Connection | null,
  ): Promise<Connection> {
    const handshake = this.#handshake(server, want, attempt);
    if (this.joins(server, want)) return this.#joined(server, want, attempt, handshake, warm);
    const resumed = await this.#resume(server, want, handshake);
    return resumed === null ? this.#open(server, want, handshake) : this.#again(want, resumed);
  }

  /** Sessions are those of all nodes of a cluster. */
  get sharing(): boolean {
    return this.#joiner !== null;
  }

  /** Whether its session is one that all nodes use. */
  joins(server: Server, want: WantedConnection): boolean {
    const { transport, temporary } = server;
    if (this.#joiner === null || transport.type !== 'http' || this.#fallback !== null || temporary === true)
      return false;
    return want.tenancy.kind !== 'spare' && want.era !== 'stateless' && !this.#joiner.sessionless;
  }

  /** Whether some node has opened that session. */
  async opened(server: Server, want: WantedConnection): Promise<boolean> {
    return this.joins(server, want) && this.#joiner!.known(placeOf(server, want.key));
  }

  /** The server disowned the session of the connection under this key. */
  disowned(server: Server, key: string, { joined }: Connection): void {
    if (joined === null) this.forget(server, key);
    else this.#joiner!.disowned(placeOf(server, key), joined);
  }

  /** The client's session is over, and this node has no connection of its own for it: the server may have to be notified. */
  async end(server: Server, key: string, profile: ClientProfile): Promise<void> {
    const { transport, temporary } = server;
    if (transport.type !== 'http' || this.#fallback !== null || temporary === true) return;
    const record = await (this.#joiner?.end(placeOf(server, key)) ?? this.#kept(server, key));
    if (record === null || record.mcpSessionId === NO_SESSION) return;
    const want: WantedConnection = { era: 'stateful', key, tenancy: { kind: 'shared' }, profile };
    await this.#handshake(server, want, new Attempt())
      .discard('http', record)
      .catch(() => {});
  }

  async #joined(
    server: Server,
    want: WantedConnection,
    attempt: Attempt,
    handshake: Handshake,
    warm: () => Connection | null,
  ): Promise<Connection> {
    const place = placeOf(server, want.key);
    let resumed = false;
    const connection = await this.#joiner!.connect(place, {
      open: async (replaces) => (replaces ? null : warm()) ?? this.#settled(await this.#open(server, want, handshake)),
      resume: async (record) => {
        if (record.fingerprint !== want.profile.fingerprint) return null;
        resumed = true;
        return handshake.resume('http', record);
      },
      record: (opened) => recordOf(server, want, opened),
      wanted: () => !attempt.cancelled,
      forgotten: () => this.#owner.stateLost(want),
    });
    return resumed ? this.#again(want, connection) : connection;
  }

  /** Servers may refuse what comes before `notifications/initialized`, also what another node sends. */
  async #settled(connection: Connection): Promise<Connection> {
    if (connection.mcpSessionId === null) return connection;
    try {
      await connection.ask(request('ping', '0', null, 'stateful'), this.#context.times.probeSilenceMs);
    } catch (error) {
      // It has said what it has to say by now; who does not answer pings may answer calls.
      if (!connection.ready) throw error;
    }
    return connection;
  }

  #again(want: WantedConnection, resumed: Connection): Connection {
    if (want.era === 'stateful' && this.#eras.newest === 'stateless') this.#eras.tookInitialize();
    else this.#eras.found('stateful');
    return resumed;
  }

  async #open(server: Server, want: WantedConnection, handshake: Handshake): Promise<Connection> {
    const wire = this.#fallback ?? server.transport.type;
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
    if (kind !== server.transport.type) this.#fallback = kind;
    this.#eras.found(connection.era);
    this.#joiner?.met(connection);
    return connection;
  }

  /**
   * Remembers whose state is on the connection: the server's HTTP session, to be resumed by the next process of ours,
   * or that there was a process with state, so that its loss can be reported. Reports it if that is the case here.
   */
  remember(server: Server, want: WantedConnection, connection: Connection): void {
    if (connection.handshake?.era !== 'stateful' || want.tenancy.kind === 'spare' || connection.joined !== null) return;
    const key = digestOfKey(want.key);
    const mcpSessionId = connection.mcpSessionId ?? NO_SESSION;
    const before = this.#context.deps.upstreamSessions.get(server.name, key);
    if (before !== null && (mcpSessionId === NO_SESSION || before.mcpSessionId !== mcpSessionId)) {
      this.#owner.stateLost(want);
    }
    if (mcpSessionId === NO_SESSION && !(isPipe(server) && want.tenancy.kind === 'session')) {
      if (before !== null) this.forget(server, want.key);
      return;
    }
    if (server.temporary === true) return;
    const record = recordOf(server, want, connection) ?? processOf(server, want, connection.handshake);
    this.#context.deps.upstreamSessions.put(server.name, key, record);
  }

  forget(server: Server, key: string): void {
    this.#context.deps.upstreamSessions.delete(server.name, digestOfKey(key));
  }

  /** Whether a session of an earlier connection is known for what is wanted. */
  resumable(server: Server, want: WantedConnection): boolean {
    if (server.transport.type !== 'http' || want.tenancy.kind === 'spare') return false;
    const record = this.#context.deps.upstreamSessions.get(server.name, digestOfKey(want.key));
    if (record === null || record.mcpSessionId === NO_SESSION) return false;
    if (record.identity === server.connectionDigest && record.fingerprint === want.profile.fingerprint) return true;
    return false;
  }

  /** Whether the client must have a connection that was opened for it, and not the warm connection. */
  needsOwn(server: Server, want: WantedConnection): boolean {
    const { ownership } = this.#context.deps;
    if (this.resumable(server, want) || this.joins(server, want)) return true;
    return ownership !== undefined && isOwnProcess(server) && !ownership.mayAdopt(server, want.profile);
  }

  async #resume(server: Server, want: WantedConnection, handshake: Handshake): Promise<Connection | null> {
    if (!this.resumable(server, want)) return null;
    const record = this.#context.deps.upstreamSessions.get(server.name, digestOfKey(want.key));
    const resumed = record === null ? null : await handshake.resume('http', record);
    if (resumed === null) {
      this.forget(server, want.key);
      this.#owner.stateLost(want);
    }
    return resumed;
  }

  /** What is kept of it on a lone node; it is not to be used any more. */
  #kept(server: Server, key: string): UpstreamSessionRecord | null {
    const record = this.#context.deps.upstreamSessions.get(server.name, digestOfKey(key));
    this.forget(server, key);
    return record !== null && record.identity === server.connectionDigest ? record : null;
  }

  #transport(server: Server, { profile, tenancy }: WantedConnection, options: OpenTransportOptions): Transport {
    const { openTransport, ownership } = this.#context.deps;
    if (ownership === undefined || !isOwnProcess(server)) return openTransport(server, options);
    return new OwnedTransport({
      server: server.name,
      kind: options.kind,
      own: () => ownership.own(server, profile, tenancy.kind),
      make: (epoch) => openTransport(withEpoch(server, epoch), options),
    });
  }

  #handshake(server: Server, want: WantedConnection, attempt: Attempt): Handshake {
    const { clock, random } = this.#context.deps;
    const { profile, tenancy } = want;
    const silent = this.joins(server, want);
    const connection = (kind: Transport['kind']) => {
      const transport = this.#transport(server, want, { kind, label: labelOf(tenancy), phases: this.#phases });
      return new Connection(transport, {
        server: server.name,
        profile,
        clock,
        owner: this.#owner,
        silent,
        handshakes: this.#handshakes,
        random,
        shortIds: this.#shortIds && !transport.streamPerRequest,
      });
    };
    return new Handshake(
      { context: this.#context, server, eras: this.#eras, owner: this.#owner, connection },
      profile,
      attempt,
    );
  }
}

function placeOf({ name, connectionDigest }: Server, key: string): SessionPlace {
  return { server: name, identity: connectionDigest, key: digestOfKey(key) };
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
    mcpSessionId: NO_SESSION,
    hello: handshake.result.toString(),
    revision: handshake.revision,
    fingerprint: want.profile.fingerprint,
  };
}

function isPipe(server: Server): boolean {
  return !('url' in server.transport);
}

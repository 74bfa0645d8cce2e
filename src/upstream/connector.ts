import type { PhaseTimes } from '../http/phase-times.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import { isOwnProcess, type Server } from '../model/server.ts';
import type { Attempt } from './attempt.ts';
import { Connection } from './connection.ts';
import type { ConnectionOwner } from './connection-owner.ts';
import { Handshake } from './handshake.ts';
import type { OpenTransportOptions } from './open-transport.ts';
import type { Wanted } from './pool-slot.ts';
import { withEpoch } from './process/epoch-variable.ts';
import { digestOfKey, labelOf } from './session-key.ts';
import type { SpokenEras } from './spoken-eras.ts';
import { OwnedTransport } from './transport/owned-transport.ts';
import type { Transport } from './transport/transport.ts';
import type { UpstreamSetDeps, UpstreamTimes } from './upstream-deps.ts';

/** Stands for the session id where a process is the session. */
const NO_SESSION = '';

/** A second start of a server may take so many times what its first one took, before it counts as silent. */
const SLOWER = 3;

export interface ConnectorDeps
  extends Pick<UpstreamSetDeps, 'clock' | 'eraVerdicts' | 'upstreamSessions' | 'openTransport' | 'ownership'> {
  readonly times: UpstreamTimes;
  readonly eras: SpokenEras;
  readonly phases: PhaseTimes | null;
  readonly owner: ConnectionOwner<Connection>;
  readonly tool: (profile: ClientProfile, name: string) => Buffer | null;
  readonly dropped: (reason: string) => void;
  /** A connection was given up before it was negotiated. */
  readonly abandoned: (connection: Connection) => void;
  /** A session of the server's that was to be resumed is gone. */
  readonly forgotten: (want: Wanted) => void;
}

/**
 * Makes connections to one server, in the era that is wanted where it speaks that: resumes the HTTP session of an
 * earlier connection of ours where there is one, else shakes hands. Tells what it finds out of the server's eras, and
 * remembers when an `http` server turned out to speak HTTP+SSE only.
 */
export class Connector {
  readonly #deps: ConnectorDeps;
  #fallback: Transport['kind'] | null = null;
  /** How long the last handshake of the stateless era took. */
  #tookMs = 0;

  constructor(deps: ConnectorDeps) {
    this.#deps = deps;
  }

  /** Rejects with GatewayError, nothing left behind. */
  async connect(server: Server, want: Wanted, attempt: Attempt): Promise<Connection> {
    const handshake = this.#handshake(server, want, attempt);
    const wire = this.#fallback ?? server.transport.type;
    const { clock, eras } = this.#deps;
    const resumed = await this.#resume(server, want, handshake);
    if (want.era === 'stateful' && eras.newest === 'stateless') {
      const connection = resumed ?? (await handshake.initialized(wire, this.#patienceMs));
      eras.tookInitialize();
      return connection;
    }
    if (resumed !== null) {
      eras.found('stateful');
      return resumed;
    }
    this.#fallback = null;
    const begunAt = clock.now();
    const connection = await handshake.run(wire);
    const { kind } = connection.transport;
    if (kind !== server.transport.type) this.#fallback = kind;
    if (connection.era === 'stateless') this.#tookMs = clock.now() - begunAt;
    eras.found(connection.era);
    return connection;
  }

  /** A server that is known to take `initialize` is only starting; one that is not is not waited for that long. */
  get #patienceMs(): number {
    const { eras, times } = this.#deps;
    if (eras.both) return times.startupMs;
    return Math.min(times.startupMs, Math.max(times.probeSilenceMs, SLOWER * this.#tookMs));
  }

  /**
   * Remembers whose state is on the connection: the server's HTTP session, to be resumed by the next process of ours,
   * or that there was a process with state, so that its loss can be told. Tells it if that is the case here.
   */
  remember(server: Server, want: Wanted, connection: Connection): void {
    if (connection.hello?.era !== 'stateful' || want.tenancy.kind === 'spare') return;
    const key = digestOfKey(want.key);
    const mcpSessionId = connection.mcpSessionId ?? NO_SESSION;
    const before = this.#deps.upstreamSessions.get(server.name, key);
    if (before !== null && (mcpSessionId === NO_SESSION || before.mcpSessionId !== mcpSessionId)) {
      this.#deps.forgotten(want);
    }
    if (mcpSessionId === NO_SESSION && !(isPipe(server) && want.tenancy.kind === 'session')) {
      if (before !== null) this.forget(server, want.key);
      return;
    }
    if (server.temporary === true) return;
    this.#deps.upstreamSessions.put(server.name, key, {
      identity: server.connectionDigest,
      mcpSessionId,
      hello: connection.hello.result.toString(),
      revision: connection.hello.revision,
      fingerprint: want.profile.fingerprint,
    });
  }

  forget(server: Server, key: string): void {
    this.#deps.upstreamSessions.delete(server.name, digestOfKey(key));
  }

  /** Whether a session of an earlier connection is known for what is wanted. */
  resumable(server: Server, want: Wanted): boolean {
    if (server.transport.type !== 'http' || want.tenancy.kind === 'spare') return false;
    const record = this.#deps.upstreamSessions.get(server.name, digestOfKey(want.key));
    if (record === null || record.mcpSessionId === NO_SESSION) return false;
    if (record.identity === server.connectionDigest && record.fingerprint === want.profile.fingerprint) return true;
    return false;
  }

  /** Whether the client must have a connection that was opened for it, and not one that is nobody's yet. */
  needsOwn(server: Server, want: Wanted): boolean {
    const { ownership } = this.#deps;
    if (this.resumable(server, want)) return true;
    return ownership !== undefined && isOwnProcess(server) && !ownership.mayAdopt(server, want.profile);
  }

  async #resume(server: Server, want: Wanted, handshake: Handshake): Promise<Connection | null> {
    if (!this.resumable(server, want)) return null;
    const record = this.#deps.upstreamSessions.get(server.name, digestOfKey(want.key));
    const resumed = record === null ? null : await handshake.resume('http', record);
    if (resumed === null) {
      this.forget(server, want.key);
      this.#deps.forgotten(want);
    }
    return resumed;
  }

  #transport(server: Server, { profile, tenancy }: Wanted, options: OpenTransportOptions): Transport {
    const { openTransport, ownership } = this.#deps;
    if (ownership === undefined || !isOwnProcess(server)) return openTransport(server, options);
    return new OwnedTransport({
      server: server.name,
      kind: options.kind,
      own: () => ownership.own(server, profile, tenancy.kind),
      make: (epoch) => openTransport(withEpoch(server, epoch), options),
    });
  }

  #handshake(server: Server, want: Wanted, attempt: Attempt): Handshake {
    const { clock, eraVerdicts, times, phases, owner, tool, dropped, abandoned } = this.#deps;
    const { profile, tenancy } = want;
    const connection = (kind: Transport['kind']) => {
      const transport = this.#transport(server, want, { kind, label: labelOf(tenancy), phases });
      return new Connection(transport, {
        server: server.name,
        profile,
        clock,
        owner,
        dropped,
        tool: (name) => tool(profile, name),
      });
    };
    const { startupMs, probeSilenceMs } = times;
    return new Handshake(
      { clock, server, eraVerdicts, connection, abandoned, startupMs, probeSilenceMs },
      profile,
      attempt,
    );
  }
}

function isPipe(server: Server): boolean {
  return !('url' in server.transport);
}

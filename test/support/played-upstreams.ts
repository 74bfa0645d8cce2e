import type { LocalUpstreams } from '../../src/cluster/cluster-deps.ts';
import { ANONYMOUS, type ClientProfile } from '../../src/model/client-profile.ts';
import type { Exchange } from '../../src/model/exchange.ts';
import { GatewayError, type ProcessCapacity } from '../../src/model/gateway-error.ts';
import type { Message } from '../../src/model/message.ts';
import { answer, failure, type Outcome } from '../../src/model/outcome.ts';
import type { UpstreamEvents } from '../../src/model/ports.ts';
import type { Server } from '../../src/model/server.ts';
import type { ListKind, ServerCatalog } from '../../src/model/server-catalog.ts';
import type { ServerState, ServerStatus } from '../../src/model/server-state.ts';
import { result } from '../../src/protocol/compose.ts';

export function clientOf(sessionId: string | null): ClientProfile {
  return {
    principal: ANONYMOUS,
    sessionId,
    revision: sessionId === null ? '2026-07-28' : '2025-11-25',
    capabilities: '{}',
    fingerprint: '{}',
    info: null,
    logLevel: null,
    handle: null,
  };
}

export interface Call {
  readonly server: string;
  readonly request: Message;
  readonly exchange: Exchange;
  readonly end: (outcome: Outcome) => void;
}

/** A catalogue belongs to one kind of client; other kinds get it only with `orOthers`. */
export function catalogFor(
  { fingerprint }: ClientProfile,
  orOthers: boolean,
  known: ServerCatalog | undefined,
): ServerCatalog | null {
  return known !== undefined && (orOthers || known.fingerprint === fingerprint) ? known : null;
}

/** The servers of one node, played by the test: calls are answered at once, with the node's name, or kept. */
export class PlayedUpstreams implements LocalUpstreams {
  readonly node: string;
  desired: ReadonlyMap<string, Server> = new Map();
  readonly calls: Call[] = [];
  readonly surrendered: string[] = [];
  readonly handedOver: string[] = [];
  readonly released: string[] = [];
  readonly notified: string[] = [];
  readonly relisted: string[] = [];
  readonly restarted: string[] = [];
  /** Servers that could not be started, or `server session` for one alone. */
  readonly failed = new Set<string>();
  /** Servers of which no more processes may be started. */
  readonly crowded = new Set<string>();
  /** The states of its servers, by name. */
  readonly states = new Map<string, ServerStatus>();
  readonly catalogs = new Map<string, ServerCatalog>();
  /** The catalogues of the processes of single sessions, by server and session. */
  readonly own = new Map<string, Map<string, ServerCatalog>>();
  /** Servers that were reached once: their era is known from then on. */
  readonly #met = new Set<string>();
  keeps = false;
  inFlight = 0;
  /** Dropped servers and sessions end when this resolves. */
  ending: Promise<void> = Promise.resolve();
  handle: ((call: Call) => void) | null = null;

  constructor(node: string) {
    this.node = node;
  }

  async apply(servers: ReadonlyMap<string, Server>): Promise<void> {
    const dropped = [...this.desired.keys()].some((name) => !servers.has(name));
    this.desired = servers;
    if (dropped) await this.ending;
  }

  async handOver(server: string, whose: ClientProfile | null): Promise<void> {
    this.handedOver.push(`${server} ${whose === null ? 'null' : whose.sessionId}`);
    await this.ending;
  }

  async surrender(server: string, whose: ClientProfile | 'spare' | null): Promise<void> {
    this.surrendered.push(`${server} ${whose === null || whose === 'spare' ? String(whose) : whose.sessionId}`);
    await this.ending;
  }

  async relist(server: string): Promise<void> {
    this.relisted.push(server);
  }

  async relistFor(server: string): Promise<void> {
    this.relisted.push(`${server} anew`);
  }

  ownLists(server: string): ReadonlyMap<string, ServerCatalog> {
    return this.own.get(server) ?? new Map();
  }

  servers(): readonly Server[] {
    return [...this.desired.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  call(server: string, message: Message, exchange: Exchange): Promise<Outcome> {
    if (!this.desired.has(server)) {
      return Promise.resolve(failure(new GatewayError('NOT_SENT', `there is no server ${server}`, { server })));
    }
    return new Promise((resolve) => {
      this.inFlight++;
      const end = (outcome: Outcome): void => {
        this.inFlight--;
        resolve(outcome);
      };
      this.#met.add(server);
      const call: Call = { server, request: message, exchange, end };
      this.calls.push(call);
      if (this.handle !== null) this.handle(call);
      else if (!this.keeps) end(answer(result('1', `{"node":"${this.node}"}`, message.era)));
    });
  }

  notify(server: string, notification: Message): void {
    this.notified.push(`${server} ${notification.method}`);
  }

  knownCatalog(server: string, client: ClientProfile, orOthers = false): ServerCatalog | null {
    return this.own.get(server)?.get(client.sessionId ?? '') ?? catalogFor(client, orOthers, this.catalogs.get(server));
  }

  async catalog(server: string, client: ClientProfile): Promise<ServerCatalog | null> {
    return this.knownCatalog(server, client);
  }

  sessionKey(server: string, client: ClientProfile): string | null {
    return this.#met.has(server) ? client.sessionId : null;
  }

  ownsConnection(server: string): boolean {
    return this.desired.has(server);
  }

  failing(server: string, client: ClientProfile | null = null): boolean {
    return this.failed.has(server) || this.failed.has(`${server} ${client?.sessionId}`);
  }

  capacity(server: string): ProcessCapacity {
    return this.crowded.has(server) ? 'none' : 'free';
  }

  status(server: string): ServerStatus | null {
    return this.states.get(server) ?? null;
  }

  state(server: string): ServerState | null {
    return this.status(server)?.state ?? null;
  }

  statuses(): readonly ServerStatus[] {
    return [...this.states.values()];
  }

  async restart(server: string): Promise<void> {
    this.restarted.push(server);
    if (!this.desired.has(server)) throw new GatewayError('INVALID_PARAMS', `there is no server ${server}`, { server });
  }

  releaseSession(sessionId: string): void {
    this.released.push(sessionId);
  }
}

/** The events of servers that a gateway of a test received. */
export class RecordedEvents implements UpstreamEvents {
  readonly heard: string[] = [];
  /** The clients that watch a server. */
  readonly watching: { readonly server: string; readonly client: ClientProfile }[] = [];
  /** Watching clients, as `server session`, whose node fell silent. */
  readonly silenced: string[] = [];
  readonly instancesGainedOf: string[] = [];
  /** Servers that another node now lists differently. */
  readonly listedElsewhereOf: string[] = [];

  notification(server: string, sessionId: string | null, message: Message): void {
    this.heard.push(`notification ${server} ${sessionId} ${message.method}`);
  }

  async request(server: string, sessionId: string | null, message: Message): Promise<Message> {
    this.heard.push(`request ${server} ${sessionId} ${message.method}`);
    return result(message.id, '{"roots":[]}', message.era);
  }

  contentChanged(server: string): void {
    this.heard.push(`outdated ${server}`);
  }

  listedElsewhere(server: string): void {
    this.listedElsewhereOf.push(server);
  }

  nodeSilent(servedThere: (server: string, client: ClientProfile) => boolean): void {
    const served = this.watching.filter(({ server, client }) => servedThere(server, client));
    this.silenced.push(...served.map(({ server, client }) => `${server} ${client.sessionId}`));
  }

  instancesGained(servers: ReadonlySet<string>): void {
    this.instancesGainedOf.push(...servers);
  }

  catalogChanged(server: string, _print: string, _lists: readonly ListKind[], key: string | null = null): void {
    this.heard.push(`catalogChanged ${server}${key === null ? '' : ` ${key}`}`);
  }

  stateLost(server: string, sessionId: string): void {
    this.heard.push(`stateLost ${server} ${sessionId}`);
  }

  connectionChanged(server: string, key: string, change: string): void {
    this.heard.push(`connectionChanged ${server} ${key} ${change}`);
  }

  statusChanged(): void {}
}

import type { Catalog } from '../catalog/catalog.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import type { Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Era, Message } from '../model/message.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { Upstreams } from '../model/ports.ts';
import { request as composeRequest } from '../protocol/compose.ts';
import { isLogLevel, LOG_LEVELS, type LogLevel } from '../protocol/meta-keys.ts';
import { toStateless } from '../protocol/stateless/to-stateless.ts';
import type { Catalogs } from './catalogs.ts';
import { OwnExchange } from './own-exchange.ts';
import { ownAnswer } from './own-results.ts';
import { namedParam } from './params.ts';

interface Wanted {
  readonly level: LogLevel;
  readonly told: Set<string>;
}

/**
 * `logging/setLevel` of stateful sessions. On the aggregate the level goes to the stateful servers on which the
 * session has a connection already, and to the others together with the session's first call: asking for a level
 * starts no process. Stateless servers are told with each request.
 */
export class LogLevels {
  readonly #upstreams: Upstreams;
  readonly #catalogs: Catalogs;
  readonly #wanted = new Map<string, Wanted>();

  constructor(upstreams: Upstreams, catalogs: Catalogs) {
    this.#upstreams = upstreams;
    this.#catalogs = catalogs;
  }

  async set(exchange: Exchange): Promise<Outcome> {
    const { request, client } = exchange;
    const level = namedParam(request, 'level');
    if (level instanceof GatewayError) return failure(level);
    if (!isLogLevel(level.value)) {
      return failure(unknownLevel());
    }
    if (client.sessionId === null) return ownAnswer(request.era, '');
    const wanted = { level: level.value, told: new Set<string>() };
    this.#wanted.set(client.sessionId, wanted);
    const catalog = this.#catalogs.of(client);
    const connected = catalog.members.filter(
      ({ server }) => takesLevel(catalog, server) && this.#upstreams.ownsConnection(server, client),
    );
    await Promise.all(connected.map(({ server }) => this.#tell(server, client, wanted)));
    return ownAnswer(request.era, '');
  }

  /** Makes good on what the session asked for before it had a connection to this server. */
  beforeCall(server: string, { client }: Exchange): void {
    if (this.#wanted.size === 0 || client.sessionId === null) return;
    const wanted = this.#wanted.get(client.sessionId);
    if (wanted === undefined || wanted.told.has(server)) return;
    if (!takesLevel(this.#catalogs.of(client), server)) return;
    void this.#tell(server, client, wanted);
  }

  /** For the endpoint of a stateless server: the level is only remembered. */
  remember(exchange: Exchange): Outcome {
    const level = namedParam(exchange.request, 'level');
    if (level instanceof GatewayError) return failure(level);
    if (!isLogLevel(level.value)) return failure(unknownLevel());
    const { sessionId } = exchange.client;
    if (sessionId !== null) this.#wanted.set(sessionId, { level: level.value, told: new Set() });
    return ownAnswer(exchange.request.era, '');
  }

  /** The request with the session's level in it, where it goes to a stateless server. */
  withLevel(request: Message, serverEra: Era | undefined, client: ClientProfile): Message {
    if (this.#wanted.size === 0 || serverEra !== 'stateless' || request.era === 'stateless') return request;
    const wanted = client.sessionId === null ? undefined : this.#wanted.get(client.sessionId);
    return wanted === undefined ? request : toStateless(request, client, wanted.level);
  }

  /** Whether the session wants to hear of something this severe. Sessions that asked for nothing hear all. */
  wants(sessionId: string, level: LogLevel): boolean {
    const wanted = this.#wanted.get(sessionId);
    return wanted === undefined || LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(wanted.level);
  }

  /** The session's connection to the server began anew: it has to be told again. */
  forgetServer(sessionId: string, server: string): void {
    this.#wanted.get(sessionId)?.told.delete(server);
  }

  forget(sessionId: string): void {
    this.#wanted.delete(sessionId);
  }

  async #tell(server: string, client: ClientProfile, wanted: Wanted): Promise<void> {
    wanted.told.add(server);
    const request = composeRequest('logging/setLevel', '0', JSON.stringify({ level: wanted.level }), 'stateful');
    const exchange = new OwnExchange(`level:${client.sessionId}`, request, client);
    const outcome = await this.#upstreams.call(server, request, exchange);
    if (outcome.kind === 'failure') wanted.told.delete(server);
  }
}

function takesLevel(catalog: Catalog, server: string): boolean {
  return catalog.eraOf(server) === 'stateful' && catalog.declared.get(server)?.logging === true;
}

function unknownLevel(): GatewayError {
  return new GatewayError('INVALID_PARAMS', `params.level must be one of ${LOG_LEVELS.join(', ')}`);
}

import type { ClientProfile } from '../model/client-profile.ts';
import type { Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { Upstreams } from '../model/ports.ts';
import { request as composeRequest } from '../protocol/compose.ts';
import { isLogLevel, LOG_LEVELS, type LogLevel } from '../protocol/meta-keys.ts';
import type { Catalogs } from './catalogs.ts';
import { OwnExchange } from './own-exchange.ts';
import { ownAnswer } from './own-results.ts';
import { namedParam } from './params.ts';

interface Wanted {
  readonly level: LogLevel;
  readonly told: Set<string>;
}

/**
 * `logging/setLevel` on the aggregate. The level goes to the servers on which the session has a connection already,
 * and to the others together with the session's first call: asking for a level starts no process.
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
      return failure(new GatewayError('INVALID_PARAMS', `params.level must be one of ${LOG_LEVELS.join(', ')}`));
    }
    if (client.sessionId === null) return ownAnswer(request.era, '');
    const wanted = { level: level.value, told: new Set<string>() };
    this.#wanted.set(client.sessionId, wanted);
    const { members, declared } = this.#catalogs.of(client);
    const connected = members.filter(
      ({ server }) => declared.get(server)?.logging === true && this.#upstreams.ownsConnection(server, client),
    );
    await Promise.all(connected.map(({ server }) => this.#tell(server, client, wanted)));
    return ownAnswer(request.era, '');
  }

  /** Makes good on what the session asked for before it had a connection to this server. */
  beforeCall(server: string, { client }: Exchange): void {
    if (this.#wanted.size === 0 || client.sessionId === null) return;
    const wanted = this.#wanted.get(client.sessionId);
    if (wanted === undefined || wanted.told.has(server)) return;
    if (this.#catalogs.of(client).declared.get(server)?.logging !== true) return;
    void this.#tell(server, client, wanted);
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

import type { ClientProfile } from '../../model/client-profile.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { parseObject } from '../../model/json-object.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { Server } from '../../model/server.ts';
import { request as composeRequest } from '../../protocol/compose.ts';
import { isLogLevel, LOG_LEVELS } from '../../protocol/meta-keys.ts';
import type { ListParts } from '../list-parts.ts';
import { OwnExchange } from '../own-exchange.ts';
import { ownAnswer } from '../own-results.ts';
import { namedParam } from '../params.ts';

/**
 * `logging/setLevel` of stateful sessions. The level is part of the session's profile: a server gets it with the next call of
 * the session, and the edge drops messages below it. Only servers to which the session has its own connection get it at once,
 * so that the request starts no process and does not affect other clients.
 */
export class LogLevels {
  readonly #parts: ListParts;

  constructor(parts: ListParts) {
    this.#parts = parts;
  }

  /** On the aggregate. */
  async set(exchange: Exchange): Promise<Outcome> {
    const level = levelIn(exchange);
    if (level instanceof GatewayError) return failure(level);
    const { client } = exchange;
    const catalog = this.#parts.catalogs.of(client);
    const connected = catalog.members.filter(
      ({ server }) => catalog.declared.get(server)?.logging === true && this.#ownsOpen(server, client),
    );
    const params = JSON.stringify({ level });
    await Promise.all(
      connected.map(({ server }) => {
        const request = composeRequest('logging/setLevel', '0', params, 'stateful');
        const own = new OwnExchange(`level:${exchange.id}`, request, client);
        return this.#parts.dispatch.callServer(server, request, own);
      }),
    );
    return ownAnswer(exchange.request.era, '');
  }

  /**
   * On the endpoint of one server: forwarded if no other client is affected. Stateless servers have no such method. A node
   * without the server's catalog, as for a session from another node, lists the server first.
   */
  async setOn({ name: server, timeoutMs }: Server, exchange: Exchange): Promise<Outcome> {
    const { client, request } = exchange;
    const listed = this.#parts.upstreams.knownCatalog(server, client);
    const known = listed ?? (await this.#parts.upstreams.catalog(server, client, timeoutMs));
    const takesIt = known !== null && parseObject(known.handshake.capabilities)?.['logging'] !== undefined;
    const apart = this.#isOwn(server, client) || !takesIt;
    if (known?.handshake.era !== 'stateless' && apart)
      return this.#parts.dispatch.callServer(server, request, exchange);
    const level = levelIn(exchange);
    return level instanceof GatewayError ? failure(level) : ownAnswer(request.era, '');
  }

  #ownsOpen(server: string, client: ClientProfile): boolean {
    return this.#isOwn(server, client) && this.#parts.upstreams.ownsConnection(server, client);
  }

  #isOwn(server: string, client: ClientProfile): boolean {
    return client.sessionId !== null && this.#parts.upstreams.sessionKey(server, client) === client.sessionId;
  }
}

function levelIn({ request }: Exchange): string | GatewayError {
  const level = namedParam(request, 'level');
  if (level instanceof GatewayError) return level;
  if (isLogLevel(level.value)) return level.value;
  return new GatewayError('INVALID_PARAMS', `params.level must be one of ${LOG_LEVELS.join(', ')}`);
}

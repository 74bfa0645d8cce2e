import type { CursorCodec } from '../../catalog/cursor.ts';
import type { Clock } from '../../model/clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { ListKind } from '../../model/server-catalog.ts';
import { cursorParam } from '../params.ts';
import type { Catalogs } from './catalogs.ts';
import type { SeenSessions } from './seen-sessions.ts';

export interface AggregateListsDeps {
  readonly catalogs: Catalogs;
  readonly sessions: SeenSessions;
  readonly cursors: CursorCodec;
  readonly clock: Clock;
  readonly firstListWaitMs: () => number;
}

/**
 * Lists of the aggregate, from what is known (S2.30, S2.19). Only a server that was never listed holds one back, and
 * only for a while; a page that was begun is continued from the catalogue it was begun with.
 */
export class AggregateLists {
  readonly #deps: AggregateListsDeps;

  constructor(deps: AggregateListsDeps) {
    this.#deps = deps;
  }

  async list(exchange: Exchange, kind: ListKind): Promise<Outcome> {
    const { catalogs, sessions, clock, firstListWaitMs } = this.#deps;
    const { client, request } = exchange;
    const cursor = cursorParam(request);
    if (cursor instanceof GatewayError) return failure(cursor);
    if (cursor !== null) return this.#continue(exchange, kind, cursor);
    const catalog = await catalogs.fresh(client, kind, firstListWaitMs());
    sessions.took(client, kind, catalog);
    return answer(catalog.page(kind, request.era, 0, clock.wall())!);
  }

  #continue({ client, request }: Exchange, kind: ListKind, cursor: string): Outcome {
    const content = this.#deps.cursors.read(cursor);
    if (content === null || content.kind !== kind) {
      return failure(new GatewayError('INVALID_PARAMS', 'params.cursor is not a cursor of this list'));
    }
    const catalog = this.#deps.catalogs.version(content.version, client);
    const page = catalog?.page(kind, request.era, content.page, this.#deps.clock.wall()) ?? null;
    if (page !== null) return answer(page);
    return failure(new GatewayError('INVALID_PARAMS', 'the list has changed since; start again without a cursor'));
  }
}

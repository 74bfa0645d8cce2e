import type { Core } from '../../gateway/gateway.ts';
import { sameRights } from '../../gateway/policy/access.ts';
import type { RequestContext } from '../../http/listener/request-context.ts';
import type { Principal } from '../../model/client-profile.ts';
import { Counts } from '../../model/counts.ts';
import type { SessionSettings } from '../../model/desired-state.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { StatelessInbound } from '../../protocol/classify.ts';
import { LISTEN } from '../../protocol/methods.ts';
import type { Endpoints } from '../endpoints/endpoints.ts';
import type { Fingerprints } from '../endpoints/fingerprints.ts';
import { discoverAnswer } from '../endpoints/handshake-answer.ts';
import { sendError } from '../endpoints/send.ts';
import type { Admitted } from '../identity/gate.ts';
import { ClientExchange, ExchangeList } from '../session/client-exchange.ts';
import { settle } from '../session/session-intake.ts';
import { ReplyElsewhere, StatelessReply, type StatelessReplyDeps } from './stateless-reply.ts';
import { completeListens, goesBack, sealsInput, senderOf } from './stateless-request.ts';

interface StatelessHandlerDeps extends Omit<StatelessReplyDeps, 'exchanges'> {
  readonly core: Core;
  readonly endpoints: Endpoints;
  readonly fingerprints: Fingerprints;
  /** A listening stream costs what a session with its stream does, so as many are allowed: in all, and of one caller. */
  readonly settings: () => Pick<SessionSettings, 'max' | 'maxPerPrincipal'>;
}

/** Requests of all stateless clients in flight, but for listens; what comes beyond is refused at once, not queued. */
const MAX_EXCHANGES = 8_192;

/** Requests of 2026-07-28: each says everything about itself, and nothing of it is remembered. */
export class StatelessHandler {
  readonly exchanges = new ExchangeList();
  readonly #deps: StatelessHandlerDeps;
  readonly #reply: StatelessReplyDeps;
  /** Listening streams by principal. */
  readonly #listens = new Counts();

  constructor(deps: StatelessHandlerDeps) {
    this.#deps = deps;
    this.#reply = { patience: deps.patience, exchanges: this.exchanges, pendingInput: deps.pendingInput };
  }

  take(
    context: RequestContext,
    inbound: StatelessInbound,
    { endpoint, principal }: Admitted,
    takesStream: boolean,
  ): void {
    const { message } = inbound;
    const { core, endpoints, fingerprints } = this.#deps;
    const client = senderOf(inbound, principal, fingerprints, endpoints.handleOf(endpoint, context.headers));
    if (message.kind !== 'request') {
      // A cancellation is the end of the connection here; there is nothing the notification could name.
      if (message.method !== 'notifications/cancelled') core.notify(endpoint, message, client);
      context.empty(202);
      return;
    }
    const listens = message.method === LISTEN;
    if (listens && this.#full(principal)) {
      sendError(context, 429, 'Too many listening streams', message.id, ['retry-after', '10']);
      return;
    }
    if (!listens && this.exchanges.size - this.#listens.total >= MAX_EXCHANGES) {
      sendError(context, 503, 'Too many requests in flight', message.id, ['retry-after', '1']);
      return;
    }
    const { headers } = context;
    const returning = this.#deps.pendingInput.returning(message, principal, endpoint, headers);
    const request = returning?.kind === 'again' ? returning.request : message;
    const reply = new StatelessReply(this.#reply, endpoint, context, takesStream);
    const exchange = new ClientExchange(request, client, reply, headers);
    reply.exchange = exchange;
    exchange.sealsInput = sealsInput(endpoint, principal);
    this.exchanges.add(exchange);
    if (goesBack(exchange, returning)) return;
    if (message.method === 'server/discover') void settle(exchange, discoverAnswer(core, message, endpoint, client));
    else if (listens) void this.#listen(exchange, endpoint);
    else void settle(exchange, core.run(exchange, endpoint));
  }

  /** A client came to another node with a state of this one. Never rejects. */
  returned(caller: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const { request, client } = caller;
    const headers = caller.paramHeaders ?? null;
    const returning = this.#deps.pendingInput.returning(request, client.principal, endpoint, headers);
    if (returning?.kind === 'refused') return Promise.resolve(failure(returning.error));
    return new Promise((resolve) => {
      const reply = new ReplyElsewhere(this.#reply, endpoint, caller, resolve);
      const exchange = new ClientExchange(
        returning?.kind === 'again' ? returning.request : request,
        client,
        reply,
        headers,
      );
      reply.exchange = exchange;
      exchange.sealsInput = caller.sealsInput === true;
      caller.onCancel = (reason) => reply.exchange?.cancel(reason);
      this.exchanges.add(exchange);
      if (returning?.kind === 'resumes') returning.call.attach(exchange, returning.responses);
      else if (returning?.kind === 'again') void settle(exchange, this.#deps.core.run(exchange, endpoint));
      else exchange.finish(failure(new GatewayError('INVALID_PARAMS', 'params.requestState is not of this node')));
    });
  }

  completeListens(reason: string): void {
    completeListens(this.exchanges, reason);
  }

  /** Listening streams whose caller has other rights than when they began end; their clients come back with the new. */
  reauthorize(current: (principalId: string) => Principal | null): void {
    const reason = 'the rights of the caller have changed';
    const differs = (principal: Principal) => !sameRights(principal, current(principal.id));
    completeListens(this.exchanges, reason, ({ client }) => differs(client.principal));
  }

  #full({ id }: Principal): boolean {
    const { max, maxPerPrincipal } = this.#deps.settings();
    return this.#listens.total >= max || this.#listens.of(id) >= maxPerPrincipal;
  }

  async #listen(exchange: ClientExchange, endpoint: Endpoint): Promise<void> {
    const { id } = exchange.client.principal;
    this.#listens.add(id, 1);
    await settle(exchange, this.#deps.core.run(exchange, endpoint));
    this.#listens.add(id, -1);
  }
}

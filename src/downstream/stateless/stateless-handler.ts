import { sameRights } from '../../gateway/policy/access.ts';
import type { RequestContext } from '../../http/listener/request-context.ts';
import type { Principal } from '../../model/client-profile.ts';
import { Counts } from '../../model/counts.ts';
import type { SessionSettings } from '../../model/desired-state.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { StatelessInbound } from '../../protocol/classify.ts';
import { LISTEN } from '../../protocol/methods.ts';
import type { Endpoints } from '../endpoints/endpoints.ts';
import { sendError } from '../endpoints/send.ts';
import type { Admitted } from '../identity/gate.ts';
import type { Returning } from '../pending-input/pending-input-requests.ts';
import type { AgeQueue } from '../session/age-queue.ts';
import { ClientExchange } from '../session/client-exchange.ts';
import { StatelessIntake, type StatelessIntakeDeps } from './stateless-intake.ts';
import { ReplyElsewhere, StatelessReply, type StatelessReplyDeps } from './stateless-reply.ts';

interface StatelessHandlerDeps extends StatelessIntakeDeps {
  /** Opens SSE, and with it keep-alive comments, before a proxy gives up on a silent response. */
  readonly patience: AgeQueue;
  readonly endpoints: Endpoints;
  /** A listening stream costs what a session with its stream does, so as many are allowed: in all, and of one caller. */
  readonly settings: () => Pick<SessionSettings, 'max' | 'maxPerPrincipal'>;
}

/** Requests of all stateless clients in flight, but for listens; what comes beyond is refused at once, not queued. */
const MAX_EXCHANGES = 8_192;

/** Requests of 2026-07-28: each says everything about itself, and nothing of it is remembered. */
export class StatelessHandler {
  readonly intake: StatelessIntake;
  readonly #deps: StatelessHandlerDeps;
  readonly #reply: StatelessReplyDeps;
  /** Listening streams by principal. */
  readonly #listens = new Counts();

  constructor(deps: StatelessHandlerDeps) {
    this.#deps = deps;
    this.intake = new StatelessIntake(deps);
    this.#reply = { patience: deps.patience, exchanges: this.intake.exchanges, pendingInput: deps.pendingInput };
  }

  take(
    context: RequestContext,
    inbound: StatelessInbound,
    { endpoint, principal }: Admitted,
    takesStream: boolean,
  ): void {
    const { message } = inbound;
    const { core, endpoints } = this.#deps;
    const { headers } = context;
    const client = this.intake.senderOf(inbound, principal, endpoints.handleOf(endpoint, headers));
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
    if (!listens && this.intake.exchanges.size - this.#listens.total >= MAX_EXCHANGES) {
      sendError(context, 503, 'Too many requests in flight', message.id, ['retry-after', '1']);
      return;
    }
    const reply = new StatelessReply(this.#reply, endpoint, context, takesStream);
    const exchange = new ClientExchange(message, client, reply, headers);
    reply.exchange = exchange;
    if (listens) this.#listens.add(principal.id, 1);
    const running = this.intake.run(exchange, endpoint, this.intake.returning(exchange, endpoint, headers));
    if (listens) void running?.then(() => this.#listens.add(principal.id, -1));
  }

  /** A client came to another node with a state of this one. Never rejects. */
  returned(caller: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const headers = caller.paramHeaders ?? null;
    return new Promise((resolve) => {
      const reply = new ReplyElsewhere(this.#reply, endpoint, caller, resolve);
      const exchange = new ClientExchange(caller.request, caller.client, reply, headers);
      const returning = this.intake.returning(exchange, endpoint, headers);
      reply.exchange = exchange;
      caller.onCancel = (reason) => reply.exchange?.cancel(reason);
      const here = returning !== null && returning.kind !== 'elsewhere';
      void this.intake.run(exchange, endpoint, here ? returning : NOT_HERE);
    });
  }

  /** Listening streams whose caller has other rights than when they began end; their clients come back with the new. */
  reauthorize(current: (principalId: string) => Principal | null): void {
    const reason = 'the rights of the caller have changed';
    this.intake.completeListens(reason, ({ client: { principal } }) => !sameRights(principal, current(principal.id)));
  }

  #full({ id }: Principal): boolean {
    const { max, maxPerPrincipal } = this.#deps.settings();
    return this.#listens.total >= max || this.#listens.of(id) >= maxPerPrincipal;
  }
}

const NOT_HERE: Returning = {
  kind: 'refused',
  error: new GatewayError('INVALID_PARAMS', 'params.requestState is not of this node'),
};

import type { IncomingHttpHeaders } from 'node:http';
import { ANONYMOUS, type ClientProfile, type Principal } from '../../model/client-profile.ts';
import { Counts } from '../../model/counts.ts';
import type { Endpoint } from '../../model/exchange.ts';
import { answer, failure } from '../../model/outcome.ts';
import type { StatelessInbound } from '../../protocol/classify.ts';
import { LISTEN } from '../../protocol/methods.ts';
import type { ClientTransportDeps } from '../client-transport-deps.ts';
import { discoverAnswer, listenCompletion } from '../endpoints/handshake-answer.ts';
import type { RetryMatch } from '../pending-input/pending-input-requests.ts';
import { type ClientExchange, ExchangeList } from '../session/client-exchange.ts';
import { settle } from '../session/session-intake.ts';

/** Takes the requests of stateless clients from any wire. */
export class StatelessIntake {
  readonly exchanges = new CallersExchanges();
  readonly #deps: ClientTransportDeps;

  constructor(deps: ClientTransportDeps) {
    this.#deps = deps;
  }

  /** The client of a request. `handle` isolates clients of one principal; null for none. */
  senderOf(
    inbound: StatelessInbound,
    principal: Principal,
    handle: string | null,
    forwarded?: ClientProfile['forwarded'],
  ): ClientProfile {
    const { revision, capabilities, info, logLevel } = inbound;
    const fingerprint = this.#deps.fingerprints.of(capabilities);
    return { principal, sessionId: null, revision, capabilities, fingerprint, info, logLevel, handle, forwarded };
  }

  /** The call that the request continues; null for a new one. `headers` are null on wires without headers. */
  matchRetry({ request, client }: ClientExchange, endpoint: Endpoint, headers: IncomingHttpHeaders | null) {
    return this.#deps.pendingInput.matchRetry(request, client.principal, endpoint, headers);
  }

  /** Runs the exchange, or attaches it to its pending call. Returns a promise of its end unless another call ends it. */
  run(exchange: ClientExchange, endpoint: Endpoint, returning: RetryMatch | null): Promise<void> | undefined {
    const { client } = exchange;
    // The anonymous caller of one server gets that server's states unsealed: there is no caller to bind them to (proto:S6).
    exchange.sealsInput = endpoint.kind === 'aggregate' || client.principal.id !== ANONYMOUS.id;
    this.exchanges.add(exchange);
    this.#deps.wires.tap?.client(client, endpoint, 'client', [exchange.request.bytes], exchange.id);
    switch (returning?.kind) {
      case 'refused':
        exchange.finish(failure(returning.error));
        return undefined;
      case 'resumes':
        returning.call.attach(exchange, returning.responses);
        return undefined;
      case 'elsewhere':
        return settle(exchange, returning.run(exchange));
      case 'again':
        exchange.request = returning.request;
    }
    const { core } = this.#deps;
    const { request } = exchange;
    const discovers = request.method === 'server/discover';
    return settle(exchange, discovers ? discoverAnswer(core, request, endpoint, client) : core.run(exchange, endpoint));
  }

  /** Ends listening streams with their completion results (2026-07-28 subscriptions §Graceful Closure). */
  completeListens(reason: string, which: (listen: ClientExchange) => boolean = () => true): void {
    for (const exchange of this.exchanges.all()) {
      const { request } = exchange;
      if (request.method === LISTEN && which(exchange)) exchange.conclude(answer(listenCompletion(request)), reason);
    }
  }
}

/** The exchanges of all callers in flight, counted by principal. */
class CallersExchanges extends ExchangeList {
  readonly #byPrincipal = new Counts();

  of(principal: string): number {
    return this.#byPrincipal.of(principal);
  }

  override add(exchange: ClientExchange): void {
    super.add(exchange);
    this.#byPrincipal.add(exchange.client.principal.id, 1);
  }

  override remove(exchange: ClientExchange): void {
    super.remove(exchange);
    this.#byPrincipal.add(exchange.client.principal.id, -1);
  }
}

import type { Clock } from '../../model/clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { Upstreams } from '../../model/ports.ts';
import { LISTEN } from '../../protocol/methods.ts';
import { takesInput } from '../../protocol/stateless/input-required.ts';
import { endSpan, withTrace } from '../../protocol/trace-context.ts';
import type { Tracer } from '../../telemetry/tracing.ts';
import { type KnownServers, unavailable } from '../known-servers.ts';
import type { Policies } from '../policy/policies.ts';
import { UNDECIDED } from '../policy/policy.ts';
import { Target } from '../target.ts';
import type { InputStates } from './input-states.ts';

/** Sends requests to servers; only `Dispatch` has it. */
export type ServerCalls = Pick<Upstreams, 'call'>;

interface DispatchDeps {
  readonly upstreams: ServerCalls;
  /** The servers, with their catalogs as they are offered. */
  readonly known: KnownServers;
  readonly policies: Policies;
  readonly states: InputStates;
  readonly clock: Clock;
  /** null: no spans are recorded. */
  readonly tracer: Tracer | null;
}

/**
 * Sends all requests of this module to servers (decision 064), and none before the policies have admitted its target. Binds the
 * `requestState` of stateless servers to server, caller and request if the exchange requires it (proto:S3, proto:S6).
 */
export class Dispatch {
  readonly #deps: DispatchDeps;

  constructor(deps: DispatchDeps) {
    this.#deps = deps;
  }

  /**
   * Evaluates the policies, once for each target. Returns a promise only if a policy needs the server's lists, which are
   * requested first.
   */
  admit(target: Target, exchange: Exchange): GatewayError | null | Promise<GatewayError | null> {
    exchange.target = target;
    const refused = this.#deps.policies.admit(target, exchange);
    return refused === UNDECIDED ? this.#admitListed(target, exchange) : refused;
  }

  /** Like `Upstreams.call`, for a target that may be admitted already. `request` has the server's own names. */
  call(target: Target, request: Message, exchange: Exchange): Promise<Outcome> {
    if (target.admitted) return this.#send(target.server, request, exchange);
    const refused = this.admit(target, exchange);
    if (refused === null) return this.#send(target.server, request, exchange);
    if (refused instanceof GatewayError) return Promise.resolve(failure(refused));
    return refused.then((late) => (late === null ? this.#send(target.server, request, exchange) : failure(late)));
  }

  /** Sends a request that names only the server, or that continues what a client began. */
  callServer(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    return this.call(new Target(exchange.client.principal, server, 'server', request, null), request, exchange);
  }

  /** Lists the server for this target, and waits as long as a call to it may take. */
  async listed(target: Target, exchange: Exchange): Promise<void> {
    const patience = this.#deps.policies.server(target.server)?.timeoutMs ?? 0;
    target.learn(await this.#deps.known.catalog(target.server, exchange.client, patience));
  }

  async #admitListed(target: Target, exchange: Exchange): Promise<GatewayError | null> {
    await this.listed(target, exchange);
    const refused = this.#deps.policies.admit(target, exchange);
    return refused === UNDECIDED ? unavailable(this.#deps.known, target.server, exchange.client) : refused;
  }

  #send(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    if (exchange.sealsInput !== true || !takesInput(request.method)) return this.#hand(server, request, exchange);
    const { principal } = exchange.client;
    const { states } = this.#deps;
    const own = states.inward(server, principal, request);
    if (own instanceof GatewayError) return Promise.resolve(failure(own));
    return this.#hand(server, own, exchange).then((outcome) => states.outward(server, principal, request, outcome));
  }

  /** Sends the request with its span, so that the node that serves it finds the parent span there. */
  #hand(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    const { upstreams, tracer, clock } = this.#deps;
    exchange.sentAt ??= clock.turnNow();
    if (tracer === null || request.method === LISTEN) return upstreams.call(server, request, exchange);
    const span = tracer.begin('internal', exchange.trace ?? null);
    if (span === null) return upstreams.call(server, request, exchange);
    span.describe(`dispatch ${server}`, { 'mcp.method.name': request.method, 'trunkline.server': server });
    return endSpan(span, upstreams.call(server, withTrace(request, span.traceparent), exchange));
  }
}

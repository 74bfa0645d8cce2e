import type { Bus, BusServing } from '../bus/bus.ts';
import type { Endpoint, Exchange } from '../model/exchange.ts';
import { answer, failure, type Outcome } from '../model/outcome.ts';
import { headOf, messageOf, packFrame, unpackFrame } from './frame.ts';
import { type AskHeader, type ExchangeHeader, exchangeHeader, runElsewhere } from './remote-calls.ts';
import { ServedExchange } from './served-exchange.ts';

interface ReturnedHeader extends ExchangeHeader {
  readonly endpoint: Endpoint;
}

/** More than this many at once are refused. */
const MAX_CALLS = 10_000;

export interface ReturnedCallsDeps {
  readonly bus: Bus;
  /** Whether there is such a node now. */
  readonly has: (peer: string) => boolean;
  /** What waits here, and goes on with what the client has brought. Never rejects. */
  readonly run: (exchange: Exchange, endpoint: Endpoint) => Promise<Outcome>;
}

/**
 * Calls that wait for answers of stateless clients stay at their node, which the state that leads back to them names. A
 * client that comes with it to another node is handed on to that one.
 */
export class ReturnedCalls {
  readonly #deps: ReturnedCallsDeps;
  readonly #serving: { close(): void };

  constructor(deps: ReturnedCallsDeps) {
    this.#deps = deps;
    const serve = (serving: BusServing) => this.#serve(serving);
    this.#serving = deps.bus.serve(subject(deps.bus.peer), serve, { concurrency: MAX_CALLS });
  }

  /** What this node's states name it by. */
  get self(): string {
    return this.#deps.bus.peer;
  }

  has(peer: string): boolean {
    return this.#deps.has(peer);
  }

  async run(peer: string, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const { request } = exchange;
    const header: ReturnedHeader = { ...exchangeHeader(request, exchange), endpoint };
    const outcome = await runElsewhere(this.#deps.bus, subject(peer), peer, header, request, exchange);
    if (outcome.kind === 'failure') return failure(outcome.error);
    const { header: reply, pieces } = unpackFrame<AskHeader>(outcome.payload);
    return answer(messageOf(reply.message, pieces[0]!));
  }

  /** Takes no new ones. */
  close(): void {
    this.#serving.close();
  }

  async #serve(serving: BusServing): Promise<void> {
    const { header, pieces } = unpackFrame<ReturnedHeader>(serving.payload);
    const exchange = new ServedExchange(serving, header, messageOf(header.request, pieces[0]!));
    const outcome = await this.#deps.run(exchange, header.endpoint);
    if (outcome.kind === 'failure') serving.fail(outcome.error);
    else serving.answer(packFrame({ message: headOf(outcome.message) }, [outcome.message.bytes]));
  }
}

function subject(peer: string): string {
  return `trunkline.returned.${peer}`;
}

import type { BusServing } from '../../bus/bus.ts';
import { failureJson, readFailure } from '../../bus/calls/failure-json.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { ClusterRooms } from '../cluster-deps.ts';
import { clientOf, headOf, type MessageHead, messageOf, packFrame, unpackFrame } from '../frames/frame.ts';
import { type ExchangeHeader, exchangeHeader, runElsewhere } from './remote-calls.ts';
import { ServedExchange } from './served-exchange.ts';

interface ReturnedHeader extends ExchangeHeader {
  readonly endpoint: Endpoint;
}

type ReplyHeader = { readonly kind: 'answer'; readonly message: MessageHead } | { readonly kind: 'failure' };

const NAME = 'trunkline.returned';
const MAX_CALLS = 10_000;

/** Calls that wait for input stay at their node, which the `requestState` names. A retry at another node goes there. */
export class ReturnedCalls {
  readonly #deps: Pick<ClusterRooms, 'bus' | 'downstream'>;
  readonly #serving: { close(): void };

  constructor(deps: Pick<ClusterRooms, 'bus' | 'downstream'>) {
    const { bus } = deps;
    this.#deps = deps;
    this.#serving = bus.serve(NAME, (serving) => this.#serve(serving), { concurrency: MAX_CALLS });
  }

  /** Never rejects. */
  run(peer: string, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const { request } = exchange;
    const header: ReturnedHeader = { ...exchangeHeader(request, exchange), endpoint };
    const payload = packFrame(header, [request.bytes]);
    return runElsewhere(this.#deps.bus, NAME, peer, payload, exchange, 0, (outcome) => {
      if (outcome.kind === 'failure') return failure(unreached(outcome.error));
      const { header: reply, pieces } = unpackFrame<ReplyHeader>(outcome.payload);
      if (reply.kind === 'failure') return failure(readFailure(pieces[0]!));
      return answer(messageOf(reply.message, pieces[0]!));
    });
  }

  close(): void {
    this.#serving.close();
  }

  async #serve(serving: BusServing): Promise<void> {
    const { header, pieces } = unpackFrame<ReturnedHeader>(serving.payload);
    const request = messageOf(header.request, pieces[0]!);
    const exchange = new ServedExchange(serving, header.exchange, request, clientOf(header.client), header);
    const outcome = await this.#deps.downstream.returned(exchange, header.endpoint);
    const reply: ReplyHeader =
      outcome.kind === 'failure' ? { kind: 'failure' } : { kind: 'answer', message: headOf(outcome.message) };
    const piece = outcome.kind === 'failure' ? failureJson(outcome.error) : outcome.message.bytes;
    serving.answer(packFrame(reply, [piece]));
  }
}

/** The call began long ago: an unreachable node does not prove that it did not run. */
function unreached(error: GatewayError): GatewayError {
  if (error.outcome !== 'NOT_SENT') return error;
  const text = 'the node where the call waits cannot be reached; it may have run';
  return new GatewayError('UNKNOWN', text, { cause: error });
}
